package etcd

// This file makes etcd the database of servers.

import (
	"context"
	"log/slog"

	"github.com/keelson-io/keelson/internal/store"
)

// Database is etcd as the database of a server: embedded, or a cluster.
type Database struct{}

var _ store.Database = Database{}

// configAt returns the configuration of a store at a location.
func configAt(at store.Location) Config {
	return Config{
		DataDir: at.Dir, Endpoints: at.Endpoints, CAFile: at.CAFile, CertFile: at.CertFile, KeyFile: at.KeyFile,
		Prefix: at.Prefix, Logger: at.Logger,
	}
}

// Exists implements store.Database.
func (Database) Exists(dir string) (bool, error) { return Exists(dir) }

// Create implements store.Database.
func (Database) Create(ctx context.Context, at store.Location) (made bool, err error) {
	return Create(ctx, configAt(at))
}

// Open implements store.Database.
func (Database) Open(ctx context.Context, at store.Location) (store.Store, error) {
	return Open(ctx, configAt(at))
}

// Restore implements store.Database.
func (Database) Restore(snapshot, dir string, logger *slog.Logger) error {
	return Restore(snapshot, dir, logger)
}
