package schema

import (
	"context"

	"github.com/keelson-io/keelson/jsondoc"
)

// This file avoids work on the parts of an object that an update does not change: rules that held
// for them hold again.

// Kept describes an update before it is validated: the parts that it does not change, and what is
// known of the live object. The zero value means that nothing is known.
type Kept struct {
	// Content: only metadata changes.
	Content bool

	members    uint64 // a bit for each of the first 64 slots of the root whose value is unchanged; never that of metadata
	names      bool   // name and generateName are unchanged, which are all that rules see of the metadata
	knownValid bool
	spent      uint64 // the cost of the live object's rules
}

// Keep compares two objects that the same program decoded. It does not compare their metadata.
func Keep(new, old *jsondoc.Doc) Kept {
	a, b := new.Root(), old.Root()
	k := Kept{Content: true, names: sameNames(a.Get("metadata"), b.Get("metadata"))}
	// Only objects in slots are compared member by member.
	shape := new.Shape(a.Node)
	if shape == nil || shape.Open || shape != old.Shape(b.Node) {
		for name, v := range jsondoc.Both(a, b) {
			if name != "metadata" && !jsondoc.Equal(v[0], v[1]) {
				return Kept{}
			}
		}
		return k
	}
	for i, name := range shape.Names {
		switch {
		case name == "metadata":
		case !jsondoc.Equal(jsondoc.Value{Doc: new, Node: new.Slot(a.Node, i)}, jsondoc.Value{Doc: old, Node: old.Slot(b.Node, i)}):
			k.Content = false
		case i < 64:
			k.members |= 1 << i
		}
	}
	return k
}

// sameNames reports whether two objects have the same metadata, as far as rules see it.
func sameNames(a, b jsondoc.Value) bool {
	return jsondoc.Equal(a.Get("name"), b.Get("name")) && jsondoc.Equal(a.Get("generateName"), b.Get("generateName"))
}

// After returns k for a live object that was KnownValid. spent is the cost of its rules, as its
// Result said.
func (k Kept) After(spent uint64) Kept {
	k.knownValid, k.spent = true, spent
	return k
}

// all reports whether the object is valid if its transition rules hold.
func (k Kept) all() bool { return k.knownValid && k.Content && k.names }

// usable returns k, or the zero value if rules must all be evaluated. The costs of successive
// updates add up; before the sum could exceed the budget of an object, all rules are evaluated
// again.
func (k Kept) usable() Kept {
	if !k.knownValid || k.spent > objectBudget/2 {
		return Kept{}
	}
	return k
}

// runKept is runRules for an update. In unchanged parts it evaluates only the rules that use
// oldSelf, with the same value for self and oldSelf. The cost is at least that of all rules.
func (p *program) runKept(ctx context.Context, d, old *jsondoc.Doc, valid bool, k Kept) (cost uint64, ok bool) {
	root := d.Root().Node
	if k = k.usable(); !k.knownValid || !p.root.laidOut(root) || p.root.additional != nil {
		return p.runRules(ctx, d, old, valid)
	}
	e := evaluations.Get().(*evaluation)
	defer e.release()
	e.d, e.act.Valid = d, valid
	e.old, e.keeps = d, true
	p.collectRoot(e, root, root, k, true)
	e.kept, e.keeps = len(e.sites), false
	e.old = old
	p.collectRoot(e, root, old.Root().Node, k, false)
	return e.run(ctx, k.spent)
}

// collectRoot collects the sites in the unchanged parts of the root, or those in the changed parts.
func (p *program) collectRoot(e *evaluation, x, old jsondoc.Node, k Kept, kept bool) {
	n := p.root
	if n.rules != nil && k.all() == kept {
		e.add(n, x, old)
	}
	for _, i := range n.toRules {
		at := &n.props[i]
		if (at.slot >= 0 && k.members>>at.slot&1 == 1) != kept {
			continue
		}
		if m := n.member(e.d, x, at.name, at.slot); m.Kind() > jsondoc.Null {
			e.collect(at.node, m, e.oldMember(n, old, at.name, at.slot))
		}
	}
}
