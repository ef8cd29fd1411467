// Package dfa matches regular expressions by look-ups in tables.
//
// # Model
//
// A [Matcher] answers whether a pattern matches anywhere in a string, as
// [regexp.Regexp.MatchString] does. It is a deterministic automaton over ASCII:
// bytes are put into classes that the pattern cannot tell apart, and a table
// leads from state and class to state. It is built from package regexp/syntax's
// program, by the subset construction. Each look-up waits for the one before, so
// bytes are read two at a time where the table for pairs is not too large: it
// seldom is, since few pairs of classes differ to a pattern. In long parts of texts
// the state mostly stays the same, which a branch foresees.
//
// # Limits
//
// Patterns can need very many states, so there is a cap; [Compile] gives up
// beyond it. A string with a byte beyond ASCII is not decided, unless what
// stands before it settles the matter. In both cases the caller asks package
// regexp.
//
// A [Finder] answers where the match ends that begins where the text begins, as
// [regexp.Regexp.FindStringIndex] does, for patterns that can match nowhere else.
//
// # Invariants
//
// State 0 is dead: nothing that follows makes a match. State 1 has matched:
// nothing that follows can change that. A Matcher and a Finder are immutable.
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

// States with a fixed meaning.
const (
	dead    = 0
	matched = 1
	unknown = 2 // a byte beyond ASCII was read
	first   = 3 // the first ordinary state
)

// table is an automaton. A state is the index of its row in next. A row has an entry for each class
// of bytes, one for bytes beyond ASCII, and a last one that is 1 if the text may end there, else 0.
type table struct {
	classes [256]uint8
	next    []uint16
	start   uint16
	width   uint16 // of a row
}

// Matcher is a compiled pattern.
type Matcher struct {
	table
	pairs *pairTable // nil if it would be too large
}

// Match reports whether the pattern matches in s. known is false if the result depends on a byte
// beyond ASCII.
func (m *Matcher) Match(s string) (match, known bool) {
	if m.pairs != nil {
		return m.pairs.match(&m.classes, s)
	}
	return m.table.match(s)
}

func (m *table) match(s string) (match, known bool) {
	row, settled, next := uint(m.start), uint(unknown*m.width), m.next
	if row > settled {
		for i := 0; i < len(s); i++ {
			if to := uint(next[row+uint(m.classes[s[i]])]); to != row {
				if row = to; row <= settled {
					break
				}
			}
		}
	}
	return next[row+uint(m.width)-1] != 0, row != settled
}

// Compile compiles a pattern in regexp's syntax. It returns nil if the pattern is malformed or
// needs too many states.
func Compile(pattern string) *Matcher {
	m := unpaired(pattern)
	if m == nil {
		return nil
	}
	if m.pairs = m.paired(); m.pairs != nil {
		m.next = nil
	}
	return m
}

// unpaired is Compile without the table for pairs.
func unpaired(pattern string) *Matcher {
	m := new(Matcher)
	b := newBuilder(pattern, &m.table)
	if b == nil || !b.build(b.start(), b.ends, b.step) {
		return nil
	}
	return m
}

// newBuilder starts the compilation of a pattern; nil if it is malformed.
func newBuilder(pattern string, to *table) *builder {
	re, err := syntax.Parse(pattern, syntax.Perl)
	if err != nil {
		return nil
	}
	prog, err := syntax.Compile(re.Simplify())
	if err != nil {
		return nil
	}
	b := &builder{prog: prog, ids: make(map[string]uint16), m: to, seen: make([]uint32, len(prog.Inst)), states: make([]state, first)}
	for i := range prog.Inst {
		if prog.Inst[i].Op == syntax.InstEmptyWidth {
			b.used |= syntax.EmptyOp(prog.Inst[i].Arg)
		}
	}
	b.classify()
	return b
}

// before is the kind of the character before a position, as far as assertions distinguish it.
type before uint8

const (
	beginning before = iota
	newline
	word
	other
)

// example has a character of each kind.
var example = [...]rune{beginning: -1, newline: '\n', word: 'a', other: ' '}

// state is a set of instructions that read a character, match, or assert; instructions that only
// lead to others are followed.
type state struct {
	insts []uint32
	prev  before
}

type builder struct {
	prog   *syntax.Prog
	used   syntax.EmptyOp // assertions in the pattern
	m      *table
	sample []byte // one byte of each class
	states []state
	ids    map[string]uint16

	work  int      // number of visited instructions
	round uint32   // number of the current call of follow
	seen  []uint32 // the call that visited the instruction last
	todo  []uint32
}

// sortOf returns the kind of a byte.
func (b *builder) sortOf(c byte) before {
	switch {
	case c == '\n' && b.used&(syntax.EmptyBeginLine|syntax.EmptyEndLine) != 0:
		return newline
	case b.used&(syntax.EmptyWordBoundary|syntax.EmptyNoWordBoundary) != 0 && syntax.IsWordChar(rune(c)):
		return word
	}
	return other
}

// classify divides bytes into classes that all instructions treat alike.
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
		// Copies of a repetition share their runes: compute each set once.
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
	for c := ascii; c < len(b.m.classes); c++ {
		b.m.classes[c] = uint8(len(b.sample))
	}
	b.m.width = uint16(len(b.sample) + 2)
}

// readsRune reports whether an instruction reads a character.
func readsRune(op syntax.InstOp) bool {
	switch op {
	case syntax.InstRune, syntax.InstRune1, syntax.InstRuneAny, syntax.InstRuneAnyNotNL:
		return true
	}
	return false
}

// start returns the initial state.
func (b *builder) start() uint16 {
	return b.id(b.cores([]uint32{uint32(b.prog.Start)}, beginning), beginning)
}

// build fills the table from the state start. ends reports whether the text may end in a state, and
// step returns the state after a byte. build returns false if the table becomes too large.
func (b *builder) build(start uint16, ends func(state) bool, step func(state, byte) uint16) bool {
	b.fixed(dead, 0)
	b.fixed(matched, 1)
	b.fixed(unknown, 0)
	width := int(b.m.width)
	for at := first; at < len(b.states); at++ {
		if len(b.states) > maxStates || len(b.states)*width > maxTable || b.work > maxWork {
			return false
		}
		s := b.states[at]
		for _, c := range b.sample {
			b.m.next = append(b.m.next, step(s, c)*b.m.width)
		}
		end := uint16(0)
		if ends(s) {
			end = 1
		}
		b.m.next = append(b.m.next, unknown*b.m.width, end)
	}
	if len(b.states)*width > maxTable { // the last step added states
		return false
	}
	b.m.start = start * b.m.width
	b.m.next = slices.Clip(b.m.next)
	return true
}

// fixed fills the row of a state that is never left.
func (b *builder) fixed(id, end uint16) {
	for range b.m.width - 1 {
		b.m.next = append(b.m.next, id*b.m.width)
	}
	b.m.next = append(b.m.next, end)
}

// id returns the number of a state, and adds the state if it is new.
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

// cores returns, sorted, the instructions that are reachable from from without reading or
// asserting. It drops assertions that cannot hold after prev.
func (b *builder) cores(from []uint32, prev before) []uint32 {
	return b.follow(from, func(op syntax.EmptyOp) (hold, keep bool) {
		return false, op&syntax.EmptyBeginText == 0 || prev == beginning
	})
}

// assert replaces the assertions of s that hold before next by the instructions after them.
func (b *builder) assert(s state, next rune) []uint32 {
	holds := syntax.EmptyOpContext(example[s.prev], next)
	return b.follow(s.insts, func(op syntax.EmptyOp) (hold, keep bool) { return op&^holds == 0, false })
}

// follow returns, sorted, the instructions that are reachable from from without reading. test
// decides about an assertion: follow it, or keep it.
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

// ends reports whether the pattern matches if the text ends in s.
func (b *builder) ends(s state) bool {
	return b.matches(b.assert(s, -1))
}

// matches reports whether one of the instructions is a match.
func (b *builder) matches(insts []uint32) bool {
	return slices.ContainsFunc(insts, func(pc uint32) bool { return b.prog.Inst[pc].Op == syntax.InstMatch })
}

// step returns the state after reading c in s. Since a match may begin anywhere, every state
// includes the start of the program.
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
