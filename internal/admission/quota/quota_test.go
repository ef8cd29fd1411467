package quota

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"sync"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/keelson-io/keelson/internal/admission"
	"github.com/keelson-io/keelson/jsondoc"
	"github.com/keelson-io/keelson/kind"
)

// doc parses a document.
func doc(t *testing.T, text string) *jsondoc.Doc {
	t.Helper()
	d := jsondoc.Get()
	t.Cleanup(d.Release)
	if err := jsondoc.Parse(d, []byte(text)); err != nil {
		t.Fatal(err)
	}
	return d
}

// TestUse holds what objects of each resource use, and under which names.
// Ledger: quota-extended.
func TestUse(t *testing.T) {
	for _, row := range []struct {
		group, resource, object, want string
	}{
		{"", "pods", `{"spec":{"containers":[{"resources":{"requests":{"cpu":"1","memory":"1Gi","ephemeral-storage":"1Mi","hugepages-2Mi":"2Mi","a.io/gpu":"2"},"limits":{"cpu":"2"}}}]}}`,
			"count/pods=1,cpu=1,ephemeral-storage=1Mi,hugepages-2Mi=2Mi,limits.cpu=2,memory=1Gi,pods=1,requests.a.io/gpu=2,requests.cpu=1,requests.ephemeral-storage=1Mi,requests.hugepages-2Mi=2Mi,requests.memory=1Gi"},
		{"", "pods", `{"spec":{"containers":[{"resources":{"requests":{"cpu":"1"}}}]},"status":{"phase":"Succeeded"}}`, "count/pods=1"},
		{"", "pods", `{"metadata":{"deletionTimestamp":"2020-01-01T00:00:00Z","deletionGracePeriodSeconds":1},"spec":{"containers":[{}]}}`, "count/pods=1"},
		{"", "pods", `{"spec":{"overhead":{"cpu":"1"},"initContainers":[{"resources":{"requests":{"cpu":"5"}}}],"containers":[{"resources":{"requests":{"cpu":"1"}}}]}}`,
			"count/pods=1,cpu=6,pods=1,requests.cpu=6"},
		{"", "services", `{"spec":{"type":"NodePort","ports":[{},{}]}}`, "count/services=1,services=1,services.loadbalancers=0,services.nodeports=2"},
		{"", "services", `{"spec":{"type":"LoadBalancer","allocateLoadBalancerNodePorts":false,"ports":[{},{"nodePort":30000}]}}`,
			"count/services=1,services=1,services.loadbalancers=1,services.nodeports=1"},
		{"", "persistentvolumeclaims", `{"spec":{"storageClassName":"gold","resources":{"requests":{"storage":"1500m"}}}}`,
			"count/persistentvolumeclaims=1,gold.storageclass.storage.k8s.io/persistentvolumeclaims=1,gold.storageclass.storage.k8s.io/requests.storage=2,persistentvolumeclaims=1,requests.storage=2"},
		{"", "persistentvolumeclaims", `{"spec":{"resources":{"requests":{"storage":"1Gi"}}},"status":{"allocatedResources":{"storage":"2Gi"}}}`,
			"count/persistentvolumeclaims=1,persistentvolumeclaims=1,requests.storage=2Gi"},
		{"resource.k8s.io", "resourceclaims", `{"spec":{"devices":{"requests":[{"exactly":{"deviceClassName":"a","allocationMode":"ExactCount","count":2}},
			{"firstAvailable":[{"deviceClassName":"a","allocationMode":"ExactCount","count":3},{"deviceClassName":"b","allocationMode":"All"}]}]}}}`,
			"a.deviceclass.resource.k8s.io/devices=5,b.deviceclass.resource.k8s.io/devices=32,count/resourceclaims.resource.k8s.io=1"},
		{"", "configmaps", `{}`, "configmaps=1,count/configmaps=1"},
		{"demo.io", "widgets", `{}`, "count/widgets.demo.io=1"},
	} {
		m := MeasureOf(schema.GroupResource{Group: row.group, Resource: row.resource})
		var object any
		if m.Parse != nil {
			var err error
			if object, err = m.Parse([]byte(row.object)); err != nil {
				t.Fatal(err)
			}
		}
		used := m.Use(object)
		if got := text(used); got != row.want {
			t.Errorf("%s %s:\ngot  %s\nwant %s", row.resource, row.object, got, row.want)
		}
		for name := range used {
			if tracked := m.Tracks(name); !tracked {
				t.Errorf("%s: %s is used and not tracked", row.resource, name)
			}
		}
	}
	if MeasureOf(schema.GroupResource{Resource: "events"}) != nil {
		t.Error("events are counted")
	}
}

// TestScopes holds which pods are in which scopes.
func TestScopes(t *testing.T) {
	const besteffort, burstable = `{"spec":{"containers":[{}]}}`, `{"spec":{"containers":[{"resources":{"requests":{"cpu":"1"}}}]}}`
	for _, row := range []struct {
		scope, pod string
		want       bool
	}{
		{`{"scopeName":"BestEffort","operator":"Exists"}`, besteffort, true},
		{`{"scopeName":"BestEffort","operator":"Exists"}`, burstable, false},
		{`{"scopeName":"NotBestEffort","operator":"Exists"}`, burstable, true},
		{`{"scopeName":"Terminating","operator":"Exists"}`, `{"spec":{"activeDeadlineSeconds":0}}`, true},
		{`{"scopeName":"NotTerminating","operator":"Exists"}`, besteffort, true},
		{`{"scopeName":"PriorityClass","operator":"Exists"}`, besteffort, false},
		{`{"scopeName":"PriorityClass","operator":"In","values":["a"]}`, `{"spec":{"priorityClassName":"a"}}`, true},
		{`{"scopeName":"PriorityClass","operator":"NotIn","values":["a"]}`, `{"spec":{"priorityClassName":"a"}}`, false},
		{`{"scopeName":"PriorityClass","operator":"NotIn","values":["a"]}`, besteffort, true},
		{`{"scopeName":"PriorityClass","operator":"DoesNotExist"}`, besteffort, true},
		{`{"scopeName":"CrossNamespacePodAffinity","operator":"Exists"}`, besteffort, false},
		{`{"scopeName":"CrossNamespacePodAffinity","operator":"Exists"}`,
			`{"spec":{"affinity":{"podAntiAffinity":{"preferredDuringSchedulingIgnoredDuringExecution":[{"podAffinityTerm":{"namespaceSelector":{}}}]}}}}`, true},
		{`{"scopeName":"VolumeAttributesClass","operator":"Exists"}`, besteffort, false},
	} {
		var scope corev1.ScopedResourceSelectorRequirement
		var pod corev1.Pod
		if err := errors.Join(json.Unmarshal([]byte(row.scope), &scope), json.Unmarshal([]byte(row.pod), &pod)); err != nil {
			t.Fatal(err)
		}
		if got, err := podInScope(&scope, &pod); err != nil || got != row.want {
			t.Errorf("%s %s: got %v, %v", row.scope, row.pod, got, err)
		}
	}
}

// ledger is a store of quotas.
type ledger struct {
	mu     sync.Mutex
	quotas map[string]*corev1.ResourceQuota
}

func (l *ledger) update(_ context.Context, _, name string, fn func(*corev1.ResourceQuota) error) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	q := l.quotas[name].DeepCopy()
	if err := fn(q); err != nil {
		return err
	}
	l.quotas[name] = q
	return nil
}

func (l *ledger) all() []*corev1.ResourceQuota {
	l.mu.Lock()
	defer l.mu.Unlock()
	return []*corev1.ResourceQuota{l.quotas["a"], l.quotas["b"]}
}

func limit(name string, hard, used int) *corev1.ResourceQuota {
	q := new(corev1.ResourceQuota)
	q.Name = name
	q.Status = corev1.ResourceQuotaStatus{Hard: corev1.ResourceList{"count/widgets.demo.io": count(hard)}, Used: corev1.ResourceList{"count/widgets.demo.io": count(used)}}
	return q
}

func widget(t *testing.T) *demand {
	k := &kind.Kind{Group: "demo.io", Plural: "widgets", Name: "Widget"}
	r := &admission.Request{Operation: admission.Create, Namespace: "n", Name: "w", Version: &kind.Version{Kind: k}, New: doc(t, `{}`)}
	return &demand{r: r, measure: MeasureOf(k.GroupResource())}
}

// TestRefund holds that a request that the second quota refuses leaves the first as it was.
// Ledger: quota-refund.
func TestRefund(t *testing.T) {
	l := &ledger{quotas: map[string]*corev1.ResourceQuota{"a": limit("a", 5, 1), "b": limit("b", 2, 2)}}
	s := &Step{update: l.update}
	err := s.charge(t.Context(), widget(t), l.all())
	if err == nil || !strings.Contains(err.Error(), "exceeded quota: b, requested: count/widgets.demo.io=1, used: count/widgets.demo.io=2, limited: count/widgets.demo.io=2") {
		t.Errorf("got %v", err)
	}
	if got := text(l.quotas["a"].Status.Used); got != "count/widgets.demo.io=1" {
		t.Errorf("the first quota: got %s used", got)
	}
}

// TestConcurrentCharges holds that many requests at once never exceed a quota.
func TestConcurrentCharges(t *testing.T) {
	l := &ledger{quotas: map[string]*corev1.ResourceQuota{"a": limit("a", 7, 0), "b": limit("b", 100, 0)}}
	s := &Step{update: l.update}
	var wait sync.WaitGroup
	var mu sync.Mutex
	admitted := 0
	for range 50 {
		d := widget(t)
		wait.Go(func() {
			if s.enforce(t.Context(), d, l.all()) == nil {
				mu.Lock()
				admitted++
				mu.Unlock()
			}
		})
	}
	wait.Wait()
	if admitted != 7 || text(l.quotas["a"].Status.Used) != "count/widgets.demo.io=7" || text(l.quotas["b"].Status.Used) != "count/widgets.demo.io=7" {
		t.Errorf("admitted %d, used %s and %s, want 7", admitted, text(l.quotas["a"].Status.Used), text(l.quotas["b"].Status.Used))
	}
	if len(s.turns.queue) != 0 {
		t.Errorf("%d namespaces still have a queue", len(s.turns.queue))
	}
}

// TestLimitedResources holds that nothing is used of a limited resource without a quota for it.
func TestLimitedResources(t *testing.T) {
	s := &Step{limited: []LimitedResource{{APIGroup: "demo.io", Resource: "widgets", MatchContains: []string{"count/"}}}}
	err := s.enforce(t.Context(), widget(t), nil)
	if err == nil || !strings.Contains(err.Error(), "insufficient quota to consume: count/widgets.demo.io") {
		t.Errorf("without a quota: got %v", err)
	}
	l := &ledger{quotas: map[string]*corev1.ResourceQuota{"a": limit("a", 7, 0), "b": limit("b", 7, 0)}}
	s.update = l.update
	if err := s.enforce(t.Context(), widget(t), l.all()); err != nil {
		t.Errorf("with quotas: got %v", err)
	}
}
