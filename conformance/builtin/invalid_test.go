package builtin

import (
	"maps"
	"os"
	"slices"
	"strconv"
	"strings"

	"sigs.k8s.io/yaml"
)

// This file asks about objects that are wrong, each in one thing.

// mistakes are changes of an object, by JSON pointer.
type mistakes struct {
	Base           m
	Create, Update []m
}

// wrong asks about all that testdata/invalid.yaml says of a kind; those that it has been asked about are taken away.
func (r *run) wrong(s *subject, all map[string]*mistakes) {
	r.t.Helper()
	of := all[s.name]
	if of == nil {
		return
	}
	delete(all, s.name)
	wrong := &subject{group: s.group, APIResource: s.APIResource, name: s.name, minimal: of.Base}
	for _, change := range of.Create {
		o := wrong.object(s.named(6))
		for _, at := range slices.Sorted(maps.Keys(change)) {
			set(o, at, change[at])
		}
		r.ask(s.name, "wrong "+print(change), &request{method: "POST", path: s.collection() + "?dryRun=All", body: o})
	}
	if of.Update == nil {
		return
	}
	one := s.collection() + "/" + s.named(6)
	r.ask(s.name, "right", &request{method: "POST", path: s.collection(), body: wrong.object(s.named(6))})
	for _, change := range of.Update {
		var ops []m
		for _, at := range slices.Sorted(maps.Keys(change)) {
			op := m{"op": "add", "path": at, "value": change[at]}
			last := at[strings.LastIndexByte(at, '/')+1:]
			if _, err := strconv.Atoi(last); err == nil {
				op["op"] = "replace"
			}
			if change[at] == nil {
				op = m{"op": "remove", "path": at}
			}
			ops = append(ops, op)
		}
		r.ask(s.name, "wrong update "+print(change), &request{method: "PATCH", path: one + "?dryRun=All", body: ops, kind: jsonPatch})
	}
	r.ask(s.name, "right gone", &request{method: "DELETE", path: one, body: m{"gracePeriodSeconds": 0}})
}

// set sets what a JSON pointer names; nil takes it away.
func set(o m, pointer string, value any) {
	var at any = o
	names := strings.Split(pointer[1:], "/")
	var put []func(any)
	for i, name := range names {
		name = strings.NewReplacer("~1", "/", "~0", "~").Replace(name)
		switch in := at.(type) {
		case map[string]any:
			if i == len(names)-1 && value == nil {
				delete(in, name)
				return
			}
			if in[name] == nil && i < len(names)-1 {
				in[name] = m{}
			}
			put = append(put, func(v any) { in[name] = v })
			at = in[name]
		case []any:
			n, err := strconv.Atoi(name)
			if err != nil {
				put[len(put)-1](append(slices.Clone(in), value))
				return
			}
			put = append(put, func(v any) { in[n] = v })
			at = in[n]
		default:
			panic("BUG: nothing at " + pointer)
		}
	}
	put[len(put)-1](value)
}

// readMistakes reads what is wrong with objects, by kind.
func (r *run) readMistakes(path string) map[string]*mistakes {
	r.t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		r.t.Fatal(err)
	}
	var all map[string]*mistakes
	if err := yaml.UnmarshalStrict(text, &all); err != nil {
		r.t.Fatal(err)
	}
	return all
}
