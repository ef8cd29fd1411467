// Package match decides which requests a webhook or an admission policy is for.
//
// # Model
//
// [Criteria] are what an object of admissionregistration.k8s.io says about it:
// rules over operation, group, version, resource and scope, and selectors over
// the labels of the namespace and of the object. An [Index] holds many criteria
// in their order. What the rules say depends on the kind of the request alone,
// not on the object, so that it is worked out once for each kind, subresource
// and operation ([Index.For]); what is left for each request, the selectors and
// rules with resource names, is [Candidate.Selects].
//
// With match policy Equivalent a rule for another version of the resource, or
// for another resource that is stored as the same objects, matches too. The
// candidate then names the [Target] that the rule is for, and whoever is asked
// has to be shown the object in that version.
//
// # Invariants
//
//   - A request that no rule is for costs one look-up, however many criteria
//     there are, and allocates nothing.
//   - An Index is immutable but for what it remembers.
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

	"github.com/keelson-io/keelson/admission"
	"github.com/keelson-io/keelson/kind"
)

// Criteria say which requests something is for.
type Criteria struct {
	Rules   []admissionv1.NamedRuleWithOperations
	All     bool // without rules: every request, instead of none
	Exclude []admissionv1.NamedRuleWithOperations
	// Equivalent lets rules match by way of other versions, too.
	Equivalent bool

	namespaces, objects selector
}

// selector is a label selector; the zero value selects everything.
type selector struct {
	labels.Selector
	err error
}

func (s selector) all() bool { return s.err == nil && (s.Selector == nil || s.Selector.Empty()) }

// Select sets the selectors; nil selects everything. One that does not parse
// is an error for each request that the rules are for.
func (c *Criteria) Select(namespaces, objects *metav1.LabelSelector) {
	c.namespaces, c.objects = parseSelector(namespaces), parseSelector(objects)
}

func parseSelector(s *metav1.LabelSelector) selector {
	if s == nil {
		return selector{}
	}
	parsed, err := metav1.LabelSelectorAsSelector(s)
	return selector{parsed, err}
}

// Rules are rules without names of resources, as webhooks have them.
func Rules(rules []admissionv1.RuleWithOperations) []admissionv1.NamedRuleWithOperations {
	out := make([]admissionv1.NamedRuleWithOperations, len(rules))
	for i, r := range rules {
		out[i].RuleWithOperations = r
	}
	return out
}

// Target is the kind by which a rule matched.
type Target struct {
	Version *kind.Version
	// Other says that it is not the request's own.
	Other bool
}

// Resource is the target's resource.
func (t Target) Resource() schema.GroupVersionResource { return t.Version.GVR() }

// route is a way in which rules match: by a target, for some names only.
type route struct {
	target Target
	names  []string // none: every name
}

func (r route) takes(name string) bool { return len(r.names) == 0 || slices.Contains(r.names, name) }

// Candidate is an item whose rules are for a kind of request.
type Candidate struct {
	// Item is its number in the index.
	Item     int
	criteria *Criteria
	routes   []route
	excludes []route
}

// Index holds criteria.
type Index struct {
	criteria []Criteria
	related  func(v *kind.Version) []*kind.Version
	memo     atomic.Pointer[map[key][]Candidate]
	mu       sync.Mutex // writers of memo
}

// key is all of a request that rules look at, names aside.
type key struct {
	version     *kind.Version
	subresource string
	operation   admission.Operation
}

// maxMemo bounds what an index remembers: kinds come and go.
const maxMemo = 4096

// NewIndex makes an index of criteria. related are the other versions in which
// a version's objects can be had, see [Related].
func NewIndex(criteria []Criteria, related func(v *kind.Version) []*kind.Version) *Index {
	return &Index{criteria: criteria, related: related}
}

// Len is the number of items.
func (x *Index) Len() int { return len(x.criteria) }

// For are the items whose rules are for requests like r, in order. They are
// shared: read only.
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
	next := map[key][]Candidate{k: found}
	if m := x.memo.Load(); m != nil && len(*m) < maxMemo {
		for k, v := range *m {
			next[k] = v
		}
	}
	x.memo.Store(&next)
	return found
}

// scan looks at all criteria.
func (x *Index) scan(k key) []Candidate {
	k.subresource = strings.Clone(k.subresource) // of a request's URL
	others := slices.DeleteFunc(slices.Clone(x.related(k.version)), func(v *kind.Version) bool { return !has(v, k.subresource) })
	var found []Candidate
	for i := range x.criteria {
		c := &x.criteria[i]
		routes := c.routes(k, c.Rules, others)
		if len(c.Rules) == 0 && c.All {
			routes = []route{{target: Target{Version: k.version}}}
		}
		if len(routes) > 0 {
			found = append(found, Candidate{i, c, routes, c.routes(k, c.Exclude, others)})
		}
	}
	return found
}

// routes are the ways in which rules are for a kind of request, in the order in
// which they are to be tried: its own resource before equivalent ones.
func (c *Criteria) routes(k key, rules []admissionv1.NamedRuleWithOperations, others []*kind.Version) []route {
	var out []route
	for i := range rules {
		if matches(&rules[i].RuleWithOperations, k, k.version) {
			out = append(out, route{Target{Version: k.version}, rules[i].ResourceNames})
		}
	}
	if !c.Equivalent {
		return out
	}
	for i := range rules {
		for _, v := range others {
			if v != k.version && matches(&rules[i].RuleWithOperations, k, v) {
				out = append(out, route{Target{v, true}, rules[i].ResourceNames})
			}
		}
	}
	return out
}

// matches reports whether a rule is for a kind of request, were it for version
// v.
func matches(r *admissionv1.RuleWithOperations, k key, v *kind.Version) bool {
	return inScope(r.Scope, v) && operates(r.Operations, k.operation) &&
		listed(r.APIGroups, v.Kind.Group) && listed(r.APIVersions, v.Name) && named(r.Resources, v.Kind.Plural, k.subresource)
}

// inScope: a namespace counts as cluster-scoped.
func inScope(scope *admissionv1.ScopeType, v *kind.Version) bool {
	if scope == nil || *scope == admissionv1.AllScopes {
		return true
	}
	return (*scope == admissionv1.NamespacedScope) == v.Kind.Namespaced
}

func operates(have []admissionv1.OperationType, op admission.Operation) bool {
	return slices.ContainsFunc(have, func(o admissionv1.OperationType) bool {
		return o == admissionv1.OperationAll || string(o) == string(op)
	})
}

func listed(have []string, want string) bool {
	return slices.ContainsFunc(have, func(s string) bool { return s == "*" || s == want })
}

// named: "pods", "pods/status", "pods/*", "*/status", "*" (no subresources)
// and "*/*".
func named(have []string, resource, subresource string) bool {
	return slices.ContainsFunc(have, func(s string) bool {
		res, sub, _ := strings.Cut(s, "/")
		return (res == "*" || res == resource) && (sub == "*" || sub == subresource)
	})
}

// has reports whether objects of a version have a subresource, so far as that
// depends on the version.
func has(v *kind.Version, subresource string) bool {
	switch {
	case v.Kind.Builtin != nil:
		return true
	case subresource == "status":
		return v.Status
	case subresource == "scale":
		return v.Scale != nil
	}
	return true
}

// Related returns the versions in which objects of a version can be had: those
// of its kind, and those of built-in kinds that are stored as the same objects.
// What a definition does not serve counts, too.
func Related(kinds func() *kind.Snapshot) func(v *kind.Version) []*kind.Version {
	return func(v *kind.Version) []*kind.Version {
		var out []*kind.Version
		add := func(k *kind.Kind) {
			for _, v := range k.All {
				if v.Served || k.Builtin == nil {
					out = append(out, v)
				}
			}
		}
		add(v.Kind)
		if v.Kind.Builtin == nil {
			return out
		}
		for k := range kinds().All() {
			if k != v.Kind && k.Builtin != nil && !k.Builtin.Virtual && k.StoragePrefix == v.Kind.StoragePrefix {
				add(k)
			}
		}
		return out
	}
}
