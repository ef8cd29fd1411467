package etcd_test

import (
	"context"
	"fmt"
	"log"
	"log/slog"
	"os"

	"github.com/keelson-io/keelson/server"
	"github.com/keelson-io/keelson/server/etcd"
)

// A server in this process whose data survives it, in an embedded etcd.
func ExampleUse() {
	dir, err := os.MkdirTemp("", "")
	if err != nil {
		log.Fatal(err)
	}
	defer os.RemoveAll(dir)
	ctx, stop := context.WithCancel(context.Background())
	config := server.Config{DataDir: dir, SecurePort: -1, Logger: slog.New(slog.DiscardHandler)}
	etcd.Use(&config)
	s, err := server.New(ctx, config)
	if err != nil {
		log.Fatal(err)
	}
	ended := make(chan error)
	go func() { ended <- s.Run(ctx) }()
	stop()
	fmt.Println(<-ended)
	// Output: <nil>
}
