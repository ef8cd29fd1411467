package cel

import (
	"math"
	"strings"

	"github.com/google/cel-go/common/ast"
	"github.com/google/cel-go/common/functions"
	"github.com/google/cel-go/common/operators"
	"github.com/google/cel-go/common/overloads"
	"github.com/google/cel-go/common/types/ref"
	"github.com/google/cel-go/common/types/traits"
)

// This file compiles calls.

func (c *compiler) call(e ast.Expr) *code {
	call := e.AsCall()
	switch call.FunctionName() {
	case operators.LogicalAnd:
		return c.and(e)
	case operators.LogicalOr:
		return c.or(e)
	case operators.Conditional:
		return c.conditional(e)
	case operators.LogicalNot:
		return c.not(e)
	case operators.Equals, operators.NotEquals:
		return c.equality(e, call.FunctionName() == operators.NotEquals)
	case operators.Less, operators.LessEquals, operators.Greater, operators.GreaterEquals:
		return c.ordering(e)
	case operators.Add, operators.Subtract, operators.Multiply, operators.Divide, operators.Modulo:
		return c.arithmetic(e)
	case operators.Index:
		return c.indexing(e, false)
	case operators.OptIndex, operators.OptSelect:
		return c.indexing(e, true)
	case operators.In:
		return c.membership(e)
	case "or", "orValue":
		if o := c.overload(e); call.IsMemberFunction() && (o == "" || o == "optional_or_optional" || o == "optional_orValue_value") {
			return c.orElse(e, call.FunctionName() == "orValue")
		}
	}
	return c.function(e)
}

// overload is the overload that a call has, "" if several are possible.
func (c *compiler) overload(e ast.Expr) string {
	if ref, ok := c.refs[e.ID()]; ok && len(ref.OverloadIDs) == 1 {
		return ref.OverloadIDs[0]
	}
	return ""
}

// arguments compiles the target, if there is one, and the arguments.
func (c *compiler) arguments(e ast.Expr) []*code {
	call := e.AsCall()
	var args []*code
	if call.IsMemberFunction() {
		args = append(args, c.node(call.Target()))
	}
	for _, arg := range call.Args() {
		args = append(args, c.node(arg))
	}
	return args
}

// builtin is a function of this package's own: arguments have no failures
// among them. Where it answers false, the bound implementation runs instead,
// which knows the exact error.
type builtin func(args []Value) (Value, bool)

// callCode is everything about a call but its arguments.
type callCode struct {
	name    string
	cost    costFn
	builtin builtin
	impl    *functions.Overload
	args    []evalFn
	guard   func(args []Value) bool   // tells that the result is too large; nil: it cannot be
	early   bool                      // an argument that fails ends the evaluation of the arguments
	ahead   bool                      // the price does not depend on the result, which may take long to find
	effort  func(args []Value) uint64 // steps that the price may not pay for; nil: it pays for all
	trait   int
}

// function compiles a call of any function that is not an operator.
func (c *compiler) function(e ast.Expr) *code {
	name, overload := e.AsCall().FunctionName(), c.overload(e)
	if c.lang != nil && name == blockFunction {
		return c.block(e)
	}
	if fused := c.urlScheme(e); fused != nil {
		return fused
	}
	if fused := c.formatCheck(e); fused != nil {
		return fused
	}
	args := c.arguments(e)
	if name == "matches" || name == "find" || name == "findAll" {
		if len(args) > 1 && args[1].konst != nil && args[1].konst.kind == KindString && (!c.general() || validPattern(args[1].konst.text())) {
			return c.patternCall(name, overload, args)
		}
	}
	if fast := c.fastCall(name, overload, args); fast != nil {
		return fast
	}
	return c.plainFunction(e, args)
}

// plainFunction compiles a call whose arguments are evaluated one by one.
func (c *compiler) plainFunction(e ast.Expr, args []*code) *code {
	name, overload := e.AsCall().FunctionName(), c.overload(e)
	impl := c.env.implementation(overload, name)
	if impl == nil && c.lang != nil {
		return c.lang.unbound(c, name)
	}
	if impl == nil {
		c.unsupported(name + "()")
	}
	cc := &callCode{name: name, guard: guards[name], cost: c.callCost(name, overload), builtin: builtins[overload], impl: impl, trait: impl.OperandTrait, ahead: pricedAhead[overload], effort: efforts[name]}
	for _, arg := range args {
		cc.args = append(cc.args, arg.eval)
	}
	cc.early = len(args) != 2 || impl.Binary == nil
	if impl.NonStrict {
		c.unsupported(name + "()")
	}
	if len(args) == 1 && args[0].konst != nil && overloads.IsTypeConversionFunction(name) {
		v := cc.eval(&frame{limit: math.MaxUint64})
		switch {
		case v.kind != KindError:
			return constant(asciiFlag(v))
		case !c.general():
			c.fail("%w", v.err())
		}
	}
	if len(args) == 1 && !c.general() { // their prices are Kubernetes'
		if fast := c.usualCall(overload, args[0], cc.eval); fast != nil {
			return fast
		}
	}
	if len(args) == 2 && overload == "string_substring_int" && !c.general() {
		if fast := fromPart(args, cc.eval); fast != nil {
			return fast
		}
	}
	return &code{eval: cc.eval}
}

// eval runs the call: evaluate the arguments, charge, apply.
func (cc *callCode) eval(fr *frame) Value {
	base := len(fr.stack)
	var failure Value
	for i, arg := range cc.args {
		v := arg(fr)
		if v.failed() && failure.kind == KindNone {
			failure = v
			if cc.early && i < len(cc.args)-1 {
				fr.drop(base)
				return failure
			}
		}
		fr.stack = append(fr.stack, v)
	}
	return cc.finish(fr, base, failure)
}

// finish charges and applies the call to the arguments above base.
func (cc *callCode) finish(fr *frame, base int, failure Value) Value {
	args := fr.stack[base:]
	result := failure
	if failure.kind == KindNone {
		if cc.tooMuch(fr, args) {
			fr.drop(base)
			return fr.exhausted()
		}
		result = cc.apply(fr, args)
	}
	fr.cost += cc.cost(args, result)
	fr.drop(base)
	if fr.cost > fr.limit {
		return fr.exhausted()
	}
	return result
}

// tooMuch reports whether a call must not begin: its result is too large, or it
// takes too long.
func (cc *callCode) tooMuch(fr *frame, args []Value) bool {
	if cc.guard != nil && cc.guard(args) {
		return true
	}
	if !cc.ahead && cc.effort == nil {
		return false
	}
	price := uint64(0)
	if cc.ahead {
		price = cc.cost(args, Value{})
	}
	return fr.cost+price > fr.limit || cc.effort != nil && !fr.mayTake(cc.effort(args), price)
}

// drop forgets the arguments above base.
func (fr *frame) drop(base int) {
	clear(fr.stack[base:])
	fr.stack = fr.stack[:base]
}

func (cc *callCode) apply(fr *frame, args []Value) Value {
	if cc.builtin != nil {
		if v, ok := cc.builtin(args); ok {
			return v
		}
	}
	return cc.bridge(fr, args)
}

// bridge runs the bound implementation on cel-go's representation. Some
// implementations trust the types that the checker found and panic on others.
func (cc *callCode) bridge(fr *frame, args []Value) (result Value) {
	c := newComparison(fr)
	defer func() {
		if recover() != nil {
			result = noOverload(cc.name, args)
		}
		if c.over {
			result = c.ended()
		}
	}()
	refs := make([]ref.Val, len(args))
	for i, arg := range args {
		refs[i] = arg.refIn(c)
	}
	if len(refs) > 0 && cc.trait != 0 && !refs[0].Type().HasTrait(cc.trait) {
		if refs[0].Type().HasTrait(traits.ReceiverType) {
			if r, ok := refs[0].(traits.Receiver); ok {
				return fromRef(r.Receive(cc.name, cc.impl.Operator, refs[1:]))
			}
		}
		return traitError(cc.name, args[0])
	}
	switch {
	case len(refs) == 1 && cc.impl.Unary != nil:
		return fromRef(cc.impl.Unary(refs[0]))
	case len(refs) == 2 && cc.impl.Binary != nil:
		return fromRef(cc.impl.Binary(refs[0], refs[1]))
	case cc.impl.Function != nil:
		return fromRef(cc.impl.Function(refs...))
	}
	return errorWith(errNoOverloadFn, cc.name)
}

// noOverload says that a function cannot take these arguments.
func noOverload(name string, args []Value) Value {
	var types []string
	for _, arg := range args {
		types = append(types, arg.typeName())
	}
	return errorf("no such overload: %s(%s)", name, strings.Join(types, ", "))
}

// arithmetic compiles + - * / %.
func (c *compiler) arithmetic(e ast.Expr) *code {
	call := e.AsCall()
	a, b := c.node(call.Args()[0]), c.node(call.Args()[1])
	var apply func(a, b Value) Value
	switch call.FunctionName() {
	case operators.Add:
		apply = add
	case operators.Subtract:
		apply = subtract
	case operators.Multiply:
		apply = multiply
	case operators.Divide:
		apply = divide
	default:
		apply = modulo
	}
	price, plus := tableCosts[c.overload(e)], call.FunctionName() == operators.Add
	x, y := a.eval, b.eval
	var num numFn
	var sum summing
	var adds adding
	if plus && a.static == KindInt && b.static == KindInt {
		num, sum, adds = numSum(numberOf(a), numberOf(b)), sumBoth(a, b), c.addBoth(a, b)
	}
	var str, inFrame textFn
	var made *origin
	if plus && price != nil {
		str, inFrame, made = joined(a, b), passing(a, b), aroundText(a, b)
	}
	return &code{num: num, sum: sum, adds: adds, str: str, passing: inFrame, made: made, eval: func(fr *frame) Value {
		l, r := x(fr), y(fr)
		if plus && l.kind == KindInt && r.kind == KindInt {
			fr.cost++
			sum := l.Int() + r.Int()
			if (sum > l.Int()) != (r.Int() > 0) && r.Int() != 0 {
				return errorValue(errIntOverflow)
			}
			return intValue(sum)
		}
		if price == nil {
			fr.cost++
		} else {
			fr.cost += tenth(sizeOf(l) + sizeOf(r))
		}
		if l.failed() {
			return l
		}
		if r.failed() {
			return r
		}
		if l.kind == KindList && r.kind == KindList && !fr.mayCopy(l, r) || plus && price == nil && !fr.mayJoin(l, r) || fr.cost > fr.limit {
			return fr.exhausted()
		}
		return apply(l, r)
	}}
}

// equality compiles == and !=.
func (c *compiler) equality(e ast.Expr, negated bool) *code {
	args := e.AsCall().Args()
	a, b := c.node(args[0]), c.node(args[1])
	return testCode(equality(a, b, negated)).asking(c.askEqual(a, b, negated))
}

// equality is == or != of two nodes.
func equality(a, b *code, negated bool) testFn {
	if a.test != nil && b.test != nil && a.static == KindBool && b.static == KindBool {
		return equalTests(a.test, b.test, negated)
	}
	general := fastEquality(a, b, negated)
	if general == nil {
		x, y := a.eval, b.eval
		price := costEqual
		if negated {
			price = costCompare
		}
		general = func(fr *frame) tri {
			l, r := x(fr), y(fr)
			fr.cost += price(l, r)
			return fr.equalTest(l, r, negated)
		}
	}
	if fast := directEquality(a, b, negated, general); fast != nil {
		return fast
	}
	if fast := equalData(a, b, negated, general); fast != nil {
		return fast
	}
	if fast := caseEquality(a, b, negated, general); fast != nil {
		return fast
	}
	if fast := equalTexts(a, b, negated, general); fast != nil {
		return fast
	}
	if fast := equalNumbers(a, b, negated, general); fast != nil {
		return fast
	}
	return general
}

// equalTests is == or != of two truth values. Both are always evaluated.
//
//go:noinline
func equalTests(a, b testFn, negated bool) testFn {
	return func(fr *frame) tri {
		l := a(fr)
		if l == bad {
			failure := fr.fail
			b(fr)
			fr.cost++
			fr.fail = failure
			return bad
		}
		r := b(fr)
		fr.cost++
		if r == bad {
			return bad
		}
		return truth((l == r) != negated)
	}
}

// equalTest is == or != of two values. An error of the comparison itself makes
// != true.
func (fr *frame) equalTest(l, r Value, negated bool) tri {
	if l.failed() {
		fr.fail = l
		return bad
	}
	if r.failed() {
		fr.fail = r
		return bad
	}
	eq := fr.equal(l, r)
	if negated && !(eq.kind == KindError && eq.flag == errInterrupted) {
		return truth(!isTrue(eq))
	}
	return fr.verdict(eq)
}

// ordering compiles < <= > >=.
func (c *compiler) ordering(e ast.Expr) *code {
	call := e.AsCall()
	a, b := c.node(call.Args()[0]), c.node(call.Args()[1])
	fn := call.FunctionName()
	want := relationOf(fn)
	return testCode(c.orderTest(e, a, b, want)).asking(c.askOrder(a, b, want))
}

// relationOf is what an operator accepts.
func relationOf(operator string) relation {
	switch operator {
	case operators.Less:
		return relLess
	case operators.LessEquals:
		return relLess | relEqual
	case operators.Greater:
		return relGreater
	}
	return relGreater | relEqual
}

// orderTest is a comparison of two nodes.
func (c *compiler) orderTest(e ast.Expr, a, b *code, want relation) testFn {
	fn := e.AsCall().FunctionName()
	sized := tableCosts[c.overload(e)] != nil
	x, y := a.eval, b.eval
	orderValues := func(fr *frame, l, r Value) tri {
		if sized {
			fr.cost += costCompare(l, r)
		} else {
			fr.cost++
		}
		if l.kind == r.kind && (l.kind == KindInt || l.kind == KindDuration) {
			i, j := l.Int(), r.Int()
			return truth(want.of(i, j))
		}
		if l.failed() {
			fr.fail = l
			return bad
		}
		if r.failed() {
			fr.fail = r
			return bad
		}
		if !comparable(l.kind) {
			fr.fail = traitError(fn, l)
			return bad
		}
		cmp := compare(l, r)
		if cmp.failed() {
			fr.fail = cmp
			return bad
		}
		return truth(want.of(cmp.Int(), 0))
	}
	general := func(fr *frame) tri {
		l := x(fr)
		return orderValues(fr, l, y(fr))
	}
	if a.count != nil && b.konst != nil && b.konst.kind == KindInt {
		count, j := a.count, b.konst.Int()
		return func(fr *frame) tri {
			i, ok := count(fr)
			fr.cost++
			if !ok {
				return bad
			}
			return truth(want.of(i, j))
		}
	}
	if b.konst != nil && (b.konst.kind == KindInt || b.konst.kind == KindDuration) && a.static == b.konst.kind {
		if x := numberOf(a); x != nil {
			j := b.konst.Int()
			return func(fr *frame) tri {
				i, ok := x(fr)
				if !ok {
					return general(fr)
				}
				fr.cost++
				return truth(want.of(i, j))
			}
		}
	}
	if a.static == b.static && (a.static == KindInt || a.static == KindDuration) {
		if x, y := numberOf(a), numberOf(b); x != nil && y != nil {
			return func(fr *frame) tri {
				cost := fr.cost
				i, ok := x(fr)
				if ok {
					var j int64
					if j, ok = y(fr); ok {
						fr.cost++
						return truth(want.of(i, j))
					}
				}
				fr.cost = cost
				return general(fr)
			}
		}
	}
	if b.konst != nil && b.konst.kind == KindInt && a.static == KindInt {
		j := b.konst.Int()
		return func(fr *frame) tri {
			l := x(fr)
			if l.kind != KindInt {
				return orderValues(fr, l, *b.konst)
			}
			fr.cost++
			i := l.Int()
			return truth(want.of(i, j))
		}
	}
	return general
}

// membership compiles `in`.
func (c *compiler) membership(e ast.Expr) *code {
	args := e.AsCall().Args()
	overload := c.overload(e)
	x, in := c.node(args[0]), c.node(args[1])
	if overload == overloads.InList && in.konst != nil && in.konst.kind == KindList {
		if in.konst.size() == 0 {
			return constant(boolValue(false))
		}
		if set := constSet(in.konst.items()); set != nil {
			return c.setMembership(x, set)
		}
	}
	sized := overload == overloads.InList
	a, b := x.eval, in.eval
	general := func(fr *frame) tri {
		l, r := a(fr), b(fr)
		if sized {
			fr.cost += sizeOf(r)
		} else {
			fr.cost++
		}
		if l.failed() {
			fr.fail = l
			return bad
		}
		if r.failed() {
			fr.fail = r
			return bad
		}
		return fr.verdict(contains(newComparison(fr), l, r))
	}
	if sized {
		if fast := c.plainMembership(x, in, general); fast != nil {
			return testCode(fast)
		}
	}
	return testCode(general)
}
