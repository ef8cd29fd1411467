// Package match decides to which requests a webhook or an admission policy applies.
//
// # Model
//
// [Criteria] are the matching fields of an object of admissionregistration.k8s.io: rules over
// operation, group, version, resource and scope, and selectors over the labels of the namespace and
// of the object. An [Index] holds many criteria in order. Whether rules match depends only on the
// kind, subresource and operation of a request, so that [Index.For] computes it once for each
// combination. [Candidate.Selects] evaluates the rest for each request: selectors, and rules with
// resource names.
//
// With the match policy Equivalent, a rule also matches if it names another version of the
// resource, or another resource that is stored as the same objects. The candidate then has the
// [Target] of the rule: the webhook or policy must see the object in that version.
//
// # Invariants
//
//   - A request that no rule matches costs one look-up and allocates nothing,
//     however many criteria there are.
//   - An Index is immutable, except for its memo.
package match

import (
	"slices"
	"strings"
	"sync"
	"sync/atomic"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/keelson-io/keelson/internal/admission"
	compiled "github.com/keelson-io/keelson/internal/selector"
	"github.com/keelson-io/keelson/kind"
)

// Criteria selects the requests that match.
type Criteria struct {
	Rules   []admissionv1.NamedRuleWithOperations
	All     bool // no rules match every request, instead of none
	Exclude []admissionv1.NamedRuleWithOperations
	// Equivalent lets rules also match through other versions (matchPolicy Equivalent).
	Equivalent bool

	namespaces, objects selector

	names, excludedNames map[int]map[string]bool // rule -> names, for rules with many names; see nameSets
}

// selector is a parsed label selector. The zero value selects everything.
type selector struct {
	labels.Selector
	err error
}

// matchesAll reports whether the selector matches every object.
func (s selector) matchesAll() bool { return s.err == nil && (s.Selector == nil || s.Selector.Empty()) }

// Select sets the selectors; nil selects everything. A malformed selector is an error for each
// request that the rules match.
func (c *Criteria) Select(namespaces, objects *metav1.LabelSelector) {
	c.namespaces, c.objects = parseSelector(namespaces), parseSelector(objects)
}

// parseSelector parses a selector; nil selects everything.
func parseSelector(s *metav1.LabelSelector) selector {
	if s == nil {
		return selector{}
	}
	parsed, err := metav1.LabelSelectorAsSelector(s)
	return selector{compiled.Label(parsed), err}
}

// Rules converts the rules of webhooks, which have no resource names, to rules of policies.
func Rules(rules []admissionv1.RuleWithOperations) []admissionv1.NamedRuleWithOperations {
	out := make([]admissionv1.NamedRuleWithOperations, len(rules))
	for i, r := range rules {
		out[i].RuleWithOperations = r
	}
	return out
}

// Target is the version through which a rule matched.
type Target struct {
	Version *kind.Version
	// Other reports whether it differs from the request's version.
	Other bool
}

// Resource returns the target's resource.
func (t Target) Resource() schema.GroupVersionResource { return t.Version.GVR() }

// route is a target through which rules match, possibly only for some names.
type route struct {
	target Target
	names  []string        // empty: every name
	set    map[string]bool // the names as a set if there are many, else nil
}

// manyNames is the number of names above which a set is used.
const manyNames = 16

// nameSets returns the sets for rules with many names, by the rule's index. All routes of the rule
// share its set.
func nameSets(rules []admissionv1.NamedRuleWithOperations) map[int]map[string]bool {
	var sets map[int]map[string]bool
	for i := range rules {
		names := rules[i].ResourceNames
		if len(names) <= manyNames {
			continue
		}
		set := make(map[string]bool, len(names))
		for _, name := range names {
			set[name] = true
		}
		if sets == nil {
			sets = map[int]map[string]bool{}
		}
		sets[i] = set
	}
	return sets
}

// appliesTo reports whether the route applies to objects with a name.
func (r route) appliesTo(name string) bool {
	if r.set != nil {
		return r.set[name]
	}
	return len(r.names) == 0 || slices.Contains(r.names, name)
}

// Candidate is an item whose rules match a kind of request.
type Candidate struct {
	// Item is the number of the criteria in the index.
	Item     int
	criteria *Criteria
	routes   []route
	excludes []route
}

// Index finds the criteria that match a request.
type Index struct {
	criteria []Criteria
	related  func(v *kind.Version) []*kind.Version
	memo     atomic.Pointer[map[key][]Candidate]
	mu       sync.Mutex // held to add to memo
}

// key has the attributes of a request that rules depend on, apart from names.
type key struct {
	version     *kind.Version
	subresource string
	operation   admission.Operation
}

// Bounds of the memo: keys, since CRDs come and go, and candidates of all keys.
const (
	maxMemo       = 4096
	maxCandidates = 100_000
)

// NewIndex returns an index of criteria. related returns the other versions in which a version's
// objects can be read, see [Related].
func NewIndex(criteria []Criteria, related func(v *kind.Version) []*kind.Version) *Index {
	for i := range criteria {
		c := &criteria[i]
		c.names, c.excludedNames = nameSets(c.Rules), nameSets(c.Exclude)
	}
	return &Index{criteria: criteria, related: related}
}

// Len returns the number of items.
func (x *Index) Len() int { return len(x.criteria) }

// For returns the items whose rules match requests like r, in order. The result is shared; do not
// modify it.
func (x *Index) For(r *admission.Request) []Candidate {
	if len(x.criteria) == 0 {
		return nil
	}
	k := key{r.Version, r.Subresource, r.Operation}
	if m := x.memo.Load(); m != nil {
		if found, ok := (*m)[k]; ok {
			return found
		}
	}
	found := x.scan(k)
	x.mu.Lock()
	defer x.mu.Unlock()
	next, n := map[key][]Candidate{k: found}, len(found)
	if m := x.memo.Load(); m != nil && len(*m) < maxMemo {
		for have, candidates := range *m {
			if n+len(candidates) <= maxCandidates && !replaced(have.version, k.version) {
				next[have] = candidates
				n += len(candidates)
			}
		}
	}
	x.memo.Store(&next)
	return found
}

// replaced reports whether v is a version of an older state of by's kind. The memo drops such keys,
// which would keep replaced schemas in memory.
func replaced(v, by *kind.Version) bool {
	return v.Kind != by.Kind && !v.Kind.Behavior.IsBuiltin && v.Kind.Group == by.Kind.Group && v.Kind.Plural == by.Kind.Plural
}

// scan evaluates all criteria.
func (x *Index) scan(k key) []Candidate {
	k.subresource = strings.Clone(k.subresource) // a copy: the original is part of a request's URL
	others := slices.DeleteFunc(slices.Clone(x.related(k.version)), func(v *kind.Version) bool { return !has(v, k.subresource) })
	var found []Candidate
	for i := range x.criteria {
		c := &x.criteria[i]
		routes := c.routes(k, c.Rules, c.names, others)
		if len(c.Rules) == 0 && c.All {
			routes = []route{{target: Target{Version: k.version}}}
		}
		if len(routes) > 0 {
			found = append(found, Candidate{i, c, routes, c.routes(k, c.Exclude, c.excludedNames, others)})
		}
	}
	return found
}

// routes returns the targets through which rules match a kind of request, the request's own version
// before equivalent ones.
func (c *Criteria) routes(
	k key, rules []admissionv1.NamedRuleWithOperations, sets map[int]map[string]bool, others []*kind.Version,
) []route {
	var out []route
	for i := range rules {
		if matches(&rules[i].RuleWithOperations, k, k.version) {
			out = append(out, route{Target{Version: k.version}, rules[i].ResourceNames, sets[i]})
		}
	}
	if !c.Equivalent {
		return out
	}
	for i := range rules {
		for _, v := range others {
			if v != k.version && matches(&rules[i].RuleWithOperations, k, v) {
				out = append(out, route{Target{v, true}, rules[i].ResourceNames, sets[i]})
			}
		}
	}
	return out
}

// matches reports whether a rule would match a kind of request if it were for version v.
func matches(r *admissionv1.RuleWithOperations, k key, v *kind.Version) bool {
	return inScope(r.Scope, v) && operates(r.Operations, k.operation) &&
		listed(r.APIGroups, v.Kind.Group) && listed(r.APIVersions, v.Name) && named(r.Resources, v.Kind.Plural, k.subresource)
}

// inScope reports whether a rule's scope includes a version's objects. A Namespace counts as
// cluster-scoped.
func inScope(scope *admissionv1.ScopeType, v *kind.Version) bool {
	if scope == nil || *scope == admissionv1.AllScopes {
		return true
	}
	return (*scope == admissionv1.NamespacedScope) == v.Kind.Namespaced
}

// operates reports whether a rule's operations include op.
func operates(have []admissionv1.OperationType, op admission.Operation) bool {
	return slices.ContainsFunc(have, func(o admissionv1.OperationType) bool {
		return o == admissionv1.OperationAll || string(o) == string(op)
	})
}

// listed reports whether have contains want or *.
func listed(have []string, want string) bool {
	return slices.ContainsFunc(have, func(s string) bool { return s == "*" || s == want })
}

// named reports whether a rule's resources include a resource and subresource. Entries are "pods",
// "pods/status", "pods/*", "*/status", "*" (no subresources) and "*/*".
func named(have []string, resource, subresource string) bool {
	return slices.ContainsFunc(have, func(s string) bool {
		res, sub, _ := strings.Cut(s, "/")
		return (res == "*" || res == resource) && (sub == "*" || sub == subresource)
	})
}

// has reports whether objects of a version have a subresource, as far as that depends on the
// version.
func has(v *kind.Version, subresource string) bool {
	switch {
	case v.Kind.Behavior.IsBuiltin:
		return true
	case subresource == "status":
		return v.Status
	case subresource == "scale":
		return v.Scale != nil
	}
	return true
}

// Related returns a function that returns the versions in which a version's objects can be read:
// all versions of its kind, served or not, and those of built-in kinds that are stored as the same
// objects.
func Related(kinds func() *kind.Snapshot) func(v *kind.Version) []*kind.Version {
	return func(v *kind.Version) []*kind.Version {
		var out []*kind.Version
		add := func(k *kind.Kind) {
			for _, v := range k.All {
				if v.Served || !k.Behavior.IsBuiltin {
					out = append(out, v)
				}
			}
		}
		add(v.Kind)
		if !v.Kind.Behavior.IsBuiltin {
			return out
		}
		for k := range kinds().All() {
			if k != v.Kind && k.Behavior.IsBuiltin && !k.Behavior.Virtual && k.StoragePrefix == v.Kind.StoragePrefix {
				add(k)
			}
		}
		return out
	}
}
