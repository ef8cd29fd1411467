package policy

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/keelson-io/keelson/cel"
	"github.com/keelson-io/keelson/internal/admission"
	"github.com/keelson-io/keelson/internal/admission/conditions"
	"github.com/keelson-io/keelson/internal/status"
	"github.com/keelson-io/keelson/jsondoc"
)

// This file evaluates mutating policies and applies their mutations.

// mutator is a compiled mutating policy.
type mutator struct {
	variables  variables
	conditions *conditions.Matcher
	mutations  []mutation
}

// mutation is an expression that returns a change of the object.
type mutation struct {
	*conditions.Expression
	patch bool // a JSON patch; otherwise an apply configuration
}

// compileMutations compiles a mutating policy. An expression that does not compile fails when it is
// evaluated.
func compileMutations(p *admissionv1.MutatingAdmissionPolicy, m *admission.Metrics) *mutator {
	out := &mutator{}
	has := cel.AdmissionVariables{Params: p.Spec.ParamKind != nil, Authorizer: true, Composed: true}
	asking := out.variables.compile(p.Spec.Variables, has)
	has.Patches = true
	patching := out.variables.in(has)
	out.conditions = conditions.NewMatcher(asking, p.Spec.MatchConditions, p.Spec.FailurePolicy, m,
		admission.Conditions{Name: p.Name, Kind: "policy", Type: "validate"})
	for _, c := range p.Spec.Mutations {
		switch {
		case c.PatchType == admissionv1.PatchTypeJSONPatch && c.JSONPatch != nil:
			out.mutations = append(out.mutations, mutation{conditions.Compile(patching, c.JSONPatch.Expression, "list(JSONPatch)"), true})
		case c.PatchType == admissionv1.PatchTypeApplyConfiguration && c.ApplyConfiguration != nil:
			out.mutations = append(out.mutations, mutation{conditions.Compile(patching, c.ApplyConfiguration.Expression, "Object"), false})
		}
	}
	return out
}

// Mutate implements admission.Mutator.
func (p *Policies) Mutate(ctx context.Context, r *admission.Request) error {
	if !p.mutating {
		return nil
	}
	v, err := p.invocations(ctx, r)
	if v == nil || err != nil {
		return err
	}
	n := r.Rounds(p)
	defer n.Done()
	for i := range v.calls {
		if err := v.mutate(&v.calls[i], n); err != nil {
			return err
		}
	}
	return v.refuse()
}

// mutate evaluates one call and changes the object. An error ends the request.
func (v *enforcement) mutate(c *call, n *admission.Rounds) error {
	program, id := c.policy.mutations(), c.id()
	blind := v.fresh(c).Matching()
	program.variables.bind(v.ctx, blind)
	ok, err := program.conditions.Match(v.ctx, blind)
	costs := Costs{Conditions: blind.Spent()}
	defer func() {
		if v.Costs != nil {
			v.Costs(c.policy.name, c.binding.name, costs)
		}
	}()
	switch {
	case err != nil:
		v.failed(c, err)
		return nil
	case !ok || !n.Asks(id):
		return nil
	}
	changed := false
	for i := range program.mutations {
		if v.r.New == nil {
			break // a delete has no object to change
		}
		start := time.Now()
		did, cost, err := v.apply(c, program, &program.mutations[i])
		costs.Expressions += cost
		changed = changed || did
		v.Checks.mutated(c.policy.name, c.binding.name, errorType(err), time.Since(start))
		if s := (*status.Error)(nil); errors.As(err, &s) {
			return s
		}
		if err != nil {
			v.failed(c, err)
		}
	}
	n.Asked(id, changed, c.policy.again)
	return nil
}

// fresh returns the input for a call, with the object as earlier calls left it.
func (v *enforcement) fresh(c *call) *conditions.Input {
	in := &conditions.Input{Request: v.r, Target: c.target, Authorizer: v.Authorizer, Namespace: v.namespace, Account: &c.account}
	in.Set(cel.ParamsVariable, c.param.value)
	return in
}

// failed applies the failurePolicy to an error of a policy.
func (v *enforcement) failed(c *call, err error) {
	if c.policy.ignore {
		return
	}
	v.denials = append(v.denials, denial{c.policy.name, c.binding.name,
		decision{failed: true, message: err.Error(), reason: metav1.StatusReasonInvalid}, 0})
}

// apply evaluates one mutation and changes the object. It also returns the cost of the expression.
func (v *enforcement) apply(c *call, p *mutator, m *mutation) (changed bool, cost uint64, err error) {
	if m.Err != nil {
		return false, 0, m.Err
	}
	if v.r.Foreign != nil {
		return false, 0, status.Unavailable(fmt.Sprintf("Resource kind %s not found. "+
			"There can be a delay between when CustomResourceDefinitions are created and when they are available.", v.r.Foreign.Kind))
	}
	in := v.fresh(c)
	p.variables.bind(v.ctx, in)
	value, failed, err := m.Eval(v.ctx, in, conditions.NewBudget(conditions.EvaluateBudget))
	cost = in.Spent()
	if err != nil || failed != nil {
		return false, cost, errors.Join(err, failed)
	}
	object, err := conditions.Object(v.r, c.target, v.r.New)
	if err != nil {
		return false, cost, status.Internal(err)
	}
	if m.patch {
		object, err = patched(v.ctx, object, value)
	} else {
		object, err = v.overlaid(c, object, value)
	}
	if err == nil && len(object) > maxChange {
		err = errTooLarge
	}
	if object == nil || err != nil {
		return false, cost, err
	}
	if changed, err = c.target.Replace(v.r, object); err != nil {
		return false, cost, status.Internal(fmt.Errorf("object changed by MutatingAdmissionPolicy '%s': %w", c.policy.name, err))
	}
	return changed, cost, nil
}

// maxChange bounds the bytes that a mutation may add, and the size of the object after it. It is
// larger than any object that can be stored.
const maxChange = 16 << 20

var errTooLarge = fmt.Errorf("the mutation, or the object with it, is larger than %d bytes", maxChange)

// patched applies a list of JSON patch operations. It returns nil if a test operation failed, which
// leaves the object unchanged.
func patched(ctx context.Context, object []byte, list cel.Value) ([]byte, error) {
	items, ok := list.Go().([]any)
	if !ok {
		return nil, errors.New("type mismatch: JSONPatchType.expression should evaluate to array")
	}
	patch, size := make([]map[string]any, len(items)), 0
	for i, item := range items {
		op, ok := item.(cel.JSONPatch)
		if !ok {
			return nil, fmt.Errorf("type mismatch: JSONPatchType.expression should evaluate to array of JSONPatch, got element of %T", item)
		}
		patch[i] = map[string]any{"op": op.Op, "path": op.Path}
		if op.From != "" {
			patch[i]["from"] = op.From
		}
		if !op.HasValue {
			continue
		}
		text, err := op.Value.JSONWithin(maxChange - size)
		if errors.Is(err, cel.ErrTooLarge) {
			return nil, errTooLarge
		}
		if strings.HasPrefix(op.Value.TypeName(), "Object") {
			if err := cel.CheckObject(op.Value); err != nil {
				return nil, fmt.Errorf("type mismatch: %w", err)
			}
		}
		if err != nil {
			return nil, fmt.Errorf("JSONPath valueExpression evaluated to a type that could not marshal to JSON: %w", err)
		}
		size += len(text)
		patch[i]["value"] = json.RawMessage(text)
	}
	text, err := json.Marshal(patch)
	if err != nil {
		return nil, err
	}
	out, err := jsondoc.JSONPatch(ctx, object, text)
	switch {
	case errors.Is(err, jsondoc.ErrTestFailed):
		return nil, nil
	case err != nil:
		return nil, fmt.Errorf("JSON Patch: %w", err)
	}
	return out, nil
}

// overlaid merges an apply configuration into the object.
func (v *enforcement) overlaid(c *call, object []byte, value cel.Value) ([]byte, error) {
	text, err := value.JSONWithin(maxChange)
	if errors.Is(err, cel.ErrTooLarge) { // checked first: the check below reads the whole value
		return nil, errTooLarge
	}
	if err := cel.CheckObject(value); err != nil {
		return nil, fmt.Errorf("type mismatch: %w", err)
	}
	if err != nil {
		return nil, err
	}
	config, live := jsondoc.Get(), jsondoc.Get()
	defer config.Release()
	defer live.Release()
	if err := jsondoc.Parse(config, text); err != nil {
		return nil, err
	}
	config.Set(config.NewString(c.target.Version.APIVersion()), "apiVersion")
	config.Set(config.NewString(c.target.Version.Kind.Name), "kind")
	if err := jsondoc.Parse(live, object); err != nil {
		return nil, err
	}
	merged, err := v.Host.Overlay(c.target.Version, live, config.AppendJSON(nil, config.Root().Node))
	if err != nil {
		return nil, fmt.Errorf("error applying patch: %w", err)
	}
	return merged, nil
}

// errorType returns the metric label of an error.
func errorType(err error) string {
	switch {
	case err == nil:
		return "no_error"
	case errors.Is(err, conditions.ErrOutOfBudget):
		return "out_of_budget"
	case isCompilationError(err):
		return "compile_error"
	}
	return "invalid_error"
}

// isCompilationError reports whether an expression could not be compiled.
func isCompilationError(err error) bool {
	_, ok := errors.AsType[*conditions.CompilationError](err)
	return ok
}

// refuse returns the client's error if a policy failed with failurePolicy Fail.
func (v *enforcement) refuse() error {
	if len(v.denials) == 0 {
		return nil
	}
	err := v.r.Forbidden(configError("admission request denied by policy"))
	err.Message = ""
	for _, d := range v.denials {
		message := fmt.Sprintf("policy %q denied request: %s", d.policy, d.message)
		if d.binding != "" {
			message = fmt.Sprintf("policy '%s' with binding '%s' denied request: %s", d.policy, d.binding, d.message)
		}
		if err.Message == "" {
			err.Message = message
			if d.reason != "" {
				err.Reason = d.reason
			}
		}
		err.Details.Causes = append(err.Details.Causes, metav1.StatusCause{Message: message})
	}
	return err
}
