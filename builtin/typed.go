package builtin

import (
	"fmt"
	"strings"
	"sync"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	kjson "sigs.k8s.io/json"

	"github.com/keelson-io/keelson/jsondoc"
	"github.com/keelson-io/keelson/kind"
	"github.com/keelson-io/keelson/schema"
)

// This file is the way through Go types.

// decode reads what a client sent.
func (b *builtin) decode(v *kind.Version, d *jsondoc.Doc, src []byte) (schema.Found, error) {
	desc := b.by[v]
	obj := desc.New()
	strict, err := kjson.UnmarshalStrict(src, obj)
	if err != nil {
		return 0, err
	}
	if err := b.convertible(v, obj); err != nil {
		return 0, err
	}
	if desc.Fill != nil {
		desc.Fill(obj)
	}
	return kind.DecodeTyped(v, d, obj, strict)
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

// strict says which fields are unknown or duplicated.
func (b *builtin) strict(v *kind.Version, src []byte) []string {
	return kind.StrictTexts(src, b.by[v].New())
}

// load turns what Kubernetes stored in protobuf into JSON.
func (b *builtin) load(_ *kind.Version, raw []byte) ([]byte, error) {
	if !kind.IsProtobuf(raw) {
		return raw, nil
	}
	return kind.FromProtobuf(raw, func(m metav1.TypeMeta) (runtime.Object, error) {
		for v, desc := range b.by {
			if v.APIVersion() == m.APIVersion && m.Kind == v.Kind.Name {
				return desc.New(), nil
			}
		}
		return nil, fmt.Errorf("stored %s: got %s, %s in protobuf", b.Kind, m.APIVersion, m.Kind)
	})
}
