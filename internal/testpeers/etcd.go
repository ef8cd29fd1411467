package testpeers

import (
	"fmt"
	"net/url"

	"go.etcd.io/etcd/server/v3/embed"
)

// This file starts etcd.

// EtcdURL is what clients of a member on a port of loopback connect to.
func EtcdURL(port int) url.URL {
	return url.URL{Scheme: "http", Host: fmt.Sprintf("127.0.0.1:%d", port)}
}

// StartEtcd starts a cluster of one member, for clients on one port and for members on the other, and waits until it serves. Its ticks
// are as short as those of Keelson's own, so that nobody waits for an election; fsync and all else are etcd's defaults, which configure
// may change.
func StartEtcd(dir string, port, peer int, configure ...func(*embed.Config)) (*embed.Etcd, error) {
	cfg := embed.NewConfig()
	cfg.Dir = dir
	cfg.ListenClientUrls = []url.URL{EtcdURL(port)}
	cfg.ListenPeerUrls = []url.URL{EtcdURL(peer)}
	cfg.AdvertiseClientUrls, cfg.AdvertisePeerUrls = cfg.ListenClientUrls, cfg.ListenPeerUrls
	cfg.InitialCluster = cfg.InitialClusterFromName(cfg.Name)
	cfg.TickMs, cfg.ElectionMs = 10, 100
	cfg.LogLevel = "fatal" // as it stops, it reports its own closed ports as errors
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

// NoSync makes a member that may lose everything when the machine fails.
func NoSync(c *embed.Config) { c.UnsafeNoFsync = true }
