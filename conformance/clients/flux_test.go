package clients

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/fluxcd/cli-utils/pkg/kstatus/polling"
	"github.com/fluxcd/cli-utils/pkg/object"
	"github.com/fluxcd/pkg/ssa"
	"github.com/fluxcd/pkg/ssa/normalize"
	"github.com/fluxcd/pkg/ssa/utils"
	"github.com/go-logr/logr"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/apiutil"
	"sigs.k8s.io/controller-runtime/pkg/log"
)

// This file syncs and prunes a set of resources as Flux's kustomize-controller does: what the library's own functions make of the set is
// compared with what the server holds.

// flux is Flux's manager of resources, before a server.
type flux struct {
	*host
	*ssa.ResourceManager
}

func newFlux(t *testing.T) *flux {
	t.Helper()
	h := start(t)
	httpClient, err := rest.HTTPClientFor(h.config)
	if err != nil {
		t.Fatal(err)
	}
	mapper, err := apiutil.NewDynamicRESTMapper(h.config, httpClient)
	if err != nil {
		t.Fatal(err)
	}
	c, err := client.New(h.config, client.Options{Mapper: mapper})
	if err != nil {
		t.Fatal(err)
	}
	m := ssa.NewResourceManager(c, polling.NewStatusPoller(c, mapper, polling.Options{}), ssa.Owner{Field: "kustomize-controller", Group: "kustomize.toolkit.fluxcd.io"})
	m.SetConcurrency(4)
	return &flux{h, m}
}

// manifests are the set, in a color; without those parts that pruned lists.
func manifests(t *testing.T, color string, pruned ...string) []*unstructured.Unstructured {
	t.Helper()
	objects, err := utils.ReadObjects(strings.NewReader(strings.ReplaceAll(fluxManifests, "COLOR", color)))
	if err != nil {
		t.Fatal(err)
	}
	objects = slices.DeleteFunc(objects, func(o *unstructured.Unstructured) bool { return slices.Contains(pruned, o.GetKind()+" "+o.GetName()) })
	if err := normalize.UnstructuredList(objects); err != nil {
		t.Fatal(err)
	}
	return objects
}

// sync applies the set in Flux's stages, and returns how often each action was taken.
func (f *flux) sync(objects []*unstructured.Unstructured) (*ssa.ChangeSet, map[ssa.Action]int) {
	f.t.Helper()
	f.SetOwnerLabels(objects, "shop", "flux-system")
	options := ssa.DefaultApplyOptions()
	options.WaitInterval = 20 * time.Millisecond
	options.Cleanup = ssa.ApplyCleanupOptions{FieldManagers: []ssa.FieldManager{
		{Name: "kubectl", OperationType: metav1.ManagedFieldsOperationApply},
		{Name: "kubectl", OperationType: metav1.ManagedFieldsOperationUpdate},
	}}
	set, err := f.ApplyAllStaged(context.Background(), objects, options)
	if err != nil {
		f.t.Fatal(err)
	}
	counts := map[ssa.Action]int{}
	for action, names := range set.ToGroupedMap() {
		counts[action] = len(names)
	}
	return set, counts
}

func (f *flux) took(what string, got map[ssa.Action]int, want map[ssa.Action]int) {
	f.t.Helper()
	if fmt.Sprint(got) != fmt.Sprint(want) {
		f.t.Errorf("%s: got %v, want %v", what, got, want)
	}
}

func TestFlux(t *testing.T) {
	log.SetLogger(logr.Discard())
	f := newFlux(t)
	ctx := context.Background()
	all := manifests(t, "red")
	first, counts := f.sync(all)
	f.took("the first sync", counts, map[ssa.Action]int{ssa.CreatedAction: len(all)})
	if err := f.WaitForSet(first.ToObjMetadataSet(), ssa.WaitOptions{Interval: 20 * time.Millisecond, Timeout: 20 * time.Second}); err != nil {
		t.Errorf("waiting for the set: %v", err)
	}
	f.holds("widget shop/one", "red", "spec", "color")
	_, counts = f.sync(manifests(t, "red"))
	f.took("the same set again", counts, map[ssa.Action]int{ssa.UnchangedAction: len(all)})

	f.testDrift(ctx, len(all))

	_, counts = f.sync(manifests(t, "blue"))
	f.took("another color", counts, map[ssa.Action]int{ssa.ConfiguredAction: 2, ssa.UnchangedAction: len(all) - 2})
	f.holds("widget shop/one", "blue", "spec", "color")
	f.holds("configmap shop/settings", "blue", "data", "color")

	f.testPruning(ctx, first)
}

// testDrift holds that what others changed is found and mended, and what they added is left alone.
func (f *flux) testDrift(ctx context.Context, all int) {
	f.t.Helper()
	patch := func(manager, body string) {
		f.t.Helper()
		_, err := f.client.Resource(kinds["widget"]).Namespace("shop").Patch(ctx, "one", types.MergePatchType, []byte(body), metav1.PatchOptions{FieldManager: manager})
		if err != nil {
			f.t.Fatal(err)
		}
	}
	patch("kubectl-edit", `{"spec":{"color":"green"}}`)
	_, counts := f.sync(manifests(f.t, "red"))
	f.took("after somebody changed a field", counts, map[ssa.Action]int{ssa.ConfiguredAction: 1, ssa.UnchangedAction: all - 1})
	f.holds("widget shop/one", "red", "spec", "color")
	patch("kubectl", `{"metadata":{"annotations":{"undone":"yes"}}}`) // by a manager whose changes Flux undoes
	_, counts = f.sync(manifests(f.t, "red"))
	f.took("after kubectl added an annotation", counts, map[ssa.Action]int{ssa.ConfiguredAction: 1, ssa.UnchangedAction: all - 1})
	if _, there := f.get("widget shop/one").GetAnnotations()["undone"]; there {
		f.t.Error("kubectl's annotation is still there")
	}
	patch("somebody", `{"metadata":{"annotations":{"note":"mine"}}}`)
	_, counts = f.sync(manifests(f.t, "red"))
	f.holds("widget shop/one", "mine", "metadata", "annotations", "note")
	f.took("after somebody added an annotation", counts, map[ssa.Action]int{ssa.UnchangedAction: all})
	entry, live, merged, err := f.Diff(ctx, f.widget("green"), ssa.DefaultDiffOptions())
	if err != nil || entry.Action != ssa.ConfiguredAction || live == nil || merged == nil {
		f.t.Errorf("diff: got %+v, error %v", entry, err)
	}
	f.holds("widget shop/one", "red", "spec", "color") // a diff is a dry run
	if _, err := f.Apply(ctx, f.widget("pink"), ssa.DefaultApplyOptions()); err == nil || !strings.Contains(err.Error(), `Unsupported value: "pink"`) {
		f.t.Errorf("a value that is not valid: %v", err)
	}
}

func (f *flux) widget(color string) *unstructured.Unstructured {
	f.t.Helper()
	for _, o := range manifests(f.t, color) {
		if o.GetKind() == "Widget" && o.GetName() == "one" {
			f.SetOwnerLabels([]*unstructured.Unstructured{o}, "shop", "flux-system")
			return o
		}
	}
	f.t.Fatal("no widget")
	return nil
}

// testPruning takes two objects out of the set, then all.
func (f *flux) testPruning(ctx context.Context, before *ssa.ChangeSet) {
	f.t.Helper()
	owned := ssa.DefaultDeleteOptions()
	owned.Inclusions = f.GetOwnerLabels("shop", "flux-system")
	prune := func(stale []*unstructured.Unstructured) {
		f.t.Helper()
		if _, err := f.DeleteAll(ctx, stale, owned); err != nil {
			f.t.Fatal(err)
		}
		if err := f.WaitForTermination(stale, ssa.WaitOptions{Interval: 20 * time.Millisecond, Timeout: 30 * time.Second}); err != nil {
			f.t.Error(err)
		}
	}
	after, _ := f.sync(manifests(f.t, "blue", "Widget two", "ConfigMap extra"))
	var stale []*unstructured.Unstructured
	for _, o := range manifests(f.t, "blue") {
		if !slices.Contains(after.ToObjMetadataSet(), metadataOf(before, o)) {
			stale = append(stale, o)
		}
	}
	if len(stale) != 2 {
		f.t.Fatalf("%d objects are stale, want 2", len(stale))
	}
	prune(stale)
	f.lacks("widget shop/two", "configmap shop/extra")
	f.holds("widget shop/one", "blue", "spec", "color")
	prune(manifests(f.t, "blue"))
	f.lacks("widget shop/one", "configmap shop/settings", "crd widgets.example.org", "namespace shop")
}

const fluxManifests = shopNamespace + "---" + widgetDefinition + `---
apiVersion: example.org/v1
kind: Widget
metadata: {name: one, namespace: shop}
spec: {color: COLOR}
---
apiVersion: example.org/v1
kind: Widget
metadata: {name: two, namespace: shop}
spec: {color: green}
---
apiVersion: v1
kind: ConfigMap
metadata: {name: settings, namespace: shop}
data: {color: COLOR}
---
apiVersion: v1
kind: ConfigMap
metadata: {name: extra, namespace: shop}
---
apiVersion: v1
kind: Secret
metadata: {name: password, namespace: shop}
stringData: {password: s3cret}
---
apiVersion: v1
kind: Service
metadata: {name: shop, namespace: shop}
spec:
  selector: {app: shop}
  ports:
  - {name: http, port: 80}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata: {name: shop}
rules:
- {apiGroups: [example.org], resources: [widgets], verbs: [get, list, watch]}
`

func metadataOf(set *ssa.ChangeSet, o *unstructured.Unstructured) object.ObjMetadata {
	for _, m := range set.ToObjMetadataSet() {
		if m.GroupKind == o.GroupVersionKind().GroupKind() && m.Name == o.GetName() && m.Namespace == o.GetNamespace() {
			return m
		}
	}
	return object.ObjMetadata{}
}
