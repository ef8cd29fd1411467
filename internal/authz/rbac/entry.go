package rbac

import (
	"slices"
	"sync/atomic"

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
}

// why returns the reason of a decision: the binding, and the first of its subjects that is the
// user.
func (g *grant) why(q *question) string {
	b := g.binding
	for i := range b.subjects[:g.at] {
		if s, ok := b.subject(&b.subjects[i]); ok && (!s.group && s.name == q.User.Name || s.group && q.User.InGroup(s.name)) {
			return b.reasonFor(i)
		}
	}
	return b.reasonFor(g.at)
}

// entry holds the grants of a subject, ordered by the names of their bindings. It is immutable,
// except for its table, which is built when it is used, and dropped by tables.
type entry struct {
	grants  []grant
	missing bool  // some role does not exist
	rules   int32 // number of rules, counted up to fewRules
	table   atomic.Pointer[entryTable]
}

// entryTable is the table of an entry.
type entryTable struct {
	ruleTable          // the rules of all grants of roles that are not large
	large     []uint32 // indexes of the grants of large roles, whose tables all subjects share
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
	r, words := &role{key: k, rules: compactRules(rules)}, 0
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
			e.rules += int32(min(len(g.role.rules), fewRules+1))
			if g.role.large { // a role with few rules may have many words
				e.rules = fewRules + 1
			}
		}
	}
	return e
}

// allows returns a grant that allows the request, nil if there is none.
func (e *entry) allows(q *question, refused *[]*role, ts *tables) *grant {
	if e.rules > fewRules {
		return e.lookup(q, refused, ts)
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
func (e *entry) lookup(q *question, refused *[]*role, ts *tables) *grant {
	t := e.table.Load()
	if t == nil {
		t = e.tabulate()
		ts.keep(e, t)
	}
	if p := t.lookup(q); p != nil {
		return &e.grants[p.of]
	}
	for _, i := range t.large {
		g := &e.grants[i]
		if !slices.Contains(*refused, g.role) {
			if g.role.allows(q) {
				return g
			}
			*refused = append(*refused, g.role)
		}
	}
	return nil
}

// tabulate returns the table of the entry. If several grants have the same role, only the first one is in it.
func (e *entry) tabulate() *entryTable {
	t, seen := new(entryTable), map[*role]bool{}
	t.rules = make([][]rbacv1.PolicyRule, len(e.grants))
	for i := range e.grants {
		r := e.grants[i].role
		switch {
		case r == nil || seen[r]:
		case r.large:
			t.large = append(t.large, uint32(i))
		default:
			t.add(uint32(i), r.rules)
		}
		seen[r] = true
	}
	t.sort()
	return t
}

// allows reports whether a rule of a large role allows the request.
func (r *role) allows(q *question) bool {
	r.once.Do(func() {
		r.table.rules = make([][]rbacv1.PolicyRule, 1)
		r.table.add(0, r.rules)
		r.table.sort()
	})
	return r.table.lookup(q) != nil
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
