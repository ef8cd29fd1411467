package match

import (
	"context"
	"fmt"

	utilerrors "k8s.io/apimachinery/pkg/util/errors"

	"github.com/keelson-io/keelson/authz/partial"
	"github.com/keelson-io/keelson/cel"
)

// This file evaluates conditions over requests of which parts are not known.

// present is the condition that most lists begin with.
const present = "has(request.resourceAttributes)"

// Partial says when the conditions hold. The error is that of conditions that
// cannot be evaluated whatever the rest is; then what is returned is when it
// comes about, since a condition that is false makes up for it.
func (c *Conditions) Partial(ctx context.Context, r *partial.Request) (partial.Condition, error) {
	if c == nil {
		return partial.Known(true), nil
	}
	l, err := language()
	if err != nil {
		return partial.Known(true), err
	}
	var unknown []cel.Pattern
	for part := range r.Unknown {
		p, err := l.Pattern(r.Term(part))
		if err != nil {
			return partial.Known(true), err
		}
		unknown = append(unknown, p)
	}
	vars := of(r.Attributes, c.fields, c.labels).vars
	when := partial.Known(true)
	var errs []error
	for _, x := range c.list {
		o, _, err := x.Partial(ctx, vars, unknown, costLimit)
		switch {
		case err != nil:
			errs = append(errs, fmt.Errorf("cel evaluation error: expression '%v' resulted in error: %w", x.Source(), err))
		case !o.Known && o.Residual == present && r.ResourceRequest:
			// What kind of request it is is known, whatever its parts are.
		case !o.Known:
			when = partial.All(when, partial.Expression(o.Residual))
		case !o.Value.Bool():
			return partial.Known(false), nil
		}
	}
	if len(errs) > 0 {
		return when, utilerrors.NewAggregate(errs)
	}
	return when, nil
}
