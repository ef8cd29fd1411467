package schema

import (
	"encoding/json"
	"unicode/utf8"

	"github.com/keelson-io/keelson/doc"
)

// This file compares values with those of an enum. Upstream converts the value
// to the Go type of the enum's value first, so that 1.5 equals 1 and 65 equals
// "A"; null equals nothing.

// enumOK reports whether x, which is not null, is one of the enum's values.
func (v *values) enumOK(d *doc.Doc, x doc.Node, kind doc.Kind) bool {
	if v.large != nil {
		return v.large.has(d, x, kind)
	}
	if kind == doc.String {
		s := d.Str(x)
		for _, text := range v.texts {
			if s == text {
				return true
			}
		}
		return false
	}
	for _, e := range v.enum {
		if equalsEnum(d, x, kind, e) {
			return true
		}
	}
	return false
}

// equalsEnum compares x with one value of an enum.
func equalsEnum(d *doc.Doc, x doc.Node, kind doc.Kind, e any) bool {
	switch e := e.(type) {
	case bool:
		return kind == doc.Bool && e == x.Bool()
	case string:
		return kind == doc.String && e == d.Str(x) || kind == doc.Int && e == runeText(x.Int())
	case int64:
		return kind == doc.Int && e == x.Int() || kind == doc.Float && e == int64(x.Float())
	case float64:
		return kind == doc.Int && e == float64(x.Int()) || kind == doc.Float && e == x.Float()
	case []any, map[string]any:
		return sameAsGo(doc.Value{Doc: d, Node: x}, e)
	}
	return false
}

// runeText is what Go makes of an integer that is converted to a string.
func runeText(i int64) string {
	if i < 0 || i > utf8.MaxRune {
		return string(utf8.RuneError)
	}
	return string(rune(i))
}

// sameAsGo compares x with a value decoded by encoding/json, types exactly.
func sameAsGo(x doc.Value, e any) bool {
	switch e := e.(type) {
	case nil:
		return x.Kind() == doc.Null
	case bool:
		return x.Kind() == doc.Bool && x.Node.Bool() == e
	case int64:
		return x.Kind() == doc.Int && x.Node.Int() == e
	case float64:
		return x.Kind() == doc.Float && x.Node.Float() == e
	case string:
		return x.Kind() == doc.String && x.Text() == e
	case []any:
		if x.Kind() != doc.Array || x.Len() != len(e) {
			return false
		}
		for i := range e {
			if !sameAsGo(x.Item(i), e[i]) {
				return false
			}
		}
		return true
	case map[string]any:
		if x.Kind() != doc.Object || x.Len() != len(e) {
			return false
		}
		for name, m := range x.Members() {
			if want, ok := e[name]; !ok || !sameAsGo(m, want) {
				return false
			}
		}
		return true
	}
	return false
}

// longEnum is up to how many values of an enum are compared one by one.
const longEnum = 16

// enumSet is a long enum, by the types of its values.
type enumSet struct {
	bools    [2]bool
	texts    map[string]bool
	integers map[int64]bool
	floats   map[float64]bool
	others   map[string][]any // arrays and objects, by their JSON
}

func newEnumSet(enum []any) *enumSet {
	s := &enumSet{texts: map[string]bool{}, integers: map[int64]bool{}, floats: map[float64]bool{}, others: map[string][]any{}}
	for _, e := range enum {
		switch e := e.(type) {
		case bool:
			if e {
				s.bools[1] = true
			} else {
				s.bools[0] = true
			}
		case string:
			s.texts[e] = true
		case int64:
			s.integers[e] = true
		case float64:
			s.floats[e] = true
		case []any, map[string]any:
			text, err := json.Marshal(e)
			if err != nil {
				panic("BUG: a value that was read from JSON cannot be written: " + err.Error())
			}
			s.others[string(text)] = append(s.others[string(text)], e)
		}
	}
	return s
}

// has reports whether x is in s.
func (s *enumSet) has(d *doc.Doc, x doc.Node, kind doc.Kind) bool {
	switch kind {
	case doc.Bool:
		return x.Bool() && s.bools[1] || !x.Bool() && s.bools[0]
	case doc.String:
		return s.texts[d.Str(x)]
	case doc.Int:
		return s.integers[x.Int()] || s.floats[float64(x.Int())] || len(s.texts) > 0 && s.texts[runeText(x.Int())]
	case doc.Float:
		return s.integers[int64(x.Float())] || s.floats[x.Float()]
	}
	if len(s.others) == 0 {
		return false
	}
	// What is the same has the same JSON; 1 and 1.0 have, too, and are not.
	for _, e := range s.others[string(d.AppendJSON(nil, x))] {
		if sameAsGo(doc.Value{Doc: d, Node: x}, e) {
			return true
		}
	}
	return false
}
