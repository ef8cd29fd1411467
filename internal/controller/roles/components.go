package roles

import (
	_ "embed"
	"strings"

	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// This file has the roles of the components of a cluster: nodes, schedulers, controllers, add-ons.
// They do not run in this server, but operators start them beside it, under these names. They are
// many more than the others, and no request of a user depends on them, so that the server starts
// without them and writes them right after.

//go:embed components.txt
var components string

// Components returns the default roles and bindings of the components of a cluster.
func Components() []object {
	cluster, namespaced := componentRoles()
	var list []object
	for _, r := range cluster {
		list = append(list, &clusterRole{*r})
	}
	for _, r := range namespaced {
		list = append(list, &role{*r})
	}
	return append(list, bindings(append(componentBindings(cluster), namespacedBindings...))...)
}

// componentRoles returns the roles in components.txt.
func componentRoles() (cluster []*rbacv1.ClusterRole, namespaced []*rbacv1.Role) {
	var rules *[]rbacv1.PolicyRule
	for line := range strings.Lines(components) {
		line = strings.TrimSuffix(line, "\n")
		text, isRule := strings.CutPrefix(line, "  ")
		switch {
		case line == "" || strings.HasPrefix(line, "#"):
		case isRule:
			*rules = append(*rules, componentRule(text))
		default:
			namespace, name, ok := strings.Cut(line, "/")
			if !ok {
				r := &rbacv1.ClusterRole{TypeMeta: head("ClusterRole"), ObjectMeta: named(line)}
				cluster, rules = append(cluster, r), &r.Rules
				continue
			}
			r := &rbacv1.Role{TypeMeta: head("Role"), ObjectMeta: named(name)}
			r.Namespace = namespace
			namespaced, rules = append(namespaced, r), &r.Rules
		}
	}
	return cluster, namespaced
}

// componentRule reads a rule of components.txt.
func componentRule(text string) rbacv1.PolicyRule {
	if text == "events" {
		return rule("create patch update", "core events.k8s.io", "events")
	}
	parts := strings.Split(text, ": ")
	if len(parts) < 3 || len(parts) > 4 {
		panic("BUG: components.txt: " + text)
	}
	r := rule(parts[0], parts[1], parts[2])
	if len(parts) == 4 {
		r.ResourceNames = strings.Fields(parts[3])
	}
	return r
}

// controllerPrefix starts the names of the roles of controllers.
const controllerPrefix = "system:controller:"

// componentBindings returns the bindings of cluster roles to components. A subject is as
// [componentSubject] reads it.
func componentBindings(roles []*rbacv1.ClusterRole) []binding {
	all := []binding{
		{name: "system:kube-controller-manager", subjects: "user=system:kube-controller-manager"},
		{name: "system:kube-scheduler", subjects: "user=system:kube-scheduler"},
		{name: "system:volume-scheduler", subjects: "user=system:kube-scheduler"},
		{name: "system:node-proxier", subjects: "user=system:kube-proxy"},
		{name: "system:kube-dns", subjects: "kube-dns"},
		{name: "system:node"}, // nodes are authorized by the Node authorizer: nobody has the role
		{name: "system:cluster-trust-bundle-discovery", subjects: "group=system:serviceaccounts"},
	}
	for _, r := range roles {
		if name, ok := strings.CutPrefix(r.Name, controllerPrefix); ok {
			all = append(all, binding{name: r.Name, subjects: name})
		}
	}
	return all
}

// namespacedBindings are the bindings of the roles in namespaces.
var namespacedBindings = []binding{
	{namespace: metav1.NamespaceSystem, name: "system::extension-apiserver-authentication-reader", role: authenticationReader,
		subjects: "user=system:kube-controller-manager user=system:kube-scheduler"},
	{namespace: metav1.NamespaceSystem, name: "system::leader-locking-kube-controller-manager",
		subjects: "user=system:kube-controller-manager kube-controller-manager leader-election-controller"},
	{namespace: metav1.NamespaceSystem, name: "system::leader-locking-kube-scheduler", subjects: "user=system:kube-scheduler kube-scheduler"},
	{namespace: metav1.NamespaceSystem, name: controllerPrefix + "bootstrap-signer", subjects: "bootstrap-signer"},
	{namespace: metav1.NamespaceSystem, name: controllerPrefix + "cloud-provider", subjects: "cloud-provider"},
	{namespace: metav1.NamespaceSystem, name: controllerPrefix + "token-cleaner", subjects: "token-cleaner"},
	{namespace: metav1.NamespacePublic, name: controllerPrefix + "bootstrap-signer", subjects: "bootstrap-signer"},
}

// binding describes a default binding.
type binding struct {
	namespace string // "" for a ClusterRoleBinding
	name      string
	role      string // "" if it is the name
	subjects  string // words for componentSubject
}

// meta returns the metadata of the binding and the reference to its role.
func (b *binding) meta() (metav1.ObjectMeta, rbacv1.RoleRef) {
	m, ref := named(b.name), rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: b.name}
	if b.namespace != "" {
		m.Namespace, ref.Kind = b.namespace, "Role"
	}
	if b.role != "" {
		ref.Name = b.role
	}
	return m, ref
}

// bindings returns bindings as objects.
func bindings(all []binding) []object {
	var list []object
	for _, b := range all {
		m, ref := b.meta()
		if b.namespace == "" {
			list = append(list, &clusterRoleBinding{rbacv1.ClusterRoleBinding{TypeMeta: head("ClusterRoleBinding"), ObjectMeta: m, RoleRef: ref, Subjects: b.list()}})
		} else {
			list = append(list, &roleBinding{rbacv1.RoleBinding{TypeMeta: head("RoleBinding"), ObjectMeta: m, RoleRef: ref, Subjects: b.list()}})
		}
	}
	return list
}

// list returns the subjects of the binding.
func (b *binding) list() []rbacv1.Subject {
	var all []rbacv1.Subject
	for _, word := range strings.Fields(b.subjects) {
		all = append(all, componentSubject(word))
	}
	return all
}

// componentSubject reads user=NAME, group=NAME, or the name of a service account in kube-system.
func componentSubject(word string) rbacv1.Subject {
	kind, name, ok := strings.Cut(word, "=")
	switch {
	case !ok:
		return rbacv1.Subject{Kind: rbacv1.ServiceAccountKind, Namespace: metav1.NamespaceSystem, Name: word}
	case kind == "user":
		return rbacv1.Subject{APIGroup: rbacv1.GroupName, Kind: rbacv1.UserKind, Name: name}
	case kind == "group":
		return rbacv1.Subject{APIGroup: rbacv1.GroupName, Kind: rbacv1.GroupKind, Name: name}
	}
	panic("BUG: subject " + word)
}
