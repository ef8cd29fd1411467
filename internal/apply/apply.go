// Package apply keeps track of who owns which field of an object: it sets
// metadata.managedFields on every write and merges server-side apply patches.
//
// # Model
//
// Each entry of metadata.managedFields names a manager, an operation (Apply or
// Update), a version and a set of field paths, written as the trie that the
// API calls FieldsV1. The set algebra, merging and pruning are those of
// structured-merge-diff ("SMD"), which reads our documents through an
// implementation of its value interface over package jsondoc: no object is turned
// into Go maps to be read. A [Manager] does this for one version of one kind.
//
// # Terms
//
//   - Live is the object as it is stored, new the object that will replace it.
//   - An identifier is the text that tells managers apart: name, operation,
//     subresource and, for updates, version.
//   - A type is what SMD needs to know of a schema node: how its items are told
//     apart (atomic, set, map) and which members it may have.
//   - Reset fields are those that an endpoint takes from the live object
//     whatever the client sends, so nobody comes to own them by writing there:
//     status on the object, metadata and spec on the status subresource.
//
// # Use
//
// [New] makes a Manager; [Manager.Update] follows every create, update and
// patch; [Manager.Apply] merges an apply patch; [Manager.UpdateScale] follows a
// write through the scale subresource; [IgnoreTimestamps] makes a write that
// changes nothing but times a write that changes nothing.
//
// # Invariants
//
//   - A Manager is immutable and safe for concurrent use.
//   - Update never fails a write: an object that cannot be tracked keeps the
//     managedFields it had.
//   - The direct walks of this package give the sets that SMD gives, or step
//     back and let SMD do it.
package apply

import (
	"fmt"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/structured-merge-diff/v6/fieldpath"

	"github.com/keelson-io/keelson/jsondoc"
	"github.com/keelson-io/keelson/schema/structural"
)

// This file defines Manager and how one is made.

// Version is what a Manager needs to know of one version of a kind.
type Version struct {
	Name string
	// Schema is the version's schema, nil if it has none that is structural:
	// then anything goes and maps merge member by member.
	Schema *structural.Schema
	// Status is set if the status subresource is enabled.
	Status bool
	// Replicas is the path of the scale subresource's replicas, such as
	// ".spec.replicas"; empty without a scale subresource.
	Replicas string
	// Reset names the reset fields by subresource, "" being the object itself:
	// members of the root, or of one of those, after a dot.
	// Nil means those of custom resources.
	Reset map[string][]string
}

// Config describes the kind and the version that a Manager is for.
type Config struct {
	Group, Kind string
	Version     string    // the version that requests use
	Versions    []Version // all versions of the kind, served or not
	// Convert turns an object, as JSON, into the version of that name, for
	// entries that were written in it; nil: only apiVersion differs.
	Convert func(object []byte, version string) ([]byte, error)
	// PreserveUnknown is set if the kind keeps members that its schema does not declare
	// (spec.preserveUnknownFields).
	PreserveUnknown bool
	// DropLostVersions: managed fields of versions that the kind does not have are dropped, as for
	// built-in kinds. Otherwise an apply fails, and other writes keep the managed fields as they are.
	DropLostVersions bool
	// Empty is an object without content, as JSON, of a kind whose objects always have some members: who creates an object does not
	// own those that are as they are there. Nil: there are none.
	Empty []byte
}

// Manager keeps managedFields for one version of a kind.
type Manager struct {
	gvk      schema.GroupVersionKind
	version  fieldpath.APIVersion
	types    map[fieldpath.APIVersion]*objectType
	own      *objectType
	ignore   map[string]map[fieldpath.APIVersion]fieldpath.Filter // by subresource
	reset    map[string][]string                                  // of the own version
	replicas map[string]fieldpath.Path                            // by apiVersion
	convert  func(object []byte, version string) ([]byte, error)
	empty    *jsondoc.Doc // nil: nothing
	dropLost bool
}

// Options has the writer of a write and the endpoint it writes to.
type Options struct {
	Manager     string    // see ManagerName
	Subresource string    // "" or "status"
	Time        time.Time // zero means now
	Force       bool      // change fields that others own; apply only
	KnownValid  bool      // the live object fits its schema: parts that stay are not checked again
}

// now returns the time of the write, in UTC.
func (o *Options) now() time.Time {
	if o.Time.IsZero() {
		return time.Now().UTC()
	}
	return o.Time.UTC()
}

// New returns the Manager of c.Version.
func New(c Config) (*Manager, error) {
	gv := schema.GroupVersion{Group: c.Group, Version: c.Version}
	m := &Manager{
		gvk:      gv.WithKind(c.Kind),
		version:  fieldpath.APIVersion(gv.String()),
		types:    make(map[fieldpath.APIVersion]*objectType, len(c.Versions)),
		replicas: make(map[string]fieldpath.Path, len(c.Versions)),
		ignore:   make(map[string]map[fieldpath.APIVersion]fieldpath.Filter, 2),
		convert:  c.Convert,
		dropLost: c.DropLostVersions,
	}
	for i := range c.Versions {
		v := &c.Versions[i]
		name := schema.GroupVersion{Group: c.Group, Version: v.Name}.String()
		t := newObjectType(v.Schema, c.PreserveUnknown)
		m.types[fieldpath.APIVersion(name)] = t
		m.replicas[name] = replicasPath(v.Replicas)
		m.addReset(v, fieldpath.APIVersion(name))
		if v.Name == c.Version {
			m.own = t
			m.reset = v.resets()
		}
	}
	if c.Empty != nil {
		m.empty = new(jsondoc.Doc)
		if err := jsondoc.Parse(m.empty, c.Empty); err != nil {
			return nil, fmt.Errorf("empty %s: %w", c.Kind, err)
		}
	}
	if m.own == nil {
		return nil, fmt.Errorf("version %q of %s.%s is not among the versions of the kind", c.Version, c.Kind, c.Group)
	}
	return m, nil
}

// resets returns the reset fields by subresource.
func (v *Version) resets() map[string][]string {
	if v.Reset != nil {
		return v.Reset
	}
	if !v.Status {
		return nil
	}
	return map[string][]string{"": {"status"}, "status": {"metadata", "spec"}}
}

// addReset registers the reset fields of v. Those of an object's own endpoint
// hold for the version that the endpoint serves only: another version's entries
// are compared unfiltered there, those of status for all versions.
func (m *Manager) addReset(v *Version, name fieldpath.APIVersion) {
	for subresource, fields := range v.resets() {
		if subresource == "" && name != m.version {
			continue
		}
		set := fieldpath.NewSet()
		for _, f := range fields {
			var path []any
			for name := range strings.SplitSeq(f, ".") {
				path = append(path, name)
			}
			set.Insert(fieldpath.MakePathOrDie(path...))
		}
		if m.ignore[subresource] == nil {
			m.ignore[subresource] = make(map[fieldpath.APIVersion]fieldpath.Filter)
		}
		m.ignore[subresource][name] = fieldpath.NewExcludeSetFilter(set)
	}
}

// maxName is the longest name of a manager in bytes.
const maxName = 128

// ManagerName returns the name that a request's writes are kept under: the
// fieldManager parameter or else the user agent up to the first slash.
func ManagerName(fieldManager, userAgent string) string {
	if fieldManager != "" {
		return fieldManager
	}
	name := make([]byte, 0, 32)
	for _, r := range userAgent {
		if r == '/' || len(name)+utf8.RuneLen(r) > maxName {
			break
		}
		if unicode.IsPrint(r) {
			name = utf8.AppendRune(name, r)
		}
	}
	return string(name)
}
