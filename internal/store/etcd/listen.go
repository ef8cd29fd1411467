package etcd

// This file serves etcd's protocol from an embedded server.

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"strings"

	"go.etcd.io/etcd/server/v3/etcdserver/api/v3rpc"
)

// Serve runs an etcd of one member in c.DataDir and serves gRPC, and /health over plain HTTP, at l
// until ctx ends. It is for tests that need an etcd beside their server: connections are neither
// encrypted nor authenticated.
func Serve(ctx context.Context, c Config, l net.Listener) error {
	defer l.Close()
	c.NoChecksums = true // clients write past them
	e, err := startEmbedded(ctx, c.withDefaults())
	if err != nil {
		return err
	}
	rpc := v3rpc.Server(e.EtcdServer, nil, nil)
	h := &http.Server{
		Protocols: new(http.Protocols),
		Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			switch {
			case r.ProtoMajor == 2 && strings.HasPrefix(r.Header.Get("Content-Type"), "application/grpc"):
				rpc.ServeHTTP(w, r)
			case r.URL.Path == "/health":
				w.Header().Set("Content-Type", "application/json")
				fmt.Fprintln(w, `{"health":"true","reason":""}`)
			default:
				http.NotFound(w, r)
			}
		}),
	}
	h.Protocols.SetHTTP1(true)
	h.Protocols.SetUnencryptedHTTP2(true)
	failed := make(chan error, 1)
	go func() { failed <- h.Serve(l) }()
	select {
	case <-ctx.Done():
		err = nil
	case err = <-failed:
	case <-e.failed():
		err = e.failure()
	}
	rpc.Stop()
	h.Close()
	return errors.Join(err, e.close())
}
