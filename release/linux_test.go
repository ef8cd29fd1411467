package main

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// This file tests the form of the packages for Alpine, and the limits for the sizes of results.

// gzipStreams returns the compressed streams that a file is made of, as they are and unpacked. A file of apk has two: what it says about the
// package, and the files.
func gzipStreams(t *testing.T, name string) (packed, unpacked [][]byte) {
	t.Helper()
	text, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	for r := bytes.NewReader(text); r.Len() > 0; {
		at := len(text) - r.Len()
		z, err := gzip.NewReader(r)
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		z.Multistream(false)
		content, err := io.ReadAll(z)
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		packed, unpacked = append(packed, text[at:len(text)-r.Len()]), append(unpacked, content)
	}
	return packed, unpacked
}

// TestAPK holds that packages for Alpine have what apk reads: a description with the checksum of the files, and files of root with their
// checksums.
func TestAPK(t *testing.T) {
	r := sample(t, "")
	for _, arch := range []string{"x86_64", "aarch64"} {
		packed, unpacked := gzipStreams(t, filepath.Join(r.out, "keelson_1.2.3-r0_"+arch+".apk"))
		if len(packed) != 2 {
			t.Fatalf("%s: got %d streams, want 2", arch, len(packed))
		}
		control := tar.NewReader(bytes.NewReader(unpacked[0]))
		h, err := control.Next()
		if err != nil || h.Name != ".PKGINFO" {
			t.Fatalf("%s: got %+v (%v), want .PKGINFO", arch, h, err)
		}
		text, err := io.ReadAll(control)
		if err != nil {
			t.Fatal(err)
		}
		for _, line := range []string{"pkgname = keelson", "pkgver = 1.2.3-r0", "arch = " + arch, "license = Apache-2.0", "pkgdesc = " + summary,
			fmt.Sprintf("datahash = %x", sha256.Sum256(packed[1]))} {
			if !strings.Contains("\n"+string(text), "\n"+line+"\n") {
				t.Errorf("%s: got no %q in\n%s", arch, line, text)
			}
		}
		files := untar(t, unpacked[1])
		for _, name := range []string{"usr/bin/keelson", "usr/share/man/man1/keelson.1", "usr/share/zsh/site-functions/_keelson", "usr/share/doc/keelson/licenses/a_LICENSE"} {
			if h := files[name]; h == nil || h.Uname != "root" || h.Uid != 0 || !h.ModTime.Equal(r.date) || len(h.PAXRecords["APK-TOOLS.checksum.SHA1"]) != 40 {
				t.Errorf("%s: %s: got %+v, want a file of root with a checksum and the time of the release", arch, name, h)
			}
		}
		if h := files["usr/bin/keelson"]; h != nil && h.Mode != 0o755 {
			t.Errorf("%s: got mode %o, want 755", arch, h.Mode)
		}
		for name := range files {
			if strings.Contains(name, "systemd") {
				t.Errorf("%s: got %s, want nothing of systemd", arch, name)
			}
		}
	}
}

// TestAPKVersions holds that pre-releases have a name that apk sorts before the release.
func TestAPKVersions(t *testing.T) {
	for _, row := range [][2]string{{"", ""}, {"rc.1", "rc1"}, {"rc1", "rc1"}, {"beta", "beta"}, {"dev", "alpha"}, {"rc.1.2", "alpha"}} {
		if got := apkPrerelease(row[0]); got != row[1] {
			t.Errorf("%q: got %q, want %q", row[0], got, row[1])
		}
	}
}

// TestSizes holds that archives and images above their limits are refused, and that such a release has no checksums.
func TestSizes(t *testing.T) {
	for _, row := range []struct {
		limits limits
		want   string
	}{
		{limits{archive: 100, image: 1e9}, "_linux_amd64.tar.gz: got 0.0 MB, want at most 0.0 MB"},
		{limits{archive: 1e9, image: 100}, "image for amd64: got 0."},
	} {
		r, binaries, docs := sources(t, "linux/amd64")
		r.limits = row.limits
		if err := r.pack(binaries, docs, nil); err == nil || !strings.Contains(err.Error(), row.want) {
			t.Errorf("%+v: got %v, want %q", row.limits, err, row.want)
		}
		if _, err := os.Stat(filepath.Join(r.out, "checksums.txt")); !os.IsNotExist(err) {
			t.Errorf("%+v: got checksums (%v), want none", row.limits, err)
		}
	}
}
