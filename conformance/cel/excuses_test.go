package cel_test

import (
	"regexp"
	"slices"
	"strings"

	"github.com/google/cel-go/common/ast"
	"github.com/google/cel-go/common/types"
)

// This file says which differences are intended: each excuse is a line of docs/compat.md, or what upstream answers
// differently from time to time. A run prints how often each was used.

// excuse notes that an excuse was used.
func (c *comparison) excuse(name string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.excuses[name]++
}

// reportExcuses prints the excuses with how often they were used.
func (c *comparison) reportExcuses() {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, name := range sortedKeys(c.excuses) {
		c.t.Logf("excused %d times: %s", c.excuses[name], name)
	}
}

// excused reports whether a difference on one datum is intended.
func (c *comparison) excused(p sides, i int, want, got outcome) bool {
	for _, e := range excuses {
		if e.applies(p, want, got) {
			c.excuse(e.name)
			return true
		}
	}
	return strings.HasPrefix(want.err, panicked) && c.excusedPanic("", want.err, p, got) || c.several(p, i, want, got)
}

// excuses are the intended differences, by which outcomes show them.
var excuses = []struct {
	name    string
	applies func(p sides, want, got outcome) bool
}{
	// Ledger: cel-cost-at-limit.
	{"the cost of an evaluation that ends at its limit", func(_ sides, want, got outcome) bool {
		return want.err == costError && got.err == costError
	}},
	// Ledger: cel-go-types.
	{"an index that is an error, in cel-go's words for its Go type", func(_ sides, want, got outcome) bool {
		return want.err == goTypeError+"*types.Err" && got.err != "" && want.cost == got.cost
	}},
	{"the name of the Go type of a host's data", func(_ sides, want, got outcome) bool {
		return strings.HasPrefix(want.err, goTypeError) && strings.HasPrefix(got.err, goTypeError) && want.cost == got.cost
	}},
	// Ledger: cel-language.
	{"a key that a language refuses by its definition", refusedKey},
	// Ledger: cel-map-keys.
	{"lists and maps as keys by identity", keyByIdentity},
	// Ledger: cel-bytes-concat.
	{"bytes that are appended to in memory that others share", overwritten},
	{"a function of a language that follows the definition", byDefinition},
}

// goTypeError names a Go type.
const goTypeError = "invalid qualifier type: "

// Ledger: cel-panics.

// panics are the classes of expressions on which upstream panics: by the text, and by an overload of the expression or what
// stands in it.
var panics = []struct {
	name      string
	text      *regexp.Regexp
	overloads *regexp.Regexp // of one call in the expression; nil: any
	written   string         // stands in the expression, which does not compile
	fails     bool           // here it is an error, unless something absorbs that
}{
	{"panic: a function of lists on something else, or on an error", regexp.MustCompile(`^interface conversion: .* (is not traits\.Lister: missing method (Add|Contains)|is \*?types\.\w+, not types\.Int)$`),
		regexp.MustCompile(`^(list_.*_sortByAssociatedKeys|list_flatten_int|list_distinct|list_.*_sort|list_sets_.*)$`), "", true},
	{"panic: bytes as keys of maps", regexp.MustCompile(`^(runtime error: hash of unhashable type|hash of unhashable type:) types\.Bytes$`), nil, "", false},
	{"panic: optional lists and maps that are compared", regexp.MustCompile(`^runtime error: hash of unhashable type (\[\]|map\[string\])interface \{\}$`), nil, "", false},
	{"panic: optional items of unknown type", regexp.MustCompile(`^runtime error: index out of range \[0\] with length 0$`), nil, "?", false},
}

// excusedPanic reports whether upstream's panic is of a known class, and got can stand in its place. p is nil where the
// expression does not compile.
func (c *comparison) excusedPanic(expr, text string, p sides, got outcome) bool {
	text = strings.TrimPrefix(strings.TrimPrefix(text, "program instantiation failed: "), panicked)
	found := map[string]bool{}
	if p != nil {
		found = p.overloads()
	}
	for _, class := range panics {
		if class.text.MatchString(text) && strings.Contains(expr, class.written) && (class.overloads == nil || slices.ContainsFunc(sortedKeys(found), class.overloads.MatchString)) {
			if class.fails && got.err == "" && !absorbs(found) {
				return false
			}
			c.excuse(class.name)
			return true
		}
	}
	return false
}

// absorbs reports whether an expression with these overloads may have a value where a part of it is an error.
func absorbs(overloads map[string]bool) bool {
	for _, id := range []string{"logical_and", "logical_or", "@not_strictly_false", "equals", "not_equals", "in_list"} {
		if _, ok := overloads[id]; ok {
			return true
		}
	}
	return false
}

// refusedKey reports whether a general language refused a key on purpose: in its own words, or in a loop that failed before, so
// that only the cost of the key's value is missing.
func refusedKey(p sides, want, got outcome) bool {
	pair, plain := p.(*plainPair)
	if !plain || !pair.w.general {
		return false
	}
	return strings.HasPrefix(got.err, "duplicate map key: ") || strings.HasPrefix(got.err, "unsupported key type: ") ||
		got.err != "" && got.err == want.err && got.cost < want.cost && pair.hasOddKey()
}

// hasOddKey reports whether a map literal has a key that may be refused.
func (p *plainPair) hasOddKey() bool {
	odd, tree := false, p.ast.NativeRep()
	ast.PreOrderVisit(tree.Expr(), ast.NewExprVisitor(func(e ast.Expr) {
		if e.Kind() != ast.MapKind {
			return
		}
		for _, entry := range e.AsMap().Entries() {
			switch key := entry.AsMapEntry().Key(); tree.GetType(key.ID()).Kind() {
			case types.StringKind, types.IntKind, types.UintKind, types.BoolKind:
			default:
				odd = true
			}
		}
	}))
	return odd
}

// keyByIdentity reports whether upstream found that a list or a map is a key of a map
// already, because it is one by its identity. Here each is a key of its own, so that the
// evaluation goes on: what comes of it is another thing, but never the same refusal.
func keyByIdentity(p sides, want, got outcome) bool {
	found := p.overloads()
	_, one := found["@mapInsert_map_key_value"]
	_, all := found["@mapInsert_map_map"]
	return (one || all) && (strings.HasPrefix(want.err, "insert failed: key [") || strings.HasPrefix(want.err, "insert failed: key {")) &&
		!strings.HasPrefix(got.err, "insert failed: key [") && !strings.HasPrefix(got.err, "insert failed: key {")
}

// overwritten reports whether values differ after bytes were added: upstream
// appends to the memory of the left operand, which others may share.
func overwritten(p sides, want, got outcome) bool {
	_, adds := p.overloads()["add_bytes"]
	return adds && want.cost == got.cost && want.err == "" && got.err == ""
}

// byDefinition reports whether values may differ because a general language
// follows the definition in a function that a value of any type found. Where
// the type is known, the grammar leaves these functions out.
func byDefinition(p sides, want, got outcome) bool {
	pair, plain := p.(*plainPair)
	if !plain || !pair.w.general || want.cost != got.cost {
		return false
	}
	for id := range p.overloads() {
		if definedOtherwise[id] {
			return true
		}
	}
	return false
}

// several reports whether upstream answers differently from time to time,
// because of Go's order of maps.
func (c *comparison) several(p sides, i int, want, got outcome) bool {
	for range 1000 { // a rare order may need a coincidence in each of several maps
		again := p.upstream(i)
		if again == got {
			c.excuse("upstream's order of maps, which gives this answer as well")
			return true
		}
		if again != want {
			c.excuse("upstream's order of maps, which gives other answers")
			return true
		}
	}
	return false
}
