package sql

import (
	"fmt"
	"regexp/syntax"
	"strings"
)

// This file translates patterns of RE2 to patterns that mean the same in PostgreSQL's regular
// expressions. The result uses only characters, escapes by number, sets, groups, alternatives, and
// counts, and is anchored only at the start and the end of the text.

// maxCount is the greatest count of PostgreSQL.
const maxCount = 255

// portablePattern returns the translation of a pattern, false if there is none.
func portablePattern(pattern string) (string, bool) {
	re, err := syntax.Parse(pattern, syntax.Perl)
	if err != nil {
		return "", false
	}
	var b strings.Builder
	// The prefix selects advanced expressions, whatever the pattern starts with, and the settings of the server.
	b.WriteString("***:")
	if !writePattern(&b, re) {
		return "", false
	}
	return b.String(), true
}

// writePattern appends the translation of re. It returns false if there is none.
func writePattern(b *strings.Builder, re *syntax.Regexp) bool {
	switch re.Op {
	case syntax.OpEmptyMatch:
		b.WriteString("(?:)")
	case syntax.OpLiteral:
		if re.Flags&syntax.FoldCase != 0 {
			return false
		}
		for _, r := range re.Rune {
			if r == 0 {
				return false
			}
			writeRune(b, r)
		}
	case syntax.OpCharClass:
		return writeSet(b, re.Rune)
	case syntax.OpAnyChar:
		b.WriteString("[\\u0001-\\U0010FFFF]")
	case syntax.OpAnyCharNotNL:
		b.WriteString("[^\\u000A]")
	case syntax.OpBeginText:
		b.WriteString("^")
	case syntax.OpEndText:
		b.WriteString("$")
	case syntax.OpCapture:
		return writeGroup(b, re.Sub[0], "")
	case syntax.OpStar:
		return writeGroup(b, re.Sub[0], "*")
	case syntax.OpPlus:
		return writeGroup(b, re.Sub[0], "+")
	case syntax.OpQuest:
		return writeGroup(b, re.Sub[0], "?")
	case syntax.OpRepeat:
		if re.Min > maxCount || re.Max > maxCount {
			return false
		}
		count := fmt.Sprintf("{%d,%d}", re.Min, re.Max)
		if re.Max < 0 {
			count = fmt.Sprintf("{%d,}", re.Min)
		}
		return writeGroup(b, re.Sub[0], count)
	case syntax.OpConcat:
		for _, sub := range re.Sub {
			if !writeGroup(b, sub, "") {
				return false
			}
		}
	case syntax.OpAlternate:
		for i, sub := range re.Sub {
			if i > 0 {
				b.WriteByte('|')
			}
			if !writeGroup(b, sub, "") {
				return false
			}
		}
	default:
		return false // (?m), \b, and patterns that match nothing
	}
	return true
}

// writeGroup appends re with a count, in a group where one is needed.
func writeGroup(b *strings.Builder, re *syntax.Regexp, count string) bool {
	isAnchor := re.Op == syntax.OpBeginText || re.Op == syntax.OpEndText
	if isAnchor && count != "" {
		return false
	}
	if re.Op == syntax.OpAlternate || re.Op == syntax.OpEmptyMatch || count != "" && !(re.Op == syntax.OpLiteral && len(re.Rune) == 1 || re.Op == syntax.OpCharClass) {
		b.WriteString("(?:")
		if re.Op != syntax.OpEmptyMatch && !writePattern(b, re) {
			return false
		}
		b.WriteString(")" + count)
		return true
	}
	if !writePattern(b, re) {
		return false
	}
	b.WriteString(count)
	return true
}

// writeSet appends a set of characters, given by the ends of ranges.
func writeSet(b *strings.Builder, ranges []rune) bool {
	if len(ranges) == 0 {
		return false
	}
	b.WriteByte('[')
	for i := 0; i < len(ranges); i += 2 {
		lo, hi := max(ranges[i], 1), ranges[i+1]
		if hi < lo {
			continue
		}
		writeRune(b, lo)
		if hi > lo {
			b.WriteByte('-')
			writeRune(b, hi)
		}
	}
	b.WriteByte(']')
	return true
}

// writeRune appends a character: letters and digits as they are, others by number.
func writeRune(b *strings.Builder, r rune) {
	switch {
	case r >= '0' && r <= '9', r >= 'a' && r <= 'z', r >= 'A' && r <= 'Z':
		b.WriteRune(r)
	case r < 0x10000:
		fmt.Fprintf(b, "\\u%04X", r)
	default:
		fmt.Fprintf(b, "\\U%08X", r)
	}
}
