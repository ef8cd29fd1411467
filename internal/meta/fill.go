package meta

import (
	"crypto/rand"
	"encoding/hex"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/keelson-io/keelson/jsondoc"
)

// This file sets the metadata that belongs to the server.

// NewUID returns a random UUID (version 4).
func NewUID() string {
	var u [16]byte
	rand.Read(u[:]) // never fails
	u[6] = u[6]&0x0F | 0x40
	u[8] = u[8]&0x3F | 0x80
	var b [36]byte
	hex.Encode(b[:], u[:4])
	b[8] = '-'
	hex.Encode(b[9:], u[4:6])
	b[13] = '-'
	hex.Encode(b[14:], u[6:8])
	b[18] = '-'
	hex.Encode(b[19:], u[8:10])
	b[23] = '-'
	hex.Encode(b[24:], u[10:])
	return string(b[:])
}

const (
	generatedAlphabet = "bcdfghjklmnpqrstvwxz2456789" // without vowels, so that no words appear
	generatedSuffix   = 5
	maxGeneratedBase  = validation.DNS1123LabelMaxLength - generatedSuffix
)

// GenerateName returns base, shortened if necessary, with a random suffix.
func GenerateName(base string) string {
	if len(base) > maxGeneratedBase {
		base = base[:maxGeneratedBase]
	}
	b := make([]byte, 0, len(base)+generatedSuffix)
	b = append(b, base...)
	for len(b) < len(base)+generatedSuffix {
		var r [2 * generatedSuffix]byte
		rand.Read(r[:]) // never fails
		for _, c := range r {
			// Each byte gives five bits. Values beyond the alphabet are discarded, so that all
			// characters are equally likely.
			if i := int(c & 31); i < len(generatedAlphabet) && len(b) < len(base)+generatedSuffix {
				b = append(b, generatedAlphabet[i])
			}
		}
	}
	return string(b)
}

// WipeCreate removes the metadata that only the server sets from a new object, except for the
// generation. It returns warnings for the client.
func WipeCreate(o Object) []string {
	for _, name := range []string{"uid", "creationTimestamp", "deletionTimestamp", "deletionGracePeriodSeconds", "selfLink"} {
		o.Doc.Remove("metadata", name)
	}
	return dedupOwners(o)
}

// FillCreate sets uid and creationTimestamp of a new object.
func FillCreate(o Object, now time.Time) {
	for _, name := range []string{"deletionTimestamp", "deletionGracePeriodSeconds", "selfLink"} {
		o.Doc.Remove("metadata", name)
	}
	o.SetCreationTimestamp(now)
	o.SetUID(NewUID())
}

// FillUpdate copies the metadata that an update cannot change from old to new. If changed, a field
// outside of metadata differs, and the generation is incremented; an object without a generation
// gets none. It keeps the uid, the deletionTimestamp of an object that is not being deleted, and
// the resourceVersion if the client sent them, because validation and the store compare them. It
// returns warnings for the client.
func FillUpdate(new, old Object, changed bool) []string {
	FillSent(new, old, changed)
	KeepDeletion(new, old)
	return dedupOwners(new)
}

// FillSent does the first part of FillUpdate, which precedes the computation of managed fields: all
// but [KeepDeletion] and [DedupOwners].
func FillSent(new, old Object, changed bool) {
	n, was := new.Doc, old.Meta()
	n.Remove("metadata", "selfLink")
	switch generation := was.Get("generation"); {
	case !generation.Exists():
		n.Remove("metadata", "generation")
	case changed:
		new.SetGeneration(generation.Int() + 1)
	default:
		n.Set(n.Import(generation), "metadata", "generation")
	}
	keep(new, old, "uid", false)
	keep(new, old, "resourceVersion", false)
	keep(new, old, "creationTimestamp", true)
}

// KeepDeletion copies the deletion fields of old to new.
func KeepDeletion(new, old Object) {
	keep(new, old, "deletionTimestamp", true)
	keep(new, old, "deletionGracePeriodSeconds", false)
}

// keep copies a metadata field from old to new: always, or only if new lacks it.
func keep(new, old Object, name string, always bool) {
	v := old.Meta().Get(name)
	if v.Exists() && (always || !given(new.Meta().Get(name))) {
		new.Doc.Set(new.Doc.Import(v), "metadata", name)
	}
}

// given reports whether v is present and not empty.
func given(v jsondoc.Value) bool {
	switch v.Kind() {
	case jsondoc.Absent, jsondoc.Null:
		return false
	case jsondoc.String:
		return v.Text() != ""
	}
	return true
}

// dedupOwners removes duplicate owner references, and returns a warning if there were any.
func dedupOwners(o Object) []string { return DedupOwners(o, "") }

// DedupOwners removes duplicate owner references, and returns a warning if there were any. when is
// a phrase for the warning that says in which step they appeared, "" for the request.
func DedupOwners(o Object, when string) []string {
	refs := o.Meta().Get("ownerReferences")
	if refs.Kind() != jsondoc.Array || refs.Len() < 2 {
		return nil
	}
	seen := make(map[string]bool, refs.Len())
	var kept []jsondoc.Node
	var duplicates []string
	var key []byte
	for _, ref := range refs.Items() {
		key = ref.AppendJSON(key[:0])
		if seen[string(key)] {
			duplicates = append(duplicates, ref.Get("uid").Text())
			continue
		}
		seen[string(key)] = true
		kept = append(kept, ref.Node)
	}
	if duplicates == nil {
		return nil
	}
	warning := ".metadata.ownerReferences contains duplicate entries" + when + "; API server dedups owner references in 1.20+, and may reject such requests as early as 1.24; please fix your requests; duplicate UID(s) observed: " + strings.Join(duplicates, ", ")
	o.Doc.Set(o.Doc.NewArray(kept), "metadata", "ownerReferences")
	return []string{warning}
}

// Warnings returns warnings about valid metadata: finalizer names that may collide. On an update,
// only new finalizers count. On a create, old is the zero Object.
func Warnings(new, old Object) []string {
	var added []string
	for f := range new.Finalizers() {
		if old.Doc == nil || !hasFinalizer(old, f) {
			added = append(added, f)
		}
	}
	if added == nil {
		return nil
	}
	slices.Sort(added)
	var warnings []string
	for _, f := range slices.Compact(added) {
		warnings = append(warnings, finalizerWarnings(f)...)
	}
	return warnings
}

// hasFinalizer reports whether an object has a finalizer.
func hasFinalizer(o Object, name string) bool {
	for f := range o.Finalizers() {
		if f == name {
			return true
		}
	}
	return false
}
