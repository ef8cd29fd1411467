package kind

import (
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"reflect"
	"strconv"
	"strings"
	"sync"

	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/keelson-io/keelson/internal/quantity"
)

// This file scans a protobuf message before generated code decodes it. That code calls itself for
// each nested message, without a limit: some hundred thousand levels overflow the stack, which ends
// the process. It also reads the key and the value of a map entry beyond the end of the entry, so
// that bytes can be decoded again and again. And an empty message takes as much memory as any other
// of its type.

// Bounds of one definition that a client sends. Definitions that are generated from Go types have
// some dozens of levels.
const (
	MaxDepth  = 1000     // levels of arrays and objects
	MaxReread = 64 << 20 // bytes below items and similar fields, counted once for each such level
)

// ErrReread is the error for more than MaxReread.
var ErrReread = fmt.Errorf("CustomResourceDefinition: got schemas below items, additionalItems, additionalProperties and dependencies of "+
	"more than %d bytes, counted once for each such level", MaxReread)

// Bounds of one protobuf message.
const (
	maxMessages     = 2 * MaxDepth // nesting depth: one level of JSON, such as a schema below items, is two messages
	maxMessageBytes = 128 << 20    // memory of the Go values of all messages together
)

// fromProto is implemented by the Go types of objects.
type fromProto interface{ Unmarshal([]byte) error }

// message describes which fields of a Go type hold nested messages. Only messageOf and the methods
// of messages and shapes that it calls change it. They are done before messageOf returns, so that
// goroutines may share what it returned.
type message struct {
	name    string              // name of the Go type
	size    int                 // size in bytes of the Go value
	largest int                 // size of the largest message of its object; only of the object itself
	reread  bool                // the type has a MarshalJSON, which prints the message again for each such type above it
	entry   bool                // it is the entry of a map
	amount  bool                // it is a resource quantity
	amounts bool                // it is one, or holds some
	members map[string]*message // fields with messages, by their names in JSON
	fields  []*embedded         // by field number, nil for fields without messages; empty if no field has messages
	scalars [2]bool             // whether the key and the value of an entry are numbers
}

// embedded is a field that holds a message, or the entries of a map.
type embedded struct {
	name string
	of   *message
}

// GoType is a Go type whose objects can be read from protobuf. Keep it: the first object that is
// read describes the type, which takes longer than reading the object.
type GoType struct {
	create func() runtime.Object
	shape  func() *message
}

// NewGoType returns the type of the objects that create returns, which are pointers to structs.
func NewGoType(create func() runtime.Object) *GoType {
	return &GoType{create, sync.OnceValue(func() *message { return messageOf(create()) })}
}

// New returns an empty object.
func (t *GoType) New() runtime.Object { return t.create() }

// messageOf returns the complete description of an object's Go type, which does not change any more.
func messageOf(obj any) *message {
	s := shapes{}
	m := s.message(reflect.TypeOf(obj).Elem())
	s.findAmounts()
	for _, of := range s {
		m.largest = max(m.largest, of.size)
	}
	return m
}

// shapes builds the descriptions of Go types. It is also the record of the types that were begun,
// so that a recursive type refers to its own description. It belongs to one call of messageOf.
type shapes map[reflect.Type]*message

// message returns the description of a struct type, or of a slice type that is encoded as a
// message.
func (s shapes) message(t reflect.Type) *message {
	if m := s[t]; m != nil {
		return m
	}
	m := &message{name: t.Name(), size: int(t.Size()), amount: t == reflect.TypeFor[resource.Quantity]()}
	s[t] = m
	if t.Kind() == reflect.Slice { // a message of its own whose field 1 has the items
		m.set(1, "Items", s.field(t.Elem()))
		return m
	}
	for i := range t.NumField() {
		f := t.Field(i)
		parts := strings.Split(f.Tag.Get("protobuf"), ",")
		if len(parts) < 2 {
			continue
		}
		if number, err := strconv.Atoi(parts[1]); err == nil {
			of := s.field(f.Type)
			m.set(number, f.Name, of)
			m.setMember(f, of)
		}
	}
	m.reread = m.fields != nil && t.Implements(reflect.TypeFor[json.Marshaler]())
	return m
}

// set records that a field holds messages. It ignores fields with no messages, for which of is nil.
func (m *message) set(number int, name string, of *message) {
	if of == nil {
		return
	}
	for len(m.fields) <= number {
		m.fields = append(m.fields, nil)
	}
	m.fields[number] = &embedded{name, of}
}

// field returns the description of the messages in a field of type t, nil if there are none.
func (s shapes) field(t reflect.Type) *message {
	if t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	switch t.Kind() {
	case reflect.Struct:
		return s.message(t)
	case reflect.Map:
		return s.entries(t)
	case reflect.Slice:
		if reflect.PointerTo(t).Implements(reflect.TypeFor[fromProto]()) {
			return s.message(t)
		}
		return s.field(t.Elem())
	default:
		return nil
	}
}

// entries returns the description of the entries of a map.
func (s shapes) entries(t reflect.Type) *message {
	if m := s[t]; m != nil {
		return m
	}
	m := &message{name: t.String(), entry: true, size: int(t.Key().Size() + t.Elem().Size())}
	s[t] = m
	m.fields = make([]*embedded, 3) // even if values are not messages, because the bounds of entries are always checked
	for i, of := range []reflect.Type{t.Key(), t.Elem()} {
		switch of.Kind() {
		case reflect.String, reflect.Slice, reflect.Struct, reflect.Pointer:
		default:
			m.scalars[i] = true
		}
	}
	m.set(2, "value", s.field(t.Elem()))
	return m
}

// checkMessage returns an error if decoding b into an object of the described type could exhaust
// memory or the stack.
func checkMessage(b []byte, of *message) error { return new(messageScan).message(of, b, 1) }

// messageScan scans a message as generated code would. It may refuse only messages that exceed a
// bound or that generated code refuses, too. bytes is the memory of the Go values so far, reread
// the bytes that are printed repeatedly.
type messageScan struct{ bytes, reread int }

// message scans one message and those within it. depth counts from 1.
func (s *messageScan) message(m *message, b []byte, depth int) error {
	if depth > maxMessages {
		return fmt.Errorf("proto: %s: got more than %d messages in one another", m.name, maxMessages)
	}
	if s.bytes += m.size; s.bytes > maxMessageBytes {
		return fmt.Errorf("proto: %s: got messages that take more than %d bytes of memory", m.name, maxMessageBytes)
	}
	if m.reread {
		if s.reread += len(b); s.reread > MaxReread {
			return ErrReread
		}
	}
	if m.fields == nil && !m.amount {
		return nil
	}
	for len(b) > 0 {
		tag, n, err := varint(b)
		if err != nil {
			return err
		}
		number, kind := int32(tag>>3), int(tag&7)
		length, of, err := m.value(number, kind, tag, b[n:])
		if err != nil {
			return err
		}
		if amount := m.amount && number == 1 && kind == 2; amount || of != nil {
			_, start, _ := varint(b[n:]) // value has checked this length
			text := b[n+start : n+length]
			if amount && quantity.TooLong(string(text)) {
				return errQuantity
			}
			if of != nil {
				if err := s.message(of, text, depth+1); err != nil {
					return err
				}
			}
		}
		b = b[n+length:]
	}
	return nil
}

// value returns the length of a field's value in b, including its length prefix, and the
// description of the message that it holds, nil if it holds none. kind is the wire type.
func (m *message) value(number int32, kind int, tag uint64, b []byte) (int, *message, error) {
	var f *embedded
	if number > 0 && int(number) < len(m.fields) {
		f = m.fields[number]
	}
	switch {
	case m.entry && (number == 1 || number == 2): // generated code does not look at the kind
		kind = 2
		if m.scalars[number-1] {
			kind = 0
		}
	case m.entry:
	case kind == 4:
		return 0, nil, fmt.Errorf("proto: %s: wiretype end group for non-group", m.name)
	case number <= 0:
		return 0, nil, fmt.Errorf("proto: %s: illegal tag %d (wire type %d)", m.name, number, tag)
	case f != nil && kind != 2:
		return 0, nil, fmt.Errorf("proto: wrong wireType = %d for field %s", kind, f.name)
	}
	length, err := skip(kind, b)
	if f == nil || err != nil {
		return length, nil, err
	}
	return length, f.of, nil
}

// errOverflow is generated code's error for a varint of more than 64 bits.
var errOverflow = errors.New("proto: integer overflow")

// varint decodes a varint and returns it with its length in bytes.
func varint(b []byte) (uint64, int, error) {
	v, n := binary.Uvarint(b)
	switch {
	case n > 0:
		return v, n, nil
	case n == 0:
		return 0, 0, io.ErrUnexpectedEOF
	default:
		return 0, 0, errOverflow
	}
}

// skip returns the length of the value that follows a tag of wire type kind. A group is skipped to
// its end.
func skip(kind int, b []byte) (int, error) {
	groups, at := 0, 0
	for {
		n := 0
		switch kind {
		// These are the wire types of protobuf: varint, 8 bytes, length-prefixed, start and end of
		// a group, 4 bytes.
		case 0:
			_, length, err := varint(b[at:])
			if err != nil {
				return 0, err
			}
			n = length
		case 1:
			n = 8
		case 2:
			size, length, err := varint(b[at:])
			if err != nil {
				return 0, err
			}
			if size > uint64(len(b)) {
				return 0, io.ErrUnexpectedEOF
			}
			n = length + int(size)
		case 3:
			groups++
		case 4:
			if groups == 0 {
				return 0, errors.New("proto: unexpected end of group")
			}
			groups--
		case 5:
			n = 4
		default:
			return 0, fmt.Errorf("proto: illegal wireType %d", kind)
		}
		if at += n; at > len(b) {
			return 0, io.ErrUnexpectedEOF
		}
		if groups == 0 {
			return at, nil
		}
		tag, length, err := varint(b[at:])
		if err != nil {
			return 0, err
		}
		at, kind = at+length, int(tag&7)
	}
}
