package api

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	kschema "k8s.io/apimachinery/pkg/runtime/schema"
	serializer "k8s.io/apimachinery/pkg/runtime/serializer/json"
	"sigs.k8s.io/yaml"

	"github.com/keelson-io/keelson/doc"
	"github.com/keelson-io/keelson/meta"
	"github.com/keelson-io/keelson/schema"
	"github.com/keelson-io/keelson/status"
)

// This file reads the bodies of writes.

// maxBody is the largest body that is read.
const maxBody = 3 << 20

// maxSummary is how much of an unreadable body is quoted.
const maxSummary = 30

// readBody reads the body; the bytes are the caller's.
func (q *request) readBody() ([]byte, error) {
	size := q.r.ContentLength
	if size > maxBody {
		return nil, tooLarge()
	}
	if size >= 0 {
		body := make([]byte, size)
		if _, err := io.ReadFull(q.r.Body, body); err != nil {
			return nil, status.Plain500(err.Error())
		}
		return body, nil
	}
	body, err := io.ReadAll(io.LimitReader(q.r.Body, maxBody+1))
	if err != nil {
		return nil, status.Plain500(err.Error())
	}
	if len(body) > maxBody {
		return nil, tooLarge()
	}
	return body, nil
}

func tooLarge() error { return status.TooLarge(fmt.Sprintf("limit is %d", maxBody)) }

// object is a request's body that is to become an object.
type object struct {
	sent       []byte // as the client sent it
	json       []byte
	duplicates error // fields that are there twice in YAML, which the JSON no longer shows
}

// wholeObject reads what a request writes as a whole: the form of its answer, its
// object, and its options, in upstream's order of complaints.
func (q *request) wholeObject(options func(url.Values) (*meta.WriteOptions, error)) (body *object, o *meta.WriteOptions, err error) {
	if q.accept, err = q.negotiate(); err != nil {
		return nil, nil, err
	}
	media := q.objectMedia()
	if media == "" && q.r.Method == http.MethodPost && contentType(q.r) != typeProtobuf {
		return nil, nil, unknownMedia()
	}
	sent, err := q.readBody()
	if err != nil {
		return nil, nil, err
	}
	if o, err = options(q.query); err != nil {
		return nil, nil, err
	}
	if media == "" {
		return nil, nil, unknownMedia()
	}
	body, err = q.readObject(sent, media)
	return body, o, err
}

// objectMedia is what the body is said to be, "" if that is nothing that objects come in.
func (q *request) objectMedia() string {
	media := contentType(q.r)
	if media == typeJSON || media == typeYAML || media == typeProtobuf && q.takesProtobuf() {
		return media
	}
	return ""
}

func unknownMedia() error { return unsupported(typeJSON, typeYAML, typeProtobuf) }

// readObject reads a body that is an object, in JSON or else.
func (q *request) readObject(sent []byte, media string) (*object, error) {
	o := &object{sent: sent, json: sent}
	var err error
	switch media {
	case typeYAML:
		if o.json, err = yaml.YAMLToJSON(sent); err != nil {
			return nil, q.unreadable(sent, err)
		}
		if _, err := yaml.YAMLToJSONStrict(sent); err != nil {
			o.duplicates = err
		}
	case typeProtobuf:
		if o.json, err = q.fromProtobuf(sent); err != nil {
			return nil, q.unreadable(sent, err)
		}
	}
	return o, nil
}

// unreadable is the error for a body that is no document at all.
func (q *request) unreadable(sent []byte, err error) error {
	return status.BadRequest("the object provided is unrecognized (must be of type %s): %v (%s)", q.v.Kind.Name, err, summary(sent))
}

// summary quotes the beginning of a body.
func summary(sent []byte) string {
	switch {
	case len(sent) == 0:
		return "<empty>"
	case len(sent) <= maxSummary && sent[0] == '{':
		return string(sent)
	case sent[0] == '{':
		return string(sent[:maxSummary]) + " ..."
	case len(sent) <= maxSummary:
		return fmt.Sprintf("%x", sent)
	}
	return fmt.Sprintf("%x ...", sent[:maxSummary])
}

// decode turns a body into a doc and answers for its unknown and duplicate
// fields as the request asks to.
func (q *request) decode(d *doc.Doc, o *object, validation string) error {
	found, err := q.v.Decode(d, o.json)
	if err != nil {
		return q.undecodable(o, err, validation)
	}
	obj := meta.Object{Doc: d}
	if _, err := kschema.ParseGroupVersion(obj.APIVersion()); err != nil {
		return q.unreadable(o.sent, err)
	}
	if obj.Kind() == "" {
		return q.kindless(o, obj.APIVersion(), validation)
	}
	// An object of another kind is refused later on; its fields are not ours to know.
	strict := q.strict(found, o, validation)
	if obj.APIVersion() != q.v.APIVersion() || obj.Kind() != q.v.Kind.Name {
		strict = q.strictElsewhere(obj, o, strict, validation)
	}
	if len(strict) > 0 {
		if validation == metav1.FieldValidationStrict {
			kind := q.v.Kind.Name
			if q.kind.Builtin == nil { // who has no type is taken for what it says it is
				if kind = obj.Kind(); versionOf(obj.APIVersion()) == "" {
					return status.BadRequest("Object 'apiVersion' is missing in 'object has no apiVersion field'")
				}
			}
			return status.BadRequest("%s in version %q cannot be handled as a %s: strict decoding error: %s",
				obj.Kind(), versionOf(obj.APIVersion()), kind, strings.Join(strict, ", "))
		}
		q.warn(strict...)
	}
	if obj.APIVersion() != q.v.APIVersion() {
		return status.BadRequest("the API version in the data (%s) does not match the expected API version (%s)",
			obj.APIVersion(), q.v.APIVersion())
	}
	return nil
}

// strictElsewhere is strict for an object of another kind or version: its metadata is checked like any, its other fields are those of a
// version of the kind's group, or nobody's.
func (q *request) strictElsewhere(obj meta.Object, o *object, strict []string, validation string) []string {
	group, version, ok := strings.Cut(obj.APIVersion(), "/")
	k := q.v.Kind
	strict = ofMetadataOnly(strict)
	if !ok || group != k.Group || obj.Kind() != k.Name || version == q.v.Name {
		return strict
	}
	switch v := k.Version(version); {
	case validation == metav1.FieldValidationIgnore:
		return nil
	case v != nil:
		return v.Strict(o.json)
	}
	return append(strict, undeclared(o.json)...)
}

// ofMetadataOnly leaves out what strict says of unknown fields outside metadata.
func ofMetadataOnly(strict []string) []string {
	return slices.DeleteFunc(strict, func(text string) bool {
		return strings.HasPrefix(text, "unknown field") && !strings.HasPrefix(text, `unknown field "metadata.`)
	})
}

// undeclared are the fields of an object in a version that nobody declares.
func undeclared(text []byte) []string {
	d := doc.Get()
	defer d.Release()
	if doc.Parse(d, text) != nil {
		return nil // said elsewhere
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

// strict says what is wrong with a body that is decoded nevertheless.
func (q *request) strict(found schema.Found, o *object, validation string) []string {
	if found == 0 && o.duplicates == nil || validation == metav1.FieldValidationIgnore {
		return nil
	}
	var out []string
	if o.duplicates != nil {
		if validation == metav1.FieldValidationStrict {
			out = append(out, o.duplicates.Error())
		} else {
			out = append(out, yamlWarnings(o.duplicates)...)
		}
	}
	if found != 0 {
		out = append(out, q.v.Strict(o.json)...)
	}
	return out
}

// yamlWarnings takes the lines of a YAML error apart.
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

// undecodable is the error for a body that does not decode: text that is no
// JSON, or metadata of a wrong type.
func (q *request) undecodable(o *object, err error, validation string) error {
	if _, bad := serializer.DefaultMetaFactory.Interpret(o.json); bad != nil {
		return q.unreadable(o.sent, bad)
	}
	var syntax *doc.SyntaxError
	if errors.As(err, &syntax) {
		return q.unreadable(o.sent, fmt.Errorf("couldn't get version/kind; json parse error: %w", err))
	}
	name, version := q.v.Kind.Name, q.v.Name
	d := doc.Get()
	defer d.Release()
	if doc.Parse(d, o.json) == nil {
		if d.Root().Kind() == doc.Null {
			return q.kindless(o, "", validation)
		}
		if k := d.Root().Get("kind").Text(); k != "" {
			name = k
		} else if q.kind.Builtin == nil { // of what kind it is, is asked first
			return q.kindless(o, d.Root().Get("apiVersion").Text(), validation)
		}
		if said := d.Root().Get("apiVersion").Text(); said != "" || q.kind.Builtin == nil {
			version = versionOf(said)
		}
	}
	return status.BadRequest("%s in version %q cannot be handled as a %s: %v", name, version, q.v.Kind.Name, err)
}

// kindless is the error for an object that does not say of what kind it is. Who does not look closely takes it for one of the kind.
func (q *request) kindless(o *object, apiVersion, validation string) error {
	if validation != metav1.FieldValidationIgnore {
		return q.unreadable(o.sent, runtime.NewMissingKindErr(string(o.sent)))
	}
	version := q.v.Name
	if apiVersion != "" {
		version = versionOf(apiVersion)
	}
	return status.BadRequest("%s in version %q cannot be handled as a %s: %w", q.v.Kind.Name, version, q.v.Kind.Name,
		runtime.NewMissingKindErr(string(o.json)))
}

// versionOf is the version in an apiVersion.
func versionOf(apiVersion string) string {
	return apiVersion[strings.LastIndexByte(apiVersion, '/')+1:]
}

// checkNamespace fills in the namespace of an object, or refuses another one
// than the request's.
func (q *request) checkNamespace(obj meta.Object) error {
	switch have := obj.Namespace(); {
	case have == q.namespace:
	case have == "":
		obj.SetNamespace(q.namespace)
	case q.namespace == "": // objects of the cluster have none, whatever is sent
		obj.Doc.Remove("metadata", "namespace")
	default:
		return status.BadRequest("the namespace of the provided object does not match the namespace sent on the request")
	}
	return nil
}

// checkName refuses an object of another name than the request's.
func (q *request) checkName(obj meta.Object) error {
	switch have := obj.Name(); {
	case have == "":
		return status.BadRequest("the name of the object (%s based on URL) was undeterminable: name must be provided", q.name)
	case have != q.name:
		return status.BadRequest("the name of the object (%s) does not match the name on the URL (%s)", have, q.name)
	}
	return nil
}

// bodyless reports whether a request can have no body.
func bodyless(r *http.Request) bool {
	return r.ContentLength == 0 || r.Body == nil || r.Body == http.NoBody
}
