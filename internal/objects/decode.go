package objects

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	kschema "k8s.io/apimachinery/pkg/runtime/schema"
	serializer "k8s.io/apimachinery/pkg/runtime/serializer/json"

	"github.com/keelson-io/keelson/internal/meta"
	"github.com/keelson-io/keelson/internal/status"
	"github.com/keelson-io/keelson/internal/store"
	"github.com/keelson-io/keelson/internal/yamljson"
	"github.com/keelson-io/keelson/jsondoc"
	"github.com/keelson-io/keelson/schema"
)

// This file makes documents of the bodies of writes.

// maxSummary is how much of an unreadable body is quoted.
const maxSummary = 30

// Body is the text of an object that a client sent.
type Body struct {
	Sent       []byte // as the client sent it
	JSON       []byte
	Duplicates error // names fields that are there twice in YAML, which the JSON no longer shows; nil if there are none
	// Revision stands in for the resourceVersion of an update. If it is "", that of the text counts.
	Revision string
}

// YAMLBound returns the answer to a body whose conversion from YAML ended at a bound of the server
// or with its request. It returns nil for errors of the text.
func YAMLBound(err error) error {
	if limit := (*yamljson.LimitError)(nil); errors.As(err, &limit) {
		return status.TooLarge(limit.Error())
	}
	if errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded) {
		return StoreError(err)
	}
	return nil
}

// Unreadable returns the error for a body that cannot be read as a document.
func (r *Ref) Unreadable(sent []byte, err error) error {
	// This is the text of upstream's decoder for a body without kind and version.
	return status.BadRequest("the object provided is unrecognized (must be of type %s): %v (%s)", r.Version.Kind.Name, err, summary(sent))
}

// summary quotes the beginning of a body.
func summary(sent []byte) string {
	switch {
	case len(sent) == 0:
		return "<empty>"
	// JSON is quoted as text, everything else in hexadecimal, as upstream.
	case len(sent) <= maxSummary && sent[0] == '{':
		return string(sent)
	case sent[0] == '{':
		return string(sent[:maxSummary]) + " ..."
	case len(sent) <= maxSummary:
		return fmt.Sprintf("%x", sent)
	}
	return fmt.Sprintf("%x ...", sent[:maxSummary])
}

// Decode turns a body into a document. It refuses unknown and duplicate fields, or warns of them,
// depending on validation: Strict, Warn or Ignore.
func (r *Ref) Decode(d *jsondoc.Doc, b *Body, validation string) (warnings []string, err error) {
	// Decode prunes and sets defaults. found has what it dropped.
	found, err := r.Version.Decode(d, b.JSON)
	if err != nil {
		return nil, r.undecodable(b, err, validation)
	}
	obj := meta.Object{Doc: d}
	// The order of these checks is upstream's: a body with several mistakes gets the same error.
	if _, err := kschema.ParseGroupVersion(obj.APIVersion()); err != nil {
		return nil, r.Unreadable(b.Sent, err)
	}
	if obj.Kind() == "" {
		return nil, r.kindless(b, obj.APIVersion(), validation)
	}
	// An object of another kind is refused later on; its fields are not ours to know.
	wrong := r.strict(found, b, validation)
	sameFields := obj.APIVersion() == r.Version.APIVersion() || slices.Contains(r.Version.Kind.Behavior.BodyVersions, obj.APIVersion())
	if !sameFields || obj.Kind() != r.Version.Kind.Name {
		wrong = r.strictElsewhere(obj, b, wrong, validation)
	}
	strict := wrong.texts(validation)
	if len(strict) > 0 && validation == metav1.FieldValidationStrict {
		// The text names the type that upstream decodes into.
		kind := r.Version.Kind.Name
		if !r.behavior().DecodesIntoType() {
			if kind = obj.Kind(); versionOf(obj.APIVersion()) == "" {
				return nil, status.BadRequest("Object 'apiVersion' is missing in 'object has no apiVersion field'")
			}
		}
		return nil, status.BadRequest("%s in version %q cannot be handled as a %s: strict decoding error: %s",
			obj.Kind(), versionOf(obj.APIVersion()), kind, strings.Join(strict, ", "))
	}
	if !sameFields {
		return strict, status.BadRequest("the API version in the data (%s) does not match the expected API version (%s)",
			obj.APIVersion(), r.Version.APIVersion())
	}
	if obj.APIVersion() != r.Version.APIVersion() {
		obj.SetAPIVersion(r.Version.APIVersion())
	}
	return strict, nil
}

// mistakes are the fields of a body for which strict decoding refuses it.
type mistakes struct {
	yaml   error // duplicate keys of a YAML text; nil if there are none
	fields []jsondoc.StrictError
}

// texts returns the mistakes as parts of an error if validation is Strict, and as warnings otherwise.
func (m *mistakes) texts(validation string) []string {
	var out []string
	switch {
	case m.yaml == nil:
	case validation == metav1.FieldValidationStrict:
		out = append(out, m.yaml.Error())
	default:
		out = yamljson.Messages(m.yaml)
	}
	return append(out, jsondoc.StrictTexts(m.fields)...)
}

// strict returns the mistakes in a body that is decoded nevertheless.
func (r *Ref) strict(found schema.Found, b *Body, validation string) mistakes {
	if validation == metav1.FieldValidationIgnore {
		return mistakes{}
	}
	m := mistakes{yaml: b.Duplicates}
	if found != 0 {
		m.fields = r.Version.Strict(b.JSON)
	}
	return m
}

// strictElsewhere returns the mistakes in an object of another kind or version, of which m are those
// for r's version. Metadata is checked as in any object. The other fields are those of the object's
// version, if the kind has it.
func (r *Ref) strictElsewhere(obj meta.Object, b *Body, m mistakes, validation string) mistakes {
	group, version, ok := strings.Cut(obj.APIVersion(), "/")
	k := r.Version.Kind
	// The schema of the other version may declare fields that this version's does not.
	m.fields = ofMetadataOnly(m.fields)
	if !ok || group != k.Group || obj.Kind() != k.Name || version == r.Version.Name {
		return m
	}
	switch v := k.Version(version); {
	// The client does not want to know of unknown fields.
	case validation == metav1.FieldValidationIgnore:
		return mistakes{}
	case v != nil:
		return mistakes{fields: v.Strict(b.JSON)}
	}
	m.fields = append(m.fields, undeclared(b.JSON)...)
	return m
}

// ofMetadataOnly leaves out the unknown fields outside metadata.
func ofMetadataOnly(list []jsondoc.StrictError) []jsondoc.StrictError {
	return slices.DeleteFunc(list, func(e jsondoc.StrictError) bool {
		return e.Kind == jsondoc.UnknownField && !strings.HasPrefix(e.Path, "metadata.")
	})
}

// undeclared returns the fields of an object in a version that nobody declares.
func undeclared(text []byte) []jsondoc.StrictError {
	d := jsondoc.Get()
	defer d.Release()
	if jsondoc.Parse(d, text) != nil {
		return nil // another function reports it
	}
	var out []jsondoc.StrictError
	for name := range d.Root().Members() {
		switch name {
		case "apiVersion", "kind", "metadata":
		default:
			out = append(out, jsondoc.StrictError{Kind: jsondoc.UnknownField, Path: name})
		}
	}
	slices.SortFunc(out, func(a, b jsondoc.StrictError) int { return strings.Compare(a.Error(), b.Error()) })
	return out
}

// undecodable returns the error for a body that does not decode: text that is no
// JSON, or metadata of a wrong type.
func (r *Ref) undecodable(b *Body, err error, validation string) error {
	if errors.Is(err, schema.ErrManyDefaults) {
		return StoreError(store.ErrTooLarge)
	}
	if _, bad := serializer.DefaultMetaFactory.Interpret(b.JSON); bad != nil {
		return r.Unreadable(b.Sent, bad)
	}
	var syntax *jsondoc.SyntaxError
	if errors.As(err, &syntax) {
		return r.Unreadable(b.Sent, fmt.Errorf("couldn't get version/kind; json parse error: %w", err))
	}
	// The error has the kind and the version in the body, as far as they can be read.
	name, version := r.Version.Kind.Name, r.Version.Name
	d := jsondoc.Get()
	defer d.Release()
	if jsondoc.Parse(d, b.JSON) == nil {
		// The word null is an object without a kind.
		if d.Root().Kind() == jsondoc.Null {
			return r.kindless(b, "", validation)
		}
		if k := d.Root().Get("kind").Text(); k != "" {
			name = k
		} else if !r.behavior().DecodesIntoType() { // of what kind it is, is asked first
			return r.kindless(b, d.Root().Get("apiVersion").Text(), validation)
		}
		if said := d.Root().Get("apiVersion").Text(); said != "" || !r.behavior().DecodesIntoType() {
			version = versionOf(said)
		}
	}
	return status.BadRequest("%s in version %q cannot be handled as a %s: %v", name, version, r.Version.Kind.Name, err)
}

// kindless returns the error for an object without a kind. As in upstream, its text depends on the
// validation of fields.
func (r *Ref) kindless(b *Body, apiVersion, validation string) error {
	if validation != metav1.FieldValidationIgnore {
		return r.Unreadable(b.Sent, runtime.NewMissingKindErr(string(b.Sent)))
	}
	// Without validation of fields, upstream assumes that the body is an object of this kind.
	version := r.Version.Name
	if apiVersion != "" {
		version = versionOf(apiVersion)
	}
	return status.BadRequest("%s in version %q cannot be handled as a %s: %w", r.Version.Kind.Name, version, r.Version.Kind.Name,
		runtime.NewMissingKindErr(string(b.JSON)))
}

// versionOf returns the version in an apiVersion.
func versionOf(apiVersion string) string {
	return apiVersion[strings.LastIndexByte(apiVersion, '/')+1:]
}

// keepReset gives d the empty managedFields that it was sent with as text. They make the server
// forget all managers. Decode leaves them out, as upstream does for objects without a Go type, which
// cannot forget them in this way.
func (r *Ref) keepReset(d *jsondoc.Doc, text []byte) {
	if !r.behavior().HasGoType() || d.Root().At("metadata", "managedFields").Exists() || !bytes.Contains(text, []byte(`"managedFields"`)) {
		return
	}
	sent := jsondoc.Get()
	defer sent.Release()
	if jsondoc.Parse(sent, text) != nil {
		return
	}
	if v := sent.Root().At("metadata", "managedFields"); v.Kind() == jsondoc.Array && v.Len() == 0 {
		d.Set(d.Import(v), "metadata", "managedFields")
	}
}
