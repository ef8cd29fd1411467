package builtin

import (
	"encoding/json"
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	kjson "sigs.k8s.io/json"

	"github.com/keelson-io/keelson/doc"
	"github.com/keelson-io/keelson/kind"
	"github.com/keelson-io/keelson/schema"
)

// This file is the way through Go types.

// decode reads what a client sent.
func (b *builtin) decode(v *kind.Version, d *doc.Doc, src []byte) (schema.Found, error) {
	desc := b.by[v]
	obj := desc.new()
	strict, err := kjson.UnmarshalStrict(src, obj)
	if err != nil {
		return 0, err
	}
	if gvk := obj.GetObjectKind().GroupVersionKind(); gvk.Kind != "" && gvk.Kind != v.Kind.Name {
		return 0, fmt.Errorf("converting (%s.%s) to (%s.%s): unknown conversion", gvk.Version, gvk.Kind, v.Name, v.Kind.Name)
	}
	if desc.fill != nil {
		desc.fill(obj)
	}
	text, err := json.Marshal(obj)
	if err != nil {
		return 0, err
	}
	if _, err := v.Schema.Decode(d, text); err != nil {
		return 0, err
	}
	if len(strict) > 0 {
		return schema.FoundUnknown, nil
	}
	return 0, nil
}

// strict says which fields are unknown or duplicated.
func (b *builtin) strict(v *kind.Version, src []byte) []string {
	strict, err := kjson.UnmarshalStrict(src, b.by[v].new())
	if err != nil {
		return nil
	}
	var texts []string
	for _, e := range strict {
		texts = append(texts, e.Error())
	}
	return texts
}

// load turns what Kubernetes stored in protobuf into JSON.
func (b *builtin) load(_ *kind.Version, raw []byte) ([]byte, error) {
	if !kind.IsProtobuf(raw) {
		return raw, nil
	}
	return kind.FromProtobuf(raw, func(m metav1.TypeMeta) (runtime.Object, error) {
		for v, desc := range b.by {
			if v.APIVersion() == m.APIVersion && m.Kind == v.Kind.Name {
				return desc.new(), nil
			}
		}
		return nil, fmt.Errorf("stored %s: got %s, %s in protobuf", b.kind, m.APIVersion, m.Kind)
	})
}
