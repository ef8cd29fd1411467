package api

import (
	"encoding/json"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/keelson-io/keelson/admission"
	"github.com/keelson-io/keelson/jsondoc"
	"github.com/keelson-io/keelson/status"
)

// This file admits requests to connect. Webhooks and policies see the options of the connection, which are in the query.

// connectOptions is a kind of options.
type connectOptions struct {
	kind  string
	read  func(q *request) (any, error)  // reads the query
	parse func(text []byte) (any, error) // parses JSON
}

// optionsOf returns the kind of the options T, whose fields read fills in.
func optionsOf[T any](kind string, read func(q *request, into *T) error) *connectOptions {
	return &connectOptions{
		kind: kind,
		read: func(q *request) (any, error) {
			into := new(T)
			return into, read(q, into)
		},
		parse: func(text []byte) (any, error) {
			into := new(T)
			return into, json.Unmarshal(text, into)
		},
	}
}

var (
	execOptions = optionsOf("PodExecOptions", func(q *request, o *corev1.PodExecOptions) error {
		o.Stdin, o.Stdout, o.Stderr, o.TTY = q.flag("stdin"), q.flag("stdout"), q.flag("stderr"), q.flag("tty")
		o.Container, o.Command = q.query.Get("container"), q.query["command"]
		return nil
	})
	attachOptions = optionsOf("PodAttachOptions", func(q *request, o *corev1.PodAttachOptions) error {
		o.Stdin, o.Stdout, o.Stderr, o.TTY = q.flag("stdin"), q.flag("stdout"), q.flag("stderr"), q.flag("tty")
		o.Container = q.query.Get("container")
		return nil
	})
	portForwardOptions = optionsOf("PodPortForwardOptions", func(q *request, o *corev1.PodPortForwardOptions) error {
		ports := q.query["ports"]
		if len(ports) == 0 {
			return nil
		}
		return metav1.Convert_Slice_string_To_Slice_int32(&ports, &o.Ports, nil)
	})
	podProxyOptions = optionsOf("PodProxyOptions", func(q *request, o *corev1.PodProxyOptions) error {
		o.Path = q.proxyPath()
		return nil
	})
	serviceProxyOptions = optionsOf("ServiceProxyOptions", func(q *request, o *corev1.ServiceProxyOptions) error {
		o.Path = q.proxyPath()
		return nil
	})
	nodeProxyOptions = optionsOf("NodeProxyOptions", func(q *request, o *corev1.NodeProxyOptions) error {
		o.Path = q.proxyPath()
		return nil
	})
)

// flag returns the value of a query parameter that is true or false.
func (q *request) flag(name string) bool {
	values := q.query[name]
	return len(values) > 0 && isTrue(values[0])
}

// proxyPath returns the path that a proxy gets: what follows the subresource. It has no slashes at the end but one, if the path of the
// request ends with a slash.
func (q *request) proxyPath() string {
	segments := 5 // api, version, resource, name and subresource
	if q.namespace != "" {
		segments += 2
	}
	rest := q.path
	for range segments {
		_, rest, _ = strings.Cut(strings.TrimLeft(rest, "/"), "/")
	}
	p := strings.TrimRight(rest, "/")
	if p != "" && p[0] != '/' {
		p = "/" + p
	}
	if strings.HasSuffix(q.path, "/") {
		p += "/"
	}
	return p
}

// admitConnection passes a request to connect through admission.
func (q *request) admitConnection(kind *connectOptions) error {
	gvk := q.v.GVK().GroupVersion().WithKind(kind.kind)
	options, err := kind.read(q)
	if err != nil {
		return status.BadRequest("%v", err)
	}
	d := jsondoc.Get()
	defer d.Release()
	setType := func() {
		d.Set(d.NewString(gvk.Kind), "kind")
		d.Set(d.NewString(gvk.Version), "apiVersion")
	}
	if err := replace(d, options); err != nil {
		return err
	}
	setType()
	r := &admission.Request{
		Operation: admission.Connect, Version: q.v, Subresource: q.subresource, Namespace: q.namespace, Name: q.name, Named: true,
		New: d, User: q.user, Client: q,
		Foreign: &admission.Foreign{
			Kind: gvk,
			Take: func(d *jsondoc.Doc, text []byte) error {
				options, err := kind.parse(text)
				if err != nil {
					return status.BadRequest("%v", err)
				}
				err = replace(d, options)
				setType()
				return err
			},
		},
	}
	if err := q.h.Objects.Chain().Mutate(q.ctx, r); err != nil {
		return err
	}
	return q.h.Objects.Chain().Validate(q.ctx, r)
}
