package api

import (
	"encoding/hex"
	"encoding/json"
	"math/rand/v2"
	"net/http"
	"slices"
	"strings"

	"github.com/keelson-io/keelson/internal/api/encoding"
	"github.com/keelson-io/keelson/internal/api/program"
	"github.com/keelson-io/keelson/internal/api/zpages"
	"github.com/keelson-io/keelson/internal/negotiation"
	"github.com/keelson-io/keelson/internal/status"
)

// This file finds what serves a request.

// dispatch serves a request: the last step.
func dispatch(q *request) error {
	if !q.resource {
		return q.servePath()
	}
	if err := q.lookup(); err != nil {
		return err
	}
	// The definition may have been written through another server a moment ago.
	if q.v == nil && q.h.CatchUp != nil {
		q.h.CatchUp(q.ctx)
		if err := q.lookup(); err != nil {
			return err
		}
	}
	if q.v == nil {
		return q.notServed()
	}
	return q.serveResource()
}

// notServed answers a request for a resource that does not exist, or not at this path. Upstream's router answers for the groups of
// built-in kinds, its last handler for all others.
func (q *request) notServed() error {
	kinds := q.h.Kinds.Load()
	for k := range kinds.InGroup(q.group) {
		if !k.Behavior.HasRoutes() {
			continue
		}
		// The path exists, since all namespaces can be listed, but no object of a namespace has it.
		if k = kinds.Lookup(q.group, q.plural); k != nil && k.Version(q.info.version) != nil && k.Namespaced && !k.Behavior.Virtual && q.namespace == "" && q.name == "" {
			return status.UnknownMethod() // all namespaces can be listed, nothing else
		}
		return status.UnknownRoute()
	}
	q.unknownPath()
	return nil
}

// servePath serves a path that does not name a resource.
func (q *request) servePath() error {
	// Only an embedded store can be copied: an etcd cluster has its own tools.
	if q.info.snapshot && q.h.Snapshot != nil {
		return q.snapshot()
	}
	first, rest, _ := strings.Cut(strings.Trim(q.path, "/"), "/")
	switch first {
	case "api", "apis", "openapi": // the lists of what is served
		if q.h.CatchUp != nil {
			q.h.CatchUp(q.ctx)
		}
	}
	switch first {
	case "healthz", "livez", "readyz":
		q.serveHealth(first, rest)
	case "version":
		return q.serveVersion()
	case "metrics":
		if rest == "slis" {
			q.forward(q.h.health.Metrics)
			return nil
		}
		if q.h.BeforeMetrics != nil {
			q.h.BeforeMetrics()
		} else {
			q.h.SweepMetrics()
		}
		q.forward(q.h.metrics.Handler)
	case "statusz", "flagz":
		switch {
		case rest != "":
			q.unknownPath()
		case first == "statusz":
			return q.sendPage(zpages.Status(q.h.started, program.Kubernetes, q.indexPaths()))
		default:
			return q.sendPage(zpages.Flags(q.h.Flags))
		}
	case "api", "apis":
		q.forward(q.h.discovery)
	case "openapi":
		if err := q.holds.Spare(q.ctx); err != nil {
			return err
		}
		if err := q.holds.Sends(); err != nil { // the documents are long
			return err
		}
		q.forward(q.h.openapi)
	case "debug":
		if name, ok := strings.CutPrefix(rest, "api_priority_and_fairness/"); ok && q.dumpFlow(name) {
			return nil
		}
		if h := zpages.Profile(rest); h != nil && !q.h.DisableProfiling {
			q.forward(h)
			return nil
		}
		q.unknownPath()
	case ".well-known", "openid":
		if q.issuerDocument() {
			return nil
		}
		q.unknownPath()
	default:
		if first == "" && q.path != "" { // a CONNECT has no path
			return q.index()
		}
		q.unknownPath()
	}
	return nil
}

// Probes returns a handler of the health endpoints alone, for a listener without TLS and without users.
func (h *Handler) Probes() http.Handler { return h.health.Probes() }

// serveHealth answers /{endpoint} and /{endpoint}/{check}.
func (q *request) serveHealth(endpoint, only string) {
	a, ok := q.h.health.Answer(q.ctx, endpoint, only, q.query)
	if !ok {
		q.unknownPath()
		return
	}
	if a.Sniff {
		q.w.Header()["X-Content-Type-Options"] = []string{}
	}
	q.plain(a.Code, a.Text)
}

// serveVersion answers with the version as indented JSON, whatever the client accepts.
func (q *request) serveVersion() error {
	if q.r.Method != http.MethodGet {
		return status.UnknownMethod()
	}
	if header := q.r.Header.Get("Accept"); header != "" && !negotiation.RouterAccepts(header, []string{encoding.JSON}) {
		return encoding.Unacceptable([]string{encoding.JSON})
	}
	q.accept = encoding.Answer{Pretty: true}
	q.send(http.StatusOK, q.h.version)
	return nil
}

// sendPage answers with a page about the server, in the form that the client asked for.
func (q *request) sendPage(p *zpages.Page) error {
	a, err := p.Answer(q.r.Header.Get("Accept"))
	switch {
	case err != nil:
		return err
	case a == nil:
		return encoding.NotAcceptable(encoding.JSON, encoding.YAML, zpages.Text)
	case a.Object == nil:
		q.plain(http.StatusOK, a.Text)
		return nil
	}
	if a.Warning != "" {
		q.w.Header().Set("Warning", a.Warning)
	}
	q.accept = encoding.Answer{YAML: a.YAML, Pretty: a.Pretty || negotiation.WantsPretty(q.r)}
	q.send(http.StatusOK, a.Object)
	return nil
}

// forward lets another handler answer.
func (q *request) forward(h http.Handler) {
	w := &recorder{ResponseWriter: q.w, q: q}
	h.ServeHTTP(w, q.r)
	w.recordCode(http.StatusOK)
}

// recorder records the code of an answer as soon as it is known: the handler may panic later.
type recorder struct {
	http.ResponseWriter
	q *request
}

// recordCode records the code of the answer when the answer begins.
func (w *recorder) recordCode(code int) {
	if w.q.code == 0 {
		w.q.answers()
		w.q.code = code
		w.q.audit.Code(code)
	}
}

// WriteHeader records the code.
func (w *recorder) WriteHeader(code int) {
	w.recordCode(code)
	w.ResponseWriter.WriteHeader(code)
}

// Write records the code 200 if the handler has not set one.
func (w *recorder) Write(b []byte) (int, error) {
	w.recordCode(http.StatusOK)
	return w.ResponseWriter.Write(b)
}

// Unwrap is for http.ResponseController.
func (w *recorder) Unwrap() http.ResponseWriter { return w.ResponseWriter }

// unknownPath answers a request for a path that nothing serves.
func (q *request) unknownPath() { q.plain(http.StatusNotFound, "404 page not found\n") }

// index lists the paths.
func (q *request) index() error {
	body, err := json.Marshal(map[string][]string{"paths": q.indexPaths()})
	if err != nil {
		return err
	}
	q.accept.Pretty = true
	q.send(http.StatusOK, body)
	return nil
}

// indexPaths returns the paths of the index.
func (q *request) indexPaths() []string {
	paths := []string{"/api", "/apis", "/flagz", "/healthz", "/livez", "/metrics", "/metrics/slis", "/openapi/v2", "/openapi/v3", "/readyz", "/statusz", "/version"}
	if q.h.Snapshot != nil {
		paths = append(paths, snapshotPath)
	}
	snapshot := q.h.Kinds.Load()
	for _, c := range q.h.health.Checks {
		paths = append(paths, "/readyz/"+c.Name)
		if !c.Ready {
			paths = append(paths, "/healthz/"+c.Name, "/livez/"+c.Name)
		}
	}
	// Several kinds share the path of their version.
	seen := map[string]bool{}
	for k := range snapshot.All() {
		base := "/apis/" + k.Group
		if k.Group == "" {
			base = "/api"
		} else {
			seen[base] = true
		}
		for _, v := range k.Versions {
			seen[base+"/"+v.Name] = true
		}
	}
	for p := range seen {
		paths = append(paths, p)
	}
	slices.Sort(paths)
	return paths
}

// lookup sets the kind and version of a resource request. They stay nil if the resource is not served.
func (q *request) lookup() error {
	k := q.h.Kinds.Load().Lookup(q.group, q.plural)
	if c := q.connector(); k == nil || q.rest && (c == nil || !c.subpaths) {
		return nil
	}
	// A kind whose definition is not established yet is not served.
	v := k.Version(q.info.version)
	if v == nil || !k.Established {
		return nil
	}
	switch {
	case q.group == "" && q.plural == "namespaces":
		q.namespace = "" // the path's namespace is the object itself
	case k.Namespaced && q.namespace == "" && q.verb != "list" && q.verb != "watch":
		return nil
	case !k.Namespaced && q.namespace != "":
		return nil
	}
	q.kind, q.v = k, v
	q.res = q.h.Cache.Resource(k.StoragePrefix)
	return nil
}

// serveResource serves a verb on a resource.
func (q *request) serveResource() error {
	if err := q.checkRoute(); err != nil {
		return err
	}
	if q.v.Deprecated {
		q.warn(q.v.Warning)
	}
	switch {
	case q.subresource == "":
		return q.serveObject()
	case q.subresource == "status" && q.v.Status:
		return q.servePart(statusVerbs)
	case q.subresource == "scale" && q.v.Scale != nil:
		return q.serveScale()
	}
	// The kinds of some subresources, such as Binding, are created and not stored.
	if sub := q.kind.Behavior.Subresource(q.subresource); sub != nil {
		if sub.HasOwnKind() {
			return q.act(sub)
		}
		return q.servePart(sub.Verbs)
	}
	if c := q.connector(); c != nil {
		return q.connect(c)
	}
	return status.NotFound(q.kind.GroupResource(), q.name)
}

// serveObject serves a verb on objects themselves.
func (q *request) serveObject() error {
	switch b := &q.kind.Behavior; {
	case b.Virtual:
		return q.act(nil)
	case b.Listed != nil:
		return q.serveListed()
	}
	switch {
	case q.row == nil:
		return status.MethodNotAllowed(q.kind.GroupResource(), q.verb)
	case q.name == "" && (q.verb == "update" || q.verb == "patch"):
		return status.BadRequest("name must be provided")
	}
	return q.row.serve(q)
}

// statusVerbs are the verbs of status subresources.
var statusVerbs = []string{"get", "patch", "update"}

// servePart serves a verb on a subresource that is a part of its object.
func (q *request) servePart(verbs []string) error {
	if !slices.Contains(verbs, q.verb) || q.row == nil {
		return status.MethodNotAllowed(q.kind.GroupResource(), q.verb)
	}
	return q.row.serve(q)
}

// newAuditID returns a random UUID. It need not be a secret, so that a fast source
// of randomness will do.
func newAuditID() string {
	var id [16]byte
	a, b := rand.Uint64(), rand.Uint64()
	for i := range 8 {
		id[i], id[8+i] = byte(a>>(8*i)), byte(b>>(8*i))
	}
	id[6] = id[6]&0x0f | 0x40
	id[8] = id[8]&0x3f | 0x80
	var text [36]byte
	hex.Encode(text[:8], id[:4])
	hex.Encode(text[9:13], id[4:6])
	hex.Encode(text[14:18], id[6:8])
	hex.Encode(text[19:23], id[8:10])
	hex.Encode(text[24:], id[10:])
	text[8], text[13], text[18], text[23] = '-', '-', '-', '-'
	return string(text[:])
}
