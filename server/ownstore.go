package server

import (
	"context"
	"errors"
	"strings"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/keelson-io/keelson/authz"
	"github.com/keelson-io/keelson/crd"
	"github.com/keelson-io/keelson/internal/audit"
	"github.com/keelson-io/keelson/internal/objects"
	"github.com/keelson-io/keelson/internal/status"
	"github.com/keelson-io/keelson/internal/store"
	"github.com/keelson-io/keelson/kind"
)

// This file records what parts of the server write to the store without the verbs.

// recordingStore is a store whose writes are recorded as requests of the server itself. Its values are
// objects in JSON.
type recordingStore struct {
	store.Store
	own     *ownParts
	kinds   *kind.Registry
	manager string
}

// recording returns the store for a part of the server with a field manager.
func (s *Server) recording(st store.Store, manager string) store.Store {
	if s.own.audit == nil {
		return st
	}
	return recordingStore{st, s.own, s.kinds, manager}
}

// Create implements store.Store.
func (r recordingStore) Create(ctx context.Context, key string, value []byte) (int64, error) {
	rec, err := r.begin("create", key)
	if err != nil {
		return 0, err
	}
	rev, err := r.Store.Create(ctx, key, value)
	end(rec, value, err)
	return rev, err
}

// Update implements store.Store.
func (r recordingStore) Update(ctx context.Context, key string, value []byte, rev int64) (int64, error) {
	rec, err := r.begin("update", key)
	if err != nil {
		return 0, err
	}
	rev, err = r.Store.Update(ctx, key, value, rev)
	end(rec, value, err)
	return rev, err
}

// Delete implements store.Store.
func (r recordingStore) Delete(ctx context.Context, key string, rev int64) (int64, error) {
	rec, err := r.begin("delete", key)
	if err != nil {
		return 0, err
	}
	rev, err = r.Store.Delete(ctx, key, rev)
	end(rec, nil, err)
	return rev, err
}

// begin begins the record of a write.
func (r recordingStore) begin(verb, key string) (*ownEntry, error) {
	a := r.attributes(key)
	a.User, a.Verb, a.ResourceRequest = objects.Server().User(), verb, true
	if verb == "update" && strings.HasPrefix(key, crd.Prefix+"/") {
		a.Subresource = "status" // all that the server changes of a definition, besides its finalizer
	}
	name := a.Name
	a.Name = nameIn(verb, name)
	return r.own.record(a, name, r.manager, "")
}

// attributes names the object of a key. A definition that earlier releases accepted and that is refused
// now has no kind: its objects are named by their key alone.
func (r recordingStore) attributes(key string) *authz.Attributes {
	for k := range r.kinds.Load().All() {
		if k.StoragePrefix != "" && strings.HasPrefix(key, k.StoragePrefix+"/") {
			namespace, name := objects.SplitKey(k, key)
			return &authz.Attributes{Group: k.Group, Version: k.Storage.Name, Resource: k.Plural, Namespace: namespace, Name: name}
		}
	}
	parts := strings.SplitN(key, "/", 3)
	for len(parts) < 3 {
		parts = append(parts, "")
	}
	return &authz.Attributes{Group: parts[0], Resource: parts[1], Name: parts[2]}
}

// failure returns the API's error for one of a write to the store.
func failure(gr schema.GroupResource, name string, err error) error {
	if errors.Is(err, store.ErrExists) {
		return status.AlreadyExists(gr, name)
	}
	if errors.Is(err, store.ErrNotFound) {
		return status.NotFound(gr, name)
	}
	if changed, ok := errors.AsType[*store.Changed](err); ok {
		return status.Conflict(gr, name, changed)
	}
	return objects.StoreError(err)
}

// end completes a record.
func end(e *ownEntry, value []byte, err error) {
	if e == nil {
		return
	}
	if value != nil {
		object := func() []byte { return value }
		e.RequestObject(audit.Object{Name: e.name}, object)
		if err == nil {
			e.ResponseObject(object)
		}
	}
	e.answer(failure(e.resource, e.name, err))
}
