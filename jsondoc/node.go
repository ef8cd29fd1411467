package jsondoc

import (
	"math"
	"unicode/utf8"
)

// This file defines Node, the 16 bytes that every JSON value is.

// Kind says what a Node is.
type Kind uint8

// The kinds of Node. Absent is the zero Node: no value at all.
const (
	Absent Kind = iota
	Null
	Bool
	Int
	Float
	String
	Array
	Object
)

var kindNames = [...]string{"absent", "null", "boolean", "integer", "number", "string", "array", "object"}

// String is the JSON Schema name of the kind.
func (k Kind) String() string { return kindNames[k] }

// Node is one JSON value inside a Doc. Nodes are values: copy them freely, but
// a node means something only together with the Doc it came from.
//
//	kind            n                bits
//	Bool            -                0 or 1
//	Int             -                the int64
//	Float           -                the float64's bits
//	String          bytes            offset into the text
//	Array           items            index of the first item
//	Object, map     pairs            index of the first key
//	Object, shaped  slots            index of slot 0
//
// Kind, flags, shape and n share one word: a struct of two words travels in
// registers, one of five fields would go through memory (half the speed).
type Node struct {
	head uint64 // kind, flags << 8, shape << 16, n << 32
	bits uint64
}

// makeNode is a node of the kind with n children or bytes at the place at.
func makeNode(k Kind, shape uint16, n, at int) Node {
	return Node{uint64(k) | uint64(shape)<<16 | uint64(n)<<32, uint64(at)}
}

const (
	flagASCII uint8 = 1 << iota // a String of ASCII bytes only: code points = bytes
	flagPlain                   // a String that prints as it is, without escapes
)

// NullNode is JSON null.
var NullNode = Node{head: uint64(Null)}

// BoolNode is true or false.
func BoolNode(v bool) Node {
	if v {
		return Node{uint64(Bool), 1}
	}
	return Node{uint64(Bool), 0}
}

// IntNode is an integer.
func IntNode(v int64) Node { return Node{uint64(Int), uint64(v)} }

// FloatNode returns the node of a number that does not fit an int64. v must be finite.
func FloatNode(v float64) Node { return Node{uint64(Float), math.Float64bits(v)} }

func stringNode(at uint64, n uint32, flags uint8) Node {
	return Node{uint64(String) | uint64(flags)<<8 | uint64(n)<<32, at}
}

// scanString computes the flags of a string's text.
func scanString[T string | []byte](s T) uint8 {
	flags := flagASCII | flagPlain
	for i := toSpecial(s, 0); i < len(s); i = toSpecial(s, i+1) {
		switch c := s[i]; {
		case c >= utf8.RuneSelf:
			flags &^= flagASCII
			// U+2028 and U+2029 (E2 80 A8/A9) print escaped, as encoding/json does.
			if c == 0xE2 && i+2 < len(s) && s[i+1] == 0x80 && s[i+2]&^1 == 0xA8 {
				flags &^= flagPlain
			}
		case c < ' ', c == '"', c == '\\', c == '<', c == '>', c == '&':
			flags &^= flagPlain
		}
	}
	return flags
}

// Kind is the node's kind.
func (n Node) Kind() Kind { return Kind(n.head) }

func (n Node) flags() uint8 { return uint8(n.head >> 8) }

// Bool is the value of a Bool node.
func (n Node) Bool() bool { return n.bits != 0 }

// Int is the value of an Int node.
func (n Node) Int() int64 { return int64(n.bits) }

// Float is the value of a Float node.
func (n Node) Float() float64 { return math.Float64frombits(n.bits) }

// Len is the number of bytes of a String, items of an Array, pairs of a map or
// slots of a shaped Object.
func (n Node) Len() int { return int(n.head >> 32) }

// ShapeIndex is the index of an Object's shape in its Doc's table, 0 for a map.
func (n Node) ShapeIndex() uint16 { return uint16(n.head >> 16) }

// withBlock is n with other children: count of them, at the place at.
func (n Node) withBlock(count, at int) Node {
	return Node{n.head&(1<<32-1) | uint64(count)<<32, uint64(at)}
}

// ASCII reports whether a String is all ASCII, so that its length in code
// points is Len.
func (n Node) ASCII() bool { return n.flags()&flagASCII != 0 }

// ASCIIString reports whether n is a String that is all ASCII.
func (n Node) ASCIIString() bool {
	const kind, ascii = uint64(String), uint64(flagASCII) << 8
	return n.head&(0xFF|ascii) == kind|ascii
}

// Alike reports whether two nodes are alike but for their place or value: texts of one
// length and alphabet, containers of one length and shape, scalars of one kind.
func (n Node) Alike(m Node) bool { return n.head == m.head }

// Plain reports whether a String prints as it is, without escapes.
func (n Node) Plain() bool { return n.flags()&flagPlain != 0 }
