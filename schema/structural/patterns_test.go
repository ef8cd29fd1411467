package structural

import (
	"fmt"
	"regexp/syntax"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/keelson-io/keelson/internal/dfa"
)

// TestPatterns holds that wrong patterns are reported in regexp's words, and
// that those of one schema cannot be too large together.
// Ledger: schema-patterns.
func TestPatterns(t *testing.T) {
	schema := func(patterns ...string) *Schema {
		s := &Schema{Type: "object", Properties: map[string]*Schema{}}
		for i, p := range patterns {
			name := fmt.Sprintf("p%04d", i)
			s.Names = append(s.Names, name)
			s.Properties[name] = &Schema{Type: "string", Values: &Values{Pattern: p}}
		}
		return s
	}
	large := func(n int) (out []string) {
		for i := range n {
			out = append(out, fmt.Sprintf("^(a|%d){1000}$", i))
		}
		return out
	}
	for _, row := range []struct {
		patterns []string
		want     string
	}{
		{[]string{"^a$", "^a$"}, ""},
		{[]string{"("}, "schema.properties[p0000].pattern: Invalid value: \"(\": must be a valid regular expression, but isn't: error parsing regexp: missing closing ): `(`"},
		{[]string{"((a{1000}){1000}){1000}"}, "invalid repeat count"},
		{large(10), ""},
		{large(100), "schema: Forbidden: the patterns of the schema are too large: "},
		{append(large(1), strings.Split(strings.Repeat("^(b|c){1000}$ ", 1000), " ")...), ""}, // equal ones count once
	} {
		errs := Validate(schema(row.patterns...), field.NewPath("schema"))
		switch {
		case row.want == "" && len(errs) > 0:
			t.Errorf("%.60q: got %v", row.patterns, errs)
		case row.want != "" && (len(errs) != 1 || !strings.Contains(errs[0].Error(), row.want)):
			t.Errorf("%.60q: got %v, want %s", row.patterns, errs, row.want)
		}
	}
	below := &Schema{Type: "object", Values: &Values{OneOf: []*Nested{{Values: Values{Not: &Nested{Values: Values{Pattern: "((a{900}){900})"}}}}}}}
	if errs := Validate(below, field.NewPath("schema")); len(errs) == 0 {
		t.Error("a large pattern below a junctor is accepted")
	}
}

// TestInstructions holds the estimate against what patterns compile to.
func TestInstructions(t *testing.T) {
	for _, pattern := range []string{"^a$", "(a|b){1000}", "[a-z0-9]([-a-z0-9]*[a-z0-9])?", "x{3,}", "(ab){2,500}", `^(\d{1,3}\.){3}\d{1,3}$`, "", "a*b+c?"} {
		re, err := syntax.Parse(pattern, syntax.Perl)
		if err != nil {
			t.Fatal(err)
		}
		got := dfa.Size(re)
		prog, err := syntax.Compile(re.Simplify())
		if err != nil {
			t.Fatal(err)
		}
		if n := len(prog.Inst); got > 4*n || 4*got < n-8 {
			t.Errorf("%q: estimated %d, compiled %d", pattern, got, n)
		}
	}
}
