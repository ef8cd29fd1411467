package builtin

import (
	"maps"
	"slices"
	"strings"
)

// This file makes strategic merge patches, for all that lists and objects can be told.

// directives are patches for every list of an object that is merged, and for objects of which some members are kept.
func (f *filler) directives(s *shape, v m) []m {
	var out []m
	f.walk(s, v, func(patch any) any { return patch }, func(patch any) { out = append(out, patch.(m)) })
	return out
}

// walk gives each patch to emit; wrap makes one of the whole out of one of v.
func (f *filler) walk(s *shape, v m, wrap func(any) any, emit func(any)) {
	at, _ := f.resolve(s)
	for _, name := range slices.Sorted(maps.Keys(v)) {
		p := at.Properties[name]
		if p == nil || name == "metadata" {
			continue
		}
		inside := func(patch any) any { return wrap(m{name: patch}) }
		switch value := v[name].(type) {
		case m:
			f.object(p, value, inside, emit)
			f.walk(p, value, inside, emit)
		case []any:
			if !strings.Contains(p.Strategy, "merge") || len(value) == 0 {
				continue
			}
			first, ok := value[0].(m)
			if !ok {
				primitives(name, value, wrap, emit)
				continue
			}
			if first[p.Key] != nil {
				f.items(p, name, value, wrap, emit)
			}
		}
	}
}

// object is what an object can be told.
func (f *filler) object(s *shape, v m, wrap func(any) any, emit func(any)) {
	if !strings.Contains(s.Strategy, "retainKeys") {
		return
	}
	for _, name := range slices.Sorted(maps.Keys(v)) {
		emit(wrap(m{"$retainKeys": []string{name}, name: v[name]}))
	}
	emit(wrap(m{"$retainKeys": []string{}, "type": "x"}))
	emit(wrap(m{"$patch": "replace"}))
	emit(wrap(m{"$patch": "delete"}))
}

// primitives is what a list of texts or numbers can be told.
func primitives(name string, v []any, wrap func(any) any, emit func(any)) {
	emit(wrap(m{"$deleteFromPrimitiveList/" + name: v[:1]}))
	emit(wrap(m{"$setElementOrder/" + name: reversed(v)}))
	emit(wrap(m{name: v[:1]}))
	emit(wrap(m{name: v[:1], "$setElementOrder/" + name: v[:1], "$deleteFromPrimitiveList/" + name: v[1:]}))
}

func reversed(v []any) []any {
	v = slices.Clone(v)
	slices.Reverse(v)
	return v
}

// items is what a list of objects with a key can be told.
func (f *filler) items(s *shape, name string, v []any, wrap func(any) any, emit func(any)) {
	var keys []any
	for _, item := range v {
		keys = append(keys, m{s.Key: item.(m)[s.Key]})
	}
	first := v[0].(m)
	key := m{s.Key: first[s.Key]}
	with := func(more m) m {
		out := maps.Clone(key)
		maps.Copy(out, more)
		return out
	}
	emit(wrap(m{name: []any{with(m{"$patch": "delete"})}}))
	emit(wrap(m{name: []any{m{"$patch": "delete", s.Key: f.other(key[s.Key])}}}))
	emit(wrap(m{name: []any{m{"$patch": "replace"}, first}}))
	emit(wrap(m{name: []any{with(m{"$patch": "other"})}}))
	emit(wrap(m{name: []any{m{"bogus": 1}}}))
	emit(wrap(m{"$setElementOrder/" + name: reversed(keys)}))
	emit(wrap(m{"$setElementOrder/" + name: append([]any{m{s.Key: f.other(key[s.Key])}}, keys...), name: []any{added(first, s.Key, f.other(key[s.Key]))}}))
	if len(v) > 1 {
		emit(wrap(m{"$setElementOrder/" + name: keys[1:], name: []any{with(m{"$patch": "delete"})}}))
	}
	keep := slices.Sorted(maps.Keys(first))
	emit(wrap(m{name: []any{with(m{"$retainKeys": keep[:1+len(keep)/2]})}}))
	f.walk(s.Items, first, func(patch any) any {
		item := with(patch.(m))
		return wrap(m{name: []any{item}})
	}, emit)
}

// other is a key that no item has.
func (f *filler) other(key any) any {
	switch key := key.(type) {
	case string:
		if strings.HasPrefix(key, "/") {
			return "/other"
		}
		return "other"
	default:
		return 99
	}
}

// added is an item like another one.
func added(item m, key string, value any) m {
	item = clone(item)
	item[key] = value
	return item
}
