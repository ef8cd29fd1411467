// Package openapi compares the OpenAPI documents with upstream's.
package openapi

import (
	"encoding/json"
	"maps"
	"net/http/httptest"
	"reflect"
	"slices"
	"strings"
	"testing"

	apiextv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apiextensions-apiserver/pkg/controller/openapi/builder"
	"k8s.io/kube-openapi/pkg/handler"
	"sigs.k8s.io/yaml"

	"github.com/keelson-io/keelson/internal/openapi"
	"github.com/keelson-io/keelson/internal/testcrds"
	"github.com/keelson-io/keelson/kind"
	"github.com/keelson-io/keelson/schema/structural"
)

// This file compares the schemas and operations of real definitions.

func definitions(t *testing.T) []*apiextv1.CustomResourceDefinition {
	t.Helper()
	var out []*apiextv1.CustomResourceDefinition
	for _, f := range testcrds.Families() {
		docs, err := testcrds.CRDs(f)
		if err != nil {
			t.Skipf("definitions are not to be had: %v", err)
		}
		for _, d := range docs {
			crd := &apiextv1.CustomResourceDefinition{}
			if err := yaml.Unmarshal(d.YAML, crd); err != nil {
				t.Fatal(err)
			}
			out = append(out, crd)
		}
	}
	return out
}

// kindOf is a definition as a kind, as far as documents need it.
func kindOf(t *testing.T, crd *apiextv1.CustomResourceDefinition) *kind.Kind {
	t.Helper()
	n := crd.Spec.Names
	k := &kind.Kind{
		Group: crd.Spec.Group, Plural: n.Plural, Singular: n.Singular, Name: n.Kind, ListKind: n.ListKind,
		Namespaced: crd.Spec.Scope == apiextv1.NamespaceScoped, Established: true,
	}
	for i := range crd.Spec.Versions {
		v := &crd.Spec.Versions[i]
		kv := &kind.Version{Kind: k, Name: v.Name, Served: v.Served, Structural: kind.Fixed(nil)}
		if v.Schema != nil {
			s, errs := structural.Parse(v.Schema.OpenAPIV3Schema, nil)
			if len(errs) > 0 {
				t.Fatal(errs)
			}
			kv.Structural = kind.Fixed(s)
		}
		if v.Subresources != nil {
			kv.Status = v.Subresources.Status != nil
			if v.Subresources.Scale != nil {
				kv.Scale = &kind.Scale{SpecReplicas: v.Subresources.Scale.SpecReplicasPath}
			}
		}
		for _, f := range v.SelectableFields {
			kv.SelectableFields = append(kv.SelectableFields, kind.Selectable{JSONPath: f.JSONPath, Label: strings.TrimPrefix(f.JSONPath, ".")})
		}
		k.All = append(k.All, kv)
		if v.Served {
			k.Versions = append(k.Versions, kv)
		}
		if v.Storage {
			k.Storage = kv
		}
	}
	return k
}

func tree(t *testing.T, v any) map[string]any {
	t.Helper()
	text, ok := v.([]byte)
	if !ok {
		var err error
		if text, err = json.Marshal(v); err != nil {
			t.Fatal(err)
		}
	}
	var out map[string]any
	if err := json.Unmarshal(text, &out); err != nil {
		t.Fatal(err)
	}
	return out
}

func get(t *testing.T, h *openapi.Handler, path string) map[string]any {
	t.Helper()
	w := httptest.NewRecorder()
	h.ServeHTTP(w, httptest.NewRequest("GET", path, nil))
	if w.Code != 200 {
		t.Fatalf("%s: status %d: %s", path, w.Code, w.Body)
	}
	return tree(t, w.Body.Bytes())
}

// at follows names into a tree.
func at(v map[string]any, names ...string) map[string]any {
	for _, n := range names {
		v, _ = v[n].(map[string]any)
	}
	return v
}

func TestSchemasAndOperationsEqualUpstream(t *testing.T) {
	for _, crd := range definitions(t) {
		k := kindOf(t, crd)
		r := new(kind.Registry)
		r.Put(k)
		h := openapi.New(r.Load)
		second := get(t, h, "/openapi/v2")
		for _, v := range k.Versions {
			name := strings.Join(reversed(crd.Spec.Group), ".") + "." + v.Name + "."
			theirs, err := builder.BuildOpenAPIV3(crd, v.Name, builder.Options{IncludeSelectableFields: true})
			if err != nil {
				t.Fatal(err)
			}
			ours := get(t, h, "/openapi/v3/apis/"+k.Group+"/"+v.Name)
			want := tree(t, theirs)
			for _, s := range []string{k.Name, k.ListKind} {
				same(t, crd.Name+" v3 "+s, at(ours, "components", "schemas", name+s), at(want, "components", "schemas", name+s))
			}
			operations(t, crd.Name+" v3", at(ours, "paths"), at(want, "paths"))

			v2, err := builder.BuildOpenAPIV2(crd, v.Name, builder.Options{V2: true, IncludeSelectableFields: true})
			if err != nil {
				t.Fatal(err)
			}
			v2.Definitions = handler.PruneDefaults(v2.Definitions) // as the aggregator does
			want = tree(t, v2)
			for _, s := range []string{k.Name, k.ListKind} {
				same(t, crd.Name+" v2 "+s, at(second, "definitions", name+s), at(want, "definitions", name+s))
			}
		}
	}
}

func reversed(group string) []string {
	labels := strings.Split(group, ".")
	slices.Reverse(labels)
	return labels
}

// same compares two trees and says where they first differ.
func same(t *testing.T, what string, ours, theirs any) {
	t.Helper()
	if reflect.DeepEqual(ours, theirs) {
		return
	}
	path, a, b := differ("", ours, theirs)
	x, _ := json.Marshal(a)
	y, _ := json.Marshal(b)
	t.Errorf("%s%s:\nours   %.400s\ntheirs %.400s", what, path, x, y)
}

func differ(path string, a, b any) (string, any, any) {
	x, isMap := a.(map[string]any)
	y, both := b.(map[string]any)
	if !isMap || !both {
		return path, a, b
	}
	for _, name := range slices.Sorted(maps.Keys(x)) {
		if !reflect.DeepEqual(x[name], y[name]) {
			return differ(path+"."+name, x[name], y[name])
		}
	}
	return path, a, b
}

// operations compares what operations are called, do and take.
func operations(t *testing.T, what string, ours, theirs map[string]any) {
	t.Helper()
	if a, b := slices.Sorted(maps.Keys(ours)), slices.Sorted(maps.Keys(theirs)); !slices.Equal(a, b) {
		t.Errorf("%s: paths\nours   %q\ntheirs %q", what, a, b)
		return
	}
	for path := range theirs {
		for _, method := range []string{"get", "put", "post", "patch", "delete"} {
			a, b := at(ours, path, method), at(theirs, path, method)
			if (a == nil) != (b == nil) {
				t.Errorf("%s: %s %s: ours is there: %v, theirs: %v", what, method, path, a != nil, b != nil)
			}
			if a == nil || b == nil {
				continue
			}
			for _, field := range []string{"operationId", "tags", "description", "x-kubernetes-action", "x-kubernetes-group-version-kind"} {
				same(t, what+" "+method+" "+path+" "+field, a[field], b[field])
			}
			same(t, what+" "+method+" "+path+" responses", keys(a["responses"]), keys(b["responses"]))
			same(t, what+" "+method+" "+path+" parameters", names(at(ours, path), a), names(at(theirs, path), b))
		}
	}
}

func keys(v any) []string {
	m, _ := v.(map[string]any)
	return slices.Sorted(maps.Keys(m))
}

// names are the parameters of an operation, wherever they are declared.
func names(holders ...map[string]any) []string {
	var out []string
	for _, h := range holders {
		list, _ := h["parameters"].([]any)
		for _, p := range list {
			m, _ := p.(map[string]any)
			name, _ := m["name"].(string)
			out = append(out, name)
		}
	}
	slices.Sort(out)
	return out
}
