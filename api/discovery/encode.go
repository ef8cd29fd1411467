package discovery

import (
	"bytes"
	"encoding/json"
	"net/http"
	"strconv"

	"github.com/munnerz/goautoneg"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/yaml"
)

// This file negotiates and writes encodings.

const (
	typeJSON     = "application/json"
	typeYAML     = "application/yaml"
	typeProtobuf = "application/vnd.kubernetes.protobuf"
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

// negotiate picks the first of the media types that the client accepts. An
// aggregated document is a media type of its own, where there is one.
func negotiate(r *http.Request, mayAggregate bool) (format, bool) {
	f := format{media: typeJSON, pretty: wantsPretty(r)}
	accept := r.Header.Get("Accept")
	if accept == "" {
		return f, true
	}
	for _, c := range goautoneg.ParseAccept(accept) {
		switch c.Type + "/" + c.SubType {
		case typeJSON, "application/*", "*/*":
			f.media = typeJSON
		case typeYAML:
			f.media = typeYAML
		case typeProtobuf:
			f.media = typeProtobuf
		default:
			continue
		}
		if c.Params["as"] == "" {
			return f, true
		}
		if mayAggregate && f.media != typeYAML && isAggregated(c.Params) {
			f.aggregated = true
			return f, true
		}
	}
	return f, false
}

func isAggregated(params map[string]string) bool {
	return params["as"] == "APIGroupDiscoveryList" && params["g"] == "apidiscovery.k8s.io" && params["v"] == "v2"
}

// wantsPretty reports whether a human seems to read the answer.
func wantsPretty(r *http.Request) bool {
	if pretty := r.URL.Query()["pretty"]; len(pretty) > 0 {
		return pretty[0] != "false" && pretty[0] != "0"
	}
	agent := r.UserAgent()
	for _, tool := range []string{"curl", "Wget", "Mozilla/5.0"} {
		if len(agent) >= len(tool) && agent[:len(tool)] == tool {
			return true
		}
	}
	return false
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

func write(w http.ResponseWriter, r *http.Request, f format, o object) {
	switch f.media {
	case typeProtobuf:
		send(w, typeProtobuf, encodeProtobuf(o))
	case typeYAML:
		b, err := yaml.JSONToYAML(encodeJSON(o))
		if err != nil {
			panic("BUG: discovery document does not encode: " + err.Error())
		}
		send(w, typeYAML, b)
	default:
		send(w, typeJSON, f.dress(encodeJSON(o)))
	}
}

func send(w http.ResponseWriter, media string, body []byte) {
	w.Header().Set("Content-Type", media)
	w.Header().Set("Content-Length", strconv.Itoa(len(body)))
	w.Write(body)
}
