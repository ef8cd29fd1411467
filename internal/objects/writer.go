package objects

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/keelson-io/keelson/internal/apply"
	"github.com/keelson-io/keelson/internal/authn"
	"github.com/keelson-io/keelson/internal/cache"
	"github.com/keelson-io/keelson/internal/meta"
	"github.com/keelson-io/keelson/internal/status"
	"github.com/keelson-io/keelson/jsondoc"
	"github.com/keelson-io/keelson/kind"
	"github.com/keelson-io/keelson/schema"
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
	return own("system:apiserver", authn.Masters)
}

// Controller returns a controller as a caller: the service account of its name, as in a cluster
// whose controllers have credentials of their own.
func Controller(name string) Caller {
	return own(authn.ServiceAccountName(metav1.NamespaceSystem, name), authn.ServiceAccountGroups(metav1.NamespaceSystem)...)
}

// Manager returns the program that runs the controllers as a caller, for controllers that act in
// its name in a cluster, too.
func Manager() Caller { return own("system:" + ControllerManager) }

// own returns a part of the server as a caller.
func own(name string, groups ...string) Caller {
	return Caller{user: &authn.User{Name: name, Groups: append(groups, authn.Authenticated)}, own: true}
}

// Own is told of the writes of the server's own parts.
type Own interface {
	// Begin permits a write and begins its record. The Entry is nil if the write is not recorded.
	Begin(w *OwnWrite) (Entry, error)
}

// OwnWrite is a write by a part of the server.
type OwnWrite struct {
	User    *authn.User
	Manager string // the field manager
	Verb    string // "create", "update", "patch", "delete" or "deletecollection"
	Ref     *Ref   // without a name if the write is of a collection
}

// Entry is the record of a write.
type Entry interface {
	// Annotate adds to the record.
	Annotate(key, value string)
	// AnnotateRequest adds to the record if its level includes the object that was sent.
	AnnotateRequest(key, value string)
	// End completes the record. sent returns what a client would have sent.
	End(out *Outcome, sent func() []byte, err error)
}

// Writer does the verbs for one caller, with one field manager. Its methods use the version in
// which objects are stored. What it does is permitted and recorded by [Config.Own].
type Writer struct {
	verbs   *Verbs
	caller  Caller
	manager string

	patches, admitted bool
}

// Writer returns a Writer for a caller, whose writes are recorded under a field manager.
func (v *Verbs) Writer(c Caller, manager string) Writer {
	return Writer{verbs: v, caller: c, manager: manager}
}

// Patches returns the same Writer, whose changes are patches in the record: upstream's part sends
// patches where this one changes an object by a function.
func (w Writer) Patches() Writer {
	w.patches = true
	return w
}

// Admitted returns the same Writer, whose deletions are a part of something that admission has seen.
func (w Writer) Admitted() Writer {
	w.admitted = true
	return w
}

// options returns the options of a write by this caller.
func (w Writer) options() *meta.WriteOptions { return &meta.WriteOptions{FieldManager: w.manager} }

// recorded is a write of the server's own parts on its way: the Client of its Caller.
type recorded struct {
	Writer
	write OwnWrite
	begun bool
	entry Entry // nil if the write is not recorded
	err   error // why it may not be made
}

// record returns the record of a write, which is not begun.
func (w Writer) record(verb string, ref *Ref) *recorded {
	r := &recorded{Writer: w, write: OwnWrite{User: w.caller.user, Manager: w.manager, Verb: verb, Ref: ref}}
	r.caller.client = r
	return r
}

// begin begins the record, once.
func (r *recorded) begin() error {
	if !r.begun && r.verbs.Own != nil {
		r.entry, r.err = r.verbs.Own.Begin(&r.write)
	}
	r.begun = true
	return r.err
}

// end completes the record, and frees out.
func (r *recorded) end(out *Outcome, sent func() []byte, err error) {
	if r.entry != nil {
		r.entry.End(out, sent, err)
	}
	out.Release()
}

// Annotate implements Client.
func (r *recorded) Annotate(key, value string) {
	if r.entry != nil {
		r.entry.Annotate(key, value)
	}
}

// AnnotateRequest implements Client.
func (r *recorded) AnnotateRequest(key, value string) {
	if r.entry != nil {
		r.entry.AnnotateRequest(key, value)
	}
}

// MayCreate implements Client.
func (*recorded) MayCreate() error { return nil }

// Work implements Client.
func (*recorded) Work(int) error { return nil }

// Validated implements Client.
func (*recorded) Validated(*kind.Version, schema.Validated) {}

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
	ref := RefTo(k, namespace, name)
	r := w.record("delete", &ref)
	if err := r.begin(); err != nil {
		return err
	}
	out, err := w.verbs.delete(ctx, r.caller, ref, &deletion{options: o, admitted: w.admitted})
	r.end(&out, func() []byte { return deleteOptions(o) }, err)
	return err
}

// deleteOptions returns options as a client sends them.
func deleteOptions(o *meta.DeleteOptions) []byte {
	sent := metav1.DeleteOptions{TypeMeta: metav1.TypeMeta{Kind: "DeleteOptions", APIVersion: "v1"}}
	if o.UID != nil || o.ResourceVersion != nil {
		sent.Preconditions = &metav1.Preconditions{UID: (*types.UID)(o.UID), ResourceVersion: o.ResourceVersion}
	}
	if o.PropagationPolicy != "" {
		sent.PropagationPolicy = (*metav1.DeletionPropagation)(&o.PropagationPolicy)
	}
	text, err := json.Marshal(&sent)
	if err != nil {
		panic("BUG: options do not marshal: " + err.Error())
	}
	return text
}

// DeleteAll deletes the objects of a namespace whose names each passes on, as one request for the
// collection.
func (w Writer) DeleteAll(ctx context.Context, k *kind.Kind, namespace string, each func(func(name string) error) error) error {
	ref := RefTo(k, namespace, "")
	r := w.record("deletecollection", &ref)
	if err := r.begin(); err != nil {
		return err
	}
	o := &meta.DeleteOptions{}
	_, err := w.verbs.DeleteCollection(ctx, r.caller, ref, o, func(found func(*cache.Object) error) error {
		return each(func(name string) error { return found(&cache.Object{Key: k.Key(namespace, name)}) })
	})
	r.end(&Outcome{Result: Deleted}, func() []byte { return deleteOptions(o) }, err)
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
	verb := "update"
	if w.patches {
		verb = "patch"
	}
	r := w.record(verb, &ref)
	out, err := w.verbs.Modify(ctx, r.caller, ref, w.options(), func(o meta.Object) error {
		if err := fn(o); err != nil {
			return err
		}
		return r.begin() // there is something to write
	})
	r.end(&out, nil, err)
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
	r := w.record("patch", &ref)
	if err := r.begin(); err != nil {
		return err
	}
	// A controller owns its fields, even if others have set them before.
	o, force := w.options(), true
	o.Force = &force
	out, err := w.verbs.change(ctx, r.caller, ref, applied(m, config, ref.scope(), o))
	r.end(&out, func() []byte { return body }, err)
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
	r := w.record("create", &ref)
	if err := r.begin(); err != nil {
		return "", err
	}
	out, err := w.verbs.Create(ctx, r.caller, ref, d, w.options())
	r.end(&out, func() []byte { return body }, err)
	if err != nil {
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
