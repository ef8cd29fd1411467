package kind

import (
	"context"
	"reflect"
	"time"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/keelson-io/keelson/jsondoc"
	"github.com/keelson-io/keelson/schema"
)

// This file defines Traits. Its methods of Behavior are the ways in which upstream serves built-in
// kinds and custom resources differently. Upstream installs routes for each version of a built-in kind, whose objects have a
// Go type. One handler serves all custom resources, whose objects are maps.

// Traits are the differences from custom resources that a built-in kind declares.
type Traits struct {
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
	// RequireResourceVersion: an update must name a resource version, as for custom resources.
	RequireResourceVersion bool
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
	// StatusKeeps lists the members of metadata that a write of the status subresource leaves as they
	// are. It may change the others. StatusWritesMetadata reports whether any are left.
	StatusKeeps []string
	// Resets lists the members, such as status.conditions, that a write through an endpoint leaves
	// as they are. The key is the name of the subresource, "" for the object itself. Nil: as for
	// custom resources.
	Resets map[string][]string
	// CreateAs sets the fields of a new object that name its creator.
	CreateAs func(d *jsondoc.Doc, by *Requester)
	// Named sets the fields that depend on the generated name of a new object. It runs once for
	// each name that the server tries.
	Named func(d *jsondoc.Doc)
	// Allocates: a write reserves values that no two objects may share, such as an address.
	Allocates bool
	// TTL is how long an object lives after its last write. 0 means without limit.
	TTL time.Duration

	// Checks and conversions:

	// CheckStored compares a valid update with what else is stored. It returns the errors of the
	// update, or an error if the store could not be read in time. Nil: nothing is compared.
	CheckStored func(ctx context.Context, new, old *jsondoc.Doc, scope schema.Scope) (field.ErrorList, error)
	// Convert returns the JSON text of an object in another version. Nil: the versions differ only
	// in apiVersion.
	Convert func(text []byte, to *Version) ([]byte, error)
	// Encode prints the object as it is stored. Nil: as JSON in the storage version.
	Encode func(d *jsondoc.Doc) ([]byte, error)

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
}

// WritableMetadata lists the members of metadata that clients can write.
var WritableMetadata = []string{"labels", "annotations", "finalizers", "ownerReferences"}

// HasRoutes reports whether upstream's router knows each path, method and media type of the kind,
// and refuses all others before it looks at the object.
func (b *Behavior) HasRoutes() bool { return b.IsBuiltin }

// DecodesIntoType reports whether a body is decoded into the type of the endpoint, even if it names
// another kind. If not, it becomes an object of the kind that it names, and a later check refuses
// it.
func (b *Behavior) DecodesIntoType() bool { return b.IsBuiltin }

// AllowsUnconditionalUpdate reports whether an update may leave out the resource version.
func (b *Behavior) AllowsUnconditionalUpdate() bool { return b.IsBuiltin && !b.RequireResourceVersion }

// StatusWritesMetadata reports whether a write of the status subresource may also change metadata
// that clients can write.
func (b *Behavior) StatusWritesMetadata() bool {
	return b.IsBuiltin && len(b.StatusKeeps) < len(WritableMetadata)
}

// FollowsSchema reports whether the schema alone determines the result of reading stored bytes. If
// not, hooks may change the object, and versions may differ in more than their schema.
func (b *Behavior) FollowsSchema() bool { return !b.IsBuiltin }

// WarnsOfFinalizers reports whether finalizers whose names may clash cause warnings. Built-in kinds
// accept them, or refuse them.
func (b *Behavior) WarnsOfFinalizers() bool { return !b.IsBuiltin }

// ValidatesScales reports whether a written Scale is validated as a Scale. If not, the object with
// the new number of replicas is validated.
func (b *Behavior) ValidatesScales() bool { return b.IsBuiltin }

// HasPrinter reports whether Go code prints the cells of tables. If not, columns have JSON paths.
func (b *Behavior) HasPrinter() bool { return b.IsBuiltin }

// HasGoType reports whether upstream publishes a Go type for the versions. Such objects can be read
// and written in protobuf, and members that the type always prints are always present.
func (b *Behavior) HasGoType() bool { return b.GoType != nil }

// NewTyped returns an empty object of the Go type of the version. The kind must have Go types.
func (v *Version) NewTyped() runtime.Object { return v.Kind.Behavior.GoType(v).New() }

// DropsLostVersions reports whether managed fields of a version that the kind does not have are
// dropped. Those of custom resources must be rewritten before the definition drops their version.
func (b *Behavior) DropsLostVersions() bool { return b.IsBuiltin }

// MayHavePlugins reports whether some admission plugins are only for this kind.
func (b *Behavior) MayHavePlugins() bool { return b.IsBuiltin }

// PrintsGoType reports whether objects and lists are printed as a Go type: members are in the order
// of its fields, and items of lists omit kind and apiVersion. If not, members are sorted by name.
func (b *Behavior) PrintsGoType() bool { return b.IsBuiltin }
