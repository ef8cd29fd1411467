package etcd

// This file reserves blocks for etcd's database before the database needs them. The database grows by enlarging its file, which
// allocates nothing; a commit that meets a full disk then fails, and etcd ends. A commit must also find its blocks if another program
// takes the last free ones between a write and its commit, which comes up to 100 ms later.
//
// Only etcd writes to its files: reserving blocks changes neither the bytes nor the size of the file (FALLOC_FL_KEEP_SIZE). A file
// system that cannot do it reserves nothing; then a commit is safe only as long as the disk does not fill up in that time. The same
// holds where written blocks are never written again in place, as on btrfs.

import (
	"os"
	"syscall"
)

const (
	// databaseAhead is how far blocks are reserved beyond the last used page and beyond the room
	// that writes under way will use. Between two measurements of the free space, etcd is given at
	// most askBytes of writes. In half-filled pages these use up to twice their size.
	databaseAhead = 32 << 20
	// databaseLow is what is left of databaseAhead when blocks are reserved again.
	databaseLow = databaseAhead - 4<<20
	// restFree is what is never reserved of the free space: snapshots of the raft log and small files need it.
	restFree = 8 << 20
	// minAhead is the least that is worth a try.
	minAhead = 1 << 20
)

// databaseBlocks reserves blocks for one database file. Its methods are not safe for concurrent use.
type databaseBlocks struct {
	path  string
	used  func() int64 // where the pages end that the database uses
	file  os.FileInfo  // of the file whose blocks are reserved; defragmentation replaces the file
	end   int64        // blocks are reserved up to here
	never bool         // the file system cannot reserve blocks

	allocate func(path string, offset, size int64) error
}

// newDatabaseBlocks returns the reserver for the database file at path. Nothing is reserved yet.
func newDatabaseBlocks(path string, used func() int64) *databaseBlocks {
	return &databaseBlocks{path: path, used: used, allocate: allocateBlocks}
}

// reserve reserves blocks if too few are left, out of the free bytes of the file system; underWay is what writes will use soon. It
// returns how many bytes are reserved beyond that, and reports whether it allocated some of them just now.
func (d *databaseBlocks) reserve(free, underWay int64) (ahead int64, allocated bool) {
	if d == nil || d.never {
		return 0, false
	}
	info, err := os.Stat(d.path)
	if err != nil {
		return 0, false
	}
	if d.file == nil || !os.SameFile(d.file, info) {
		d.file, d.end = info, 0
	}
	used := d.used() + underWay
	if d.end-used < databaseLow {
		// If there is less room than is reported, less is better than nothing.
		from := max(d.end, used-underWay)
		for want := min(used+databaseAhead, from+free-restFree); want-from >= minAhead; want -= max(minAhead, (want-from)/2) {
			err := d.allocate(d.path, d.end, want-d.end)
			if err == nil {
				d.end, allocated = want, true
				break
			}
			if err == syscall.ENOSYS || err == syscall.EOPNOTSUPP || err == syscall.EINVAL || err == errCannotAllocate {
				d.never = true
				break
			}
		}
	}
	return min(max(0, d.end-used), databaseAhead), allocated
}

// reservedBefore returns how many bytes an earlier process has reserved for a database file beyond the pages in use.
func reservedBefore(path string) int64 {
	f, err := os.Open(path)
	if err != nil {
		return 0
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return 0
	}
	r := dbFileReader{file: f}
	if _, err := r.readMeta(info.Size()); err != nil {
		return 0
	}
	return min(max(0, allocatedBytes(info)-int64(r.pages)*r.pageSize), databaseAhead)
}
