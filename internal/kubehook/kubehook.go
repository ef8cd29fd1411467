// Package kubehook calls the webhooks that kubeconfig files describe: those for authentication,
// authorization and audit.
//
// A [Client] posts a document to the server of the kubeconfig, with the credentials of the
// kubeconfig. If it has a [Codec], it decodes the answer as an object of one version. It retries
// after temporary errors as kube-apiserver does. Error texts are kube-apiserver's.
package kubehook

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net/http"
	"slices"
	"sync/atomic"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	utilnet "k8s.io/apimachinery/pkg/util/net"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/keelson-io/keelson/internal/keysize"
	"github.com/keelson-io/keelson/internal/reloads"
	"github.com/keelson-io/keelson/internal/weakcert"
)

// defaultTimeout bounds one attempt.
const defaultTimeout = 30 * time.Second

// MaxAnswer is the largest answer, in bytes.
const MaxAnswer = 1 << 20

// Config reads the current context of a kubeconfig file, and the certificates, keys and authorities that it names.
func Config(path string) (*rest.Config, error) {
	rules := clientcmd.NewDefaultClientConfigLoadingRules()
	rules.ExplicitPath = path
	config, err := clientcmd.NewNonInteractiveDeferredLoadingClientConfig(rules, &clientcmd.ConfigOverrides{}).ClientConfig()
	if err != nil {
		return nil, err
	}
	// client-go would read them again every five minutes at best, see Client.Follow.
	if err := rest.LoadTLSFiles(config); err != nil {
		return nil, err
	}
	if err := keysize.CheckCredentials(nil, config.CAData, config.CertData, config.KeyData); err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	config.CAFile, config.CertFile, config.KeyFile = "", "", ""
	config.Timeout = defaultTimeout
	config.QPS = -1 // no client-side rate limit
	return config, nil
}

// Files returns a kubeconfig and the files with certificates, keys and authorities that it names. client-go reads files with tokens
// again by itself.
func Files(path string) []string {
	files := []string{path}
	config, err := clientcmd.LoadFromFile(path)
	if err != nil || clientcmd.ResolveLocalPaths(config) != nil {
		return files
	}
	add := func(file string) {
		if file != "" && !slices.Contains(files, file) {
			files = append(files, file)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(config.Clusters)) {
		add(config.Clusters[name].CertificateAuthority)
	}
	for _, name := range slices.Sorted(maps.Keys(config.AuthInfos)) {
		add(config.AuthInfos[name].ClientCertificate)
		add(config.AuthInfos[name].ClientKey)
	}
	return files
}

// Backoff returns the delays between five attempts. The first is initial.
func Backoff(initial time.Duration) wait.Backoff {
	return wait.Backoff{Duration: initial, Factor: 1.5, Jitter: 0.2, Steps: 5}
}

// DefaultBackoff is kube-apiserver's Backoff.
var DefaultBackoff = Backoff(500 * time.Millisecond)

// Codec returns a codec for the objects of one group version. Objects of other versions that types
// register are recognized, and are errors.
func Codec(gv schema.GroupVersion, types ...func(*runtime.Scheme) error) (runtime.Codec, error) {
	scheme := runtime.NewScheme()
	for _, add := range types {
		if err := add(scheme); err != nil {
			return nil, err
		}
	}
	metav1.AddToGroupVersion(scheme, schema.GroupVersion{Version: "v1"})
	return serializer.NewCodecFactory(scheme).LegacyCodec(gv), nil
}

// Client calls one webhook.
type Client struct {
	client       atomic.Pointer[rest.RESTClient]
	backoff      wait.Backoff
	codec        runtime.Codec
	certificates *weakcert.Counters
}

// New returns a Client. If codec is nil, requests can be any JSON, and answers are not decoded.
// certificates counts the certificates of the webhook.
func New(config *rest.Config, backoff wait.Backoff, codec runtime.Codec, certificates *weakcert.Counters) (*Client, error) {
	c := &Client{backoff: backoff, codec: codec, certificates: certificates}
	return c, c.replace(config)
}

// Follow makes the client use a kubeconfig, and use it anew when it or a file that it names changes. flag is the flag that names it.
func (c *Client) Follow(files *reloads.Files, flag, path string) error {
	return files.Add(reloads.File{Name: flag, Paths: func() []string { return Files(path) }, Use: func(map[string][]byte) error {
		config, err := Config(path)
		if err != nil {
			return err
		}
		return c.replace(config)
	}})
}

// replace replaces the client for calls that begin from now on.
func (c *Client) replace(config *rest.Config) error {
	config = rest.CopyConfig(config)
	config.ContentType = runtime.ContentTypeJSON
	config.NegotiatedSerializer = serializer.NewCodecFactory(runtime.NewScheme()).WithoutConversion()
	if c.codec != nil {
		config.NegotiatedSerializer = serializer.NegotiatedSerializerWrapper(runtime.SerializerInfo{Serializer: c.codec})
	}
	config.Wrap(c.certificates.Wrap)
	config.Wrap(func(next http.RoundTripper) http.RoundTripper { return &bounding{next} })
	client, err := rest.UnversionedRESTClientFor(config)
	if err != nil {
		return err
	}
	c.client.Store(client)
	return nil
}

// Call says how one call is made.
type Call struct {
	Once bool // no retries
	// Observe, if not nil, is called after each attempt with the status code of the answer (0 if
	// there was none), the duration and the error.
	Observe func(code int, took time.Duration, err error)
}

// Post sends in, an object of the codec or any value as JSON, and decodes the answer into out,
// unless out is nil.
func (c *Client) Post(ctx context.Context, in any, out runtime.Object, call Call) error {
	if _, ok := in.(runtime.Object); !ok {
		text, err := json.Marshal(in)
		if err != nil {
			return err
		}
		in = text
	}
	var failed error
	err := wait.ExponentialBackoffWithContext(ctx, c.backoff, func(ctx context.Context) (bool, error) {
		began, code := time.Now(), 0
		failed = c.try(ctx, in, out, &code)
		if call.Observe != nil {
			call.Observe(code, time.Since(began), failed)
		}
		if !call.Once && ShouldRetry(failed) {
			return false, nil
		}
		return failed == nil, failed
	})
	switch {
	case failed != nil:
		return failed
	case err != nil:
		return fmt.Errorf("webhook call failed: %s", err.Error())
	}
	return nil
}

// try makes one attempt, and sets *code to the status code of the answer.
func (c *Client) try(ctx context.Context, in any, out runtime.Object, code *int) error {
	result := c.client.Load().Post().SetHeader("Content-Type", runtime.ContentTypeJSON).Body(in).Do(ctx).StatusCode(code)
	if out == nil {
		_, err := result.Raw()
		return err
	}
	return result.Into(out)
}

// bounding is a transport that bounds answers.
type bounding struct{ next http.RoundTripper }

// RoundTrip bounds the body of the answer.
func (t *bounding) RoundTrip(r *http.Request) (*http.Response, error) {
	resp, err := t.next.RoundTrip(r)
	if resp != nil && resp.Body != nil {
		resp.Body = &bounded{resp.Body, MaxAnswer}
	}
	return resp, err
}

// bounded is a body that fails beyond a number of bytes.
type bounded struct {
	io.ReadCloser
	left int64
}

// Read fails beyond the bound.
func (b *bounded) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	if b.left -= int64(n); b.left < 0 {
		return 0, fmt.Errorf("the answer has more than %d bytes", MaxAnswer)
	}
	return n, err
}

// ShouldRetry reports whether an error may be temporary.
func ShouldRetry(err error) bool {
	if err == nil {
		return false
	}
	_, delay := apierrors.SuggestsClientDelay(err)
	return delay || utilnet.IsConnectionReset(err) || utilnet.IsHTTP2ConnectionLost(err) || apierrors.IsInternalError(err) ||
		apierrors.IsTimeout(err) || apierrors.IsTooManyRequests(err)
}
