package rbac

import (
	"slices"
	"sync"

	rbacv1 "k8s.io/api/rbac/v1"
)

// This file holds what one subject may do in one scope.

// subject is a user or group in a scope: a namespace, or "" for the cluster. A service account is
// represented by its user name.
type subject struct {
	scope string
	group bool
	name  string
}

// grant is a role given by a binding.
type grant struct {
	binding *binding
	role    *role // nil if it does not exist
	at      int   // index of the subject in the binding
	reason  string
}

// why returns the reason of a decision: the binding, and the first of its subjects that is the
// user.
func (g *grant) why(q *question) string {
	b := g.binding
	for i := range b.subjects[:g.at] {
		if s, ok := b.subject(&b.subjects[i]); ok && (!s.group && s.name == q.User.Name || s.group && q.User.InGroup(s.name)) {
			return b.reason(&b.subjects[i])
		}
	}
	return g.reason
}

// entry holds the grants of a subject, ordered by the names of their bindings. It is immutable,
// except for its table, which is built on first use.
type entry struct {
	grants  []grant
	missing bool // some role does not exist
	rules   int  // number of rules, counted up to fewRules

	once  sync.Once
	table ruleTable // the rules of all grants of roles that are not large
	large []*grant  // grants of large roles, whose tables all subjects share
}

// ruleTable finds rules by resource or URL.
type ruleTable struct {
	groups map[string]map[string][]ref // API group -> resource, as spelled in rules -> rules
	urls   map[string][]ref            // URL without asterisk -> rules
	prefix []ref                       // rules with a URL that ends in an asterisk
}

// ref is a rule and the grant that has it.
type ref struct {
	rule  *rbacv1.PolicyRule
	grant *grant
}

// fewRules is the number of rules up to which they are compared one by one. For more rules, a table
// is faster.
const fewRules = 12

// manyWords is the number of words in a role's rules above which the role is large. A table of such
// a role for each subject would use much memory, and comparing its rules for each group of a user
// much time.
const manyWords = 2000

// newRole returns a role, and decides whether it is large.
func newRole(k key, rules []rbacv1.PolicyRule) *role {
	r, words := &role{key: k, rules: rules}, 0
	for i := range rules {
		rule := &rules[i]
		words += len(rule.Verbs) + len(rule.APIGroups)*len(rule.Resources) + len(rule.ResourceNames) + len(rule.NonResourceURLs)
	}
	r.large = words > manyWords
	return r
}

// newEntry returns an entry for grants, which are sorted by the names of their bindings.
func newEntry(grants []grant) *entry {
	e := &entry{grants: grants}
	seen := map[*role]bool{}
	for i := range grants {
		switch g := &grants[i]; {
		case g.role == nil:
			e.missing = true
		case e.rules <= fewRules && !seen[g.role]:
			seen[g.role] = true
			e.rules += len(g.role.rules)
			if g.role.large { // a role with few rules may have many words
				e.rules = fewRules + 1
			}
		}
	}
	return e
}

// allows returns a grant that allows the request, nil if there is none.
func (e *entry) allows(q *question, refused *[]*role) *grant {
	if e.rules > fewRules {
		return e.lookup(q, refused)
	}
	for i := range e.grants {
		g := &e.grants[i]
		if g.role == nil {
			continue
		}
		for j := range g.role.rules {
			if allows(&g.role.rules[j], q) {
				return g
			}
		}
	}
	return nil
}

// lookup is allows for an entry with a table.
func (e *entry) lookup(q *question, refused *[]*role) *grant {
	e.once.Do(e.tabulate)
	if r := e.table.lookup(q); r != nil {
		return r.grant
	}
	for _, g := range e.large {
		if !slices.Contains(*refused, g.role) {
			if g.role.allows(q) {
				return g
			}
			*refused = append(*refused, g.role)
		}
	}
	return nil
}

// allows reports whether a rule of a large role allows the request.
func (r *role) allows(q *question) bool {
	r.once.Do(func() {
		r.table = newRuleTable()
		for i := range r.rules {
			r.table.add(ref{rule: &r.rules[i]})
		}
	})
	return r.table.lookup(q) != nil
}

// lookup returns a rule that allows the request, nil if there is none.
func (t *ruleTable) lookup(q *question) *ref {
	if !q.ResourceRequest {
		if r := firstVerb(t.urls[q.Path], q); r != nil {
			return r
		}
		return first(t.prefix, q)
	}
	for _, group := range [2]string{q.Group, rbacv1.APIGroupAll} {
		resources := t.groups[group]
		if resources == nil {
			continue
		}
		if r := first(resources[string(q.combined)], q); r != nil {
			return r
		}
		if r := first(resources[rbacv1.ResourceAll], q); r != nil {
			return r
		}
		if len(q.anyOf) > 0 {
			if r := first(resources[string(q.anyOf)], q); r != nil {
				return r
			}
		}
	}
	return nil
}

// first returns the first rule of list that allows the request.
func first(list []ref, q *question) *ref {
	for i := range list {
		if allows(list[i].rule, q) {
			return &list[i]
		}
	}
	return nil
}

// firstVerb is first for rules whose URL is known to match.
func firstVerb(list []ref, q *question) *ref {
	for i := range list {
		if has(list[i].rule.Verbs, q.Verb, rbacv1.VerbAll) {
			return &list[i]
		}
	}
	return nil
}

// tabulate builds the table. If several grants have the same role, only the first one is in it.
func (e *entry) tabulate() {
	e.table = newRuleTable()
	seen := map[*role]bool{}
	for i := range e.grants {
		g := &e.grants[i]
		if g.role == nil || seen[g.role] {
			continue
		}
		seen[g.role] = true
		if g.role.large {
			e.large = append(e.large, g)
			continue
		}
		for j := range g.role.rules {
			e.table.add(ref{&g.role.rules[j], g})
		}
	}
}

// newRuleTable returns an empty table.
func newRuleTable() ruleTable {
	return ruleTable{groups: map[string]map[string][]ref{}, urls: map[string][]ref{}}
}

// add adds a rule.
func (t *ruleTable) add(r ref) {
	for _, group := range r.rule.APIGroups {
		resources := t.groups[group]
		if resources == nil {
			resources = map[string][]ref{}
			t.groups[group] = resources
		}
		for _, resource := range r.rule.Resources {
			resources[resource] = append(resources[resource], r)
		}
	}
	starred := false
	for _, url := range r.rule.NonResourceURLs {
		if len(url) > 0 && url[len(url)-1] == '*' {
			starred = true
		}
		t.urls[url] = append(t.urls[url], r)
	}
	if starred {
		t.prefix = append(t.prefix, r)
	}
}

// setGrant adds a grant, or replaces that of the same binding, in place.
func setGrant(grants []grant, g grant) []grant {
	i, found := slices.BinarySearchFunc(grants, g.binding.name, byBinding)
	if found {
		grants[i] = g
		return grants
	}
	return slices.Insert(grants, i, g)
}

// dropGrant removes the grant of a binding, in place.
func dropGrant(grants []grant, name string) []grant {
	i, found := slices.BinarySearchFunc(grants, name, byBinding)
	if !found {
		return grants
	}
	return slices.Delete(grants, i, i+1)
}

// byBinding compares a grant with the name of a binding, for a binary search.
func byBinding(g grant, name string) int {
	switch {
	case g.binding.name < name:
		return -1
	case g.binding.name > name:
		return 1
	}
	return 0
}
