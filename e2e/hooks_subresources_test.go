package e2e

import (
	"encoding/json"
	"strings"
	"testing"
)

// This file asks what webhooks see of requests for subresources, and by which labels they are selected.

// shown lists what webhooks saw: the name of each, the kind, and the labels and specs of the new and the old object.
func shown(calls []hookReview) string {
	var lines []string
	for i := range calls {
		q := &calls[i].Request
		line := calls[i].name + " " + q.Operation + " " + q.Kind["kind"]
		for _, o := range []map[string]any{q.Object, q.OldObject} {
			var labels any
			if m, ok := o["metadata"].(map[string]any); ok {
				labels = m["labels"]
			}
			b, _ := json.Marshal([]any{labels, o["spec"]})
			line += " " + string(b)
		}
		lines = append(lines, line)
	}
	return strings.Join(lines, "\n")
}

// webhookSubresources sends requests for subresources. Webhooks that change objects see what the client sent, those that validate see
// what a client would read after the write. The labels of an object do not select requests for its Scale.
func (x *hooked) webhookSubresources(t *testing.T) {
	x.do(t, 201, "POST", widgetList, []byte(`{"apiVersion":"demo.io/v1","kind":"Widget","metadata":{"name":"a","labels":{"tier":"hot"}},"spec":{"size":1}}`))
	for _, name := range []string{"first", "last", "optin", "optout"} {
		x.hooks.on(name, allows)
	}
	rules := forRules("*", "demo.io", "*", "widgets/*")
	x.configure(t, mutating, "m", x.hooks.hook("first", rules))
	x.configure(t, validating, "v", x.hooks.hook("last", rules),
		x.hooks.hook("optin", rules+`,"objectSelector":{"matchLabels":{"tier":"hot"}}`),
		x.hooks.hook("optout", rules+`,"objectSelector":{"matchExpressions":[{"key":"tier","operator":"DoesNotExist"}]}`))
	for _, row := range []struct{ what, path, body, first, last, others string }{
		{"scale", "/a/scale", `{"apiVersion":"autoscaling/v1","kind":"Scale","metadata":{"name":"a","labels":{"by":"client"}},"spec":{"replicas":5}}`,
			`first UPDATE Scale [{"by":"client"},{"replicas":5}] [null,{"replicas":1}]`,
			`last UPDATE Scale [null,{"replicas":5}] [null,{"replicas":1}]`, "optout"},
		{"scale with the label of a guard", "/a/scale", `{"apiVersion":"autoscaling/v1","kind":"Scale","metadata":{"name":"a","labels":{"tier":"hot"}},"spec":{"replicas":6}}`,
			`first UPDATE Scale [{"tier":"hot"},{"replicas":6}] [null,{"replicas":5}]`,
			`last UPDATE Scale [null,{"replicas":6}] [null,{"replicas":5}]`, "optout"},
		{"status", "/a/status", `{"apiVersion":"demo.io/v1","kind":"Widget","metadata":{"name":"a","resourceVersion":"RV","labels":{"tier":"cold"}},"spec":{"size":9},"status":{"size":2}}`,
			`first UPDATE Widget [{"tier":"cold"},{"shape":"round","size":9}] [{"tier":"hot"},{"shape":"round","size":6}]`,
			`last UPDATE Widget [{"tier":"hot"},{"shape":"round","size":6}] [{"tier":"hot"},{"shape":"round","size":6}]`, "optin"},
	} {
		var live struct {
			Metadata struct{ ResourceVersion string }
		}
		if err := json.Unmarshal(x.do(t, 200, "GET", widgetList+"/a", nil), &live); err != nil {
			t.Fatal(err)
		}
		x.hooks.seen()
		if a := x.send(t, "PUT", widgetList+row.path, strings.Replace(row.body, "RV", live.Metadata.ResourceVersion, 1)); a.code != 200 {
			t.Errorf("%s: got %d %s", row.what, a.code, a.body)
		}
		var first, last, others string
		calls := x.hooks.seen()
		for i := range calls {
			switch one := shown(calls[i : i+1]); calls[i].name {
			case "first":
				first = one
			case "last":
				last = one
			default:
				others += calls[i].name
			}
		}
		if first != row.first || last != row.last || others != row.others {
			t.Errorf("%s: got\n%s\n%s\n%s\nwant\n%s\n%s\n%s", row.what, first, last, others, row.first, row.last, row.others)
		}
	}
}

// webhookActions asks what webhooks see of objects that are created and not stored: metadata that the server sets is gone, except for
// preconditions, and managedFields have the client.
func (x *hooked) webhookActions(t *testing.T) {
	x.hooks.on("acts", answers(`{"uid":"%s","allowed":false}`))
	x.configure(t, mutating, "m", x.hooks.hook("acts", forRules("CREATE", "", "v1", "pods/binding,pods/eviction,serviceaccounts/token,bindings")))
	const metadata = `"metadata":{"name":"none","uid":"u","labels":{"a":"b"},"creationTimestamp":"2020-01-01T00:00:00Z"}`
	for _, row := range []struct{ path, body, kind, sub, uid string }{
		{"pods/none/binding", `{"apiVersion":"v1","kind":"Binding","target":{"name":"n"},` + metadata + `}`, "Binding", "binding", "u"},
		{"bindings", `{"apiVersion":"v1","kind":"Binding","target":{"name":"n"},` + metadata + `}`, "Binding", "", ""},
		{"pods/none/eviction", `{"apiVersion":"policy/v1","kind":"Eviction",` + metadata + `}`, "Eviction", "eviction", ""},
		{"serviceaccounts/none/token", `{"apiVersion":"authentication.k8s.io/v1","kind":"TokenRequest","spec":{"audiences":["x"]},` + metadata + `}`, "TokenRequest", "token", "u"},
	} {
		x.hooks.seen()
		a := x.send(t, "POST", "/api/v1/namespaces/default/"+row.path, row.body)
		calls := x.hooks.seen()
		if len(calls) != 1 {
			t.Errorf("%s: got %d %s and %d calls", row.path, a.code, a.body, len(calls))
			continue
		}
		q := &calls[0].Request
		m, _ := q.Object["metadata"].(map[string]any)
		uid, _ := m["uid"].(string)
		managers, _ := m["managedFields"].([]any)
		if q.Kind["kind"] != row.kind || q.SubResource != row.sub || q.Name != "none" || uid != row.uid || len(managers) != 1 || m["namespace"] != "default" {
			t.Errorf("%s: got %+v", row.path, *q)
		}
	}
}
