// Package match evaluates match conditions, which choose the requests that a webhook decides.
//
// # Model
//
// A condition is a CEL expression over the variable request, the spec of a SubjectAccessReview v1.
// [Compile] returns [Conditions], and [Conditions.Eval] evaluates them over [authz.Attributes]:
//
//   - If one is false, the request does not match, whatever the others are.
//   - Otherwise, if one fails, the result is its error.
//   - Otherwise the request matches.
//
// # Invariants
//
//   - An evaluation reads the attributes in place and allocates nothing, unless
//     selectors have to be parsed or a condition fails. All webhooks of a chain
//     share the view of the attributes.
//   - One condition may cost 1,000,000 CEL units.
//
// Source: KEP-3221; https://kubernetes.io/docs/reference/access-authn-authz/authorization/.
package match

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"

	utilerrors "k8s.io/apimachinery/pkg/util/errors"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/keelson-io/keelson/authz"
	"github.com/keelson-io/keelson/cel"
)

// Limits, as upstream.
const (
	MaxConditions = 64        // for each webhook
	costLimit     = 1_000_000 // for one evaluation of one condition
)

// language is the environment of match conditions, built when the first one is compiled.
var language = sync.OnceValues(func() (*cel.Language, error) { return cel.NewLanguage(cel.AuthorizationConditions()) })

// Conditions are the compiled match conditions of one webhook. nil matches every request.
type Conditions struct {
	list []*cel.Expression
	// Whether a condition may read the selectors. If not, they are not parsed.
	fields, labels bool
}

// Compile compiles conditions. Errors are upstream's, with paths that extend path by the index and
// "expression".
func Compile(expressions []string, path *field.Path) (*Conditions, field.ErrorList) {
	if len(expressions) > MaxConditions {
		return nil, field.ErrorList{field.TooMany(path, len(expressions), MaxConditions)}
	}
	var errs field.ErrorList
	c := &Conditions{}
	seen := map[string]bool{}
	for i, text := range expressions {
		at := path.Index(i).Child("expression")
		switch {
		case strings.TrimSpace(text) == "":
			errs = append(errs, field.Required(at, ""))
			continue
		case seen[text]:
			errs = append(errs, field.Duplicate(at, text))
			continue
		}
		seen[text] = true
		x, err := compile(text)
		if err != nil {
			errs = append(errs, field.Invalid(at, text, err.Error()))
			continue
		}
		c.list = append(c.list, x)
		c.fields = c.fields || strings.Contains(text, "fieldSelector")
		c.labels = c.labels || strings.Contains(text, "labelSelector")
	}
	if len(c.list) == 0 {
		return nil, errs
	}
	return c, errs
}

// compile compiles one condition, which must be a bool.
func compile(text string) (*cel.Expression, error) {
	l, err := language()
	if err != nil {
		return nil, fmt.Errorf("unexpected error loading CEL environment: %w", err)
	}
	x, err := l.CompileExpression(text)
	var instantiation *cel.InstantiationError
	switch {
	case errors.As(err, &instantiation):
		return nil, fmt.Errorf("program instantiation failed: %w", err)
	case err != nil:
		return nil, fmt.Errorf("compilation failed: %w", err)
	case x.Type() != "bool":
		return nil, fmt.Errorf("must evaluate to bool but got %s", x.Type())
	}
	return x, nil
}

// Outcome is the result of evaluating conditions.
type Outcome struct {
	Match  bool
	Failed bool  // a condition failed, even if another one was false
	Err    error // nil if a condition was false or all were true
}

// Eval evaluates the conditions in order until one is false. If the attributes have a full trace,
// it records every evaluated condition.
func (c *Conditions) Eval(ctx context.Context, a *authz.Attributes) Outcome {
	if c == nil {
		return Outcome{Match: true}
	}
	vars := of(a, c.fields, c.labels).vars
	step := a.Trace.Step()
	var errs []error
	var account cel.Account
	for _, x := range c.list {
		v, _, err := x.EvalOn(ctx, vars, costLimit, &account)
		if err != nil {
			err = fmt.Errorf("cel evaluation error: expression '%v' resulted in error: %w", x.Source(), err)
			errs = append(errs, err)
		}
		match := err == nil && v.Bool()
		if step != nil {
			step.Conditions = append(step.Conditions, authz.Condition{Expression: x.Source(), Match: match, Err: err})
		}
		if err == nil && !match {
			return Outcome{Failed: len(errs) > 0}
		}
	}
	if len(errs) > 0 {
		return Outcome{Failed: true, Err: utilerrors.NewAggregate(errs)}
	}
	return Outcome{Match: true}
}
