package e2e

import (
	"context"
	"fmt"
	"strings"
	"syscall"
	"testing"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/dynamic"
)

// This file compacts etcd under informers: those that watch on are not disturbed, and those that were away, and whose place in
// history is gone, begin anew.

// compact forgets all history of member 0.
func (m *members) compact() {
	m.t.Helper()
	kv := m.running[0].Server
	if _, err := kv.Compact(context.Background(), &pb.CompactionRequest{Revision: kv.KV().Rev(), Physical: true}); err != nil {
		m.t.Fatal(err)
	}
}

func TestInformersThroughCompaction(t *testing.T) {
	etcd := startMembers(t, 1)
	s := startServer(t, etcd.args()...)
	s.do(t, 201, "POST", "/apis/apiextensions.k8s.io/v1/customresourcedefinitions", toJSON(t, gadgetCRD))
	eventually(t, "gadgets served", 10*time.Second, func() bool {
		code, _, err := s.try("GET", gadgetList, nil)
		return err == nil && code == 200
	})
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	want := map[string]string{}
	rewrite(t, s.dynamic(t), want, 0, 20)
	informers := []*seen{inform(t, ctx, s.dynamic(t)), inform(t, ctx, s.dynamic(t))}
	agree := func(when string) {
		t.Helper()
		for i, w := range informers {
			eventually(t, fmt.Sprintf("informer %d %s", i, when), 40*time.Second, func() bool { return w.equals(want) })
		}
	}
	etcd.compact()
	rewrite(t, s.dynamic(t), want, 5, 25)
	agree("after a compaction that it did not notice")

	then := fmt.Sprintf("%s?watch=1&timeoutSeconds=5&resourceVersion=%s", gadgetList, want["g-24"])
	s.stop(syscall.SIGTERM)
	other := startServer(t, etcd.args()...)
	rewrite(t, other.dynamic(t), want, 10, 30)
	for i := range 5 {
		name := fmt.Sprintf("g-%d", i)
		other.do(t, 200, "DELETE", gadgetList+"/"+name, nil)
		delete(want, name)
	}
	etcd.compact()
	s.start()
	if b := string(s.do(t, 200, "GET", then, nil)); !strings.Contains(b, `"type":"ERROR"`) || !strings.Contains(b, `"reason":"Expired"`) || !strings.Contains(b, `"code":410`) {
		t.Errorf("a watch from before the compaction: got %s, want that it is expired", b)
	}
	agree("whose place in history is gone")
	rewrite(t, other.dynamic(t), want, 15, 35)
	agree("that began anew")
}

// rewrite deletes and creates the gadgets of these numbers, and notes their versions.
func rewrite(t *testing.T, client dynamic.Interface, versions map[string]string, from, to int) {
	t.Helper()
	in := client.Resource(gadgets).Namespace("default")
	for i := from; i < to; i++ {
		name := fmt.Sprintf("g-%d", i)
		if _, there := versions[name]; there {
			if err := in.Delete(t.Context(), name, metav1.DeleteOptions{}); err != nil {
				t.Fatal(err)
			}
		}
		var o *unstructured.Unstructured
		var err error
		if o, err = in.Create(t.Context(), object(t, gadget(name, "red")), metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
		versions[name] = o.GetResourceVersion()
	}
}
