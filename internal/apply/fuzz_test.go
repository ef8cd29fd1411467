package apply

import (
	"fmt"
	"testing"

	apiextv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"sigs.k8s.io/yaml"

	"github.com/keelson-io/keelson/jsondoc"
	"github.com/keelson-io/keelson/schema/structural"
)

// This file fuzzes the direct ways against SMD.

const fuzzSchema = `
type: object
properties:
  spec:
    type: object
    properties:
      s: {type: string}
      n: {type: number}
      b: {type: boolean}
      any: {x-kubernetes-int-or-string: true}
      set: {type: array, x-kubernetes-list-type: set, items: {type: string}}
      nums: {type: array, x-kubernetes-list-type: set, items: {type: number}}
      map: {type: array, x-kubernetes-list-type: map, x-kubernetes-list-map-keys: [k, l], items: {type: object, properties: {k: {type: string}, l: {type: integer}, v: {type: string, nullable: true}}}}
      dflt: {type: array, x-kubernetes-list-type: map, x-kubernetes-list-map-keys: [k], items: {type: object, properties: {k: {type: string, default: d}, v: {type: string}}}}
      list: {type: array, items: {type: object, properties: {a: {type: string}}}}
      atom: {type: object, x-kubernetes-map-type: atomic, properties: {a: {type: string}}}
      labels: {type: object, additionalProperties: {type: string}}
      free: {type: object, x-kubernetes-preserve-unknown-fields: true}
  status: {type: object, properties: {p: {type: string}}}
`

func fuzzManager(t testing.TB) *Manager {
	t.Helper()
	var props apiextv1.JSONSchemaProps
	if err := yaml.Unmarshal([]byte(fuzzSchema), &props); err != nil {
		t.Fatal(err)
	}
	s, errs := structural.Parse(&props, nil)
	if len(errs) > 0 {
		t.Fatal(errs)
	}
	m, err := New(Config{Group: "g", Kind: "K", Version: "v", Versions: []Version{{Name: "v", Schema: s, Status: true}}})
	if err != nil {
		t.Fatal(err)
	}
	return m
}

// fuzzObject is an object around a spec; nil if the spec is no JSON.
func fuzzObject(spec string) *jsondoc.Doc {
	d := new(jsondoc.Doc)
	if jsondoc.Parse(d, []byte(`{"apiVersion":"g/v","kind":"K","metadata":{"name":"n","labels":{"a":"b"}},"spec":`+spec+`}`)) != nil {
		return nil
	}
	return d
}

// FuzzDirect: a create, an update by another manager and an apply go the direct
// way and SMD's to the same end.
func FuzzDirect(f *testing.F) {
	for _, spec := range []string{
		`{}`, `null`, `{"s":"a","n":1,"b":true,"any":"x"}`, `{"n":1.0,"any":3}`, `{"set":["a","b"],"nums":[1,2.5]}`, `{"set":["b","a","a"]}`,
		`{"map":[{"k":"a","l":1,"v":null},{"k":"b"}]}`, `{"map":[{"k":"b"},{"k":"a","l":1,"v":"x"}],"dflt":[{"v":"x"},{"k":"e"}]}`,
		`{"list":[{"a":"x"}],"atom":{"a":"y"},"labels":{"x/y":"z","é":"\u2028"}}`, `{"list":[],"atom":{},"labels":{}}`,
		`{"free":{"a":[1,{"b":null}],"c":{"d":{}}}}`, `{"s":1}`, `{"bogus":1}`,
	} {
		for _, next := range []string{`{"s":"b","set":["b"],"map":[{"k":"b","v":"y"}],"labels":{"n":"m"}}`, spec} {
			f.Add(spec, next)
		}
	}
	m := fuzzManager(f)
	f.Fuzz(func(t *testing.T, spec, next string) {
		first := fuzzObject(spec)
		if first == nil || fuzzObject(next) == nil {
			return
		}
		o := Options{Manager: "m", Time: at}
		if d := fuzzObject(spec); m.updateDirect(nil, d, &o) {
			p := fuzzObject(spec)
			m.updatePlain(nil, p, &o)
			equal(t, "create", d, p)
		}
		m.updatePlain(nil, first, &o)
		first.Set(first.NewString("u"), "metadata", "uid")
		for _, manager := range []string{"m", "other"} {
			o.Manager, o.Time = manager, at.AddDate(1, 0, 0)
			for _, o.KnownValid = range []bool{false, fits(m, first)} {
				fuzzUpdate(t, m, first, next, o)
				for _, o.Force = range []bool{false, true} {
					fuzzApply(t, m, first, next, o)
				}
			}
		}
	})
}

func fuzzUpdate(t *testing.T, m *Manager, live *jsondoc.Doc, next string, o Options) {
	if d := fuzzObject(next); m.updateDirect(live, d, &o) {
		p := fuzzObject(next)
		m.updatePlain(live, p, &o)
		equal(t, fmt.Sprintf("update %+v", o), d, p)
	}
}

func fuzzApply(t *testing.T, m *Manager, live *jsondoc.Doc, patch string, o Options) {
	merged := new(jsondoc.Doc)
	out, ok := m.applyDirect(live, fuzzObject(patch), merged, &o)
	if !ok {
		return
	}
	plain, err := m.applyPlain(live, fuzzObject(patch), &o)
	if whole := merged.Root().AppendJSON(nil); err != nil || string(plain) != string(whole) {
		t.Errorf("apply %+v:\ndirect %s\nplain  %s, %v", o, whole, plain, err)
	}
	if merged.Remove("metadata", "managedFields"); string(out) != string(merged.Root().AppendJSON(nil)) {
		t.Errorf("apply %+v:\nprinted %s\nmerged  %s", o, out, merged.Root().AppendJSON(nil))
	}
}

// fits reports whether an object fits its type.
func fits(m *Manager, d *jsondoc.Doc) bool {
	w := newWalker(d)
	defer w.release()
	return w.valid(m.own.root, d.Root())
}

func equal(t *testing.T, what string, direct, plain *jsondoc.Doc) {
	t.Helper()
	if d, p := string(direct.Root().AppendJSON(nil)), string(plain.Root().AppendJSON(nil)); d != p {
		t.Errorf("%s:\ndirect %s\nplain  %s", what, d, p)
	}
}
