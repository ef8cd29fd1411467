package cel

import (
	"strings"
	"time"

	"github.com/google/cel-go/common/ast"
)

// This file makes the messages that have a meaning as plain values: the
// well-known types of protocol buffers.

// wrappers are the messages that hold one scalar, with its zero value.
var wrappers = map[string]Value{
	"google.protobuf.BoolValue": boolValue(false), "google.protobuf.BytesValue": bytesValue(nil),
	"google.protobuf.DoubleValue": doubleValue(0), "google.protobuf.FloatValue": doubleValue(0),
	"google.protobuf.Int32Value": intValue(0), "google.protobuf.Int64Value": intValue(0),
	"google.protobuf.StringValue": stringValue(""),
	"google.protobuf.UInt32Value": uintValue(0), "google.protobuf.UInt64Value": uintValue(0),
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
		fields = append(fields, messageField{field.Name(), c.node(field.Value()).eval, field.IsOptional()})
	}
	make := c.messageMaker(name)
	if make == nil {
		c.unsupported("a literal of type " + name)
	}
	return &code{eval: func(fr *frame) Value {
		v := readFields(fr, fields, make)
		fr.cost += costStruct
		return v
	}}
}

// messageField is a member of a literal.
type messageField struct {
	name     string
	eval     evalFn
	optional bool
}

// readFields evaluates the members and makes the message of them.
func readFields(fr *frame, fields []messageField, make func(names []string, values map[string]Value) Value) Value {
	var names []string
	values := map[string]Value{}
	for _, f := range fields {
		v := f.eval(fr)
		switch {
		case v.failed():
			return v
		case f.optional && v.kind != KindOptional:
			return errorf("cannot initialize optional entry '%s' from non-optional value %v", f.name, v.ref())
		case f.optional && v.ptr == nil:
			continue
		case f.optional:
			v = *v.optional()
		}
		names, values[f.name] = append(names, f.name), v
	}
	return make(names, values)
}

// messageMaker is what makes the value of a literal; nil if the type is none
// that has such values.
func (c *compiler) messageMaker(name string) func([]string, map[string]Value) Value {
	if c.lang != nil && c.lang.lang.patches && isPatchType(name) {
		return func(names []string, values map[string]Value) Value { return madeOf(name, names, values) }
	}
	make := wellKnown(name)
	if make == nil {
		return nil
	}
	return func(_ []string, values map[string]Value) Value { return make(values) }
}

// costStruct is the price of making a message.
const costStruct = 40

// wellKnown is what makes a value of the fields of a well-known type; nil if the
// message is none that has such a value.
func wellKnown(name string) func(map[string]Value) Value {
	if zero, ok := wrappers[name]; ok {
		return func(values map[string]Value) Value {
			v, ok := values["value"]
			if !ok {
				return zero
			}
			return wrapped(name, zero, v)
		}
	}
	switch name {
	case "google.protobuf.Struct":
		return func(values map[string]Value) Value {
			if v, ok := values["fields"]; ok {
				return jsonMap(v)
			}
			return mapValue(&mapBox{})
		}
	case "google.protobuf.ListValue":
		return func(values map[string]Value) Value {
			if v, ok := values["values"]; ok {
				return v
			}
			return listValue(nil)
		}
	case "google.protobuf.Value":
		return func(values map[string]Value) Value {
			if len(values) == 0 {
				return nullValue
			}
			field := sortedNames(values)[0] // fields of one choice
			switch v := values[field]; {
			case field == "null_value":
				return nullValue
			case field == "number_value" && v.kind == KindInt:
				return doubleValue(float64(v.Int()))
			default:
				return v
			}
		}
	case "google.protobuf.Duration":
		return func(values map[string]Value) Value {
			total := multiply(intValue(values["seconds"].Int()), intValue(1e9))
			if !total.failed() {
				total = add(total, intValue(values["nanos"].Int()))
			}
			if total.failed() {
				return total
			}
			return durationValue(total.Int())
		}
	case "google.protobuf.Timestamp":
		return func(values map[string]Value) Value {
			return timestampOf(values["seconds"].Int(), values["nanos"].Int())
		}
	}
	return nil
}

// wrapped is a scalar as its wrapper keeps it.
func wrapped(name string, zero, v Value) Value {
	switch {
	case v.kind == KindNull:
		return v
	case v.kind != zero.kind:
		return errorValue(errNoOverload)
	case name == "google.protobuf.FloatValue":
		return doubleValue(float64(float32(v.Float())))
	case name == "google.protobuf.Int32Value" && int64(int32(v.Int())) != v.Int():
		return errorValue(errIntOverflow)
	case name == "google.protobuf.UInt32Value" && uint64(uint32(v.bits)) != v.bits:
		return errorValue(errUintOverflow)
	}
	return v
}

// jsonMap is a map as JSON has it: all keys are strings.
func jsonMap(v Value) Value {
	if v.kind != KindMap {
		return errorValue(errNoOverload)
	}
	failure := v
	eachEntry(v, func(k, _ Value) bool {
		if k.kind != KindString {
			failure = errorf("got a key of type %s, want a string", k.typeName())
		}
		return k.kind == KindString
	})
	return failure
}

// timestampOf is a time of the years 1 to 9999.
func timestampOf(seconds, nanos int64) Value {
	t := time.Unix(seconds, nanos).UTC()
	if u := t.Unix(); u < minUnix || u > maxUnix {
		return errorValue(errTimeOverflow)
	}
	return timeValue(t)
}
