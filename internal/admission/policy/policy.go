// Package policy enforces admission policies in CEL (KEP-3488, KEP-3962).
//
// # Model
//
// A policy has expressions and rules for the requests that it matches. A binding puts it in force
// for some of these requests, with parameters. [Validating] is the admission step for
// ValidatingAdmissionPolicies: if an expression is not true, the binding decides whether that
// denies the request, warns, or goes into the audit log. [Mutating] is the step for
// MutatingAdmissionPolicies, whose expressions return JSON patches or apply configurations.
//
// A step reads policies and bindings from the cache when they change, so that each request uses all
// that the cache has. Those from files (package manifests) come before them; a binding is for a policy
// of its own origin. It compiles the expressions of a policy once, on first use.
//
// One evaluation is for one policy, one binding and one parameter object (or none). Its expressions
// share a budget of CEL cost. The variables of the policy are computed when an expression reads
// them.
//
// # Invariants
//
//   - A request that no policy matches allocates nothing, however many policies
//     there are.
//   - If an evaluation fails, the policy's failurePolicy decides.
//   - No policy sees the objects that configure admission, except for those from files.
//
// Texts, codes, metrics and audit annotations are upstream's.
package policy

import (
	"cmp"
	"encoding/json"
	"log/slog"
	"slices"
	"sync"
	"sync/atomic"

	admissionv1 "k8s.io/api/admissionregistration/v1"

	"github.com/keelson-io/keelson/authz"
	"github.com/keelson-io/keelson/internal/admission"
	"github.com/keelson-io/keelson/internal/admission/manifests"
	"github.com/keelson-io/keelson/internal/admission/match"
	"github.com/keelson-io/keelson/internal/cache"
	"github.com/keelson-io/keelson/kind"
)

// Config has what a step needs to evaluate policies. All fields but Costs are required.
type Config struct {
	Kinds      func() *kind.Snapshot
	Cache      *cache.Cache
	Host       admission.Host
	Authorizer authz.Authorizer // for expressions that check permissions
	Metrics    *admission.Metrics
	Checks     *Metrics
	Logger     *slog.Logger
	Static     *manifests.Folder // policies and bindings from files; nil: there are none
	// Costs, if not nil, receives the costs of each evaluation.
	Costs func(policy, binding string, c Costs)
}

// Costs are the costs of the expressions of one evaluation in CEL units, including the variables
// that they read.
type Costs struct {
	Conditions  uint64
	Expressions uint64 // validations with their messages, or mutations
	Annotations uint64
}

// Policies is the admission step for one type of policies.
type Policies struct {
	Config
	mutating           bool
	policies, bindings source
	current            atomic.Pointer[set]
	mu                 sync.Mutex // held while current is replaced
}

// source is a kind of configuration in the cache.
type source struct {
	version *kind.Version
	*cache.Resource
}

// HandlesConnect implements admission.Connecting.
func (*Policies) HandlesConnect() {}

// Validating returns the step for ValidatingAdmissionPolicies.
func Validating(c Config) *Policies { return newPolicies(c, "validatingadmissionpolic") }

// Mutating returns the step for MutatingAdmissionPolicies.
func Mutating(c Config) *Policies {
	p := newPolicies(c, "mutatingadmissionpolic")
	p.mutating = true
	return p
}

// newPolicies returns the policies of a resource. stem is its plural without the ending -ies,
// because that of the bindings begins in the same way.
func newPolicies(c Config, stem string) *Policies {
	of := func(plural string) source {
		k := c.Kinds().Lookup("admissionregistration.k8s.io", plural)
		return source{k.Storage, c.Cache.Resource(k.StoragePrefix)}
	}
	return &Policies{Config: c, policies: of(stem + "ies"), bindings: of(stem + "ybindings")}
}

// set holds all policies in force at one moment.
type set struct {
	policies, bindings cache.Snapshot
	static             *manifests.State
	items              []*policy // those from files first
	index              *match.Index
	own                *match.Index // of policies from files alone; nil: there are none
}

// policy is a policy that has bindings.
type policy struct {
	name, id    string // id changes whenever the policy changes
	constraints *admissionv1.MatchResources
	ignore      bool // failurePolicy is Ignore
	again       bool // reinvocationPolicy IfNeeded
	params      paramKind
	program     func() *program // of a validating policy, compiled on first use
	mutations   func() *mutator // of a mutating policy, compiled on first use

	err      error // why the policy cannot be used; nil if it can
	bindings []*binding
	index    *match.Index // of bindings; nil if none of them restricts the policy
}

// binding puts a policy in force.
type binding struct {
	name, policy string
	ref          *admissionv1.ParamRef
	selector     *paramSelector // of ref; nil if it has none
	resources    *admissionv1.MatchResources
	actions      []admissionv1.ValidationAction // of a validating policy
	err          error
	one          atomic.Pointer[param] // the parameter object that was last looked up by name
}

// load returns the policies in the cache. It rebuilds the set if policies or bindings changed.
func (p *Policies) load() *set {
	policies, bindings, static := p.policies.Snapshot(), p.bindings.Snapshot(), p.Static.Load()
	if s := p.current.Load(); s != nil && s.policies.Same(policies) && s.bindings.Same(bindings) && s.static == static {
		return s
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	last := p.current.Load()
	if last != nil && last.policies.Same(policies) && last.bindings.Same(bindings) && last.static == static {
		return last
	}
	s := p.build(policies, bindings, static, last)
	p.current.Store(s)
	return s
}

// origin is where policies or bindings are read from: the files, or a snapshot of the store.
type origin struct {
	static *manifests.State // nil: the snapshot
	stored cache.Snapshot
}

// read decodes all objects of a kind in the order of their names. id changes whenever the object does.
// An object in the store that cannot be decoded is logged and skipped.
func read[T any](p *Policies, from source, in origin, add func(v *T, id string)) {
	if in.static != nil {
		for _, o := range in.static.Of(from.version) {
			v := new(T)
			if err := json.Unmarshal(o.JSON, v); err != nil {
				panic("BUG: " + err.Error()) // package manifests has decoded it
			}
			add(v, o.ID)
		}
		return
	}
	in.stored.Ascend("", func(o *cache.Object) bool {
		v := new(T)
		view, err := o.View(from.version)
		if err == nil {
			err = json.Unmarshal(view.JSON, v)
		}
		if err != nil {
			p.Logger.Error("admission policy cannot be read", "key", o.Key, "err", err)
		} else {
			add(v, "")
		}
		return true
	})
}

// build returns the set of all policies that have bindings. It keeps the compiled expressions of
// policies that did not change since last.
func (p *Policies) build(policies, bindings cache.Snapshot, static *manifests.State, last *set) *set {
	s := &set{policies: policies, bindings: bindings, static: static}
	known := map[string]*policy{}
	if last != nil {
		for _, old := range last.items {
			known[old.id] = old
		}
	}
	var criteria []match.Criteria
	if static != nil {
		criteria = p.add(s, criteria, known, origin{static: static}, origin{static: static})
		s.own = match.NewIndex(slices.Clone(criteria), match.Related(p.Kinds))
	}
	criteria = p.add(s, criteria, known, origin{stored: policies}, origin{stored: bindings})
	s.index = match.NewIndex(criteria, match.Related(p.Kinds))
	return s
}

// add adds the policies of an origin that have bindings to a set, and their criteria to a list.
func (p *Policies) add(s *set, criteria []match.Criteria, known map[string]*policy, policies, bindings origin) []match.Criteria {
	by := map[string][]*binding{}
	p.readBindings(bindings, func(b *binding) { by[b.policy] = append(by[b.policy], b) })
	p.readPolicies(policies, func(v *policy) {
		if v.bindings = by[v.name]; len(v.bindings) == 0 {
			return
		}
		if old := known[v.id]; old != nil {
			v.program, v.mutations = old.program, old.mutations // unchanged: compiled once, even if other policies change
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
	return criteria
}

// readBindings decodes the bindings of the step's type.
func (p *Policies) readBindings(from origin, add func(*binding)) {
	if p.mutating {
		read(p, p.bindings, from, func(b *admissionv1.MutatingAdmissionPolicyBinding, _ string) {
			add(&binding{name: b.Name, policy: b.Spec.PolicyName, ref: b.Spec.ParamRef,
				selector: parseParamSelector(b.Spec.ParamRef), resources: b.Spec.MatchResources})
		})
		return
	}
	read(p, p.bindings, from, func(b *admissionv1.ValidatingAdmissionPolicyBinding, _ string) {
		add(&binding{name: b.Name, policy: b.Spec.PolicyName, ref: b.Spec.ParamRef,
			selector: parseParamSelector(b.Spec.ParamRef), resources: b.Spec.MatchResources, actions: b.Spec.ValidationActions})
	})
}

// readPolicies decodes the policies of the step's type.
func (p *Policies) readPolicies(from origin, add func(*policy)) {
	if p.mutating {
		read(p, p.policies, from, func(v *admissionv1.MutatingAdmissionPolicy, id string) {
			add(&policy{
				name: v.Name, id: cmp.Or(id, string(v.UID)+"/"+v.ResourceVersion), constraints: v.Spec.MatchConstraints, ignore: ignores(v.Spec.FailurePolicy),
				again: v.Spec.ReinvocationPolicy == admissionv1.IfNeededReinvocationPolicy, params: paramKind{of: v.Spec.ParamKind},
				mutations: sync.OnceValue(func() *mutator { return compileMutations(v, p.Metrics) }),
			})
		})
		return
	}
	read(p, p.policies, from, func(v *admissionv1.ValidatingAdmissionPolicy, id string) {
		add(&policy{
			name: v.Name, id: cmp.Or(id, string(v.UID)+"/"+v.ResourceVersion), constraints: v.Spec.MatchConstraints, ignore: ignores(v.Spec.FailurePolicy),
			params: paramKind{of: v.Spec.ParamKind}, program: sync.OnceValue(func() *program { return compile(v, p.Metrics) }),
		})
	})
}

// ignores reports whether failures are ignored.
func ignores(p *admissionv1.FailurePolicyType) bool { return p != nil && *p == admissionv1.Ignore }

// indexBindings returns an index of the bindings' own match resources. A binding without them, or
// with invalid ones, matches every request; its error is reported when it is evaluated.
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

// criteriaOf converts match resources to criteria. missing is the error for a policy without them.
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

// configError describes an unusable policy or binding.
type configError string

// Error returns the text.
func (e configError) Error() string { return string(e) }
