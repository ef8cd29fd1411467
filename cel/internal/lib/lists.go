package lib

import (
	"github.com/google/cel-go/cel"
	"github.com/google/cel-go/common/types"
	"github.com/google/cel-go/common/types/ref"
	"github.com/google/cel-go/common/types/traits"
)

// This file defines Kubernetes' functions of lists: isSorted, sum, min, max, indexOf, lastIndexOf,
// includes.

// summable has the types of items that sum() adds, with the sum of an empty list.
var summable = map[string]ref.Val{
	"int": types.Int(0), "uint": types.Uint(0), "double": types.Double(0), "duration": types.Duration{},
}

// ordered has the types of items that can be compared.
var ordered = []struct {
	name string
	t    *types.Type
}{
	{"int", types.IntType}, {"uint", types.UintType}, {"double", types.DoubleType}, {"bool", types.BoolType},
	{"duration", types.DurationType}, {"timestamp", types.TimestampType}, {"string", types.StringType}, {"bytes", types.BytesType},
}

// ListLibrary returns the functions of lists. includes says whether the function includes() is
// among them.
func ListLibrary(includes bool) []cel.EnvOption {
	var sorted, sum, least, greatest []cel.FunctionOpt
	for _, o := range ordered {
		of := []*types.Type{types.NewListType(o.t)}
		sorted = append(sorted, cel.MemberOverload("list_"+o.name+"_is_sorted_bool", of, types.BoolType, cel.UnaryBinding(listIsSorted)))
		least = append(least, cel.MemberOverload("list_"+o.name+"_min_"+o.name, of, o.t, cel.UnaryBinding(extreme("min", types.IntOne))))
		greatest = append(greatest, cel.MemberOverload("list_"+o.name+"_max_"+o.name, of, o.t, cel.UnaryBinding(extreme("max", types.IntNegOne))))
		if zero, ok := summable[o.name]; ok {
			sum = append(sum, cel.MemberOverload("list_"+o.name+"_sum_"+o.name, of, o.t, cel.UnaryBinding(listSum(zero))))
		}
	}
	a := types.NewTypeParamType("A")
	search := []*types.Type{types.NewListType(a), a}
	out := []cel.EnvOption{
		cel.Function("isSorted", sorted...), cel.Function("sum", sum...),
		cel.Function("min", least...), cel.Function("max", greatest...),
		cel.Function("indexOf", cel.MemberOverload("list_a_index_of_int", search, types.IntType, cel.BinaryBinding(
			func(list, item ref.Val) ref.Val { return listSearch(list, item, false) }))),
		cel.Function("lastIndexOf", cel.MemberOverload("list_a_last_index_of_int", search, types.IntType, cel.BinaryBinding(
			func(list, item ref.Val) ref.Val { return listSearch(list, item, true) }))),
	}
	if includes {
		out = append(out, cel.Function("includes", cel.MemberOverload("list_includes_dyn_dyn",
			[]*types.Type{types.DynType, types.DynType}, types.BoolType, cel.BinaryBinding(listIncludes))))
	}
	return out
}

// listIsSorted implements isSorted(). Values that cannot be compared count as sorted, as upstream.
func listIsSorted(v ref.Val) ref.Val {
	list, ok := v.(traits.Iterable)
	if !ok {
		return types.MaybeNoSuchOverloadErr(v)
	}
	var last traits.Comparer
	for it := list.Iterator(); it.HasNext() == types.True; {
		item := it.Next()
		next, ok := item.(traits.Comparer)
		if !ok {
			return types.MaybeNoSuchOverloadErr(item)
		}
		if last != nil && last.Compare(item) == types.IntOne {
			return types.False
		}
		last = next
	}
	return types.True
}

// listSum implements sum() for one type of items.
func listSum(zero ref.Val) func(ref.Val) ref.Val {
	return func(v ref.Val) ref.Val {
		list, ok := v.(traits.Iterable)
		if !ok {
			return types.MaybeNoSuchOverloadErr(v)
		}
		sum := zero.(traits.Adder)
		for it := list.Iterator(); it.HasNext() == types.True; {
			item := it.Next()
			if _, ok := item.(traits.Adder); !ok {
				return types.MaybeNoSuchOverloadErr(item)
			}
			next := sum.Add(item)
			if sum, ok = next.(traits.Adder); !ok {
				return types.MaybeNoSuchOverloadErr(next)
			}
		}
		return sum.(ref.Val)
	}
}

// extreme implements min() and max(). worse is the result of Compare with an item that is better.
func extreme(name string, worse ref.Val) func(ref.Val) ref.Val {
	return func(v ref.Val) ref.Val {
		list, ok := v.(traits.Iterable)
		if !ok {
			return types.MaybeNoSuchOverloadErr(v)
		}
		var best traits.Comparer
		for it := list.Iterator(); it.HasNext() == types.True; {
			item := it.Next()
			next, ok := item.(traits.Comparer)
			if !ok {
				return types.MaybeNoSuchOverloadErr(item)
			}
			if best == nil || best.Compare(item) == worse {
				best = next
			}
		}
		if best == nil {
			return types.NewErr("%s called on empty list", name)
		}
		return best.(ref.Val)
	}
}

// listSearch implements indexOf() and lastIndexOf().
func listSearch(v, item ref.Val, backwards bool) ref.Val {
	list, ok := v.(traits.Lister)
	if !ok {
		return types.MaybeNoSuchOverloadErr(v)
	}
	n := list.Size().(types.Int)
	for i := types.Int(0); i < n; i++ {
		at := i
		if backwards {
			at = n - 1 - i
		}
		if list.Get(at).Equal(item) == types.True {
			return at
		}
	}
	return types.Int(-1)
}

// listIncludes implements includes(), which also accepts a value that is not a list.
func listIncludes(v, item ref.Val) ref.Val {
	list, ok := v.(traits.Lister)
	if !ok {
		return types.Bool(v.Equal(item) == types.True)
	}
	for it := list.Iterator(); it.HasNext() == types.True; {
		if it.Next().Equal(item) == types.True {
			return types.True
		}
	}
	return types.False
}
