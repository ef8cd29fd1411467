package rbac

import (
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"sync/atomic"

	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/keelson-io/keelson/internal/status"
)

// This file defines the index and applies changes to it.

// Index holds roles and bindings. Use NewIndex: the zero value is not usable.
type Index struct {
	state  atomic.Pointer[state]
	logger *slog.Logger // for refused.go; nil: refusals are not logged

	mu       sync.Mutex // guards the fields below, which only writers use
	roles    map[key]*role
	bindings map[key]*binding
	users    map[key]map[*binding]bool // role -> bindings that refer to it, whether it exists or not
}

// state is an immutable snapshot, from which decisions are made.
type state struct {
	subjects *table
	tables   *tables
}

// key names a role or a binding. The namespace is "" for those of the cluster.
type key struct{ namespace, name string }

// role is a Role or ClusterRole. It is immutable, except for its table, which is built on first
// use.
type role struct {
	key
	rules []rbacv1.PolicyRule
	large bool // see manyWords; only large roles have a table

	once  sync.Once
	table ruleTable
}

// binding is a RoleBinding or ClusterRoleBinding. It is immutable, except for reasons.
type binding struct {
	key
	ref      rbacv1.RoleRef
	role     key // the role that ref names
	known    bool
	subjects []rbacv1.Subject
	reasons  []atomic.Pointer[string] // made when they are needed, by subject; nil if there are too many subjects
}

// manySubjects is the number of subjects above which a binding keeps no reasons.
const manySubjects = 64

// Change is a created, changed or deleted object. One of the pointers is set. A deleted object
// needs only its name.
type Change struct {
	Role               *rbacv1.Role
	ClusterRole        *rbacv1.ClusterRole
	RoleBinding        *rbacv1.RoleBinding
	ClusterRoleBinding *rbacv1.ClusterRoleBinding
	Gone               bool
}

// NewIndex returns an index without roles and bindings.
func NewIndex() *Index {
	ix := &Index{roles: map[key]*role{}, bindings: map[key]*binding{}, users: map[key]map[*binding]bool{}}
	ix.state.Store(&state{new(table), new(tables)})
	return ix
}

// Apply applies changes. Decisions see all of them or none.
func (ix *Index) Apply(changes ...Change) {
	ix.mu.Lock()
	defer ix.mu.Unlock()
	now := ix.state.Load()
	dirty := dirty{ix: ix, table: now.subjects, grants: map[subject][]grant{}}
	for i := range changes {
		switch c := &changes[i]; {
		case c.Role != nil:
			dirty.role(key{c.Role.Namespace, c.Role.Name}, c.Role.Rules, c.Gone)
		case c.ClusterRole != nil:
			dirty.role(key{"", c.ClusterRole.Name}, c.ClusterRole.Rules, c.Gone)
		case c.RoleBinding != nil:
			b := c.RoleBinding
			dirty.binding(newBinding(key{b.Namespace, b.Name}, b.RoleRef, b.Subjects), c.Gone)
		case c.ClusterRoleBinding != nil:
			b := c.ClusterRoleBinding
			dirty.binding(newBinding(key{"", b.Name}, b.RoleRef, b.Subjects), c.Gone)
		}
	}
	if len(dirty.grants) > 0 {
		ix.state.Store(&state{dirty.done(), now.tables})
	}
}

// newBinding returns a binding with the key of the role to which it refers.
func newBinding(k key, ref rbacv1.RoleRef, subjects []rbacv1.Subject) *binding {
	b := &binding{key: k, ref: ref, subjects: compactSubjects(subjects)}
	if len(subjects) <= manySubjects {
		b.reasons = make([]atomic.Pointer[string], len(subjects))
	}
	switch ref.Kind {
	case "Role":
		b.role, b.known = key{k.namespace, ref.Name}, true
	case "ClusterRole":
		b.role, b.known = key{"", ref.Name}, true
	}
	return b
}

// kind returns ClusterRoleBinding or RoleBinding.
func (b *binding) kind() string {
	if b.namespace == "" {
		return "ClusterRoleBinding"
	}
	return "RoleBinding"
}

// missing returns the error for a role that does not exist, in upstream's words.
func (b *binding) missing() error {
	switch b.ref.Kind {
	case "Role":
		return status.NotFound(schema.GroupResource{Group: rbacv1.GroupName, Resource: "role"}, b.ref.Name)
	case "ClusterRole":
		return status.NotFound(schema.GroupResource{Group: rbacv1.GroupName, Resource: "clusterrole"}, b.ref.Name)
	}
	return fmt.Errorf("unsupported role reference kind: %q", b.ref.Kind)
}

// reasonFor returns the reason for a request that the binding allows to its subject at i.
func (b *binding) reasonFor(i int) string {
	if b.reasons == nil {
		return b.reason(&b.subjects[i])
	}
	if made := b.reasons[i].Load(); made != nil {
		return *made
	}
	made := b.reason(&b.subjects[i])
	b.reasons[i].Store(&made)
	return made
}

// reason returns the reason for a request that the binding allows to subject s.
func (b *binding) reason(s *rbacv1.Subject) string {
	name := b.name
	if b.namespace != "" {
		name += "/" + b.namespace
	}
	to := s.Name
	if s.Kind == rbacv1.ServiceAccountKind {
		to += "/" + b.accountNamespace(s)
	}
	return fmt.Sprintf("RBAC: allowed by %s %q of %s %q to %s %q", b.kind(), name, b.ref.Kind, b.ref.Name, s.Kind, to)
}

// accountNamespace returns the namespace of a service account subject, "" if there is none.
func (b *binding) accountNamespace(s *rbacv1.Subject) string {
	if s.Namespace != "" {
		return s.Namespace
	}
	return b.namespace
}

// subject returns the key of a subject of the binding. It returns false if the subject names no
// user or group.
func (b *binding) subject(s *rbacv1.Subject) (subject, bool) {
	switch s.Kind {
	case rbacv1.UserKind:
		return subject{b.namespace, false, s.Name}, true
	case rbacv1.GroupKind:
		return subject{b.namespace, true, s.Name}, true
	case rbacv1.ServiceAccountKind:
		ns := b.accountNamespace(s)
		return subject{b.namespace, false, "system:serviceaccount:" + ns + ":" + s.Name}, ns != ""
	}
	return subject{}, false
}

// dirty collects the entries that changes replace.
type dirty struct {
	ix     *Index
	table  *table
	grants map[subject][]grant // new grants, copied from the entries
}

// of returns the grants of a subject for modification.
func (d *dirty) of(s subject) []grant {
	if g, ok := d.grants[s]; ok {
		return g
	}
	if e := d.table.get(s); e != nil {
		return slices.Clone(e.grants)
	}
	return nil
}

// role replaces a role and, with it, the entries of all its subjects.
func (d *dirty) role(k key, rules []rbacv1.PolicyRule, gone bool) {
	if gone {
		delete(d.ix.roles, k)
	} else {
		d.ix.roles[k] = newRole(k, rules)
	}
	for b := range d.ix.users[k] {
		d.give(b)
	}
}

// binding replaces a binding.
func (d *dirty) binding(b *binding, gone bool) {
	if old := d.ix.bindings[b.key]; old != nil {
		for i := range old.subjects {
			if s, ok := old.subject(&old.subjects[i]); ok {
				d.grants[s] = dropGrant(d.of(s), b.name)
			}
		}
		delete(d.ix.bindings, b.key)
		delete(d.ix.users[old.role], old)
		if len(d.ix.users[old.role]) == 0 {
			delete(d.ix.users, old.role)
		}
	}
	if gone {
		return
	}
	d.ix.bindings[b.key] = b
	if b.known {
		if d.ix.users[b.role] == nil {
			d.ix.users[b.role] = map[*binding]bool{}
		}
		d.ix.users[b.role][b] = true
	}
	d.give(b)
}

// give adds the binding's role to the grants of its subjects.
func (d *dirty) give(b *binding) {
	var r *role
	if b.known {
		r = d.ix.roles[b.role]
	}
	// Backwards, so that the first of several equal subjects remains.
	for i := len(b.subjects) - 1; i >= 0; i-- {
		if s, ok := b.subject(&b.subjects[i]); ok {
			d.grants[s] = setGrant(d.of(s), grant{b, r, i})
		}
	}
}

// done returns the new table.
func (d *dirty) done() *table {
	entries := make(map[subject]*entry, len(d.grants))
	for s, grants := range d.grants {
		entries[s] = nil
		if len(grants) > 0 {
			entries[s] = newEntry(grants)
		}
	}
	return d.table.with(entries)
}

// Keep deletes the objects of one kind that are not in keys. kind is Role, ClusterRole, RoleBinding
// or ClusterRoleBinding; keys are namespace/name, or name for objects of the cluster.
func (ix *Index) Keep(kind string, keys map[string]bool) {
	ix.mu.Lock()
	var gone []Change
	roles := kind == "Role" || kind == "ClusterRole"
	cluster := kind == "ClusterRole" || kind == "ClusterRoleBinding"
	for _, k := range ix.keys(roles) {
		id := k.name
		if !cluster {
			id = k.namespace + "/" + k.name
		}
		if (k.namespace == "") == cluster && !keys[id] {
			gone = append(gone, goneChange(kind, k))
		}
	}
	ix.mu.Unlock()
	ix.Apply(gone...)
}

// keys returns the keys of all roles or all bindings.
func (ix *Index) keys(roles bool) []key {
	if roles {
		return slices.Collect(maps.Keys(ix.roles))
	}
	return slices.Collect(maps.Keys(ix.bindings))
}

// goneChange returns the change for a deleted object of a kind.
func goneChange(kind string, k key) Change {
	meta := metav1.ObjectMeta{Namespace: k.namespace, Name: k.name}
	c := Change{Gone: true}
	switch kind {
	case "Role":
		c.Role = &rbacv1.Role{ObjectMeta: meta}
	case "ClusterRole":
		c.ClusterRole = &rbacv1.ClusterRole{ObjectMeta: meta}
	case "RoleBinding":
		c.RoleBinding = &rbacv1.RoleBinding{ObjectMeta: meta}
	case "ClusterRoleBinding":
		c.ClusterRoleBinding = &rbacv1.ClusterRoleBinding{ObjectMeta: meta}
	}
	return c
}
