package cel

import (
	"context"
	"errors"
	"sync"

	"github.com/google/cel-go/common"
	"github.com/google/cel-go/common/ast"

	"github.com/keelson-io/keelson/cel/internal/eval"
	"github.com/keelson-io/keelson/cel/internal/fast"
	"github.com/keelson-io/keelson/cel/internal/val"
)

// This file evaluates expressions so that their result can be explained: with a program that is
// compiled for this purpose and records what each part evaluates to. The usual programs know nothing
// of it. A rule's tree is not kept, so that the rule is parsed and checked once more.
//
// Results, errors and costs are those of the usual program. The module conformance compares them for
// random expressions, and lets cel-go compute each part from the values of its parts.

// Explainer is an expression that is compiled so that each part records its value. It is immutable
// and safe for concurrent use. It has the results and the costs of the usual program.
type Explainer struct {
	source string
	tree   *ast.AST
	probe  *eval.Probe
	places *sourceMap
	spans  []span

	rule   *fast.Program // of a rule, otherwise nil
	value  val.EvalFn    // of an expression of a Language
	slots  int
	inputs []eval.Input

	free sync.Pool // of *Explanation, for their memory
}

// maxParts is the number of parts of an expression that are recorded.
const maxParts = 4096

// Explainer compiles a rule so that its result can be explained. The arguments are those of Compile.
func (ts *TypeSet) Explainer(expr string, self *Type, o CompileOptions) (*Explainer, error) {
	tree, err := ts.check.CheckTracked(expr, self, o)
	if err != nil {
		return nil, err
	}
	e := newExplainer(expr, tree)
	if e.rule, err = eval.InstrumentRule(ts.env.decls, e.probe, tree, self, o.OptionalOldSelf); err != nil {
		return nil, instantiationFailed(o, err)
	}
	return e, nil
}

// Explainer compiles the expression so that its result can be explained. It does so once.
func (x *Expression) Explainer() (*Explainer, error) {
	x.explainOnce.Do(func() {
		e := newExplainer(x.source, x.tree)
		lc := &eval.LangCompiler{Lang: &x.lang.words, Unchecked: x.unchecked, Slots: map[string]int{}, Probe: e.probe}
		root, slots, err := lc.Compile(x.tree)
		if err != nil {
			x.explainErr = &InstantiationError{err}
			return
		}
		e.value, e.slots, e.inputs = root.Eval, slots, lc.Inputs
		x.explainer = e
	})
	return x.explainer, x.explainErr
}

// newExplainer returns an Explainer that is not compiled yet.
func newExplainer(source string, tree *ast.AST) *Explainer {
	e := &Explainer{source: source, tree: tree, probe: eval.NewProbe(tree, maxParts), places: newSourceMap(source)}
	e.spans = e.places.spans(e.probe, tree.SourceInfo())
	return e
}

// Source returns the text of the expression.
func (e *Explainer) Source() string { return e.source }

// EvalRule evaluates a rule, with the parameters of [Program.Eval].
func (e *Explainer) EvalRule(ctx context.Context, a *Activation, limit uint64) *Explanation {
	if e.rule == nil {
		panic("BUG: EvalRule of an expression that is not a rule")
	}
	x := e.explanation()
	x.Value, x.Cost, x.Err = e.rule.EvalRecorded(ctx, a, limit, x.rec)
	return x
}

// Eval evaluates an expression of a [Language], with the parameters of [Expression.Eval].
func (e *Explainer) Eval(ctx context.Context, vars Vars, limit uint64) *Explanation {
	if e.rule != nil {
		panic("BUG: Eval of a rule")
	}
	x := e.explanation()
	x.frame.Rec = x.rec
	x.Value, x.Cost, x.Err = eval.RunIn(ctx, &x.frame, e.value, e.slots, limit, e.inputs, vars)
	return x
}

// Explanation is an evaluation whose result can be explained. It refers to the memory of the data.
type Explanation struct {
	Value Value // the result, if Err is nil
	Cost  uint64
	Err   error // the error that is the result, or the reason why the evaluation ended

	explainer *Explainer
	rec       *val.Recording
	frame     val.Frame
}

// explanation returns an Explanation without a result.
func (e *Explainer) explanation() *Explanation {
	if x, ok := e.free.Get().(*Explanation); ok {
		return x
	}
	return &Explanation{explainer: e, rec: e.probe.NewRecording()}
}

// Release gives the memory of an Explanation back, for the next one. Parts that Root returned stay
// valid. Calling it is optional.
func (x *Explanation) Release() {
	x.rec.Reset()
	x.Value, x.Cost, x.Err = Value{}, 0, nil
	x.explainer.free.Put(x)
}

// ErrorText returns the text of Err with the line of the expression and a mark under the part that
// failed. It returns "" if Err is nil.
func (x *Explanation) ErrorText() string {
	if x.Err == nil {
		return ""
	}
	e := x.explainer
	at := e.tree.Expr().ID()
	if !errors.Is(x.Err, ErrCostLimit) && !errors.Is(x.Err, ErrInterrupted) {
		at = x.culprit(0, x.Err.Error(), at)
	}
	place := e.tree.SourceInfo().GetStartLocation(at)
	return (&common.Error{Location: place, Message: x.Err.Error()}).ToDisplayString(common.NewStringSource(e.source, "<input>"))
}

// culprit returns the node of the innermost, leftmost part at n or below whose error has the text
// words; otherwise what it got as otherwise.
func (x *Explanation) culprit(n int32, words string, otherwise int64) int64 {
	part := &x.explainer.probe.Parts[n]
	v := x.valueOf(n)
	if v.K != KindError && v.K != KindNone || v.K == KindError && v.Err().Error() != words {
		return otherwise
	}
	found := otherwise
	if v.K == KindError {
		found = part.Expr.ID()
	}
	for _, child := range part.Parts {
		if at := x.culprit(child, words, found); at != found {
			return at
		}
	}
	return found
}

// valueOf returns the value of a part, KindNone if it was not evaluated.
func (x *Explanation) valueOf(n int32) Value {
	part := &x.explainer.probe.Parts[n]
	if part.Constant.K != KindNone {
		return part.Constant
	}
	return x.rec.Values[n]
}
