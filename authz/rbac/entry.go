package rbac

import (
	"slices"
	"sync"

	rbacv1 "k8s.io/api/rbac/v1"
)

// This file is what one subject has in one scope.

// subject is a user or a group in a scope: a namespace, or "" for the cluster.
// A service account is the user that it is known as.
type subject struct {
	scope string
	group bool
	name  string
}

// grant is a role given by a binding.
type grant struct {
	binding *binding
	role    *role // nil: it does not exist
	at      int   // which of the binding's subjects
	reason  string
}

// why says by what the user is allowed: the binding, and the first of its
// subjects that the user is.
func (g *grant) why(q *question) string {
	b := g.binding
	for i := range b.subjects[:g.at] {
		if s, ok := b.subject(&b.subjects[i]); ok && (!s.group && s.name == q.User.Name || s.group && q.User.InGroup(s.name)) {
			return b.reason(&b.subjects[i])
		}
	}
	return g.reason
}

// entry holds the grants of a subject, in order of their bindings' names. It is
// immutable, but for its table, which is made when it is first asked.
type entry struct {
	grants  []grant
	missing bool // a role does not exist
	rules   int  // how many, as long as they are few

	once   sync.Once
	groups map[string]map[string][]ref // by API group and resource as rules spell them
	urls   map[string][]ref            // without asterisk
	prefix []ref                       // rules with an URL that ends in an asterisk
}

// ref is a rule, and whose it is.
type ref struct {
	rule  *rbacv1.PolicyRule
	grant *grant
}

// fewRules is how many rules are looked at one by one. Beyond, a table is
// quicker.
const fewRules = 12

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
		}
	}
	return e
}

// allows returns a grant that allows what is asked, nil if there is none.
func (e *entry) allows(q *question) *grant {
	if e.rules > fewRules {
		return e.lookup(q)
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

func (e *entry) lookup(q *question) *grant {
	e.once.Do(e.tabulate)
	if !q.ResourceRequest {
		if g := firstVerb(e.urls[q.Path], q); g != nil {
			return g
		}
		return first(e.prefix, q)
	}
	for _, group := range [2]string{q.Group, rbacv1.APIGroupAll} {
		resources := e.groups[group]
		if resources == nil {
			continue
		}
		if g := first(resources[string(q.combined)], q); g != nil {
			return g
		}
		if g := first(resources[rbacv1.ResourceAll], q); g != nil {
			return g
		}
		if len(q.anyOf) > 0 {
			if g := first(resources[string(q.anyOf)], q); g != nil {
				return g
			}
		}
	}
	return nil
}

// first returns the grant of the first rule that allows.
func first(list []ref, q *question) *grant {
	for i := range list {
		if allows(list[i].rule, q) {
			return list[i].grant
		}
	}
	return nil
}

// firstVerb is first for rules whose URL is known to match.
func firstVerb(list []ref, q *question) *grant {
	for i := range list {
		if has(list[i].rule.Verbs, q.Verb, rbacv1.VerbAll) {
			return list[i].grant
		}
	}
	return nil
}

// tabulate makes the table. Of grants of one role, the first one stands for all.
func (e *entry) tabulate() {
	e.groups, e.urls = map[string]map[string][]ref{}, map[string][]ref{}
	seen := map[*role]bool{}
	for i := range e.grants {
		g := &e.grants[i]
		if g.role == nil || seen[g.role] {
			continue
		}
		seen[g.role] = true
		for j := range g.role.rules {
			e.add(ref{&g.role.rules[j], g})
		}
	}
}

func (e *entry) add(r ref) {
	for _, group := range r.rule.APIGroups {
		resources := e.groups[group]
		if resources == nil {
			resources = map[string][]ref{}
			e.groups[group] = resources
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
		e.urls[url] = append(e.urls[url], r)
	}
	if starred {
		e.prefix = append(e.prefix, r)
	}
}

// setGrant adds a grant, or puts it in the place of the one of its binding. It
// works in place.
func setGrant(grants []grant, g grant) []grant {
	i, found := slices.BinarySearchFunc(grants, g.binding.name, byBinding)
	if found {
		grants[i] = g
		return grants
	}
	return slices.Insert(grants, i, g)
}

// dropGrant takes out the grant of a binding. It works in place.
func dropGrant(grants []grant, name string) []grant {
	i, found := slices.BinarySearchFunc(grants, name, byBinding)
	if !found {
		return grants
	}
	return slices.Delete(grants, i, i+1)
}

func byBinding(g grant, name string) int {
	switch {
	case g.binding.name < name:
		return -1
	case g.binding.name > name:
		return 1
	}
	return 0
}
