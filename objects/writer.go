package objects

import (
	"context"
	"fmt"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/keelson-io/keelson/apply"
	"github.com/keelson-io/keelson/authn"
	"github.com/keelson-io/keelson/cache"
	"github.com/keelson-io/keelson/jsondoc"
	"github.com/keelson-io/keelson/kind"
	"github.com/keelson-io/keelson/meta"
	"github.com/keelson-io/keelson/status"
)

// This file is what the server's own parts, such as controllers, do with objects.

// The field managers of what the server writes itself, as upstream's programs are named there.
const (
	ServerManager     = "kube-apiserver"
	ControllerManager = "kube-controller-manager"
)

// Server returns the server itself as a caller. Admission sees it as this user; nobody asks
// authorizers about it. Each call returns a user of its own, so that servers share nothing.
func Server() Caller {
	return NewCaller(&authn.User{Name: "system:apiserver", Groups: []string{authn.Masters, authn.Authenticated}}, "", nil)
}

// Writer does the verbs for one caller, with one field manager. Its methods use the version in
// which objects are stored.
type Writer struct {
	verbs   *Verbs
	caller  Caller
	manager string
}

// Writer returns a Writer for a caller, whose writes are recorded under a field manager.
func (v *Verbs) Writer(c Caller, manager string) Writer { return Writer{v, c, manager} }

// options returns the options of a write by this caller.
func (w Writer) options() *meta.WriteOptions { return &meta.WriteOptions{FieldManager: w.manager} }

// Delete deletes an object, with the propagation policy that is the default of its kind. An object
// that does not exist is no error.
func (w Writer) Delete(ctx context.Context, k *kind.Kind, namespace, name string) error {
	err := w.Remove(ctx, k, namespace, name, &meta.DeleteOptions{})
	if err != nil && status.From(err).Reason == metav1.StatusReasonNotFound {
		return nil
	}
	return err
}

// Remove deletes an object with options.
func (w Writer) Remove(ctx context.Context, k *kind.Kind, namespace, name string, o *meta.DeleteOptions) error {
	out, err := w.verbs.Delete(ctx, w.caller, RefTo(k, namespace, name), o)
	out.Release()
	return err
}

// Modify changes an object. fn makes the change. It is called again if another writer was faster; its
// errors are Modify's.
func (w Writer) Modify(ctx context.Context, k *kind.Kind, namespace, name string, fn func(meta.Object) error) error {
	return w.ModifyPart(ctx, k, namespace, name, "", fn)
}

// ModifyPart is Modify for a subresource that is a part of the object, "" for all of it.
func (w Writer) ModifyPart(ctx context.Context, k *kind.Kind, namespace, name, subresource string, fn func(meta.Object) error) error {
	ref := RefTo(k, namespace, name)
	// A write of a part cannot change the rest of the object.
	ref.Subresource = subresource
	out, err := w.verbs.Modify(ctx, w.caller, ref, w.options(), fn)
	out.Release()
	return err
}

// Apply applies a configuration, in JSON, to an object or its subresource, and becomes the owner of
// its fields even if other managers own them. An object that does not exist is an error.
func (w Writer) Apply(ctx context.Context, k *kind.Kind, namespace, name, subresource string, body []byte) error {
	ref := RefTo(k, namespace, name)
	ref.Subresource = subresource
	m, err := managerOf(ref.Version)
	if err != nil {
		return err
	}
	// The body is the server's own: it is JSON, without duplicate keys.
	config := &configuration{text: body, said: jsondoc.Get()}
	defer config.said.Release()
	if err := jsondoc.Parse(config.said, body); err != nil {
		return status.BadRequest("error decoding patch: %v", err)
	}
	// A controller owns its fields, even if others have set them before.
	o, force := w.options(), true
	o.Force = &force
	out, err := w.verbs.change(ctx, w.caller, ref, applied(m, config, ref.scope(), o))
	out.Release()
	return err
}

// Record records in managedFields of next that the manager made it of live through a subresource, ""
// for the object itself. It is for parts of the server that write to the store by themselves.
func (w Writer) Record(k *kind.Kind, subresource string, live, next *jsondoc.Doc) error {
	ref := RefTo(k, "", "")
	ref.Subresource = subresource
	return ref.RecordUpdate(w.caller, live, next, w.options())
}

// Ensure creates an object of a body unless it exists.
func (w Writer) Ensure(ctx context.Context, k *kind.Kind, namespace, name string, body []byte) error {
	// The look-up saves a write that would fail in nearly all cases.
	if _, ok := w.verbs.Cache.Resource(k.StoragePrefix).Newest(k.Key(namespace, name)); ok {
		return nil
	}
	_, err := w.Create(ctx, k, namespace, name, body)
	if err != nil && status.From(err).Reason == metav1.StatusReasonAlreadyExists {
		return nil
	}
	return err
}

// Create creates an object of a body, and returns its UID. It returns AlreadyExists if there is one.
func (w Writer) Create(ctx context.Context, k *kind.Kind, namespace, name string, body []byte) (uid string, err error) {
	// Decode fills in defaults, as for a client's body.
	d := jsondoc.Get()
	defer d.Release()
	ref := RefTo(k, namespace, name)
	if _, err := ref.Version.Decode(d, body); err != nil {
		return "", err
	}
	if _, err := w.verbs.Create(ctx, w.caller, ref, d, w.options()); err != nil {
		return "", err
	}
	return strings.Clone(meta.Object{Doc: d}.UID()), nil
}

// EnsureNamespace creates a namespace unless it exists.
func (w Writer) EnsureNamespace(ctx context.Context, name string) error {
	k := w.verbs.Kinds.Load().Lookup("", "namespaces")
	if k == nil {
		return fmt.Errorf("namespace %s: namespaces are not served", name)
	}
	return w.Ensure(ctx, k, "", name, []byte(`{"apiVersion":"v1","kind":"Namespace","metadata":{"name":"`+name+`"}}`))
}

// Modify changes an object, or its subresource, by fn, as an update does that names no resource
// version. fn is called again if another writer was faster; its errors are Modify's.
func (v *Verbs) Modify(ctx context.Context, c Caller, ref Ref, o *meta.WriteOptions, fn func(meta.Object) error) (Outcome, error) {
	return v.change(ctx, c, ref, &change{
		options: o,
		// There is no resource version to compare: fn decides by the object that it is given.
		scope: ref.scope(),
		track: (*apply.Manager).Update,
		build: func(w *write, next, _ *jsondoc.Doc, obj *cache.Object) (built, error) {
			if err := w.ref.Version.Load(next, obj.Raw, obj.Rev); err != nil {
				return built{}, err
			}
			return built{}, fn(meta.Object{Doc: next})
		},
	})
}

// rewrite changes an object by fn alone: by no rules of its kind, nor admission.
func (v *Verbs) rewrite(ctx context.Context, c Caller, ref Ref, dryRun bool, fn func(d *jsondoc.Doc, obj *cache.Object) error) (Outcome, error) {
	return v.change(ctx, c, ref, &change{
		options: &meta.WriteOptions{DryRun: dryRun},
		// The object stays valid: fn sets members that the server itself maintains.
		raw: true,
		build: func(w *write, next, _ *jsondoc.Doc, obj *cache.Object) (built, error) {
			if err := w.ref.Version.Load(next, obj.Raw, obj.Rev); err != nil {
				return built{}, err
			}
			return built{}, fn(next, obj)
		},
	})
}

// RecordUpdate records in managedFields of next that a caller made it of live, which is nil for a new
// object.
func (r *Ref) RecordUpdate(c Caller, live, next *jsondoc.Doc, o *meta.WriteOptions) error {
	m, err := managerOf(r.Version)
	if err != nil {
		return err
	}
	return m.Update(live, next, c.manager(r.Subresource, o, nil))
}
