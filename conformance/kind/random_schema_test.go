package kind

import (
	"encoding/json"
	"maps"
	"slices"

	apiextv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
)

// This file makes the schemas of random definitions.

var propertyNames = []string{"a", "b", "c", "d", "e", "name", "type", "items", "x-y", "ü", "metadata", "kind", "apiVersion", "status", "spec", "namespace"}

func (g *maker) root() *apiextv1.JSONSchemaProps {
	s := g.object(0)
	if g.one(3) {
		s.Properties["metadata"] = maybe(g, 3, apiextv1.JSONSchemaProps{Type: "object"}, g.metadata(), g.schema(2))
	}
	if g.one(4) {
		s.Properties["kind"] = maybe(g, 4, apiextv1.JSONSchemaProps{Type: "string"}, g.schema(3))
		s.Properties["apiVersion"] = maybe(g, 4, apiextv1.JSONSchemaProps{Type: "string"}, g.schema(3))
	}
	if g.one(4) {
		s.Properties["spec"] = g.schema(1)
		s.Properties["status"] = g.schema(1)
	}
	g.decorate(s, 0)
	return s
}

func (g *maker) metadata() apiextv1.JSONSchemaProps {
	m := apiextv1.JSONSchemaProps{Type: "object", Properties: map[string]apiextv1.JSONSchemaProps{"name": {Type: "string", MaxLength: new(int64(20))}}}
	if g.one(2) {
		name := m.Properties["name"]
		name.XValidations = apiextv1.ValidationRules{{Rule: "self.startsWith('a')"}}
		m.Properties["name"] = name
	}
	if g.one(2) {
		m.Properties[pick(g, "generateName", "labels", "namespace")] = g.schema(3)
	}
	return m
}

// object is an object with properties.
func (g *maker) object(depth int) *apiextv1.JSONSchemaProps {
	s := &apiextv1.JSONSchemaProps{Type: "object", Properties: map[string]apiextv1.JSONSchemaProps{}}
	for range 1 + g.r.IntN(4) {
		name := propertyNames[g.r.IntN(len(propertyNames))]
		if depth == 0 && (name == "metadata" || name == "kind" || name == "apiVersion") {
			continue
		}
		s.Properties[name] = g.schema(depth + 1)
	}
	return s
}

// schema is a schema that is structural unless something spoils it.
func (g *maker) schema(depth int) apiextv1.JSONSchemaProps {
	var s *apiextv1.JSONSchemaProps
	switch n := g.r.IntN(14); {
	case n < 3 && depth < 4:
		s = g.object(depth)
	case n < 6 && depth < 4:
		s = g.array(depth)
	case n < 7 && depth < 4:
		s = &apiextv1.JSONSchemaProps{Type: "object", AdditionalProperties: &apiextv1.JSONSchemaPropsOrBool{Allows: true, Schema: new(g.schema(depth + 1))}}
		if g.one(2) {
			s.MaxProperties = new(int64(g.r.IntN(200)))
		}
	case n < 8:
		s = &apiextv1.JSONSchemaProps{XIntOrString: true}
		if g.one(2) {
			s.AnyOf = []apiextv1.JSONSchemaProps{{Type: "integer"}, {Type: "string"}}
		} else if g.one(3) {
			s.AllOf = []apiextv1.JSONSchemaProps{{AnyOf: []apiextv1.JSONSchemaProps{{Type: "integer"}, {Type: "string"}}}, g.junction(depth)}
		}
	case n < 9:
		s = &apiextv1.JSONSchemaProps{XPreserveUnknownFields: new(true), Type: maybe(g, 3, "object", "")}
		if s.Type != "" && g.one(2) {
			s.XEmbeddedResource = true
			if g.one(2) {
				s.Properties = g.object(depth).Properties
			}
		}
	default:
		s = &apiextv1.JSONSchemaProps{Type: pick(g, "string", "string", "string", "integer", "boolean", "number")}
	}
	g.decorate(s, depth)
	return *s
}

func (g *maker) array(depth int) *apiextv1.JSONSchemaProps {
	item := g.schema(depth + 1)
	s := &apiextv1.JSONSchemaProps{Type: "array", Items: &apiextv1.JSONSchemaPropsOrArray{Schema: &item}}
	if g.one(2) {
		s.MaxItems = new(int64(g.r.IntN(100)))
	}
	switch g.r.IntN(6) {
	case 0:
		s.XListType = new("atomic")
	case 1:
		s.XListType = new("set")
	case 2:
		s.XListType = new("map")
		s.XListMapKeys = maybe(g, 8, []string{"name"}, nil, []string{"name", "name"}, []string{"nope"}, []string{"name", "type"})
		if !g.mistake(6) {
			s.Items.Schema = g.object(depth + 1)
			s.Items.Schema.Properties["name"] = apiextv1.JSONSchemaProps{Type: maybe(g, 8, "string", "object", "integer", "array"), Nullable: g.mistake(12)}
			s.Items.Schema.Required = maybe(g, 6, []string{"name"}, nil)
		}
	}
	return s
}

// decorate adds keywords, most of which fit.
func (g *maker) decorate(s *apiextv1.JSONSchemaProps, depth int) {
	if s.Type == "string" {
		if g.one(2) {
			s.MaxLength = new(int64(g.r.IntN(1000)))
		}
		if g.one(5) {
			s.Enum = []apiextv1.JSON{{Raw: []byte(`"a"`)}, {Raw: []byte(pick(g, `"b"`, `1`, `null`))}}
		}
		if g.one(5) {
			s.Format = pick(g, "date-time", "date", "byte", "duration", "ipv4", "odd", "k8s-short-name")
		}
		if g.one(8) {
			s.Pattern = maybe(g, 4, "^[a-z]*$", "[", "(?=x)", `\d+`)
		}
	}
	if s.Type == "integer" || s.Type == "number" {
		if g.one(4) {
			s.Minimum, s.ExclusiveMinimum = new(float64(g.r.IntN(5))), g.one(3)
			s.Format = pick(g, "", "int32", "int64", "float", "double")
		}
		if g.one(8) {
			s.Maximum = new(maybe(g, 5, float64(g.r.IntN(5)), 1.5, 1e20))
		}
	}
	if s.Type == "object" && len(s.Properties) > 0 {
		if g.one(3) {
			s.Required = []string{maybe(g, 5, slices.Sorted(maps.Keys(s.Properties))[0], "nope")}
		}
		if g.one(10) {
			s.XMapType = new(maybe(g, 4, "granular", "atomic", "odd"))
		}
	}
	if depth > 0 {
		s.Nullable = g.one(12) && g.calm < 20
		if g.one(6) {
			s.Default = &apiextv1.JSON{Raw: g.fitting(s)}
		}
	}
	if g.one(5) {
		switch g.r.IntN(4) {
		case 0:
			s.AllOf = append(s.AllOf, g.junction(depth))
		case 1:
			s.AnyOf = append(s.AnyOf, g.junction(depth), g.junction(depth))
		case 2:
			s.OneOf = append(s.OneOf, g.junction(depth))
		case 3:
			s.Not = new(g.junction(depth))
		}
	}
	if g.one(5) {
		s.XValidations = append(s.XValidations, g.rules(s)...)
	}
	if g.mistake(25) {
		g.spoil(s, depth)
	}
}

// junction is what stands below allOf and the like.
func (g *maker) junction(depth int) apiextv1.JSONSchemaProps {
	s := apiextv1.JSONSchemaProps{}
	switch g.r.IntN(7) {
	case 0:
		s.Required = []string{"a"}
	case 1:
		s.Pattern = maybe(g, 6, "a", "[")
	case 2:
		s.Minimum = new(1.0)
	case 3:
		s.Properties = map[string]apiextv1.JSONSchemaProps{pick(g, propertyNames...): {MinLength: new(int64(1))}}
	case 4:
		s.Enum = []apiextv1.JSON{{Raw: []byte(`"a"`)}}
	case 5:
		s.Items = &apiextv1.JSONSchemaPropsOrArray{Schema: &apiextv1.JSONSchemaProps{MaxLength: new(int64(3))}}
	case 6:
		if depth < 4 {
			s.Not = new(g.junction(depth + 1))
		}
	}
	if g.mistake(12) {
		g.spoil(&s, depth)
	}
	return s
}

// spoil sets a keyword that most often should not be there.
func (g *maker) spoil(s *apiextv1.JSONSchemaProps, depth int) {
	inner := apiextv1.JSONSchemaProps{Type: "string"}
	if depth < 5 {
		inner = g.schema(5)
	}
	props := map[string]apiextv1.JSONSchemaProps{"a": inner}
	spoilers := []func(){
		func() { s.Type = pick(g, "", "null", "odd", "object", "array", "string", "integer") },
		func() { s.Nullable = true }, func() { s.UniqueItems = true }, func() { s.ID = "x" }, func() { s.Schema = "x" }, func() { s.Ref = new("#/x") },
		func() { s.PatternProperties = props }, func() { s.Definitions = apiextv1.JSONSchemaDefinitions(props) },
		func() {
			s.Dependencies = apiextv1.JSONSchemaDependencies{"a": {Property: []string{"b"}}, "b": {Schema: &inner}}
		},
		func() {
			s.AdditionalItems = &apiextv1.JSONSchemaPropsOrBool{Allows: g.one(2), Schema: pick(g, nil, &inner)}
		},
		func() {
			s.AdditionalProperties = &apiextv1.JSONSchemaPropsOrBool{Allows: g.one(2), Schema: pick(g, nil, &inner)}
		},
		func() { s.Items = &apiextv1.JSONSchemaPropsOrArray{JSONSchemas: []apiextv1.JSONSchemaProps{inner}} },
		func() { s.Items = &apiextv1.JSONSchemaPropsOrArray{Schema: &inner} }, func() { s.Items = nil },
		func() { s.XPreserveUnknownFields = new(g.one(2)) }, func() { s.XEmbeddedResource = true }, func() { s.XIntOrString = true },
		func() { s.XListType = new(pick(g, "map", "set", "atomic", "", "odd")) }, func() { s.XListMapKeys = pick(g, []string{"a"}, []string{"name"}) },
		func() { s.XMapType = new(pick(g, "granular", "atomic", "", "odd")) },
		func() {
			s.Default = &apiextv1.JSON{Raw: []byte(pick(g, `{}`, `[]`, `"a"`, `1`, `null`, `{"a":1}`, `{"nope":1}`, `[{"name":"a"},{"name":"a"}]`, `true`, `1.5`))}
		},
		func() { s.Title, s.Description = "t", "d" }, func() { s.Example = &apiextv1.JSON{Raw: []byte(`1`)} },
		func() {
			s.MinLength, s.MaxProperties, s.MinItems, s.MultipleOf = new(int64(-1)), new(int64(-1)), new(int64(5)), new(0.5)
		},
		func() { s.Properties = props }, func() { s.Properties = nil }, func() { s.Enum = []apiextv1.JSON{} },
		func() { s.AnyOf = []apiextv1.JSONSchemaProps{inner} }, func() { s.Not = &inner }, func() { s.AllOf = []apiextv1.JSONSchemaProps{inner, {Properties: props}} },
		func() { s.ExternalDocs = &apiextv1.ExternalDocumentation{URL: "x"} }, func() { s.XValidations = append(s.XValidations, g.rules(s)...) },
		func() { s.Format = "int32" }, func() { s.Required = []string{"a", "a"} }, func() { s.ExclusiveMaximum = true },
	}
	pick(g, spoilers...)()
}

// fitting is a default that mostly fits.
func (g *maker) fitting(s *apiextv1.JSONSchemaProps) json.RawMessage {
	text, err := json.Marshal(g.value(s, 0))
	if err != nil {
		panic("BUG: " + err.Error())
	}
	return text
}

func (g *maker) value(s *apiextv1.JSONSchemaProps, depth int) any {
	if g.mistake(15) {
		return pick[any](g, nil, 1, "x", true, 1.5, map[string]any{}, []any{}, map[string]any{"nope": 1, "apiVersion": "v1"})
	}
	if len(s.Enum) > 0 && g.one(2) {
		return json.RawMessage(s.Enum[0].Raw)
	}
	switch s.Type {
	case "object":
		m := map[string]any{}
		for _, name := range slices.Sorted(maps.Keys(s.Properties)) {
			if p := s.Properties[name]; g.one(2) || slices.Contains(s.Required, name) {
				m[name] = g.value(&p, depth+1)
			}
		}
		if a := s.AdditionalProperties; a != nil && a.Schema != nil {
			m["k"] = g.value(a.Schema, depth+1)
		}
		// Nothing that metadata has not got: upstream drops that from the definition itself.
		if s.XEmbeddedResource && !g.one(4) {
			m["apiVersion"], m["kind"] = "v1", "ConfigMap"
			m["metadata"] = pick(g, map[string]any{"name": "n"}, map[string]any{"labels": map[string]any{"-": "x"}}, map[string]any{"name": 1})
		}
		return m
	case "array":
		list := []any{}
		for range g.r.IntN(3) {
			if s.Items != nil && s.Items.Schema != nil {
				list = append(list, g.value(s.Items.Schema, depth+1))
			}
		}
		return list
	case "integer":
		return pick[any](g, 0, 1, 3, 1<<40, 6.0)
	case "number":
		return pick[any](g, 0, 1.5, 3)
	case "boolean":
		return g.one(2)
	}
	return pick(g, "a", "b", "", "abc", "2024-01-02T03:04:05Z", "10.0.0.1", "1h")
}

// rules are rules for a schema: right ones, and others.
func (g *maker) rules(s *apiextv1.JSONSchemaProps) apiextv1.ValidationRules {
	var out apiextv1.ValidationRules
	for range 1 + g.r.IntN(2) {
		rule := apiextv1.ValidationRule{Rule: g.expression(s)}
		if g.one(3) {
			rule.Message = maybe(g, 2, "wrong", " ", "two\nlines", " padded ")
		}
		if g.one(5) {
			rule.MessageExpression = maybe(g, 2, "'a'", "string(self)", "self", "1", " ", "'a' +", "oldSelf", "'x' + string(size(self))", "self.a", "''")
		}
		if g.one(6) {
			rule.Reason = new(maybe[apiextv1.FieldValueErrorReason](g, 2, "FieldValueInvalid", "FieldValueForbidden", "Odd", ""))
		}
		if g.mistake(5) {
			rule.FieldPath = pick(g, ".a", ".b", ".d.a", "a", ".nope", "['x-y']", ".x-y", " ", ".a\n", ".", ".a.", ".['a']", "['a", ".items[0]", ".ü", "['a\\'b']")
		}
		if g.mistake(8) {
			rule.OptionalOldSelf = new(g.one(2))
		}
		out = append(out, rule)
	}
	return out
}

func (g *maker) expression(s *apiextv1.JSONSchemaProps) string {
	if g.mistake(8) {
		return pick(g, "", " ", "true", "false", "1", "self", "self ==", "oldSelf == self", "has(oldSelf.a)", "oldSelf.hasValue()", "self.nope", "nope", "true\n&& true",
			"size(self) < 2", "oldSelf.orValue('x') == 'x'", "self == null", "cel.bind(x, 1, x == 1)", "duration('x') == duration('1s')", "'a'.matches('[')")
	}
	name := "a"
	for _, n := range slices.Sorted(maps.Keys(s.Properties)) {
		if g.one(2) {
			name = n
		}
	}
	switch s.Type {
	case "object":
		field := "self." + name
		return pick(g, "has("+field+")", field+" == 'a'", field+" != 1", "!has("+field+") || "+field+".size() < 3", "size("+field+") < 5", field+" == oldSelf."+name,
			"self.all(k, k != '')", field+".all(x, "+field+".all(y, x == y))", field+".exists(x, x.name == 'a')", "self == oldSelf", "self."+name+".a == 'b'",
			field+".map(x, "+field+".map(y, "+field+".map(z, x))).size() < 9", "self.all(k, self[k].all(x, self[k].all(y, x != y)))")
	case "array":
		return pick(g, "self.size() < 5", "self.all(x, x == x)", "self.all(x, self.all(y, x == y))", "self.exists_one(x, x == 'a')", "self.all(x, x > 1)", "self.isSorted()",
			"self == oldSelf", "self.all(x, oldSelf.exists(y, x == y))", "self.all(x, self.all(y, self.all(z, self.all(w, x == w))))", "self.sort() == self")
	case "string":
		return pick(g, "self.size() < 5", "self.startsWith('a')", "self.matches('^(a|b)+$')", "self == oldSelf", "self > 'a'", "self.split('').all(x, self.split('').all(y, x == y))",
			"self > timestamp('2020-01-01T00:00:00Z')", "self < duration('1h')", "url(self).getHost() == 'x'", "quantity(self).isGreaterThan(quantity('1'))", "self.nope()", "self in ['a', 'b']")
	case "boolean":
		return pick(g, "self", "!self", "self == true", "self == 1", "self || oldSelf")
	}
	return pick(g, "self > 1", "self < 5.0", "self == oldSelf", "self % 2 == 0", "type(self) == int", "self + 1 > 0", "self == 1.0", "string(self) == '1'", "self in [1, 2]")
}
