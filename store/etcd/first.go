package etcd

// This file makes the first start in a directory all or nothing. A server that is killed before it has written its own
// membership leaves a log that no later start can make a leader from. So a mark says that a first start is under way; whoever
// finds it starts over, which loses nothing, because no write is accepted before the mark is gone.

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"go.etcd.io/etcd/client/pkg/v3/fileutil"
)

const (
	memberDir = "member" // where etcd keeps everything
	walDir    = "wal"    // and in it the log
	snapDir   = "snap"   // and the snapshots of it
	firstMark = "first-start"
)

// beginStart prepares the directory, and reports whether endFirst has to be called when the server is ready.
func beginStart(dir string) (first bool, err error) {
	mark, member := filepath.Join(dir, firstMark), filepath.Join(dir, memberDir)
	if _, err := os.Stat(mark); err == nil {
		if err := os.RemoveAll(member); err != nil {
			return false, fmt.Errorf("removing what a first start left behind: %w", err)
		}
		return true, nil
	}
	if _, err := os.Stat(member); !errors.Is(err, fs.ErrNotExist) {
		return false, err
	}
	f, err := os.OpenFile(mark, os.O_CREATE|os.O_WRONLY, 0o600)
	if err == nil {
		err = f.Close()
	}
	if err == nil {
		err = syncDir(dir)
	}
	if err != nil {
		return false, fmt.Errorf("marking the first start: %w", err)
	}
	return true, nil
}

// endFirst takes the mark away, for good: if it came back after a power failure, it would take the data with it.
func endFirst(dir string) error {
	err := os.Remove(filepath.Join(dir, firstMark))
	if err == nil {
		err = syncDir(dir)
	}
	if err != nil {
		return fmt.Errorf("ending the first start: %w", err)
	}
	return nil
}

func syncDir(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	return errors.Join(fileutil.Fsync(d), d.Close())
}
