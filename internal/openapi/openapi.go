// Package openapi serves OpenAPI documents of all kinds. kubectl explain, apply and diff, and
// client generators, read them.
//
// # Model
//
// In version 3, each group version has a document, and there is an index of them. In version 2 one
// document has everything. A document is joined from parts: the paths and schemas of each version
// of each kind, the discovery paths, and the schemas of meta/v1 to which all refer.
//
// # Invariants
//
//   - Documents are built on request. The index identifies a document by a hash
//     of the kinds in it, not of its text.
//   - A part belongs to a kind.Version and never changes. If a kind changes,
//     only its parts are rebuilt and its documents joined again.
//   - Encodings are built one at a time, and kept until [Handler.Shed]: the largest take tens of
//     megabytes while they are built.
//   - The hash in a document's address changes whenever the document may have
//     changed.
//
// # Use
//
// [New] returns the handler of all paths below /openapi.
package openapi

import (
	"bytes"
	"crypto/sha512"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/keelson-io/keelson/internal/negotiation"
	"github.com/keelson-io/keelson/kind"
)

// This file serves documents.

// Handler serves /openapi/v2, /openapi/v3 and /openapi/v3/{key}.
type Handler struct {
	load    func() *kind.Snapshot
	current atomic.Pointer[view]
	mu      sync.Mutex // held while a view is built
	parts   *parts
	started time.Time
}

// New returns a Handler for the kinds that load returns.
func New(load func() *kind.Snapshot) *Handler {
	return &Handler{load: load, parts: newParts(), started: time.Now()}
}

// Bytes returns how many bytes the documents take that are kept.
func (h *Handler) Bytes() int64 {
	n := h.parts.bytes()
	if v := h.current.Load(); v != nil {
		n += v.v2.size.Load()
		for _, d := range v.docs {
			n += d.size.Load()
		}
	}
	return n
}

// Shed drops the documents that are kept. They are built again when a client asks for them, with the
// same hashes.
func (h *Handler) Shed() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.current.Store(nil)
	h.parts.drop()
}

// The media types of documents.
const (
	typeJSON    = negotiation.JSON
	typeProtoV3 = "application/com.github.proto-openapi.spec.v3.v1.0+protobuf"
	typeProtoV2 = "application/com.github.proto-openapi.spec.v2.v1.0+protobuf"

	// Old names of the same types, which are not valid media types. They are accepted, but never
	// sent.
	typeOldProtoV3 = "application/com.github.proto-openapi.spec.v3@v1.0+protobuf"
	typeOldProtoV2 = "application/com.github.proto-openapi.spec.v2@v1.0+protobuf"
)

// ServeHTTP implements http.Handler.
func (h *Handler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.Method != http.MethodGet && r.Method != http.MethodHead {
		w.Header().Set("Allow", "GET, HEAD")
		http.Error(w, "405 method not allowed", http.StatusMethodNotAllowed)
		return
	}
	path := strings.TrimPrefix(r.URL.Path, "/")
	switch key, below := strings.CutPrefix(path, "openapi/v3/"); {
	case below:
		h.serveVersion(w, r, key)
	case path == "openapi/v3":
		v := h.view()
		h.serve(w, r, typeJSON, v.indexTag, v.index)
	case path == "openapi/v2":
		h.serveV2(w, r)
	default:
		http.NotFound(w, r)
	}
}

// serveVersion serves the document of one group version.
func (h *Handler) serveVersion(w http.ResponseWriter, r *http.Request, key string) {
	doc := h.view().docs[key]
	if doc == nil {
		http.NotFound(w, r)
		return
	}
	media := negotiate(r, typeProtoV3, typeOldProtoV3)
	if accept := r.Header.Get("Accept"); accept != "" && len(negotiation.Clauses(accept)) == 0 {
		return // as upstream, an Accept header without a media type gets an empty answer
	}
	w.Header().Set("Vary", "Accept")
	if media == "" {
		w.WriteHeader(http.StatusNotAcceptable)
		return
	}
	if hash := r.URL.Query().Get("hash"); hash != "" {
		if hash != doc.hash {
			h.mark(w, media, doc.hash) // sets a content type, so that http.Redirect writes no body
			http.Redirect(w, r, address(key, doc.hash), http.StatusMovedPermanently)
			return
		}
		w.Header().Set("Cache-Control", "public, immutable")
		w.Header().Set("Expires", time.Now().AddDate(1, 0, 0).Format(time.RFC1123))
	}
	body, err := doc.encoding(media)
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	h.serve(w, r, media, doc.hash, body)
}

// serveV2 serves the document of version 2. As upstream, only this one is sent compressed.
func (h *Handler) serveV2(w http.ResponseWriter, r *http.Request) {
	media := negotiate(r, typeProtoV2, typeOldProtoV2)
	w.Header()["Vary"] = []string{"Accept-Encoding", "Accept"}
	if media == "" {
		w.WriteHeader(http.StatusNotAcceptable)
		return
	}
	v := h.view()
	body, err := v.v2.encoding(media)
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	if negotiation.AcceptsGzip(r) && r.Header.Get("Range") == "" {
		w.Header().Set("Content-Encoding", "gzip")
		body = v.v2.compressed(media, body)
	}
	h.serve(w, r, media, v.v2.hash, body)
}

// serve sends a document, a range of it, or 304 if the client has it.
func (h *Handler) serve(w http.ResponseWriter, r *http.Request, media, tag string, body []byte) {
	h.mark(w, media, tag)
	http.ServeContent(w, r, "", h.started, bytes.NewReader(body))
}

// mark sets the headers that describe the document.
func (h *Handler) mark(w http.ResponseWriter, media, tag string) {
	w.Header().Set("Content-Type", media)
	w.Header().Set("Etag", strconv.Quote(tag))
}

// negotiate returns the first media type that the client accepts, "" if there is none.
func negotiate(r *http.Request, proto, oldProto string) string {
	accept := r.Header.Get("Accept")
	if accept == "" {
		return typeJSON
	}
	for _, c := range negotiation.Clauses(accept) {
		major, minor, _ := strings.Cut(c.Media, "/")
		if major != "application" && major != "*" {
			continue
		}
		switch "application/" + minor {
		case typeJSON, "application/*":
			return typeJSON
		case proto, oldProto:
			return proto
		}
	}
	return ""
}

// address returns the URL path of a group version's document.
func address(key, hash string) string {
	return "/openapi/v3/" + key + "?" + url.Values{"hash": {hash}}.Encode()
}

// view holds the documents of one snapshot of the kinds.
type view struct {
	snapshot *kind.Snapshot
	docs     map[string]*document // group version, as in paths -> document
	index    []byte
	indexTag string
	v2       *document
}

// view returns the view of the current snapshot. It reuses the documents whose kinds did not
// change.
func (h *Handler) view() *view {
	snapshot := h.load()
	if v := h.current.Load(); v != nil && v.snapshot == snapshot {
		return v
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	old := h.current.Load()
	if old != nil && old.snapshot == snapshot {
		return old
	}
	v := &view{snapshot: snapshot, docs: make(map[string]*document)}
	all := &document{parts: h.parts, v2: true}
	keep := make(map[*kind.Version]bool)
	for k := range snapshot.All() {
		if !k.Established {
			continue
		}
		for _, kv := range k.Versions {
			key := keyOf(kv)
			d := v.docs[key]
			if d == nil {
				d = &document{parts: h.parts}
				v.docs[key] = d
			}
			d.versions = append(d.versions, kv)
			all.versions = append(all.versions, kv)
			keep[kv] = true
		}
	}
	for key, d := range v.docs {
		d.hash = hashOf(d.versions)
		if old != nil && old.docs[key] != nil && old.docs[key].same(d) {
			v.docs[key] = old.docs[key]
		}
	}
	all.hash = hashOf(all.versions)
	v.v2 = all
	v.index, v.indexTag = indexOf(v.docs)
	h.parts.retain(keep)
	h.current.Store(v)
	return v
}

// keyOf returns the key of the document that describes v.
func keyOf(v *kind.Version) string {
	if v.Kind.Group == "" {
		return "api/" + v.Name
	}
	return "apis/" + v.Kind.Group + "/" + v.Name
}

// indexOf returns the index of documents and its ETag.
func indexOf(docs map[string]*document) ([]byte, string) {
	type entry struct {
		URL string `json:"serverRelativeURL"`
	}
	paths := make(map[string]entry, len(docs))
	for key, d := range docs {
		paths[key] = entry{address(key, d.hash)}
	}
	b, err := json.Marshal(map[string]any{"paths": paths})
	if err != nil {
		panic("BUG: the index of OpenAPI documents does not encode: " + err.Error())
	}
	return b, fmt.Sprintf("%X", sha512.Sum512(b))
}
