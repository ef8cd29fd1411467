package declared

import (
	"context"
	"errors"
	"fmt"

	"github.com/keelson-io/keelson/cel"
	"github.com/keelson-io/keelson/jsondoc"
)

// This file sets fields of a result: to constants, and to the values of expressions.

// Bounds of the expressions of one conversion, in cost units, and of the text of a value.
const (
	evalLimit    = 1_000_000
	objectBudget = 10_000_000
	maxValue     = 3 << 20
)

// setter is a compiled Set.
type setter struct {
	field  path
	prefix path // of field: ends in its last [*]
	rest   path
	value  jsondoc.Value   // the constant, if there is no expression
	expr   *cel.Expression // nil: value
	when   *cel.Expression // nil: always

	ifAbsent bool
	item     path // of the source, with as many [*] as field
	itemType *cel.Type
	at       string // the path of the Set in the Conversion
}

// evaluation has the input and the budget of the expressions of one conversion.
type evaluation struct {
	ctx     context.Context
	vars    cel.Vars
	self    jsondoc.Value
	spent   uint64
	account cel.Account
}

// run sets the field wherever it is.
func (s *setter) run(w *work, root *node, e *evaluation) error {
	if len(s.prefix) == 0 {
		return s.set(w, root, e)
	}
	err := s.walk(w, root, s.prefix, e.self, s.item, e)
	delete(e.vars, "item")
	return err
}

// walk visits the items of the result that the path p selects below n, with the corresponding items
// of the source, which q selects below v.
func (s *setter) walk(w *work, n *node, p path, v jsondoc.Value, q path, e *evaluation) error {
	if len(p) == 0 {
		if s.itemType != nil {
			e.vars["item"] = cel.FromDoc(v, s.itemType)
		}
		return s.set(w, n, e)
	}
	i, k := nextList(p), nextList(q)
	for _, step := range q[:k] {
		v = selected(v, step)
	}
	at := 0
	return w.items(n, p[:i+1], func(item *node) error {
		if at >= v.Len() && s.itemType != nil {
			return fmt.Errorf("%s: the result has more items than %s of the source, so that item has no value", s.field, s.item)
		}
		at++
		if s.itemType == nil {
			return s.walk(w, item, p[i+1:], jsondoc.Value{}, nil, e)
		}
		return s.walk(w, item, p[i+1:], v.Item(at-1), q[k+1:], e)
	})
}

// nextList returns the index of the first [*] of a path, or its length.
func nextList(p path) int {
	for i, e := range p {
		if e.kind == each {
			return i
		}
	}
	return len(p)
}

// selected returns what an element selects of a value.
func selected(v jsondoc.Value, e element) jsondoc.Value {
	switch {
	case e.kind == memberOf:
		return v.Get(e.name)
	case v.Kind() == jsondoc.Array && v.Len() > 0:
		return v.Item(0)
	}
	return jsondoc.Value{}
}

// set sets the field below n.
func (s *setter) set(w *work, n *node, e *evaluation) error {
	if s.ifAbsent && w.get(n, s.rest) != nil {
		return nil
	}
	if s.when != nil {
		v, err := e.eval(s.when)
		if err != nil {
			return fmt.Errorf("%s.when: %w", s.at, err)
		}
		if !v.Bool() {
			return nil
		}
	}
	if s.expr == nil {
		return w.attach(n, s.rest, w.new(s.value))
	}
	v, err := e.eval(s.expr)
	if err != nil {
		return fmt.Errorf("%s.expression: %w", s.at, err)
	}
	if v.Kind() == cel.KindOptional {
		if v.Optional() == nil {
			w.detach(n, s.rest)
			return nil
		}
		v = *v.Optional()
	}
	out, err := w.fromCEL(v)
	if err != nil {
		return fmt.Errorf("%s.expression: %w", s.at, err)
	}
	return w.attach(n, s.rest, out)
}

// eval evaluates an expression within the budget.
func (e *evaluation) eval(x *cel.Expression) (cel.Value, error) {
	limit := min(uint64(evalLimit), objectBudget-e.spent)
	if limit == 0 {
		return cel.Value{}, cel.ErrCostLimit
	}
	v, cost, err := x.EvalOn(e.ctx, e.vars, limit, &e.account)
	e.spent += min(cost, limit)
	if errors.Is(err, cel.ErrCostLimit) {
		return v, fmt.Errorf("%w: the expressions of one object may cost %d units, one of them %d", err, objectBudget, evalLimit)
	}
	return v, err
}

// fromCEL returns a node for the value of an expression.
func (w *work) fromCEL(v cel.Value) (*node, error) {
	switch v.Kind() {
	case cel.KindString:
		if w.bytes += len(v.Str()); w.bytes > maxValues {
			return nil, fmt.Errorf("the values of expressions have more than %d bytes", maxValues)
		}
		return w.text(v.Str()), nil
	case cel.KindInt:
		return w.new(jsondoc.Value{Doc: w.scratch, Node: jsondoc.IntNode(v.Int())}), nil
	case cel.KindBool:
		return w.new(jsondoc.Value{Doc: w.scratch, Node: jsondoc.BoolNode(v.Bool())}), nil
	}
	text, err := v.JSONWithin(maxValue)
	if err != nil {
		return nil, err
	}
	if w.bytes += len(text); w.bytes > maxValues {
		return nil, fmt.Errorf("the values of expressions have more than %d bytes", maxValues)
	}
	return w.parse(text)
}
