package core

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/keelson-io/keelson/jsondoc"
	"github.com/keelson-io/keelson/schema"
)

func TestNamespace(t *testing.T) {
	v := Namespaces().Storage
	decode := func(text string) *jsondoc.Doc {
		t.Helper()
		d := new(jsondoc.Doc)
		if _, err := v.Decode(d, []byte(text)); err != nil {
			t.Fatal(err)
		}
		return d
	}
	d := decode(`{"apiVersion":"v1","kind":"Namespace","metadata":{"name":"n"},"status":{"phase":"x"},"junk":1}`)
	v.PrepareCreate(d)
	want := `{"apiVersion":"v1","kind":"Namespace","metadata":{"labels":{"kubernetes.io/metadata.name":"n"},"name":"n"},"spec":{"finalizers":["kubernetes"]},"status":{"phase":"Active"}}`
	if got := string(d.Root().AppendJSON(nil)); got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
	if errs := v.Validate(context.Background(), d, nil, schema.Whole).Errors; len(errs) > 0 {
		t.Error(errs)
	}
	raw, err := v.Encode(d, nil)
	if err != nil {
		t.Fatal(err)
	}
	view, err := v.Render(raw, 3)
	if err != nil || strings.Contains(string(view.JSON), "generation") {
		t.Errorf("got %s, error %v", view.JSON, err)
	}
	if !v.Kind.Behavior.Delete(d, "2026-01-01T00:00:00Z") || d.Root().At("status", "phase").Text() != "Terminating" || v.Kind.Behavior.Delete(d, "x") {
		t.Errorf("deleted: got %s", d.Root().AppendJSON(nil))
	}
	old := decode(want)
	d = decode(strings.Replace(want, `["kubernetes"]`, `[]`, 1))
	v.PrepareUpdate(d, old, schema.Finalize)
	if d.Root().At("spec", "finalizers").Len() != 0 {
		t.Errorf("finalize: got %s", d.Root().AppendJSON(nil))
	}
	v.PrepareUpdate(d, old, schema.Whole)
	if d.Root().At("spec", "finalizers").Len() != 1 {
		t.Errorf("update: got %s", d.Root().AppendJSON(nil))
	}
	for _, status := range []string{``, `,"status":{}`, `,"status":{"phase":""}`} { // clients send these to the status
		d = decode(`{"apiVersion":"v1","kind":"Namespace","metadata":{"name":"n","resourceVersion":"3"}` + status + `}`)
		v.PrepareUpdate(d, old, schema.Status)
		if errs := v.Validate(context.Background(), d, old, schema.Status).Errors; len(errs) > 0 || d.Root().At("status", "phase").Text() != "Active" {
			t.Errorf("status update with %q: got %s, errors %v", status, d.Root().AppendJSON(nil), errs)
		}
	}
	d = decode(`{"apiVersion":"v1","kind":"Namespace","metadata":{"name":"N.x"}}`)
	if errs := v.Validate(context.Background(), d, nil, schema.Whole).Errors; len(errs) == 0 {
		t.Error("namespace name with a dot is valid")
	}
}

// TestNamespaceTypes holds that values of wrong types are refused with upstream's texts, and not dropped.
func TestNamespaceTypes(t *testing.T) {
	v := Namespaces().Storage
	for _, row := range []struct{ text, want string }{
		{`{"spec":"x"}`, "json: cannot unmarshal string into Go struct field Namespace.spec of type v1.NamespaceSpec"},
		{`{"spec":{"finalizers":[5]}}`, "json: cannot unmarshal number into Go struct field NamespaceSpec.spec.finalizers of type v1.FinalizerName"},
		{`{"status":{"conditions":"x"}}`, "json: cannot unmarshal string into Go struct field NamespaceStatus.status.conditions of type []v1.NamespaceCondition"},
		{`{"metadata":{"name":5}}`, "json: cannot unmarshal number into Go struct field ObjectMeta.metadata.name of type string"},
		{`{"spec":null,"junk":1}`, "<nil>"},
	} {
		_, err := v.Decode(new(jsondoc.Doc), []byte(row.text))
		if got := fmt.Sprint(err); got != row.want {
			t.Errorf("%s: got %s, want %s", row.text, got, row.want)
		}
	}
}
