package api

import (
	"bytes"
	"testing"

	autoscalingv1 "k8s.io/api/autoscaling/v1"
	corev1 "k8s.io/api/core/v1"
	apiextv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/runtime/serializer/protobuf"

	"github.com/keelson-io/keelson/internal/api/encoding"
)

// This file tests bodies in protobuf, as typed clients send them.

func encodeProtobuf(t *testing.T, obj runtime.Object, gvk schema.GroupVersionKind) string {
	t.Helper()
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{corev1.AddToScheme, apiextv1.AddToScheme, autoscalingv1.AddToScheme} {
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

func decodeProtobuf(t *testing.T, text string) runtime.Object {
	t.Helper()
	known := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{corev1.AddToScheme, metav1.AddMetaToScheme} {
		if err := add(known); err != nil {
			t.Fatal(err)
		}
	}
	obj, _, err := protobuf.NewSerializer(known, known).Decode([]byte(text), nil, nil)
	if err != nil {
		t.Fatalf("%v: %q", err, text)
	}
	return obj
}

func TestProtobufBodies(t *testing.T) {
	s := newTestServer(t)
	core := schema.GroupVersion{Version: "v1"}
	ns := encodeProtobuf(t, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "p", Labels: map[string]string{"a": "b"}}}, core.WithKind("Namespace"))
	a := s.must(201, "POST", "/api/v1/namespaces", ns, "Content-Type", encoding.Protobuf, "Accept", encoding.Protobuf+",application/json")
	made := decodeProtobuf(t, a.body).(*corev1.Namespace)
	if made.Labels["a"] != "b" || made.UID == "" || a.header.Get("Content-Type") != encoding.Protobuf {
		t.Errorf("namespace: %+v", made)
	}
	if a := s.must(200, "GET", "/api/v1/namespaces/p", "", "Accept", "application/json, "+encoding.Protobuf); a.text("metadata", "labels", "a") != "b" {
		t.Errorf("namespace: %s", a.body)
	}
	uid := "zzz"
	wrong := encodeProtobuf(t, &metav1.DeleteOptions{Preconditions: metav1.NewUIDPreconditions(uid)}, core.WithKind("DeleteOptions"))
	s.must(409, "DELETE", "/api/v1/namespaces/p", wrong, "Content-Type", encoding.Protobuf)
	right := encodeProtobuf(t, &metav1.DeleteOptions{}, schema.GroupVersionKind{Group: "apiextensions.k8s.io", Version: "v1", Kind: "DeleteOptions"})
	s.must(200, "DELETE", "/api/v1/namespaces/p", right, "Content-Type", encoding.Protobuf)

	// Custom resources are not typed, and a body of another kind is none.
	s.must(415, "POST", widgets, ns, "Content-Type", encoding.Protobuf)
	s.must(400, "POST", "/api/v1/namespaces", wrong, "Content-Type", encoding.Protobuf)
	s.must(400, "POST", "/api/v1/namespaces", "k8s\x00rubbish", "Content-Type", encoding.Protobuf)
	s.must(400, "DELETE", "/api/v1/namespaces/p", "rubbish", "Content-Type", encoding.Protobuf)
}

func TestProtobufAnswers(t *testing.T) {
	s := newTestServer(t)
	const only = "application/vnd.kubernetes.protobuf"
	s.must(201, "POST", widgets, widget("w", `"size":1`))

	// Objects that are not typed have no such form, their metadata and errors have.
	if a := s.must(200, "GET", widgets+"/w", "", "Accept", only+", */*"); a.header.Get("Content-Type") != encoding.JSON {
		t.Errorf("content type %s", a.header.Get("Content-Type"))
	}
	partial := only + ";as=PartialObjectMetadata;g=meta.k8s.io;v=v1"
	one := decodeProtobuf(t, s.must(200, "GET", widgets+"/w", "", "Accept", partial).body)
	if m, ok := one.(*metav1.PartialObjectMetadata); !ok || m.Name != "w" {
		t.Errorf("got %+v", one)
	}
	lists := only + ";as=PartialObjectMetadataList;g=meta.k8s.io;v=v1"
	many := decodeProtobuf(t, s.must(200, "GET", widgets, "", "Accept", lists).body)
	if m, ok := many.(*metav1.PartialObjectMetadataList); !ok || len(m.Items) != 1 || m.Items[0].Name != "w" || m.ResourceVersion == "" {
		t.Errorf("got %+v", many)
	}
	s.must(406, "GET", widgets, "", "Accept", only+";as=Table;g=meta.k8s.io;v=v1")
	unread := decodeProtobuf(t, s.must(406, "GET", widgets+"/w", "", "Accept", only).body)
	if m, ok := unread.(*metav1.Status); !ok || m.Reason != metav1.StatusReasonNotAcceptable {
		t.Errorf("got %+v", unread)
	}
	missing := decodeProtobuf(t, s.must(404, "GET", "/api/v1/namespaces/none", "", "Accept", only).body)
	if m, ok := missing.(*metav1.Status); !ok || m.Reason != metav1.StatusReasonNotFound {
		t.Errorf("got %+v", missing)
	}
	all := decodeProtobuf(t, s.must(200, "GET", "/api/v1/namespaces?limit=1", "", "Accept", only).body).(*corev1.NamespaceList)
	if len(all.Items) != 1 || all.Items[0].Name != "default" || all.Continue == "" || all.RemainingItemCount == nil || *all.RemainingItemCount != 1 {
		t.Errorf("got %+v", all)
	}
}

// TestProtobufScales holds that a Scale may be sent in protobuf, and nothing else in its place.
func TestProtobufScales(t *testing.T) {
	s := newTestServer(t)
	const deployments = "/apis/apps/v1/namespaces/default/deployments"
	s.must(201, "POST", deployments, `{"apiVersion":"apps/v1","kind":"Deployment","metadata":{"name":"d"},"spec":{"selector":{"matchLabels":{"a":"b"}},
		"template":{"metadata":{"labels":{"a":"b"}},"spec":{"containers":[{"name":"c","image":"i"}]}}}}`)
	of := autoscalingv1.SchemeGroupVersion.WithKind("Scale")
	scale := encodeProtobuf(t, &autoscalingv1.Scale{ObjectMeta: metav1.ObjectMeta{Name: "d"}, Spec: autoscalingv1.ScaleSpec{Replicas: 7}}, of)
	s.must(200, "PUT", deployments+"/d/scale", scale, "Content-Type", encoding.Protobuf)
	if got := s.must(200, "GET", deployments+"/d", "").get("spec", "replicas"); got != 7.0 {
		t.Errorf("got %v replicas, want 7", got)
	}
	other := encodeProtobuf(t, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "d"}}, schema.GroupVersionKind{Version: "v1", Kind: "Namespace"})
	s.must(400, "PUT", deployments+"/d/scale", other, "Content-Type", encoding.Protobuf)
	s.must(400, "PUT", deployments+"/d", scale, "Content-Type", encoding.Protobuf)
	// So may that of a custom resource be sent, but not asked for.
	s.must(201, "POST", widgets, widget("d", `"replicas":1`))
	s.must(200, "PUT", widgets+"/d/scale", scale, "Content-Type", encoding.Protobuf)
	if got := s.must(200, "GET", widgets+"/d/scale", "", "Accept", encoding.Protobuf+",application/json").get("spec", "replicas"); got != 7.0 {
		t.Errorf("got %v replicas, want 7", got)
	}
	s.must(406, "GET", widgets+"/d/scale", "", "Accept", encoding.Protobuf)
	itself := encodeProtobuf(t, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "d"}}, schema.GroupVersionKind{Group: "demo.io", Version: "v1", Kind: "Widget"})
	s.must(400, "PUT", widgets+"/d/scale", itself, "Content-Type", encoding.Protobuf)
	s.must(415, "PUT", widgets+"/d", scale, "Content-Type", encoding.Protobuf)
	s.must(406, "GET", widgets+"/d", "", "Accept", encoding.Protobuf)
}
