package policy

import (
	"fmt"
	"strings"
	"testing"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/keelson-io/keelson/internal/admission/policy"
)

// This file compares what happens when expressions cost too much: each by
// itself, or all of a policy's together.

// heavy costs about the square of a tenth of the length of spec.text, and takes no
// time.
const heavy = `object.spec.text.contains(object.spec.text)`

// spending is a policy of heavy expressions.
func spending(name string, conditions, validations int, more func(*admissionv1.ValidatingAdmissionPolicySpec)) *admissionv1.ValidatingAdmissionPolicy {
	p := &admissionv1.ValidatingAdmissionPolicy{}
	p.APIVersion, p.Kind, p.Name = "admissionregistration.k8s.io/v1", "ValidatingAdmissionPolicy", name
	fail, match := admissionv1.Fail, admissionv1.Exact
	p.Spec.FailurePolicy = &fail
	var rule admissionv1.NamedRuleWithOperations
	rule.Operations, rule.APIGroups, rule.APIVersions, rule.Resources = []admissionv1.OperationType{"*"}, []string{"*"}, []string{"*"}, []string{"*"}
	p.Spec.MatchConstraints = &admissionv1.MatchResources{ResourceRules: []admissionv1.NamedRuleWithOperations{rule},
		MatchPolicy: &match, NamespaceSelector: &metav1.LabelSelector{}, ObjectSelector: &metav1.LabelSelector{}}
	for i := range conditions {
		p.Spec.MatchConditions = append(p.Spec.MatchConditions, admissionv1.MatchCondition{Name: fmt.Sprint(i), Expression: heavy})
	}
	for range validations {
		p.Spec.Validations = append(p.Spec.Validations, admissionv1.Validation{Expression: heavy})
	}
	if more != nil {
		more(&p.Spec)
	}
	return p
}

func TestLimitsEqualUpstream(t *testing.T) {
	var policies []*admissionv1.ValidatingAdmissionPolicy
	var bindings []*admissionv1.ValidatingAdmissionPolicyBinding
	for _, p := range []*admissionv1.ValidatingAdmissionPolicy{
		spending("a-conditions", 3, 1, nil),
		spending("b-validations", 0, 12, nil),
		spending("c-variables", 0, 1, func(s *admissionv1.ValidatingAdmissionPolicySpec) {
			for i := range 12 {
				name := fmt.Sprintf("v%d", i)
				s.Variables = append(s.Variables, admissionv1.Variable{Name: name, Expression: heavy})
				s.Validations = append(s.Validations, admissionv1.Validation{Expression: "variables." + name + " && variables." + name})
			}
		}),
		spending("d-messages", 0, 1, func(s *admissionv1.ValidatingAdmissionPolicySpec) {
			for range 11 {
				s.Validations = append(s.Validations, admissionv1.Validation{Expression: "false", MessageExpression: heavy + ` ? 'a' : 'b'`})
			}
		}),
		spending("e-annotations", 0, 1, func(s *admissionv1.ValidatingAdmissionPolicySpec) {
			for i := range 12 {
				s.AuditAnnotations = append(s.AuditAnnotations, admissionv1.AuditAnnotation{Key: fmt.Sprint("k", i), ValueExpression: heavy + ` ? 'a' : 'b'`})
			}
		}),
	} {
		b := &admissionv1.ValidatingAdmissionPolicyBinding{}
		b.APIVersion, b.Kind, b.Name = p.APIVersion, "ValidatingAdmissionPolicyBinding", p.Name
		b.Spec.PolicyName, b.Spec.ValidationActions = p.Name, []admissionv1.ValidationAction{"Warn"}
		policies, bindings = append(policies, p), append(bindings, b)
	}
	up := newUpstream(t, surroundings())
	up.use(t, policies, bindings)
	our := newOurs(t, definition(), stored(t, surroundings(), policies, bindings))
	texts := ""
	for _, n := range []int{1_000, 9_300, 10_500} { // within all limits; beyond those of all together; beyond that of each
		q := &request{operation: "CREATE", version: "v1", namespace: "default", name: "a", user: "ann", object: map[string]any{
			"apiVersion": "demo.io/v1", "kind": "Widget", "metadata": map[string]any{"name": "a", "namespace": "default"}, "spec": map[string]any{"text": strings.Repeat("a", n)}}}
		wantWarnings, wantErr := up.ask(q)
		gotWarnings, gotErr := our.ask(t, q)
		want, got := strings.Join(wantWarnings, "\n"), strings.Join(gotWarnings, "\n")
		if want != got || words(wantErr) != words(gotErr) {
			t.Errorf("%d bytes:\nupstream %s\n%s\nkeelson %s\n%s", n, words(wantErr), want, words(gotErr), got)
		}
		if a, b := up.meter.without(up.meter.beyond), our.bill.without(up.meter.beyond); a != b {
			t.Errorf("%d bytes:\nupstream's costs\n%s\nours\n%s", n, a, b)
		}
		if c := our.bill["b-validations"]; c == nil || *c == (policy.Costs{}) {
			t.Errorf("%d bytes: no costs", n)
		}
		texts += words(gotErr) + got
	}
	for _, want := range []string{"running out of cost budget", "actual cost limit exceeded", "failed messageExpression"} {
		if !strings.Contains(texts, want) {
			t.Errorf("nothing ended with %q", want)
		}
	}
}
