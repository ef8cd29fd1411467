// Package objects has the verbs on stored objects: create, update, patch, apply, delete, and what
// subresources need. They know nothing of HTTP. Requests, controllers and tests call the same
// functions.
//
// # Model
//
// A verb is a method of [Verbs]. Its arguments are a context, a [Caller], a [Ref] and the change;
// it returns an [Outcome]. The Caller is the user and the client of the request: admission, the
// rules of the kind and managed fields see this identity. Whether the caller may do it at all is
// decided before; a verb only asks ([Client]) where an update or an apply creates the object. The
// Ref names the object and the version in which it is written and read. The Outcome has the result
// of the verb, its revision, the object and the warnings for the client.
//
// Verbs that start from a live object are an operation: [write.retry] tries it on the object as the
// cache knows it, and tries it again when the compare-and-swap of the store fails. An operation that
// is refused counts only if the object was current. A create has no live object; it is tried again
// only for another generated name.
//
// On its way to the store a new object passes these steps, in prepareCreate and prepareUpdate:
// managed fields, admission that mutates, what the kind fills in and resets, what only one object may
// have ([Claimer]), validation, admission that validates.
//
// A [Writer] is the verbs for one caller, in the form that the server's own parts use.
//
// # Invariants
//
//   - A step returns what it finds out. The next attempt does not see the findings of the last one.
//   - A write that changes nothing is not written.
//   - A write whose outcome the store does not know is not tried again.
//   - When an Outcome is returned, later reads and decisions of this server follow from the write.
package objects

import (
	"context"
	"strings"

	"k8s.io/apimachinery/pkg/api/validate/content"

	"github.com/keelson-io/keelson/internal/admission"
	"github.com/keelson-io/keelson/internal/authn"
	"github.com/keelson-io/keelson/internal/cache"
	"github.com/keelson-io/keelson/internal/meta"
	"github.com/keelson-io/keelson/internal/status"
	"github.com/keelson-io/keelson/internal/store"
	"github.com/keelson-io/keelson/jsondoc"
	"github.com/keelson-io/keelson/kind"
	"github.com/keelson-io/keelson/schema"
)

// Config is what Verbs work with. Kinds, Store and Cache are required.
type Config struct {
	Kinds *kind.Registry
	Store store.Store
	Cache *cache.Cache

	// Admission makes the steps that writes go through. If nil, the only step is the life cycle of
	// namespaces.
	Admission func(h admission.Host) *admission.Chain

	// Claimer gives services their addresses. If nil, services keep what they are created with.
	Claimer Claimer

	// Grow is asked before more is stored: whether n bytes of objects of a kind have room in the
	// server's memory. Privileged are writes of the server and of administrators. If nil, there is room.
	Grow func(k *kind.Kind, n int64, privileged bool) error

	// Own permits and records the writes of the server's own parts. If nil, they may do everything and
	// nothing is recorded.
	Own Own

	// AwaitDecisions waits, for a bounded time, until authorization and the served kinds follow from
	// a write to objects at a revision. It is called before the write's Outcome is returned. If nil,
	// nothing that is stored decides about requests.
	AwaitDecisions func(ctx context.Context, objects *cache.Resource, rev int64)

	// AwaitKinds waits, for a bounded time, until the served kinds follow from the definitions that
	// other servers wrote up to a revision, or up to now if it is negative. In any case they follow
	// from the definitions in the cache. If nil, there are no other servers.
	AwaitKinds func(ctx context.Context, rev int64)

	// MessagesUnused is called with the messageExpressions of an object's rules that failed, if there
	// are some. If nil, they are only in the Outcome.
	MessagesUnused func(v *kind.Version, unused []schema.UnusedMessage)
}

// Verbs are the verbs on stored objects. They are safe for concurrent use.
type Verbs struct {
	Config
	chain *admission.Chain
}

// New returns the verbs on the objects of a store.
func New(c Config) *Verbs {
	v := &Verbs{Config: c}
	if c.Admission != nil {
		v.chain = c.Admission(v)
		return v
	}
	v.chain = admission.NewChain(nil)
	v.chain.Mutates("NamespaceLifecycle", admission.NamespaceLifecycle(v))
	return v
}

// Chain returns the steps of admission, for objects that are sent to the server and not stored.
func (v *Verbs) Chain() *admission.Chain { return v.chain }

// Caller is the identity that a verb is for. [NewCaller] and [Server] make one. All verbs refuse the
// zero value.
type Caller struct {
	user   *authn.User
	agent  string
	client Client // nil: nobody asks or is told
	own    bool   // a part of the server
}

// NewCaller returns the caller of a request by user. agent is the client's User-Agent. It names the
// field manager of a write whose options name none. Without a client, the verb asks nobody and
// records no audit annotations.
func NewCaller(user *authn.User, agent string, client Client) Caller {
	return Caller{user: user, agent: agent, client: client}
}

// User returns who calls.
func (c Caller) User() *authn.User { return c.user }

// Client is what a verb asks of the one who called it, and reports to it, on the way.
type Client interface {
	// Annotate adds to the audit log.
	Annotate(key, value string)
	// AnnotateRequest adds to the audit log if its level includes the object that was sent.
	AnnotateRequest(key, value string)
	// MayCreate returns an error unless the caller may create the object that its update or apply
	// did not find.
	MayCreate() error
	// Work is called before the verb works on a live object of so many bytes. It may wait until
	// there is memory for that, or return the error that ends the verb.
	Work(bytes int) error
	// Validated is called with each object that was validated, whatever was found. The object is valid
	// until it returns.
	Validated(v *kind.Version, o schema.Validated)
}

// Ref names an object, or a part of it that is a subresource, in one version of its kind.
type Ref struct {
	Kind    *kind.Kind
	Version *kind.Version // that the object is written and read in

	Namespace   string // "" in cluster scope
	Name        string // "" for a new object whose name is in the document
	Subresource string // "" for the object itself
}

// RefTo names an object in the version that it is stored in.
func RefTo(k *kind.Kind, namespace, name string) Ref {
	return Ref{Kind: k, Version: k.Storage, Namespace: namespace, Name: name}
}

// Key returns the store key of the object.
func (r *Ref) Key() string { return r.Kind.Key(r.Namespace, r.Name) }

// behavior returns the behaviour of the object's kind.
func (r *Ref) behavior() *kind.Behavior { return &r.Kind.Behavior }

// CheckPathName refuses a name that cannot be a segment of a path.
func (r *Ref) CheckPathName() error {
	if r.Name != "." && r.Name != ".." && !strings.ContainsAny(r.Name, "/%") {
		return nil
	}
	return status.BadRequest("Name parameter invalid: %q: %s", r.Name, strings.Join(content.IsPathSegmentName(r.Name), ";"))
}

// CheckNamespace fills in the namespace of an object. It refuses an object that names another one.
func (r *Ref) CheckNamespace(obj meta.Object) error {
	switch have := obj.Namespace(); {
	case have == r.Namespace:
	case have == "":
		obj.SetNamespace(r.Namespace)
	case r.Namespace == "": // objects in cluster scope have none, whatever the client sent
		obj.Doc.Remove("metadata", "namespace")
	default:
		return status.BadRequest("the namespace of the provided object does not match the namespace sent on the request")
	}
	return nil
}

// checkName refuses an object of another name than the one that the caller names.
func (r *Ref) checkName(obj meta.Object) error {
	switch have := obj.Name(); {
	case have == "":
		return status.BadRequest("the name of the object (%s based on URL) was undeterminable: name must be provided", r.Name)
	case have != r.Name:
		return status.BadRequest("the name of the object (%s) does not match the name on the URL (%s)", have, r.Name)
	}
	return nil
}

// checkIdentity is CheckNamespace and checkName.
func (r *Ref) checkIdentity(obj meta.Object) error {
	if err := r.CheckNamespace(obj); err != nil {
		return err
	}
	return r.checkName(obj)
}

// notFound returns the error for an object that does not exist.
func (r *Ref) notFound() error { return status.NotFound(r.Kind.GroupResource(), r.Name) }

// Result is what a verb did.
type Result uint8

// The results.
const (
	Unchanged Result = iota // the object was already as the caller wants it, and was not written
	Created
	Updated
	Terminating // a delete was accepted: the object has a deletionTimestamp and waits for its finalizers or grace period
	Deleted     // the object is no longer in the store
)

// Outcome is what came of a verb. Release frees its document.
type Outcome struct {
	Result Result

	// Revision is the resource version of the object: of the write, or of the stored object if
	// nothing was written. It is 0 for the dry run of a create.
	Revision int64

	// Doc is the object as the write left it. It is nil if Result is Unchanged, and after a delete
	// that left no object to show.
	Doc *jsondoc.Doc

	// View is what the cache was given to serve for the object. It is nil if the cache renders the
	// object itself when it is read.
	View *meta.View

	// Object is the stored object if Result is Unchanged.
	Object *cache.Object

	UID string // of an object that a delete was about

	// Warnings are for the client. They are valid with an error, too.
	Warnings []string

	// Reasons say why rules refused the object, if the options ask for that. They come with an error.
	Reasons []schema.Reason

	// UnusedMessages are the messageExpressions of the object's rules that failed. They are valid with an
	// error, too.
	UnusedMessages []schema.UnusedMessage

	pooled bool // Doc goes back to its pool
}

// Changed reports whether the verb changed the object, or would have if it had been no dry run.
func (o *Outcome) Changed() bool { return o.Result != Unchanged }

// Release frees Doc. Nothing that refers to it may be used afterwards.
func (o *Outcome) Release() {
	if o.pooled {
		o.Doc.Release()
	}
	o.Doc, o.pooled = nil, false
}
