package api

import (
	"bytes"
	"context"

	"github.com/keelson-io/keelson/admission"
	"github.com/keelson-io/keelson/doc"
)

// This file answers admission's questions about namespaces.

// State implements admission.Namespaces. It is as new as every write that was
// acknowledged before: a namespace whose deletion was answered takes nothing
// more in, one whose creation was answered is there.
func (h *Handler) State(ctx context.Context, name string) (admission.NamespaceState, error) {
	k := h.Kinds.Load().Lookup("", "namespaces")
	if k == nil {
		return admission.NamespaceActive, nil // nobody serves namespaces
	}
	res, key := h.Cache.Resource(k.StoragePrefix), k.Key("", name)
	if err := res.Fresh(ctx); err != nil {
		return 0, storeError(err)
	}
	obj, ok := res.Get(key)
	if !ok {
		return admission.NamespaceMissing, nil
	}
	view, err := obj.View(k.Storage)
	if err != nil {
		return 0, err
	}
	if terminating(view.JSON) {
		return admission.NamespaceTerminating, nil
	}
	return admission.NamespaceActive, nil
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
