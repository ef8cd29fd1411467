// Package webhook calls admission webhooks: mutating ones, which may change an object, and
// validating ones, which may refuse it.
//
// # Model
//
// A [Webhooks] is the admission step for one type of webhook. It reads the stored configurations
// (admissionregistration.k8s.io/v1) from the cache when they change, so that each request uses all
// configurations that the cache has. Those from files (package manifests) come before them. A hook is called if its rules, selectors and match conditions
// match the request (package match). It receives an AdmissionReview, v1 or v1beta1, with the object
// in the version that its rule names.
//
// Mutating hooks are called one after the other. The object with a hook's patch applied is decoded
// like a request body: nulls are dropped, unknown fields pruned, defaults filled in (KEP-2332). A
// hook with the reinvocationPolicy IfNeeded is called again if the object was changed after its
// call. Validating hooks are called all at the same time.
//
// # Invariants
//
//   - A request that no hook matches allocates nothing, however many hooks
//     there are.
//   - If a call fails, the request is refused, unless the hook's failurePolicy
//     is Ignore.
//   - No hook sees the objects that configure admission, except for those from files.
//
// Texts, codes, metrics and audit annotations are upstream's.
package webhook

import (
	"context"
	"log/slog"
	"sync"
	"sync/atomic"

	"github.com/keelson-io/keelson/authz"
	"github.com/keelson-io/keelson/internal/admission"
	"github.com/keelson-io/keelson/internal/admission/conditions"
	"github.com/keelson-io/keelson/internal/admission/manifests"
	"github.com/keelson-io/keelson/internal/admission/match"
	"github.com/keelson-io/keelson/internal/cache"
	"github.com/keelson-io/keelson/internal/webhook"
	"github.com/keelson-io/keelson/kind"
)

// Config has what a step needs to call webhooks. The fields up to Logger are required.
type Config struct {
	Kinds      func() *kind.Snapshot
	Cache      *cache.Cache
	Namespaces admission.Namespaces
	Authorizer authz.Authorizer // for match conditions
	Metrics    *admission.Metrics
	Logger     *slog.Logger
	Shared     webhook.Shared // what the clients of all webhooks of the server share

	Static *manifests.Folder // configurations from files; nil: there are none
	// Credentials holds the credentials that webhooks get. They may be replaced at any time. Nil
	// means none.
	Credentials *atomic.Pointer[webhook.Credentials]
}

// Webhooks is the admission step for one type of webhooks.
type Webhooks struct {
	Config
	mutating bool
	version  *kind.Version // of the configurations' kind
	source   *cache.Resource
	clients  clients
	current  atomic.Pointer[set]
	mu       sync.Mutex // held while current is replaced
}

// HandlesConnect implements admission.Connecting.
func (*Webhooks) HandlesConnect() {}

// Mutating returns the step for mutating webhooks.
func Mutating(c Config) admission.Mutator {
	return newWebhooks(c, true, "mutatingwebhookconfigurations")
}

// Validating returns the step for validating webhooks.
func Validating(c Config) admission.Validator {
	return newWebhooks(c, false, "validatingwebhookconfigurations")
}

// newWebhooks returns the webhooks of a resource of configurations.
func newWebhooks(c Config, mutating bool, plural string) *Webhooks {
	k := c.Kinds().Lookup("admissionregistration.k8s.io", plural)
	return &Webhooks{Config: c, mutating: mutating, version: k.Storage, source: c.Cache.Resource(k.StoragePrefix), clients: clients{shared: c.Shared, credentials: c.Credentials}}
}

// load returns the webhooks in the cache. It rebuilds the set if the configurations changed.
func (w *Webhooks) load() *set {
	now, static := w.source.Snapshot(), w.Static.Load()
	if s := w.current.Load(); s != nil && s.from.Same(now) && s.static == static {
		return s
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if s := w.current.Load(); s != nil && s.from.Same(now) && s.static == static {
		return s
	}
	var before map[string]*configuration
	if s := w.current.Load(); s != nil {
		before = s.made
	}
	s := w.build(now, static, before)
	w.current.Store(s)
	return s
}

// call is a hook that is to be called for a request.
type call struct {
	*hook
	target match.Target
	index  int // in the set of hooks
}

// asks reports whether a hook is to be called, and with which version of the object.
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

// candidates returns the hooks whose rules match a request.
func (w *Webhooks) candidates(r *admission.Request) (*set, []match.Candidate) {
	s := w.load()
	found := s.index.For(r)
	switch {
	case len(found) == 0:
		return nil, nil
	case !match.ExemptFromWebhooks(r.Version.Kind):
		return s, found
	case s.own == nil || match.IsReview(r.Version.Kind):
		return nil, nil
	}
	return s, s.own.For(r)
}
