package cel

import (
	"bytes"
	"fmt"
	"math"
	"strconv"
	"strings"

	"github.com/keelson-io/keelson/doc"
)

// This file decides equality. The left operand decides how: lists and maps on
// the heap compare leniently, those of a document by their type.

// comparison is a comparison of two values, of all of an evaluation. Lists and maps may hold one another
// many times over, so that comparing them takes longer than can be waited for: it
// ends with the context, and after as many items as an evaluation may hold.
type comparison struct {
	fr   *frame // nil: of a function that runs in cel-go's way
	done int    // items
	most int    // items that may be compared
	over bool   // it ended before it was decided
}

// An evaluation may compare that many items, and some more for each unit that it
// cost: comparing lists costs a tenth for each item, whatever is inside.
const (
	maxCompared  = 1 << 20
	itemsPerUnit = 32
)

// lookEvery is how many items are compared between looks at the context.
const lookEvery = 1 << 13

func newComparison(fr *frame) *comparison {
	if fr == nil {
		return &comparison{most: maxCompared}
	}
	c := &fr.compared
	c.fr, c.over, c.most = fr, false, maxCompared+itemsPerUnit*int(min(fr.cost, math.MaxInt/(2*itemsPerUnit)))
	return c
}

// next accounts for an item; false means that the comparison must end.
func (c *comparison) next() bool {
	c.done++
	if c.done%lookEvery == 0 && c.fr != nil && c.fr.looks {
		select {
		case <-c.fr.done:
			c.over, c.fr.stop, c.fr.ticks = true, true, 0
		default:
		}
	}
	c.over = c.over || c.done > c.most
	return !c.over
}

// ended is what a comparison that had to end evaluates to.
func (c *comparison) ended() Value {
	if c.fr != nil && !c.fr.stop {
		return c.fr.exhausted()
	}
	return errorValue(errInterrupted)
}

// equal is a == b in an evaluation: a Bool, or an error.
func (fr *frame) equal(a, b Value) Value {
	return bounded(newComparison(fr), a, b, (*comparison).equal)
}

// bounded is a comparison, or what ended it: what is compared around the place
// where it ended may have taken that for a difference.
func bounded(c *comparison, a, b Value, compare func(c *comparison, a, b Value) Value) Value {
	v := compare(c, a, b)
	if c.over {
		return c.ended()
	}
	return v
}

// equal is a == b outside of evaluations.
func equal(a, b Value) Value { return bounded(newComparison(nil), a, b, (*comparison).equal) }

// equalIn is the equality of a's own type; c is nil outside of evaluations.
func equalIn(c *comparison, a, b Value) Value {
	if c == nil {
		c = newComparison(nil)
	}
	return bounded(c, a, b, (*comparison).equalTo)
}

func (c *comparison) equal(a, b Value) Value {
	if a.kind == KindNull || b.kind == KindNull {
		return boolValue(a.kind == b.kind)
	}
	return c.equalTo(a, b)
}

func isTrue(v Value) bool  { return v.kind == KindBool && v.bits != 0 }
func isFalse(v Value) bool { return v.kind == KindBool && v.bits == 0 }

func (c *comparison) equalTo(a, b Value) Value {
	switch a.kind {
	case KindNull:
		return boolValue(b.kind == KindNull)
	case KindBool, KindDuration:
		return boolValue(a.kind == b.kind && a.bits == b.bits)
	case KindInt, KindUint, KindDouble:
		return boolValue(numbersEqual(a, b))
	case KindString:
		return boolValue(b.kind == KindString && a.text() == b.text())
	case KindBytes:
		return boolValue(b.kind == KindBytes && bytes.Equal(a.bytes(), b.bytes()))
	case KindTimestamp:
		return boolValue(b.kind == KindTimestamp && a.Time().Equal(b.Time()))
	case KindType:
		return boolValue(b.kind == KindType && a.celType().TypeName() == b.celType().TypeName())
	case KindList, KindMap:
		if same := sameData(a, b); same != bad {
			return boolValue(same == yes)
		}
		return c.plainlyEqual(a, b)
	case KindOptional:
		if b.kind != KindOptional || (a.ptr == nil) != (b.ptr == nil) {
			return boolValue(false)
		}
		if a.ptr == nil {
			return boolValue(true)
		}
		return c.equalInside(*a.optional(), *b.optional())
	case KindOpaque:
		if m, ok := a.made(); ok {
			return c.madeEqual(m, b)
		}
		return fromRef(a.opaque().Equal(b.ref()))
	}
	return errorValue(errNoOverload)
}

// madeEqual compares the members of objects that an expression made; other types
// are other values.
func (c *comparison) madeEqual(m *made, b Value) Value {
	o, ok := b.made()
	if !ok || m.t.TypeName() != o.t.TypeName() || len(m.fields) != len(o.fields) {
		return boolValue(false)
	}
	for name, v := range m.fields {
		w, ok := o.fields[name]
		if !ok || !isTrue(c.equalInside(v, w)) {
			return boolValue(false)
		}
	}
	return boolValue(true)
}

// plainlyEqual is the equality of a list or map, whatever it is made of.
func (c *comparison) plainlyEqual(a, b Value) Value {
	if a.kind == KindList {
		return c.listsEqual(a, b)
	}
	return c.mapsEqual(a, b)
}

func numbersEqual(a, b Value) bool {
	if b.kind != KindInt && b.kind != KindUint && b.kind != KindDouble {
		return false
	}
	if a.kind == b.kind && a.kind != KindDouble {
		return a.bits == b.bits
	}
	c, ok := compareNumbers(a, b)
	return ok && c == 0
}

func (c *comparison) listsEqual(a, b Value) Value {
	if b.kind != KindList {
		if a.fromDoc() || a.typ != nil {
			return errorValue(errNoOverload)
		}
		return boolValue(false)
	}
	n := a.size()
	if n != b.size() {
		return boolValue(false)
	}
	if a.typ != nil {
		switch {
		case a.typ.set():
			return c.setsEqual(a, b)
		case a.typ.mapList():
			return c.mapListsEqual(a, b)
		}
	}
	if a.fromDoc() {
		for i := 0; i < n; i++ {
			if eq := c.equalItems(a.item(i), b.item(i)); !isTrue(eq) {
				return eq
			}
		}
		return boolValue(true)
	}
	for i := 0; i < n; i++ {
		x, y := a.item(i), b.item(i)
		if isFalse(c.equalInside(x, y)) {
			return boolValue(false)
		}
	}
	return boolValue(true)
}

// equalItems is equalTo with operands that may be errors. An error on the left
// is the result; one on the right equals nothing.
func (c *comparison) equalItems(a, b Value) Value {
	switch {
	case !c.next():
		return errorValue(errInterrupted)
	case a.failed():
		return a
	case !b.failed():
		return c.equalTo(a, b)
	case (a.kind == KindList || a.kind == KindMap) && a.fromDoc():
		return b
	}
	return boolValue(false)
}

// equalInside is equal with operands that may be errors.
func (c *comparison) equalInside(a, b Value) Value {
	switch {
	case a.failed() || b.failed():
		return c.equalItems(a, b)
	case !c.next():
		return errorValue(errInterrupted)
	}
	return c.equal(a, b)
}

// setsEqual compares the items of a set list of a document with those of a
// list of the same length, in any order.
func (c *comparison) setsEqual(a, b Value) Value {
	seen := make(map[scalarKey]bool, a.size())
	for i, n := 0, a.size(); i < n; i++ {
		k, err := setKey(a.item(i))
		if err.failed() {
			return err
		}
		seen[k] = false
	}
	hits := 0
	for i, n := 0, b.size(); i < n; i++ {
		k, err := setKey(b.item(i))
		if err.failed() {
			return err
		}
		hit, ok := seen[k]
		if !ok {
			return boolValue(false)
		}
		if !hit {
			seen[k] = true
			hits++
		}
	}
	return boolValue(hits == len(seen))
}

// setKey is an item of a set as a key. Containers cannot be items; an item that
// cannot be read equals no other.
func setKey(v Value) (scalarKey, Value) {
	if k, ok := keyOf(v); ok {
		return k, Value{}
	}
	switch v.kind {
	case KindList, KindMap:
		return scalarKey{}, errorf("listSet operations are only supported on lists of scalar values")
	case KindDuration, KindNull:
		return scalarKey{kind: v.kind, bits: v.bits}, Value{}
	case KindBytes:
		return scalarKey{kind: KindBytes, text: v.text()}, Value{}
	case KindTimestamp:
		return scalarKey{kind: KindTimestamp, bits: v.bits, text: strconv.FormatInt(v.node.Int(), 10)}, Value{}
	case KindError, KindUnknown:
		return scalarKey{kind: v.kind, text: fmt.Sprintf("%p", new(byte))}, Value{}
	}
	return scalarKey{kind: v.kind, text: v.String()}, Value{}
}

// mapListsEqual compares the items of a map list with those of a list of the
// same length, matched by their keys.
func (c *comparison) mapListsEqual(a, b Value) Value {
	keys := escapedKeys(a.typ.ListType.Keys)
	identity := listKey
	if a.fromDoc() {
		identity = rawKey
	}
	at := make(map[string]int, a.size())
	for i, n := 0, a.size(); i < n; i++ {
		at[identity(a.item(i), keys)] = i
	}
	seen := make(map[int]bool, len(at))
	for i, n := 0, b.size(); i < n; i++ {
		item := b.item(i)
		if a.fromDoc() && (item.kind != KindMap || !item.fromDoc()) {
			return boolValue(false) // it has no identity, and is never found
		}
		j, ok := at[identity(item, keys)]
		if !ok {
			return boolValue(false)
		}
		if eq := c.equalItems(a.item(j), item); !isTrue(eq) {
			return eq
		}
		seen[j] = true
	}
	return boolValue(len(seen) == len(at))
}

// escapedKeys are the key members as rules spell them.
func escapedKeys(names []string) []string {
	out := make([]string, len(names))
	for i, name := range names {
		out[i] = name
		if escaped, ok := Escape(name); ok {
			out[i] = escaped
		}
	}
	return out
}

// listKey is the identity of an item of a map list.
func listKey(item Value, keys []string) string {
	var b strings.Builder
	for _, name := range keys {
		var v Value
		if item.kind == KindMap {
			v, _ = findIn(item, constString(name))
		}
		appendKey(&b, v)
	}
	return b.String()
}

// rawKey is the identity of an item of a map list of a document as upstream
// finds it: by the escaped names in the data as it is, so that a key whose name
// needs escaping is never found.
func rawKey(item Value, keys []string) string {
	if item.kind != KindMap || !item.fromDoc() {
		return "no item of a document"
	}
	var b strings.Builder
	for _, name := range keys {
		var v Value
		if datum := item.docValue().Get(name); datum.Exists() && datum.Kind() != doc.Null {
			v = load(datum.Doc, datum.Node, scalarTypes[datum.Kind()])
		}
		appendKey(&b, v)
	}
	return b.String()
}

func appendKey(b *strings.Builder, v Value) {
	if v.kind == KindNone || v.kind == KindNull || v.failed() {
		b.WriteString("nil,")
		return
	}
	fmt.Fprintf(b, "%d %q,", v.kind, v.String())
}

// scalarTypes are the types by which data without a type is read.
var scalarTypes = [...]*Type{
	doc.Bool: {Kind: Bool}, doc.Int: {Kind: Int}, doc.Float: {Kind: Double}, doc.String: {Kind: String},
	doc.Array: {Kind: List}, doc.Object: {Kind: Map},
}

func (c *comparison) mapsEqual(a, b Value) Value {
	if b.kind != KindMap {
		if a.fromDoc() {
			return errorValue(errNoOverload)
		}
		return boolValue(false)
	}
	if a.size() != b.size() {
		return boolValue(false)
	}
	if a.fromDoc() {
		return c.objectsEqual(a, b)
	}
	m := a.heapMap()
	for i, k := range m.keys {
		other, found := findIn(b, k)
		if !found {
			return boolValue(false)
		}
		if isFalse(c.equalInside(m.at(i), other)) {
			return boolValue(false)
		}
	}
	return boolValue(true)
}

// objectsEqual compares a map or object of a document with a map of as many
// members. Members that no type declares are compared as data, and ignored if
// only the left side has them.
func (c *comparison) objectsEqual(a, b Value) Value {
	for key, datum := range a.docValue().Members() {
		if a.typ.Kind == Object && a.typ.field(key) == nil {
			if !b.fromDoc() {
				return errorValue(errNoOverload)
			}
			if other := b.docValue().Get(key); other.Exists() && !doc.Equal(datum, other) {
				return boolValue(false)
			}
			continue
		}
		x, found := a.find(key)
		y, ok := findIn(b, stringValue(key))
		if found != ok {
			return boolValue(false)
		}
		if !found {
			continue
		}
		if eq := c.equalItems(x, y); !isTrue(eq) {
			return eq
		}
	}
	return boolValue(true)
}

// findIn looks a key up in any map.
func findIn(m, key Value) (Value, bool) {
	if !m.fromDoc() {
		return m.heapMap().find(key)
	}
	if key.kind != KindString {
		return errorValue(errNoOverload), true
	}
	return m.find(key.text())
}

// contains is `x in list` or `key in map`.
func contains(c *comparison, x, in Value) Value {
	switch in.kind {
	case KindList:
		if c == nil {
			c = newComparison(nil)
		}
		return bounded(c, in, x, (*comparison).listContains)
	case KindMap:
		v, found := findIn(in, x)
		if found && v.failed() && in.fromDoc() {
			return v
		}
		return boolValue(found)
	}
	return errorValue(errNoOverload)
}

// nodesBefore looks for a number or text among the items of a list of a document
// that are of its type, up to the first that is not: what is before i is not x.
func nodesBefore(l, x Value) (i int, found bool) {
	d, n := l.doc(), l.node.Len()
	switch {
	case l.typ.Elem == nil:
	case l.typ.Elem.Kind == Int && x.kind == KindInt:
		want := x.Int()
		for i, item := range d.Items(l.node) {
			switch {
			case item.Kind() != doc.Int:
				return i, false
			case item.Int() == want:
				return i, true
			}
		}
		return n, false
	case l.typ.Elem.Kind == String && x.kind == KindString:
		want := x.text()
		for ; i < n; i++ {
			item := d.Item(l.node, i)
			if item.Kind() != doc.String {
				return i, false
			}
			if item.Len() == len(want) && d.Str(item) == want {
				return i, true
			}
		}
	}
	return i, false
}

func (c *comparison) listContains(l, x Value) Value {
	n := l.size()
	failure := Value{}
	if !l.fromDoc() {
		for i := 0; i < n; i++ {
			item := l.items()[i]
			switch {
			case item.failed() && l.flag == flagConcat && failure.kind == KindNone:
				failure = item
			case item.failed():
			case isTrue(c.equalInside(x, item)):
				return boolValue(true)
			}
		}
		if failure.kind != KindNone {
			return failure
		}
		return boolValue(false)
	}
	if x.failed() {
		return x
	}
	i, found := nodesBefore(l, x)
	if found {
		return boolValue(true)
	}
	for ; i < n; i++ {
		eq := c.equalItems(l.item(i), x)
		if isTrue(eq) {
			return eq
		}
		if eq.kind != KindBool && failure.kind == KindNone {
			failure = eq
		}
	}
	if failure.kind != KindNone {
		return failure
	}
	return boolValue(false)
}
