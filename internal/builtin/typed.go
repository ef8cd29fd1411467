package builtin

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"
	"sync"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/keelson-io/keelson/internal/builtin/describe"
	"github.com/keelson-io/keelson/jsondoc"
	"github.com/keelson-io/keelson/kind"
	"github.com/keelson-io/keelson/schema"
)

// This file is the way through Go types.

// decode reads what a client sent.
func (b *builtin) decode(v *kind.Version, d *jsondoc.Doc, src []byte) (schema.Found, error) {
	desc := b.by[v]
	obj := desc.GoType.New()
	strict, err := kind.UnmarshalStrict(src, obj)
	if err != nil {
		return 0, err
	}
	if err := b.convertible(v, obj); err != nil {
		return 0, err
	}
	if desc.Fill != nil {
		desc.Fill(obj)
	}
	found, err := kind.DecodeTyped(v, d, obj, strict)
	if err == nil && b.Decoded != nil {
		b.Decoded(d, obj)
	}
	if err == nil && !b.Virtual {
		// Upstream stores protobuf, which does not tell an empty list from none. Fields that are
		// always printed are null then.
		d.NullEmpty(d.Root().Node, v.Order())
	}
	return found, err
}

// convertible refuses an object that says it is of another kind, as upstream does: by whether there is such a kind. Another version of the
// kind is convertible, and refused for what it is.
func (b *builtin) convertible(v *kind.Version, obj runtime.Object) error {
	gvk := obj.GetObjectKind().GroupVersionKind()
	if gvk.Kind == "" {
		gvk.Kind = v.Kind.Name
	}
	said := gvk.GroupVersion().String()
	if gvk.Version == "" {
		said = v.APIVersion()
	}
	if gvk.Kind == v.Kind.Name {
		if gvk.Group == v.Kind.Group && strings.Contains(gvk.Version, "beta") { // which kinds had before
			return nil
		}
		for own := range b.by {
			if own.APIVersion() == said {
				return nil
			}
		}
	}
	if registered()[said+"/"+gvk.Kind] {
		version := said[strings.LastIndexByte(said, '/')+1:]
		return fmt.Errorf("converting (%s.%s) to (%s.%s): unknown conversion", version, gvk.Kind, v.Name, v.Kind.Name)
	}
	// Upstream names the line of its source that makes the registry.
	return fmt.Errorf("no kind %q is registered for version %q in scheme %q", gvk.Kind, said, "pkg/runtime/scheme.go:111")
}

// registered are the kinds that upstream's server for these kinds knows, as far as they are here, with their lists.
var registered = sync.OnceValue(func() map[string]bool {
	out := map[string]bool{"v1/Namespace": true, "v1/NamespaceList": true, "v1/Event": true, "v1/EventList": true,
		"events.k8s.io/v1/Event": true, "events.k8s.io/v1/EventList": true}
	for _, desc := range descriptions() {
		for _, v := range desc.Versions {
			name := metav1.GroupVersion{Group: desc.Group, Version: v.Name}.String() + "/" + desc.Kind
			out[name], out[name+"List"] = true, true
		}
	}
	return out
})

// strict returns the unknown and duplicate fields.
func (b *builtin) strict(v *kind.Version, src []byte) []jsondoc.StrictError {
	return kind.StrictErrors(src, b.by[v].GoType.New())
}

// load turns what Kubernetes stored in protobuf, or in an older version, into JSON of the present one.
func (b *builtin) load(_ *kind.Version, raw []byte) ([]byte, error) {
	if !kind.IsProtobuf(raw) {
		return b.renew(raw)
	}
	text, err := kind.FromProtobuf(raw, func(m metav1.TypeMeta) (*kind.GoType, error) {
		for v, desc := range b.by {
			if v.APIVersion() == m.APIVersion && m.Kind == v.Kind.Name {
				return desc.GoType, nil
			}
		}
		if old := b.older(m.APIVersion); old != nil && m.Kind == b.Kind {
			return old.GoType, nil
		}
		return nil, fmt.Errorf("stored %s: got %s, %s in protobuf", b.Kind, m.APIVersion, m.Kind)
	})
	if err != nil {
		return nil, err
	}
	return b.renew(text)
}

// older returns the version that is not served with an apiVersion, nil if there is none.
func (b *builtin) older(apiVersion string) *describe.Version {
	for i := range b.Older {
		if gv := (metav1.GroupVersion{Group: b.Group, Version: b.Older[i].Name}); gv.String() == apiVersion {
			return &b.Older[i]
		}
	}
	return nil
}

// renew turns JSON of an older version into that of the stored one. Other JSON it returns as it is.
func (b *builtin) renew(text []byte) ([]byte, error) {
	if len(b.Older) == 0 || bytes.HasPrefix(text, []byte(`{"apiVersion":"`+b.made.Storage.APIVersion()+`"`)) {
		return text, nil
	}
	var head metav1.TypeMeta
	if err := json.Unmarshal(text, &head); err != nil {
		return text, nil // the caller says what is wrong with it
	}
	old := b.older(head.APIVersion)
	if old == nil {
		return text, nil
	}
	obj := old.GoType.New()
	if err := kind.UnmarshalStored(text, obj); err != nil {
		return nil, fmt.Errorf("stored %s: %w", b.Kind, err)
	}
	if old.Fill != nil {
		old.Fill(obj)
	}
	obj.GetObjectKind().SetGroupVersionKind(b.made.Storage.GVK())
	return json.Marshal(obj)
}
