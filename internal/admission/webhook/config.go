package webhook

import (
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	admissionv1 "k8s.io/api/admissionregistration/v1"

	"github.com/keelson-io/keelson/cel"
	"github.com/keelson-io/keelson/internal/admission"
	"github.com/keelson-io/keelson/internal/admission/conditions"
	"github.com/keelson-io/keelson/internal/admission/manifests"
	"github.com/keelson-io/keelson/internal/admission/match"
	"github.com/keelson-io/keelson/internal/cache"
	"github.com/keelson-io/keelson/internal/requests"
	"github.com/keelson-io/keelson/internal/webhook"
)

// This file converts stored configurations to hooks.

// hook is one webhook of a configuration.
type hook struct {
	configuration, name string
	id                  string // unique among all hooks
	mutating            bool
	ignore              bool // failurePolicy Ignore: the request goes on without it
	quiet               bool // has no side effects on a dry run: sideEffects None or NoneOnDryRun
	sideEffects         bool // sideEffects is set
	again               bool // reinvocationPolicy IfNeeded
	timeout             time.Duration
	review              string                     // v1, v1beta1 or "" if it knows neither
	conditions          func() *conditions.Matcher // compiled on the first request that the rules match
	client              func() (*webhook.Client, error)
}

// kindOf returns the hook's type as metrics and annotations name it.
func (h *hook) kindOf() string {
	if h.mutating {
		return "admit"
	}
	return "validating"
}

// set holds all webhooks of one type at one moment.
type set struct {
	from   cache.Snapshot
	static *manifests.State
	made   map[string]*configuration // by the key of the stored object, or the ID of the one from a file
	hooks  []*hook                   // those from files first
	index  *match.Index
	own    *match.Index // of hooks from files alone; nil: there are none
}

// clients holds the HTTP clients of targets, so that their connections survive a change of the
// configurations.
type clients struct {
	shared      webhook.Shared
	credentials *atomic.Pointer[webhook.Credentials] // nil: none

	mu   sync.Mutex
	made map[[sha256.Size]byte]*madeClient
	size int // bytes of all certificates
}

// madeClient is a client that is made on the first call of its webhook, and again when the
// credentials were replaced.
type madeClient struct {
	mu     sync.Mutex
	made   bool
	by     *webhook.Credentials
	client *webhook.Client
	err    error
}

// get returns a function that returns the client of a target. It makes a client on the first call,
// and on the first one with other credentials.
func (c *clients) get(t webhook.Target) func() (*webhook.Client, error) {
	id := sha256.Sum256(fmt.Appendf(nil, "%q|%q|%q|%q|%d|%s", t.URL, t.Namespace, t.Service, t.Path, t.Port, t.CABundle))
	c.mu.Lock()
	defer c.mu.Unlock()
	m := c.made[id]
	if m == nil {
		m = &madeClient{}
		if c.size += len(t.CABundle); c.made == nil || len(c.made) >= maxClients || c.size > maxBundles {
			c.made = map[[sha256.Size]byte]*madeClient{} // clients in use stay until their set is replaced
			c.size = len(t.CABundle)
		}
		c.made[id] = m
	}
	return func() (*webhook.Client, error) {
		var by *webhook.Credentials
		if c.credentials != nil {
			by = c.credentials.Load()
		}
		m.mu.Lock()
		defer m.mu.Unlock()
		if !m.made || m.by != by {
			m.made, m.by = true, by
			m.client, m.err = webhook.NewWith(t, codec, c.shared, by)
		}
		return m.client, m.err
	}
}

// maxClients and maxBundles bound the clients that are kept for targets without a hook: their
// number, and the bytes of their certificates.
const (
	maxClients = 10_000
	maxBundles = 16 << 20
)

// configuration holds the hooks of one stored configuration.
type configuration struct {
	rev      int64
	hooks    []*hook
	criteria []match.Criteria
}

// build reads the configurations from files, and those of a snapshot. Both are ordered by name. It
// reuses those of before that have not changed. A stored configuration that cannot be decoded is
// logged and skipped.
func (w *Webhooks) build(from cache.Snapshot, static *manifests.State, before map[string]*configuration) *set {
	s := &set{from: from, static: static, made: map[string]*configuration{}}
	var criteria []match.Criteria
	for _, o := range static.Of(w.version) {
		c := before[o.ID]
		if c == nil {
			var err error
			if c, err = w.configuration(o.JSON, "manifest/"); err != nil {
				panic("BUG: " + err.Error()) // package manifests has decoded it
			}
		}
		s.made[o.ID] = c
		s.hooks = append(s.hooks, c.hooks...)
		criteria = append(criteria, c.criteria...)
	}
	if len(criteria) > 0 {
		s.own = match.NewIndex(slices.Clone(criteria), match.Related(w.Kinds))
	}
	from.Ascend("", func(o *cache.Object) bool {
		c := before[o.Key]
		if c == nil || c.rev != o.Rev {
			var err error
			if c, err = w.stored(o); err != nil {
				w.Logger.Error("webhook configuration cannot be read", "key", o.Key, "err", err)
				return true
			}
		}
		s.made[o.Key] = c
		s.hooks = append(s.hooks, c.hooks...)
		criteria = append(criteria, c.criteria...)
		return true
	})
	s.index = match.NewIndex(criteria, match.Related(w.Kinds))
	return s
}

// stored decodes a stored configuration.
func (w *Webhooks) stored(o *cache.Object) (*configuration, error) {
	view, err := o.View(w.version)
	if err != nil {
		return nil, err
	}
	c, err := w.configuration(view.JSON, "")
	if err == nil {
		c.rev = o.Rev
	}
	return c, err
}

// configuration decodes a configuration of either kind. Both are read as a mutating one, which has
// all fields of a validating one, and reinvocationPolicy. origin begins the ids of its hooks.
func (w *Webhooks) configuration(text []byte, origin string) (*configuration, error) {
	var stored admissionv1.MutatingWebhookConfiguration
	if err := json.Unmarshal(text, &stored); err != nil {
		return nil, err
	}
	c := &configuration{}
	for i := range stored.Webhooks {
		h := &stored.Webhooks[i]
		made := w.hook(h, stored.Name, i)
		made.id = origin + made.id
		c.hooks = append(c.hooks, made)
		m := match.Criteria{Rules: match.Rules(h.Rules), Equivalent: h.MatchPolicy != nil && *h.MatchPolicy == admissionv1.Equivalent}
		m.Select(h.NamespaceSelector, h.ObjectSelector)
		c.criteria = append(c.criteria, m)
	}
	return c, nil
}

// hook converts one webhook of a configuration.
func (w *Webhooks) hook(c *admissionv1.MutatingWebhook, configuration string, number int) *hook {
	h := &hook{
		configuration: configuration, name: c.Name, id: fmt.Sprintf("%s/%s/%d", configuration, c.Name, number), mutating: w.mutating,
		again:       c.ReinvocationPolicy != nil && *c.ReinvocationPolicy == admissionv1.IfNeededReinvocationPolicy,
		ignore:      c.FailurePolicy != nil && *c.FailurePolicy == admissionv1.Ignore,
		sideEffects: c.SideEffects != nil,
		review:      reviewVersion(c.AdmissionReviewVersions),
	}
	if h.sideEffects {
		h.quiet = *c.SideEffects == admissionv1.SideEffectClassNone || *c.SideEffects == admissionv1.SideEffectClassNoneOnDryRun
	}
	if c.TimeoutSeconds != nil {
		h.timeout = time.Duration(*c.TimeoutSeconds) * time.Second
	}
	h.conditions = sync.OnceValue(func() *conditions.Matcher {
		return conditions.NewMatcher(requests.For(cel.AdmissionVariables{Authorizer: true}), c.MatchConditions, c.FailurePolicy,
			w.Metrics, admission.Conditions{Name: c.Name, Kind: "webhook", Type: h.kindOf()})
	})
	h.client = w.clients.get(target(&c.ClientConfig))
	return h
}

// reviewVersion returns the first version that this server supports, "" if there is none.
func reviewVersion(have []string) string {
	for _, v := range have {
		if v == "v1" || v == "v1beta1" {
			return v
		}
	}
	return ""
}

// target converts the address of a webhook.
func target(c *admissionv1.WebhookClientConfig) webhook.Target {
	t := webhook.Target{CABundle: c.CABundle}
	if c.URL != nil {
		t.URL = *c.URL
	}
	if s := c.Service; s != nil {
		t.Namespace, t.Service = s.Namespace, s.Name
		if s.Port != nil {
			t.Port = *s.Port
		}
		if s.Path != nil {
			t.Path = *s.Path
		}
	}
	return t
}
