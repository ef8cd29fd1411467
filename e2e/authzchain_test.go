package e2e

import (
	"fmt"
	"maps"
	"path/filepath"
	"strings"
	"testing"
)

// This file is the chain of authorizers: whose opinion counts, and what is said, recorded and counted of it.

// counted are metrics of decisions and attempts, which are all that such requests change.
func counted(attempt string, names ...string) map[string]float64 {
	m := map[string]float64{
		fmt.Sprintf(`authorization_attempts_total{result=%q}`, attempt): 1, fmt.Sprintf(`authorization_duration_seconds_count{result=%q}`, attempt): 1,
	}
	for _, n := range names {
		m[n] = 1
	}
	return m
}

func decision(what, name, kind string) string {
	return fmt.Sprintf(`apiserver_authorization_decisions_total{decision=%q,name=%q,type=%q}`, what, name, kind)
}

func evaluated(name, result string) []string {
	return []string{fmt.Sprintf(`apiserver_authorization_webhook_evaluations_total{name=%q,result=%q}`, name, result),
		fmt.Sprintf(`apiserver_authorization_webhook_duration_seconds_count{name=%q,result=%q}`, name, result)}
}

// TestAuthzOrder asks chains in every order of four that have an opinion, or none.
func TestAuthzOrder(t *testing.T) {
	t.Parallel()
	h := newReviewer(t)
	policies := filepath.Join(t.TempDir(), "abac.jsonl")
	overwrite(t, policies, `{"apiVersion":"abac.authorization.kubernetes.io/v1beta1","kind":"Policy","spec":{"user":"abe","namespace":"*","resource":"*","apiGroup":"*"}}`+"\n")
	links := map[string]string{
		"refuses": entry("refuses", h.kubeconfig("/refuses", ""), "Deny", uncached), "agrees": entry("agrees", h.kubeconfig("/agrees", ""), "Deny", uncached),
		"rbac": plainEntry("RBAC"), "abac": plainEntry("ABAC"), "alwaysdeny": plainEntry("AlwaysDeny"),
	}
	h.on("/refuses", rules(`{}`))
	h.on("/agrees", rules(`{}`))
	g := startGuarded(t, authzConfig("v1beta1", links["rbac"], links["abac"], plainEntry("Node")), []string{"ann/dev", "bob", "root/system:masters", "abe", "system:node:n1/system:nodes"}, "--authorization-policy-file", policies)
	g.do(t, 201, "POST", "/apis/rbac.authorization.k8s.io/v1/namespaces/default/roles", []byte(`{"apiVersion":"rbac.authorization.k8s.io/v1","kind":"Role","metadata":{"name":"r"},"rules":[{"verbs":["list"],"apiGroups":[""],"resources":["configmaps"]}]}`))
	g.do(t, 201, "POST", "/apis/rbac.authorization.k8s.io/v1/namespaces/default/rolebindings", []byte(`{"apiVersion":"rbac.authorization.k8s.io/v1","kind":"RoleBinding","metadata":{"name":"b"},"roleRef":{"kind":"Role","name":"r","apiGroup":"rbac.authorization.k8s.io"},"subjects":[{"kind":"Group","name":"dev","apiGroup":"rbac.authorization.k8s.io"}]}`))
	eventually(t, "role", func() bool { return g.as("ann", "GET", configMaps, "").code == 200 })
	const refused = `configmaps is forbidden: User \"ann\" cannot list resource \"configmaps\" in API group \"\" in the namespace \"default\": never"`
	for _, order := range permutations([]string{"refuses", "agrees", "rbac", "alwaysdeny"}) {
		var entries []string
		for _, name := range order {
			entries = append(entries, links[name])
		}
		g.reload(append(entries, links["abac"], plainEntry("Node"))...)
		what := strings.Join(order, " ")
		// ann is everybody's business.
		h.on("/refuses", rules(`{"denied":true,"reason":"never"}`))
		h.on("/agrees", rules(`{"allowed":true,"reason":"of course"}`))
		before := g.samples()
		got := g.as("ann", "GET", configMaps, "")
		var want map[string]float64
		var asked []string
		code, reason, verdict := 0, "", "allow"
		for _, name := range order {
			switch name {
			case "refuses":
				code, reason, verdict, asked = 403, "never", "forbid", evaluated(name, "success")
				want = counted("denied", append(asked, decision("denied", name, "Webhook"))...)
			case "agrees":
				code, reason, asked = 200, "of course", evaluated(name, "success")
				want = counted("allowed", append(asked, decision("allowed", name, "Webhook"))...)
			case "rbac":
				code, reason = 200, `RBAC: allowed by RoleBinding "b/default" of Role "r" to Group "dev"`
				want = counted("allowed", decision("allowed", name, "RBAC"))
			default:
				continue // has no opinion
			}
			break
		}
		if got.code != code || code == 403 && !strings.Contains(got.body, refused) {
			t.Errorf("%s: got %d %s", what, got.code, got.body)
		}
		compare(t, what, g.since(before), want)
		if a := g.annotations(got); a["authorization.k8s.io/decision"] != verdict || a["authorization.k8s.io/reason"] != reason {
			t.Errorf("%s: recorded as %v", what, a)
		}
		// bob is nobody's: what everybody has to say about him is said, in order.
		h.on("/refuses", rules(`{"reason":"hm"}`))
		h.on("/agrees", rules(`{"reason":"so so"}`))
		before = g.samples()
		got = g.as("bob", "GET", configMaps, "")
		var said []string
		for _, name := range order {
			if text := map[string]string{"refuses": "hm", "agrees": "so so", "alwaysdeny": "Everything is forbidden."}[name]; text != "" {
				said = append(said, name+": "+text)
			}
		}
		said = append(said, "abac: No policy matched.")
		if a := g.annotations(got); got.code != 403 || a["authorization.k8s.io/decision"] != "forbid" || a["authorization.k8s.io/reason"] != strings.Join(said, "\n") {
			t.Errorf("%s: bob: got %d, recorded as %q", what, got.code, a)
		}
		if text := `in the namespace \"default\": ` + strings.Join(said, `\n`) + `"`; !strings.Contains(got.body, text) {
			t.Errorf("%s: bob: got %s, want %s", what, got.body, text)
		}
		compare(t, what+": bob", g.since(before), counted("no-opinion", append(evaluated("refuses", "success"), evaluated("agrees", "success")...)...))
	}
	// The members of system:masters are asked about nowhere.
	h.on("/refuses", rules(`{"denied":true}`))
	calls, before := len(h.questions("/refuses")), g.samples()
	got := g.as("root", "GET", configMaps, "")
	if a := g.annotations(got); got.code != 200 || a["authorization.k8s.io/decision"] != "allow" || a["authorization.k8s.io/reason"] != "" || len(h.questions("/refuses")) != calls {
		t.Errorf("root: got %d, recorded as %q", got.code, a)
	}
	compare(t, "root", g.since(before), counted("allowed"))
	// Everybody may, behind those who say no.
	h.on("/refuses", rules(`{}`))
	g.reload(links["alwaysdeny"], links["refuses"], plainEntry("AlwaysAllow"), links["rbac"], links["abac"], plainEntry("Node"))
	before = g.samples()
	if got = g.as("bob", "GET", configMaps, ""); got.code != 200 || g.annotations(got)["authorization.k8s.io/reason"] != "" {
		t.Errorf("AlwaysAllow: got %d %s", got.code, got.body)
	}
	compare(t, "AlwaysAllow", g.since(before), counted("allowed", append(evaluated("refuses", "success"), decision("allowed", "alwaysallow", "AlwaysAllow"))...))
	g.reload(plainEntry("Node"), links["rbac"], links["abac"])
	before = g.samples()
	if got = g.as("abe", "GET", configMaps, ""); got.code != 200 {
		t.Errorf("ABAC: got %d %s", got.code, got.body)
	}
	compare(t, "ABAC", g.since(before), counted("allowed", decision("allowed", "abac", "ABAC")))
	before = g.samples()
	if got = g.as("system:node:n1", "GET", "/api/v1/services", ""); got.code != 200 {
		t.Errorf("Node: got %d %s", got.code, got.body)
	}
	compare(t, "Node", g.since(before), counted("allowed", decision("allowed", "node", "Node")))
	// What cannot be decided is nobody's opinion: errors add up, unless somebody later allows.
	wrong := h.kubeconfig("/wrong", "")
	h.on("/wrong", says(400, ""))
	both := []string{entry("absent", h.kubeconfig("/absent", ""), "NoOpinion", ""), entry("wrong", wrong, "NoOpinion", ""), links["rbac"], links["abac"], plainEntry("Node")}
	g.reload(both...)
	failures := append(append(evaluated("absent", "error"), evaluated("wrong", "error")...),
		`apiserver_authorization_webhook_evaluations_fail_open_total{name="absent",result="error"}`, `apiserver_authorization_webhook_evaluations_fail_open_total{name="wrong",result="error"}`)
	before = g.samples()
	got = g.as("bob", "GET", configMaps+"?x=<&>", "")
	a := g.annotations(got)
	_, decided := a["authorization.k8s.io/decision"]
	want := `Internal Server Error: "` + configMaps + `?x=&lt;&amp;&gt;": [the server could not find the requested resource, the server rejected our request for an unknown reason]` + "\n"
	if got.code != 500 || got.body != want || a["authorization.k8s.io/reason"] != "internal error" || decided {
		t.Errorf("errors: got %d %s, recorded as %q", got.code, got.body, a)
	}
	compare(t, "errors", g.since(before), counted("error", failures...))
	before = g.samples()
	if got = g.as("ann", "GET", configMaps, ""); got.code != 200 || !strings.HasPrefix(g.annotations(got)["authorization.k8s.io/reason"], "RBAC: allowed") {
		t.Errorf("an error, then yes: got %d %s", got.code, got.body)
	}
	compare(t, "an error, then yes", g.since(before), counted("allowed", append(failures, decision("allowed", "rbac", "RBAC"))...))
	h.on("/wrong", says(404, ""))
	if got = g.as("bob", "GET", configMaps, ""); got.code != 500 || !strings.HasSuffix(got.body, `": the server could not find the requested resource`+"\n") {
		t.Errorf("the same error twice: got %d %s", got.code, got.body)
	}
}

// TestAuthzRefusalsInLog sees what no rule allows in the log of a server that is told to say much.
func TestAuthzRefusalsInLog(t *testing.T) {
	t.Parallel()
	const line = `msg="RBAC: no rules authorize user \"ann\" with groups [\"dev\" \"system:authenticated\"] to \"list\" resource \"configmaps\" in namespace \"default\""`
	for verbosity, want := range map[string]bool{"4": false, "5": true} {
		g := startGuarded(t, "", []string{"ann/dev"}, "-v", verbosity)
		if got := g.as("ann", "GET", configMaps, ""); got.code != 403 {
			t.Errorf("-v %s: got %d %s", verbosity, got.code, got.body)
		}
		if got := strings.Contains(g.log.String(), line); got != want {
			t.Errorf("-v %s: logged: %t, want %t", verbosity, got, want)
		}
	}
}

func permutations(list []string) [][]string {
	if len(list) == 0 {
		return [][]string{nil}
	}
	var out [][]string
	for i := range list {
		rest := append(append([]string{}, list[:i]...), list[i+1:]...)
		for _, p := range permutations(rest) {
			out = append(out, append([]string{list[i]}, p...))
		}
	}
	return out
}

// TestAuthzTexts is what those are told who may not.
func TestAuthzTexts(t *testing.T) {
	t.Parallel()
	h := newReviewer(t)
	h.on("/hook", rules(`{"denied":true,"reason":"<why>"}`))
	g := startGuarded(t, authzConfig("v1alpha1", entry("hook", h.kubeconfig("/hook", ""), "Deny", uncached)), []string{"bob", "a&<b>"})
	const status = `{"kind":"Status","apiVersion":"v1","metadata":{},"status":"Failure","message":"%s","reason":"Forbidden","details":%s,"code":403}` + "\n"
	for _, row := range []struct{ method, path, message, details string }{
		{"GET", "/apis/g.example/v1/namespaces/ns1/foos/f1/status", `foos.g.example \"f1\" is forbidden: User \"bob\" cannot get resource \"foos/status\" in API group \"g.example\" in the namespace \"ns1\"`, `{"name":"f1","group":"g.example","kind":"foos"}`},
		{"GET", "/apis/g.example/v1/foos", `foos.g.example is forbidden: User \"bob\" cannot list resource \"foos\" in API group \"g.example\" at the cluster scope`, `{"group":"g.example","kind":"foos"}`},
		{"POST", "/api/v1/namespaces/ns1/configmaps", `configmaps is forbidden: User \"bob\" cannot create resource \"configmaps\" in API group \"\" in the namespace \"ns1\"`, `{"kind":"configmaps"}`},
		{"GET", "/api/v1/namespaces/n1", `namespaces \"n1\" is forbidden: User \"bob\" cannot get resource \"namespaces\" in API group \"\" in the namespace \"n1\"`, `{"name":"n1","kind":"namespaces"}`},
		{"GET", "/metrics", `forbidden: User \"bob\" cannot get path \"/metrics\"`, `{}`},
		{"GET", "/x/%3Cy%3E&z", `forbidden: User \"bob\" cannot get path \"/x/\u0026lt;y\u0026gt;\u0026amp;z\"`, `{}`},
		{"OPTIONS", "/api/v1/nodes", `nodes is forbidden: User \"bob\" cannot  resource \"nodes\" in API group \"\" at the cluster scope`, `{"kind":"nodes"}`},
		{"DELETE", "/api/v1/nodes?labelSelector=a", `nodes is forbidden: User \"bob\" cannot deletecollection resource \"nodes\" in API group \"\" at the cluster scope`, `{"kind":"nodes"}`},
	} {
		got := g.as("bob", row.method, row.path, "")
		want := fmt.Sprintf(status, row.message+`: \u003cwhy\u003e`, row.details)
		if got.code != 403 || got.body != want || got.header.Get("X-Content-Type-Options") != "nosniff" || got.header.Get("Content-Type") != "application/json" {
			t.Errorf("%s %s:\n got %d %s %v\nwant %s", row.method, row.path, got.code, got.body, got.header, want)
		}
	}
	if got := g.as("a&<b>", "GET", "/x", ""); got.code != 403 || !strings.Contains(got.body, `User \"a\u0026amp;\u0026lt;b\u0026gt;\" cannot get path`) {
		t.Errorf("a name with marks: got %d %s", got.code, got.body)
	}
	// Nobody is told whether something exists before he may know.
	for _, path := range []string{"/apis/none.example/v1/foos", "/api/v1/namespaces/none/secrets/none", "/none"} {
		if got := g.as("bob", "GET", path, ""); got.code != 403 {
			t.Errorf("%s: got %d %s", path, got.code, got.body)
		}
	}
	const unauthorized = `{"kind":"Status","apiVersion":"v1","metadata":{},"status":"Failure","message":"Unauthorized","reason":"Unauthorized","code":401}` + "\n"
	if got := g.as("mallory", "GET", "/metrics", ""); got.code != 401 || got.body != unauthorized || got.header.Get("Www-Authenticate") != "" {
		t.Errorf("a wrong token: got %d %s %v", got.code, got.body, got.header)
	}
	if got := g.as("", "GET", "/healthz", ""); got.code != 403 || !strings.Contains(got.body, `User \"system:anonymous\" cannot get path \"/healthz\"`) {
		t.Errorf("no token: got %d %s", got.code, got.body)
	}
	// Rules cannot be listed where a webhook decides.
	h.on("/hook", rules(`{"allowed":true}`))
	got := g.as("bob", "POST", "/apis/authorization.k8s.io/v1/selfsubjectrulesreviews", `{"apiVersion":"authorization.k8s.io/v1","kind":"SelfSubjectRulesReview","spec":{"namespace":"default"}}`)
	if got.code != 201 || !strings.Contains(got.body, `"incomplete":true`) || !strings.Contains(got.body, `"evaluationError":"webhook authorizer does not support user rule resolution"`) {
		t.Errorf("rules: got %d %s", got.code, got.body)
	}
	// What an apply creates has to be allowed as well.
	const apply = "/api/v1/namespaces/default/configmaps/c?fieldManager=x"
	applied := func(status string) reply {
		h.on("/hook", inTurn(append(make([]mode, len(h.questions("/hook"))), rules(`{"allowed":true}`), rules(status))...))
		return g.as("bob", "PATCH", apply, `{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"c"}}`, "Content-Type", "application/apply-patch+yaml")
	}
	if got := applied(`{"denied":true,"reason":"not new"}`); got.code != 403 || !strings.Contains(got.body, `configmaps \"c\" is forbidden: User \"bob\" cannot create resource \"configmaps\" in API group \"\" in the namespace \"default\": not new`) {
		t.Errorf("apply that creates: got %d %s", got.code, got.body)
	}
	if got := applied(`{"allowed":true,"denied":true}`); got.code != 500 || !strings.Contains(got.body, `"message":"Internal error occurred: webhook subject access review returned both allow and deny response","reason":"InternalError"`) {
		t.Errorf("apply that creates, undecided: got %d %s", got.code, got.body)
	}
	if got := applied(`{"allowed":true}`); got.code != 201 {
		t.Errorf("apply that creates, allowed: got %d %s", got.code, got.body)
	}
}

// TestAuthzConditions asks which webhooks' business requests are: what expressions see, and what they come to together.
func TestAuthzConditions(t *testing.T) {
	t.Parallel()
	const endless = `[0,1,2,3,4,5,6,7,8,9].all(a, [0,1,2,3,4,5,6,7,8,9].all(b, [0,1,2,3,4,5,6,7,8,9].all(c, [0,1,2,3,4,5,6,7,8,9].all(d, [0,1,2,3,4,5,6,7,8,9].all(e, [0,1,2,3,4,5,6,7,8,9].all(f, request.user != 'x'))))))`
	const needsPath, needsResource = `request.nonResourceAttributes.path == '/x'`, `request.resourceAttributes.verb == 'list'`
	// y: the webhook is asked; n: it is left out; e: an error; E: an error, but left out. First for a list, then for a path.
	rows := []struct {
		conditions []string
		want       string
	}{
		{[]string{`has(request.resourceAttributes)`}, "yn"},
		{[]string{`has(request.nonResourceAttributes)`}, "ny"},
		{[]string{`request.user == 'ann'`, `request.uid == 'ann-uid'`, `request.groups == ['dev', 'system:authenticated']`}, "yy"},
		{[]string{`has(request.uid) && has(request.groups) && has(request.extra) && size(request.extra) == 0`}, "yy"},
		{[]string{`request.?resourceAttributes.?namespace.orValue('none') == 'default'`}, "yn"},
		{[]string{`has(request.resourceAttributes.name) && has(request.resourceAttributes.group) && request.resourceAttributes.subresource == ''`}, "ye"},
		{[]string{`request.resourceAttributes.version == 'v1' && request.resourceAttributes.resource == 'configmaps'`}, "ye"},
		{[]string{needsResource}, "ye"},
		{[]string{needsPath}, "ey"},
		{[]string{`request.nonResourceAttributes.verb == 'get'`}, "ey"},
		{[]string{`request.resourceAttributes.fieldSelector.requirements.map(r, r.key + r.operator + r.values[0]) == ['metadata.nameNotInb']`}, "ye"},
		{[]string{`request.resourceAttributes.labelSelector.requirements.map(r, r.key + r.operator + string(size(r.values))) == ['aIn2', 'cExists0']`}, "ye"},
		{[]string{`has(request.resourceAttributes.fieldSelector.rawSelector) || has(request.resourceAttributes.labelSelector.rawSelector)`}, "ne"},
		{[]string{needsPath, `request.user == 'bob'`}, "En"},
		{[]string{`request.user == 'bob'`, needsPath}, "nn"},
		{[]string{needsPath, `request.user == 'ann'`}, "ey"},
		{[]string{endless}, "ee"},
		{[]string{endless, `false`}, "EE"},
		{[]string{`int(request.user) == 1`}, "ee"},
		{[]string{`request.user.matches('^a.n$') && request.user.upperAscii() == 'ANN' && sets.contains(request.groups, ['dev']) && quantity('1k').isGreaterThan(quantity('1')) &&` +
			` ip('10.0.0.1').family() == 4 && cidr('10.0.0.0/8').containsIP('10.0.0.1') && semver('1.2.3').major() == 1 && url('https://a/b').getHost() == 'a' && optional.of(1).hasValue() && [1,2].isSorted() && format.named('dns1123Label').hasValue()`}, "yy"},
	}
	h := newReviewer(t)
	h.on("/hook", rules(`{}`))
	file := h.kubeconfig("/hook", "")
	var entries []string
	for i, row := range rows {
		entries = append(entries, entry(fmt.Sprint("c", i), file, "NoOpinion", uncached, row.conditions...))
	}
	g := startGuarded(t, authzConfig("v1", append(entries, entry("all", file, "NoOpinion", uncached), plainEntry("AlwaysAllow"))...), []string{"ann/dev"})
	for i, request := range []string{configMaps + "?labelSelector=c,a+in+(y,x)&fieldSelector=metadata.name!%3Db", "/x"} {
		before, calls := g.samples(), len(h.questions("/hook"))
		got := g.as("ann", "GET", request, "")
		want := counted("allowed", append(evaluated("all", "success"), decision("allowed", "alwaysallow", "AlwaysAllow"))...)
		var skipped []string
		asked := 1
		for n, row := range rows {
			name := fmt.Sprint("c", n)
			label := fmt.Sprintf(`{name=%q,type="Webhook"}`, name)
			want["apiserver_authorization_match_condition_evaluation_seconds_count"+label] = 1
			if row.want[i] == 'y' {
				asked++
				for _, m := range evaluated(name, "success") {
					want[m] = 1
				}
			}
			if row.want[i] == 'n' || row.want[i] == 'E' {
				skipped = append(skipped, name)
				want["apiserver_authorization_match_condition_exclusions_total"+label] = 1
			}
			if row.want[i] == 'e' || row.want[i] == 'E' {
				want["apiserver_authorization_match_condition_evaluation_errors_total"+label] = 1
			}
		}
		if code := map[string]int{"/x": 404}[request]; got.code != max(code, 200) || len(h.questions("/hook"))-calls != asked {
			t.Errorf("%s: got %d, %d questions, want %d", request, got.code, len(h.questions("/hook"))-calls, asked)
		}
		compare(t, request, g.since(before), want)
		if a := g.annotations(got); a["authorization.k8s.io/webhook-skipped"] != strings.Join(skipped, ",") {
			t.Errorf("%s: recorded as %q, want %q", request, a, skipped)
		}
	}
	// An error that no condition excuses is the failure policy's.
	g.reload(entry("strict", file, "Deny", uncached, needsResource, `int(request.user) == 1`), plainEntry("AlwaysAllow"))
	before := g.samples()
	got := g.as("ann", "GET", "/x", "")
	const text = `[cel evaluation error: expression 'request.resourceAttributes.verb == 'list'' resulted in error: no such key: resourceAttributes, cel evaluation error: expression 'int(request.user) == 1' resulted in error: `
	if got.code != 500 || !strings.HasPrefix(got.body, `Internal Server Error: "/x": `+text) {
		t.Errorf("strict: got %d %s", got.code, got.body)
	}
	compare(t, "strict", g.since(before), counted("error", decision("denied", "strict", "Webhook"),
		`apiserver_authorization_match_condition_evaluation_seconds_count{name="strict",type="Webhook"}`, `apiserver_authorization_match_condition_evaluation_errors_total{name="strict",type="Webhook"}`))
	if status := g.review(`{"user":"ann","nonResourceAttributes":{"path":"/x","verb":"get"}}`); !status.Denied || status.Allowed || !strings.HasPrefix(status.EvaluationError, text) {
		t.Errorf("strict: review: got %+v", status)
	}
	g.reload(entry("strict", file, "Deny", uncached, endless), plainEntry("AlwaysAllow"))
	if got := g.as("ann", "GET", "/x", ""); got.code != 500 || !strings.HasSuffix(got.body, "resulted in error: operation cancelled: actual cost limit exceeded\n") {
		t.Errorf("endless: got %d %s", got.code, got.body)
	}
	// Conditions are evaluated for each request, also if its answer is kept.
	g.reload(entry("kept", file, "Deny", "", `request.user == 'ann'`), plainEntry("AlwaysAllow"))
	before = g.samples()
	for range 3 {
		g.as("ann", "GET", "/x", "")
	}
	changed := g.since(before)
	maps.DeleteFunc(changed, func(name string, _ float64) bool { return !strings.Contains(name, `"kept"`) })
	compare(t, "kept", changed, map[string]float64{evaluated("kept", "success")[0]: 1, evaluated("kept", "success")[1]: 1,
		`apiserver_authorization_match_condition_evaluation_seconds_count{name="kept",type="Webhook"}`: 3})
}
