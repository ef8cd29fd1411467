package dfa

import (
	"encoding/binary"
	"regexp/syntax"
)

// This file finds the match at the beginning of a text. Where several parts of
// a pattern could match, the leftmost part of the pattern is preferred, as Perl
// does: a state is a list of instructions in the order of preference, cut off
// behind the one that has matched.

// Finder is a compiled pattern that can match only at the beginning of a text.
type Finder struct{ table }

// Find is the end of the match that begins at the beginning of s, -1 if there
// is none. It does not know (known is false) if that depends on a byte beyond
// ASCII. While the state stays the same, look-ups need not wait for one another:
// such patterns mostly run to the first byte that is none of theirs.
func (f *Finder) Find(s string) (end int, known bool) {
	row, end, last, next := uint(f.start), -1, uint(f.width)-1, f.next
	for i := 0; ; i++ {
		for i < len(s) && uint(next[row+uint(f.classes[s[i]])]) == row {
			i++
		}
		if next[row+last] != 0 {
			end = i
		}
		if i >= len(s) {
			return end, true
		}
		if row = uint(next[row+uint(f.classes[s[i]])]); row <= unknown*(last+1) {
			return end, row == dead
		}
	}
}

// CompileFind compiles a pattern in regexp's syntax. It returns nil if the
// pattern is wrong, can match elsewhere than at the beginning, makes other
// assertions than that, or needs too many states.
func CompileFind(pattern string) *Finder {
	f := new(Finder)
	b := newBuilder(pattern, &f.table)
	if b == nil || b.prog.StartCond()&syntax.EmptyBeginText == 0 || b.used != syntax.EmptyBeginText {
		return nil
	}
	begin := b.ordered([]uint32{uint32(b.prog.Start)}, true)
	if !b.build(b.listID(begin), func(s state) bool { return b.matches(s.insts) }, b.advance) {
		return nil
	}
	return f
}

// advance is the state after reading c in s.
func (b *builder) advance(s state, c byte) uint16 {
	var from []uint32
	for _, pc := range s.insts {
		if inst := &b.prog.Inst[pc]; readsRune(inst.Op) && inst.MatchRune(rune(c)) {
			from = append(from, inst.Out)
		}
	}
	return b.listID(b.ordered(from, false))
}

// ordered follows what reads nothing, from all of from in order, up to a match.
// The assertion of the beginning holds at the beginning only.
func (b *builder) ordered(from []uint32, beginning bool) []uint32 {
	b.round++
	var out, todo []uint32
	for i := len(from) - 1; i >= 0; i-- {
		todo = append(todo, from[i])
	}
	for len(todo) > 0 {
		pc := todo[len(todo)-1]
		todo = todo[:len(todo)-1]
		if b.seen[pc] == b.round {
			continue
		}
		b.seen[pc] = b.round
		b.work++
		switch inst := &b.prog.Inst[pc]; inst.Op {
		case syntax.InstAlt, syntax.InstAltMatch:
			todo = append(todo, inst.Arg, inst.Out)
		case syntax.InstCapture, syntax.InstNop:
			todo = append(todo, inst.Out)
		case syntax.InstEmptyWidth:
			if beginning {
				todo = append(todo, inst.Out)
			}
		case syntax.InstFail:
		case syntax.InstMatch:
			return append(out, pc)
		default:
			out = append(out, pc)
		}
	}
	return out
}

// listID is the number of the state; a new one if it is not known.
func (b *builder) listID(insts []uint32) uint16 {
	if len(insts) == 0 {
		return dead
	}
	var key []byte
	for _, pc := range insts {
		key = binary.LittleEndian.AppendUint32(key, pc)
	}
	if id, ok := b.ids[string(key)]; ok {
		return id
	}
	id := uint16(len(b.states))
	b.states = append(b.states, state{insts: insts})
	b.ids[string(key)] = id
	return id
}
