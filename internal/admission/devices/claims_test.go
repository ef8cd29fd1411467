package devices

import (
	"context"
	"slices"
	"strings"
	"testing"

	"github.com/keelson-io/keelson/authz"
	"github.com/keelson-io/keelson/internal/admission"
	"github.com/keelson-io/keelson/internal/authn"
	"github.com/keelson-io/keelson/internal/meta"
	"github.com/keelson-io/keelson/jsondoc"
	"github.com/keelson-io/keelson/kind"
)

// namespaces is a host with the namespaces plain and, with the label for admin access, admin.
type namespaces struct{ admission.Namespaces }

func (namespaces) Namespace(_ context.Context, name string) (*meta.View, error) {
	if name == "admin" {
		return &meta.View{Labels: meta.Labels{{Key: "resource.kubernetes.io/admin-access", Value: "true"}}}, nil
	}
	return new(meta.View), nil
}

// permissions allows what a list says, as "verb subresource namespace/name".
func permissions(allowed []string) authz.Authorizer {
	return authz.Func(func(_ context.Context, a *authz.Attributes) authz.Result {
		if a.Resource == "resourceclaims" && slices.Contains(allowed, a.Verb+" "+a.Subresource+" "+a.Namespace+"/"+a.Name) {
			return authz.Result{Decision: authz.Allow}
		}
		return authz.Result{Reason: "no rule"}
	})
}

// TestClaims holds which parts of a claim take which permissions, with upstream's texts.
func TestClaims(t *testing.T) {
	const (
		onNode    = `"nodeSelector":{"nodeSelectorTerms":[{"matchFields":[{"key":"metadata.name","operator":"In","values":["n1"]}]}]}`
		results   = `"devices":{"results":[{"request":"r","driver":"a.io","pool":"p","device":"d"}]}`
		allocated = `{"status":{"allocation":{` + results + `,` + onNode + `}}}`
		reported  = `{"status":{"allocation":{` + results + `,` + onNode + `},"devices":[{"driver":"a.io","pool":"p","device":"d"}]}}`
		granted   = `{"status":{"allocation":{"devices":{"results":[{"request":"r","driver":"a.io","pool":"p","device":"d","adminAccess":true}]}}}}`
		forAdmins = `{"spec":{"devices":{"requests":[{"name":"a"},{"name":"b","exactly":{"adminAccess":true}}]}}}`
		needLabel = "Forbidden: admin access to devices requires the `resource.kubernetes.io/admin-access: true` label on the containing namespace"
	)
	driver := &authn.User{Name: "system:serviceaccount:kube-system:driver", Extra: map[string][]string{authn.NodeName: {"n1"}}}
	elsewhere := &authn.User{Name: driver.Name, Extra: map[string][]string{authn.NodeName: {"n2"}}}
	jane := &authn.User{Name: "jane"}
	for _, row := range []struct {
		what      string
		user      *authn.User
		namespace string
		old, next string // no old object: a create
		patch     bool
		allowed   []string
		want      string
	}{
		{"a claim", jane, "plain", "", `{"spec":{"devices":{"requests":[{"name":"a","exactly":{}}]}}}`, false, nil, ""},
		{"admin access", jane, "plain", "", forAdmins, false, nil, "spec.devices.requests[1].adminAccess: " + needLabel},
		{"admin access where it is allowed", jane, "admin", "", forAdmins, false, nil, ""},
		{"allocate", jane, "plain", `{}`, allocated, false, nil,
			`status.allocation: Forbidden: changing status.allocation or status.reservedFor requires resource="resourceclaims/binding", verb="update" permission: resourceclaims.resource.k8s.io is forbidden: User "jane" cannot update resource "resourceclaims/binding" in API group "resource.k8s.io" at the cluster scope: no rule`},
		{"allocate with permission", jane, "plain", `{}`, allocated, false, []string{"update binding /"}, ""},
		{"allocate by a patch", jane, "plain", `{}`, allocated, true, []string{"update binding /"}, `verb="patch" permission`},
		{"reserve", jane, "plain", allocated, strings.Replace(allocated, `"status":{`, `"status":{"reservedFor":[{"resource":"pods","name":"p","uid":"u"}],`, 1), false, nil, "resourceclaims/binding"},
		{"report", jane, "plain", allocated, reported, false, []string{"update binding /", "associated-node:update driver plain/a.io"},
			`status.devices: Forbidden: changing status.devices requires resource="resourceclaims/driver", verb="[arbitrary-node:update]" permission: resourceclaims.resource.k8s.io "a.io" is forbidden: User "jane" cannot arbitrary-node:update resource "resourceclaims/driver" in API group "resource.k8s.io" in the namespace "plain": no rule`},
		{"report for all nodes", jane, "plain", allocated, reported, false, []string{"arbitrary-node:update driver plain/a.io"}, ""},
		{"report of the driver on the node", driver, "plain", allocated, reported, false, []string{"associated-node:update driver plain/a.io"}, ""},
		{"report of the driver elsewhere", elsewhere, "plain", allocated, reported, false, []string{"associated-node:update driver plain/a.io"}, `verb="[arbitrary-node:update]"`},
		{"take a report away", jane, "plain", reported, allocated, false, nil, "resourceclaims/driver"},
		{"the same report", jane, "plain", reported, reported, false, nil, ""},
		{"free the devices", jane, "plain", reported, `{}`, false, []string{"update binding /"}, ""},
		{"grant admin access", jane, "plain", `{}`, granted, false, []string{"update binding /"}, "status.allocation.devices.results[0].adminAccess: " + needLabel},
		{"grant it where it is allowed", jane, "admin", `{}`, granted, false, []string{"update binding /"}, ""},
	} {
		parse := func(text string) *jsondoc.Doc {
			d := new(jsondoc.Doc)
			if err := jsondoc.Parse(d, []byte(text)); err != nil {
				t.Fatal(err)
			}
			return d
		}
		k := &kind.Kind{Group: Resource.Group, Plural: Resource.Resource, Name: "ResourceClaim", Namespaced: true}
		k.SetBehavior(kind.Behavior{})
		r := &admission.Request{Operation: admission.Create, Version: &kind.Version{Kind: k, Name: "v1"}, Namespace: row.namespace, Name: "c", User: row.user,
			New: parse(row.next), Write: &meta.WriteOptions{Patch: row.patch}}
		if row.old != "" {
			r.Operation, r.Subresource, r.Old = admission.Update, "status", parse(row.old)
		}
		err := Claims(permissions(row.allowed), namespaces{}).Mutate(t.Context(), r)
		got := ""
		if err != nil {
			got = err.Error()
		}
		if (got == "") != (row.want == "") || !strings.Contains(got, row.want) {
			t.Errorf("%s: got %q, want %q", row.what, got, row.want)
		}
	}
}
