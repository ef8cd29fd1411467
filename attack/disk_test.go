package main

import (
	"errors"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

// newTestDisk mounts a disk, or skips the test where that cannot be done.
func newTestDisk(t *testing.T) *disk {
	t.Helper()
	if _, err := os.Stat("/dev/fuse"); err != nil || os.Getuid() != 0 {
		t.Skip("a disk needs /dev/fuse and the right to mount")
	}
	d, err := newDisk(filepath.Join(t.TempDir(), "disk"))
	if err != nil {
		t.Skipf("this machine mounts no file systems: %v", err)
	}
	t.Cleanup(d.close)
	return d
}

// write writes a file as a program does, and syncs it if sync is set.
func (d *disk) put(t *testing.T, name, text string, sync bool) {
	t.Helper()
	f, err := os.Create(filepath.Join(d.dir, name))
	if err == nil {
		_, err = f.WriteString(text)
	}
	if err == nil && sync {
		err = f.Sync()
	}
	if err := errors.Join(err, f.Close()); err != nil {
		t.Fatal(err)
	}
}

func (d *disk) get(name string) string {
	b, err := os.ReadFile(filepath.Join(d.dir, name))
	if err != nil {
		return "none"
	}
	return string(b)
}

// TestDiskKeepsWhatIsSynced: what was synced is there after each power failure; what was not is there in part, now and then.
func TestDiskKeepsWhatIsSynced(t *testing.T) {
	d := newTestDisk(t)
	rng := rand.New(rand.NewPCG(1, 1))
	text := strings.Repeat("s", 3000)
	whole, torn, gone, empty, early := 0, 0, 0, 0, 0
	for range 60 {
		d.put(t, "synced", text, true)
		d.put(t, "replaced.tmp", "new", true)
		d.put(t, "later", text, false)
		d.put(t, "hasty.tmp", "new", false)
		if err := os.Rename(filepath.Join(d.dir, "hasty.tmp"), filepath.Join(d.dir, "hasty")); err != nil {
			t.Fatal(err)
		}
		if got := d.get("later"); got != text {
			t.Fatalf("before a power failure: got %d bytes of a file that is not synced", len(got))
		}
		if err := d.cut(rng); err != nil {
			t.Fatal(err)
		}
		if got := d.get("synced"); got != text {
			t.Fatalf("a file that was synced has %d bytes, want 3,000", len(got))
		}
		switch got := d.get("later"); {
		case got == text:
			whole++
		case got == "none" || got == "":
			gone++
		default:
			torn++
		}
		switch d.get("hasty") {
		case "":
			empty++
		case "none":
			early++
		}
		os.Remove(filepath.Join(d.dir, "later"))
		os.Remove(filepath.Join(d.dir, "hasty"))
		if f, err := os.Open(d.dir); err == nil {
			f.Sync()
			f.Close()
		}
	}
	if whole == 0 || torn == 0 || gone == 0 || empty == 0 || early == 0 {
		t.Errorf("of 60 files that were not synced %d are whole, %d torn, %d gone; of 60 hasty renames %d left an empty file and %d were not made: want some of each",
			whole, torn, gone, empty, early)
	}
}

// TestDiskFails: an operation that is to fail does, and the file has what was written before.
func TestDiskFails(t *testing.T) {
	d := newTestDisk(t)
	d.put(t, "a", "before", true)
	d.fail(func(op string) error {
		if op == "sync" {
			return syscall.EIO
		}
		return nil
	})
	f, err := os.OpenFile(filepath.Join(d.dir, "a"), os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	f.WriteString("after!")
	if err := f.Sync(); !errors.Is(err, syscall.EIO) {
		t.Errorf("sync: got %v, want an error of the disk", err)
	}
	f.Close()
	if err := d.cut(rand.New(rand.NewPCG(4, 1))); err != nil {
		t.Fatal(err)
	}
	if got := d.get("a"); got != "before" && got != "after!" {
		t.Errorf("got %q, want one of two texts: a sector is never torn", got)
	}
}
