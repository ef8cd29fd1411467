package kind

import "k8s.io/apimachinery/pkg/runtime"

// This file has the ways in which upstream serves built-in kinds and custom resources differently.
// Upstream installs routes for each version of a built-in kind, whose objects have a Go type. One
// handler serves all custom resources, whose objects are maps.

// HasRoutes reports whether upstream's router knows each path, method and media type of the kind,
// and refuses all others before it looks at the object.
func (b *Behavior) HasRoutes() bool { return b.IsBuiltin }

// DecodesIntoType reports whether a body is decoded into the type of the endpoint, whatever kind it
// says. If not, it becomes an object of the kind that it says, and is refused later.
func (b *Behavior) DecodesIntoType() bool { return b.IsBuiltin }

// FollowsSchema reports whether the schema alone says what a read of a stored object returns. If
// not, hooks may change the object, and versions may differ in more than their schema.
func (b *Behavior) FollowsSchema() bool { return !b.IsBuiltin }

// WarnsOfFinalizers reports whether finalizers whose names may clash cause warnings. Built-in kinds
// accept them, or refuse them.
func (b *Behavior) WarnsOfFinalizers() bool { return !b.IsBuiltin }

// ValidatesScales reports whether a written Scale is validated as a Scale. If not, the object with
// the new number of replicas is validated.
func (b *Behavior) ValidatesScales() bool { return b.IsBuiltin }

// HasPrinter reports whether Go code prints the rows of tables. If not, the columns have JSON paths.
func (b *Behavior) HasPrinter() bool { return b.IsBuiltin }

// HasGoType reports whether a Go type publishes the kind's versions. Objects of such a kind can be
// read and written in protobuf, and members that the type never leaves out are always printed.
func (b *Behavior) HasGoType() bool { return b.New != nil }

// NewTyped returns an empty object of the Go type of the version. The kind must have Go types.
func (v *Version) NewTyped() runtime.Object { return v.Kind.Behavior.New(v) }

// MayHavePlugins reports whether admission plugins may be for the kind alone.
func (b *Behavior) MayHavePlugins() bool { return b.IsBuiltin }
