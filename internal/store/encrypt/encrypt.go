// Package encrypt keeps the values of a store encrypted at rest, in Kubernetes' format.
//
// A [Store] lies between a store and its users: it encrypts what is written and decrypts what is
// read. The rules come from an EncryptionConfiguration ([Decode]) and list, for each resource, the
// providers. The first one writes; all of them are tried for reading. So a store can move from one
// key to another, to encryption and back, in both directions and beside a kube-apiserver that uses
// the same etcd: the format is the same, byte for byte.
//
// A value begins with the name of its provider and key, such as "k8s:enc:aescbc:v1:key1:"; a value of the identity provider is as it
// was. The providers aesgcm and kms bind a value to its key in etcd, so that it cannot be copied to another one; aescbc and
// secretbox do not.
//
// A value that cannot be decrypted is returned as it is stored. It is no object then: reading it
// fails, lists name it, and it can be deleted (KEP-3926). If a KMS plugin cannot be reached, the
// read fails instead: it may succeed later.
//
// Each value that was read comes with the provider and key that encrypted it ([store.Item].Sealed).
// A writer that changes nothing writes all the same if [Store.WritesAs] returns another one:
// rewriting all objects moves them to the newest key.
package encrypt

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/keelson-io/keelson/internal/store"
)

// marker begins every encrypted value.
const marker = "k8s:enc:"

// ErrUnavailable wraps the error of a KMS plugin that cannot be reached.
var ErrUnavailable = fmt.Errorf("%w: the KMS plugin cannot be reached", store.ErrUnavailable)

// Store encrypts and decrypts the values of another store.
type Store struct {
	store.Store
	options Options
	rules   atomic.Pointer[Rules]

	mu       sync.Mutex
	watchers map[*watcher]struct{} // open
	// unread is set when a value could not be decrypted, so that readers have its bytes as stored.
	unread atomic.Bool
}

// Options has the facts about the stored keys that a Store needs.
type Options struct {
	// Prefix is what the store puts before keys in etcd, "/registry" by default. Values are bound to the whole key.
	Prefix string
	// Resource returns the resource whose objects have a key, and false for keys that hold no objects.
	Resource func(key string) (schema.GroupResource, bool)
	Logger   *slog.Logger
	Metrics  *Metrics // nil: nothing is counted
}

// New returns a store that encrypts the values of inner by rules. Closing it closes inner and the rules.
func New(inner store.Store, rules *Rules, o Options) *Store {
	s := &Store{Store: inner, options: o, watchers: map[*watcher]struct{}{}}
	s.rules.Store(rules)
	return s
}

// Use replaces the rules. Reads and writes that have begun end by the old ones, which the caller closes after a while. If values could
// not be decrypted by the old rules, watchers end with ErrCompacted: a cache that follows them lists everything anew.
func (s *Store) Use(rules *Rules) (old *Rules) {
	old = s.rules.Swap(rules)
	if !s.unread.Swap(false) {
		return old
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for w := range s.watchers {
		w.outdated.Store(true)
		w.Watcher.Close()
	}
	clear(s.watchers)
	return old
}

// WritesAs implements store.Sealer.
func (s *Store) WritesAs(key string) string {
	if p := s.providers(key); len(p) > 0 {
		return p[0].seals()
	}
	return ""
}

// providers returns those for a key; none if its values are written and read as they are.
func (s *Store) providers(key string) []provider {
	resource, ok := s.options.Resource(key)
	if !ok {
		return nil
	}
	return s.rules.Load().of(resource)
}

// bound is what values of a key are bound to.
func (s *Store) bound(key string) []byte { return []byte(s.options.Prefix + "/" + key) }

// seal encrypts a value that is to be written.
func (s *Store) seal(ctx context.Context, key string, value []byte) ([]byte, error) {
	p := s.providers(key)
	if len(p) == 0 {
		return value, nil
	}
	began := time.Now()
	sealed, err := p[0].seal(ctx, s.bound(key), value)
	s.options.Metrics.record(s.resource(key), toStorage, p[0].seals(), began, err)
	return sealed, err
}

// resource returns the resource of a key, for metrics.
func (s *Store) resource(key string) string {
	r, _ := s.options.Resource(key)
	return r.String()
}

// open decrypts a value that was read. The second result is the provider and key that encrypted it.
// A value that cannot be decrypted is returned as it is. The error is ErrUnavailable or the
// context's.
func (s *Store) open(ctx context.Context, key string, value []byte) (plain []byte, sealed string, err error) {
	if bytes.HasPrefix(value, []byte(store.DamagedPrefix)) {
		return value, "", nil
	}
	providers, began := s.providers(key), time.Now()
	plain, sealed, err = open(ctx, providers, s.bound(key), value)
	switch {
	case len(providers) == 0:
	case err != nil:
		s.options.Metrics.record(s.resource(key), fromStorage, "unknown", began, err)
	case sealed == "":
		s.options.Metrics.record(s.resource(key), fromStorage, "identity", began, nil)
	default:
		s.options.Metrics.record(s.resource(key), fromStorage, sealed, began, nil)
	}
	switch {
	case err == nil:
		return plain, sealed, nil
	case errors.Is(err, ErrUnavailable), ctx.Err() != nil:
		return nil, "", err
	}
	s.unread.Store(true)
	s.options.Logger.Error("a stored object cannot be decrypted", "key", key, "error", err)
	return value, "", nil
}

// open decrypts a value by the first of some providers that can.
func open(ctx context.Context, providers []provider, bound, value []byte) (plain []byte, sealed string, err error) {
	if len(providers) == 0 && !isEncrypted(value) {
		return value, "", nil
	}
	var errs []error
	var otherKey otherKeyError
	for _, p := range providers {
		if plain, sealed, err = p.open(ctx, bound, value); err == nil {
			return plain, sealed, nil
		}
		switch {
		case errors.Is(err, errOtherProvider):
		case errors.As(err, &otherKey):
		default:
			errs = append(errs, err)
		}
	}
	switch {
	case len(errs) > 0:
		return nil, "", errors.Join(errs...)
	case otherKey != "":
		return nil, "", otherKey
	}
	return nil, "", errNoPrefix
}

// isEncrypted reports whether a stored value begins as those of kube-apiserver's providers.
func isEncrypted(value []byte) bool { return bytes.HasPrefix(value, []byte(marker)) }

// These errors have upstream's words.
var (
	errNoPrefix      = errors.New("no matching prefix found")
	errOtherProvider = errors.New("the value was written by another provider") // never shown
)

// otherKeyError is the error for a value of a provider under another key. It is the provider's cipher.
type otherKeyError string

// Error names the cipher, because the same text is used for all of them.
func (e otherKeyError) Error() string {
	return "no matching key was found for the provided " + string(e) + " transformer"
}

// Create implements store.Store.
func (s *Store) Create(ctx context.Context, key string, value []byte) (int64, error) {
	sealed, err := s.seal(ctx, key, value)
	if err != nil {
		return 0, err
	}
	return s.Store.Create(ctx, key, sealed)
}

// Update implements store.Store.
func (s *Store) Update(ctx context.Context, key string, value []byte, rev int64) (int64, error) {
	sealed, err := s.seal(ctx, key, value)
	if err != nil {
		return 0, err
	}
	rev, err = s.Store.Update(ctx, key, sealed, rev)
	return rev, s.openChanged(ctx, err)
}

// Delete implements store.Store.
func (s *Store) Delete(ctx context.Context, key string, rev int64) (int64, error) {
	rev, err := s.Store.Delete(ctx, key, rev)
	return rev, s.openChanged(ctx, err)
}

// openChanged decrypts the item that an error of a write carries.
func (s *Store) openChanged(ctx context.Context, err error) error {
	var changed *store.Changed
	if !errors.As(err, &changed) || changed.Gone {
		return err
	}
	item, openErr := s.openItem(ctx, changed.Current)
	if openErr != nil {
		return openErr
	}
	return &store.Changed{Current: item}
}

// openItem decrypts an item. The value and the name of the provider are replaced in a copy.
func (s *Store) openItem(ctx context.Context, item store.Item) (_ store.Item, err error) {
	item.Value, item.Sealed, err = s.open(ctx, item.Key, item.Value)
	return item, err
}

// Get implements store.Store.
func (s *Store) Get(ctx context.Context, key string) (store.Item, error) {
	item, err := s.Store.Get(ctx, key)
	if err != nil {
		return item, err
	}
	return s.openItem(ctx, item)
}

// List implements store.Store.
func (s *Store) List(ctx context.Context, prefix string, o store.ListOptions) (store.Page, error) {
	page, err := s.Store.List(ctx, prefix, o)
	if err != nil {
		return page, err
	}
	for i := range page.Items {
		if page.Items[i], err = s.openItem(ctx, page.Items[i]); err != nil {
			return store.Page{}, err
		}
	}
	return page, nil
}

// Watch implements store.Store.
func (s *Store) Watch(ctx context.Context, prefix string, after int64) (store.Watcher, error) {
	return s.watch(s.Store.Watch(ctx, prefix, after))
}

// WatchLean implements store.LeanWatcher. Replaced values are never decrypted.
func (s *Store) WatchLean(ctx context.Context, prefix string, after int64) (store.Watcher, error) {
	if lean, ok := s.Store.(store.LeanWatcher); ok {
		return s.watch(lean.WatchLean(ctx, prefix, after))
	}
	w, err := s.Store.Watch(ctx, prefix, after)
	if err != nil {
		return nil, err
	}
	return s.opened(&watcher{Watcher: w, s: s, lean: true}), nil
}

// watch wraps a watch of the store below, so that its events are decrypted.
func (s *Store) watch(w store.Watcher, err error) (store.Watcher, error) {
	if err != nil {
		return nil, err
	}
	return s.opened(&watcher{Watcher: w, s: s}), nil
}

// opened adds a watcher to those that Use ends.
func (s *Store) opened(w *watcher) *watcher {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.watchers[w] = struct{}{}
	return w
}

// watcher decrypts the events of another one.
type watcher struct {
	store.Watcher
	s      *Store
	lean   bool  // events do not have the values that they replace
	failed error // a batch was read and not delivered: the watcher cannot go on
	// outdated is set when the rules have changed and values that were delivered can perhaps be decrypted now.
	outdated atomic.Bool
}

// Close implements store.Watcher.
func (w *watcher) Close() {
	w.s.mu.Lock()
	delete(w.s.watchers, w)
	w.s.mu.Unlock()
	w.Watcher.Close()
}

// Next implements store.Watcher.
func (w *watcher) Next(ctx context.Context) (store.Batch, error) {
	if w.failed != nil {
		return store.Batch{}, w.failed
	}
	b, err := w.Watcher.Next(ctx)
	if w.outdated.Load() && ctx.Err() == nil {
		w.failed = store.ErrCompacted
		return store.Batch{}, w.failed
	}
	if err != nil {
		return b, err
	}
	for i := range b.Events {
		if err := w.open(ctx, &b.Events[i]); err != nil {
			w.failed = err
			return store.Batch{}, err
		}
	}
	return b, nil
}

// open decrypts the value of an event and the value that it replaces.
func (w *watcher) open(ctx context.Context, e *store.Event) (err error) {
	if w.lean {
		e.Prev, e.PrevRev = nil, 0
	}
	if e.Value != nil {
		if e.Value, e.Sealed, err = w.s.open(ctx, e.Key, e.Value); err != nil {
			return err
		}
	}
	if e.Prev != nil {
		e.Prev, _, err = w.s.open(ctx, e.Key, e.Prev)
	}
	return err
}

// Close implements store.Store.
func (s *Store) Close() error {
	return errors.Join(s.Store.Close(), s.rules.Load().Close())
}

// Describe returns the names of the provider and the key that a stored value is encrypted with, such
// as "aescbc key1" or "kms plugin1", and "" if it is not encrypted. It needs no configuration.
func Describe(value []byte) string {
	rest, encrypted := bytes.CutPrefix(value[:min(len(value), maxName)], []byte(marker))
	if !encrypted {
		return ""
	}
	parts := strings.SplitN(string(rest), ":", 4) // provider, version, key, and the encrypted bytes
	if len(parts) < 4 {
		return "an unknown provider"
	}
	return parts[0] + " " + parts[2]
}

// maxName is the number of bytes in which Describe looks for names.
const maxName = 1 << 10
