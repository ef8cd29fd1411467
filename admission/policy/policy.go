// Package policy enforces admission policies in CEL (KEP-3488, KEP-3962).
//
// # Model
//
// A policy says which requests it is for and has expressions; a binding puts it
// in force, for some of these requests, with parameters. [Validating] is the
// admission step of ValidatingAdmissionPolicies: an expression that is not true
// denies, warns or goes into the audit log, as the binding says. [Mutating] is
// that of MutatingAdmissionPolicies: expressions give JSON patches or apply
// configurations, which change the object.
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
	"slices"
	"sync"
	"sync/atomic"

	admissionv1 "k8s.io/api/admissionregistration/v1"

	"github.com/keelson-io/keelson/admission"
	"github.com/keelson-io/keelson/admission/match"
	"github.com/keelson-io/keelson/authz"
	"github.com/keelson-io/keelson/cache"
	"github.com/keelson-io/keelson/kind"
)

// Config is what policies are evaluated with. All fields but Costs are required.
type Config struct {
	Kinds      func() *kind.Snapshot
	Cache      *cache.Cache
	Host       admission.Host
	Authorizer authz.Authorizer // for expressions that ask it
	Metrics    *admission.Metrics
	Checks     *Metrics
	Logger     *slog.Logger
	// Costs, if set, is told what each evaluation cost.
	Costs func(policy, binding string, c Costs)
}

// Costs are what the expressions of a policy cost in one evaluation, in units of
// CEL cost, with the variables that they read.
type Costs struct {
	Conditions  uint64
	Expressions uint64 // validations with their messages, or mutations
	Annotations uint64
}

// Policies is the step of one type of policies.
type Policies struct {
	Config
	mutating           bool
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
func Validating(c Config) *Policies { return newPolicies(c, "validatingadmissionpolic") }

// Mutating is the step of MutatingAdmissionPolicies.
func Mutating(c Config) *Policies {
	p := newPolicies(c, "mutatingadmissionpolic")
	p.mutating = true
	return p
}

func newPolicies(c Config, plural string) *Policies {
	of := func(plural string) source {
		k := c.Kinds().Lookup("admissionregistration.k8s.io", plural)
		return source{k.Storage, c.Cache.Resource(k.StoragePrefix)}
	}
	return &Policies{Config: c, policies: of(plural + "ies"), bindings: of(plural + "ybindings")}
}

// set is all policies in force at one moment.
type set struct {
	policies, bindings cache.Snapshot
	items              []*policy
	index              *match.Index
}

// policy is a policy that has bindings.
type policy struct {
	name, id    string // id is another one whenever the policy has changed
	constraints *admissionv1.MatchResources
	ignore      bool // failurePolicy
	again       bool // reinvocationPolicy IfNeeded
	params      paramKind
	program     func() *program // of a validating policy
	mutations   func() *mutator // of a mutating one

	err      error // nothing can be matched
	bindings []*binding
	index    *match.Index // of bindings; nil if all of them are for whatever the policy is for
}

// binding puts a policy in force.
type binding struct {
	name, policy string
	ref          *admissionv1.ParamRef
	resources    *admissionv1.MatchResources
	actions      []admissionv1.ValidationAction // of a validating policy
	err          error
	one          atomic.Pointer[param] // the last parameter object by name
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
	p.readBindings(bindings, func(b *binding) { by[b.policy] = append(by[b.policy], b) })
	known := map[string]*policy{}
	if last != nil {
		for _, old := range last.items {
			known[old.id] = old
		}
	}
	var criteria []match.Criteria
	p.readPolicies(policies, func(v *policy) {
		if v.bindings = by[v.name]; len(v.bindings) == 0 {
			return
		}
		if old := known[v.id]; old != nil {
			v.program, v.mutations = old.program, old.mutations // compiled once, also if other policies change
		}
		if slices.ContainsFunc(v.bindings, func(b *binding) bool { return b.resources != nil }) {
			v.index = indexBindings(v.bindings, match.Related(p.Kinds))
		}
		var c match.Criteria
		if c, v.err = criteriaOf(v.constraints, "policy contained no match constraints, a required field"); v.err != nil {
			c = match.Criteria{All: true}
		}
		criteria, s.items = append(criteria, c), append(s.items, v)
	})
	s.index = match.NewIndex(criteria, match.Related(p.Kinds))
	return s
}

func (p *Policies) readBindings(from cache.Snapshot, add func(*binding)) {
	if p.mutating {
		read(p, p.bindings, from, func(b *admissionv1.MutatingAdmissionPolicyBinding) {
			add(&binding{name: b.Name, policy: b.Spec.PolicyName, ref: b.Spec.ParamRef, resources: b.Spec.MatchResources})
		})
		return
	}
	read(p, p.bindings, from, func(b *admissionv1.ValidatingAdmissionPolicyBinding) {
		add(&binding{name: b.Name, policy: b.Spec.PolicyName, ref: b.Spec.ParamRef, resources: b.Spec.MatchResources, actions: b.Spec.ValidationActions})
	})
}

func (p *Policies) readPolicies(from cache.Snapshot, add func(*policy)) {
	if p.mutating {
		read(p, p.policies, from, func(v *admissionv1.MutatingAdmissionPolicy) {
			add(&policy{
				name: v.Name, id: string(v.UID) + "/" + v.ResourceVersion, constraints: v.Spec.MatchConstraints, ignore: ignores(v.Spec.FailurePolicy),
				again: v.Spec.ReinvocationPolicy == admissionv1.IfNeededReinvocationPolicy, params: paramKind{of: v.Spec.ParamKind},
				mutations: sync.OnceValue(func() *mutator { return compileMutations(v, p.Metrics) }),
			})
		})
		return
	}
	read(p, p.policies, from, func(v *admissionv1.ValidatingAdmissionPolicy) {
		add(&policy{
			name: v.Name, id: string(v.UID) + "/" + v.ResourceVersion, constraints: v.Spec.MatchConstraints, ignore: ignores(v.Spec.FailurePolicy),
			params: paramKind{of: v.Spec.ParamKind}, program: sync.OnceValue(func() *program { return compile(v, p.Metrics) }),
		})
	})
}

func ignores(p *admissionv1.FailurePolicyType) bool { return p != nil && *p == admissionv1.Ignore }

func indexBindings(bound []*binding, related func(*kind.Version) []*kind.Version) *match.Index {
	criteria := make([]match.Criteria, len(bound))
	for i, b := range bound {
		if b.resources == nil {
			criteria[i] = match.Criteria{All: true}
		} else if criteria[i], b.err = criteriaOf(b.resources, ""); b.err != nil {
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
