package cel

import (
	"slices"
	"unsafe"
)

// This file makes values that are not known yet.

// unknownValue is a value that depends on the inputs of those paths.
func unknownValue(paths ...string) Value {
	return Value{kind: KindUnknown, ptr: unsafe.Pointer(&Unknown{Paths: paths})}
}

// mergeUnknowns is the unknown that depends on what either depends on.
func mergeUnknowns(a, b Value) Value {
	paths := slices.Concat(a.Unknown().Paths, b.Unknown().Paths)
	slices.Sort(paths)
	return unknownValue(slices.Compact(paths)...)
}
