package api

import (
	"context"
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/keelson-io/keelson/apply"
	"github.com/keelson-io/keelson/authn"
	"github.com/keelson-io/keelson/cache"
	"github.com/keelson-io/keelson/doc"
	"github.com/keelson-io/keelson/kind"
	"github.com/keelson-io/keelson/meta"
	"github.com/keelson-io/keelson/schema"
	"github.com/keelson-io/keelson/status"
)

// This file is what the server's own parts ask of the API, without HTTP: they
// do as clients do, save for authorization.

// internalName is who the server's own writes are noted for.
const internalName = "keelson"

var internalUser = &authn.User{Name: "system:apiserver", Groups: []string{authn.Masters, authn.Authenticated}}

// internal is a request of the server's own.
func (h *Handler) internal(ctx context.Context, k *kind.Kind, namespace, name string) *request {
	q := &request{h: h, ctx: ctx, user: internalUser, kind: k, v: k.Storage, res: h.Cache.Resource(k.StoragePrefix)}
	q.namespace, q.name, q.plural, q.group = namespace, name, k.Plural, k.Group
	return q
}

// Delete deletes an object as a client would: one with finalizers is marked. An
// object that does not exist is no error.
func (h *Handler) Delete(ctx context.Context, k *kind.Kind, namespace, name string) error {
	_, err := h.internal(ctx, k, namespace, name).remove(&meta.DeleteOptions{})
	if err != nil && status.From(err).Reason == metav1.StatusReasonNotFound {
		return nil
	}
	return err
}

// Remove deletes an object as a client would who asks for it with options.
func (h *Handler) Remove(ctx context.Context, k *kind.Kind, namespace, name string, o *meta.DeleteOptions) error {
	_, err := h.internal(ctx, k, namespace, name).remove(o)
	return err
}

// Modify changes an object as a client would. fn makes the change; it is called
// again if somebody else was faster, and its errors are Modify's.
func (h *Handler) Modify(ctx context.Context, k *kind.Kind, namespace, name string, fn func(meta.Object) error) error {
	q := h.internal(ctx, k, namespace, name)
	return q.change(&change{
		options: &meta.WriteOptions{FieldManager: internalName},
		scope:   schema.Whole,
		quiet:   true,
		build: func(next, _ *doc.Doc, obj *cache.Object) error {
			if err := q.v.Load(next, obj.Raw, obj.Rev); err != nil {
				return err
			}
			return fn(meta.Object{Doc: next})
		},
		track: func(m *apply.Manager, live, next *doc.Doc) error {
			return m.Update(live, next, apply.Options{Manager: internalName})
		},
	})
}

// ApplyStatus applies a body to the status of an object as a client would who
// insists (force).
func (h *Handler) ApplyStatus(ctx context.Context, k *kind.Kind, namespace, name, manager string, body []byte) error {
	q := h.internal(ctx, k, namespace, name)
	q.subresource = "status"
	m, err := h.managers.get(h, q.v)
	if err != nil {
		return err
	}
	force := true
	c := q.applied(m, body, &meta.WriteOptions{FieldManager: manager, Force: &force})
	c.quiet = true
	return q.change(c)
}

// Ensure creates an object of a body unless it exists.
func (h *Handler) Ensure(ctx context.Context, k *kind.Kind, namespace, name string, body []byte) error {
	q := h.internal(ctx, k, namespace, name)
	if l := q.live(); l.obj != nil {
		return nil
	}
	d := doc.Get()
	defer d.Release()
	if _, err := q.v.Decode(d, body); err != nil {
		return err
	}
	o := &meta.WriteOptions{FieldManager: internalName}
	_, err := q.insert(d, o, func(m *apply.Manager, _, next *doc.Doc) error {
		return m.Update(nil, next, apply.Options{Manager: internalName})
	})
	if err != nil && status.From(err).Reason == metav1.StatusReasonAlreadyExists {
		return nil
	}
	return err
}

// EnsureNamespace creates a namespace unless it exists.
func (h *Handler) EnsureNamespace(ctx context.Context, name string) error {
	k := h.Kinds.Load().Lookup("", "namespaces")
	if k == nil {
		return fmt.Errorf("namespace %s: namespaces are not served", name)
	}
	return h.Ensure(ctx, k, "", name, []byte(`{"apiVersion":"v1","kind":"Namespace","metadata":{"name":"`+name+`"}}`))
}
