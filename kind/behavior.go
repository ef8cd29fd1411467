package kind

import (
	"context"

	"github.com/keelson-io/keelson/jsondoc"
	"github.com/keelson-io/keelson/schema"
	"github.com/keelson-io/keelson/schema/structural"
)

// This file defines Behavior, by which a kind differs from custom resources.

// Behavior describes how a kind differs from custom resources, apart from its schema. The zero
// value is the behavior of custom resources: a field that is false, empty or nil changes nothing.
// Callers use the methods of Version, which call the hooks for decoding, preparing and validating.
//
// The fields beside Traits follow from the other parts of a built-in kind's description, such as
// its Go type.
type Behavior struct {
	Traits

	// IsBuiltin: the server itself declares the kind, not a definition. The methods in traits.go
	// give the consequences.
	IsBuiltin bool
	// Subresources are the subresources besides status and scale.
	Subresources []Subresource
	// GoType returns the Go type that upstream publishes for the version. Its objects read and write
	// protobuf, and its struct tags say how strategic merge patches treat lists. Nil if there is no
	// such type.
	GoType func(v *Version) *GoType

	// Hooks that replace the steps of a request, in the order of the steps. A nil hook means the
	// step as for custom resources, which the method of Version with the same name describes.

	Decode func(v *Version, d *jsondoc.Doc, src []byte) (schema.Found, error)
	Strict func(v *Version, src []byte) []jsondoc.StrictError
	// Load converts bytes that an older release or Kubernetes stored to the present form of the
	// version.
	Load           func(v *Version, raw []byte) ([]byte, error)
	PrepareCreate  func(d *jsondoc.Doc)
	PrepareUpdate  func(new, old *jsondoc.Doc, scope schema.Scope)
	Validate       func(ctx context.Context, v *Version, d *jsondoc.Doc) schema.Result
	ValidateUpdate func(ctx context.Context, v *Version, new, old *jsondoc.Doc, scope schema.Scope) schema.Result
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
