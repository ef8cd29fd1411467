package coverage

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"math/big"
	"slices"
	"strings"

	"github.com/keelson-io/keelson/internal/manifest"
	"github.com/keelson-io/keelson/schema"
)

// This file lists small changes of definitions, for mutation tests: of rules, and of what restricts or
// fills in values. Definitions are changed as JSON documents.

// Change is a small change of a definition.
type Change struct {
	File    string `json:"file"`
	Line    int    `json:"line"`
	Column  int    `json:"column"`
	Name    string `json:"name"` // of the definition
	Version string `json:"version"`
	Field   string `json:"field"` // the place in objects
	Path    string `json:"path"`  // of what changes, in the definition
	What    string `json:"what"`
	Before  string `json:"before"`
	After   string `json:"after"` // "" if it is removed

	// Unreached says that no case has a value to which the change would matter.
	Unreached bool `json:"unreached,omitempty"`

	doc   manifest.Document
	steps []any // to what changes: names of members and indexes of items
	value any   // what it becomes, nil if it is removed
}

// IsOf reports whether the change is one of a document.
func (c *Change) IsOf(d *manifest.Document) bool {
	return d.File == c.doc.File && d.Line == c.doc.Line && bytes.Equal(d.JSON, c.doc.JSON)
}

// Apply returns the changed definition as JSON.
func (c *Change) Apply() ([]byte, error) {
	root, err := decode(c.doc.JSON)
	if err != nil {
		return nil, err
	}
	root, ok := change(root, c.steps, c.value)
	if !ok {
		return nil, fmt.Errorf("%s: nothing to change", c.Path)
	}
	return json.Marshal(root)
}

// decode decodes JSON with exact numbers.
func decode(text []byte) (root any, err error) {
	d := json.NewDecoder(bytes.NewReader(text))
	d.UseNumber()
	return root, d.Decode(&root)
}

// change sets or removes what the steps lead to.
func change(at any, steps []any, value any) (changed any, ok bool) {
	if len(steps) == 0 {
		return value, true
	}
	last := len(steps) == 1 && value == nil
	switch step := steps[0].(type) {
	case string:
		m, _ := at.(map[string]any)
		if _, has := m[step]; !has {
			return at, false
		}
		if last {
			delete(m, step)
			return m, true
		}
		m[step], ok = change(m[step], steps[1:], value)
		return m, ok
	case int:
		list, _ := at.([]any)
		if step >= len(list) {
			return at, false
		}
		if last {
			return slices.Delete(list, step, step+1), true
		}
		list[step], ok = change(list[step], steps[1:], value)
		return list, ok
	}
	return at, false
}

// Changes returns small changes of the versions that the cases use, in the order of the definitions.
func (r *Recorder) Changes() []Change {
	var out []Change
	for _, d := range r.all {
		root, err := decode(d.doc.JSON)
		if err != nil {
			continue
		}
		for _, v := range d.versions {
			if v.cover == nil {
				continue
			}
			c := changer{d: d, v: v, places: v.cover.Places(), rules: map[string][]schema.RuleChange{}}
			for _, rule := range v.cover.Changes() {
				c.rules[rule.Path] = append(c.rules[rule.Path], rule)
			}
			at, steps := root, []any{}
			for _, step := range v.steps() {
				switch s := step.(type) {
				case string:
					m, _ := at.(map[string]any)
					at = m[s]
				case int:
					list, _ := at.([]any)
					if s >= len(list) {
						continue
					}
					at = list[s]
				}
				steps = append(steps, step)
			}
			c.node(at, "", steps)
			out = append(out, c.out...)
		}
	}
	return out
}

// steps returns the steps to the schema of a version.
func (v *version) steps() []any {
	if v.index < 0 {
		return []any{"spec", "validation", "openAPIV3Schema"}
	}
	return []any{"spec", "versions", v.index, "schema", "openAPIV3Schema"}
}

// changer lists the changes of one version.
type changer struct {
	d      *definition
	v      *version
	places map[string]schema.Place
	rules  map[string][]schema.RuleChange
	out    []Change
}

// add adds a change of a keyword of the schema at path. at leads to the schema, more from there to what
// changes; keyword is the same as text.
func (c *changer) add(path, keyword string, at, more []any, what, before string, value any) {
	full := strings.TrimSuffix(c.v.base+"."+strings.TrimPrefix(path+"."+keyword, "."), ".")
	place := c.places[path]
	one := Change{File: c.d.doc.File, Name: c.d.name, Version: c.v.name, Field: place.Field, Path: full, What: what, Before: before,
		Unreached: !place.Seen, doc: c.d.doc, steps: slices.Concat(at, more), value: value}
	if value != nil {
		one.After = textOf(value)
	}
	one.Line, one.Column = c.d.doc.Position(full)
	c.out = append(c.out, one)
}

// textOf returns a value as JSON.
func textOf(v any) string {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	if enc.Encode(v) != nil {
		return ""
	}
	return strings.TrimSuffix(b.String(), "\n")
}

// bounds are the keywords of bounds, with the direction that loosens them.
var bounds = []struct {
	name string
	sign int64
}{
	{"maxItems", 1}, {"maxLength", 1}, {"maxProperties", 1}, {"maximum", 1},
	{"minItems", -1}, {"minLength", -1}, {"minProperties", -1}, {"minimum", -1},
}

// node lists the changes at a schema and below, in an order that depends on nothing but the schema.
func (c *changer) node(schemaNode any, path string, at []any) {
	m, _ := schemaNode.(map[string]any)
	if _, known := c.places[path]; !known {
		return
	}
	c.restrictions(m, path, "", at, nil)
	if value, ok := m["default"]; ok {
		c.add(path, "default", at, []any{"default"}, "the default is removed", textOf(value), nil)
		c.out[len(c.out)-1].Unreached = false // it matters where there was no value
	}
	c.ruleChanges(m, path, at)
	if properties, ok := m["properties"].(map[string]any); ok {
		for _, name := range slices.Sorted(maps.Keys(properties)) {
			step := "." + name
			if strings.ContainsAny(name, ".[]") {
				step = "[" + name + "]"
			}
			c.node(properties[name], strings.TrimPrefix(path+".properties"+step, "."), slices.Concat(at, []any{"properties", name}))
		}
	}
	for _, below := range []string{"items", "additionalProperties"} {
		if child, ok := m[below].(map[string]any); ok {
			c.node(child, strings.TrimPrefix(path+"."+below, "."), slices.Concat(at, []any{below}))
		}
	}
}

// restrictions lists the changes of what restricts values, in the schema itself or, with a prefix, in
// a branch of allOf.
func (c *changer) restrictions(m map[string]any, path, prefix string, at, more []any) {
	add := func(keyword string, steps []any, what string, value any, before any) {
		c.add(path, prefix+keyword, at, slices.Concat(more, steps), what, textOf(before), value)
	}
	for _, b := range bounds {
		n, ok := m[b.name].(json.Number)
		if !ok {
			continue
		}
		add(b.name, []any{b.name}, "the bound is removed", nil, n)
		if looser, ok := plus(n, b.sign); ok && !(b.sign < 0 && b.name != "minimum" && strings.HasPrefix(string(looser), "-")) {
			add(b.name, []any{b.name}, "the bound is looser", looser, n)
		}
		if tighter, ok := plus(n, -b.sign); ok && !(b.sign > 0 && b.name != "maximum" && strings.HasPrefix(string(tighter), "-")) {
			add(b.name, []any{b.name}, "the bound is tighter", tighter, n)
		}
	}
	for _, keyword := range []string{"exclusiveMaximum", "exclusiveMinimum"} {
		if m[keyword] == true {
			add(keyword, []any{keyword}, "the bound is not exclusive", nil, true)
		}
	}
	for _, keyword := range []string{"multipleOf", "pattern", "format", "not"} {
		if value, ok := m[keyword]; ok {
			add(keyword, []any{keyword}, keyword+" is removed", nil, value)
		}
	}
	for _, keyword := range []string{"enum", "required", "anyOf", "oneOf"} {
		list, _ := m[keyword].([]any)
		if len(list) > 0 && keyword != "required" {
			add(keyword, []any{keyword}, keyword+" is removed", nil, list)
		}
		for i, value := range list {
			if len(list) > 1 || keyword == "required" {
				add(fmt.Sprintf("%s[%d]", keyword, i), []any{keyword, i}, "an item of "+keyword+" is removed", nil, value)
			}
		}
	}
	all, _ := m["allOf"].([]any)
	for i, branch := range all {
		if child, ok := branch.(map[string]any); ok {
			c.restrictions(child, path, fmt.Sprintf("%sallOf[%d].", prefix, i), at, slices.Concat(more, []any{"allOf", i}))
		}
	}
}

// ruleChanges lists the changes of the rules of a schema.
func (c *changer) ruleChanges(m map[string]any, path string, at []any) {
	rules, _ := m["x-kubernetes-validations"].([]any)
	for i := range rules {
		keyword := fmt.Sprintf("x-kubernetes-validations[%d]", i)
		steps := []any{"x-kubernetes-validations", i}
		rule, _ := rules[i].(map[string]any)
		text, _ := rule["rule"].(string)
		changes := c.rules[strings.TrimPrefix(path+"."+keyword+".rule", ".")]
		reached := slices.ContainsFunc(changes, func(r schema.RuleChange) bool { return r.Reached }) || len(changes) == 0
		c.add(path, keyword, at, steps, "the rule is removed", text, nil)
		c.out[len(c.out)-1].Unreached = !reached
		for _, r := range changes {
			c.add(path, keyword+".rule", at, append(steps, "rule"), r.What, r.Rule[r.Start:r.End], r.Apply(r.Rule))
			one := &c.out[len(c.out)-1]
			one.After, one.Unreached = r.Text, !r.Reached
			one.Line, one.Column = c.d.doc.Within(one.Path, r.Start)
		}
	}
}

// plus returns a number plus an integer. It does so exactly.
func plus(n json.Number, delta int64) (json.Number, bool) {
	f, ok := new(big.Rat).SetString(string(n))
	if !ok || len(n) > 30 {
		return "", false
	}
	f.Add(f, new(big.Rat).SetInt64(delta))
	if f.IsInt() {
		return json.Number(f.Num().String()), true
	}
	return json.Number(strings.TrimRight(f.FloatString(12), "0")), true
}
