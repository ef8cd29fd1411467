package api

import (
	"mime"
	"net/http"
	"slices"
	"strconv"
	"strings"

	"github.com/keelson-io/keelson/status"
)

// This file negotiates the media types of requests and answers.

const (
	typeJSON     = "application/json"
	typeYAML     = "application/yaml"
	typeProtobuf = "application/vnd.kubernetes.protobuf"

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

// clause is one entry of an Accept header.
type clause struct {
	kind, sub string // the media type's two halves
	params    map[string]string
	quality   float64
}

// negotiate finds the encoding of the answer.
func (q *request) negotiate() (accept, error) {
	return negotiate(q.r, q.v != nil && q.givesProtobuf())
}

// negotiate finds the encoding of an answer; typed says that objects can be
// printed as protobuf. Metadata of objects always can.
func negotiate(r *http.Request, typed bool) (accept, error) {
	a := accept{pretty: wantsPretty(r)}
	header := r.Header.Get("Accept")
	switch header {
	case "", "*/*", typeJSON, "application/json, */*": // what nearly every client sends
		return a, nil
	}
	for _, c := range parseAccept(header) {
		if got, ok := c.match(typed); ok {
			got.pretty = got.pretty || a.pretty
			return got, nil
		}
	}
	return a, notAcceptable(typeJSON, typeYAML, typeProtobuf)
}

// negotiateStatus finds the encoding of a Status, which has all of them, whatever the request's object has, and is never transformed.
// Who accepts nothing of it reads it as a human would.
func negotiateStatus(r *http.Request) accept {
	header := r.Header.Get("Accept")
	if header == "" {
		return accept{pretty: wantsPretty(r)}
	}
	for _, c := range parseAccept(header) {
		if a, ok := c.match(true); ok && a.form == formObject {
			a.pretty = a.pretty || wantsPretty(r)
			return a
		}
	}
	return accept{pretty: true}
}

func notAcceptable(accepted ...string) error {
	return status.NotAcceptable("only the following media types are accepted: " + strings.Join(accepted, ", "))
}

// match tries to serve a clause.
func (c *clause) match(typed bool) (accept, bool) {
	var a accept
	switch {
	case c.kind == "*" && c.sub == "*", c.kind == "application" && (c.sub == "*" || c.sub == "json"):
	case c.kind == "application" && c.sub == "yaml":
		a.yaml = true
	case c.kind == "application" && c.sub == "vnd.kubernetes.protobuf":
		a.proto = true
	default:
		return a, false
	}
	if stream := c.params["stream"]; stream != "" && (a.yaml || stream != "watch") {
		return a, false
	}
	if c.params["sv"] != "" {
		return a, false
	}
	a.pretty = c.params["pretty"] == "1"
	as, group, version := c.params["as"], c.params["g"], c.params["v"]
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

// parseAccept parses an Accept header, best clause first.
func parseAccept(header string) []clause {
	var out []clause
	for part := range strings.SplitSeq(header, ",") {
		c, ok := parseClause(part)
		if ok {
			out = append(out, c)
		}
	}
	slices.SortStableFunc(out, func(a, b clause) int {
		switch {
		case a.quality != b.quality:
			if a.quality > b.quality {
				return -1
			}
			return 1
		case (a.kind == "*") != (b.kind == "*"):
			return rank(b.kind == "*")
		case (a.sub == "*") != (b.sub == "*"):
			return rank(b.sub == "*")
		}
		return 0
	})
	return out
}

func rank(first bool) int {
	if first {
		return -1
	}
	return 1
}

func parseClause(text string) (clause, bool) {
	media, rest, _ := strings.Cut(text, ";")
	c := clause{quality: 1}
	c.kind, c.sub, _ = strings.Cut(strings.ToLower(strings.TrimSpace(media)), "/")
	if c.kind == "*" && c.sub == "" {
		c.sub = "*"
	}
	if c.kind == "" || c.sub == "" {
		return c, false
	}
	for rest != "" {
		var param string
		param, rest, _ = strings.Cut(rest, ";")
		key, value, _ := strings.Cut(strings.TrimSpace(param), "=")
		value = strings.Trim(value, `"`)
		if key == "q" {
			if f, err := strconv.ParseFloat(value, 64); err == nil {
				c.quality = f
			}
			continue
		}
		if c.params == nil {
			c.params = make(map[string]string, 4)
		}
		c.params[key] = value
	}
	return c, c.quality > 0
}

// wantsPretty reports whether a human reads the answer.
func wantsPretty(r *http.Request) bool {
	if strings.Contains(r.URL.RawQuery, "pretty") {
		if v := r.URL.Query().Get("pretty"); v != "" {
			yes, _ := strconv.ParseBool(v)
			return yes
		}
	}
	agent := r.Header.Get("User-Agent")
	return strings.HasPrefix(agent, "curl") || strings.HasPrefix(agent, "Wget") || strings.HasPrefix(agent, "Mozilla/5.0")
}

// contentType is the media type of a request's body without its parameters.
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

func unsupported(accepted ...string) error {
	return status.UnsupportedMediaType("the body of the request was in an unknown format - accepted media types include: " +
		strings.Join(accepted, ", "))
}
