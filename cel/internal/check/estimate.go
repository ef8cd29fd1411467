package check

import (
	"math"

	"github.com/google/cel-go/checker"
	"github.com/google/cel-go/common/ast"
	"github.com/google/cel-go/common/overloads"
	"github.com/google/cel-go/common/types"

	"github.com/keelson-io/keelson/cel/internal/lib"
	"github.com/keelson-io/keelson/cel/internal/val"
)

// This file estimates the cost of calls before data is known, by Kubernetes' rules. The estimates
// decide which rules a definition may have, so that they must equal upstream's.

// Estimator gives cel-go the sizes of values, from the types of schemas.
type Estimator struct {
	// self is the type of the variable self.
	self  *val.Type
	Vars  map[string]*val.Type // the types of the variables, instead of self
	minor int                  // of the release whose rules apply; 0 is the newest
}

type (
	callEstimate = checker.CallEstimate
	sizeEstimate = checker.SizeEstimate
	costEstimate = checker.CostEstimate
)

// EstimateSize returns the bound of the schema for the value at a path of the expression, nil if
// there is none.
func (e *Estimator) EstimateSize(node checker.AstNode) *sizeEstimate {
	path := node.Path()
	if len(path) == 0 {
		return nil
	}
	t := e.self
	if e.Vars != nil {
		if t = e.Vars[path[0]]; t == nil {
			return nil
		}
	}
	for _, name := range path[1:] {
		switch name {
		case "@items", "@values":
			t = t.Elem
		case "@keys":
			if t.Kind != val.Map {
				return nil
			}
			t = KeyType
		default:
			t = estimateField(t, name)
		}
		if t == nil {
			return nil
		}
	}
	return &sizeEstimate{Max: t.MaxElements}
}

// KeyType is the type of the keys of maps. Upstream's estimate takes their size as 0.
var KeyType = &val.Type{Kind: val.String}

// estimateField returns the type of a member by its name in a rule. A reserved word is found only
// if it is escaped, as upstream.
func estimateField(t *val.Type, spelled string) *val.Type {
	if t.Kind != val.Object || val.Reserved[spelled] {
		return nil
	}
	name, ok := val.Unescape(spelled)
	if !ok {
		return nil
	}
	if f := t.Field(name); f != nil {
		return f.Type
	}
	return nil
}

// size returns the estimated size of a node: the computed one, that of the schema, or unbounded.
func (e *Estimator) size(node checker.AstNode) sizeEstimate {
	if s := node.ComputedSize(); s != nil {
		return *s
	}
	if s := e.EstimateSize(node); s != nil {
		return *s
	}
	return sizeEstimate{Max: math.MaxUint64}
}

// walk returns the cost of visiting a text: times units for each character.
func walk(s sizeEstimate, times float64) costEstimate { return s.MultiplyByCostFactor(times) }

// fixed returns the estimate of a call with a constant cost.
func fixed(n uint64) *callEstimate {
	return &callEstimate{CostEstimate: costEstimate{Min: n, Max: n}}
}

// priced returns the estimate of a call without a size of the result.
func priced(c costEstimate) *callEstimate { return &callEstimate{CostEstimate: c} }

// EstimateCallCost returns the estimate of a call, nil if cel-go's own applies.
func (e *Estimator) EstimateCallCost(function, overload string, target *checker.AstNode, args []checker.AstNode) *callEstimate {
	if e.minor > 0 && e.unpriced(function) {
		return nil
	}
	if target != nil {
		if est := e.estimateMember(function, *target, args); est != nil {
			return est
		}
	}
	switch function {
	case "check":
		return fixed(lib.CostCheck)
	case "fieldSelector", "labelSelector":
		if len(args) == 1 {
			s := e.size(args[0])
			wanted := s.MultiplyByCostFactor(0.5).MultiplyByCostFactor(val.CostList + val.CostStruct)
			return priced(costEstimate{Min: val.CostList, Max: val.CostList}.Add(walk(s, 0.1)).Add(wanted))
		}
	case "url", "jsonpatch.escapeKey":
		if len(args) == 1 {
			s := e.size(args[0])
			if e.minor > 0 && e.minor < 32 {
				return priced(walk(s, 0.1))
			}
			return &callEstimate{CostEstimate: walk(s, 0.1), ResultSize: &s}
		}
	case "matches": // the global form; cel-go has an estimate of its own since 1.37
		if overload == overloads.Matches && e.minor > 0 && e.minor < 37 {
			return fixed(1)
		}
	case "ip":
		if overload == "cidr_ip" {
			return fixed(1)
		}
		fallthrough
	case "cidr", "isIP", "isCIDR", "quantity", "isQuantity", "semver", "isSemver":
		if len(args) >= 1 {
			return priced(walk(e.size(args[0]), 0.1))
		}
	case "ip.isCanonical":
		if len(args) >= 1 {
			return priced(walk(e.size(args[0]), 0.2))
		}
	case "containsIP", "containsCIDR":
		if len(args) >= 1 {
			return e.estimateContains(function, overload, args[0])
		}
	case "validate":
		if len(args) >= 1 {
			return priced(walk(e.size(args[0]), 0.1).MultiplyByCostFactor(128 * 0.25))
		}
	case "_==_":
		if len(args) == 2 {
			return estimateEquals(args[0], args[1])
		}
	case "masked", "prefixLength", "family", "isUnspecified", "isLoopback", "isLinkLocalMulticast",
		"isLinkLocalUnicast", "isGlobalUnicast", "format.named",
		"sign", "asInteger", "isInteger", "asApproximateFloat", "isGreaterThan", "isLessThan", "compareTo",
		"add", "sub", "major", "minor", "patch",
		"serviceAccount", "path", "group", "resource", "subresource", "namespace", "name", "allowed", "reason", "error", "errored",
		"getScheme", "getHostname", "getHost", "getPort", "getEscapedPath", "getQuery":
		return fixed(1)
	}
	return nil
}

// unpriced reports whether an earlier release has no estimate of its own for a function that it has,
// so that cel-go's applies: of addresses and quantities before 1.30, of == before 1.32.
func (e *Estimator) unpriced(function string) bool {
	switch function {
	case "quantity", "isQuantity", "ip", "cidr", "isIP", "isCIDR", "ip.isCanonical", "containsIP", "containsCIDR":
		return e.minor < 30
	case "_==_":
		return e.minor < 32
	}
	return false
}

// estimateMember estimates a function of a string or list.
func (e *Estimator) estimateMember(function string, target checker.AstNode, args []checker.AstNode) *callEstimate {
	switch function {
	case "isSorted", "sum", "max", "min", "indexOf", "lastIndexOf", "includes":
		return e.estimateTraversal(function, target)
	case "lowerAscii", "upperAscii", "substring", "trim":
		s := e.size(target)
		return &callEstimate{CostEstimate: walk(s, 0.1), ResultSize: &s}
	case "replace":
		if len(args) >= 2 {
			s := e.size(target)
			out := replaced(s, e.size(args[0]), e.size(args[1]))
			return &callEstimate{CostEstimate: walk(s, 0.2), ResultSize: &out}
		}
	case "split":
		s := e.size(target)
		most := s.Max
		if len(args) > 1 {
			if lit := args[1].Expr().AsLiteral(); lit != nil {
				if n, ok := lit.Value().(int64); ok {
					most = uint64(n)
				}
			}
		}
		return &callEstimate{CostEstimate: walk(s, 0.2), ResultSize: &sizeEstimate{Max: most}}
	case "join":
		return e.estimateJoin(target, args)
	case "find", "findAll":
		if len(args) >= 1 {
			s := e.size(target)
			text := walk(s.Add(sizeEstimate{Min: 1, Max: 1}), 0.1)
			return &callEstimate{CostEstimate: text.Multiply(walk(e.size(args[0]), 0.25)), ResultSize: &sizeEstimate{Max: s.Max}}
		}
	}
	return nil
}

// estimateTraversal estimates a visit of all items of a list, including the text of items that are
// strings.
func (e *Estimator) estimateTraversal(function string, target checker.AstNode) *callEstimate {
	s := e.size(target)
	each := costEstimate{Min: 1, Max: 1}
	item := itemsOf(target)
	switch {
	case item != nil:
		if k := item.Type().Kind(); k == types.StringKind || k == types.BytesKind {
			each = each.Add(walk(e.size(item), 0.1))
		}
	case function != "includes":
		return priced(walk(s, 0.1))
	}
	return priced(s.MultiplyByCost(each))
}

// estimateJoin estimates join(): the size of all items and separators.
func (e *Estimator) estimateJoin(target checker.AstNode, args []checker.AstNode) *callEstimate {
	n := e.size(target)
	var total sizeEstimate
	if item := itemsOf(target); item != nil {
		total = n.Multiply(e.size(item))
	}
	if len(args) > 0 {
		gaps := sizeEstimate{}
		if n.Min > 0 {
			gaps.Min = n.Min - 1
		}
		if n.Max > 0 {
			gaps.Max = n.Max - 1
		}
		total = total.Add(e.size(args[0]).Multiply(gaps))
	}
	return &callEstimate{CostEstimate: walk(total, 0.1), ResultSize: &total}
}

// replaced returns the size of a text after replacements.
func replaced(text, from, to sizeEstimate) sizeEstimate {
	var count, kept sizeEstimate
	switch {
	case from.Min == 0: // an empty string occurs before, between and after the characters
		count.Max = text.Max
		if text.Max < math.MaxUint64 {
			count.Max++
		}
		kept.Max = text.Max
	case to.Max <= from.Min:
		kept.Max = text.Max
	default:
		count.Max = uint64(math.Ceil(float64(text.Max) / float64(from.Min)))
	}
	switch {
	case from.Max == 0:
		count.Min = text.Min
		if text.Min < math.MaxUint64 {
			count.Min++
		}
		kept.Min = text.Min
	case from.Max <= to.Min:
		kept.Min = text.Min
	default:
		count.Min = uint64(math.Ceil(float64(text.Min) / float64(from.Max)))
	}
	return count.Multiply(to).Add(kept)
}

// estimateContains estimates the comparison of addresses of 4 to 16 bytes.
func (e *Estimator) estimateContains(function, overload string, arg checker.AstNode) *callEstimate {
	bytes := sizeEstimate{Min: 4, Max: 16}
	cost := walk(bytes.Add(bytes), 0.1)
	if function == "containsCIDR" {
		cost = cost.Add(walk(bytes, 0.1)).Add(costEstimate{Min: 1, Max: 1})
	}
	if overload == "cidr_contains_ip_string" || overload == "cidr_contains_cidr_string" {
		cost = cost.Add(costEstimate(e.size(arg)).MultiplyByCostFactor(0.1))
	}
	return priced(cost)
}

// estimateEquals estimates == for values of library types.
func estimateEquals(a, b checker.AstNode) *callEstimate {
	t := a.Type()
	if t.Equal(b.Type()) != types.True {
		return nil
	}
	if name := t.TypeName(); t.Kind() == types.OpaqueKind && (name == lib.IPType.TypeName() || name == lib.CIDRType.TypeName()) {
		return fixed(1)
	}
	switch t.TypeName() { // a variable may have been declared with the name of the type
	case lib.QuantityType.TypeName(), lib.SemverType.TypeName(), lib.AuthorizerType.TypeName(), lib.PathCheckType.TypeName(),
		lib.GroupCheckType.TypeName(), lib.ResourceCheckType.TypeName(), lib.DecisionType.TypeName():
		return fixed(1)
	case lib.FormatType.TypeName():
		return priced(costEstimate{Min: 1, Max: 64}.MultiplyByCostFactor(0.1))
	case lib.URLType.TypeName():
		most := uint64(1)
		if s := b.ComputedSize(); s != nil {
			most = s.Max
		}
		return priced(costEstimate{Min: 1, Max: most}.MultiplyByCostFactor(0.1))
	}
	return nil
}

// itemNode represents the items of a list.
type itemNode struct {
	path []string
	t    *types.Type
}

func (n *itemNode) Path() []string              { return n.path }
func (n *itemNode) Type() *types.Type           { return n.t }
func (n *itemNode) Expr() ast.Expr              { return nil }
func (n *itemNode) ComputedSize() *sizeEstimate { return nil }

// itemsOf returns the node of a list's items, nil if list is not a list.
func itemsOf(list checker.AstNode) checker.AstNode {
	params := list.Type().Parameters()
	if len(params) == 0 {
		return nil
	}
	out := &itemNode{t: params[0]}
	if path := list.Path(); path != nil {
		out.path = append(append(make([]string, 0, len(path)+1), path...), "@items")
	}
	return out
}
