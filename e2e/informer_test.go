package e2e

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/dynamic/dynamicinformer"
	informersv1 "k8s.io/client-go/informers/core/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/metadata/metadatainformer"
	"k8s.io/client-go/tools/cache"
	"sigs.k8s.io/yaml"
)

var (
	gadgets       = schema.GroupVersionResource{Group: "demo.example.org", Version: "v1", Resource: "gadgets"}
	crds          = schema.GroupVersionResource{Group: "apiextensions.k8s.io", Version: "v1", Resource: "customresourcedefinitions"}
	configMapKind = schema.GroupVersionResource{Version: "v1", Resource: "configmaps"}
)

// seen is what an informer's handlers were told, by object.
type seen struct {
	mu      sync.Mutex
	objects map[string]string // name -> resourceVersion
	events  int
}

func (s *seen) OnAdd(obj any, _ bool) { s.put(obj) }
func (s *seen) OnUpdate(_, obj any)   { s.put(obj) }

func (s *seen) put(obj any) {
	s.mu.Lock()
	defer s.mu.Unlock()
	o := obj.(metav1.Object)
	s.objects[o.GetName()] = o.GetResourceVersion()
	s.events++
}

func (s *seen) OnDelete(obj any) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if gone, ok := obj.(cache.DeletedFinalStateUnknown); ok {
		obj = gone.Obj
	}
	delete(s.objects, obj.(metav1.Object).GetName())
	s.events++
}

func (s *seen) equals(want map[string]string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.objects) != len(want) {
		return false
	}
	for name, rv := range want {
		if s.objects[name] != rv {
			return false
		}
	}
	return true
}

// kept are objects of one kind that a test keeps changing, and who is told.
type kept struct {
	in        dynamic.ResourceInterface
	text      func(name string) string
	want      map[string]string // name -> resourceVersion
	informers []*seen
}

// besideGadgets is the label of config maps that change as gadgets do.
const besideGadgets = "beside=gadgets"

// informAll runs n informers of all gadgets, one of their metadata, and a typed one, in protobuf, of config maps beside them.
func informAll(t *testing.T, ctx context.Context, s *server, n int) []*kept {
	t.Helper()
	config, client := s.config(t), s.dynamic(t)
	ours := &kept{in: client.Resource(gadgets).Namespace("default"), text: func(name string) string { return gadget(name, "red") }, want: map[string]string{}}
	for range n {
		ours.inform(t, ctx, dynamicinformer.NewFilteredDynamicInformer(client, gadgets, "", 0, cache.Indexers{}, nil).Informer())
	}
	some, err := metadata.NewForConfig(config)
	if err != nil {
		t.Fatal(err)
	}
	ours.inform(t, ctx, metadatainformer.NewFilteredMetadataInformer(some, gadgets, "", 0, cache.Indexers{}, nil).Informer())
	config.ContentType = runtime.ContentTypeProtobuf
	typed, err := kubernetes.NewForConfig(config)
	if err != nil {
		t.Fatal(err)
	}
	builtin := &kept{in: client.Resource(configMapKind).Namespace("default"), want: map[string]string{}, text: func(name string) string {
		return "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: " + name + ", labels: {beside: gadgets}}\n"
	}}
	builtin.inform(t, ctx, informersv1.NewFilteredConfigMapInformer(typed, "default", 0, cache.Indexers{},
		func(o *metav1.ListOptions) { o.LabelSelector = besideGadgets }))
	return []*kept{ours, builtin}
}

func (k *kept) inform(t *testing.T, ctx context.Context, informer cache.SharedIndexInformer) {
	t.Helper()
	w := &seen{objects: map[string]string{}}
	if _, err := informer.AddEventHandler(w); err != nil {
		t.Fatal(err)
	}
	go informer.RunWithContext(ctx)
	if !cache.WaitForCacheSync(ctx.Done(), informer.HasSynced) {
		t.Fatal("informer does not sync")
	}
	k.informers = append(k.informers, w)
}

// change makes the i-th change.
func (k *kept) change(t *testing.T, ctx context.Context, i int) {
	t.Helper()
	name := fmt.Sprintf("g-%03d", i%40)
	var o *unstructured.Unstructured
	var err error
	switch _, there := k.want[name]; {
	case !there:
		o, err = k.in.Create(ctx, object(t, k.text(name)), metav1.CreateOptions{})
	case i%7 == 0:
		err = k.in.Delete(ctx, name, metav1.DeleteOptions{})
		delete(k.want, name)
	default:
		o, err = k.in.Patch(ctx, name, types.MergePatchType, fmt.Appendf(nil, `{"metadata":{"annotations":{"i":"%d"}}}`, i), metav1.PatchOptions{})
	}
	if err != nil {
		t.Fatalf("change %d of %s: %v", i, name, err)
	}
	if o != nil {
		k.want[name] = o.GetResourceVersion()
	}
}

// agree waits until each informer has what the server has.
func (k *kept) agree(t *testing.T, when string) {
	t.Helper()
	for i, w := range k.informers {
		eventually(t, fmt.Sprintf("informer %d %s", i, when), func() bool { return w.equals(k.want) })
	}
}

// TestInformersSeeEverything keeps client-go informers open while objects change, while the definition changes, and while the
// server is stopped and started again; each of them must end with exactly what the server holds.
func TestInformersSeeEverything(t *testing.T) {
	t.Parallel()
	s := startServer(t)
	client := s.dynamic(t)
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
	defer cancel()
	s.do(t, 201, "POST", "/apis/apiextensions.k8s.io/v1/customresourcedefinitions", toJSON(t, gadgetCRD))
	eventually(t, "gadgets served", func() bool {
		code, _, err := s.try("GET", "/apis/demo.example.org/v1/gadgets", nil)
		return err == nil && code == 200
	})
	all := informAll(t, ctx, s, 5)
	in := client.Resource(gadgets).Namespace("default")
	change := func(i int) {
		t.Helper()
		for _, k := range all {
			k.change(t, ctx, i)
		}
	}
	agree := func(when string) {
		t.Helper()
		for _, k := range all {
			k.agree(t, when)
		}
	}
	for i := range 300 {
		change(i)
	}
	agree("after changes")

	// The definition gains a field while objects change.
	_, err := client.Resource(crds).Patch(ctx, "gadgets.demo.example.org", types.JSONPatchType,
		[]byte(`[{"op":"add","path":"/spec/versions/0/schema/openAPIV3Schema/properties/spec/properties/size","value":{"type":"integer","default":3}}]`), metav1.PatchOptions{})
	if err != nil {
		t.Fatal(err)
	}
	eventually(t, "the new default", func() bool {
		o, err := in.Create(ctx, object(t, gadget("probe", "red")), metav1.CreateOptions{DryRun: []string{"All"}})
		size, ok, _ := unstructured.NestedInt64(o.Object, "spec", "size")
		return err == nil && ok && size == 3
	})
	for i := 300; i < 500; i++ {
		change(i)
	}
	agree("after the definition changed")

	// Informers reconnect by themselves.
	s.stop(15)
	s.start()
	for i := 500; i < 700; i++ {
		change(i)
	}
	agree("after a restart")
	s.stop(9)
	s.start()
	for i := 700; i < 800; i++ {
		change(i)
	}
	agree("after kill -9")
}

func toJSON(t *testing.T, text string) []byte {
	t.Helper()
	b, err := yaml.YAMLToJSON([]byte(text))
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func object(t *testing.T, text string) *unstructured.Unstructured {
	t.Helper()
	o := &unstructured.Unstructured{}
	if err := o.UnmarshalJSON(toJSON(t, strings.TrimSpace(text))); err != nil {
		t.Fatal(err)
	}
	return o
}
