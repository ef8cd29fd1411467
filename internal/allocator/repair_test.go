package allocator

import (
	"context"
	"log/slog"
	"net/netip"
	"testing"

	networkingv1 "k8s.io/api/networking/v1"

	"github.com/keelson-io/keelson/internal/builtin"
	"github.com/keelson-io/keelson/internal/cache"
	"github.com/keelson-io/keelson/internal/meta"
	"github.com/keelson-io/keelson/internal/store"
	"github.com/keelson-io/keelson/internal/store/mem"
	"github.com/keelson-io/keelson/kind"
)

// ahead is a store that is ahead of the cache: the key is gone after a number of reads.
type ahead struct {
	store.Store
	key   string
	reads int
}

func (s *ahead) Get(ctx context.Context, key string) (store.Item, error) {
	if s.reads--; key == s.key && s.reads < 0 {
		return store.Item{}, store.ErrNotFound
	}
	return s.Store.Get(ctx, key)
}

// calls counts what is created and removed.
type calls struct {
	API
	created, removed int
}

func (c *calls) Create(context.Context, *kind.Kind, string, string, []byte) (string, error) {
	c.created++
	return "u", nil
}

func (c *calls) Remove(context.Context, *kind.Kind, string, string, *meta.DeleteOptions) error {
	c.removed++
	return nil
}

// TestServiceThatIsGone holds that no address is reserved for a service that another server has
// deleted, although the cache still has the service.
func TestServiceThatIsGone(t *testing.T) {
	for _, c := range []struct {
		name             string
		reads            int // of the service, until it is gone
		created, removed int
	}{{"before", 0, 0, 0}, {"meanwhile", 1, 1, 1}, {"never", 2, 1, 0}} {
		t.Run(c.name, func(t *testing.T) {
			kinds := kind.NewRegistry(builtin.All(nil)...)
			services, ips := kinds.Load().Lookup("", "services"), kinds.Load().Lookup(networkingv1.GroupName, "ipaddresses")
			st := mem.New(mem.Options{})
			defer st.Close()
			key := services.Key("default", "a")
			text := `{"apiVersion":"v1","kind":"Service","metadata":{"name":"a","namespace":"default"},"spec":{"clusterIP":"10.0.0.9","clusterIPs":["10.0.0.9"]}}`
			if _, err := st.Create(t.Context(), key, []byte(text)); err != nil {
				t.Fatal(err)
			}
			cached := cache.New(st, cache.Options{Logger: slog.New(slog.DiscardHandler)})
			defer cached.Close()
			for _, k := range []*kind.Kind{services, ips, kinds.Load().Lookup(networkingv1.GroupName, "servicecidrs")} {
				if err := cached.Resource(k.StoragePrefix).Ready(t.Context()); err != nil {
					t.Fatal(err)
				}
			}
			api := new(calls)
			a := &Allocator{Kinds: kinds, Cache: cached, Store: &ahead{st, key, c.reads}, Logger: slog.New(slog.DiscardHandler), API: api,
				Ranges: []netip.Prefix{netip.MustParsePrefix("10.0.0.0/24")}}
			if err := a.mendService(t.Context(), services, ips, key); err != nil {
				t.Fatal(err)
			}
			if api.created != c.created || api.removed != c.removed {
				t.Errorf("got %d created, %d removed, want %d, %d", api.created, api.removed, c.created, c.removed)
			}
		})
	}
}
