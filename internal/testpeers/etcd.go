package testpeers

import (
	"fmt"
	"net/url"

	"go.etcd.io/etcd/server/v3/embed"
)

// This file starts etcd.

// EtcdURL returns the URL of a member of etcd on a port of the loopback interface.
func EtcdURL(port int) url.URL {
	return url.URL{Scheme: "http", Host: fmt.Sprintf("127.0.0.1:%d", port)}
}

// StartEtcd starts an etcd cluster of one member, with a port for clients and one for peers, and
// waits until it serves. Its ticks are as short as those of the embedded etcd, to avoid waiting for
// the election. All other options have etcd's defaults, which configure may change.
func StartEtcd(dir string, port, peer int, configure ...func(*embed.Config)) (*embed.Etcd, error) {
	cfg := embed.NewConfig()
	cfg.Dir = dir
	cfg.ListenClientUrls = []url.URL{EtcdURL(port)}
	cfg.ListenPeerUrls = []url.URL{EtcdURL(peer)}
	cfg.AdvertiseClientUrls, cfg.AdvertisePeerUrls = cfg.ListenClientUrls, cfg.ListenPeerUrls
	cfg.InitialCluster = cfg.InitialClusterFromName(cfg.Name)
	cfg.TickMs, cfg.ElectionMs = 10, 100
	cfg.LogLevel = "fatal" // while it stops, it reports its own closed ports as errors
	for _, change := range configure {
		change(cfg)
	}
	e, err := embed.StartEtcd(cfg)
	if err != nil {
		return nil, err
	}
	select {
	case <-e.Server.ReadyNotify():
		return e, nil
	case err := <-e.Err():
		e.Close()
		return nil, err
	}
}

// NoSync disables fsync.
func NoSync(c *embed.Config) { c.UnsafeNoFsync = true }
