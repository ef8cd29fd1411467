package etcd

// This file keeps a checksum of every value beside the embedded server's database, whose pages have
// none. A bit that flips in the file is found when the value is read.
//
// The checksums are in memory, ordered by revision, and in a file of their own, because only etcd
// writes to etcd's files. The file gets a record for each change, shortly after the change. It is
// not synced: a record that a crash takes away is made again from the database at the next start.
// What is in the write-ahead log is protected by the log's own checksums until then. The database is
// also the reason why a checksum that is missing is not an error: the value is trusted and gets one.
//
// A record is 24 bytes, little-endian: the revision, with the kind of the record in its highest
// byte; a hash of the key, by which records of the same key replace each other; the CRC-32C of key
// and value; and the CRC-32C of the 20 bytes before. Records are in any order. Those that are torn
// are skipped.
//
// A revision with several changes, which only other programs write, has no checksum.

import (
	"bufio"
	"cmp"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"time"
)

const (
	sumsFile   = "checksums" // beside the directory "member"
	sumSize    = 24
	sumsHeader = "keelson checksums 1\n"
	// flushAfter is the time that a record may wait to be written.
	flushAfter = 200 * time.Millisecond
)

// sumKind is the kind of a record.
type sumKind uint8

const (
	ofValue   sumKind = iota
	ofDelete          // the key was deleted
	ofSeveral         // the revision has several changes, and no checksum
)

// sum is the checksum of one change.
type sum struct {
	rev  int64
	key  uint64
	crc  uint32
	kind sumKind
}

// sums has the checksums of a store.
type sums struct {
	log  *slog.Logger
	path string

	mu      sync.Mutex
	list    []sum // ascending revisions, each once
	pending []sum // not in the file yet
	waiting bool  // a flush is due
	closed  bool

	io   sync.Mutex // held while the file is written; locked before mu
	file *os.File   // nil: cannot be written
	end  int64      // offset of the next record
}

// hashKey is FNV-1a.
func hashKey(key []byte) uint64 {
	h := uint64(14695981039346656037)
	for _, b := range key {
		h = (h ^ uint64(b)) * 1099511628211
	}
	return h
}

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// sumOf returns the checksum of a change.
func sumOf(rev int64, key, value []byte) sum {
	return sum{rev: rev, key: hashKey(key), crc: crc32.Update(crc32.Checksum(key, castagnoli), castagnoli, value)}
}

// compareRev orders checksums by revision.
func compareRev(s sum, rev int64) int { return cmp.Compare(s.rev, rev) }

// add adds a checksum, unless the revision has one.
func (s *sums) add(c sum) {
	s.mu.Lock()
	defer s.mu.Unlock()
	at := len(s.list)
	if at > 0 && s.list[at-1].rev >= c.rev { // answers of etcd overtake each other
		var has bool
		if at, has = slices.BinarySearchFunc(s.list, c.rev, compareRev); has {
			return
		}
	}
	s.list = slices.Insert(s.list, at, c)
	s.pending = append(s.pending, c)
	if !s.waiting && !s.closed {
		s.waiting = true
		time.AfterFunc(flushAfter, s.flush)
	}
}

// find returns the checksum of a revision, if it has one.
func (s *sums) find(rev int64) (sum, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	at, has := slices.BinarySearchFunc(s.list, rev, compareRev)
	if !has {
		return sum{}, false
	}
	return s.list[at], true
}

// check reports whether a value that was read is intact. A value without a checksum is, and gets
// one.
func (s *sums) check(rev int64, key, value []byte) bool {
	want, has := s.find(rev)
	if has && want.kind != ofValue {
		return want.kind == ofSeveral
	}
	got := sumOf(rev, key, value)
	if !has {
		s.add(got)
		return true
	}
	return got == want
}

// encode appends the record of a checksum.
func (c sum) encode(b []byte) []byte {
	from := len(b)
	b = binary.LittleEndian.AppendUint64(b, uint64(c.rev)|uint64(c.kind)<<56)
	b = binary.LittleEndian.AppendUint64(b, c.key)
	b = binary.LittleEndian.AppendUint32(b, c.crc)
	return binary.LittleEndian.AppendUint32(b, crc32.Checksum(b[from:], castagnoli))
}

// decodeSum reads a record, and reports whether it is whole.
func decodeSum(b []byte) (c sum, ok bool) {
	rev := binary.LittleEndian.Uint64(b)
	c = sum{rev: int64(rev & (1<<56 - 1)), kind: sumKind(rev >> 56), key: binary.LittleEndian.Uint64(b[8:]), crc: binary.LittleEndian.Uint32(b[16:])}
	return c, binary.LittleEndian.Uint32(b[20:]) == crc32.Checksum(b[:20], castagnoli) && c.rev > 0 && c.kind <= ofSeveral
}

// flush writes the pending records. If the file cannot be written, such as on a full disk, they
// remain pending.
func (s *sums) flush() {
	s.io.Lock()
	defer s.io.Unlock()
	s.mu.Lock()
	pending := s.pending
	s.pending, s.waiting = nil, false
	s.mu.Unlock()
	if s.file == nil || len(pending) == 0 {
		return
	}
	b := make([]byte, 0, len(pending)*sumSize)
	for _, c := range pending {
		b = c.encode(b)
	}
	if _, err := s.file.WriteAt(b, s.end); err != nil {
		// The records are made again from the database at the next start.
		s.log.Warn("the checksums of some values were not written to their file; they will be computed at the next start", "path", s.path, "error", err)
		return
	}
	s.end += int64(len(b))
}

// compact drops the checksums of what compaction to rev removes: everything up to rev except the
// last change of each key that exists.
func (s *sums) compact(rev int64) error {
	s.io.Lock()
	defer s.io.Unlock()
	upTo := func() int {
		at, _ := slices.BinarySearchFunc(s.list, rev+1, compareRev)
		return at
	}
	s.mu.Lock()
	old := slices.Clone(s.list[:upTo()])
	s.mu.Unlock()
	kept := len(old)
	seen := make(map[uint64]struct{}, len(old)/2)
	for i, c := range slices.Backward(old) {
		_, replaced := seen[c.key]
		if c.kind != ofSeveral && (replaced || c.kind == ofDelete) {
			seen[c.key] = struct{}{}
			continue
		}
		seen[c.key] = struct{}{}
		kept--
		old[kept], old[i] = c, old[kept]
	}
	if kept == 0 {
		return nil // nothing was dropped
	}
	s.mu.Lock()
	s.list = slices.Concat(old[kept:], s.list[upTo():])
	s.mu.Unlock()
	return s.rewrite()
}

// rewrite replaces the file with one that has exactly the checksums in memory. The caller holds io.
func (s *sums) rewrite() (err error) {
	s.mu.Lock()
	list := slices.Clone(s.list)
	s.pending = nil
	s.mu.Unlock()
	if s.file != nil {
		s.file.Close()
		s.file = nil
	}
	part := s.path + ".part"
	defer func() {
		if err != nil { // a file with too many records could contradict what is written later
			err = errors.Join(err, remove(part), remove(s.path))
		}
	}()
	f, err := os.OpenFile(part, os.O_CREATE|os.O_TRUNC|os.O_RDWR, 0o600)
	if err != nil {
		return err
	}
	w := bufio.NewWriterSize(f, 64<<10)
	_, err = w.WriteString(sumsHeader)
	b := make([]byte, 0, sumSize)
	for _, c := range list {
		if err == nil {
			_, err = w.Write(c.encode(b))
		}
	}
	if err = errors.Join(err, w.Flush()); err == nil {
		err = os.Rename(part, s.path)
	}
	if err != nil {
		return errors.Join(err, f.Close())
	}
	s.file, s.end = f, int64(len(sumsHeader)+len(list)*sumSize)
	return nil
}

// close writes what is pending.
func (s *sums) close() {
	s.mu.Lock()
	s.closed = true
	s.mu.Unlock()
	s.flush()
	s.io.Lock()
	defer s.io.Unlock()
	if s.file != nil {
		s.file.Close()
		s.file = nil
	}
}

// readSums reads the records of a file: ascending revisions, each once. found is false if there is
// no file of checksums.
func readSums(path string) (list []sum, found bool, err error) {
	f, err := os.Open(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, false, nil
	}
	if err != nil {
		return nil, false, err
	}
	defer f.Close()
	r := bufio.NewReaderSize(f, 64<<10)
	header := make([]byte, len(sumsHeader))
	if _, err := io.ReadFull(r, header); err != nil || string(header) != sumsHeader {
		return nil, false, nil
	}
	var b [sumSize]byte
	for {
		if _, err := io.ReadFull(r, b[:]); errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
			break
		} else if err != nil {
			return nil, false, err
		}
		if c, ok := decodeSum(b[:]); ok {
			list = append(list, c)
		}
	}
	slices.SortStableFunc(list, func(a, b sum) int { return cmp.Compare(a.rev, b.rev) })
	return slices.CompactFunc(list, func(a, b sum) bool { return a.rev == b.rev }), true, nil
}

// sumsScan compares the checksums in the file with the database while the database is checked.
type sumsScan struct {
	sums  *sums
	file  []sum // those not compared yet
	found bool  // there was a file

	list    []sum
	damaged []damagedValue
	both    int // values that have a checksum in the file
	adopted int // values without
}

// damagedValue is a value whose checksum is not that in the file.
type damagedValue struct {
	key string
	sum sum // as it should be
	got sum
}

// newSumsScan reads the file of a store's checksums.
func newSumsScan(dir string, log *slog.Logger) (*sumsScan, error) {
	s := &sumsScan{sums: &sums{log: log, path: filepath.Join(dir, sumsFile)}}
	var err error
	if s.file, s.found, err = readSums(s.sums.path); err != nil {
		return nil, fmt.Errorf("reading the checksums: %w", err)
	}
	return s, nil
}

// change compares or records the next change in the database. Changes come in the order of
// revisions.
func (s *sumsScan) change(rev, sub int64, deleted bool, key, value []byte) {
	for len(s.file) > 0 && s.file[0].rev < rev {
		s.file = s.file[1:] // compacted
	}
	got := sumOf(rev, key, value)
	if deleted {
		got = sum{rev: rev, key: got.key, kind: ofDelete}
	}
	last := len(s.list) - 1
	switch {
	case last >= 0 && s.list[last].rev == rev:
		s.list[last] = sum{rev: rev, kind: ofSeveral}
		s.damaged = slices.DeleteFunc(s.damaged, func(d damagedValue) bool { return d.got.rev == rev })
	case sub > 0:
		s.list = append(s.list, sum{rev: rev, kind: ofSeveral})
	case len(s.file) > 0 && s.file[0].rev == rev:
		s.both++
		if want := s.file[0]; want != got && want.kind != ofSeveral {
			s.damaged = append(s.damaged, damagedValue{string(key), want, got})
		}
		s.list = append(s.list, s.file[0])
		s.file = s.file[1:]
	default:
		s.adopted++
		s.list = append(s.list, got)
	}
}

// finish returns the checksums of a store whose newest revision is rev, after etcd has read its log.
func (s *sumsScan) finish(rev int64) *sums {
	all := s.sums
	if len(s.damaged) > 3 && len(s.damaged) > s.both/2 {
		all.log.Warn("the file of checksums belongs to another store: they are computed anew, and values were not checked", "path", all.path)
		for _, d := range s.damaged {
			at, _ := slices.BinarySearchFunc(s.list, d.got.rev, compareRev)
			s.list[at] = d.got
		}
		s.damaged, s.file = nil, nil
	}
	for _, d := range s.damaged {
		all.log.Error("a stored value is damaged: restore a snapshot, or delete the object", "key", d.key, "revision", d.got.rev)
	}
	if s.adopted > 0 && !s.found {
		all.log.Info("checksums of the stored values were computed", "values", s.adopted)
	}
	for len(s.file) > 0 && s.file[0].rev <= rev { // in the log and not in the database when it was read
		s.list = append(s.list, s.file[0])
		s.file = s.file[1:]
	}
	all.list = s.list
	all.io.Lock()
	defer all.io.Unlock()
	if err := all.rewrite(); err != nil {
		all.log.Warn("the file of checksums cannot be written; they will be computed at the next start, and values are not checked then", "path", all.path, "error", err)
	}
	return all
}
