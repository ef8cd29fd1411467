package examples

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"sync"
	"testing"
	"time"

	admissionv1 "k8s.io/api/admission/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
	"sigs.k8s.io/yaml"

	"github.com/keelson-io/keelson/servertest"
	"github.com/keelson-io/keelson/suite"
)

// This file sends the objects of the rules and pruning examples to a server.

var (
	crds     = schema.GroupVersionResource{Group: "apiextensions.k8s.io", Version: "v1", Resource: "customresourcedefinitions"}
	crdsBeta = schema.GroupVersionResource{Group: "apiextensions.k8s.io", Version: "v1beta1", Resource: "customresourcedefinitions"}
	webhooks = schema.GroupVersionResource{Group: "admissionregistration.k8s.io", Version: "v1", Resource: "mutatingwebhookconfigurations"}
)

// TestServerStoresAsOffline makes the request of each case of the suites on a server, and compares the
// stored object or the error with the expectation of the suite.
func TestServerStoresAsOffline(t *testing.T) {
	for _, kind := range []string{"rules", "pruning"} {
		folders(t, kind, "suite.yaml")
		files, err := filepath.Glob(filepath.Join(kind, "*", "*suite.yaml"))
		if err != nil {
			t.Fatal(err)
		}
		for _, file := range files {
			t.Run(file, func(t *testing.T) { checkSuite(t, file) })
		}
	}
}

// checkSuite runs the cases of a suite on a server of their own.
func checkSuite(t *testing.T, file string) {
	s, err := suite.Load(file)
	if err != nil {
		t.Fatal(err)
	}
	if len(s.Cases) == 0 {
		t.Fatal("the suite has no cases")
	}
	var names struct{ CRD string }
	readYAML(t, file, &names)
	b := newBench(t, filepath.Join(filepath.Dir(file), names.CRD))
	for _, c := range s.Cases {
		t.Run(c.Name, func(t *testing.T) { b.checkCase(t, &c) })
	}
}

// bench is a server that serves one kind, by its CRD or by one that accepts everything.
type bench struct {
	server  *servertest.Server
	objects dynamic.ResourceInterface // of the kind, in the namespace default
	crd     *unstructured.Unstructured
	loose   *unstructured.Unstructured // crd without rules, limits and pruning

	mu       sync.Mutex
	warnings []string // of the last request
}

// HandleWarningHeader implements rest.WarningHandler.
func (b *bench) HandleWarningHeader(code int, agent, text string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.warnings = append(b.warnings, text)
}

// newBench starts a server that serves the CRD of a file.
func newBench(t *testing.T, file string) *bench {
	b := &bench{server: servertest.Start(t), crd: &unstructured.Unstructured{}}
	readYAML(t, file, &b.crd.Object)
	b.loose = b.crd.DeepCopy()
	b.loose.SetAPIVersion("apiextensions.k8s.io/v1")
	unstructured.RemoveNestedField(b.loose.Object, "spec", "preserveUnknownFields")
	versions, _, _ := unstructured.NestedSlice(b.loose.Object, "spec", "versions")
	for _, v := range versions {
		v.(map[string]any)["schema"] = map[string]any{"openAPIV3Schema": map[string]any{
			"type": "object", "x-kubernetes-preserve-unknown-fields": true,
		}}
	}
	if err := unstructured.SetNestedSlice(b.loose.Object, versions, "spec", "versions"); err != nil {
		t.Fatal(err)
	}
	b.install(t, b.crd)
	config := *b.server.Config
	config.WarningHandler = b
	version := versions[0].(map[string]any)["name"].(string)
	group, _, _ := unstructured.NestedString(b.crd.Object, "spec", "group")
	plural, _, _ := unstructured.NestedString(b.crd.Object, "spec", "names", "plural")
	resource := schema.GroupVersionResource{Group: group, Version: version, Resource: plural}
	b.objects = dynamic.NewForConfigOrDie(&config).Resource(resource).Namespace("default")
	return b
}

// install creates or updates a CRD, and waits until the kind is served. An update is in effect when
// it is answered.
func (b *bench) install(t *testing.T, crd *unstructured.Unstructured) {
	t.Helper()
	resource := crds
	if crd.GetAPIVersion() == "apiextensions.k8s.io/v1beta1" {
		resource = crdsBeta
	}
	client, ctx := b.server.Client.Resource(resource), context.Background()
	for range 1000 { // until no other writer has been faster
		have, err := client.Get(ctx, crd.GetName(), metav1.GetOptions{})
		if apierrors.IsNotFound(err) {
			_, err = client.Create(ctx, crd.DeepCopy(), metav1.CreateOptions{})
		} else if err == nil {
			next := crd.DeepCopy()
			next.SetResourceVersion(have.GetResourceVersion())
			_, err = client.Update(ctx, next, metav1.UpdateOptions{})
		}
		if err != nil && !apierrors.IsConflict(err) {
			t.Fatal(err)
		}
		if err == nil && established(t, client, crd.GetName()) {
			return
		}
		time.Sleep(5 * time.Millisecond)
	}
	t.Fatalf("%s is not served", crd.GetName())
}

// established reports whether a CRD has the condition Established.
func established(t *testing.T, client dynamic.ResourceInterface, name string) bool {
	t.Helper()
	crd, err := client.Get(context.Background(), name, metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	conditions, _, _ := unstructured.NestedSlice(crd.Object, "status", "conditions")
	for _, c := range conditions {
		if c, _ := c.(map[string]any); c["type"] == "Established" && c["status"] == "True" {
			return true
		}
	}
	return false
}

// checkCase makes the request of a case and compares the result.
func (b *bench) checkCase(t *testing.T, c *suite.Case) {
	if (c.Object == nil) == (c.Updated == nil) || c.Stored == nil && c.Error == nil {
		t.Fatal("the test knows cases with object or updated, and with stored or error")
	}
	unknown := c.Options
	unknown.FieldValidation = ""
	if c.AuditAnnotations != nil || !reflect.DeepEqual(unknown, suite.Options{}) {
		t.Fatalf("the test does not know the options %+v", unknown)
	}
	ctx := context.Background()
	t.Cleanup(func() {
		for _, o := range b.list(t) {
			if err := b.objects.Delete(ctx, o.GetName(), metav1.DeleteOptions{}); err != nil {
				t.Error(err)
			}
		}
	})
	var version string
	if c.Initial != nil {
		// The old object need not be valid.
		b.install(t, b.loose)
		initial, err := b.objects.Create(ctx, parse(t, c.Initial), metav1.CreateOptions{})
		if err != nil {
			t.Fatal(err)
		}
		version = initial.GetResourceVersion()
		b.install(t, b.crd)
	}
	b.mu.Lock()
	b.warnings = nil
	b.mu.Unlock()
	validation := c.Options.FieldValidation
	var answer *unstructured.Unstructured
	var err error
	if c.Object != nil {
		answer, err = b.objects.Create(ctx, parse(t, c.Object), metav1.CreateOptions{FieldValidation: validation})
	} else {
		next := parse(t, c.Updated)
		next.SetResourceVersion(version)
		answer, err = b.objects.Update(ctx, next, metav1.UpdateOptions{FieldValidation: validation})
	}
	switch {
	case c.Error != nil && (err == nil || !strings.Contains(err.Error(), *c.Error)):
		t.Errorf("got the error %v, want %q", err, *c.Error)
	case c.Error == nil && err != nil:
		t.Errorf("refused: %v", err)
	case c.Stored != nil:
		stored, err := b.objects.Get(ctx, answer.GetName(), metav1.GetOptions{})
		if err != nil {
			t.Fatal(err)
		}
		checkObject(t, "the answer", answer, c.Stored)
		checkObject(t, "a later get", stored, c.Stored)
	}
	if c.Warnings != nil {
		b.checkWarnings(t, *c.Warnings)
	}
}

// checkWarnings compares the warnings of the last request with parts of the expected ones.
func (b *bench) checkWarnings(t *testing.T, want []string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	ok := len(b.warnings) == len(want)
	for i := range want {
		ok = ok && strings.Contains(b.warnings[i], want[i])
	}
	if !ok {
		t.Errorf("got the warnings %q, want %q", b.warnings, want)
	}
}

// list returns the objects of the kind.
func (b *bench) list(t *testing.T) []unstructured.Unstructured {
	list, err := b.objects.List(context.Background(), metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return list.Items
}

// checkObject compares an object with the expected one. Metadata that the server sets counts only if
// it is expected.
func checkObject(t *testing.T, what string, got *unstructured.Unstructured, expected []byte) {
	t.Helper()
	got, want := got.DeepCopy(), parse(t, expected)
	for _, field := range []string{"uid", "resourceVersion", "creationTimestamp", "generation", "managedFields", "namespace"} {
		if _, expects, _ := unstructured.NestedFieldNoCopy(want.Object, "metadata", field); !expects {
			unstructured.RemoveNestedField(got.Object, "metadata", field)
		}
	}
	if !reflect.DeepEqual(got.Object, want.Object) {
		t.Errorf("%s: got %v, want %v", what, got.Object, want.Object)
	}
}

// TestSchemaChange reads an object that was stored before the CRD dropped a field.
func TestSchemaChange(t *testing.T) {
	folder := filepath.Join("pruning", "schema-change")
	b := newBench(t, filepath.Join(folder, "before.yaml"))
	object := readDocuments(t, filepath.Join(folder, "object.yaml"))[0]
	if _, err := b.objects.Create(context.Background(), object, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	const with, without = `{"image": "shop", "password": "secret"}`, `{"image": "shop"}`
	b.checkSpec(t, with)
	b.install(t, readDocuments(t, filepath.Join(folder, "crd.yaml"))[0])
	b.checkSpec(t, without)
	b.install(t, b.crd)
	b.checkSpec(t, with)
	// The next write drops the field from the store.
	b.install(t, readDocuments(t, filepath.Join(folder, "crd.yaml"))[0])
	b.label(t)
	b.install(t, b.crd)
	b.checkSpec(t, without)
}

// TestAfterWebhook has a mutating webhook add fields.
func TestAfterWebhook(t *testing.T) {
	folder := filepath.Join("pruning", "after-webhook")
	b := newBench(t, filepath.Join(folder, "crd.yaml"))
	hook := readDocuments(t, filepath.Join(folder, "webhook.yaml"))[0]
	addFields(t, hook)
	ctx := context.Background()
	if _, err := b.server.Client.Resource(webhooks).Create(ctx, hook, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	object := readDocuments(t, filepath.Join(folder, "patched.yaml"))[0]
	object.Object["spec"] = map[string]any{"image": "shop"}
	if _, err := b.objects.Create(ctx, object, metav1.CreateOptions{FieldValidation: "Strict"}); err != nil {
		t.Fatal(err)
	}
	const want = `{"image": "shop", "team": "blue"}`
	b.checkSpec(t, want)
	// A CRD that prunes nothing shows what the store has.
	b.install(t, b.loose)
	b.checkSpec(t, want)
}

// addFields starts a webhook that adds spec.team and spec.debug, and enters it into its configuration.
func addFields(t *testing.T, config *unstructured.Unstructured) {
	hook := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var review admissionv1.AdmissionReview
		if err := json.NewDecoder(r.Body).Decode(&review); err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		patchType := admissionv1.PatchTypeJSONPatch
		review.Response = &admissionv1.AdmissionResponse{UID: review.Request.UID, Allowed: true, PatchType: &patchType, Patch: []byte(
			`[{"op": "add", "path": "/spec/team", "value": "blue"}, {"op": "add", "path": "/spec/debug", "value": true}]`)}
		json.NewEncoder(w).Encode(review)
	}))
	t.Cleanup(hook.Close)
	authority := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: hook.Certificate().Raw})
	list, _, _ := unstructured.NestedSlice(config.Object, "webhooks")
	client := list[0].(map[string]any)["clientConfig"].(map[string]any)
	client["url"], client["caBundle"] = hook.URL+"/mutate", base64.StdEncoding.EncodeToString(authority)
	if err := unstructured.SetNestedSlice(config.Object, list, "webhooks"); err != nil {
		t.Fatal(err)
	}
}

// TestPreserveAll takes a CRD from v1beta1 without pruning to v1 with pruning.
func TestPreserveAll(t *testing.T) {
	folder := filepath.Join("pruning", "preserve-all")
	b := newBench(t, filepath.Join(folder, "before.yaml"))
	object := readDocuments(t, filepath.Join(folder, "object.yaml"))[0]
	if _, err := b.objects.Create(context.Background(), object, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	for _, step := range []struct {
		crd, spec string
		note      bool
	}{
		{"before.yaml", `{"image": "shop", "size": 1, "color": "red"}`, true},
		{"crd.yaml", `{"image": "shop", "size": 1, "color": "red"}`, true},
		{"after.yaml", `{"image": "shop", "size": 1}`, false},
	} {
		b.install(t, readDocuments(t, filepath.Join(folder, step.crd))[0])
		b.checkSpec(t, step.spec)
		if _, has := b.list(t)[0].Object["note"]; has != step.note {
			t.Errorf("%s: got note %t, want %t", step.crd, has, step.note)
		}
	}
}

// checkSpec compares the spec of the only object.
func (b *bench) checkSpec(t *testing.T, text string) {
	t.Helper()
	list := b.list(t)
	if len(list) != 1 {
		t.Fatalf("got %d objects, want 1", len(list))
	}
	got, err := b.objects.Get(context.Background(), list[0].GetName(), metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	var want map[string]any
	if err := yaml.Unmarshal([]byte(text), &want); err != nil {
		t.Fatal(err)
	}
	for what, o := range map[string]*unstructured.Unstructured{"get": got, "list": &list[0]} {
		have, err := json.Marshal(o.Object["spec"])
		if err != nil {
			t.Fatal(err)
		}
		expected, err := json.Marshal(want)
		if err != nil {
			t.Fatal(err)
		}
		if string(have) != string(expected) {
			t.Errorf("%s: got the spec %s, want %s", what, have, expected)
		}
	}
}

// label writes the only object, with a label.
func (b *bench) label(t *testing.T) {
	object := b.list(t)[0]
	object.SetLabels(map[string]string{"team": "blue"})
	if _, err := b.objects.Update(context.Background(), &object, metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
}

// parse returns the object of a JSON text.
func parse(t *testing.T, text []byte) *unstructured.Unstructured {
	t.Helper()
	object := &unstructured.Unstructured{}
	if err := object.UnmarshalJSON(text); err != nil {
		t.Fatal(err)
	}
	return object
}

// readYAML decodes a file with one document.
func readYAML(t *testing.T, file string, into any) {
	text, err := os.ReadFile(file)
	if err == nil {
		err = yaml.Unmarshal(text, into)
	}
	if err != nil {
		t.Fatalf("%s: %v", file, err)
	}
}
