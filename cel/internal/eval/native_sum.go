package eval

import (
	"unsafe"

	"github.com/keelson-io/keelson/cel/internal/fast"
	"github.com/keelson-io/keelson/cel/internal/val"
)

// This file adds texts without Values: some sums are only read once, and need no memory of their
// own.

// passed returns a text for a caller that has finished with it before anything else is evaluated: a
// sum of texts is then made in memory of the frame.
func passed(c *code) *code {
	if c.passing == nil {
		return c
	}
	return &code{Eval: c.Eval, str: c.passing, static: val.KindString, made: c.made}
}

// passing returns the sum of two texts in memory of the frame, nil if the operands are not texts
// that are read directly.
func passing(a, b *code) textFn {
	if a.static != val.KindString || b.static != val.KindString || a.str != nil || b.str != nil {
		return nil
	}
	x, y := textOf(a), textOf(b)
	if x == nil || y == nil {
		return nil
	}
	return func(fr *val.Frame) (string, uint64, bool) {
		s, n, ok := x(fr)
		if !ok {
			return "", 0, false
		}
		t, m, ok := y(fr)
		if !ok || len(s)+len(t) > fast.MaxPassing {
			return "", 0, false
		}
		if fr.Cost += val.Tenth(n + m); fr.Cost > fr.Limit {
			return "", 0, false
		}
		fr.Text = append(append(fr.Text[:0], s...), t...)
		return unsafe.String(unsafe.SliceData(fr.Text), len(fr.Text)), n + m, true
	}
}

// aroundText returns which of two added texts is not a constant, nil if both or none are, or if the
// constant is not ASCII.
func aroundText(a, b *code) *origin {
	switch x, y := a.konst, b.konst; {
	case a.static != val.KindString || b.static != val.KindString:
	case x != nil && y == nil && x.Flag == val.FlagASCII:
		return &origin{source: b, around: fast.Around{Before: x.Text()}}
	case x == nil && y != nil && y.Flag == val.FlagASCII:
		return &origin{source: a, around: fast.Around{After: y.Text()}}
	}
	return nil
}

// joined returns the sum of two texts, nil for other operands. A sum whose cost exceeds the limit
// is not made.
func joined(a, b *code) textFn {
	if a.static != val.KindString || b.static != val.KindString {
		return nil
	}
	x, y := textOf(a), textOf(b)
	if x == nil || y == nil {
		return nil
	}
	return func(fr *val.Frame) (string, uint64, bool) {
		s, n, ok := x(fr)
		if !ok {
			return "", 0, false
		}
		t, m, ok := y(fr)
		if !ok {
			return "", 0, false
		}
		if fr.Cost += val.Tenth(n + m); fr.Cost > fr.Limit {
			return "", 0, false
		}
		return s + t, n + m, true
	}
}
