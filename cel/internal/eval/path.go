package eval

import (
	"github.com/keelson-io/keelson/cel/internal/val"
	"github.com/keelson-io/keelson/jsondoc"
)

// This file evaluates paths: a variable or another expression and the
// selections and indexes that follow it, which upstream calls an attribute.

// step is one selection or index.
type step struct {
	typ      *val.Type  // the type of the object that the step reads, if it is known to be one
	field    *val.Field // the member of typ
	key      *val.Value // the key, as the rule spells it, if it is constant
	index    val.EvalFn // the key, if it is not
	item     bool       // typ is a list and key a constant index into it
	optional bool
	strict   bool // looking for a member of what has none is an error, even in has()
}

// path is a root and steps. It charges one unit for the root and one for each
// step that is applied.
type path struct {
	slot int32      // the variable, -1 if base is the root
	test bool       // has(): the last step tests presence
	init val.EvalFn // the value of a variable that is set only when it is read
	base val.EvalFn // another expression
	// choose is base if that is ?:, and says whether the branch has steps of its
	// own that are not optional: an optional at the end of those is none that the
	// path looks into, and an error, which is an item of a list, fails the next step.
	choose func(fr *val.Frame) (val.Value, bool)
	steps  []step
	root   uint64 // the price of the root
}

// eval is the path's value where it stands alone.
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

// presence is has(), whatever the path is.
func (p *path) presence(fr *val.Frame) val.Tri { return fr.Verdict(p.eval(fr)) }

// discount is the price of the root of has() over ?:, which has none: one unit
// comes back, but only at the end.
const discount = ^uint64(0)

// resolve is the path's value without the price of the root, as a branch of ?:
// or an index is evaluated.
func (p *path) resolve(fr *val.Frame) val.Value {
	v, _ := p.follow(fr)
	return v
}

// follow is resolve, and says whether all steps were applied.
func (p *path) follow(fr *val.Frame) (v val.Value, all bool) {
	closed := false
	if p.choose != nil {
		v, closed = p.choose(fr)
	} else {
		v = p.start(fr)
	}
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
	if !optional {
		if s := &p.steps[0]; s.field != nil && !s.optional && v.K == val.KindMap && v.Typ == s.typ && v.Flag == val.FlagFromDoc {
			v, i = p.walk(fr, v)
			if v.K == val.KindError || i == len(p.steps) {
				return v, v.K != val.KindError
			}
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

// missing is the result of an optional path that leads nowhere.
func (p *path) missing(fr *val.Frame) val.Value {
	if p.test {
		return val.BoolValue(false)
	}
	fr.Open = true
	return val.OptionalNone
}

// start is the value of the root.
func (p *path) start(fr *val.Frame) val.Value {
	if p.slot < 0 {
		return p.base(fr)
	}
	if p.init != nil && fr.Slots[p.slot].K == val.KindNone {
		fr.Slots[p.slot] = p.init(fr)
	}
	return fr.Slots[p.slot]
}

// walk applies the steps at the beginning of the path that select declared
// members of objects of the document, and loads a value only at the last of
// them. It returns how many steps it applied; if the value is an error, that
// is the result of the path.
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

// result is the type that a step on a known type leads to, nil if none is known.
func (s *step) result() *val.Type {
	switch {
	case s.field != nil:
		return s.field.Type
	case s.item:
		return s.typ.Elem
	}
	return nil
}

// value is the key.
func (s *step) value(fr *val.Frame) val.Value {
	if s.index != nil {
		return s.index(fr)
	}
	return *s.key
}

// apply is v with one step applied, as qualify does it.
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
