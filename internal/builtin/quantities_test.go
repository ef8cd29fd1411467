package builtin

import (
	"encoding/json"
	"reflect"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/keelson-io/keelson/jsondoc"
	"github.com/keelson-io/keelson/kind"
)

// This file tests that quantities are bounded wherever a kind has them.

// long is a quantity beyond the bound that Go types can still parse.
const long = "1e1005"

// hasLong reports whether a Go value holds the quantity long.
func hasLong(v reflect.Value) bool {
	switch v.Kind() {
	case reflect.Pointer:
		return !v.IsNil() && hasLong(v.Elem())
	case reflect.Slice:
		for i := range v.Len() {
			if hasLong(v.Index(i)) {
				return true
			}
		}
	case reflect.Map:
		for m := v.MapRange(); m.Next(); {
			if hasLong(m.Value()) {
				return true
			}
		}
	case reflect.Struct:
		if q, ok := v.Interface().(resource.Quantity); ok {
			return q.String() == long
		}
		for i := range v.NumField() {
			if v.Type().Field(i).IsExported() && hasLong(v.Field(i)) {
				return true
			}
		}
	}
	return false
}

// leaves calls fn with a text for each string in an example that can be read as a quantity, in which that string is long.
func leaves(root any, fn func(text []byte)) {
	var walk func(v any, set func(any))
	walk = func(v any, set func(any)) {
		switch v := v.(type) {
		case map[string]any:
			for name, member := range v {
				walk(member, func(x any) { v[name] = x })
			}
		case []any:
			for i := range v {
				walk(v[i], func(x any) { v[i] = x })
			}
		case string:
			if _, err := resource.ParseQuantity(v); err != nil {
				return
			}
			set(long)
			text, _ := json.Marshal(root)
			set(v)
			fn(text)
		}
	}
	walk(root, nil)
}

// Each string of an example that may be a quantity is replaced. What Go types read as a quantity is refused, and nothing else is. Decode of a kind refuses
// it, too.
func TestQuantitiesOfAllKinds(t *testing.T) {
	dir, found := examples(t), 0
	for _, v := range own() {
		var root any
		if err := json.Unmarshal(example(t, dir, v, "json"), &root); err != nil {
			t.Fatal(err)
		}
		leaves(root, func(text []byte) {
			obj := typed(t, v, []byte(`{}`))
			is := json.Unmarshal(text, obj) == nil && hasLong(reflect.ValueOf(obj))
			err := kind.UnmarshalStored(text, typed(t, v, []byte(`{}`)))
			refused := err != nil && strings.Contains(err.Error(), "want at most 1000 digits")
			if is {
				found++
				if _, err := v.Decode(new(jsondoc.Doc), text); err == nil {
					t.Errorf("%s %s: got no error of Decode: %s", v.APIVersion(), v.Kind.Name, text)
				}
			}
			if is != refused {
				t.Errorf("%s %s: got %v, want that it is refused: %v: %s", v.APIVersion(), v.Kind.Name, err, is, text)
			}
		})
	}
	if found < 50 {
		t.Errorf("found %d quantities in the examples, want at least 50", found)
	}
}
