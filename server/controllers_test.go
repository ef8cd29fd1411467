package server

import (
	"encoding/json"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/keelson-io/keelson/internal/controller/gc"
	"github.com/keelson-io/keelson/internal/store/mem"
	"github.com/keelson-io/keelson/internal/testkit"
)

// This file looks at what controllers write, and whose name they write in.

// writers are who has written what of an object: manager, operation, subresource, and whether a
// time is noted.
func (r *running) writers(path string) []string {
	r.t.Helper()
	var o struct {
		Metadata metav1.ObjectMeta `json:"metadata"`
	}
	if err := json.Unmarshal([]byte(r.must("GET", path, "")), &o); err != nil {
		r.t.Fatal(err)
	}
	var list []string
	for _, e := range o.Metadata.ManagedFields {
		var fields map[string]any
		if err := json.Unmarshal([]byte(e.FieldsV1.GetRawString()), &fields); err != nil {
			r.t.Fatal(err)
		}
		var names []string
		for name := range fields {
			names = append(names, name)
		}
		slices.Sort(names)
		list = append(list, fmt.Sprintf("%s %s %s %s %v", e.Manager, e.Operation, e.Subresource, strings.Join(names, ","), !e.Time.IsZero()))
	}
	return list
}

// until waits until something holds.
func (r *running) until(what string, ok func() bool) {
	r.t.Helper()
	testkit.Eventually(r.t, what, ok)
}

// TestManagersOfControllers holds that the server's own writes have upstream's field managers:
// kube-apiserver for conditions of definitions, kube-controller-manager for the objects that it
// ensures, and the applier of aggregated roles.
func TestManagersOfControllers(t *testing.T) {
	r := start(t, Config{Store: mem.New(mem.Options{})})
	r.define()
	has := func(path, want string) {
		t.Helper()
		r.until(path+" has "+want, func() bool { return slices.Contains(r.writers(path), want) })
	}
	has("/apis/apiextensions.k8s.io/v1/customresourcedefinitions/widgets.demo.io", "kube-apiserver Update status f:status true")
	has("/api/v1/namespaces/kube-system", "kube-apiserver Update  f:metadata true")
	has(rbacPath+"clusterroles/cluster-admin", "kube-apiserver Update  f:metadata,f:rules true")
	has(rbacPath+"clusterroles/admin", "kube-apiserver Update  f:aggregationRule,f:metadata true")
	has(rbacPath+"clusterrolebindings/cluster-admin", "kube-apiserver Update  f:metadata,f:roleRef,f:subjects true")
	r.until("the config map is there", func() bool {
		code, _ := r.call(r.client, "GET", "/api/v1/namespaces/default/configmaps/kube-root-ca.crt", "")
		return code == 200
	})
	has("/api/v1/namespaces/default/configmaps/kube-root-ca.crt", "kube-controller-manager Update  f:data,f:metadata true")
	r.must("POST", rbacPath+"clusterroles", `{"apiVersion":"rbac.authorization.k8s.io/v1","kind":"ClusterRole","metadata":{"name":"all"},
		"aggregationRule":{"clusterRoleSelectors":[{"matchLabels":{"part":"all"}}]}}`)
	r.must("POST", rbacPath+"clusterroles", strings.Replace(role("ClusterRole", "some", "get", "demo.io", "widgets"), `"name":"some"`, `"name":"some","labels":{"part":"all"}`, 1))
	has(rbacPath+"clusterroles/all", "clusterrole-aggregation-controller Apply  f:rules true")

	// A namespace says why it stays, and goes as soon as nothing keeps it.
	r.must("POST", "/api/v1/namespaces", `{"apiVersion":"v1","kind":"Namespace","metadata":{"name":"held"}}`)
	const a, b = "/api/v1/namespaces/held/configmaps/a", "/apis/demo.io/v1/namespaces/held/widgets/b"
	r.must("POST", "/api/v1/namespaces/held/configmaps", `{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"a","finalizers":["demo.io/a"]}}`)
	r.must("POST", "/apis/demo.io/v1/namespaces/held/widgets", `{"apiVersion":"demo.io/v1","kind":"Widget","metadata":{"name":"b","finalizers":["demo.io/a","demo.io/b"]},"spec":{}}`)
	r.must("DELETE", "/api/v1/namespaces/held", "")
	conditions := func() string {
		var o struct {
			Status struct{ Conditions []metav1.Condition }
		}
		code, text := r.call(r.client, "GET", "/api/v1/namespaces/held", "")
		if code != 200 {
			return text
		}
		if err := json.Unmarshal([]byte(text), &o); err != nil {
			t.Fatal(err)
		}
		var lines []string
		for _, c := range o.Status.Conditions {
			if c.LastTransitionTime.IsZero() {
				t.Errorf("condition without a time: %+v", c)
			}
			lines = append(lines, fmt.Sprintf("%s %s %s %s", c.Type, c.Status, c.Reason, c.Message))
		}
		return strings.Join(lines, "\n")
	}
	const head = `NamespaceDeletionDiscoveryFailure False ResourcesDiscovered All resources successfully discovered
NamespaceDeletionGroupVersionParsingFailure False ParsedGroupVersions All legacy kube types successfully parsed
NamespaceDeletionContentFailure False ContentDeleted All content successfully deleted, may be waiting on finalization
NamespaceContentRemaining True SomeResourcesRemain Some resources are remaining: `
	r.until("both are left", func() bool {
		return conditions() == head+`configmaps. has 1 resource instances, widgets.demo.io has 1 resource instances
NamespaceFinalizersRemaining True SomeFinalizersRemain Some content in the namespace has finalizers remaining: demo.io/a in 2 resource instances, demo.io/b in 1 resource instances`
	})
	has("/api/v1/namespaces/held", "kube-controller-manager Update status f:status true")
	free := func(path string) {
		r.must("PATCH", path, `{"metadata":{"finalizers":null}}`, "Content-Type", "application/merge-patch+json")
	}
	free(a)
	r.until("one is left", func() bool {
		return conditions() == head+`widgets.demo.io has 1 resource instances
NamespaceFinalizersRemaining True SomeFinalizersRemain Some content in the namespace has finalizers remaining: demo.io/a in 1 resource instances, demo.io/b in 1 resource instances`
	})
	free(b)
	r.until("the namespace is gone", func() bool {
		code, _ := r.call(r.client, "GET", "/api/v1/namespaces/held", "")
		return code == 404
	})
}

// TestNamespacePods holds that pods are deleted first, and that the namespace's conditions say so
// until they are gone.
// Ledger: namespace-pod-condition.
func TestNamespacePods(t *testing.T) {
	r := start(t, Config{Store: mem.New(mem.Options{})})
	r.must("POST", "/api/v1/namespaces", `{"apiVersion":"v1","kind":"Namespace","metadata":{"name":"busy"}}`)
	r.must("POST", "/api/v1/namespaces/busy/configmaps", `{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"used"}}`)
	r.must("POST", "/api/v1/namespaces/busy/pods", `{"apiVersion":"v1","kind":"Pod","metadata":{"name":"p","finalizers":["demo.io/a"]},"spec":{"containers":[{"name":"c","image":"i"}]}}`)
	r.must("DELETE", "/api/v1/namespaces/busy", "")
	r.until("the pod is left", func() bool {
		return strings.Contains(r.must("GET", "/api/v1/namespaces/busy", ""), "Some resources are remaining: pods. has 1 resource instances")
	})
	r.must("GET", "/api/v1/namespaces/busy/configmaps/used", "")
	r.must("PATCH", "/api/v1/namespaces/busy/pods/p", `{"metadata":{"finalizers":null}}`, "Content-Type", "application/merge-patch+json")
	r.until("the namespace is gone", func() bool {
		code, _ := r.call(r.client, "GET", "/api/v1/namespaces/busy", "")
		return code == 404
	})
}

// TestEventTTL checks that an event is deleted when the configured time is over.
func TestEventTTL(t *testing.T) {
	r := start(t, Config{Store: mem.New(mem.Options{}), EventTTL: time.Second})
	const path = "/apis/events.k8s.io/v1/namespaces/default/events"
	r.must("POST", "/api/v1/namespaces/default/events", `{"metadata":{"name":"e"},"involvedObject":{"namespace":"default"}}`)
	r.until("the event is gone", func() bool {
		code, _ := r.call(r.client, "GET", path+"/e", "")
		return code == 404
	})
}

// TestCollectorDeletesWhatItSaw holds that the garbage collector does not delete an object that got
// an owner since the collector read it.
func TestCollectorDeletesWhatItSaw(t *testing.T) {
	r := start(t, Config{Store: mem.New(mem.Options{})})
	const path = "/api/v1/namespaces/default/configmaps"
	asked := make(chan map[string]any, 100)
	h := serveHooks(t, map[string]behave{"watched": func(v *review) (int, string) {
		select {
		case asked <- v.Request.Options:
		default:
		}
		return answerOf(`{"uid":"%s","allowed":true}`)(v)
	}})
	r.configure(validatingConfig, "collector", h.hookFor("watched", `"rules":[{"operations":["DELETE"],"apiGroups":[""],"apiVersions":["v1"],"resources":["configmaps"]}]`))
	made := r.must("POST", path, `{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"lost","ownerReferences":[{"apiVersion":"v1","kind":"ConfigMap","name":"none","uid":"none"}]}}`)
	var o struct{ Metadata metav1.ObjectMeta }
	if err := json.Unmarshal([]byte(made), &o); err != nil {
		t.Fatal(err)
	}
	var options struct {
		Preconditions     map[string]string
		PropagationPolicy string
	}
	text, err := json.Marshal(<-asked)
	if err == nil {
		err = json.Unmarshal(text, &options)
	}
	if p := options.Preconditions; err != nil || p["uid"] != string(o.Metadata.UID) || p["resourceVersion"] != o.Metadata.ResourceVersion || options.PropagationPolicy != "Background" {
		t.Errorf("deleted with %s, %v; the object is %s", text, err, made)
	}
	r.until("it is gone", func() bool {
		code, _ := r.call(r.client, "GET", path+"/lost", "")
		return code == 404
	})
}

// TestEventsExpire checks which objects expire, and when.
func TestEventsExpire(t *testing.T) {
	r := start(t, Config{Store: mem.New(mem.Options{})})
	var got []string
	for k := range r.kinds.Load().All() {
		if k.Behavior.TTL > 0 {
			got = append(got, fmt.Sprintf("%s.%s %v", k.Plural, k.Group, k.Behavior.TTL))
		}
	}
	slices.Sort(got)
	if want := []string{"events. 1h0m0s", "events.events.k8s.io 1h0m0s"}; !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
}

// TestEnabled checks which controllers a list enables.
func TestEnabled(t *testing.T) {
	all := Controllers()
	without := func(name string) []string {
		return slices.DeleteFunc(slices.Clone(all), func(n string) bool { return n == name })
	}
	for _, row := range []struct {
		list []string
		want []string
	}{
		{nil, all},
		{[]string{}, nil},
		{[]string{"*"}, all},
		{[]string{"garbagecollector"}, []string{gc.Name}},
		{[]string{gc.Name, "garbagecollector"}, []string{gc.Name}},
		{[]string{"-" + gc.Name}, nil},
		{[]string{"*", "-" + gc.Name}, without(gc.Name)},
		{[]string{"-garbagecollector", "*"}, without(gc.Name)},
		{[]string{"-garbagecollector", gc.Name, "*"}, without(gc.Name)},
		{[]string{gc.Name, "-" + gc.Name}, []string{gc.Name}},
	} {
		on, err := enabled(row.list)
		var got []string
		for name, is := range on {
			if is {
				got = append(got, name)
			}
		}
		slices.Sort(got)
		if err != nil || !slices.Equal(got, row.want) {
			t.Errorf("%q: got %q, %v, want %q", row.list, got, err, row.want)
		}
	}
	for _, wrong := range []string{"bogus", "-bogus", "", "-", "-*", "Garbagecollector"} {
		if _, err := enabled([]string{"*", wrong}); err == nil || !strings.Contains(err.Error(), fmt.Sprintf("controllers: got %q, want *, or one of", wrong)) {
			t.Errorf("%q: got %v", wrong, err)
		}
	}
}

// TestSystemConfigMaps holds that the config maps about the server exist, and come back if somebody
// deletes or changes them.
func TestSystemConfigMaps(t *testing.T) {
	r := start(t, Config{Store: mem.New(mem.Options{})})
	const path = "/api/v1/namespaces/kube-system/configmaps/"
	is := func(what, name string, want *regexp.Regexp) {
		t.Helper()
		testkit.EventuallySay(t, func() (string, bool) {
			_, text := r.call(r.client, "GET", path+name, "")
			return what + ": got " + text, want.MatchString(text)
		})
	}
	authentication := regexp.MustCompile(`"data":\{"client-ca-file":"-----BEGIN CERTIFICATE-----[^"{}]*"\}`)
	tracking := regexp.MustCompile(`"data":\{"since":"\d{4}-\d\d-\d\d"\}`)
	is("at first", "extension-apiserver-authentication", authentication)
	is("at first", "kube-apiserver-legacy-service-account-token-tracking", tracking)
	r.must("DELETE", path+"extension-apiserver-authentication", "")
	is("deleted", "extension-apiserver-authentication", authentication)
	patch := func(name, data string) {
		t.Helper()
		r.must("PATCH", path+name, `{"data":`+data+`}`, "Content-Type", "application/merge-patch+json")
	}
	patch("extension-apiserver-authentication", `{"client-ca-file":"nothing","other":"x"}`)
	is("changed", "extension-apiserver-authentication", authentication)
	patch("kube-apiserver-legacy-service-account-token-tracking", `{"since":"yesterday"}`)
	is("changed", "kube-apiserver-legacy-service-account-token-tracking", tracking)
}
