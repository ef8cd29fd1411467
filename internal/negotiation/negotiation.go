// Package negotiation reads what requests say about the form of their answers, for objects, discovery and OpenAPI alike.
//
// # Terms
//
//   - A clause is one entry of an Accept header: a media type with parameters.
//   - A clause asks for a transform if it has one of the parameters as, g and v, which name the kind that the answer is to be of.
//
// # Invariants
//
//   - Headers are read as upstream reads them, which is not always as RFC 9110 has it: media types and encodings are compared letter by
//     letter, a quality of 0 is only the last choice, and an encoding with a quality is not understood.
//
// # Use
//
// [Clauses] and [Matches] choose the media type, where [RouterAccepts] lets a request come that far; [WantsPretty] and [AcceptsGzip] decide the rest.
package negotiation

import (
	"net/http"
	"slices"
	"strconv"
	"strings"

	"github.com/munnerz/goautoneg"
)

// The media types that answers are given in.
const (
	JSON     = "application/json"
	YAML     = "application/yaml"
	Protobuf = "application/vnd.kubernetes.protobuf"
)

// Clause is one entry of an Accept header.
type Clause struct {
	Media  string // as it is written, such as "application/*"
	Params map[string]string
}

// Clauses are the entries of an Accept header, the best first.
func Clauses(header string) []Clause {
	parsed := goautoneg.ParseAccept(header)
	out := make([]Clause, len(parsed))
	for i, c := range parsed {
		out[i] = Clause{Media: c.Type + "/" + c.SubType, Params: c.Params}
	}
	return out
}

// Matches is the media type that answers a clause, "" if none does. It may be given as a stream of watch events, and serverVersion, if
// there is one, is the version of server types that may be asked for.
func (c *Clause) Matches(serverVersion string) string {
	if sv := c.Params["sv"]; sv != "" && sv != serverVersion {
		return ""
	}
	media := c.Media
	switch media {
	case JSON, "application/*", "*/*":
		media = JSON
	case YAML, Protobuf:
	default:
		return ""
	}
	if stream := c.Params["stream"]; stream != "" && (media == YAML || stream != "watch") {
		return ""
	}
	return media
}

// Transform is the kind, group and version that a clause asks for; all are "" if it asks for none.
func (c *Clause) Transform() (kind, group, version string) {
	return c.Params["as"], c.Params["g"], c.Params["v"]
}

// RouterAccepts reports whether an Accept header names one of some media types, or anything at all, as the router reads it that upstream
// has before whatever has a Go type: word for word, whatever its parameters say.
func RouterAccepts(header string, produced []string) bool {
	for clause := range strings.SplitSeq(header, ",") {
		media, _, _ := strings.Cut(clause, ";")
		if media = strings.Trim(media, " "); media == "*/*" || slices.Contains(produced, media) {
			return true
		}
	}
	return header == ""
}

// RouterRefusal is what that router says of a header that names none of them.
func RouterRefusal(produced []string) string {
	return "406: Not Acceptable\n\nAvailable representations: " + strings.Join(produced, ", ")
}

// WantsPretty reports whether a human seems to read the answer.
func WantsPretty(r *http.Request) bool {
	if strings.Contains(r.URL.RawQuery, "pretty") {
		if v := r.URL.Query().Get("pretty"); v != "" {
			yes, _ := strconv.ParseBool(v) // what is no boolean is false
			return yes
		}
	}
	agent := r.Header.Get("User-Agent")
	return strings.HasPrefix(agent, "curl") || strings.HasPrefix(agent, "Wget") || strings.HasPrefix(agent, "Mozilla/5.0")
}

// GzipAbove is the size from which on an answer is compressed for clients that accept that.
const GzipAbove = 128 << 10

// AcceptsGzip reports whether an answer may be compressed.
func AcceptsGzip(r *http.Request) bool {
	header := r.Header.Get("Accept-Encoding")
	if header == "" {
		return false
	}
	for token := range strings.SplitSeq(header, ",") {
		if strings.TrimSpace(token) == "gzip" {
			return true
		}
	}
	return false
}

// MarkGzip says in the header of an answer that it is compressed.
func MarkGzip(h http.Header) {
	h.Set("Content-Encoding", "gzip")
	h.Add("Vary", "Accept-Encoding")
}
