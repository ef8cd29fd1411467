package kind

import (
	"context"

	"github.com/keelson-io/keelson/cache"
	"github.com/keelson-io/keelson/doc"
	"github.com/keelson-io/keelson/schema"
)

// This file is what requests do with a Version.

// Decode reads a request body into d: pruned, without nulls, defaulted.
func (v *Version) Decode(d *doc.Doc, src []byte) (schema.Found, error) { panic("BUG: not built yet") }

// Strict says in words what Decode found: unknown and duplicate fields.
func (v *Version) Strict(src []byte) []string { panic("BUG: not built yet") }

// PrepareCreate sets what is not the client's to set on create.
func (v *Version) PrepareCreate(d *doc.Doc) { panic("BUG: not built yet") }

// PrepareUpdate keeps of old what an update in the given scope may not change.
func (v *Version) PrepareUpdate(new, old *doc.Doc, scope schema.Scope) { panic("BUG: not built yet") }

// Validate checks an object completely. old is nil on create.
func (v *Version) Validate(ctx context.Context, new, old *doc.Doc, scope schema.Scope) schema.Result {
	panic("BUG: not built yet")
}

// Encode appends the object as it is stored: in the storage version, sorted,
// without metadata.resourceVersion, with a newline at the end.
func (v *Version) Encode(d *doc.Doc, b []byte) ([]byte, error) { panic("BUG: not built yet") }

// Load decodes stored bytes into d, in this version. Malformed metadata is
// dropped, field by field.
func (v *Version) Load(d *doc.Doc, raw []byte, rev int64) error { panic("BUG: not built yet") }

// Render makes what is served from what is stored. It implements
// [cache.Renderer].
func (v *Version) Render(raw []byte, rev int64) (*cache.View, error) { panic("BUG: not built yet") }
