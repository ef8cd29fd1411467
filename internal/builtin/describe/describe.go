// Package describe has the parts of the descriptions of built-in kinds.
//
// A [Description] has everything about a kind that its schema does not have. The packages beside
// this one, one for each API group, return descriptions; package builtin makes kinds of them. The
// functions here are for columns of tables ([Cell], [At], [AgeColumn], …), for checks with the
// errors of upstream ([Both], [Immutable], [Required], …), and for the code of checks ([Invalid],
// [Among], [ReadAs], …).
package describe

import (
	"encoding/json"
	"slices"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/keelson-io/keelson/internal/meta"
	"github.com/keelson-io/keelson/jsondoc"
	"github.com/keelson-io/keelson/kind"
	"github.com/keelson-io/keelson/schema"
)

// Description has everything about a kind that its schema does not have. Group, Kind, Plural and
// Versions are required.
type Description struct {
	Group    string
	Kind     string
	Plural   string
	Versions []Version // the stored one first
	// Older are versions in which Kubernetes may have stored objects, and which are not served. They
	// have the fields of the stored version; Fill sets the defaults that differ from it.
	Older         []Version
	ClusterScoped bool // it is not namespaced

	Singular               string // "": the kind in lower case
	ShortNames, Categories []string
	StoragePrefix          string // of store keys; "": the plural
	Deprecated             string // warning for clients that use any version; "": none

	Columns []kind.Column // nil: the age only
	Fields  []kind.Selectable
	Ended   func(obj jsondoc.Value) (reason, message string)

	Status       bool // there is a status subresource
	KeepStatus   bool // a new object keeps the status that it is sent with
	Scale        *kind.Scale
	Generation   bool // metadata.generation counts changes of the content
	Subresources []Subresource

	kind.Traits // the differences from custom resources

	// Decoded changes a document that was made from the Go object obj, which a client sent.
	Decoded func(d *jsondoc.Doc, obj runtime.Object)
	// Create and Update change an object before it is checked; Update is not
	// called for subresources.
	Create func(d *jsondoc.Doc)
	Update func(new, old *jsondoc.Doc)
	// UpdatePart restores every field that a write of a subresource does not change. A kind with a
	// subresource that has no Body must have it.
	UpdatePart func(new, old *jsondoc.Doc, scope schema.Scope)
	// UpdateStatus changes an object after a write of its status.
	UpdateStatus func(new, old *jsondoc.Doc)

	ValidName meta.NameFunc // rule for names; nil: DNS subdomains
	// AnyFinalizer: names of finalizers need not be qualified, such as example.com/cleanup.
	AnyFinalizer bool
	// Check finds the errors that the schema does not find, or all errors if Complete is set. old
	// is nil on create.
	Check    Checker
	Complete bool
	Warnings func(new, old *jsondoc.Doc) []string
	// StatusWarnings returns the warnings for a write of the status.
	StatusWarnings func(new *jsondoc.Doc) []string
}

// AllMetadata has the members of metadata that a request can have, except for managedFields and those
// that identify the object and its version. Requests that change the others of them are not valid.
var AllMetadata = append(slices.Clip(kind.WritableMetadata), "deletionTimestamp", "deletionGracePeriodSeconds", "uid", "generateName")

// Checker returns the errors of an object. old is nil on create.
type Checker func(v *kind.Version, new, old *jsondoc.Doc, scope schema.Scope) field.ErrorList

// Subresource is a subresource besides status and scale.
type Subresource struct {
	Name string
	// Body describes the kind of the body, such as Eviction. It must be Virtual. Nil: the body is the
	// object, and requests can get, patch and update it.
	Body *Description
	// Scope is the part of the object that the subresource writes if Body is nil.
	Scope schema.Scope
}

// Version is a version of a kind. Its schema is that of its Go type.
type Version struct {
	Name   string
	GoType *kind.GoType
	// Fill sets the defaults that depend on other fields; nil: there are none.
	Fill func(runtime.Object)
}

// object is a pointer to the Go type of an API object.
type object[T any] interface {
	*T
	runtime.Object
}

// V1 returns the version v1, as the only one, for a Go type.
func V1[T any, P object[T]](fill func(P)) []Version { return []Version{VersionOf(fill, "v1")} }

// VersionOf returns a version for a Go type.
func VersionOf[T any, P object[T]](fill func(P), name string) Version {
	v := Version{Name: name, GoType: kind.NewGoType(func() runtime.Object { return P(new(T)) })}
	if fill != nil {
		v.Fill = func(obj runtime.Object) { fill(obj.(P)) }
	}
	return v
}

// SetJSON sets a member to the value of a JSON text, or removes the member if the text is empty.
func SetJSON(d *jsondoc.Doc, text []byte, path ...string) {
	if text == nil {
		d.Remove(path...)
		return
	}
	value := jsondoc.Get()
	defer value.Release()
	if err := jsondoc.Parse(value, text); err != nil {
		panic("BUG: " + err.Error()) // the program encoded it
	}
	d.Set(d.Import(value.Root()), path...)
}

// SetAs sets a member to the JSON of a Go value.
func SetAs(d *jsondoc.Doc, v any, path ...string) {
	text, err := json.Marshal(v)
	if err != nil {
		panic("BUG: " + err.Error()) // types of the API can be encoded
	}
	SetJSON(d, text, path...)
}
