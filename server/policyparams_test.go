package server

import (
	"strings"
	"testing"

	"github.com/keelson-io/keelson/internal/store/mem"
)

// This file decides by parameters that change, says why in expressions, and
// counts what mutating policies do.

const (
	limitsPath = "/apis/demo.io/v1/namespaces/default/limits"
	mergePatch = "application/merge-patch+json"
)

// defineLimits installs the definition of parameters, which are custom resources.
func (r *running) defineLimits() {
	r.t.Helper()
	r.must("POST", "/apis/apiextensions.k8s.io/v1/customresourcedefinitions",
		strings.NewReplacer("widgets", "limits", "widget", "limit", "Widget", "Limit").Replace(crdBody))
	r.serves(limitsPath)
}

// limit changes the parameters and waits until the server knows of it.
func (r *running) limit(method, name, body string) {
	r.t.Helper()
	path := limitsPath
	if method != "POST" {
		path += "/" + name
	}
	r.must(method, path, body, "Content-Type", map[bool]string{true: mergePatch, false: "application/json"}[method == "PATCH"])
	r.must("GET", limitsPath, "") // as new as every write
}

func limitBody(name, label, color string) string {
	return `{"apiVersion":"demo.io/v1","kind":"Limit","metadata":{"name":"` + name + `","labels":{"for":"` + label + `"}},"spec":{"color":"` + color + `"}}`
}

// TestPolicyParametersChange holds that decisions follow changes of parameter objects, selected by
// name or labels, for validating and mutating policies.
func TestPolicyParametersChange(t *testing.T) {
	r := start(t, Config{Store: mem.New(mem.Options{})})
	r.define()
	r.defineLimits()
	expect := func(what string, code int, want string) {
		t.Helper()
		got, text := r.call(r.client, "POST", widgetsPath+"?dryRun=All", widgetA)
		if got != code || !strings.Contains(text, want) {
			t.Errorf("%s: got %d %s, want %d %s", what, got, text, code, want)
		}
	}
	const (
		denied  = `ValidatingAdmissionPolicy 'p' with binding 'b' denied request: `
		missing = denied + "failed to configure binding: no params found for policy binding with `Deny` parameterNotFoundAction"
		policy  = `"paramKind":{"apiVersion":"demo.io/v1","kind":"Limit"},
			"validations":[{"expression":"params.spec.color == object.spec.color","messageExpression":"'only ' + params.spec.color"}]`
		named    = `"paramRef":{"name":"l","parameterNotFoundAction":"Deny"}`
		selected = `"paramRef":{"namespace":"default","selector":{"matchLabels":{"for":"p"}},"parameterNotFoundAction":"Deny"}`
		deny     = `"validationActions":["Deny"],`
	)
	r.withPolicy(policy, deny+named)
	expect("no parameter", 422, missing)
	r.limit("POST", "l", limitBody("l", "p", "blue"))
	expect("another color", 422, denied+"only blue")
	r.limit("PATCH", "l", `{"spec":{"color":"red"}}`)
	expect("the color changed", 201, ``)
	r.limit("PATCH", "l", `{"spec":{"color":"green"}}`)
	expect("and again", 422, denied+"only green")
	r.limit("DELETE", "l", "")
	expect("it is gone", 422, missing)
	r.limit("POST", "l", limitBody("l", "p", "red"))
	expect("it is back", 201, ``)
	r.withoutPolicy()

	r.withPolicy(policy, deny+selected)
	expect("the one selected", 201, ``)
	r.limit("POST", "m", limitBody("m", "other", "black"))
	expect("one that is not selected", 201, ``)
	r.limit("PATCH", "m", `{"metadata":{"labels":{"for":"p"}}}`)
	expect("two selected, of which one denies", 422, denied+"only black")
	r.limit("DELETE", "m", "")
	expect("the other one is gone", 201, ``)
	r.limit("PATCH", "l", `{"metadata":{"labels":null}}`)
	expect("none is selected", 422, missing)
	r.withoutPolicy()
	r.withPolicy(policy, deny+strings.Replace(selected, `"Deny"`, `"Allow"`, 1))
	expect("none is selected, which is allowed", 201, ``)
	r.withoutPolicy()

	r.must("POST", admissionPath+"mutatingadmissionpolicies", mutatingBody(`"paramKind":{"apiVersion":"demo.io/v1","kind":"Limit"},`,
		`{"patchType":"JSONPatch","jsonPatch":{"expression":"[JSONPatch{op: 'replace', path: '/spec/color', value: params.spec.color + '!'}]"}}`))
	r.must("POST", admissionPath+"mutatingadmissionpolicybindings", `{"metadata":{"name":"b"},"spec":{"policyName":"p",`+named+`}}`)
	r.settle()
	expect("mutated", 201, `"color":"red!"`)
	r.limit("PATCH", "l", `{"spec":{"color":"pink"}}`)
	expect("mutated by what changed", 201, `"color":"pink!"`)
	r.limit("DELETE", "l", "")
	expect("nothing to mutate by", 403, "policy 'p' with binding 'b' denied request: failed to configure binding: no params found for policy binding with `Deny` parameterNotFoundAction")
	r.must("DELETE", "/apis/apiextensions.k8s.io/v1/customresourcedefinitions/limits.demo.io", "")
	r.until("limits are not served any more", func() bool {
		code, _ := r.call(r.client, "GET", limitsPath, "")
		return code == 404
	})
	expect("no such parameters", 403, `failed to find resource referenced by paramKind: 'demo.io/v1, Kind=Limit'`)
}

// mutatingBody returns a MutatingAdmissionPolicy for new widgets; more are further
// members of its spec.
func mutatingBody(more, mutations string) string {
	return `{"metadata":{"name":"p"},"spec":{` + more + `"reinvocationPolicy":"Never",
		"matchConstraints":{"resourceRules":[{"operations":["CREATE"],"apiGroups":["demo.io"],"apiVersions":["*"],"resources":["widgets"]}]},"mutations":[` + mutations + `]}}`
}

// TestPolicyMessages holds that a message expression's result is trimmed. If it is empty, too long,
// has several lines, or fails, the message is used, and without a message the expression.
func TestPolicyMessages(t *testing.T) {
	r := start(t, Config{Store: mem.New(mem.Options{})})
	r.define()
	long := strings.Repeat("x", 5*1024)
	const sent = `string(object.spec.color)`
	for _, row := range []struct{ color, expression, message, want string }{
		{long, sent, `plain`, long},
		{long + "x", sent, `plain`, `plain`},
		{long + "x", sent, ``, `failed expression: 1 == 2`},
		{"  " + long + `\n`, sent, `plain`, long}, // it is trimmed first
		{`two\nlines`, sent, `plain`, `plain`},
		{`two\nlines`, sent, ``, `failed expression: 1 == 2`},
		{`one line\n`, sent, `plain`, `one line`},
		{``, sent, `  plain `, `plain`},
		{` \n\t `, sent, `plain`, `plain`},
		{``, sent, ``, `failed expression: 1 == 2`},
		{`red`, `string(object.spec.none)`, `plain`, `plain`},
		{`red`, `string(object.spec.none)`, ``, `failed expression: 1 == 2`},
	} {
		message := ""
		if row.message != "" {
			message = `"message":"` + row.message + `",`
		}
		r.withPolicy(`"validations":[{"expression":" 1 == 2 ",`+message+`"messageExpression":"`+row.expression+`"}]`, `"validationActions":["Deny"]`)
		code, text := r.call(r.client, "POST", widgetsPath, `{"apiVersion":"demo.io/v1","kind":"Widget","metadata":{"name":"a"},"spec":{"color":"`+row.color+`"}}`)
		want := `"message":"widgets.demo.io \"a\" is forbidden: ValidatingAdmissionPolicy 'p' with binding 'b' denied request: ` + row.want + `",`
		if code != 422 || !strings.Contains(text, want) {
			t.Errorf("%.20q… (%d bytes), %s, %s: got %d %.400s, want %.200s", row.color, len(row.color), row.expression, row.message, code, text, want)
		}
		r.withoutPolicy()
	}
}

// TestMutatingPolicyMetrics holds that mutations are counted by policy, binding and result.
func TestMutatingPolicyMetrics(t *testing.T) {
	r := start(t, Config{Store: mem.New(mem.Options{})})
	r.define()
	const patch = `{"patchType":"JSONPatch","jsonPatch":{"expression":"`
	r.must("POST", admissionPath+"mutatingadmissionpolicies", mutatingBody(`"matchConditions":[{"name":"c","expression":"object.spec.color != 'blue'"}],`,
		patch+`[JSONPatch{op: 'add', path: '/metadata/labels', value: {'a': 'b'}}]"}},`+
			patch+`object.spec.color == 'red' ? [JSONPatch{op: 'test', path: '/spec/color', value: 'red'}] : [JSONPatch{op: 'remove', path: '/spec/none'}]"}}`))
	r.must("POST", admissionPath+"mutatingadmissionpolicybindings", `{"metadata":{"name":"b"},"spec":{"policyName":"p"}}`)
	r.settle()
	for color, code := range map[string]int{"red": 201, "green": 403, "blue": 201} {
		body := `{"apiVersion":"demo.io/v1","kind":"Widget","metadata":{"name":"a"},"spec":{"color":"` + color + `"}}`
		if got, text := r.call(r.client, "POST", widgetsPath+"?dryRun=All", body); got != code {
			t.Errorf("%s: got %d %s, want %d", color, got, text, code)
		}
	}
	text := r.must("GET", "/metrics", "")
	const (
		count   = "apiserver_mutating_admission_policy_check_total"
		seconds = "apiserver_mutating_admission_policy_check_duration_seconds"
		fine    = `{error_type="no_error",policy="p",policy_binding="b"} 3`
		wrong   = `{error_type="invalid_error",policy="p",policy_binding="b"} 1`
	)
	for _, want := range []string{
		"# HELP " + count + " [ALPHA] Mutation admission policy check total, labeled by policy and further identified by binding.\n# TYPE " + count + " counter\n",
		"# HELP " + seconds + " [ALPHA] Mutation admission latency for individual mutation expressions in seconds, labeled by policy and binding.\n# TYPE " + seconds + " histogram\n",
		"\n" + count + fine + "\n", "\n" + count + wrong + "\n", "\n" + seconds + "_count" + fine + "\n", "\n" + seconds + "_count" + wrong + "\n",
		`,policy="p",policy_binding="b",le="5e-07"} `, `,policy="p",policy_binding="b",le="0.001"} `, `,policy="p",policy_binding="b",le="0.01"} `,
		`,policy="p",policy_binding="b",le="0.1"} `, `,policy="p",policy_binding="b",le="1"} `, `,policy="p",policy_binding="b",le="+Inf"} 3`,
	} {
		if !strings.Contains(text, want) {
			t.Errorf("metrics lack %q", want)
		}
	}
	if t.Failed() {
		for line := range strings.SplitSeq(text, "\n") {
			if strings.Contains(line, "mutating_admission_policy") {
				t.Log(line)
			}
		}
	}
}
