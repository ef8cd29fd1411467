package crd

import (
	"bytes"
	"encoding/json"
	"reflect"
	"slices"
	"strings"

	apiextv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
)

// This file prints parts of a definition as they appear in Kubernetes' errors: as JSON of the
// internal Go types, with the names of Go fields and without omitting empty ones.

// schemaFields are the fields of a schema in the order of the internal type.
var schemaFields = []string{
	"ID", "Schema", "Ref", "Description", "Type", "Nullable", "Format", "Title", "Default",
	"Maximum", "ExclusiveMaximum", "Minimum", "ExclusiveMinimum", "MaxLength", "MinLength", "Pattern",
	"MaxItems", "MinItems", "UniqueItems", "MultipleOf", "Enum", "MaxProperties", "MinProperties",
	"Required", "Items", "AllOf", "OneOf", "AnyOf", "Not", "Properties", "AdditionalProperties",
	"PatternProperties", "Dependencies", "AdditionalItems", "Definitions", "ExternalDocs", "Example",
	"XPreserveUnknownFields", "XEmbeddedResource", "XIntOrString", "XListMapKeys", "XListType",
	"XMapType", "XValidations",
}

// internal returns v, a part of a definition, in that form.
func internal(v any) json.RawMessage {
	var b bytes.Buffer
	printInternal(&b, reflect.ValueOf(v))
	return b.Bytes()
}

var (
	schemaType = reflect.TypeFor[apiextv1.JSONSchemaProps]()
	jsonType   = reflect.TypeFor[apiextv1.JSON]()
)

// printInternal prints a value of any type that definitions contain.
func printInternal(b *bytes.Buffer, v reflect.Value) {
	switch {
	case v.Type() == jsonType:
		printJSON(b, v.Interface().(apiextv1.JSON))
	case v.Kind() == reflect.Pointer && v.IsNil(),
		v.Kind() == reflect.Map && v.IsNil(),
		v.Kind() == reflect.Slice && v.IsNil():
		b.WriteString("null")
	case v.Kind() == reflect.Pointer:
		printInternal(b, v.Elem())
	case v.Type() == schemaType:
		printFields(b, v, schemaFields)
	case v.Kind() == reflect.Struct:
		var names []string
		for i := range v.NumField() {
			names = append(names, v.Type().Field(i).Name)
		}
		printFields(b, v, names)
	case v.Kind() == reflect.Map:
		printMap(b, v)
	case v.Kind() == reflect.Slice && v.Type().Elem().Kind() != reflect.Uint8:
		b.WriteByte('[')
		for i := range v.Len() {
			if i > 0 {
				b.WriteByte(',')
			}
			printInternal(b, v.Index(i))
		}
		b.WriteByte(']')
	default:
		text, err := json.Marshal(v.Interface())
		if err != nil {
			panic("BUG: " + err.Error()) // strings, numbers, booleans and bytes only
		}
		b.Write(text)
	}
}

// printFields prints the named fields of a struct.
func printFields(b *bytes.Buffer, v reflect.Value, names []string) {
	b.WriteByte('{')
	for i, name := range names {
		if i > 0 {
			b.WriteByte(',')
		}
		b.WriteString(`"` + name + `":`)
		printInternal(b, v.FieldByName(name))
	}
	b.WriteByte('}')
}

// printMap prints a map with string keys, sorted by key.
func printMap(b *bytes.Buffer, v reflect.Value) {
	keys := v.MapKeys()
	slices.SortFunc(keys, func(a, b reflect.Value) int { return strings.Compare(a.String(), b.String()) })
	b.WriteByte('{')
	for i, key := range keys {
		if i > 0 {
			b.WriteByte(',')
		}
		text, _ := json.Marshal(key.String()) // a string always marshals
		b.Write(text)
		b.WriteByte(':')
		printInternal(b, v.MapIndex(key))
	}
	b.WriteByte('}')
}

// printJSON prints a JSON value with its keys sorted.
func printJSON(b *bytes.Buffer, j apiextv1.JSON) {
	var v any
	if err := json.Unmarshal(j.Raw, &v); err != nil {
		b.WriteString("null")
		return
	}
	text, err := json.Marshal(v)
	if err != nil {
		panic("BUG: " + err.Error()) // it came from JSON
	}
	b.Write(text)
}

// isZeroField reports whether the field with that Go name has its zero value.
func isZeroField(s *apiextv1.JSONSchemaProps, name string) bool {
	v := reflect.ValueOf(s).Elem().FieldByName(name)
	if j, ok := v.Interface().(*apiextv1.JSON); ok {
		return !isSet(j)
	}
	return v.IsZero()
}

// isSet reports whether there is a value other than null.
func isSet(j *apiextv1.JSON) bool {
	return j != nil && len(j.Raw) > 0 && string(j.Raw) != "null"
}
