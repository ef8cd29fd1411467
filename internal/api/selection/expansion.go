package selection

import (
	"context"
	"fmt"

	"github.com/keelson-io/keelson/internal/cache"
	"github.com/keelson-io/keelson/internal/meta"
	"github.com/keelson-io/keelson/internal/objects"
	"github.com/keelson-io/keelson/internal/status"
)

// This file bounds the memory for stored objects that are small and get large default values.

// maxExpansion is the number of bytes by which the objects of one list, or of the initial state of
// one watch, may be larger than stored.
const maxExpansion = 1 << 30

// Expansion counts by how many bytes the objects that a request reads are larger than stored.
type Expansion struct {
	ctx   context.Context
	bytes int64
}

// NewExpansion returns the count of a request, which ends with ctx.
func NewExpansion(ctx context.Context) *Expansion { return &Expansion{ctx: ctx} }

// Add counts one object's view. It fails if the total exceeds the bound, or if the request has
// ended.
func (e *Expansion) Add(obj *cache.Object, view *meta.View) error {
	n := obj.Expansion(view)
	if n == 0 {
		return nil
	}
	if e.bytes += n; e.bytes > maxExpansion {
		return status.TooLarge(fmt.Sprintf("default values make the objects more than %d bytes larger than they are stored: list fewer at a time (limit)", maxExpansion))
	}
	if err := e.ctx.Err(); err != nil {
		return objects.StoreError(err)
	}
	return nil
}
