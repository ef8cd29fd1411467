package crd

import (
	"bytes"
	"math"
	"strings"

	"github.com/keelson-io/keelson/internal/fastpath"

	apiextv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"

	"github.com/keelson-io/keelson/jsondoc"
)

// This file decodes the schema of a definition in one pass: encoding/json scans a value below items
// and additionalProperties again for each such level. The reader is a fast path: it accepts only a
// schema that encoding/json would print with the same members and values, and returns false for
// anything else. The caller then uses encoding/json.

// readSchema decodes a schema. exact says that printing it gives the same digits, too; see
// recentSchema.
func readSchema(text []byte) (s *apiextv1.JSONSchemaProps, exact, ok bool) {
	if !fastpath.SchemaReader.On() {
		return nil, false, false
	}
	d := jsondoc.Get()
	defer d.Release()
	d.Reset(nil)
	r := schemaReader{d: d, s: d.Scan(text), src: text, exact: true}
	s = new(apiextv1.JSONSchemaProps)
	if !r.schema(s) || r.s.End() != nil || r.s.Duplicates() {
		return nil, false, false
	}
	return s, r.exact, true
}

// schemaReader decodes a schema. Its methods return false for input that encoding/json must decode.
type schemaReader struct {
	d     *jsondoc.Doc
	s     jsondoc.Scanner
	src   []byte
	exact bool
}

// is reports whether the next value is of a kind.
func (r *schemaReader) is(want jsondoc.Kind) bool {
	kind, err := r.s.Kind()
	return err == nil && kind == want
}

// object reads an object; member reads the value of each member.
func (r *schemaReader) object(member func(name string) bool) bool {
	if !r.is(jsondoc.Object) || r.s.ObjectStart() != nil {
		return false
	}
	for first := true; ; first = false {
		key, more, err := r.s.Key(first)
		if err != nil {
			return false
		}
		if !more {
			return true
		}
		if !member(r.d.Str(key)) {
			return false
		}
	}
}

// array reads an array. Empty ones return false, because encoding/json omits them.
func (r *schemaReader) array(item func() bool) bool {
	if !r.is(jsondoc.Array) || r.s.ArrayStart() != nil {
		return false
	}
	for first := true; ; first = false {
		more, err := r.s.More(first)
		if err != nil {
			return false
		}
		if !more {
			return !first
		}
		if !item() {
			return false
		}
	}
}

// schema reads a schema into s. It reads the most frequent members; restriction and extension read
// the others.
func (r *schemaReader) schema(s *apiextv1.JSONSchemaProps) bool {
	return r.object(func(name string) bool {
		switch name {
		case "description":
			return r.text(&s.Description)
		case "type":
			return r.text(&s.Type)
		case "properties":
			return r.schemas(&s.Properties)
		case "items":
			return r.items(s)
		case "required":
			return r.texts(&s.Required)
		case "default":
			return s.Default == nil && r.json(&s.Default)
		case "enum":
			return s.Enum == nil && r.array(func() bool { return r.enum(s) })
		case "additionalProperties":
			return r.schemaOrBool(&s.AdditionalProperties)
		case "id":
			return r.text(&s.ID)
		case "$schema":
			return r.text((*string)(&s.Schema))
		case "$ref":
			return r.optional(&s.Ref)
		case "format":
			return r.text(&s.Format)
		case "title":
			return r.text(&s.Title)
		case "nullable":
			return r.flag(&s.Nullable)
		case "example":
			return s.Example == nil && r.json(&s.Example)
		case "externalDocs":
			return s.ExternalDocs == nil && r.docs(s)
		}
		return r.restriction(s, name)
	})
}

// restriction reads a member that restricts the values.
func (r *schemaReader) restriction(s *apiextv1.JSONSchemaProps, name string) bool {
	switch name {
	case "maximum":
		return r.number(&s.Maximum)
	case "exclusiveMaximum":
		return r.flag(&s.ExclusiveMaximum)
	case "minimum":
		return r.number(&s.Minimum)
	case "exclusiveMinimum":
		return r.flag(&s.ExclusiveMinimum)
	case "multipleOf":
		return r.number(&s.MultipleOf)
	case "maxLength":
		return r.integer(&s.MaxLength)
	case "minLength":
		return r.integer(&s.MinLength)
	case "maxItems":
		return r.integer(&s.MaxItems)
	case "minItems":
		return r.integer(&s.MinItems)
	case "maxProperties":
		return r.integer(&s.MaxProperties)
	case "minProperties":
		return r.integer(&s.MinProperties)
	case "pattern":
		return r.text(&s.Pattern)
	case "uniqueItems":
		return r.flag(&s.UniqueItems)
	case "allOf":
		return r.list(&s.AllOf)
	case "oneOf":
		return r.list(&s.OneOf)
	case "anyOf":
		return r.list(&s.AnyOf)
	case "not":
		return r.below(&s.Not)
	}
	return r.extension(s, name)
}

// extension reads an extension of Kubernetes, or a member of OpenAPI that definitions must not use.
func (r *schemaReader) extension(s *apiextv1.JSONSchemaProps, name string) bool {
	switch name {
	case "x-kubernetes-validations":
		return s.XValidations == nil && r.array(func() bool { return r.rule(s) })
	case "x-kubernetes-list-type":
		return r.optional(&s.XListType)
	case "x-kubernetes-list-map-keys":
		return r.texts(&s.XListMapKeys)
	case "x-kubernetes-map-type":
		return r.optional(&s.XMapType)
	case "x-kubernetes-int-or-string":
		return r.flag(&s.XIntOrString)
	case "x-kubernetes-preserve-unknown-fields":
		return r.choice(&s.XPreserveUnknownFields)
	case "x-kubernetes-embedded-resource":
		return r.flag(&s.XEmbeddedResource)
	case "patternProperties":
		return r.schemas(&s.PatternProperties)
	case "definitions":
		return r.schemas((*map[string]apiextv1.JSONSchemaProps)(&s.Definitions))
	case "additionalItems":
		return r.schemaOrBool(&s.AdditionalItems)
	}
	return false // including dependencies, which are too rare to be worth a case
}

// text reads a string that is not empty.
func (r *schemaReader) text(to *string) bool {
	return *to == "" && r.string(to) && *to != ""
}

// string reads a string.
func (r *schemaReader) string(to *string) bool {
	if !r.is(jsondoc.String) {
		return false
	}
	n, err := r.s.String()
	if err != nil {
		return false
	}
	*to = common(r.d.Str(n))
	return true
}

// common returns a copy of s. For the most frequent texts it allocates nothing.
func common(s string) string {
	switch s {
	case "string":
		return "string"
	case "object":
		return "object"
	case "integer":
		return "integer"
	case "array":
		return "array"
	case "boolean":
		return "boolean"
	case "int32":
		return "int32"
	case "int64":
		return "int64"
	case "name":
		return "name"
	case "type":
		return "type"
	}
	return strings.Clone(s)
}

// optional reads a string that may be empty.
func (r *schemaReader) optional(to **string) bool {
	if *to != nil {
		return false
	}
	*to = new(string)
	return r.string(*to)
}

// texts reads a list of strings.
func (r *schemaReader) texts(to *[]string) bool {
	return *to == nil && r.array(func() bool {
		var s string
		ok := r.string(&s)
		*to = append(*to, s)
		return ok
	})
}

// flag reads true; encoding/json would omit false.
func (r *schemaReader) flag(to *bool) bool {
	var value *bool
	if *to || !r.choice(&value) {
		return false
	}
	*to = *value
	return *to
}

// choice reads a boolean that may be false.
func (r *schemaReader) choice(to **bool) bool {
	if *to != nil || !r.is(jsondoc.Bool) {
		return false
	}
	n, err := r.s.Bool()
	value := n.Bool()
	*to = &value
	return err == nil
}

// number reads a number that a float64 represents exactly and that is printed with the same digits.
func (r *schemaReader) number(to **float64) bool {
	const exact = 1 << 53
	if *to != nil || !r.is(jsondoc.Int) {
		return false
	}
	from := r.s.Offset()
	n, err := r.s.Number()
	if err != nil {
		return false
	}
	value := n.Float()
	if n.Kind() == jsondoc.Int {
		value = float64(n.Int())
		if n.Int() > exact || n.Int() < -exact || n.Int() == 0 && r.src[from] == '-' {
			return false
		}
	} else if value == math.Trunc(value) {
		return false
	}
	*to = &value
	return true
}

// integer reads an integer.
func (r *schemaReader) integer(to **int64) bool {
	if *to != nil || !r.is(jsondoc.Int) {
		return false
	}
	n, err := r.s.Number()
	if err != nil || n.Kind() != jsondoc.Int {
		return false
	}
	value := n.Int()
	*to = &value
	return true
}

// json reads any value except null.
func (r *schemaReader) json(to **apiextv1.JSON) bool {
	raw, ok := r.raw()
	*to = &apiextv1.JSON{Raw: raw}
	return ok && raw != nil
}

// raw returns the text of the next value, nil for null.
func (r *schemaReader) raw() (raw []byte, ok bool) {
	if _, err := r.s.Kind(); err != nil { // skips space
		return nil, false
	}
	from := r.s.Offset()
	if r.s.Skip() != nil {
		return nil, false
	}
	text := r.src[from:r.s.Offset()]
	if string(text) == "null" {
		return nil, true
	}
	r.exact = r.exact && printsAs(text)
	return bytes.Clone(text), true
}

// printsAs reports whether a document prints a JSON value with the same text.
func printsAs(text []byte) bool {
	d := jsondoc.Get()
	defer d.Release()
	return jsondoc.Parse(d, text) == nil && bytes.Equal(d.Root().AppendJSON(nil), text)
}

// enum reads one value of an enum. It may be null.
func (r *schemaReader) enum(s *apiextv1.JSONSchemaProps) bool {
	raw, ok := r.raw()
	s.Enum = append(s.Enum, apiextv1.JSON{Raw: raw})
	return ok
}

// below reads a single schema.
func (r *schemaReader) below(to **apiextv1.JSONSchemaProps) bool {
	if *to != nil {
		return false
	}
	*to = new(apiextv1.JSONSchemaProps)
	return r.schema(*to)
}

// list reads a list of schemas.
func (r *schemaReader) list(to *[]apiextv1.JSONSchemaProps) bool {
	return *to == nil && r.array(func() bool {
		var s apiextv1.JSONSchemaProps
		ok := r.schema(&s)
		*to = append(*to, s)
		return ok
	})
}

// schemas reads a map of schemas.
func (r *schemaReader) schemas(to *map[string]apiextv1.JSONSchemaProps) bool {
	if *to != nil {
		return false
	}
	all := map[string]apiextv1.JSONSchemaProps{}
	*to = all
	return r.object(func(name string) bool {
		name = common(name)
		if _, twice := all[name]; twice {
			return false
		}
		var s apiextv1.JSONSchemaProps
		ok := r.schema(&s)
		all[name] = s
		return ok
	}) && len(all) > 0
}

// items reads the value of items: a schema, or a list of schemas, which a later check refuses.
func (r *schemaReader) items(s *apiextv1.JSONSchemaProps) bool {
	if s.Items != nil {
		return false
	}
	s.Items = new(apiextv1.JSONSchemaPropsOrArray)
	if r.is(jsondoc.Array) {
		return r.list(&s.Items.JSONSchemas)
	}
	return r.below(&s.Items.Schema)
}

// schemaOrBool reads the value of additionalProperties or additionalItems.
func (r *schemaReader) schemaOrBool(to **apiextv1.JSONSchemaPropsOrBool) bool {
	if *to != nil {
		return false
	}
	*to = new(apiextv1.JSONSchemaPropsOrBool)
	if r.is(jsondoc.Bool) {
		n, err := r.s.Bool()
		(*to).Allows = n.Bool()
		return err == nil
	}
	(*to).Allows = true
	return r.below(&(*to).Schema)
}

// docs reads the value of externalDocs.
func (r *schemaReader) docs(s *apiextv1.JSONSchemaProps) bool {
	s.ExternalDocs = new(apiextv1.ExternalDocumentation)
	return r.object(func(name string) bool {
		switch name {
		case "description":
			return r.text(&s.ExternalDocs.Description)
		case "url":
			return r.text(&s.ExternalDocs.URL)
		}
		return false
	})
}

// rule reads a rule. Its expression is always printed, other members only if they are set.
func (r *schemaReader) rule(s *apiextv1.JSONSchemaProps) bool {
	var rule apiextv1.ValidationRule
	hasRule := false
	ok := r.object(func(name string) bool {
		switch name {
		case "rule":
			ok := !hasRule && r.string(&rule.Rule)
			hasRule = true
			return ok
		case "message":
			return r.text(&rule.Message)
		case "messageExpression":
			return r.text(&rule.MessageExpression)
		case "reason":
			var reason *string
			ok := rule.Reason == nil && r.optional(&reason)
			rule.Reason = (*apiextv1.FieldValueErrorReason)(reason)
			return ok
		case "fieldPath":
			return r.text(&rule.FieldPath)
		case "optionalOldSelf":
			return r.choice(&rule.OptionalOldSelf)
		}
		return false
	})
	s.XValidations = append(s.XValidations, rule)
	return ok && hasRule
}
