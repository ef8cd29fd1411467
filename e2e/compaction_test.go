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
	t.Parallel()
	etcd := startMembers(t, 1)
	s := startServer(t, etcd.args()...)
	s.do(t, 201, "POST", "/apis/apiextensions.k8s.io/v1/customresourcedefinitions", toJSON(t, gadgetCRD))
	eventually(t, "gadgets served", func() bool {
		code, _, err := s.try("GET", gadgetList, nil)
		return err == nil && code == 200
	})
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	all := informAll(t, ctx, s, 2)
	through := func(s *server, from, to int) {
		t.Helper()
		client := s.dynamic(t)
		all[0].in, all[1].in = client.Resource(gadgets).Namespace("default"), client.Resource(configMapKind).Namespace("default")
		for _, k := range all {
			k.rewrite(t, from, to)
		}
	}
	agree := func(when string) {
		t.Helper()
		for _, k := range all {
			k.agree(t, when)
		}
	}
	through(s, 0, 20)
	etcd.compact()
	through(s, 5, 25)
	agree("after a compaction that it did not notice")

	then := fmt.Sprintf("%s?watch=1&timeoutSeconds=5&resourceVersion=%s", gadgetList, all[0].want["g-24"])
	s.stop(syscall.SIGTERM)
	other := startServer(t, etcd.args()...)
	through(other, 10, 30)
	for i := range 5 {
		for _, k := range all {
			k.remove(t, fmt.Sprintf("g-%d", i))
		}
	}
	etcd.compact()
	s.start()
	if b := string(s.do(t, 200, "GET", then, nil)); !strings.Contains(b, `"type":"ERROR"`) || !strings.Contains(b, `"reason":"Expired"`) || !strings.Contains(b, `"code":410`) {
		t.Errorf("a watch from before the compaction: got %s, want that it is expired", b)
	}
	agree("whose place in history is gone")
	through(other, 15, 35)
	agree("that began anew")
}

// rewrite deletes and creates the objects of these numbers, and notes their versions.
func (k *kept) rewrite(t *testing.T, from, to int) {
	t.Helper()
	for i := from; i < to; i++ {
		name := fmt.Sprintf("g-%d", i)
		if _, there := k.want[name]; there {
			k.remove(t, name)
		}
		o, err := k.in.Create(t.Context(), object(t, k.text(name)), metav1.CreateOptions{})
		if err != nil {
			t.Fatal(err)
		}
		k.want[name] = o.GetResourceVersion()
	}
}

func (k *kept) remove(t *testing.T, name string) {
	t.Helper()
	if err := k.in.Delete(t.Context(), name, metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	delete(k.want, name)
}
