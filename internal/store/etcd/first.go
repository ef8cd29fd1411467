package etcd

// This file makes the first start in a directory atomic. An empty store is made in the directory
// first-start. When it is complete and on disk, it is moved to its place. The directory "member" is therefore complete whenever it exists, and nothing ever
// deletes it. If a first start is killed, its remains are below first-start, which never has an
// acknowledged write; the next start deletes them.

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"sync"

	"go.etcd.io/etcd/client/pkg/v3/fileutil"
	"go.etcd.io/etcd/etcdutl/v3/snapshot"
	"go.etcd.io/etcd/server/v3/storage/backend"
	"go.uber.org/zap"
)

const (
	memberDir = "member" // the directory of all of etcd's files
	walDir    = "wal"    // in it, the write-ahead log
	snapDir   = "snap"   // in it, the snapshots of the log and the database
	dbFile    = "db"     // in that, the database
	lockFile  = "lock"
	firstDir  = "first-start" // in which an empty store is created
)

// firstSpace is the free space that a first start needs: the first segment of the write-ahead log,
// and the reserve that writes leave free.
const firstSpace = 64<<20 + reserve

// Exists reports whether a directory has a store, intact or damaged. It fails if a restore to the
// directory was interrupted.
func Exists(dir string) (bool, error) {
	place := filepath.Join(dir, memberDir)
	switch _, err := os.Stat(place); {
	case errors.Is(err, fs.ErrNotExist):
		if _, err := os.Lstat(place); err == nil {
			return false, fmt.Errorf("%s is a link to what is not there, such as a volume that is not mounted", place)
		}
		if part := partOf(dir); isDir(part) {
			return false, fmt.Errorf("a restore of a snapshot was interrupted: %s is incomplete, and %s has no data. Run keelson snapshot restore --data-dir %s FILE again. To start with an empty store, remove %s",
				part, dir, filepath.Dir(filepath.Clean(dir)), part)
		}
		return false, nil
	default:
		return err == nil, err
	}
}

// isDir reports whether there is a directory.
func isDir(path string) bool {
	info, err := os.Lstat(path)
	return err == nil && info.IsDir()
}

// Create creates an empty store in a directory without one, and reports whether it did. If the
// process is killed, the directory has no store or a complete one, and the next call continues.
func Create(_ context.Context, c Config) (made bool, err error) {
	c = c.withDefaults()
	lock, err := lockDir(c.DataDir)
	if err != nil {
		return false, err
	}
	defer lock.Close()
	return createStore(c)
}

// createStore is Create for the holder of the lock.
func createStore(c Config) (made bool, err error) {
	place, staging := filepath.Join(c.DataDir, memberDir), filepath.Join(c.DataDir, firstDir)
	exists, err := Exists(c.DataDir)
	if err != nil {
		return false, err
	}
	info, err := os.Lstat(staging)
	left := err == nil
	switch {
	case err != nil && !errors.Is(err, fs.ErrNotExist):
		return false, err
	case left && !info.IsDir() && exists:
		return false, fmt.Errorf("%s: it says that a first start did not end, but there is a store in %s. If the store was in use, keep it: remove the file %s. If it was never in use, remove both",
			staging, place, staging)
	case exists:
		if left {
			os.Remove(staging) // the last step of a first start; a directory that is not empty stays
		}
		return false, nil
	}
	if err := os.RemoveAll(staging); err != nil {
		return false, fmt.Errorf("removing what a first start left behind: %w", err)
	}
	if free, err := freeBytes(c.DataDir); err == nil && free < firstSpace {
		return false, diskFull(c.DataDir, free, firstSpace, "for a first start")
	}
	if err := os.Mkdir(staging, 0o700); err != nil {
		return false, err
	}
	if err := fillStaging(staging, c); err != nil {
		return false, errors.Join(fmt.Errorf("making an empty store in %s: %w", c.DataDir, err), os.RemoveAll(staging))
	}
	if err := os.Rename(filepath.Join(staging, memberDir), place); err != nil {
		return false, err
	}
	return true, errors.Join(os.Remove(staging), syncDir(c.DataDir))
}

// fillStaging makes a store without records, in the way in which a snapshot is restored: etcd need
// not run for it. It syncs all files.
func fillStaging(staging string, c Config) error {
	file := staging + ".db"
	defer os.Remove(file)
	if err := os.RemoveAll(file); err != nil { // of a first start that was killed
		return err
	}
	err := layOut(file, staging, c.Logger, snapshot.RestoreConfig{}, func(log *zap.Logger) error {
		return writeSnapshot(file, log, func(func(backend.Bucket, []byte, []byte)) error { return nil })
	})
	if err != nil || c.Fast {
		return err
	}
	return syncAll(staging)
}

// syncAll flushes a directory and everything below it to disk, all at once: a disk writes several
// files in little more time than one.
func syncAll(dir string) error {
	var mu sync.Mutex
	var all sync.WaitGroup
	var errs []error
	walked := filepath.WalkDir(dir, func(path string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		all.Go(func() {
			if err := syncDir(path); err != nil {
				mu.Lock()
				defer mu.Unlock()
				errs = append(errs, err)
			}
		})
		return nil
	})
	all.Wait()
	return errors.Join(append(errs, walked)...)
}

// syncDir flushes a directory or a file to disk.
func syncDir(path string) error {
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	return errors.Join(fileutil.Fsync(f), f.Close())
}
