package cel_test

import (
	"strings"
	"testing"
)

// This file compares what the parser refuses for being too deep, too long or too wrong.

// TestParserLimits compiles expressions at the limits of depth, length and the number of errors.
func TestParserLimits(t *testing.T) {
	s := structural(t, "{type: object, properties: {a: {type: integer}, l: {type: array, items: {type: integer}}}}")
	data := parseData(t, "{a: 1, l: [1]}")
	up, our := newUpstream(t, s, false), newSubject(t, s, false)
	around := func(before, x, after string, n int) string {
		return strings.Repeat(before, n) + x + strings.Repeat(after, n)
	}
	compiled, refused := 0, 0
	check := func(name, expr string) {
		want, got := normal(up.run(expr, data, data)), normal(our.run(t, expr, data, data))
		if want != got {
			t.Errorf("%s:\n\tupstream %.600v\n\tkeelson  %.600v", name, want, got)
		}
		if got.compile == "" {
			compiled++
		} else {
			refused++
		}
	}
	for _, n := range []int{25, 120, 125, 249, 250, 251, 300} {
		check("parentheses", around("(", "1", ")", n))
		check("lists", around("[", "1", "]", n))
		check("negations", around("!", "true", "", n))
		check("minuses", around("- ", "self.a", "", n))
		check("conditions", around("true ? ", "1", " : 2", n))
		check("indices", around("self.l[", "0", "]", min(n, 60)))
		check("conjunctions", "true"+strings.Repeat(" && true", n))
		check("sums", "1"+strings.Repeat(" + 1", n))
		check("members", "self"+strings.Repeat(".a", n))
		check("calls", "self.l"+strings.Repeat(".map(x, x)", min(n, 30)))
		check("wrong characters", strings.Repeat("# ", n))
		check("undeclared names", "["+strings.Repeat("u, ", n)+"u]")
	}
	long := func(n int) string { return "'" + strings.Repeat("é", n-2) + "' == ''" }
	for _, n := range []int{99_994, 99_995} {
		check("length", long(n))
	}
	if compiled < 20 || refused < 20 {
		t.Errorf("%d compile, %d do not", compiled, refused)
	}
}
