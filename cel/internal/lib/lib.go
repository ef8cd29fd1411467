package lib

import (
	"fmt"
	"reflect"
	"strconv"
	"strings"

	"github.com/google/cel-go/cel"
	"github.com/google/cel-go/checker"
	"github.com/google/cel-go/common/types"
	"github.com/google/cel-go/common/types/ref"
	"github.com/google/cel-go/ext"
)

// This file says which libraries belong to which version, and has helpers for declarations.
// Functions are bound for cel-go; the compiler calls that implementation unless it has a faster
// one.

// VersionOptions are the options of a range of minor versions: from From, up to but not including
// Until (0: no end).
type VersionOptions struct {
	From, Until int
	Options     []cel.EnvOption
}

// Libraries returns the libraries of all versions.
func Libraries() []VersionOptions {
	return []VersionOptions{
		{0, 0, []cel.EnvOption{
			cel.HomogeneousAggregateLiterals(),
			cel.EagerlyValidateDeclarations(true),
			cel.DefaultUTCTimeZone(true),
			cel.CostEstimatorOptions(checker.PresenceTestHasCost(false)),
		}},
		{0, 0, URLLibrary()},
		{0, 0, RegexLibrary()},
		{0, 37, ListLibrary(false)},
		{27, 0, authzLibrary()},
		{28, 0, []cel.EnvOption{cel.CrossTypeNumericComparisons(true), cel.OptionalTypes()}},
		{28, 0, QuantityLibrary()},
		{29, 0, []cel.EnvOption{cel.ASTValidators(
			cel.ValidateDurationLiterals(), cel.ValidateTimestampLiterals(),
			cel.ValidateRegexLiterals(), cel.ValidateHomogeneousAggregateLiterals(),
		)}},
		{0, 29, []cel.EnvOption{ext.Strings(ext.StringsVersion(0))}},
		{29, 0, []cel.EnvOption{ext.Strings(ext.StringsVersion(2)), ext.Sets()}},
		{30, 0, NetworkLibrary()},
		{31, 0, FormatLibrary()},
		{31, 0, authzSelectors()},
		{32, 0, []cel.EnvOption{ext.TwoVarComprehensions()}},
		{33, 0, SemverLibrary()},
		{34, 0, []cel.EnvOption{ext.Lists(ext.ListsVersion(3))}},
		{37, 0, ListLibrary(true)},
	}
}

// NewestMinor is the newest version whose libraries are complete.
const NewestMinor = 37

// MinorVersion returns the minor of a version such as "1.37", NewestMinor for "".
func MinorVersion(version string) (int, error) {
	if version == "" {
		return NewestMinor, nil
	}
	text, ok := strings.CutPrefix(version, "1.")
	minor, err := strconv.Atoi(text)
	if !ok || err != nil || minor < 0 || minor > NewestMinor {
		return 0, fmt.Errorf("version %q: want one from 1.0 to 1.%d", version, NewestMinor)
	}
	return minor, nil
}

// Object is the common part of the values of library types.
type Object struct{ T *types.Type }

func (o Object) Type() ref.Type { return o.T }
func (o Object) ConvertToNative(t reflect.Type) (any, error) {
	return nil, fmt.Errorf("type conversion error from '%s' to '%v'", o.T.TypeName(), t)
}

// Convert converts a library value to a type: only to its own type, or to its type as a value.
func Convert(v ref.Val, to ref.Type) ref.Val {
	switch to {
	case v.Type():
		return v
	case types.TypeType:
		return v.Type().(*types.Type)
	}
	return types.NewErr("type conversion error from '%s' to '%s'", v.Type().TypeName(), to.TypeName())
}

// unary declares an overload with one argument of type T. An argument of another type is an
// overload error.
func unary[T any](fn func(T) ref.Val) cel.OverloadOpt {
	return cel.UnaryBinding(func(v ref.Val) ref.Val {
		x, ok := v.(T)
		if !ok {
			return types.MaybeNoSuchOverloadErr(v)
		}
		return fn(x)
	})
}

// binary declares an overload with two arguments.
func binary[A, B any](fn func(A, B) ref.Val) cel.OverloadOpt {
	return cel.BinaryBinding(func(v, w ref.Val) ref.Val {
		x, ok := v.(A)
		if !ok {
			return types.MaybeNoSuchOverloadErr(v)
		}
		y, ok := w.(B)
		if !ok {
			return types.MaybeNoSuchOverloadErr(w)
		}
		return fn(x, y)
	})
}

// Method declares a member function without parameters.
func Method[T any](name, id string, of, result *types.Type, fn func(T) ref.Val) cel.EnvOption {
	return cel.Function(name, cel.MemberOverload(id, []*types.Type{of}, result, unary(fn)))
}

// method2 declares a member function with one parameter of the same type.
func method2[T any](name, id string, of, result *types.Type, fn func(a, b T) ref.Val) cel.EnvOption {
	return cel.Function(name, cel.MemberOverload(id, []*types.Type{of, of}, result, binary(fn)))
}

// FromString declares a global function of a string.
func FromString(name, id string, result *types.Type, fn func(types.String) ref.Val) cel.EnvOption {
	return cel.Function(name, cel.Overload(id, []*types.Type{types.StringType}, result, unary(fn)))
}
