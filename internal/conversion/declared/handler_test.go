package declared_test

import (
	"bytes"
	"context"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"
	"sigs.k8s.io/yaml"

	"github.com/keelson-io/keelson/crd"
	"github.com/keelson-io/keelson/internal/conversion/declared"
	"github.com/keelson-io/keelson/servertest"
)

// converter returns the converter of testdata/conversion.yaml.
func converter(t *testing.T) *declared.Converter {
	t.Helper()
	read := func(name string) []byte {
		text, err := os.ReadFile("testdata/" + name)
		if err != nil {
			t.Fatal(err)
		}
		if text, err = yaml.YAMLToJSON(text); err != nil {
			t.Fatal(err)
		}
		return text
	}
	def, errs, err := crd.New(read("widgets.yaml"))
	if err != nil || len(errs) > 0 {
		t.Fatal(err, errs)
	}
	c, err := declared.Parse(read("conversion.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	out, err := declared.Compile(def, c)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// TestServerCallsHandler holds that a server with the strategy Webhook converts through the handler:
// reads, lists, watches, updates, patches and applies in both versions.
func TestServerCallsHandler(t *testing.T) {
	t.Parallel()
	hook := httptest.NewTLSServer(declared.NewHandler(converter(t)))
	t.Cleanup(hook.Close)
	text, err := os.ReadFile("testdata/widgets.yaml")
	if err != nil {
		t.Fatal(err)
	}
	var def map[string]any
	if err := yaml.Unmarshal(text, &def); err != nil {
		t.Fatal(err)
	}
	ca := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: hook.Certificate().Raw})
	def["spec"].(map[string]any)["conversion"] = map[string]any{"strategy": "Webhook", "webhook": map[string]any{
		"conversionReviewVersions": []string{"v1"}, "clientConfig": map[string]any{"url": hook.URL + "/convert", "caBundle": ca}}}
	if text, err = json.Marshal(def); err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "crd.json")
	if err := os.WriteFile(file, text, 0o600); err != nil {
		t.Fatal(err)
	}
	s := servertest.Start(t, servertest.CRDs(file))
	ctx := context.Background()
	in := func(version string) dynamic.ResourceInterface {
		return s.Client.Resource(schema.GroupVersionResource{Group: "example.com", Version: version, Resource: "widgets"}).Namespace("default")
	}
	beta, hub := in("v1beta1"), in("v1")
	spec := func(o *unstructured.Unstructured) string {
		text, err := json.Marshal(o.Object["spec"])
		if err != nil {
			t.Fatal(err)
		}
		return string(text)
	}
	check := func(what string, o *unstructured.Unstructured, err error, want string) {
		t.Helper()
		if err != nil {
			t.Fatalf("%s: %v", what, err)
		}
		if got := spec(o); got != want {
			t.Errorf("%s:\n got %s\nwant %s", what, got, want)
		}
	}
	made := &unstructured.Unstructured{Object: map[string]any{"apiVersion": "example.com/v1beta1", "kind": "Widget", "metadata": map[string]any{"name": "a"},
		"spec": map[string]any{"replicaCount": int64(3), "address": "h:80", "mode": "turbo", "secret": "s", "routes": []any{map[string]any{"prefix": "/a", "debug": true}}}}}
	same := `{"address":"h:80","mode":"turbo","replicaCount":3,"routes":[{"debug":true,"prefix":"/a"}],"secret":"s"}`
	got, err := beta.Create(ctx, made, metav1.CreateOptions{})
	check("create in the spoke", got, err, same)
	got, err = hub.Get(ctx, "a", metav1.GetOptions{})
	check("get in the hub", got, err, `{"host":"h","mode":"Fast","port":80,"replicas":3,"rules":[{"path":"/a"}],"summary":"turbo h:80"}`)
	got, err = beta.Get(ctx, "a", metav1.GetOptions{})
	check("get in the spoke", got, err, same)
	got, err = hub.Patch(ctx, "a", types.MergePatchType, []byte(`{"spec":{"replicas":4}}`), metav1.PatchOptions{})
	check("patch in the hub", got, err, `{"host":"h","mode":"Fast","port":80,"replicas":4,"rules":[{"path":"/a"}],"summary":"turbo h:80"}`)
	got, err = beta.Get(ctx, "a", metav1.GetOptions{})
	check("get in the spoke after it", got, err, strings.Replace(same, `"replicaCount":3`, `"replicaCount":4`, 1))
	got, err = beta.Patch(ctx, "a", types.ApplyPatchType, []byte(`{"apiVersion":"example.com/v1beta1","kind":"Widget","metadata":{"name":"a"},"spec":{"replicaCount":5}}`), metav1.PatchOptions{FieldManager: "m", Force: ptr(true)})
	check("apply in the spoke", got, err, strings.Replace(same, `"replicaCount":3`, `"replicaCount":5`, 1))
	list, err := hub.List(ctx, metav1.ListOptions{})
	if err != nil || len(list.Items) != 1 {
		t.Fatal(err, list)
	}
	check("list in the hub", &list.Items[0], nil, `{"host":"h","mode":"Fast","port":80,"replicas":5,"rules":[{"path":"/a"}],"summary":"turbo h:80"}`)
	// A writer of the hub cannot break readers of the spoke.
	forged := `[{"field":"spec.secret","value":{"a":1}},{"field":"spec.mode","value":"turbo"}]`
	text, err = json.Marshal(map[string]any{"metadata": map[string]any{"annotations": map[string]any{"conversion.keelson.io/preserved.v1beta1": forged}}})
	if err != nil {
		t.Fatal(err)
	}
	_, err = hub.Patch(ctx, "a", types.MergePatchType, text, metav1.PatchOptions{})
	if err != nil {
		t.Fatal(err)
	}
	restored := `{"address":"h:80","mode":"turbo","replicaCount":5,"routes":[{"prefix":"/a"}]}`
	got, err = beta.Get(ctx, "a", metav1.GetOptions{})
	check("get of forged fields in the spoke", got, err, restored)
	got, err = beta.Update(ctx, got, metav1.UpdateOptions{})
	check("update of it", got, err, restored)
	// An object that the conversion refuses is refused, and the message says why.
	made.SetName("b")
	made.Object["spec"] = map[string]any{"address": "h:http"}
	if _, err := beta.Create(ctx, made, metav1.CreateOptions{}); err == nil || !strings.Contains(err.Error(), `spec.address: got "h:http", want an integer as part 2 of the text`) {
		t.Errorf("got %v, want the reason", err)
	}
}

// ptr returns a pointer to a value.
func ptr[T any](v T) *T { return &v }

// TestReviews has reviews that are not what the handler expects.
func TestReviews(t *testing.T) {
	t.Parallel()
	h := declared.NewHandler(converter(t))
	post := func(method, body string) (int, string) {
		w := httptest.NewRecorder()
		h.ServeHTTP(w, httptest.NewRequest(method, "/convert", strings.NewReader(body)))
		return w.Code, w.Body.String()
	}
	review := func(version, to, objects string) string {
		return fmt.Sprintf(`{"apiVersion":"apiextensions.k8s.io/%s","kind":"ConversionReview","request":{"uid":"u","desiredAPIVersion":%q,"objects":[%s]}}`, version, to, objects)
	}
	good := `{"apiVersion":"example.com/v1beta1","kind":"Widget","metadata":{"name":"a"},"spec":{"replicaCount":3}}`
	for _, row := range []struct {
		method, body string
		code         int
		want         string
	}{
		{http.MethodGet, "", 405, "want a POST"},
		{http.MethodPost, "", 400, "reading the ConversionReview"},
		{http.MethodPost, "{}", 400, "want a ConversionReview"},
		{http.MethodPost, review("v7", "example.com/v1", ""), 400, "want a ConversionReview of apiextensions.k8s.io/v1 or apiextensions.k8s.io/v1beta1"},
		{http.MethodPost, review("v1", "example.com/v1", ""), 200, `"convertedObjects":[],"result":{"metadata":{},"status":"Success"}`},
		{http.MethodPost, review("v1beta1", "example.com/v1", good), 200, `"spec":{"replicas":3}`},
		{http.MethodPost, review("v1", "example.com/v1", good+","+strings.Replace(good, "Widget", "Gadget", 1)), 200, `"convertedObjects":[],"result":{"metadata":{},"status":"Failure","message":"object 1: there is no conversion for kind \"Gadget\" of group \"example.com\""`},
		{http.MethodPost, review("v1", "example.com/v3", good), 200, `want versions of example.com: v1, v1beta1`},
		{http.MethodPost, review("v1", "example.com/v1", "1"), 200, `there is no conversion for kind \"\"`},
		{http.MethodPost, review("v1", "example.com/v1", strings.Replace(good, `{"replicaCount":3}`, "7", 1)), 200, `spec.versions[0].toHub.set[0].when: invalid data, expected a map`},
	} {
		code, body := post(row.method, row.body)
		if code != row.code || !strings.Contains(body, row.want) {
			t.Errorf("%s %s:\n got %d %s\nwant %d %s", row.method, row.body, code, body, row.code, row.want)
		}
	}
	w := httptest.NewRecorder()
	h.ServeHTTP(w, httptest.NewRequest(http.MethodPost, "/convert", bytes.NewReader(bytes.Repeat([]byte{' '}, declared.MaxReview+1))))
	if w.Code != http.StatusRequestEntityTooLarge {
		t.Errorf("got %d, want that the review is too large", w.Code)
	}
}
