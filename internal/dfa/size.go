package dfa

import "regexp/syntax"

// This file says how large an expression is before it is compiled.

// Size is about how many instructions an expression compiles to, of which each
// takes some 50 bytes. A short pattern can be a large machine: (a|b){1000}.
func Size(re *syntax.Regexp) int {
	size := 1
	switch re.Op {
	case syntax.OpLiteral:
		size = len(re.Rune)
	case syntax.OpCharClass:
		size += len(re.Rune) / 16 // its ranges take space, too
	}
	for _, sub := range re.Sub {
		size += Size(sub)
	}
	if re.Op == syntax.OpRepeat {
		size *= max(re.Min, re.Max, 1)
	}
	return size
}
