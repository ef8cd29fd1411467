// Package webhook provides clients for the webhooks that API objects name: by URL, or by a Service
// and a path.
//
// A [Target] says where a webhook is and which authorities it must prove itself by. [New] returns a
// [Client], which can be kept, with its connections, as long as the target stays the same. A call
// posts JSON and returns JSON, or an object of a codec. Its size is bounded in both directions, and
// its time by the caller's context. The answers that are read at the same time share room. Redirects
// are not followed: a webhook is where its configuration says, and nowhere else.
//
// A Service is called at the address that [Shared].Resolve finds for it. Its certificate must be for its name in the cluster's DNS,
// <name>.<namespace>.svc, wherever it is: who can change a Service cannot get what is sent to a webhook without its key.
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
	"unicode"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/client-go/rest"

	"github.com/keelson-io/keelson/internal/keysize"
	"github.com/keelson-io/keelson/internal/weakcert"
)

// Bounds of an answer, once it is decompressed.
const (
	MaxResponse = 64 << 20 // bytes
	// MaxForeign bounds an answer that is not JSON, in bytes. Kubernetes' codecs also accept YAML
	// and protobuf. Decoding YAML takes far longer, and does not end with the context.
	MaxForeign = 3 << 20
)

// maxTime is the longest time of a call. The URL tells it to webhooks for which the caller names no time.
const maxTime = 30 * time.Second

// Target is the address of a webhook: a URL or a Service.
type Target struct {
	URL                      string // https://…; "" if Namespace and Service say it
	Namespace, Service, Path string
	Port                     int32  // 0 means 443
	CABundle                 []byte // PEM; if blank, the system's authorities are trusted
}

// Client calls one webhook.
type Client struct {
	rest  *rest.RESTClient
	all   *Rooms
	rooms *Rooms // of this webhook
}

// errTooLarge and errForeign end the reading of an answer.
var (
	errTooLarge = fmt.Errorf("the answer has more than %d bytes", MaxResponse)
	errForeign  = fmt.Errorf("the answer is no JSON, and has more than %d bytes", MaxForeign)
)

// Shared is what the clients of all webhooks of a server share. The zero value shares nothing.
type Shared struct {
	Rooms        *Rooms             // for answers; nil: each client has its own
	Certificates *weakcert.Counters // nil: certificates are not counted
	// Resolve returns the address of a port of a service, as host:port. If nil, services are called under their names.
	Resolve func(ctx context.Context, namespace, name string, port int32) (string, error)
}

// New returns a client whose answers codec decodes. It does not connect yet.
func New(t Target, codec runtime.Codec, shared Shared) (*Client, error) {
	return NewWith(t, codec, shared, nil)
}

// NewWith is New for a client that identifies itself to the webhook with the credentials for its
// host.
func NewWith(t Target, codec runtime.Codec, shared Shared, by *Credentials) (*Client, error) {
	c := by.forTarget(t)
	c.QPS, c.UserAgent, c.Timeout = -1, rest.DefaultKubernetesUserAgent(), maxTime
	c.NegotiatedSerializer = serializer.NegotiatedSerializerWrapper(runtime.SerializerInfo{Serializer: codec}) // decode answers whatever content type they name
	c.ContentType = "application/json"
	if ca := bytes.TrimSpace(t.CABundle); len(ca) > 0 {
		if err := keysize.CheckPEM(ca, keysize.MaxPeerBits); err != nil {
			return nil, fmt.Errorf("caBundle: %w", err)
		}
		c.CAData = t.CABundle
	}
	if t.URL != "" {
		c.Host = t.URL
		if !isLocal(t.URL) {
			c.NextProtos = []string{"http/1.1"} // so that calls are spread over the Service's endpoints
		}
	} else {
		port := t.Port
		if port == 0 {
			port = 443
		}
		name := t.Service + "." + t.Namespace + ".svc"
		c.Host, c.ServerName = "https://"+net.JoinHostPort(name, strconv.Itoa(int(port))), name
		c.APIPath = t.Path
		c.NextProtos = []string{"http/1.1"} // so that calls are spread over the service's endpoints
		if shared.Resolve != nil {
			c.Wrap(func(next http.RoundTripper) http.RoundTripper { return resolving{next, t, port, shared.Resolve} })
		}
	}
	c.Wrap(shared.Certificates.Wrap)
	c.Wrap(func(next http.RoundTripper) http.RoundTripper { return limited{next} })
	transport, err := rest.HTTPClientFor(c)
	if err != nil {
		return nil, err
	}
	own := *transport // HTTPClientFor may return the default client
	own.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	client, err := rest.UnversionedRESTClientForConfigAndClient(c, &own)
	if err != nil {
		return nil, err
	}
	all := shared.Rooms
	if all == nil {
		all = NewRooms(0)
	}
	return &Client{client, all, all.share()}, nil
}

// Post sends a body and returns the body of the answer, and a function to call when the answer is no longer needed. If the answer is
// not a success, the error has the text of Kubernetes' clients, or the Status that the webhook sent.
func (c *Client) Post(ctx context.Context, body []byte) (answer []byte, done func(), err error) {
	ctx, done = c.enter(ctx)
	r := c.send(ctx, body, 0)
	if err = r.Error(); err == nil {
		answer, err = r.Raw()
	}
	if err != nil {
		done()
		return nil, nil, err
	}
	return answer, done, nil
}

// PostFor is Post for an answer that is decoded into out. If timeout is not 0, the URL tells the
// webhook that it has this time, in place of 30 seconds.
func (c *Client) PostFor(ctx context.Context, body []byte, timeout time.Duration, out runtime.Object) error {
	ctx, done := c.enter(ctx)
	defer done()
	return c.send(ctx, body, timeout).Into(out)
}

// enter begins a call, whose answer has its room until done is called.
func (c *Client) enter(ctx context.Context) (_ context.Context, done func()) {
	t := &tenant{all: c.all, own: c.rooms}
	return context.WithValue(ctx, tenantKey{}, t), t.leave
}

func (c *Client) send(ctx context.Context, body []byte, timeout time.Duration) rest.Result {
	r := c.rest.Post().SetHeader("Content-Type", "application/json").Body(body)
	if timeout > 0 {
		r = r.Timeout(timeout)
	}
	return r.Do(ctx)
}

// isLocal reports whether a URL's host is this machine.
func isLocal(text string) bool {
	u, err := url.Parse(text)
	if err != nil {
		return false
	}
	return strings.EqualFold(u.Hostname(), "localhost") || net.ParseIP(u.Hostname()).IsLoopback()
}

// limited is a transport that bounds answers.
type limited struct{ next http.RoundTripper }

// RoundTrip implements http.RoundTripper.
func (l limited) RoundTrip(r *http.Request) (*http.Response, error) {
	resp, err := l.next.RoundTrip(r)
	if resp != nil && resp.Body != nil {
		t, _ := r.Context().Value(tenantKey{}).(*tenant)
		resp.Body = &bounded{ReadCloser: resp.Body, ctx: r.Context(), tenant: t}
	}
	return resp, err
}

type bounded struct {
	io.ReadCloser
	ctx    context.Context
	tenant *tenant
	read   int64
	begun  bool // something other than white space was read
	json   bool // the answer begins like a JSON object
}

// Read fails beyond the bounds.
func (b *bounded) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	if !b.begun {
		if text := bytes.TrimLeftFunc(p[:n], unicode.IsSpace); len(text) > 0 { // the codecs detect JSON in the same way
			b.begun, b.json = true, text[0] == '{'
		}
	}
	b.read += int64(n)
	switch {
	case b.read > MaxResponse:
		return 0, errTooLarge
	case b.read > MaxForeign && !b.json:
		return 0, errForeign
	}
	if err := b.tenant.grow(b.ctx, b.read); err != nil {
		return 0, err
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
