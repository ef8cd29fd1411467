package cel

import (
	"math"
	"unsafe"

	"github.com/keelson-io/keelson/doc"
)

// This file reads the commonest paths directly: a variable and the selection of
// declared members. A direct read either succeeds and charges, or does nothing
// at all, and the general way finds out why.

// direct is a path that can be read directly.
type direct struct {
	slot  int32
	one   int32  // the slot, if the only step reads one; else -1
	want  Kind   // of the value
	slots []hop  // one for each step
	typ   *Type  // of the variable
	of    *Type  // of a list, map or object
	units uint64 // the price
}

// hop is a step to the member in a slot of an object, or to an item of a list.
type hop struct {
	at   int32
	item bool
}

// directOf is the direct form of a node; false if it has none.
func directOf(c *code) (direct, bool) {
	p := c.path
	if p == nil || p.slot < 0 || p.init != nil || p.test {
		return direct{}, false
	}
	d := direct{slot: p.slot, one: -1, want: c.static, units: p.root + uint64(len(p.steps))*costSelect}
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

// directList is the direct form of a node that is a list.
func directList(c *code) (direct, bool) {
	if c.param == nil || c.param.Kind != List {
		return direct{}, false
	}
	return directData(c)
}

// directData is the direct form of a node that is a list, map or object.
func directData(c *code) (direct, bool) {
	if c.param == nil || c.param.Kind != List && c.param.Kind != Map && c.param.Kind != Object || c.path == nil {
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

// container is the list, map or object at the end of the path; Absent if a direct read fails.
func (d *direct) container(fr *frame) (*doc.Doc, doc.Node) {
	if len(d.slots) > 0 {
		return d.node(fr)
	}
	v := &fr.slots[d.slot]
	if v.typ != d.typ || v.flag != flagFromDoc {
		return nil, doc.Node{}
	}
	return (*doc.Doc)(v.ptr), v.node
}

// own is a path of one step, to a member of the object that a variable is: small, since most of what rules keep is such paths.
type own struct {
	typ      *Type // of the variable
	slot, at int32 // the variable's, and the member's
}

// own is the path, if it has but one step to a member.
func (d *direct) own() own { return own{d.typ, d.slot, d.one} }

// node is the member; Absent if a direct read fails.
func (o *own) node(fr *frame) (*doc.Doc, doc.Node) {
	v := &fr.slots[o.slot]
	if v.typ != o.typ || v.flag != flagFromDoc || v.node.ShapeIndex() == 0 {
		return nil, doc.Node{}
	}
	text := (*doc.Doc)(v.ptr)
	return text, text.Slot(v.node, int(o.at))
}

// directContainer is the direct form of a node whose value has a size.
func directContainer(c *code) (direct, bool) {
	d, ok := directOf(c)
	if ok && len(d.slots) > 0 {
		return d, d.want == KindString
	}
	if len(d.slots) == 0 || len(d.slots) != len(c.path.steps) {
		return d, false
	}
	switch last := c.path.steps[len(d.slots)-1].result(); {
	case last == nil:
		return d, false
	case last.Kind == List:
		d.want = KindList
	case last.Kind == Map:
		d.want = KindMap
	default:
		return d, false
	}
	return d, true
}

// kindOf is the kind of the values of types that need no parsing.
var kindOf = [...]Kind{Bool: KindBool, Int: KindInt, String: KindString, Object: KindNone}

// node is the member at the end of the path; Absent if a direct read fails.
func (d *direct) node(fr *frame) (*doc.Doc, doc.Node) {
	v := &fr.slots[d.slot]
	if v.typ != d.typ || v.flag != flagFromDoc { // no other kind of value has both
		return nil, doc.Node{}
	}
	text, n := (*doc.Doc)(v.ptr), v.node
	if d.one >= 0 {
		if n.ShapeIndex() == 0 {
			return nil, doc.Node{}
		}
		return text, text.Slot(n, int(d.one))
	}
	for _, h := range d.slots {
		switch {
		case h.item && n.Kind() == doc.Array && int(h.at) < n.Len():
			n = text.Item(n, int(h.at))
		case !h.item && n.Kind() == doc.Object && n.ShapeIndex() != 0:
			n = text.Slot(n, int(h.at))
		default:
			return nil, doc.Node{}
		}
	}
	return text, n
}

// text is the string at the end of the path. A Value that was written member by
// member is read so: copying it as a whole would wait for the writes.
func (d *direct) text(fr *frame) (s string, runes uint64, ok bool) {
	if len(d.slots) == 0 {
		v := &fr.slots[d.slot]
		if v.kind != KindString {
			return "", 0, false
		}
		s := unsafe.String((*byte)(v.ptr), int(v.bits))
		if v.flag == flagASCII {
			return s, v.bits, true
		}
		return s, fr.runes(s), true
	}
	text, n := d.node(fr)
	if n.Kind() != doc.String {
		return "", 0, false
	}
	s = text.Str(n)
	if n.ASCII() {
		return s, uint64(len(s)), true
	}
	return s, fr.runes(s), true
}

// bits is the integer or truth value at the end of the path.
func (d *direct) bits(fr *frame) (bits uint64, ok bool) {
	if len(d.slots) == 0 {
		v := &fr.slots[d.slot]
		return v.bits, v.kind == d.want
	}
	_, n := d.node(fr)
	switch {
	case d.want == KindInt && n.Kind() == doc.Int:
		return uint64(n.Int()), true
	case d.want == KindBool && n.Kind() == doc.Bool:
		if n.Bool() {
			return 1, true
		}
		return 0, true
	}
	return 0, false
}

// directEquality is == or != of two direct paths, or of one and a constant;
// nil if the operands are not of that form. general does it in any case.
//
//go:noinline
func directEquality(a, b *code, negated bool, general testFn) testFn {
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
	case KindString:
		if x.one >= 0 && y.one >= 0 {
			return ownTexts(x.own(), y.own(), x.units+y.units, negated, general)
		}
		return func(fr *frame) tri {
			s, n, ok := x.text(fr)
			if !ok {
				return general(fr)
			}
			t, m, ok := y.text(fr)
			if !ok {
				return general(fr)
			}
			fr.cost += x.units + y.units + tenth(min(n, m))
			return truth((s == t) != negated)
		}
	case KindInt, KindBool:
		return func(fr *frame) tri {
			i, ok := x.bits(fr)
			if !ok {
				return general(fr)
			}
			j, ok := y.bits(fr)
			if !ok {
				return general(fr)
			}
			fr.cost += x.units + y.units + 1
			return truth((i == j) != negated)
		}
	}
	return nil
}

// directConstant is == or != of a direct path and a constant.
//
//go:noinline
func directConstant(x direct, k *Value, negated bool, general testFn) testFn {
	if x.want != k.kind {
		return nil
	}
	switch k.kind {
	case KindString:
		want, size := k.text(), uint64(k.runes())
		if x.one >= 0 {
			return ownText(x.own(), k, x.units, negated, general)
		}
		return func(fr *frame) tri {
			s, n, ok := x.text(fr)
			if !ok {
				return general(fr)
			}
			fr.cost += x.units + tenth(min(n, size))
			return truth((s == want) != negated)
		}
	case KindInt, KindBool:
		want, kind, units := k.bits, jsonKind[Int], x.units+1
		if k.kind == KindBool {
			kind = jsonKind[Bool]
		}
		if x.one >= 0 {
			x := x.own()
			return func(fr *frame) tri {
				_, n := x.node(fr)
				if n.Kind() != kind {
					return general(fr)
				}
				fr.cost += units
				if kind == doc.Bool {
					return truth((n.Bool() == (want != 0)) != negated)
				}
				return truth((uint64(n.Int()) == want) != negated)
			}
		}
		return func(fr *frame) tri {
			i, ok := x.bits(fr)
			if !ok {
				return general(fr)
			}
			fr.cost += units
			return truth((i == want) != negated)
		}
	}
	return nil
}

// ownText is == or != of a member of a variable and a text.
//
//go:noinline
func ownText(x own, k *Value, units uint64, negated bool, general testFn) testFn {
	if k.flag != flagASCII || k.bits >= uint64(len(tenths)) {
		return general
	}
	return func(fr *frame) tri {
		text, n := x.node(fr)
		if n.Kind() != doc.String || !n.ASCII() {
			return general(fr)
		}
		length := uint64(n.Len())
		fr.cost += units + tenths[uint8(min(length, k.bits))]
		return truth((length == k.bits && text.Str(n) == unsafe.String((*byte)(k.ptr), int(length))) != negated)
	}
}

// ownTexts is == or != of members of two variables.
//
//go:noinline
func ownTexts(x, y own, units uint64, negated bool, general testFn) testFn {
	return func(fr *frame) tri {
		a, n := x.node(fr)
		b, m := y.node(fr)
		if n.Kind() != doc.String || m.Kind() != doc.String || !n.ASCII() || !m.ASCII() {
			return general(fr)
		}
		fr.cost += units + tenth(uint64(min(n.Len(), m.Len())))
		if n.Len() != m.Len() {
			return truth(negated)
		}
		return truth((a.Str(n) == b.Str(m)) != negated)
	}
}

// directPresence is has() of a direct path, and !has(); nil if p is none.
func directPresence(p *path, general testFn) (test, inverse testFn) {
	plain := *p
	plain.test = false
	last := &p.steps[len(p.steps)-1]
	if last.field == nil {
		return nil, nil
	}
	if int(last.field.Type.Kind) >= len(jsonKind) {
		return nil, nil
	}
	want := jsonKind[last.field.Type.Kind]
	d, _ := directOf(&code{path: &plain, static: kindOf[last.field.Type.Kind]})
	if len(d.slots) == 0 || want == doc.Absent {
		return nil, nil
	}
	units := p.root + uint64(len(p.steps))*costSelect
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

// presence is has() of a member of what a path leads to.
//
//go:noinline
func presence(parents *direct, slot int, want doc.Kind, units uint64, general testFn) (test, inverse testFn) {
	test = func(fr *frame) tri {
		text, n := parents.node(fr)
		if n.Kind() != doc.Object || n.ShapeIndex() == 0 {
			return general(fr)
		}
		switch text.Slot(n, slot).Kind() {
		case want:
			fr.cost += units
			return yes
		case doc.Absent, doc.Null:
			fr.cost += units
			return no
		}
		return general(fr)
	}
	return test, func(fr *frame) tri {
		t := test(fr)
		fr.cost++
		if t == bad {
			return bad
		}
		return yes - t
	}
}

// ownPresence is has() of a member of the variable itself.
//
//go:noinline
func ownPresence(o own, want doc.Kind, units uint64, general testFn) (test, inverse testFn) {
	test = func(fr *frame) tri {
		v := &fr.slots[o.slot]
		if v.typ != o.typ || v.flag != flagFromDoc || v.node.ShapeIndex() == 0 {
			return general(fr)
		}
		switch (*doc.Doc)(v.ptr).Slot(v.node, int(o.at)).Kind() {
		case want:
			fr.cost += units
			return yes
		case doc.Absent, doc.Null:
			fr.cost += units
			return no
		}
		return general(fr)
	}
	inverse = func(fr *frame) tri {
		v := &fr.slots[o.slot]
		if v.typ == o.typ && v.flag == flagFromDoc && v.node.ShapeIndex() != 0 {
			switch (*doc.Doc)(v.ptr).Slot(v.node, int(o.at)).Kind() {
			case want:
				fr.cost += units + 1
				return no
			case doc.Absent, doc.Null:
				fr.cost += units + 1
				return yes
			}
		}
		t := general(fr)
		fr.cost++
		if t == bad {
			return bad
		}
		return yes - t
	}
	return test, inverse
}

// jsonKind is the kind of the nodes that are always valid for a type.
var jsonKind = [...]doc.Kind{
	Dyn: doc.String, Bool: doc.Bool, Int: doc.Int, Double: doc.Float, String: doc.String,
	List: doc.Array, Map: doc.Object, Object: doc.Object,
}
