package builtin

import (
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
)

// This file makes objects in which every member is set, out of the schemas that upstream publishes.

// shape is a published schema.
type shape struct {
	Ref        string `json:"$ref"`
	AllOf      []*shape
	Type       string
	Format     string
	Enum       []any
	Properties map[string]*shape
	Items      *shape
	Values     *shape `json:"additionalProperties"`
	Strategy   string `json:"x-kubernetes-patch-strategy"`
	Key        string `json:"x-kubernetes-patch-merge-key"`
	GVK        []struct {
		Group, Version, Kind string
	} `json:"x-kubernetes-group-version-kind"`
}

// shapes are schemas by name.
type shapes map[string]*shape

// shapesOf asks for the schemas of a group version.
func (r *run) shapesOf(g group) shapes {
	r.t.Helper()
	var said struct {
		Components struct{ Schemas shapes }
	}
	if a := r.peers[0].ask(&request{method: "GET", path: "/openapi/v3" + g.base()}); a.code == http.StatusNotFound {
		return nil // of v1beta1 of definitions
	} else if err := json.Unmarshal(a.body, &said); err != nil {
		r.t.Fatalf("schemas of %s: %v", g.base(), err)
	}
	return said.Components.Schemas
}

// root is the schema of a kind.
func (all shapes) root(s *subject) *shape {
	for _, is := range all {
		for _, gvk := range is.GVK {
			if gvk.Group == s.GroupVersion.Group && gvk.Version == s.GroupVersion.Version && gvk.Kind == s.Kind && is.Properties["items"] == nil {
				return is
			}
		}
	}
	return nil
}

// resolve is a schema that stands for itself, and its name if it has got one.
func (all shapes) resolve(s *shape) (*shape, string) {
	ref := s.Ref
	if ref == "" && len(s.AllOf) == 1 {
		ref = s.AllOf[0].Ref
	}
	if ref == "" {
		return s, ""
	}
	full := strings.TrimPrefix(ref, "#/components/schemas/")
	return all[full], full[strings.LastIndexByte(full, '.')+1:]
}

// filler makes values. Where there are several it takes the turn's, so that all turns together make all of them.
type filler struct {
	shapes
	turn   int
	widest int // how many there are to choose from, at most
}

// pinned are definitions whose unions do not turn in lists: other members name items.
var pinned = map[string]bool{"Volume": true}

// choose is one of n, for the nth of its kind in a list.
func (f *filler) choose(n, nth int) int {
	f.widest = max(f.widest, n)
	return (f.turn + nth) % n
}

// each are values of which a turn takes one.
type each []any

// value is a value for a member, such as PodSpec.hostname.
func (f *filler) value(s *shape, member string, nth int) any {
	_, name, _ := strings.Cut(member, ".")
	at, named := f.resolve(s)
	for _, key := range []string{member, name, named} {
		given, ok := values[key]
		if !ok {
			continue
		}
		if several, ok := given.(each); ok {
			given = several[f.choose(len(several), nth)]
		}
		return numbered(given, nth)
	}
	switch {
	case len(at.Enum) > 0:
		return at.Enum[f.choose(len(at.Enum), nth)]
	case at.Properties != nil:
		return f.members(at, named, nth)
	case at.Items != nil:
		return f.list(at, member)
	case at.Values != nil:
		return m{"k": f.value(at.Values, member, nth)}
	}
	switch at.Type {
	case "integer":
		return 1 + nth
	case "boolean":
		return true
	case "object":
		return m{"a": "b"}
	}
	if at.Format == "byte" {
		return "dg=="
	}
	return fmt.Sprintf("n%d", nth)
}

// numbered is a value with the number of its item in it, where that is asked for: «N».
func numbered(v any, nth int) any {
	var out any
	text := strings.ReplaceAll(print(v), "«N»", fmt.Sprint(nth))
	if err := json.Unmarshal([]byte(text), &out); err != nil {
		panic("BUG: " + err.Error())
	}
	return out
}

// members is an object, in which of those members that exclude each other there is one.
func (f *filler) members(s *shape, named string, nth int) m {
	without := map[string]bool{}
	for _, union := range unions[named] {
		chosen := nth
		if !pinned[named] {
			chosen = f.choose(len(union), nth)
		}
		for i, name := range union {
			without[name] = i != chosen
		}
	}
	out := m{}
	for _, name := range slices.Sorted(maps.Keys(s.Properties)) {
		if !without[name] && unset[named+"."+name] == "" {
			if v := f.value(s.Properties[name], named+"."+name, nth); v != nil {
				out[name] = v
			}
		}
	}
	return out
}

// list is a list, with an item for each of those members of its items that exclude each other.
func (f *filler) list(s *shape, member string) []any {
	_, named := f.resolve(s.Items)
	length := lengths[member]
	for _, union := range unions[named] {
		if length == 0 {
			length = len(union)
		}
	}
	if length == 0 {
		length = 2
	}
	var out []any
	for i := range length {
		v := f.value(s.Items, member+"[]", i+offsets[member])
		if _, ok := v.(m); ok || !slices.Contains(out, v) {
			out = append(out, v)
		}
	}
	return out
}

// visit calls see for each member of an object, and for each value of an enumeration, by name.
func (all shapes) visit(s *shape, v any, see func(string)) {
	at, named := all.resolve(s)
	if at == nil {
		return
	}
	switch v := v.(type) {
	case m:
		for name, value := range v {
			if p := at.Properties[name]; p != nil {
				see(named + "." + name)
				if text, ok := value.(string); ok {
					if to, _ := all.resolve(p); len(to.Enum) > 0 {
						see(named + "." + name + "=" + text)
					}
				}
				all.visit(p, value, see)
			} else if at.Values != nil {
				all.visit(at.Values, value, see)
			}
		}
	case []any:
		for _, item := range v {
			if at.Items != nil {
				all.visit(at.Items, item, see)
			}
		}
	}
}

// reachable are the members of a kind.
func (all shapes) reachable(s *shape, named string, seen map[string]bool) {
	at, own := all.resolve(s)
	if own == "" {
		own = named
	}
	if at == nil || seen["in "+own] && at.Properties != nil || values[own] != nil {
		return
	}
	if at.Properties != nil {
		seen["in "+own] = true
	}
	for name, p := range at.Properties {
		seen[own+"."+name] = true
		if values[own+"."+name] == nil {
			all.reachable(p, own+"."+name, seen)
		}
	}
	for _, inner := range []*shape{at.Items, at.Values} {
		if inner != nil {
			all.reachable(inner, named, seen)
		}
	}
}
