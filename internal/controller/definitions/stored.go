package definitions

import (
	"context"
	"strings"

	"github.com/keelson-io/keelson/internal/cache"
	"github.com/keelson-io/keelson/kind"
)

// Stored returns the function that calls fn for each stored instance of a definition, with its name. A snapshot of
// the cache has them decrypted, and needs no lock.
func Stored(kinds *kind.Registry, cached *cache.Cache) func(ctx context.Context, group, plural string, fn func(name string, raw []byte) bool) error {
	return func(ctx context.Context, group, plural string, fn func(name string, raw []byte) bool) error {
		if kinds.Refuses(plural+"."+group, group, plural) != nil {
			return nil // it is not served; objects of built-in kinds are not its instances
		}
		r := cached.Resource(group + "/" + plural)
		if err := r.Fresh(ctx); err != nil {
			return err
		}
		r.Snapshot().Ascend("", func(o *cache.Object) bool { return fn(strings.TrimPrefix(o.Key, r.Prefix()), o.Raw) })
		return nil
	}
}
