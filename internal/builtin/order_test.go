package builtin

import (
	"encoding/json"
	"reflect"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/keelson-io/keelson/crd"
	"github.com/keelson-io/keelson/jsondoc"
	"github.com/keelson-io/keelson/kind"
)

// populate sets all fields of v, down to some depth, to values that package encoding/json prints.
func populate(v reflect.Value, depth int) {
	if depth == 0 || !v.CanSet() {
		return
	}
	switch x := v.Addr().Interface().(type) {
	case *resource.Quantity:
		*x = resource.MustParse("1")
		return
	case *intstr.IntOrString:
		*x = intstr.FromInt32(1)
		return
	case *metav1.Time:
		x.Time = time.Unix(1e9, 0).UTC()
		return
	case *metav1.MicroTime:
		x.Time = time.Unix(1e9, 0).UTC()
		return
	case *metav1.FieldsV1:
		x.SetRawString(`{"f:a":{}}`)
		return
	case *runtime.RawExtension:
		x.Raw = []byte(`{"a":1}`)
		return
	case *metav1.TypeMeta:
		return
	}
	switch v.Kind() {
	case reflect.Pointer:
		v.Set(reflect.New(v.Type().Elem()))
		populate(v.Elem(), depth)
	case reflect.Struct:
		for i := range v.NumField() {
			populate(v.Field(i), depth-1)
		}
	case reflect.Slice:
		v.Set(reflect.MakeSlice(v.Type(), 1, 1))
		populate(v.Index(0), depth)
	case reflect.Map:
		elem := reflect.New(v.Type().Elem()).Elem()
		populate(elem, depth)
		v.Set(reflect.MakeMap(v.Type()))
		v.SetMapIndex(reflect.ValueOf("k").Convert(v.Type().Key()), elem)
	case reflect.String:
		v.SetString("s")
	case reflect.Bool:
		v.SetBool(true)
	case reflect.Int32, reflect.Int64, reflect.Int:
		v.SetInt(1)
	case reflect.Uint8:
		v.SetUint('x')
	}
}

// TestObjectsPrintAsGoTypes: the text of an object is that which package encoding/json makes of it
// in its Go type, with members in the same order and null in the same places.
func TestObjectsPrintAsGoTypes(t *testing.T) {
	checked := 0
	for _, k := range All(new(crd.Compiler)) {
		if !k.Behavior.HasGoType() || k.Name == "CustomResourceDefinition" {
			continue
		}
		for _, v := range k.All {
			if v.Kind != k {
				continue
			}
			for depth := 1; depth <= 9; depth += 4 { // the first has no more than kind and name
				obj := v.NewTyped()
				populate(reflect.ValueOf(obj).Elem(), depth)
				obj.GetObjectKind().SetGroupVersionKind(v.Kind.GroupKind().WithVersion(v.Name))
				checkPrinted(t, v, obj)
				checked++
			}
		}
	}
	if checked < 180 {
		t.Errorf("%d objects were printed, want at least 180", checked)
	}
}

// checkPrinted decodes an object of v, prints it, and compares the text with that of its Go type.
func checkPrinted(t *testing.T, v *kind.Version, obj runtime.Object) {
	t.Helper()
	sent, err := json.Marshal(obj)
	if err != nil {
		t.Fatal(err)
	}
	d := jsondoc.Get()
	defer d.Release()
	if _, err := v.Decode(d, sent); err != nil {
		t.Errorf("%s %s: %v", v.APIVersion(), v.Kind.Name, err)
		return
	}
	got := v.AppendJSON(nil, d)
	typed := v.NewTyped()
	if err := json.Unmarshal(got, typed); err != nil {
		t.Fatal(err)
	}
	want, err := json.Marshal(typed)
	if err != nil {
		t.Fatal(err)
	}
	if at := firstDifference(got, want); at >= 0 {
		t.Errorf("%s %s: got …%.120s, want …%.120s", v.APIVersion(), v.Kind.Name, got[max(0, at-60):], want[max(0, at-60):])
	}
}

// firstDifference returns the first index at which two texts differ, -1 if they are equal.
func firstDifference(a, b []byte) int {
	if string(a) == string(b) {
		return -1
	}
	i := 0
	for i < len(a) && i < len(b) && a[i] == b[i] {
		i++
	}
	return i
}
