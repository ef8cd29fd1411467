package api

import (
	"bytes"
	"context"

	kschema "k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/keelson-io/keelson/admission"
	"github.com/keelson-io/keelson/cache"
	"github.com/keelson-io/keelson/doc"
	"github.com/keelson-io/keelson/status"
)

// This file answers admission's questions about namespaces.

// State implements admission.Namespaces. It is as new as every write that was
// acknowledged before: a namespace whose deletion was answered takes nothing
// more in, one whose creation was answered is there.
func (h *Handler) State(ctx context.Context, name string) (admission.NamespaceState, error) {
	if h.Kinds.Load().Lookup("", "namespaces") == nil {
		return admission.NamespaceActive, nil // nobody serves namespaces
	}
	view, err := h.namespace(ctx, name, true)
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
func (h *Handler) Exists(ctx context.Context, name string) (bool, error) {
	k := h.Kinds.Load().Lookup("", "namespaces")
	if k == nil {
		return true, nil // nobody serves namespaces
	}
	if _, ok := h.Cache.Resource(k.StoragePrefix).Get(k.Key("", name)); ok {
		return true, nil
	}
	view, err := h.namespace(ctx, name, true)
	return view != nil, err
}

// Namespace implements admission.Namespaces. What the cache knows is new
// enough; only a namespace that it does not know is asked for.
func (h *Handler) Namespace(ctx context.Context, name string) (*cache.View, error) {
	view, err := h.namespace(ctx, name, false)
	if view == nil && err == nil {
		view, err = h.namespace(ctx, name, true)
	}
	if view == nil && err == nil {
		err = status.NotFound(kschema.GroupResource{Resource: "namespaces"}, name)
	}
	return view, err
}

// namespace is a namespace as it is served; nil if there is none.
func (h *Handler) namespace(ctx context.Context, name string, fresh bool) (*cache.View, error) {
	k := h.Kinds.Load().Lookup("", "namespaces")
	if k == nil {
		return nil, nil
	}
	res := h.Cache.Resource(k.StoragePrefix)
	if fresh {
		if err := res.Fresh(ctx); err != nil {
			return nil, storeError(err)
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
	d := doc.Get()
	defer d.Release()
	if doc.Parse(d, namespace) != nil {
		return false
	}
	return d.Root().At("status", "phase").Text() == "Terminating" || d.Root().At("metadata", "deletionTimestamp").Text() != ""
}
