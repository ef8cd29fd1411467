// Package etcd keeps the data of a [server.Server] in etcd, embedded or a cluster. It is apart from package server because it links
// etcd and gRPC.
package etcd

import (
	"github.com/keelson-io/keelson/internal/authn/externalsigner"
	"github.com/keelson-io/keelson/internal/store/encrypt/kms"
	"github.com/keelson-io/keelson/internal/store/etcd"
	"github.com/keelson-io/keelson/server"
)

// Database stores data in an embedded etcd in [server.Config].DataDir or in the cluster at EtcdServers.
type Database = etcd.Database

// Use sets what "keelson serve" uses: the Database, and the connections to KMS plugins and to programs that sign service account
// tokens.
func Use(c *server.Config) {
	c.Database, c.KMS, c.TokenSigner = Database{}, kms.Dial, externalsigner.Dial
}
