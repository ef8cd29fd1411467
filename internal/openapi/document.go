package openapi

import (
	"bytes"
	"crypto/sha512"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"slices"
	"sync"
	"sync/atomic"

	openapi_v3 "github.com/google/gnostic-models/openapiv3"
	"google.golang.org/protobuf/proto"

	"github.com/keelson-io/keelson/internal/negotiation"
	"github.com/keelson-io/keelson/kind"
)

// This file joins parts to documents.

// form is a part of every document's hash. Change it when the same kinds give other documents, so
// that clients discard cached ones.
const form = "2"

// hashOf returns a hash of versions. It identifies a definition by uid, generation and accepted
// names, which change without a new generation.
func hashOf(versions []*kind.Version) string {
	h := sha512.New()
	fmt.Fprintf(h, "form %s\n", form)
	for _, v := range versions {
		k := v.Kind
		fmt.Fprintf(h, "%q %q %q %d %q %q %q\n", k.Group, v.Name, k.UID, k.Generation, k.Plural, k.Name, k.ListKind)
	}
	return fmt.Sprintf("%X", h.Sum(nil))
}

// document is a document in its encodings, which are built on first use.
type document struct {
	hash     string
	versions []*kind.Version
	v2       bool
	parts    *parts

	jsonOnce, protoOnce sync.Once
	json, proto         []byte
	jsonErr, protoErr   error

	zipping sync.Mutex
	zipped  map[string][]byte // media type -> compressed document

	size atomic.Int64 // of all encodings, in bytes
}

// same reports whether two documents describe the same versions.
func (d *document) same(o *document) bool {
	return d.hash == o.hash && slices.Equal(d.versions, o.versions)
}

// encoding returns the document in a media type. One encoding is built at a time, because building it
// takes many times its size.
func (d *document) encoding(media string) ([]byte, error) {
	d.jsonOnce.Do(func() {
		d.parts.building.Lock()
		defer d.parts.building.Unlock()
		d.json, d.jsonErr = d.join()
		d.size.Add(int64(len(d.json)))
	})
	if media == typeJSON || d.jsonErr != nil {
		return d.json, d.jsonErr
	}
	d.protoOnce.Do(func() {
		d.parts.building.Lock()
		defer d.parts.building.Unlock()
		defer func() { d.size.Add(int64(len(d.proto))) }()
		if d.v2 {
			d.proto, d.protoErr = protoV2(d.json)
		} else {
			d.proto, d.protoErr = protoV3(d.json)
		}
	})
	return d.proto, d.protoErr
}

// compressed returns the gzip form of an encoding. It is cached, because all clients of a kind
// request the same one.
func (d *document) compressed(media string, body []byte) []byte {
	d.zipping.Lock()
	defer d.zipping.Unlock()
	if have := d.zipped[media]; have != nil {
		return have
	}
	var out bytes.Buffer
	negotiation.Gzip(&out, func(w io.Writer) { w.Write(body) })
	if d.zipped == nil {
		d.zipped = map[string][]byte{}
	}
	d.zipped[media] = out.Bytes()
	d.size.Add(int64(out.Len()))
	return out.Bytes()
}

func protoV3(text []byte) ([]byte, error) {
	m, err := openapi_v3.ParseDocument(text)
	if err != nil {
		return nil, fmt.Errorf("OpenAPI v3 document: %w", err)
	}
	return proto.Marshal(m)
}

// part holds the paths and schemas that one version of a kind adds to a document.
type part struct {
	paths   map[string]json.RawMessage
	schemas map[string]json.RawMessage

	parameters map[string]json.RawMessage // parameters shared by paths, in version 2
}

// partKey names a part.
type partKey struct {
	version *kind.Version
	v2      bool
}

// size returns the bytes of the texts in p.
func (p *part) size() (n int64) {
	for _, texts := range []map[string]json.RawMessage{p.paths, p.schemas, p.parameters} {
		for name, text := range texts {
			n += int64(len(name) + len(text))
		}
	}
	return n
}

// parts caches the parts of all kinds.
type parts struct {
	building sync.Mutex // held while an encoding of a document is built

	mu   sync.Mutex
	have map[partKey]*part
	size int64 // of all parts, in bytes
}

func newParts() *parts {
	return &parts{have: make(map[partKey]*part)}
}

// retain drops the parts of all versions that are not in keep.
func (p *parts) retain(keep map[*kind.Version]bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	maps.DeleteFunc(p.have, func(k partKey, of *part) bool {
		if !keep[k.version] {
			p.size -= of.size()
		}
		return !keep[k.version]
	})
}

// drop drops all parts.
func (p *parts) drop() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.have, p.size = make(map[partKey]*part), 0
}

// bytes returns the size of all parts.
func (p *parts) bytes() int64 {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.size
}

// of returns the part of a version. It builds the part on first use.
func (p *parts) of(v *kind.Version, v2 bool) (*part, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	key := partKey{v, v2}
	if have := p.have[key]; have != nil {
		return have, nil
	}
	made, err := makePart(v, v2)
	if err != nil {
		return nil, fmt.Errorf("OpenAPI of %s: %w", v.GVR(), err)
	}
	p.have[key] = made
	p.size += made.size()
	return made, nil
}

// info is the info object of a document.
type info struct {
	Title   string `json:"title"`
	Version string `json:"version"`
}

// Titles of documents: of custom resources, and of those with built-in kinds.
var (
	ofCustom  = info{Title: "Kubernetes CRD Swagger", Version: "v0.1.0"}
	ofBuiltin = info{Title: "Kubernetes", Version: "1.37"}
)

// bearer is the security scheme of documents with built-in kinds.
var bearer = map[string]any{"BearerToken": map[string]string{
	"description": "Bearer Token authentication", "type": "apiKey", "name": "authorization", "in": "header",
}}

// joined returns the union of a document's parts.
func (d *document) joined() (*part, error) {
	shared, err := sharedSchemas(d.v2)
	if err != nil {
		return nil, err
	}
	all := &part{paths: map[string]json.RawMessage{}, schemas: maps.Clone(shared), parameters: map[string]json.RawMessage{}}
	for _, v := range d.versions {
		p, err := d.parts.of(v, d.v2)
		if err != nil {
			return nil, err
		}
		maps.Copy(all.paths, p.paths)
		maps.Copy(all.schemas, p.schemas)
		maps.Copy(all.parameters, p.parameters)
	}
	builtins := d.builtinVersions()
	var fixed []site
	for _, v := range builtins {
		fixed = append(fixed, resources(v))
	}
	if d.v2 && len(builtins) > 0 {
		fixed = append(fixed, groups(builtins)...)
	}
	if err := all.add(d.v2, fixed...); err != nil {
		return nil, err
	}
	if err := d.addOptions(all.schemas); err != nil {
		return nil, err
	}
	all.schemas = all.reachable()
	return all, nil
}

// join returns the document as JSON.
func (d *document) join() ([]byte, error) {
	all, err := d.joined()
	if err != nil {
		return nil, err
	}
	head, schemes, needs := ofCustom, map[string]any(nil), []map[string][]string(nil)
	if len(d.builtinVersions()) > 0 {
		head, schemes, needs = ofBuiltin, bearer, []map[string][]string{{"BearerToken": {}}}
	}
	if d.v2 {
		return json.Marshal(struct {
			Swagger     string                     `json:"swagger"`
			Info        info                       `json:"info"`
			Paths       map[string]json.RawMessage `json:"paths"`
			Definitions map[string]json.RawMessage `json:"definitions"`
			Parameters  map[string]json.RawMessage `json:"parameters,omitempty"`
			Schemes     map[string]any             `json:"securityDefinitions,omitempty"`
			Needs       []map[string][]string      `json:"security,omitempty"`
		}{"2.0", head, all.paths, all.schemas, all.parameters, schemes, needs})
	}
	type components struct {
		Schemas map[string]json.RawMessage `json:"schemas"`
		Schemes map[string]any             `json:"securitySchemes,omitempty"`
	}
	return json.Marshal(struct {
		OpenAPI    string                     `json:"openapi"`
		Info       info                       `json:"info"`
		Paths      map[string]json.RawMessage `json:"paths"`
		Components components                 `json:"components"`
	}{"3.0.0", head, all.paths, components{all.schemas, schemes}})
}
