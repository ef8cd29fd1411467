package check

import (
	"math"

	"github.com/google/cel-go/checker"
	"github.com/google/cel-go/common"
	"github.com/google/cel-go/common/ast"
	"github.com/google/cel-go/common/overloads"
	"github.com/google/cel-go/common/types"
	"github.com/google/cel-go/parser"
)

// This file estimates costs by the rules of releases before 1.33. Their versions of cel-go (0.17.7
// to 0.22.0) know less about sizes than the linked one: nothing about the items of computed lists,
// what cel.bind() names, the argument of dyn(), and optional values. A rule may therefore be within
// its limit in 1.33, and too expensive in 1.32. conformance/versions compares the estimates with
// those of the releases.

// lastEarly is the last minor whose estimates this file makes.
const lastEarly = 32

// earlyCoster estimates one checked tree.
type earlyCoster struct {
	tree   *ast.AST
	own    *Estimator
	minor  int
	paths  map[int64][]string
	ranges map[string][]int64 // IDs of the ranges of iteration variables, the innermost last
	sizes  map[int64]sizeEstimate
}

// estimateEarly returns the static cost of a checked tree.
func estimateEarly(tree *ast.AST, own *Estimator) costEstimate {
	c := &earlyCoster{tree: tree, own: own, minor: own.minor, paths: map[int64][]string{}, ranges: map[string][]int64{}, sizes: map[int64]sizeEstimate{}}
	return c.cost(tree.Expr())
}

// flat is a cost without a range.
func flat(n uint64) costEstimate { return costEstimate{Min: n, Max: n} }

// cost returns the cost of e with everything below it.
func (c *earlyCoster) cost(e ast.Expr) costEstimate {
	if e == nil {
		return costEstimate{}
	}
	switch e.Kind() {
	case ast.IdentKind:
		c.nameIdent(e)
		return flat(common.SelectAndIdentCost)
	case ast.SelectKind:
		return c.costSelect(e)
	case ast.CallKind:
		return c.costCall(e)
	case ast.ListKind:
		sum := flat(common.ListCreateBaseCost)
		for _, item := range e.AsList().Elements() {
			sum = sum.Add(c.cost(item))
		}
		return sum
	case ast.MapKind:
		sum := flat(common.MapCreateBaseCost)
		for _, entry := range e.AsMap().Entries() {
			sum = sum.Add(c.cost(entry.AsMapEntry().Key())).Add(c.cost(entry.AsMapEntry().Value()))
		}
		return sum
	case ast.StructKind:
		sum := flat(common.StructCreateBaseCost)
		for _, f := range e.AsStruct().Fields() {
			sum = sum.Add(c.cost(f.AsStructField().Value()))
		}
		return sum
	case ast.ComprehensionKind:
		return c.costComprehension(e)
	}
	return costEstimate{}
}

// nameIdent sets the path of an identifier. An iteration variable has the path of its range.
func (c *earlyCoster) nameIdent(e ast.Expr) {
	name := e.AsIdent()
	stack := c.ranges[name]
	if len(stack) == 0 {
		c.paths[e.ID()] = []string{name}
		return
	}
	over := stack[len(stack)-1]
	switch c.tree.GetType(over).Kind() {
	case types.ListKind:
		c.paths[e.ID()] = below(c.paths[over], "@items")
	case types.MapKind:
		c.paths[e.ID()] = below(c.paths[over], "@keys")
	}
}

// below returns a path with one more step.
func below(path []string, step string) []string {
	return append(append(make([]string, 0, len(path)+1), path...), step)
}

// costSelect returns the cost of a member, or of has(). has() costs nothing by itself.
func (c *earlyCoster) costSelect(e ast.Expr) costEstimate {
	s := e.AsSelect()
	sum := c.cost(s.Operand())
	if s.IsTestOnly() {
		return sum
	}
	switch c.tree.GetType(s.Operand().ID()).Kind() {
	case types.MapKind, types.StructKind, types.TypeParamKind:
		sum = sum.Add(flat(common.SelectAndIdentCost))
	}
	c.paths[e.ID()] = below(c.paths[s.Operand().ID()], s.FieldName())
	return sum
}

// costComprehension returns the cost of a macro with iterations.
func (c *earlyCoster) costComprehension(e ast.Expr) costEstimate {
	f := e.AsComprehension()
	sum := c.cost(f.IterRange()).Add(c.cost(f.AccuInit()))
	name := f.IterVar()
	c.ranges[name] = append(c.ranges[name], f.IterRange().ID())
	each := c.cost(f.LoopCondition())
	each = c.cost(f.LoopStep()).Add(each)
	c.ranges[name] = c.ranges[name][:len(c.ranges[name])-1]
	sum = sum.Add(c.cost(f.Result()))
	count := c.size(c.node(f.IterRange()))
	if c.minor >= 30 { // cel-go 0.17.8 made the size of the range that of the result
		c.sizes[e.ID()] = count
	}
	return sum.Add(count.MultiplyByCost(each))
}

// costCall returns the cost of a call: the widest range that its overloads have.
func (c *earlyCoster) costCall(e ast.Expr) costEstimate {
	call := e.AsCall()
	args := make([]checker.AstNode, len(call.Args()))
	costs := make([]costEstimate, len(call.Args()))
	for i, arg := range call.Args() {
		costs[i] = c.cost(arg)
		args[i] = c.node(arg)
	}
	ids := c.tree.GetOverloadIDs(e.ID())
	if len(ids) == 0 {
		return costEstimate{}
	}
	var sum costEstimate
	var target *checker.AstNode
	if call.IsMemberFunction() {
		sum = c.cost(call.Target())
		node := checker.AstNode(c.node(call.Target()))
		target = &node
	}
	total := costEstimate{Min: math.MaxUint64}
	var result *sizeEstimate
	for _, id := range ids {
		est := c.overload(call.FunctionName(), id, target, args, costs)
		total = total.Union(est.CostEstimate)
		if size := est.ResultSize; size != nil {
			if result != nil {
				union := result.Union(*size)
				size = &union
			}
			result = size
		}
		switch {
		case id == overloads.IndexList && len(args) > 0:
			c.paths[e.ID()] = below(c.paths[call.Args()[0].ID()], "@items")
		case id == overloads.IndexMap && len(args) > 0:
			c.paths[e.ID()] = below(c.paths[call.Args()[0].ID()], "@values")
		}
	}
	if result != nil {
		c.sizes[e.ID()] = *result
	}
	return sum.Add(total)
}

// overload returns the cost of a call of one overload with its arguments, but without its target.
func (c *earlyCoster) overload(function, id string, target *checker.AstNode, args []checker.AstNode, costs []costEstimate) callEstimate {
	var all costEstimate
	for _, cost := range costs {
		all = all.Add(cost)
	}
	if factor, ok := setFactors[id]; ok && len(args) == 2 {
		product := c.own.size(args[0]).Multiply(c.own.size(args[1]))
		return callEstimate{CostEstimate: product.MultiplyByCostFactor(factor).Add(flat(1)).Add(all)}
	}
	if est := c.own.EstimateCallCost(function, id, target, args); est != nil {
		return callEstimate{CostEstimate: est.CostEstimate.Add(all), ResultSize: est.ResultSize}
	}
	if id == overloads.LogicalOr || id == overloads.LogicalAnd {
		return callEstimate{CostEstimate: costEstimate{Min: costs[0].Min, Max: costs[0].Add(costs[1]).Max}}
	}
	if id == overloads.Conditional {
		size := c.size(args[1]).Union(c.size(args[2]))
		return callEstimate{CostEstimate: costs[0].Add(costs[1].Union(costs[2])), ResultSize: &size}
	}
	cost, result := c.standard(id, target, args)
	return callEstimate{CostEstimate: cost.Add(all), ResultSize: result}
}

// setFactors are the factors of the product of two sizes in the set library, by overload.
var setFactors = map[string]float64{"list_sets_contains_list": 1, "list_sets_intersects_list": 1, "list_sets_equivalent_list": 2}

// standard returns the cost of a function of the language itself, without its arguments, and the
// size of its result if it is known.
func (c *earlyCoster) standard(id string, target *checker.AstNode, args []checker.AstNode) (costEstimate, *sizeEstimate) {
	switch {
	case id == overloads.ExtFormatString && target != nil:
		return walk(c.size(*target), common.StringTraversalCostFactor), nil
	case id == overloads.StringToBytes && len(args) == 1: // a character has up to four bytes
		s := c.size(args[0])
		return walk(s, common.StringTraversalCostFactor), &sizeEstimate{Min: s.Min, Max: s.Max * 4}
	case id == overloads.BytesToString && len(args) == 1:
		s := c.size(args[0])
		return walk(s, common.StringTraversalCostFactor), &sizeEstimate{Min: s.Min / 4, Max: s.Max}
	case id == overloads.ExtQuoteString && len(args) == 1: // each character may be escaped
		s := c.size(args[0])
		return walk(s, common.StringTraversalCostFactor), &sizeEstimate{Min: s.Min + 2, Max: s.Max*2 + 2}
	case (id == overloads.StartsWithString || id == overloads.EndsWithString) && len(args) == 1:
		return walk(c.size(args[0]), common.StringTraversalCostFactor), nil
	case id == overloads.InList && len(args) == 2:
		return walk(c.size(args[1]), 1), nil
	case id == overloads.MatchesString && target != nil && len(args) == 1:
		text := walk(c.size(*target).Add(sizeEstimate{Min: 1, Max: 1}), common.StringTraversalCostFactor)
		return text.Multiply(walk(c.size(args[0]), common.RegexStringLengthCostFactor)), nil
	case id == overloads.ContainsString && target != nil && len(args) == 1:
		return walk(c.size(*target), common.StringTraversalCostFactor).Multiply(walk(c.size(args[0]), common.StringTraversalCostFactor)), nil
	}
	if len(args) != 2 {
		return flat(1), nil
	}
	switch id {
	case overloads.AddList:
		size := c.size(args[0]).Add(c.size(args[1]))
		return flat(1), &size
	case overloads.AddString, overloads.AddBytes:
		size := c.size(args[0]).Add(c.size(args[1]))
		return walk(size, common.StringTraversalCostFactor), &size
	case overloads.LessString, overloads.GreaterString, overloads.LessEqualsString, overloads.GreaterEqualsString,
		overloads.LessBytes, overloads.GreaterBytes, overloads.LessEqualsBytes, overloads.GreaterEqualsBytes,
		overloads.Equals, overloads.NotEquals:
		a, b := c.size(args[0]), c.size(args[1])
		compared := sizeEstimate{Max: min(a.Max, b.Max)}
		if compared.Max > 0 {
			compared.Min = 1
		}
		return walk(compared, common.StringTraversalCostFactor), nil
	}
	return flat(1), nil
}

// size returns the size of a node: the computed one, that of the schema, or one of a scalar.
func (c *earlyCoster) size(n checker.AstNode) sizeEstimate {
	if s := n.ComputedSize(); s != nil {
		return *s
	}
	if s := c.own.EstimateSize(n); s != nil {
		return *s
	}
	switch n.Type().Kind() {
	case types.BoolKind, types.DoubleKind, types.DurationKind, types.IntKind, types.TimestampKind, types.UintKind:
		return sizeEstimate{Min: 1, Max: 1}
	}
	return sizeEstimate{Max: math.MaxUint64}
}

// earlyNode is an expression as estimates of functions see it.
type earlyNode struct {
	path []string
	t    *types.Type
	e    ast.Expr
	size *sizeEstimate
}

// node returns the node of an expression whose cost was computed. The result of a macro that is
// being computed has no path.
func (c *earlyCoster) node(e ast.Expr) *earlyNode {
	path := c.paths[e.ID()]
	if len(path) > 0 && (path[0] == parser.AccumulatorName || path[0] == parser.HiddenAccumulatorName) {
		path = nil
	}
	n := &earlyNode{path: path, t: c.tree.GetType(e.ID()), e: e}
	if size, ok := c.sizes[e.ID()]; ok {
		n.size = &size
	} else {
		n.size = writtenSize(e)
	}
	return n
}

// writtenSize returns the size of a literal, nil for other expressions.
func writtenSize(e ast.Expr) *sizeEstimate {
	n := 1
	switch e.Kind() {
	case ast.LiteralKind:
		switch v := e.AsLiteral().(type) {
		case types.String:
			n = len([]rune(string(v)))
		case types.Bytes:
			n = len(v)
		}
	case ast.ListKind:
		n = e.AsList().Size()
	case ast.MapKind:
		n = e.AsMap().Size()
	default:
		return nil
	}
	return &sizeEstimate{Min: uint64(n), Max: uint64(n)}
}

func (n *earlyNode) Path() []string              { return n.path }
func (n *earlyNode) Type() *types.Type           { return n.t }
func (n *earlyNode) Expr() ast.Expr              { return n.e }
func (n *earlyNode) ComputedSize() *sizeEstimate { return n.size }
