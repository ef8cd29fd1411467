package kind

import (
	"bytes"
	"encoding/binary"
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
	if err := checkMessage(u.Raw, into); err != nil {
		return nil, err
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

// Tags of the envelope's fields.
const (
	tagAPIVersion = 1<<3 | 2 // of its type
	tagKind       = 2<<3 | 2

	tagType = 1<<3 | 2
	tagRaw  = 2<<3 | 2
)

// ProtobufEnd stands after the message in an envelope: no content encoding, no content type.
const ProtobufEnd = "\x1a\x00\x22\x00"

// AppendProtobufStart appends what stands before a message of n bytes in its envelope, as
// WrapProtobuf does, for callers that do not copy the message.
func AppendProtobufStart(b []byte, apiVersion, name string, n int) []byte {
	b = append(b, protobufMagic...)
	b = append(b, tagType)
	b = binary.AppendUvarint(b, uint64(FieldSize(len(apiVersion))+FieldSize(len(name))))
	b = append(binary.AppendUvarint(append(b, tagAPIVersion), uint64(len(apiVersion))), apiVersion...)
	b = append(binary.AppendUvarint(append(b, tagKind), uint64(len(name))), name...)
	return binary.AppendUvarint(append(b, tagRaw), uint64(n))
}

// ProtobufSize returns the size of the envelope of a message of n bytes, with the message.
func ProtobufSize(apiVersion, name string, n int) int {
	t := FieldSize(len(apiVersion)) + FieldSize(len(name))
	return len(protobufMagic) + FieldSize(t) + FieldSize(n) + len(ProtobufEnd)
}

// FieldSize returns the size of a field of n bytes with a tag of one byte.
func FieldSize(n int) int {
	size := 2 + n
	for v := uint(n); v >= 0x80; v >>= 7 {
		size++
	}
	return size
}
