package schema

import (
	"context"

	"github.com/keelson-io/keelson/jsondoc"
)

// This file is about what an update leaves as it was: rules that held of it hold again, and need not be asked.

// Kept is what is known of an update before it is validated: what it leaves as it was, and what was found of the object it changes.
// The zero value says that nothing is known.
type Kept struct {
	// Content: nothing differs but metadata.
	Content bool

	members uint64 // the slots of the root, of the first 64, whose values are the same; never that of metadata
	names   bool   // rules see the same of the metadata
	sound   bool
	spent   uint64
}

// Keep compares two objects that were decoded alike, the whole of them but for their metadata.
func Keep(new, old *jsondoc.Doc) Kept {
	a, b := new.Root(), old.Root()
	k := Kept{Content: true, names: sameNames(a.Get("metadata"), b.Get("metadata"))}
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

// sameNames compares what rules see of two objects' metadata.
func sameNames(a, b jsondoc.Value) bool {
	return jsondoc.Equal(a.Get("name"), b.Get("name")) && jsondoc.Equal(a.Get("generateName"), b.Get("generateName"))
}

// After is k for an object that was KnownValid before, when its rules cost as much as spent says.
func (k Kept) After(spent uint64) Kept {
	k.sound, k.spent = true, spent
	return k
}

// all reports whether the whole object is valid as long as rules that ask what was before hold.
func (k Kept) all() bool { return k.sound && k.Content && k.names }

// usable is k if rules may rely on it. Costs add up with each update that relies on what the one before found; before they could
// exceed what an object's rules may cost, all are asked again.
func (k Kept) usable() Kept {
	if !k.sound || k.spent > objectBudget/2 {
		return Kept{}
	}
	return k
}

// runKept is runRules for an update. Of what it leaves as it was only the rules that mention oldSelf are evaluated, and what was
// there before is what is there: they read one value, not two. The cost is at least that of all rules.
func (p *program) runKept(ctx context.Context, d, old *jsondoc.Doc, valid bool, k Kept) (cost uint64, ok bool) {
	root := d.Root().Node
	if k = k.usable(); !k.sound || !p.root.laidOut(root) || p.root.additional != nil {
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

// collectRoot collects at and below the root what an update leaves as it was, or what it does not.
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
