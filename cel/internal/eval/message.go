package eval

import (
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/google/cel-go/common/ast"

	"github.com/keelson-io/keelson/cel/internal/val"
)

// This file makes the messages that denote plain values: the well-known types of protocol buffers.

// wrappers are the messages with one scalar, with its zero value.
var wrappers = map[string]val.Value{
	"google.protobuf.BoolValue": val.BoolValue(false), "google.protobuf.BytesValue": val.BytesValue(nil),
	"google.protobuf.DoubleValue": val.DoubleValue(0), "google.protobuf.FloatValue": val.DoubleValue(0),
	"google.protobuf.Int32Value": val.IntValue(0), "google.protobuf.Int64Value": val.IntValue(0),
	"google.protobuf.StringValue": val.TextValue(""),
	"google.protobuf.UInt32Value": val.UintValue(0), "google.protobuf.UInt64Value": val.UintValue(0),
}

// message compiles a literal such as google.protobuf.Int64Value{value: 1}.
func (c *compiler) message(e ast.Expr) *code {
	s := e.AsStruct()
	name := s.TypeName()
	if ref, ok := c.refs[e.ID()]; ok && ref.Name != "" {
		name = ref.Name
	}
	name = strings.TrimPrefix(name, ".")
	var fields []messageField
	for _, f := range s.Fields() {
		field := f.AsStructField()
		fields = append(fields, messageField{field.Name(), c.node(field.Value()).Eval, field.IsOptional()})
	}
	make := c.messageMaker(name)
	if make == nil {
		c.unsupported("a literal of type " + name)
	}
	return &code{Eval: func(fr *val.Frame) val.Value {
		v := readFields(fr, fields, make)
		fr.Cost += val.CostStruct
		return v
	}}
}

// messageField is a member of a literal.
type messageField struct {
	name     string
	eval     val.EvalFn
	optional bool
}

// readFields evaluates the members and makes the message.
func readFields(fr *val.Frame, fields []messageField, make func(names []string, values map[string]val.Value) val.Value) val.Value {
	var names []string
	values := map[string]val.Value{}
	for _, f := range fields {
		v := f.eval(fr)
		switch {
		case v.Failed():
			return v
		case f.optional && v.K != val.KindOptional:
			return val.Errorf("cannot initialize optional entry '%s' from non-optional value %v", f.name, v.Ref())
		case f.optional && v.Ptr == nil:
			continue
		case f.optional:
			v = *v.Optional()
		}
		names, values[f.name] = append(names, f.name), v
	}
	return make(names, values)
}

// messageMaker returns the function that makes the value of a literal, nil if literals of that type
// are not supported.
func (c *compiler) messageMaker(name string) func([]string, map[string]val.Value) val.Value {
	if c.lang != nil && c.lang.Lang.Patches && val.IsPatchType(name) {
		return func(names []string, values map[string]val.Value) val.Value { return val.MadeOf(name, names, values) }
	}
	make := wellKnown(name)
	if make == nil {
		return nil
	}
	return func(_ []string, values map[string]val.Value) val.Value { return make(values) }
}

// wellKnown returns the function that makes the value of a well-known type from its fields, nil for
// other types.
func wellKnown(name string) func(map[string]val.Value) val.Value {
	if zero, ok := wrappers[name]; ok {
		return func(values map[string]val.Value) val.Value {
			v, ok := values["value"]
			if !ok {
				return zero
			}
			return wrapped(name, zero, v)
		}
	}
	switch name {
	case "google.protobuf.Struct":
		return func(values map[string]val.Value) val.Value {
			if v, ok := values["fields"]; ok {
				return jsonMap(v)
			}
			return val.MapValue(&val.MapBox{})
		}
	case "google.protobuf.ListValue":
		return func(values map[string]val.Value) val.Value {
			if v, ok := values["values"]; ok {
				return v
			}
			return val.ListValue(nil)
		}
	case "google.protobuf.Value":
		return func(values map[string]val.Value) val.Value {
			if len(values) == 0 {
				return val.NullValue
			}
			field := slices.Sorted(maps.Keys(values))[0] // the fields of a oneof
			switch v := values[field]; {
			case field == "null_value":
				return val.NullValue
			case field == "number_value" && v.K == val.KindInt:
				return val.DoubleValue(float64(v.Int()))
			default:
				return v
			}
		}
	case "google.protobuf.Duration":
		return func(values map[string]val.Value) val.Value {
			total := val.Multiply(val.IntValue(values["seconds"].Int()), val.IntValue(1e9))
			if !total.Failed() {
				total = val.Add(total, val.IntValue(values["nanos"].Int()))
			}
			if total.Failed() {
				return total
			}
			return val.DurationValue(total.Int())
		}
	case "google.protobuf.Timestamp":
		return func(values map[string]val.Value) val.Value {
			return timestampOf(values["seconds"].Int(), values["nanos"].Int())
		}
	}
	return nil
}

// wrapped returns a scalar as the wrapper stores it.
func wrapped(name string, zero, v val.Value) val.Value {
	switch {
	case v.K == val.KindNull:
		return v
	case v.K != zero.K:
		return val.ErrorValue(val.CodeNoOverload)
	case name == "google.protobuf.FloatValue":
		return val.DoubleValue(float64(float32(v.Float())))
	case name == "google.protobuf.Int32Value" && int64(int32(v.Int())) != v.Int():
		return val.ErrorValue(val.CodeIntOverflow)
	case name == "google.protobuf.UInt32Value" && uint64(uint32(v.Bits)) != v.Bits:
		return val.ErrorValue(val.CodeUintOverflow)
	}
	return v
}

// jsonMap returns a map whose keys are all strings, as in JSON, or an error.
func jsonMap(v val.Value) val.Value {
	if v.K != val.KindMap {
		return val.ErrorValue(val.CodeNoOverload)
	}
	failure := v
	val.EachEntry(v, func(k, _ val.Value) bool {
		if k.K != val.KindString {
			failure = val.Errorf("got a key of type %s, want a string", k.TypeName())
		}
		return k.K == val.KindString
	})
	return failure
}

// timestampOf returns a time in the years 1 to 9999, or an error.
func timestampOf(seconds, nanos int64) val.Value {
	t := time.Unix(seconds, nanos).UTC()
	if u := t.Unix(); u < val.MinUnix || u > val.MaxUnix {
		return val.ErrorValue(val.CodeTimeOverflow)
	}
	return val.TimeValue(t)
}
