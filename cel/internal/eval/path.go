package eval

import (
	"github.com/keelson-io/keelson/cel/internal/val"
	"github.com/keelson-io/keelson/jsondoc"
)

// This file evaluates paths: a variable or another expression, with the selections and indexes
// after it. Upstream calls a path an attribute.

// step is one selection or index.
type step struct {
	typ      *val.Type  // the type of the object or list that the step reads, nil if unknown
	field    *val.Field // the member of typ
	key      *val.Value // the constant key as the rule writes it
	index    val.EvalFn // computes the key if it is not constant
	item     bool       // typ is a list and key a constant index
	optional bool
	strict   bool // looking for a member in a value that cannot have members is an error, even in has()
}

// path is a root with steps. It costs one unit for the root and one for each applied step.
// The root is the variable in slot, or base or choose.
type path struct {
	slot int32      // -1 if base or choose is the root
	test bool       // the path is has(): the last step tests presence
	init val.EvalFn // computes the value of a variable that is set when it is first read
	base val.EvalFn // another expression
	// choose evaluates a ?: as the root. It also reports whether the branch has steps of its own
	// that are not optional: an optional at their end is not unwrapped, and an error, as an item of
	// a list, fails in the next step.
	choose func(fr *val.Frame) (val.Value, bool)
	steps  []step
	root   uint64 // the cost of the root
}

// eval returns the value of the path as an expression of its own.
func (p *path) eval(fr *val.Frame) val.Value {
	if p.root == discount {
		v := p.resolve(fr)
		if fr.Cost > fr.Limit {
			return fr.Exhausted()
		}
		fr.Cost += discount
		return v
	}
	fr.Cost += p.root
	return p.resolve(fr)
}

// presence returns has() for any path.
func (p *path) presence(fr *val.Frame) val.Tri { return fr.Verdict(p.eval(fr)) }

// discount is the cost of the root of has() over ?:, which has no cost: one unit is subtracted, but
// only at the end.
const discount = ^uint64(0)

// resolve returns the value without the cost of the root, as in a branch of ?: or in an index.
func (p *path) resolve(fr *val.Frame) val.Value {
	v, _ := p.follow(fr)
	return v
}

// follow is resolve. It also reports whether all steps were applied.
func (p *path) follow(fr *val.Frame) (v val.Value, all bool) {
	v, closed := p.rootValue(fr)
	if len(p.steps) == 0 || v.Failed() && !closed {
		return v, false
	}
	optional := false
	if v.K == val.KindOptional && !closed {
		if v.Ptr == nil {
			return p.missing(fr), false
		}
		v, optional = *v.Optional(), true
	}
	i := 0
	if !optional && p.steps[0].isDeclared(v) {
		v, i = p.walk(fr, v)
		if v.K == val.KindError || i == len(p.steps) {
			return v, v.K != val.KindError
		}
	}
	for ; i < len(p.steps); i++ {
		s := &p.steps[i]
		optional = optional || s.optional
		test := p.test && i == len(p.steps)-1
		got, present := s.apply(fr, v, optional || test)
		if got.K == val.KindError && !present {
			if !optional {
				fr.Cost += val.CostSelect
			}
			return got, false
		}
		switch {
		case test && !optional:
			fr.Cost += val.CostSelect
			if got.K == val.KindUnknown {
				return got, false
			}
			return val.BoolValue(present), true
		case !present:
			return p.missing(fr), false
		}
		fr.Cost += val.CostSelect
		v = got
		if v.K == val.KindUnknown {
			return v, false
		}
		if s.strict && v.K == val.KindOptional && i < len(p.steps)-1 {
			if v.Ptr == nil {
				return p.missing(fr), false
			}
			v, optional = *v.Optional(), true
		}
	}
	if p.test {
		return val.BoolValue(true), true
	}
	fr.Open = optional
	if optional {
		return val.OptionalOf(v), true
	}
	return v, true
}

// rootValue returns the value that the first step starts from, and whether it is closed (see
// choose).
func (p *path) rootValue(fr *val.Frame) (v val.Value, closed bool) {
	if p.choose != nil {
		return p.choose(fr)
	}
	return p.start(fr), false
}

// isDeclared reports whether the step reads a declared member of v, which walk does in the document.
func (s *step) isDeclared(v val.Value) bool {
	return s.field != nil && !s.optional && v.K == val.KindMap && v.Typ == s.typ && v.Flag == val.FlagFromDoc
}

// missing returns the result of an optional path to a missing member.
func (p *path) missing(fr *val.Frame) val.Value {
	if p.test {
		return val.BoolValue(false)
	}
	fr.Open = true
	return val.OptionalNone
}

// start returns the value of the root.
func (p *path) start(fr *val.Frame) val.Value {
	if p.slot < 0 {
		return p.base(fr)
	}
	if p.init != nil && fr.Slots[p.slot].K == val.KindNone {
		fr.Slots[p.slot] = p.init(fr)
	}
	return fr.Slots[p.slot]
}

// walk applies the first steps of the path, as long as they select declared members of objects of
// the document. It makes a value only for the last of them. It returns the number of applied steps.
// If the value is an error, it is the result of the path.
func (p *path) walk(fr *val.Frame, v val.Value) (val.Value, int) {
	d, n := v.Doc(), v.Node
	for i := 0; ; i++ {
		s := &p.steps[i]
		fr.Cost += val.CostSelect
		var c jsondoc.Node
		if n.ShapeIndex() != 0 && s.field.Slot >= 0 {
			c = d.Slot(n, int(s.field.Slot))
		} else {
			c = d.Member(n, s.field.Name)
		}
		last := i == len(p.steps)-1
		if k := c.Kind(); k == jsondoc.Absent || k == jsondoc.Null {
			if p.test && last {
				return val.BoolValue(false), i + 1
			}
			return val.Value{K: val.KindError, Flag: val.CodeNoKey, Bits: s.key.Bits, Ptr: s.key.Ptr}, i + 1
		}
		if !last && c.Kind() == jsondoc.Object {
			if next := &p.steps[i+1]; next.typ == s.field.Type && next.field != nil && !next.optional {
				n = c
				continue
			}
		}
		got := val.Load(d, c, s.field.Type)
		if p.test && last && !got.Failed() {
			return val.BoolValue(true), i + 1
		}
		return got, i + 1
	}
}

// result returns the type of a step's result, nil if unknown.
func (s *step) result() *val.Type {
	switch {
	case s.field != nil:
		return s.field.Type
	case s.item:
		return s.typ.Elem
	}
	return nil
}

// value returns the key.
func (s *step) value(fr *val.Frame) val.Value {
	if s.index != nil {
		return s.index(fr)
	}
	return *s.key
}

// apply applies the step to v, with the results of val.Qualify.
func (s *step) apply(fr *val.Frame, v val.Value, test bool) (val.Value, bool) {
	if s.field != nil && v.K == val.KindMap && v.Flag == val.FlagFromDoc && v.Typ == s.typ {
		n := val.Member(v.Doc(), v.Node, int(s.field.Slot), s.field.Name)
		if n.Kind() != jsondoc.Absent && n.Kind() != jsondoc.Null {
			got := val.Load(v.Doc(), n, s.field.Type)
			return got, got.K != val.KindError
		}
		if test {
			return val.Value{}, false
		}
		return val.NoSuchKey(*s.key), false
	}
	key := s.value(fr)
	if s.index != nil {
		if key.K == val.KindUnknown {
			return key, true
		}
		if v.K == val.KindMap && v.Flag == val.FlagFromDoc && v.Typ.Kind == val.Map && key.K == val.KindString {
			d := v.Doc()
			if n := d.Member(v.Node, key.Text()); n.Kind() != jsondoc.Absent {
				if got := val.Load(d, n, v.Typ.Elem); got.K != val.KindError {
					return got, true
				}
			}
		}
		if key = val.CheckKey(key); key.K == val.KindError {
			return key, false
		}
	}
	if s.strict && test && v.K != val.KindMap && v.K != val.KindList && !v.Failed() {
		return val.NoSuchKey(key), false
	}
	return val.Qualify(v, key, test)
}
