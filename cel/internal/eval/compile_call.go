package eval

import (
	"fmt"
	"math"
	"strings"

	"github.com/google/cel-go/common/ast"
	"github.com/google/cel-go/common/functions"
	"github.com/google/cel-go/common/operators"
	"github.com/google/cel-go/common/overloads"
	"github.com/google/cel-go/common/types/ref"
	"github.com/google/cel-go/common/types/traits"

	"github.com/keelson-io/keelson/cel/internal/check"
	"github.com/keelson-io/keelson/cel/internal/fast"
	"github.com/keelson-io/keelson/cel/internal/val"
)

// This file compiles calls.

// call compiles a call of an operator or function.
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

// overload returns the overload of a call, "" if several are possible.
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

// callCode is a call without its arguments.
type callCode struct {
	name    string
	cost    val.CostFn
	builtin val.Builtin
	impl    *functions.Overload
	args    []val.EvalFn
	guard   func(args []val.Value) bool   // reports whether the result would be too large; nil if it cannot be
	early   bool                          // a failed argument ends the evaluation of the arguments
	ahead   bool                          // the cost does not depend on the result, so that it is checked before the call
	effort  func(args []val.Value) uint64 // the steps that the cost may not cover; nil if it covers all
	trait   int
}

// function compiles a call of a function that is not an operator.
func (c *compiler) function(e ast.Expr) *code {
	name, overload := e.AsCall().FunctionName(), c.overload(e)
	if c.lang != nil && name == check.BlockFunction {
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
		if len(args) > 1 && args[1].konst != nil && args[1].konst.K == val.KindString && (!c.general() || check.ValidPattern(args[1].konst.Text())) {
			return c.patternCall(name, args)
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
	impl := c.env.Implementation(overload, name)
	if impl == nil && c.lang != nil {
		return c.lang.unbound(c, name)
	}
	if impl == nil {
		c.unsupported(name + "()")
	}
	cc := &callCode{name: name, guard: val.Guards[name], cost: c.callCost(name, overload), builtin: builtins[overload], impl: impl, trait: impl.OperandTrait, ahead: val.PricedAhead[overload], effort: val.Efforts[name]}
	for _, arg := range args {
		cc.args = append(cc.args, arg.Eval)
	}
	cc.early = len(args) != 2 || impl.Binary == nil
	if impl.NonStrict {
		c.unsupported(name + "()")
	}
	// The conversion of a constant is computed now. Kubernetes refuses rules with conversions that
	// fail.
	if len(args) == 1 && args[0].konst != nil && overloads.IsTypeConversionFunction(name) {
		v := cc.eval(&val.Frame{Limit: math.MaxUint64})
		switch {
		case v.K != val.KindError:
			return constant(asciiFlag(v))
		case !c.general():
			c.fail("%w", v.Err())
		}
	}
	if len(args) == 1 && !c.general() { // the fast implementations have Kubernetes' costs
		if fast := c.usualCall(overload, args[0], cc.eval); fast != nil {
			return fast
		}
	}
	if len(args) == 2 && overload == "string_substring_int" && !c.general() {
		if fast := fromPart(args, cc.eval); fast != nil {
			return fast
		}
	}
	return &code{Eval: cc.eval}
}

// eval evaluates the arguments, adds the cost and calls the function.
func (cc *callCode) eval(fr *val.Frame) val.Value {
	base := len(fr.Stack)
	var failure val.Value
	for i, arg := range cc.args {
		v := arg(fr)
		if v.Failed() && failure.K == val.KindNone {
			failure = v
			if cc.early && i < len(cc.args)-1 {
				fr.Drop(base)
				return failure
			}
		}
		fr.Stack = append(fr.Stack, v)
	}
	return cc.finish(fr, base, failure)
}

// finish adds the cost and calls the function with the arguments above base.
func (cc *callCode) finish(fr *val.Frame, base int, failure val.Value) val.Value {
	args := fr.Stack[base:]
	result := failure
	if failure.K == val.KindNone {
		if cc.tooMuch(fr, args) {
			fr.Drop(base)
			return fr.Exhausted()
		}
		result = cc.apply(fr, args)
	}
	fr.Cost += cc.cost(args, result)
	fr.Drop(base)
	if fr.Cost > fr.Limit {
		return fr.Exhausted()
	}
	return result
}

// tooMuch reports whether the function must not be called, because its result would be too large or
// it would take too long.
func (cc *callCode) tooMuch(fr *val.Frame, args []val.Value) bool {
	if cc.guard != nil && cc.guard(args) {
		return true
	}
	if !cc.ahead && cc.effort == nil {
		return false
	}
	price := uint64(0)
	if cc.ahead {
		price = cc.cost(args, val.Value{})
	}
	return fr.Cost+price > fr.Limit || cc.effort != nil && !fr.MayTake(cc.effort(args), price)
}

// apply calls the function.
func (cc *callCode) apply(fr *val.Frame, args []val.Value) val.Value {
	if cc.builtin != nil {
		if v, ok := cc.builtin(args); ok {
			return v
		}
	}
	return cc.bridge(fr, args)
}

// bridge calls the bound implementation with cel-go's representation. Some implementations rely on
// the types that the checker found, and panic for others; that is an error of the language.
func (cc *callCode) bridge(fr *val.Frame, args []val.Value) (result val.Value) {
	c := val.NewComparison(fr)
	defer func() {
		if recover() != nil {
			result = noOverload(cc.name, args)
		}
		if c.Over {
			result = c.Ended()
		}
	}()
	refs := make([]ref.Val, len(args))
	for i, arg := range args {
		refs[i] = arg.RefIn(c)
	}
	if len(refs) > 0 && cc.trait != 0 && !refs[0].Type().HasTrait(cc.trait) {
		if refs[0].Type().HasTrait(traits.ReceiverType) {
			if r, ok := refs[0].(traits.Receiver); ok {
				return val.FromRef(r.Receive(cc.name, cc.impl.Operator, refs[1:]))
			}
		}
		return val.TraitError(cc.name, args[0])
	}
	switch {
	case len(refs) == 1 && cc.impl.Unary != nil:
		return val.FromRef(cc.impl.Unary(refs[0]))
	case len(refs) == 2 && cc.impl.Binary != nil:
		return val.FromRef(cc.impl.Binary(refs[0], refs[1]))
	case cc.impl.Function != nil:
		return val.FromRef(cc.impl.Function(refs...))
	}
	return val.ErrorWith(val.CodeNoOverloadFn, cc.name)
}

// noOverload returns the error of a call with arguments of these types.
func noOverload(name string, args []val.Value) val.Value {
	var types []string
	for _, arg := range args {
		types = append(types, arg.TypeName())
	}
	return val.ErrorOf(&val.OverloadError{Text: fmt.Sprintf("no such overload: %s(%s)", name, strings.Join(types, ", "))})
}

// arithmetic compiles + - * / %.
func (c *compiler) arithmetic(e ast.Expr) *code {
	call := e.AsCall()
	a, b := c.node(call.Args()[0]), c.node(call.Args()[1])
	var apply func(a, b val.Value) val.Value
	switch call.FunctionName() {
	case operators.Add:
		apply = val.Add
	case operators.Subtract:
		apply = val.Subtract
	case operators.Multiply:
		apply = val.Multiply
	case operators.Divide:
		apply = val.Divide
	default:
		apply = val.Modulo
	}
	price, plus := val.TableCosts[c.overload(e)], call.FunctionName() == operators.Add
	x, y := a.Eval, b.Eval
	// The faster forms are for sums of integers and of strings.
	var num numFn
	var sum summing
	var adds adding
	if plus && a.static == val.KindInt && b.static == val.KindInt {
		num, sum, adds = numSum(numberOf(a), numberOf(b)), sumBoth(a, b), c.addBoth(a, b)
	}
	var str, inFrame textFn
	var made *origin
	if plus && price != nil {
		str, inFrame, made = joined(a, b), passing(a, b), aroundText(a, b)
	}
	return &code{num: num, sum: sum, adds: adds, str: str, passing: inFrame, made: made, Eval: func(fr *val.Frame) val.Value {
		l, r := x(fr), y(fr)
		if plus && l.K == val.KindInt && r.K == val.KindInt {
			fr.Cost++
			sum := l.Int() + r.Int()
			if (sum > l.Int()) != (r.Int() > 0) && r.Int() != 0 {
				return val.ErrorValue(val.CodeIntOverflow)
			}
			return val.IntValue(sum)
		}
		if price == nil {
			fr.Cost++
		} else {
			fr.Cost += val.Tenth(val.SizeOf(l) + val.SizeOf(r))
		}
		if l.Failed() {
			return l
		}
		if r.Failed() {
			return r
		}
		if l.K == val.KindList && r.K == val.KindList && !fr.MayCopy(l, r) || plus && price == nil && !fr.MayJoin(l, r) || fr.Cost > fr.Limit {
			return fr.Exhausted()
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

// equality returns the test == or != of two nodes. It tries the fast forms from the most special
// one.
func equality(a, b *code, negated bool) val.TestFn {
	if a.test != nil && b.test != nil && a.static == val.KindBool && b.static == val.KindBool {
		return equalTests(a.test, b.test, negated)
	}
	general := fastEquality(a, b, negated)
	if general == nil {
		x, y := a.Eval, b.Eval
		price := val.CostEqual
		if negated {
			price = val.CostCompare
		}
		general = func(fr *val.Frame) val.Tri {
			l, r := x(fr), y(fr)
			fr.Cost += price(l, r)
			return fr.EqualTest(l, r, negated)
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

// equalTests returns the test == or != of two bools. Both are always evaluated, for their costs.
//
//go:noinline
func equalTests(a, b val.TestFn, negated bool) val.TestFn {
	return func(fr *val.Frame) val.Tri {
		l := a(fr)
		if l == val.Bad {
			failure := fr.Fail
			b(fr)
			fr.Cost++
			fr.Fail = failure
			return val.Bad
		}
		r := b(fr)
		fr.Cost++
		if r == val.Bad {
			return val.Bad
		}
		return val.Truth((l == r) != negated)
	}
}

// ordering compiles < <= > >=.
func (c *compiler) ordering(e ast.Expr) *code {
	call := e.AsCall()
	a, b := c.node(call.Args()[0]), c.node(call.Args()[1])
	fn := call.FunctionName()
	want := relationOf(fn)
	return testCode(c.orderTest(e, a, b, want)).asking(c.askOrder(a, b, want))
}

// relationOf returns the relation that an operator accepts.
func relationOf(operator string) fast.Relation {
	switch operator {
	case operators.Less:
		return fast.RelLess
	case operators.LessEquals:
		return fast.RelLess | fast.RelEqual
	case operators.Greater:
		return fast.RelGreater
	}
	return fast.RelGreater | fast.RelEqual
}

// orderTest returns the test that compares two nodes.
func (c *compiler) orderTest(e ast.Expr, a, b *code, want fast.Relation) val.TestFn {
	fn := e.AsCall().FunctionName()
	sized := val.TableCosts[c.overload(e)] != nil
	x, y := a.Eval, b.Eval
	orderValues := func(fr *val.Frame, l, r val.Value) val.Tri {
		if sized {
			fr.Cost += val.CostCompare(l, r)
		} else {
			fr.Cost++
		}
		if l.K == r.K && (l.K == val.KindInt || l.K == val.KindDuration) {
			i, j := l.Int(), r.Int()
			return val.Truth(want.Of(i, j))
		}
		if l.Failed() {
			fr.Fail = l
			return val.Bad
		}
		if r.Failed() {
			fr.Fail = r
			return val.Bad
		}
		if !val.Comparable(l.K) {
			fr.Fail = val.TraitError(fn, l)
			return val.Bad
		}
		cmp := val.Compare(l, r)
		if cmp.Failed() {
			fr.Fail = cmp
			return val.Bad
		}
		return val.Truth(want.Of(cmp.Int(), 0))
	}
	general := func(fr *val.Frame) val.Tri {
		l := x(fr)
		return orderValues(fr, l, y(fr))
	}
	if a.count != nil && b.konst != nil && b.konst.K == val.KindInt {
		count, j := a.count, b.konst.Int()
		return func(fr *val.Frame) val.Tri {
			i, ok := count(fr)
			fr.Cost++
			if !ok {
				return val.Bad
			}
			return val.Truth(want.Of(i, j))
		}
	}
	if fast := orderNumbers(a, b, want, general); fast != nil {
		return fast
	}
	if b.konst != nil && b.konst.K == val.KindInt && a.static == val.KindInt {
		j := b.konst.Int()
		return func(fr *val.Frame) val.Tri {
			l := x(fr)
			if l.K != val.KindInt {
				return orderValues(fr, l, *b.konst)
			}
			fr.Cost++
			i := l.Int()
			return val.Truth(want.Of(i, j))
		}
	}
	return general
}

// orderNumbers is orderTest for integers and durations that are computed without Values. It returns
// nil for other operands.
func orderNumbers(a, b *code, want fast.Relation, general val.TestFn) val.TestFn {
	if b.konst != nil && (b.konst.K == val.KindInt || b.konst.K == val.KindDuration) && a.static == b.konst.K {
		if x := numberOf(a); x != nil {
			j := b.konst.Int()
			return func(fr *val.Frame) val.Tri {
				i, ok := x(fr)
				if !ok {
					return general(fr)
				}
				fr.Cost++
				return val.Truth(want.Of(i, j))
			}
		}
	}
	if a.static == b.static && (a.static == val.KindInt || a.static == val.KindDuration) {
		if x, y := numberOf(a), numberOf(b); x != nil && y != nil {
			return func(fr *val.Frame) val.Tri {
				cost := fr.Cost
				i, ok := x(fr)
				if ok {
					var j int64
					if j, ok = y(fr); ok {
						fr.Cost++
						return val.Truth(want.Of(i, j))
					}
				}
				fr.Cost = cost
				return general(fr)
			}
		}
	}
	return nil
}

// membership compiles `in`.
func (c *compiler) membership(e ast.Expr) *code {
	args := e.AsCall().Args()
	overload := c.overload(e)
	x, in := c.node(args[0]), c.node(args[1])
	if overload == overloads.InList && in.konst != nil && in.konst.K == val.KindList {
		if in.konst.Size() == 0 {
			return constant(val.BoolValue(false))
		}
		if set := fast.ConstSet(in.konst.Items()); set != nil {
			return c.setMembership(x, set)
		}
	}
	sized := overload == overloads.InList
	a, b := x.Eval, in.Eval
	general := func(fr *val.Frame) val.Tri {
		l, r := a(fr), b(fr)
		if sized {
			fr.Cost += val.SizeOf(r)
		} else {
			fr.Cost++
		}
		if l.Failed() {
			fr.Fail = l
			return val.Bad
		}
		if r.Failed() {
			fr.Fail = r
			return val.Bad
		}
		return fr.Verdict(val.Contains(val.NewComparison(fr), l, r))
	}
	if sized {
		if fast := c.plainMembership(x, in, general); fast != nil {
			return testCode(fast)
		}
	}
	return testCode(general)
}
