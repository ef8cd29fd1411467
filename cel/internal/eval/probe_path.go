package eval

import (
	"github.com/keelson-io/keelson/cel/internal/val"
)

// This file evaluates the paths of instrumented programs. It is the twin of path.follow that also
// records the values of the parts of a path.

// traced is a path of an instrumented program.
type traced struct {
	path  *path
	parts []int32 // by number of steps from the root: the part that is the path so far, -1 if none is
}

// newTraced returns the path of a node, which is the part n.
func newTraced(node *code, n int32) *traced {
	t := &traced{path: node.path, parts: make([]int32, len(node.path.steps)+1)}
	for i := range t.parts {
		t.parts[i] = -1
	}
	if above := node.above; above != nil && len(above.parts) == len(t.parts)-1 && !above.path.test {
		copy(t.parts, above.parts)
	}
	t.parts[len(t.parts)-1] = n
	return t
}

// eval returns the value of the path as an expression of its own.
func (t *traced) eval(fr *val.Frame) val.Value {
	if t.path.root == discount {
		v := t.resolve(fr)
		if fr.Cost > fr.Limit {
			return fr.Exhausted()
		}
		fr.Cost += discount
		return v
	}
	fr.Cost += t.path.root
	return t.resolve(fr)
}

// resolve returns the value without the cost of the root.
func (t *traced) resolve(fr *val.Frame) val.Value {
	v, _ := t.follow(fr)
	return v
}

// note records the value of the path after n steps.
func (t *traced) note(fr *val.Frame, n int, v val.Value) {
	if part := t.parts[n]; part >= 0 {
		fr.Rec.Note(part, v)
	}
}

// rest records the value of the path after n steps and more.
func (t *traced) rest(fr *val.Frame, n int, v val.Value) {
	for ; n < len(t.parts); n++ {
		t.note(fr, n, v)
	}
}

// missing records and returns the result of an optional path whose step n finds nothing.
func (t *traced) missing(fr *val.Frame, n int) val.Value {
	t.rest(fr, n, val.OptionalNone)
	v := t.path.missing(fr)
	t.note(fr, len(t.parts)-1, v)
	return v
}

// follow is path.follow.
func (t *traced) follow(fr *val.Frame) (v val.Value, all bool) {
	p := t.path
	v, closed := p.rootValue(fr)
	t.note(fr, 0, v)
	if len(p.steps) == 0 || v.Failed() && !closed {
		t.rest(fr, 1, v)
		return v, false
	}
	optional := false
	if v.K == val.KindOptional && !closed {
		if v.Ptr == nil {
			return t.missing(fr, 1), false
		}
		v, optional = *v.Optional(), true
	}
	for i := range p.steps {
		s := &p.steps[i]
		optional = optional || s.optional
		test := p.test && i == len(p.steps)-1
		got, present := s.apply(fr, v, optional || test)
		if got.K == val.KindError && !present {
			if !optional {
				fr.Cost += val.CostSelect
			}
			t.rest(fr, i+1, got)
			return got, false
		}
		switch {
		case test && !optional:
			fr.Cost += val.CostSelect
			if got.K != val.KindUnknown {
				got = val.BoolValue(present)
			}
			t.note(fr, i+1, got)
			return got, got.K != val.KindUnknown
		case !present:
			return t.missing(fr, i+1), false
		}
		fr.Cost += val.CostSelect
		v = got
		if v.K == val.KindUnknown {
			t.rest(fr, i+1, v)
			return v, false
		}
		t.noteStep(fr, i+1, v, optional)
		if s.strict && v.K == val.KindOptional && i < len(p.steps)-1 {
			if v.Ptr == nil {
				return t.missing(fr, i+2), false
			}
			v, optional = *v.Optional(), true
		}
	}
	switch {
	case p.test:
		v = val.BoolValue(true)
	case optional:
		fr.Open, v = true, val.OptionalOf(v)
	default:
		fr.Open = false
	}
	t.note(fr, len(p.steps), v)
	return v, true
}

// noteStep records the value of the path after a step that is not the last.
func (t *traced) noteStep(fr *val.Frame, n int, v val.Value, optional bool) {
	if n == len(t.parts)-1 || t.parts[n] < 0 {
		return
	}
	if optional {
		v = val.OptionalOf(v)
	}
	t.note(fr, n, v)
}
