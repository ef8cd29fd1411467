package kind

import (
	"context"
	"reflect"
	"time"

	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/keelson-io/keelson/jsondoc"
	"github.com/keelson-io/keelson/schema"
	"github.com/keelson-io/keelson/schema/structural"
)

// This file defines Behavior, the hooks and flags with which a kind differs from custom resources.

// Behavior describes how a kind differs from custom resources, apart from its schema. The zero
// value is the behavior of custom resources: a field that is false, empty or nil changes nothing.
// Callers use the methods of Version, which call the hooks for decoding, preparing and validating.
type Behavior struct {
	// IsBuiltin: the server itself declares the kind, not a definition. The methods in traits.go
	// give the consequences.
	IsBuiltin bool

	// Supported requests:

	// Virtual: objects are not stored. A create is answered, for example a SubjectAccessReview;
	// other verbs are not served.
	Virtual bool
	// Listed makes the objects of a kind that stores nothing, because its objects follow from the
	// served kinds, such as APIServices, or from the state of the server. They can be read, but not
	// watched or written. Nil for other kinds.
	Listed *Listed
	// OneByOne: objects can only be deleted by name; deletecollection is not served.
	OneByOne bool
	// CreateOnUpdate: an update of a missing object creates it.
	CreateOnUpdate bool
	// AllowUnconditionalUpdate: an update need not name a resource version.
	AllowUnconditionalUpdate bool
	// Subresources are the subresources besides status and scale.
	Subresources []Subresource
	// GoType returns the Go type that upstream publishes for the version. Its objects read and write
	// protobuf, and its struct tags say how strategic merge patches treat lists. Nil if there is no
	// such type.
	GoType func(v *Version) *GoType
	// BodyVersions lists API versions, such as policy/v1beta1, that a body may name instead of its
	// version's own. Their fields are the same.
	BodyVersions []string
	// PrintType is the type whose fields give the order in which members are printed. Nil means
	// GoType.
	PrintType reflect.Type
	// StoredAs is the name of the version in which upstream stores objects, "" for Storage.
	// Discovery publishes a hash of it (storageVersionHash).
	StoredAs string

	// Which parts of an object a write changes:

	// GenerationMember names a member of the metadata, such as labels, whose changes raise the
	// generation like those of the spec. "" means that none does.
	GenerationMember string
	// FixedGeneration: updates leave the generation as it is.
	FixedGeneration bool
	// StatusMetadata: a write of the status subresource may also change metadata, except for the
	// members in StatusKeeps.
	StatusMetadata bool
	StatusKeeps    []string
	// Resets lists the members, such as status.conditions, that a write through an endpoint leaves
	// as they are. The key is the name of the subresource, "" for the object itself. Nil: as for
	// custom resources.
	Resets map[string][]string
	// CreateAs sets the fields of a new object that name its creator.
	CreateAs func(d *jsondoc.Doc, by *Requester)
	// Allocates: a write reserves values that no two objects may share, such as an address.
	Allocates bool
	// TTL is how long an object lives after its last write. 0 means without limit.
	TTL time.Duration

	// Deletion:

	// DefaultOrphan: a delete without a propagation policy orphans dependents.
	DefaultOrphan bool
	// OrphanWarning is the warning that is sent when DefaultOrphan applied. "" means no warning.
	OrphanWarning string
	// NoDependents: objects of this kind own nothing; propagation policies are ignored.
	NoDependents bool
	// IgnoresFirstPolicy: the propagation policy of the first delete of an object is ignored.
	IgnoresFirstPolicy bool
	// DeleteReturnsObject: the response to a delete is the deleted object, not a Status.
	DeleteReturnsObject bool
	// Delete is called for the first delete of an object. If it returns true, the object is not
	// removed: d, which it changed, is stored. now is the time of the delete in RFC 3339.
	Delete func(d *jsondoc.Doc, now string) bool
	// Grace returns the grace period of a delete in seconds; with 0 the object is removed at once.
	// asked is the request's gracePeriodSeconds, nil if it has none.
	Grace func(d *jsondoc.Doc, asked *int64) int64

	// Hooks that replace the steps of a request, in the order of the steps. A nil hook means the
	// step as for custom resources, which the method of Version with the same name describes.

	Decode func(v *Version, d *jsondoc.Doc, src []byte) (schema.Found, error)
	Strict func(v *Version, src []byte) []jsondoc.StrictError
	// Load converts bytes that an older release or Kubernetes stored to the present form of the
	// version.
	Load          func(v *Version, raw []byte) ([]byte, error)
	PrepareCreate func(d *jsondoc.Doc)
	// Named sets the fields that depend on the generated name of a new object. It runs once for
	// each name that the server tries.
	Named          func(d *jsondoc.Doc)
	PrepareUpdate  func(new, old *jsondoc.Doc, scope schema.Scope)
	Validate       func(ctx context.Context, v *Version, d *jsondoc.Doc) schema.Result
	ValidateUpdate func(ctx context.Context, v *Version, new, old *jsondoc.Doc, scope schema.Scope) schema.Result
	// CheckStored compares a valid update with what else is stored. It returns the errors of the
	// update, or an error if the store could not be read in time. Nil: nothing is compared.
	CheckStored func(ctx context.Context, new, old *jsondoc.Doc, scope schema.Scope) (field.ErrorList, error)
	// Convert returns the JSON text of an object in another version. Nil: the versions differ only
	// in apiVersion.
	Convert func(text []byte, to *Version) ([]byte, error)
	// Encode prints the object as it is stored. Nil: as JSON in the storage version.
	Encode func(d *jsondoc.Doc) ([]byte, error)
}

// Requester is the user who sent a request.
type Requester struct {
	Name, UID string
	Groups    []string
	Extra     map[string][]string
}

// Subresource is a subresource of a built-in kind.
type Subresource struct {
	Name  string
	Verbs []string // get, patch and update, or create
	// Version is the type of the body and of the response, nil if it is the object itself.
	Version *Version
	// Scope is the part of the object that the subresource writes.
	Scope schema.Scope
}

// HasOwnKind reports whether the subresource is sent as another kind than the object's, such as
// Scale.
func (s *Subresource) HasOwnKind() bool { return s.Version != nil }

// IsStored reports whether objects of the kind are in the store.
func (b *Behavior) IsStored() bool { return !b.Virtual && b.Listed == nil }

// Subresource returns the subresource with that name, nil if there is none.
func (b *Behavior) Subresource(name string) *Subresource {
	for i := range b.Subresources {
		if b.Subresources[i].Name == name {
			return &b.Subresources[i]
		}
	}
	return nil
}

// Finalize is the scope of an update through a namespace's finalize subresource.
const Finalize = schema.Status + 1

// Listed makes the objects of a cluster-wide kind of which nothing is stored.
type Listed struct {
	// Objects returns all of them, in order.
	Objects func(ctx context.Context, s ListedSource) []ListedObject
	Missing string // the resource's name in the error about a missing object; "": the plural
	Refusal string // why objects cannot be written, after the resource's name; "": upstream's text
}

// ListedSource is what listed objects are made from.
type ListedSource struct {
	Kinds *Snapshot
	// Check runs the health check of that name. It returns nil if there is none.
	Check func(ctx context.Context, name string) error
}

// ListedObject is an object of a cluster-wide kind, as JSON without a resource version.
type ListedObject struct {
	Name string
	Text []byte
}

// SetBehavior turns k into a built-in kind with behavior b.
func (k *Kind) SetBehavior(b Behavior) {
	b.IsBuiltin = true
	k.Behavior = b
}

// NewBuiltin returns a built-in kind of one version with schema s. The schema is part of the
// program, so an error in it panics.
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
