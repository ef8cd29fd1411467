package main

import (
	"archive/tar"
	"archive/zip"
	"bytes"
	"cmp"
	"compress/flate"
	"compress/gzip"
	"crypto/sha256"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
)

// This file packs archives, and writes checksums and their signature.

// file is a file in an archive.
type file struct {
	name string
	from string
	mode int64
}

// content returns the files of an archive, in order: the program and the documents.
func content(prefix, binary, docs string) ([]file, error) {
	files := []file{{path.Join(prefix, filepath.Base(binary)), binary, 0o755}}
	root := os.DirFS(docs)
	err := fs.WalkDir(root, ".", func(p string, e fs.DirEntry, err error) error {
		if err == nil && !e.IsDir() {
			files = append(files, file{path.Join(prefix, p), filepath.Join(docs, p), 0o644})
		}
		return err
	})
	slices.SortFunc(files, func(a, b file) int { return cmp.Compare(a.name, b.name) })
	return files, err
}

// archive writes the archive of a target.
func (r *release) archive(t target, binary, docs string) error {
	name := fmt.Sprintf("keelson_%s_%s", r.version, t)
	files, err := content(name, binary, docs)
	if err != nil {
		return err
	}
	if t.os == "windows" {
		name = filepath.Join(r.out, name+".zip")
		if err := r.zip(name, files); err != nil {
			return err
		}
		return r.checkArchive(name)
	}
	text, err := r.tar(files)
	if err != nil {
		return err
	}
	name = filepath.Join(r.out, name+".tar.gz")
	if err := writeGzip(name, text); err != nil {
		return err
	}
	return r.checkArchive(name)
}

// checkArchive returns an error if an archive is too large.
func (r *release) checkArchive(name string) error {
	f, err := os.Stat(name)
	if err != nil {
		return err
	}
	return checkSize(filepath.Base(name), f.Size(), r.limits.archive)
}

// checkSize prints the size of a result, and returns an error if it is too large.
func checkSize(name string, size, limit int64) error {
	if size > limit {
		return fmt.Errorf("%s: got %.1f MB, want at most %.1f MB", name, float64(size)/1e6, float64(limit)/1e6)
	}
	fmt.Fprintf(os.Stderr, "%s: %.1f MB\n", name, float64(size)/1e6)
	return nil
}

// tar returns a tar file. Its times are those of the release, and everything belongs to root.
func (r *release) tar(files []file) ([]byte, error) {
	var b bytes.Buffer
	w := tar.NewWriter(&b)
	for _, f := range files {
		text, err := os.ReadFile(f.from)
		if err != nil {
			return nil, err
		}
		h := &tar.Header{Name: f.name, Mode: f.mode, Size: int64(len(text)), ModTime: r.date, Format: tar.FormatPAX, Typeflag: tar.TypeReg}
		if err := w.WriteHeader(h); err != nil {
			return nil, err
		}
		if _, err := w.Write(text); err != nil {
			return nil, err
		}
	}
	err := w.Close()
	return b.Bytes(), err
}

// writeGzip writes a compressed file without a time or a name in it.
func writeGzip(name string, text []byte) error {
	var b bytes.Buffer
	w, err := gzip.NewWriterLevel(&b, gzip.BestCompression)
	if err != nil {
		return err
	}
	if _, err := w.Write(text); err != nil {
		return err
	}
	if err := w.Close(); err != nil {
		return err
	}
	return os.WriteFile(name, b.Bytes(), 0o644)
}

// zip writes a zip file.
func (r *release) zip(name string, files []file) error {
	var b bytes.Buffer
	w := zip.NewWriter(&b)
	w.RegisterCompressor(zip.Deflate, func(out io.Writer) (io.WriteCloser, error) { return flate.NewWriter(out, flate.BestCompression) })
	for _, f := range files {
		text, err := os.ReadFile(f.from)
		if err != nil {
			return err
		}
		h := &zip.FileHeader{Name: f.name, Method: zip.Deflate, Modified: r.date}
		h.SetMode(fs.FileMode(f.mode))
		part, err := w.CreateHeader(h)
		if err != nil {
			return err
		}
		if _, err := part.Write(text); err != nil {
			return err
		}
	}
	if err := w.Close(); err != nil {
		return err
	}
	return os.WriteFile(name, b.Bytes(), 0o644)
}

// sum returns the SHA-256 of a result, in hexadecimal.
func (r *release) sum(name string) (string, error) {
	text, err := os.ReadFile(filepath.Join(r.out, name))
	if err != nil {
		return "", err
	}
	return fmt.Sprintf("%x", sha256.Sum256(text)), nil
}

// checksums writes the checksums of all results, in the form of sha256sum, and with a key their
// signature, in the form of cosign.
func (r *release) checksums() error {
	files, err := os.ReadDir(r.out)
	if err != nil {
		return err
	}
	var text []byte
	for _, f := range files {
		sum, err := r.sum(f.Name())
		if err != nil {
			return err
		}
		text = fmt.Appendf(text, "%s  %s\n", sum, f.Name())
	}
	if err := os.WriteFile(filepath.Join(r.out, "checksums.txt"), text, 0o644); err != nil || r.key == "" {
		return err
	}
	signature, err := sign(r.key, text)
	if err != nil {
		return fmt.Errorf("-key: %w", err)
	}
	return os.WriteFile(filepath.Join(r.out, "checksums.txt.sig"), signature, 0o644)
}
