package policy

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/keelson-io/keelson/cel"
	"github.com/keelson-io/keelson/internal/admission"
	"github.com/keelson-io/keelson/internal/admission/conditions"
	"github.com/keelson-io/keelson/internal/admission/match"
	"github.com/keelson-io/keelson/kind"
)

// This file evaluates validating policies and enforces their decisions.

// Validate implements admission.Validator. It evaluates all policies, and returns the first denial.
func (p *Policies) Validate(ctx context.Context, r *admission.Request) error {
	if p.mutating {
		return nil
	}
	v, err := p.invocations(ctx, r)
	if v == nil || err != nil {
		return err
	}
	for i := range v.calls {
		v.now = i
		v.decide(&v.calls[i])
	}
	v.publish()
	return v.answer()
}

// decide evaluates one call and enforces the result with the actions of the binding.
func (v *enforcement) decide(c *call) {
	in, err := v.input(c.target)
	if err != nil {
		v.misconfigured(c.policy, c.binding, fmt.Errorf("failed to convert object version: %w", err))
		return
	}
	in.Set(cel.ParamsVariable, c.param.value)
	in.Account = &c.account
	e := evaluation{program: c.policy.program(), ctx: v.ctx, in: in, decisions: v.scratch[:0]}
	e.run()
	v.scratch = e.decisions
	if v.Costs != nil {
		v.Costs(c.policy.name, c.binding.name, e.costs)
	}
	v.enforce(c.policy, c.binding, e.decisions)
	if len(e.notes) == 0 && len(e.failures) == 0 {
		return
	}
	if v.notes == nil {
		v.notes = map[string]annotations{}
	}
	for _, n := range e.notes {
		if v.notes[c.policy.name] == nil {
			v.notes[c.policy.name] = annotations{}
		}
		v.notes[c.policy.name].add(n)
	}
	for _, d := range e.failures {
		v.denials = append(v.denials, denial{c.policy.name, c.binding.name, d, 2*v.now + 1})
		v.Checks.validated(c.policy.name, c.binding.name, &d, "deny")
	}
}

// input returns the input for a target's version.
func (v *enforcement) input(target match.Target) (*conditions.Input, error) {
	if in := v.inputs[target.Version]; in != nil {
		return in, nil
	}
	in := &conditions.Input{Request: v.r, Target: target, Authorizer: v.Authorizer, Namespace: v.namespace}
	if target.Other {
		if err := in.Convert(); err != nil {
			return nil, err
		}
	}
	if v.inputs == nil {
		v.inputs = map[*kind.Version]*conditions.Input{}
	}
	v.inputs[target.Version] = in
	return in, nil
}

// enforce carries out the validationActions of a binding for decisions.
func (v *enforcement) enforce(p *policy, b *binding, decisions []decision) {
	for i := range decisions {
		d := &decisions[i]
		if d.admit {
			if d.failed {
				v.Checks.validated(p.name, b.name, d, "allow")
			}
			continue
		}
		for _, action := range b.actions {
			switch action {
			case admissionv1.Deny:
				v.denials = append(v.denials, denial{p.name, b.name, *d, 2*v.now + 1})
				v.Checks.validated(p.name, b.name, d, "deny")
			case admissionv1.Audit:
				v.failures = append(v.failures, failureNote{d.message, b.policy, b.name, d.number, b.actions})
				v.Checks.validated(p.name, b.name, d, "audit")
			case admissionv1.Warn:
				v.r.Warn(fmt.Sprintf("Validation failed for ValidatingAdmissionPolicy '%s' with binding '%s': %s", p.name, b.name, d.message))
				v.Checks.validated(p.name, b.name, d, "warn")
			}
		}
	}
}

// answer returns the client's error for the denials, nil if there are none.
func (v *enforcement) answer() error {
	if len(v.denials) == 0 {
		return nil
	}
	d := &v.denials[0]
	for i := range v.denials {
		if v.denials[i].place < d.place {
			d = &v.denials[i]
		}
	}
	message := fmt.Sprintf("ValidatingAdmissionPolicy '%s' denied request: %s", d.policy, d.message)
	if d.binding != "" {
		message = fmt.Sprintf("ValidatingAdmissionPolicy '%s' with binding '%s' denied request: %s", d.policy, d.binding, d.message)
	}
	err := v.r.Forbidden(configError(message))
	err.Reason = d.reason
	if err.Reason == "" {
		err.Reason = metav1.StatusReasonInvalid
	}
	err.Code = codeOf(err.Reason)
	err.Details.Causes = append(err.Details.Causes, metav1.StatusCause{Message: message})
	return err
}

// codeOf returns the HTTP status code for the reason of a validation.
func codeOf(r metav1.StatusReason) int32 {
	switch r {
	case metav1.StatusReasonForbidden:
		return http.StatusForbidden
	case metav1.StatusReasonUnauthorized:
		return http.StatusUnauthorized
	case metav1.StatusReasonRequestEntityTooLarge:
		return http.StatusRequestEntityTooLarge
	}
	return http.StatusUnprocessableEntity
}

// failureNote describes a failure in the audit log.
type failureNote struct {
	Message           string                         `json:"message"`
	Policy            string                         `json:"policy"`
	Binding           string                         `json:"binding"`
	ExpressionIndex   int                            `json:"expressionIndex"`
	ValidationActions []admissionv1.ValidationAction `json:"validationActions"`
}

// maxFailures bounds the failures in the audit annotation of one policy.
const maxFailures = 50

// publish writes the audit annotations.
func (v *enforcement) publish() {
	for policy, notes := range v.notes {
		notes.publish(policy, v.r)
	}
	if len(v.failures) == 0 {
		return
	}
	b, err := json.Marshal(v.failures[:min(len(v.failures), maxFailures)])
	if err != nil {
		v.Logger.Error("failures of admission policies cannot be printed", "err", err)
		return
	}
	v.r.Annotate("validation.policy.admission.k8s.io/validation_failure", string(b))
}

// annotations are the audit annotations of one policy: key -> values, which can differ between
// parameter objects.
type annotations map[string][]string

// maxAnnotation bounds a value, in bytes.
const maxAnnotation = 10 * 1024

// add adds a value to a key, unless it is there already.
func (a annotations) add(n published) {
	value := n.value
	if len(value) > maxAnnotation {
		value = value[:maxAnnotation]
	}
	for _, have := range a[n.key] {
		if have == value {
			return
		}
	}
	a[n.key] = append(a[n.key], value)
}

// publish writes the annotations to the audit event, under the name of the policy.
func (a annotations) publish(policy string, r *admission.Request) {
	for key, values := range a {
		r.Annotate(policy+"/"+key, strings.Join(values, ", "))
	}
}
