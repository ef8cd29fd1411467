// Package dfa matches regular expressions in one table look-up per byte.
//
// # Model
//
// A [Matcher] answers whether a pattern matches anywhere in a string, as
// [regexp.Regexp.MatchString] does. It is a deterministic automaton over ASCII:
// bytes are put into classes that the pattern cannot tell apart, and a table
// leads from state and class to state. It is built from package regexp/syntax's
// program, by the subset construction.
//
// # Limits
//
// Patterns can need very many states, so there is a cap; [Compile] gives up
// beyond it. A string with a byte beyond ASCII is not decided, unless what
// stands before it settles the matter. In both cases the caller asks package
// regexp.
//
// # Invariants
//
// State 0 is dead: nothing that follows makes a match. State 1 has matched:
// nothing that follows can change that. A Matcher is immutable.
package dfa

import (
	"encoding/binary"
	"regexp/syntax"
	"slices"
)

const (
	maxStates = 512
	maxTable  = 1 << 13 // entries
	maxWork   = 1 << 18 // instructions visited, some milliseconds
	ascii     = 128
)

const (
	dead    = 0
	matched = 1
)

// Matcher is a compiled pattern. A state is named by where its row starts in
// next, so that a step is one look-up.
type Matcher struct {
	classes [ascii]uint8
	width   int      // classes, which is the length of a row
	next    []uint16 // next[row+class] is a row
	atEnd   []bool   // whether the text may end in a state, by its number
	start   uint16   // a row
}

// Match reports whether the pattern matches in s. It does not know (known is
// false) if that depends on a byte beyond ASCII.
func (m *Matcher) Match(s string) (match, known bool) {
	row, decided, next := int(m.start), matched*m.width, m.next
	for i := 0; i < len(s); i++ {
		if row <= decided {
			return row == decided, true
		}
		c := s[i]
		if c >= ascii {
			return false, false
		}
		row = int(next[row+int(m.classes[c])])
	}
	return m.atEnd[row/m.width], true
}

// Compile compiles a pattern in regexp's syntax. It returns nil if the pattern
// is wrong or needs too many states.
func Compile(pattern string) *Matcher {
	re, err := syntax.Parse(pattern, syntax.Perl)
	if err != nil {
		return nil
	}
	prog, err := syntax.Compile(re.Simplify())
	if err != nil {
		return nil
	}
	b := &builder{prog: prog, ids: make(map[string]uint16), m: new(Matcher), seen: make([]uint32, len(prog.Inst))}
	for i := range prog.Inst {
		if prog.Inst[i].Op == syntax.InstEmptyWidth {
			b.used |= syntax.EmptyOp(prog.Inst[i].Arg)
		}
	}
	b.classify()
	if !b.build() {
		return nil
	}
	return b.m
}

// before is what stands before a position, as far as the pattern can tell.
type before uint8

const (
	beginning before = iota
	newline
	word
	other
)

// example is a character of each sort.
var example = [...]rune{beginning: -1, newline: '\n', word: 'a', other: ' '}

// state is a set of instructions, none of which only leads on to others.
type state struct {
	insts []uint32
	prev  before
}

type builder struct {
	prog   *syntax.Prog
	used   syntax.EmptyOp // assertions that the pattern makes
	m      *Matcher
	sample []byte // a byte of each class
	states []state
	ids    map[string]uint16

	work  int      // instructions visited
	round uint32   // of follow
	seen  []uint32 // the round in which an instruction was visited last
	todo  []uint32
}

// sortOf is what sort of character c is to the pattern.
func (b *builder) sortOf(c byte) before {
	switch {
	case c == '\n' && b.used&(syntax.EmptyBeginLine|syntax.EmptyEndLine) != 0:
		return newline
	case b.used&(syntax.EmptyWordBoundary|syntax.EmptyNoWordBoundary) != 0 && syntax.IsWordChar(rune(c)):
		return word
	}
	return other
}

// classify puts bytes together that every instruction treats alike.
func (b *builder) classify() {
	var signs [ascii][]byte
	for c := range signs {
		signs[c] = append(signs[c], byte(b.sortOf(byte(c))))
	}
	type set struct {
		first *rune
		size  int
		arg   uint32
	}
	seen := make(map[set]bool)
	for i := range b.prog.Inst {
		inst := &b.prog.Inst[i]
		if !readsRune(inst.Op) || len(inst.Rune) == 0 {
			continue
		}
		// Repetitions share their runes: look at each set once.
		if key := (set{&inst.Rune[0], len(inst.Rune), inst.Arg}); seen[key] {
			continue
		} else {
			seen[key] = true
		}
		for c := range signs {
			var bit byte
			if inst.MatchRune(rune(c)) {
				bit = 1
			}
			signs[c] = append(signs[c], bit)
		}
	}
	classes := make(map[string]uint8)
	for c := range signs {
		class, ok := classes[string(signs[c])]
		if !ok {
			class = uint8(len(classes))
			classes[string(signs[c])] = class
			b.sample = append(b.sample, byte(c))
		}
		b.m.classes[c] = class
	}
	b.m.width = len(b.sample)
}

func readsRune(op syntax.InstOp) bool {
	switch op {
	case syntax.InstRune, syntax.InstRune1, syntax.InstRuneAny, syntax.InstRuneAnyNotNL:
		return true
	}
	return false
}

// build makes the table; false if it grows too large.
func (b *builder) build() bool {
	b.states = []state{dead: {}, matched: {}}
	b.m.next = make([]uint16, 2*b.m.width)
	for class := range b.m.width {
		b.m.next[matched*b.m.width+class] = matched
	}
	b.m.atEnd = []bool{dead: false, matched: true}
	b.m.start = b.id(b.cores([]uint32{uint32(b.prog.Start)}, beginning), beginning)
	for at := 2; at < len(b.states); at++ {
		if len(b.states) > maxStates || len(b.states)*b.m.width > maxTable || b.work > maxWork {
			return false
		}
		s := b.states[at]
		b.m.atEnd = append(b.m.atEnd, b.ends(s))
		for _, c := range b.sample {
			b.m.next = append(b.m.next, b.step(s, c))
		}
	}
	for i := range b.m.next {
		b.m.next[i] *= uint16(b.m.width)
	}
	b.m.start *= uint16(b.m.width)
	return true
}

// id is the number of the state; a new one if it is not known.
func (b *builder) id(insts []uint32, prev before) uint16 {
	for _, pc := range insts {
		if b.prog.Inst[pc].Op == syntax.InstMatch {
			return matched
		}
	}
	if len(insts) == 0 {
		return dead
	}
	key := []byte{byte(prev)}
	for _, pc := range insts {
		key = binary.LittleEndian.AppendUint32(key, pc)
	}
	if id, ok := b.ids[string(key)]; ok {
		return id
	}
	id := uint16(len(b.states))
	b.states = append(b.states, state{insts, prev})
	b.ids[string(key)] = id
	return id
}

// cores follows what reads nothing and asserts nothing, from all of from. The
// result is sorted. Assertions that can never hold after prev are left out.
func (b *builder) cores(from []uint32, prev before) []uint32 {
	return b.follow(from, func(op syntax.EmptyOp) (hold, keep bool) {
		return false, op&syntax.EmptyBeginText == 0 || prev == beginning
	})
}

// assert replaces the assertions of s by what follows those that hold before
// next.
func (b *builder) assert(s state, next rune) []uint32 {
	holds := syntax.EmptyOpContext(example[s.prev], next)
	return b.follow(s.insts, func(op syntax.EmptyOp) (hold, keep bool) { return op&^holds == 0, false })
}

// follow follows what reads nothing, from all of from. test says of an
// assertion whether it holds, and if not whether it stays. The result is
// sorted.
func (b *builder) follow(from []uint32, test func(syntax.EmptyOp) (hold, keep bool)) []uint32 {
	b.round++
	todo := append(b.todo[:0], from...)
	var out []uint32
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
			todo = append(todo, inst.Out, inst.Arg)
		case syntax.InstCapture, syntax.InstNop:
			todo = append(todo, inst.Out)
		case syntax.InstEmptyWidth:
			switch hold, keep := test(syntax.EmptyOp(inst.Arg)); {
			case hold:
				todo = append(todo, inst.Out)
			case keep:
				out = append(out, pc)
			}
		case syntax.InstFail:
		default:
			out = append(out, pc)
		}
	}
	b.todo = todo
	slices.Sort(out)
	return out
}

// ends reports whether there is a match if the text ends in s.
func (b *builder) ends(s state) bool {
	return b.matches(b.assert(s, -1))
}

func (b *builder) matches(insts []uint32) bool {
	return slices.ContainsFunc(insts, func(pc uint32) bool { return b.prog.Inst[pc].Op == syntax.InstMatch })
}

// step is the state after reading c in s. A match may begin anywhere, so the
// program's start is part of every state.
func (b *builder) step(s state, c byte) uint16 {
	now := b.assert(s, rune(c))
	if b.matches(now) {
		return matched
	}
	prev := b.sortOf(c)
	from := []uint32{uint32(b.prog.Start)}
	for _, pc := range now {
		if inst := &b.prog.Inst[pc]; readsRune(inst.Op) && inst.MatchRune(rune(c)) {
			from = append(from, inst.Out)
		}
	}
	return b.id(b.cores(from, prev), prev)
}
