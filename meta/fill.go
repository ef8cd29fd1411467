package meta

import (
	"crypto/rand"
	"encoding/hex"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/keelson-io/keelson/doc"
	"github.com/keelson-io/keelson/status"
)

// This file sets the metadata that belongs to the server.

// NewUID is a random UUID (version 4).
func NewUID() string {
	var u [16]byte
	rand.Read(u[:]) // does not fail
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
	generatedAlphabet = "bcdfghjklmnpqrstvwxz2456789" // spells no words
	generatedSuffix   = 5
	maxGeneratedBase  = validation.DNS1123LabelMaxLength - generatedSuffix
)

// GenerateName is base, cut if it is long, with a random ending.
func GenerateName(base string) string {
	if len(base) > maxGeneratedBase {
		base = base[:maxGeneratedBase]
	}
	b := make([]byte, 0, len(base)+generatedSuffix)
	b = append(b, base...)
	for len(b) < len(base)+generatedSuffix {
		var r [2 * generatedSuffix]byte
		rand.Read(r[:]) // does not fail
		for _, c := range r {
			// Five bits of it; what is beyond the alphabet is drawn again.
			if i := int(c & 31); i < len(generatedAlphabet) && len(b) < len(base)+generatedSuffix {
				b = append(b, generatedAlphabet[i])
			}
		}
	}
	return string(b)
}

// EnsureNamespace gives the object the namespace of the request, "" for a
// cluster-scoped kind; a different one is refused.
func EnsureNamespace(o Object, namespace string) error {
	switch have := o.Namespace(); {
	case have == namespace:
	case have == "" || namespace == "":
		o.SetNamespace(namespace)
	default:
		return status.BadRequest("the namespace of the provided object does not match the namespace sent on the request")
	}
	return nil
}

// WipeCreate takes out of the metadata of a new object what only the server
// sets, but for the generation. It returns warnings for the client.
func WipeCreate(o Object) []string {
	for _, name := range []string{"uid", "creationTimestamp", "deletionTimestamp", "deletionGracePeriodSeconds", "selfLink"} {
		o.Doc.Remove("metadata", name)
	}
	return dedupOwners(o)
}

// FillCreate gives a new object its uid and creationTimestamp.
func FillCreate(o Object, now time.Time) {
	for _, name := range []string{"deletionTimestamp", "deletionGracePeriodSeconds", "selfLink"} {
		o.Doc.Remove("metadata", name)
	}
	o.SetCreationTimestamp(now)
	o.SetUID(NewUID())
}

// FillUpdate gives the new state of an object what an update cannot change in
// the old one, and the next generation if changed, which says that something
// beside metadata differs. An object without a generation gets none. A uid, a
// deletionTimestamp of a live object and a resourceVersion that the client
// gave stay: validation and the store compare them. It returns warnings for
// the client.
func FillUpdate(new, old Object, changed bool) []string {
	FillSent(new, old, changed)
	KeepDeletion(new, old)
	return dedupOwners(new)
}

// FillSent is the part of FillUpdate that comes before it is noted who set what: all but [KeepDeletion] and [DedupOwners].
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

// KeepDeletion gives the new state of an object what the old one says of its deletion.
func KeepDeletion(new, old Object) {
	keep(new, old, "deletionTimestamp", true)
	keep(new, old, "deletionGracePeriodSeconds", false)
}

// keep gives new what old has in a field of its metadata: always, or only where the client gave nothing.
func keep(new, old Object, name string, always bool) {
	v := old.Meta().Get(name)
	if v.Exists() && (always || !given(new.Meta().Get(name))) {
		new.Doc.Set(new.Doc.Import(v), "metadata", name)
	}
}

// given reports whether v is more than nothing.
func given(v doc.Value) bool {
	switch v.Kind() {
	case doc.Absent, doc.Null:
		return false
	case doc.String:
		return v.Text() != ""
	}
	return true
}

// dedupOwners removes owner references that are there twice, with a warning.
func dedupOwners(o Object) []string { return DedupOwners(o, "") }

// DedupOwners removes owner references that are there twice, and returns a
// warning if there were any; when says when that is, if not in what was sent.
func DedupOwners(o Object, when string) []string {
	refs := o.Meta().Get("ownerReferences")
	if refs.Kind() != doc.Array || refs.Len() < 2 {
		return nil
	}
	seen := make(map[string]bool, refs.Len())
	var kept []doc.Node
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

// Warnings is what the client should know about valid metadata: finalizers,
// new ones on an update, whose names may clash. old is the zero Object on
// create.
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

func hasFinalizer(o Object, name string) bool {
	for f := range o.Finalizers() {
		if f == name {
			return true
		}
	}
	return false
}
