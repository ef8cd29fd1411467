package structural

import (
	"reflect"
	"runtime"
	"testing"

	apiextv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
)

// This file tests that equal schemas are shared, and no others.

func TestShared(t *testing.T) {
	const text = `{type: object, properties: {
		a: {type: object, description: d, properties: {x: {type: string, enum: [a], maxLength: 3}}},
		b: {type: object, description: d, properties: {x: {type: string, enum: [a], maxLength: 3}}},
		c: {type: object, description: d, properties: {x: {type: string, enum: [a], maxLength: 4}}}}}`
	var table Nodes
	first, _ := table.Parse(props(t, text), nil)
	again, _ := table.Parse(props(t, text), nil)
	if first != again || first.Properties["a"] != first.Properties["b"] || first.Properties["a"] == first.Properties["c"] {
		t.Error("equal schemas are not shared, or different ones are")
	}
	if other, _ := Parse(props(t, text), nil); other == first {
		t.Error("two tables share a schema")
	}
}

// TestDigest changes every field of a node, one at a time: each must count.
func TestDigest(t *testing.T) {
	seen := map[digest]string{}
	note := func(name string, s *Schema) {
		t.Helper()
		if other, ok := seen[s.digest()]; ok {
			t.Errorf("%s does not differ from %s", name, other)
		}
		seen[s.digest()] = name
	}
	note("nothing", &Schema{})
	note("no values", &Schema{Values: &Values{}})
	for _, f := range reflect.VisibleFields(reflect.TypeFor[Schema]()) {
		if f.Name == "sum" || f.Name == "Properties" || f.Name == "Values" {
			continue
		}
		s := &Schema{}
		fill(t, reflect.ValueOf(s).Elem().FieldByIndex(f.Index), f.Name)
		note(f.Name, s)
	}
	allows := false
	note("additionalProperties: false", &Schema{AdditionalAllows: &allows})
	note("property", &Schema{Names: []string{"x", "y"}, Properties: map[string]*Schema{"x": {sum: digest{1}}, "y": {}}})
	note("other property", &Schema{Names: []string{"x", "y"}, Properties: map[string]*Schema{"y": {sum: digest{1}}, "x": {}}})
	note("no enum", &Schema{Values: &Values{Enum: [][]byte{}}})
	for _, f := range reflect.VisibleFields(reflect.TypeFor[Values]()) {
		v := &Values{}
		fill(t, reflect.ValueOf(v).Elem().FieldByIndex(f.Index), f.Name)
		note("Values."+f.Name, &Schema{Values: v})
	}
	for _, f := range reflect.VisibleFields(reflect.TypeFor[Nested]()) {
		if f.Name == "Values" || len(f.Index) > 1 || f.Name == "Properties" {
			continue
		}
		n := &Nested{}
		fill(t, reflect.ValueOf(n).Elem().FieldByIndex(f.Index), f.Name)
		if f.Name == "Names" {
			n.Properties = map[string]*Nested{"x": {Format: "y"}}
		}
		note("Nested."+f.Name, &Schema{Values: &Values{OneOf: []*Nested{{}, n}}})
	}
}

// fill sets a field to something that is not zero.
func fill(t *testing.T, v reflect.Value, name string) {
	t.Helper()
	switch value := v.Addr().Interface().(type) {
	case *string:
		*value = name
	case *bool:
		*value = true
	case *[]string:
		*value = []string{"x"}
	case *[]byte:
		*value = []byte("1")
	case *[][]byte:
		*value = [][]byte{[]byte("1")}
	case **bool:
		*value = new(bool)
		**value = true
	case **int64:
		*value = new(int64)
	case **float64:
		*value = new(float64)
	case **Schema:
		*value = &Schema{sum: digest{9}}
	case **Nested:
		*value = &Nested{Format: name}
	case *[]*Nested:
		*value = []*Nested{{Format: name}}
	case *[]apiextv1.ValidationRule:
		*value = []apiextv1.ValidationRule{{Rule: name}}
	case **apiextv1.ExternalDocumentation:
		*value = &apiextv1.ExternalDocumentation{URL: name}
	default:
		t.Fatalf("field %s has a new type", name)
	}
}

// TestForgotten holds that the table does not keep what nobody uses.
func TestForgotten(t *testing.T) {
	var own Nodes
	for i := range 5 * minSweep {
		own.intern(&Schema{MapType: string(rune('a' + i%26)), Title: string(rune(i))})
		if i%minSweep == 0 {
			runtime.GC()
		}
	}
	runtime.GC()
	own.sweep = 0
	kept := own.intern(&Schema{Title: "last"})
	if len(own.nodes) > 10 {
		t.Errorf("got %d nodes, want those in use", len(own.nodes))
	}
	runtime.KeepAlive(kept)
}
