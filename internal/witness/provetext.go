package witness

import (
	"fmt"
	"regexp"
	"strings"

	"github.com/google/cel-go/common/ast"
	"github.com/google/cel-go/common/operators"

	"github.com/keelson-io/keelson/schema/structural"
)

// This file proves properties of conditions on one text: tests such as matches and contains become
// automata, and the pattern of the schema is another one.

// textProof has the tests of a condition on one text.
type textProof struct {
	name  string // of the variable that has the text
	tests []string
	index map[string]int
}

// maxTests is the greatest number of different tests in a condition that is proved.
const maxTests = 7

// proveTexts proves a condition on a text, or on all texts of a list.
func (s *Search) proveTexts(e ast.Expr, n *structural.Schema, want Want) (string, bool) {
	p := &textProof{name: "self", index: map[string]int{}}
	if m, ok := asMacro(e); ok && m.name == "all" && isIdent(m.over, "self") && len(m.names) == 1 && n.Items != nil && want != Accept {
		e, n, p.name = m.body, n.Items, m.names[0]
	}
	if n.Type != "string" || n.Format != "" || n.Nullable || len(enumOf(n)) > 0 || !p.collect(e) || len(p.tests) == 0 || len(p.tests) > maxTests {
		return "", false
	}
	var schema []textRule
	v := valuesOf(n)
	low, high := 0, 1<<30
	for _, r := range append([]*structural.Values{v}, nestedValues(v.AllOf)...) {
		if r.Pattern != "" {
			schema = append(schema, textRule{r.Pattern, true})
		}
	}
	if v.MinLength != nil && *v.MinLength < 8 {
		low = int(*v.MinLength)
	}
	for assignment := range 1 << len(p.tests) {
		is := func(test string) bool { return assignment>>p.index[test]&1 == 1 }
		result, fails := p.evaluate(e, is)
		if want == Accept && (fails || !result) || want == Refuse && (fails || result) || want == Fail && !fails {
			continue
		}
		conditions := schema
		for _, test := range p.tests {
			conditions = append(conditions[:len(conditions):len(conditions)], textRule{test, is(test)})
		}
		if texts, all := members(conditions, low, high, 1); len(texts) > 0 || !all {
			return "", false
		}
	}
	return fmt.Sprintf("the pattern of the schema, and the %d tests of the rule, leave no text with this result", len(p.tests)), true
}

// nestedValues returns the restrictions of schemas below a junctor.
func nestedValues(list []*structural.Nested) []*structural.Values {
	var out []*structural.Values
	for _, n := range list {
		out = append(out, &n.Values)
	}
	return out
}

// collect adds the tests of e. It returns false if e is not made of tests of the text.
func (p *textProof) collect(e ast.Expr) bool {
	if e.Kind() == ast.LiteralKind {
		_, ok := e.AsLiteral().Value().(bool)
		return ok
	}
	if e.Kind() != ast.CallKind {
		return false
	}
	switch e.AsCall().FunctionName() {
	case operators.LogicalAnd, operators.LogicalOr, operators.LogicalNot, operators.Conditional:
		for _, a := range e.AsCall().Args() {
			if !p.collect(a) {
				return false
			}
		}
		return true
	}
	tests, ok := p.testsOf(e)
	for _, t := range tests {
		if _, known := p.index[t]; !known {
			p.index[t] = len(p.tests)
			p.tests = append(p.tests, t)
		}
	}
	return ok
}

// testsOf returns the patterns of a test. The test is true if one matches. If there are two and the
// second starts with short, the test fails unless that one does not match.
func (p *textProof) testsOf(e ast.Expr) (patterns []string, ok bool) {
	c := e.AsCall()
	args := c.Args()
	switch c.FunctionName() {
	case operators.Equals, operators.NotEquals:
		for i := range 2 {
			if text, ok := constantText(args[1-i]); ok && isIdent(args[i], p.name) {
				return []string{`\A` + regexp.QuoteMeta(text) + `\z`}, true
			}
		}
	case operators.In, operators.OldIn:
		if !isIdent(args[0], p.name) || args[1].Kind() != ast.ListKind {
			return nil, false
		}
		for _, item := range args[1].AsList().Elements() {
			text, ok := constantText(item)
			if !ok {
				return nil, false
			}
			patterns = append(patterns, regexp.QuoteMeta(text))
		}
		return []string{`\A(?:` + strings.Join(patterns, "|") + `)\z`}, len(patterns) > 0
	case "matches", "contains", "startsWith", "endsWith":
		if !c.IsMemberFunction() || len(args) != 1 {
			return nil, false
		}
		text, ok := constantText(args[0])
		if !ok {
			return nil, false
		}
		return p.testOf(c.FunctionName(), text, c.Target())
	}
	return nil, false
}

// testOf is testsOf for the functions on texts.
func (p *textProof) testOf(function, text string, target ast.Expr) (patterns []string, ok bool) {
	if isIdent(target, p.name) {
		switch function {
		case "matches":
			return []string{text}, true
		case "contains":
			return []string{regexp.QuoteMeta(text)}, true
		case "startsWith":
			return []string{`\A` + regexp.QuoteMeta(text)}, true
		}
		return []string{regexp.QuoteMeta(text) + `\z`}, true
	}
	if !isCall(target, "substring") || function != "matches" || !isIdent(target.AsCall().Target(), p.name) || len(target.AsCall().Args()) != 1 {
		return nil, false
	}
	from := target.AsCall().Args()[0]
	n, isInt := int64(0), false
	if from.Kind() == ast.LiteralKind {
		n, isInt = from.AsLiteral().Value().(int64)
	}
	rest, anchored := strings.CutPrefix(text, "^")
	if !isInt || n < 0 || n > 16 || !anchored || strings.Contains(rest, "|") && !strings.HasPrefix(rest, "(") {
		return nil, false
	}
	return []string{fmt.Sprintf(`\A(?s:.{%d})(?:%s)`, n, rest), fmt.Sprintf(`\A(?s:.{0,%d})\z`, n-1)}, n > 0
}

// constantText returns the value of a text literal.
func constantText(e ast.Expr) (string, bool) {
	if e.Kind() != ast.LiteralKind {
		return "", false
	}
	text, ok := e.AsLiteral().Value().(string)
	return text, ok
}

// evaluate returns the result of e if the tests have these results. fails says that it is an error.
func (p *textProof) evaluate(e ast.Expr, is func(test string) bool) (result, fails bool) {
	if e.Kind() == ast.LiteralKind {
		result, _ = e.AsLiteral().Value().(bool)
		return result, false
	}
	c := e.AsCall()
	args := c.Args()
	switch name := c.FunctionName(); name {
	case operators.LogicalNot:
		result, fails = p.evaluate(args[0], is)
		return !result, fails
	case operators.LogicalAnd, operators.LogicalOr:
		decides := name == operators.LogicalOr
		for _, a := range args {
			result, failed := p.evaluate(a, is)
			if !failed && result == decides {
				return decides, false
			}
			fails = fails || failed
		}
		return !decides, fails
	case operators.Conditional:
		condition, failed := p.evaluate(args[0], is)
		switch {
		case failed:
			return false, true
		case condition:
			return p.evaluate(args[1], is)
		}
		return p.evaluate(args[2], is)
	case operators.NotEquals:
		tests, _ := p.testsOf(e)
		return !is(tests[0]), false
	}
	tests, _ := p.testsOf(e)
	return is(tests[0]), len(tests) > 1 && is(tests[1])
}
