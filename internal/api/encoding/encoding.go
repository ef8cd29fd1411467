// Package encoding negotiates the encodings of objects: of bodies by their Content-Type, of answers by the Accept header.
package encoding

import (
	"mime"
	"net/http"
	"slices"
	"strings"

	"github.com/keelson-io/keelson/internal/negotiation"
	"github.com/keelson-io/keelson/internal/status"
)

// The media types of objects.
const (
	JSON     = negotiation.JSON
	YAML     = negotiation.YAML
	Protobuf = negotiation.Protobuf
)

// The media types of patches.
const (
	JSONPatch      = "application/json-patch+json"
	MergePatch     = "application/merge-patch+json"
	ApplyPatch     = "application/apply-patch+yaml"
	StrategicPatch = "application/strategic-merge-patch+json"
)

// Form is what an answer's object is turned into.
type Form uint8

// The forms.
const (
	Object      Form = iota // the object, or list, itself
	Table                   // meta.k8s.io Table
	Partial                 // meta.k8s.io PartialObjectMetadata
	PartialList             // meta.k8s.io PartialObjectMetadataList
)

var formNames = [...]string{"", "Table", "PartialObjectMetadata", "PartialObjectMetadataList"}

// Answer is how an answer is to be encoded: in JSON if nothing is set.
type Answer struct {
	YAML     bool
	Protobuf bool
	Pretty   bool
	Form     Form
	Meta     string // version of meta.k8s.io, if Form is not Object
}

// Streamed is what media types of watches have at their end.
const Streamed = ";stream=watch"

// Unacceptable returns the error of that router for a header that accepts no produced type.
func Unacceptable(produced []string) error {
	return status.UnacceptableRoute(negotiation.RouterRefusal(produced))
}

// Negotiate finds the encoding of an answer; typed is set if objects can be printed as protobuf,
// tables if they can be rows. Metadata of objects always can.
func Negotiate(r *http.Request, typed, tables bool) (Answer, error) {
	a := Answer{Pretty: negotiation.WantsPretty(r)}
	header := r.Header.Get("Accept")
	switch header {
	case "", "*/*", JSON, "application/json, */*": // what nearly every client sends
		return a, nil
	}
	for _, c := range negotiation.Clauses(header) {
		if got, ok := match(&c, typed, "v1"); ok && (tables || got.Form != Table) {
			got.Pretty = got.Pretty || a.Pretty
			return got, nil
		}
	}
	return a, NotAcceptable(JSON, YAML, Protobuf)
}

// NegotiateStatus finds the encoding of a Status. A Status has every encoding, whatever the
// request's object has, and is never transformed. For a client that accepts none of them it is
// indented JSON.
func NegotiateStatus(r *http.Request) Answer {
	header := r.Header.Get("Accept")
	if header == "" {
		return Answer{Pretty: negotiation.WantsPretty(r)}
	}
	for _, c := range negotiation.Clauses(header) {
		if a, ok := match(&c, true, ""); ok && a.Form == Object {
			a.Pretty = a.Pretty || negotiation.WantsPretty(r)
			return a
		}
	}
	return Answer{Pretty: true}
}

// NotAcceptable returns the error for a client that accepts none of the types.
func NotAcceptable(accepted ...string) error {
	return status.NotAcceptable("only the following media types are accepted: " + strings.Join(accepted, ", "))
}

// match tries to serve a clause.
func match(c *negotiation.Clause, typed bool, serverVersion string) (Answer, bool) {
	media := c.Matches(serverVersion)
	a := Answer{YAML: media == YAML, Protobuf: media == Protobuf, Pretty: c.Params["pretty"] == "1"}
	if media == "" {
		return a, false
	}
	as, group, version := c.Transform()
	if as == "" && group == "" && version == "" {
		return a, !a.Protobuf || typed
	}
	at := slices.Index(formNames[:], as)
	if at < 1 || group != "meta.k8s.io" || version != "v1" && version != "v1beta1" || a.Protobuf && Form(at) == Table {
		return a, false
	}
	a.Form, a.Meta = Form(at), version
	return a, true
}

// PatchType returns the media type of a patch, exactly as the client sent it.
func PatchType(r *http.Request) string {
	header := r.Header.Get("Content-Type")
	if end := strings.IndexByte(header, ';'); end > 0 {
		return header[:end]
	}
	return header
}

// ContentType returns the media type of a request's body without its parameters. JSON is the
// default.
func ContentType(r *http.Request) string {
	header := r.Header.Get("Content-Type")
	switch header {
	case "", JSON:
		return JSON
	case YAML, Protobuf, JSONPatch, MergePatch, ApplyPatch:
		return header
	}
	media, _, err := mime.ParseMediaType(header)
	if err != nil {
		return header
	}
	return media
}

// Unsupported returns the error for a body of another type.
func Unsupported(accepted ...string) error {
	return status.UnsupportedMediaType("the body of the request was in an unknown format - accepted media types include: " +
		strings.Join(accepted, ", "))
}
