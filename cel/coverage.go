package cel

import (
	"context"

	"github.com/google/cel-go/common/ast"

	"github.com/keelson-io/keelson/cel/internal/eval"
	"github.com/keelson-io/keelson/cel/internal/val"
)

// This file collects which parts of an expression several evaluations reached, with the instrumented
// programs that explanations have.
//
// Terms. A decision is an expression of && || ! and ?: that is not an operand of one: a whole rule, the
// predicate of a macro, an argument of a function. Its conditions are the operands that are not such
// expressions. A decision in a macro is made once for each element.
//
// A condition decides if the decision had both results, each because of this condition: no operator
// between the condition and the decision had its value because of another operand. This is masking
// MC/DC. With two evaluations of a && b, a decides by the pair (true, true) and (false, not evaluated),
// b by (true, true) and (true, false). An error decides nothing, because it is not a result.

// Coverage collects the outcomes that the parts of one expression had in several evaluations. It is
// not safe for concurrent use.
type Coverage struct {
	explainer *Explainer
	rec       *val.Recording
	frame     val.Frame
}

// NewCoverage returns a Coverage without evaluations.
func (e *Explainer) NewCoverage() *Coverage {
	c := &Coverage{explainer: e, rec: e.probe.NewRecording()}
	c.rec.KeepSeen()
	return c
}

// EvalRule evaluates a rule, with the parameters and the results of [Program.Eval], and collects the
// outcomes of its parts.
func (c *Coverage) EvalRule(ctx context.Context, a *Activation, limit uint64) (Value, uint64, error) {
	c.rec.Reset()
	return c.explainer.rule.EvalRecorded(ctx, a, limit, c.rec)
}

// Eval evaluates an expression of a [Language], with the parameters of [Expression.Eval], and collects
// the outcomes of its parts.
func (c *Coverage) Eval(ctx context.Context, vars Vars, limit uint64) (Value, uint64, error) {
	c.rec.Reset()
	c.frame.Rec = c.rec
	return eval.RunIn(ctx, &c.frame, c.explainer.value, c.explainer.slots, limit, c.explainer.inputs, vars)
}

// PartCoverage is what several evaluations reached of a part of an expression.
type PartCoverage struct {
	Text  string `json:"text"`  // shortened if it is long
	Start int    `json:"start"` // offset in the expression, in bytes
	End   int    `json:"end"`   // offset of the byte behind it
	Depth int    `json:"depth"` // the number of parts around it; 0 for the whole expression

	// Bool says that the type of the part is bool. True and False are the values that it had.
	Bool  bool `json:"bool"`
	True  bool `json:"true,omitempty"`
	False bool `json:"false,omitempty"`
	// Evaluated says that the part was evaluated. Error says that it failed, and Absorbed that
	// a result did not depend on this.
	Evaluated bool `json:"evaluated,omitempty"`
	Error     bool `json:"error,omitempty"`
	Absorbed  bool `json:"absorbed,omitempty"`
	// Condition says that the part is one of several conditions that && || ! and ?: combine.
	// Decides says that there were two evaluations with different values of the condition and
	// different results, each because of this value (MC/DC).
	Condition bool `json:"condition,omitempty"`
	Decides   bool `json:"decides,omitempty"`
}

// Parts returns the parts of the expression, in the order of the text, each before its own parts.
// Constants, names of variables, the beginnings of paths and negations are left out, and so are the
// parts behind the first 4,096.
func (c *Coverage) Parts() []PartCoverage {
	e := c.explainer
	conditions := map[int32]bool{}
	for n := range e.probe.Parts {
		for _, i := range e.probe.Conditions(int32(n)) {
			conditions[i] = true
		}
	}
	var out []PartCoverage
	c.parts(0, 0, false, conditions, &out)
	return out
}

// parts appends part n and its parts. ofPath says that n is what a field is selected from.
func (c *Coverage) parts(n int32, depth int, ofPath bool, conditions map[int32]bool, out *[]PartCoverage) {
	e := c.explainer
	part := &e.probe.Parts[n]
	if !part.Compiled || part.Constant.K != val.KindNone && n > 0 {
		return
	}
	kind := part.Expr.Kind()
	selects := kind == ast.SelectKind && part.Macro == nil
	if n == 0 || part.Bool && !e.probe.IsNot(n) || !part.Bool && !(ofPath && selects) && kind != ast.IdentKind && kind != ast.LiteralKind {
		seen, at := c.rec.Seen[n], e.spans[n]
		*out = append(*out, PartCoverage{
			Text: shortened(e.source[at.start:at.end], maxShownText), Start: at.start, End: at.end, Depth: depth, Bool: part.Bool,
			True: seen&val.SeenTrue != 0, False: seen&val.SeenFalse != 0, Evaluated: seen != 0,
			Error: seen&val.SeenError != 0, Absorbed: seen&val.SeenAbsorbed != 0,
			Condition: conditions[n], Decides: conditions[n] && seen.Decides(),
		})
		depth++
	}
	for _, child := range part.Parts {
		c.parts(child, depth, selects, conditions, out)
	}
}
