package val

import (
	"slices"
	"unsafe"
)

// This file defines unknown values.

// UnknownValue returns a value that depends on the inputs with those paths.
func UnknownValue(paths ...string) Value {
	return Value{K: KindUnknown, Ptr: unsafe.Pointer(&Unknown{Paths: paths})}
}

// MergeUnknowns returns the unknown that depends on the paths of both.
func MergeUnknowns(a, b Value) Value {
	paths := slices.Concat(a.Unknown().Paths, b.Unknown().Paths)
	slices.Sort(paths)
	return UnknownValue(slices.Compact(paths)...)
}

// Pattern names a part of a variable that is unknown.
type Pattern struct {
	Text string
	Name string
	Keys []PatternKey
}

// PatternKey is a member name or index, or any of them.
type PatternKey struct {
	Any bool
	Key Value
}

// String returns the text from which the pattern was parsed.
func (p Pattern) String() string { return p.Text }
