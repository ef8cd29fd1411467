package api

import (
	"encoding/json"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	apiextv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/runtime/serializer/protobuf"
)

// This file is the only place that knows protobuf: typed clients send built-in
// kinds and delete options in it.

// protobufToJSON turns a protobuf body into the JSON of the same object. What
// is neither the wanted kind nor delete options is refused.
func protobufToJSON(body []byte, want schema.GroupVersionKind) ([]byte, error) {
	scheme := runtime.NewScheme()
	metav1.AddToGroupVersion(scheme, schema.GroupVersion{Version: "v1"})
	for _, add := range []func(*runtime.Scheme) error{corev1.AddToScheme, apiextv1.AddToScheme} {
		if err := add(scheme); err != nil {
			return nil, err
		}
	}
	obj, gvk, err := protobuf.NewSerializer(scheme, scheme).Decode(body, &want, nil)
	if err != nil {
		return nil, err
	}
	if gvk.Kind != want.Kind {
		return nil, fmt.Errorf("got %s in protobuf, want %s", gvk.Kind, want.Kind)
	}
	obj.GetObjectKind().SetGroupVersionKind(*gvk)
	return json.Marshal(obj)
}
