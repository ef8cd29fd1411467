package discovery

import (
	"bytes"
	"encoding/json"
	"io"
	"net/http"
	"strconv"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/yaml"

	"github.com/keelson-io/keelson/internal/negotiation"
)

// This file negotiates and writes encodings.

const (
	typeJSON     = negotiation.JSON
	typeYAML     = negotiation.YAML
	typeProtobuf = negotiation.Protobuf
)

// object is a document of an API type.
type object interface {
	GetObjectKind() schema.ObjectKind
	Marshal() ([]byte, error)
}

// format is what was negotiated.
type format struct {
	media      string
	aggregated bool
	pretty     bool
}

// negotiate selects the first of the media types that the client accepts. If there is an aggregated
// document, a client that accepts it at any priority gets it: clients list the other form only for
// older servers.
func negotiate(r *http.Request, mayAggregate bool) (format, bool) {
	f := format{media: typeJSON, pretty: negotiation.WantsPretty(r)}
	accept := r.Header.Get("Accept")
	if accept == "" {
		return f, true
	}
	clauses := negotiation.Clauses(accept)
	for _, aggregated := range []bool{true, false} {
		if aggregated && !mayAggregate {
			continue
		}
		for i := range clauses {
			c := &clauses[i]
			kind, group, version := c.Transform()
			switch {
			case aggregated && (kind != "APIGroupDiscoveryList" || group != "apidiscovery.k8s.io" || version != "v2"):
			case !aggregated && (kind != "" || group != "" || version != ""):
			default:
				if media := c.Matches(""); media != "" {
					f.media, f.aggregated = media, aggregated
					f.pretty = f.pretty || c.Params["pretty"] == "1"
					return f, true
				}
			}
		}
	}
	return f, false
}

// dress indents JSON if a human reads it.
func (f format) dress(b []byte) []byte {
	if !f.pretty {
		return b
	}
	var out bytes.Buffer
	if json.Indent(&out, bytes.TrimSuffix(b, []byte{'\n'}), "", "  ") != nil {
		return b
	}
	return out.Bytes()
}

// encodeJSON returns the JSON of a document.
func encodeJSON(v any) []byte {
	b, err := json.Marshal(v)
	if err != nil {
		panic("BUG: discovery document does not encode: " + err.Error())
	}
	return append(b, '\n')
}

// encodeProtobuf wraps the object as the API's protobuf encoding does.
func encodeProtobuf(o object) []byte {
	raw, err := o.Marshal()
	if err != nil {
		panic("BUG: discovery document does not encode: " + err.Error())
	}
	gvk := o.GetObjectKind().GroupVersionKind()
	wrapped := runtime.Unknown{
		TypeMeta: runtime.TypeMeta{APIVersion: gvk.GroupVersion().String(), Kind: gvk.Kind},
		Raw:      raw,
	}
	body, err := wrapped.Marshal()
	if err != nil {
		panic("BUG: discovery document does not encode: " + err.Error())
	}
	return append([]byte("k8s\x00"), body...)
}

// encode returns a document in the negotiated encoding.
func (f format) encode(o object) []byte {
	switch f.media {
	case typeProtobuf:
		return encodeProtobuf(o)
	case typeYAML:
		return toYAML(encodeJSON(o))
	}
	return f.dress(encodeJSON(o))
}

// toYAML converts a document to YAML.
func toYAML(text []byte) []byte {
	b, err := yaml.JSONToYAML(text)
	if err != nil {
		panic("BUG: discovery document does not encode: " + err.Error())
	}
	return b
}

// send answers with a document, compressed if it is large and the client accepts that.
func send(w http.ResponseWriter, r *http.Request, media string, body []byte) {
	w.Header().Set("Content-Type", media)
	if len(body) > negotiation.GzipAbove && negotiation.AcceptsGzip(r) {
		negotiation.MarkGzip(w.Header())
		if r.Method != http.MethodHead {
			negotiation.Gzip(w, func(w io.Writer) { w.Write(body) })
		}
		return
	}
	w.Header().Set("Content-Length", strconv.Itoa(len(body)))
	w.Write(body)
}
