// Package connect reads the options of requests to connect to pods, services and nodes, which are in the query and the path.
package connect

import (
	"encoding/json"
	"net/url"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
)

// Options is a kind of options.
type Options struct {
	Kind  string
	Read  func(query url.Values, proxyPath string) (any, error) // see ProxyPath
	Parse func(text []byte) (any, error)                        // parses JSON
}

// optionsOf returns the kind of the options T, whose fields read fills in.
func optionsOf[T any](kind string, read func(query url.Values, proxyPath string, into *T) error) *Options {
	return &Options{
		Kind: kind,
		Read: func(query url.Values, proxyPath string) (any, error) {
			into := new(T)
			return into, read(query, proxyPath, into)
		},
		Parse: func(text []byte) (any, error) {
			into := new(T)
			return into, json.Unmarshal(text, into)
		},
	}
}

// The options by what a client connects to.
var (
	Exec = optionsOf("PodExecOptions", func(query url.Values, _ string, o *corev1.PodExecOptions) error {
		o.Stdin, o.Stdout, o.Stderr, o.TTY = flag(query, "stdin"), flag(query, "stdout"), flag(query, "stderr"), flag(query, "tty")
		o.Container, o.Command = query.Get("container"), query["command"]
		return nil
	})
	Attach = optionsOf("PodAttachOptions", func(query url.Values, _ string, o *corev1.PodAttachOptions) error {
		o.Stdin, o.Stdout, o.Stderr, o.TTY = flag(query, "stdin"), flag(query, "stdout"), flag(query, "stderr"), flag(query, "tty")
		o.Container = query.Get("container")
		return nil
	})
	PortForward = optionsOf("PodPortForwardOptions", func(query url.Values, _ string, o *corev1.PodPortForwardOptions) error {
		ports := query["ports"]
		if len(ports) == 0 {
			return nil
		}
		return metav1.Convert_Slice_string_To_Slice_int32(&ports, &o.Ports, nil)
	})
	PodProxy = optionsOf("PodProxyOptions", func(_ url.Values, proxyPath string, o *corev1.PodProxyOptions) error {
		o.Path = proxyPath
		return nil
	})
	ServiceProxy = optionsOf("ServiceProxyOptions", func(_ url.Values, proxyPath string, o *corev1.ServiceProxyOptions) error {
		o.Path = proxyPath
		return nil
	})
	NodeProxy = optionsOf("NodeProxyOptions", func(_ url.Values, proxyPath string, o *corev1.NodeProxyOptions) error {
		o.Path = proxyPath
		return nil
	})
)

// flag returns the value of a query parameter that is true or false.
func flag(query url.Values, name string) (is bool) {
	values := query[name]
	_ = runtime.Convert_Slice_string_To_bool(&values, &is, nil) // every text is one or the other
	return is
}

// ProxyPath returns the path that a proxy gets: what follows the subresource, whose path has so many segments. It has no slashes at the
// end but one, if the whole path ends with a slash.
func ProxyPath(path string, segments int) string {
	rest := path
	for range segments {
		_, rest, _ = strings.Cut(strings.TrimLeft(rest, "/"), "/")
	}
	p := strings.TrimRight(rest, "/")
	if p != "" && p[0] != '/' {
		p = "/" + p
	}
	if strings.HasSuffix(path, "/") {
		p += "/"
	}
	return p
}
