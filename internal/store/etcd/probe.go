package etcd

// This file looks at a cluster and at a disk without opening a store, for commands that check a
// machine.

import (
	"context"
	"fmt"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"
	"google.golang.org/grpc"
)

// Member is what a member of a cluster says about itself.
type Member struct {
	Version   string   // of etcd
	HasLeader bool     // the member knows the leader of its cluster, without which it accepts no writes
	Problems  []string // such as alarms
}

// Probe asks the member at an endpoint about itself, with the certificates of c. It reads no keys,
// and ends with ctx.
func Probe(ctx context.Context, c Config, endpoint string) (*Member, error) {
	c.Endpoints = []string{endpoint}
	if err := checkEndpoint(endpoint); err != nil {
		return nil, err
	}
	tlsConfig, err := clientTLS(c)
	if err != nil {
		return nil, err
	}
	client, err := clientv3.New(clientv3.Config{
		Context: ctx, Endpoints: c.Endpoints, TLS: tlsConfig, MaxUnaryRetries: 1, Logger: zap.NewNop(), // the error says it all
		DialOptions: []grpc.DialOption{grpc.WithUserAgent("keelson")},
	})
	if err != nil {
		return nil, fmt.Errorf("connecting to etcd: %w", err)
	}
	defer client.Close()
	// The client's own Status waits until ctx ends for a server that refuses connections.
	status, err := pb.NewMaintenanceClient(client.ActiveConnection()).Status(ctx, &pb.StatusRequest{})
	if err != nil {
		return nil, fmt.Errorf("no answer from %s: %w", endpoint, plain(err))
	}
	return &Member{Version: status.Version, HasLeader: status.Leader != 0, Problems: status.Errors}, nil
}

// FreeBytes returns how many bytes a process without privileges can still write to the file system
// of a directory. It returns math.MaxInt64 on systems where that is unknown.
func FreeBytes(dir string) (int64, error) { return freeBytes(dir) }
