// Package kind has the kinds of objects and the registry of those that are served.
//
// # Terms
//
// A [Kind] is a resource type: its names, scope and [Version]s. A Version is
// what requests work with: it decodes, validates, encodes and renders objects.
// A [Snapshot] is the set of kinds at one moment; the [Registry] holds the
// current one. Package crd compiles definitions to Kinds, package builtin has the built-in ones:
// data as well, with hooks ([Behavior]) where a kind is more than a schema.
//
// # Invariants
//
//   - Kinds, Versions and Snapshots never change once made. A changed
//     definition is compiled to a new Kind.
//   - The cost of Put does not depend on how many kinds there are.
//   - No definition replaces or removes a built-in kind, or has its store keys.
//   - What [Version.Encode] of the storage version writes, [Version.Render] of it
//     serves without a difference, unless the definition changed in between.
//   - Defaults are filled in by the version that a body is written in and by the
//     version that an object is stored in, and never by one it is converted to.
//
// # Use
//
// To check objects, take a Version of a Kind, and for each object [Version.Decode] the bytes and
// [Version.Validate] the document: the errors have paths and are those of a
// server. [Version.Strict] says what Decode dropped.
//
// To serve them, make a [NewRegistry] of the built-in kinds, [Registry.Put] the
// others, [Registry.Load] once a request and [Snapshot.Lookup] in it.
package kind

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"sync"
	"time"

	apiextv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/keelson-io/keelson/jsondoc"
	"github.com/keelson-io/keelson/meta"
	kschema "github.com/keelson-io/keelson/schema"
	"github.com/keelson-io/keelson/schema/structural"
)

// This file defines Kind and Version.

// Kind is a resource type.
type Kind struct {
	Group, Plural, Singular string
	Name                    string // the kind's name, such as HTTPRoute
	ListKind                string
	ShortNames, Categories  []string
	Namespaced              bool

	UID        string // of the definition; "" for built-in kinds
	Generation int64  // of the definition

	Established bool // the definition's condition; built-in kinds are
	Terminating bool // the definition is being deleted: nothing may be created

	Versions []*Version // the served ones, in discovery order: the first is preferred
	All      []*Version // all of them, as the definition lists them
	Storage  *Version   // one of All

	// StoragePrefix is what the keys of objects start with, without a slash at
	// the end.
	StoragePrefix string

	Behavior Behavior

	// Conversion is how a webhook converts between versions, nil for the
	// strategy None: only apiVersion changes. Converter is that webhook, for
	// who serves the kind.
	Conversion *apiextv1.WebhookConversion
	Converter  Converter

	// PreserveUnknown: fields that no schema declares are kept, as in legacy
	// definitions (spec.preserveUnknownFields).
	PreserveUnknown bool

	rendering *rendering
}

// Converter turns objects of a kind into another of its versions. The objects
// are JSON without a resource version; the results have the order of objects.
type Converter interface {
	Convert(ctx context.Context, apiVersion string, objects [][]byte) ([][]byte, error)
}

// Version is one version of a Kind.
type Version struct {
	Kind *Kind
	Name string

	Schema *kschema.Program
	// Structural is what Schema is compiled from. It may be made when it is asked for.
	Structural func() *structural.Schema
	Declared   any // what the package that compiled a custom resource's version keeps about it; nil for other kinds

	Served, IsStorage bool
	Deprecated        bool
	Warning           string // what clients of a deprecated version are told

	// Definition is the name of the schema that Kubernetes publishes for a built-in version, and Published are that and
	// those of its lists, and what these refer to, by name, in the form of OpenAPI 3; "" and nil if Structural says it all.
	Definition string
	Published  func() (map[string]json.RawMessage, error)

	Status  bool   // the status subresource is enabled
	Scale   *Scale // nil if the scale subresource is not
	Columns []Column
	// Ended is how an object ended, for who reads its row in a table, "" if it has not; nil: objects do not end.
	Ended            func(obj jsondoc.Value) (reason, message string)
	SelectableFields []Selectable

	*Attachments
}

// Attachments hold what a version does not share with its copies. They are freed with it.
type Attachments struct {
	Attached sync.Map // what other packages derive from the version, by keys of their own

	// Messages and Partials identify the renderers of the version's objects, and of their metadata,
	// as protobuf.
	Messages, Partials meta.RendererID

	identity meta.RendererID
}

// Scale says where the scale subresource finds its values.
type Scale struct {
	SpecReplicas, StatusReplicas, LabelSelector string // as declared; the last may be ""

	// The same as steps from the root; nil if there is no path.
	SpecPath, StatusPath, SelectorPath []string
}

// Column is an additional printer column.
type Column struct {
	Name, Type, Format, Description string
	Priority                        int32
	JSONPath                        string
	// Cell is the text of the cell where it is not what stands at JSONPath; in
	// a column of booleans it is true or false, and if Number is set a number where it looks like one.
	Cell   func(obj jsondoc.Value, now time.Time) string
	Number bool
	// Word and Truth say of a cell with a text of its own that it is a text whatever the type of the column, or a truth.
	Word, Truth bool
}

// Selectable is a field that field selectors may name.
type Selectable struct {
	JSONPath string // as declared, with its leading dot
	Label    string // as field selectors write it, without the dot
	Path     []string
	// Value is the value where it is not what stands at Path; nil if it is.
	Value func(root jsondoc.Value) string
}

// Load compiles the schemas of k. It fails for a definition that must not be
// accepted.
func (k *Kind) Load() error {
	for _, v := range k.All {
		if err := v.Schema.Load(); err != nil {
			return fmt.Errorf("version %s: %w", v.Name, err)
		}
	}
	return nil
}

// GroupKind names the kind.
func (k *Kind) GroupKind() schema.GroupKind { return schema.GroupKind{Group: k.Group, Kind: k.Name} }

// IsNamespaces reports whether k is the kind of namespaces.
func (k *Kind) IsNamespaces() bool { return k.Group == "" && k.Plural == "namespaces" }

// GroupResource names the resource.
func (k *Kind) GroupResource() schema.GroupResource {
	return schema.GroupResource{Group: k.Group, Resource: k.Plural}
}

// Version is the served version of that name, nil if there is none.
func (k *Kind) Version(name string) *Version {
	for _, v := range k.Versions {
		if v.Name == name {
			return v
		}
	}
	return nil
}

// Key is the store key of an object; namespace is "" for cluster-scoped kinds.
func (k *Kind) Key(namespace, name string) string {
	if namespace == "" {
		return k.StoragePrefix + "/" + name
	}
	return k.StoragePrefix + "/" + namespace + "/" + name
}

// APIVersion is the version as objects carry it: group/version.
func (v *Version) APIVersion() string {
	if v.Kind.Group == "" {
		return v.Name
	}
	return v.Kind.Group + "/" + v.Name
}

// GVK names the version's kind.
func (v *Version) GVK() schema.GroupVersionKind { return v.Kind.GroupKind().WithVersion(v.Name) }

// GVR names the version's resource.
func (v *Version) GVR() schema.GroupVersionResource {
	return v.Kind.GroupResource().WithVersion(v.Name)
}

// steps splits a simple JSON path into member names.
func steps(path string) []string {
	path = strings.TrimPrefix(path, ".")
	if path == "" {
		return nil
	}
	return strings.Split(path, ".")
}

// NewSelectable is the field at a simple JSON path.
func NewSelectable(path string) Selectable {
	return Selectable{JSONPath: path, Label: strings.TrimPrefix(path, "."), Path: steps(path)}
}

// AgeColumn is what a version without columns shows.
func AgeColumn() Column {
	return Column{
		Name: "Age", Type: "date", JSONPath: ".metadata.creationTimestamp",
		Description: metav1.ObjectMeta{}.SwaggerDoc()["creationTimestamp"],
	}
}

// With returns a copy of k, its versions included, with other conditions.
func (k *Kind) With(established, terminating bool) *Kind {
	c := *k
	c.Established, c.Terminating = established, terminating
	c.All, c.Versions = nil, nil
	copies := make(map[*Version]*Version, len(k.All))
	for _, v := range k.All {
		copied := *v
		copied.Kind, copied.Attachments = &c, new(Attachments)
		copies[v] = &copied
		c.All = append(c.All, &copied)
	}
	for _, v := range k.Versions {
		c.Versions = append(c.Versions, copies[v])
	}
	c.Storage = copies[k.Storage]
	return &c
}

// Fixed is a Version's Structural that is there already.
func Fixed(s *structural.Schema) func() *structural.Schema {
	return func() *structural.Schema { return s }
}
