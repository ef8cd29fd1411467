package e2e

import (
	"encoding/json"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"
)

// This file asks which requests webhooks are sent, and what they are told of them.

// selections are webhooks by what they select; all of them take part at the same time.
var selections = []struct{ name, more string }{
	{"all", forRules("*", "*", "*", "*/*")},
	{"main", forRules("*", "*", "*", "*")},
	{"creations", forRules("CREATE", "demo.io", "*", "widgets")},
	{"updates", forRules("UPDATE", "demo.io", "*", "widgets")},
	{"deletions", forRules("DELETE", "demo.io", "*", "widgets")},
	{"connections", forRules("CONNECT", "*", "*", "*/*")},
	{"statuses", forRules("*", "demo.io", "*", "*/status")},
	{"scales", forRules("*", "demo.io", "*", "widgets/scale")},
	{"subresources", forRules("*", "demo.io", "*", "widgets/*")},
	{"v1", forRules("*", "demo.io", "v1", "widgets,widgets/status,widgets/scale") + `,"matchPolicy":"Exact"`},
	{"v2", forRules("*", "demo.io", "v2", "widgets,widgets/status,widgets/scale") + `,"matchPolicy":"Exact"`},
	{"as-v2", forRules("*", "demo.io", "v2", "widgets,widgets/status,widgets/scale")},
	{"as-v3", forRules("CREATE", "demo.io", "v3", "widgets,widgets/status") + `,"matchPolicy":"Equivalent"`},
	{"other-group", forRules("*", "demo.example.org", "*", "*/*")},
	{"core", forRules("*", "", "v1", "configmaps,namespaces")},
	{"cluster", forRules("*", "*", "*", "*")},
	{"namespaced", forRules("*", "*", "*", "*")},
	{"red", forRules("*", "demo.io", "*", "widgets") + `,"objectSelector":{"matchLabels":{"color":"red"}}`},
	{"not-red", forRules("*", "demo.io", "*", "widgets") + `,"objectSelector":{"matchExpressions":[{"key":"color","operator":"NotIn","values":["red"]}]}`},
	{"system", forRules("*", "*", "*", "*") + `,"namespaceSelector":{"matchLabels":{"kubernetes.io/metadata.name":"kube-system"}}`},
	{"not-system", forRules("*", "*", "*", "*") + `,"namespaceSelector":{"matchExpressions":[{"key":"kubernetes.io/metadata.name","operator":"NotIn","values":["kube-system"]}]}`},
	{"events", forRules("*", "events.k8s.io", "v1", "events")},
	{"reviews", forRules("*", "authorization.k8s.io,authentication.k8s.io", "*", "*")},
	{"ann", forRules("*", "*", "*", "*") + `,"matchConditions":[{"name":"ann","expression":"request.userInfo.username == 'ann'"},{"name":"there","expression":"object != null"}]`},
	{"grows", forRules("UPDATE", "demo.io", "*", "widgets") + `,"matchConditions":[{"name":"grows","expression":"object.spec.size > oldObject.spec.size"}],"failurePolicy":"Ignore"`},
	{"may", forRules("*", "demo.io", "*", "widgets") + `,"matchConditions":[{"name":"may","expression":"authorizer.group('demo.io').resource('widgets').check('delete').allowed()"}]`},
}

// selected are requests, and which of them they are sent to.
var selected = []struct {
	what, method, path, body string
	header                   []string
	code                     int
	want                     string
}{
	{what: "create", method: "POST", path: widgetList, body: widgetRed, code: 201,
		want: "all main creations subresources v1 as-v2 as-v3 namespaced not-red not-system may"},
	{what: "create in another version", method: "POST", path: "/apis/demo.io/v2/namespaces/default/widgets",
		body: `{"apiVersion":"demo.io/v2","kind":"Widget","metadata":{"generateName":"b-","labels":{"color":"red"}}}`, code: 201,
		want: "all main creations subresources v2 as-v2 as-v3 namespaced red not-system may"},
	{what: "create in kube-system", method: "POST", path: "/apis/demo.io/v1/namespaces/kube-system/widgets", body: widgetRed, code: 201,
		want: "all main creations subresources v1 as-v2 as-v3 namespaced not-red system may"},
	{what: "create as ann", method: "POST", path: widgetList + "?dryRun=All", body: strings.Replace(widgetRed, `"a"`, `"c"`, 1), header: ann, code: 201,
		want: "all main creations subresources v1 as-v2 as-v3 namespaced not-red not-system ann"},
	{what: "update", method: "PUT", path: widgetList + "/a", body: `{"apiVersion":"demo.io/v1","kind":"Widget","metadata":{"name":"a","resourceVersion":"RV","labels":{"color":"red"}},"spec":{"size":1}}`, code: 200,
		want: "all main updates subresources v1 as-v2 namespaced red not-red not-system may"},
	{what: "patch", method: "PATCH", path: widgetList + "/a", body: `{"spec":{"size":2}}`, header: mergePatch, code: 200,
		want: "all main updates subresources v1 as-v2 namespaced red not-system grows may"},
	{what: "JSON patch", method: "PATCH", path: widgetList + "/a", body: `[{"op":"remove","path":"/metadata/labels"}]`, header: []string{"Content-Type", "application/json-patch+json"}, code: 200,
		want: "all main updates subresources v1 as-v2 namespaced red not-red not-system may"},
	{what: "apply", method: "PATCH", path: widgetList + "/a?fieldManager=m", body: `{"apiVersion":"demo.io/v1","kind":"Widget","spec":{"note":"x"}}`, header: applyPatch, code: 200,
		want: "all main updates subresources v1 as-v2 namespaced not-red not-system may"},
	{what: "apply what is not there", method: "PATCH", path: widgetList + "/new?fieldManager=m", body: `{"apiVersion":"demo.io/v1","kind":"Widget","metadata":{"name":"new"}}`, header: applyPatch, code: 201,
		want: "all main creations subresources v1 as-v2 as-v3 namespaced not-red not-system may"},
	{what: "put what is not there", method: "PUT", path: widgetList + "/other", body: strings.Replace(widgetRed, `"a"`, `"other"`, 1), code: 404},
	{what: "status", method: "PATCH", path: widgetList + "/a/status", body: `{"status":{"size":3}}`, header: mergePatch, code: 200,
		want: "all statuses subresources v1 as-v2"},
	{what: "status in another version", method: "PATCH", path: "/apis/demo.io/v2/namespaces/default/widgets/a/status", body: `{"status":{"size":4}}`, header: mergePatch, code: 200,
		want: "all statuses subresources v2 as-v2"},
	{what: "scale", method: "PATCH", path: widgetList + "/a/scale", body: `{"spec":{"replicas":5}}`, header: mergePatch, code: 200,
		want: "all scales subresources v1"},
	{what: "delete", method: "DELETE", path: widgetList + "/new", body: `{"propagationPolicy":"Background"}`, code: 200,
		want: "all main deletions subresources v1 as-v2 namespaced not-red not-system may"},
	{what: "delete all", method: "DELETE", path: widgetList + "?labelSelector=color", code: 200,
		want: "all main deletions subresources v1 as-v2 namespaced red not-system may"},
	{what: "get", method: "GET", path: widgetList + "/a", code: 200},
	{what: "list", method: "GET", path: widgetList, code: 200},
	{what: "nothing changes", method: "PATCH", path: widgetList + "/a", body: `{}`, header: mergePatch, code: 200,
		want: "all main updates subresources v1 as-v2 namespaced not-red not-system may"},
	{what: "cluster-scoped", method: "POST", path: "/apis/demo.io/v1/globes", body: `{"apiVersion":"demo.io/v1","kind":"Globe","metadata":{"name":"g"}}`, code: 201,
		want: "all main cluster system not-system"},
	{what: "namespace", method: "POST", path: "/api/v1/namespaces", body: `{"apiVersion":"v1","kind":"Namespace","metadata":{"name":"n"}}`, code: 201,
		want: "all main core cluster not-system"},
	{what: "kube-system itself", method: "PATCH", path: "/api/v1/namespaces/kube-system", body: `{"metadata":{"annotations":{"a":"b"}}}`, header: mergePatch, code: 200,
		want: "all main core cluster system"},
	{what: "a namespace deleted", method: "DELETE", path: "/api/v1/namespaces/n", code: 200,
		want: "all main core cluster not-system"},
	{what: "config map", method: "POST", path: "/api/v1/namespaces/default/configmaps", body: `{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"cm"}}`, code: 201,
		want: "all main core namespaced not-system"},
	{what: "event", method: "POST", path: "/api/v1/namespaces/default/events", code: 201,
		body: `{"apiVersion":"v1","kind":"Event","metadata":{"name":"e"},"involvedObject":{"namespace":"default"},"reason":"r","type":"Normal"}`,
		want: "all main namespaced not-system events"},
	{what: "definition", method: "PATCH", path: "/apis/apiextensions.k8s.io/v1/customresourcedefinitions/globes.demo.io", body: `{"metadata":{"labels":{"a":"b"}}}`, header: mergePatch, code: 200,
		want: "all main cluster system not-system"},
	{what: "token", method: "POST", path: "/api/v1/namespaces/default/serviceaccounts/robot/token", body: `{"apiVersion":"authentication.k8s.io/v1","kind":"TokenRequest","spec":{}}`, code: 201,
		want: "all"},
	{what: "exec", method: "POST", path: "/api/v1/namespaces/default/pods/none/exec?command=ls", code: 404, want: "all connections"},
	{what: "node proxy", method: "GET", path: "/api/v1/nodes/none/proxy/", code: 404, want: "all connections"},
	{what: "log", method: "GET", path: "/api/v1/namespaces/default/pods/none/log", code: 404},
	{what: "review", method: "POST", path: "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews", code: 201,
		body: `{"apiVersion":"authorization.k8s.io/v1","kind":"SelfSubjectAccessReview","spec":{"nonResourceAttributes":{"path":"/","verb":"get"}}}`},
	{what: "who am I", method: "POST", path: "/apis/authentication.k8s.io/v1/selfsubjectreviews", code: 201, body: `{"apiVersion":"authentication.k8s.io/v1","kind":"SelfSubjectReview"}`},
	{what: "configuration", method: "PATCH", path: registrations + "validatingwebhookconfigurations/v", body: `{"metadata":{"labels":{"a":"b"}}}`, header: mergePatch, code: 200},
	{what: "policy", method: "POST", path: registrations + "validatingadmissionpolicybindings", code: 201,
		body: `{"apiVersion":"admissionregistration.k8s.io/v1","kind":"ValidatingAdmissionPolicyBinding","metadata":{"name":"b"},"spec":{"policyName":"p","validationActions":["Deny"]}}`},
}

var (
	mergePatch = []string{"Content-Type", "application/merge-patch+json"}
	applyPatch = []string{"Content-Type", "application/apply-patch+yaml"}
	ann        = []string{"Impersonate-User", "ann"}
)

// webhookSelection sends requests while webhooks of all selections validate.
func (x *hooked) webhookSelection(t *testing.T) {
	scoped := func(more, scope string) string {
		return strings.Replace(more, `"operations"`, `"scope":"`+scope+`","operations"`, 1)
	}
	var hooks []string
	for _, s := range selections {
		x.hooks.on(s.name, allows)
		more := s.more
		switch s.name {
		case "cluster":
			more = scoped(more, "Cluster")
		case "namespaced":
			more = scoped(more, "Namespaced")
		}
		hooks = append(hooks, x.hooks.hook(s.name, more))
	}
	x.do(t, 201, "POST", "/apis/rbac.authorization.k8s.io/v1/clusterroles",
		[]byte(`{"apiVersion":"rbac.authorization.k8s.io/v1","kind":"ClusterRole","metadata":{"name":"ann"},"rules":[{"apiGroups":["demo.io"],"resources":["widgets"],"verbs":["create"]}]}`))
	x.do(t, 201, "POST", "/apis/rbac.authorization.k8s.io/v1/clusterrolebindings",
		[]byte(`{"apiVersion":"rbac.authorization.k8s.io/v1","kind":"ClusterRoleBinding","metadata":{"name":"ann"},"roleRef":{"apiGroup":"rbac.authorization.k8s.io","kind":"ClusterRole","name":"ann"},"subjects":[{"apiGroup":"rbac.authorization.k8s.io","kind":"User","name":"ann"}]}`))
	x.do(t, 201, "POST", "/api/v1/namespaces/default/serviceaccounts", []byte(`{"apiVersion":"v1","kind":"ServiceAccount","metadata":{"name":"robot"}}`))
	x.configure(t, validating, "v", hooks...)
	for _, row := range selected {
		t.Run(strings.ReplaceAll(row.what, " ", "_"), func(t *testing.T) {
			body := row.body
			if strings.Contains(body, `"RV"`) {
				var live struct {
					Metadata struct{ ResourceVersion string }
				}
				if err := json.Unmarshal(x.do(t, 200, "GET", row.path, nil), &live); err != nil {
					t.Fatal(err)
				}
				body = strings.Replace(body, "RV", live.Metadata.ResourceVersion, 1)
			}
			x.hooks.seen()
			if a := x.send(t, row.method, row.path, body, row.header...); a.code != row.code {
				t.Errorf("got %d %s", a.code, a.body)
			}
			order := func(name string) int {
				for i := range selections {
					if selections[i].name == name {
						return i
					}
				}
				return -1
			}
			names := strings.Fields(called(x.hooks.seen())) // at the same time, in any order
			slices.SortFunc(names, func(a, b string) int { return order(a) - order(b) })
			if got := strings.Join(names, " "); got != row.want {
				t.Errorf("sent to\n%s\nwant\n%s", got, row.want)
			}
		})
	}
}

// webhookReviews looks at what webhooks are told.
func (x *hooked) webhookReviews(t *testing.T) {
	x.hooks.on("told", allows)
	x.configure(t, validating, "v", x.hooks.hook("told", forRules("*", "*", "v2", "*/*")), x.hooks.hook("own", forRules("*", "demo.io", "*", "*/*"), `"failurePolicy":"Ignore"`, `"admissionReviewVersions":["v1beta1"]`))
	read := func(what string) (told, own *hookReview) {
		calls := x.hooks.seen()
		for i := range calls {
			switch calls[i].name {
			case "told":
				told = &calls[i]
			case "own":
				own = &calls[i]
			}
		}
		if own == nil {
			t.Fatalf("%s: calls of %s", what, called(calls))
		}
		return told, own
	}
	brief := func(r *hookReview) string {
		q := &r.Request
		gvk := func(m map[string]string) string {
			return m["group"] + "/" + m["version"] + "/" + m["kind"] + m["resource"]
		}
		options, _ := json.Marshal(q.Options)
		of := func(o map[string]any) string {
			b, _ := json.Marshal([]any{o["apiVersion"], o["spec"], o["status"]})
			return string(b)
		}
		return fmt.Sprintf("%s %s %s %s for %s %s %s\n%q in %q by %s dry=%v %s\n%s was %s", q.Operation, gvk(q.Kind), gvk(q.Resource), q.SubResource,
			gvk(q.RequestKind), gvk(q.RequestResource), q.RequestSubResource, q.Name, q.Namespace, q.UserInfo.Username, *q.DryRun, options, of(q.Object), of(q.OldObject))
	}
	for _, row := range []struct {
		what, method, path, body string
		header                   []string
		told, own                string
	}{
		{"create", "POST", widgetList + "?fieldManager=m&fieldValidation=Strict", `{"apiVersion":"demo.io/v1","kind":"Widget","metadata":{"name":"told"},"spec":{"size":1}}`, nil,
			"CREATE demo.io/v2/Widget demo.io/v2/widgets  for demo.io/v1/Widget demo.io/v1/widgets \n" +
				`"told" in "default" by keelson-admin dry=false {"apiVersion":"meta.k8s.io/v1","fieldManager":"m","fieldValidation":"Strict","kind":"CreateOptions"}` + "\n" +
				`["demo.io/v2",{"shape":"round","size":1},null] was [null,null,null]`,
			"CREATE demo.io/v1/Widget demo.io/v1/widgets  for demo.io/v1/Widget demo.io/v1/widgets \n" +
				`"told" in "default" by keelson-admin dry=false {"apiVersion":"meta.k8s.io/v1","fieldManager":"m","fieldValidation":"Strict","kind":"CreateOptions"}` + "\n" +
				`["demo.io/v1",{"shape":"round","size":1},null] was [null,null,null]`},
		{"generated", "POST", widgetList + "?dryRun=All", `{"apiVersion":"demo.io/v1","kind":"Widget","metadata":{"generateName":"x"}}`, nil, "", ""},
		{"patch", "PATCH", widgetList + "/told?dryRun=All", `{"spec":{"size":2}}`, mergePatch,
			"UPDATE demo.io/v2/Widget demo.io/v2/widgets  for demo.io/v1/Widget demo.io/v1/widgets \n" +
				`"told" in "default" by keelson-admin dry=true {"apiVersion":"meta.k8s.io/v1","dryRun":["All"],"kind":"UpdateOptions"}` + "\n" +
				`["demo.io/v2",{"shape":"round","size":2},null] was ["demo.io/v2",{"shape":"round","size":1},null]`,
			"UPDATE demo.io/v1/Widget demo.io/v1/widgets  for demo.io/v1/Widget demo.io/v1/widgets \n" +
				`"told" in "default" by keelson-admin dry=true {"apiVersion":"meta.k8s.io/v1","dryRun":["All"],"kind":"UpdateOptions"}` + "\n" +
				`["demo.io/v1",{"shape":"round","size":2},null] was ["demo.io/v1",{"shape":"round","size":1},null]`},
		{"status", "PATCH", widgetList + "/told/status", `{"status":{"size":3}}`, mergePatch,
			"UPDATE demo.io/v2/Widget demo.io/v2/widgets status for demo.io/v1/Widget demo.io/v1/widgets status\n" +
				`"told" in "default" by keelson-admin dry=false {"apiVersion":"meta.k8s.io/v1","kind":"UpdateOptions"}` + "\n" +
				`["demo.io/v2",{"shape":"round","size":1},{"size":3}] was ["demo.io/v2",{"shape":"round","size":1},null]`,
			"UPDATE demo.io/v1/Widget demo.io/v1/widgets status for demo.io/v1/Widget demo.io/v1/widgets status\n" +
				`"told" in "default" by keelson-admin dry=false {"apiVersion":"meta.k8s.io/v1","kind":"UpdateOptions"}` + "\n" +
				`["demo.io/v1",{"shape":"round","size":1},{"size":3}] was ["demo.io/v1",{"shape":"round","size":1},null]`},
		{"scale", "PATCH", widgetList + "/told/scale", `{"spec":{"replicas":4}}`, mergePatch, "",
			"UPDATE autoscaling/v1/Scale demo.io/v1/widgets scale for autoscaling/v1/Scale demo.io/v1/widgets scale\n" +
				`"told" in "default" by keelson-admin dry=false {"apiVersion":"meta.k8s.io/v1","kind":"UpdateOptions"}` + "\n" +
				`["autoscaling/v1",{"replicas":4},{"replicas":3}] was ["autoscaling/v1",{"replicas":1},{"replicas":3}]`},
		{"delete", "DELETE", widgetList + "/told", `{"propagationPolicy":"Background","gracePeriodSeconds":0}`, nil,
			"DELETE demo.io/v2/Widget demo.io/v2/widgets  for demo.io/v1/Widget demo.io/v1/widgets \n" +
				`"told" in "default" by keelson-admin dry=false {"apiVersion":"meta.k8s.io/v1","gracePeriodSeconds":0,"kind":"DeleteOptions","propagationPolicy":"Background"}` + "\n" +
				`[null,null,null] was ["demo.io/v2",{"shape":"round","size":4},{"size":3}]`,
			"DELETE demo.io/v1/Widget demo.io/v1/widgets  for demo.io/v1/Widget demo.io/v1/widgets \n" +
				`"told" in "default" by keelson-admin dry=false {"apiVersion":"meta.k8s.io/v1","gracePeriodSeconds":0,"kind":"DeleteOptions","propagationPolicy":"Background"}` + "\n" +
				`[null,null,null] was ["demo.io/v1",{"shape":"round","size":4},{"size":3}]`},
	} {
		x.hooks.seen()
		if a := x.send(t, row.method, row.path, row.body, row.header...); a.code >= 300 {
			t.Errorf("%s: got %d %s", row.what, a.code, a.body)
		}
		told, own := read(row.what)
		if row.what == "generated" {
			if name := own.Request.Name; !strings.HasPrefix(name, "x") || len(name) != 6 {
				t.Errorf("a generated name is told as %q", name)
			}
			continue
		}
		if (told == nil) != (row.told == "") {
			t.Errorf("%s: sent to the equivalent version: %v", row.what, told != nil)
		} else if told != nil && brief(told) != row.told {
			t.Errorf("%s, as v2: got\n%s\nwant\n%s", row.what, brief(told), row.told)
		}
		if got := brief(own); got != row.own {
			t.Errorf("%s: got\n%s\nwant\n%s", row.what, got, row.own)
		}
		if own.APIVersion != "admission.k8s.io/v1beta1" || own.Kind != "AdmissionReview" || own.media != "application/json" || own.query != "timeout=10s" || own.Request.UID == "" ||
			!slices.Contains(own.Request.UserInfo.Groups, "system:masters") {
			t.Errorf("%s: got %+v", row.what, own)
		}
		if told != nil && told.APIVersion != "admission.k8s.io/v1" {
			t.Errorf("%s: asked in %s", row.what, told.APIVersion)
		}
	}
}

// webhookNodes: a validating webhook for nodes sees the stored object as the old one (CVE-2021-25735).
func (x *hooked) webhookNodes(t *testing.T) {
	const nodes = "/api/v1/nodes"
	x.do(t, 201, "POST", nodes, []byte(`{"apiVersion":"v1","kind":"Node","metadata":{"name":"n","labels":{"a":"1"}},
		"spec":{"podCIDR":"10.0.0.0/24","taints":[{"key":"k","effect":"NoSchedule"}]}}`))
	defer x.do(t, 200, "DELETE", nodes+"/n", nil)
	x.do(t, 200, "PATCH", nodes+"/n/status", []byte(`{"status":{"capacity":{"cpu":"1"},"nodeInfo":{"kubeletVersion":"v1"}}}`), mergePatch...)
	x.hooks.on("told", allows)
	x.configure(t, validating, "v", x.hooks.hook("told", forRules("UPDATE", "", "v1", "nodes,nodes/status")))
	for _, row := range []struct{ what, path, patch, changed string }{
		{"labels and taints", "", `{"metadata":{"labels":{"a":"2","b":"3"}},"spec":{"taints":null,"unschedulable":true}}`, `"a":"2"`},
		{"a status at the wrong endpoint", "", `{"metadata":{"labels":{"a":"4"}},"status":{"capacity":{"cpu":"99"}}}`, `"cpu":"1"`},
		{"status", "/status", `{"metadata":{"labels":{"a":"5"}},"status":{"capacity":{"cpu":"2"},"conditions":[{"type":"Ready","status":"True"}]}}`, `"cpu":"2"`},
	} {
		var before any
		if err := json.Unmarshal(x.do(t, 200, "GET", nodes+"/n", nil), &before); err != nil {
			t.Fatal(err)
		}
		x.hooks.seen()
		x.do(t, 200, "PATCH", nodes+"/n"+row.path, []byte(row.patch), mergePatch...)
		calls := x.hooks.seen()
		if len(calls) != 1 {
			t.Fatalf("%s: calls of %s, want one", row.what, called(calls))
		}
		if old := any(calls[0].Request.OldObject); !reflect.DeepEqual(old, before) {
			t.Errorf("%s: the old object is\n%v\nwant the stored one\n%v", row.what, old, before)
		}
		if b, _ := json.Marshal(calls[0].Request.Object); !strings.Contains(string(b), row.changed) {
			t.Errorf("%s: the new object is %s, want in it %s", row.what, b, row.changed)
		}
	}
}
