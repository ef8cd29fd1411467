package audit

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"time"

	"golang.org/x/time/rate"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/keelson-io/keelson/internal/kubehook"
	"github.com/keelson-io/keelson/internal/reloads"
	"github.com/keelson-io/keelson/internal/weakcert"
)

// This file sends events to a webhook as EventLists.

// WebhookConfig configures a webhook. Zero values mean the defaults named here.
type WebhookConfig struct {
	ConfigFile     string        // kubeconfig
	InitialBackoff time.Duration // delay of the first retry; 0: 10 s
	Mode           string        // "": batch
	BufferSize     int           // events that wait in batch mode; 0: 10000
	MaxBatch       int           // events in one call in batch mode; 0: 400
	MaxBytes       int64         // bytes of the events that wait in batch mode; 0: 128 MiB
	// Certificates counts the certificates of the webhook. Nil means that they are not counted.
	Certificates *weakcert.Counters
	Files        *reloads.Files // follow the kubeconfig; nil: it is read once
	MaxWait      time.Duration  // time that an event waits for others in batch mode; 0: 30 s
	NoThrottle   bool           // do not limit the rate of calls
	QPS          float32        // calls per second in batch mode; 0: 10
	Burst        int            // calls in a burst in batch mode; 0: 15
}

// withDefaults returns c with defaults for empty fields. If c is invalid, it returns an error.
func (c WebhookConfig) withDefaults() (WebhookConfig, error) {
	for _, d := range []struct {
		to    *int
		value int
	}{{&c.BufferSize, defaultBuffer}, {&c.MaxBatch, 400}, {&c.Burst, 15}} {
		if *d.to == 0 {
			*d.to = d.value
		}
	}
	if c.InitialBackoff == 0 {
		c.InitialBackoff = 10 * time.Second
	}
	if c.Mode == "" {
		c.Mode = Batch
	}
	if c.MaxWait == 0 {
		c.MaxWait = 30 * time.Second
	}
	if c.QPS == 0 {
		c.QPS = 10
	}
	switch {
	case !slices.Contains(modes, c.Mode):
		return c, fmt.Errorf("invalid audit webhook mode %s, allowed modes are %q", c.Mode, strings.Join(modes, ","))
	case c.BufferSize < 0:
		return c, fmt.Errorf("invalid audit batch webhook buffer size %v, must be a positive number", c.BufferSize)
	case c.MaxBatch < 0:
		return c, fmt.Errorf("invalid audit batch webhook max batch size %v, must be a positive number", c.MaxBatch)
	case c.QPS < 0:
		return c, fmt.Errorf("invalid audit batch webhook throttle QPS %v, must be a positive number", c.QPS)
	case c.Burst < 0:
		return c, fmt.Errorf("invalid audit batch webhook throttle burst %v, must be a positive number", c.Burst)
	}
	return c, nil
}

// hook is a backend that sends events to a webhook.
type hook struct {
	plugin
	client *kubehook.Client
	limit  *rate.Limiter // nil: not limited
	strict bool
	ctx    context.Context
	stop   context.CancelFunc
}

// stopWait bounds the delivery of the last events when the server stops.
const stopWait = 5 * time.Second

// OpenWebhook returns the backend of a webhook.
func OpenWebhook(c WebhookConfig, m *Metrics, logger *slog.Logger) (Backend, error) {
	c, err := c.withDefaults()
	if err != nil {
		return nil, err
	}
	config, err := kubehook.Config(c.ConfigFile)
	if err != nil {
		return nil, fmt.Errorf("initializing audit webhook: %w", err)
	}
	client, err := kubehook.New(config, kubehook.Backoff(c.InitialBackoff), nil, c.Certificates)
	if err == nil {
		err = client.Follow(c.Files, "audit-webhook-config-file", c.ConfigFile)
	}
	if err != nil {
		return nil, fmt.Errorf("initializing audit webhook: %w", err)
	}
	h := &hook{plugin: plugin{"webhook", m, logger}, client: client, strict: c.Mode == BlockingStrict}
	h.ctx, h.stop = context.WithCancel(context.Background())
	if c.Mode != Batch {
		return h, nil
	}
	if !c.NoThrottle {
		h.limit = rate.NewLimiter(rate.Limit(c.QPS), c.Burst)
	}
	return &batches{h, startQueue(&queue{plugin: h.plugin, encode: encode, events: make(chan []byte, c.BufferSize), size: c.MaxBatch, limit: c.MaxBytes,
		wait: c.MaxWait, deliver: h.send, release: h.Close})}, nil
}

// list is an EventList of encoded events.
type list struct {
	metav1.TypeMeta
	metav1.ListMeta `json:"metadata"`
	Items           []json.RawMessage `json:"items"`
}

// send sends a batch of events, and retries after temporary errors.
func (h *hook) send(events [][]byte) error {
	if h.limit != nil {
		if err := h.limit.Wait(h.ctx); err != nil {
			return err
		}
	}
	l := &list{TypeMeta: metav1.TypeMeta{Kind: "EventList", APIVersion: "audit.k8s.io/v1"}}
	for _, e := range events {
		l.Items = append(l.Items, e)
	}
	return h.client.Post(h.ctx, l, nil, kubehook.Call{})
}

// Process implements Backend.
func (h *hook) Process(e *Event) bool {
	text, err := encode(e)
	if err == nil {
		err = h.send([][]byte{text})
	}
	if err != nil {
		h.failed(err, 1)
		return !h.strict
	}
	return true
}

// Close implements Backend.
func (h *hook) Close() error {
	h.stop()
	return nil
}

// batches is a webhook with a queue in front.
type batches struct {
	hook *hook
	*queue
}

// Close implements Backend. It waits for at most stopWait, so that a webhook that does not answer
// cannot delay the end of the server.
func (b *batches) Close() error {
	t := time.AfterFunc(stopWait, b.hook.stop)
	defer t.Stop()
	return b.queue.Close()
}
