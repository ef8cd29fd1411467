package api

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/keelson-io/keelson/internal/api/encoding"
	"github.com/keelson-io/keelson/kind"
)

// TestMalformedFieldsInProtobuf: managed fields in protobuf may be any bytes. Those that are not JSON are ignored: a create and an
// update go by what the server knows.
func TestMalformedFieldsInProtobuf(t *testing.T) {
	s := newTestServer(t)
	const maps = "/api/v1/namespaces/default/configmaps"
	for _, text := range []string{`{"f:data":{}}{"x":1}`, "{", "x", `{"f:data":`, "\xff\x00"} {
		send := func(method, path string, code int, data map[string]string) answer {
			t.Helper()
			fields := &metav1.FieldsV1{}
			fields.SetRawBytes([]byte(text))
			o := corev1.ConfigMap{Data: data, ObjectMeta: metav1.ObjectMeta{Name: "a", Namespace: "default",
				ManagedFields: []metav1.ManagedFieldsEntry{{Manager: "m", Operation: "Update", APIVersion: "v1", FieldsType: "FieldsV1", FieldsV1: fields}}}}
			raw, err := o.Marshal()
			if err != nil {
				t.Fatal(err)
			}
			body, err := kind.WrapProtobuf(raw, "v1", "ConfigMap")
			if err != nil {
				t.Fatal(err)
			}
			return s.must(code, method, path+"?fieldManager=x", string(body), "Content-Type", encoding.Protobuf)
		}
		check := func(a answer, want string) {
			t.Helper()
			list, _ := a.get("metadata", "managedFields").([]any)
			if len(list) != 1 {
				t.Fatalf("%q: got %d managers in %s, want 1", text, len(list), a.body)
			}
			if e := list[0].(map[string]any); e["manager"] != "x" || len(e["fieldsV1"].(map[string]any)["f:data"].(map[string]any)) != len(want) {
				t.Errorf("%q: got %v, want the fields %s and the list itself", text, e, want)
			}
		}
		check(send("POST", maps, 201, map[string]string{"k": "v"}), ".k")
		check(send("PUT", maps+"/a", 200, map[string]string{"k": "w", "l": "v"}), ".kl")
		s.must(200, "DELETE", maps+"/a", "")
	}
}
