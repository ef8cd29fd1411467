package server

import (
	"net/http"
	"strings"
	"testing"

	"github.com/keelson-io/keelson/internal/store/mem"
	"github.com/keelson-io/keelson/internal/testkit"
)

// This file enforces admission policies over HTTP.

const admissionPath = "/apis/admissionregistration.k8s.io/v1/"

// policy is a ValidatingAdmissionPolicy for widgets; spec is further members.
func policyBody(name, spec string) string {
	return `{"apiVersion":"admissionregistration.k8s.io/v1","kind":"ValidatingAdmissionPolicy","metadata":{"name":"` + name + `"},"spec":{
		"matchConstraints":{"resourceRules":[{"operations":["CREATE","UPDATE"],"apiGroups":["demo.io"],"apiVersions":["*"],"resources":["widgets"]}]},` + spec + `}}`
}

func bindingBody(name, policy, spec string) string {
	return `{"apiVersion":"admissionregistration.k8s.io/v1","kind":"ValidatingAdmissionPolicyBinding","metadata":{"name":"` + name + `"},
		"spec":{"policyName":"` + policy + `",` + spec + `}}`
}

// withPolicy installs a policy and a binding.
func (r *running) withPolicy(policy, binding string) {
	r.t.Helper()
	r.must("POST", admissionPath+"validatingadmissionpolicies", policyBody("p", policy))
	r.must("POST", admissionPath+"validatingadmissionpolicybindings", bindingBody("b", "p", binding))
	r.settle()
}

func (r *running) withoutPolicy() {
	r.t.Helper()
	r.must("DELETE", admissionPath+"validatingadmissionpolicies/p", "")
	r.must("DELETE", admissionPath+"validatingadmissionpolicybindings/b", "")
	r.settle()
}

// TestPolicies checks the answers to clients for policies and bindings.
func TestPolicies(t *testing.T) {
	r := start(t, Config{Store: mem.New(mem.Options{})})
	r.define()
	r.must("POST", "/api/v1/namespaces/default/configmaps",
		`{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"params","labels":{"for":"policy"}},"data":{"color":"blue"}}`)
	const deny = `"validationActions":["Deny"]`
	const denied = `widgets.demo.io \"a\" is forbidden: ValidatingAdmissionPolicy 'p' with binding 'b' denied request: `
	for _, row := range []struct {
		policy, binding string
		code            int
		want            string
	}{
		{`"validations":[{"expression":"object.spec.color == 'red'"}]`, deny, 201, ``},
		{`"validations":[{"expression":"object.spec.color == 'blue'"}]`, deny, 422, denied + `failed expression: object.spec.color == 'blue'`},
		{`"validations":[{"expression":"object.spec.color == 'blue'","message":"not blue","reason":"Forbidden"}]`, deny, 403, denied + `not blue`},
		{`"validations":[{"expression":"object.spec.color == 'blue'","messageExpression":"'it is ' + object.spec.color"}]`, deny, 422, denied + `it is red`},
		{`"validations":[{"expression":"object.spec.color == 'blue'","message":"plain","messageExpression":"'two\\nlines'"}]`, deny, 422, denied + `plain`},
		{`"validations":[{"expression":"object.spec.color == 'blue'"}]`, `"validationActions":["Warn"]`, 201, ``},
		{`"validations":[{"expression":"object.spec.size > 3"}]`, deny, 422, denied + `expression 'object.spec.size \u003e 3' resulted in error: no such key: size`},
		{`"failurePolicy":"Ignore","validations":[{"expression":"object.spec.size > 3"}]`, deny, 201, ``},
		{`"variables":[{"name":"c","expression":"object.spec.color"},{"name":"d","expression":"variables.c + '!'"}],"validations":[{"expression":"variables.d == 'x'","messageExpression":"variables.d"}]`,
			deny, 422, denied + `red!`},
		{`"variables":[{"name":"c","expression":"object.spec.none"}],"validations":[{"expression":"variables.c == 'x'"}]`,
			deny, 422, `composited variable \"c\" fails to evaluate: no such key: none`},
		{`"validations":[{"expression":"authorizer.group('demo.io').resource('widgets').check('create').allowed() && namespaceObject.metadata.name == 'default' && request.operation == 'CREATE' && oldObject == null"}]`,
			deny, 201, ``},
		{`"validations":[{"expression":"authorizer.requestResource.check('nothing').allowed()"}]`, deny, 201, ``}, // the administrator may
		{`"matchConditions":[{"name":"x","expression":"object.spec.color == 'blue'"}],"validations":[{"expression":"false"}]`, deny, 201, ``},
		{`"matchConditions":[{"name":"x","expression":"object.spec.none == 'blue'"}],"validations":[{"expression":"false"}]`, deny, 422,
			denied + `expression 'object.spec.none == 'blue'' resulted in error: no such key: none`},
		{`"validations":[{"expression":"false"}]`, deny + `,"matchResources":{"namespaceSelector":{"matchLabels":{"no":"where"}}}`, 201, ``},
		{`"paramKind":{"apiVersion":"v1","kind":"ConfigMap"},"validations":[{"expression":"params.data.color == object.spec.color","messageExpression":"'only ' + params.data.color"}]`,
			deny + `,"paramRef":{"name":"params","namespace":"default","parameterNotFoundAction":"Deny"}`, 422, denied + `only blue`},
		{`"paramKind":{"apiVersion":"v1","kind":"ConfigMap"},"validations":[{"expression":"params.data.color == object.spec.color"}]`,
			deny + `,"paramRef":{"selector":{"matchLabels":{"for":"policy"}},"parameterNotFoundAction":"Deny"}`, 422, `params.data.color`},
		{`"paramKind":{"apiVersion":"v1","kind":"ConfigMap"},"validations":[{"expression":"false"}]`,
			deny + `,"paramRef":{"name":"none","parameterNotFoundAction":"Allow"}`, 201, ``},
		{`"paramKind":{"apiVersion":"v1","kind":"ConfigMap"},"validations":[{"expression":"true"}]`,
			deny + `,"paramRef":{"name":"none","parameterNotFoundAction":"Deny"}`, 422,
			denied + "failed to configure binding: no params found for policy binding with `Deny` parameterNotFoundAction"},
		{`"paramKind":{"apiVersion":"no.io/v1","kind":"None"},"validations":[{"expression":"true"}]`,
			deny + `,"paramRef":{"name":"none","parameterNotFoundAction":"Deny"}`, 422,
			`ValidatingAdmissionPolicy 'p' denied request: failed to configure policy: failed to find resource referenced by paramKind: 'no.io/v1, Kind=None'`},
	} {
		r.withPolicy(row.policy, row.binding)
		code, text := r.call(r.client, "POST", widgetsPath, widgetA, "User-Agent", "test")
		if code != row.code || !strings.Contains(text, row.want) {
			t.Errorf("%s %s:\ngot  %d %s\nwant %d %s", row.policy, row.binding, code, text, row.code, row.want)
		}
		r.withoutPolicy()
		r.call(r.client, "DELETE", widgetsPath+"/a", "")
	}
}

// TestPolicyWarns holds that a warning becomes a header of the answer.
func TestPolicyWarns(t *testing.T) {
	r := start(t, Config{Store: mem.New(mem.Options{})})
	r.define()
	r.withPolicy(`"validations":[{"expression":"false","message":"mind the gap"}]`, `"validationActions":["Warn","Audit"]`)
	req, err := http.NewRequest("POST", "https://"+r.Addr()+widgetsPath, strings.NewReader(widgetA))
	if err != nil {
		t.Fatal(err)
	}
	resp, err := r.client.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	resp.Body.Close()
	want := `299 - "Validation failed for ValidatingAdmissionPolicy 'p' with binding 'b': mind the gap"`
	if resp.StatusCode != 201 || resp.Header.Get("Warning") != want {
		t.Errorf("got %d, %q", resp.StatusCode, resp.Header.Get("Warning"))
	}
	text := r.must("GET", "/metrics", "")
	want = `apiserver_validating_admission_policy_check_total{enforcement_action="audit",error_type="invalid_error",policy="p",policy_binding="b"} 1`
	if !strings.Contains(text, want) {
		t.Errorf("metrics lack %s", want)
	}
}

// TestPolicyErrorTypes holds that metrics count decisions by what happened, not by how a message
// begins.
//
// Ledger: policy-error-type.
func TestPolicyErrorTypes(t *testing.T) {
	r := start(t, Config{Store: mem.New(mem.Options{})})
	r.define()
	// Each of these costs less than one expression may, all together more than a policy may.
	const ten = `[1,2,3,4,5,6,7,8,9,10]`
	costly := `{"expression":"` + strings.Repeat(ten+`.all(x, `, 5) + "true" + strings.Repeat(")", 5) + `"}`
	for _, row := range []struct{ policy, want string }{
		{`"validations":[{"expression":"false","message":"compilation of the list is incomplete"}]`, `error_type="invalid_error",policy="p",policy_binding="b"} 1`},
		{`"validations":[{"expression":"false","messageExpression":"'validation failed due to running out of cost budget'"}]`, `error_type="invalid_error",policy="p",policy_binding="b"} 2`},
		{`"validations":[` + costly + strings.Repeat(","+costly, 39) + `]`, `error_type="out_of_budget",policy="p",policy_binding="b"} 1`},
	} {
		r.withPolicy(row.policy, `"validationActions":["Deny"]`)
		if code, text := r.call(r.client, "POST", widgetsPath, widgetA); code < 400 {
			t.Errorf("%s: got %d %s", row.policy, code, text)
		}
		want := `apiserver_validating_admission_policy_check_total{enforcement_action="deny",` + row.want
		if text := r.must("GET", "/metrics", ""); !strings.Contains(text, want) {
			_, text, _ = strings.Cut(text, "\napiserver_validating_admission_policy_check_total")
			t.Errorf("%s: metrics lack %s, got %.200s", row.policy, want, text)
		}
		r.withoutPolicy()
	}
}

// TestMutatingPolicies holds that JSON patches and apply configurations change the object before
// webhooks see it.
func TestMutatingPolicies(t *testing.T) {
	h := serveHooks(t, map[string]behave{
		"see":     answerOf(`{"uid":"%s","allowed":true}`),
		"repaint": patching(`[{"op":"replace","path":"/spec/color","value":"green"}]`),
	})
	r := start(t, Config{Store: mem.New(mem.Options{})})
	r.define()
	r.configure(validatingConfig, "v", h.hookFor("see", ``))
	const binding = `{"apiVersion":"admissionregistration.k8s.io/v1","kind":"MutatingAdmissionPolicyBinding","metadata":{"name":"b"},"spec":{"policyName":"p"}}`
	for _, row := range []struct {
		mutations, more string
		code            int
		want            string
	}{
		{`{"patchType":"JSONPatch","jsonPatch":{"expression":"[JSONPatch{op: 'replace', path: '/spec/color', value: object.spec.color + '!'}]"}}`, ``, 201, `"color":"red!"`},
		{`{"patchType":"JSONPatch","jsonPatch":{"expression":"[JSONPatch{op: 'test', path: '/spec/color', value: 'blue'}, JSONPatch{op: 'remove', path: '/spec/color'}]"}}`, ``, 201, `"color":"red"`},
		{`{"patchType":"JSONPatch","jsonPatch":{"expression":"[JSONPatch{op: 'add', path: '/metadata/labels', value: {'a': variables.who}}, JSONPatch{op: 'add', path: '/spec/bogus', value: 1}]"}}`,
			`"variables":[{"name":"who","expression":"request.operation.lowerAscii()"}],`, 201, `"labels":{"a":"create"}`},
		{`{"patchType":"ApplyConfiguration","applyConfiguration":{"expression":"Object{spec: Object.spec{color: 'blue'}, metadata: Object.metadata{labels: {'b': 'c'}}}"}}`, ``, 201, `"labels":{"b":"c"}`},
		{`{"patchType":"ApplyConfiguration","applyConfiguration":{"expression":"Object{spec: Object.spec{colour: 'blue'}}"}}`, ``, 403,
			`policy 'p' with binding 'b' denied request: error applying patch: failed to convert patch object to typed object: .spec.colour: field not declared in schema`},
		{`{"patchType":"ApplyConfiguration","applyConfiguration":{"expression":"Object{spec: Object.metadata{color: 'blue'}}"}}`, ``, 403, `type mismatch: `},
		{`{"patchType":"JSONPatch","jsonPatch":{"expression":"[JSONPatch{op: 'remove', path: '/spec/none'}]"}}`, ``, 403, `denied request: JSON Patch: `},
		{`{"patchType":"JSONPatch","jsonPatch":{"expression":"[JSONPatch{op: 'remove', path: '/spec/none'}]"}}`, `"failurePolicy":"Ignore",`, 201, `"color":"red"`},
		{`{"patchType":"JSONPatch","jsonPatch":{"expression":"[JSONPatch{op: 'remove', path: '/spec/color'}]"}}`,
			`"matchConditions":[{"name":"x","expression":"object.spec.color == 'blue'"}],`, 201, `"color":"red"`},
	} {
		r.must("POST", admissionPath+"mutatingadmissionpolicies", `{"apiVersion":"admissionregistration.k8s.io/v1","kind":"MutatingAdmissionPolicy","metadata":{"name":"p"},"spec":{
			"matchConstraints":{"resourceRules":[{"operations":["CREATE"],"apiGroups":["demo.io"],"apiVersions":["*"],"resources":["widgets"]}]},`+
			row.more+`"reinvocationPolicy":"Never","mutations":[`+row.mutations+`]}}`)
		r.must("POST", admissionPath+"mutatingadmissionpolicybindings", binding)
		r.settle()
		code, text := r.call(r.client, "POST", widgetsPath, widgetA, "User-Agent", "test")
		if code != row.code || !strings.Contains(text, row.want) || strings.Contains(text, "bogus") && code == 201 {
			t.Errorf("%s %s:\ngot  %d %s\nwant %d %s", row.mutations, row.more, code, text, row.code, row.want)
		}
		r.must("DELETE", admissionPath+"mutatingadmissionpolicies/p", "")
		r.must("DELETE", admissionPath+"mutatingadmissionpolicybindings/b", "")
		r.settle()
		r.call(r.client, "DELETE", widgetsPath+"/a", "")
	}
	// A webhook changes the object after the policy, which is asked again.
	r.configure(mutatingConfig, "m", h.hookFor("repaint", ``))
	r.must("POST", admissionPath+"mutatingadmissionpolicies", `{"apiVersion":"admissionregistration.k8s.io/v1","kind":"MutatingAdmissionPolicy","metadata":{"name":"p"},"spec":{
		"matchConstraints":{"resourceRules":[{"operations":["CREATE"],"apiGroups":["demo.io"],"apiVersions":["*"],"resources":["widgets"]}]},
		"reinvocationPolicy":"IfNeeded","mutations":[{"patchType":"JSONPatch","jsonPatch":{"expression":"[JSONPatch{op: 'add', path: '/metadata/labels', value: {'seen': object.spec.color}}]"}}]}}`)
	r.must("POST", admissionPath+"mutatingadmissionpolicybindings", binding)
	r.settle()
	if text := r.must("POST", widgetsPath, widgetA); !strings.Contains(text, `"seen":"green"`) {
		t.Errorf("asked again: %s", text)
	}
}

// TestPolicyWrites holds that an invalid policy is refused when it is written, and that a stored
// invalid one can be updated if the invalid part does not change.
func TestPolicyWrites(t *testing.T) {
	r := start(t, Config{Store: mem.New(mem.Options{})})
	const deny = `"validationActions":["Deny"]`
	for _, row := range []struct{ path, body, want string }{
		{"validatingadmissionpolicies", policyBody("p", `"validations":[{"expression":"object.spec."}]`),
			`ValidatingAdmissionPolicy.admissionregistration.k8s.io \"p\" is invalid: spec.validations[0].expression: Invalid value: \"object.spec.\": compilation failed: ERROR: `},
		{"validatingadmissionpolicies", policyBody("p", `"validations":[{"expression":"1"}]`), `spec.validations[0].expression: Invalid value: \"1\": must evaluate to bool but got int`},
		{"validatingadmissionpolicies", policyBody("p", `"validations":[]`), `spec.validations: Required value: validations or auditAnnotations must contain at least one item`},
		{"validatingadmissionpolicies", policyBody("p", `"validations":[{"expression":"[1].includes(1)"}]`), `undeclared reference to 'includes'`}, // of the newest version
		{"validatingadmissionpolicies", policyBody("p.static.k8s.io", `"validations":[{"expression":"true"}]`), `metadata.name: Invalid value: \"p.static.k8s.io\": names ending with`},
		{"validatingadmissionpolicybindings", bindingBody("b", "p", `"validationActions":["Deny","Warn"]`), `spec.validationActions: Invalid value: [\"Deny\",\"Warn\"]: must not contain both Deny and Warn`},
		{"validatingadmissionpolicybindings", bindingBody("b", "p", deny+`,"paramRef":{"name":"a"}`), `spec.paramRef.parameterNotFoundAction: Required value`},
	} {
		if code, text := r.call(r.client, "POST", admissionPath+row.path, row.body); code != 422 || !strings.Contains(text, row.want) {
			t.Errorf("%s:\ngot  %d %s\nwant 422 %s", row.body, code, text, row.want)
		}
	}
	stored := r.must("POST", admissionPath+"validatingadmissionpolicies", policyBody("p", `"validations":[{"expression":"true"}]`))
	if !strings.Contains(stored, `"generation":1`) {
		t.Errorf("got %s", stored)
	}
	code, text := r.call(r.client, "PATCH", admissionPath+"validatingadmissionpolicies/p", `{"spec":{"failurePolicy":"Maybe"}}`, "Content-Type", "application/merge-patch+json")
	if want := `spec.failurePolicy: Unsupported value: \"Maybe\": supported values: \"Fail\", \"Ignore\"`; code != 422 || !strings.Contains(text, want) {
		t.Errorf("got %d %s, want %s", code, text, want)
	}
}

// TestPolicyTypes holds that the status of a policy lists expressions that do not match the types
// of its kinds. Without any, the first status has an empty member; later ones have none, because an
// apply that removes fields also removes their empty parents.
func TestPolicyTypes(t *testing.T) {
	r := start(t, Config{Store: mem.New(mem.Options{})})
	r.define()
	const path = admissionPath + "validatingadmissionpolicies/p"
	status := func(observed string) string {
		t.Helper()
		var text string
		testkit.EventuallySay(t, func() (string, bool) {
			text = r.must("GET", path, "")
			return observed + " in " + text, strings.Contains(text, observed)
		})
		return strings.TrimSpace(text[strings.LastIndex(text, `"status":`):])
	}
	r.must("POST", admissionPath+"validatingadmissionpolicies", `{"metadata":{"name":"p","finalizers":["demo.io/x"]},"spec":{
		"matchConstraints":{"resourceRules":[{"operations":["CREATE"],"apiGroups":["demo.io"],"apiVersions":["v1"],"resources":["widgets"]}]},
		"validations":[{"expression":"true"}]}}`)
	if got, want := status(`"observedGeneration":1`), `"status":{"observedGeneration":1,"typeChecking":{}}}`; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
	r.must("PATCH", path, `{"spec":{"validations":[{"expression":"object.spec.color == 1","messageExpression":"string(object.spec.nothing)"}]}}`, "Content-Type", "application/merge-patch+json")
	got := status(`"observedGeneration":2`)
	for _, want := range []string{
		`"fieldRef":"spec.validations[0].expression"`, `"warning":"demo.io/v1, Kind=Widget: ERROR: \u003cinput\u003e:1:19: found no matching overload for '_==_' applied to '(string, int)'\n | object.spec.color == 1\n | ..................^\n"`,
		`"fieldRef":"spec.validations[0].messageExpression"`, `undefined field 'nothing'`,
	} {
		if !strings.Contains(got, want) {
			t.Errorf("status %s lacks %s", got, want)
		}
	}
	r.must("PATCH", path, `{"spec":{"validations":[{"expression":"true"}]}}`, "Content-Type", "application/merge-patch+json")
	if got, want := status(`"observedGeneration":3`), `"status":{"observedGeneration":3}}`; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
	r.must("DELETE", path, "") // a finalizer keeps it, and its generation goes up
	if got, want := status(`"observedGeneration":4`), `"status":{"observedGeneration":4,"typeChecking":{}}}`; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}
