package cel

import (
	"github.com/keelson-io/keelson/doc"
)

// This file evaluates paths: a variable or another expression and the
// selections and indexes that follow it, which upstream calls an attribute.

// step is one selection or index.
type step struct {
	typ      *Type  // the type of the object that the step reads, if it is known to be one
	field    *Field // the member of typ
	key      *Value // the key, as the rule spells it, if it is constant
	index    evalFn // the key, if it is not
	item     bool   // typ is a list and key a constant index into it
	optional bool
	strict   bool // looking for a member of what has none is an error, even in has()
}

// path is a root and steps. It charges one unit for the root and one for each
// step that is applied.
type path struct {
	slot int32  // the variable, -1 if base is the root
	test bool   // has(): the last step tests presence
	init evalFn // the value of a variable that is set only when it is read
	base evalFn // another expression
	// choose is base if that is ?:, and says whether the branch has steps of its
	// own that are not optional: an optional at the end of those is none that the
	// path looks into, and an error, which is an item of a list, fails the next step.
	choose func(fr *frame) (Value, bool)
	steps  []step
	root   uint64 // the price of the root
}

// eval is the path's value where it stands alone.
func (p *path) eval(fr *frame) Value {
	if p.root == discount {
		v := p.resolve(fr)
		if fr.cost > fr.limit {
			return fr.exhausted()
		}
		fr.cost += discount
		return v
	}
	fr.cost += p.root
	return p.resolve(fr)
}

// presence is has(), whatever the path is.
func (p *path) presence(fr *frame) tri { return fr.verdict(p.eval(fr)) }

// discount is the price of the root of has() over ?:, which has none: one unit
// comes back, but only at the end.
const discount = ^uint64(0)

// resolve is the path's value without the price of the root, as a branch of ?:
// or an index is evaluated.
func (p *path) resolve(fr *frame) Value {
	v, _ := p.follow(fr)
	return v
}

// follow is resolve, and says whether all steps were applied.
func (p *path) follow(fr *frame) (v Value, all bool) {
	closed := false
	if p.choose != nil {
		v, closed = p.choose(fr)
	} else {
		v = p.start(fr)
	}
	if len(p.steps) == 0 || v.failed() && !closed {
		return v, false
	}
	optional := false
	if v.kind == KindOptional && !closed {
		if v.ptr == nil {
			return p.missing(fr), false
		}
		v, optional = *v.optional(), true
	}
	i := 0
	if !optional {
		if s := &p.steps[0]; s.field != nil && !s.optional && v.kind == KindMap && v.typ == s.typ && v.flag == flagFromDoc {
			v, i = p.walk(fr, v)
			if v.kind == KindError || i == len(p.steps) {
				return v, v.kind != KindError
			}
		}
	}
	for ; i < len(p.steps); i++ {
		s := &p.steps[i]
		optional = optional || s.optional
		test := p.test && i == len(p.steps)-1
		got, present := s.apply(fr, v, optional || test)
		if got.kind == KindError && !present {
			if !optional {
				fr.cost += costSelect
			}
			return got, false
		}
		switch {
		case test && !optional:
			fr.cost += costSelect
			if got.kind == KindUnknown {
				return got, false
			}
			return boolValue(present), true
		case !present:
			return p.missing(fr), false
		}
		fr.cost += costSelect
		v = got
		if v.kind == KindUnknown {
			return v, false
		}
		if s.strict && v.kind == KindOptional && i < len(p.steps)-1 {
			if v.ptr == nil {
				return p.missing(fr), false
			}
			v, optional = *v.optional(), true
		}
	}
	if p.test {
		return boolValue(true), true
	}
	fr.open = optional
	if optional {
		return optionalOf(v), true
	}
	return v, true
}

// missing is the result of an optional path that leads nowhere.
func (p *path) missing(fr *frame) Value {
	if p.test {
		return boolValue(false)
	}
	fr.open = true
	return optionalNone
}

// start is the value of the root.
func (p *path) start(fr *frame) Value {
	if p.slot < 0 {
		return p.base(fr)
	}
	if p.init != nil && fr.slots[p.slot].kind == KindNone {
		fr.slots[p.slot] = p.init(fr)
	}
	return fr.slots[p.slot]
}

// walk applies the steps at the beginning of the path that select declared
// members of objects of the document, and loads a value only at the last of
// them. It returns how many steps it applied; if the value is an error, that
// is the result of the path.
func (p *path) walk(fr *frame, v Value) (Value, int) {
	d, n := v.doc(), v.node
	for i := 0; ; i++ {
		s := &p.steps[i]
		fr.cost += costSelect
		var c doc.Node
		if n.ShapeIndex() != 0 && s.field.Slot >= 0 {
			c = d.Slot(n, int(s.field.Slot))
		} else {
			c = d.Member(n, s.field.Name)
		}
		last := i == len(p.steps)-1
		if k := c.Kind(); k == doc.Absent || k == doc.Null {
			if p.test && last {
				return boolValue(false), i + 1
			}
			return Value{kind: KindError, flag: errNoKey, bits: s.key.bits, ptr: s.key.ptr}, i + 1
		}
		if !last && c.Kind() == doc.Object {
			if next := &p.steps[i+1]; next.typ == s.field.Type && next.field != nil && !next.optional {
				n = c
				continue
			}
		}
		got := load(d, c, s.field.Type)
		if p.test && last && !got.failed() {
			return boolValue(true), i + 1
		}
		return got, i + 1
	}
}

// result is the type that a step on a known type leads to, nil if none is known.
func (s *step) result() *Type {
	switch {
	case s.field != nil:
		return s.field.Type
	case s.item:
		return s.typ.Elem
	}
	return nil
}

// value is the key.
func (s *step) value(fr *frame) Value {
	if s.index != nil {
		return s.index(fr)
	}
	return *s.key
}

// apply is v with one step applied, as qualify does it.
func (s *step) apply(fr *frame, v Value, test bool) (Value, bool) {
	if s.field != nil && v.kind == KindMap && v.flag == flagFromDoc && v.typ == s.typ {
		n := member(v.doc(), v.node, int(s.field.Slot), s.field.Name)
		if n.Kind() != doc.Absent && n.Kind() != doc.Null {
			got := load(v.doc(), n, s.field.Type)
			return got, got.kind != KindError
		}
		if test {
			return Value{}, false
		}
		return noSuchKey(*s.key), false
	}
	key := s.value(fr)
	if s.index != nil {
		if key.kind == KindUnknown {
			return key, true
		}
		if v.kind == KindMap && v.flag == flagFromDoc && v.typ.Kind == Map && key.kind == KindString {
			d := v.doc()
			if n := d.Member(v.node, key.text()); n.Kind() != doc.Absent {
				if got := load(d, n, v.typ.Elem); got.kind != KindError {
					return got, true
				}
			}
		}
		if key = checkKey(key); key.kind == KindError {
			return key, false
		}
	}
	if s.strict && test && v.kind != KindMap && v.kind != KindList && !v.failed() {
		return noSuchKey(key), false
	}
	return qualify(v, key, test)
}
