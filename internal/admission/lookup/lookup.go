// Package lookup reads the objects by which admission steps decide, as Go values.
//
// A [Lister] reads one resource from the cache. It remembers the decoded form of each object until
// the object changes, so that a namespace with quotas or limits does not decode them for each write.
//
// # Invariants
//
//   - Values are shared and are not changed.
//   - What a Lister remembers grows with the objects that it has read and that still exist, up to 1 MiB of
//     their stored bytes. A value can take ten times as much.
//   - List returns the state that the cache has. A create in a namespace has waited for the newest
//     state in the step NamespaceLifecycle; other requests call Current first.
package lookup

import (
	"context"
	"strings"
	"sync"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/keelson-io/keelson/internal/cache"
	"github.com/keelson-io/keelson/internal/status"
	"github.com/keelson-io/keelson/kind"
)

// Source is where objects are.
type Source struct {
	Kinds func() *kind.Snapshot
	Cache *cache.Cache
}

// Lister reads the objects of a resource as T, the Go type of its storage version.
type Lister[T any] struct {
	source   Source
	resource schema.GroupResource

	mu      sync.Mutex
	decoded map[string]memo[T] // by key
	bytes   int                // stored bytes of decoded
}

// memo is the decoded form of a state of an object.
type memo[T any] struct {
	object *cache.Object
	value  *T
}

// What a Lister remembers: stored bytes of all objects together, and of one.
const (
	mostBytes = 1 << 20
	oneBytes  = mostBytes / 16
)

// spare is the number of remembered objects that may be gone before all of them are looked through.
const spare = 64

// New returns a Lister for a resource.
func New[T any](s Source, resource schema.GroupResource) *Lister[T] {
	return &Lister[T]{source: s, resource: resource, decoded: map[string]memo[T]{}}
}

// open returns the kind and its objects; nil if the kind is not served.
func (l *Lister[T]) open(ctx context.Context) (*kind.Kind, *cache.Resource, error) {
	k := l.source.Kinds().Lookup(l.resource.Group, l.resource.Resource)
	if k == nil {
		return nil, nil, nil
	}
	objects := l.source.Cache.Resource(k.StoragePrefix)
	if err := objects.Ready(ctx); err != nil {
		return nil, nil, status.Internal(err)
	}
	return k, objects, nil
}

// Current waits until the cache has every write that was acknowledged before.
func (l *Lister[T]) Current(ctx context.Context) error {
	_, objects, err := l.open(ctx)
	if err != nil || objects == nil {
		return err
	}
	if err := objects.Fresh(ctx); err != nil {
		return status.Internal(err)
	}
	return nil
}

// Get returns an object, nil if it does not exist. If the cache does not have it, Get waits for the
// newest state.
func (l *Lister[T]) Get(ctx context.Context, namespace, name string) (*T, error) {
	k, objects, err := l.open(ctx)
	if err != nil || k == nil || name == "" {
		return nil, err
	}
	key := k.Key(namespace, name)
	o, ok := objects.Get(key)
	if !ok {
		if err := objects.Fresh(ctx); err != nil {
			return nil, status.Internal(err)
		}
		if o, ok = objects.Get(key); !ok {
			return nil, nil
		}
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.decode(k, o)
}

// List returns the objects of a namespace, "" meaning all objects, in the order of their keys.
func (l *Lister[T]) List(ctx context.Context, namespace string) ([]*T, error) {
	k, objects, err := l.open(ctx)
	if err != nil || k == nil {
		return nil, err
	}
	now := objects.Snapshot()
	if now.Len() == 0 {
		return nil, nil
	}
	prefix := k.StoragePrefix + "/"
	if namespace != "" {
		prefix += namespace + "/"
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	var found []*T
	now.Ascend(prefix, func(o *cache.Object) bool {
		if !strings.HasPrefix(o.Key, prefix) {
			return false
		}
		var v *T
		if v, err = l.decode(k, o); err != nil {
			return false
		}
		found = append(found, v)
		return true
	})
	l.sweep(now)
	return found, err
}

// decode returns the Go value of an object. The caller holds mu.
func (l *Lister[T]) decode(k *kind.Kind, o *cache.Object) (*T, error) {
	if m := l.decoded[o.Key]; m.object == o {
		return m.value, nil
	}
	view, err := o.View(k.Storage)
	if err != nil {
		return nil, err
	}
	v := new(T)
	if err := kind.UnmarshalStored(view.JSON, v); err != nil {
		return nil, status.Internal(err)
	}
	l.forget(o.Key)
	if len(o.Raw) <= oneBytes {
		for key := range l.decoded { // any
			if l.bytes+len(o.Raw) <= mostBytes {
				break
			}
			l.forget(key)
		}
		l.decoded[o.Key] = memo[T]{o, v}
		l.bytes += len(o.Raw)
	}
	return v, nil
}

// forget drops the decoded form of an object. The caller holds mu.
func (l *Lister[T]) forget(key string) {
	if m, ok := l.decoded[key]; ok {
		l.bytes -= len(m.object.Raw)
		delete(l.decoded, key)
	}
}

// sweep forgets objects that are gone if there may be many. The caller holds mu.
func (l *Lister[T]) sweep(now cache.Snapshot) {
	if len(l.decoded) <= now.Len()+spare {
		return
	}
	for key := range l.decoded {
		if _, ok := now.Get(key); !ok {
			l.forget(key)
		}
	}
}

// Resource returns the resource that the Lister reads.
func (l *Lister[T]) Resource() schema.GroupResource { return l.resource }
