package eval

import (
	"math"
	"unsafe"

	"github.com/keelson-io/keelson/internal/fastpath"

	"github.com/keelson-io/keelson/cel/internal/val"
	"github.com/keelson-io/keelson/jsondoc"
)

// This file reads the most frequent paths directly: a variable, and selections of declared members.
// A direct read either succeeds and adds its cost, or it has no effect, and the general
// implementation finds the reason.

// direct is a path that can be read directly.
type direct struct {
	slot  int32
	one   int32     // the slot of the member if there is only one step, to a member; otherwise -1
	want  val.Kind  // the kind of the value
	slots []hop     // one for each step
	typ   *val.Type // the type of the variable
	of    *val.Type // the type of the value, if it is a list, map or object
	units uint64    // the cost
}

// hop is a step to the member in a slot of an object, or to an item of a list.
type hop struct {
	at   int32
	item bool
}

// directOf returns the direct form of a node, false if it has none.
func directOf(c *code) (direct, bool) {
	p := c.path
	if p == nil || p.slot < 0 || p.init != nil || p.test || !fastpath.Closures.On() {
		return direct{}, false
	}
	d := direct{slot: p.slot, one: -1, want: c.static, units: p.root + uint64(len(p.steps))*val.CostSelect}
	if len(p.steps) == 0 {
		return d, true
	}
	d.typ = p.steps[0].typ
	for i := range p.steps {
		s := &p.steps[i]
		switch {
		case s.optional, i > 0 && s.typ != p.steps[i-1].result():
			return direct{}, false
		case s.item && s.key.Int() <= math.MaxInt32:
			d.slots = append(d.slots, hop{int32(s.key.Int()), true})
		case s.field != nil && s.field.Slot >= 0:
			d.slots = append(d.slots, hop{s.field.Slot, false})
		default:
			return direct{}, false
		}
	}
	if len(d.slots) == 1 && !d.slots[0].item {
		d.one = d.slots[0].at
	}
	last := p.steps[len(p.steps)-1].result()
	return d, last != nil && int(last.Kind) < len(kindOf) && kindOf[last.Kind] == d.want
}

// directList returns the direct form of a node that is a list.
func directList(c *code) (direct, bool) {
	if c.param == nil || c.param.Kind != val.List {
		return direct{}, false
	}
	return directData(c)
}

// directData returns the direct form of a node that is a list, map or object.
func directData(c *code) (direct, bool) {
	if c.param == nil || c.param.Kind != val.List && c.param.Kind != val.Map && c.param.Kind != val.Object || c.path == nil {
		return direct{}, false
	}
	d, ok := directOf(c)
	switch {
	case len(c.path.steps) == 0:
		d.typ = c.param
	case len(d.slots) != len(c.path.steps) || c.path.steps[len(d.slots)-1].result() != c.param:
		ok = false
	default:
		ok = true
	}
	d.of = c.param
	return d, ok
}

// container returns the list, map or object at the end of the path; Absent if it cannot be read
// directly.
func (d *direct) container(fr *val.Frame) (*jsondoc.Doc, jsondoc.Node) {
	if len(d.slots) > 0 {
		return d.node(fr)
	}
	v := &fr.Slots[d.slot]
	if v.Typ != d.typ || v.Flag != val.FlagFromDoc {
		return nil, jsondoc.Node{}
	}
	return (*jsondoc.Doc)(v.Ptr), v.Node
}

// own is a path of one step, to a member of a variable. It is small, because most paths that rules
// store are of this form.
type own struct {
	typ      *val.Type // the type of the variable
	slot, at int32     // the slot of the variable, and the one of the member
}

// own returns the path if it has only one step.
func (d *direct) own() own { return own{d.typ, d.slot, d.one} }

// node returns the member; Absent if it cannot be read directly.
func (o *own) node(fr *val.Frame) (*jsondoc.Doc, jsondoc.Node) {
	v := &fr.Slots[o.slot]
	if v.Typ != o.typ || v.Flag != val.FlagFromDoc || v.Node.ShapeIndex() == 0 {
		return nil, jsondoc.Node{}
	}
	text := (*jsondoc.Doc)(v.Ptr)
	return text, text.Slot(v.Node, int(o.at))
}

// directContainer returns the direct form of a node whose value has a size.
func directContainer(c *code) (direct, bool) {
	d, ok := directOf(c)
	if ok && len(d.slots) > 0 {
		return d, d.want == val.KindString
	}
	if len(d.slots) == 0 || len(d.slots) != len(c.path.steps) {
		return d, false
	}
	switch last := c.path.steps[len(d.slots)-1].result(); {
	case last == nil:
		return d, false
	case last.Kind == val.List:
		d.want = val.KindList
	case last.Kind == val.Map:
		d.want = val.KindMap
	default:
		return d, false
	}
	return d, true
}

// kindOf has the kind of the values of types that are not parsed.
var kindOf = [...]val.Kind{val.Bool: val.KindBool, val.Int: val.KindInt, val.String: val.KindString, val.Object: val.KindNone}

// node returns the member at the end of the path; Absent if it cannot be read directly.
func (d *direct) node(fr *val.Frame) (*jsondoc.Doc, jsondoc.Node) {
	v := &fr.Slots[d.slot]
	if v.Typ != d.typ || v.Flag != val.FlagFromDoc { // only a container of a document has both
		return nil, jsondoc.Node{}
	}
	text, n := (*jsondoc.Doc)(v.Ptr), v.Node
	if d.one >= 0 {
		if n.ShapeIndex() == 0 {
			return nil, jsondoc.Node{}
		}
		return text, text.Slot(n, int(d.one))
	}
	for _, h := range d.slots {
		switch {
		case h.item && n.Kind() == jsondoc.Array && int(h.at) < n.Len():
			n = text.Item(n, int(h.at))
		case !h.item && n.Kind() == jsondoc.Object && n.ShapeIndex() != 0:
			n = text.Slot(n, int(h.at))
		default:
			return nil, jsondoc.Node{}
		}
	}
	return text, n
}

// text returns the string at the end of the path. It reads the fields of a Value one by one: they
// were written one by one, and a copy of the whole would wait for the writes.
func (d *direct) text(fr *val.Frame) (s string, runes uint64, ok bool) {
	if len(d.slots) == 0 {
		v := &fr.Slots[d.slot]
		if v.K != val.KindString {
			return "", 0, false
		}
		s := unsafe.String((*byte)(v.Ptr), int(v.Bits))
		if v.Flag == val.FlagASCII {
			return s, v.Bits, true
		}
		return s, fr.Runes(s), true
	}
	text, n := d.node(fr)
	if n.Kind() != jsondoc.String {
		return "", 0, false
	}
	s = text.Str(n)
	if n.ASCII() {
		return s, uint64(len(s)), true
	}
	return s, fr.Runes(s), true
}

// bits returns the integer or bool at the end of the path.
func (d *direct) bits(fr *val.Frame) (bits uint64, ok bool) {
	if len(d.slots) == 0 {
		v := &fr.Slots[d.slot]
		return v.Bits, v.K == d.want
	}
	_, n := d.node(fr)
	switch {
	case d.want == val.KindInt && n.Kind() == jsondoc.Int:
		return uint64(n.Int()), true
	case d.want == val.KindBool && n.Kind() == jsondoc.Bool:
		if n.Bool() {
			return 1, true
		}
		return 0, true
	}
	return 0, false
}

// directEquality returns the test == or != of two direct paths, or of one and a constant, nil for
// other operands. general is the implementation for all operands.
//
//go:noinline
func directEquality(a, b *code, negated bool, general val.TestFn) val.TestFn {
	x, ok := directOf(a)
	if !ok {
		return nil
	}
	if b.konst != nil {
		return directConstant(x, b.konst, negated, general)
	}
	y, ok := directOf(b)
	if !ok || x.want != y.want {
		return nil
	}
	switch x.want {
	case val.KindString:
		if x.one >= 0 && y.one >= 0 {
			return ownTexts(x.own(), y.own(), x.units+y.units, negated, general)
		}
		return func(fr *val.Frame) val.Tri {
			s, n, ok := x.text(fr)
			if !ok {
				return general(fr)
			}
			t, m, ok := y.text(fr)
			if !ok {
				return general(fr)
			}
			fr.Cost += x.units + y.units + val.Tenth(min(n, m))
			return val.Truth((s == t) != negated)
		}
	case val.KindInt, val.KindBool:
		return func(fr *val.Frame) val.Tri {
			i, ok := x.bits(fr)
			if !ok {
				return general(fr)
			}
			j, ok := y.bits(fr)
			if !ok {
				return general(fr)
			}
			fr.Cost += x.units + y.units + 1
			return val.Truth((i == j) != negated)
		}
	}
	return nil
}

// directConstant returns the test == or != of a direct path and a constant.
//
//go:noinline
func directConstant(x direct, k *val.Value, negated bool, general val.TestFn) val.TestFn {
	if x.want != k.K {
		return nil
	}
	switch k.K {
	case val.KindString:
		want, size := k.Text(), uint64(k.Runes())
		if x.one >= 0 {
			return ownText(x.own(), k, x.units, negated, general)
		}
		return func(fr *val.Frame) val.Tri {
			s, n, ok := x.text(fr)
			if !ok {
				return general(fr)
			}
			fr.Cost += x.units + val.Tenth(min(n, size))
			return val.Truth((s == want) != negated)
		}
	case val.KindInt, val.KindBool:
		want, kind, units := k.Bits, val.JSONKind[val.Int], x.units+1
		if k.K == val.KindBool {
			kind = val.JSONKind[val.Bool]
		}
		if x.one >= 0 {
			x := x.own()
			return func(fr *val.Frame) val.Tri {
				_, n := x.node(fr)
				if n.Kind() != kind {
					return general(fr)
				}
				fr.Cost += units
				if kind == jsondoc.Bool {
					return val.Truth((n.Bool() == (want != 0)) != negated)
				}
				return val.Truth((uint64(n.Int()) == want) != negated)
			}
		}
		return func(fr *val.Frame) val.Tri {
			i, ok := x.bits(fr)
			if !ok {
				return general(fr)
			}
			fr.Cost += units
			return val.Truth((i == want) != negated)
		}
	}
	return nil
}

// ownText returns the test == or != of a member of a variable and a constant string.
//
//go:noinline
func ownText(x own, k *val.Value, units uint64, negated bool, general val.TestFn) val.TestFn {
	if k.Flag != val.FlagASCII || k.Bits >= uint64(len(val.Tenths)) {
		return general
	}
	return func(fr *val.Frame) val.Tri {
		text, n := x.node(fr)
		if n.Kind() != jsondoc.String || !n.ASCII() {
			return general(fr)
		}
		length := uint64(n.Len())
		fr.Cost += units + val.Tenths[uint8(min(length, k.Bits))]
		return val.Truth((length == k.Bits && text.Str(n) == unsafe.String((*byte)(k.Ptr), int(length))) != negated)
	}
}

// ownTexts returns the test == or != of members of two variables.
//
//go:noinline
func ownTexts(x, y own, units uint64, negated bool, general val.TestFn) val.TestFn {
	return func(fr *val.Frame) val.Tri {
		a, n := x.node(fr)
		b, m := y.node(fr)
		if n.Kind() != jsondoc.String || m.Kind() != jsondoc.String || !n.ASCII() || !m.ASCII() {
			return general(fr)
		}
		fr.Cost += units + val.Tenth(uint64(min(n.Len(), m.Len())))
		if n.Len() != m.Len() {
			return val.Truth(negated)
		}
		return val.Truth((a.Str(n) == b.Str(m)) != negated)
	}
}

// directPresence returns the tests has() and !has() of a direct path, nil if p is not one.
func directPresence(p *path, general val.TestFn) (test, inverse val.TestFn) {
	plain := *p
	plain.test = false
	last := &p.steps[len(p.steps)-1]
	if last.field == nil {
		return nil, nil
	}
	if int(last.field.Type.Kind) >= len(val.JSONKind) {
		return nil, nil
	}
	want := val.JSONKind[last.field.Type.Kind]
	d, _ := directOf(&code{path: &plain, static: kindOf[last.field.Type.Kind]})
	if len(d.slots) == 0 || want == jsondoc.Absent {
		return nil, nil
	}
	units := p.root + uint64(len(p.steps))*val.CostSelect
	parents, slot := d, d.slots[len(d.slots)-1].at
	parents.slots, parents.one = d.slots[:len(d.slots)-1], -1
	if len(parents.slots) == 1 && !parents.slots[0].item {
		parents.one = parents.slots[0].at
	}
	if len(parents.slots) == 0 {
		return ownPresence(own{d.typ, d.slot, d.slots[0].at}, want, units, general)
	}
	return presence(&parents, int(slot), want, units, general)
}

// presence returns has() and !has() of a member of the value of a path.
//
//go:noinline
func presence(parents *direct, slot int, want jsondoc.Kind, units uint64, general val.TestFn) (test, inverse val.TestFn) {
	test = func(fr *val.Frame) val.Tri {
		text, n := parents.node(fr)
		if n.Kind() != jsondoc.Object || n.ShapeIndex() == 0 {
			return general(fr)
		}
		switch text.Slot(n, slot).Kind() {
		case want:
			fr.Cost += units
			return val.Yes
		case jsondoc.Absent, jsondoc.Null:
			fr.Cost += units
			return val.No
		}
		return general(fr)
	}
	return test, func(fr *val.Frame) val.Tri {
		t := test(fr)
		fr.Cost++
		if t == val.Bad {
			return val.Bad
		}
		return val.Yes - t
	}
}

// ownPresence returns has() and !has() of a member of a variable.
//
//go:noinline
func ownPresence(o own, want jsondoc.Kind, units uint64, general val.TestFn) (test, inverse val.TestFn) {
	test = func(fr *val.Frame) val.Tri {
		v := &fr.Slots[o.slot]
		if v.Typ != o.typ || v.Flag != val.FlagFromDoc || v.Node.ShapeIndex() == 0 {
			return general(fr)
		}
		switch (*jsondoc.Doc)(v.Ptr).Slot(v.Node, int(o.at)).Kind() {
		case want:
			fr.Cost += units
			return val.Yes
		case jsondoc.Absent, jsondoc.Null:
			fr.Cost += units
			return val.No
		}
		return general(fr)
	}
	inverse = func(fr *val.Frame) val.Tri {
		v := &fr.Slots[o.slot]
		if v.Typ == o.typ && v.Flag == val.FlagFromDoc && v.Node.ShapeIndex() != 0 {
			switch (*jsondoc.Doc)(v.Ptr).Slot(v.Node, int(o.at)).Kind() {
			case want:
				fr.Cost += units + 1
				return val.No
			case jsondoc.Absent, jsondoc.Null:
				fr.Cost += units + 1
				return val.Yes
			}
		}
		t := general(fr)
		fr.Cost++
		if t == val.Bad {
			return val.Bad
		}
		return val.Yes - t
	}
	return test, inverse
}
