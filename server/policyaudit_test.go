package server

import (
	"net/http"
	"path/filepath"
	"strings"
	"testing"

	"github.com/keelson-io/keelson/internal/audit"
	"github.com/keelson-io/keelson/internal/store/mem"
)

// This file holds what policies leave behind: audit annotations and metrics; and
// who may write which policies.

// TestPolicyRecords holds that failures and audit annotations are in the audit log, decisions in
// the metrics, and that a changed policy applies to the next request.
func TestPolicyRecords(t *testing.T) {
	log := filepath.Join(t.TempDir(), "audit.log")
	r := start(t, Config{Store: mem.New(mem.Options{}), AuditPolicyFile: write(t, "policy.yaml", `{"apiVersion":"audit.k8s.io/v1","kind":"Policy","omitStages":["RequestReceived"],"rules":[{"level":"Metadata","resources":[{"group":"demo.io"}]},{"level":"None"}]}`),
		AuditLog: audit.LogConfig{Path: log, MaxSize: 1}})
	r.define()
	r.withPolicy(`"validations":[{"expression":"true"},{"expression":"object.spec.color == 'blue'","message":"not blue"},{"expression":"object.spec.none == 1"}],
		"auditAnnotations":[{"key":"color","valueExpression":"' it is ' + object.spec.color"},{"key":"nothing","valueExpression":"null"}]`, `"validationActions":["Audit"]`)
	r.must("POST", widgetsPath, widgetA)
	r.must("PATCH", admissionPath+"validatingadmissionpolicies/p", `{"spec":{"validations":[{"expression":"false","message":"changed"}]}}`, "Content-Type", "application/merge-patch+json")
	r.must("PATCH", admissionPath+"validatingadmissionpolicybindings/b", `{"spec":{"validationActions":["Deny"]}}`, "Content-Type", "application/merge-patch+json")
	r.settle()
	if code, text := r.call(r.client, "PATCH", widgetsPath+"/a", `{"spec":{"color":"green"}}`, "Content-Type", "application/merge-patch+json"); code != http.StatusUnprocessableEntity || !strings.Contains(text, "denied request: changed") {
		t.Errorf("after a change: %d %s", code, text)
	}
	text := r.must("GET", "/metrics", "")
	for _, want := range []string{
		`apiserver_validating_admission_policy_check_total{enforcement_action="audit",error_type="invalid_error",policy="p",policy_binding="b"} 2`,
		`apiserver_validating_admission_policy_check_total{enforcement_action="deny",error_type="invalid_error",policy="p",policy_binding="b"} 1`,
		`apiserver_validating_admission_policy_check_duration_seconds_bucket{enforcement_action="audit",error_type="invalid_error",policy="p",policy_binding="b",le="1"} 2`,
	} {
		if !strings.Contains(text, want) {
			t.Errorf("metrics lack %s", want)
		}
	}
	events := auditLog(t, log)
	if len(events) == 0 {
		t.Fatal("nothing in the audit log")
	}
	var created *audit.Event
	for i := range events {
		if events[i].Verb == "create" {
			created = &events[i]
		}
	}
	if created == nil {
		t.Fatal("the create is not in the audit log")
	}
	want := `[{"message":"not blue","policy":"p","binding":"b","expressionIndex":1,"validationActions":["Audit"]},` +
		`{"message":"expression 'object.spec.none == 1' resulted in error: no such key: none","policy":"p","binding":"b","expressionIndex":2,"validationActions":["Audit"]}]`
	if got := created.Annotations["validation.policy.admission.k8s.io/validation_failure"]; got != want {
		t.Errorf("failures: got %s\nwant %s", got, want)
	}
	if got := created.Annotations["p/color"]; got != "it is red" {
		t.Errorf("annotation: got %q, want it is red", got)
	}
	if _, there := created.Annotations["p/nothing"]; there {
		t.Error("an annotation whose value is null is there")
	}
}

// TestPolicyAccess holds that users cannot read parameters through a policy that they may not read
// themselves.
func TestPolicyAccess(t *testing.T) {
	r := start(t, Config{Store: mem.New(mem.Options{}), TokenAuthFile: tokens(t, "ann")})
	r.must("POST", "/apis/rbac.authorization.k8s.io/v1/clusterroles", `{"apiVersion":"rbac.authorization.k8s.io/v1","kind":"ClusterRole","metadata":{"name":"policies"},
		"rules":[{"verbs":["*"],"apiGroups":["admissionregistration.k8s.io"],"resources":["*"]},{"verbs":["get"],"apiGroups":[""],"resources":["configmaps"],"resourceNames":["mine"]}]}`)
	r.must("POST", "/apis/rbac.authorization.k8s.io/v1/clusterrolebindings", `{"apiVersion":"rbac.authorization.k8s.io/v1","kind":"ClusterRoleBinding","metadata":{"name":"ann"},
		"roleRef":{"apiGroup":"rbac.authorization.k8s.io","kind":"ClusterRole","name":"policies"},"subjects":[{"kind":"User","apiGroup":"rbac.authorization.k8s.io","name":"ann"}]}`)
	const spec = `"paramKind":{"apiVersion":"v1","kind":"ConfigMap"},"validations":[{"expression":"true"}]`
	r.eventually("ann", "POST", admissionPath+"validatingadmissionpolicies", policyBody("plain", `"validations":[{"expression":"true"}]`), 201)
	code, text := r.as("ann", "POST", admissionPath+"validatingadmissionpolicies", policyBody("p", spec))
	if want := `must have \"get\" permission on all objects of the referenced paramKind (kind=ConfigMap, apiVersion=v1)`; code != 422 ||
		!strings.Contains(text, `spec.paramKind: Forbidden: user \u0026{ann`) || !strings.Contains(text, want) {
		t.Errorf("policy: %d %s", code, text)
	}
	r.must("POST", admissionPath+"validatingadmissionpolicies", policyBody("p", spec))
	for _, row := range []struct{ ref, want string }{
		{`"name":"mine"`, ""},
		{`"name":"other"`, `does not have \"get\" permission on the object referenced by paramRef`},
		{`"selector":{}`, `does not have \"list\" permission on the object referenced by paramRef`},
	} {
		body := bindingBody("b", "p", `"validationActions":["Deny"],"paramRef":{`+row.ref+`,"parameterNotFoundAction":"Allow"}`)
		code, text := r.as("ann", "POST", admissionPath+"validatingadmissionpolicybindings", body)
		if row.want == "" && code != 201 || row.want != "" && (code != 422 || !strings.Contains(text, "spec.paramRef: Forbidden: ") || !strings.Contains(text, row.want)) {
			t.Errorf("%s: %d %s", row.ref, code, text)
		}
	}
	body := bindingBody("c", "none", `"validationActions":["Deny"],"paramRef":{"name":"mine","parameterNotFoundAction":"Allow"}`)
	if code, text := r.as("ann", "POST", admissionPath+"validatingadmissionpolicybindings", body); code != 422 || !strings.Contains(text, "unable to get policy none to determine minimum required permissions") {
		t.Errorf("unknown policy: %d %s", code, text)
	}
}
