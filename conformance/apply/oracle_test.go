// Package apply compares package apply with upstream's managed fields.
package apply

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	apiextv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apiextensions-apiserver/pkg/controller/openapi/builder"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/managedfields"
	"k8s.io/kube-openapi/pkg/validation/spec"
	"sigs.k8s.io/structured-merge-diff/v6/fieldpath"
	"sigs.k8s.io/yaml"

	"github.com/keelson-io/keelson/internal/apply"
	"github.com/keelson-io/keelson/jsondoc"
	"github.com/keelson-io/keelson/schema/structural"
)

// This file sets up both sides for one definition.

const widgets = `
spec:
  group: demo.io
  scope: Namespaced
  names: {plural: widgets, singular: widget, kind: Widget, listKind: WidgetList}
  versions:
  - name: v1
    served: true
    storage: true
    subresources: {status: {}, scale: {specReplicasPath: .spec.replicas, statusReplicasPath: .status.replicas}}
    schema: {openAPIV3Schema: &s
      {type: object, properties: {
        spec: {type: object, properties: {
          color: {type: string}, replicas: {type: integer}, ratio: {type: number}, flag: {type: boolean}, when: {type: string, format: date-time},
          port: {x-kubernetes-int-or-string: true},
          tags: {type: array, x-kubernetes-list-type: set, items: {type: string}},
          nums: {type: array, x-kubernetes-list-type: set, items: {type: integer}},
          plain: {type: array, items: {type: object, properties: {a: {type: string}, b: {type: string}, c: {type: array, x-kubernetes-list-type: set, items: {type: string}}}}},
          items: {type: array, x-kubernetes-list-type: map, x-kubernetes-list-map-keys: [name, proto], items: {type: object, required: [name], properties: {
            name: {type: string}, proto: {type: string, default: tcp}, v: {type: integer}, sub: {type: array, x-kubernetes-list-type: set, items: {type: string}}}}},
          atom: {type: object, x-kubernetes-map-type: atomic, properties: {a: {type: string}, b: {type: string}}},
          free: {type: object, x-kubernetes-preserve-unknown-fields: true},
          half: {type: object, x-kubernetes-preserve-unknown-fields: true, properties: {known: {type: object, properties: {x: {type: string}}}}},
          labels: {type: object, additionalProperties: {type: string}},
          deep: {type: object, additionalProperties: {type: object, properties: {x: {type: integer}, z: {type: integer}}}},
          embedded: {type: object, x-kubernetes-embedded-resource: true, x-kubernetes-preserve-unknown-fields: true, properties: {spec: {type: object, properties: {q: {type: string}}}}},
          nothing: {type: string, nullable: true}}},
        status: {type: object, properties: {replicas: {type: integer}, phase: {type: string},
          conditions: {type: array, x-kubernetes-list-type: map, x-kubernetes-list-map-keys: [type], items: {type: object, required: [type], properties: {type: {type: string}, status: {type: string}}}}}}}}}
  - name: v2
    served: true
    storage: false
    subresources: {status: {}}
    schema: {openAPIV3Schema: *s}
`

// sides are upstream's managers and ours for one version.
type sides struct {
	gvk    schema.GroupVersionKind
	theirs map[string]*managedfields.FieldManager // by subresource
	ours   *apply.Manager
}

type nop struct {
	runtime.ObjectConvertor
}

func (nop) ConvertToVersion(in runtime.Object, target runtime.GroupVersioner) (runtime.Object, error) {
	u := in.(*unstructured.Unstructured)
	gvk, _ := target.KindForGroupVersionKinds([]schema.GroupVersionKind{u.GroupVersionKind()})
	if u.GroupVersionKind() == gvk {
		return in, nil
	}
	// What the server's converter does: a copy that only differs in apiVersion.
	out := u.DeepCopy()
	out.SetAPIVersion(gvk.GroupVersion().String())
	return out, nil
}

type creater struct{}

func (creater) New(gvk schema.GroupVersionKind) (runtime.Object, error) {
	u := &unstructured.Unstructured{}
	u.SetGroupVersionKind(gvk)
	return u, nil
}

type noDefaults struct{}

func (noDefaults) Default(runtime.Object) {}

func crdOf(t testing.TB, text string) *apiextv1.CustomResourceDefinition {
	t.Helper()
	crd := &apiextv1.CustomResourceDefinition{}
	if err := yaml.Unmarshal([]byte(text), crd); err != nil {
		t.Fatal(err)
	}
	return crd
}

func newSides(t testing.TB, crd *apiextv1.CustomResourceDefinition, version string) *sides {
	t.Helper()
	gv := schema.GroupVersion{Group: crd.Spec.Group, Version: version}
	s := &sides{gvk: gv.WithKind(crd.Spec.Names.Kind), theirs: map[string]*managedfields.FieldManager{}}
	models := map[string]*spec.Schema{}
	var versions []apply.Version
	reset := map[fieldpath.APIVersion]*fieldpath.Set{}
	for _, v := range crd.Spec.Versions {
		api, err := builder.BuildOpenAPIV3(crd, v.Name, builder.Options{})
		if err != nil {
			t.Fatal(err)
		}
		for name, m := range api.Components.Schemas {
			models[name] = m
		}
		ours := apply.Version{Name: v.Name, Status: v.Subresources != nil && v.Subresources.Status != nil}
		if v.Schema != nil {
			parsed, errs := structural.Parse(v.Schema.OpenAPIV3Schema, nil)
			if len(errs) > 0 {
				t.Fatal(errs)
			}
			ours.Schema = parsed
		}
		if v.Subresources != nil && v.Subresources.Scale != nil {
			ours.Replicas = v.Subresources.Scale.SpecReplicasPath
		}
		versions = append(versions, ours)
		if ours.Status {
			reset[fieldpath.APIVersion(crd.Spec.Group+"/"+v.Name)] = fieldpath.NewSet(fieldpath.MakePathOrDie("metadata"), fieldpath.MakePathOrDie("spec"))
		}
	}
	types, err := managedfields.NewTypeConverter(models, crd.Spec.PreserveUnknownFields)
	if err != nil {
		t.Fatal(err)
	}
	main := map[fieldpath.APIVersion]*fieldpath.Set{}
	if reset[fieldpath.APIVersion(gv.String())] != nil {
		main[fieldpath.APIVersion(gv.String())] = fieldpath.NewSet(fieldpath.MakePathOrDie("status"))
	}
	for sub, r := range map[string]map[fieldpath.APIVersion]*fieldpath.Set{"": main, "status": reset} {
		s.theirs[sub], err = managedfields.NewDefaultCRDFieldManager(types, nop{}, noDefaults{}, creater{}, s.gvk, gv, sub, fieldpath.NewExcludeFilterSetMap(r))
		if err != nil {
			t.Fatal(err)
		}
	}
	s.ours, err = apply.New(apply.Config{
		Group: crd.Spec.Group, Kind: crd.Spec.Names.Kind, Version: version, Versions: versions,
		PreserveUnknown: crd.Spec.PreserveUnknownFields,
	})
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func parse(t testing.TB, raw []byte) *jsondoc.Doc {
	t.Helper()
	d := new(jsondoc.Doc)
	if err := jsondoc.Parse(d, raw); err != nil {
		t.Fatalf("%s: %v", raw, err)
	}
	return d
}

func toUnstructured(t testing.TB, raw []byte) *unstructured.Unstructured {
	t.Helper()
	u := &unstructured.Unstructured{}
	if err := u.UnmarshalJSON(raw); err != nil {
		t.Fatalf("%s: %v", raw, err)
	}
	return u
}

func marshal(t testing.TB, v any) []byte {
	t.Helper()
	b, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// normal is an object with its managedFields in an order that does not depend
// on times, and no times but whether there are any.
func normal(t testing.TB, raw []byte) string {
	t.Helper()
	u := toUnstructured(t, raw)
	m, _, _ := unstructured.NestedSlice(u.Object, "metadata", "managedFields")
	var lines []string
	for _, e := range m {
		if _, ok := e.(map[string]any)["time"]; ok {
			e.(map[string]any)["time"] = "T"
		}
		lines = append(lines, string(marshal(t, e)))
	}
	slices.Sort(lines)
	unstructured.RemoveNestedField(u.Object, "metadata", "managedFields")
	return string(marshal(t, u.Object)) + "\n" + strings.Join(lines, "\n")
}

// update runs an update through both sides and returns the new object.
func (s *sides) update(t testing.TB, live, next []byte, sub, manager string) []byte {
	t.Helper()
	var liveTheirs runtime.Object
	var liveOurs *jsondoc.Doc
	if live == nil {
		liveTheirs, _ = creater{}.New(s.gvk)
	} else {
		liveTheirs, liveOurs = toUnstructured(t, live), parse(t, live)
	}
	theirs := marshal(t, s.theirs[sub].UpdateNoErrors(liveTheirs, toUnstructured(t, next), manager))
	d := parse(t, next)
	if err := s.ours.Update(liveOurs, d, apply.Options{Manager: manager, Subresource: sub}); err != nil {
		t.Fatal(err)
	}
	ours := d.Root().AppendJSON(nil)
	if a, b := normal(t, theirs), normal(t, ours); a != b {
		t.Fatalf("update by %s of %q\nlive  %s\nnew   %s\ntheirs %s\nours   %s", manager, sub, live, next, a, b)
	}
	return theirs
}

// apply runs an apply patch through both sides and returns the merged object,
// nil after an error.
func (s *sides) apply(t testing.TB, live, patch []byte, sub, manager string, force bool) []byte {
	t.Helper()
	var liveTheirs runtime.Object
	var liveOurs *jsondoc.Doc
	if live == nil {
		liveTheirs, _ = creater{}.New(s.gvk)
	} else {
		liveTheirs, liveOurs = toUnstructured(t, live), parse(t, live)
	}
	out, theirErr := s.theirs[sub].Apply(liveTheirs, toUnstructured(t, patch), manager, force)
	ours, ourErr := s.ours.Apply(liveOurs, patch, apply.Options{Manager: manager, Subresource: sub, Force: force})
	if a, b := errorText(theirErr), errorText(ourErr); a != b {
		t.Fatalf("apply by %s of %q\nlive   %s\npatch  %s\ntheirs %s\nours   %s", manager, sub, live, patch, a, b)
	}
	if theirErr != nil {
		return nil
	}
	theirs := marshal(t, out)
	if a, b := normal(t, theirs), normal(t, ours); a != b {
		t.Fatalf("apply by %s of %q, force %v\nlive   %s\npatch  %s\ntheirs %s\nours   %s", manager, sub, force, live, patch, a, b)
	}
	return theirs
}

// errorText is what clients see of an error; conflicts in an order of their
// own, because upstream's is that of a Go map.
func errorText(err error) string {
	if err == nil {
		return ""
	}
	text := err.Error()
	if s, ok := err.(interface{ Status() metav1.Status }); ok {
		text = describe(s.Status(), text)
	} else if s, ok := statusOf(err); ok {
		text = describe(s, text)
	}
	lines := strings.Split(text, "\n")
	slices.Sort(lines)
	return strings.Join(lines, "\n")
}

func describe(s metav1.Status, text string) string {
	out := fmt.Sprintf("%d %s\n%s", s.Code, s.Reason, text)
	if s.Details != nil {
		for _, c := range s.Details.Causes {
			out += fmt.Sprintf("\ncause %s %s %s", c.Type, c.Field, c.Message)
		}
	}
	return out
}
