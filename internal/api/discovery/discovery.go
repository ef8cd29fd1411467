// Package discovery serves the documents by which clients find out what is
// served: which groups, versions and resources there are and what can be done
// with them.
//
// # Terms
//
//   - A legacy document describes one thing: the versions of the core group
//     (/api), the groups (/apis), a group (/apis/{group}) or the resources of a
//     group's version (/api/v1, /apis/{group}/{version}).
//   - An aggregated document describes everything below /api or /apis at once.
//     Clients ask for it by parameters of the media type, and recognise it by
//     those of the answer's.
//
// # Invariants
//
//   - A document is a function of one kind.Snapshot. A document about all kinds is built once for each
//     snapshot, at the first request. The cost of a document about one group depends on that group
//     only.
//   - Only established kinds appear.
//
// # Use
//
// [New] makes the handler of everything below /api and /apis that is not a
// resource.
package discovery

import (
	"net/http"
	"strings"
	"sync"
	"sync/atomic"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/keelson-io/keelson/internal/negotiation"
	"github.com/keelson-io/keelson/internal/status"
	"github.com/keelson-io/keelson/kind"
)

// This file routes requests to documents.

// Handler serves /api, /apis, /api/v1, /apis/{group} and
// /apis/{group}/{version}.
type Handler struct {
	load    func() *kind.Snapshot
	current atomic.Pointer[view]
}

// New returns the Handler of the kinds that load returns.
func New(load func() *kind.Snapshot) *Handler { return &Handler{load: load} }

// view holds the documents of one snapshot that are made from all kinds.
type view struct {
	snapshot *kind.Snapshot
	groups   func() *metav1.APIGroupList
	core     func() *aggregated
	apis     func() *aggregated
}

// view returns the view of the current snapshot.
func (h *Handler) view() *view {
	snapshot := h.load()
	if v := h.current.Load(); v != nil && v.snapshot == snapshot {
		return v
	}
	v := &view{
		snapshot: snapshot,
		groups:   sync.OnceValue(func() *metav1.APIGroupList { return groupList(snapshot) }),
		core:     sync.OnceValue(func() *aggregated { return aggregate(snapshot, true) }),
		apis:     sync.OnceValue(func() *aggregated { return aggregate(snapshot, false) }),
	}
	h.current.Store(v)
	return v
}

// ServeHTTP implements http.Handler.
func (h *Handler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.Method != http.MethodGet && r.Method != http.MethodHead {
		w.Header().Set("Allow", "GET, HEAD")
		http.Error(w, "405 method not allowed", http.StatusMethodNotAllowed)
		return
	}
	v := h.view()
	root, rest, _ := strings.Cut(strings.Trim(r.URL.Path, "/"), "/")
	group, version, _ := strings.Cut(rest, "/")
	switch {
	case root == "api" && rest == "":
		if routed(w, r) {
			v.serveRoot(w, r, v.core, func() object { return coreVersions(v.snapshot, r) })
		}
	case root == "apis" && rest == "":
		v.serveRoot(w, r, v.apis, func() object { return v.groups() })
	case root == "api" && version == "":
		serveVersion(w, r, v.snapshot, "", group)
	case root == "apis" && group != "" && version == "":
		serve(w, r, groupOf(v.snapshot, group))
	case root == "apis" && group != "" && !strings.Contains(version, "/"):
		serveVersion(w, r, v.snapshot, group, version)
	default:
		notFound(w)
	}
}

// serveRoot serves the aggregated document to those who ask for it and the
// legacy one to the others.
func (v *view) serveRoot(w http.ResponseWriter, r *http.Request, all func() *aggregated, legacy func() object) {
	f, ok := negotiate(r, true)
	switch {
	case !ok:
		notAcceptable(w)
	case f.aggregated:
		all().serve(w, r, f)
	default:
		send(w, r, f.media, f.encode(legacy()))
	}
}

// serveVersion serves the list of a group version's resources. Behind a group of built-in kinds there is upstream's router.
func serveVersion(w http.ResponseWriter, r *http.Request, s *kind.Snapshot, group, version string) {
	list := resourceList(s, group, version)
	switch builtin := group == "" || rank(group) < len(builtinGroups); {
	case list == nil && builtin:
		refuse(w, r, status.UnknownRoute())
	case list == nil:
		notFound(w)
	case !builtin || routed(w, r):
		serve(w, r, list)
	}
}

// routed reports whether upstream's router lets a request for one of its documents pass, and answers it if not.
func routed(w http.ResponseWriter, r *http.Request) bool {
	produced := []string{typeJSON, typeYAML, typeProtobuf}
	if negotiation.RouterAccepts(r.Header.Get("Accept"), produced) {
		return true
	}
	refuse(w, r, status.UnacceptableRoute(negotiation.RouterRefusal(produced)))
	return false
}

// refuse answers with an error, in the form of that router: indented JSON for a client that accepts
// none of the types.
func refuse(w http.ResponseWriter, r *http.Request, e *status.Error) {
	f, ok := negotiate(r, false)
	f.pretty = f.pretty || !ok
	w.Header().Set("Content-Type", f.media)
	w.WriteHeader(int(e.Code))
	w.Write(f.encode(&e.Status))
}

// serve serves a legacy document; nil if there is no such thing.
func serve(w http.ResponseWriter, r *http.Request, o object) {
	if o == nil {
		notFound(w)
		return
	}
	f, ok := negotiate(r, false)
	if !ok {
		notAcceptable(w)
		return
	}
	send(w, r, f.media, f.encode(o))
}

// notFound answers 404 with the text of Go's HTTP library.
func notFound(w http.ResponseWriter) {
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	w.Header().Set("X-Content-Type-Options", "nosniff")
	w.WriteHeader(http.StatusNotFound)
	w.Write([]byte("404 page not found\n"))
}

// notAcceptable answers that none of the accepted types can be produced.
func notAcceptable(w http.ResponseWriter) {
	e := status.NotAcceptable("only the following media types are accepted: " + strings.Join([]string{typeJSON, typeYAML, typeProtobuf}, ", "))
	w.Header().Set("Content-Type", typeJSON)
	w.WriteHeader(http.StatusNotAcceptable)
	w.Write(format{pretty: true}.dress(encodeJSON(&e.Status))) // who accepts none of these reads it as a human would
}
