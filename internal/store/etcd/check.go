package etcd

// This file checks the files of an embedded server before etcd opens them, and changes nothing.
// etcd itself finds most damage, but then ends the process from a goroutine of its own, or never
// becomes ready. A log that lost its end is the worst case: etcd repairs it, but applies no writes
// until the log is as long as before.

import (
	"cmp"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"runtime/debug"
	"sync/atomic"

	"github.com/blang/semver/v4"
	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/version"
	"go.etcd.io/etcd/server/v3/storage/wal"
	"go.etcd.io/etcd/server/v3/storage/wal/walpb"
	"go.uber.org/zap"
	"google.golang.org/protobuf/proto"
)

// checker is one check of a store.
type checker struct {
	dir  string // of the store
	file string // the file that is being checked, relative to dir
	done chan error
	sums *sumsScan // nil: values have no checksums

	badEntry error             // the first value of the database that cannot be decoded
	applied  uint64            // last log entry in the database
	members  map[string]string // number in the database -> name
	self     uint64            // number of the member that owns the log
	logEnd   uint64            // last entry of the log
}

// checkStore reports what keeps the store in a directory from being opened.
func checkStore(dir string, sums *sumsScan) error {
	c := &checker{dir: dir, done: make(chan error, 1), sums: sums}
	// The check has a goroutine of its own: SetPanicOnFault holds for one goroutine, and etcd
	// reports damage by ending the goroutine that found it.
	go func() {
		debug.SetPanicOnFault(true)
		c.done <- guard(c.check)
	}()
	if err := <-c.done; err != nil {
		return startError(dir, c.file, err)
	}
	return nil
}

// check checks the directories, the database and the log, in this order: the database has the
// members and the position in the log that the log is compared with.
func (c *checker) check() error {
	for _, name := range []string{".", memberDir, filepath.Join(memberDir, walDir), filepath.Join(memberDir, snapDir)} {
		c.file = name
		if err := mayUse(filepath.Join(c.dir, name)); err != nil {
			return err
		}
	}
	if err := c.checkDatabase(); err != nil {
		return err
	}
	if err := c.checkLog(); err != nil {
		return err
	}
	c.file = memberDir
	if len(c.members) > 1 {
		return &unusableError{c.dir, fmt.Sprintf("it is that of a member of a cluster of %d, which cannot be started alone: restore a snapshot of the cluster, or use the cluster with --etcd-servers", len(c.members))}
	}
	if _, is := c.members[fmt.Sprintf("%x", c.self)]; !is && len(c.members) == 1 {
		return errors.New("its log and its database are of different members")
	}
	if c.logEnd < c.applied {
		c.file = filepath.Join(memberDir, walDir)
		return fmt.Errorf("the log has lost its end: it ends with entry %d, and the database has entry %d", c.logEnd, c.applied)
	}
	return nil
}

// mayUse reports whether the process can read and write in a directory.
func mayUse(dir string) error {
	info, err := os.Stat(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return errors.New("it is missing")
	}
	if err != nil {
		return err
	}
	if !info.IsDir() {
		return errors.New("it is not a directory")
	}
	if _, err := os.ReadDir(dir); err != nil {
		return err
	}
	f, err := os.CreateTemp(dir, ".writable-*")
	if err != nil {
		return err
	}
	return errors.Join(f.Close(), os.Remove(f.Name()))
}

// checkDatabase reads the database file, and records the position in the log and the members that
// it has.
func (c *checker) checkDatabase() error {
	c.file = filepath.Join(memberDir, snapDir, dbFile)
	path := filepath.Join(c.dir, c.file)
	f, err := os.OpenFile(path, os.O_RDWR, 0) // as etcd will
	if errors.Is(err, fs.ErrNotExist) {
		return errors.New("it is missing")
	}
	if err != nil {
		return err
	}
	defer f.Close()
	if heldByOther(f) {
		return &inUseError{path}
	}
	c.members = map[string]string{}
	var newest semver.Version
	err = readDBFile(f, func(bucket string, key, value []byte) error {
		switch {
		case bucket == "key" && c.sums != nil:
			if changeErr := c.sums.entry(key, value); changeErr != nil && c.badEntry == nil {
				c.badEntry = changeErr
			}
		case bucket == "meta" && string(key) == "storageVersion", bucket == "cluster" && string(key) == "clusterVersion":
			if v, err := semver.Parse(string(value)); err == nil && newest.LT(v) {
				newest = v
			}
		case bucket == "meta" && string(key) == "consistent_index" && len(value) == 8:
			c.applied = binary.BigEndian.Uint64(value)
		case bucket == "members":
			var m struct{ Name string }
			json.Unmarshal(value, &m) // names only appear in messages
			c.members[string(key)] = m.Name
		}
		return nil
	})
	if own := semver.MustParse(version.Version); err == nil && isForeign(newest, own) {
		return &unusableError{c.dir, fmt.Sprintf("it was last used by etcd %d.%d, and this keelson has etcd %d.%d: use a newer keelson, or restore a snapshot from before the update",
			newest.Major, newest.Minor, own.Major, own.Minor)}
	}
	return cmp.Or(err, c.badEntry)
}

// isForeign reports whether this etcd cannot use the data of another version.
func isForeign(v, own semver.Version) bool {
	return (v.Major != own.Major || v.Minor > own.Minor) && v.Major > 0
}

// checkLog reads the write-ahead log from its last snapshot.
func (c *checker) checkLog() error {
	c.file = filepath.Join(memberDir, walDir)
	dir := filepath.Join(c.dir, c.file)
	names, err := filepath.Glob(filepath.Join(dir, "*.wal"))
	if err != nil {
		return err
	}
	if len(names) == 0 {
		return errors.New("it holds no file of the log")
	}
	for _, name := range names {
		f, err := os.OpenFile(name, os.O_RDWR, 0)
		if err != nil {
			return err
		}
		f.Close()
	}
	log := newLogger(slog.New(slog.DiscardHandler), new(atomic.Bool), func(err error) { c.done <- err })
	metadata, agreed, err := c.readLog(log, dir)
	if err != nil {
		return err
	}
	if agreed > c.logEnd {
		return fmt.Errorf("the log has lost its end: it ends with entry %d, and says that entry %d was agreed", c.logEnd, agreed)
	}
	var m pb.Metadata
	if err := proto.Unmarshal(metadata, &m); err != nil {
		return fmt.Errorf("who the member is: %w", err)
	}
	c.self = m.GetNodeID()
	return nil
}

// readLog reads the log from its last snapshot, and records where it ends. The log itself names its
// last snapshot, but only a complete read finds that, so that readLog first tries the name of the
// newest snapshot file.
func (c *checker) readLog(log *zap.Logger, dir string) (metadata []byte, agreed uint64, err error) {
	from := func(last *walpb.Snapshot) error {
		w, err := wal.OpenForRead(log, dir, last)
		if err != nil {
			return err
		}
		defer w.Close()
		data, state, entries, err := w.ReadAll()
		if err != nil {
			return err
		}
		metadata, agreed, c.logEnd = data, state.GetCommit(), last.GetIndex()
		if len(entries) > 0 {
			c.logEnd = entries[len(entries)-1].GetIndex()
		}
		return nil
	}
	if last := newestSnapshot(filepath.Join(c.dir, memberDir, snapDir)); last != nil && from(last) == nil {
		return metadata, agreed, nil
	}
	snapshots, err := wal.ValidSnapshotEntries(log, dir)
	if err != nil {
		return nil, 0, err
	}
	last := &walpb.Snapshot{}
	if len(snapshots) > 0 {
		last = snapshots[len(snapshots)-1]
	}
	err = from(last)
	return metadata, agreed, err
}

// newestSnapshot returns the position in the name of the newest snapshot file, nil if there is
// none.
func newestSnapshot(dir string) *walpb.Snapshot {
	names, _ := filepath.Glob(filepath.Join(dir, "*.snap")) // sorted: the names are numbers of the same length
	if len(names) == 0 {
		return nil
	}
	var term, index uint64
	if _, err := fmt.Sscanf(filepath.Base(names[len(names)-1]), "%016x-%016x.snap", &term, &index); err != nil {
		return nil
	}
	return &walpb.Snapshot{Term: &term, Index: &index}
}

// unusableError is the error for an intact store that this server cannot open.
type unusableError struct{ dir, why string }

// Error implements error.
func (e *unusableError) Error() string {
	return fmt.Sprintf("the store in %s cannot be opened: %s", e.dir, e.why)
}

// inUseError is the error of a file that another process uses.
type inUseError struct{ file string }

// Error implements error.
func (e *inUseError) Error() string {
	return e.file + " is in use by another process, such as a tool of etcd's"
}
