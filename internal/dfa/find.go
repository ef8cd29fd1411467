package dfa

import (
	"encoding/binary"
	"regexp/syntax"
)

// This file finds a match at the start of a text. If several alternatives match, the leftmost in
// the pattern counts, as in Perl. A state is therefore a list of instructions in order of
// preference, which ends with the first one that has matched.

// Finder is a compiled pattern that can match only at the start of a text.
type Finder struct{ table }

// Find returns the end of the match at the start of s, -1 if there is none. known is false if the
// result depends on a byte beyond ASCII. The loop tests whether the state stays the same, as it
// does for most patterns until the end of the match, so that consecutive look-ups do not depend on
// each other.
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

// CompileFind compiles a pattern in regexp's syntax. It returns nil if the pattern is malformed,
// can match after the start, has assertions other than \\A, or needs too many states.
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

// advance returns the state after reading c in s.
func (b *builder) advance(s state, c byte) uint16 {
	var from []uint32
	for _, pc := range s.insts {
		if inst := &b.prog.Inst[pc]; readsRune(inst.Op) && inst.MatchRune(rune(c)) {
			from = append(from, inst.Out)
		}
	}
	return b.listID(b.ordered(from, false))
}

// ordered is follow for lists in order of preference: it ends at the first match. beginning says
// whether the assertion of the start holds.
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

// listID returns the number of a state, and adds the state if it is new.
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
