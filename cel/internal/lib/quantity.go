package lib

import (
	"errors"
	"strings"

	"github.com/blang/semver/v4"
	"github.com/google/cel-go/cel"
	"github.com/google/cel-go/common/types"
	"github.com/google/cel-go/common/types/ref"
	"k8s.io/apimachinery/pkg/api/resource"
)

// This file defines Kubernetes' functions of quantities and semantic versions.

// QuantityType is the type of quantities.
var QuantityType = types.NewObjectType("kubernetes.Quantity")

// Quantity is a resource quantity. A Derived one is a result of add or sub, and cannot be on the
// right of ==, as upstream.
type Quantity struct {
	Object
	q       *resource.Quantity
	Derived bool
}

func newQuantity(q resource.Quantity, derived bool) Quantity {
	return Quantity{Object{QuantityType}, &q, derived}
}

func (q Quantity) String() string                   { return q.q.String() }
func (q Quantity) Value() any                       { return q.q }
func (q Quantity) ConvertToType(t ref.Type) ref.Val { return Convert(q, t) }
func (q Quantity) Equal(other ref.Val) ref.Val {
	o, ok := other.(Quantity)
	if !ok || o.Derived {
		return types.MaybeNoSuchOverloadErr(other)
	}
	return types.Bool(q.q.Equal(*o.q))
}

// QuantityLibrary returns the functions of quantities.
func QuantityLibrary() []cel.EnvOption {
	qt := QuantityType
	compare := func(name, id string, result *types.Type, of func(int) ref.Val) cel.EnvOption {
		return method2(name, id, qt, result, func(a, b Quantity) ref.Val { return of(a.q.Cmp(*b.q)) })
	}
	combine := func(name string, fn func(to *resource.Quantity, x resource.Quantity)) cel.EnvOption {
		apply := func(a Quantity, x resource.Quantity) ref.Val {
			sum := a.q.DeepCopy()
			fn(&sum, x)
			return newQuantity(sum, true)
		}
		return cel.Function(name,
			cel.MemberOverload("quantity_"+name, []*types.Type{qt, qt}, qt, binary(
				func(a, b Quantity) ref.Val { return apply(a, *b.q) })),
			cel.MemberOverload("quantity_"+name+"_int", []*types.Type{qt, types.IntType}, qt, binary(
				func(a Quantity, b types.Int) ref.Val {
					return apply(a, *resource.NewQuantity(int64(b), resource.DecimalExponent))
				})))
	}
	return []cel.EnvOption{
		FromString("quantity", "string_to_quantity", qt, func(s types.String) ref.Val {
			q, err := resource.ParseQuantity(string(s))
			if err != nil {
				return types.WrapErr(err)
			}
			return newQuantity(q, false)
		}),
		FromString("isQuantity", "is_quantity_string", types.BoolType, func(s types.String) ref.Val {
			_, err := resource.ParseQuantity(string(s))
			return types.Bool(err == nil)
		}),
		cel.Function("sign", cel.Overload("quantity_sign", []*types.Type{qt}, types.IntType, unary(
			func(q Quantity) ref.Val { return types.Int(q.q.Sign()) }))),
		compare("isGreaterThan", "quantity_is_greater_than", types.BoolType, func(c int) ref.Val { return types.Bool(c == 1) }),
		compare("isLessThan", "quantity_is_less_than", types.BoolType, func(c int) ref.Val { return types.Bool(c == -1) }),
		compare("compareTo", "quantity_compare_to", types.IntType, func(c int) ref.Val { return types.Int(c) }),
		Method("asApproximateFloat", "quantity_get_float", qt, types.DoubleType,
			func(q Quantity) ref.Val { return types.Double(q.q.AsApproximateFloat64()) }),
		Method("asInteger", "quantity_get_int", qt, types.IntType, func(q Quantity) ref.Val {
			i, ok := q.q.AsInt64()
			if !ok {
				return types.WrapErr(errors.New("cannot convert value to integer"))
			}
			return types.Int(i)
		}),
		Method("isInteger", "quantity_is_integer", qt, types.BoolType, func(q Quantity) ref.Val {
			_, ok := q.q.AsInt64()
			return types.Bool(ok)
		}),
		combine("add", (*resource.Quantity).Add),
		combine("sub", (*resource.Quantity).Sub),
	}
}

// SemverType is the type of semantic versions.
var SemverType = types.NewObjectType("kubernetes.Semver")

// Version is a semantic version.
type Version struct {
	Object
	V semver.Version
}

func (v Version) String() string                   { return v.V.String() }
func (v Version) Value() any                       { return v.V }
func (v Version) ConvertToType(t ref.Type) ref.Val { return Convert(v, t) }
func (v Version) Equal(other ref.Val) ref.Val {
	o, ok := other.(Version)
	if !ok {
		return types.MaybeNoSuchOverloadErr(other)
	}
	return types.Bool(v.V.EQ(o.V))
}

// parseVersion parses a version. If lenient, a leading v, missing parts and leading zeros are
// accepted.
func parseVersion(s string, lenient bool) (semver.Version, error) {
	if !lenient {
		return semver.Parse(s)
	}
	parts := strings.SplitN(strings.TrimPrefix(s, "v"), ".", 3)
	for i, part := range parts {
		if len(part) < 2 {
			continue
		}
		part = strings.TrimLeft(part, "0")
		if part == "" || part[0] < '0' || part[0] > '9' {
			part = "0" + part
		}
		parts[i] = part
	}
	if len(parts) < 3 && strings.ContainsAny(parts[len(parts)-1], "+-") {
		return semver.Version{}, errors.New("short version cannot contain PreRelease/Build meta data")
	}
	for len(parts) < 3 {
		parts = append(parts, "0")
	}
	return semver.Parse(strings.Join(parts, "."))
}

// SemverLibrary returns the functions of semantic versions.
func SemverLibrary() []cel.EnvOption {
	st := SemverType
	parse := func(s types.String, lenient types.Bool) ref.Val {
		v, err := parseVersion(string(s), bool(lenient))
		if err != nil {
			return types.WrapErr(err)
		}
		return Version{Object{st}, v}
	}
	is := func(s types.String, lenient types.Bool) ref.Val {
		_, err := parseVersion(string(s), bool(lenient))
		return types.Bool(err == nil)
	}
	strict := func(fn func(types.String, types.Bool) ref.Val) func(types.String) ref.Val {
		return func(s types.String) ref.Val { return fn(s, types.False) }
	}
	part := func(name string, get func(semver.Version) uint64) cel.EnvOption {
		return Method(name, "semver_"+name, st, types.IntType, func(v Version) ref.Val { return types.Int(get(v.V)) })
	}
	compare := func(name, id string, result *types.Type, of func(int) ref.Val) cel.EnvOption {
		return method2(name, id, st, result, func(a, b Version) ref.Val { return of(a.V.Compare(b.V)) })
	}
	text := []*types.Type{types.StringType, types.BoolType}
	return []cel.EnvOption{
		FromString("semver", "string_to_semver", st, strict(parse)),
		cel.Function("semver", cel.Overload("string_bool_to_semver", text, st, binary(parse))),
		FromString("isSemver", "is_semver_string", types.BoolType, strict(is)),
		cel.Function("isSemver", cel.Overload("is_semver_string_bool", text, types.BoolType, binary(is))),
		compare("isGreaterThan", "semver_is_greater_than", types.BoolType, func(c int) ref.Val { return types.Bool(c == 1) }),
		compare("isLessThan", "semver_is_less_than", types.BoolType, func(c int) ref.Val { return types.Bool(c == -1) }),
		compare("compareTo", "semver_compare_to", types.IntType, func(c int) ref.Val { return types.Int(c) }),
		part("major", func(v semver.Version) uint64 { return v.Major }),
		part("minor", func(v semver.Version) uint64 { return v.Minor }),
		part("patch", func(v semver.Version) uint64 { return v.Patch }),
	}
}
