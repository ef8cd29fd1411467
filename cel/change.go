package cel

import (
	"cmp"
	"slices"
	"strconv"

	"github.com/google/cel-go/common/ast"
	"github.com/google/cel-go/common/operators"
	"github.com/google/cel-go/common/types"

	"github.com/keelson-io/keelson/cel/internal/eval"
	"github.com/keelson-io/keelson/cel/internal/val"
)

// This file lists small changes of an expression, for mutation tests: a suite that is good notices each
// of them.
//
// Changes are made in the text, so that a report can show what a user would have written. The operands
// that a change keeps are put in parentheses, because the text of a part does not include those around
// it. A change of a part that is computed when the expression is compiled is a change of its constants.

// Change is a small change of an expression: its bytes from Start to End become Text.
type Change struct {
	Start, End int
	Text       string
	What       string // what changes, such as "&& becomes ||"
}

// Apply returns the changed expression.
func (c Change) Apply(expr string) string { return expr[:c.Start] + c.Text + expr[c.End:] }

// swaps has operators and their replacements, by the function that an operator calls. A comparison
// becomes the one that differs in equal values only, which is the mistake that is made most.
var swaps = map[string][2]string{
	operators.LogicalAnd:    {"&&", "||"},
	operators.LogicalOr:     {"||", "&&"},
	operators.Less:          {"<", "<="},
	operators.LessEquals:    {"<=", "<"},
	operators.Greater:       {">", ">="},
	operators.GreaterEquals: {">=", ">"},
	operators.Equals:        {"==", "!="},
	operators.NotEquals:     {"!=", "=="},
	operators.Add:           {"+", "-"},
	operators.Subtract:      {"-", "+"},
	operators.Multiply:      {"*", "/"},
	operators.Divide:        {"/", "*"},
	operators.Modulo:        {"%", "*"},
}

// macroSwaps has the macros that become others.
var macroSwaps = map[string]string{operators.All: operators.Exists, operators.Exists: operators.All, operators.ExistsOne: operators.Exists}

// Changes returns small changes of the expression in the order of its text: operators become others,
// operands are dropped, conditions are negated, constants change. Some changed expressions may not
// compile. Each constant and each operator has at most a few changes.
func (e *Explainer) Changes() []Change {
	var out []Change
	add := func(start, end int, text, what string) {
		if start < end && e.source[start:end] != text {
			out = append(out, Change{start, end, text, what})
		}
	}
	for n := range e.probe.Parts {
		part, at := &e.probe.Parts[n], e.spans[n]
		if at.start >= at.end {
			continue
		}
		switch {
		case part.Macro != nil:
			e.changeMacro(part, at, add)
		case part.Expr.Kind() == ast.CallKind:
			e.changeCall(int32(n), part, at, add)
		case part.Expr.Kind() == ast.LiteralKind:
			e.changeLiteral(part, at, add)
		case part.Bool && part.Constant.K == val.KindNone && (part.Compiled || n == 0):
			add(at.start, at.end, "!"+e.source[at.start:at.end], "the condition is negated")
		}
	}
	slices.SortStableFunc(out, func(a, b Change) int {
		return cmp.Or(cmp.Compare(a.Start, b.Start), cmp.Compare(a.End, b.End), cmp.Compare(a.Text, b.Text))
	})
	return slices.CompactFunc(out, func(a, b Change) bool { return a.Start == b.Start && a.End == b.End && a.Text == b.Text })
}

// changeMacro adds the changes of a macro.
func (e *Explainer) changeMacro(part *eval.Part, at span, add func(start, end int, text, what string)) {
	if part.Bool {
		add(at.start, at.end, "!"+e.source[at.start:at.end], "the condition is negated")
	}
	name := part.Macro.AsCall().FunctionName()
	other, ok := macroSwaps[name]
	if !ok || len(part.Parts) == 0 {
		return
	}
	if token, ok := e.tokenBetween(e.spans[part.Parts[0]].end, at.end, name); ok {
		add(token.start, token.end, other, name+"() becomes "+other+"()")
	}
}

// changeCall adds the changes of an operator or a function.
func (e *Explainer) changeCall(n int32, part *eval.Part, at span, add func(start, end int, text, what string)) {
	name := part.Expr.AsCall().FunctionName()
	text := func(child int32) string {
		s := e.spans[child]
		return "(" + e.source[s.start:s.end] + ")"
	}
	if swap, ok := swaps[name]; ok && len(part.Parts) == 2 {
		if token, ok := e.tokenBetween(e.spans[part.Parts[0]].end, e.spans[part.Parts[1]].start, swap[0]); ok {
			add(token.start, token.end, swap[1], swap[0]+" becomes "+swap[1])
		}
	}
	switch {
	case (name == operators.LogicalAnd || name == operators.LogicalOr) && len(part.Parts) == 2:
		add(at.start, at.end, text(part.Parts[0]), "the right operand is dropped")
		add(at.start, at.end, text(part.Parts[1]), "the left operand is dropped")
	case name == operators.LogicalNot && len(part.Parts) == 1:
		add(at.start, at.end, text(part.Parts[0]), "the negation is dropped")
	case name == operators.Conditional && len(part.Parts) == 3:
		add(at.start, at.end, text(part.Parts[1]), "always the first value")
		add(at.start, at.end, text(part.Parts[2]), "always the second value")
	case part.Bool && swaps[name] == [2]string{} && part.Constant.K == val.KindNone:
		add(at.start, at.end, "!("+e.source[at.start:at.end]+")", "the condition is negated")
	}
}

// changeLiteral adds the changes of a constant.
func (e *Explainer) changeLiteral(part *eval.Part, at span, add func(start, end int, text, what string)) {
	text := ""
	switch v := part.Expr.AsLiteral().(type) {
	case types.Bool:
		text = strconv.FormatBool(!bool(v))
	case types.Int:
		text = strconv.FormatInt(int64(v)+1, 10)
	case types.Uint:
		text = strconv.FormatUint(uint64(v)+1, 10) + "u"
	case types.Double:
		text = strconv.FormatFloat(float64(v)+1, 'f', -1, 64)
		if float64(v)+1 == float64(int64(v)+1) {
			text += ".0"
		}
	case types.String:
		if text = `""`; v == "" {
			text = `"x"`
		}
	default:
		return
	}
	add(at.start, at.end, text, "the constant changes")
}

// tokenBetween returns the first token with that text between two offsets. Between the operands of an
// operator there are only its own token, parentheses and comments, and comments are not tokens. Between
// the target and the first argument of a macro there is only its name. So the first token is the one
// that is meant. It is missing if the part is not written as an operator.
func (e *Explainer) tokenBetween(start, end int, text string) (found span, ok bool) {
	i, _ := slices.BinarySearchFunc(e.places.tokens, start, func(t span, at int) int { return cmp.Compare(t.start, at) })
	for ; i < len(e.places.tokens) && e.places.tokens[i].start < end; i++ {
		if t := e.places.tokens[i]; e.source[t.start:t.end] == text {
			return t, true
		}
	}
	return span{}, false
}
