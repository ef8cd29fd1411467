package eval

import (
	"math"
	"slices"
	"strconv"

	"github.com/google/cel-go/common/ast"

	"github.com/keelson-io/keelson/cel/internal/val"
)

// This file compiles expressions for partial evaluation, where some inputs are unknown.

// attribute is a path from an input of which parts may be unknown.
type attribute struct {
	path
	name string
}

// code returns the node of the attribute.
func (a *attribute) code() *code {
	return &code{attr: a, resolve: a.read, Eval: func(fr *val.Frame) val.Value {
		fr.Cost += a.root
		return a.read(fr)
	}}
}

// extend returns the attribute with one more step.
func (a *attribute) extend(s step, test bool) *code {
	next := *a
	next.steps = append(slices.Clone(a.steps), s)
	if test {
		next.test = true
		next.root--
	}
	return next.code()
}

// read returns the value of the attribute, or an unknown.
func (a *attribute) read(fr *val.Frame) val.Value {
	cost := fr.Cost
	if unknown := a.overlap(fr); unknown.K == val.KindUnknown {
		return unknown
	}
	fr.Cost = cost
	return a.resolve(fr)
}

// overlap returns an unknown if the attribute overlaps an unknown part, otherwise no value.
func (a *attribute) overlap(fr *val.Frame) val.Value {
	// live has the patterns that the steps so far match.
	var live []val.Pattern
	for _, p := range fr.Unknown {
		if p.Name == a.name {
			live = append(live, p)
		}
	}
	trail := a.name
	for i := 0; len(live) > 0; i++ {
		for _, p := range live {
			if len(p.Keys) == i {
				return val.UnknownValue(trail)
			}
		}
		if i == len(a.steps) {
			return val.UnknownValue(trail)
		}
		key := a.steps[i].value(fr)
		switch key.K {
		case val.KindError:
			return val.UnknownValue(trail)
		case val.KindUnknown:
			return val.MergeUnknowns(val.UnknownValue(trail), key)
		}
		live = slices.DeleteFunc(live, func(p val.Pattern) bool {
			return !p.Keys[i].Any && !val.IsTrue(val.Equal(p.Keys[i].Key, key))
		})
		trail += stepText(key)
	}
	return val.Value{}
}

// stepText returns a key as it is written in a path.
func stepText(key val.Value) string {
	switch {
	case key.K == val.KindString && isName(key.Text()):
		return "." + key.Text()
	case key.K == val.KindString:
		return "[" + strconv.Quote(key.Text()) + "]"
	}
	return "[" + key.String() + "]"
}

// isName reports whether s can be written after a dot.
func isName(s string) bool {
	for i := range len(s) {
		c := s[i]
		if c != '_' && (c < 'a' || c > 'z') && (c < 'A' || c > 'Z') && (i == 0 || c < '0' || c > '9') {
			return false
		}
	}
	return s != ""
}

// Trace records the code of every node that depends only on inputs, not on the variables of a
// comprehension around it.
type Trace struct {
	Nodes map[int64]val.EvalFn
	Low   int // depth of the outermost variable that the current node reads
}

// depth returns the number of variables in the scope.
func (v *variable) depth() int {
	n := 0
	for ; v != nil; v = v.next {
		n++
	}
	return n
}

// node compiles a node and records it if it can be evaluated by itself.
func (t *Trace) node(c *compiler, e ast.Expr) *code {
	outer := t.Low
	t.Low = math.MaxInt
	out := c.anyNode(e)
	if t.Low > c.scope.depth() {
		t.Nodes[e.ID()] = out.Eval
	}
	t.Low = min(t.Low, outer)
	return out
}

// used records that a variable is read.
func (t *Trace) used(v *variable) { t.Low = min(t.Low, v.depth()) }
