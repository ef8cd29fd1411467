package kind

import (
	"encoding/json"
	"reflect"
	"strings"

	"github.com/keelson-io/keelson/jsondoc"
)

// This file prints objects as clients get them. Members of custom resources are sorted by name.
// Those of built-in kinds are in the order of the fields of their Go type, because upstream prints
// the type.

// AppendJSON appends an object in this version as clients get it.
func (v *Version) AppendJSON(b []byte, d *jsondoc.Doc) []byte {
	return d.AppendOrdered(b, d.Root().Node, v.Order())
}

// Order returns the order in which AppendJSON prints members, nil if it is by name.
func (v *Version) Order() *jsondoc.Order {
	b := &v.Kind.Behavior
	if !b.PrintsGoType() {
		return nil
	}
	if o := v.printOrder.Load(); o != nil {
		return o
	}
	t := b.PrintType
	if t == nil && b.GoType != nil {
		t = reflect.TypeOf(b.GoType(v).New())
	}
	if t == nil {
		return nil
	}
	f := &orderFinder{known: map[reflect.Type]*jsondoc.Order{}}
	o := f.of(t)
	v.printOrder.Store(o)
	return o
}

// ItemPrefix returns the start of AppendJSON's text that items of lists lack. Items of
// built-in kinds omit kind and apiVersion, which the list has. It is "" for custom resources, whose
// items have both.
func (v *Version) ItemPrefix() string {
	if !v.Kind.Behavior.PrintsGoType() {
		return ""
	}
	return `{"kind":"` + v.Kind.Name + `","apiVersion":"` + v.APIVersion() + `",`
}

// orderFinder finds the orders of a type and of all types that it refers to.
type orderFinder struct {
	known map[reflect.Type]*jsondoc.Order
}

// of returns the order of a type, nil if it does not print as an object with fixed members.
func (f *orderFinder) of(t reflect.Type) *jsondoc.Order {
	switch t.Kind() {
	case reflect.Pointer, reflect.Slice:
		return f.of(t.Elem())
	case reflect.Map:
		if within := f.of(t.Elem()); within != nil {
			return &jsondoc.Order{Others: within, HasNulls: within.HasNulls}
		}
		return nil
	case reflect.Struct:
	default:
		return nil
	}
	if o, ok := f.known[t]; ok {
		return o
	}
	if reflect.PointerTo(t).Implements(reflect.TypeFor[json.Marshaler]()) {
		// Such as a time, or a schema in place of which there may be a boolean or a list.
		if schema, ok := t.FieldByName("Schema"); ok {
			return f.of(schema.Type)
		}
		return nil
	}
	o := new(jsondoc.Order)
	f.known[t] = o // the type may refer to itself
	f.addFields(o, t)
	return o
}

// addFields adds the fields of a struct, in order.
func (f *orderFinder) addFields(o *jsondoc.Order, t reflect.Type) {
	for i := range t.NumField() {
		field := t.Field(i)
		name, options, _ := strings.Cut(field.Tag.Get("json"), ",")
		switch {
		case name == "-" || !field.IsExported():
		case name == "" && field.Anonymous:
			f.addFields(o, field.Type)
		case name != "":
			kind := field.Type.Kind()
			m := jsondoc.OrderedMember{Name: name, Within: f.of(field.Type)}
			m.EmptyIsNull = (kind == reflect.Slice || kind == reflect.Map) && !strings.Contains(options, "omitempty")
			o.Members = append(o.Members, m)
			o.HasNulls = o.HasNulls || m.EmptyIsNull || m.Within != nil && m.Within.HasNulls
		}
	}
}
