package flows

import (
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	flowcontrolv1 "k8s.io/api/flowcontrol/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/keelson-io/keelson/internal/flow"
	"github.com/keelson-io/keelson/internal/flow/bootstrap"
	"github.com/keelson-io/keelson/internal/testapi"
)

// This file runs the controller over the API with a store in memory, by a clock that moves only while
// everybody waits.

const (
	schemas = "/apis/flowcontrol.apiserver.k8s.io/v1/flowschemas"
	levels  = "/apis/flowcontrol.apiserver.k8s.io/v1/prioritylevelconfigurations"
)

// settle lets everything happen that happens within a second.
func settle() {
	synctest.Wait()
	time.Sleep(time.Second)
	synctest.Wait()
}

// start runs a controller.
func start(t *testing.T) (*testapi.API, *flow.Controller) {
	a := testapi.New(t)
	f := flow.New(flow.Config{Seats: 600, Logger: a.Logger})
	a.Run((&Controller{Kinds: a.Kinds, Cache: a.Cache, Store: a.Store, Logger: a.Logger, Flow: f, Producer: a.As(Producer), Consumer: a.As(Consumer)}).Run)
	settle()
	return a, f
}

// Ledger: flow-maintenance.
func TestBootstrapObjects(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, _ := start(t)
		for _, s := range bootstrap.Schemas(false) {
			var got flowcontrolv1.FlowSchema
			if !a.Get(schemas+"/"+s.Name, &got) || got.Annotations[bootstrap.AutoUpdate] != "true" || got.Generation != 1 ||
				!slices.ContainsFunc(got.ManagedFields, func(f metav1.ManagedFieldsEntry) bool { return f.Manager == Producer && f.Subresource == "" }) {
				t.Errorf("schema %s: annotations %v, generation %d, managed by %v", s.Name, got.Annotations, got.Generation, got.ManagedFields)
			}
		}
		for _, l := range bootstrap.Levels(false) {
			if !a.Exists(levels + "/" + l.Name) {
				t.Errorf("level %s is missing", l.Name)
			}
		}
		shares := func(name string) int32 {
			t.Helper()
			settle()
			var l flowcontrolv1.PriorityLevelConfiguration
			if !a.Get(levels+"/"+name, &l) {
				t.Fatalf("level %s is missing", name)
			}
			return *l.Spec.Limited.NominalConcurrencyShares
		}
		const change = `{"spec":{"limited":{"nominalConcurrencyShares":7}}}`
		a.Must("PATCH", levels+"/system", change)
		if n := shares("system"); n != 30 {
			t.Errorf("a suggested level that was changed has %d shares, want 30 again", n)
		}
		a.Must("PATCH", levels+"/system", `{"metadata":{"annotations":{"apf.kubernetes.io/autoupdate-spec":"false"}},"spec":{"limited":{"nominalConcurrencyShares":7}}}`)
		if n := shares("system"); n != 7 {
			t.Errorf("a level that is the operator's has %d shares, want 7", n)
		}
		if code, text := a.Do("PATCH", levels+"/catch-all", change); code != 422 || !strings.Contains(text, "spec of 'catch-all' must equal the fixed value") {
			t.Errorf("a mandatory level: got %d %s", code, text)
		}
		a.Must("DELETE", schemas+"/probes", "")
		a.Must("DELETE", levels+"/catch-all", "")
		// Of an earlier version of the server.
		a.Must("POST", levels, `{"metadata":{"name":"old","annotations":{"apf.kubernetes.io/autoupdate-spec":"true"}},"spec":{"type":"Limited","limited":{"limitResponse":{"type":"Reject"}}}}`)
		a.Must("POST", levels, `{"metadata":{"name":"own"},"spec":{"type":"Limited","limited":{"limitResponse":{"type":"Reject"}}}}`)
		settle()
		for path, want := range map[string]bool{schemas + "/probes": true, levels + "/catch-all": true, levels + "/old": false, levels + "/own": true} {
			if got := a.Exists(path); got != want {
				t.Errorf("%s exists: %v", path, got)
			}
		}
	})
}

func TestDanglingSchemas(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, f := start(t)
		a.Must("POST", schemas, `{"metadata":{"name":"mine"},"spec":{"matchingPrecedence":50,"priorityLevelConfiguration":{"name":"later"},
			"rules":[{"subjects":[{"kind":"User","user":{"name":"jane"}}],"resourceRules":[{"verbs":["*"],"apiGroups":["*"],"resources":["*"],"namespaces":["*"],"clusterScope":true}]}]}}`)
		check := func(status flowcontrolv1.ConditionStatus, message, level string) {
			t.Helper()
			settle()
			var s flowcontrolv1.FlowSchema
			a.Get(schemas+"/mine", &s)
			if len(s.Status.Conditions) != 1 || s.Status.Conditions[0].Status != status || !strings.HasSuffix(s.Status.Conditions[0].Message, message) {
				t.Errorf("got conditions %+v, want %s: %s", s.Status.Conditions, status, message)
			}
			var ticket flow.Ticket
			f.Classify(&ticket, &flow.Request{User: "jane", Groups: []string{"system:authenticated"}, IsResource: true, Verb: "get", Resource: "x"})
			if _, got := ticket.Names(); got != level {
				t.Errorf("jane is in level %s, want %s", got, level)
			}
		}
		check(flowcontrolv1.ConditionTrue, `references the PriorityLevelConfiguration object named "later" but there is no such object`, "global-default")
		a.Must("POST", levels, `{"metadata":{"name":"later"},"spec":{"type":"Limited","limited":{"limitResponse":{"type":"Reject"}}}}`)
		check(flowcontrolv1.ConditionFalse, `references the PriorityLevelConfiguration object named "later" and it exists`, "later")
		a.Must("DELETE", levels+"/later", "")
		check(flowcontrolv1.ConditionTrue, "but there is no such object", "global-default")
	})
}
