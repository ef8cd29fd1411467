package schema

import (
	"encoding/json"
	"errors"
	"fmt"
	"sync"

	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/keelson-io/keelson/jsondoc"
)

// This file is the decoder: one pass over the bytes that prunes, drops nulls, coerces metadata and
// fills in defaults.
//
// The JSON type of a value decides how it is decoded, not the declared type. A string where an
// object is declared is kept, and validation reports it. An object where a string is declared loses
// all members.

// Decode resets d, and decodes src into it by the schema. Found says whether it dropped or merged
// something that Strict reports. After an error d must be reset.
func (p *Program) Decode(d *jsondoc.Doc, src []byte) (Found, error) {
	return p.decode(d, src, decodeMode{})
}

// DecodeStored is Decode for stored bytes: malformed fields of metadata are dropped and are no
// error.
func (p *Program) DecodeStored(d *jsondoc.Doc, src []byte) (Found, error) {
	return p.decode(d, src, decodeMode{lenient: true})
}

// DecodeConverted is DecodeStored without defaults, for the result of a conversion. A null for
// which there is a default is kept.
func (p *Program) DecodeConverted(d *jsondoc.Doc, src []byte) (Found, error) {
	return p.decode(d, src, decodeMode{lenient: true, noDefaults: true})
}

// DecodeApplied is Decode for the result of a server-side apply: a null that the schema does not
// allow, and that has no default, is kept, so that validation refuses it.
func (p *Program) DecodeApplied(d *jsondoc.Doc, src []byte) (Found, error) {
	return p.decode(d, src, decodeMode{keepNulls: true})
}

// decode compiles the schema if necessary, and decodes.
func (p *Program) decode(d *jsondoc.Doc, src []byte, mode decodeMode) (Found, error) {
	code, err := p.load()
	if err != nil {
		return 0, err
	}
	mode.keepNulls = mode.keepNulls || p.options.PreserveUnknown
	return code.decode(d, src, mode)
}

// decodeMode has the differences between Decode, DecodeStored, and the decoding of defaults.
type decodeMode struct {
	maps       bool // no object gets a shape
	noDefaults bool
	keepNulls  bool // nulls that the schema does not allow are kept
	lenient    bool // malformed fields of metadata are dropped
}

// decode is Program.decode for the compiled schema.
func (p *program) decode(d *jsondoc.Doc, src []byte, mode decodeMode) (Found, error) {
	x := decoders.Get().(*decoder)
	found, root, err := x.run(p, p.root, d, src, mode)
	x.release()
	if err != nil {
		return 0, err
	}
	d.SetRoot(root)
	return found, nil
}

// decoder is the state of one call of Decode.
type decoder struct {
	p     *program
	d     *jsondoc.Doc
	s     jsondoc.Scanner
	mode  decodeMode
	found Found
	stack []jsondoc.Node // children of the arrays and maps that are being decoded

	// added and printed are the sizes of the default values that were filled in: bytes of memory,
	// and of JSON text.
	added, printed int
}

// decoders holds unused decoders, for their stacks.
var decoders = sync.Pool{New: func() any { return new(decoder) }}

// maxPooledStack is the largest stack, in nodes, that is kept for reuse.
const maxPooledStack = 1 << 14

// release returns x to the pool.
func (x *decoder) release() {
	stack := x.stack[:0]
	if cap(stack) > maxPooledStack {
		stack = nil
	}
	*x = decoder{stack: stack}
	decoders.Put(x)
}

// run decodes src by n into d. It does not set the root of d.
func (x *decoder) run(p *program, n *node, d *jsondoc.Doc, src []byte, mode decodeMode) (Found, jsondoc.Node, error) {
	d.Reset(p.shapes)
	x.p, x.d, x.s, x.mode = p, d, d.Scan(src), mode
	kind, err := x.s.Kind()
	if err != nil {
		return 0, jsondoc.Node{}, err
	}
	if n.resource && n == p.root && kind != jsondoc.Object {
		return 0, jsondoc.Node{}, p.firstError(n, src, errNoResource, mode)
	}
	root, err := x.value(n)
	if err == nil {
		err = x.s.End()
	}
	if err == nil && x.overfull() {
		err = ErrManyDefaults
	}
	if err != nil {
		return 0, jsondoc.Node{}, p.firstError(n, src, err, mode)
	}
	if x.s.Duplicates() {
		x.found |= FoundDuplicate
	}
	return x.found, root, nil
}

// errNoResource stands for the error of a root that is not an object, or whose apiVersion or kind
// is not a string. firstError replaces it by upstream's text.
var errNoResource = errors.New("root is not a resource")

// firstError returns the error that upstream reports if src has several: first of the syntax, then
// of the root's kind, apiVersion and metadata, then of the rest. err is the error that the decoder
// met first.
func (p *program) firstError(n *node, src []byte, err error, mode decodeMode) error {
	if m, ok := err.(*malformed); ok {
		err = m.located()
	}
	var d jsondoc.Doc
	if bad := jsondoc.Parse(&d, src); bad != nil {
		return bad
	}
	if n != p.root || !n.resource {
		return err
	}
	var meta struct {
		APIVersion string `json:"apiVersion,omitempty"`
		Kind       string `json:"kind,omitempty"`
	}
	if bad := json.Unmarshal(src, &meta); bad != nil {
		return fmt.Errorf("couldn't get version/kind; json parse error: %w", bad)
	}
	for _, name := range []string{"kind", "apiVersion"} {
		if v := d.Root().Get(name); v.Exists() && v.Kind() != jsondoc.String {
			value := v.Interface()
			return fmt.Errorf(".%s accessor error: %v is of the type %T, expected string", name, value, value)
		}
	}
	if v := d.Root().Get("metadata"); v.Exists() {
		if _, bad := coerceMeta(v, mode.lenient); bad != nil {
			return bad
		}
	}
	return err
}

// value decodes the next value by n.
func (x *decoder) value(n *node) (jsondoc.Node, error) {
	kind, err := x.s.Kind()
	if err != nil {
		return jsondoc.Node{}, err
	}
	switch kind {
	case jsondoc.String:
		return x.s.String()
	case jsondoc.Object:
		return x.object(n)
	case jsondoc.Array:
		return x.array(n)
	case jsondoc.Int, jsondoc.Float:
		return x.s.Number()
	case jsondoc.Bool:
		return x.s.Bool()
	}
	return jsondoc.NullNode, x.s.Null()
}

// fewNodes is the number of nodes below which crowded returns false.
const fewNodes = 1 << 14

// crowded reports whether the document has more nodes than its text has bytes. Further objects are
// then decoded as maps, which take no slot for each declared member: a short text can hold very
// many empty objects.
func (x *decoder) crowded() bool {
	size := x.d.Size()
	return size > fewNodes && size > len(x.s.Source()) || x.mode.maps
}

// object decodes an object by n.
func (x *decoder) object(n *node) (jsondoc.Node, error) {
	switch {
	case n.shape != 0 && !n.resource && x.crowded():
		return x.unshaped(n)
	case n.shape != 0:
		return x.shaped(n)
	case n.keep && !n.anyOther:
		return x.s.Value()
	}
	if err := x.s.ObjectStart(); err != nil {
		return jsondoc.Node{}, err
	}
	base := len(x.stack)
	for first := true; ; first = false {
		key, more, err := x.s.Key(first)
		if err != nil {
			return jsondoc.Node{}, err
		}
		if !more {
			return x.pairs(base), nil
		}
		if err := x.other(n, key); err != nil {
			return jsondoc.Node{}, underKey(err, x.d.Str(key))
		}
	}
}

// shaped decodes an object with declared members to slots.
func (x *decoder) shaped(n *node) (jsondoc.Node, error) {
	if err := x.s.ObjectStart(); err != nil {
		return jsondoc.Node{}, err
	}
	d, shape := x.d, n.slots
	o := d.NewShaped(n.shape)
	base, slot, nulls := len(x.stack), -1, false
	for first := true; ; first = false {
		at, key, more, err := x.s.Member(first, shape, slot+1)
		if err != nil {
			return jsondoc.Node{}, err
		}
		if !more {
			break
		}
		if at < 0 {
			if err := x.other(n, key); err != nil {
				return jsondoc.Node{}, underKey(err, d.Str(key))
			}
			continue
		}
		slot = at
		if d.Slot(o, at).Kind() != jsondoc.Absent {
			x.s.NoteDuplicate()
		}
		v, err := x.member(n, at)
		if err != nil {
			return jsondoc.Node{}, underMember(err, shape.Names[at])
		}
		nulls = nulls || v.Kind() == jsondoc.Null
		d.SetSlot(o, at, v)
	}
	// Undeclared members are in a map in the last slot.
	if shape.Open && len(x.stack) > base {
		d.SetSlot(o, len(shape.Names), x.pairs(base))
	}
	if nulls {
		x.dropNulls(n, o)
	}
	for _, i := range n.defaults {
		if d.Slot(o, i).Kind() == jsondoc.Absent && !x.mode.noDefaults {
			d.SetSlot(o, i, x.fill(n.bySlot[i]))
		}
	}
	if n.resource {
		if err := x.checkResource(n, o); err != nil {
			return jsondoc.Node{}, err
		}
	}
	return o, nil
}

// unshaped decodes an object with declared members to a map. It is the plain twin of shaped.
func (x *decoder) unshaped(n *node) (jsondoc.Node, error) {
	if err := x.s.ObjectStart(); err != nil {
		return jsondoc.Node{}, err
	}
	base := len(x.stack)
	for first := true; ; first = false {
		key, more, err := x.s.Key(first)
		if err != nil {
			return jsondoc.Node{}, err
		}
		if !more {
			break
		}
		at := n.slots.Slot(x.d.Str(key))
		if at < 0 {
			if err := x.other(n, key); err != nil {
				return jsondoc.Node{}, underKey(err, x.d.Str(key))
			}
			continue
		}
		v, err := x.member(n, at)
		if err != nil {
			return jsondoc.Node{}, underMember(err, n.slots.Names[at])
		}
		x.stack = append(x.stack, key, x.orDefault(n.bySlot[at], v))
	}
	end := len(x.stack)
	for _, i := range n.defaults {
		if name := n.slots.Names[i]; !x.mode.noDefaults && !x.pushed(base, end, name) {
			x.stack = append(x.stack, x.d.NewString(name), x.fill(n.bySlot[i]))
		}
	}
	return x.pairs(base), nil
}

// pushed reports whether a key is among the pairs x.stack[from:to].
func (x *decoder) pushed(from, to int, name string) bool {
	for i := from; i < to; i += 2 {
		if x.d.Str(x.stack[i]) == name {
			return true
		}
	}
	return false
}

// orDefault returns v. If v is a null that n does not allow, it returns the default of n, or
// Absent.
func (x *decoder) orDefault(n *node, v jsondoc.Node) jsondoc.Node {
	switch {
	case v.Kind() != jsondoc.Null || n == nil || n.nullable:
	case n.defText != nil && !x.mode.noDefaults:
		return x.fill(n)
	case n.defText == nil && !x.mode.keepNulls:
		return jsondoc.Node{}
	}
	return v
}

// member decodes the value of the declared member in slot.
func (x *decoder) member(n *node, slot int) (jsondoc.Node, error) {
	child := n.bySlot[slot]
	if n.resource && isMeta(n.slots.Names[slot]) {
		if n.slots.Names[slot] == "metadata" {
			return x.metadata(n, child)
		}
		return x.s.Value()
	}
	return x.value(child)
}

// dropNulls removes the nulls that the schema does not allow, or replaces them by defaults.
func (x *decoder) dropNulls(n *node, o jsondoc.Node) {
	for i, child := range n.bySlot {
		if v := x.d.Slot(o, i); v.Kind() == jsondoc.Null {
			x.d.SetSlot(o, i, x.orDefault(child, v))
		}
	}
}

// other decodes a member that the schema does not declare, and pushes it if it is kept.
func (x *decoder) other(n *node, key jsondoc.Node) error {
	var v jsondoc.Node
	var err error
	switch {
	case n.additional != nil:
		if v, err = x.value(n.additional); err != nil {
			return err
		}
	case n.anyOther && !x.p.options.PreserveUnknown:
		if v, err = x.emptied(); err != nil {
			return err
		}
	case n.keep:
		if v, err = x.s.Value(); err != nil {
			return err
		}
	default:
		x.found |= FoundUnknown
		return x.s.Skip()
	}
	// A dropped value stays on the stack as Absent until pairs drops it, because it may be the last
	// of duplicate keys.
	x.stack = append(x.stack, key, x.orDefault(n.additional, v))
	return nil
}

// pairs pops the pairs since base and returns a map of them, without absent values.
func (x *decoder) pairs(base int) jsondoc.Node {
	pairs := x.stack[base:]
	for i := 2; i < len(pairs); i += 2 {
		if x.d.Str(pairs[i-2]) >= x.d.Str(pairs[i]) {
			var dup bool
			if pairs, dup = x.d.SortPairs(pairs); dup {
				x.s.NoteDuplicate()
			}
			break
		}
	}
	kept := 0
	// kept is the number of elements of pairs that stay.
	for i := 0; i < len(pairs); i += 2 {
		if pairs[i+1].Kind() != jsondoc.Absent {
			pairs[kept], pairs[kept+1] = pairs[i], pairs[i+1]
			kept += 2
		}
	}
	n := x.d.NewMap(pairs[:kept])
	x.stack = x.stack[:base]
	return n
}

// array decodes an array by n.
func (x *decoder) array(n *node) (jsondoc.Node, error) {
	items := n.items
	if items == nil {
		if n.keep {
			return x.s.Value()
		}
		return x.emptied()
	}
	if err := x.s.ArrayStart(); err != nil {
		return jsondoc.Node{}, err
	}
	base := len(x.stack)
	for first := true; ; first = false {
		more, err := x.s.More(first)
		if err != nil {
			return jsondoc.Node{}, err
		}
		if !more {
			return x.list(base), nil
		}
		i := len(x.stack) - base // the failed item may have left values on the stack
		v, err := x.value(items)
		if err != nil {
			return jsondoc.Node{}, underIndex(err, i)
		}
		if v.Kind() == jsondoc.Null && !items.nullable && items.defText != nil && !x.mode.noDefaults {
			v = x.fill(items)
		}
		x.stack = append(x.stack, v)
	}
}

// list pops the values since base and returns an array of them.
func (x *decoder) list(base int) jsondoc.Node {
	n := x.d.NewArray(x.stack[base:])
	x.stack = x.stack[:base]
	return n
}

// emptied decodes a value without a schema: all objects in it lose their members.
func (x *decoder) emptied() (jsondoc.Node, error) {
	kind, err := x.s.Kind()
	if err != nil {
		return jsondoc.Node{}, err
	}
	switch kind {
	case jsondoc.Object:
		before := x.s.Offset()
		if err := x.s.Skip(); err != nil {
			return jsondoc.Node{}, err
		}
		if !emptyObject(x.s.Source()[before:x.s.Offset()]) {
			x.found |= FoundUnknown
		}
		return x.d.NewMap(nil), nil
	case jsondoc.Array:
		if err := x.s.ArrayStart(); err != nil {
			return jsondoc.Node{}, err
		}
		base := len(x.stack)
		for first := true; ; first = false {
			more, err := x.s.More(first)
			if err != nil {
				return jsondoc.Node{}, err
			}
			if !more {
				return x.list(base), nil
			}
			v, err := x.emptied()
			if err != nil {
				return jsondoc.Node{}, err
			}
			x.stack = append(x.stack, v)
		}
	}
	return x.s.Value()
}

// emptyObject reports whether the text of an object has no members.
func emptyObject(text []byte) bool {
	for _, c := range text {
		switch c {
		case '{', '}', ' ', '\t', '\r', '\n':
		default:
			return false
		}
	}
	return true
}

// checkResource refuses a resource whose apiVersion or kind is not a string.
func (x *decoder) checkResource(n *node, o jsondoc.Node) error {
	for i, name := range n.slots.Names {
		if name != "apiVersion" && name != "kind" {
			continue
		}
		v := x.d.Slot(o, i)
		if v.Kind() == jsondoc.String || v.Kind() == jsondoc.Absent {
			continue
		}
		switch {
		case n == x.p.root:
			return errNoResource
		case x.mode.lenient:
			x.d.SetSlot(o, i, jsondoc.Node{})
		default:
			value := jsondoc.Value{Doc: x.d, Node: v}.Interface()
			return &malformed{err: field.Invalid(field.NewPath(name), value, "must be a string")}
		}
	}
	return nil
}
