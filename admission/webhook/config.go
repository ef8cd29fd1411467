package webhook

import (
	"encoding/json"
	"fmt"
	"sync"
	"time"

	admissionv1 "k8s.io/api/admissionregistration/v1"

	"github.com/keelson-io/keelson/admission"
	"github.com/keelson-io/keelson/admission/conditions"
	"github.com/keelson-io/keelson/admission/match"
	"github.com/keelson-io/keelson/cache"
	"github.com/keelson-io/keelson/cel"
	"github.com/keelson-io/keelson/cel/requests"
	"github.com/keelson-io/keelson/internal/webhook"
)

// This file makes hooks of the configurations that are stored.

// hook is one webhook of a configuration.
type hook struct {
	configuration, name string
	id                  string // unique among all
	mutating            bool
	ignore              bool // failurePolicy Ignore: the request goes on without it
	quiet               bool // has no side effects on a dry run
	sideEffects         bool // says what side effects it has
	again               bool // reinvocationPolicy IfNeeded
	timeout             time.Duration
	review              string // v1, v1beta1 or "" if it knows neither
	conditions          *conditions.Matcher
	client              func() (*webhook.Client, error)
}

// kindOf names the hook's type in metrics and annotations.
func (h *hook) kindOf() string {
	if h.mutating {
		return "admit"
	}
	return "validating"
}

// set is all webhooks of one type at one moment.
type set struct {
	from  cache.Snapshot
	hooks []*hook
	index *match.Index
}

// clients keeps the connections of targets that stay.
type clients struct {
	mu   sync.Mutex
	made map[string]*madeClient
}

type madeClient struct {
	once   sync.Once
	client *webhook.Client
	err    error
}

// get returns what makes a target's client when it is first called.
func (c *clients) get(t webhook.Target) func() (*webhook.Client, error) {
	id := fmt.Sprintf("%s|%s|%s|%s|%d|%s", t.URL, t.Namespace, t.Service, t.Path, t.Port, t.CABundle)
	c.mu.Lock()
	defer c.mu.Unlock()
	m := c.made[id]
	if m == nil {
		m = &madeClient{}
		if c.made == nil || len(c.made) >= maxClients {
			c.made = map[string]*madeClient{} // those in use go on until their set is replaced
		}
		c.made[id] = m
	}
	return func() (*webhook.Client, error) {
		m.once.Do(func() { m.client, m.err = webhook.New(t, codec) })
		return m.client, m.err
	}
}

// maxClients bounds what is kept of targets that have gone.
const maxClients = 10_000

// build reads the configurations of a snapshot, which are in the order of their
// names. One that cannot be read is logged and left out.
func (w *Webhooks) build(from cache.Snapshot) *set {
	s := &set{from: from}
	var criteria []match.Criteria
	add := func(c admissionv1.ValidatingWebhook, mutating bool, reinvocation *admissionv1.ReinvocationPolicyType, configuration string, number int) {
		h := w.hook(&c, configuration, number, mutating)
		h.again = reinvocation != nil && *reinvocation == admissionv1.IfNeededReinvocationPolicy
		s.hooks = append(s.hooks, h)
		m := match.Criteria{Rules: match.Rules(c.Rules), Equivalent: c.MatchPolicy != nil && *c.MatchPolicy == admissionv1.Equivalent}
		m.Select(c.NamespaceSelector, c.ObjectSelector)
		criteria = append(criteria, m)
	}
	from.Ascend("", func(o *cache.Object) bool {
		text, err := o.View(w.version)
		if err == nil && w.mutating {
			var c admissionv1.MutatingWebhookConfiguration
			if err = json.Unmarshal(text.JSON, &c); err == nil {
				for i, h := range c.Webhooks {
					add(admissionv1.ValidatingWebhook{
						Name: h.Name, ClientConfig: h.ClientConfig, Rules: h.Rules, FailurePolicy: h.FailurePolicy, MatchPolicy: h.MatchPolicy,
						NamespaceSelector: h.NamespaceSelector, ObjectSelector: h.ObjectSelector, SideEffects: h.SideEffects,
						TimeoutSeconds: h.TimeoutSeconds, AdmissionReviewVersions: h.AdmissionReviewVersions, MatchConditions: h.MatchConditions,
					}, true, h.ReinvocationPolicy, c.Name, i)
				}
			}
		} else if err == nil {
			var c admissionv1.ValidatingWebhookConfiguration
			if err = json.Unmarshal(text.JSON, &c); err == nil {
				for i, h := range c.Webhooks {
					add(h, false, nil, c.Name, i)
				}
			}
		}
		if err != nil {
			w.Logger.Error("webhook configuration cannot be read", "key", o.Key, "err", err)
		}
		return true
	})
	s.index = match.NewIndex(criteria, match.Related(w.Kinds))
	return s
}

func (w *Webhooks) hook(c *admissionv1.ValidatingWebhook, configuration string, number int, mutating bool) *hook {
	h := &hook{
		configuration: configuration, name: c.Name, id: fmt.Sprintf("%s/%s/%d", configuration, c.Name, number), mutating: mutating,
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
	h.conditions = conditions.NewMatcher(requests.For(cel.AdmissionVariables{Authorizer: true}), c.MatchConditions, c.FailurePolicy,
		w.Metrics, admission.Conditions{Name: c.Name, Kind: "webhook", Type: h.kindOf()})
	h.client = w.clients.get(target(&c.ClientConfig))
	return h
}

// reviewVersion is the first version that we know.
func reviewVersion(have []string) string {
	for _, v := range have {
		if v == "v1" || v == "v1beta1" {
			return v
		}
	}
	return ""
}

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
