package builtin

import (
	"encoding/json"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer/protobuf"

	"github.com/keelson-io/keelson/jsondoc"
)

// TestOlderVersions reads objects that Kubernetes stored in a version that is not served, as JSON and as protobuf.
func TestOlderVersions(t *testing.T) {
	specs := map[string]string{
		"MutatingWebhookConfiguration":   `"webhooks":[{"name":"a.b.c","clientConfig":{"url":"https://x"}}]`,
		"ValidatingWebhookConfiguration": `"webhooks":[{"name":"a.b.c","clientConfig":{"url":"https://x"}}]`,
	}
	n := 0
	for _, desc := range descriptions() {
		b := newKind(new(library), desc)
		for i := range desc.Older {
			n++
			old := &desc.Older[i]
			gv := metav1.GroupVersion{Group: desc.Group, Version: old.Name}
			text := `{"kind":"` + desc.Kind + `","apiVersion":"` + gv.String() + `","metadata":{"name":"x","uid":"u"}`
			if more := specs[desc.Kind]; more != "" {
				text += "," + more
			}
			text += "}\n"
			obj := old.GoType.New()
			if err := json.Unmarshal([]byte(text), obj); err != nil {
				t.Fatal(err)
			}
			var binary strings.Builder
			if err := protobuf.NewSerializer(nil, nil).Encode(runtime.Object(obj), &binary); err != nil {
				t.Fatal(err)
			}
			for _, raw := range []string{text, binary.String()} {
				d := jsondoc.Get()
				if err := b.made.Storage.Load(d, []byte(raw), 7); err != nil {
					t.Errorf("%s in %s: %v", desc.Kind, gv.String(), err)
					continue
				}
				got := string(d.AppendJSON(nil, d.Root().Node))
				if !strings.Contains(got, `"apiVersion":"`+b.made.Storage.APIVersion()+`"`) || !strings.Contains(got, `"name":"x"`) || !strings.Contains(got, `"resourceVersion":"7"`) {
					t.Errorf("%s in %s: got %s", desc.Kind, gv.String(), got)
				}
				if strings.HasSuffix(desc.Kind, "WebhookConfiguration") {
					for _, want := range []string{`"failurePolicy":"Ignore"`, `"matchPolicy":"Exact"`, `"sideEffects":"Unknown"`, `"timeoutSeconds":30`, `"admissionReviewVersions":["v1beta1"]`, `"namespaceSelector":{}`, `"name":"a.b.c"`} {
						if !strings.Contains(got, want) {
							t.Errorf("%s: got %s, want %s", desc.Kind, got, want)
						}
					}
				}
				d.Release()
			}
		}
		// What Kubernetes stores now can be read.
		if as := desc.StoredAs; as != "" && b.older(metav1.GroupVersion{Group: desc.Group, Version: as}.String()) == nil {
			t.Errorf("%s: Kubernetes stores it in %s, which is not read", desc.Kind, as)
		}
	}
	if n < 10 {
		t.Errorf("got %d older versions, want at least 10", n)
	}
}
