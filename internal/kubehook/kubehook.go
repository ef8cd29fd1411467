// Package kubehook calls the webhooks that kubeconfig files describe: those that
// authenticate, authorize and record requests.
//
// A [Client] posts a JSON document to the URL that the file names as its
// server, with all the credentials that a kubeconfig can hold, and reads the
// answer. Calls that failed for a reason that passes are made again, as
// kube-apiserver does it.
package kubehook

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	utilnet "k8s.io/apimachinery/pkg/util/net"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
)

// defaultTimeout limits one call.
const defaultTimeout = 30 * time.Second

// maxAnswer is the largest answer that is taken.
const maxAnswer = 3 << 20

// Config reads how to call a webhook from a kubeconfig file: its current
// context.
func Config(path string) (*rest.Config, error) {
	rules := clientcmd.NewDefaultClientConfigLoadingRules()
	rules.ExplicitPath = path
	config, err := clientcmd.NewNonInteractiveDeferredLoadingClientConfig(rules, &clientcmd.ConfigOverrides{}).ClientConfig()
	if err != nil {
		return nil, err
	}
	config.Timeout = defaultTimeout
	config.QPS = -1 // requests wait for nothing but the webhook
	return config, nil
}

// Backoff is how calls are made again: five times in all, first after the
// initial delay.
func Backoff(initial time.Duration) wait.Backoff {
	return wait.Backoff{Duration: initial, Factor: 1.5, Jitter: 0.2, Steps: 5}
}

// DefaultBackoff is Backoff as kube-apiserver has it.
var DefaultBackoff = Backoff(500 * time.Millisecond)

// Client calls one webhook.
type Client struct {
	client  *rest.RESTClient
	backoff wait.Backoff
}

// New returns a Client.
func New(config *rest.Config, backoff wait.Backoff) (*Client, error) {
	config = rest.CopyConfig(config)
	config.ContentType = runtime.ContentTypeJSON
	config.NegotiatedSerializer = serializer.NewCodecFactory(runtime.NewScheme()).WithoutConversion()
	client, err := rest.UnversionedRESTClientFor(config)
	if err != nil {
		return nil, err
	}
	return &Client{client: client, backoff: backoff}, nil
}

// Call is how one call of a webhook is made.
type Call struct {
	Once bool // it is not made again
	// Observe, if not nil, is told of each try: the status code of the answer,
	// 0 if there was none, how long it took, and the error.
	Observe func(code int, took time.Duration, err error)
}

// Post sends in as JSON and reads the answer into out, which may be nil.
func (c *Client) Post(ctx context.Context, in, out any, call Call) error {
	body, err := json.Marshal(in)
	if err != nil {
		return err
	}
	var failed error
	err = wait.ExponentialBackoffWithContext(ctx, c.backoff, func(ctx context.Context) (bool, error) {
		began, code := time.Now(), 0
		failed = c.try(ctx, body, out, &code)
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

func (c *Client) try(ctx context.Context, body []byte, out any, code *int) error {
	result := c.client.Post().SetHeader("Content-Type", runtime.ContentTypeJSON).Body(body).Do(ctx).StatusCode(code)
	answer, err := result.Raw()
	switch {
	case err != nil:
		return err
	case len(answer) > maxAnswer:
		return fmt.Errorf("webhook answered %d bytes, limit is %d", len(answer), maxAnswer)
	case out == nil:
		return nil
	}
	return json.Unmarshal(answer, out)
}

// ShouldRetry reports whether an error may have passed by the next try.
func ShouldRetry(err error) bool {
	if err == nil {
		return false
	}
	_, delay := apierrors.SuggestsClientDelay(err)
	return delay || utilnet.IsConnectionReset(err) || utilnet.IsHTTP2ConnectionLost(err) || apierrors.IsInternalError(err) ||
		apierrors.IsTimeout(err) || apierrors.IsTooManyRequests(err)
}
