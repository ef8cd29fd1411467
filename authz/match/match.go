// Package match decides by match conditions whether a request is a webhook's
// business.
//
// # Model
//
// A condition is an expression of CEL over the variable request, which is the
// specification of a SubjectAccessReview v1. [Compile] makes [Conditions];
// [Conditions.Eval] evaluates them over [authz.Attributes]:
//
//   - if one is false, the request does not match, whatever the others are;
//   - else, if one cannot be evaluated, that is an error;
//   - else it matches.
//
// # Invariants
//
//   - Evaluating reads the attributes directly and allocates nothing, unless
//     selectors have to be parsed or a condition fails. What is made of the
//     attributes is made once for all webhooks of a chain.
//   - One condition may use 1,000,000 units of cost, and no more.
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

// Limits of conditions, as upstream has them.
const (
	MaxConditions = 64        // of a webhook
	costLimit     = 1_000_000 // of one evaluation of one condition
)

// language is the language of conditions, made when the first one is compiled.
var language = sync.OnceValues(func() (*cel.Language, error) { return cel.NewLanguage(cel.AuthorizationConditions()) })

// Conditions are the conditions of one webhook, compiled. Nil Conditions match
// everything.
type Conditions struct {
	list []*cel.Expression
	// Whether any condition may read the selectors, which otherwise are not parsed.
	fields, labels bool
}

// Compile compiles conditions. The errors are upstream's for the field that
// path names, each condition's "expression" below it.
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

// Outcome is what conditions come to.
type Outcome struct {
	Match  bool
	Failed bool  // a condition could not be evaluated, also if another one was false
	Err    error // nil if a condition was false, or all were true
}

// Eval evaluates the conditions in order, until one is false. If the attributes
// have a trace, it gets every condition that was evaluated.
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
