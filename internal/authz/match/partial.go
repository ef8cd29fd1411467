package match

import (
	"context"
	"fmt"

	utilerrors "k8s.io/apimachinery/pkg/util/errors"

	"github.com/keelson-io/keelson/cel"
	"github.com/keelson-io/keelson/internal/authz/partial"
)

// This file evaluates match conditions for requests with unknown parts.

// present is the condition with which most lists begin.
const present = "has(request.resourceAttributes)"

// Partial returns when the conditions hold. The error is that of a condition which fails whatever
// the unknown parts are. In that case the result has the condition under which the failure matters:
// a condition that is false takes precedence over it.
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
			// Whether a request is for a resource is always known.
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
