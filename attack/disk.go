package main

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"

	"github.com/hanwen/go-fuse/v2/fs"
	"github.com/hanwen/go-fuse/v2/fuse"
)

// This file has a disk that loses power and fails.
//
// It is a file system (FUSE) over a folder. Programs see every write at once. The disk remembers what it has promised to keep: the
// bytes of a file at its last sync, and the names of files at the last sync of anything, as file systems with a journal do. When the
// power fails, of each later write some sectors are there and others are not, and of the later changes of names the first ones. So a
// rename before a sync may leave an empty file, and a write may be torn.

const sector = 512

// disk is such a file system.
type disk struct {
	dir, back string // where programs see it, and the folder that it is over
	server    *fuse.Server

	mu      sync.Mutex
	files   map[uint64]*content   // by the number of the inode
	kept    map[string]*content   // names at the last sync
	journal []func(names)         // changes of names since then
	fault   func(op string) error // fails an operation, "sync" or "write"; nil for none
}

type names map[string]*content

// content is what a file has kept, and what was written to it since. A folder has none.
type content struct {
	folder bool
	mode   os.FileMode
	kept   []byte
	later  []write
}

// write is one change of a file: bytes at an offset, or the length that it was cut or extended to if there are none.
type write struct {
	at   int64
	data []byte
}

// apply makes a change, or a part of it: the sectors for which lands is true.
func (c *content) apply(w write, lands func() bool) {
	if w.data == nil {
		switch {
		case w.at <= int64(len(c.kept)):
			c.kept = c.kept[:w.at]
		default:
			c.kept = append(c.kept, make([]byte, w.at-int64(len(c.kept)))...)
		}
		return
	}
	for from := 0; from < len(w.data); {
		at := w.at + int64(from)
		n := min(len(w.data)-from, int(sector-at%sector))
		if lands() {
			if end := at + int64(n); end > int64(len(c.kept)) {
				c.kept = append(c.kept, make([]byte, end-int64(len(c.kept)))...)
			}
			copy(c.kept[at:], w.data[from:from+n])
		}
		from += n
	}
}

func always() bool { return true }

// newDisk mounts an empty disk at dir. It needs the right to mount, and /dev/fuse.
func newDisk(dir string) (*disk, error) {
	d := &disk{dir: dir, back: dir + "-back", kept: names{}}
	if err := errors.Join(os.MkdirAll(d.dir, 0o700), os.MkdirAll(d.back, 0o700)); err != nil {
		return nil, err
	}
	return d, d.mount()
}

func (d *disk) mount() error {
	d.files = map[uint64]*content{}
	loopback := &fs.LoopbackRoot{Path: d.back}
	loopback.NewNode = func(r *fs.LoopbackRoot, _ *fs.Inode, _ string, _ *syscall.Stat_t) fs.InodeEmbedder {
		return &diskNode{LoopbackNode: fs.LoopbackNode{RootData: r}, disk: d}
	}
	root := &diskNode{LoopbackNode: fs.LoopbackNode{RootData: loopback}, disk: d}
	loopback.RootNode = root
	var err error
	d.server, err = fs.Mount(d.dir, root, &fs.Options{MountOptions: fuse.MountOptions{DirectMountStrict: true, FsName: "attack", Name: "attack"}})
	if err != nil {
		return fmt.Errorf("mounting a disk: %w", err)
	}
	return nil
}

func (d *disk) close() {
	if d.server != nil && d.server.Unmount() != nil {
		syscall.Unmount(d.dir, syscall.MNT_DETACH)
	}
	os.RemoveAll(d.back)
}

// cut is a power failure and the start after it. No program may use the disk meanwhile.
func (d *disk) cut(rng *rand.Rand) error {
	if err := d.server.Unmount(); err != nil {
		return fmt.Errorf("unmounting the disk: %w", err)
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, change := range d.journal[:rng.IntN(len(d.journal)+1)] {
		change(d.kept)
	}
	d.journal, d.fault = nil, nil
	odds := pick(rng, 0, 0.5, 0.5, 0.9, 1)
	done := map[*content]bool{}
	for _, name := range slices.Sorted(maps.Keys(d.kept)) {
		c := d.kept[name]
		for _, w := range c.later[:rng.IntN(len(c.later)+1)] {
			c.apply(w, func() bool { return rng.Float64() < odds })
		}
		c.later, done[c] = nil, true
	}
	if err := errors.Join(os.RemoveAll(d.back), os.Mkdir(d.back, 0o700)); err != nil {
		return err
	}
	for _, name := range slices.Sorted(maps.Keys(d.kept)) { // folders come before what is in them
		if err := d.restore(filepath.Join(d.back, name), d.kept[name]); err != nil {
			return err
		}
	}
	if err := d.mount(); err != nil {
		return err
	}
	for name, c := range d.kept {
		var st syscall.Stat_t
		if err := syscall.Lstat(filepath.Join(d.back, name), &st); err == nil {
			d.files[st.Ino] = c
		}
	}
	return nil
}

// restore writes a file as it is after a power failure. Zeros are left out.
func (d *disk) restore(path string, c *content) error {
	if c.folder {
		return os.MkdirAll(path, c.mode)
	}
	f, err := os.OpenFile(path, os.O_CREATE|os.O_WRONLY|os.O_TRUNC, c.mode)
	if err != nil {
		return err
	}
	zeros := make([]byte, 4096)
	for at := 0; at < len(c.kept) && err == nil; at += len(zeros) {
		part := c.kept[at:min(at+len(zeros), len(c.kept))]
		if !slices.Equal(part, zeros[:len(part)]) {
			_, err = f.WriteAt(part, int64(at))
		}
	}
	return errors.Join(err, f.Truncate(int64(len(c.kept))), f.Close())
}

// sync keeps what was written to a file, nil for a folder, and all names.
func (d *disk) sync(c *content) syscall.Errno {
	d.mu.Lock()
	defer d.mu.Unlock()
	if err := d.fails("sync"); err != nil {
		return fs.ToErrno(err)
	}
	if c != nil {
		for _, w := range c.later {
			c.apply(w, always)
		}
		c.later = nil
	}
	for _, change := range d.journal {
		change(d.kept)
	}
	d.journal = nil
	return 0
}

func (d *disk) fails(op string) error {
	if d.fault == nil {
		return nil
	}
	return d.fault(op)
}

// fail makes operations fail from now on, as fault says, until the next cut.
func (d *disk) fail(fault func(op string) error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.fault = fault
}

// record notes a change of a file.
func (d *disk) record(c *content, w write) {
	d.mu.Lock()
	defer d.mu.Unlock()
	w.data = slices.Clone(w.data)
	c.later = append(c.later, w)
}

// rename notes a change of names.
func (d *disk) rename(change func(names)) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.journal = append(d.journal, change)
}

// content returns what is known of a file of the folder below. fresh is set for a new one, whose number another one may have had.
func (d *disk) content(path string, fresh bool) *content {
	var st syscall.Stat_t
	if syscall.Lstat(path, &st) != nil {
		return &content{}
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	c := d.files[st.Ino]
	if c == nil || fresh {
		c = &content{folder: st.Mode&syscall.S_IFMT == syscall.S_IFDIR, mode: os.FileMode(st.Mode & 0o777)}
		d.files[st.Ino] = c
	}
	return c
}

// diskNode is a file or folder that programs see.
type diskNode struct {
	fs.LoopbackNode
	disk *disk
}

// name is the path of a child, or of the node itself, from the root of the disk.
func (n *diskNode) name(child string) string { return filepath.Join(n.Path(n.Root()), child) }

func (n *diskNode) below(child string) string { return filepath.Join(n.disk.back, n.name(child)) }

func (n *diskNode) Create(ctx context.Context, name string, flags, mode uint32, out *fuse.EntryOut) (*fs.Inode, fs.FileHandle, uint32, syscall.Errno) {
	inode, f, more, errno := n.LoopbackNode.Create(ctx, name, flags, mode, out)
	if errno != 0 {
		return inode, f, more, errno
	}
	c, path := n.disk.content(n.below(name), true), n.name(name)
	n.disk.rename(func(all names) { all[path] = c })
	return inode, &diskFile{f.(*fs.LoopbackFile), c, n.disk}, more, 0
}

func (n *diskNode) Open(ctx context.Context, flags uint32) (fs.FileHandle, uint32, syscall.Errno) {
	f, more, errno := n.LoopbackNode.Open(ctx, flags)
	if errno != 0 {
		return f, more, errno
	}
	c := n.disk.content(n.below(""), false)
	if flags&syscall.O_TRUNC != 0 {
		n.disk.record(c, write{})
	}
	return &diskFile{f.(*fs.LoopbackFile), c, n.disk}, more, 0
}

func (n *diskNode) Mkdir(ctx context.Context, name string, mode uint32, out *fuse.EntryOut) (*fs.Inode, syscall.Errno) {
	inode, errno := n.LoopbackNode.Mkdir(ctx, name, mode, out)
	if errno == 0 {
		c, path := n.disk.content(n.below(name), true), n.name(name)
		n.disk.rename(func(all names) { all[path] = c })
	}
	return inode, errno
}

func (n *diskNode) Rename(ctx context.Context, name string, parent fs.InodeEmbedder, newName string, flags uint32) syscall.Errno {
	if flags != 0 {
		return syscall.ENOTSUP
	}
	from, to := n.name(name), parent.(*diskNode).name(newName)
	errno := n.LoopbackNode.Rename(ctx, name, parent, newName, 0)
	if errno == 0 {
		n.disk.rename(func(all names) {
			for path, c := range maps.Clone(all) {
				if path == from || strings.HasPrefix(path, from+"/") {
					delete(all, path)
					all[to+strings.TrimPrefix(path, from)] = c
				}
			}
		})
	}
	return errno
}

func (n *diskNode) Link(ctx context.Context, target fs.InodeEmbedder, name string, out *fuse.EntryOut) (*fs.Inode, syscall.Errno) {
	inode, errno := n.LoopbackNode.Link(ctx, target, name, out)
	if errno == 0 {
		c, path := n.disk.content(n.below(name), false), n.name(name)
		n.disk.rename(func(all names) { all[path] = c })
	}
	return inode, errno
}

func (n *diskNode) Unlink(ctx context.Context, name string) syscall.Errno {
	return n.remove(name, n.LoopbackNode.Unlink(ctx, name))
}

func (n *diskNode) Rmdir(ctx context.Context, name string) syscall.Errno {
	return n.remove(name, n.LoopbackNode.Rmdir(ctx, name))
}

func (n *diskNode) remove(name string, errno syscall.Errno) syscall.Errno {
	if path := n.name(name); errno == 0 {
		n.disk.rename(func(all names) { delete(all, path) })
	}
	return errno
}

func (n *diskNode) Symlink(context.Context, string, string, *fuse.EntryOut) (*fs.Inode, syscall.Errno) {
	return nil, syscall.ENOTSUP
}

func (n *diskNode) Mknod(context.Context, string, uint32, uint32, *fuse.EntryOut) (*fs.Inode, syscall.Errno) {
	return nil, syscall.ENOTSUP
}

func (n *diskNode) CopyFileRange(context.Context, fs.FileHandle, uint64, *fs.Inode, fs.FileHandle, uint64, uint64, uint64) (uint32, syscall.Errno) {
	return 0, syscall.ENOTSUP
}

func (n *diskNode) Setattr(ctx context.Context, f fs.FileHandle, in *fuse.SetAttrIn, out *fuse.AttrOut) syscall.Errno {
	errno := n.LoopbackNode.Setattr(ctx, nil, in, out)
	if errno != 0 {
		return errno
	}
	c := n.disk.content(n.below(""), false)
	if h, ok := f.(*diskFile); ok {
		c = h.c
	}
	if size, ok := in.GetSize(); ok {
		n.disk.record(c, write{at: int64(size)})
	}
	if mode, ok := in.GetMode(); ok {
		c.mode = os.FileMode(mode & 0o777)
	}
	return 0
}

// Fsync is for folders.
func (n *diskNode) Fsync(ctx context.Context, f fs.FileHandle, flags uint32) syscall.Errno {
	if h, ok := f.(*diskFile); ok {
		return h.Fsync(ctx, flags)
	}
	return n.disk.sync(nil)
}

// diskFile is an open file. It has only the methods that it records or that change nothing.
type diskFile struct {
	f *fs.LoopbackFile
	c *content
	d *disk
}

func (h *diskFile) Read(ctx context.Context, b []byte, at int64) (fuse.ReadResult, syscall.Errno) {
	return h.f.Read(ctx, b, at)
}

// Write writes whole sectors up to the one that fails, if one does.
func (h *diskFile) Write(ctx context.Context, b []byte, at int64) (uint32, syscall.Errno) {
	h.d.mu.Lock()
	err := h.d.fails("write")
	h.d.mu.Unlock()
	if err != nil {
		b = b[:len(b)/2/sector*sector]
	}
	n, errno := h.f.Write(ctx, b, at)
	h.d.record(h.c, write{at, b[:n:n]})
	if err != nil {
		return 0, fs.ToErrno(err)
	}
	return n, errno
}

func (h *diskFile) Release(ctx context.Context) syscall.Errno { return h.f.Release(ctx) }
func (h *diskFile) Flush(context.Context) syscall.Errno       { return 0 }
func (h *diskFile) Fsync(context.Context, uint32) syscall.Errno {
	return h.d.sync(h.c)
}
func (h *diskFile) Getattr(ctx context.Context, out *fuse.AttrOut) syscall.Errno {
	return h.f.Getattr(ctx, out)
}
func (h *diskFile) Lseek(ctx context.Context, at uint64, whence uint32) (uint64, syscall.Errno) {
	return h.f.Lseek(ctx, at, whence)
}

// Allocate records the length that a file gets.
func (h *diskFile) Allocate(ctx context.Context, at, size uint64, mode uint32) syscall.Errno {
	const keepSize = 1
	if mode&^keepSize != 0 {
		return syscall.EOPNOTSUPP
	}
	errno := h.f.Allocate(ctx, at, size, mode)
	if errno == 0 && mode == 0 {
		var out fuse.AttrOut
		if errno = h.f.Getattr(ctx, &out); errno == 0 {
			h.d.record(h.c, write{at: int64(out.Size)})
		}
	}
	return errno
}
