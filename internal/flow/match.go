package flow

import (
	"cmp"
	"slices"
	"strings"

	flowcontrolv1 "k8s.io/api/flowcontrol/v1"
)

// This file finds the FlowSchema of a request. Schemas are compiled to lists of rules by subject,
// so that a request is compared only with the rules that name its user, one of its groups, or
// everybody.

// Request is what FlowSchemas match.
type Request struct {
	User   string
	Groups []string
	Payer  string // the name that is charged for what the user holds

	IsResource bool
	Verb       string
	Path       string // of requests that are not for resources
	// Of requests for resources.
	Group, Version, Resource, Subresource, Namespace, Name string
}

// schemaOf is a compiled FlowSchema.
type schemaOf struct {
	name, uid string
	uidHeader []string
	level     *level
	series    *series
	flows     flowcontrolv1.FlowDistinguisherMethodType // "": all requests are one flow
	queues    bool                                      // the level has more than one queue
}

// distinguisher returns the text that identifies the flow of a request within its schema.
func (s *schemaOf) distinguisher(r *Request) string {
	switch s.flows {
	case flowcontrolv1.FlowDistinguisherMethodByUserType:
		return r.User
	case flowcontrolv1.FlowDistinguisherMethodByNamespaceType:
		return r.Namespace
	}
	return ""
}

// rule is one of a schema's rules, for the subjects whose lists it is in.
type rule struct {
	order     int // of its schema
	schema    *schemaOf
	resources []resourceRule
	paths     []pathRule
}

// resourceRule matches requests for resources.
type resourceRule struct {
	verbs, groups, resources, namespaces set
	cluster                              bool // matches requests without a namespace
}

// pathRule matches requests for other paths.
type pathRule struct {
	verbs    set
	all      bool
	exact    []string
	prefixes []string // each with a slash at its end
}

// set is a list of names, or all names.
type set struct {
	all  bool
	few  []string
	many map[string]struct{} // in place of few
}

const fewNames = 8

// newSet returns the set of some names. The name * stands for all.
func newSet(names []string) set {
	if len(names) == 1 && names[0] == "*" {
		return set{all: true}
	}
	if len(names) <= fewNames {
		return set{few: names}
	}
	s := set{many: make(map[string]struct{}, len(names))}
	for _, n := range names {
		s.many[n] = struct{}{}
	}
	return s
}

// has reports whether a name is in the set.
func (s *set) has(name string) bool {
	if s.all {
		return true
	}
	if s.many != nil {
		_, ok := s.many[name]
		return ok
	}
	return slices.Contains(s.few, name)
}

// hasPart reports whether the set has a resource, or a subresource of it.
func (s *set) hasPart(resource, sub string) bool {
	if s.all || sub == "" {
		return s.has(resource)
	}
	var space [128]byte
	name := append(append(append(space[:0], resource...), '/'), sub...)
	if s.many != nil {
		_, ok := s.many[string(name)]
		return ok
	}
	for _, n := range s.few {
		if n == string(name) {
			return true
		}
	}
	return false
}

// matches reports whether one of the rules matches a request.
func (r *rule) matches(q *Request) bool {
	if q.IsResource {
		for i := range r.resources {
			if r.resources[i].matches(q) {
				return true
			}
		}
		return false
	}
	for i := range r.paths {
		if r.paths[i].matches(q) {
			return true
		}
	}
	return false
}

// matches reports whether the rule matches a request for a resource.
func (r *resourceRule) matches(q *Request) bool {
	if !r.verbs.has(q.Verb) || !r.resources.hasPart(q.Resource, q.Subresource) || !r.groups.has(q.Group) {
		return false
	}
	if q.Namespace == "" {
		return r.cluster
	}
	return r.namespaces.has(q.Namespace)
}

// matches reports whether the rule matches a request for a path. The last slash of a prefix is
// optional in the path.
func (r *pathRule) matches(q *Request) bool {
	if !r.verbs.has(q.Verb) {
		return false
	}
	if r.all || slices.Contains(r.exact, q.Path) {
		return true
	}
	for _, p := range r.prefixes {
		if strings.HasPrefix(q.Path, p) {
			return true
		}
	}
	return false
}

// index has the rules of all schemas by subject. Each list is in the order of the schemas.
type index struct {
	everybody []*rule
	users     map[string][]*rule
	groups    map[string][]*rule
	accounts  map[string][]*rule // of every service account of a namespace
	catchAll  *schemaOf
	schemas   []*schemaOf
}

// accountPrefix is what the user names of service accounts begin with.
const accountPrefix = "system:serviceaccount:"

// add compiles a schema, after those that come before it.
func (x *index) add(s *schemaOf, spec *flowcontrolv1.FlowSchemaSpec) {
	order := len(x.schemas)
	x.schemas = append(x.schemas, s)
	for i := range spec.Rules {
		from := &spec.Rules[i]
		r := &rule{order: order, schema: s}
		for _, f := range from.ResourceRules {
			r.resources = append(r.resources, resourceRule{newSet(f.Verbs), newSet(f.APIGroups), newSet(f.Resources), newSet(f.Namespaces), f.ClusterScope})
		}
		for _, f := range from.NonResourceRules {
			p := pathRule{verbs: newSet(f.Verbs), exact: f.NonResourceURLs}
			for _, url := range f.NonResourceURLs {
				p.all = p.all || url == flowcontrolv1.NonResourceAll
				url = strings.TrimSuffix(url, "*")
				if !strings.HasSuffix(url, "/") {
					url += "/"
				}
				p.prefixes = append(p.prefixes, url)
			}
			r.paths = append(r.paths, p)
		}
		for _, to := range from.Subjects {
			x.file(r, &to)
		}
	}
}

// file puts a rule into the list of a subject.
func (x *index) file(r *rule, to *flowcontrolv1.Subject) {
	put := func(m map[string][]*rule, key string) {
		if list := m[key]; len(list) == 0 || list[len(list)-1] != r {
			m[key] = append(list, r)
		}
	}
	switch {
	case to.Kind == flowcontrolv1.SubjectKindUser && to.User != nil && to.User.Name == flowcontrolv1.NameAll,
		to.Kind == flowcontrolv1.SubjectKindGroup && to.Group != nil && to.Group.Name == flowcontrolv1.NameAll:
		if n := len(x.everybody); n == 0 || x.everybody[n-1] != r {
			x.everybody = append(x.everybody, r)
		}
	case to.Kind == flowcontrolv1.SubjectKindUser && to.User != nil:
		put(x.users, to.User.Name)
	case to.Kind == flowcontrolv1.SubjectKindGroup && to.Group != nil:
		put(x.groups, to.Group.Name)
	case to.Kind == flowcontrolv1.SubjectKindServiceAccount && to.ServiceAccount != nil:
		if a := to.ServiceAccount; a.Name == flowcontrolv1.NameAll {
			put(x.accounts, a.Namespace)
		} else {
			put(x.users, accountPrefix+a.Namespace+":"+a.Name)
		}
	}
}

// find returns the schema of a request: the first that matches, or else the catch-all.
func (x *index) find(q *Request) *schemaOf {
	best := first(x.everybody, q, nil)
	best = first(x.users[q.User], q, best)
	for _, g := range q.Groups {
		if best != nil && best.order == 0 {
			break
		}
		best = first(x.groups[g], q, best)
	}
	if account, ok := strings.CutPrefix(q.User, accountPrefix); ok {
		if namespace, _, ok := strings.Cut(account, ":"); ok {
			best = first(x.accounts[namespace], q, best)
		}
	}
	if best == nil {
		return x.catchAll
	}
	return best.schema
}

// first returns the first rule of a list that matches, or best if that comes before.
func first(list []*rule, q *Request, best *rule) *rule {
	for _, r := range list {
		if best != nil && r.order >= best.order {
			break
		}
		if r.matches(q) {
			return r
		}
	}
	return best
}

// inOrder compares schemas by the order in which they are matched.
func inOrder(a, b *flowcontrolv1.FlowSchema) int {
	return cmp.Or(cmp.Compare(a.Spec.MatchingPrecedence, b.Spec.MatchingPrecedence), cmp.Compare(a.Name, b.Name))
}
