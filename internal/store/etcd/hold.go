package etcd

// This file writes keys that disappear with the process.

import (
	"context"
	"errors"
	"sync"
	"time"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/keelson-io/keelson/internal/store"
)

// holdFor is the number of seconds for which keys remain after a process was killed, as for
// kube-apiserver.
const holdFor = 15

// goodbye bounds the removal of the keys when the store is closed.
const goodbye = 2 * time.Second

// presence is the lease of all keys that the process holds.
type presence struct {
	mu    sync.Mutex
	lease clientv3.LeaseID // 0: none yet
}

var _ store.Holder = (*client)(nil)

// Hold implements store.Holder. For an embedded server it does nothing, because no other process
// uses it.
func (c *client) Hold(ctx context.Context, key string, value []byte) error {
	if err := c.usable(ctx); err != nil {
		return err
	}
	cl, ok := c.server.(*cluster)
	if !ok {
		return nil
	}
	if err := cl.hold(ctx, string(c.key(key)), value); err != nil {
		return c.explain(ctx, err)
	}
	return nil
}

// hold writes a key that disappears if this process ends. A lease that the cluster lost is replaced
// once.
func (c *cluster) hold(ctx context.Context, key string, value []byte) error {
	c.presence.mu.Lock()
	defer c.presence.mu.Unlock()
	ctx, cancel := limit(ctx)
	defer cancel()
	for again := false; ; again = true {
		if c.presence.lease == 0 {
			if err := c.appear(ctx); err != nil {
				return err
			}
		}
		_, err := c.client.Put(ctx, key, string(value), clientv3.WithLease(c.presence.lease))
		if again || !errors.Is(err, rpctypes.ErrLeaseNotFound) {
			return err
		}
		c.presence.lease = 0 // the lease expired while the process was suspended
	}
}

// appear creates a lease that is renewed until the connection is closed.
func (c *cluster) appear(ctx context.Context) error {
	granted, err := c.client.Grant(ctx, holdFor)
	if err != nil {
		return err
	}
	renewed, err := c.client.KeepAlive(c.life, granted.ID)
	if err != nil {
		return err
	}
	c.presence.lease = granted.ID
	go func() {
		for range renewed {
		}
	}()
	return nil
}

// leave revokes the lease, which deletes the keys.
func (c *cluster) leave() {
	c.presence.mu.Lock()
	defer c.presence.mu.Unlock()
	if c.presence.lease == 0 {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), goodbye)
	defer cancel()
	if _, err := c.client.Revoke(ctx, c.presence.lease); err != nil {
		c.log.Debug("etcd lease not revoked; it will expire", "err", err)
	}
}
