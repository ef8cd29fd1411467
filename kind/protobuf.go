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

// This file converts between JSON and protobuf. Typed clients send built-in kinds in protobuf, and
// Kubernetes stores them in it.

// protobufMagic starts every object in protobuf. The envelope that follows is a runtime.Unknown.
var protobufMagic = []byte("k8s\x00")

// IsProtobuf reports whether a text is an object in protobuf.
func IsProtobuf(text []byte) bool { return bytes.HasPrefix(text, protobufMagic) }

// FromProtobuf converts an object from protobuf to JSON. pick gets the type that the envelope
// names, and returns its Go type, or an error if the type is not accepted.
func FromProtobuf(text []byte, pick func(metav1.TypeMeta) (*GoType, error)) ([]byte, error) {
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
	of, err := pick(m)
	if err != nil {
		return nil, err
	}
	obj := of.New()
	into, ok := obj.(fromProto)
	if !ok {
		return nil, fmt.Errorf("%T cannot be read from protobuf", obj)
	}
	if err := checkMessage(u.Raw, of.shape()); err != nil {
		return nil, err
	}
	if err := into.Unmarshal(u.Raw); err != nil {
		return nil, err
	}
	obj.GetObjectKind().SetGroupVersionKind(m.GroupVersionKind())
	if o, ok := obj.(metav1.Object); ok {
		replaceMalformed(o.GetManagedFields())
	}
	return json.Marshal(obj)
}

// unreadable are fields that are JSON, and no managed fields: an object with them is taken as one that
// has none.
const unreadable = `{"v:":{}}`

// replaceMalformed replaces managed fields that are not JSON. In protobuf they may be any bytes.
func replaceMalformed(entries []metav1.ManagedFieldsEntry) {
	for _, e := range entries {
		if e.FieldsV1 == nil {
			continue
		}
		if raw := e.FieldsV1.GetRawBytes(); len(raw) > 0 && !json.Valid(raw) {
			e.FieldsV1.SetRawBytes([]byte(unreadable))
		}
	}
}

// toProto is implemented by the Go types of objects.
type toProto interface{ Marshal() ([]byte, error) }

// ToProtobuf converts an object from JSON to protobuf. obj is an empty object of its type, into
// which the text is decoded.
func ToProtobuf(text []byte, obj runtime.Object) ([]byte, error) {
	raw, err := Message(text, obj)
	if err != nil {
		return nil, err
	}
	gvk := obj.GetObjectKind().GroupVersionKind()
	return WrapProtobuf(raw, gvk.GroupVersion().String(), gvk.Kind)
}

// Message is ToProtobuf without the envelope.
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

// WrapProtobuf puts a message into an envelope. name is the kind.
func WrapProtobuf(raw []byte, apiVersion, name string) ([]byte, error) {
	u := runtime.Unknown{TypeMeta: runtime.TypeMeta{APIVersion: apiVersion, Kind: name}, Raw: raw}
	text, err := u.Marshal()
	if err != nil {
		return nil, err
	}
	return append(protobufMagic[:len(protobufMagic):len(protobufMagic)], text...), nil
}

// Tags of the envelope's fields: the field number, and wire type 2 (bytes with a length).
const (
	tagAPIVersion = 1<<3 | 2 // of the nested TypeMeta
	tagKind       = 2<<3 | 2

	tagType = 1<<3 | 2
	tagRaw  = 2<<3 | 2
)

// ProtobufEnd follows the message in an envelope: an empty content encoding and an empty content
// type.
const ProtobufEnd = "\x1a\x00\x22\x00"

// AppendProtobufStart appends the part of the envelope before a message of n bytes. Followed by the
// message and ProtobufEnd, it equals the result of WrapProtobuf, but the message need not be
// copied.
func AppendProtobufStart(b []byte, apiVersion, name string, n int) []byte {
	b = append(b, protobufMagic...)
	b = append(b, tagType)
	b = binary.AppendUvarint(b, uint64(FieldSize(len(apiVersion))+FieldSize(len(name))))
	b = append(binary.AppendUvarint(append(b, tagAPIVersion), uint64(len(apiVersion))), apiVersion...)
	b = append(binary.AppendUvarint(append(b, tagKind), uint64(len(name))), name...)
	return binary.AppendUvarint(append(b, tagRaw), uint64(n))
}

// ProtobufSize returns the size in bytes of an envelope with a message of n bytes.
func ProtobufSize(apiVersion, name string, n int) int {
	t := FieldSize(len(apiVersion)) + FieldSize(len(name))
	return len(protobufMagic) + FieldSize(t) + FieldSize(n) + len(ProtobufEnd)
}

// FieldSize returns the encoded size of a field of n bytes: a tag of one byte, the length, the
// bytes.
func FieldSize(n int) int {
	size := 2 + n
	for v := uint(n); v >= 0x80; v >>= 7 {
		size++
	}
	return size
}
