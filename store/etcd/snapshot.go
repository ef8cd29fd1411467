package etcd

// This file takes the data out of an etcd as one file, and lays a data directory out from such a file.

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
	"go.etcd.io/etcd/etcdutl/v3/snapshot"
)

// Snapshotter is a store whose data can be taken out as one file. What Open returns is one.
type Snapshotter interface {
	// Snapshot writes everything that was acknowledged before the call, as of one moment, in the form of etcd's own
	// snapshots: its database, then the SHA-256 of that.
	Snapshot(ctx context.Context, w io.Writer) error
}

var _ Snapshotter = (*client)(nil)

// Snapshot implements Snapshotter.
func (c *client) Snapshot(ctx context.Context, w io.Writer) error {
	if err := c.usable(ctx); err != nil {
		return err
	}
	return c.snapshot(ctx, w)
}

func (e *embedded) snapshot(ctx context.Context, w io.Writer) error {
	if err := e.failure(); err != nil {
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

// until is a writer that fails when its context has ended.
type until struct {
	ctx context.Context
	io.Writer
}

func (u until) Write(b []byte) (int, error) {
	if err := u.ctx.Err(); err != nil {
		return 0, err
	}
	return u.Writer.Write(b)
}

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

// CheckSnapshot reports whether a file is whole: the SHA-256 at its end is that of what stands before it.
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
	return nil
}

// revisionBump is what a restored store's revision is ahead of its snapshot's, so that what clients remember of the time
// between the snapshot and the loss lies in the past, as expired. 10^9 is what etcd's documentation recommends.
const revisionBump = 1_000_000_000

// Restore lays out dir, which must not exist or be empty, as the data directory of an embedded server that goes on from a
// snapshot of this package's or of etcd's own tools. Clients that know newer revisions than the snapshot's are told that these have
// expired, and list again. Nothing is left behind if it fails.
func Restore(file, dir string, logger *slog.Logger) error {
	if err := CheckSnapshot(file); err != nil {
		return err
	}
	switch entries, err := os.ReadDir(dir); {
	case err == nil && len(entries) > 0:
		return fmt.Errorf("%s is not empty; a snapshot is restored into a directory of its own", dir)
	case err != nil && !errors.Is(err, fs.ErrNotExist):
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
		// In a goroutine of its own, because etcd's way to report what it cannot write is to stop the goroutine.
		log := newLogger(logger, new(atomic.Bool), func(reason string) { died <- errors.New(reason) })
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
		err = errors.Join(removeEmpty(dir), os.Rename(part, dir))
	}
	if err == nil {
		err = syncDir(filepath.Dir(dir))
	}
	if err != nil {
		return errors.Join(fmt.Errorf("restoring %s: %w", file, err), os.RemoveAll(part))
	}
	return nil
}

func removeEmpty(dir string) error {
	if err := os.Remove(dir); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}
