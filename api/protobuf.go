package api

import (
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/keelson-io/keelson/kind"
)

// This file is the edge that knows protobuf: typed clients send built-in kinds
// and delete options in it.

// fromProtobuf turns a protobuf body into the JSON of the same object of v.
// What is of another kind is refused.
func fromProtobuf(body []byte, v *kind.Version) ([]byte, error) {
	return kind.FromProtobuf(body, func(gvk metav1.TypeMeta) (runtime.Object, error) {
		if gvk.Kind != "" && gvk.Kind != v.Kind.Name {
			return nil, fmt.Errorf("got %s in protobuf, want %s", gvk.Kind, v.Kind.Name)
		}
		return v.Kind.Builtin.New(v), nil
	})
}

// deleteOptionsFromProtobuf is fromProtobuf for delete options, which are of
// any group.
func deleteOptionsFromProtobuf(body []byte) ([]byte, error) {
	return kind.FromProtobuf(body, func(gvk metav1.TypeMeta) (runtime.Object, error) {
		if gvk.Kind != "" && gvk.Kind != "DeleteOptions" {
			return nil, fmt.Errorf("got %s in protobuf, want DeleteOptions", gvk.Kind)
		}
		return new(metav1.DeleteOptions), nil
	})
}

// takesProtobuf reports whether the request's kind can be sent in protobuf.
func (q *request) takesProtobuf() bool {
	return q.v.Kind.Builtin != nil && q.v.Kind.Builtin.New != nil
}
