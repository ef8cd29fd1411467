package cel

import "unsafe"

// This file adds texts without Values: some sums are only looked at, and take no
// memory.

// passed is a text for whoever is done with it before anything else is evaluated: a
// sum of texts is made in memory of the frame.
func passed(c *code) *code {
	if c.passing == nil {
		return c
	}
	return &code{eval: c.eval, str: c.passing, static: KindString, made: c.made}
}

// passing is the sum of two texts in memory of the frame; nil if the operands are
// not texts that are read.
func passing(a, b *code) textFn {
	if a.static != KindString || b.static != KindString || a.str != nil || b.str != nil {
		return nil
	}
	x, y := textOf(a), textOf(b)
	if x == nil || y == nil {
		return nil
	}
	return func(fr *frame) (string, uint64, bool) {
		s, n, ok := x(fr)
		if !ok {
			return "", 0, false
		}
		t, m, ok := y(fr)
		if !ok || len(s)+len(t) > maxPassing {
			return "", 0, false
		}
		if fr.cost += tenth(n + m); fr.cost > fr.limit {
			return "", 0, false
		}
		fr.text = append(append(fr.text[:0], s...), t...)
		return unsafe.String(unsafe.SliceData(fr.text), len(fr.text)), n + m, true
	}
}

// aroundText says which of two texts that are added is no constant; nil if that is
// none or both, or the other one is not ASCII.
func aroundText(a, b *code) *origin {
	switch x, y := a.konst, b.konst; {
	case a.static != KindString || b.static != KindString:
	case x != nil && y == nil && x.flag == flagASCII:
		return &origin{source: b, around: around{before: x.text()}}
	case x == nil && y != nil && y.flag == flagASCII:
		return &origin{source: a, around: around{after: y.text()}}
	}
	return nil
}

// put joins a text with what is around it, in memory of the frame; false if it is too
// long for that.
func (w *around) put(fr *frame, s string) (string, bool) {
	if len(w.before)+len(s)+len(w.after) > maxPassing {
		return "", false
	}
	fr.text = append(append(append(fr.text[:0], w.before...), s...), w.after...)
	return unsafe.String(unsafe.SliceData(fr.text), len(fr.text)), true
}

// maxPassing bounds the memory of a frame for texts.
const maxPassing = 1 << 12

// joined is the sum of two texts; nil if the operands are not that. A sum beyond
// the limit of costs is not made.
func joined(a, b *code) textFn {
	if a.static != KindString || b.static != KindString {
		return nil
	}
	x, y := textOf(a), textOf(b)
	if x == nil || y == nil {
		return nil
	}
	return func(fr *frame) (string, uint64, bool) {
		s, n, ok := x(fr)
		if !ok {
			return "", 0, false
		}
		t, m, ok := y(fr)
		if !ok {
			return "", 0, false
		}
		if fr.cost += tenth(n + m); fr.cost > fr.limit {
			return "", 0, false
		}
		return s + t, n + m, true
	}
}
