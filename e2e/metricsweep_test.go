package e2e

import (
	"fmt"
	"strings"
	"testing"
)

// TestMetricsOfDeletedObjects checks that creating and deleting definitions, webhooks and policies
// does not make /metrics, and the memory behind it, grow for ever.
// Ledger: metrics-of-deleted.
func TestMetricsOfDeletedObjects(t *testing.T) {
	t.Parallel()
	s := startServer(t)
	const crds, admission = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions", "/apis/admissionregistration.k8s.io/v1/"
	define := func(plural string) {
		s.do(t, 201, "POST", crds, fmt.Appendf(nil, `{"apiVersion":"apiextensions.k8s.io/v1","kind":"CustomResourceDefinition","metadata":{"name":"%s.sweep.io"},"spec":{"group":"sweep.io","scope":"Cluster",
			"names":{"plural":%q,"kind":"K%[2]s"},"versions":[{"name":"v1","served":true,"storage":true,"schema":{"openAPIV3Schema":{"type":"object","x-kubernetes-preserve-unknown-fields":true}}}]}}`, plural, plural))
		s.do(t, 200, "GET", "/apis/sweep.io/v1/"+plural, nil)
		s.do(t, 200, "GET", "/apis/sweep.io/v1/"+plural+"?watch=true&timeoutSeconds=1&resourceVersion=0&fieldSelector=metadata.name%3Dx&limit=1", nil)
		s.do(t, 404, "GET", "/apis/sweep.io/v1/"+plural+"/x", nil)
	}
	rules := `"rules":[{"apiGroups":[""],"apiVersions":["v1"],"resources":["configmaps"],"operations":["*"]}]`
	guard := func(name string) {
		s.do(t, 201, "POST", admission+"validatingwebhookconfigurations", fmt.Appendf(nil, `{"apiVersion":"admissionregistration.k8s.io/v1","kind":"ValidatingWebhookConfiguration","metadata":{"name":%q},
			"webhooks":[{"name":"%[1]s.hook.io","failurePolicy":"Ignore","sideEffects":"None","admissionReviewVersions":["v1"],"timeoutSeconds":1,"clientConfig":{"url":"https://127.0.0.1:1/"},
			"matchConditions":[{"name":"c","expression":"request.name != 'never'"}],%s}]}`, name, rules))
		s.do(t, 201, "POST", admission+"validatingadmissionpolicies", fmt.Appendf(nil, `{"apiVersion":"admissionregistration.k8s.io/v1","kind":"ValidatingAdmissionPolicy","metadata":{"name":"%s-policy"},
			"spec":{"matchConstraints":{"resourceRules":[{"apiGroups":[""],"apiVersions":["v1"],"resources":["configmaps"],"operations":["*"]}]},"validations":[{"expression":"false"}]}}`, name))
		s.do(t, 201, "POST", admission+"validatingadmissionpolicybindings", fmt.Appendf(nil, `{"apiVersion":"admissionregistration.k8s.io/v1","kind":"ValidatingAdmissionPolicyBinding","metadata":{"name":"%s-binding"},
			"spec":{"policyName":"%[1]s-policy","validationActions":["Warn"]}}`, name))
	}
	metrics := func() string { return string(s.do(t, 200, "GET", "/metrics", nil)) }
	define("lasting")
	guard("lasting")
	gone := []string{}
	for i := range 5 {
		name := fmt.Sprintf("passing%d", i)
		gone = append(gone, name)
		define(name)
		guard(name)
		eventually(t, "the webhook and the policy of "+name+" are asked", func() bool {
			s.do(t, 201, "POST", "/api/v1/namespaces/default/configmaps?dryRun=All", []byte(`{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"a"}}`))
			text := metrics()
			return strings.Contains(text, `name="`+name+`.hook.io"`) && strings.Contains(text, `policy="`+name+`-policy",policy_binding="`+name+`-binding"`) &&
				strings.Contains(text, `resource="`+name+`"`)
		})
	}
	for _, name := range gone {
		s.do(t, 200, "DELETE", crds+"/"+name+".sweep.io", nil)
		s.do(t, 200, "DELETE", admission+"validatingwebhookconfigurations/"+name, nil)
		s.do(t, 200, "DELETE", admission+"validatingadmissionpolicybindings/"+name+"-binding", nil)
		s.do(t, 200, "DELETE", admission+"validatingadmissionpolicies/"+name+"-policy", nil)
	}
	for _, name := range gone {
		eventually(t, name+" is not served", func() bool {
			code, _, err := s.try("GET", "/apis/sweep.io/v1/"+name, nil)
			return err == nil && code == 404
		})
	}
	eventually(t, "what has been deleted has no metrics", func() bool { return !strings.Contains(metrics(), "passing") })
	text := metrics()
	for _, want := range []string{`resource="lasting"`, `name="lasting.hook.io"`, `policy="lasting-policy",policy_binding="lasting-binding"`, `resource="customresourcedefinitions"`, `resource="unknown"`} {
		if !strings.Contains(text, want) {
			t.Errorf("%s is gone from /metrics, too", want)
		}
	}
}
