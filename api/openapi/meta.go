package openapi

import (
	"encoding/json"
	"fmt"
	"reflect"
	"strings"

	autoscalingv1 "k8s.io/api/autoscaling/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/kube-openapi/pkg/validation/spec"
)

// This file makes the schemas of the Go types that kinds and operations refer
// to: of their fields and the descriptions that the types carry.

// documented is a type with descriptions.
type documented interface{ SwaggerDoc() map[string]string }

// goTypes are the types, by the names of their schemas.
var goTypes = map[string]documented{
	metaPrefix + "ObjectMeta":         metav1.ObjectMeta{},
	metaPrefix + "ListMeta":           metav1.ListMeta{},
	metaPrefix + "OwnerReference":     metav1.OwnerReference{},
	metaPrefix + "ManagedFieldsEntry": metav1.ManagedFieldsEntry{},
	metaPrefix + "ShardInfo":          metav1.ShardInfo{},
	metaPrefix + "Status":             metav1.Status{},
	metaPrefix + "StatusDetails":      metav1.StatusDetails{},
	metaPrefix + "StatusCause":        metav1.StatusCause{},
	metaPrefix + "DeleteOptions":      metav1.DeleteOptions{},
	metaPrefix + "Preconditions":      metav1.Preconditions{},
	scalePrefix + "Scale":             autoscalingv1.Scale{},
	scalePrefix + "ScaleSpec":         autoscalingv1.ScaleSpec{},
	scalePrefix + "ScaleStatus":       autoscalingv1.ScaleStatus{},
}

// leaves are the schemas that no Go type describes.
var leaves = map[string]spec.Schema{
	metaPrefix + "Time": {SchemaProps: spec.SchemaProps{
		Type: spec.StringOrArray{"string"}, Format: "date-time",
		Description: "Time is a date and time as RFC 3339 writes it.",
	}},
	metaPrefix + "FieldsV1": {SchemaProps: spec.SchemaProps{
		Type:        spec.StringOrArray{"object"},
		Description: metav1.FieldsV1{}.SwaggerDoc()[""],
	}},
	metaPrefix + "Patch": {SchemaProps: spec.SchemaProps{
		Type:        spec.StringOrArray{"object"},
		Description: metav1.Patch{}.SwaggerDoc()[""],
	}},
}

// fieldExtensions are how fields merge, which Go types do not say.
var fieldExtensions = map[string]spec.Extensions{
	"ObjectMeta.finalizers": {"x-kubernetes-list-type": "set", "x-kubernetes-patch-strategy": "merge"},
	"ObjectMeta.ownerReferences": {
		"x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": []any{"uid"},
		"x-kubernetes-patch-strategy": "merge", "x-kubernetes-patch-merge-key": "uid",
	},
	"ObjectMeta.managedFields": {"x-kubernetes-list-type": "atomic"},
	"StatusDetails.causes":     {"x-kubernetes-list-type": "atomic"},
	"DeleteOptions.dryRun":     {"x-kubernetes-list-type": "atomic"},
}

// sharedSchemas are the schemas of all these types.
func sharedSchemas(v2 bool) (map[string]json.RawMessage, error) {
	c := converter{v2}
	all := make(map[string]*spec.Schema, len(goTypes)+len(leaves))
	for name, t := range goTypes {
		all[name] = c.goSchema(t)
	}
	for name, s := range leaves {
		all[name] = &s
	}
	owner := all[metaPrefix+"OwnerReference"]
	owner.AddExtension("x-kubernetes-map-type", "atomic")
	all[metaPrefix+"Status"].AddExtension(extGVK, []any{gvk{"", "Status", "v1"}})
	all[metaPrefix+"DeleteOptions"].AddExtension(extGVK, []any{gvk{"", "DeleteOptions", "v1"}})
	all[scalePrefix+"Scale"].AddExtension(extGVK, []any{gvk{"autoscaling", "Scale", "v1"}})
	return encodeAll(all)
}

func encodeAll(all map[string]*spec.Schema) (map[string]json.RawMessage, error) {
	out := make(map[string]json.RawMessage, len(all))
	for name, s := range all {
		text, err := json.Marshal(s)
		if err != nil {
			return nil, fmt.Errorf("schema %s: %w", name, err)
		}
		out[name] = text
	}
	return out, nil
}

// goSchema is the schema of a struct.
func (c converter) goSchema(t documented) *spec.Schema {
	docs := t.SwaggerDoc()
	r := reflect.TypeOf(t)
	out := new(spec.Schema).Typed("object", "").WithDescription(docs[""])
	c.addFields(out, r, r.Name(), docs)
	return out
}

func (c converter) addFields(out *spec.Schema, r reflect.Type, owner string, docs map[string]string) {
	for i := range r.NumField() {
		f := r.Field(i)
		name, flags, _ := strings.Cut(f.Tag.Get("json"), ",")
		if f.Anonymous && name == "" {
			if f.Type == reflect.TypeFor[metav1.TypeMeta]() {
				c.addFields(out, f.Type, owner, typeDocs)
			}
			continue
		}
		if name == "" || name == "-" {
			continue
		}
		s := c.goField(f.Type, docs[name])
		for key, v := range fieldExtensions[owner+"."+name] {
			s.AddExtension(key, v)
		}
		if !strings.Contains(flags, "omitempty") {
			out.Required = append(out.Required, name)
		}
		out.SetProperty(name, s)
	}
}

// goField is the schema of a field.
func (c converter) goField(t reflect.Type, description string) spec.Schema {
	if t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	var s *spec.Schema
	switch t.Kind() {
	case reflect.Bool:
		s = spec.BooleanProperty()
		s.Format = ""
	case reflect.Int32:
		s = spec.Int32Property()
	case reflect.Int64:
		s = spec.Int64Property()
	case reflect.Slice:
		item := c.goField(t.Elem(), "")
		s = spec.ArrayProperty(&item)
	case reflect.Map:
		item := c.goField(t.Elem(), "")
		s = spec.MapProperty(&item)
	case reflect.Struct:
		return described(nameOfType(t), description, c.v2)
	default:
		s = spec.StringProperty()
	}
	return *s.WithDescription(description)
}

func nameOfType(t reflect.Type) string {
	if strings.HasSuffix(t.PkgPath(), "autoscaling/v1") {
		return scalePrefix + t.Name()
	}
	return metaPrefix + t.Name()
}
