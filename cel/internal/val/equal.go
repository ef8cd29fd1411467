package val

import (
	"bytes"
	"fmt"
	"math"
	"strconv"
	"strings"

	"github.com/keelson-io/keelson/jsondoc"
)

// This file implements equality. The left operand determines how values are compared: lists and
// maps on the heap leniently, those of a document by their type.

// comparison bounds the comparisons of one evaluation. Lists and maps may contain each other many
// times, so that a comparison might take forever. It ends with the context, and when the evaluation
// has compared too many items.
type comparison struct {
	fr   *Frame // nil for a function that cel-go calls
	Done int    // items compared so far
	most int    // items that may be compared
	Over bool   // it ended before the result was known
}

// An evaluation may compare maxCompared items, and itemsPerUnit more for each unit of its cost:
// comparing lists costs a tenth of a unit for each item, whatever the item contains.
const (
	maxCompared  = 1 << 20
	itemsPerUnit = 32
)

// lookEvery is the number of compared items between two checks of the context.
const lookEvery = 1 << 13

// NewComparison starts a comparison within an evaluation, or outside of one if fr is nil.
func NewComparison(fr *Frame) *comparison {
	if fr == nil {
		return &comparison{most: maxCompared}
	}
	c := &fr.Compared
	c.fr, c.Over, c.most = fr, false, maxCompared+itemsPerUnit*int(min(fr.Cost, math.MaxInt/(2*itemsPerUnit)))
	return c
}

// next counts an item. It returns false if the comparison must end.
func (c *comparison) next() bool {
	c.Done++
	if c.Done%lookEvery == 0 && c.fr != nil && c.fr.Looks {
		select {
		case <-c.fr.Done:
			c.Over, c.fr.Stop, c.fr.Ticks = true, true, 0
		default:
		}
	}
	c.Over = c.Over || c.Done > c.most
	return !c.Over
}

// Ended returns the result of a comparison that had to end.
func (c *comparison) Ended() Value {
	if c.fr != nil && !c.fr.Stop {
		return c.fr.Exhausted()
	}
	return ErrorValue(CodeInterrupted)
}

// equal returns a == b within an evaluation: a Bool or an error.
func (fr *Frame) equal(a, b Value) Value {
	return bounded(NewComparison(fr), a, b, (*comparison).equal)
}

// bounded returns the result of compare. If the comparison had to end, the result is the error that
// says so, because compare may have treated the end as a difference.
func bounded(c *comparison, a, b Value, compare func(c *comparison, a, b Value) Value) Value {
	v := compare(c, a, b)
	if c.Over {
		return c.Ended()
	}
	return v
}

// Equal returns a == b outside of an evaluation.
func Equal(a, b Value) Value { return bounded(NewComparison(nil), a, b, (*comparison).equal) }

// equalIn compares two values by the type of a. c is nil outside of an evaluation.
func equalIn(c *comparison, a, b Value) Value {
	if c == nil {
		c = NewComparison(nil)
	}
	return bounded(c, a, b, (*comparison).equalTo)
}

// equal is equalTo where null is permitted on both sides.
func (c *comparison) equal(a, b Value) Value {
	if a.K == KindNull || b.K == KindNull {
		return BoolValue(a.K == b.K)
	}
	return c.equalTo(a, b)
}

// IsTrue reports whether v is the Bool true.
func IsTrue(v Value) bool { return v.K == KindBool && v.Bits != 0 }

// isFalse reports whether v is the Bool false.
func isFalse(v Value) bool { return v.K == KindBool && v.Bits == 0 }

// equalTo compares by the type of a.
func (c *comparison) equalTo(a, b Value) Value {
	switch a.K {
	case KindNull:
		return BoolValue(b.K == KindNull)
	case KindBool, KindDuration:
		return BoolValue(a.K == b.K && a.Bits == b.Bits)
	case KindInt, KindUint, KindDouble:
		return BoolValue(numbersEqual(a, b))
	case KindString:
		return BoolValue(b.K == KindString && a.Text() == b.Text())
	case KindBytes:
		return BoolValue(b.K == KindBytes && bytes.Equal(a.bytes(), b.bytes()))
	case KindTimestamp:
		return BoolValue(b.K == KindTimestamp && a.Time().Equal(b.Time()))
	case KindType:
		return BoolValue(b.K == KindType && a.celType().TypeName() == b.celType().TypeName())
	case KindList, KindMap:
		if same := SameData(a, b); same != Bad {
			return BoolValue(same == Yes)
		}
		return c.PlainlyEqual(a, b)
	case KindOptional:
		if b.K != KindOptional || (a.Ptr == nil) != (b.Ptr == nil) {
			return BoolValue(false)
		}
		if a.Ptr == nil {
			return BoolValue(true)
		}
		return c.equalInside(*a.Optional(), *b.Optional())
	case KindOpaque:
		if m, ok := a.made(); ok {
			return c.madeEqual(m, b)
		}
		return FromRef(a.Opaque().Equal(b.Ref()))
	}
	return ErrorValue(CodeNoOverload)
}

// madeEqual compares an object that an expression constructed with b. Values of other types are
// different.
func (c *comparison) madeEqual(m *made, b Value) Value {
	o, ok := b.made()
	if !ok || m.T.TypeName() != o.T.TypeName() || len(m.fields) != len(o.fields) {
		return BoolValue(false)
	}
	for name, v := range m.fields {
		w, ok := o.fields[name]
		if !ok || !IsTrue(c.equalInside(v, w)) {
			return BoolValue(false)
		}
	}
	return BoolValue(true)
}

// PlainlyEqual compares lists or maps without the fast path for documents.
func (c *comparison) PlainlyEqual(a, b Value) Value {
	if a.K == KindList {
		return c.listsEqual(a, b)
	}
	return c.mapsEqual(a, b)
}

// numbersEqual reports whether a number equals b, which may be of any type.
func numbersEqual(a, b Value) bool {
	if b.K != KindInt && b.K != KindUint && b.K != KindDouble {
		return false
	}
	if a.K == b.K && a.K != KindDouble {
		return a.Bits == b.Bits
	}
	c, ok := compareNumbers(a, b)
	return ok && c == 0
}

// listsEqual compares list a with b.
func (c *comparison) listsEqual(a, b Value) Value {
	if b.K != KindList {
		if a.FromDoc() || a.Typ != nil {
			return ErrorValue(CodeNoOverload)
		}
		return BoolValue(false)
	}
	n := a.Size()
	if n != b.Size() {
		return BoolValue(false)
	}
	if a.Typ != nil {
		switch {
		case a.Typ.set():
			return c.setsEqual(a, b)
		case a.Typ.mapList():
			return c.mapListsEqual(a, b)
		}
	}
	if a.FromDoc() {
		for i := 0; i < n; i++ {
			if eq := c.equalItems(a.Item(i), b.Item(i)); !IsTrue(eq) {
				return eq
			}
		}
		return BoolValue(true)
	}
	for i := 0; i < n; i++ {
		x, y := a.Item(i), b.Item(i)
		if isFalse(c.equalInside(x, y)) {
			return BoolValue(false)
		}
	}
	return BoolValue(true)
}

// equalItems is equalTo with operands that may be errors. An error on the left is the result; an
// error on the right equals nothing.
func (c *comparison) equalItems(a, b Value) Value {
	switch {
	case !c.next():
		return ErrorValue(CodeInterrupted)
	case a.Failed():
		return a
	case !b.Failed():
		return c.equalTo(a, b)
	case (a.K == KindList || a.K == KindMap) && a.FromDoc():
		return b
	}
	return BoolValue(false)
}

// equalInside is equal with operands that may be errors.
func (c *comparison) equalInside(a, b Value) Value {
	switch {
	case a.Failed() || b.Failed():
		return c.equalItems(a, b)
	case !c.next():
		return ErrorValue(CodeInterrupted)
	}
	return c.equal(a, b)
}

// setsEqual compares the items of a set with those of a list of the same length, in any order.
func (c *comparison) setsEqual(a, b Value) Value {
	seen := make(map[ScalarKey]bool, a.Size())
	for i, n := 0, a.Size(); i < n; i++ {
		k, err := setKey(a.Item(i))
		if err.Failed() {
			return err
		}
		seen[k] = false
	}
	hits := 0
	for i, n := 0, b.Size(); i < n; i++ {
		k, err := setKey(b.Item(i))
		if err.Failed() {
			return err
		}
		hit, ok := seen[k]
		if !ok {
			return BoolValue(false)
		}
		if !hit {
			seen[k] = true
			hits++
		}
	}
	return BoolValue(hits == len(seen))
}

// setKey returns the key of an item of a set. Containers are an error. A value that cannot be read
// equals no other value.
func setKey(v Value) (ScalarKey, Value) {
	if k, ok := KeyOf(v); ok {
		return k, Value{}
	}
	switch v.K {
	case KindList, KindMap:
		return ScalarKey{}, Errorf("listSet operations are only supported on lists of scalar values")
	case KindDuration, KindNull:
		return ScalarKey{kind: v.K, bits: v.Bits}, Value{}
	case KindBytes:
		return ScalarKey{kind: KindBytes, text: v.Text()}, Value{}
	case KindTimestamp:
		return ScalarKey{kind: KindTimestamp, bits: v.Bits, text: strconv.FormatInt(v.Node.Int(), 10)}, Value{}
	case KindError, KindUnknown:
		return ScalarKey{kind: v.K, text: fmt.Sprintf("%p", new(byte))}, Value{}
	}
	return ScalarKey{kind: v.K, text: v.String()}, Value{}
}

// mapListsEqual compares the items of a map list with those of a list of the same length, matched
// by their keys.
func (c *comparison) mapListsEqual(a, b Value) Value {
	keys := escapedKeys(a.Typ.ListType.Keys)
	identity := listKey
	if a.FromDoc() {
		identity = rawKey
	}
	at := make(map[string]int, a.Size())
	for i, n := 0, a.Size(); i < n; i++ {
		at[identity(a.Item(i), keys)] = i
	}
	seen := make(map[int]bool, len(at))
	for i, n := 0, b.Size(); i < n; i++ {
		item := b.Item(i)
		if a.FromDoc() && (item.K != KindMap || !item.FromDoc()) {
			return BoolValue(false) // without keys it matches nothing
		}
		j, ok := at[identity(item, keys)]
		if !ok {
			return BoolValue(false)
		}
		if eq := c.equalItems(a.Item(j), item); !IsTrue(eq) {
			return eq
		}
		seen[j] = true
	}
	return BoolValue(len(seen) == len(at))
}

// escapedKeys returns the names of key members as rules write them.
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

// listKey returns the identity of an item of a map list.
func listKey(item Value, keys []string) string {
	var b strings.Builder
	for _, name := range keys {
		var v Value
		if item.K == KindMap {
			v, _ = findIn(item, ConstString(name))
		}
		appendKey(&b, v)
	}
	return b.String()
}

// rawKey returns the identity of an item of a map list of a document. Like upstream it looks up the
// escaped names in the data, so that a key whose name needs escaping is never found.
func rawKey(item Value, keys []string) string {
	if item.K != KindMap || !item.FromDoc() {
		return "no item of a document"
	}
	var b strings.Builder
	for _, name := range keys {
		var v Value
		if datum := item.DocValue().Get(name); datum.Exists() && datum.Kind() != jsondoc.Null {
			v = Load(datum.Doc, datum.Node, scalarTypes[datum.Kind()])
		}
		appendKey(&b, v)
	}
	return b.String()
}

// appendKey appends one key of an identity.
func appendKey(b *strings.Builder, v Value) {
	if v.K == KindNone || v.K == KindNull || v.Failed() {
		b.WriteString("nil,")
		return
	}
	fmt.Fprintf(b, "%d %q,", v.K, v.String())
}

// scalarTypes are the types for reading data without a type.
var scalarTypes = [...]*Type{
	jsondoc.Bool: {Kind: Bool}, jsondoc.Int: {Kind: Int}, jsondoc.Float: {Kind: Double}, jsondoc.String: {Kind: String},
	jsondoc.Array: {Kind: List}, jsondoc.Object: {Kind: Map},
}

// mapsEqual compares map a with b.
func (c *comparison) mapsEqual(a, b Value) Value {
	if b.K != KindMap {
		if a.FromDoc() {
			return ErrorValue(CodeNoOverload)
		}
		return BoolValue(false)
	}
	if a.Size() != b.Size() {
		return BoolValue(false)
	}
	if a.FromDoc() {
		return c.objectsEqual(a, b)
	}
	m := a.HeapMap()
	for i, k := range m.keys {
		other, found := findIn(b, k)
		if !found {
			return BoolValue(false)
		}
		if isFalse(c.equalInside(m.at(i), other)) {
			return BoolValue(false)
		}
	}
	return BoolValue(true)
}

// objectsEqual compares a map or object of a document with a map with the same number of members.
// Undeclared members are compared as data, and ignored if only the left side has them.
func (c *comparison) objectsEqual(a, b Value) Value {
	for key, datum := range a.DocValue().Members() {
		if a.Typ.Kind == Object && a.Typ.Field(key) == nil {
			if !b.FromDoc() {
				return ErrorValue(CodeNoOverload)
			}
			if other := b.DocValue().Get(key); other.Exists() && !jsondoc.Equal(datum, other) {
				return BoolValue(false)
			}
			continue
		}
		x, found := a.Find(key)
		y, ok := findIn(b, TextValue(key))
		if found != ok {
			return BoolValue(false)
		}
		if !found {
			continue
		}
		if eq := c.equalItems(x, y); !IsTrue(eq) {
			return eq
		}
	}
	return BoolValue(true)
}

// findIn looks up a key in a map.
func findIn(m, key Value) (Value, bool) {
	if !m.FromDoc() {
		return m.HeapMap().Find(key)
	}
	if key.K != KindString {
		return ErrorValue(CodeNoOverload), true
	}
	return m.Find(key.Text())
}

// Contains implements `x in list` and `key in map`.
func Contains(c *comparison, x, in Value) Value {
	switch in.K {
	case KindList:
		if c == nil {
			c = NewComparison(nil)
		}
		return bounded(c, in, x, (*comparison).listContains)
	case KindMap:
		v, found := findIn(in, x)
		if found && v.Failed() && in.FromDoc() {
			return v
		}
		return BoolValue(found)
	}
	return ErrorValue(CodeNoOverload)
}

// nodesBefore searches a number or string among the items of a list of a document, up to the first
// item of another type. The items before i do not equal x.
func nodesBefore(l, x Value) (i int, found bool) {
	d, n := l.Doc(), l.Node.Len()
	switch {
	case l.Typ.Elem == nil:
	case l.Typ.Elem.Kind == Int && x.K == KindInt:
		want := x.Int()
		for i, item := range d.Items(l.Node) {
			switch {
			case item.Kind() != jsondoc.Int:
				return i, false
			case item.Int() == want:
				return i, true
			}
		}
		return n, false
	case l.Typ.Elem.Kind == String && x.K == KindString:
		want := x.Text()
		for ; i < n; i++ {
			item := d.Item(l.Node, i)
			if item.Kind() != jsondoc.String {
				return i, false
			}
			if item.Len() == len(want) && d.Str(item) == want {
				return i, true
			}
		}
	}
	return i, false
}

// listContains implements `x in list`.
func (c *comparison) listContains(l, x Value) Value {
	n := l.Size()
	failure := Value{}
	if !l.FromDoc() {
		for i := 0; i < n; i++ {
			item := l.Items()[i]
			switch {
			case item.Failed() && l.Flag == flagConcat && failure.K == KindNone:
				failure = item
			case item.Failed():
			case IsTrue(c.equalInside(x, item)):
				return BoolValue(true)
			}
		}
		if failure.K != KindNone {
			return failure
		}
		return BoolValue(false)
	}
	if x.Failed() {
		return x
	}
	i, found := nodesBefore(l, x)
	if found {
		return BoolValue(true)
	}
	for ; i < n; i++ {
		eq := c.equalItems(l.Item(i), x)
		if IsTrue(eq) {
			return eq
		}
		if eq.K != KindBool && failure.K == KindNone {
			failure = eq
		}
	}
	if failure.K != KindNone {
		return failure
	}
	return BoolValue(false)
}

// EqualTest returns the result of == or !=. An error of the comparison itself makes != true.
func (fr *Frame) EqualTest(l, r Value, negated bool) Tri {
	if l.Failed() {
		fr.Fail = l
		return Bad
	}
	if r.Failed() {
		fr.Fail = r
		return Bad
	}
	eq := fr.equal(l, r)
	if negated && !(eq.K == KindError && eq.Flag == CodeInterrupted) {
		return Truth(!IsTrue(eq))
	}
	return fr.Verdict(eq)
}
