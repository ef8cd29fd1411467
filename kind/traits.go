package kind

import "k8s.io/apimachinery/pkg/runtime"

// This file lists the ways in which upstream serves built-in kinds and custom resources
// differently. Upstream installs routes for each version of a built-in kind, whose objects have a
// Go type. One handler serves all custom resources, whose objects are maps.

// HasRoutes reports whether upstream's router knows each path, method and media type of the kind,
// and refuses all others before it looks at the object.
func (b *Behavior) HasRoutes() bool { return b.IsBuiltin }

// DecodesIntoType reports whether a body is decoded into the type of the endpoint, even if it names
// another kind. If not, it becomes an object of the kind that it names, and a later check refuses
// it.
func (b *Behavior) DecodesIntoType() bool { return b.IsBuiltin }

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
