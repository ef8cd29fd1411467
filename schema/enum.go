package schema

import (
	"encoding/json"
	"unicode/utf8"

	"github.com/keelson-io/keelson/jsondoc"
)

// This file compares values with those of an enum. Upstream first converts the value to the Go type
// of the enum's value, so that 1.5 equals 1, and 65 equals "A". null equals nothing.

// enumOK reports whether x, which is not null, is a value of the enum.
func (v *values) enumOK(d *jsondoc.Doc, x jsondoc.Node, kind jsondoc.Kind) bool {
	if v.large != nil {
		return v.large.has(d, x, kind)
	}
	if kind == jsondoc.String {
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

// equalsEnum reports whether x equals one value of an enum.
func equalsEnum(d *jsondoc.Doc, x jsondoc.Node, kind jsondoc.Kind, e any) bool {
	switch e := e.(type) {
	case bool:
		return kind == jsondoc.Bool && e == x.Bool()
	case string:
		return kind == jsondoc.String && e == d.Str(x) || kind == jsondoc.Int && e == runeText(x.Int())
	case int64:
		return kind == jsondoc.Int && e == x.Int() || kind == jsondoc.Float && e == int64(x.Float())
	case float64:
		return kind == jsondoc.Int && e == float64(x.Int()) || kind == jsondoc.Float && e == x.Float()
	case []any, map[string]any:
		return sameAsGo(jsondoc.Value{Doc: d, Node: x}, e)
	}
	return false
}

// runeText returns the conversion of an integer to a string in Go, in which upstream compares them.
func runeText(i int64) string {
	if i < 0 || i > utf8.MaxRune {
		return string(utf8.RuneError)
	}
	return string(rune(i))
}

// sameAsGo reports whether x equals a value that encoding/json decoded, with the same types.
func sameAsGo(x jsondoc.Value, e any) bool {
	switch e := e.(type) {
	case nil:
		return x.Kind() == jsondoc.Null
	case bool:
		return x.Kind() == jsondoc.Bool && x.Node.Bool() == e
	case int64:
		return x.Kind() == jsondoc.Int && x.Node.Int() == e
	case float64:
		return x.Kind() == jsondoc.Float && x.Node.Float() == e
	case string:
		return x.Kind() == jsondoc.String && x.Text() == e
	case []any:
		if x.Kind() != jsondoc.Array || x.Len() != len(e) {
			return false
		}
		for i := range e {
			if !sameAsGo(x.Item(i), e[i]) {
				return false
			}
		}
		return true
	case map[string]any:
		if x.Kind() != jsondoc.Object || x.Len() != len(e) {
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

// longEnum is the greatest length of an enum whose values are compared one by one.
const longEnum = 16

// enumSet is a long enum as sets, by the type of the values.
type enumSet struct {
	bools    [2]bool
	texts    map[string]bool
	integers map[int64]bool
	floats   map[float64]bool
	others   map[string][]any // arrays and objects, by their JSON text
}

// newEnumSet returns the set of the values.
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

// has reports whether x is in s, by the same comparisons as equalsEnum.
func (s *enumSet) has(d *jsondoc.Doc, x jsondoc.Node, kind jsondoc.Kind) bool {
	switch kind {
	case jsondoc.Bool:
		return x.Bool() && s.bools[1] || !x.Bool() && s.bools[0]
	case jsondoc.String:
		return s.texts[d.Str(x)]
	case jsondoc.Int:
		return s.integers[x.Int()] || s.floats[float64(x.Int())] || len(s.texts) > 0 && s.texts[runeText(x.Int())]
	case jsondoc.Float:
		return s.integers[int64(x.Float())] || s.floats[x.Float()]
	}
	if len(s.others) == 0 {
		return false
	}
	// Equal values have the same JSON text. 1 and 1.0 also have the same text, but are not equal.
	for _, e := range s.others[string(d.AppendJSON(nil, x))] {
		if sameAsGo(jsondoc.Value{Doc: d, Node: x}, e) {
			return true
		}
	}
	return false
}
