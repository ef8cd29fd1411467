package e2e

import (
	"encoding/json"
	"strings"
	"testing"
)

// This file asks what webhooks and policies see of requests to connect. They decide before the server looks at the pod.

// webhookConnections sends requests to connect to pods, services and nodes.
func (x *hooked) webhookConnections(t *testing.T) {
	const namespace = "/api/v1/namespaces/default/"
	x.hooks.on("connect", allows)
	x.configure(t, validating, "v", x.hooks.hook("connect", forRules("CONNECT", "", "v1", "*/*")))
	for _, row := range []struct {
		path, resource, sub, name, namespace, object string
		code                                         int
	}{
		{namespace + "pods/none/exec?command=ls&command=-l&container=c&stdout=true&stdin=0&tty&junk=1", "pods", "exec", "none", "default",
			`{"apiVersion":"v1","command":["ls","-l"],"container":"c","kind":"PodExecOptions","stdout":true,"tty":true}`, 404},
		{namespace + "pods/none/exec", "pods", "exec", "none", "default", `{"apiVersion":"v1","command":null,"kind":"PodExecOptions"}`, 404},
		{namespace + "pods/none/attach?stdin=true&stderr=1&container=c", "pods", "attach", "none", "default",
			`{"apiVersion":"v1","container":"c","kind":"PodAttachOptions","stderr":true,"stdin":true}`, 404},
		{namespace + "pods/none/portforward?ports=80,443&ports=8080", "pods", "portforward", "none", "default",
			`{"apiVersion":"v1","kind":"PodPortForwardOptions","ports":[80,443,8080]}`, 404},
		{namespace + "pods/none/portforward", "pods", "portforward", "none", "default", `{"apiVersion":"v1","kind":"PodPortForwardOptions"}`, 404},
		{namespace + "pods/https:none:81/proxy", "pods", "proxy", "https:none:81", "default", `{"apiVersion":"v1","kind":"PodProxyOptions"}`, 404},
		{namespace + "pods/none/proxy/?path=x", "pods", "proxy", "none", "default", `{"apiVersion":"v1","kind":"PodProxyOptions","path":"/"}`, 404},
		{namespace + "services/none/proxy/a/b/", "services", "proxy", "none", "default", `{"apiVersion":"v1","kind":"ServiceProxyOptions","path":"/a/b/"}`, 503},
		{"/api/v1/nodes/none/proxy/pods", "nodes", "proxy", "none", "", `{"apiVersion":"v1","kind":"NodeProxyOptions","path":"/pods"}`, 404},
	} {
		x.hooks.seen()
		if a := x.send(t, "GET", row.path, ""); a.code != row.code {
			t.Errorf("%s: got %d %s", row.path, a.code, a.body)
		}
		calls := x.hooks.seen()
		if len(calls) != 1 {
			t.Errorf("%s: got %d calls", row.path, len(calls))
			continue
		}
		q := &calls[0].Request
		object, _ := json.Marshal(q.Object)
		kind, _ := q.Object["kind"].(string)
		if string(object) != row.object || q.OldObject != nil || q.Options != nil || q.DryRun == nil || *q.DryRun ||
			q.Operation != "CONNECT" || q.Kind["kind"] != kind || q.Kind["version"] != "v1" || q.RequestKind["kind"] != kind ||
			q.Resource["resource"] != row.resource || q.SubResource != row.sub || q.RequestSubResource != row.sub || q.Name != row.name || q.Namespace != row.namespace {
			t.Errorf("%s: got %+v\nwith %s\nwant %s", row.path, *q, object, row.object)
		}
	}
	// Requests whose options are malformed do not reach admission.
	for path, want := range map[string]string{
		"pods/none/portforward?ports=x":        `cannot convert to []int32: strconv.ParseUint: parsing "x": invalid syntax`,
		"pods/none/exec?command=ls&dryRun=All": "dryRun is not supported",
	} {
		if a := x.send(t, "POST", namespace+path, ""); a.code != 400 || !strings.Contains(a.message, want) {
			t.Errorf("%s: got %d %s", path, a.code, a.body)
		}
	}
	if calls := x.hooks.seen(); len(calls) > 0 {
		t.Errorf("got calls of %s", called(calls))
	}

	// A mutating webhook comes first, and those that validate see its changes.
	x.hooks.on("change", patches(`[{"op":"replace","path":"/command","value":["true"]},{"op":"add","path":"/more","value":1}]`))
	x.hooks.on("connect", answers(`{"uid":"%s","allowed":false,"status":{"message":"not today"},"warnings":["careful"]}`))
	x.configure(t, mutating, "m", x.hooks.hook("change", forRules("CONNECT", "", "v1", "pods/exec")))
	x.hooks.seen()
	a := x.send(t, "POST", namespace+"pods/none/exec?command=ls", "")
	if want := `admission webhook "connect.demo.io" denied the request: not today`; a.code != 400 || a.message != want || len(a.warnings) != 1 {
		t.Errorf("got %d %s %q, want %s", a.code, a.body, a.warnings, want)
	}
	calls := x.hooks.seen()
	if called(calls) != "change connect" {
		t.Fatalf("got calls of %s", called(calls))
	}
	if object, _ := json.Marshal(calls[1].Request.Object); string(object) != `{"apiVersion":"v1","command":["true"],"kind":"PodExecOptions"}` {
		t.Errorf("got %s", object)
	}

	// A policy.
	x.do(t, 201, "POST", registrations+"validatingadmissionpolicies", []byte(`{"apiVersion":"admissionregistration.k8s.io/v1","kind":"ValidatingAdmissionPolicy","metadata":{"name":"noexec"},"spec":{
		"matchConstraints":{"resourceRules":[{"operations":["CONNECT"],"apiGroups":[""],"apiVersions":["v1"],"resources":["pods/attach"]}]},
		"validations":[{"expression":"object.kind == 'PodAttachOptions' && has(object.stdin)","message":"no output only","reason":"Forbidden"}]}}`))
	defer x.do(t, 200, "DELETE", registrations+"validatingadmissionpolicies/noexec", nil)
	x.do(t, 201, "POST", registrations+"validatingadmissionpolicybindings", []byte(`{"apiVersion":"admissionregistration.k8s.io/v1","kind":"ValidatingAdmissionPolicyBinding","metadata":{"name":"noexec"},"spec":{
		"policyName":"noexec","validationActions":["Deny"]}}`))
	defer x.do(t, 200, "DELETE", registrations+"validatingadmissionpolicybindings/noexec", nil)
	eventually(t, "the policy", func() bool {
		a = x.send(t, "GET", namespace+"pods/none/attach?stdout=1", "")
		return a.code == 403
	})
	if want := `pods "none" is forbidden: ValidatingAdmissionPolicy 'noexec' with binding 'noexec' denied request: no output only`; a.message != want {
		t.Errorf("got %s, want %s", a.body, want)
	}
}
