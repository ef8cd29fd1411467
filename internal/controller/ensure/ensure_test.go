package ensure

import (
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/keelson-io/keelson/internal/controller/trust"
	"github.com/keelson-io/keelson/internal/objects"
	"github.com/keelson-io/keelson/internal/testapi"
	"github.com/keelson-io/keelson/internal/testkit"
)

// This file runs the controller over the API with a store in memory, by a clock that moves only while
// everybody waits.

const spaces = "/api/v1/namespaces"

// rig is a controller that runs.
type rig struct {
	*testapi.API
	own         atomic.Value // the server's authorities
	authorities *trust.Bundle
}

// inBubble runs a test beside a controller. before changes the controller; nil: nothing is changed.
func inBubble(t *testing.T, before func(*Controller), test func(t *testing.T, r *rig)) {
	synctest.Test(t, func(t *testing.T) {
		r := &rig{API: testapi.New(t)}
		r.own.Store("first\n")
		r.authorities = &trust.Bundle{Store: r.Store, Own: func() []byte { return []byte(r.own.Load().(string)) }}
		c := &Controller{Kinds: r.Kinds, Cache: r.Cache, Store: r.Store, Logger: r.Logger,
			EnsureNamespace: r.As(objects.ServerManager).EnsureNamespace, Authorities: r.authorities, Accounts: r.As(objects.ControllerManager), Maps: r.As(objects.ControllerManager)}
		if before != nil {
			before(c)
		}
		r.Run(c.Run)
		settle()
		test(t, r)
	})
}

// settle lets everything happen that happens within a second.
func settle() {
	synctest.Wait()
	time.Sleep(time.Second)
	synctest.Wait()
}

// furnished reports whether a namespace has its objects, with the authorities that the config map is to
// say.
func (r *rig) furnished(at testkit.Position, namespace, authorities string) {
	r.Helper()
	in := spaces + "/" + namespace
	if !r.Exists(in + "/serviceaccounts/" + account) {
		r.Errorf("%s: namespace %s has no service account", at, namespace)
	}
	var m corev1.ConfigMap
	if !r.Get(in+"/configmaps/"+rootCA, &m) {
		r.Errorf("%s: namespace %s has no config map", at, namespace)
	} else if m.Data[caKey] != authorities || len(m.Data) != 1 || m.Annotations[description] == "" {
		r.Errorf("%s: namespace %s: got %v, %v", at, namespace, m.Data, m.Annotations)
	}
}

func TestEveryNamespaceIsFurnished(t *testing.T) {
	inBubble(t, nil, func(t *testing.T, r *rig) {
		for _, name := range SystemNamespaces {
			r.furnished(testkit.Here(), name, "first\n")
		}
		r.Must("POST", spaces, `{"metadata":{"name":"new"}}`)
		settle()
		r.furnished(testkit.Here(), "new", "first\n")
	})
}

func TestWhatIsTakenAwayComesBack(t *testing.T) {
	inBubble(t, nil, func(t *testing.T, r *rig) {
		in := spaces + "/default"
		for _, test := range []struct {
			at                 testkit.Position
			method, path, body string
		}{
			{testkit.Here(), "DELETE", "/serviceaccounts/" + account, ""},
			{testkit.Here(), "DELETE", "/configmaps/" + rootCA, ""},
			{testkit.Here(), "PATCH", "/configmaps/" + rootCA, `{"data":{"ca.crt":"mine","other":"x"}}`},
			{testkit.Here(), "PATCH", "/configmaps/" + rootCA, `{"data":null}`},
			{testkit.Here(), "PATCH", "/configmaps/" + rootCA, `{"metadata":{"annotations":null}}`},
		} {
			r.Must(test.method, in+test.path, test.body)
			settle()
			r.furnished(test.at, "default", "first\n")
		}
		// Other changes are nobody's business.
		r.Must("PATCH", in+"/configmaps/"+rootCA, `{"metadata":{"labels":{"a":"b"}}}`)
		settle()
		if text := r.Must("GET", in+"/configmaps/"+rootCA, ""); !strings.Contains(text, `"a":"b"`) {
			t.Errorf("a label was taken away: %s", text)
		}
	})
}

func TestNewAuthoritiesReachEveryNamespace(t *testing.T) {
	inBubble(t, nil, func(t *testing.T, r *rig) {
		r.own.Store("second\n")
		if _, err := r.authorities.Load(t.Context()); err != nil {
			t.Fatal(err)
		}
		settle()
		for _, name := range SystemNamespaces {
			r.furnished(testkit.Here(), name, "second\n")
		}
	})
}

func TestTerminatingNamespaceIsLeftAlone(t *testing.T) {
	inBubble(t, nil, func(t *testing.T, r *rig) {
		r.Must("POST", spaces, `{"metadata":{"name":"old"}}`)
		settle()
		r.Must("DELETE", spaces+"/old", "") // nobody empties it here
		r.Must("DELETE", spaces+"/old/configmaps/"+rootCA, "")
		r.Must("DELETE", spaces+"/old/serviceaccounts/"+account, "")
		settle()
		if r.Exists(spaces+"/old/configmaps/"+rootCA) || r.Exists(spaces+"/old/serviceaccounts/"+account) {
			t.Error("objects are made in a namespace that is being deleted")
		}
	})
}

func TestWhatIsSwitchedOffIsNotMade(t *testing.T) {
	for _, test := range []struct {
		at             testkit.Position
		accounts, maps bool
	}{
		{testkit.Here(), false, false},
		{testkit.Here(), true, false},
		{testkit.Here(), false, true},
	} {
		inBubble(t, func(c *Controller) {
			if !test.accounts {
				c.Accounts = nil
			}
			if !test.maps {
				c.Maps = nil
			}
		}, func(t *testing.T, r *rig) {
			in := spaces + "/default"
			if got := r.Exists(in + "/serviceaccounts/" + account); got != test.accounts {
				t.Errorf("%s: service account: there %v", test.at, got)
			}
			if got := r.Exists(in + "/configmaps/" + rootCA); got != test.maps {
				t.Errorf("%s: config map: there %v", test.at, got)
			}
			for _, name := range SystemNamespaces {
				if !r.Exists(spaces + "/" + name) {
					t.Errorf("%s: namespace %s is missing", test.at, name)
				}
			}
		})
	}
}
