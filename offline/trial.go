package offline

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/keelson-io/keelson/internal/meta"
	"github.com/keelson-io/keelson/internal/store"
	"github.com/keelson-io/keelson/jsondoc"
	"github.com/keelson-io/keelson/kind"
)

// This file has a store that is restored after each request.

// trial is a store that can hide one key: a create must not find the object, although other
// requests may need it.
type trial struct {
	store.Store
	hidden string
}

// Get implements store.Store.
func (t *trial) Get(ctx context.Context, key string) (store.Item, error) {
	if key == t.hidden {
		return store.Item{}, store.ErrNotFound
	}
	return t.Store.Get(ctx, key)
}

// placed is an object that was put into the store for a request.
type placed struct {
	version *kind.Version
	key     string
	rev     int64
	before  *store.Item // the item that it replaced; nil if there was none
}

// put stores an object without validation, and adds the metadata that every stored object has.
// namespace is that of an object that names none.
func (s *Server) put(ctx context.Context, d Document, namespace string) (*placed, error) {
	h, err := headOf(d)
	if err != nil {
		return nil, err
	}
	v, err := s.find(h)
	if err != nil {
		return nil, err
	}
	object := new(jsondoc.Doc)
	if _, err := v.Decode(object, d.JSON); err != nil {
		return nil, fmt.Errorf("%s in version %q cannot be handled as a %s: %w", v.Kind.Name, v.Name, v.Kind.Name, err)
	}
	m, in := meta.Object{Doc: object}, ""
	if v.Kind.Namespaced {
		in = h.namespace(namespace)
		m.SetNamespace(in)
	}
	if m.Name() == "" {
		return nil, errors.New("metadata.name: an object that exists has a name")
	}
	if m.UID() == "" {
		m.SetUID(meta.NewUID())
	}
	if m.CreationTimestamp() == "" {
		m.SetCreationTimestamp(time.Now())
	}
	if m.Generation() == 0 {
		m.SetGeneration(1)
	}
	// It is stored in its own version, so that a request in this version needs no conversion, which
	// might need a webhook.
	object.Remove("metadata", "resourceVersion")
	raw := append(object.Root().AppendJSON(nil), '\n')
	if v.Kind.Behavior.IsBuiltin {
		if raw, err = v.Encode(object, nil); err != nil {
			return nil, err
		}
	}
	return s.write(ctx, &placed{version: v, key: v.Kind.Key(in, h.Name)}, raw)
}

// write stores bytes under the key of p.
func (s *Server) write(ctx context.Context, p *placed, raw []byte) (*placed, error) {
	item, err := s.store.Get(ctx, p.key)
	switch {
	case err == nil:
		p.before = &item
		p.rev, err = s.store.Update(ctx, p.key, raw, item.Rev)
	case errors.Is(err, store.ErrNotFound):
		p.rev, err = s.store.Create(ctx, p.key, raw)
	}
	return p, err
}

// takeBack restores the state before an object was put into the store.
func (s *Server) takeBack(ctx context.Context, p *placed) error {
	var err error
	if p.before == nil {
		_, err = s.store.Delete(ctx, p.key, p.rev)
	} else {
		_, err = s.store.Update(ctx, p.key, p.before.Value, p.rev)
	}
	return err
}
