package server_test

import (
	"context"
	"fmt"
	"io"
	"log"
	"log/slog"

	"k8s.io/client-go/tools/clientcmd"

	"github.com/keelson-io/keelson/server"
)

// A server in this process, with its data in memory. With Database: etcd.Database{} (package server/etcd) and a DataDir in
// place of the Store, the data is on disk.
func ExampleNew() {
	ctx, stop := context.WithCancel(context.Background())
	s, err := server.New(ctx, server.Config{
		Store:      server.InMemory(),
		SecurePort: -1, // any free port
		Logger:     slog.New(slog.NewTextHandler(io.Discard, nil)),
	})
	if err != nil {
		log.Fatal(err)
	}
	ended := make(chan error)
	go func() { ended <- s.Run(ctx) }()

	config, err := clientcmd.RESTConfigFromKubeConfig(s.Kubeconfig()) // for clients, with all permissions
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(config.Host == "https://"+s.Addr())

	stop()
	fmt.Println(<-ended)
	// Output:
	// true
	// <nil>
}
