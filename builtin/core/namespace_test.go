package core

import (
	"context"
	"strings"
	"testing"

	"github.com/keelson-io/keelson/jsondoc"
	"github.com/keelson-io/keelson/kind"
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
	v.PrepareUpdate(d, old, kind.Finalize)
	if d.Root().At("spec", "finalizers").Len() != 0 {
		t.Errorf("finalize: got %s", d.Root().AppendJSON(nil))
	}
	v.PrepareUpdate(d, old, schema.Whole)
	if d.Root().At("spec", "finalizers").Len() != 1 {
		t.Errorf("update: got %s", d.Root().AppendJSON(nil))
	}
	d = decode(`{"apiVersion":"v1","kind":"Namespace","metadata":{"name":"N.x"}}`)
	if errs := v.Validate(context.Background(), d, nil, schema.Whole).Errors; len(errs) == 0 {
		t.Error("namespace name with a dot is valid")
	}
}
