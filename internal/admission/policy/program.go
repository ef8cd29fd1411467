package policy

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	utilerrors "k8s.io/apimachinery/pkg/util/errors"

	"github.com/keelson-io/keelson/cel"
	"github.com/keelson-io/keelson/internal/admission"
	"github.com/keelson-io/keelson/internal/admission/conditions"
	"github.com/keelson-io/keelson/internal/requests"
)

// This file compiles the expressions of a policy.

// program is a compiled policy.
type program struct {
	ignore      bool // failurePolicy is Ignore
	variables   variables
	conditions  *conditions.Matcher
	validations []validation
	hasMessages bool // a validation has a messageExpression
	annotations []annotation
}

// validation is an expression that must be true, with the response for when it is not.
type validation struct {
	*conditions.Expression
	message string // "" if there is none
	reason  metav1.StatusReason
	say     *conditions.Expression // messageExpression; nil if absent
}

// annotation is an expression whose result goes into the audit log.
type annotation struct {
	*conditions.Expression
	key string
}

// variables holds the compiled variables of a policy.
type variables struct {
	composition *requests.Composition
	names       []string
	by          map[string]*conditions.Expression
}

// compile compiles a policy. An expression that does not compile fails when it is evaluated.
func compile(p *admissionv1.ValidatingAdmissionPolicy, m *admission.Metrics) *program {
	out := &program{ignore: ignores(p.Spec.FailurePolicy)}
	has := cel.AdmissionVariables{Params: p.Spec.ParamKind != nil, Authorizer: true, Composed: true}
	asking := out.variables.compile(p.Spec.Variables, has)
	has.Authorizer = false
	telling := out.variables.in(has)
	out.conditions = conditions.NewMatcher(asking, p.Spec.MatchConditions, p.Spec.FailurePolicy, m,
		admission.Conditions{Name: p.Name, Kind: "policy", Type: "validate"})
	for _, v := range p.Spec.Validations {
		c := validation{Expression: conditions.Compile(asking, v.Expression, "bool"), message: v.Message, reason: metav1.StatusReasonInvalid}
		if v.Reason != nil {
			c.reason = *v.Reason
		}
		if v.MessageExpression != "" {
			c.say, out.hasMessages = conditions.Compile(telling, v.MessageExpression, "string"), true
		}
		out.validations = append(out.validations, c)
	}
	for _, a := range p.Spec.AuditAnnotations {
		out.annotations = append(out.annotations, annotation{conditions.Compile(asking, a.ValueExpression, "string", "null_type"), a.Key})
	}
	return out
}

// compile compiles the variables of a policy, each of which may read the ones before it. It returns
// the language of the policy's other expressions.
func (v *variables) compile(list []admissionv1.Variable, has cel.AdmissionVariables) *requests.Language {
	v.composition, v.by = requests.NewComposition(), map[string]*conditions.Expression{}
	l := requests.For(has)
	if len(list) > 0 {
		l = l.With(v.composition)
	}
	for _, named := range list {
		x := conditions.Compile(l, named.Expression)
		if _, again := v.by[named.Name]; !again {
			v.names = append(v.names, named.Name)
		}
		v.by[named.Name] = x
		v.composition.Add(named.Name, x.Expression)
	}
	return l
}

// in returns the language with other builtin variables in which the policy's variables are
// declared, too.
func (v *variables) in(has cel.AdmissionVariables) *requests.Language {
	l := requests.For(has)
	if len(v.names) == 0 {
		return l
	}
	return l.With(v.composition)
}

// bind lets an input compute the variables, each once until the next call of bind.
func (v *variables) bind(ctx context.Context, in *conditions.Input) {
	if len(v.names) == 0 {
		return
	}
	kept := 0
	in.Set(cel.ComposedVariable, cel.LazyObject(v.names, func(name string) (cel.Value, error) {
		x := v.by[name]
		if in.Overdrawn() || kept > maxKept {
			return cel.Value{}, fmt.Errorf("composited variable %q fails to evaluate: %w", name, cel.ErrCostLimit)
		}
		if x.Err != nil {
			return cel.Value{}, fmt.Errorf("composited variable %q fails to compile: %w", name, x.Err)
		}
		value, cost, err := x.Run(ctx, in)
		in.Composed(cost)
		if err != nil {
			return cel.Value{}, fmt.Errorf("composited variable %q fails to evaluate: %w", name, err)
		}
		kept += len(value.Str())
		return value, nil
	}))
}

// maxKept bounds the texts in variables of one policy that are kept at a time, in bytes.
const maxKept = 64 << 20

// decision is the result of one expression.
type decision struct {
	admit   bool
	failed  bool // the expression failed
	why     cause
	message string
	reason  metav1.StatusReason
	took    time.Duration
	// number is the index of the validation in the policy.
	number int
}

// cause says why a decision is not to admit. The metrics count decisions by it.
type cause uint8

const (
	causeInvalid  cause = iota // the expression is false or failed
	causeCompiler              // the expression does not compile
	causeBudget                // the expressions exceeded their budget
)

// causeOf returns the cause that an error of an expression or of match conditions is.
func causeOf(err error) cause {
	// Upstream reports several failed match conditions as invalid, whatever each of them is.
	if all, ok := err.(utilerrors.Aggregate); ok && len(all.Errors()) == 1 {
		err = all.Errors()[0]
	}
	switch {
	case errors.Is(err, conditions.ErrOutOfBudget):
		return causeBudget
	case isCompilationError(err):
		return causeCompiler
	}
	return causeInvalid
}

// published is an audit annotation.
type published struct{ key, value string }

// explain returns the message for a validation that is not true. computed is the result of its
// messageExpression.
func (v *validation) explain(computed string) string {
	computed = strings.TrimSpace(computed)
	if len(computed) > conditions.MaxMessageBytes || strings.Contains(computed, "\n") {
		computed = ""
	}
	if computed == "" {
		computed = strings.TrimSpace(v.message)
	}
	if computed == "" {
		computed = "failed expression: " + strings.TrimSpace(v.Source)
	}
	return computed
}

// errorType returns the metric label of a decision.
func (d *decision) errorType() string {
	switch {
	case !d.failed && d.admit:
		return "no_error"
	case d.why == causeCompiler:
		return "compile_error"
	case d.why == causeBudget:
		return "out_of_budget"
	}
	return "invalid_error"
}
