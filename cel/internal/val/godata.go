package val

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math"
	"reflect"
	"slices"
	"strconv"
	"time"

	"github.com/google/cel-go/common/types/ref"

	"github.com/keelson-io/keelson/jsondoc"
)

// This file converts values between Go, JSON and the language.

// FromGo converts a Go value: nil, booleans, integers, floats, strings, []byte, time.Time,
// time.Duration, slices, arrays, maps with keys of a CEL key type, [jsondoc.Value], pointers to
// these, and Value. Structs are errors: marshal them to JSON and use [FromJSON].
func FromGo(v any) (Value, error) {
	switch v := v.(type) {
	case nil:
		return NullValue, nil
	case Value:
		return v, nil
	case bool:
		return BoolValue(v), nil
	case string:
		return ConstString(v), nil
	case []byte:
		return BytesValue(v), nil
	case time.Time:
		if u := v.Unix(); u < MinUnix || u > MaxUnix {
			return Value{}, fmt.Errorf("time %v: outside the years 1 to 9999", v)
		}
		return TimeValue(v), nil
	case time.Duration:
		return DurationValue(int64(v)), nil
	case jsondoc.Value:
		return FromDoc(v, nil), nil
	case ref.Val:
		return FromRef(v), nil
	}
	return fromReflect(reflect.ValueOf(v))
}

// fromReflect converts the types that need reflection.
func fromReflect(r reflect.Value) (Value, error) {
	switch r.Kind() {
	case reflect.Bool:
		return BoolValue(r.Bool()), nil
	case reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64:
		return IntValue(r.Int()), nil
	case reflect.Uint, reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64:
		return UintValue(r.Uint()), nil
	case reflect.Float32, reflect.Float64:
		return DoubleValue(r.Float()), nil
	case reflect.String:
		return ConstString(r.String()), nil
	case reflect.Pointer, reflect.Interface:
		if r.IsNil() {
			return NullValue, nil
		}
		return FromGo(r.Elem().Interface())
	case reflect.Slice, reflect.Array:
		items := make([]Value, r.Len())
		for i := range items {
			item, err := FromGo(r.Index(i).Interface())
			if err != nil {
				return Value{}, fmt.Errorf("[%d]: %w", i, err)
			}
			items[i] = item
		}
		return ListValue(items), nil
	case reflect.Map:
		return fromGoMap(r)
	}
	return Value{}, fmt.Errorf("got a Go value of type %s, want plain data", r.Type())
}

// fromGoMap converts a map. The entries are sorted by key, so that evaluations are deterministic.
func fromGoMap(r reflect.Value) (Value, error) {
	type entry struct{ k, v Value }
	var entries []entry
	for it := r.MapRange(); it.Next(); {
		k, err := FromGo(it.Key().Interface())
		if err != nil {
			return Value{}, err
		}
		if _, ok := KeyOf(k); !ok {
			return Value{}, fmt.Errorf("got a key of type %s, want a boolean, number or string", k.TypeName())
		}
		v, err := FromGo(it.Value().Interface())
		if err != nil {
			return Value{}, fmt.Errorf("[%v]: %w", k, err)
		}
		entries = append(entries, entry{k, v})
	}
	slices.SortFunc(entries, func(a, b entry) int {
		if c := Compare(a.k, b.k); c.K == KindInt {
			return int(c.Int())
		}
		return int(a.k.K) - int(b.k.K)
	})
	m := &MapBox{}
	for _, e := range entries {
		m.Put(e.k, e.v)
	}
	return MapValue(m), nil
}

// FromJSON converts a JSON document. A number without fraction and exponent is an int if it fits,
// otherwise a double.
func FromJSON(text []byte) (Value, error) {
	d := &jsondoc.Doc{}
	d.Reset([]*jsondoc.Shape{nil})
	if err := jsondoc.Parse(d, text); err != nil {
		return Value{}, err
	}
	return FromDoc(d.Root(), nil), nil
}

// FromDoc converts a value of a document. With a Type, members are converted when an expression
// reads them, and the document must not change. Without one, the value is copied: objects become
// maps, arrays become lists.
func FromDoc(v jsondoc.Value, t *Type) Value {
	if t != nil {
		return LoadVariable(v, t)
	}
	switch v.Kind() {
	case jsondoc.Bool:
		return BoolValue(v.Node.Bool())
	case jsondoc.Int:
		return IntValue(v.Node.Int())
	case jsondoc.Float:
		return DoubleValue(v.Node.Float())
	case jsondoc.String:
		return ConstString(string(append([]byte(nil), v.Doc.Str(v.Node)...)))
	case jsondoc.Array:
		items := make([]Value, v.Len())
		for i := range items {
			items[i] = FromDoc(v.Item(i), nil)
		}
		return ListValue(items)
	case jsondoc.Object:
		m := &MapBox{}
		for name, member := range v.Members() {
			m.Put(ConstString(string(append([]byte(nil), name...))), FromDoc(member, nil))
		}
		return MapValue(m)
	}
	return NullValue
}

// Go converts v to plain Go data: nil, bool, int64, uint64, float64, string, []byte, time.Time,
// time.Duration, []any, map[any]any. An optional is its value or nil. An object that the expression
// constructed is a map[string]any, an operation of a patch a [JSONPatch]. A value of any other kind
// is its text.
func (v Value) Go() any {
	switch v.K {
	case KindNone, KindNull:
		return nil
	case KindBool:
		return v.Bool()
	case KindInt:
		return v.Int()
	case KindUint:
		return v.Bits
	case KindDouble:
		return v.Float()
	case KindString:
		return v.Text()
	case KindBytes:
		return v.bytes()
	case KindTimestamp:
		return v.Time()
	case KindDuration:
		return v.Duration()
	case KindList:
		out := make([]any, v.Size())
		for i := range out {
			out[i] = v.Item(i).Go()
		}
		return out
	case KindMap:
		out := map[any]any{}
		EachEntry(v, func(k, item Value) bool {
			out[k.Go()] = item.Go()
			return true
		})
		return out
	case KindOptional:
		if v.Ptr == nil {
			return nil
		}
		return v.Optional().Go()
	}
	if m, ok := v.made(); ok {
		return m.native()
	}
	return v.String()
}

// made returns the object or operation that v is, if the expression constructed it.
func (v Value) made() (*made, bool) {
	if v.K != KindOpaque {
		return nil, false
	}
	m, ok := v.Opaque().(*made)
	return m, ok
}

// JSON returns v as compact JSON: bytes as base64, durations and timestamps as the language prints
// them, keys as sorted strings, numbers that JSON does not have (NaN, infinities) as strings, types
// and values of libraries as their text.
func (v Value) JSON() ([]byte, error) { return v.JSONWithin(math.MaxInt) }

// ErrTooLarge is the error of [Value.JSONWithin] for a text that is too long.
var ErrTooLarge = errors.New("the value is too large")

// JSONWithin is [Value.JSON] with a limit in bytes: lists and maps may contain each other many
// times.
func (v Value) JSONWithin(limit int) ([]byte, error) {
	p := jsonPrinter{limit: limit}
	p.encoder = json.NewEncoder(&p.out)
	p.encoder.SetEscapeHTML(false)
	if err := p.value(v); err != nil {
		return nil, err
	}
	return p.out.Bytes(), nil
}

// jsonPrinter is one call of JSONWithin.
type jsonPrinter struct {
	out     bytes.Buffer
	encoder *json.Encoder // into out
	limit   int
}

// scalar prints plain Go data.
func (p *jsonPrinter) scalar(v any) error {
	if err := p.encoder.Encode(v); err != nil {
		return err
	}
	p.out.Truncate(p.out.Len() - 1) // the newline
	return p.check()
}

// text prints a string.
func (p *jsonPrinter) text(s string) error {
	for i := range len(s) {
		if c := s[i]; c < ' ' || c > '~' || c == '"' || c == '\\' {
			return p.scalar(s)
		}
	}
	p.out.WriteByte('"')
	p.out.WriteString(s)
	p.out.WriteByte('"')
	return p.check()
}

// check returns an error if the text is too long.
func (p *jsonPrinter) check() error {
	if p.out.Len() > p.limit {
		return ErrTooLarge
	}
	return nil
}

// value prints a value.
func (p *jsonPrinter) value(v Value) error {
	switch v.K {
	case KindNone, KindNull:
		return p.scalar(nil)
	case KindDouble:
		if f := v.Float(); math.IsNaN(f) || math.IsInf(f, 0) {
			return p.scalar(strconv.FormatFloat(f, 'g', -1, 64))
		}
		return p.scalar(v.Float())
	case KindBytes:
		return p.scalar(base64.StdEncoding.EncodeToString(v.bytes()))
	case KindTimestamp:
		return p.scalar(v.Time().Format(time.RFC3339Nano))
	case KindDuration:
		return p.scalar(durationText(v))
	case KindList:
		return p.list(v)
	case KindMap:
		return p.object(v)
	case KindOptional:
		if v.Ptr == nil {
			return p.scalar(nil)
		}
		return p.value(*v.Optional())
	case KindError:
		return v.Err()
	case KindUnknown:
		return fmt.Errorf("the value is unknown: it depends on %v", v.Unknown().Paths)
	case KindBool:
		p.out.Write(strconv.AppendBool(p.out.AvailableBuffer(), v.Bool()))
		return p.check()
	case KindInt:
		p.out.Write(strconv.AppendInt(p.out.AvailableBuffer(), v.Int(), 10))
		return p.check()
	case KindString:
		return p.text(v.Text())
	case KindUint:
		return p.scalar(v.Go())
	}
	if m, ok := v.made(); ok {
		return p.members(m.names, m.fields)
	}
	return p.scalar(v.String())
}

// list prints a list.
func (p *jsonPrinter) list(v Value) error {
	p.out.WriteByte('[')
	for i, n := 0, v.Size(); i < n; i++ {
		if i > 0 {
			p.out.WriteByte(',')
		}
		if err := p.value(v.Item(i)); err != nil {
			return err
		}
	}
	p.out.WriteByte(']')
	return p.check()
}

// object prints a map.
func (p *jsonPrinter) object(v Value) error {
	members := map[string]Value{}
	EachEntry(v, func(k, item Value) bool {
		members[fmt.Sprint(k.Go())] = item
		return true
	})
	return p.members(slices.Collect(maps.Keys(members)), members)
}

// members prints members, sorted by name.
func (p *jsonPrinter) members(names []string, members map[string]Value) error {
	p.out.WriteByte('{')
	if !slices.IsSorted(names) {
		names = slices.Sorted(slices.Values(names))
	}
	for i, name := range names {
		if i > 0 && names[i-1] == name {
			continue // a literal may have a member twice, and the last one counts
		}
		if i > 0 {
			p.out.WriteByte(',')
		}
		if err := p.text(name); err != nil {
			return err
		}
		p.out.WriteByte(':')
		if err := p.value(members[name]); err != nil {
			return err
		}
	}
	p.out.WriteByte('}')
	return p.check()
}

// durationText returns string(duration).
func durationText(v Value) string {
	return strconv.FormatFloat(v.Duration().Seconds(), 'f', -1, 64) + "s"
}
