package apply

import (
	"fmt"
	"math/rand"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/managedfields"
	"sigs.k8s.io/structured-merge-diff/v6/fieldpath"

	"github.com/keelson-io/keelson/internal/apply"
)

// This file runs writes that random sequences seldom make.

func widgetOf(spec string) []byte {
	return []byte(`{"apiVersion":"demo.io/v1","kind":"Widget","metadata":{"name":"w","namespace":"ns"},"spec":` + spec + `}`)
}

func TestMoreThanTenUpdatersBecomeAncient(t *testing.T) {
	s := newSides(t, crdOf(t, widgets), "v1")
	live := withUID(t, s.update(t, nil, widgetOf(`{"color":"a","labels":{}}`), "", "first"))
	for i := range 25 {
		next := clone(t, live)
		spec := next["spec"].(map[string]any)
		spec["labels"].(map[string]any)[fmt.Sprintf("k%d", i)] = "v"
		live = s.update(t, live, marshal(t, next), "", fmt.Sprintf("m%d", i))
	}
	if !strings.Contains(string(live), "ancient-changes") {
		t.Errorf("nobody is ancient: %s", live)
	}
}

// Ledger: conflict-order.
func TestErrorsOfApplyPatches(t *testing.T) {
	s := newSides(t, crdOf(t, widgets), "v1")
	live := withUID(t, s.apply(t, nil, widgetOf(`{"color":"a","replicas":1,"tags":["a"],"items":[{"name":"n1","v":1}]}`), "", "m1", false))
	live = s.update(t, live, marshal(t, func() any {
		o := clone(t, live)
		o["spec"].(map[string]any)["color"] = "b"
		return o
	}()), "", "m2")
	for _, spec := range []string{
		`{"bogus":1}`, `{"color":1}`, `{"color":{"a":1}}`, `{"replicas":"x"}`, `{"flag":1}`, `{"when":{}}`, `{"tags":"a"}`, `{"tags":["a","a"]}`,
		`{"tags":[null]}`, `{"plain":[{"c":["s","s"]}]}`, `{"plain":[{"c":["s","t"]},{"c":["s"]}]}`, `{"plain":[{"c":[` + strings.Repeat(`"s",`, 20) + `"t"]}]}`, `{"tags":[["a"]]}`, `{"items":[{"v":1}]}`, `{"items":[null]}`, `{"items":["x"]}`, `{"items":[{"name":"a"},{"name":"a"}]}`,
		`{"items":[{"name":"a","proto":"tcp"},{"name":"a"}]}`, `{"embedded":{"metadata":{"bogus":1}}}`, `[]`, `"x"`,
		`{"color":"z"}`, `{"color":"z","replicas":2,"items":[{"name":"n1","v":2},{"name":"n2"}]}`, `{"tags":["b"]}`, `{}`, `null`,
	} {
		for _, manager := range []string{"m1", "m2", "m3", "kubectl"} {
			for _, force := range []bool{false, true} {
				s.apply(t, live, widgetOf(spec), "", manager, force)
				s.apply(t, nil, widgetOf(spec), "", manager, force)
			}
		}
	}
	for _, patch := range []string{
		`{"apiVersion":"demo.io/v2","kind":"Widget","metadata":{"name":"w"}}`,
		`{"apiVersion":"demo.io/v1","kind":"Other","metadata":{"name":"w"}}`,
		`{"apiVersion":"demo.io/v1","kind":"Widget","metadata":{"name":"w","managedFields":[]}}`,
		`{"apiVersion":"demo.io/v1","kind":"Widget","metadata":{"name":"w","bogus":1}}`,
		`{"apiVersion":"demo.io/v1","kind":"Widget"}`,
	} {
		s.apply(t, live, []byte(patch), "", "m", false)
	}
}

// TestKubectlTakesOverFromClientSideApply: fields that client-side apply set
// last change hands without a conflict, and its record is kept up to date.
func TestKubectlTakesOverFromClientSideApply(t *testing.T) {
	s := newSides(t, crdOf(t, widgets), "v1")
	object := func(spec, last string) []byte {
		return []byte(`{"apiVersion":"demo.io/v1","kind":"Widget","metadata":{"name":"w","namespace":"ns","annotations":{"kubectl.kubernetes.io/last-applied-configuration":` + string(marshal(t, last)) + `}},"spec":` + spec + `}`)
	}
	last := `{"apiVersion":"demo.io/v1","kind":"Widget","metadata":{"annotations":{},"name":"w","namespace":"ns"},"spec":{"color":"a","replicas":1}}`
	for _, spec := range []string{`{"color":"a","replicas":1}`, `{"color":"a","replicas":5}`} {
		live := withUID(t, s.update(t, nil, object(spec, last), "", "kubectl-client-side-apply"))
		for _, next := range []string{`{"color":"b","replicas":1}`, `{"color":"b","replicas":9}`, `{"color":"a"}`, `{}`} {
			for _, manager := range []string{"kubectl", "other"} {
				for _, force := range []bool{false, true} {
					s.apply(t, live, widgetOf(next), "", manager, force)
				}
			}
		}
	}
}

// scaleOf is a Scale of a widget.
func scaleOf(replicas string, entries []metav1.ManagedFieldsEntry) map[string]any {
	spec := map[string]any{}
	if replicas != "0" { // which a Scale does not say
		spec["replicas"] = replicas
	}
	return map[string]any{
		"apiVersion": "autoscaling/v1", "kind": "Scale",
		"metadata": map[string]any{"name": "w", "namespace": "ns", "uid": "u", "managedFields": entries},
		"spec":     spec,
	}
}

// TestScaleTakesReplicas compares with upstream's mapping between a parent's
// and a Scale's entries, around an update of a Scale as upstream tracks it.
func TestScaleTakesReplicas(t *testing.T) {
	s := newSides(t, crdOf(t, widgets), "v1")
	scaleGVK := schema.GroupVersionKind{Group: "autoscaling", Version: "v1", Kind: "Scale"}
	scales, err := managedfields.NewDefaultCRDFieldManager(managedfields.NewDeducedTypeConverter(), nop{}, noDefaults{}, creater{}, scaleGVK, s.gvk.GroupVersion(), "scale", nil)
	if err != nil {
		t.Fatal(err)
	}
	mappings := managedfields.ResourcePathMappings{"demo.io/v1": fieldpath.MakePathOrDie("spec", "replicas"), "demo.io/v2": nil}
	g := gen{rand.New(rand.NewSource(1))}
	for range 60 {
		live := withUID(t, s.update(t, nil, widgetOf(fmt.Sprintf(`{"replicas":%d,"color":"a"}`, g.Intn(2))), "", fmt.Sprint(g.one("m1", "m2"))))
		if g.Intn(2) == 0 {
			live = s.apply(t, live, widgetOf(`{"replicas":1}`), "", "m2", true)
		}
		for range 3 {
			manager := fmt.Sprint(g.one("m1", "m2", "m3"))
			next := clone(t, live)
			next["spec"].(map[string]any)["replicas"] = int64(g.Intn(3))
			was := toUnstructured(t, live)
			handler := managedfields.NewScaleHandler(was.GetManagedFields(), s.gvk.GroupVersion(), mappings)
			entries, err := handler.ToSubresource()
			if err != nil {
				t.Fatal(err)
			}
			before := toUnstructured(t, marshal(t, scaleOf(fmt.Sprint(was.Object["spec"].(map[string]any)["replicas"]), entries)))
			after := toUnstructured(t, marshal(t, scaleOf(fmt.Sprint(next["spec"].(map[string]any)["replicas"]), entries)))
			after = toUnstructured(t, marshal(t, scales.UpdateNoErrors(before, after, manager)))
			parent, err := handler.ToParent(after.GetManagedFields())
			if err != nil {
				t.Fatal(err)
			}
			theirs := toUnstructured(t, marshal(t, next))
			theirs.SetManagedFields(parent)

			d := parse(t, marshal(t, next))
			if err := s.ours.UpdateScale(parse(t, live), d, apply.Options{Manager: manager}); err != nil {
				t.Fatal(err)
			}
			ours := d.Root().AppendJSON(nil)
			if a, b := normal(t, marshal(t, theirs)), normal(t, ours); a != b {
				t.Fatalf("scale by %s\nlive   %s\nnew    %s\ntheirs %s\nours   %s", manager, live, marshal(t, next), a, b)
			}
			live = marshal(t, theirs)
		}
	}
}
