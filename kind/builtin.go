package kind

import (
	"context"

	"github.com/keelson-io/keelson/doc"
	"github.com/keelson-io/keelson/schema"
)

// This file defines the hooks of built-in kinds.

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
	// Delete changes an object whose deletion is asked for instead of removing
	// it; it reports whether it did. The change is to be stored.
	Delete func(d *doc.Doc, now string) bool
	// Fields are the selectable fields besides metadata.name and
	// metadata.namespace.
	Fields []Selectable
}

// Builtins are the kinds that are always there.
func Builtins() []*Kind { panic("BUG: not built yet") }
