package kind

import (
	"context"

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
	// Subresources besides status, such as finalize.
	Subresources []string

	Decode         func(v *Version, d *doc.Doc, src []byte) (schema.Found, error)
	Strict         func(v *Version, src []byte) []string
	Load           func(v *Version, raw []byte) ([]byte, error) // older storage forms to this version's
	PrepareCreate  func(d *doc.Doc)
	PrepareUpdate  func(new, old *doc.Doc, scope schema.Scope)
	Validate       func(ctx context.Context, d *doc.Doc) schema.Result
	ValidateUpdate func(ctx context.Context, new, old *doc.Doc, scope schema.Scope) schema.Result
	// Delete changes an object whose deletion is asked for for the first time,
	// instead of removing it; it reports whether it did. The change is to be
	// stored.
	Delete func(d *doc.Doc, now string) bool
	// Fields are the selectable fields besides metadata.name and
	// metadata.namespace.
	Fields []Selectable
}

// Finalize is the scope of an update of a namespace's finalize subresource.
const Finalize = schema.Status + 1

// Builtins are the kinds that are always there.
func Builtins() []*Kind {
	return []*Kind{namespaces(), definitions()}
}

// newBuiltin makes a kind of one version.
func newBuiltin(k Kind, version string, s *structural.Schema, columns ...Column) *Kind {
	p, err := schema.Compile(s, schema.Options{Resource: true})
	if err != nil {
		panic("BUG: schema of " + k.Name + ": " + err.Error())
	}
	k.ListKind = k.Name + "List"
	k.Established = true
	kind := &k
	v := &Version{
		Kind: kind, Name: version, Schema: p, Structural: s,
		Served: true, IsStorage: true, Status: true, Columns: columns, SelectableFields: k.Builtin.Fields,
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
