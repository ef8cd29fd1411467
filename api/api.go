// Package api serves the Kubernetes API over net/http.
//
// # Model
//
// A [Handler] answers every request. Each request passes the same [steps], read
// from top to bottom, the last of which finds what serves it: a fixed path
// (health, version, discovery, …) or a verb on a resource. Every verb has its
// file: get.go, list.go, watch.go, create.go, update.go, patch.go, delete.go,
// deletecollection.go; subresources that are more than a part of their object
// have one, too: scale.go.
//
// What a request works with is a [kind.Version], looked up once in a snapshot of
// the registry. Reads serve the bytes that the cache holds, they decode
// nothing. Writes turn the body into a doc, once, and print it once (write.go).
//
// # Invariants
//
//   - A handler answers by returning an error or by calling send once. Errors
//     become a Status at one place, [request.fail].
//   - No request takes a lock of this package.
//   - A write that changes nothing is not written.
//   - A read without a resource version is as new as every write acknowledged
//     before it began.
package api

import (
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"net/url"
	"runtime/debug"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/keelson-io/keelson/admission"
	"github.com/keelson-io/keelson/api/discovery"
	"github.com/keelson-io/keelson/api/impersonation"
	"github.com/keelson-io/keelson/api/openapi"
	"github.com/keelson-io/keelson/audit"
	"github.com/keelson-io/keelson/authn"
	"github.com/keelson-io/keelson/authz"
	"github.com/keelson-io/keelson/cache"
	"github.com/keelson-io/keelson/kind"
	"github.com/keelson-io/keelson/status"
	"github.com/keelson-io/keelson/store"
)

// Config is what a Handler works with. Kinds, Store and Cache are required.
type Config struct {
	Kinds *kind.Registry
	Store store.Store
	Cache *cache.Cache

	Authn     authn.Authenticator // nil: everybody is anonymous
	Audiences []string            // what a credential has to be good for, if it knows audiences
	Tokens    Tokens              // of service accounts
	Authz     authz.Authorizer    // nil: authz.Standard()
	Admission Admission           // nil: nothing but the life cycle of namespaces
	Checks    []Check             // of the server's health, besides ping
	Snapshot  Snapshot            // nil: /snapshot is not there
	Claimer   Claimer             // gives services their addresses; nil: they keep what they are created with

	// AwaitDecisions waits, for a bounded time, until what decides about requests knows what was written to objects at a
	// revision; writers are answered after that. nil: nothing is decided by what is stored.
	AwaitDecisions func(ctx context.Context, objects *cache.Resource, rev int64)

	// CatchUp waits, for a bounded time, until what decides about requests and what is served know every write that other servers have
	// acknowledged. It is called before a request is refused, or told that something is not there. nil: there are no others.
	CatchUp func(ctx context.Context)

	Audit   *audit.Auditor       // nil: nothing is recorded
	Metrics *prometheus.Registry // nil: one of its own
	Logger  *slog.Logger         // nil: slog.Default()
	Version Version              // what /version says; the zero value says what this program is

	Timeout       time.Duration // of requests other than watches; 0: 60 s
	WatchTimeout  time.Duration // least duration of a watch that does not name one; 0: 30 min
	BookmarkEvery time.Duration // between a watch's bookmarks; 0: 60 s

	// How many requests are served at a time, watches not counted; 0: 400 reads
	// and 200 writes; negative: no limit.
	MaxReads, MaxWrites int
}

// Admission makes the steps that writes go through.
type Admission func(h admission.Host) *admission.Chain

// Handler serves the API.
type Handler struct {
	Config
	admission *admission.Chain
	logger    *slog.Logger
	metrics   *metrics
	discovery http.Handler
	openapi   http.Handler
	health    *health
	version   []byte

	impersonator *impersonation.Impersonator

	managers managers
	kinds    kindWatch

	reads, writes inFlight
	messages      sync.Map // *kind.Version to *messages

	stopping context.Context // ends when watches are to end
	stop     context.CancelFunc
}

// New returns the handler of a server. It is at work until Stop.
func New(c Config) *Handler {
	h := &Handler{Config: c, logger: c.Logger}
	h.stopping, h.stop = context.WithCancel(context.Background())
	if h.logger == nil {
		h.logger = slog.Default()
	}
	if h.Authn == nil {
		h.Authn = authn.Standard(authn.Anybody)
	}
	if h.Authz == nil {
		h.Authz = authz.Standard()
	}
	if h.Config.Metrics == nil {
		h.Config.Metrics = prometheus.NewRegistry()
	}
	if h.Timeout == 0 {
		h.Timeout = time.Minute
	}
	if h.WatchTimeout == 0 {
		h.WatchTimeout = 30 * time.Minute
	}
	if h.BookmarkEvery == 0 {
		h.BookmarkEvery = time.Minute
	}
	h.reads.most, h.writes.most = limitOf(c.MaxReads, defaultReads), limitOf(c.MaxWrites, defaultWrites)
	h.admission = h.steps()
	h.metrics = newMetrics(h.Config.Metrics)
	h.discovery = discovery.New(c.Kinds.Load)
	h.openapi = openapi.New(c.Kinds.Load)
	h.health = newHealth(c.Checks)
	h.version = c.Version.json()
	h.impersonator = impersonation.New(impersonation.Config{Authz: h.Authz, Forbidden: forbidden, Metrics: h.Config.Metrics})
	h.kinds.load, h.kinds.changed = c.Kinds.Load, c.Kinds.Changed
	go h.kinds.run(h.stopping)
	return h
}

// Stop makes the server not ready and ends all watches in good order. Other
// requests go on.
func (h *Handler) Stop() {
	h.health.stop()
	h.stop()
}

// step is one thing that happens to every request. A step that answers the
// request itself returns true.
type step struct {
	name string
	do   func(q *request) (done bool, err error)
}

// steps is what happens to every request, in order.
var steps = []step{
	{"audit id", auditID},
	{"request info", requestInfo},
	{"authentication", authenticate},
	{"audit", record},
	{"impersonation", impersonate},
	{"requests in flight", limit},
	{"authorization", authorize},
	{"deadline", deadline},
	{"dispatch", dispatch},
}

// request is one request on its way through the steps.
type request struct {
	info
	h *Handler
	w http.ResponseWriter
	r *http.Request

	ctx    context.Context
	cancel context.CancelFunc // nil while there is no deadline
	query  url.Values
	user   *authn.User
	accept accept
	began  time.Time

	authenticated authentication

	audit    *audit.Record // nil: nothing is recorded
	stranger bool          // the sender is not known

	attrs   authz.Attributes // what was asked of the authorizers
	decided authz.Result     // what they said

	kind *kind.Kind
	v    *kind.Version
	res  *cache.Resource

	admitted bool              // it is a part of another request, which admission has seen
	written  []byte            // what a write is answered with, if that is printed already
	sound    bool              // nothing was forgiven when what is written was validated
	before   *cache.View       // of the object that a change starts from; nil if it is not known
	spent    uint64            // what its rules cost then
	grown    bool              // what is written gets defaults when it is read: a part of it is new that nothing filled in
	claimed  func(stored bool) // says what became of what was claimed, see claim.go; nil: nothing was
	warnings []string
	code     int // of the answer, 0 before it began
	long     bool
	counted  *inFlight // where the request counts, nil: nowhere
}

var requests = sync.Pool{New: func() any { return new(request) }}

// ServeHTTP implements http.Handler.
func (h *Handler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	start := time.Now()
	q := requests.Get().(*request)
	*q = request{h: h, w: w, r: r, ctx: r.Context(), began: start}
	defer q.finish(start)
	for i := range steps {
		done, err := steps[i].do(q)
		if err != nil {
			q.fail(err)
			return
		}
		if done {
			return
		}
	}
}

// finish ends a request, also one that panicked.
func (q *request) finish(start time.Time) {
	p := recover()
	if q.cancel != nil {
		q.cancel()
	}
	if q.counted != nil {
		q.counted.now.Add(-1)
	}
	if p != nil {
		if p == http.ErrAbortHandler {
			panic(http.ErrAbortHandler)
		}
		q.audit.Panicked(p)
		q.audit = nil
		q.h.logger.Error("request panicked", "method", q.r.Method, "path", q.r.URL.Path, "panic", p, "stack", string(debug.Stack()))
		if q.code != 0 {
			panic(http.ErrAbortHandler) // the client must not take half an answer for a whole one
		}
		q.fail(status.Internal(fmt.Errorf("this request caused the server to panic")))
	}
	if !q.stranger {
		q.audit.Complete()
	}
	q.h.metrics.observe(q, start)
	*q = request{}
	requests.Put(q)
}

// noCache is set on every answer that does not say otherwise.
var noCache = []string{"no-cache, private"}

// auditID names the request, by the client's name for it if there is one.
func auditID(q *request) (bool, error) {
	h := q.w.Header()
	if id := q.r.Header["Audit-Id"]; len(id) > 0 && id[0] != "" {
		h["Audit-Id"] = id[:1]
	} else {
		h["Audit-Id"] = []string{newAuditID()}
	}
	h["Cache-Control"] = noCache
	return false, nil
}

// requestInfo reads off the URL what is asked for.
func requestInfo(q *request) (bool, error) {
	if q.r.URL.RawQuery != "" {
		q.query = q.r.URL.Query()
	}
	q.info = parseInfo(q.r, q.query)
	q.long = q.longRunning()
	return false, nil
}

// longRunning reports whether a request may go on for as long as its client
// likes: watches, snapshots, and what others serve for pods.
func (in *info) longRunning() bool {
	switch in.subresource {
	case "attach", "exec", "proxy", "log", "portforward":
		return true
	}
	return in.verb == "watch" || in.verb == "proxy" || in.path == snapshotPath
}

// writeTimeout is how long a write may take at most, webhooks included.
const writeTimeout = 34 * time.Second

// deadline limits how long the request may take, unless it is long-running.
func deadline(q *request) (bool, error) {
	if q.long {
		return false, nil
	}
	limit := q.h.Timeout
	switch q.verb {
	case "create", "update", "patch", "delete", "deletecollection":
		limit = min(limit, writeTimeout)
	}
	if text := q.query.Get("timeout"); text != "" {
		d, err := time.ParseDuration(text)
		if err != nil {
			return false, status.BadRequest("invalid timeout specified in the request URL - %s", err)
		}
		if d > 0 && d < limit {
			limit = d
		}
	}
	q.ctx, q.cancel = context.WithTimeout(q.ctx, limit)
	return false, nil
}
