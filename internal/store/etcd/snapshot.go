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
	"runtime/debug"
	"sync/atomic"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/client/pkg/v3/fileutil"
	"go.etcd.io/etcd/etcdutl/v3/snapshot"
	"go.uber.org/zap"

	"github.com/keelson-io/keelson/internal/store"
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

// CheckSnapshot returns an error unless a file is a complete snapshot that can be restored: a
// database of etcd with all its records, followed by its SHA-256.
func CheckSnapshot(file string) error {
	_, err := readSnapshot(file, func(string, []byte, []byte) error { return nil })
	return err
}

// readSnapshot checks a snapshot, calls visit for each of its records, and returns its size.
func readSnapshot(file string, visit func(bucket string, key, value []byte) error) (size int64, err error) {
	f, err := os.Open(file)
	if err != nil {
		return 0, err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return 0, err
	}
	if !info.Mode().IsRegular() {
		return 0, fmt.Errorf("%s is not a regular file: name the file of a snapshot", file)
	}
	dbSize := info.Size() - sha256.Size
	if dbSize <= 0 || dbSize%512 != 0 {
		return 0, fmt.Errorf("%s is not a snapshot, or only a part of one: %d bytes do not end with a checksum; use another snapshot", file, info.Size())
	}
	sum, want := sha256.New(), make([]byte, sha256.Size)
	if _, err := io.CopyN(sum, f, dbSize); err != nil {
		return 0, err
	}
	if _, err := io.ReadFull(f, want); err != nil {
		return 0, err
	}
	if got := sum.Sum(nil); string(got) != string(want) {
		return 0, fmt.Errorf("%s is damaged: its checksum is %x, want %x; use another snapshot", file, got, want)
	}
	var c contents
	err = readDBFile(f, func(bucket string, key, value []byte) error {
		if err := c.check(bucket, key, value); err != nil {
			return err
		}
		return visit(bucket, key, value)
	})
	if err != nil {
		return 0, fmt.Errorf("%s has the right checksum, and cannot be restored: %w; use another snapshot", file, err)
	}
	return info.Size(), nil
}

// revisionBump is added to the revision of a restored store. Revisions that clients remember from
// the time between snapshot and loss are then in the past, and expired. etcd's documentation
// recommends 10^9.
const revisionBump = 1_000_000_000

// Restore fills dir with the data of a snapshot, made by this package or by etcd's tools. dir must
// be empty or not exist. Clients that know newer revisions than the snapshot's get an error that
// these have expired, and list again. If Restore fails, it leaves nothing behind. If the process is
// killed, a directory stays behind with which Exists fails, and which the next Restore replaces.
func Restore(file, dir string, logger *slog.Logger) error {
	if err := CheckSnapshot(file); err != nil {
		return err
	}
	if err := vacant(dir); err != nil {
		return err
	}
	parent, part := filepath.Dir(dir), partOf(dir)
	_, statErr := os.Stat(parent)
	err := os.MkdirAll(part, 0o700)
	if err == nil {
		err = fillPart(file, part, logger)
	}
	if err == nil {
		err = errors.Join(removeVacant(dir), os.Rename(filepath.Join(part, restoredDir), dir))
	}
	err = errors.Join(err, os.RemoveAll(part))
	if err == nil {
		return syncDir(parent)
	}
	if errors.Is(statErr, fs.ErrNotExist) {
		os.Remove(parent)
	}
	return fmt.Errorf("restoring %s: %w", file, err)
}

const (
	restoredDir = "etcd"        // in the directory of a restore, the store
	rebuiltFile = "snapshot.db" // in it, the snapshot that etcd restores
)

// partOf returns the directory in which a restore to dir works. It stays behind if the process is
// killed.
func partOf(dir string) string { return filepath.Clean(dir) + ".part" }

// fillPart restores a snapshot to a directory below part.
func fillPart(file, part string, logger *slog.Logger) error {
	entries, err := os.ReadDir(part)
	if err != nil {
		return err
	}
	for _, e := range entries { // of a restore that was killed
		if err := os.RemoveAll(filepath.Join(part, e.Name())); err != nil {
			return err
		}
	}
	rebuilt := filepath.Join(part, rebuiltFile)
	to := filepath.Join(part, restoredDir)
	err = layOut(rebuilt, to, logger, snapshot.RestoreConfig{RevisionBump: revisionBump, MarkCompacted: true},
		func(log *zap.Logger) error { return rebuild(file, rebuilt, log) })
	if err != nil {
		return err
	}
	return syncDir(to)
}

// layOut writes a snapshot to a file, and etcd's files for it into a directory. c has the options of
// the restore.
func layOut(file, to string, logger *slog.Logger, c snapshot.RestoreConfig, write func(*zap.Logger) error) error {
	died := make(chan error, 1)
	go func() {
		// This runs in its own goroutine, because etcd reports a failed write by ending the
		// goroutine.
		debug.SetPanicOnFault(true)
		log := newLogger(logger, new(atomic.Bool), func(err error) { died <- err })
		s := serverConfig(Config{DataDir: to}, log)
		c.SnapshotPath, c.OutputDataDir = file, to
		c.Name, c.PeerURLs, c.InitialCluster, c.InitialClusterToken = s.Name, s.PeerURLs.StringSlice(), s.InitialPeerURLsMap.String(), s.InitialClusterToken
		died <- guard(func() error {
			if err := write(log); err != nil {
				return err
			}
			return snapshot.NewV3(log).Restore(c)
		})
	}()
	return <-died
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
