package objects

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	kschema "k8s.io/apimachinery/pkg/runtime/schema"
	serializer "k8s.io/apimachinery/pkg/runtime/serializer/json"

	"github.com/keelson-io/keelson/internal/yamljson"
	"github.com/keelson-io/keelson/jsondoc"
	"github.com/keelson-io/keelson/meta"
	"github.com/keelson-io/keelson/schema"
	"github.com/keelson-io/keelson/status"
	"github.com/keelson-io/keelson/store"
)

// This file makes documents of the bodies of writes.

// maxSummary is how much of an unreadable body is quoted.
const maxSummary = 30

// Body is the text of an object that a client sent.
type Body struct {
	Sent       []byte // as the client sent it
	JSON       []byte
	Duplicates error // names fields that are there twice in YAML, which the JSON no longer shows; nil if there are none
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
	strict := r.strict(found, b, validation)
	sameFields := obj.APIVersion() == r.Version.APIVersion() || slices.Contains(r.Version.Kind.Behavior.BodyVersions, obj.APIVersion())
	if !sameFields || obj.Kind() != r.Version.Kind.Name {
		strict = r.strictElsewhere(obj, b, strict, validation)
	}
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

// strictElsewhere is strict for an object of another kind or version: its metadata is checked like any, its other fields are those of a
// version of the kind's group, or nobody's.
func (r *Ref) strictElsewhere(obj meta.Object, b *Body, strict []string, validation string) []string {
	group, version, ok := strings.Cut(obj.APIVersion(), "/")
	k := r.Version.Kind
	// The schema of the other version may declare fields that this version's does not.
	strict = ofMetadataOnly(strict)
	if !ok || group != k.Group || obj.Kind() != k.Name || version == r.Version.Name {
		return strict
	}
	switch v := k.Version(version); {
	// The client does not want to know of unknown fields.
	case validation == metav1.FieldValidationIgnore:
		return nil
	case v != nil:
		return v.Strict(b.JSON)
	}
	return append(strict, undeclared(b.JSON)...)
}

// ofMetadataOnly leaves out the errors for unknown fields outside metadata.
func ofMetadataOnly(strict []string) []string {
	return slices.DeleteFunc(strict, func(text string) bool {
		return strings.HasPrefix(text, "unknown field") && !strings.HasPrefix(text, `unknown field "metadata.`)
	})
}

// undeclared returns the fields of an object in a version that nobody declares.
func undeclared(text []byte) []string {
	d := jsondoc.Get()
	defer d.Release()
	if jsondoc.Parse(d, text) != nil {
		return nil // another function reports it
	}
	var out []string
	for name := range d.Root().Members() {
		switch name {
		case "apiVersion", "kind", "metadata":
		default:
			out = append(out, "unknown field "+strconv.Quote(name))
		}
	}
	slices.Sort(out)
	return out
}

// strict returns the mistakes in a body that is decoded nevertheless.
func (r *Ref) strict(found schema.Found, b *Body, validation string) []string {
	if found == 0 && b.Duplicates == nil || validation == metav1.FieldValidationIgnore {
		return nil
	}
	var out []string
	if b.Duplicates != nil {
		if validation == metav1.FieldValidationStrict {
			out = append(out, b.Duplicates.Error())
		} else {
			out = append(out, yamlWarnings(b.Duplicates)...)
		}
	}
	if found != 0 {
		out = append(out, r.Version.Strict(b.JSON)...)
	}
	return out
}

// yamlWarnings splits a YAML error into its lines.
func yamlWarnings(err error) []string {
	text := err.Error()
	for _, prefix := range []string{"error converting YAML to JSON: yaml: unmarshal errors:\n", "yaml: unmarshal errors:\n"} {
		if rest, ok := strings.CutPrefix(text, prefix); ok {
			lines := strings.Split(rest, "\n")
			for i := range lines {
				lines[i] = strings.TrimSpace(lines[i])
			}
			return lines
		}
	}
	return []string{text}
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
