package val

import (
	"slices"
	"unsafe"
)

// This file makes values that are not known yet.

// UnknownValue is a value that depends on the inputs of those paths.
func UnknownValue(paths ...string) Value {
	return Value{K: KindUnknown, Ptr: unsafe.Pointer(&Unknown{Paths: paths})}
}

// MergeUnknowns is the unknown that depends on what either depends on.
func MergeUnknowns(a, b Value) Value {
	paths := slices.Concat(a.Unknown().Paths, b.Unknown().Paths)
	slices.Sort(paths)
	return UnknownValue(slices.Compact(paths)...)
}

// Pattern says which part of a variable is unknown.
type Pattern struct {
	Text string
	Name string
	Keys []PatternKey
}

// PatternKey is a member or index, or any.
type PatternKey struct {
	Any bool
	Key Value
}

// String is the text that the pattern was made from.
func (p Pattern) String() string { return p.Text }
