package quota

import (
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/keelson-io/keelson/internal/objects"
	"github.com/keelson-io/keelson/internal/testapi"
)

// This file runs the controller over the API with a store in memory, without admission, by a clock
// that moves only while everybody waits.

const inSpace = "/api/v1/namespaces/a/"

// used returns the use of a name of a quota.
func used(t *testing.T, api *testapi.API, name string, of corev1.ResourceName) string {
	t.Helper()
	var q corev1.ResourceQuota
	if !api.Get(inSpace+"resourcequotas/"+name, &q) {
		t.Fatalf("quota %s is gone", name)
	}
	amount, ok := q.Status.Used[of]
	if !ok {
		return "nothing"
	}
	return amount.String()
}

// started runs the controller beside two quotas, two pods of which one ends by itself, and a
// Service with a node port.
func started(t *testing.T) *testapi.API {
	t.Helper()
	api := testapi.New(t)
	api.Must("POST", "/api/v1/namespaces", `{"metadata":{"name":"a"}}`)
	api.Must("POST", inSpace+"resourcequotas", `{"metadata":{"name":"all"},"spec":{"hard":{"pods":"9","requests.cpu":"9","services.nodeports":"9","count/configmaps":"9"}}}`)
	api.Must("POST", inSpace+"resourcequotas", `{"metadata":{"name":"long"},"spec":{"hard":{"pods":"9"},"scopes":["NotTerminating"]}}`)
	api.Must("POST", inSpace+"pods", podText("p", ""))
	api.Must("POST", inSpace+"pods", podText("q", ""))
	api.Must("POST", inSpace+"services", `{"metadata":{"name":"s"},"spec":{"type":"NodePort","ports":[{"port":80,"nodePort":30080}]}}`)
	api.Run((&Controller{Kinds: api.Kinds, Cache: api.Cache, Store: api.Store, API: api.As(objects.ControllerManager), Logger: api.Logger}).Run)
	return api
}

func podText(name, more string) string {
	return `{"metadata":{"name":"` + name + `"},"spec":{` + more + `"containers":[{"name":"c","image":"i","resources":{"requests":{"cpu":"400m"}}}]}}`
}

// TestUpdatesThatFree holds that quotas are counted at once after an update that changes what an
// object uses, or the scopes that it is in, and not after others.
func TestUpdatesThatFree(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		api := started(t)
		expect := func(when, pods, cpu, ports, long string) {
			t.Helper()
			time.Sleep(time.Second)
			synctest.Wait()
			for _, c := range []struct {
				quota string
				name  corev1.ResourceName
				want  string
			}{{"all", "pods", pods}, {"all", "requests.cpu", cpu}, {"all", "services.nodeports", ports}, {"long", "pods", long}} {
				if got := used(t, api, c.quota, c.name); got != c.want {
					t.Errorf("%s: %s of %s: got %s, want %s", when, c.name, c.quota, got, c.want)
				}
			}
		}
		expect("at first", "2", "800m", "1", "2")
		time.Sleep(time.Minute) // the counts after the charges are over
		api.Must("PATCH", inSpace+"pods/q/status", `{"status":{"phase":"Succeeded"}}`)
		expect("a pod ended", "1", "400m", "1", "1")
		api.Must("PATCH", inSpace+"services/s", `{"spec":{"type":"ClusterIP","externalTrafficPolicy":null,"ports":[{"port":80}]}}`)
		expect("a node port is free", "1", "400m", "0", "1")
		api.Must("PATCH", inSpace+"pods/p", `{"spec":{"activeDeadlineSeconds":50}}`)
		expect("a pod left the scope", "1", "400m", "0", "0")
	})
}

// TestResync holds that a quota is counted every five minutes although nothing has changed.
func TestResync(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		api := started(t)
		time.Sleep(time.Minute)
		api.Must("POST", inSpace+"configmaps", `{"metadata":{"name":"m"}}`) // charged by nobody here
		time.Sleep(time.Minute)
		synctest.Wait()
		if got := used(t, api, "all", "count/configmaps"); got != "0" {
			t.Errorf("after a minute: got %s, want 0", got)
		}
		time.Sleep(resync)
		synctest.Wait()
		if got := used(t, api, "all", "count/configmaps"); got != "1" {
			t.Errorf("after the resync: got %s, want 1", got)
		}
	})
}

// TestUpdatesThatFreeNothing holds that an update that changes neither the use nor the scopes lets
// no quota be counted.
func TestUpdatesThatFreeNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		api := started(t)
		time.Sleep(time.Minute)
		api.Must("POST", inSpace+"configmaps", `{"metadata":{"name":"m"}}`)
		api.Must("PATCH", inSpace+"pods/p/status", `{"status":{"message":"still there"}}`)
		time.Sleep(time.Second)
		synctest.Wait()
		if got := used(t, api, "all", "count/configmaps"); got != "0" {
			t.Errorf("the quota was counted: got %s configmaps, want 0", got)
		}
	})
}
