package schema

import (
	"context"

	apiextv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"

	"github.com/keelson-io/keelson/cel"
	"github.com/keelson-io/keelson/jsondoc"
)

// This file reports the result of each rule at each place of a document, for tools that explain
// rules or search for objects.

// Verdict is the result of one rule for one value of a document.
type Verdict struct {
	// Schema is the path of the rule's node in the schema, such as .spec.rules[*].name: [*] stands
	// for the items of an array, {*} for the values of a map. It is "" for the root.
	Schema string
	Index  int                      // of the rule at its node
	Rule   *apiextv1.ValidationRule // must not be changed

	// Path leads to the value: names of members (string) and indexes of items (int). OldPath leads
	// to the old value in the old document; it is nil if there is none, and empty for the root.
	Path, OldPath []any

	Holds bool  // the result is true
	Err   error // the rule failed, or does not compile
}

// Verdicts evaluates each rule at each place where it applies, and calls yield with the results,
// until yield returns false. old is nil on create. Both documents must come from Decode of p. Each
// evaluation has the limit of one rule; their sum has no limit.
func (p *Program) Verdicts(ctx context.Context, new, old *jsondoc.Doc, yield func(Verdict) bool) error {
	code, err := p.load()
	if err != nil {
		return err
	}
	code.compileRules()
	w := verdicts{ctx: ctx, yield: yield}
	at := verdictPlace{n: code.root, x: new.Root()}
	if old != nil {
		at.old, at.oldPath = old.Root(), []any{}
	}
	w.node(at)
	return nil
}

// verdicts is one call of Verdicts.
type verdicts struct {
	ctx   context.Context
	yield func(Verdict) bool
	act   cel.Activation
	done  bool
}

// verdictPlace is a value with its node in the schema and its old value.
type verdictPlace struct {
	n             *node
	schema        string
	path, oldPath []any
	x, old        jsondoc.Value
}

// below returns a place one step below. old may be absent.
func (a verdictPlace) below(n *node, schema string, step any, x jsondoc.Value, oldStep any, old jsondoc.Value) verdictPlace {
	out := verdictPlace{n: n, schema: a.schema + schema, x: x, path: append(a.path[:len(a.path):len(a.path)], step)}
	if old.Exists() && old.Kind() != jsondoc.Null {
		out.old, out.oldPath = old, append(a.oldPath[:len(a.oldPath):len(a.oldPath)], oldStep)
	}
	return out
}

// node evaluates the rules at a and below.
func (w *verdicts) node(a verdictPlace) {
	n := a.n
	if w.done || !n.deepRules || !a.x.Exists() || a.x.Kind() == jsondoc.Null {
		return
	}
	if n.rules != nil {
		w.rules(a)
	}
	switch a.x.Kind() {
	case jsondoc.Array:
		if n.items == nil || !n.items.deepRules {
			return
		}
		olds := n.oldItems(a.old)
		for i := range a.x.Len() {
			item := a.x.Item(i)
			old := olds.get(item)
			w.node(a.below(n.items, "[*]", i, item, indexOf(a.old, old), old))
		}
	case jsondoc.Object:
		if n.additional != nil && n.additional.deepRules {
			for name, m := range a.x.Members() {
				w.node(a.below(n.additional, "{*}", name, m, name, a.old.Get(name)))
			}
		}
		for p := range n.present(a.x.Doc, a.x.Node) {
			if p.hasRules() {
				w.node(a.below(p.node, "."+p.name, p.name, a.x.Get(p.name), p.name, a.old.Get(p.name)))
			}
		}
	}
}

// indexOf returns the index of an item of a list, -1 if it is absent.
func indexOf(list, item jsondoc.Value) int {
	if list.Kind() == jsondoc.Array && item.Exists() {
		for i := range list.Len() {
			if list.Item(i).Node == item.Node {
				return i
			}
		}
	}
	return -1
}

// rules evaluates the rules of one place.
func (w *verdicts) rules(a verdictPlace) {
	r := a.n.rules
	for i := range r.source {
		if w.done {
			return
		}
		v := Verdict{Schema: a.schema, Index: i, Rule: &r.source[i], Path: a.path, OldPath: a.oldPath, Err: r.err}
		if v.Err == nil {
			rule := &r.list[i]
			switch v.Err = rule.more().err; {
			case v.Err != nil:
			case rule.program == nil, rule.usesOld() && a.oldPath == nil && !rule.program.OptionalOldSelf():
				continue
			default:
				w.act.Self, w.act.OldSelf, w.act.HasOldSelf = a.x, a.old, a.oldPath != nil
				w.act.ResetWork()
				var out cel.Value
				out, _, v.Err = rule.program.Eval(w.ctx, &w.act, CallLimit)
				v.Holds = v.Err == nil && out.Kind() == cel.KindBool && out.Bool()
			}
		}
		w.done = !w.yield(v)
	}
}

// RootType returns the type by which rules at the root of the schema see its value, nil if there is
// none.
func (p *Program) RootType() (*cel.Type, error) {
	code, err := p.load()
	if err != nil {
		return nil, err
	}
	types := typing{p: code, types: make(map[*node]*cel.Type)}
	return types.of(code.root), nil
}
