package dfa

import "regexp/syntax"

// This file estimates the size of an expression before it is compiled.

// Size returns the approximate number of instructions of a compiled expression, each of some 50
// bytes. A short pattern can be large: (a|b){1000}.
func Size(re *syntax.Regexp) int {
	size := 1
	switch re.Op {
	case syntax.OpLiteral:
		size = len(re.Rune)
	case syntax.OpCharClass:
		size += len(re.Rune) / 16 // ranges take space, too
	}
	for _, sub := range re.Sub {
		size += Size(sub)
	}
	if re.Op == syntax.OpRepeat {
		size *= max(re.Min, re.Max, 1)
	}
	return size
}
