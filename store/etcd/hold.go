package etcd

// This file writes keys that go with the process.

import (
	"context"
	"errors"
	"sync"
	"time"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/keelson-io/keelson/store"
)

// holdFor is how long keys stay after a process ended without a word, in seconds: as long as kube-apiserver's.
const holdFor = 15

// goodbye is how long the cluster has to forget a process that ends.
const goodbye = 2 * time.Second

// presence is a process in a cluster: the lease of all keys that it holds.
type presence struct {
	mu    sync.Mutex
	lease clientv3.LeaseID // 0: none yet
}

var _ store.Holder = (*client)(nil)

// Hold implements store.Holder. An embedded server is used by nobody else.
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
		c.presence.lease = 0 // the process slept for too long
	}
}

// appear gets a lease that is kept until the connection is closed.
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

// leave makes the keys go.
func (c *cluster) leave() {
	c.presence.mu.Lock()
	defer c.presence.mu.Unlock()
	if c.presence.lease == 0 {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), goodbye)
	defer cancel()
	if _, err := c.client.Revoke(ctx, c.presence.lease); err != nil {
		c.log.Debug("etcd lease not given back, it will expire", "err", err)
	}
}
