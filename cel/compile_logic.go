package cel

import (
	"github.com/google/cel-go/common/ast"
	"github.com/google/cel-go/common/operators"
	"github.com/google/cel-go/common/types"
)

// This file compiles logic: && || ! ?: and what depends on it.

// terms collects the operands of a chain of one operator, left to right.
func (c *compiler) terms(e ast.Expr, op string, to []*code) []*code {
	if e.Kind() == ast.CallKind && e.AsCall().FunctionName() == op {
		for _, arg := range e.AsCall().Args() {
			to = c.terms(arg, op, to)
		}
		return to
	}
	return append(to, c.node(e))
}

// asTests are nodes as tests.
func asTests(nodes []*code) []testFn {
	tests := make([]testFn, len(nodes))
	for i, n := range nodes {
		tests[i] = n.asTest()
	}
	return tests
}

// and compiles a && b && …: false as soon as one is, else the first failure.
func (c *compiler) and(e ast.Expr) *code {
	terms := c.terms(e, operators.LogicalAnd, nil)
	return testCode(allOf(asTests(terms))).asking(c.askAll(terms))
}

// allOf is && of tests.
func allOf(tests []testFn) testFn {
	if len(tests) == 2 {
		a, b := tests[0], tests[1]
		return func(fr *frame) tri {
			switch a(fr) {
			case no:
				return no
			case yes:
				return b(fr)
			}
			first := fr.fail
			switch b(fr) {
			case no:
				return no
			case bad:
				first = firstFailure(first, fr.fail)
			}
			fr.fail = first
			return bad
		}
	}
	return func(fr *frame) tri { return runTests(fr, tests, no) }
}

// or compiles a || b || …: true as soon as one is, else the first failure.
func (c *compiler) or(e ast.Expr) *code {
	terms := c.terms(e, operators.LogicalOr, nil)
	return testCode(anyOf(asTests(terms))).asking(c.askAny(terms))
}

// anyOf is || of tests.
func anyOf(tests []testFn) testFn {
	if len(tests) == 2 {
		a, b := tests[0], tests[1]
		return func(fr *frame) tri {
			switch a(fr) {
			case yes:
				return yes
			case no:
				return b(fr)
			}
			first := fr.fail
			switch b(fr) {
			case yes:
				return yes
			case bad:
				first = firstFailure(first, fr.fail)
			}
			fr.fail = first
			return bad
		}
	}
	return func(fr *frame) tri { return runTests(fr, tests, yes) }
}

// runTests runs tests until one has the decisive outcome.
func runTests(fr *frame, tests []testFn, decisive tri) tri {
	failed := false
	var first Value
	for _, test := range tests {
		switch t := test(fr); {
		case t == decisive:
			return decisive
		case t == bad && !failed:
			first, failed = fr.fail, true
		case t == bad:
			first = firstFailure(first, fr.fail)
		}
	}
	if failed {
		fr.fail = first
		return bad
	}
	return yes - decisive
}

// conditional compiles a ? b : c. Its branches are evaluated as branches: the
// root of a path costs nothing there.
func (c *compiler) conditional(e ast.Expr) *code {
	args := e.AsCall().Args()
	first, a, b := c.node(args[0]), c.node(args[1]), c.node(args[2])
	cond := first.asTest()
	then, otherwise := a.asBranch(), b.asBranch()
	eval := func(fr *frame) Value {
		switch cond(fr) {
		case yes:
			return then(fr)
		case no:
			return otherwise(fr)
		}
		return fr.fail
	}
	out := &code{eval: eval, choose: chooser(cond, a, b)}
	out.mixed = a.test == nil || b.test == nil || a.mixed || b.mixed
	if c.ast.GetType(e.ID()).IsExactType(types.BoolType) && !a.mayBeNull() && !b.mayBeNull() {
		aTest, bTest := a.asBranchTest(), b.asBranchTest()
		out.test = func(fr *frame) tri {
			switch cond(fr) {
			case yes:
				return aTest(fr)
			case no:
				return bTest(fr)
			}
			return bad
		}
	}
	out.asks, out.sum = c.askChoice(first, a, b), c.sumChoice(first, a, b)
	if a.static == KindInt && b.static == KindInt {
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

// mayBeNull reports whether a node that is typed as bool may be data, which may be null: a path, an attribute, what orValue()
// takes out. What is made as a test is none.
func (c *code) mayBeNull() bool {
	return c.mixed || c.konst == nil && c.test == nil || c.path != nil && !c.path.test
}

// chooser is a ?: b for a path that begins with it.
func chooser(cond testFn, a, b *code) func(fr *frame) (Value, bool) {
	branch := func(c *code) func(fr *frame) (Value, bool) {
		if c.choose != nil {
			return c.choose
		}
		if p := c.path; p != nil && len(p.steps) > 0 {
			return func(fr *frame) (Value, bool) {
				v, all := p.follow(fr)
				return v, all && (v.kind == KindError || !fr.open)
			}
		}
		eval := c.asBranch()
		return func(fr *frame) (Value, bool) { return eval(fr), false }
	}
	then, otherwise := branch(a), branch(b)
	return func(fr *frame) (Value, bool) {
		switch cond(fr) {
		case yes:
			return then(fr)
		case no:
			return otherwise(fr)
		}
		return fr.fail, false
	}
}

// maxTwice bounds the conditions that are evaluated once more if a branch that
// is a number cannot be computed without a Value: where they hold such
// conditions themselves, the work doubles with each.
const maxTwice = 24

// nodesUpTo counts the nodes of an expression, up to a number.
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

// notTest is !a as a test.
func notTest(arg *code) testFn {
	if arg.static == KindBool {
		test := arg.asTest()
		eval := arg.eval
		if arg.inverse != nil {
			return arg.inverse
		}
		if arg.test == nil {
			return func(fr *frame) tri { return fr.verdict(negation(fr, eval(fr))) }
		}
		return func(fr *frame) tri {
			t := test(fr)
			fr.cost++
			if t == bad {
				return bad
			}
			return yes - t
		}
	}
	eval := arg.eval
	return func(fr *frame) tri { return fr.verdict(negation(fr, eval(fr))) }
}

// negation is !v.
func negation(fr *frame, v Value) Value {
	fr.cost++
	switch v.kind {
	case KindBool:
		return boolValue(v.bits == 0)
	case KindUnknown, KindError:
		return v
	}
	return errorValue(errNoOverload)
}

// orElse compiles or() and orValue() of optionals: the argument is evaluated
// only if there is no value.
func (c *compiler) orElse(e ast.Expr, unwrap bool) *code {
	call := e.AsCall()
	lhs := c.node(call.Target()).eval
	rhs := c.node(call.Args()[0]).eval
	return &code{eval: func(fr *frame) Value {
		v := lhs(fr)
		switch {
		case v.failed():
			return v
		case v.kind != KindOptional:
			return errorValue(errNoOverload)
		case v.ptr == nil:
			return rhs(fr)
		case unwrap:
			return *v.optional()
		}
		return v
	}}
}
