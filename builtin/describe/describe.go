// Package describe has what the descriptions of built-in kinds are made of.
//
// A [Description] says what no schema says about a kind. The packages beside this one, one for each API group, return
// descriptions; package builtin makes kinds of them. The functions here are for their tables: columns ([Cell], [At],
// [AgeColumn], …), checks ([Both], [Immutable], [Required], …) that find the errors of upstream, and helpers of checks
// ([Invalid], [Among], [ReadAs], …).
package describe

import (
	"encoding/json"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/keelson-io/keelson/jsondoc"
	"github.com/keelson-io/keelson/kind"
	"github.com/keelson-io/keelson/meta"
	"github.com/keelson-io/keelson/schema"
)

// Description is what no schema says about a kind. Nothing but Group, Kind, Plural and Versions is required.
type Description struct {
	Group         string
	Kind          string
	Plural        string
	Versions      []Version // the stored one first
	ClusterScoped bool      // it is not namespaced

	Singular               string // "": the kind in lower case
	ShortNames, Categories []string
	StoragePrefix          string // of store keys; "": the plural
	Deprecated             string // the warning of all versions; "": they are not deprecated

	Columns []kind.Column // nil: the age
	Fields  []kind.Selectable
	Ended   func(obj jsondoc.Value) (reason, message string)

	Status     bool // there is a status subresource
	KeepStatus bool // a new object keeps the status that it is sent with
	Scale      *kind.Scale
	Generation bool   // metadata.generation counts changes of the content
	Versioned  bool   // an update must name a resource version
	Parts      []Part // subresources that have kinds of their own

	// Behavior has what requests do otherwise than with custom resources. Its hooks are set here, by the fields below.
	kind.Behavior

	// Create and Update change an object before it is checked; Update is not
	// called for subresources.
	Create func(d *jsondoc.Doc)
	Update func(new, old *jsondoc.Doc)
	// UpdatePart changes an object of which a subresource of the kind is written.
	UpdatePart func(new, old *jsondoc.Doc, scope schema.Scope)
	// UpdateStatus changes an object whose status is written.
	UpdateStatus func(new, old *jsondoc.Doc)

	ValidName meta.NameFunc // rule for names; nil: DNS subdomains
	// Check finds what the schema does not, or, if it is Complete, whatever there
	// is to find. old is nil on create.
	Check    Checker
	Complete bool
	Warnings func(new, old *jsondoc.Doc) []string
	// StatusWarnings are those about a status that is written.
	StatusWarnings func(new *jsondoc.Doc) []string
}

// WholeMetadata are the members of metadata that clients write.
var WholeMetadata = []string{"labels", "annotations", "finalizers", "ownerReferences"}

// Checker finds what is wrong with an object; old is nil on create.
type Checker func(v *kind.Version, new, old *jsondoc.Doc, scope schema.Scope) field.ErrorList

// Part is a subresource whose kind is described like a virtual one.
type Part struct {
	Name string
	Description
}

// Version is a version of a kind as its Go type publishes it.
type Version struct {
	Name string
	New  func() runtime.Object
	// Fill fills in defaults that depend on other fields; nil if there are none.
	Fill func(runtime.Object)
}

// object is a pointer to a Go type of objects.
type object[T any] interface {
	*T
	runtime.Object
}

// V1 is a kind's only version, v1, as a Go type.
func V1[T any, P object[T]](fill func(P)) []Version { return []Version{VersionOf(fill, "v1")} }

// VersionOf is a version as a Go type.
func VersionOf[T any, P object[T]](fill func(P), name string) Version {
	v := Version{Name: name, New: func() runtime.Object { return P(new(T)) }}
	if fill != nil {
		v.Fill = func(obj runtime.Object) { fill(obj.(P)) }
	}
	return v
}

// SetJSON sets a member to a text, or removes it if there is none.
func SetJSON(d *jsondoc.Doc, text []byte, path ...string) {
	if text == nil {
		d.Remove(path...)
		return
	}
	value := jsondoc.Get()
	defer value.Release()
	if err := jsondoc.Parse(value, text); err != nil {
		panic("BUG: " + err.Error()) // the program printed it
	}
	d.Set(d.Import(value.Root()), path...)
}

// SetAs sets a member to a Go value as JSON.
func SetAs(d *jsondoc.Doc, v any, path ...string) {
	text, err := json.Marshal(v)
	if err != nil {
		panic("BUG: " + err.Error()) // of a type of the API
	}
	SetJSON(d, text, path...)
}
