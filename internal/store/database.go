package store

// This file declares what a server asks of a database, apart from the Store: to make, open and
// restore one, and what some stores can do besides.

import (
	"context"
	"fmt"
	"io"
	"log/slog"
)

// Database makes and opens stores. Package internal/store/etcd has one, so that programs that need no
// database do not link etcd.
type Database interface {
	// Exists reports whether a directory has a store, intact or damaged.
	Exists(dir string) (bool, error)
	// Create creates an empty store in a directory without one, and reports whether it did.
	Create(ctx context.Context, at Location) (made bool, err error)
	// Open opens the store in a directory, or connects to a cluster; DamagedError.
	Open(ctx context.Context, at Location) (Store, error)
	// Restore fills an empty or missing directory with the data of a snapshot.
	Restore(snapshot, dir string, logger *slog.Logger) error
}

// Location says where a store is. Set either Dir or Endpoints.
type Location struct {
	Dir string // for this process only

	Endpoints []string // URLs of the members of a cluster
	CAFile    string   // certificates that signed those of the cluster; "" means the system's
	CertFile  string   // client certificate
	KeyFile   string

	Prefix string // of every key; "" means "registry", so that keys start with "/registry/"

	Logger *slog.Logger // nil means slog.Default()
}

// Mortal is a Store that can fail for good while it is open, because its files can no longer be
// used. Reads from caches may go on meanwhile.
type Mortal interface {
	// Failed returns a channel that is closed when the store has failed; nil if that cannot be.
	Failed() <-chan struct{}
	// Failure returns why the store has failed, nil if it has not. After ErrDiskFull the store can
	// be opened again once HasRoom reports true.
	Failure() error
	HasRoom() bool
}

// Truster is a Store that may connect to servers whose certificates it verifies.
type Truster interface {
	// Trust replaces the authorities, in PEM, for connections that begin from now on.
	Trust(authorities []byte) error
}

// Snapshotter is a Store that can write snapshots.
type Snapshotter interface {
	// Snapshot writes the state of one moment, which includes all writes acknowledged before the
	// call.
	Snapshot(ctx context.Context, w io.Writer) error
	// SaveSnapshot writes a snapshot to a file, which appears only when it is complete, on disk and
	// checked. It leaves the room on the file system that the database needs.
	SaveSnapshot(ctx context.Context, file string) error
}

// DamagedError is the error for damaged files. The directory is unchanged.
type DamagedError struct {
	Dir  string // of the store
	File string // in which the damage was found, if that is known
	Err  error
}

// Error implements error.
func (e *DamagedError) Error() string {
	if e.File == "" {
		return fmt.Sprintf("the store in %s is damaged: %v", e.Dir, e.Err)
	}
	return fmt.Sprintf("the store in %s is damaged: %s: %v", e.Dir, e.File, e.Err)
}

// Unwrap is for package errors.
func (e *DamagedError) Unwrap() error { return e.Err }
