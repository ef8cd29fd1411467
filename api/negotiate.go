package api

import (
	"mime"
	"net/http"
	"slices"
	"strings"

	"github.com/keelson-io/keelson/crd"
	"github.com/keelson-io/keelson/internal/negotiation"
	"github.com/keelson-io/keelson/status"
)

// This file negotiates the media types of requests and answers.

const (
	typeJSON     = negotiation.JSON
	typeYAML     = negotiation.YAML
	typeProtobuf = negotiation.Protobuf

	patchJSON      = "application/json-patch+json"
	patchMerge     = "application/merge-patch+json"
	patchApply     = "application/apply-patch+yaml"
	patchStrategic = "application/strategic-merge-patch+json"
)

// form is what an answer's object is turned into.
type form uint8

const (
	formObject      form = iota // the object, or list, itself
	formTable                   // meta.k8s.io Table
	formPartial                 // meta.k8s.io PartialObjectMetadata
	formPartialList             // meta.k8s.io PartialObjectMetadataList
)

var formNames = [...]string{"", "Table", "PartialObjectMetadata", "PartialObjectMetadataList"}

// accept is how an answer is to be encoded.
type accept struct {
	yaml   bool
	proto  bool // protobuf
	pretty bool
	form   form
	meta   string // version of meta.k8s.io, if form is not formObject
}

// negotiate finds the encoding of the answer.
func (q *request) negotiate() (accept, error) {
	if q.v == nil {
		return negotiate(q.r, false, true)
	}
	if header := q.r.Header.Get("Accept"); q.kind.Behavior.HasGoType() && header != "" {
		produced := []string{typeJSON, typeYAML, typeProtobuf, typeJSON + streamed, typeProtobuf + streamed}
		if q.verb != "list" && q.verb != "watch" {
			produced = produced[:3]
		}
		if !negotiation.RouterAccepts(header, produced) {
			q.unrouted()
			return accept{pretty: negotiation.WantsPretty(q.r)}, unacceptable(produced)
		}
	}
	return negotiate(q.r, q.givesProtobuf(), q.kind.Storage.Kind.StoragePrefix != crd.Prefix || q.subresource == "")
}

// unrouted removes the warning of a deprecated version: upstream warns only on paths that its
// router knows.
func (q *request) unrouted() {
	q.warnings = slices.DeleteFunc(q.warnings, func(text string) bool { return text == q.v.Warning })
}

// streamed is what media types of watches have at their end.
const streamed = ";stream=watch"

// unacceptable returns the error of that router for a header that accepts no produced type.
func unacceptable(produced []string) error {
	return status.UnacceptableRoute(negotiation.RouterRefusal(produced))
}

// negotiate finds the encoding of an answer; typed is set if objects can be printed as protobuf,
// tables if they can be rows. Metadata of objects always can.
func negotiate(r *http.Request, typed, tables bool) (accept, error) {
	a := accept{pretty: negotiation.WantsPretty(r)}
	header := r.Header.Get("Accept")
	switch header {
	case "", "*/*", typeJSON, "application/json, */*": // what nearly every client sends
		return a, nil
	}
	for _, c := range negotiation.Clauses(header) {
		if got, ok := match(&c, typed, "v1"); ok && (tables || got.form != formTable) {
			got.pretty = got.pretty || a.pretty
			return got, nil
		}
	}
	return a, notAcceptable(typeJSON, typeYAML, typeProtobuf)
}

// negotiateStatus finds the encoding of a Status. A Status has every encoding, whatever the
// request's object has, and is never transformed. For a client that accepts none of them it is
// indented JSON.
func negotiateStatus(r *http.Request) accept {
	header := r.Header.Get("Accept")
	if header == "" {
		return accept{pretty: negotiation.WantsPretty(r)}
	}
	for _, c := range negotiation.Clauses(header) {
		if a, ok := match(&c, true, ""); ok && a.form == formObject {
			a.pretty = a.pretty || negotiation.WantsPretty(r)
			return a
		}
	}
	return accept{pretty: true}
}

// notAcceptable returns the error for a client that accepts none of the types.
func notAcceptable(accepted ...string) error {
	return status.NotAcceptable("only the following media types are accepted: " + strings.Join(accepted, ", "))
}

// match tries to serve a clause.
func match(c *negotiation.Clause, typed bool, serverVersion string) (accept, bool) {
	media := c.Matches(serverVersion)
	a := accept{yaml: media == typeYAML, proto: media == typeProtobuf, pretty: c.Params["pretty"] == "1"}
	if media == "" {
		return a, false
	}
	as, group, version := c.Transform()
	if as == "" && group == "" && version == "" {
		return a, !a.proto || typed
	}
	at := slices.Index(formNames[:], as)
	if at < 1 || group != "meta.k8s.io" || version != "v1" && version != "v1beta1" || a.proto && form(at) == formTable {
		return a, false
	}
	a.form, a.meta = form(at), version
	return a, true
}

// patchType returns the media type of a patch, exactly as the client sent it.
func patchType(r *http.Request) string {
	header := r.Header.Get("Content-Type")
	if end := strings.IndexByte(header, ';'); end > 0 {
		return header[:end]
	}
	return header
}

// contentType returns the media type of a request's body without its parameters. JSON is the
// default.
func contentType(r *http.Request) string {
	header := r.Header.Get("Content-Type")
	switch header {
	case "", typeJSON:
		return typeJSON
	case typeYAML, typeProtobuf, patchJSON, patchMerge, patchApply:
		return header
	}
	media, _, err := mime.ParseMediaType(header)
	if err != nil {
		return header
	}
	return media
}

// unsupported returns the error for a body of another type.
func unsupported(accepted ...string) error {
	return status.UnsupportedMediaType("the body of the request was in an unknown format - accepted media types include: " +
		strings.Join(accepted, ", "))
}
