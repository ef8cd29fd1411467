package eval

import (
	"github.com/keelson-io/keelson/cel/internal/fast"
	"github.com/keelson-io/keelson/cel/internal/val"
)

// This file defines functions of one text, which is what most rules about texts
// are made of. Each is written once: as a function that looks at nothing but the
// text and says what it costs. So it runs in a frame as well as in a diagram, and
// what one makes of a text is what the next one looks at. They know only what they
// are certain of: everything else, errors first of all, is left to the library's
// function. What makes such a function is not inlined, since the compiler inlines
// nothing into a function literal that it has moved.

// origin says which text a node is computed of, and how: by part, by number, or by
// constants around it.
type origin struct {
	source *code
	part   fast.TextPart
	number fast.TextNumber
	around fast.Around
}

// textTestOf is the node of a test of the text that arg is, which takes the general
// way where the test does not know.
func (c *compiler) textTestOf(arg *code, test fast.TextTest, general val.TestFn) *code {
	return testCode(ofText(arg, textOf(arg), test, general)).asking(c.askOf(arg, test))
}

// ofText is a test of the text that arg is, in a frame.
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

// textPartOf is the node of a text that is made of the text that arg is; nil if
// that is not read without a Value.
func textPartOf(arg *code, part fast.TextPart, general val.EvalFn) *code {
	source := textOf(arg)
	if source == nil {
		return nil
	}
	out := withText(partOfText(source, part), general)
	out.made = &origin{source: arg, part: part}
	return out
}

// partOfText is a text that is made of a text, in a frame.
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

// textNumberOf is the node of an integer or a duration that is made of the text that
// arg is; nil if that is not read without a Value.
func textNumberOf(kind val.Kind, arg *code, number fast.TextNumber, general val.EvalFn) *code {
	source := textOf(arg)
	if source == nil {
		return nil
	}
	out := withNum(kind, numberOfText(source, number), general)
	out.made = &origin{source: arg, number: number}
	return out
}

// numberOfText is a number that is made of a text, in a frame.
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
