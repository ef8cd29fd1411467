package schema

import (
	"context"

	"github.com/keelson-io/keelson/jsondoc"
)

// This file checks default values by the program that objects are validated by later. It only knows that a value is right; of any other,
// and where a default is checked by other rules than objects, [Program.ValidateDefault] on a schema of its own has the word.

// Part is a place in a compiled schema. The zero Part is nowhere.
type Part struct {
	code *program
	n    *node
}

// Whole is the root of p, nowhere if p does not compile.
func (p *Program) Whole() Part {
	code, err := p.load()
	if err != nil || code.oddFormats {
		return Part{} // defaults are checked for formats that nobody knows, too
	}
	return Part{code, code.root}
}

// Item is where the items of an array are.
func (t Part) Item() Part {
	if t.n == nil || t.n.items == nil {
		return Part{}
	}
	return Part{t.code, t.n.items}
}

// Member is where a declared property is, nowhere in the metadata of a resource.
func (t Part) Member(name string) Part {
	if t.n == nil || t.n.resource && isMeta(name) {
		return Part{}
	}
	return Part{t.code, t.n.prop(name)}
}

// Holds reports whether a default value at t is valid beyond doubt: all of it is declared, no default within helps it, and all rules hold,
// both if it stays as it is and if it is new. Then what it takes is taken from steps and budget, as [Program.ValidateDefault] and
// [Program.ValidateDefaultRules] would. Otherwise they are as before.
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
	if !n.ok(d, &w, root) || w.out() {
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

// rulesHold evaluates the rules for what stays as it is and for what is new, and returns the larger one of the costs.
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
