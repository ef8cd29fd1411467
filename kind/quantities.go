package kind

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"

	"github.com/keelson-io/keelson/internal/quantity"
)

// This file finds quantities in JSON that are too long to compute with, before a Go type parses
// them. The descriptions of Go types are those of protoscan.go.

// errQuantity is the error for a quantity that is too long.
var errQuantity = fmt.Errorf("quantity: got more digits or a larger exponent, want at most %d digits and an exponent from -%d to %d",
	quantity.Most, quantity.Most, quantity.Most)

// findAmounts sets amounts of all descriptions.
func (s shapes) findAmounts() {
	for changed := true; changed; {
		changed = false
		for _, m := range s {
			if !m.amounts && (m.amount || slices.ContainsFunc(m.fields, func(f *embedded) bool { return f != nil && f.of.amounts })) {
				m.amounts, changed = true, true
			}
		}
	}
}

// setMember records the description of the messages in a field, nil if there are none, by the name
// that the field has in JSON. The members of an embedded field are those of the struct.
func (m *message) setMember(f reflect.StructField, of *message) {
	name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
	if of == nil || name == "-" {
		return
	}
	if m.members == nil {
		m.members = map[string]*message{}
	}
	if name != "" {
		m.members[name] = of
		return
	}
	for name, of := range of.members {
		m.members[name] = of
	}
}

// checkQuantities returns an error if src has a quantity that is too long, where the Go type of into
// has quantities, or so many objects that the Go value would be too large. Malformed JSON is no error: the decoder reports that.
func checkQuantities(src []byte, into any) error {
	many := objectsIn(src) > quickObjects
	if !many && !quantity.MayBeTooLong(src) {
		return nil
	}
	m := messageOf(into)
	if !m.amounts && !many {
		return nil
	}
	d := json.NewDecoder(bytes.NewReader(src))
	d.UseNumber()
	size := 0
	if err := m.check(d, &size, 1); errors.Is(err, errQuantity) || errors.Is(err, errObjects) {
		return err
	}
	return nil
}

// objectsIn returns a number of objects that src becomes at most: null in a list of objects is one, too.
func objectsIn(src []byte) int {
	return bytes.Count(src, []byte("{")) + bytes.Count(src, []byte("null"))
}

// fewObjects is a number of objects whose Go values take so little memory that nobody counts it.
const fewObjects = 1000

// DecodedBytes returns the memory of the Go value that a JSON body becomes, which may be several hundred times
// as long as the body. It returns 0 for kinds without a Go type, and for a body of few objects.
func (v *Version) DecodedBytes(body []byte) int {
	if !v.Kind.Behavior.HasGoType() || objectsIn(body) <= fewObjects {
		return 0
	}
	d := json.NewDecoder(bytes.NewReader(body))
	d.UseNumber()
	size := 0
	// The decoder of the object ends with the same error, or an earlier one.
	_ = v.Kind.Behavior.GoType(v).shape().check(d, &size, 1)
	return size
}

// PatchedBytes returns the most memory that the Go values for the objects in a patch may take. The patch is JSON,
// or YAML, in which a line may be an object.
func (v *Version) PatchedBytes(patch []byte, isYAML bool) int {
	if !v.Kind.Behavior.HasGoType() {
		return 0
	}
	n := objectsIn(patch)
	if isYAML {
		n += bytes.Count(patch, []byte("\n")) + bytes.Count(patch, []byte("~"))
	}
	if n <= fewObjects {
		return 0
	}
	return min(maxMessageBytes, n*v.Kind.Behavior.GoType(v).shape().largest)
}

// quickObjects is a number of objects whose Go values surely take less than maxMessageBytes.
const quickObjects = 50_000

// errObjects is the error for a text whose Go value is too large: an empty container is two bytes
// that become some hundred.
var errObjects = fmt.Errorf("got objects that take more than %d bytes of memory", maxMessageBytes)

// maxNesting is the number of levels from which on Go's JSON decoders refuse a text.
const maxNesting = 10_000

var errNesting = errors.New("exceeded max depth")

// check reads the next value of d, which m describes, and adds the memory of its Go value to size. The
// description may be nil. depth counts from 1.
func (m *message) check(d *json.Decoder, size *int, depth int) error {
	token, err := d.Token()
	if err != nil {
		return err
	}
	if depth > maxNesting {
		return errNesting
	}
	switch t := token.(type) {
	case json.Delim:
		if t == '{' && m != nil {
			if *size += m.size; *size > maxMessageBytes {
				return errObjects
			}
		}
		for d.More() {
			of := m
			if t == '{' {
				key, err := d.Token()
				if err != nil {
					return err
				}
				name, _ := key.(string)
				of = m.member(name)
			}
			if err := of.check(d, size, depth+1); err != nil {
				return err
			}
		}
		_, err := d.Token()
		return err
	case nil:
		if m != nil { // an empty object, if it is an item of a list
			if *size += m.size; *size > maxMessageBytes {
				return errObjects
			}
		}
	case string:
		if m != nil && m.amount && quantity.TooLong(strings.TrimSpace(t)) {
			return errQuantity
		}
	case json.Number:
		if m != nil && m.amount && quantity.TooLong(t.String()) {
			return errQuantity
		}
	}
	return nil
}

// member returns the description of a member, nil if it has no messages.
func (m *message) member(name string) *message {
	switch {
	case m == nil:
		return nil
	case m.entry && m.fields[2] == nil:
		return nil
	case m.entry:
		return m.fields[2].of
	default:
		return m.members[name]
	}
}
