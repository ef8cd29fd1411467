package policy

import (
	"testing"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	applied "k8s.io/client-go/applyconfigurations/admissionregistration/v1"
	"k8s.io/client-go/kubernetes/fake"
)

// TestTypeCheckingStatus: what upstream's controller applies to the status of a
// policy is stored with an empty member where there are no warnings, and without
// it where there are none any more. TestPolicyTypes of package server says the
// same of ours.
func TestTypeCheckingStatus(t *testing.T) {
	policies := fake.NewClientset(&admissionv1.ValidatingAdmissionPolicy{ObjectMeta: metav1.ObjectMeta{Name: "p"}}).AdmissionregistrationV1().ValidatingAdmissionPolicies()
	warning := applied.ExpressionWarning().WithFieldRef("spec.validations[0].expression").WithWarning("w")
	for i, row := range []struct {
		warnings []*applied.ExpressionWarningApplyConfiguration
		want     string
	}{
		{nil, `{"observedGeneration":1,"typeChecking":{}}`},
		{[]*applied.ExpressionWarningApplyConfiguration{warning},
			`{"observedGeneration":2,"typeChecking":{"expressionWarnings":[{"fieldRef":"spec.validations[0].expression","warning":"w"}]}}`},
		{nil, `{"observedGeneration":3}`},
		{nil, `{"observedGeneration":4,"typeChecking":{}}`},
	} {
		c := applied.ValidatingAdmissionPolicy("p").WithStatus(applied.ValidatingAdmissionPolicyStatus().WithObservedGeneration(int64(i + 1)).
			WithTypeChecking(applied.TypeChecking().WithExpressionWarnings(row.warnings...)))
		p, err := policies.ApplyStatus(t.Context(), c, metav1.ApplyOptions{FieldManager: "validatingadmissionpolicy-status", Force: true})
		if err != nil {
			t.Fatal(err)
		}
		if got := show(p.Status); got != row.want {
			t.Errorf("%d: got %s, want %s", i+1, got, row.want)
		}
	}
}
