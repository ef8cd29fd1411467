package kind

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
)

// This file turns protobuf into JSON and back: the form in which typed clients
// send built-in kinds, and in which Kubernetes stores them.

// protobufMagic is what every object in protobuf starts with.
var protobufMagic = []byte("k8s\x00")

// IsProtobuf reports whether a text is an object in protobuf.
func IsProtobuf(text []byte) bool { return bytes.HasPrefix(text, protobufMagic) }

// fromProto is what Go types of objects have.
type fromProto interface{ Unmarshal([]byte) error }

// FromProtobuf turns an object in protobuf into JSON. pick returns the Go object
// to decode it into, by the type that it says it is of, or refuses it.
func FromProtobuf(text []byte, pick func(metav1.TypeMeta) (runtime.Object, error)) ([]byte, error) {
	if !IsProtobuf(text) {
		return nil, errors.New("provided data does not appear to be a protobuf message, expected prefix [107 56 115 0]")
	}
	var u runtime.Unknown
	if err := u.Unmarshal(text[len(protobufMagic):]); err != nil {
		return nil, err
	}
	if u.ContentEncoding != "" || u.ContentType != "" && u.ContentType != runtime.ContentTypeProtobuf {
		return nil, fmt.Errorf("got an object in %q, encoded as %q, inside of protobuf", u.ContentType, u.ContentEncoding)
	}
	m := metav1.TypeMeta{APIVersion: u.APIVersion, Kind: u.Kind}
	obj, err := pick(m)
	if err != nil {
		return nil, err
	}
	into, ok := obj.(fromProto)
	if !ok {
		return nil, fmt.Errorf("%T cannot be read from protobuf", obj)
	}
	if err := into.Unmarshal(u.Raw); err != nil {
		return nil, err
	}
	obj.GetObjectKind().SetGroupVersionKind(m.GroupVersionKind())
	return json.Marshal(obj)
}

// toProto is what Go types of objects have.
type toProto interface{ Marshal() ([]byte, error) }

// ToProtobuf is the inverse of FromProtobuf: obj is an empty object of the text's
// type.
func ToProtobuf(text []byte, obj runtime.Object) ([]byte, error) {
	raw, err := Message(text, obj)
	if err != nil {
		return nil, err
	}
	gvk := obj.GetObjectKind().GroupVersionKind()
	return WrapProtobuf(raw, gvk.GroupVersion().String(), gvk.Kind)
}

// Message is ToProtobuf without the envelope that says what the object is.
func Message(text []byte, obj runtime.Object) ([]byte, error) {
	if err := json.Unmarshal(text, obj); err != nil {
		return nil, err
	}
	from, ok := obj.(toProto)
	if !ok {
		return nil, fmt.Errorf("%T cannot be written as protobuf", obj)
	}
	return from.Marshal()
}

// WrapProtobuf makes an object of its bare message.
func WrapProtobuf(raw []byte, apiVersion, name string) ([]byte, error) {
	u := runtime.Unknown{TypeMeta: runtime.TypeMeta{APIVersion: apiVersion, Kind: name}, Raw: raw}
	text, err := u.Marshal()
	if err != nil {
		return nil, err
	}
	return append(protobufMagic[:len(protobufMagic):len(protobufMagic)], text...), nil
}
