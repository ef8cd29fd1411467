package node

import (
	"context"
	"testing"

	"github.com/keelson-io/keelson/authz"
	"github.com/keelson-io/keelson/internal/authn"
	"github.com/keelson-io/keelson/internal/authz/feed"
)

// This file asks for nodes, and for those who would be one.

func TestNodes(t *testing.T) {
	n1 := &authn.User{Name: "system:node:n1", Groups: []string{Group}}
	g := NewGraph(nil)
	if err := g.Change(KindPod, []feed.Object{{Namespace: "ns", Name: "mine", JSON: []byte(`{"metadata":{"namespace":"ns","name":"mine"},"spec":{"nodeName":"n1","serviceAccountName":"mine","volumes":[{"name":"v","secret":{"secretName":"mine"}},{"name":"w","configMap":{"name":"mine"}}]}}`)}}); err != nil {
		t.Fatal(err)
	}
	const none = "no relationship found between node 'n1' and this object"
	for _, row := range []struct {
		u      *authn.User
		a      authz.Attributes
		want   bool
		reason string
	}{
		{&authn.User{Name: "system:node:n1"}, authz.Attributes{Verb: "get", Resource: "nodes", Name: "n1"}, false, ""},
		{&authn.User{Name: "ann", Groups: []string{Group}}, authz.Attributes{Verb: "get", Resource: "nodes", Name: "ann"}, false, ""},
		{&authn.User{Name: "system:node:", Groups: []string{Group}}, authz.Attributes{Verb: "get", Resource: "nodes"}, false, `unknown node for user "system:node:"`},
		{n1, authz.Attributes{Verb: "get", Resource: "nodes", Name: "n1"}, true, ""},
		{n1, authz.Attributes{Verb: "get", Resource: "nodes", Name: "n2"}, false, "node 'n1' cannot read 'n2', only its own Node object"},
		{n1, authz.Attributes{Verb: "list", Resource: "nodes"}, false, "node 'n1' cannot read all nodes, only its own Node object"},
		{n1, authz.Attributes{Verb: "delete", Resource: "nodes", Name: "n1"}, false, ""},
		{n1, authz.Attributes{Verb: "get", Resource: "secrets", Namespace: "ns", Name: "mine"}, true, ""},
		{n1, authz.Attributes{Verb: "get", Resource: "secrets", Namespace: "ns", Name: "other"}, false, none},
		{n1, authz.Attributes{Verb: "list", Resource: "secrets", Namespace: "ns"}, false, "No Object name found"},
		{n1, authz.Attributes{Verb: "get", Resource: "secrets", Name: "mine"}, false, "can only read namespaced object of this type"},
		{n1, authz.Attributes{Verb: "update", Resource: "configmaps", Namespace: "ns", Name: "mine"}, false, "can only read resources of this type"},
		{n1, authz.Attributes{Verb: "create", Resource: "serviceaccounts", Subresource: "token", Namespace: "ns", Name: "mine"}, true, ""},
		{n1, authz.Attributes{Verb: "create", Resource: "serviceaccounts", Namespace: "ns", Name: "mine"}, false, "can only create token subresource of serviceaccount"},
		{n1, authz.Attributes{Verb: "update", Group: "coordination.k8s.io", Resource: "leases", Namespace: "kube-node-lease", Name: "n1"}, true, ""},
		{n1, authz.Attributes{Verb: "update", Group: "coordination.k8s.io", Resource: "leases", Namespace: "kube-node-lease", Name: "n2"}, false, "can only access node lease with the same name as the requesting node"},
		{n1, authz.Attributes{Verb: "update", Group: "coordination.k8s.io", Resource: "leases", Namespace: "default", Name: "n1"}, false, `can only access leases in the "kube-node-lease" system namespace`},
		{n1, authz.Attributes{Verb: "list", Resource: "pods", FieldSelector: "spec.nodeName=n1"}, true, ""},
		{n1, authz.Attributes{Verb: "list", Resource: "pods", FieldSelector: "spec.nodeName!=n1"}, false, "can only list/watch pods with spec.nodeName field selector"},
		{n1, authz.Attributes{Verb: "list", Resource: "services"}, true, ""},
		{n1, authz.Attributes{Verb: "list", Group: "core", Resource: "services"}, false, ""},
		{n1, authz.Attributes{Verb: "list", Group: "demo.io", Resource: "widgets"}, false, ""},
	} {
		row.a.User, row.a.ResourceRequest = row.u, true
		r := (&Authorizer{Graph: g}).Authorize(context.Background(), &row.a)
		if (r.Decision == authz.Allow) != row.want || r.Decision == authz.Deny || r.Reason != row.reason || r.Err != nil {
			t.Errorf("%s: %+v: got %+v", row.u.Name, row.a, r)
		}
	}
	a := &authz.Attributes{User: n1, ResourceRequest: true, Verb: "get", Resource: "secrets", Namespace: "ns", Name: "mine"}
	if r := (&Authorizer{}).Authorize(context.Background(), a); r.Decision != authz.NoOpinion || r.Reason != none {
		t.Errorf("without a graph: got %+v", r)
	}
	if r := (&Authorizer{}).RulesFor(context.Background(), n1, ""); !r.Incomplete || r.Err == nil {
		t.Errorf("rules of a node: got %+v", r)
	}
	if r := (&Authorizer{}).RulesFor(context.Background(), &authn.User{Name: "ann"}, ""); r.Incomplete || r.Err != nil {
		t.Errorf("rules of somebody else: got %+v", r)
	}
}
