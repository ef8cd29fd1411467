package kind

import (
	"context"
	"time"

	"k8s.io/apimachinery/pkg/runtime"

	"github.com/keelson-io/keelson/doc"
	"github.com/keelson-io/keelson/schema"
	"github.com/keelson-io/keelson/schema/structural"
)

// This file defines the hooks of built-in kinds and lists these kinds.

// Builtin is what a built-in kind does beyond its schema. A nil hook does
// nothing. Callers use the methods of Version, which call the hooks that
// concern decoding, preparing and validating.
type Builtin struct {
	// AllowUnconditionalUpdate: an update need not name a resource version.
	AllowUnconditionalUpdate bool
	// CreateOnUpdate: an update of what does not exist creates it.
	CreateOnUpdate bool
	// OneByOne: objects can only be deleted by name.
	OneByOne bool
	// Virtual kinds are not stored: a create is answered, nothing else is served.
	Virtual bool
	// Orphans: who deletes an object and does not say what is to become of its dependents keeps them.
	Orphans bool
	// OrphanWarning is what they are told, "" for nothing.
	OrphanWarning string
	// CreateAs notes in a new object who creates it; nil if objects do not say.
	CreateAs func(d *doc.Doc, by *Requester)
	// Unowned: an object has no dependents, so that nothing can be said of them who deletes it.
	Unowned bool
	// Undirected: who deletes an object for the first time cannot say what is to become of its dependents.
	Undirected bool
	// Returned: who deletes an object is answered with it, even if it is gone.
	Returned bool
	// StoredAs is the version that upstream stores objects in, where that is another one: discovery tells a hash of it.
	StoredAs string
	// Counts is a member of the metadata whose changes count for the generation; "": none.
	Counts string
	// Uncounted: an object keeps its first generation.
	Uncounted bool
	// StatusMetadata: metadata may be written together with the status, but for the members StatusKeeps.
	StatusMetadata bool
	StatusKeeps    []string
	// Resets are the members, such as status.conditions, that an endpoint does not change: by subresource, "" being the object itself. Nil: as
	// of other kinds.
	Resets map[string][]string
	// Listed makes the objects of a kind of which nothing is stored, because they follow from what is served; nil if the kind is
	// stored. They can be read, and not be watched or written.
	Listed func(s *Snapshot) []ListedObject
	// Claims: objects get something that the server has to give to one of them only, such as an address.
	Claims bool
	// Subresources besides status and scale.
	Subresources []Subresource
	// New makes an object of the Go type that publishes the version: it reads
	// and writes protobuf, and its tags say how strategic merge patches treat
	// its lists. Nil if there is none.
	New func(v *Version) runtime.Object

	Decode func(v *Version, d *doc.Doc, src []byte) (schema.Found, error)
	Strict func(v *Version, src []byte) []string
	Load   func(v *Version, raw []byte) ([]byte, error) // older storage forms to this version's
	// Encode prints the storage form, if it is not this version's.
	Encode func(d *doc.Doc) ([]byte, error)
	// Convert turns the text of an object into that of another version, which
	// is all but the apiVersion the same if there is no such hook.
	Convert        func(text []byte, to *Version) ([]byte, error)
	PrepareCreate  func(d *doc.Doc)
	PrepareUpdate  func(new, old *doc.Doc, scope schema.Scope)
	Validate       func(ctx context.Context, v *Version, d *doc.Doc) schema.Result
	ValidateUpdate func(ctx context.Context, v *Version, new, old *doc.Doc, scope schema.Scope) schema.Result
	// Delete changes an object whose deletion is asked for for the first time,
	// instead of removing it; it reports whether it did. The change is to be
	// stored.
	Delete func(d *doc.Doc, now string) bool
	// Grace is how many seconds an object is to live on after its deletion is
	// asked for; asked is nil if the request does not say. 0: none at all.
	Grace func(d *doc.Doc, asked *int64) int64
	// TTL is how long objects live after they were written, 0: for ever.
	TTL time.Duration
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

// Foreign reports whether the subresource has a kind of its own.
func (s *Subresource) Foreign() bool { return s.Version != nil }

// Subresource is the subresource of that name, nil if there is none.
func (b *Builtin) Subresource(name string) *Subresource {
	if b == nil {
		return nil
	}
	for i := range b.Subresources {
		if b.Subresources[i].Name == name {
			return &b.Subresources[i]
		}
	}
	return nil
}

// Finalize is the scope of an update of a namespace's finalize subresource.
const Finalize = schema.Status + 1

// Builtins are the kinds that this package itself works with; package builtin
// has all of them.
func Builtins() []*Kind {
	return []*Kind{namespaces(), definitions(), apiServices()}
}

// ListedObject is an object of a cluster-wide kind, as JSON without a resource version.
type ListedObject struct {
	Name string
	Text []byte
}

// newBuiltin makes a kind of one version.
func newBuiltin(k Kind, version string, s *structural.Schema, fields []Selectable, columns ...Column) *Kind {
	p, err := schema.Compile(s, schema.Options{Resource: true})
	if err != nil {
		panic("BUG: schema of " + k.Name + ": " + err.Error())
	}
	k.ListKind = k.Name + "List"
	k.Established = true
	kind := &k
	v := &Version{
		Kind: kind, Name: version, Schema: p, Structural: Fixed(s),
		Served: true, IsStorage: true, Status: true, Columns: columns, SelectableFields: fields,
	}
	kind.All, kind.Versions, kind.Storage = []*Version{v}, []*Version{v}, v
	return kind
}

// The rest makes schemas of built-in kinds shorter to write.

func structOf(properties map[string]*structural.Schema) *structural.Schema {
	return &structural.Schema{Type: "object", Properties: properties, Names: sortedKeys(properties)}
}

func text() *structural.Schema { return &structural.Schema{Type: "string"} }

func moment() *structural.Schema {
	return &structural.Schema{Type: "string", Format: "date-time", Nullable: true}
}

func list(item *structural.Schema) *structural.Schema {
	return &structural.Schema{Type: "array", Items: item, ListType: "atomic", Nullable: true}
}

// conditions are a list of conditions by type, with the given fields more.
func conditions(more map[string]*structural.Schema) *structural.Schema {
	fields := map[string]*structural.Schema{
		"type": text(), "status": text(), "reason": text(), "message": text(), "lastTransitionTime": moment(),
	}
	for name, s := range more {
		fields[name] = s
	}
	item := structOf(fields)
	item.Values = &structural.Values{Required: []string{"type", "status"}}
	return &structural.Schema{Type: "array", Items: item, ListType: "map", ListMapKeys: []string{"type"}, Nullable: true}
}
