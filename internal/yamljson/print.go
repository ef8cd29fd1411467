package yamljson

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"reflect"
	"slices"
	"strconv"
	"unicode/utf8"

	"go.yaml.in/yaml/v2"
)

// This file prints decoded YAML like encoding/json.

// errNeedsMaps means that pairs can only be printed, or refused, after decoding to maps.
var errNeedsMaps = errors.New("yamljson: decode to maps")

// printer prints values as JSON.
type printer struct {
	ctx        context.Context
	b          []byte
	values     int   // printed so far
	maps       bool  // mappings are maps, in which duplicate keys are lost
	duplicates bool  // duplicate keys were found among pairs
	badFloat   error // the first number that JSON cannot express; errors of keys take precedence
}

// checkEach is the number of values between two checks of the context.
const checkEach = 1000

// print appends a value.
func (p *printer) print(v any) error {
	if p.values++; p.values%checkEach == 0 && p.ctx.Err() != nil {
		return p.ctx.Err()
	}
	if len(p.b) > MaxJSON {
		return &LimitError{fmt.Sprintf("the aliases of the YAML text make it longer than %d bytes of JSON", MaxJSON)}
	}
	switch v := v.(type) {
	case nil:
		p.b = append(p.b, "null"...)
	case string:
		return p.text(v)
	case bool:
		p.b = strconv.AppendBool(p.b, v)
	case int:
		p.b = strconv.AppendInt(p.b, int64(v), 10)
	case float64:
		return p.float(v)
	case []any:
		p.b = append(p.b, '[')
		for i, item := range v {
			if i > 0 {
				p.b = append(p.b, ',')
			}
			if err := p.print(item); err != nil {
				return err
			}
		}
		p.b = append(p.b, ']')
	case yaml.MapSlice:
		return p.mapping(len(v), func(yield func(key, value any)) {
			for i := range v {
				yield(v[i].Key, v[i].Value)
			}
		})
	case map[any]any:
		return p.mapping(len(v), func(yield func(key, value any)) {
			for key, value := range v {
				yield(key, value)
			}
		})
	default:
		return p.other(v)
	}
	return nil
}

// text appends a string.
func (p *printer) text(s string) error {
	for i := range len(s) {
		if c := s[i]; c < ' ' || c >= utf8.RuneSelf || c == '"' || c == '\\' || c == '<' || c == '>' || c == '&' || c == 0x7f {
			return p.other(s)
		}
	}
	p.b = append(append(append(p.b, '"'), s...), '"')
	return nil
}

// float appends a number, or records that JSON cannot express it.
func (p *printer) float(f float64) error {
	if math.IsNaN(f) || math.IsInf(f, 0) {
		if _, err := json.Marshal(f); p.badFloat == nil {
			p.badFloat = err
		}
		return nil
	}
	return p.other(f)
}

// other appends a value with encoding/json.
func (p *printer) other(v any) error {
	b, err := json.Marshal(v)
	p.b = append(p.b, b...)
	return err
}

// member is a member of a mapping.
type member struct {
	name  string
	value any
}

// mapping appends a mapping, sorted by name. If a name repeats, the last value counts.
func (p *printer) mapping(n int, all func(yield func(key, value any))) error {
	members := make([]member, 0, n)
	var bad error
	all(func(key, value any) {
		name, err := p.name(key, value)
		if err != nil && bad == nil {
			bad = err
		}
		members = append(members, member{name, value})
	})
	if bad != nil {
		return bad
	}
	byName := func(a, b member) int { return cmp.Compare(a.name, b.name) }
	if !slices.IsSortedFunc(members, byName) {
		slices.SortStableFunc(members, byName)
	}
	p.b = append(p.b, '{')
	first := true
	for i, m := range members {
		if i+1 < len(members) && members[i+1].name == m.name {
			p.duplicates = true
			continue
		}
		if !first {
			p.b = append(p.b, ',')
		}
		first = false
		if err := p.text(m.name); err != nil {
			return err
		}
		p.b = append(p.b, ':')
		if err := p.print(m.value); err != nil {
			return err
		}
	}
	p.b = append(p.b, '}')
	return nil
}

// name returns the JSON name of a key.
func (p *printer) name(key, value any) (string, error) {
	switch key := key.(type) {
	case string:
		return key, nil
	case int:
		return strconv.Itoa(key), nil
	case float64:
		switch s := strconv.FormatFloat(key, 'g', -1, 32); s {
		case "+Inf":
			return ".inf", nil
		case "-Inf":
			return "-.inf", nil
		case "NaN":
			return ".nan", nil
		default:
			return s, nil
		}
	case bool:
		return strconv.FormatBool(key), nil
	}
	if !p.maps {
		return "", errNeedsMaps
	}
	return "", fmt.Errorf("unsupported map key of type: %s, key: %+#v, value: %+#v", reflect.TypeOf(key), key, value)
}
