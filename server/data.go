package server

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"time"

	"github.com/keelson-io/keelson/internal/api"
	"github.com/keelson-io/keelson/internal/datadir"
	"github.com/keelson-io/keelson/internal/reloads"
	"github.com/keelson-io/keelson/internal/store"
	"github.com/keelson-io/keelson/internal/store/format"
)

// This file manages the data directory: who may use it, the store in it, and the advice when
// something is wrong with it.

// openDir makes the data directory if it is missing, and locks it. It does not change the modes of
// folders that exist.
func (s *Server) openDir() error {
	dir := s.config.DataDir
	if dir == "" {
		return nil
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	held, err := datadir.Lock(dir)
	switch {
	case errors.Is(err, datadir.ErrLocked):
		return fmt.Errorf("data directory %s: %w", dir, err)
	case errors.Is(err, fs.ErrPermission):
		return fmt.Errorf("data directory %s: %w; user %d, as whom the server runs, has to be able to write in it", dir, err, os.Getuid())
	case err != nil:
		return err
	}
	s.opened = append(s.opened, held)
	s.warnOfReaders(dir)
	if s.embedsStore() {
		return s.format(context.Background(), nil).Check()
	}
	return nil
}

// embedsStore reports whether the server keeps a store in its data directory.
func (s *Server) embedsStore() bool { return s.config.Store == nil && len(s.config.EtcdServers) == 0 }

// The formats of the stored values, which several servers may share. That of a data directory is
// format.Directory.
const (
	// storeFormat may be used by all releases that know storeMinimum.
	storeFormat  = 1
	storeMinimum = 1
)

// format returns the format of the data directory, with a store that is open.
func (s *Server) format(ctx context.Context, st store.Store) *format.Dir {
	return &format.Dir{
		Path: s.config.DataDir, Own: format.Directory, Release: Version().Program,
		Snapshot: func(file string) error {
			s, ok := st.(store.Snapshotter)
			if !ok {
				return errors.New("snapshot: the store of this server can write none")
			}
			return s.SaveSnapshot(ctx, file)
		},
	}
}

// storeRecord returns the record of the stored values.
func storeRecord() format.Record {
	return format.Record{Format: storeFormat, Minimum: storeMinimum, Release: Version().Program}
}

// upgrade checks the format of the values in the store, and brings the data directory to this
// release's format. created is set if the directory's store was created just now.
func (s *Server) upgrade(ctx context.Context, st store.Store, created bool) error {
	if s.config.Store != nil {
		return nil
	}
	if s.embedsStore() {
		began := time.Now()
		upgraded, err := s.format(ctx, st).Upgrade(created)
		if err != nil {
			return err
		}
		if upgraded {
			s.logger.Info("data directory upgraded; the store as it was is in its folder "+format.Snapshots, "path", s.config.DataDir, "format", format.Directory, "took", time.Since(began).Round(time.Millisecond))
		}
	}
	err := format.Agree(ctx, st, "the stored objects", storeRecord())
	if errors.Is(err, store.ErrNoSpace) {
		return nil // the store holds what it held; a start with more room writes the record
	}
	return err
}

// formatEvery is the pause before the record of the stored values is followed again after an error.
const formatEvery = 10 * time.Second

// followFormat ends the server when another one has raised the format of the stored values beyond
// what this release may use.
func (s *Server) followFormat(ctx context.Context) {
	if len(s.config.EtcdServers) == 0 {
		return
	}
	for ctx.Err() == nil {
		if err := format.Follow(ctx, s.durable, "the stored objects", storeRecord()); err != nil {
			s.fail(err)
			return
		}
		select {
		case <-ctx.Done():
		case <-time.After(formatEvery):
		}
	}
}

// warnOfReaders logs which files users other than the owner and its group can read or replace.
// Access of the group is not reported: a container may need it for the files of a volume.
func (s *Server) warnOfReaders(dir string) {
	others := func(path string, bits fs.FileMode, what string) {
		info, err := os.Stat(path)
		if err == nil && info.Mode().Perm()&bits != 0 && info.Mode()&fs.ModeSticky == 0 {
			s.logger.Warn("other users "+what+": take the permission from them", "path", path, "mode", fmt.Sprintf("%04o", info.Mode().Perm()))
		}
	}
	others(dir, 0o002, "can replace what is in the data directory")
	for _, inner := range []string{datadir.Etcd(dir), datadir.PKI(dir)} {
		others(inner, 0o005, "can look into a directory of secrets")
	}
	others(filepath.Join(dir, KubeconfigFile), 0o004, "can read the administrator's credentials")
}

// lacksKeys returns a function that logs that a missing key file is created anew. It returns nil if
// missing files are expected: at the first start, and in a directory that no server has used.
func (c *Config) lacksKeys(first bool) func(path, consequence string) {
	entries, _ := os.ReadDir(datadir.PKI(c.DataDir))
	if first || len(c.EtcdServers) > 0 && len(entries) == 0 || c.Store != nil && len(entries) == 0 {
		return nil
	}
	return func(path, consequence string) {
		c.Logger.Warn("a key file is missing or has expired, and is created again: "+consequence+"; if it was lost, stop the server and put a copy in its place", "path", path)
	}
}

// createStore makes an empty store for the embedded etcd at the first start, and reports whether it
// did. Certificates are made after the store, so certificates without a store mean that the store
// was lost.
func (s *Server) createStore(ctx context.Context) (first bool, err error) {
	c := &s.config
	if c.Store != nil || len(c.EtcdServers) > 0 {
		return false, nil
	}
	dir := datadir.Etcd(c.DataDir)
	exists, err := c.Database.Exists(dir)
	if errors.Is(err, fs.ErrPermission) {
		return false, fmt.Errorf("opening etcd: %w; the server runs as user %d, who has to be able to read and write everything in %s", err, os.Getuid(), dir)
	}
	if err != nil {
		return false, fmt.Errorf("opening etcd: %w", err)
	}
	if exists {
		return false, nil
	}
	if entries, err := os.ReadDir(datadir.PKI(c.DataDir)); err == nil && len(entries) > 0 {
		return false, fmt.Errorf("%s holds certificates and keys of a server, but its store %s is missing. If it was lost, mount it again, or run "+
			"keelson snapshot restore --data-dir %s FILE. To begin with an empty store, move %s away; it can be put back after the first start",
			datadir.PKI(c.DataDir), filepath.Join(dir, "member"), c.DataDir, datadir.PKI(c.DataDir))
	}
	made, err := c.Database.Create(ctx, store.Location{Dir: dir, Logger: s.logger})
	return made, s.explainStore(err)
}

// openStore opens the store of the configuration.
func (s *Server) openStore(ctx context.Context) (store.Store, error) {
	c := &s.config
	if c.Store != nil {
		return c.Store, nil
	}
	at := store.Location{Prefix: c.EtcdPrefix, Logger: s.logger}
	if len(c.EtcdServers) == 0 && (c.EtcdCAFile != "" || c.EtcdCertFile != "" || c.EtcdKeyFile != "") {
		return nil, errors.New("opening etcd: certificates are given for a cluster, and no servers of one")
	}
	if len(c.EtcdServers) > 0 {
		at.Endpoints, at.CAFile, at.CertFile, at.KeyFile = c.EtcdServers, c.EtcdCAFile, c.EtcdCertFile, c.EtcdKeyFile
	} else {
		at.Dir = datadir.Etcd(c.DataDir)
	}
	st, err := c.Database.Open(ctx, at)
	if err != nil {
		return nil, s.explainStore(err)
	}
	s.opened = append(s.opened, st)
	if err := s.followEtcdCAs(st); err != nil {
		return nil, err
	}
	return st, nil
}

// followEtcdCAs gives a store the authorities of its cluster again when their file changes.
func (s *Server) followEtcdCAs(st store.Store) error {
	path := s.config.EtcdCAFile
	t, ok := st.(store.Truster)
	if path == "" || !ok {
		return nil
	}
	first := true // the store has read the file by itself
	return s.files.Add(reloads.File{Name: "etcd-cafile", Paths: reloads.Paths(path), Use: func(texts map[string][]byte) error {
		if first {
			first = false
		} else if _, err := parseAuthorities(texts[path]); err != nil {
			return fmt.Errorf("%s: %w", path, err)
		}
		return t.Trust(texts[path])
	}})
}

// explainStore adds advice to an error of opening the store.
func (s *Server) explainStore(err error) error {
	var damaged *store.DamagedError
	switch {
	case err == nil:
		return nil
	case errors.As(err, &damaged):
		dir := s.config.DataDir
		return fmt.Errorf("opening etcd: %w. Nothing was changed. To go back to a snapshot: mv %s %s.damaged, then keelson snapshot restore --data-dir %s FILE",
			err, datadir.Etcd(dir), datadir.Etcd(dir), dir)
	}
	return fmt.Errorf("opening etcd: %w", err)
}

// roomEvery is the interval at which a server whose store failed on a full disk checks for free
// space.
const roomEvery = time.Second

// endWithStore makes Run end when the store has failed, so that a supervisor starts the process
// again. On a full disk it first waits for free space: until then a new process could do less than
// this one, which still answers reads from memory.
func (s *Server) endWithStore(ctx context.Context) {
	st, ok := s.durable.(store.Mortal)
	if !ok {
		return
	}
	select {
	case <-ctx.Done():
		return
	case <-st.Failed():
	}
	err := st.Failure()
	if errors.Is(err, store.ErrDiskFull) {
		s.logger.Error("writes are refused, reads continue; the server will end, to be restarted, when there is free space", "error", err)
		tick := time.NewTicker(roomEvery)
		defer tick.Stop()
		for !st.HasRoom() {
			select {
			case <-ctx.Done():
				return
			case <-tick.C:
			}
		}
	}
	s.fail(err)
}

// snapshotOf returns the function that writes a snapshot of a store, nil if the store has none.
func snapshotOf(st store.Store) api.Snapshot {
	if s, ok := st.(store.Snapshotter); ok {
		return s.Snapshot
	}
	return nil
}

// Restore lays out a data directory without a store from a snapshot of a database: a file that
// /snapshot or etcd's own tools made. No server may use the directory meanwhile.
func Restore(db store.Database, file, dataDir string, logger *slog.Logger) error {
	if _, err := os.Stat(dataDir); err == nil {
		held, err := datadir.Lock(dataDir)
		if errors.Is(err, datadir.ErrLocked) {
			return fmt.Errorf("data directory %s: %w", dataDir, err)
		}
		if err != nil {
			return err
		}
		defer held.Close()
	}
	return db.Restore(file, datadir.Etcd(dataDir), logger)
}
