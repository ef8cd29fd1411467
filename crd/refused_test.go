package crd

import (
	"slices"
	"testing"
	"time"

	apiextv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"

	"github.com/keelson-io/keelson/kind"
)

// TestRefusalIsSaidOnce checks that the conditions settle, and that the controllers of earlier releases and of kube-apiserver, which
// look at the names alone, leave them as they are.
func TestRefusalIsSaidOnce(t *testing.T) {
	r := kind.NewRegistry(&kind.Kind{Group: "rbac.authorization.k8s.io", Plural: "roles", StoragePrefix: "roles"})
	crd := &apiextv1.CustomResourceDefinition{}
	crd.Name, crd.Spec.Group = "roles.rbac.authorization.k8s.io", "rbac.authorization.k8s.io"
	crd.Spec.Names = apiextv1.CustomResourceDefinitionNames{Plural: "roles", Singular: "role", Kind: "Role", ListKind: "RoleList"}
	now := time.Unix(1_700_000_000, 0)
	NameConditions(crd, Names{}, now)
	if !HasCondition(crd, apiextv1.Established) {
		t.Fatal("the older release did not establish it")
	}
	refusal := r.Refuses(crd.Name, crd.Spec.Group, crd.Spec.Names.Plural)
	if !SetRefused(crd, refusal, now) || HasCondition(crd, apiextv1.Established) || HasCondition(crd, apiextv1.NamesAccepted) {
		t.Errorf("got %v", crd.Status.Conditions)
	}
	was := slices.Clone(crd.Status.Conditions)
	if SetRefused(crd, refusal, now.Add(time.Hour)) || NameConditions(crd, Names{}, now.Add(time.Hour)) {
		t.Errorf("conditions change again: got %v, want %v", crd.Status.Conditions, was)
	}
}
