package manifest

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"github.com/bmatcuk/doublestar/v4"
)

// This file opens and reads files that may be a stranger's.

// maxSilence is how long the read of a file waits for more. Some files of /proc and /sys claim to be
// regular, and wait for events, such as /proc/kmsg.
const maxSilence = 2 * time.Second

// ReadFile returns the text of a file, or of stdin for "-". It does not wait for somebody to write to
// a FIFO.
func ReadFile(file string, stdin io.Reader) ([]byte, error) {
	if file == "-" {
		return readAll(file, stdin, 0)
	}
	f, err := os.OpenFile(file, os.O_RDONLY|nonblock, 0)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return readOpen(file, f, false)
}

// ReadWithin returns the text of a regular file that [Inside] accepts. It opens the path that was
// judged: a link that is put there meanwhile leads nowhere. Without a folder, it is ReadFile.
func ReadWithin(folder, file string) ([]byte, error) {
	if folder == "" {
		return ReadFile(file, nil)
	}
	root, name, err := openRoot(folder, file)
	if err != nil {
		return nil, err
	}
	defer root.Close()
	return ReadFrom(root, name, file)
}

// ReadFrom returns the text of a regular file below an open folder. Errors call the file shown.
func ReadFrom(root *os.Root, name, shown string) ([]byte, error) {
	f, err := root.OpenFile(name, os.O_RDONLY|nonblock, 0)
	if err != nil {
		return nil, renamed(err, "open", shown)
	}
	defer f.Close()
	return readOpen(shown, f, true)
}

// renamed returns the error of an operation of os.Root with the path that the user knows.
func renamed(err error, op, shown string) error {
	var failed *fs.PathError
	if errors.As(err, &failed) {
		return &fs.PathError{Op: op, Path: shown, Err: failed.Err}
	}
	return err
}

// readOpen reads a file that was opened without waiting.
func readOpen(file string, f *os.File, onlyRegular bool) ([]byte, error) {
	info, err := f.Stat()
	if err != nil {
		return nil, err
	}
	mode := info.Mode()
	if onlyRegular && !mode.IsRegular() {
		return nil, fmt.Errorf("%s: not a regular file", file)
	}
	var from io.Reader = f
	if mode.IsRegular() {
		from = &answering{f, maxSilence}
	}
	text, err := readAll(file, from, info.Size())
	if err == nil && mode&fs.ModeNamedPipe != 0 && len(text) == 0 {
		err = fmt.Errorf("%s: a FIFO that nobody writes to", file)
	}
	return text, err
}

// readAll reads a text of at most maxFile bytes. size is how long it probably is.
func readAll(file string, from io.Reader, size int64) ([]byte, error) {
	var b bytes.Buffer
	b.Grow(int(min(size, maxFile)) + bytes.MinRead) // so that it does not grow again before the end is found
	_, err := b.ReadFrom(io.LimitReader(from, maxFile+1))
	text := b.Bytes()
	if err == nil && len(text) > maxFile {
		err = fmt.Errorf("%s: got more than %d bytes", file, maxFile)
	}
	return text, err
}

// answering is a file whose reads fail if it does not answer.
type answering struct {
	file    *os.File
	silence time.Duration
}

// Read implements io.Reader. A file on a disk has no deadline, because its reads never wait.
func (a *answering) Read(p []byte) (int, error) {
	if err := a.file.SetReadDeadline(time.Now().Add(a.silence)); err != nil && !errors.Is(err, os.ErrNoDeadline) {
		return 0, err
	}
	n, err := a.file.Read(p)
	if errors.Is(err, os.ErrDeadlineExceeded) {
		err = fmt.Errorf("%s: it waits for events and does not answer, want a file with a text", a.file.Name())
	}
	return n, err
}

// openRoot opens a folder and returns the name of a file in it that [Inside] accepts. The name has no
// links.
func openRoot(folder, path string) (*os.Root, string, error) {
	real, name, err := resolve(folder, path)
	if err != nil {
		return nil, "", err
	}
	root, err := os.OpenRoot(real)
	return root, name, err
}

// read reads a file that find returned.
func (o Options) read(file string, stdin io.Reader) ([]byte, error) {
	if o.Within == "" || file == "-" {
		return ReadFile(file, stdin)
	}
	return ReadWithin(o.Within, file)
}

// stat returns what is known of a file, behind links.
func (o Options) stat(path string) (fs.FileInfo, error) {
	if o.Within == "" {
		return os.Stat(path)
	}
	root, name, err := openRoot(o.Within, path)
	if err != nil {
		return nil, err
	}
	defer root.Close()
	info, err := root.Stat(name)
	return info, renamed(err, "stat", path)
}

// walk calls fn for a folder and everything below it. It does not follow links.
func (o Options) walk(folder string, fn fs.WalkDirFunc) error {
	if o.Within == "" {
		return filepath.WalkDir(folder, fn)
	}
	root, from, err := openRoot(o.Within, folder)
	if err != nil {
		return err
	}
	defer root.Close()
	return fs.WalkDir(root.FS(), filepath.ToSlash(from), func(name string, e fs.DirEntry, err error) error {
		below, failed := filepath.Rel(from, filepath.FromSlash(name))
		if failed != nil {
			return failed
		}
		return fn(filepath.Join(folder, below), e, err)
	})
}

// matches returns the files and folders that match a glob. Nothing outside of Within is looked at.
func (o Options) matches(pattern string) ([]string, error) {
	options := []doublestar.GlobOption{doublestar.WithNoHidden(), doublestar.WithNoFollow()}
	if o.Within == "" {
		return doublestar.FilepathGlob(tidyGlob(pattern), options...)
	}
	folder, err := filepath.Abs(o.Within)
	if err != nil {
		return nil, err
	}
	whole, err := filepath.Abs(pattern)
	if err != nil {
		return nil, err
	}
	below, err := filepath.Rel(folder, whole)
	if err != nil || !filepath.IsLocal(below) {
		return nil, fmt.Errorf("%s leads out of the repository %s: %w", pattern, o.Within, ErrOutside)
	}
	root, err := os.OpenRoot(folder)
	if err != nil {
		return nil, err
	}
	defer root.Close()
	found, err := doublestar.Glob(root.FS(), tidyGlob(filepath.ToSlash(below)), options...)
	if err != nil {
		return nil, err
	}
	here := ""
	if !filepath.IsAbs(pattern) {
		if here, err = os.Getwd(); err != nil {
			return nil, err
		}
	}
	for i, name := range found {
		found[i] = filepath.Join(folder, filepath.FromSlash(name))
		if here != "" {
			if found[i], err = filepath.Rel(here, found[i]); err != nil {
				return nil, err
			}
		}
	}
	return found, nil
}
