package structural

import (
	"fmt"
	"reflect"
	"runtime"
	"slices"
	"strings"
	"testing"

	apiextv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"sigs.k8s.io/yaml"
)

// This file tests parsing and the rules of structural schemas, and holds the
// schema of metadata against its Go type.

func props(tb testing.TB, text string) *apiextv1.JSONSchemaProps {
	tb.Helper()
	p := new(apiextv1.JSONSchemaProps)
	if err := yaml.Unmarshal([]byte(text), p); err != nil {
		tb.Fatal(err)
	}
	return p
}

func where() string {
	_, _, line, _ := runtime.Caller(1)
	return fmt.Sprintf("line %d", line)
}

func TestValidate(t *testing.T) {
	for _, row := range []struct {
		at, schema string
		want       []string
	}{
		{where(), `{type: object, properties: {a: {type: string}, b: {x-kubernetes-int-or-string: true}, c: {x-kubernetes-preserve-unknown-fields: true}}}`, nil},
		{where(), `{properties: {a: {}, b: {type: array, items: {}}, c: {type: array}}}`, []string{
			"s.properties[a].type: Required value: must not be empty for specified object fields",
			"s.properties[b].items.type: Required value: must not be empty for specified array items",
			"s.properties[c].items: Required value: must be specified",
			"s.type: Required value: must not be empty at the root",
		}},
		{where(), `{type: array, items: {type: string}, additionalProperties: {type: string}}`, []string{
			"s.additionalProperties: Forbidden: must not be used at the root",
			`s.type: Invalid value: "array": must be object at the root`,
		}},
		{where(), `{type: object, properties: {i: {x-kubernetes-int-or-string: true, anyOf: [{type: integer}, {type: string}]},
			j: {x-kubernetes-int-or-string: true, allOf: [{anyOf: [{type: integer}, {type: string}]}, {pattern: "^a"}]}}}`, nil},
		{where(), `{type: object, properties: {i: {x-kubernetes-int-or-string: true, anyOf: [{type: string}, {type: integer}]}}}`, []string{
			"s.properties[i].anyOf[0].type: Forbidden: must be empty to be structural",
			"s.properties[i].anyOf[1].type: Forbidden: must be empty to be structural",
		}},
		{where(), `{type: object, properties: {i: {x-kubernetes-int-or-string: true, x-kubernetes-preserve-unknown-fields: true, x-kubernetes-embedded-resource: true, type: object}}}`, []string{
			"s.properties[i].x-kubernetes-embedded-resource: Invalid value: true: must be false if x-kubernetes-int-or-string is true",
			"s.properties[i].x-kubernetes-preserve-unknown-fields: Invalid value: true: must be false if x-kubernetes-int-or-string is true",
		}},
		{where(), `{type: object, properties: {e: {x-kubernetes-embedded-resource: true, additionalProperties: true}, f: {type: string, x-kubernetes-embedded-resource: true}}}`, []string{
			"s.properties[e].additionalProperties: Forbidden: must not be used if x-kubernetes-embedded-resource is set",
			"s.properties[e].properties: Required value: must not be empty if x-kubernetes-embedded-resource is true without x-kubernetes-preserve-unknown-fields",
			"s.properties[e].type: Required value: must be object if x-kubernetes-embedded-resource is true",
			"s.properties[f].properties: Required value: must not be empty if x-kubernetes-embedded-resource is true without x-kubernetes-preserve-unknown-fields",
			`s.properties[f].type: Invalid value: "string": must be object if x-kubernetes-embedded-resource is true`,
		}},
		{where(), `{type: object, properties: {kind: {type: integer}, apiVersion: {type: string}, metadata: {type: string}}}`, []string{
			`s.properties[kind].type: Invalid value: "integer": must be string`,
			`s.properties[metadata].type: Invalid value: "string": must be object`,
		}},
		{where(), `{type: object, properties: {metadata: {type: object, properties: {name: {type: string, maxLength: 3}, generateName: {type: string}}}}}`, nil},
		{where(), `{type: object, properties: {metadata: {type: object, properties: {name: {type: string}, labels: {type: object}}}}}`, []string{
			"s.properties[metadata]: Forbidden: must not specify anything other than name and generateName, but metadata is implicitly specified",
		}},
		{where(), `{type: object, properties: {metadata: {type: object, description: x}}}`, []string{
			"s.properties[metadata]: Forbidden: must not specify anything other than name and generateName, but metadata is implicitly specified",
		}},
		{where(), `{type: object, properties: {a: {type: string, pattern: "["}}}`, []string{
			"s.properties[a].pattern: Invalid value: \"[\": must be a valid regular expression, but isn't: error parsing regexp: missing closing ]: `[`",
		}},
		{where(), `{type: object, not: {title: t, description: d, nullable: true, default: 1, additionalProperties: true, x-kubernetes-list-type: set,
			x-kubernetes-list-map-keys: [a], x-kubernetes-map-type: atomic, x-kubernetes-int-or-string: true, x-kubernetes-embedded-resource: true,
			x-kubernetes-preserve-unknown-fields: true, x-kubernetes-validations: [{rule: "true"}], properties: {metadata: {maxProperties: 1}}}, properties: {metadata: {type: object}}}`, []string{
			"s.not.additionalProperties: Forbidden: must be undefined to be structural",
			"s.not.default: Forbidden: must be undefined to be structural",
			"s.not.description: Forbidden: must be empty to be structural",
			"s.not.nullable: Forbidden: must be false to be structural",
			"s.not.properties[metadata]: Forbidden: must not be specified in a nested context",
			"s.not.title: Forbidden: must be empty to be structural",
			"s.not.x-kubernetes-embedded-resource: Forbidden: must be false to be structural",
			"s.not.x-kubernetes-int-or-string: Forbidden: must be false to be structural",
			"s.not.x-kubernetes-list-map-keys: Forbidden: must be empty to be structural",
			"s.not.x-kubernetes-list-type: Forbidden: must be undefined to be structural",
			"s.not.x-kubernetes-map-type: Forbidden: must be undefined to be structural",
			"s.not.x-kubernetes-preserve-unknown-fields: Forbidden: must be false to be structural",
			"s.not.x-kubernetes-validations: Forbidden: must be empty to be structural",
		}},
		{where(), `{type: object, allOf: [{properties: {x: {minimum: 1}}}], anyOf: [{items: {minLength: 1}}]}`, []string{
			"s.items: Required value: because it is defined in s.anyOf[0].items",
			"s.properties[x]: Required value: because it is defined in s.allOf[0].properties[x]",
		}},
		{where(), `{type: object, properties: {spec: {type: object, allOf: [{properties: {x: {minimum: 1}}}]}}}`, nil}, // not the root
	} {
		s, errs := Parse(props(t, row.schema), field.NewPath("s"))
		if errs != nil {
			t.Errorf("%s: %v", row.at, errs)
			continue
		}
		var got []string
		for _, e := range Validate(s, field.NewPath("s")) {
			got = append(got, e.Error())
		}
		if !slices.Equal(got, row.want) {
			t.Errorf("%s: got\n\t%s\nwant\n\t%s", row.at, strings.Join(got, "\n\t"), strings.Join(row.want, "\n\t"))
		}
	}
}

func TestParseRefuses(t *testing.T) {
	for _, row := range []struct{ at, schema, want string }{
		{where(), `{id: x}`, "OpenAPIV3Schema 'id' is not supported"},
		{where(), `{properties: {a: {$schema: x}}}`, "OpenAPIV3Schema 'schema' is not supported"},
		{where(), `{items: {$ref: x}}`, "OpenAPIV3Schema '$ref' is not supported"},
		{where(), `{not: {patternProperties: {a: {}}}}`, "OpenAPIV3Schema 'patternProperties' is not supported"},
		{where(), `{allOf: [{dependencies: {a: [b]}}]}`, "OpenAPIV3Schema 'dependencies' is not supported"},
		{where(), `{additionalProperties: {additionalItems: true}}`, "OpenAPIV3Schema 'additionalItems' is not supported"},
		{where(), `{definitions: {a: {}}}`, "OpenAPIV3Schema 'definitions' is not supported"},
		{where(), `{items: [{}, {}]}`, "OpenAPIV3Schema 'items' must be a schema, but is an array"},
		{where(), `{x-kubernetes-preserve-unknown-fields: false}`, "internal error: 'x-kubernetes-preserve-unknown-fields' must be true or undefined"},
	} {
		s, errs := Parse(props(t, row.schema), field.NewPath("s"))
		if s != nil || len(errs) != 1 || errs[0].Detail != row.want || errs[0].Field != "s" {
			t.Errorf("%s: got %v, want %s", row.at, errs, row.want)
		}
	}
}

func TestParse(t *testing.T) {
	s, errs := Parse(props(t, `{type: object, properties: {b: {type: array, items: {type: string, default: null}, x-kubernetes-list-type: set},
		a: {type: object, additionalProperties: false, default: {x: 1}, maxProperties: 2}, c: {type: string, enum: [a, null], nullable: true}}}`), nil)
	if errs != nil {
		t.Fatal(errs)
	}
	if got := strings.Join(s.Names, " "); got != "a b c" {
		t.Errorf("got names %s", got)
	}
	a, b, c := s.Properties["a"], s.Properties["b"], s.Properties["c"]
	if string(a.Default) != `{"x":1}` || a.AdditionalAllows == nil || *a.AdditionalAllows || a.Additional != nil || *a.Values.MaxProperties != 2 {
		t.Errorf("got a %+v", a)
	}
	if b.ListType != "set" || b.Items.Type != "string" || b.Items.Default != nil || b.Values != nil {
		t.Errorf("got b %+v", b)
	}
	if len(c.Values.Enum) != 2 || string(c.Values.Enum[1]) != "null" || !c.Nullable {
		t.Errorf("got c %+v", c)
	}
}

// TestObjectMeta checks that the schema of metadata has the fields of the Go
// type, of the right kinds.
func TestObjectMeta(t *testing.T) {
	var check func(t *testing.T, path string, s *Schema, typ reflect.Type)
	check = func(t *testing.T, path string, s *Schema, typ reflect.Type) {
		want := map[string]bool{}
		for i := range typ.NumField() {
			f := typ.Field(i)
			name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
			want[name] = true
			p := s.Properties[name]
			if p == nil {
				t.Errorf("%s.%s: missing", path, name)
				continue
			}
			ft := f.Type
			if ft.Kind() == reflect.Pointer {
				ft = ft.Elem()
			}
			switch {
			case ft == reflect.TypeFor[metav1.Time](), ft.Kind() == reflect.String:
				expect(t, path+"."+name, p.Type, "string")
			case ft == reflect.TypeFor[metav1.FieldsV1]():
				expect(t, path+"."+name, fmt.Sprint(p.Type, p.Preserve), "objecttrue")
			case ft.Kind() == reflect.Int64:
				expect(t, path+"."+name, p.Type, "integer")
			case ft.Kind() == reflect.Bool:
				expect(t, path+"."+name, p.Type, "boolean")
			case ft.Kind() == reflect.Map:
				expect(t, path+"."+name, p.Type+" of "+p.Additional.Type, "object of string")
			case ft.Kind() == reflect.Slice && ft.Elem().Kind() == reflect.String:
				expect(t, path+"."+name, p.Type+" of "+p.Items.Type, "array of string")
			case ft.Kind() == reflect.Slice:
				expect(t, path+"."+name, p.Type, "array")
				check(t, path+"."+name, p.Items, ft.Elem())
			default:
				t.Errorf("%s.%s: test does not know %v", path, name, ft)
			}
		}
		for _, name := range s.Names {
			if !want[name] {
				t.Errorf("%s.%s: not in the Go type", path, name)
			}
		}
	}
	check(t, "metadata", ObjectMeta(), reflect.TypeFor[metav1.ObjectMeta]())
	if errs := Validate(&Schema{Type: "object", Properties: map[string]*Schema{"m": ObjectMeta()}, Names: []string{"m"}}, nil); len(errs) > 0 {
		t.Error(errs)
	}
}

func expect(t *testing.T, path, got, want string) {
	t.Helper()
	if got != want {
		t.Errorf("%s: got %s, want %s", path, got, want)
	}
}
