package format

// This file has the record of a data directory, and upgrades the directory.

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// Directory is the format of data directories that this release writes.
//
// Format 2: the values in the embedded store have checksums (etcd/checksums), which opening the
// store computes. A release without them would write values that are not in that file.
const Directory = 2

const (
	// File is the name of the record in a data directory.
	File = "format.json"
	// Snapshots is the folder in a data directory with the snapshots from before upgrades.
	Snapshots = "snapshots"
	// keepSnapshots is the number of snapshots that stay after an upgrade.
	keepSnapshots = 3

	snapshotPrefix, snapshotSuffix = "before-format-", ".db"
)

// Dir upgrades a data directory to this release's format. Its order is: the snapshot, the steps,
// the record. A process that is killed anywhere before the record repeats everything at its next
// start, so that steps must be repeatable.
type Dir struct {
	Path    string
	Own     int    // the format that this release writes
	Release string // of this release
	// Snapshot writes the store to a file, which appears only when it is complete and on disk.
	Snapshot func(file string) error
	// Steps has the step that leads to each format from the one before, except the first. A format
	// without a step needs none.
	Steps map[int]func() error

	// interrupt, if it is not nil, is called before each part of the upgrade. Tests let it fail.
	interrupt func(before string) error
}

// Read returns the record of the directory; format 1 if there is none.
func (d *Dir) Read() (Record, error) {
	path := filepath.Join(d.Path, File)
	f, err := os.Open(path)
	if errors.Is(err, fs.ErrNotExist) {
		return Record{Format: First}, nil
	}
	if err != nil {
		return Record{}, err
	}
	defer f.Close()
	text, err := io.ReadAll(io.LimitReader(f, maxRecord+1))
	if err != nil {
		return Record{}, fmt.Errorf("%s: %w", path, err)
	}
	r, err := Parse(text)
	if err != nil {
		return Record{}, fmt.Errorf("%s: %w; if it was overwritten, put a copy in its place, or remove it if no release newer than this one has used the directory", path, err)
	}
	return r, nil
}

// Check returns a *NewerError, with advice, if a newer release has upgraded the directory.
func (d *Dir) Check() error {
	r, err := d.Read()
	if err != nil {
		return err
	}
	err = r.Check("data directory "+d.Path, d.Own)
	if err == nil {
		return nil
	}
	if s := d.snapshots(); len(s) > 0 {
		return fmt.Errorf("%w. To go back to this release, and lose what was written since the upgrade: keelson snapshot restore --data-dir %s.old %s, "+
			"then copy the folder pki there", err, d.Path, filepath.Join(d.Path, Snapshots, s[len(s)-1]))
	}
	return fmt.Errorf("%w, or restore a snapshot that this release made into another directory", err)
}

// Upgrade brings the directory to this release's format, after a snapshot. For a directory that
// was created just now, isNew, it only writes the record.
func (d *Dir) Upgrade(isNew bool) (upgraded bool, err error) {
	r, err := d.Read()
	if err != nil {
		return false, err
	}
	if _, err := os.Stat(filepath.Join(d.Path, File)); err == nil && r.Format >= d.Own {
		return false, nil
	}
	if !isNew && r.Format < d.Own {
		if err := d.migrate(r.Format); err != nil {
			return false, fmt.Errorf("upgrading data directory %s from format %d to %d: %w; nothing is lost: start again, or go back to the release before", d.Path, r.Format, d.Own, err)
		}
		upgraded = true
	}
	if err := d.reach("record"); err != nil {
		return false, err
	}
	if err := d.write(Record{Format: d.Own, Release: d.Release}); err != nil {
		return false, fmt.Errorf("recording the format of data directory %s: %w", d.Path, err)
	}
	if upgraded {
		d.prune()
	}
	return upgraded, nil
}

// reach calls interrupt.
func (d *Dir) reach(part string) error {
	if d.interrupt == nil {
		return nil
	}
	return d.interrupt(part)
}

// migrate writes the snapshot and runs the steps.
func (d *Dir) migrate(from int) error {
	if err := d.reach("snapshot"); err != nil {
		return err
	}
	folder := filepath.Join(d.Path, Snapshots)
	if err := os.MkdirAll(folder, 0o700); err != nil {
		return err
	}
	// An interrupted upgrade leaves a complete snapshot or none. The store may have been written
	// since by the release before, so that the snapshot is written again and replaces that one.
	if err := d.Snapshot(filepath.Join(folder, fmt.Sprintf("%s%d%s", snapshotPrefix, d.Own, snapshotSuffix))); err != nil {
		return fmt.Errorf("taking a snapshot: %w", err)
	}
	for to := from + 1; to <= d.Own; to++ {
		if err := d.reach(fmt.Sprintf("format %d", to)); err != nil {
			return err
		}
		if step := d.Steps[to]; step != nil {
			if err := step(); err != nil {
				return fmt.Errorf("format %d: %w", to, err)
			}
		}
	}
	return nil
}

// write replaces the record atomically and durably.
func (d *Dir) write(r Record) error {
	path := filepath.Join(d.Path, File)
	part := path + ".part"
	f, err := os.OpenFile(part, os.O_CREATE|os.O_TRUNC|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	_, err = f.Write(r.bytes())
	err = errors.Join(err, f.Sync(), f.Close())
	if err == nil {
		err = os.Rename(part, path)
	}
	if err != nil {
		return errors.Join(err, os.Remove(part))
	}
	dir, err := os.Open(d.Path)
	if err != nil {
		return err
	}
	return errors.Join(dir.Sync(), dir.Close())
}

// snapshots returns the names of the snapshots, ordered by the format of the upgrade.
func (d *Dir) snapshots() []string {
	entries, _ := os.ReadDir(filepath.Join(d.Path, Snapshots)) // without the folder there are none
	var names []string
	for _, e := range entries {
		if snapshotFormat(e.Name()) > 0 {
			names = append(names, e.Name())
		}
	}
	slices.SortFunc(names, func(a, b string) int { return cmp.Compare(snapshotFormat(a), snapshotFormat(b)) })
	return names
}

// snapshotFormat returns the format in the name of a snapshot, 0 if the file is not one.
func snapshotFormat(name string) int {
	rest, is := strings.CutPrefix(name, snapshotPrefix)
	number, ends := strings.CutSuffix(rest, snapshotSuffix)
	var format int
	if _, err := fmt.Sscanf(number, "%d", &format); !is || !ends || err != nil || fmt.Sprint(format) != number {
		return 0
	}
	return format
}

// prune removes the oldest snapshots. It keeps other files.
func (d *Dir) prune() {
	names := d.snapshots()
	for _, name := range names[:max(0, len(names)-keepSnapshots)] {
		os.Remove(filepath.Join(d.Path, Snapshots, name)) // one that stays is removed after the next upgrade
	}
}
