package kind

import (
	"context"
	"time"

	"k8s.io/apimachinery/pkg/runtime"

	"github.com/keelson-io/keelson/jsondoc"
	"github.com/keelson-io/keelson/schema"
	"github.com/keelson-io/keelson/schema/structural"
)

// This file defines Behavior.

// Behavior is what a kind does beyond its schema. The zero value is that of custom resources: fields
// that are false, empty or nil change nothing. Callers use the methods of Version, which call the hooks that
// concern decoding, preparing and validating.
type Behavior struct {
	// IsBuiltin: the kind is a part of the server. The methods in traits.go say what follows from it.
	IsBuiltin bool

	// Requests that the kind takes:

	// Virtual: objects are not stored. A create is answered, nothing else is served.
	Virtual bool
	// Listed returns the objects of a kind of which nothing is stored, because they follow from what is
	// served. They can be read, and not be watched or written.
	Listed func(s *Snapshot) []ListedObject
	// OneByOne: objects can only be deleted by name.
	OneByOne bool
	// CreateOnUpdate: an update of a missing object creates it.
	CreateOnUpdate bool
	// AllowUnconditionalUpdate: an update need not name a resource version.
	AllowUnconditionalUpdate bool
	// Subresources besides status and scale.
	Subresources []Subresource
	// New returns an empty object of the Go type that publishes the version: it reads
	// and writes protobuf, and its tags say how strategic merge patches treat its lists.
	New func(v *Version) runtime.Object
	// StoredAs is the version that upstream stores objects in, if it differs; discovery has a hash of it.
	StoredAs string

	// What an endpoint writes:

	// GenerationMember names a member of the metadata, such as labels, whose changes raise the
	// generation like those of the spec. "" means that none does.
	GenerationMember string
	// FixedGeneration: an object keeps its first generation.
	FixedGeneration bool
	// StatusMetadata: a write of the status may change metadata, except the members StatusKeeps.
	StatusMetadata bool
	StatusKeeps    []string
	// Resets are the members, such as status.conditions, that an endpoint does not change: by subresource, "" being
	// the object itself. Nil: those of custom resources.
	Resets map[string][]string
	// CreateAs sets the fields of a new object that name its creator.
	CreateAs func(d *jsondoc.Doc, by *Requester)
	// Allocates: a write allocates values that no other object may have, such as an address.
	Allocates bool
	// TTL is how long objects live after they were written, 0: for ever.
	TTL time.Duration

	// Deletion:

	// DefaultOrphan: a delete without a propagation policy orphans dependents.
	DefaultOrphan bool
	// OrphanWarning is the warning of such a delete.
	OrphanWarning string
	// NoDependents: objects of this kind own nothing; propagation policies are ignored.
	NoDependents bool
	// IgnoresFirstPolicy: the propagation policy of the first delete of an object is ignored.
	IgnoresFirstPolicy bool
	// DeleteReturnsObject: the response to a delete is the deleted object, not a Status.
	DeleteReturnsObject bool
	// Delete changes an object that is deleted for the first time,
	// instead of removing it, and reports whether it did. The change is stored.
	Delete func(d *jsondoc.Doc, now string) bool
	// Grace returns for how many seconds an object lives on after it was deleted;
	// asked is nil if the request does not say. 0: not at all.
	Grace func(d *jsondoc.Doc, asked *int64) int64

	// Hooks of the way of an object, in its order:

	Decode func(v *Version, d *jsondoc.Doc, src []byte) (schema.Found, error)
	Strict func(v *Version, src []byte) []string
	// Load turns older stored forms into the one of the version.
	Load          func(v *Version, raw []byte) ([]byte, error)
	PrepareCreate func(d *jsondoc.Doc)
	// Named sets the fields that depend on the generated name of a new object. It runs for each
	// name that is tried.
	Named          func(d *jsondoc.Doc)
	PrepareUpdate  func(new, old *jsondoc.Doc, scope schema.Scope)
	Validate       func(ctx context.Context, v *Version, d *jsondoc.Doc) schema.Result
	ValidateUpdate func(ctx context.Context, v *Version, new, old *jsondoc.Doc, scope schema.Scope) schema.Result
	// Convert turns the text of an object into that of another version. Nil: only the apiVersion differs.
	Convert func(text []byte, to *Version) ([]byte, error)
	// Encode prints the stored form. Nil: it is that of the storage version.
	Encode func(d *jsondoc.Doc) ([]byte, error)
}

// Requester is who a request is from.
type Requester struct {
	Name, UID string
	Groups    []string
	Extra     map[string][]string
}

// Subresource is a subresource of a built-in kind.
type Subresource struct {
	Name  string
	Verbs []string // get, patch and update, or create
	// Version is that of what is sent and answered, where that is not the
	// object itself.
	Version *Version
	// Scope is the part of the object that it is.
	Scope schema.Scope
}

// HasOwnKind reports whether the subresource has another kind than its object.
func (s *Subresource) HasOwnKind() bool { return s.Version != nil }

// IsStored reports whether there are stored objects of the kind.
func (b *Behavior) IsStored() bool { return !b.Virtual && b.Listed == nil }

// Subresource is the subresource of that name, nil if there is none.
func (b *Behavior) Subresource(name string) *Subresource {
	for i := range b.Subresources {
		if b.Subresources[i].Name == name {
			return &b.Subresources[i]
		}
	}
	return nil
}

// Finalize is the scope of an update of a namespace's finalize subresource.
const Finalize = schema.Status + 1

// ListedObject is an object of a cluster-wide kind, as JSON without a resource version.
type ListedObject struct {
	Name string
	Text []byte
}

// SetBehavior makes k a built-in kind that behaves like b.
func (k *Kind) SetBehavior(b Behavior) {
	b.IsBuiltin = true
	k.Behavior = b
}

// NewBuiltin makes a built-in kind of one version, whose schema is s.
func NewBuiltin(k Kind, version string, s *structural.Schema, fields []Selectable, columns ...Column) *Kind {
	p, err := schema.Compile(s, schema.Options{Resource: true})
	if err != nil {
		panic("BUG: schema of " + k.Name + ": " + err.Error())
	}
	k.ListKind = k.Name + "List"
	k.Established = true
	kind := &k
	kind.SetBehavior(k.Behavior)
	v := &Version{
		Kind: kind, Name: version, Schema: p, Structural: Fixed(s),
		Served: true, IsStorage: true, Status: true, Columns: columns, SelectableFields: fields,
		Attachments: new(Attachments),
	}
	kind.All, kind.Versions, kind.Storage = []*Version{v}, []*Version{v}, v
	return kind
}
