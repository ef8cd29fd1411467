package objects

import (
	"bytes"
	"context"
	"encoding/json"

	kschema "k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/keelson-io/keelson/internal/admission"
	"github.com/keelson-io/keelson/internal/meta"
	"github.com/keelson-io/keelson/internal/status"
	"github.com/keelson-io/keelson/jsondoc"
	"github.com/keelson-io/keelson/kind"
)

// This file answers admission's questions about stored objects.
//
// Each question has its own freshness: an answer must not be older than a write that a client has seen
// acknowledged, but most questions need not wait for the store.

// State implements admission.Namespaces. It is as new as every write that was acknowledged before:
// a namespace whose deletion was answered accepts no more objects, and one whose creation was
// answered exists.
func (v *Verbs) State(ctx context.Context, name string) (admission.NamespaceState, error) {
	if v.Kinds.Load().Lookup("", "namespaces") == nil {
		return admission.NamespaceActive, nil // nobody serves namespaces
	}
	view, err := v.namespace(ctx, name, true)
	switch {
	case err != nil:
		return 0, err
	case view == nil:
		return admission.NamespaceMissing, nil
	case terminating(view.JSON):
		return admission.NamespaceTerminating, nil
	}
	return admission.NamespaceActive, nil
}

// Exists implements admission.Namespaces. It waits for nothing if the cache
// knows the namespace.
func (v *Verbs) Exists(ctx context.Context, name string) (bool, error) {
	k := v.Kinds.Load().Lookup("", "namespaces")
	if k == nil {
		return true, nil // nobody serves namespaces
	}
	if _, ok := v.Cache.Resource(k.StoragePrefix).Get(k.Key("", name)); ok {
		return true, nil
	}
	view, err := v.namespace(ctx, name, true)
	return view != nil, err
}

// Namespace implements admission.Namespaces. The state in the cache is new enough. A namespace that
// is not in the cache is read from the store.
func (v *Verbs) Namespace(ctx context.Context, name string) (*meta.View, error) {
	// Labels of a namespace may be slightly old. A namespace that is missing may be new.
	view, err := v.namespace(ctx, name, false)
	if view == nil && err == nil {
		view, err = v.namespace(ctx, name, true)
	}
	if view == nil && err == nil {
		err = status.NotFound(kschema.GroupResource{Resource: "namespaces"}, name)
	}
	return view, err
}

// namespace returns a namespace as it is served; nil if there is none.
func (v *Verbs) namespace(ctx context.Context, name string, fresh bool) (*meta.View, error) {
	k := v.Kinds.Load().Lookup("", "namespaces")
	if k == nil {
		return nil, nil
	}
	res := v.Cache.Resource(k.StoragePrefix)
	// Fresh waits until the cache has reached the store's revision.
	if fresh {
		if err := res.Fresh(ctx); err != nil {
			return nil, StoreError(err)
		}
	}
	obj, ok := res.Get(k.Key("", name))
	if !ok {
		return nil, nil
	}
	return obj.View(k.Storage)
}

// terminating reports whether a namespace is being deleted.
func terminating(namespace []byte) bool {
	// Nearly every namespace lacks both words, which is quickly seen.
	if !bytes.Contains(namespace, []byte("Terminating")) && !bytes.Contains(namespace, []byte("deletionTimestamp")) {
		return false
	}
	d := jsondoc.Get()
	defer d.Release()
	if jsondoc.Parse(d, namespace) != nil {
		return false
	}
	return d.Root().At("status", "phase").Text() == "Terminating" || d.Root().At("metadata", "deletionTimestamp").Text() != ""
}

// Overlay implements admission.Host.
func (v *Verbs) Overlay(version *kind.Version, live *jsondoc.Doc, config []byte) ([]byte, error) {
	// A mutating policy applies a configuration without becoming a manager.
	m, err := managerOf(version)
	if err != nil {
		return nil, err
	}
	return m.Overlay(live, config)
}

// Read implements admission.Host.
func (v *Verbs) Read(ctx context.Context, resource kschema.GroupResource, namespace, name string, into any) (bool, error) {
	k := v.Kinds.Load().Lookup(resource.Group, resource.Resource)
	// An object that cannot exist is missing: the caller decides what this means.
	if k == nil || name == "" || k.Namespaced != (namespace != "") {
		return false, nil
	}
	objects := v.Cache.Resource(k.StoragePrefix)
	// Parameters of policies and defaults of classes must be current.
	if err := objects.Fresh(ctx); err != nil {
		return false, StoreError(err)
	}
	obj, ok := objects.Get(k.Key(namespace, name))
	if !ok {
		return false, nil
	}
	view, err := obj.View(k.Storage)
	if err != nil {
		return false, err
	}
	if err := json.Unmarshal(view.JSON, into); err != nil {
		return false, status.Internal(err)
	}
	return true, nil
}
