package policy

import (
	"context"
	"fmt"
	"strings"
	"time"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/keelson-io/keelson/admission"
	"github.com/keelson-io/keelson/admission/conditions"
	"github.com/keelson-io/keelson/cel"
	"github.com/keelson-io/keelson/cel/requests"
)

// This file is the expressions of a policy, compiled.

// program is a compiled policy.
type program struct {
	ignore      bool // failurePolicy
	variables   variables
	conditions  *conditions.Matcher
	validations []validation
	speaks      bool // a validation has a message expression
	annotations []annotation
}

type validation struct {
	*conditions.Expression
	message string // "" if there is none
	reason  metav1.StatusReason
	say     *conditions.Expression // messageExpression; nil if there is none
}

type annotation struct {
	*conditions.Expression
	key string
}

// variables are the named expressions of a policy.
type variables struct {
	composition *requests.Composition
	names       []string
	by          map[string]*conditions.Expression
}

// compile compiles a policy. Expressions that do not compile are errors when
// they are evaluated.
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
			c.say, out.speaks = conditions.Compile(telling, v.MessageExpression, "string"), true
		}
		out.validations = append(out.validations, c)
	}
	for _, a := range p.Spec.AuditAnnotations {
		out.annotations = append(out.annotations, annotation{conditions.Compile(asking, a.ValueExpression, "string", "null_type"), a.Key})
	}
	return out
}

// compile compiles the variables of a policy, each of which may read those
// before it, and returns the language of its other expressions.
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

// in is another language that has the variables.
func (v *variables) in(has cel.AdmissionVariables) *requests.Language {
	l := requests.For(has)
	if len(v.names) == 0 {
		return l
	}
	return l.With(v.composition)
}

// bind gives an input the variables, to be computed once until it is bound
// again.
func (v *variables) bind(ctx context.Context, in *conditions.Input) {
	if len(v.names) == 0 {
		return
	}
	in.Set(cel.ComposedVariable, cel.LazyObject(v.names, func(name string) (cel.Value, error) {
		x := v.by[name]
		if x.Err != nil {
			return cel.Value{}, fmt.Errorf("composited variable %q fails to compile: %w", name, x.Err)
		}
		value, cost, err := x.Run(ctx, in)
		in.Composed(cost)
		if err != nil {
			return cel.Value{}, fmt.Errorf("composited variable %q fails to evaluate: %w", name, err)
		}
		return value, nil
	}))
}

// decision is what came of one expression.
type decision struct {
	admit   bool
	failed  bool // by an error
	message string
	reason  metav1.StatusReason
	took    time.Duration
	// number is that of the expression among the policy's validations.
	number int
}

// published is an audit annotation.
type published struct{ key, value string }

// failure is the decision that an error is.
func (p *program) failure(message string) decision {
	return decision{admit: p.ignore, failed: true, message: message}
}

// evaluate decides about a request. noteErrors are denials that audit
// annotations cause.
func (p *program) evaluate(ctx context.Context, in *conditions.Input) (decisions []decision, notes []published, noteErrors []decision) {
	if p.conditions != nil {
		blind := in.Matching()
		p.variables.bind(ctx, blind)
		ok, err := p.conditions.Match(ctx, blind)
		switch {
		case err != nil:
			return []decision{p.failure(err.Error())}, nil, nil
		case !ok:
			return nil, nil, nil
		}
	}
	decisions, err := p.validate(ctx, in)
	if err != nil {
		return []decision{p.failure(err.Error())}, nil, nil
	}
	notes, noteErrors, err = p.annotate(ctx, in)
	if err != nil {
		return []decision{p.failure(err.Error())}, nil, nil
	}
	return decisions, notes, noteErrors
}

// validate evaluates the validations and their messages.
func (p *program) validate(ctx context.Context, in *conditions.Input) ([]decision, error) {
	budget := conditions.NewBudget(conditions.EvaluateBudget)
	decisions := make([]decision, len(p.validations))
	p.variables.bind(ctx, in)
	for i := range p.validations {
		start := time.Now()
		v, failed, err := p.validations[i].Eval(ctx, in, budget)
		switch {
		case err != nil:
			return nil, err
		case failed != nil:
			decisions[i] = p.failure(failed.Error())
		case v.Kind() == cel.KindBool && v.Bool():
			decisions[i].admit = true
		default:
			decisions[i] = decision{reason: p.validations[i].reason}
		}
		decisions[i].took, decisions[i].number = time.Since(start), i
	}
	said, err := p.say(ctx, in, budget)
	for i := range decisions {
		switch d := &decisions[i]; {
		case d.failed:
		case err != nil:
			*d = p.failure("failed messageExpression: " + err.Error())
			d.number = i
		case !d.admit:
			text := ""
			if said != nil {
				text = said[i]
			}
			d.message = p.validations[i].explain(text)
		}
	}
	return decisions, nil
}

// say evaluates the message expressions, of all validations. They do not ask
// the authorizer.
func (p *program) say(ctx context.Context, in *conditions.Input, budget *conditions.Budget) ([]string, error) {
	if !p.speaks {
		return nil, nil
	}
	said := make([]string, len(p.validations))
	telling := in.WithoutAuthorizer()
	p.variables.bind(ctx, telling)
	for i := range p.validations {
		x := p.validations[i].say
		if x == nil {
			continue
		}
		v, failed, err := x.Eval(ctx, telling, budget)
		if err != nil {
			return nil, err
		}
		if failed == nil && v.Kind() == cel.KindString {
			said[i] = strings.Clone(v.Str())
		}
	}
	return said, nil
}

// explain is the message of a validation that is not true.
func (v *validation) explain(said string) string {
	said = strings.TrimSpace(said)
	if len(said) > conditions.MaxMessageBytes || strings.Contains(said, "\n") {
		said = ""
	}
	if said == "" {
		said = strings.TrimSpace(v.message)
	}
	if said == "" {
		said = "failed expression: " + strings.TrimSpace(v.Source)
	}
	return said
}

// annotate evaluates the audit annotations.
func (p *program) annotate(ctx context.Context, in *conditions.Input) (notes []published, failures []decision, err error) {
	if len(p.annotations) == 0 {
		return nil, nil, nil
	}
	telling := in.WithoutAuthorizer()
	p.variables.bind(ctx, telling)
	budget := conditions.NewBudget(conditions.EvaluateBudget)
	for i := range p.annotations {
		a := &p.annotations[i]
		start := time.Now()
		v, failed, err := a.Eval(ctx, telling, budget)
		switch {
		case err != nil:
			return nil, nil, err
		case failed != nil && p.ignore:
		case failed != nil:
			failures = append(failures, decision{failed: true, message: failed.Error(), took: time.Since(start)})
		case v.Kind() == cel.KindString:
			if value := strings.TrimSpace(v.Str()); value != "" {
				notes = append(notes, published{a.key, strings.Clone(value)})
			}
		}
	}
	return notes, failures, nil
}

// errorType names a decision in metrics.
func (d *decision) errorType() string {
	switch {
	case !d.failed && d.admit:
		return "no_error"
	case strings.HasPrefix(d.message, "compilation"):
		return "compile_error"
	case strings.HasPrefix(d.message, conditions.ErrOutOfBudget.Error()):
		return "out_of_budget"
	}
	return "invalid_error"
}
