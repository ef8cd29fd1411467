package api

import (
	"bytes"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apiextv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/runtime/serializer/protobuf"
)

// This file tests bodies in protobuf, as typed clients send them.

func encodeProtobuf(t *testing.T, obj runtime.Object, gvk schema.GroupVersionKind) string {
	t.Helper()
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{corev1.AddToScheme, apiextv1.AddToScheme} {
		if err := add(scheme); err != nil {
			t.Fatal(err)
		}
	}
	obj.GetObjectKind().SetGroupVersionKind(gvk)
	var out bytes.Buffer
	if err := protobuf.NewSerializer(scheme, scheme).Encode(obj, &out); err != nil {
		t.Fatal(err)
	}
	return out.String()
}

func TestProtobufBodies(t *testing.T) {
	s := newTestServer(t)
	core := schema.GroupVersion{Version: "v1"}
	ns := encodeProtobuf(t, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "p", Labels: map[string]string{"a": "b"}}}, core.WithKind("Namespace"))
	a := s.must(201, "POST", "/api/v1/namespaces", ns, "Content-Type", typeProtobuf, "Accept", typeProtobuf+",application/json")
	if a.text("metadata", "labels", "a") != "b" {
		t.Errorf("namespace: %s", a.body)
	}
	uid := "zzz"
	wrong := encodeProtobuf(t, &metav1.DeleteOptions{Preconditions: metav1.NewUIDPreconditions(uid)}, core.WithKind("DeleteOptions"))
	s.must(409, "DELETE", "/api/v1/namespaces/p", wrong, "Content-Type", typeProtobuf)
	right := encodeProtobuf(t, &metav1.DeleteOptions{}, schema.GroupVersionKind{Group: "apiextensions.k8s.io", Version: "v1", Kind: "DeleteOptions"})
	s.must(200, "DELETE", "/api/v1/namespaces/p", right, "Content-Type", typeProtobuf)

	// Custom resources are not typed, and a body of another kind is none.
	s.must(415, "POST", widgets, ns, "Content-Type", typeProtobuf)
	s.must(400, "POST", "/api/v1/namespaces", wrong, "Content-Type", typeProtobuf)
	s.must(400, "POST", "/api/v1/namespaces", "k8s\x00rubbish", "Content-Type", typeProtobuf)
	s.must(400, "DELETE", "/api/v1/namespaces/p", "rubbish", "Content-Type", typeProtobuf)
}
