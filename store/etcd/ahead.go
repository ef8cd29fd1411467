//go:build linux && (amd64 || arm64)

package etcd

// This file readies the space of the write-ahead log before it is needed. etcd reserves a segment of 64 MB without writing it. As
// long as the file system notes of a block that it was never written, syncing data in it means changing the file's metadata, too,
// which waits for all else that the file system is about to make durable. A block that was written once is only overwritten, and a sync
// takes half the time.
//
// The file is etcd's, which writes it meanwhile, so nothing is written here: pages are mapped into memory, and zero is added to a
// word of each, atomically. That makes the page one to be written, and leaves it what it is, whoever writes to it at the same
// moment. Nothing depends on it: whatever goes wrong, the log is as etcd made it.

import (
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"runtime/debug"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"unsafe"
)

const (
	aheadBytes  = 8 << 20   // how far the log is made ready
	aheadAfter  = 512 << 10 // how much is written until that is looked after again
	aheadWindow = 512 << 10 // how much is mapped at a time
	aheadEntry  = 192       // about what a write is in the log beside its key and value
)

// ahead keeps the log's space ready. It does nothing while nothing is written.
type ahead struct {
	dir     string
	logger  *slog.Logger
	touch   func(f *os.File, offset int64, size int) error
	written atomic.Int64 // since the last turn, about
	kick    chan struct{}
	end     chan struct{}
	ended   sync.WaitGroup

	segment string // that is being written
	at      int64  // up to about here it has data
	ready   int64  // up to here it is ready
}

// keepAhead starts to look after the log in dir. That it cannot is logged, once.
func keepAhead(dir string, logger *slog.Logger) *ahead {
	a := &ahead{dir: dir, logger: logger, touch: touch, kick: make(chan struct{}, 1), end: make(chan struct{})}
	a.ended.Go(a.run)
	return a
}

// note is told of each write, and how long its key and value are.
func (a *ahead) note(bytes int) {
	if a == nil || a.written.Add(int64(bytes)+aheadEntry) < aheadAfter {
		return
	}
	a.written.Store(0)
	select {
	case a.kick <- struct{}{}:
	default:
	}
}

// stop returns when nobody touches the log any more.
func (a *ahead) stop() {
	if a != nil {
		close(a.end)
		a.ended.Wait()
	}
}

// run takes a turn when it is told to, until one fails: then it is not possible here.
func (a *ahead) run() {
	debug.SetPanicOnFault(true) // etcd cuts a segment to size when it begins the next one
	for {
		select {
		case <-a.end:
			return
		case <-a.kick:
		}
		if err := a.turn(); err != nil {
			a.logger.Warn("the log's space is not made ready before it is needed, so that writes may take longer", "dir", a.dir, "err", err)
			return
		}
	}
}

// turn makes the log ready from where it is written.
func (a *ahead) turn() error {
	names, err := filepath.Glob(filepath.Join(a.dir, "*.wal")) // in order
	if err != nil || len(names) == 0 {
		return err
	}
	if last := names[len(names)-1]; last != a.segment {
		a.segment, a.at, a.ready = last, 0, 0
	}
	f, err := os.OpenFile(a.segment, os.O_RDWR, 0)
	if err != nil {
		return err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return err
	}
	if a.at, err = dataEnd(f, a.at); err != nil {
		return err
	}
	a.ready = max(a.ready, a.at)
	for until := min(a.at+aheadBytes, info.Size()); a.ready+aheadWindow <= until; a.ready += aheadWindow {
		select {
		case <-a.end:
			return nil
		default:
		}
		if err := a.touch(f, a.ready, aheadWindow); err != nil {
			if _, fault := err.(faulted); fault {
				a.ready = info.Size() // the segment is complete
				return nil
			}
			return err
		}
	}
	return nil
}

// dataEnd returns the first multiple of a window at or after from where a file has nothing but zeros for a while.
func dataEnd(f *os.File, from int64) (int64, error) {
	b := make([]byte, aheadWindow/8)
	for {
		n, err := f.ReadAt(b, from)
		if err != nil && err != io.EOF {
			return 0, err
		}
		if strings.Trim(unsafe.String(unsafe.SliceData(b), n), "\x00") == "" {
			return (from + aheadWindow - 1) / aheadWindow * aheadWindow, nil
		}
		from += int64(n)
	}
}

// faulted is the error of touching what is no longer there.
type faulted struct{ cause any }

func (e faulted) Error() string { return fmt.Sprint(e.cause) }

// touch makes the file system write a part of a file as it is, and waits for it. The offset is a multiple of the size of a page.
func touch(f *os.File, offset int64, size int) (err error) {
	b, err := syscall.Mmap(int(f.Fd()), offset, size, syscall.PROT_READ|syscall.PROT_WRITE, syscall.MAP_SHARED)
	if err != nil {
		return err
	}
	defer syscall.Munmap(b)
	if err := touchPages(b); err != nil {
		return err
	}
	const startAndWait = 1 | 2 | 4 // SYNC_FILE_RANGE_WAIT_BEFORE, _WRITE, _WAIT_AFTER
	return syscall.SyncFileRange(int(f.Fd()), offset, int64(size), startAndWait)
}

func touchPages(b []byte) (err error) {
	defer func() {
		if cause := recover(); cause != nil {
			err = faulted{cause}
		}
	}()
	for i := 0; i < len(b); i += os.Getpagesize() {
		(*atomic.Uint32)(unsafe.Pointer(&b[i])).Add(0)
	}
	return nil
}
