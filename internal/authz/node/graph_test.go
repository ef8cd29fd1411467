package node

import (
	"fmt"
	"runtime"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/keelson-io/keelson/internal/authz/feed"
	"github.com/keelson-io/keelson/internal/testkit"
)

// This file changes what nodes need.

// related lists which of some objects a node needs; those of groups follow the
// resource after a dot.
func related(g *Graph, node string, objects string) string {
	var out []string
	for _, o := range strings.Fields(objects) {
		where, name, _ := strings.Cut(o, ":")
		namespace := ""
		if ns, rest, ok := strings.Cut(name, "/"); ok {
			namespace, name = ns, rest
		}
		if g.Related(node, schema.ParseGroupResource(where), namespace, name) {
			out = append(out, o)
		}
	}
	return strings.Join(out, " ")
}

func TestGraph(t *testing.T) {
	reg := prometheus.NewRegistry()
	g := NewGraph(reg)
	// spec is what follows the metadata, "" if the object is gone.
	changeMeta := func(kind, namespace, name, meta, spec string) {
		t.Helper()
		o := feed.Object{Namespace: namespace, Name: name}
		if spec != "" {
			o.JSON = fmt.Appendf(nil, `{"metadata":{"namespace":%q,"name":%q%s},%s}`, namespace, name, meta, spec)
		}
		if err := g.Change(kind, []feed.Object{o}); err != nil {
			t.Fatal(err)
		}
	}
	change := func(kind, namespace, name, spec string) {
		t.Helper()
		changeMeta(kind, namespace, name, "", spec)
	}
	const mirror = `,"annotations":{"kubernetes.io/config.mirror":"x"}`
	const all = "pods:ns/p serviceaccounts:ns/sa secrets:ns/s1 secrets:ns/s2 secrets:ns/behind secrets:other/stage secrets:other/control configmaps:ns/c1 configmaps:ns/c2" +
		" persistentvolumeclaims:ns/claim persistentvolumeclaims:ns/p-scratch persistentvolumes:pv resourceclaims.resource.k8s.io:ns/rc volumeattachments.storage.k8s.io:va" +
		" secrets:ns2/s1 secrets.demo.io:ns/s1 pods:p persistentvolumes:ns/pv services:ns/p"
	const podSpec = `"spec":{"nodeName":"n1","serviceAccountName":"sa","imagePullSecrets":[{"name":"s1"}],"containers":[{"name":"c","envFrom":[{"configMapRef":{"name":"c1"}},{"secretRef":{"name":""}}]}],
		"initContainers":[{"name":"i","env":[{"name":"x","valueFrom":{"configMapKeyRef":{"name":"c2","key":"k"}}}]}],"ephemeralContainers":[{"name":"e","env":[{"name":"x","valueFrom":{"secretKeyRef":{"name":"s2","key":"k"}}}]}],
		"volumes":[{"name":"v","persistentVolumeClaim":{"claimName":"claim"}},{"name":"scratch","ephemeral":{}}],"resourceClaims":[{"name":"a","resourceClaimTemplateName":"t"}]},
		"status":{"resourceClaimStatuses":[{"name":"a","resourceClaimName":"rc"}]}`
	const volumeSpec = `"spec":{"claimRef":{"namespace":"ns","name":"claim"},"csi":{"driver":"d","volumeHandle":"h","nodePublishSecretRef":{"namespace":"ns","name":"behind"},"nodeStageSecretRef":{"namespace":"other","name":"stage"},"controllerPublishSecretRef":{"namespace":"other","name":"control"}}}`
	const direct = "serviceaccounts:ns/sa secrets:ns/s1 secrets:ns/s2"
	const mid, scratch, claims = " configmaps:ns/c1 configmaps:ns/c2 persistentvolumeclaims:ns/claim", " persistentvolumeclaims:ns/p-scratch", " resourceclaims.resource.k8s.io:ns/rc"
	const behind, volume = " secrets:ns/behind secrets:other/stage", " persistentvolumes:pv"
	expect := func(what, node, want string) {
		t.Helper()
		if got := related(g, node, all); got != strings.TrimSpace(want) {
			t.Errorf("%s: %s:\n got %s\nwant %s", what, node, got, want)
		}
	}
	expect("nothing", "n1", "")
	change(KindPod, "ns", "p", `"spec":{"serviceAccountName":"sa"}`)
	expect("a pod without a node", "n1", "")
	change(KindPod, "ns", "p", podSpec)
	expect("a pod", "n1", "pods:ns/p "+direct+mid+scratch+claims)
	expect("a pod of another node", "n2", "")
	expect("nobody", "", "")
	change(KindVolume, "", "pv", volumeSpec)
	expect("a volume", "n1", "pods:ns/p "+direct+behind+mid+scratch+volume+claims)
	change(KindAttachment, "", "va", `"spec":{"nodeName":"n2"}`)
	expect("an attachment", "n2", "volumeattachments.storage.k8s.io:va")
	// The volume is there before the pod, and after it.
	change(KindPod, "ns", "p", "")
	expect("the pod is gone", "n1", "")
	change(KindPod, "ns", "p", podSpec)
	change(KindPod, "ns", "q", podSpec)
	change(KindPod, "ns", "p", "")
	expect("one of two pods", "n1", direct+behind+mid+volume+claims)
	change(KindVolume, "", "pv", strings.Replace(volumeSpec, `"name":"claim"`, `"name":"unclaimed"`, 1))
	expect("a volume that is bound to another claim", "n1", direct+mid+claims)
	change(KindVolume, "", "pv", volumeSpec)
	change(KindVolume, "", "pv2", volumeSpec)
	change(KindVolume, "", "pv", "")
	expect("one of two volumes", "n1", direct+behind+mid+claims)
	change(KindVolume, "", "pv2", "")
	expect("no volume", "n1", direct+mid+claims)
	changeMeta(KindPod, "ns", "q", mirror, podSpec)
	expect("a mirror pod", "n1", "")
	changeMeta(KindPod, "ns", "p", mirror, podSpec)
	expect("a mirror pod by its name", "n1", "pods:ns/p")
	if err := g.Change(KindPod, []feed.Object{{Namespace: "ns", Name: "p", JSON: []byte("{")}}); err == nil || !strings.HasPrefix(err.Error(), "ns/p: ") {
		t.Errorf("what cannot be read: got %v", err)
	}
	expect("what cannot be read", "n1", "")
	// All at once: what is not among them is gone.
	if err := g.Reset(KindAttachment, []feed.Object{{Name: "vb", JSON: []byte(`{"spec":{"nodeName":"n1"}}`)}}); err != nil {
		t.Fatal(err)
	}
	if got := related(g, "n2", all) + related(g, "n1", "volumeattachments.storage.k8s.io:vb"); got != "volumeattachments.storage.k8s.io:vb" {
		t.Errorf("reset: got %s", got)
	}
	if err := g.Reset(KindPod, nil); err != nil {
		t.Fatal(err)
	}
	if err := g.Reset(KindVolume, nil); err != nil {
		t.Fatal(err)
	}
	if len(g.pods)+len(g.users)+len(g.volumes)+len(g.bound) > 0 {
		t.Errorf("something is left behind: %+v", g)
	}
	if n, err := testutil.GatherAndCount(reg, "node_authorizer_graph_actions_duration_seconds"); n != 6 || err != nil {
		t.Errorf("%d operations are counted, %v", n, err)
	}
}

// However many pods of however many nodes refer to an object, asking costs the
// same, and allocates nothing.
func TestRelatedAllocatesNothing(t *testing.T) {
	g := NewGraph(nil)
	for i := range 1000 {
		g.setPod(object{"pods", "ns", fmt.Sprint(i)}, &pod{node: fmt.Sprint("n", i%100), refs: []object{{"configmaps", "ns", "root"}}})
	}
	if n := testing.AllocsPerRun(100, func() {
		if !g.Related("n7", core("configmaps"), "ns", "root") || g.Related("n100", core("configmaps"), "ns", "root") {
			t.Error("wrong")
		}
	}); n > 0 {
		t.Errorf("%v allocations", n)
	}
}

// What is counted for pods with many references is at least what the graph has for them, and at most twice as much.
func TestMemoryIsCounted(t *testing.T) {
	for what, item := range map[string]string{
		"secrets":     `{"secretRef":{"name":"s%d"}}`,
		"maps":        `{"configMapRef":{"name":"m%d"}}`,
		"pullSecrets": `{"name":"s%d"}`,
	} {
		t.Run(what, func(t *testing.T) {
			const objects, items = 100, 1000
			g := NewGraph(nil)
			before, counted := testkit.Heap(), int64(0)
			for i := range objects {
				var list []string
				for j := range items {
					list = append(list, fmt.Sprintf(item, i*items+j))
				}
				spec := `"containers":[{"name":"c","envFrom":[` + strings.Join(list, ",") + `]}]`
				if what == "pullSecrets" {
					spec = `"imagePullSecrets":[` + strings.Join(list, ",") + `]`
				}
				raw := fmt.Appendf(nil, `{"metadata":{"namespace":"ns","name":"p%d"},"spec":{"nodeName":"n1",%s}}`, i, spec)
				counted += Memory(raw) - int64(len(raw))
				if err := g.Change(KindPod, []feed.Object{{Namespace: "ns", Name: fmt.Sprint("p", i), JSON: raw}}); err != nil {
					t.Fatal(err)
				}
			}
			has := testkit.Heap() - before
			t.Logf("%d bytes for each reference, %d counted", has/objects/items, counted/objects/items)
			if counted < has || counted > 2*has {
				t.Errorf("%d bytes are counted, want %d to %d", counted, has, 2*has)
			}
			runtime.KeepAlive(g)
		})
	}
}
