package eval

import (
	"github.com/google/cel-go/common/ast"
	"github.com/google/cel-go/common/operators"
	"github.com/google/cel-go/common/types"

	"github.com/keelson-io/keelson/cel/internal/val"
)

// This file compiles the logical operators && || ! ?: and what depends on them.

// terms returns the operands of a chain of one operator, from left to right.
func (c *compiler) terms(e ast.Expr, op string, to []*code) []*code {
	if e.Kind() == ast.CallKind && e.AsCall().FunctionName() == op {
		for _, arg := range e.AsCall().Args() {
			if c.probe != nil { // which records each operator of the chain
				to = append(to, c.node(arg))
				continue
			}
			to = c.terms(arg, op, to)
		}
		return to
	}
	return append(to, c.node(e))
}

// asTests returns nodes as tests.
func asTests(nodes []*code) []val.TestFn {
	tests := make([]val.TestFn, len(nodes))
	for i, n := range nodes {
		tests[i] = n.asTest()
	}
	return tests
}

// and compiles a && b && …: false if an operand is false, otherwise the first failure.
func (c *compiler) and(e ast.Expr) *code {
	terms := c.terms(e, operators.LogicalAnd, nil)
	return testCode(allOf(asTests(terms))).asking(c.askAll(terms))
}

// allOf returns the test && of tests.
func allOf(tests []val.TestFn) val.TestFn {
	if len(tests) == 2 {
		a, b := tests[0], tests[1]
		return func(fr *val.Frame) val.Tri {
			switch a(fr) {
			case val.No:
				return val.No
			case val.Yes:
				return b(fr)
			}
			first := fr.Fail
			switch b(fr) {
			case val.No:
				return val.No
			case val.Bad:
				first = val.FirstFailure(first, fr.Fail)
			}
			fr.Fail = first
			return val.Bad
		}
	}
	return func(fr *val.Frame) val.Tri { return runTests(fr, tests, val.No) }
}

// or compiles a || b || …: true if an operand is true, otherwise the first failure.
func (c *compiler) or(e ast.Expr) *code {
	terms := c.terms(e, operators.LogicalOr, nil)
	return testCode(anyOf(asTests(terms))).asking(c.askAny(terms))
}

// anyOf returns the test || of tests.
func anyOf(tests []val.TestFn) val.TestFn {
	if len(tests) == 2 {
		a, b := tests[0], tests[1]
		return func(fr *val.Frame) val.Tri {
			switch a(fr) {
			case val.Yes:
				return val.Yes
			case val.No:
				return b(fr)
			}
			first := fr.Fail
			switch b(fr) {
			case val.Yes:
				return val.Yes
			case val.Bad:
				first = val.FirstFailure(first, fr.Fail)
			}
			fr.Fail = first
			return val.Bad
		}
	}
	return func(fr *val.Frame) val.Tri { return runTests(fr, tests, val.Yes) }
}

// runTests evaluates tests until one has the decisive result.
func runTests(fr *val.Frame, tests []val.TestFn, decisive val.Tri) val.Tri {
	failed := false
	var first val.Value
	for _, test := range tests {
		switch t := test(fr); {
		case t == decisive:
			return decisive
		case t == val.Bad && !failed:
			first, failed = fr.Fail, true
		case t == val.Bad:
			first = val.FirstFailure(first, fr.Fail)
		}
	}
	if failed {
		fr.Fail = first
		return val.Bad
	}
	return val.Yes - decisive
}

// conditional compiles a ? b : c. In its branches the root of a path costs nothing.
func (c *compiler) conditional(e ast.Expr) *code {
	args := e.AsCall().Args()
	first, a, b := c.node(args[0]), c.node(args[1]), c.node(args[2])
	cond := first.asTest()
	then, otherwise := a.asBranch(), b.asBranch()
	eval := func(fr *val.Frame) val.Value {
		switch cond(fr) {
		case val.Yes:
			return then(fr)
		case val.No:
			return otherwise(fr)
		}
		return fr.Fail
	}
	out := &code{Eval: eval, choose: chooser(cond, a, b)}
	out.mixed = a.test == nil || b.test == nil || a.mixed || b.mixed
	if c.ast.GetType(e.ID()).IsExactType(types.BoolType) && !a.mayBeNull() && !b.mayBeNull() {
		aTest, bTest := a.asBranchTest(), b.asBranchTest()
		out.test = func(fr *val.Frame) val.Tri {
			switch cond(fr) {
			case val.Yes:
				return aTest(fr)
			case val.No:
				return bTest(fr)
			}
			return val.Bad
		}
	}
	out.asks, out.sum = c.askChoice(first, a, b), c.sumChoice(first, a, b)
	if a.static == val.KindInt && b.static == val.KindInt {
		out.adds = c.addChoice(first, a, b)
	}
	if a.param == b.param {
		out.param = a.param
	}
	if nodesUpTo(args[0], maxTwice) < maxTwice {
		out.num = numConditional(cond, a, b)
	}
	return out
}

// mayBeNull reports whether a node that is typed bool may be null, because it comes from data: a
// path, an attribute, the result of orValue(). A test is never null.
func (c *code) mayBeNull() bool {
	return c.mixed || c.konst == nil && c.test == nil || c.path != nil && !c.path.test
}

// chooser returns a ?: b as the root of a path.
func chooser(cond val.TestFn, a, b *code) func(fr *val.Frame) (val.Value, bool) {
	branch := func(c *code) func(fr *val.Frame) (val.Value, bool) {
		if c.choose != nil {
			return c.choose
		}
		if t := c.traced; t != nil && len(t.path.steps) > 0 {
			return func(fr *val.Frame) (val.Value, bool) {
				v, all := t.follow(fr)
				return v, all && (v.K == val.KindError || !fr.Open)
			}
		}
		if p := c.path; p != nil && len(p.steps) > 0 {
			return func(fr *val.Frame) (val.Value, bool) {
				v, all := p.follow(fr)
				return v, all && (v.K == val.KindError || !fr.Open)
			}
		}
		eval := c.asBranch()
		return func(fr *val.Frame) (val.Value, bool) { return eval(fr), false }
	}
	then, otherwise := branch(a), branch(b)
	return func(fr *val.Frame) (val.Value, bool) {
		switch cond(fr) {
		case val.Yes:
			return then(fr)
		case val.No:
			return otherwise(fr)
		}
		return fr.Fail, false
	}
}

// maxTwice bounds the size of a condition that may be evaluated twice, because a branch that is a
// number cannot be computed without a Value. With nested conditions the work would double for each.
const maxTwice = 24

// nodesUpTo returns the number of nodes of an expression, at most most.
func nodesUpTo(e ast.Expr, most int) int {
	n := 0
	ast.PreOrderVisit(e, ast.NewExprVisitor(func(ast.Expr) { n++ }))
	return min(n, most)
}

// not compiles !a.
func (c *compiler) not(e ast.Expr) *code {
	arg := c.node(e.AsCall().Args()[0])
	return testCode(notTest(arg)).asking(askNot(c.asks(arg, false)))
}

// notTest returns the test !a.
func notTest(arg *code) val.TestFn {
	if arg.static == val.KindBool {
		test := arg.asTest()
		eval := arg.Eval
		if arg.inverse != nil {
			return arg.inverse
		}
		if arg.test == nil {
			return func(fr *val.Frame) val.Tri { return fr.Verdict(negation(fr, eval(fr))) }
		}
		return func(fr *val.Frame) val.Tri {
			t := test(fr)
			fr.Cost++
			if t == val.Bad {
				return val.Bad
			}
			return val.Yes - t
		}
	}
	eval := arg.Eval
	return func(fr *val.Frame) val.Tri { return fr.Verdict(negation(fr, eval(fr))) }
}

// negation returns !v.
func negation(fr *val.Frame, v val.Value) val.Value {
	fr.Cost++
	switch v.K {
	case val.KindBool:
		return val.BoolValue(v.Bits == 0)
	case val.KindUnknown, val.KindError:
		return v
	}
	return val.ErrorValue(val.CodeNoOverload)
}

// orElse compiles or() and orValue() of optionals. The argument is only evaluated if there is no
// value.
func (c *compiler) orElse(e ast.Expr, unwrap bool) *code {
	call := e.AsCall()
	lhs := c.node(call.Target()).Eval
	rhs := c.node(call.Args()[0]).Eval
	return &code{Eval: func(fr *val.Frame) val.Value {
		v := lhs(fr)
		switch {
		case v.Failed():
			return v
		case v.K != val.KindOptional:
			return val.ErrorValue(val.CodeNoOverload)
		case v.Ptr == nil:
			return rhs(fr)
		case unwrap:
			return *v.Optional()
		}
		return v
	}}
}
