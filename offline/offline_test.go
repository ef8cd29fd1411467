package offline

import (
	"strings"
	"testing"

	"github.com/keelson-io/keelson/internal/manifest"
)

const converted = `
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: widgets.example.com}
spec:
  group: example.com
  scope: Namespaced
  names: {plural: widgets, singular: widget, kind: Widget, listKind: WidgetList}
  conversion: {strategy: Webhook, webhook: {conversionReviewVersions: [v1], clientConfig: {url: "https://127.0.0.1:1/"}}}
  versions:
  - {name: v1, served: true, storage: true, schema: {openAPIV3Schema: {type: object, properties: {size: {type: integer}}}}}
  - name: v2
    served: true
    storage: false
    schema: {openAPIV3Schema: {type: object, properties: {size: {type: string, enum: [small, large]}, note: {type: string}}}}
`

func document(t *testing.T, text string) *manifest.Document {
	t.Helper()
	docs := manifest.Split("test", []byte(text))
	if len(docs) != 1 || docs[0].Err != nil {
		t.Fatalf("got %+v", docs)
	}
	return &docs[0]
}

// TestVersionsThatAWebhookConverts holds that such objects get a verdict without a call of the
// webhook.
func TestVersionsThatAWebhookConverts(t *testing.T) {
	s, err := Open(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	if refused, _, err := s.Add(t.Context(), manifest.Split("crd", []byte(converted))); err != nil || len(refused) > 0 {
		t.Fatalf("got %v, %v", refused, err)
	}
	const head = "apiVersion: example.com/v2\nkind: Widget\nmetadata: {name: a}\n"
	old, same, wrong := document(t, head+"size: tiny"), document(t, head+"size: tiny\nnote: x"), document(t, head+"size: huge")
	for _, tt := range []struct {
		name        string
		r           Request
		want, field string
	}{
		{"created", Request{Object: document(t, head+"size: small")}, `"size":"small"`, ""},
		{"created, and not valid", Request{Object: wrong}, "", "size"},
		{"changed, which leaves what is not valid", Request{Object: same, Old: old}, `"note":"x"`, ""},
		{"changed to what is not valid", Request{Object: wrong, Old: old}, "", "size"},
	} {
		a, err := s.Do(t.Context(), &tt.r)
		switch {
		case err != nil:
			t.Errorf("%s: %v", tt.name, err)
		case tt.field != "":
			if a.Refusal == nil || a.Refusal.Details.Causes[0].Field != tt.field {
				t.Errorf("%s: got %+v, want an error of %s", tt.name, a.Refusal, tt.field)
			}
		case a.Refusal != nil || !strings.Contains(string(a.Object), tt.want):
			t.Errorf("%s: got %s, %+v, want %s", tt.name, a.Object, a.Refusal, tt.want)
		}
	}
	other := document(t, "apiVersion: example.com/v1\nkind: Widget\nmetadata: {name: a}\nsize: 3")
	if _, err := s.Do(t.Context(), &Request{Object: same, Old: other}); err == nil || !strings.Contains(err.Error(), "give both in one version") {
		t.Errorf("from another version: got %v", err)
	}
}

// TestAbsentReferences holds that a pod may name a service account and classes that no file describes.
// Ledger: offline-plugins.
func TestAbsentReferences(t *testing.T) {
	s, err := Open(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	pod := document(t, `{apiVersion: v1, kind: Pod, metadata: {name: p}, spec: {serviceAccountName: builder, priorityClassName: high, runtimeClassName: sandbox, containers: [{name: c, image: i}]}}`)
	a, err := s.Do(t.Context(), &Request{Object: pod})
	if err != nil {
		t.Fatal(err)
	}
	if a.Refusal != nil || !strings.Contains(string(a.Object), `"serviceAccountName":"builder"`) {
		t.Errorf("got %s and the refusal %+v, want the pod", a.Object, a.Refusal)
	}
}
