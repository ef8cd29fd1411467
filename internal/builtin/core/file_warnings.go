package core

import (
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/keelson-io/keelson/internal/builtin/describe"
)

// This file warns of files of a volume that overwrite each other.

// mappedFile is a file of a volume, and the part of the volume that it comes from ("": the whole
// volume).
type mappedFile struct{ path, from string }

// String returns the file as warnings print it.
func (f mappedFile) String() string {
	if f.from == "" {
		return fmt.Sprintf("%q", f.path)
	}
	return fmt.Sprintf("%q (%s)", f.path, f.from)
}

// overlaps reports whether two files exclude each other: they are the same, or one of them is a
// directory in the path of the other.
func (f mappedFile) overlaps(other mappedFile) bool {
	return f.path != "" && other.path != "" && (strings.HasPrefix(other.path+"/", f.path+"/") || strings.HasPrefix(f.path+"/", other.path+"/"))
}

// mapped has the files of a volume that were found so far.
type mapped struct {
	*podWarner
	name, what string
	files      []mappedFile
}

// add adds the files of a source, and warns of those that overlap with files before them.
func (m *mapped) add(from string, paths ...string) {
	for _, path := range paths {
		f := mappedFile{strings.TrimRight(path, "/"), from}
		for _, other := range m.files {
			if m.Full() {
				return
			}
			if f.overlaps(other) {
				m.Add(fmt.Sprintf("volume %q (%s): overlapping paths: %s with %s", m.name, m.what, f, other))
			}
		}
		m.files = append(m.files, f)
	}
}

// keyPaths returns the paths of items.
func keyPaths(items []corev1.KeyToPath) []string {
	var out []string
	for _, item := range items {
		out = append(out, item.Path)
	}
	return out
}

// downwardPaths returns the paths of items.
func downwardPaths(items []corev1.DownwardAPIVolumeFile) []string {
	var out []string
	for _, item := range items {
		out = append(out, item.Path)
	}
	return out
}

// overlappingFiles warns of files of a volume that overlap.
func (w *podWarner) overlappingFiles(v *corev1.Volume) {
	in := func(what string) *mapped { return &mapped{podWarner: w, name: v.Name, what: what} }
	switch {
	case v.ConfigMap != nil:
		in(fmt.Sprintf("ConfigMap %q", v.ConfigMap.Name)).add("", keyPaths(v.ConfigMap.Items)...)
	case v.Secret != nil:
		in(fmt.Sprintf("Secret %q", v.Secret.SecretName)).add("", keyPaths(v.Secret.Items)...)
	case v.DownwardAPI != nil:
		in("DownwardAPI").add("", downwardPaths(v.DownwardAPI.Items)...)
	case v.Projected != nil:
		all := in("Projected")
		for i := range v.Projected.Sources {
			all.project(&v.Projected.Sources[i])
		}
	}
}

// project adds the files of a source.
func (m *mapped) project(s *corev1.VolumeProjection) {
	switch {
	case *s == corev1.VolumeProjection{}:
		m.Add(fmt.Sprintf("volume %q (Projected) has no sources provided", m.name))
	case s.ConfigMap != nil:
		m.add(fmt.Sprintf("ConfigMap %q", s.ConfigMap.Name), keyPaths(s.ConfigMap.Items)...)
	case s.Secret != nil:
		m.add(fmt.Sprintf("Secret %q", s.Secret.Name), keyPaths(s.Secret.Items)...)
	case s.DownwardAPI != nil:
		m.add("DownwardAPI", downwardPaths(s.DownwardAPI.Items)...)
	case s.ServiceAccountToken != nil:
		m.add("ServiceAccountToken", s.ServiceAccountToken.Path)
	case s.ClusterTrustBundle != nil:
		name := s.ClusterTrustBundle.Name
		if name == nil {
			name = s.ClusterTrustBundle.SignerName
		}
		m.add(fmt.Sprintf("ClusterTrustBundle %q", describe.OrNothing(name)), s.ClusterTrustBundle.Path)
	case s.PodCertificate != nil:
		for _, file := range []struct{ what, path string }{
			{"chain", s.PodCertificate.CertificateChainPath}, {"key", s.PodCertificate.KeyPath}, {"credential bundle", s.PodCertificate.CredentialBundlePath},
		} {
			if file.path != "" {
				m.add("PodCertificate "+file.what, file.path)
			}
		}
	}
}
