// Package webhook makes clients of the webhooks that objects of the API name: by URL, or by a Service and a path.
//
// A [Target] says where a webhook is and whom to trust there; [New] makes a [Client] of it, which is kept for as long as the
// target stays the same, connections and all. A call posts JSON and returns JSON, or an object of a codec. Its size is bounded in
// both directions, and its time by the caller's context.
//
// A Service is reached at its name in the cluster's DNS, <name>.<namespace>.svc, and has to prove that name.
package webhook

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/client-go/rest"
)

// MaxResponse is how many bytes an answer may have.
const MaxResponse = 64 << 20

// Target is where a webhook is: at a URL or at a Service.
type Target struct {
	URL                      string // https://…; "" if Namespace and Service say it
	Namespace, Service, Path string
	Port                     int32  // 0 means 443
	CABundle                 []byte // PEM; nothing but white space means that the system's authorities are trusted
}

// Client calls one webhook.
type Client struct{ rest *rest.RESTClient }

// errTooLarge ends the reading of an answer.
var errTooLarge = fmt.Errorf("the answer has more than %d bytes", MaxResponse)

// New makes a client, whose answers codec reads. It connects to nobody yet.
func New(t Target, codec runtime.Codec) (*Client, error) {
	c := &rest.Config{QPS: -1, UserAgent: rest.DefaultKubernetesUserAgent()}
	c.NegotiatedSerializer = serializer.NegotiatedSerializerWrapper(runtime.SerializerInfo{Serializer: codec}) // whatever an answer says it is
	c.ContentType = "application/json"
	if ca := bytes.TrimSpace(t.CABundle); len(ca) > 0 {
		c.CAData = t.CABundle
	}
	if t.URL != "" {
		c.Host = t.URL
		if !isLocal(t.URL) {
			c.NextProtos = []string{"http/1.1"} // which spreads calls over what is behind the name
		}
	} else {
		port := t.Port
		if port == 0 {
			port = 443
		}
		name := t.Service + "." + t.Namespace + ".svc"
		c.Host, c.ServerName = "https://"+net.JoinHostPort(name, strconv.Itoa(int(port))), name
		c.APIPath = t.Path
		c.NextProtos = []string{"http/1.1"} // likewise
	}
	c.Wrap(func(next http.RoundTripper) http.RoundTripper { return limited{next} })
	client, err := rest.UnversionedRESTClientFor(c)
	if err != nil {
		return nil, err
	}
	return &Client{client}, nil
}

// Post sends a body and returns the answer's. Anything but a success is an error in the words of Kubernetes' clients, or the
// Status that the webhook sent.
func (c *Client) Post(ctx context.Context, body []byte) ([]byte, error) {
	r := c.send(ctx, body, 0)
	if err := r.Error(); err != nil {
		return nil, err
	}
	return r.Raw()
}

// PostFor is Post for an answer that is an object, which it reads into out. If timeout is not 0 the webhook is told how long it
// has.
func (c *Client) PostFor(ctx context.Context, body []byte, timeout time.Duration, out runtime.Object) error {
	return c.send(ctx, body, timeout).Into(out)
}

func (c *Client) send(ctx context.Context, body []byte, timeout time.Duration) rest.Result {
	return c.rest.Post().SetHeader("Content-Type", "application/json").Timeout(timeout).Body(body).Do(ctx)
}

// isLocal reports whether a URL is of this host.
func isLocal(text string) bool {
	u, err := url.Parse(text)
	if err != nil {
		return false
	}
	return strings.EqualFold(u.Hostname(), "localhost") || net.ParseIP(u.Hostname()).IsLoopback()
}

// limited is a transport whose answers are bounded.
type limited struct{ next http.RoundTripper }

// RoundTrip implements http.RoundTripper.
func (l limited) RoundTrip(r *http.Request) (*http.Response, error) {
	resp, err := l.next.RoundTrip(r)
	if resp != nil && resp.Body != nil {
		resp.Body = &bounded{ReadCloser: resp.Body, left: MaxResponse}
	}
	return resp, err
}

type bounded struct {
	io.ReadCloser
	left int64
}

// Read fails beyond the bound.
func (b *bounded) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	if b.left -= int64(n); b.left < 0 {
		return 0, errTooLarge
	}
	return n, err
}

// String names the target in logs.
func (t Target) String() string {
	if t.URL != "" {
		return t.URL
	}
	return t.Namespace + "/" + t.Service + "/" + strings.TrimPrefix(t.Path, "/")
}
