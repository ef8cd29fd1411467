package schema

import (
	"context"
	"time"

	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/keelson-io/keelson/cel"
	"github.com/keelson-io/keelson/jsondoc"
)

// This file explains why rules refuse an object. It evaluates the rules of an object that was refused
// once more, so that validation itself knows nothing of explanations.

// maxReasons is the number of refusals of one object that are explained. Compiling a rule so that it
// can be explained takes about as long as some thousand evaluations.
const maxReasons = 8

// reasoning collects the reasons of one object.
type reasoning struct {
	env       *cel.Env
	hidden    []string
	explained map[*cel.Program]*cel.Explainer
	list      []Reason
}

// Reasons explains the errors of rules that Validate returned for the same objects: the first of them.
// With hideOld, explanations show nothing of old.
func (p *Program) Reasons(ctx context.Context, next, old *jsondoc.Doc, hideOld bool) []Reason {
	code, err := p.load()
	if err != nil || !code.hasRules {
		return nil
	}
	next, old = code.adopt(next), code.adopt(old)
	code.compileRules()
	r := &reasoning{env: code.options.Env, explained: map[*cel.Program]*cel.Explainer{}}
	if hideOld {
		r.hidden = []string{"oldSelf"}
	}
	var was jsondoc.Value
	if old != nil {
		was = old.Root()
	}
	s := &slowRules{ctx: ctx, budget: objectBudget, reasoning: r}
	s.node(code.root, nil, next.Root(), was, ratchet{own: code.correlate(next, old, new(time.Duration))})
	return r.list
}

// explain adds the reason why a rule refused the value at path.
func (r *reasoning) explain(ctx context.Context, p *cel.Program, a *cel.Activation, path *field.Path) {
	if r == nil || len(r.list) == maxReasons {
		return
	}
	e := r.explained[p]
	if e == nil {
		var err error
		if e, err = r.env.Explainer(p); err != nil {
			return // the program compiled, so that this is a rule whose parts cannot be recorded
		}
		r.explained[p] = e
	}
	at := ""
	if path != nil {
		at = path.String()
	}
	x := e.EvalRule(ctx, a, CallLimit)
	defer x.Release()
	r.list = append(r.list, Reason{at, x.Root(cel.ShowOptions{Hidden: r.hidden, Places: map[string]string{"self": at}})})
}
