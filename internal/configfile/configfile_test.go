package configfile

import (
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
)

type sample struct {
	metav1.TypeMeta `json:",inline"`
	Size            int `json:"size"`
}

func (s *sample) DeepCopyObject() runtime.Object { c := *s; return &c }

func TestDecode(t *testing.T) {
	const head = "apiVersion: apiserver.config.k8s.io/v1beta1\nkind: "
	got, err := Decode([]byte(head+"TracingConfiguration\nsize: 3"), "TracingConfiguration", new(sample))
	if err != nil || got.Size != 3 {
		t.Fatalf("got %+v, %v", got, err)
	}
	for text, want := range map[string]string{
		head + "EncryptionConfiguration":                "expected TracingConfiguration, got *apiserver.EncryptionConfiguration",
		head + "TracingConfiguration\nsize: 1\nsize: 2": `strict decoding error: yaml: unmarshal errors:` + "\n" + `  line 4: key "size" already set in map`,
		head + "TracingConfiguration\nsizes: 1":         `strict decoding error: unknown field "sizes"`,
	} {
		if _, err := Decode([]byte(text), "TracingConfiguration", new(sample)); err == nil || err.Error() != want {
			t.Errorf("%q: %v, want %s", text, err, want)
		}
	}
}

// TestLegacyGroup: the first version of AdmissionConfiguration is in a group of its own, which has no other kind.
func TestLegacyGroup(t *testing.T) {
	const head = "apiVersion: apiserver.k8s.io/v1alpha1\nkind: "
	if got, err := Decode([]byte(head+"AdmissionConfiguration\nsize: 3"), "AdmissionConfiguration", new(sample)); err != nil || got.Size != 3 {
		t.Errorf("got %+v, %v", got, err)
	}
	if _, err := Decode([]byte(head+"TracingConfiguration\nsize: 3"), "TracingConfiguration", new(sample)); err == nil {
		t.Error("TracingConfiguration was never in that group: got no error")
	}
}
