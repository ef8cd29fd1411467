// Package webhook asks the webhooks of admission: mutating ones, which may
// change an object, and validating ones, which may refuse it.
//
// # Model
//
// A [Webhooks] is the admission step of one type of webhook. Its hooks come from
// the stored configurations (admissionregistration.k8s.io/v1), which it reads
// from the cache when they have changed: a request sees all configurations that
// the cache has. A hook is asked if its rules, selectors and match conditions
// are for the request (package match); it is sent an AdmissionReview, v1 or
// v1beta1, with the object in the version that its rule names.
//
// Mutating hooks are asked one after the other. What a hook's patch makes of
// the object is decoded like the body of a request: nulls go, unknown fields
// are pruned, defaults are filled in (KEP-2332). A hook whose reinvocationPolicy
// is IfNeeded is asked once more if the object was changed after it. Validating
// hooks are all asked at the same time.
//
// # Invariants
//
//   - A request that no hook is for allocates nothing, however many there are.
//   - A hook that cannot be asked refuses the request, unless its failurePolicy
//     is Ignore.
//   - Objects that configure admission are shown to no hook.
//
// Texts, codes, metrics and audit annotations are upstream's.
package webhook

import (
	"context"
	"log/slog"
	"sync"
	"sync/atomic"

	"github.com/keelson-io/keelson/admission"
	"github.com/keelson-io/keelson/admission/conditions"
	"github.com/keelson-io/keelson/admission/match"
	"github.com/keelson-io/keelson/authz"
	"github.com/keelson-io/keelson/cache"
	"github.com/keelson-io/keelson/kind"
)

// Config is what webhooks are asked with. All fields are required.
type Config struct {
	Kinds      func() *kind.Snapshot
	Cache      *cache.Cache
	Namespaces admission.Namespaces
	Authorizer authz.Authorizer // for match conditions
	Metrics    *admission.Metrics
	Logger     *slog.Logger
}

// Webhooks is the step of one type of webhooks.
type Webhooks struct {
	Config
	mutating bool
	version  *kind.Version // of the configurations
	source   *cache.Resource
	clients  clients
	current  atomic.Pointer[set]
	mu       sync.Mutex // who makes current
}

// Mutating is the step of mutating webhooks.
func Mutating(c Config) admission.Mutator {
	return newWebhooks(c, true, "mutatingwebhookconfigurations")
}

// Validating is the step of validating webhooks.
func Validating(c Config) admission.Validator {
	return newWebhooks(c, false, "validatingwebhookconfigurations")
}

func newWebhooks(c Config, mutating bool, plural string) *Webhooks {
	k := c.Kinds().Lookup("admissionregistration.k8s.io", plural)
	return &Webhooks{Config: c, mutating: mutating, version: k.Storage, source: c.Cache.Resource(k.StoragePrefix)}
}

// load is the webhooks that the cache knows of.
func (w *Webhooks) load() *set {
	now := w.source.Snapshot()
	if s := w.current.Load(); s != nil && s.from.Same(now) {
		return s
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if s := w.current.Load(); s != nil && s.from.Same(now) {
		return s
	}
	var before map[string]*configuration
	if s := w.current.Load(); s != nil {
		before = s.made
	}
	s := w.build(now, before)
	w.current.Store(s)
	return s
}

// call is a hook that is to be asked about a request.
type call struct {
	*hook
	target match.Target
	index  int // among those of its type
}

// asks reports whether a hook is to be asked, and in which version.
func (w *Webhooks) asks(ctx context.Context, r *admission.Request, s *set, c *match.Candidate) (call, bool, error) {
	h := s.hooks[c.Item]
	target, ok, err := c.Selects(ctx, r, w.Namespaces)
	if err != nil || !ok {
		return call{}, false, err
	}
	if m := h.conditions(); m != nil {
		in := &conditions.Input{Request: r, Target: target, Authorizer: w.Authorizer}
		ok, err := m.Match(ctx, in.Matching())
		if err != nil {
			return call{}, false, forbidden(r, err)
		}
		if !ok {
			w.Metrics.ConditionSkip(h.name, h.mutating, r.Operation)
			return call{}, false, nil
		}
	}
	return call{h, target, c.Item}, true, nil
}

// candidates are the hooks whose rules are for a request.
func (w *Webhooks) candidates(r *admission.Request) (*set, []match.Candidate) {
	s := w.load()
	found := s.index.For(r)
	if len(found) == 0 || match.ExemptFromWebhooks(r.Version.Kind) {
		return nil, nil
	}
	return s, found
}
