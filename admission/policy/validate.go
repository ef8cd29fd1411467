package policy

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/keelson-io/keelson/admission"
	"github.com/keelson-io/keelson/admission/conditions"
	"github.com/keelson-io/keelson/admission/match"
	"github.com/keelson-io/keelson/cel"
	"github.com/keelson-io/keelson/kind"
	"github.com/keelson-io/keelson/status"
)

// This file enforces validating policies on a request.

// Mutate implements admission.Step; validating policies change nothing.
func (p *Policies) Mutate(context.Context, *admission.Request) error { return nil }

// Validate implements admission.Step. All policies are evaluated; the client is
// told of the first denial.
func (p *Policies) Validate(ctx context.Context, r *admission.Request) error {
	s := p.load()
	found := s.index.For(r)
	if len(found) == 0 || match.ExemptFromPolicies(r.Version.Kind) {
		return nil
	}
	v := &enforcement{Policies: p, ctx: ctx, r: r}
	for i := range found {
		if err := v.policy(s.items[found[i].Item], &found[i]); err != nil {
			return err
		}
	}
	v.publishFailures()
	return v.answer()
}

// enforcement is the enforcement of policies on one request.
type enforcement struct {
	*Policies
	ctx      context.Context
	r        *admission.Request
	denials  []denial
	failures []failureNote

	inputs    map[*kind.Version]*conditions.Input // what is made for one policy is good for the others
	namespace []byte
	looked    bool // for the namespace
}

// denial is a decision that denies, and whose it is.
type denial struct {
	policy, binding string // binding is "" if the policy itself is broken
	decision
}

// misconfigured is the denial that an unusable policy or binding is.
func (v *enforcement) misconfigured(p *policy, b *binding, err error) {
	if p.Spec.FailurePolicy != nil && *p.Spec.FailurePolicy == admissionv1.Ignore {
		return
	}
	d := denial{policy: p.Name, decision: decision{failed: true}}
	if b == nil {
		d.message = fmt.Sprintf("failed to configure policy: %v", err)
	} else {
		d.binding, d.message = b.Name, fmt.Sprintf("failed to configure binding: %v", err)
	}
	v.denials = append(v.denials, d)
}

// policy enforces one policy. An error ends the request.
func (v *enforcement) policy(p *policy, c *match.Candidate) error {
	if p.err != nil {
		v.misconfigured(p, nil, p.err)
		return nil
	}
	target, ok, err := c.Selects(v.ctx, v.r, v.Namespaces)
	switch {
	case err != nil:
		v.misconfigured(p, nil, err)
		return nil
	case !ok:
		return nil
	}
	params, err := p.params.version(v.Kinds())
	if err != nil {
		v.misconfigured(p, nil, err)
		return nil
	}
	notes := annotations{}
	for _, c := range p.index.For(v.r) {
		if err := v.binding(p, p.bindings[c.Item], &c, target, params, notes); err != nil {
			return err
		}
	}
	notes.publish(p.Name, v.r)
	return nil
}

func (v *enforcement) binding(p *policy, b *binding, c *match.Candidate, target match.Target, params *kind.Version, notes annotations) error {
	if b.err != nil {
		v.misconfigured(p, b, b.err)
		return nil
	}
	_, ok, err := c.Selects(v.ctx, v.r, v.Namespaces)
	switch {
	case err != nil:
		v.misconfigured(p, b, err)
		return nil
	case !ok:
		return nil
	}
	found, err := v.collect(b, params)
	if err != nil {
		v.misconfigured(p, b, err)
		return nil
	}
	if err := v.lookNamespace(); err != nil {
		return err
	}
	for _, param := range found {
		in, err := v.input(target)
		if err != nil {
			v.misconfigured(p, b, fmt.Errorf("failed to convert object version: %w", err))
			return nil
		}
		in.Set(cel.ParamsVariable, param)
		decisions, published, failures := p.compiled().evaluate(v.ctx, in)
		v.enforce(p, b, decisions)
		for _, n := range published {
			notes.add(n)
		}
		for _, d := range failures {
			v.denials = append(v.denials, denial{p.Name, b.Name, d})
			v.Checks.observe(p.Name, b.Name, &d, "deny")
		}
	}
	return nil
}

// input is the request in a target's version.
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

// lookNamespace looks the object's namespace up; a namespace has none itself.
func (v *enforcement) lookNamespace() error {
	if v.looked || v.r.Namespace == "" || v.r.Version.Kind.IsNamespaces() {
		return nil
	}
	v.looked = true
	view, err := v.Namespaces.Namespace(v.ctx, v.r.Namespace)
	if err != nil {
		return err
	}
	v.namespace = view.JSON
	return nil
}

// enforce does what the binding says with decisions.
func (v *enforcement) enforce(p *policy, b *binding, decisions []decision) {
	for i := range decisions {
		d := &decisions[i]
		if d.admit {
			if d.failed {
				v.Checks.observe(p.Name, b.Name, d, "allow")
			}
			continue
		}
		for _, action := range b.Spec.ValidationActions {
			switch action {
			case admissionv1.Deny:
				v.denials = append(v.denials, denial{p.Name, b.Name, *d})
				v.Checks.observe(p.Name, b.Name, d, "deny")
			case admissionv1.Audit:
				v.failures = append(v.failures, failureNote{d.message, b.Spec.PolicyName, b.Name, d.number, b.Spec.ValidationActions})
				v.Checks.observe(p.Name, b.Name, d, "audit")
			case admissionv1.Warn:
				v.r.Warn(fmt.Sprintf("Validation failed for ValidatingAdmissionPolicy '%s' with binding '%s': %s", p.Name, b.Name, d.message))
				v.Checks.observe(p.Name, b.Name, d, "warn")
			}
		}
	}
}

// answer is what the client is told of the denials.
func (v *enforcement) answer() error {
	if len(v.denials) == 0 {
		return nil
	}
	d := &v.denials[0]
	message := fmt.Sprintf("ValidatingAdmissionPolicy '%s' denied request: %s", d.policy, d.message)
	if d.binding != "" {
		message = fmt.Sprintf("ValidatingAdmissionPolicy '%s' with binding '%s' denied request: %s", d.policy, d.binding, d.message)
	}
	err := status.Forbidden(v.r.Version.Kind.GroupResource(), v.r.Name, configError(message))
	err.Reason = d.reason
	if err.Reason == "" {
		err.Reason = metav1.StatusReasonInvalid
	}
	err.Code = codeOf(err.Reason)
	err.Details.Causes = append(err.Details.Causes, metav1.StatusCause{Message: message})
	return err
}

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

// failureNote is a failure in the audit log.
type failureNote struct {
	Message           string                         `json:"message"`
	Policy            string                         `json:"policy"`
	Binding           string                         `json:"binding"`
	ExpressionIndex   int                            `json:"expressionIndex"`
	ValidationActions []admissionv1.ValidationAction `json:"validationActions"`
}

// maxFailures bounds what the audit log is told of.
const maxFailures = 50

func (v *enforcement) publishFailures() {
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

// annotations are the audit annotations of one policy: the values of each key,
// which differ where bindings have parameters.
type annotations map[string][]string

// maxAnnotation bounds a value, in bytes.
const maxAnnotation = 10 * 1024

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

func (a annotations) publish(policy string, r *admission.Request) {
	for key, values := range a {
		r.Annotate(policy+"/"+key, strings.Join(values, ", "))
	}
}
