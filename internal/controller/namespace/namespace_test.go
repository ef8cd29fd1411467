package namespace

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/keelson-io/keelson/internal/objects"
	"github.com/keelson-io/keelson/internal/testapi"
	"github.com/keelson-io/keelson/internal/testkit"
	"github.com/keelson-io/keelson/kind"
)

// This file runs the controller over the API with a store in memory, by a clock that moves only while
// everybody waits.

// inBubble runs a test beside a controller. before changes the controller; nil: nothing is changed.
func inBubble(t *testing.T, before func(*Controller), test func(t *testing.T, a *testapi.API)) {
	synctest.Test(t, func(t *testing.T) {
		a := testapi.New(t)
		c := &Controller{Kinds: a.Kinds, Cache: a.Cache, Store: a.Store, API: a.As(objects.ControllerManager), Logger: a.Logger}
		if before != nil {
			before(c)
		}
		a.Must("POST", "/api/v1/namespaces", `{"metadata":{"name":"ns"}}`)
		a.Run(c.Run)
		test(t, a)
	})
}

const inNS = "/api/v1/namespaces/ns"

func configMap(name string, finalizers ...string) string {
	text := ""
	if len(finalizers) > 0 {
		text = `,"finalizers":["` + strings.Join(finalizers, `","`) + `"]`
	}
	return fmt.Sprintf(`{"metadata":{"name":%q%s}}`, name, text)
}

// settle lets everything happen that happens within a second.
func settle() {
	synctest.Wait()
	time.Sleep(time.Second)
	synctest.Wait()
}

// conditions returns those of the namespace ns that are true, with their messages.
func conditions(a *testapi.API) map[corev1.NamespaceConditionType]string {
	var ns corev1.Namespace
	a.Get(inNS, &ns)
	found := map[corev1.NamespaceConditionType]string{}
	for _, c := range ns.Status.Conditions {
		if c.Status == corev1.ConditionTrue {
			found[c.Type] = c.Reason + ": " + c.Message
		}
	}
	return found
}

func TestDeletedNamespaceIsEmptiedAndGoes(t *testing.T) {
	inBubble(t, nil, func(t *testing.T, a *testapi.API) {
		for i := range 3 {
			a.Must("POST", inNS+"/configmaps", configMap(fmt.Sprint("c", i)))
			a.Must("POST", "/api/v1/namespaces/default/configmaps", configMap(fmt.Sprint("c", i)))
		}
		a.Must("POST", inNS+"/secrets", configMap("s"))
		settle()
		if !a.Exists(inNS + "/configmaps/c0") {
			t.Error("objects of a namespace that stays are deleted")
		}
		a.Must("DELETE", inNS, "")
		settle()
		for _, path := range []string{inNS, inNS + "/configmaps/c0", inNS + "/secrets/s"} {
			if a.Exists(path) {
				t.Errorf("%s is still there", path)
			}
		}
		if !a.Exists("/api/v1/namespaces/default/configmaps/c2") {
			t.Error("an object of another namespace is gone")
		}
	})
}

// TestNamespaceThatIsDeletedBeforeTheStart checks that the list is enough to find it.
func TestNamespaceThatIsDeletedBeforeTheStart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := testapi.New(t)
		a.Must("POST", "/api/v1/namespaces", `{"metadata":{"name":"ns"}}`)
		a.Must("POST", inNS+"/configmaps", configMap("c"))
		a.Must("DELETE", inNS, "")
		a.Run((&Controller{Kinds: a.Kinds, Cache: a.Cache, Store: a.Store, API: a.As(objects.ControllerManager), Logger: a.Logger}).Run)
		settle()
		if a.Exists(inNS) {
			t.Error("the namespace is still there")
		}
	})
}

func TestFinalizersKeepTheNamespace(t *testing.T) {
	inBubble(t, nil, func(t *testing.T, a *testapi.API) {
		a.Must("POST", inNS+"/configmaps", configMap("a", "demo.io/x", "demo.io/y"))
		a.Must("POST", inNS+"/configmaps", configMap("b", "demo.io/x"))
		a.Must("DELETE", inNS, "")
		settle()
		want := map[corev1.NamespaceConditionType]string{
			corev1.NamespaceContentRemaining:    "SomeResourcesRemain: Some resources are remaining: configmaps. has 2 resource instances",
			corev1.NamespaceFinalizersRemaining: "SomeFinalizersRemain: Some content in the namespace has finalizers remaining: demo.io/x in 2 resource instances, demo.io/y in 1 resource instances",
		}
		if got := conditions(a); fmt.Sprint(got) != fmt.Sprint(want) {
			t.Errorf("got %v, want %v", got, want)
		}
		a.Must("PATCH", inNS+"/configmaps/a", `{"metadata":{"finalizers":null}}`)
		settle()
		if got, want := conditions(a)[corev1.NamespaceContentRemaining], "SomeResourcesRemain: Some resources are remaining: configmaps. has 1 resource instances"; got != want {
			t.Errorf("got %s, want %s", got, want)
		}
		a.Must("PATCH", inNS+"/configmaps/b", `{"metadata":{"finalizers":null}}`)
		settle()
		if a.Exists(inNS) {
			t.Errorf("the namespace is still there: %v", conditions(a))
		}
	})
}

func TestPodsGoFirst(t *testing.T) {
	inBubble(t, nil, func(t *testing.T, a *testapi.API) {
		a.Must("POST", inNS+"/pods", `{"metadata":{"name":"p","finalizers":["demo.io/x"]},"spec":{"containers":[{"name":"c","image":"i"}]}}`)
		a.Must("POST", inNS+"/configmaps", configMap("c"))
		a.Must("DELETE", inNS, "")
		settle()
		if !a.Exists(inNS + "/configmaps/c") {
			t.Error("the config map is gone while there is a pod")
		}
		a.Must("PATCH", inNS+"/pods/p", `{"metadata":{"finalizers":null}}`)
		settle()
		if a.Exists(inNS) {
			t.Errorf("the namespace is still there: %v", conditions(a))
		}
	})
}

// failing is an API that refuses some deletions.
type failing struct {
	API
	left  int
	tries []time.Time
}

func (f *failing) DeleteAll(ctx context.Context, k *kind.Kind, namespace string, each func(func(name string) error) error) error {
	if f.left > 0 {
		f.left--
		f.tries = append(f.tries, time.Now())
		return errors.New("not now")
	}
	return f.API.DeleteAll(ctx, k, namespace, each)
}

func TestFailedDeletionIsReportedAndRepeated(t *testing.T) {
	f := &failing{left: 5}
	inBubble(t, func(c *Controller) { f.API, c.API = c.API, f }, func(t *testing.T, a *testapi.API) {
		a.Must("POST", inNS+"/configmaps", configMap("c"))
		a.Must("DELETE", inNS, "")
		synctest.Wait()
		if got, want := conditions(a)[corev1.NamespaceDeletionContentFailure], "ContentDeletionFailed: Failed to delete all resource types, 1 remaining: not now"; got != want {
			t.Errorf("got %s, want %s", got, want)
		}
		time.Sleep(time.Minute)
		synctest.Wait()
		if a.Exists(inNS) {
			t.Errorf("the namespace is still there: %v", conditions(a))
		}
		for i := 2; i < len(f.tries); i++ {
			if before, now := f.tries[i-1].Sub(f.tries[i-2]), f.tries[i].Sub(f.tries[i-1]); now < 2*before {
				t.Errorf("try %d came %v after the last one, and that %v after the one before", i, now, before)
			}
		}
	})
}

func TestConditions(t *testing.T) {
	const (
		content    = corev1.NamespaceDeletionContentFailure
		remaining  = corev1.NamespaceContentRemaining
		finalizers = corev1.NamespaceFinalizersRemaining
	)
	for _, row := range []struct {
		at   testkit.Position
		left remains
		want map[corev1.NamespaceConditionType]string // those that are true
	}{
		{testkit.Here(), remains{}, nil},
		{testkit.Here(), remains{kinds: map[string]int{"widgets.demo.io": 2, "pods.": 1}},
			map[corev1.NamespaceConditionType]string{remaining: "Some resources are remaining: pods. has 1 resource instances, widgets.demo.io has 2 resource instances"}},
		{testkit.Here(), remains{kinds: map[string]int{"pods.": 1}, finalizers: map[string]int{"b": 1, "a": 3}},
			map[corev1.NamespaceConditionType]string{remaining: "Some resources are remaining: pods. has 1 resource instances",
				finalizers: "Some content in the namespace has finalizers remaining: a in 3 resource instances, b in 1 resource instances"}},
		{testkit.Here(), remains{errs: []error{errors.New("b"), errors.New("a")}},
			map[corev1.NamespaceConditionType]string{content: "Failed to delete all resource types, 2 remaining: a, b"}},
	} {
		all := row.left.conditions()
		if len(all) != len(well) {
			t.Errorf("%s: got %d conditions, want %d", row.at, len(all), len(well))
		}
		for i, c := range all {
			want, is := row.want[c.Type]
			if !is {
				want = well[i].Message
			}
			if c.Type != well[i].Type || (c.Status == corev1.ConditionTrue) != is || c.Message != want {
				t.Errorf("%s: got %s %s %q, want %q", row.at, c.Type, c.Status, c.Message, want)
			}
		}
	}
}
