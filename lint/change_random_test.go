package lint

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"math/rand/v2"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	apiextv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"

	"github.com/keelson-io/keelson/crd"
	"github.com/keelson-io/keelson/internal/meta"
	"github.com/keelson-io/keelson/jsondoc"
	"github.com/keelson-io/keelson/kind"
	"github.com/keelson-io/keelson/schema"
)

// This file generates pairs of CRDs, and holds the findings about a change against what servers do
// with objects that were stored before it.

var (
	changePairs   = flag.Int("change.pairs", 3000, "pairs of CRDs in TestChangesThatHurtObjectsAreBreaking")
	changeObjects = flag.Int("change.objects", 24, "objects for each pair of CRDs")
	changeSeed    = flag.Uint64("change.seed", 1, "seed of TestChangesThatHurtObjectsAreBreaking")
)

// props is a schema, or a value, as JSON.
type props = map[string]any

// changes generates schemas, changes and objects.
type changes struct{ *rand.Rand }

// oneOf returns one of the elements.
func oneOf[T any](g changes, list ...T) T { return list[g.IntN(len(list))] }

// fieldNames are the names that schemas declare; objects have some more.
var fieldNames = []string{"a", "b", "c"}

// schema returns a schema of at most depth levels.
func (g changes) schema(depth int) props {
	n := 11
	if depth <= 0 {
		n = 6
	}
	s := props{}
	switch g.IntN(n) {
	case 0:
		s["type"] = "string"
	case 1:
		s["type"] = "integer"
	case 2:
		s["type"] = oneOf(g, "number", "boolean")
	case 3:
		s["x-kubernetes-int-or-string"] = true
	case 4:
		s["x-kubernetes-preserve-unknown-fields"] = true
	case 5:
		s = props{"type": "object", "additionalProperties": true}
	case 6, 7:
		s = g.object(depth)
	case 8:
		s = props{"type": "object", "additionalProperties": g.schema(depth - 1)}
	case 9:
		s = props{"type": "array", "items": g.schema(depth - 1)}
	case 10:
		s = g.listMap(depth)
	}
	for range g.IntN(3) {
		g.restrict(s)
	}
	return s
}

// object returns a schema with declared fields.
func (g changes) object(depth int) props {
	fields := props{}
	for _, name := range fieldNames {
		if g.IntN(3) > 0 {
			fields[name] = g.schema(depth - 1)
		}
	}
	s := props{"type": "object", "properties": fields}
	if g.IntN(4) == 0 {
		s["x-kubernetes-preserve-unknown-fields"] = true
		if g.IntN(3) == 0 {
			s["x-kubernetes-embedded-resource"] = true
			if g.IntN(2) == 0 {
				fields["metadata"] = oneOf(g, props{"type": "object"}, props{"type": "object", "properties": props{"name": props{"type": "string", "maxLength": 1}}})
			}
		}
	}
	return s
}

// listMap returns the schema of a list with a key, or of a set.
func (g changes) listMap(depth int) props {
	if g.IntN(2) == 0 {
		return props{"type": "array", "x-kubernetes-list-type": "set", "items": props{"type": oneOf(g, "string", "integer")}}
	}
	items := g.object(depth)
	items["properties"].(props)["a"] = props{"type": oneOf(g, "string", "integer")}
	items["required"] = []any{"a"}
	return props{"type": "array", "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": []any{"a"}, "items": items}
}

// restrict sets a keyword of s, which may have no effect or be invalid for its type.
func (g changes) restrict(s props) {
	small := func() any { return oneOf[any](g, 0, 1, 2, 3) }
	number := func() any { return oneOf[any](g, -1, 0, 1, 1.5, 2, 5) }
	switch typ, _ := s["type"].(string); {
	case g.IntN(6) == 0:
		s["nullable"] = true
	case g.IntN(8) == 0:
		s["default"] = g.fitting(s)
	case g.IntN(8) == 0:
		g.junctor(s)
	case g.IntN(12) == 0:
		s["enum"] = g.enum(s)
	case typ == "string":
		switch g.IntN(4) {
		case 0:
			s["maxLength"] = small()
		case 1:
			s["minLength"] = small()
		case 2:
			s["pattern"] = oneOf(g, "^a", "^[a-z]*$", "b$")
		default:
			s["format"] = oneOf(g, "date", "date-time", "ipv4", "byte", "odd", "password")
		}
	case typ == "integer" || typ == "number":
		switch g.IntN(6) {
		case 0, 1:
			s["maximum"] = number()
			s["exclusiveMaximum"] = g.IntN(3) == 0
		case 2, 3:
			s["minimum"] = number()
			s["exclusiveMinimum"] = g.IntN(3) == 0
		case 4:
			s["multipleOf"] = oneOf[any](g, 1, 2, 3, 0.5)
		default:
			s["format"] = oneOf(g, "int32", "int64", "float", "double")
		}
	case typ == "array":
		s[oneOf(g, "maxItems", "minItems")] = small()
	case typ == "object":
		g.restrictObject(s)
	case s["x-kubernetes-int-or-string"] == true:
		if g.IntN(3) == 0 {
			s["anyOf"] = []any{props{"type": "integer"}, props{"type": "string"}}
		} else {
			s[oneOf(g, "maxLength", "maximum", "minLength")] = small()
		}
	}
}

// restrictObject sets a keyword of an object's schema.
func (g changes) restrictObject(s props) {
	fields, _ := s["properties"].(props)
	switch g.IntN(5) {
	case 0:
		s["maxProperties"] = oneOf[any](g, 1, 2, 3)
	case 1:
		s["minProperties"] = oneOf[any](g, 0, 1, 2)
	case 2, 3:
		if fields != nil {
			s["required"] = []any{oneOf(g, fieldNames...)}
		}
	default:
		g.rule(s, fields)
	}
}

// rule adds a rule about the fields of an object.
func (g changes) rule(s props, fields props) {
	name := oneOf(g, fieldNames...)
	f, _ := fields[name].(props)
	rule := ""
	switch {
	case f == nil:
		if s["additionalProperties"] != nil && s["properties"] == nil {
			rule = "size(self) < 3"
		}
	case g.IntN(3) == 0:
		rule = "!has(self." + name + ")"
	case f["type"] == "integer":
		rule = fmt.Sprintf("!has(self.%s) || self.%s / 2 == %d", name, name, g.IntN(2))
	case f["type"] == "string" && f["format"] == nil:
		rule = fmt.Sprintf("!has(self.%s) || self.%s.size() < 2", name, name)
	}
	if rule != "" {
		s["x-kubernetes-validations"] = []any{props{"rule": rule}}
	}
}

// junctor sets one of allOf, anyOf, oneOf and not.
func (g changes) junctor(s props) {
	branch := func() props {
		b := props{}
		switch typ := s["type"]; {
		case typ == "object" && s["properties"] != nil:
			b["required"] = []any{oneOf(g, fieldNames...)}
		case typ == "object":
			b["maxProperties"] = g.IntN(3)
		case typ == "array":
			b["maxItems"] = g.IntN(3)
		case typ == "string":
			b["maxLength"] = g.IntN(3)
		default:
			b["maximum"] = g.IntN(4)
		}
		return b
	}
	if name := oneOf(g, "allOf", "anyOf", "oneOf", "not"); name == "not" {
		s[name] = branch()
	} else {
		list, _ := s[name].([]any)
		s[name] = append(slices.Clone(list), branch())
	}
}

// metadata returns a schema of an object's metadata, which rarely restricts names.
func (g changes) metadata() props {
	s := props{"type": "object"}
	if g.IntN(20) == 0 {
		s["properties"] = props{"name": props{"type": "string", oneOf(g, "maxLength", "minLength"): 2}}
	}
	return s
}

// enum returns values for an enum of s.
func (g changes) enum(s props) []any {
	var out []any
	for range 1 + g.IntN(3) {
		if v := g.fitting(s); !slices.ContainsFunc(out, func(w any) bool { return reflect.DeepEqual(v, w) }) {
			out = append(out, v)
		}
	}
	if s["nullable"] == true && g.IntN(2) == 0 {
		out = append(out, nil)
	}
	return out
}

// copied returns a copy of a JSON value.
func copied(v any) any {
	switch v := v.(type) {
	case props:
		out := props{}
		for k, m := range v {
			out[k] = copied(m)
		}
		return out
	case []any:
		out := make([]any, len(v))
		for i, m := range v {
			out[i] = copied(m)
		}
		return out
	}
	return v
}

// change changes one node at or below s, which is not the root.
func (g changes) change(s props, depth int) {
	var below []props
	fields, _ := s["properties"].(props)
	for _, name := range fieldNames {
		if f, ok := fields[name].(props); ok {
			below = append(below, f)
		}
	}
	for _, key := range []string{"items", "additionalProperties"} {
		if f, ok := s[key].(props); ok {
			below = append(below, f)
		}
	}
	if len(below) > 0 && g.IntN(3) > 0 {
		g.change(oneOf(g, below...), depth-1)
		return
	}
	switch g.IntN(8) {
	case 0:
		g.replace(s, g.schema(depth))
	case 1, 2, 3:
		g.restrict(s)
	case 4:
		g.remove(s)
	case 5:
		g.retype(s)
	default:
		g.reshape(s, fields, depth)
	}
}

// replace makes s another schema.
func (g changes) replace(s, by props) {
	clear(s)
	for k, v := range by {
		s[k] = v
	}
}

// remove removes a keyword other than the type.
func (g changes) remove(s props) {
	var keys []string
	for k := range s {
		if k != "type" && k != "items" {
			keys = append(keys, k)
		}
	}
	slices.Sort(keys)
	if len(keys) > 0 {
		delete(s, oneOf(g, keys...))
	}
	if s["type"] == nil && s["x-kubernetes-int-or-string"] == nil && s["x-kubernetes-preserve-unknown-fields"] == nil {
		s["type"] = oneOf(g, "string", "integer", "object")
	}
}

// retype changes the type and leaves the other keywords.
func (g changes) retype(s props) {
	delete(s, "type")
	delete(s, "x-kubernetes-int-or-string")
	switch g.IntN(3) {
	case 0:
		s["x-kubernetes-preserve-unknown-fields"] = true
	case 1:
		s["x-kubernetes-int-or-string"] = true
		delete(s, "x-kubernetes-preserve-unknown-fields")
	default:
		s["type"] = oneOf(g, "string", "integer", "number", "boolean", "object")
	}
}

// reshape changes which fields an object has, or the type of a list.
func (g changes) reshape(s, fields props, depth int) {
	switch {
	case s["type"] == "array":
		g.replace(s, props{"type": "array", "items": s["items"], "x-kubernetes-list-type": oneOf(g, "set", "atomic", "map")})
		if s["x-kubernetes-list-type"] == "map" {
			s["x-kubernetes-list-map-keys"] = []any{"a"}
		}
	case s["type"] != "object":
		g.restrict(s)
	case g.IntN(5) == 0:
		s["x-kubernetes-preserve-unknown-fields"] = true
	case g.IntN(5) == 0:
		delete(s, "x-kubernetes-preserve-unknown-fields")
	case g.IntN(5) == 0:
		s["x-kubernetes-embedded-resource"] = true
	case g.IntN(5) == 0 && fields != nil:
		delete(s, "properties")
		s["additionalProperties"] = oneOf[any](g, true, g.schema(depth-1))
	case fields == nil:
		delete(s, "additionalProperties")
		s["properties"] = props{oneOf(g, fieldNames...): g.schema(depth - 1)}
	case g.IntN(3) == 0:
		delete(fields, oneOf(g, fieldNames...))
	default:
		fields[oneOf(g, fieldNames...)] = g.schema(depth - 1)
	}
}

// value returns any value of at most depth levels.
func (g changes) value(depth int) any {
	n := 10
	if depth <= 0 {
		n = 6
	}
	switch g.IntN(n) {
	case 0, 1:
		return oneOf[any](g, "", "a", "b", "ab", "abc", "2020-01-01", "2020-01-01T00:00:00Z", "1.2.3.4")
	case 2, 3:
		return oneOf[any](g, -1, 0, 1, 2, 3, 5, 6, 3000000000)
	case 4:
		return oneOf[any](g, 1.5, 0.5, true, false)
	case 5:
		return oneOf[any](g, nil, props{})
	case 6:
		list := []any{}
		for range g.IntN(4) {
			list = append(list, g.value(depth-1))
		}
		return list
	}
	out := props{}
	for range g.IntN(4) {
		out[oneOf(g, "a", "b", "c", "d", "e")] = g.value(depth - 1)
	}
	return out
}

// fitting returns a value that is often valid by s.
func (g changes) fitting(s props) any {
	if enum, ok := s["enum"].([]any); ok && len(enum) > 0 && g.IntN(5) > 0 {
		return oneOf(g, enum...)
	}
	if s["nullable"] == true && g.IntN(4) == 0 || g.IntN(40) == 0 {
		return nil
	}
	switch s["type"] {
	case "string":
		if f := s["format"]; f != nil && g.IntN(3) > 0 {
			return map[any]string{"date": "2020-01-01", "date-time": "2020-01-01T00:00:00Z", "ipv4": "1.2.3.4"}[f]
		}
		return oneOf(g, "", "a", "b", "ab", "abc", "aab", "2020-01-01", "1.2.3.4")
	case "integer":
		return oneOf[any](g, -1, 0, 1, 2, 3, 4, 5, 6, 3000000000)
	case "number":
		return oneOf[any](g, -1, 0, 1, 2, 3, 4, 5, 6, 0.5, 1.5, 3000000000)
	case "boolean":
		return g.IntN(2) == 0
	case "array":
		items, _ := s["items"].(props)
		list := []any{}
		for range g.IntN(4) {
			list = append(list, g.fitting(items))
		}
		return list
	case "object":
		return g.fields(s)
	}
	if s["x-kubernetes-int-or-string"] == true {
		return oneOf[any](g, "", "a", "abc", "10%", 0, 1, 2, 5)
	}
	return g.value(2)
}

// fields returns an object for s.
func (g changes) fields(s props) any {
	out := props{}
	required := fmt.Sprint(s["required"])
	fields, _ := s["properties"].(props)
	for _, name := range fieldNames {
		if f, ok := fields[name].(props); ok && (g.IntN(2) == 0 || strings.Contains(required, name)) {
			out[name] = g.fitting(f)
		}
	}
	others := g.IntN(3)
	if fields != nil && s["x-kubernetes-preserve-unknown-fields"] == nil {
		others = 0
	}
	for range others {
		name := oneOf(g, "a", "b", "c", "d", "e")
		if a, ok := s["additionalProperties"].(props); ok {
			out[name] = g.fitting(a)
		} else if fields[name] == nil {
			out[name] = g.value(2)
		}
	}
	if s["x-kubernetes-embedded-resource"] == true && g.IntN(10) > 0 {
		out["apiVersion"], out["kind"] = oneOf(g, "v1", "apps/v1"), oneOf(g, "Pod", "Box")
		if g.IntN(2) == 0 {
			out["metadata"] = props{"name": oneOf(g, "a", "abc"), "labels": props{"a": "b"}}
		}
	}
	return out
}

// changeVersion is a CRD that a server accepts, with its compiled version.
type changeVersion struct {
	crd *apiextv1.CustomResourceDefinition
	v   *kind.Version
}

// newChangeVersion returns the version of a CRD whose spec and metadata have the given schemas. It is nil if a
// server refuses the CRD.
func newChangeVersion(t *testing.T, spec, metadata props) *changeVersion {
	t.Helper()
	text, err := json.Marshal(props{
		"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition", "metadata": props{"name": "boxes.example.com"},
		"spec": props{
			"group": "example.com", "scope": "Namespaced",
			"names": props{"plural": "boxes", "singular": "box", "kind": "Box", "listKind": "BoxList"},
			"versions": []any{props{"name": "v1", "served": true, "storage": true, "schema": props{
				"openAPIV3Schema": props{"type": "object", "properties": props{"spec": spec, "metadata": metadata}},
			}}},
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	def, errs, err := crd.New(text)
	if err != nil || len(errs) > 0 {
		return nil
	}
	k, err := crd.Compile(def)
	if err != nil {
		t.Fatalf("%s: %v", text, err)
	}
	return &changeVersion{crd: def, v: k.Versions[0]}
}

// stored returns an object as a server stores it, or the errors with which the server refuses it.
func (c *changeVersion) stored(ctx context.Context, text []byte) (json.RawMessage, error) {
	d := new(jsondoc.Doc)
	if _, err := c.v.Decode(d, text); err != nil {
		return nil, err
	}
	c.v.PrepareCreate(d)
	meta.FillCreate(meta.Object{Doc: d}, time.Unix(1600000000, 0))
	if r := c.v.Validate(ctx, d, nil, schema.Whole); len(r.Errors) > 0 {
		return nil, r.Errors.ToAggregate()
	}
	return c.v.AppendJSON(nil, d), nil
}

// lost returns the path of the first value of was that is not in is. Members may be added.
func lost(path string, was, is any) string {
	switch w := was.(type) {
	case props:
		if m, ok := is.(props); ok {
			for k, v := range w {
				if _, ok := m[k]; !ok {
					return path + "." + k
				} else if at := lost(path+"."+k, v, m[k]); at != "" {
					return at
				}
			}
			return ""
		}
	case []any:
		if list, ok := is.([]any); ok && len(list) == len(w) {
			for i := range w {
				if at := lost(fmt.Sprintf("%s[%d]", path, i), w[i], list[i]); at != "" {
					return at
				}
			}
			return ""
		}
	default:
		if reflect.DeepEqual(was, is) {
			return ""
		}
	}
	return path
}

// hurt stores random objects by the old CRD, and returns what the new one does to the first object
// that it refuses or takes values from, "" if there is none. It counts the stored objects.
func (g changes) hurt(t *testing.T, old, now *changeVersion, oldSpec, newSpec props) (what string, objects int) {
	t.Helper()
	for range *changeObjects {
		spec := oldSpec
		if g.IntN(4) == 0 {
			spec = newSpec
		}
		text, err := json.Marshal(props{"apiVersion": "example.com/v1", "kind": "Box", "metadata": props{"name": oneOf(g, "a", "abc"), "namespace": "b"}, "spec": g.fitting(spec)})
		if err != nil {
			t.Fatal(err)
		}
		was, err := old.stored(t.Context(), text)
		if err == nil {
			was, err = old.stored(t.Context(), was) // null in a default is dropped only now
		}
		if err != nil {
			continue
		}
		objects++
		is, err := now.stored(t.Context(), was)
		if err != nil {
			return fmt.Sprintf("%s is refused: %v", was, err), objects
		}
		var a, b props
		if json.Unmarshal(was, &a) != nil || json.Unmarshal(is, &b) != nil {
			t.Fatalf("%s and %s are not JSON", was, is)
		}
		delete(a, "metadata") // has a new uid
		if at := lost("", a, b); at != "" {
			return fmt.Sprintf("%s becomes %s: %s is lost", was, is, at), objects
		}
	}
	return "", objects
}

func TestChangesThatHurtObjectsAreBreaking(t *testing.T) {
	g := changes{rand.New(rand.NewPCG(*changeSeed, 0))}
	var pairs, hurt, quiet, noisy, missed int
	noise := map[string]int{}
	for pairs < *changePairs {
		oldSpec := oneOf(g, g.object(3), g.schema(3))
		newSpec := copied(oldSpec).(props)
		for range 1 + g.IntN(2) {
			g.change(newSpec, 3)
		}
		if reflect.DeepEqual(oldSpec, newSpec) {
			continue
		}
		oldMeta, newMeta := g.metadata(), g.metadata()
		old := newChangeVersion(t, oldSpec, oldMeta)
		if old == nil {
			continue
		}
		now := newChangeVersion(t, newSpec, newMeta)
		if now == nil {
			continue
		}
		pairs++
		found := compare(&Definition{CRD: now.crd}, &Definition{CRD: old.crd})
		what, objects := g.hurt(t, old, now, oldSpec, newSpec)
		breaking := slices.DeleteFunc(found, func(f Finding) bool { return f.Severity != Breaking })
		switch {
		case what != "":
			if hurt++; len(breaking) == 0 {
				a, _ := json.Marshal(oldSpec)
				b, _ := json.Marshal(newSpec)
				if missed++; missed < 10 {
					t.Errorf("no breaking finding for %s -> %s: %s", a, b, what)
				}
			}
		case objects < 8:
		case len(breaking) == 0:
			quiet++
		default:
			noisy++
			for _, f := range breaking {
				noise[before(f.Message, ":")]++
				if testing.Verbose() && len(breaking) == 1 && noisy%20 == 0 {
					a, _ := json.Marshal(oldSpec)
					b, _ := json.Marshal(newSpec)
					t.Logf("noise? %s %s\n   %s\n   %s", f.Path, f.Message, a, b)
				}
			}
		}
	}
	t.Logf("%d pairs: %d hurt objects, %d of them without a finding; of the others %d have no breaking finding and %d have one", pairs, hurt, missed, quiet, noisy)
	if testing.Verbose() {
		for k, n := range noise {
			if n > 2 {
				t.Logf("%5d %s", n, k)
			}
		}
	}
}
