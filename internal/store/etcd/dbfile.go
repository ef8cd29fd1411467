package etcd

// This file reads the file of etcd's database page by page, without mapping it into memory. The
// database itself trusts its pages: a damaged page ends the process from a goroutine that cannot be
// guarded, and keys that are out of order hide those that follow. The check covers the form: the
// pages are a tree, everything in a page is within it and used once, keys are in order, also from
// page to page, and the list of free pages has none that are in use. Values have no checksum.
//
// The format is that of bbolt, version 2. Every page begins with its number, what it is, how many
// elements it has, and how many pages follow that belong to it. Pages 0 and 1 say where the tree
// begins; the newer one that is whole counts. The check chooses the page size and one of the two
// pages exactly as bbolt does.

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/fnv"
	"math"
	"os"
)

const (
	pageHeader  = 16
	elementSize = 16
	metaSize    = 64
	metaSum     = 56 // bytes before the checksum
	metaMagic   = 0xED0CDAED
	metaVersion = 2

	branchPage   = 1
	leafPage     = 2
	freelistPage = 0x10

	minPageSize = 1 << 10
	maxPageSize = 64 << 10
	maxTxid     = 1 << 62        // the next transactions must not begin at 0 again
	noFreelist  = math.MaxUint64 // the list of free pages is not stored
	manyFree    = math.MaxUint16 // the first element has the length of the list

	bucketElement = 1
	maxTreeDepth  = 64 // a tree of 2^64 keys has fewer levels
	readAhead     = 4  // pages read at once: most of what belongs to a page
)

// dbFileReader walks through a database file.
type dbFileReader struct {
	file     *os.File
	pageSize int64
	pages    uint64   // number of pages, as recorded in the file
	seen     []uint64 // a bit for each page
	free     uint64   // the page of the list of free pages, or noFreelist
	visit    func(bucket string, key, value []byte) error
	buckets  map[string]bool // of the first level
	buf      []byte
}

// readDBFile checks a file, and calls visit for each key of the buckets of the first level, in order.
// key and value are valid during the call. readDBFile returns the first error of visit.
func readDBFile(file *os.File, visit func(bucket string, key, value []byte) error) error {
	return (&dbFileReader{file: file, visit: visit}).read()
}

// read checks every page that can be reached from the root, in the order of the keys.
func (r *dbFileReader) read() error {
	info, err := r.file.Stat()
	if err != nil {
		return err
	}
	if info.Size() == 0 {
		return errors.New("the file is empty")
	}
	root, err := r.readMeta(info.Size())
	if err != nil {
		return err
	}
	r.seen, r.buckets = make([]uint64, r.pages/64+1), map[string]bool{}
	freed, err := r.readFreelist()
	if err != nil {
		return err
	}
	if err := r.walk(root, "", true, true, keyRange{}, 0); err != nil {
		return err
	}
	for _, id := range freed {
		if r.isSeen(id) {
			return fmt.Errorf("page %d is in use and in the list of free pages", id)
		}
	}
	for _, name := range []string{"key", "meta"} {
		if !r.buckets[name] {
			return fmt.Errorf("there is no bucket %q in it: it is a database of another program", name)
		}
	}
	return nil
}

// dbMeta is what page 0 or 1 says.
type dbMeta struct {
	pageSize                int64
	root, free, pages, txid uint64
}

// metaAt returns the meta page at an offset, and whether there is one.
func (r *dbFileReader) metaAt(offset int64) (dbMeta, bool) {
	b := make([]byte, pageHeader+metaSize)
	if _, err := r.file.ReadAt(b, offset); err != nil {
		return dbMeta{}, false
	}
	m := b[pageHeader:]
	u32 := func(at int) uint32 { return binary.NativeEndian.Uint32(m[at:]) }
	u64 := func(at int) uint64 { return binary.NativeEndian.Uint64(m[at:]) }
	sum := fnv.New64a()
	sum.Write(m[:metaSum])
	if u32(0) != metaMagic || u32(4) != metaVersion || u64(metaSum) != sum.Sum64() {
		return dbMeta{}, false
	}
	return dbMeta{pageSize: int64(u32(8)), root: u64(16), free: u64(32), pages: u64(40), txid: u64(48)}, true
}

// readMeta finds the root of the tree. The page size is itself stored in a page: that of page 0
// counts, or of the first valid page 1 for any page size.
func (r *dbFileReader) readMeta(size int64) (root uint64, err error) {
	first, found := r.metaAt(0)
	for offset := int64(minPageSize); !found && offset <= 1024<<14 && offset < size-1024; offset *= 2 {
		first, found = r.metaAt(offset)
	}
	if !found {
		return 0, errors.New("neither of its first two pages is whole: it is not a database, or it was overwritten")
	}
	r.pageSize = first.pageSize
	if r.pageSize < minPageSize || r.pageSize > maxPageSize || r.pageSize&(r.pageSize-1) != 0 {
		return 0, fmt.Errorf("got a page size of %d bytes, want a power of two from %d to %d", r.pageSize, minPageSize, maxPageSize)
	}
	newest, found := r.metaAt(0)
	if m, ok := r.metaAt(r.pageSize); ok && (!found || m.txid > newest.txid) {
		newest, found = m, true
	}
	switch {
	case !found:
		return 0, errors.New("neither of its first two pages is whole: it is not a database, or it was overwritten")
	case newest.pageSize != r.pageSize:
		return 0, fmt.Errorf("got page sizes of %d and %d bytes, want the same", r.pageSize, newest.pageSize)
	case newest.txid > maxTxid:
		return 0, fmt.Errorf("got transaction %d, want one below %d", newest.txid, uint64(maxTxid))
	case newest.pages > math.MaxInt64/maxPageSize || int64(newest.pages)*r.pageSize > size:
		return 0, fmt.Errorf("the file ends early: got %d bytes, want %d pages of %d bytes", size, newest.pages, r.pageSize)
	}
	r.pages, r.free = newest.pages, newest.free
	return newest.root, nil
}

// readFreelist returns the pages in the stored list of free pages, if there is one.
func (r *dbFileReader) readFreelist() (freed []uint64, err error) {
	if r.free == noFreelist {
		return nil, nil
	}
	b, flags, small, err := r.page(r.free)
	if err != nil {
		return nil, fmt.Errorf("the list of free pages: %w", err)
	}
	if flags != freelistPage {
		return nil, fmt.Errorf("page %d: it is of kind %#x, want the list of free pages", r.free, flags)
	}
	ids, count := b[pageHeader:], uint64(small)
	if count == manyFree {
		count, ids = binary.NativeEndian.Uint64(ids), ids[8:]
	}
	if count > uint64(len(ids)/8) {
		return nil, fmt.Errorf("page %d: %d free pages do not fit in", r.free, count)
	}
	last := uint64(1)
	for i := range count {
		id := binary.NativeEndian.Uint64(ids[i*8:])
		if id <= last || id >= r.pages {
			return nil, fmt.Errorf("page %d: got free page %d after %d, want one above it and below %d", r.free, id, last, r.pages)
		}
		freed, last = append(freed, id), id
	}
	return freed, nil
}

// isSeen reports whether a page was read.
func (r *dbFileReader) isSeen(id uint64) bool { return r.seen[id/64]&(1<<(id%64)) != 0 }

// page reads a page with the pages that continue it. The bytes of a leaf are valid until the next
// call.
func (r *dbFileReader) page(id uint64) (b []byte, flags, count uint16, err error) {
	if id < 2 || id >= r.pages {
		return nil, 0, 0, fmt.Errorf("page %d is named, want one below %d", id, r.pages)
	}
	if r.buf == nil {
		r.buf = make([]byte, readAhead*r.pageSize)
	}
	n, err := r.file.ReadAt(r.buf[:min(uint64(len(r.buf)), (r.pages-id)*uint64(r.pageSize))], int64(id)*r.pageSize)
	if n < pageHeader {
		return nil, 0, 0, fmt.Errorf("page %d: %w", id, err)
	}
	flags, count = binary.NativeEndian.Uint16(r.buf[8:]), binary.NativeEndian.Uint16(r.buf[10:])
	more := uint64(binary.NativeEndian.Uint32(r.buf[12:]))
	if got := binary.NativeEndian.Uint64(r.buf); got != id {
		return nil, 0, 0, fmt.Errorf("page %d says that it is page %d", id, got)
	}
	if id+more >= r.pages {
		return nil, 0, 0, fmt.Errorf("page %d goes on for %d pages, beyond the end", id, more)
	}
	for i := id; i <= id+more; i++ {
		if r.isSeen(i) {
			return nil, 0, 0, fmt.Errorf("page %d is used twice", i)
		}
		r.seen[i/64] |= 1 << (i % 64)
	}
	size := int(more+1) * int(r.pageSize)
	if len(r.buf) < size {
		r.buf = append(r.buf, make([]byte, size-len(r.buf))...)
	}
	if n < size {
		if _, err := r.file.ReadAt(r.buf[n:size], int64(id)*r.pageSize+int64(n)); err != nil {
			return nil, 0, 0, fmt.Errorf("page %d: %w", id, err)
		}
	}
	b = r.buf[:size]
	if flags != leafPage { // a branch is read while its children are
		b = bytes.Clone(b)
	}
	return b, flags, count, nil
}

// keyRange bounds the keys of a page: from its key in the parent to the next key there. nil means
// no bound.
type keyRange struct{ from, below []byte }

// holds reports whether a key is in the range.
func (k keyRange) holds(key []byte) bool {
	return bytes.Compare(key, k.from) >= 0 && (k.below == nil || bytes.Compare(key, k.below) < 0)
}

// walk checks a tree of pages: that of the buckets themselves if top is set, else of one bucket.
// Only the root of a tree may be empty.
func (r *dbFileReader) walk(id uint64, bucket string, top, root bool, keys keyRange, depth int) error {
	if depth > maxTreeDepth {
		return fmt.Errorf("page %d is %d levels deep", id, depth)
	}
	b, flags, count, err := r.page(id)
	if err != nil {
		return err
	}
	type child struct {
		id   uint64
		name string
		keys keyRange
	}
	if count == 0 && (flags != leafPage || !root) {
		return fmt.Errorf("page %d: it is empty", id)
	}
	var children []child
	outside := errors.New("its keys are not those for which it is named")
	switch flags {
	case branchPage:
		err = eachElement(b, count, false, func(key, _, element []byte) error {
			if !keys.holds(key) {
				return outside
			}
			if n := len(children); n > 0 {
				children[n-1].keys.below = key
			}
			children = append(children, child{binary.NativeEndian.Uint64(element[8:]), bucket, keyRange{key, keys.below}})
			return nil
		})
	case leafPage:
		err = eachElement(b, count, true, func(key, value, element []byte) error {
			isBucket := binary.NativeEndian.Uint32(element)&bucketElement != 0
			switch {
			case !keys.holds(key):
				return outside
			case isBucket != top:
				return errors.New("it has a bucket in place of a value, or a value in place of a bucket")
			case !isBucket:
				return r.visit(bucket, key, value)
			case len(value) < 16:
				return errors.New("a bucket without a root")
			}
			r.buckets[string(key)] = true
			if root := binary.NativeEndian.Uint64(value); root != 0 {
				children = append(children, child{root, string(key), keyRange{}})
				return nil
			}
			return r.inline(string(key), value[16:])
		})
	default:
		err = fmt.Errorf("it is of kind %#x, want a branch or a leaf", flags)
	}
	if err != nil {
		return fmt.Errorf("page %d: %w", id, err)
	}
	for _, c := range children {
		if err := r.walk(c.id, c.name, top && flags == branchPage, flags == leafPage, c.keys, depth+1); err != nil {
			return err
		}
	}
	return nil
}

// inline checks a small bucket, whose only page is the value of its name.
func (r *dbFileReader) inline(bucket string, b []byte) error {
	if len(b) < pageHeader || binary.NativeEndian.Uint16(b[8:]) != leafPage {
		return fmt.Errorf("bucket %q: no page", bucket)
	}
	return eachElement(b, binary.NativeEndian.Uint16(b[10:]), true, func(key, value, element []byte) error {
		if binary.NativeEndian.Uint32(element)&bucketElement != 0 {
			return fmt.Errorf("bucket %q: it has a bucket in place of a value", bucket)
		}
		return r.visit(bucket, key, value)
	})
}

// eachElement calls f for each element of a leaf or branch page. The elements of a branch have no
// values. Elements follow each other, so that the work is bounded by the size of the page.
func eachElement(b []byte, count uint16, leaf bool, f func(key, value, element []byte) error) error {
	var last []byte
	free := pageHeader + int64(count)*elementSize // where the next element may begin
	for i := range int(count) {
		at := pageHeader + i*elementSize
		if at+elementSize > len(b) {
			return fmt.Errorf("%d elements do not fit in", count)
		}
		element := b[at : at+elementSize]
		var pos, keySize, valueSize uint32
		if leaf {
			pos, keySize, valueSize = binary.NativeEndian.Uint32(element[4:]), binary.NativeEndian.Uint32(element[8:]), binary.NativeEndian.Uint32(element[12:])
		} else {
			pos, keySize = binary.NativeEndian.Uint32(element), binary.NativeEndian.Uint32(element[4:])
		}
		from := int64(at) + int64(pos)
		end := from + int64(keySize) + int64(valueSize)
		if from < free || end > int64(len(b)) {
			return fmt.Errorf("element %d reaches beyond the page, or into another element", i)
		}
		free = end
		key := b[from : from+int64(keySize)]
		if i > 0 && bytes.Compare(last, key) >= 0 {
			return fmt.Errorf("element %d is out of order", i)
		}
		last = key
		if err := f(key, b[from+int64(keySize):end], element); err != nil {
			return err
		}
	}
	return nil
}
