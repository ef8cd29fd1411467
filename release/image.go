package main

import (
	"bytes"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"archive/tar"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
	"github.com/google/go-containerregistry/pkg/v1/types"
)

// This file makes the container image. It has nothing but the program, the public authorities, and
// two empty folders, and runs as an unprivileged user.

// user is the numeric user and group of the image.
const user = 65532

// image writes an OCI archive with an image for each architecture of Linux.
func (r *release) image(binaries map[target]string) error {
	index := mutate.IndexMediaType(empty.Index, types.OCIImageIndex)
	for _, t := range r.targets {
		if t.os != "linux" {
			continue
		}
		image, err := r.imageOf(t, binaries[t])
		if err != nil {
			return fmt.Errorf("image for %s: %w", t.arch, err)
		}
		size, err := imageSize(image)
		if err != nil {
			return fmt.Errorf("image for %s: %w", t.arch, err)
		}
		if err := checkSize("image for "+t.arch, size, r.limits.image); err != nil {
			return err
		}
		index = mutate.AppendManifests(index, mutate.IndexAddendum{Add: image, Descriptor: v1.Descriptor{Platform: &v1.Platform{OS: "linux", Architecture: t.arch}}})
	}
	dir, err := os.MkdirTemp("", "keelson-image")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	if _, err := layout.Write(dir, index); err != nil {
		return err
	}
	files, err := content("", filepath.Join(dir, "oci-layout"), dir)
	if err != nil {
		return err
	}
	for i := range files {
		files[i].mode = 0o644
	}
	files = slices.CompactFunc(files, func(a, b file) bool { return a.name == b.name })
	text, err := r.tar(files)
	if err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(r.out, "keelson_"+r.version+"_image.tar"), text, 0o644)
}

// imageSize returns the bytes that a machine downloads to run an image.
func imageSize(image v1.Image) (int64, error) {
	manifest, err := image.Manifest()
	if err != nil {
		return 0, err
	}
	size := manifest.Config.Size
	for _, l := range manifest.Layers {
		size += l.Size
	}
	return size, nil
}

// imageOf returns the image for an architecture.
func (r *release) imageOf(t target, binary string) (v1.Image, error) {
	text, err := r.layer(binary)
	if err != nil {
		return nil, err
	}
	layer, err := tarball.LayerFromOpener(func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(text)), nil },
		tarball.WithMediaType(types.OCILayer), tarball.WithCompressionLevel(9))
	if err != nil {
		return nil, err
	}
	image := mutate.ConfigMediaType(mutate.MediaType(empty.Image, types.OCIManifestSchema1), types.OCIConfigJSON)
	image, err = mutate.Append(image, mutate.Addendum{Layer: layer, History: v1.History{Created: v1.Time{Time: r.date}, CreatedBy: "keelson release " + r.version}})
	if err != nil {
		return nil, err
	}
	return mutate.ConfigFile(image, &v1.ConfigFile{
		Created: v1.Time{Time: r.date}, OS: t.os, Architecture: t.arch,
		Config: v1.Config{
			User: fmt.Sprintf("%d:%d", user, user), Entrypoint: []string{"/keelson"},
			Cmd:          []string{"serve", "--data-dir", "/data", "--bind-address", "0.0.0.0"},
			ExposedPorts: map[string]struct{}{"6443/tcp": {}}, Volumes: map[string]struct{}{"/data": {}},
			Labels: map[string]string{"org.opencontainers.image.version": r.version, "org.opencontainers.image.source": "https://github.com/keelson-io/keelson",
				"org.opencontainers.image.licenses": "Apache-2.0"},
		},
		RootFS:  mustFile(image).RootFS,
		History: mustFile(image).History,
	})
}

// mustFile returns the configuration of an image that is in memory.
func mustFile(image v1.Image) *v1.ConfigFile {
	c, err := image.ConfigFile()
	if err != nil {
		panic("BUG: an image in memory has no configuration: " + err.Error())
	}
	return c
}

// authorities are where systems keep the certificates of public authorities, for webhooks and
// issuers.
var authorities = []string{"/etc/ssl/certs/ca-certificates.crt", "/etc/pki/tls/certs/ca-bundle.crt"}

// layer returns the only layer of an image.
func (r *release) layer(binary string) ([]byte, error) {
	var certificates []byte
	for _, name := range authorities {
		if text, err := os.ReadFile(name); err == nil {
			certificates = text
			break
		}
	}
	if certificates == nil {
		return nil, fmt.Errorf("got no certificates of public authorities in %s, want a file", strings.Join(authorities, " or "))
	}
	text, err := os.ReadFile(binary)
	if err != nil {
		return nil, err
	}
	var b bytes.Buffer
	w := tar.NewWriter(&b)
	for _, f := range []struct {
		name  string
		text  []byte
		mode  int64
		owner int
	}{
		{"data/", nil, 0o700, user}, {"etc/", nil, 0o755, 0}, {"etc/ssl/", nil, 0o755, 0}, {"etc/ssl/certs/", nil, 0o755, 0},
		{"etc/ssl/certs/ca-certificates.crt", certificates, 0o644, 0}, {"keelson", text, 0o755, 0}, {"tmp/", nil, 0o1777, 0},
	} {
		h := &tar.Header{Name: f.name, Mode: f.mode, Uid: f.owner, Gid: f.owner, Size: int64(len(f.text)), ModTime: r.date, Format: tar.FormatPAX, Typeflag: tar.TypeReg}
		if strings.HasSuffix(f.name, "/") {
			h.Typeflag = tar.TypeDir
		}
		if err := w.WriteHeader(h); err != nil {
			return nil, err
		}
		if _, err := w.Write(f.text); err != nil {
			return nil, err
		}
	}
	err = w.Close()
	return b.Bytes(), err
}
