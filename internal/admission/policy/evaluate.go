package policy

import (
	"context"
	"strings"
	"time"

	"github.com/keelson-io/keelson/cel"
	"github.com/keelson-io/keelson/internal/admission/conditions"
)

// This file evaluates validating policies.

// evaluation is one evaluation of a policy: its inputs and results.
type evaluation struct {
	*program
	ctx context.Context
	in  *conditions.Input

	decisions []decision
	notes     []published
	failures  []decision // denials because of failed audit annotations
	costs     Costs
}

// failure returns the decision for an error, according to the failurePolicy.
func (p *program) failure(message string, why cause) decision {
	return decision{admit: p.ignore, failed: true, why: why, message: message}
}

// broken replaces all results by the decision for an error.
func (e *evaluation) broken(err error) {
	e.decisions, e.notes, e.failures = append(e.decisions[:0], e.failure(err.Error(), causeOf(err))), nil, nil
}

// run evaluates the policy for a request.
func (e *evaluation) run() {
	if e.conditions != nil {
		blind := e.in.Matching()
		e.variables.bind(e.ctx, blind)
		ok, err := e.conditions.Match(e.ctx, blind)
		e.costs.Conditions = blind.Spent()
		if err != nil {
			e.broken(err)
		}
		if err != nil || !ok {
			return
		}
	}
	err := e.validate()
	if err == nil && len(e.annotations) > 0 {
		err = e.annotate()
	}
	if err != nil {
		e.broken(err)
	}
}

// validate evaluates the validations and their messages.
func (e *evaluation) validate() error {
	budget := conditions.NewBudget(conditions.EvaluateBudget)
	e.variables.bind(e.ctx, e.in)
	defer func() { e.costs.Expressions += e.in.Spent() }()
	start := time.Now()
	for i := range e.validations {
		v, failed, err := e.validations[i].Eval(e.ctx, e.in, budget)
		d := decision{number: i}
		switch {
		case err != nil:
			return err
		case failed != nil:
			d = e.failure(failed.Error(), causeOf(failed))
			d.number = i
		case v.Kind() == cel.KindBool && v.Bool():
			d.admit = true
		default:
			d.reason = e.validations[i].reason
		}
		end := time.Now()
		d.took, start = end.Sub(start), end
		e.decisions = append(e.decisions, d)
	}
	said, err := e.messages(budget)
	for i := range e.decisions {
		switch d := &e.decisions[i]; {
		case d.failed:
		case err != nil:
			took := d.took
			*d = e.failure("failed messageExpression: "+err.Error(), causeInvalid)
			d.number, d.took = i, took
		case !d.admit:
			text := ""
			if said != nil {
				text = said[i]
			}
			d.message = e.validations[i].explain(text)
		}
	}
	return nil
}

// messages evaluates all message expressions, which have no variable authorizer, and returns the
// messages.
func (e *evaluation) messages(budget *conditions.Budget) ([]string, error) {
	if !e.hasMessages {
		return nil, nil
	}
	said := make([]string, len(e.validations))
	telling := e.in.WithoutAuthorizer()
	e.variables.bind(e.ctx, telling)
	defer func() { e.costs.Expressions += telling.Spent() }()
	for i := range e.validations {
		x := e.validations[i].say
		if x == nil {
			continue
		}
		v, failed, err := x.Eval(e.ctx, telling, budget)
		if err != nil {
			return nil, err
		}
		if failed == nil && v.Kind() == cel.KindString {
			said[i] = strings.Clone(v.Str())
		}
	}
	return said, nil
}

// annotate evaluates the audit annotations.
func (e *evaluation) annotate() error {
	telling := e.in.WithoutAuthorizer()
	e.variables.bind(e.ctx, telling)
	defer func() { e.costs.Annotations = telling.Spent() }()
	budget := conditions.NewBudget(conditions.EvaluateBudget)
	for i := range e.annotations {
		a := &e.annotations[i]
		start := time.Now()
		v, failed, err := a.Eval(e.ctx, telling, budget)
		switch {
		case err != nil:
			return err
		case failed != nil && e.ignore:
		case failed != nil:
			e.failures = append(e.failures, decision{failed: true, why: causeOf(failed), message: failed.Error(), took: time.Since(start)})
		case v.Kind() == cel.KindString:
			if value := strings.TrimSpace(v.Str()); value != "" {
				e.notes = append(e.notes, published{a.key, strings.Clone(value)})
			}
		}
	}
	return nil
}
