package conditions

import (
	"context"
	"time"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	utilerrors "k8s.io/apimachinery/pkg/util/errors"

	"github.com/keelson-io/keelson/cel"
	"github.com/keelson-io/keelson/internal/admission"
	"github.com/keelson-io/keelson/internal/requests"
)

// This file evaluates match conditions: expressions that must be true for a webhook or policy to
// apply.

// Matcher is a compiled list of match conditions.
type Matcher struct {
	names       []string
	expressions []*Expression
	ignore      bool // failurePolicy is Ignore
	metrics     *admission.Metrics
	owner       admission.Conditions
}

// NewMatcher compiles match conditions. It returns nil, which matches every request, if the list is
// empty.
func NewMatcher(l *requests.Language, list []admissionv1.MatchCondition, policy *admissionv1.FailurePolicyType, m *admission.Metrics, owner admission.Conditions) *Matcher {
	if len(list) == 0 {
		return nil
	}
	out := &Matcher{ignore: policy != nil && *policy == admissionv1.Ignore, metrics: m, owner: owner}
	for _, c := range list {
		out.names = append(out.names, c.Name)
		out.expressions = append(out.expressions, Compile(l, c.Expression, "bool"))
	}
	return out
}

// Match reports whether all conditions are true. If one is false, the request does not match.
// Otherwise, if one failed, Match returns its error, or false with the failure policy Ignore.
func (m *Matcher) Match(ctx context.Context, in *Input) (bool, error) {
	if m == nil {
		return true, nil
	}
	start, op := time.Now(), in.Request.Operation
	defer func() { m.metrics.ConditionTime(m.owner, op, time.Since(start)) }()
	budget := NewBudget(MatchBudget)
	if in.Account == nil {
		in.Account = new(cel.Account)
	}
	// All conditions are evaluated before any result counts: an exceeded budget is the more
	// important result.
	var failed []error
	excluded, errs := false, 0
	for _, x := range m.expressions {
		v, bad, err := x.Eval(ctx, in, budget)
		switch {
		case err != nil:
			return false, m.fail(err)
		case excluded:
		case bad != nil:
			failed = append(failed, bad)
			errs++
		case v.Kind() == cel.KindBool && !v.Bool():
			excluded = true
		}
	}
	for range errs {
		m.metrics.ConditionError(m.owner, op)
	}
	switch {
	case excluded:
		return false, nil
	case len(failed) > 0:
		return false, m.fail(utilerrors.NewAggregate(failed))
	}
	return true, nil
}

// fail applies the failure policy to an error.
func (m *Matcher) fail(err error) error {
	if m.ignore {
		return nil
	}
	return err
}
