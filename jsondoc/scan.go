package jsondoc

import (
	"encoding/binary"
	"math/bits"
	"strconv"
)

// This file defines Scanner, which reads JSON text token by token. The plain
// decoder (parse.go) and package schema both drive it.
//
// The scanner decides only whether the text is right. For the words of an
// error it runs the reference decoder over the text again (see error.go), so
// that texts and offsets cannot differ.

// Scanner reads the JSON value of one text, depth first. It is a value: keep
// it on the stack. After an error it must not be used any more.
//
// The caller follows the structure: [Scanner.Kind] tells what comes next, and
// the method of that kind consumes it. Calling another one is a broken
// invariant.
type Scanner struct {
	d     *Doc
	src   []byte // the part of d.text that is the source
	pos   int
	depth int
	dup   bool
	skip  bool        // values are read to be forgotten
	late  *RangeError // first number that no float64 can hold; reported by End
}

// A document of a large text has room for about as many nodes as it needs before it is read.
const largeText, bytesPerNode = 32 << 10, 32

// Scan copies src into d, which must be reset, and starts to read it.
func (d *Doc) Scan(src []byte) Scanner {
	if len(src) > MaxBytes {
		panic("BUG: source longer than jsondoc.MaxBytes")
	}
	d.text = append(d.text[:0], src...)
	if len(src) > largeText && cap(d.nodes) == 0 {
		d.nodes = make([]Node, 0, len(src)/bytesPerNode)
	}
	return Scanner{d: d, src: d.text[:len(src):len(src)]}
}

// Offset is how many bytes of the source are consumed.
func (s *Scanner) Offset() int { return s.pos }

// Source is the text being read, read only.
func (s *Scanner) Source() []byte { return s.src }

// Duplicates reports whether an object with a duplicate key was seen.
func (s *Scanner) Duplicates() bool { return s.dup }

// NoteDuplicate makes Duplicates report true.
func (s *Scanner) NoteDuplicate() { s.dup = true }

// kindOf says by a value's first byte what it is; Absent if nothing starts so.
var kindOf = [256]Kind{
	'n': Null, 't': Bool, 'f': Bool, '"': String, '[': Array, '{': Object, '-': Int,
	'0': Int, '1': Int, '2': Int, '3': Int, '4': Int, '5': Int, '6': Int, '7': Int, '8': Int, '9': Int,
}

// space skips white space and returns the byte after it, 0 at the end. (A zero
// byte in the source is an error wherever space is called.)
func (s *Scanner) space() byte {
	if s.pos < len(s.src) {
		if c := s.src[s.pos]; c > ' ' {
			return c
		}
	}
	return s.moreSpace()
}

func (s *Scanner) moreSpace() byte {
	for s.pos < len(s.src) {
		switch c := s.src[s.pos]; c {
		case ' ', '\t', '\r', '\n':
			s.pos++
		default:
			return c
		}
	}
	return 0
}

// Kind says which kind of value follows. A number is an Int until
// [Scanner.Number] has read it.
func (s *Scanner) Kind() (Kind, error) {
	if k := kindOf[s.space()]; k != Absent {
		return k, nil
	}
	return Absent, s.fail()
}

// literal consumes the given word.
func (s *Scanner) literal(word string) error {
	if end := s.pos + len(word); end <= len(s.src) && string(s.src[s.pos:end]) == word {
		s.pos = end
		return nil
	}
	return s.fail()
}

// Null consumes null.
func (s *Scanner) Null() error { return s.literal("null") }

// Bool consumes true or false.
func (s *Scanner) Bool() (Node, error) {
	if s.src[s.pos] == 't' {
		return BoolNode(true), s.literal("true")
	}
	return BoolNode(false), s.literal("false")
}

// Number consumes a number: an Int if it is written without fraction and
// exponent and fits, else a Float. A number beyond float64 reads as 0 and is
// an error at [Scanner.End], as the rest of the text may be wrong in a way
// that is reported first.
func (s *Scanner) Number() (Node, error) {
	src, start := s.src, s.pos
	i := start
	negative := src[i] == '-'
	if negative {
		i++
	}
	digits := i
	var v uint64
	for i < len(src) && src[i]-'0' <= 9 {
		v = v*10 + uint64(src[i]-'0')
		i++
	}
	n := i - digits
	if n == 0 || n > 1 && src[digits] == '0' {
		return Node{}, s.fail()
	}
	if i < len(src) && (src[i] == '.' || src[i]|0x20 == 'e') {
		return s.float(start, i)
	}
	s.pos = i
	if n > 18 { // v may have overflowed
		return s.bigInt(start)
	}
	if negative {
		v = -v
	}
	return IntNode(int64(v)), nil
}

// float consumes the number that began at start and has a fraction or an
// exponent at i.
func (s *Scanner) float(start, i int) (Node, error) {
	src := s.src
	if src[i] == '.' {
		from := i + 1
		for i = from; i < len(src) && src[i]-'0' <= 9; i++ {
		}
		if i == from {
			return Node{}, s.fail()
		}
	}
	if i < len(src) && src[i]|0x20 == 'e' {
		i++
		if i < len(src) && (src[i] == '+' || src[i] == '-') {
			i++
		}
		from := i
		for i < len(src) && src[i]-'0' <= 9 {
			i++
		}
		if i == from {
			return Node{}, s.fail()
		}
	}
	s.pos = i
	return s.parseFloat(start), nil
}

// bigInt is the number from start to the current position, 19 digits or more.
func (s *Scanner) bigInt(start int) (Node, error) {
	if v, err := strconv.ParseInt(string(s.src[start:s.pos]), 10, 64); err == nil {
		return IntNode(v), nil
	}
	return s.parseFloat(start), nil
}

func (s *Scanner) parseFloat(start int) Node {
	text := string(s.src[start:s.pos])
	v, err := strconv.ParseFloat(text, 64)
	if err != nil {
		if s.late == nil {
			s.late = &RangeError{Offset: s.pos + 1, Number: text}
		}
		return IntNode(0)
	}
	return FloatNode(v)
}

const (
	ones  = 0x0101010101010101
	highs = 0x8080808080808080
)

// special marks, in the high bits, the bytes of x that need a closer look in a
// string: the quote, backslash, control characters, anything beyond ASCII, and
// what prints escaped (< > &). Only the lowest mark is exact.
func special(x uint64) uint64 {
	quote := x&^(ones*0x04) ^ ones*0x22 // zero at '"' and '&'
	angle := x&^(ones*0x02) ^ ones*0x3C // zero at '<' and '>'
	slash := x ^ ones*'\\'
	return ((quote-ones)&^quote | (angle-ones)&^angle | (slash-ones)&^slash | (x-ones*' ')&^x | x) & highs
}

// toSpecial is where from i on in s a byte needs a closer look, or fewer than eight bytes are left, which may need one.
func toSpecial[T string | []byte](s T, i int) int {
	for ; i+8 <= len(s); i += 8 {
		b := s[i : i+8]
		x := uint64(b[0]) | uint64(b[1])<<8 | uint64(b[2])<<16 | uint64(b[3])<<24 | uint64(b[4])<<32 | uint64(b[5])<<40 | uint64(b[6])<<48 | uint64(b[7])<<56
		if m := special(x); m != 0 {
			return i + bits.TrailingZeros64(m)>>3
		}
	}
	return i
}

// String consumes a string.
func (s *Scanner) String() (Node, error) {
	src := s.src
	start := s.pos + 1
	i := start
	flags := flagASCII | flagPlain
	for i+8 <= len(src) {
		m := special(binary.LittleEndian.Uint64(src[i:]))
		if m == 0 {
			i += 8
			continue
		}
		i += bits.TrailingZeros64(m) >> 3
		if src[i] == '"' {
			s.pos = i + 1
			return stringNode(uint64(start), uint32(i-start), flags), nil
		}
		break
	}
	return s.stringRest(start, i, flags)
}

// stringRest goes on with the string that began at start, byte by byte from i.
func (s *Scanner) stringRest(start, i int, flags uint8) (Node, error) {
	src := s.src
	for i < len(src) {
		switch c := src[i]; {
		case c == '"':
			s.pos = i + 1
			return stringNode(uint64(start), uint32(i-start), flags), nil
		case c == '\\':
			return s.escaped(start, i)
		case c < ' ':
			return Node{}, s.fail()
		case c >= 0x80:
			n, plain := wellFormed(src[i:])
			if n == 0 {
				return s.escaped(start, i)
			}
			flags &^= flagASCII
			if !plain {
				flags &^= flagPlain
			}
			i += n
			continue
		case c == '<', c == '>', c == '&':
			flags &^= flagPlain
		}
		i = toSpecial(src, i+1)
	}
	return Node{}, s.fail()
}

// ObjectStart consumes the opening brace.
func (s *Scanner) ObjectStart() error { return s.open() }

// ArrayStart consumes the opening bracket.
func (s *Scanner) ArrayStart() error { return s.open() }

func (s *Scanner) open() error {
	if s.depth == MaxDepth {
		return s.fail()
	}
	s.depth++
	s.pos++
	return nil
}

// Key consumes what stands before the next member of an object: a comma unless
// it is the first member, the key and the colon. If there are no more members
// it consumes the closing brace.
func (s *Scanner) Key(first bool) (key Node, more bool, err error) {
	c := s.space()
	if c == '}' {
		s.pos++
		s.depth--
		return Node{}, false, nil
	}
	if !first {
		if c != ',' {
			return Node{}, false, s.fail()
		}
		s.pos++
		c = s.space()
	}
	if c != '"' {
		return Node{}, false, s.fail()
	}
	if key, err = s.String(); err != nil {
		return Node{}, false, err
	}
	if s.space() != ':' {
		return Node{}, false, s.fail()
	}
	s.pos++
	return key, true, nil
}

// Member is Key for an object of a shape: it says which slot the key names, -1
// if none. guess is the slot that is tried first, as members mostly come in
// order. key need not be set if there is a slot.
func (s *Scanner) Member(first bool, shape *Shape, guess int) (slot int, key Node, more bool, err error) {
	if guess < len(shape.keys) {
		text, at, comma := shape.keys[guess], s.pos, first
		if !first && at < len(s.src) && s.src[at] == ',' {
			at, comma = at+1, true
		}
		if comma && len(s.src)-at >= len(text) && string(s.src[at:at+len(text)]) == text {
			s.pos = at + len(text)
			return guess, Node{}, true, nil
		}
	}
	if key, more, err = s.Key(first); !more || err != nil {
		return -1, Node{}, more, err
	}
	return shape.SlotAfter(s.d.Str(key), guess), key, true, nil
}

// More consumes the comma before the next item of an array, if it is not the
// first. If there are no more items it consumes the closing bracket.
func (s *Scanner) More(first bool) (more bool, err error) {
	c := s.space()
	if c == ']' {
		s.pos++
		s.depth--
		return false, nil
	}
	if first {
		return true, nil
	}
	if c != ',' {
		return false, s.fail()
	}
	s.pos++
	return true, nil
}

// End checks that nothing but space follows, and reports a number that was out
// of range.
func (s *Scanner) End() error {
	s.space()
	if s.pos < len(s.src) {
		return s.fail()
	}
	if s.late != nil {
		return s.late
	}
	return nil
}
