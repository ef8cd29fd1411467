package describe

import (
	"encoding/json"
	"reflect"
	"strings"

	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
)

// This file prints values in errors as upstream does. Upstream prints its internal types, which
// have no JSON names: the members have the names of the Go fields, all of them are printed, and
// those without a value are null.

// goNamed is a value of an API type that prints like this. Types with a MarshalJSON of their own,
// and those of package meta, print as usual.
type goNamed struct{ value any }

// InGoNames returns a value that errors print with Go's field names.
func InGoNames(value any) any { return goNamed{value} }

// MarshalJSON encodes the value.
func (g goNamed) MarshalJSON() ([]byte, error) { return appendGo(nil, reflect.ValueOf(g.value)) }

// printsItself reports whether values of a type print as usual.
func printsItself(t reflect.Type) bool {
	switch t {
	case reflect.TypeFor[resource.Quantity](), reflect.TypeFor[intstr.IntOrString](), reflect.TypeFor[metav1.Time](), reflect.TypeFor[metav1.MicroTime](), reflect.TypeFor[[]byte]():
		return true
	}
	return t.Kind() == reflect.Struct && !strings.HasPrefix(t.PkgPath(), "k8s.io/api/")
}

// appendGo appends the JSON of a value.
func appendGo(b []byte, v reflect.Value) ([]byte, error) {
	if !v.IsValid() {
		return append(b, "null"...), nil
	}
	k := v.Kind()
	nilable := k == reflect.Pointer || k == reflect.Interface || k == reflect.Slice || k == reflect.Map
	switch {
	case nilable && v.IsNil():
		return append(b, "null"...), nil
	case printsItself(v.Type()):
	case k == reflect.Pointer || k == reflect.Interface:
		return appendGo(b, v.Elem())
	case k == reflect.Struct:
		b, err := appendFields(append(b, '{'), v)
		return append(b, '}'), err
	case k == reflect.Slice:
		b = append(b, '[')
		for i := range v.Len() {
			if i > 0 {
				b = append(b, ',')
			}
			var err error
			if b, err = appendGo(b, v.Index(i)); err != nil {
				return nil, err
			}
		}
		return append(b, ']'), nil
	}
	text, err := json.Marshal(v.Interface())
	return append(b, text...), err
}

// appendFields appends the fields of a struct, and those of embedded structs.
func appendFields(b []byte, v reflect.Value) ([]byte, error) {
	var err error
	for i := range v.NumField() {
		f := v.Type().Field(i)
		if f.Anonymous && f.Type.Kind() == reflect.Struct && printsItself(f.Type) {
			text, err := json.Marshal(v.Field(i).Interface())
			if err != nil {
				return nil, err
			}
			if inner := text[1 : len(text)-1]; len(inner) > 0 {
				if b[len(b)-1] != '{' {
					b = append(b, ',')
				}
				b = append(b, inner...)
			}
			continue
		}
		if f.Anonymous && f.Type.Kind() == reflect.Struct {
			if b, err = appendFields(b, v.Field(i)); err != nil {
				return nil, err
			}
			continue
		}
		if b[len(b)-1] != '{' {
			b = append(b, ',')
		}
		b = append(append(append(b, '"'), f.Name...), `":`...)
		if b, err = appendGo(b, v.Field(i)); err != nil {
			return nil, err
		}
	}
	return b, nil
}
