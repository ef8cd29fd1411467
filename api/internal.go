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
	"github.com/keelson-io/keelson/status"
)

// This file is what the server's own parts ask of the API, without HTTP: they
// do as clients do, save for authorization.

// The managers whom managedFields name for what the server writes itself, as upstream's programs are named there.
const (
	ServerManager     = "kube-apiserver"
	ControllerManager = "kube-controller-manager"
)

var internalUser = &authn.User{Name: "system:apiserver", Groups: []string{authn.Masters, authn.Authenticated}}

// Internal are requests of the server's own, whose writes are noted for a manager.
type Internal struct {
	h       *Handler
	manager string
}

// As are requests of the server's own whose writes are noted for a manager.
func (h *Handler) As(manager string) Internal { return Internal{h, manager} }

func (i Internal) request(ctx context.Context, k *kind.Kind, namespace, name, subresource string) *request {
	q := &request{h: i.h, ctx: ctx, user: internalUser, kind: k, v: k.Storage, res: i.h.Cache.Resource(k.StoragePrefix)}
	q.namespace, q.name, q.plural, q.group, q.subresource = namespace, name, k.Plural, k.Group, subresource
	return q
}

// Delete deletes an object as a client would: one with finalizers is marked. An
// object that does not exist is no error.
func (h *Handler) Delete(ctx context.Context, k *kind.Kind, namespace, name string) error {
	err := h.As(ServerManager).Remove(ctx, k, namespace, name, &meta.DeleteOptions{})
	if err != nil && status.From(err).Reason == metav1.StatusReasonNotFound {
		return nil
	}
	return err
}

// Delete is Handler.Delete.
func (i Internal) Delete(ctx context.Context, k *kind.Kind, namespace, name string) error {
	return i.h.Delete(ctx, k, namespace, name)
}

// Remove deletes an object as a client would who asks for it with options.
func (i Internal) Remove(ctx context.Context, k *kind.Kind, namespace, name string, o *meta.DeleteOptions) error {
	_, err := i.request(ctx, k, namespace, name, "").remove(o)
	return err
}

// Modify changes an object as a client would. fn makes the change; it is called
// again if somebody else was faster, and its errors are Modify's.
func (i Internal) Modify(ctx context.Context, k *kind.Kind, namespace, name string, fn func(meta.Object) error) error {
	return i.ModifyPart(ctx, k, namespace, name, "", fn)
}

// ModifyPart is Modify for a subresource that is a part of the object, "" for all of it.
func (i Internal) ModifyPart(ctx context.Context, k *kind.Kind, namespace, name, subresource string, fn func(meta.Object) error) error {
	q := i.request(ctx, k, namespace, name, subresource)
	o := &meta.WriteOptions{FieldManager: i.manager}
	return q.change(&change{
		options: o,
		scope:   q.part(),
		quiet:   true,
		track:   q.updates(o),
		build: func(next, _ *doc.Doc, obj *cache.Object) error {
			if err := q.v.Load(next, obj.Raw, obj.Rev); err != nil {
				return err
			}
			return fn(meta.Object{Doc: next})
		},
	})
}

// Apply applies a body to an object, or to its subresource, as a client would
// who insists (force).
func (i Internal) Apply(ctx context.Context, k *kind.Kind, namespace, name, subresource string, body []byte) error {
	q := i.request(ctx, k, namespace, name, subresource)
	m, err := i.h.managers.get(i.h, q.v)
	if err != nil {
		return err
	}
	config := &configuration{text: body, said: doc.Get()}
	defer config.release()
	if err := doc.Parse(config.said, body); err != nil {
		return status.BadRequest("error decoding patch: %v", err)
	}
	force := true
	c := q.applied(m, config, &meta.WriteOptions{FieldManager: i.manager, Force: &force})
	c.quiet = true
	return q.change(c)
}

// Note notes in managedFields that the manager has made next of live, by way of a subresource, "" for the object itself. It is for
// those who write to the store by themselves.
func (i Internal) Note(k *kind.Kind, subresource string, live, next *doc.Doc) error {
	q := i.request(context.Background(), k, "", "", subresource)
	m, err := i.h.managers.get(i.h, q.v)
	if err != nil {
		return err
	}
	return m.Update(live, next, q.writer(&meta.WriteOptions{FieldManager: i.manager}))
}

// Ensure creates an object of a body unless it exists.
func (i Internal) Ensure(ctx context.Context, k *kind.Kind, namespace, name string, body []byte) error {
	q := i.request(ctx, k, namespace, name, "")
	if l := q.live(); l.obj != nil {
		return nil
	}
	err := i.Create(ctx, k, namespace, name, body)
	if err != nil && status.From(err).Reason == metav1.StatusReasonAlreadyExists {
		return nil
	}
	return err
}

// Create creates an object of a body; AlreadyExists.
func (i Internal) Create(ctx context.Context, k *kind.Kind, namespace, name string, body []byte) error {
	q := i.request(ctx, k, namespace, name, "")
	d := doc.Get()
	defer d.Release()
	if _, err := q.v.Decode(d, body); err != nil {
		return err
	}
	o := &meta.WriteOptions{FieldManager: i.manager}
	_, err := q.insert(d, o, func(m *apply.Manager, _, next *doc.Doc) error { return m.Update(nil, next, q.writer(o)) })
	return err
}

// EnsureNamespace creates a namespace unless it exists.
func (h *Handler) EnsureNamespace(ctx context.Context, name string) error {
	k := h.Kinds.Load().Lookup("", "namespaces")
	if k == nil {
		return fmt.Errorf("namespace %s: namespaces are not served", name)
	}
	return h.As(ServerManager).Ensure(ctx, k, "", name, []byte(`{"apiVersion":"v1","kind":"Namespace","metadata":{"name":"`+name+`"}}`))
}
