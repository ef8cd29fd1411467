package services

import (
	"context"
	"testing"

	"github.com/keelson-io/keelson/internal/admission"
	"github.com/keelson-io/keelson/internal/admission/lookup"
	"github.com/keelson-io/keelson/internal/testapi"
	"github.com/keelson-io/keelson/internal/testkit"
)

// TestDefaultClass holds that only a new Ingress that names no class gets the default class.
func TestDefaultClass(t *testing.T) {
	class := func(name, isDefault string) string {
		return `{"apiVersion":"networking.k8s.io/v1","kind":"IngressClass","metadata":{"name":"` + name + `","annotations":{"ingressclass.kubernetes.io/is-default-class":"` + isDefault + `"}},"spec":{"controller":"a.io/b"}}`
	}
	for _, row := range []struct {
		at       testkit.Position
		classes  []string
		ingress  string
		want     string // the class
		isUpdate bool
	}{
		{testkit.Here(), nil, `{"spec":{}}`, "", false},
		{testkit.Here(), []string{class("a", "false")}, `{"spec":{}}`, "", false},
		{testkit.Here(), []string{class("a", "false"), class("b", "true")}, `{"spec":{}}`, "b", false},
		{testkit.Here(), []string{class("b", "true")}, `{"spec":{"ingressClassName":"own"}}`, "own", false},
		{testkit.Here(), []string{class("b", "true")}, `{"metadata":{"annotations":{"kubernetes.io/ingress.class":"own"}},"spec":{}}`, "", false},
		{testkit.Here(), []string{class("b", "true")}, `{"spec":{}}`, "", true},
	} {
		api := testapi.New(t)
		for _, text := range row.classes {
			api.Must("POST", "/apis/networking.k8s.io/v1/ingressclasses", text)
		}
		step := DefaultClass(lookup.Source{Kinds: api.Kinds.Load, Cache: api.Cache})
		old := ""
		if row.isUpdate {
			old = row.ingress
		}
		r := api.Request(api.Kind(Ingresses.Group, Ingresses.Resource), "default", row.ingress, old)
		if err := api.Cache.Resource("ingressclasses").Fresh(t.Context()); err != nil {
			t.Fatal(err)
		}
		if err := step(t.Context(), r); err != nil {
			t.Errorf("%s: %v", row.at, err)
		}
		if got := r.New.Root().At("spec", "ingressClassName").Text(); got != row.want {
			t.Errorf("%s: got %q, want %q", row.at, got, row.want)
		}
	}
}

// TestExternalIPs holds that external addresses may be kept and removed, but not added.
func TestExternalIPs(t *testing.T) {
	api := testapi.New(t)
	const none, one, other = `{"spec":{}}`, `{"spec":{"externalIPs":["192.0.2.1"]}}`, `{"spec":{"externalIPs":["192.0.2.1","192.0.2.2"]}}`
	for _, row := range []struct {
		at          testkit.Position
		text, old   string
		subresource string
		refused     bool
	}{
		{testkit.Here(), none, "", "", false},
		{testkit.Here(), one, "", "", true},
		{testkit.Here(), one, "", "status", false},
		{testkit.Here(), one, one, "", false},
		{testkit.Here(), none, one, "", false},
		{testkit.Here(), one, none, "", true},
		{testkit.Here(), other, one, "", true},
		{testkit.Here(), one, other, "", false},
	} {
		r := api.Request(api.Kind("", "services"), "default", row.text, row.old)
		r.Subresource = row.subresource
		if err := DenyExternalIPs()(context.Background(), r); (err != nil) != row.refused {
			t.Errorf("%s: got %v, want refused: %t", row.at, err, row.refused)
		}
	}
	r := api.Request(api.Kind("", "services"), "default", one, "")
	r.Operation, r.New = admission.Delete, nil
	if err := DenyExternalIPs()(context.Background(), r); err != nil {
		t.Errorf("a delete is refused: %v", err)
	}
}
