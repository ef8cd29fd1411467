// Package kind defines kinds of objects, and the registry of the kinds that are served.
//
// # Terms
//
// A [Kind] is a resource type: its names, scope and [Version]s. A Version is
// what requests work with: it decodes, validates, encodes and renders objects.
// A [Snapshot] is the set of kinds at one moment; the [Registry] holds the
// current one. Package crd compiles definitions to Kinds. Package builtin declares the built-in
// ones as data, with hooks ([Behavior]) for what a schema cannot express.
//
// # Invariants
//
//   - Kinds, Versions and Snapshots never change once made. A changed
//     definition is compiled to a new Kind.
//   - Put takes the same time however many kinds there are.
//   - No definition replaces or removes a built-in kind, or shares its prefix of store keys.
//   - [Version.Render] serves exactly what [Version.Encode] of the storage version wrote, unless
//     the definition changed in between.
//   - Two versions fill in defaults: the version of a request body, and the version of the stored
//     bytes. The target version of a conversion does not.
//
// # Use
//
// To check objects, call [Version.Decode] for the bytes of each object and [Version.Validate] for
// the document. The errors have paths, and the same texts as a server's. [Version.Strict] lists the
// fields that Decode dropped.
//
// To serve kinds, pass the built-in ones to [NewRegistry] and the others to [Registry.Put]. Each
// request calls [Registry.Load] once, and [Snapshot.Lookup] on the result.
package kind

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	apiextv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/keelson-io/keelson/jsondoc"
	kschema "github.com/keelson-io/keelson/schema"
	"github.com/keelson-io/keelson/schema/structural"
)

// This file defines Kind and Version.

// Kind is a resource type. It does not change once it is in a registry.
type Kind struct {
	// The names are those of spec.names and spec.group of a definition.
	Group, Plural, Singular string
	Name                    string // the kind's name, such as HTTPRoute
	ListKind                string
	ShortNames, Categories  []string
	Namespaced              bool

	UID        string // of the definition; "" for built-in kinds
	Generation int64  // of the definition

	Established bool // the condition Established of the definition; always true for built-in kinds
	Terminating bool // the definition is being deleted: nothing may be created

	Versions []*Version // the served versions in discovery order; the first is preferred
	All      []*Version // all versions, in the order of the definition
	Storage  *Version   // one of All

	// StoragePrefix is the start of the store keys of all objects, without a slash at the end. It
	// is "" if objects are not stored.
	StoragePrefix string

	Behavior Behavior

	// Conversion configures the webhook that converts between versions. Nil means the strategy
	// None: only apiVersion changes. Converter calls that webhook; it is nil if the process calls
	// no webhooks.
	Conversion *apiextv1.WebhookConversion
	Converter  Converter

	// PreserveUnknown: fields without a schema are kept, as in definitions with the legacy field
	// spec.preserveUnknownFields.
	PreserveUnknown bool

	rendering *rendering // not nil if Conversion is set
}

// Converter converts objects of a kind to another version. The objects are JSON without a resource
// version. The results have the order of the objects.
type Converter interface {
	Convert(ctx context.Context, apiVersion string, objects [][]byte) ([][]byte, error)
}

// Version is one version of a Kind.
type Version struct {
	Kind *Kind
	Name string

	Schema *kschema.Program
	// Structural returns the schema from which Schema was compiled. The first call may have to
	// build it.
	Structural func() *structural.Schema
	Declared   any // what package crd keeps about a version of a definition; nil for built-in kinds

	Served, IsStorage bool
	Deprecated        bool
	Warning           string // the warning that clients of a deprecated version get

	// Definition names the schema that Kubernetes publishes for a built-in version. Published
	// returns that schema, that of lists, and all schemas to which they refer, by name, in the
	// form of OpenAPI 3. They are "" and nil if Structural describes the version completely.
	Definition string
	Published  func() (map[string]json.RawMessage, error)

	Status  bool   // whether the status subresource is enabled
	Scale   *Scale // nil if the scale subresource is disabled
	Columns []Column
	// Ended returns the reason and message with which an object ended, for its row in a table, or
	// "" if it has not ended. It is nil for kinds whose objects do not end.
	Ended            func(obj jsondoc.Value) (reason, message string)
	SelectableFields []Selectable

	*Attachments
}

// Attachments hold the caches of a version that its copies do not share. They are freed with the
// version.
type Attachments struct {
	Attached sync.Map // caches of other packages; each uses a key type of its own

	// Messages and Partials identify the protobuf renderers of whole objects, and of their
	// metadata.
	Messages, Partials RendererID

	identity RendererID // of Version itself as a renderer of JSON
	// printOrder is the result of Order for a built-in version; nil before the first call.
	printOrder atomic.Pointer[jsondoc.Order]
}

// Scale gives the places of the values that the scale subresource reads and writes.
type Scale struct {
	SpecReplicas, StatusReplicas, LabelSelector string // JSON paths as declared; LabelSelector may be ""

	// The same paths, split into member names; nil if the path is "".
	SpecPath, StatusPath, SelectorPath []string
}

// Column is an additional printer column.
type Column struct {
	Name, Type, Format, Description string
	Priority                        int32
	JSONPath                        string
	// Cell returns the text of the cell. If it is nil, the cell shows the value at JSONPath. In a
	// column of type boolean the text must be true or false. With Number, a text that looks like a
	// number becomes one.
	Cell   func(obj jsondoc.Value, now time.Time) string
	Number bool
	// Word and Truth set the JSON type of Cell's text, against the type of the column: Word prints
	// it as a string, Truth as a boolean.
	Word, Truth bool
}

// Selectable is a field that field selectors may name.
type Selectable struct {
	JSONPath string // as declared, with its leading dot
	Label    string // as field selectors write it, without the dot
	Path     []string
	// Value returns the value of the field. If it is nil, the value is at Path.
	Value func(root jsondoc.Value) string
}

// Load compiles the schemas of k. An error means that the definition must be refused.
func (k *Kind) Load() error {
	for _, v := range k.All {
		if err := v.Schema.Load(); err != nil {
			return fmt.Errorf("version %s: %w", v.Name, err)
		}
	}
	return nil
}

// GroupKind returns the group and the name of the kind.
func (k *Kind) GroupKind() schema.GroupKind { return schema.GroupKind{Group: k.Group, Kind: k.Name} }

// IsNamespaces reports whether k is the kind of namespaces.
func (k *Kind) IsNamespaces() bool { return k.Group == "" && k.Plural == "namespaces" }

// GroupResource returns the group and the plural name.
func (k *Kind) GroupResource() schema.GroupResource {
	return schema.GroupResource{Group: k.Group, Resource: k.Plural}
}

// Version returns the served version with that name, nil if there is none.
func (k *Kind) Version(name string) *Version {
	for _, v := range k.Versions {
		if v.Name == name {
			return v
		}
	}
	return nil
}

// Key returns the store key of an object. namespace is "" for cluster-scoped kinds.
func (k *Kind) Key(namespace, name string) string {
	if namespace == "" {
		return k.StoragePrefix + "/" + name
	}
	return k.StoragePrefix + "/" + namespace + "/" + name
}

// APIVersion returns the value of apiVersion in objects: group/version, or version in the core
// group.
func (v *Version) APIVersion() string {
	if v.Kind.Group == "" {
		return v.Name
	}
	return v.Kind.Group + "/" + v.Name
}

// GVK returns the group, version and kind.
func (v *Version) GVK() schema.GroupVersionKind { return v.Kind.GroupKind().WithVersion(v.Name) }

// GVR returns the group, version and plural name.
func (v *Version) GVR() schema.GroupVersionResource {
	return v.Kind.GroupResource().WithVersion(v.Name)
}

// steps splits a JSON path without brackets into member names.
func steps(path string) []string {
	path = strings.TrimPrefix(path, ".")
	if path == "" {
		return nil
	}
	return strings.Split(path, ".")
}

// NewSelectable returns the selectable field at a JSON path without brackets.
func NewSelectable(path string) Selectable {
	return Selectable{JSONPath: path, Label: strings.TrimPrefix(path, "."), Path: steps(path)}
}

// AgeColumn returns the only column of a version that declares none.
func AgeColumn() Column {
	return Column{
		Name: "Age", Type: "date", JSONPath: ".metadata.creationTimestamp",
		Description: metav1.ObjectMeta{}.SwaggerDoc()["creationTimestamp"],
	}
}

// With returns a copy of k and its versions with other values of the conditions. The copies start
// with empty caches.
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

// Fixed returns a function for Version.Structural that returns s.
func Fixed(s *structural.Schema) func() *structural.Schema {
	return func() *structural.Schema { return s }
}
