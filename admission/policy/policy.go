// Package policy enforces admission policies in CEL (KEP-3488, KEP-3962).
//
// # Model
//
// A policy says which requests it is for and has expressions; a binding puts it
// in force, for some of these requests, with parameters. [Validating] is the
// admission step of ValidatingAdmissionPolicies: an expression that is not true
// denies, warns or goes into the audit log, as the binding says.
//
// Policies and bindings are read from the cache when they have changed: a
// request sees all that the cache has. The expressions of a policy are compiled
// when it is first needed, once.
//
// An evaluation is of one policy, one binding and one parameter object (or
// none). Its expressions share a budget of CEL cost; the variables of the policy
// are computed when an expression reads them.
//
// # Invariants
//
//   - A request that no policy is for allocates nothing, however many there are.
//   - What cannot be decided is decided by the policy's failurePolicy.
//   - Objects that configure admission are shown to no policy.
//
// Texts, codes, metrics and audit annotations are upstream's.
package policy

import (
	"encoding/json"
	"log/slog"
	"sync"
	"sync/atomic"

	admissionv1 "k8s.io/api/admissionregistration/v1"

	"github.com/keelson-io/keelson/admission"
	"github.com/keelson-io/keelson/admission/match"
	"github.com/keelson-io/keelson/authz"
	"github.com/keelson-io/keelson/cache"
	"github.com/keelson-io/keelson/kind"
)

// Config is what policies are evaluated with. All fields are required.
type Config struct {
	Kinds      func() *kind.Snapshot
	Cache      *cache.Cache
	Namespaces admission.Namespaces
	Authorizer authz.Authorizer // for expressions that ask it
	Metrics    *admission.Metrics
	Checks     *Metrics
	Logger     *slog.Logger
}

// Policies is the step of validating policies.
type Policies struct {
	Config
	policies, bindings source
	current            atomic.Pointer[set]
	mu                 sync.Mutex // who makes current
}

// source is where configuration is stored.
type source struct {
	version *kind.Version
	*cache.Resource
}

// Validating is the step of ValidatingAdmissionPolicies.
func Validating(c Config) *Policies {
	of := func(plural string) source {
		k := c.Kinds().Lookup("admissionregistration.k8s.io", plural)
		return source{k.Storage, c.Cache.Resource(k.StoragePrefix)}
	}
	return &Policies{Config: c, policies: of("validatingadmissionpolicies"), bindings: of("validatingadmissionpolicybindings")}
}

// set is all policies in force at one moment.
type set struct {
	policies, bindings cache.Snapshot
	items              []*policy
	index              *match.Index
}

// policy is a policy that has bindings.
type policy struct {
	*admissionv1.ValidatingAdmissionPolicy
	err      error // nothing can be matched
	bindings []*binding
	index    *match.Index // of bindings
	compiled func() *program
	params   paramKind
}

// binding puts a policy in force.
type binding struct {
	*admissionv1.ValidatingAdmissionPolicyBinding
	err error
	one atomic.Pointer[param] // the last parameter object by name
}

// load is the policies that the cache knows of.
func (p *Policies) load() *set {
	policies, bindings := p.policies.Snapshot(), p.bindings.Snapshot()
	if s := p.current.Load(); s != nil && s.policies.Same(policies) && s.bindings.Same(bindings) {
		return s
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	last := p.current.Load()
	if last != nil && last.policies.Same(policies) && last.bindings.Same(bindings) {
		return last
	}
	s := p.build(policies, bindings, last)
	p.current.Store(s)
	return s
}

// read decodes all objects of a source, which are in the order of their names.
// One that cannot be read is logged and left out.
func read[T any](p *Policies, from source, s cache.Snapshot, add func(*T)) {
	s.Ascend("", func(o *cache.Object) bool {
		v := new(T)
		view, err := o.View(from.version)
		if err == nil {
			err = json.Unmarshal(view.JSON, v)
		}
		if err != nil {
			p.Logger.Error("admission policy cannot be read", "key", o.Key, "err", err)
		} else {
			add(v)
		}
		return true
	})
}

func (p *Policies) build(policies, bindings cache.Snapshot, last *set) *set {
	s := &set{policies: policies, bindings: bindings}
	by := map[string][]*binding{}
	read(p, p.bindings, bindings, func(b *admissionv1.ValidatingAdmissionPolicyBinding) {
		by[b.Spec.PolicyName] = append(by[b.Spec.PolicyName], &binding{ValidatingAdmissionPolicyBinding: b})
	})
	programs := map[string]*policy{}
	if last != nil {
		for _, old := range last.items {
			programs[string(old.UID)+"/"+old.ResourceVersion] = old
		}
	}
	var criteria []match.Criteria
	read(p, p.policies, policies, func(v *admissionv1.ValidatingAdmissionPolicy) {
		bound := by[v.Name]
		if len(bound) == 0 {
			return
		}
		item := &policy{ValidatingAdmissionPolicy: v, bindings: bound, params: paramKind{of: v.Spec.ParamKind}}
		if old := programs[string(v.UID)+"/"+v.ResourceVersion]; old != nil {
			item.compiled = old.compiled // compiled once, also if other policies change
		} else {
			item.compiled = sync.OnceValue(func() *program { return compile(v, p.Metrics) })
		}
		item.index = indexBindings(bound, match.Related(p.Kinds))
		var c match.Criteria
		if c, item.err = criteriaOf(v.Spec.MatchConstraints, "policy contained no match constraints, a required field"); item.err != nil {
			c = match.Criteria{All: true}
		}
		criteria, s.items = append(criteria, c), append(s.items, item)
	})
	s.index = match.NewIndex(criteria, match.Related(p.Kinds))
	return s
}

func indexBindings(bound []*binding, related func(*kind.Version) []*kind.Version) *match.Index {
	criteria := make([]match.Criteria, len(bound))
	for i, b := range bound {
		if b.Spec.MatchResources == nil {
			criteria[i] = match.Criteria{All: true}
		} else if criteria[i], b.err = criteriaOf(b.Spec.MatchResources, ""); b.err != nil {
			criteria[i] = match.Criteria{All: true}
		}
	}
	return match.NewIndex(criteria, related)
}

func criteriaOf(m *admissionv1.MatchResources, missing string) (match.Criteria, error) {
	switch {
	case m == nil:
		return match.Criteria{}, configError(missing)
	case m.NamespaceSelector == nil:
		return match.Criteria{}, configError("a nil namespace selector was passed, please ensure selectors are initialized properly")
	case m.ObjectSelector == nil:
		return match.Criteria{}, configError("a nil object selector was passed, please ensure selectors are initialized properly")
	}
	c := match.Criteria{
		Rules: m.ResourceRules, All: true, Exclude: m.ExcludeResourceRules,
		Equivalent: m.MatchPolicy != nil && *m.MatchPolicy == admissionv1.Equivalent,
	}
	c.Select(m.NamespaceSelector, m.ObjectSelector)
	return c, nil
}

// configError is a policy or binding that makes no sense.
type configError string

func (e configError) Error() string { return string(e) }
