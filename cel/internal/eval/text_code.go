package eval

import (
	"github.com/keelson-io/keelson/cel/internal/fast"
	"github.com/keelson-io/keelson/cel/internal/val"
)

// This file compiles functions of one text, of which most rules about texts consist. Each is
// written once: as a function that depends only on the text and returns its cost. It therefore runs
// both in a frame and in a diagram, and such functions can be composed. They answer only if they
// are certain; everything else, including all errors, is left to the library's function. Functions
// that return such functions are not inlined, because the compiler does not inline into a function
// literal that it has moved.

// origin says from which text a node is computed, and how: by part, by number, or by adding
// constants around it.
type origin struct {
	source *code
	part   fast.TextPart
	number fast.TextNumber
	around fast.Around
}

// textTestOf returns the node of a test of the text that arg is. general runs if the test does not
// know.
func (c *compiler) textTestOf(arg *code, test fast.TextTest, general val.TestFn) *code {
	return testCode(ofText(arg, textOf(arg), test, general)).asking(c.askOf(arg, test))
}

// ofText returns a test of the text that arg is, for a frame.
//
//go:noinline
func ofText(arg *code, source textFn, test fast.TextTest, general val.TestFn) val.TestFn {
	if d, ok := directOf(arg); ok && arg.str == nil && d.want == val.KindString {
		return func(fr *val.Frame) val.Tri {
			if s, runes, ok := d.text(fr); ok {
				answer, units := test(s, runes)
				if cost := fr.Cost + d.units + units; answer != val.Bad && cost <= fr.Limit {
					fr.Cost = cost
					return answer
				}
			}
			return general(fr)
		}
	}
	if source == nil {
		return general
	}
	return func(fr *val.Frame) val.Tri {
		cost := fr.Cost
		if s, runes, ok := source(fr); ok {
			answer, units := test(s, runes)
			if fr.Cost += units; answer != val.Bad && fr.Cost <= fr.Limit {
				return answer
			}
		}
		fr.Cost = cost
		return general(fr)
	}
}

// textPartOf returns the node of a text that is computed from the text that arg is, nil if that can
// only be read as a Value.
func textPartOf(arg *code, part fast.TextPart, general val.EvalFn) *code {
	source := textOf(arg)
	if source == nil {
		return nil
	}
	out := withText(partOfText(source, part), general)
	out.made = &origin{source: arg, part: part}
	return out
}

// partOfText returns the textFn of a text that is computed from another one.
//
//go:noinline
func partOfText(source textFn, part fast.TextPart) textFn {
	return func(fr *val.Frame) (string, uint64, bool) {
		s, runes, ok := source(fr)
		if !ok {
			return "", 0, false
		}
		s, runes, units, ok := part(s, runes)
		fr.Cost += units
		return s, runes, ok
	}
}

// textNumberOf returns the node of an integer or a duration that is computed from the text that arg
// is, nil if that can only be read as a Value.
func textNumberOf(kind val.Kind, arg *code, number fast.TextNumber, general val.EvalFn) *code {
	source := textOf(arg)
	if source == nil {
		return nil
	}
	out := withNum(kind, numberOfText(source, number), general)
	out.made = &origin{source: arg, number: number}
	return out
}

// numberOfText returns the numFn of a number that is computed from a text.
//
//go:noinline
func numberOfText(source textFn, number fast.TextNumber) numFn {
	return func(fr *val.Frame) (int64, bool) {
		cost := fr.Cost
		if s, runes, ok := source(fr); ok {
			if i, units, ok := number(s, runes); ok {
				fr.Cost += units
				return i, true
			}
		}
		fr.Cost = cost
		return 0, false
	}
}
