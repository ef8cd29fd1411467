package jsondoc

import (
	"math"
	"strconv"
	"unicode/utf8"
)

// This file prints nodes as encoding/json prints the same data held in
// map[string]any: keys sorted, no space, HTML escaped.

// AppendJSON appends v as JSON to b. It must not be Absent.
func (v Value) AppendJSON(b []byte) []byte { return v.Doc.AppendJSON(b, v.Node) }

// AppendJSON appends n as JSON to b. It must not be Absent.
func (d *Doc) AppendJSON(b []byte, n Node) []byte {
	switch n.Kind() {
	case Null:
		return append(b, "null"...)
	case Bool:
		return strconv.AppendBool(b, n.Bool())
	case Int:
		return strconv.AppendInt(b, n.Int(), 10)
	case Float:
		return appendFloat(b, n.Float())
	case String:
		return d.appendString(b, n)
	case Array:
		b = append(b, '[')
		for i := range n.Len() {
			if i > 0 {
				b = append(b, ',')
			}
			b = d.AppendJSON(b, d.Item(n, i))
		}
		return append(b, ']')
	case Object:
		if n.ShapeIndex() != 0 {
			return d.appendShaped(b, n)
		}
		return d.appendMap(b, n)
	}
	panic("BUG: printing an absent node")
}

func (d *Doc) appendMap(b []byte, n Node) []byte {
	b = append(b, '{')
	for i := range n.Len() {
		if i > 0 {
			b = append(b, ',')
		}
		b = d.appendPair(b, n, i)
	}
	return append(b, '}')
}

func (d *Doc) appendPair(b []byte, n Node, i int) []byte {
	key, value := d.Pair(n, i)
	b = append(d.appendString(b, key), ':')
	return d.AppendJSON(b, value)
}

// appendShaped prints the slots in order, which is key order, and between them
// the members of the overflow map where their keys belong.
func (d *Doc) appendShaped(b []byte, n Node) []byte {
	s := d.shapes[n.ShapeIndex()]
	slots := d.nodes[n.bits : n.bits+uint64(n.Len())]
	var extra Node
	if s.Open {
		extra = slots[len(s.Names)]
	}
	next := 0 // in extra
	b = append(b, '{')
	open := len(b)
	for i, name := range s.Names {
		if slots[i].Kind() == Absent {
			continue
		}
		for ; next < extra.Len(); next++ {
			if key, _ := d.Pair(extra, next); d.Str(key) > name {
				break
			}
			b = d.appendPair(comma(b, open), extra, next)
		}
		b = append(comma(b, open), s.keys[i]...)
		b = d.AppendJSON(b, slots[i])
	}
	for ; next < extra.Len(); next++ {
		b = d.appendPair(comma(b, open), extra, next)
	}
	return append(b, '}')
}

// comma appends a comma unless b ends at the opening brace.
func comma(b []byte, open int) []byte {
	if len(b) == open {
		return b
	}
	return append(b, ',')
}

func (d *Doc) appendString(b []byte, n Node) []byte {
	if n.flags()&flagPlain == 0 {
		return appendQuoted(b, d.Str(n))
	}
	b = append(b, '"')
	b = append(b, d.text[n.bits:n.bits+uint64(n.Len())]...)
	return append(b, '"')
}

// AppendQuoted appends s as a JSON string to b, as encoding/json prints it.
func AppendQuoted(b []byte, s string) []byte { return appendQuoted(b, s) }

func appendQuoted(b []byte, s string) []byte {
	const hex = "0123456789abcdef"
	b = append(b, '"')
	from := 0
	for i := toSpecial(s, 0); i < len(s); i = toSpecial(s, i) {
		c := s[i]
		if c >= utf8.RuneSelf {
			r, n := utf8.DecodeRuneInString(s[i:])
			switch {
			case r == utf8.RuneError && n == 1:
				b = append(append(b, s[from:i]...), `\ufffd`...)
				from = i + n
			case r == '\u2028' || r == '\u2029':
				b = append(append(b, s[from:i]...), `\u202`...)
				b = append(b, hex[r&0xF])
				from = i + n
			}
			i += n
			continue
		}
		if c >= ' ' && c != '"' && c != '\\' && c != '<' && c != '>' && c != '&' {
			i++
			continue
		}
		b = append(b, s[from:i]...)
		switch c {
		case '"', '\\':
			b = append(b, '\\', c)
		case '\b':
			b = append(b, '\\', 'b')
		case '\f':
			b = append(b, '\\', 'f')
		case '\n':
			b = append(b, '\\', 'n')
		case '\r':
			b = append(b, '\\', 'r')
		case '\t':
			b = append(b, '\\', 't')
		default:
			b = append(b, '\\', 'u', '0', '0', hex[c>>4], hex[c&0xF])
		}
		i++
		from = i
	}
	b = append(b, s[from:]...)
	return append(b, '"')
}

// appendFloat prints f as ECMAScript does: exponents only for what is very
// large or very small, and those without leading zeros.
func appendFloat(b []byte, f float64) []byte {
	format := byte('f')
	if abs := math.Abs(f); abs != 0 && (abs < 1e-6 || abs >= 1e21) {
		format = 'e'
	}
	b = strconv.AppendFloat(b, f, format, -1, 64)
	if n := len(b); format == 'e' && n >= 4 && string(b[n-4:n-1]) == "e-0" {
		b[n-2] = b[n-1]
		b = b[:n-1]
	}
	return b
}
