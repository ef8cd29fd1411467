package etcd

// This file reads and writes: it translates calls of the store to requests of etcd.

import (
	"context"
	"unsafe"

	"go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/mvccpb"

	"github.com/keelson-io/keelson/internal/store"
)

// key returns an etcd key.
func (c *client) key(k string) []byte {
	b := make([]byte, 0, len(c.prefix)+len(k))
	return append(append(b, c.prefix...), k...)
}

// item converts an item of etcd. Its key shares memory with etcd's, which is immutable.
func (c *client) item(kv *mvccpb.KeyValue) store.Item {
	return store.Item{Key: c.trim(kv.Key), Value: c.checked(kv), Rev: kv.ModRevision}
}

// checked returns the value of an item that was read, or store.Damaged if its checksum is wrong.
func (c *client) checked(kv *mvccpb.KeyValue) []byte {
	e, ok := c.server.(*embedded)
	if !ok || e.sums == nil || e.sums.check(kv.ModRevision, kv.Key, kv.Value) {
		return kv.Value
	}
	key := c.trim(kv.Key)
	c.log.Error("a stored value is damaged: restore a snapshot, or delete the object", "key", key, "revision", kv.ModRevision)
	return store.Damaged(key)
}

// trim returns a stored key without the prefix of this client. The string shares the memory of the
// key, which etcd does not change.
func (c *client) trim(key []byte) string {
	key = key[len(c.prefix):]
	return unsafe.String(unsafe.SliceData(key), len(key))
}

// Get implements store.Store.
func (c *client) Get(ctx context.Context, key string) (store.Item, error) {
	if err := c.usable(ctx); err != nil {
		return store.Item{}, err
	}
	r, err := c.Range(ctx, &etcdserverpb.RangeRequest{Key: c.key(key), Serializable: c.local()})
	if err != nil {
		return store.Item{}, c.explain(ctx, err)
	}
	if len(r.Kvs) == 0 {
		return store.Item{}, store.ErrNotFound
	}
	return c.item(r.Kvs[0]), nil
}

// List implements store.Store.
func (c *client) List(ctx context.Context, prefix string, o store.ListOptions) (store.Page, error) {
	if err := c.usable(ctx); err != nil {
		return store.Page{}, err
	}
	req := &etcdserverpb.RangeRequest{
		Key:          c.key(max(prefix, o.From)),
		RangeEnd:     rangeEnd(c.key(prefix)),
		Limit:        max(0, o.Limit),
		Revision:     o.Rev,
		Serializable: c.local(),
	}
	if string(req.Key) >= string(req.RangeEnd) { // From is beyond the prefix
		rev, err := c.Revision(ctx)
		if o.Rev != 0 {
			rev = o.Rev
		}
		return store.Page{Rev: rev}, err
	}
	r, err := c.Range(ctx, req)
	if err != nil {
		return store.Page{}, c.futureError(ctx, o.Rev, err)
	}
	p := store.Page{Items: make([]store.Item, len(r.Kvs)), Rev: r.Header.Revision, More: r.More}
	if o.Rev != 0 {
		p.Rev = o.Rev
	}
	for i, kv := range r.Kvs {
		p.Items[i] = c.item(kv)
	}
	return p, nil
}

// futureError is explain for requests at a revision. For a revision in the future, it also reads
// the current one.
func (c *client) futureError(ctx context.Context, wanted int64, err error) error {
	err = c.explain(ctx, err)
	if err != store.ErrFuture {
		return err
	}
	rev, err := c.Revision(ctx)
	if err != nil {
		return err
	}
	return &store.FutureError{Wanted: wanted, Current: rev}
}

// rangeEnd returns the first key after all keys with a prefix. The prefix must contain a byte below
// 0xff.
func rangeEnd(prefix []byte) []byte {
	end := append([]byte(nil), prefix...)
	for i := len(end) - 1; i >= 0; i-- {
		if end[i] < 0xff {
			end[i]++
			return end[:i+1]
		}
	}
	return []byte{0} // all keys
}

// Create implements store.Store: the key is written if it has no create revision, so does not
// exist.
func (c *client) Create(ctx context.Context, key string, value []byte) (int64, error) {
	k := c.key(key)
	rev, _, err := c.write(ctx, &etcdserverpb.TxnRequest{
		Compare: []*etcdserverpb.Compare{{
			Key:         k,
			Target:      etcdserverpb.Compare_CREATE,
			Result:      etcdserverpb.Compare_EQUAL,
			TargetUnion: &etcdserverpb.Compare_CreateRevision{},
		}},
		Success: put(k, value),
	}, len(key)+len(value))
	if err == errCompare {
		err = store.ErrExists
	}
	return rev, err
}

// Update implements store.Store: the key is written if it is still at revision rev.
func (c *client) Update(ctx context.Context, key string, value []byte, rev int64) (int64, error) {
	k := c.key(key)
	return c.swap(ctx, k, rev, put(k, value), len(key)+len(value))
}

// Delete implements store.Store. Its size is 0, because a delete may use the last reserve of space.
func (c *client) Delete(ctx context.Context, key string, rev int64) (int64, error) {
	k := c.key(key)
	return c.swap(ctx, k, rev, []*etcdserverpb.RequestOp{{
		Request: &etcdserverpb.RequestOp_RequestDeleteRange{
			RequestDeleteRange: &etcdserverpb.DeleteRangeRequest{Key: k},
		},
	}}, 0)
}

// put returns the operation that writes a value.
func put(key, value []byte) []*etcdserverpb.RequestOp {
	return []*etcdserverpb.RequestOp{{
		Request: &etcdserverpb.RequestOp_RequestPut{
			RequestPut: &etcdserverpb.PutRequest{Key: key, Value: value},
		},
	}}
}

// swap performs a write if the key was last written at rev. Otherwise it reads the key, in the same
// transaction.
func (c *client) swap(ctx context.Context, key []byte, rev int64, op []*etcdserverpb.RequestOp, size int) (int64, error) {
	if rev == 0 {
		rev = -1 // revision 0 means absent, and must not match an absent key
	}
	newRev, r, err := c.write(ctx, &etcdserverpb.TxnRequest{
		Compare: []*etcdserverpb.Compare{{
			Key:         key,
			Target:      etcdserverpb.Compare_MOD,
			Result:      etcdserverpb.Compare_EQUAL,
			TargetUnion: &etcdserverpb.Compare_ModRevision{ModRevision: rev},
		}},
		Success: op,
		Failure: []*etcdserverpb.RequestOp{{
			Request: &etcdserverpb.RequestOp_RequestRange{RequestRange: &etcdserverpb.RangeRequest{Key: key}},
		}},
	}, size)
	if err != errCompare {
		return newRev, err
	}
	kvs := r.Responses[0].GetResponseRange().Kvs
	if len(kvs) == 0 {
		return 0, &store.Changed{Gone: true}
	}
	return 0, &store.Changed{Current: c.item(kvs[0])}
}

// write runs a transaction. errCompare means that its comparison failed. size is the number of
// bytes that it stores, 0 for a delete.
func (c *client) write(ctx context.Context, r *etcdserverpb.TxnRequest, size int) (int64, *etcdserverpb.TxnResponse, error) {
	if err := c.usable(ctx); err != nil {
		return 0, nil, err
	}
	if size > store.MaxValue {
		return 0, nil, store.ErrTooLarge
	}
	if err := c.mayWrite(size); err != nil {
		return 0, nil, err
	}
	resp, err := c.Txn(ctx, r)
	if err != nil {
		return 0, nil, c.explain(ctx, err)
	}
	if !resp.Succeeded {
		return 0, resp, errCompare
	}
	return resp.Header.Revision, resp, nil
}

// Revision implements store.Store.
func (c *client) Revision(ctx context.Context) (int64, error) {
	if err := c.usable(ctx); err != nil {
		return 0, err
	}
	rev, err := c.revision(ctx)
	if err != nil {
		return 0, c.explain(ctx, err)
	}
	return rev, nil
}

// RequestProgress implements store.Store.
func (c *client) RequestProgress(ctx context.Context) error {
	if err := c.usable(ctx); err != nil {
		return err
	}
	return c.progress(ctx)
}

// Compact implements store.Store.
func (c *client) Compact(ctx context.Context, rev int64) error {
	if err := c.usable(ctx); err != nil {
		return err
	}
	_, err := c.server.Compact(ctx, &etcdserverpb.CompactionRequest{Revision: rev})
	if err != nil {
		return c.futureError(ctx, rev, err)
	}
	return nil
}
