package etcd

// This file writes the data of an etcd to one file, and fills a data directory from such a file.

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"sync/atomic"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/client/pkg/v3/fileutil"
	"go.etcd.io/etcd/etcdutl/v3/snapshot"

	"github.com/keelson-io/keelson/store"
)

var _ store.Snapshotter = (*client)(nil)

// Snapshot implements store.Snapshotter.
func (c *client) Snapshot(ctx context.Context, w io.Writer) error {
	if err := c.usable(ctx); err != nil {
		return err
	}
	return c.snapshot(ctx, w)
}

// snapshot writes the database, after a check of all its values, to w.
func (e *embedded) snapshot(ctx context.Context, w io.Writer) error {
	if err := e.failure(); err != nil {
		return err
	}
	if err := e.checkValues(ctx); err != nil {
		return err
	}
	s := e.Backend().Snapshot()
	defer s.Close()
	sum := sha256.New()
	if _, err := s.WriteTo(io.MultiWriter(until{ctx, w}, sum)); err != nil {
		return err
	}
	_, err := w.Write(sum.Sum(nil))
	return err
}

// SaveSnapshot implements store.Snapshotter.
func (c *client) SaveSnapshot(ctx context.Context, file string) error {
	dir := filepath.Dir(file)
	if e, ok := c.server.(*embedded); ok {
		if free, err := freeBytes(dir); err == nil && free < e.Backend().Size()+reserve {
			return diskFull(dir, free, e.Backend().Size()+reserve, "for a snapshot")
		}
	}
	part := file + ".part"
	f, err := os.OpenFile(part, os.O_CREATE|os.O_TRUNC|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	defer os.Remove(part) // fails after success, when the file was renamed
	if err := errors.Join(c.Snapshot(ctx, f), fileutil.Fsync(f), f.Close()); err != nil {
		return err
	}
	if err := CheckSnapshot(part); err != nil {
		return err
	}
	return errors.Join(os.Rename(part, file), syncDir(dir))
}

// until is a writer that fails when its context has ended.
type until struct {
	ctx context.Context
	io.Writer
}

// Write writes to the inner writer until the context ends.
func (u until) Write(b []byte) (int, error) {
	if err := u.ctx.Err(); err != nil {
		return 0, err
	}
	return u.Writer.Write(b)
}

// snapshot writes the snapshot that one member of the cluster sends to w.
func (c *cluster) snapshot(ctx context.Context, w io.Writer) error {
	stream, err := pb.NewMaintenanceClient(c.client.ActiveConnection()).Snapshot(ctx, &pb.SnapshotRequest{})
	if err != nil {
		return err
	}
	for {
		part, err := stream.Recv()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		if _, err := w.Write(part.Blob); err != nil {
			return err
		}
	}
}

// CheckSnapshot returns an error unless a file is a complete snapshot: a database of etcd, followed
// by its SHA-256.
func CheckSnapshot(file string) error {
	f, err := os.Open(file)
	if err != nil {
		return err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return err
	}
	size := info.Size() - sha256.Size
	if size <= 0 || size%512 != 0 {
		return fmt.Errorf("%s is no snapshot, or only a part of one: %d bytes do not end with a checksum", file, info.Size())
	}
	sum, want := sha256.New(), make([]byte, sha256.Size)
	if _, err := io.CopyN(sum, f, size); err != nil {
		return err
	}
	if _, err := io.ReadFull(f, want); err != nil {
		return err
	}
	if got := sum.Sum(nil); string(got) != string(want) {
		return fmt.Errorf("%s is damaged: its checksum is %x, want %x", file, got, want)
	}
	if err := readDBFile(f, func(string, []byte, []byte) {}); err != nil {
		return fmt.Errorf("%s is no snapshot of etcd's: %w", file, err)
	}
	return nil
}

// revisionBump is added to the revision of a restored store. Revisions that clients remember from
// the time between snapshot and loss are then in the past, and expired. etcd's documentation
// recommends 10^9.
const revisionBump = 1_000_000_000

// Restore fills dir with the data of a snapshot, made by this package or by etcd's tools. dir must
// be empty or not exist. Clients that know newer revisions than the snapshot's get an error that
// these have expired, and list again. If Restore fails, it leaves nothing behind.
func Restore(file, dir string, logger *slog.Logger) error {
	if err := CheckSnapshot(file); err != nil {
		return err
	}
	if err := vacant(dir); err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Dir(dir), 0o700); err != nil {
		return err
	}
	part := dir + ".part"
	if err := os.RemoveAll(part); err != nil {
		return err
	}
	died := make(chan error, 1)
	go func() {
		// This runs in its own goroutine, because etcd reports a failed write by ending the
		// goroutine.
		log := newLogger(logger, new(atomic.Bool), func(err error) { died <- err })
		c := serverConfig(Config{DataDir: part}, log)
		died <- snapshot.NewV3(log).Restore(snapshot.RestoreConfig{
			SnapshotPath: file, OutputDataDir: part,
			Name: c.Name, PeerURLs: c.PeerURLs.StringSlice(), InitialCluster: c.InitialPeerURLsMap.String(), InitialClusterToken: c.InitialClusterToken,
			RevisionBump: revisionBump, MarkCompacted: true,
		})
	}()
	err := <-died
	if err == nil {
		err = syncDir(part)
	}
	if err == nil {
		err = errors.Join(removeVacant(dir), os.Rename(part, dir))
	}
	if err == nil {
		err = syncDir(filepath.Dir(dir))
	}
	if err != nil {
		return errors.Join(fmt.Errorf("restoring %s: %w", file, err), os.RemoveAll(part))
	}
	return nil
}

// vacant reports whether a snapshot can be restored to a directory: it does not exist, or has only
// the files of a server that found no store there.
func vacant(dir string) error {
	entries, err := os.ReadDir(dir)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	for _, e := range entries {
		if name := e.Name(); name != lockFile && (name != firstDir || !e.IsDir()) {
			return fmt.Errorf("%s is not empty; a snapshot is restored into a directory of its own: move what is there away", dir)
		}
	}
	return nil
}

// removeVacant removes a directory that is vacant.
func removeVacant(dir string) error {
	err := errors.Join(os.RemoveAll(filepath.Join(dir, firstDir)), remove(filepath.Join(dir, lockFile)))
	if err != nil {
		return err
	}
	return remove(dir)
}

// remove removes a file or an empty directory, if it is there.
func remove(path string) error {
	if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}
