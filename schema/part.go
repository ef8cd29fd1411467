package schema

import (
	"context"

	"github.com/keelson-io/keelson/jsondoc"
)

// This file checks default values with the program that validates objects later. It is a fast path:
// it can only confirm that a value is valid. For other values, and where defaults are checked
// differently from objects, [Program.ValidateDefault] with a program of its own decides.

// Part is a node of a compiled schema. The zero Part has no node.
type Part struct {
	code *program
	n    *node
}

// Whole returns the root of p. It returns the zero Part if p does not compile.
func (p *Program) Whole() Part {
	code, err := p.load()
	if err != nil || code.hasUncheckedFormats {
		return Part{} // unknown formats count in the check of defaults
	}
	return Part{code, code.root}
}

// Item returns the schema of the items of an array.
func (t Part) Item() Part {
	if t.n == nil || t.n.items == nil {
		return Part{}
	}
	return Part{t.code, t.n.items}
}

// Member returns the schema of a declared property. For the metadata of a resource it returns the
// zero Part.
func (t Part) Member(name string) Part {
	if t.n == nil || t.n.resource && isMeta(name) {
		return Part{}
	}
	return Part{t.code, t.n.prop(name)}
}

// Holds reports whether a default value at t is valid: all its fields are declared, it needs no
// nested default, and all rules hold both for an unchanged and for a new value. If so, it subtracts
// the work from steps and budget, as [Program.ValidateDefault] and [Program.ValidateDefaultRules]
// do. Otherwise it does not change them.
func (t Part) Holds(ctx context.Context, value []byte, steps, budget *int64) bool {
	n := t.n
	if n == nil || n.resource || n.deepEmbedded {
		return false
	}
	d := jsondoc.Get()
	defer d.Release()
	x := decoders.Get().(*decoder)
	found, root, err := x.run(t.code, n, d, value, decodeMode{noDefaults: true, keepNulls: true})
	x.release()
	if err != nil || found != 0 {
		return false
	}
	d.SetRoot(root)
	w := newWork(ctx, *steps)
	if !n.ok(d, &w, root) || w.mustEnd() {
		return false
	}
	cost := int64(0)
	if n.deepRules {
		var ok bool
		if cost, ok = t.rulesHold(ctx, d); !ok || cost >= *budget {
			return false
		}
	}
	*steps, *budget = w.left, *budget-cost
	return true
}

// rulesHold evaluates the rules for an unchanged and for a new value, and returns the larger cost.
func (t Part) rulesHold(ctx context.Context, d *jsondoc.Doc) (cost int64, ok bool) {
	t.code.compileRules()
	if !t.n.seen {
		return 0, false
	}
	for _, old := range []*jsondoc.Doc{d, nil} {
		e := evaluations.Get().(*evaluation)
		e.d, e.old = d, old
		was := jsondoc.Node{}
		if old != nil {
			was = old.Root().Node
		}
		e.collect(t.n, d.Root().Node, was)
		spent, ok := e.run(ctx, 0)
		e.release()
		if !ok {
			return 0, false
		}
		cost = max(cost, int64(spent))
	}
	return cost, true
}
