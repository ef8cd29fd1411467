package roles

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/keelson-io/keelson/internal/authz/rbac"
)

// This file has the roles and bindings that a server has from the start: those of Kubernetes, rule
// by rule. Those of the components of a cluster are in components.go.

const (
	readVerbs  = "get list watch"
	writeVerbs = "create delete deletecollection patch update"
	aggregate  = "rbac.authorization.k8s.io/aggregate-to-"
)

// words splits a text at spaces and sorts the parts; "core" is the core group.
func words(s string) []string {
	list := strings.Fields(s)
	for i := range list {
		if list[i] == "core" {
			list[i] = ""
		}
	}
	slices.Sort(list)
	return list
}

func rule(verbs, groups, resources string, names ...string) rbacv1.PolicyRule {
	return rbacv1.PolicyRule{Verbs: words(verbs), APIGroups: words(groups), Resources: words(resources), ResourceNames: names}
}

func urls(verbs, list string) rbacv1.PolicyRule {
	return rbacv1.PolicyRule{Verbs: words(verbs), NonResourceURLs: words(list)}
}

// authenticationReader is the role that may read how the server authenticates requests.
const authenticationReader = "extension-apiserver-authentication-reader"

// Defaults returns the default roles and bindings of users and of the server itself. Aggregated
// roles have the rules that they gather among these.
func Defaults() []object {
	var list []object
	for _, r := range clusterRoles() {
		list = append(list, &clusterRole{*r})
	}
	r := &role{rbacv1.Role{TypeMeta: head("Role"), ObjectMeta: named(authenticationReader),
		Rules: []rbacv1.PolicyRule{rule(readVerbs, "core", "configmaps", "extension-apiserver-authentication")}}}
	r.Namespace = metav1.NamespaceSystem
	return append(append(list, r), bindings(clusterRoleBindings())...)
}

// Changes returns the defaults as changes of an index.
func Changes() []rbac.Change {
	var all []rbac.Change
	for _, d := range append(Defaults(), Components()...) {
		switch o := d.(type) {
		case *role:
			all = append(all, rbac.Change{Role: &o.Role})
		case *roleBinding:
			all = append(all, rbac.Change{RoleBinding: &o.RoleBinding})
		case *clusterRole:
			all = append(all, rbac.Change{ClusterRole: &o.ClusterRole})
		case *clusterRoleBinding:
			all = append(all, rbac.Change{ClusterRoleBinding: &o.ClusterRoleBinding})
		}
	}
	return all
}

// Aggregate sets the rules of the aggregated cluster roles among changes to an index, as the server does
// when all are stored. Of several changes to a role the last one counts. It changes the roles.
func Aggregate(changes []rbac.Change) error {
	stored := map[string]*rbacv1.ClusterRole{}
	for _, c := range changes {
		if c.ClusterRole != nil {
			stored[c.ClusterRole.Name] = c.ClusterRole
		}
	}
	var all, gathering []*rbacv1.ClusterRole
	for _, name := range slices.Sorted(maps.Keys(stored)) {
		all = append(all, stored[name])
		if stored[name].AggregationRule != nil {
			gathering = append(gathering, stored[name])
		}
	}
	// A role may gather the rules of another one that gathers. Each round completes at least one more.
	for range len(gathering) + 1 {
		changed := ""
		for _, r := range gathering {
			rules, err := Gather(r.Name, r.AggregationRule.ClusterRoleSelectors, all)
			if err != nil {
				return fmt.Errorf("aggregationRule of ClusterRole %s: %w", r.Name, err)
			}
			if len(rules)+len(r.Rules) > 0 && !equality.Semantic.DeepEqual(rules, r.Rules) {
				r.Rules, changed = rules, r.Name
			}
		}
		if changed == "" {
			return nil
		}
	}
	return errors.New("aggregationRules of ClusterRoles that select each other never come to rest: let one of them not select the others")
}

func head(kind string) metav1.TypeMeta {
	return metav1.TypeMeta{APIVersion: rbacv1.SchemeGroupVersion.String(), Kind: kind}
}

func named(name string, labels ...string) metav1.ObjectMeta {
	m := metav1.ObjectMeta{Name: name, Labels: map[string]string{bootstrapped: "rbac-defaults"}, Annotations: map[string]string{autoUpdate: "true"}}
	for _, l := range labels {
		m.Labels[l] = "true"
	}
	return m
}

// clusterRoles returns the default cluster roles.
func clusterRoles() []*rbacv1.ClusterRole {
	var all []*rbacv1.ClusterRole
	add := func(name string, labels []string, rules ...rbacv1.PolicyRule) {
		all = append(all, &rbacv1.ClusterRole{TypeMeta: head("ClusterRole"), ObjectMeta: named(name, labels...), Rules: rules})
	}
	gather := func(name, from string, labels ...string) {
		add(name, labels)
		all[len(all)-1].AggregationRule = &rbacv1.AggregationRule{
			ClusterRoleSelectors: []metav1.LabelSelector{{MatchLabels: map[string]string{aggregate + from: "true"}}},
		}
	}
	add("cluster-admin", nil, rule("*", "*", "*"), urls("*", "*"))
	add("system:discovery", nil, urls("get", "/livez /readyz /healthz /version /version/ /openapi /openapi/* /api /api/* /apis /apis/*"))
	add("system:public-info-viewer", nil, urls("get", "/livez /readyz /healthz /version /version/"))
	add("system:monitoring", nil,
		urls("get", "/metrics /metrics/slis /livez /readyz /healthz /livez/* /readyz/* /healthz/* /flagz /statusz"), rule("get", "core", "nodes/metrics"))
	add("system:basic-user", nil,
		rule("create", "authorization.k8s.io", "selfsubjectaccessreviews selfsubjectrulesreviews"),
		rule("create", "authentication.k8s.io", "selfsubjectreviews"))
	add("system:auth-delegator", nil,
		rule("create", "authentication.k8s.io", "tokenreviews"), rule("create", "authorization.k8s.io", "subjectaccessreviews"))
	add("system:service-account-issuer-discovery", nil,
		urls("get", "/.well-known/openid-configuration /.well-known/openid-configuration/ /openid/v1/jwks /openid/v1/jwks/"))
	add("system:aggregate-to-admin", []string{aggregate + "admin"},
		rule("create", "authorization.k8s.io", "localsubjectaccessreviews"),
		rule(readVerbs+" "+writeVerbs, "rbac.authorization.k8s.io", "roles rolebindings"))
	add("system:aggregate-to-edit", []string{aggregate + "edit"}, editRules()...)
	add("system:aggregate-to-view", []string{aggregate + "view"}, viewRules()...)
	// Each gathers the rules of those before it.
	gather("view", "view", aggregate+"edit")
	gather("edit", "edit", aggregate+"admin")
	gather("admin", "admin")
	for _, r := range all {
		if r.AggregationRule != nil {
			rules, err := Gather(r.Name, r.AggregationRule.ClusterRoleSelectors, all)
			if err != nil {
				panic("BUG: default roles: " + err.Error())
			}
			r.Rules = rules
		}
	}
	return all
}

// editRules returns the rules of editors beyond those of viewers.
func editRules() []rbacv1.PolicyRule {
	return []rbacv1.PolicyRule{
		rule(readVerbs, "core", "pods/attach pods/proxy pods/exec pods/portforward secrets services/proxy"),
		rule("impersonate", "core", "serviceaccounts"),
		rule(writeVerbs, "core", "pods pods/attach pods/proxy pods/exec pods/portforward"),
		rule("create", "core", "pods/eviction"),
		rule(writeVerbs, "core", "replicationcontrollers replicationcontrollers/scale serviceaccounts services services/proxy persistentvolumeclaims configmaps secrets"),
		rule("create", "core", "serviceaccounts/token"),
		rule(writeVerbs, "core events.k8s.io", "events"),
		rule(writeVerbs, "apps", "statefulsets statefulsets/scale daemonsets deployments deployments/scale deployments/rollback replicasets replicasets/scale"),
		rule(writeVerbs, "autoscaling", "horizontalpodautoscalers"),
		rule(writeVerbs, "batch", "jobs cronjobs"),
		rule(writeVerbs, "extensions", "daemonsets deployments deployments/scale deployments/rollback ingresses replicasets replicasets/scale replicationcontrollers/scale networkpolicies"),
		rule(writeVerbs, "policy", "poddisruptionbudgets"),
		rule(writeVerbs, "networking.k8s.io", "networkpolicies ingresses"),
		rule(readVerbs+" "+writeVerbs, "coordination.k8s.io", "leases"),
		rule(writeVerbs, "resource.k8s.io", "resourceclaims resourceclaimtemplates"),
	}
}

// viewRules returns the rules of viewers.
func viewRules() []rbacv1.PolicyRule {
	return []rbacv1.PolicyRule{
		rule(readVerbs, "core", "pods replicationcontrollers replicationcontrollers/scale serviceaccounts services services/status endpoints persistentvolumeclaims persistentvolumeclaims/status configmaps"),
		rule(readVerbs, "core", "limitranges resourcequotas resourcequotas/status bindings pods/status pods/log replicationcontrollers/status namespaces/status"),
		rule(readVerbs, "core", "namespaces"),
		rule(readVerbs, "core events.k8s.io", "events"),
		rule(readVerbs, "discovery.k8s.io", "endpointslices"),
		rule(readVerbs, "apps", "controllerrevisions statefulsets statefulsets/status statefulsets/scale daemonsets daemonsets/status deployments deployments/status deployments/scale replicasets replicasets/status replicasets/scale"),
		rule(readVerbs, "autoscaling", "horizontalpodautoscalers horizontalpodautoscalers/status"),
		rule(readVerbs, "batch", "jobs jobs/status cronjobs cronjobs/status"),
		rule(readVerbs, "extensions", "daemonsets daemonsets/status deployments deployments/scale deployments/status ingresses ingresses/status replicasets replicasets/scale replicasets/status replicationcontrollers/scale networkpolicies"),
		rule(readVerbs, "policy", "poddisruptionbudgets poddisruptionbudgets/status"),
		rule(readVerbs, "networking.k8s.io", "networkpolicies ingresses ingresses/status"),
		rule(readVerbs, "resource.k8s.io", "resourceclaims resourceclaims/status resourceclaimtemplates"),
	}
}

// clusterRoleBindings returns the default bindings of the roles of this file.
func clusterRoleBindings() []binding {
	return []binding{
		{name: "cluster-admin", subjects: "group=system:masters"},
		{name: "system:monitoring", subjects: "group=system:monitoring"},
		{name: "system:discovery", subjects: "group=system:authenticated"},
		{name: "system:basic-user", subjects: "group=system:authenticated"},
		{name: "system:public-info-viewer", subjects: "group=system:authenticated group=system:unauthenticated"},
		{name: "system:service-account-issuer-discovery", subjects: "group=system:serviceaccounts"},
	}
}
