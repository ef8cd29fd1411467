package witness

import (
	"regexp"
	"regexp/syntax"
	"slices"
	"strconv"
	"strings"
	"unicode"
)

// This file finds texts that match some regular expressions and do not match others. It walks the
// product of their automata breadth-first, so that the shortest texts come first.

// maxProductStates is the greatest number of states of the product that are visited.
const maxProductStates = 4000

// automaton is one regular expression, simulated without backtracking.
type automaton struct {
	prog  *syntax.Prog
	match bool // the text must match
}

// productState is a state of all automata after some text. For each automaton it has the
// instructions that can run next; nil if it matched.
type productState struct {
	threads [][]uint32
	prev    rune // the last rune, -1 at the start
	text    string
	size    int
}

// satisfies reports whether a text satisfies all conditions.
func (s *Search) satisfies(text string, conditions []textRule) bool {
	for _, c := range conditions {
		re := s.regexp(c.pattern)
		if re == nil || re.MatchString(text) != c.match {
			return false
		}
	}
	return true
}

// regexp returns a compiled pattern, nil if it is malformed.
func (s *Search) regexp(pattern string) *regexp.Regexp {
	re, ok := s.patterns[pattern]
	if !ok {
		re, _ = regexp.Compile(pattern)
		s.patterns[pattern] = re
	}
	return re
}

// members returns up to max texts that satisfy the conditions and have low to high code points. all
// says that there are no others, and that none was missed: with no texts, it is a proof.
func members(conditions []textRule, low, high, max int) (texts []string, all bool) {
	autos, ok := compileAll(conditions)
	if !ok {
		return nil, false
	}
	start := productState{prev: -1, threads: make([][]uint32, len(autos))}
	for i, a := range autos {
		start.threads[i] = []uint32{uint32(a.prog.Start)}
	}
	alphabet, all := representatives(autos)
	var out []string
	layer, visited, seen := []productState{start}, 0, map[string]bool{}
	for len(layer) > 0 && len(out) < max && visited < maxProductStates {
		var next []productState
		for _, st := range layer {
			if st.size >= low && accepts(autos, st) {
				if out = append(out, st.text); len(out) >= max {
					return out, false
				}
			}
			if st.size >= high {
				continue
			}
			for _, c := range alphabet {
				to, alive := advance(autos, st, c)
				if !alive {
					continue
				}
				// A few texts for each state are kept, so that there are several results.
				key := to.key(low)
				if n := strconv.Itoa(len(out) % 4); seen[key] && (seen[key+n] || max <= 1) {
					continue
				} else if seen[key] {
					seen[key+n] = true
				}
				seen[key] = true
				if visited++; visited > maxProductStates {
					return out, false
				}
				next = append(next, to)
			}
		}
		layer = next
	}
	return out, all
}

// compileAll compiles the conditions. ok is false if one is malformed.
func compileAll(conditions []textRule) (autos []automaton, ok bool) {
	for _, c := range conditions {
		re, err := syntax.Parse(c.pattern, syntax.Perl)
		if err != nil {
			return nil, false
		}
		prog, err := syntax.Compile(re.Simplify())
		if err != nil {
			return nil, false
		}
		autos = append(autos, automaton{prog, c.match})
	}
	return autos, true
}

// key identifies the state: texts with the same key have the same continuations.
func (st *productState) key(low int) string {
	b := []byte{contextOf(st.prev)}
	b = strconv.AppendInt(b, int64(min(st.size, low)), 10)
	for _, threads := range st.threads {
		b = append(b, '|')
		if threads == nil {
			b = append(b, '!')
		}
		for _, pc := range threads {
			b = strconv.AppendUint(append(b, ','), uint64(pc), 32)
		}
	}
	return string(b)
}

// contextOf returns what assertions see of the rune before.
func contextOf(prev rune) byte {
	switch {
	case prev < 0:
		return 's'
	case prev == '\n':
		return 'n'
	case syntax.IsWordChar(prev):
		return 'w'
	}
	return 'o'
}

// closure adds to set the instructions that run without reading a rune, and reports whether one is
// a match.
func closure(p *syntax.Prog, pc uint32, flags syntax.EmptyOp, set *[]uint32) bool {
	if slices.Contains(*set, pc) {
		return false
	}
	*set = append(*set, pc)
	switch i := &p.Inst[pc]; i.Op {
	case syntax.InstMatch:
		return true
	case syntax.InstAlt, syntax.InstAltMatch:
		a, b := closure(p, i.Out, flags, set), closure(p, i.Arg, flags, set)
		return a || b
	case syntax.InstCapture, syntax.InstNop:
		return closure(p, i.Out, flags, set)
	case syntax.InstEmptyWidth:
		if syntax.EmptyOp(i.Arg)&^flags == 0 {
			return closure(p, i.Out, flags, set)
		}
	}
	return false
}

// advance returns the state after one more rune. alive is false if no continuation is accepted.
func advance(autos []automaton, st productState, c rune) (to productState, alive bool) {
	to = productState{prev: c, text: st.text + string(c), size: st.size + 1, threads: make([][]uint32, len(autos))}
	flags := syntax.EmptyOpContext(st.prev, c)
	for i, a := range autos {
		if st.threads[i] == nil {
			continue // it matched
		}
		var set []uint32
		matched := false
		for _, pc := range st.threads[i] {
			matched = closure(a.prog, pc, flags, &set) || matched
		}
		if matched {
			if !a.match {
				return to, false
			}
			continue
		}
		next := []uint32{uint32(a.prog.Start)} // a match can begin anywhere
		anchored := beginsAtStart(a.prog)
		if anchored {
			next = next[:0]
		}
		for _, pc := range set {
			if in := &a.prog.Inst[pc]; isRune(in.Op) && in.MatchRune(c) && !slices.Contains(next, in.Out) {
				next = append(next, in.Out)
			}
		}
		if len(next) == 0 {
			if a.match {
				return to, false
			}
			next = []uint32{uint32(a.prog.Start)} // cannot match any more, because it is anchored
		}
		slices.Sort(next)
		to.threads[i] = next
	}
	return to, true
}

// beginsAtStart reports whether every match of the program begins at the start of the text.
func beginsAtStart(p *syntax.Prog) bool { return p.StartCond()&syntax.EmptyBeginText != 0 }

// isRune reports whether an instruction reads a rune.
func isRune(op syntax.InstOp) bool {
	return op == syntax.InstRune || op == syntax.InstRune1 || op == syntax.InstRuneAny || op == syntax.InstRuneAnyNotNL
}

// accepts reports whether the text of a state satisfies all automata.
func accepts(autos []automaton, st productState) bool {
	flags := syntax.EmptyOpContext(st.prev, -1)
	for i, a := range autos {
		matched := st.threads[i] == nil
		var set []uint32
		for _, pc := range st.threads[i] {
			matched = closure(a.prog, pc, flags, &set) || matched
		}
		if matched != a.match {
			return false
		}
	}
	return true
}

// preferred are the runes that texts are made of, if possible.
const preferred = "a0A-./:_*bczxyw1239BCXYZ @%#!?&=+,;'\"()[]{}<>|\\^$~`"

// maxAlphabet is the greatest number of runes that are tried at a position.
const maxAlphabet = 64

// representatives returns runes that stand for all runes which the automata cannot tell apart. all
// says that no class of runes is missing.
func representatives(autos []automaton) (runes []rune, all bool) {
	borders := []rune{0, '\n', '\n' + 1, ' ', 'a', 'z' + 1, 'A', 'Z' + 1, '0', '9' + 1, '_', '_' + 1, 0x7f, 0x80}
	for _, a := range autos {
		for i := range a.prog.Inst {
			in := &a.prog.Inst[i]
			if in.Op == syntax.InstRune1 || in.Op == syntax.InstRune && len(in.Rune) == 1 {
				borders = append(borders, in.Rune[0], in.Rune[0]+1)
				if unicode.IsLetter(in.Rune[0]) && syntax.Flags(in.Arg)&syntax.FoldCase != 0 {
					other := unicode.SimpleFold(in.Rune[0])
					borders = append(borders, other, other+1)
				}
				continue
			}
			if in.Op == syntax.InstRune {
				for j := 0; j+1 < len(in.Rune); j += 2 {
					borders = append(borders, in.Rune[j], in.Rune[j+1]+1)
				}
			}
		}
	}
	slices.Sort(borders)
	borders = slices.Compact(borders)
	var out, controls []rune
	for i, low := range borders {
		high := rune(unicode.MaxRune)
		if i+1 < len(borders) {
			high = borders[i+1] - 1
		}
		pick := rune(-1)
		for _, c := range preferred {
			if c >= low && c <= high {
				pick = c
				break
			}
		}
		if pick < 0 && low > ' ' {
			pick = low
		}
		if pick >= 0 {
			out = append(out, pick)
		} else {
			controls = append(controls, low)
		}
	}
	slices.SortFunc(out, func(a, b rune) int { return rank(a) - rank(b) })
	out = append(out, controls...)
	return out[:min(len(out), maxAlphabet)], len(out) <= maxAlphabet
}

// rank orders runes: those that read best come first.
func rank(c rune) int {
	if i := strings.IndexRune(preferred, c); i >= 0 {
		return i
	}
	return len(preferred) + int(c)
}
