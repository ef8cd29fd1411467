package e2e

import (
	"bufio"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"
)

// This file lets webhooks change objects: in which order, how often, and what they may not do.

// webhookOrder: configurations by name, webhooks in their order; who wants to is asked again if somebody changed the object
// after him, and never a third time.
func (x *hooked) webhookOrder(t *testing.T) {
	paint := func(color string) behave {
		return patches(`[{"op":"add","path":"/spec/color","value":"` + color + `"}]`)
	}
	again := `"reinvocationPolicy":"IfNeeded"`
	for _, row := range []struct {
		what  string
		b     []string // of configuration b, which is made first
		a     []string // of configuration a
		calls string
		color string
		notes map[string]string // of annotations: round and index to who, and whether it changed something
	}{
		{"by name", []string{x.hooks.hook("allows"), x.hooks.hook("also")}, []string{x.hooks.hook("first")}, "first allows also", "red",
			map[string]string{"0_0": "a first false", "0_1": "b allows false", "0_2": "b also false"}},
		{"the last one counts", []string{x.hooks.hook("blue"), x.hooks.hook("green")}, []string{x.hooks.hook("allows")}, "allows blue green", "green",
			map[string]string{"0_0": "a allows false", "0_1": "b blue true", "0_2": "b green true"}},
		{"asked again", []string{x.hooks.hook("blue"), x.hooks.hook("also", again)}, []string{x.hooks.hook("first", again), x.hooks.hook("allows")},
			"first allows blue also first", "blue",
			map[string]string{"0_0": "a first false", "0_1": "a allows false", "0_2": "b blue true", "0_3": "b also false", "1_0": "a first false"}},
		{"not for its own change", []string{x.hooks.hook("blue", again)}, nil, "blue", "blue", map[string]string{"0_0": "b blue true"}},
		{"twice, not for ever", []string{x.hooks.hook("blue", again)}, []string{x.hooks.hook("green", again)}, "green blue green blue", "blue",
			map[string]string{"0_0": "a green true", "0_1": "b blue true", "1_0": "a green true", "1_1": "b blue true"}},
		{"nobody else changed it", []string{x.hooks.hook("red", again)}, []string{x.hooks.hook("first", again)}, "first red", "red",
			map[string]string{"0_0": "a first false", "0_1": "b red false"}},
		{"left out at first", []string{x.hooks.hook("blue")}, []string{x.hooks.hook("first", again, `"matchConditions":[{"name":"blue","expression":"object.spec.color == 'blue'"}]`)},
			"blue", "blue", map[string]string{"0_1": "b blue true"}},
	} {
		t.Run(strings.ReplaceAll(row.what, " ", "_"), func(t *testing.T) {
			for _, name := range []string{"allows", "also", "first"} {
				x.hooks.on(name, allows)
			}
			for _, color := range []string{"red", "blue", "green"} {
				x.hooks.on(color, paint(color))
			}
			x.configure(t, mutating, "b", row.b...)
			x.configure(t, mutating, "a", row.a...)
			x.hooks.seen()
			a := x.send(t, "POST", widgetList+"?dryRun=All", widgetRed)
			if calls := called(x.hooks.seen()); calls != row.calls || a.code != 201 || !strings.Contains(a.body, `"color":"`+row.color+`"`) {
				t.Errorf("got %d %s by %s, want %s by %s", a.code, a.body, calls, row.color, row.calls)
			}
			got := map[string]string{}
			for key, value := range x.annotations(t, a) {
				at, is := strings.CutPrefix(key, "mutation.webhook.admission.k8s.io/round_")
				if !is {
					continue
				}
				var note struct {
					Configuration, Webhook string
					Mutated                bool
				}
				if err := json.Unmarshal([]byte(value), &note); err != nil {
					t.Errorf("%s: %v", value, err)
				}
				got[strings.Replace(at, "_index_", "_", 1)] = fmt.Sprint(note.Configuration, " ", strings.TrimSuffix(note.Webhook, ".demo.io"), " ", note.Mutated)
			}
			if fmt.Sprint(got) != fmt.Sprint(row.notes) {
				t.Errorf("annotations:\ngot  %v\nwant %v", got, row.notes)
			}
		})
	}
}

// webhookPromise is KEP-2332's: whatever a mutating webhook smuggles in is neither answered, nor watched, nor stored.
func (x *hooked) webhookPromise(t *testing.T) {
	const smuggled = `{"op":"add","path":"/spec/bogus","value":{"a":[1]}},{"op":"add","path":"/bogus","value":2},{"op":"add","path":"/metadata/bogus","value":3},
		{"op":"add","path":"/spec/color","value":"blue"}`
	x.hooks.on("smuggler", func(r *hookReview) (int, string) {
		if r.Request.SubResource == "status" {
			return patches(`[{"op":"add","path":"/status/bogus","value":1},{"op":"replace","path":"/spec/color","value":"black"}]`)(r)
		}
		return patches(`[` + smuggled + `,{"op":"add","path":"/spec/shape","value":null},{"op":"add","path":"/spec/size","value":null},{"op":"add","path":"/spec/note","value":null}]`)(r)
	})
	// This one is shown objects of v2, which knows every field.
	x.hooks.on("stranger", patches(`[{"op":"add","path":"/spec/bogus","value":"v2"},{"op":"add","path":"/spec/size","value":7}]`))
	x.configure(t, mutating, "a", x.hooks.hook("smuggler", forRules("CREATE,UPDATE", "demo.io", "*", "widgets,widgets/status")))
	x.configure(t, mutating, "b", x.hooks.hook("stranger", forRules("CREATE", "demo.io", "v2", "widgets"), `"reinvocationPolicy":"IfNeeded"`))
	watched := x.watch(t, widgetList+"?watch=true&resourceVersion=0")
	check := func(what, text, want string) {
		t.Helper()
		if strings.Contains(text, "bogus") || strings.Contains(text, "black") || !strings.Contains(text, want) {
			t.Errorf("%s: got %s, want nothing bogus and %s", what, text, want)
		}
	}
	const spec = `"spec":{"color":"blue","note":null,"shape":"round","size":7}`
	a := x.send(t, "POST", widgetList, widgetRed)
	check("answer", a.body, spec)
	check("watched", watched(), spec)
	check("read", string(x.do(t, 200, "GET", widgetList+"/a", nil)), spec)
	check("etcd", x.stored(t, "/demo/demo.io/widgets/default/a"), spec)
	if a.code != 201 || len(a.warnings) > 0 {
		t.Errorf("got %d, warnings %q", a.code, a.warnings)
	}
	// An update, an apply, and the status, in either version.
	for _, row := range []struct {
		what, path, body string
		header           []string
		want             string
	}{
		{"patch", widgetList + "/a", `{"spec":{"size":1}}`, mergePatch, `"color":"blue","note":null,"shape":"round"`},
		{"apply", widgetList + "/a?fieldManager=m", `{"apiVersion":"demo.io/v1","kind":"Widget","metadata":{"labels":{"x":"y"}}}`, applyPatch, `"color":"blue","note":null,"shape":"round"`},
		{"status", widgetList + "/a/status", `{"status":{"size":2}}`, mergePatch, `"status":{"size":2}`},
	} {
		a := x.send(t, "PATCH", row.path, row.body, row.header...)
		if a.code != 200 {
			t.Errorf("%s: got %d %s", row.what, a.code, a.body)
		}
		check(row.what+", answer", a.body, row.want)
		check(row.what+", watched", watched(), row.want)
		check(row.what+", etcd", x.stored(t, "/demo/demo.io/widgets/default/a"), row.want)
	}
	// Built-in kinds are pruned, too.
	x.hooks.on("maps", patches(`[{"op":"add","path":"/bogus","value":1},{"op":"add","path":"/data","value":{"a":"b"}}]`))
	x.configure(t, mutating, "c", x.hooks.hook("maps", forRules("CREATE", "", "v1", "configmaps")))
	a = x.send(t, "POST", "/api/v1/namespaces/default/configmaps", `{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"smuggled"}}`)
	check("config map", a.body, `"data":{"a":"b"}`)
	check("config map, etcd", x.stored(t, "/demo/configmaps/default/smuggled"), `"data":{"a":"b"}`)
	x.do(t, 200, "DELETE", widgetList+"/a", nil)
}

// watch returns the lines of a watch, one for each call.
func (x *hooked) watch(t *testing.T, path string) func() string {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), "GET", x.url(path), nil)
	if err != nil {
		t.Fatal(err)
	}
	resp, err := x.http.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { resp.Body.Close() })
	lines := bufio.NewScanner(resp.Body)
	lines.Buffer(nil, 1<<20)
	return func() string {
		t.Helper()
		if !lines.Scan() {
			t.Fatalf("the watch ended: %v", lines.Err())
		}
		return lines.Text()
	}
}

// webhookMetadata: what webhooks may not do to an object beside its content.
func (x *hooked) webhookMetadata(t *testing.T) {
	const owner = `{"apiVersion":"v1","kind":"ConfigMap","name":"o","uid":"u"}`
	const invalid = `.metadata.managedFields was in an invalid state after admission; this could be caused by an outdated mutating admission controller; please fix your requests: `
	for _, row := range []struct {
		what, patch string
		code        int
		want        string   // in the answer
		not         string   // not in it
		warns       []string // beginnings
	}{
		{"managed fields broken", `[{"op":"replace","path":"/metadata/managedFields","value":[{"manager":"m","operation":"Nonsense"}]},{"op":"add","path":"/spec/color","value":"green"}]`,
			201, `"manager":"e2e"`, "Nonsense", []string{invalid}},
		{"managed fields of a wrong version", `[{"op":"replace","path":"/metadata/managedFields/0/fieldsType","value":"FieldsV0"}]`, 201, `"FieldsV1"`, "FieldsV0", []string{invalid}},
		{"managed fields removed", `[{"op":"remove","path":"/metadata/managedFields"},{"op":"add","path":"/spec/color","value":"green"}]`, 201, `"green"`, `"manager"`, nil},
		{"owners twice", `[{"op":"add","path":"/metadata/ownerReferences","value":[` + owner + `,` + owner + `]}]`, 201, `"uid":"u"`, owner + "," + owner,
			[]string{".metadata.ownerReferences contains duplicate entries after mutating admission happens; API server dedups owner references in 1.20+, " +
				"and may reject such requests as early as 1.24; please fix your requests; duplicate UID(s) observed: u"}},
		{"another namespace", `[{"op":"replace","path":"/metadata/namespace","value":"kube-system"}]`, 400,
			"the namespace of the provided object does not match the namespace sent on the request", "", nil},
		{"another kind", `[{"op":"replace","path":"/kind","value":"Gadget"}]`, 422, `Gadget.demo.io \"a\" is invalid: kind: Invalid value: \"Gadget\": must be Widget`, "", nil},
		{"a uid", `[{"op":"add","path":"/metadata/uid","value":"mine"}]`, 201, `"uid":"`, `"mine"`, nil},
		{"labels that are none", `[{"op":"add","path":"/metadata/labels","value":{"a b":"c"}}]`, 422, `metadata.labels: Invalid value: \"a b\"`, "", nil},
	} {
		t.Run(strings.ReplaceAll(row.what, " ", "_"), func(t *testing.T) {
			x.hooks.on("meddler", patches(row.patch))
			x.configure(t, mutating, "m", x.hooks.hook("meddler", forRules("CREATE", "demo.io", "*", "widgets")))
			a := x.send(t, "POST", widgetList+"?dryRun=All", widgetRed)
			if a.code != row.code || !strings.Contains(a.body, row.want) || row.not != "" && strings.Contains(a.body, row.not) {
				t.Errorf("got %d %s\nwant %d with %s, without %s", a.code, a.body, row.code, row.want, row.not)
			}
			if len(a.warnings) != len(row.warns) {
				t.Fatalf("warnings: got %q, want %q", a.warnings, row.warns)
			}
			for i, w := range row.warns {
				if !strings.HasPrefix(a.warnings[i], w) {
					t.Errorf("warning: got %q, want %q", a.warnings[i], w)
				}
			}
		})
	}
}

// webhookParts: subresources and deletions are changed, or not, by their own rules.
func (x *hooked) webhookParts(t *testing.T) {
	x.do(t, 201, "POST", widgetList, []byte(strings.Replace(widgetRed, `"color"`, `"size":1,"color"`, 1)))
	defer x.do(t, 200, "DELETE", widgetList+"/a", nil)
	for _, row := range []struct {
		what, patch, rules         string
		method, path, body, header string
		code                       int
		want                       string
	}{
		{"scale", `[{"op":"replace","path":"/spec/replicas","value":9}]`, forRules("UPDATE", "demo.io", "*", "widgets/scale"),
			"PATCH", widgetList + "/a/scale", `{"spec":{"replicas":5}}`, mergePatch[1], 200, `"replicas":9`},
		{"a Scale that is none", `[{"op":"replace","path":"/spec/replicas","value":"x"}]`, forRules("UPDATE", "demo.io", "*", "widgets/scale"),
			"PATCH", widgetList + "/a/scale", `{"spec":{"replicas":5}}`, mergePatch[1], 500, `object patched by admission webhook \"part.demo.io\": `},
		{"status", `[{"op":"replace","path":"/status/size","value":4},{"op":"replace","path":"/spec/size","value":4}]`, forRules("UPDATE", "demo.io", "*", "widgets/status"),
			"PATCH", widgetList + "/a/status", `{"status":{"size":2}}`, mergePatch[1], 200, `"spec":{"color":"red","shape":"round","size":9},"status":{"size":4}`},
		{"deletion", `[{"op":"add","path":"/spec/size","value":4}]`, forRules("DELETE", "demo.io", "*", "widgets"),
			"DELETE", widgetList + "/a", ``, "", 500, `Internal error occurred: admission webhook \"part.demo.io\" attempted to modify the object, which is not supported for this operation`},
		{"deletion, without a change", `[]`, forRules("DELETE", "demo.io", "*", "widgets"), "DELETE", widgetList + "/a?dryRun=All", ``, "", 200, `"a"`},
		{"deletion of many", `[{"op":"add","path":"/spec/size","value":4}]`, forRules("DELETE", "demo.io", "*", "widgets"),
			"DELETE", widgetList, ``, "", 500, `attempted to modify the object`},
		{"token", `[{"op":"replace","path":"/spec/expirationSeconds","value":7}]`, forRules("CREATE", "", "v1", "serviceaccounts/token"),
			"POST", "/api/v1/namespaces/default/serviceaccounts/robot/token", `{"apiVersion":"authentication.k8s.io/v1","kind":"TokenRequest","spec":{}}`, "application/json", 422, `may not specify a duration less than 10 minutes`},
		{"namespace", `[{"op":"add","path":"/metadata/labels/by","value":"webhook"}]`, forRules("CREATE", "", "v1", "namespaces"),
			"POST", "/api/v1/namespaces?dryRun=All", `{"apiVersion":"v1","kind":"Namespace","metadata":{"name":"labelled","labels":{"a":"b"}}}`, "application/json", 201, `"by":"webhook"`},
		{"definition", `[{"op":"replace","path":"/spec/scope","value":"Namespaced"}]`, forRules("CREATE", "apiextensions.k8s.io", "v1", "customresourcedefinitions"),
			"POST", "/apis/apiextensions.k8s.io/v1/customresourcedefinitions?dryRun=All", strings.ReplaceAll(hookedKinds[1], "globe", "planet"), "application/json", 201, `"scope":"Namespaced"`},
	} {
		t.Run(strings.ReplaceAll(row.what, " ", "_"), func(t *testing.T) {
			x.hooks.on("part", patches(row.patch))
			x.configure(t, mutating, "m", x.hooks.hook("part", row.rules))
			a := x.send(t, row.method, row.path, row.body, "Content-Type", row.header)
			if a.code != row.code || !strings.Contains(a.body, row.want) {
				t.Errorf("got %d %s\nwant %d with %s", a.code, a.body, row.code, row.want)
			}
		})
	}
}
