// Package api serves the Kubernetes API over net/http.
//
// # Model
//
// A [Handler] answers every request. Each request passes the same [steps], read from top to bottom,
// the last of which finds its handler: a fixed path (health, version, discovery, …) or a verb on a
// resource. Every verb has its file: get.go, list.go, watch.go, create.go, update.go, patch.go,
// delete.go, deletecollection.go. A subresource with a behavior of its own has a file, too: scale.go,
// evict.go, token.go, podplaces.go, connect.go.
//
// What a request works with is a [kind.Version], looked up once in a snapshot of
// the registry. Reads serve the bytes that the cache holds, they decode
// nothing. Writes decode the options and the body, call a verb of package
// objects, and answer with its outcome (outcome.go).
//
// # Invariants
//
//   - A handler answers by returning an error or by calling send once. Errors
//     become a Status at one place, [request.fail].
//   - A small read takes no lock of this package. Budgets and quotas take one.
//   - A read without a resource version is as new as every write acknowledged
//     before it began.
package api

import (
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"runtime/debug"
	"strings"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/keelson-io/keelson/authz"
	"github.com/keelson-io/keelson/internal/api/admit"
	"github.com/keelson-io/keelson/internal/api/discovery"
	"github.com/keelson-io/keelson/internal/api/encoding"
	"github.com/keelson-io/keelson/internal/api/health"
	"github.com/keelson-io/keelson/internal/api/impersonation"
	"github.com/keelson-io/keelson/internal/api/metrics"
	"github.com/keelson-io/keelson/internal/api/program"
	"github.com/keelson-io/keelson/internal/api/refusal"
	"github.com/keelson-io/keelson/internal/api/served"
	"github.com/keelson-io/keelson/internal/api/stream"
	"github.com/keelson-io/keelson/internal/api/zpages"
	"github.com/keelson-io/keelson/internal/audit"
	"github.com/keelson-io/keelson/internal/authn"
	"github.com/keelson-io/keelson/internal/cache"
	"github.com/keelson-io/keelson/internal/flow"
	"github.com/keelson-io/keelson/internal/memory"
	"github.com/keelson-io/keelson/internal/objects"
	"github.com/keelson-io/keelson/internal/openapi"
	"github.com/keelson-io/keelson/internal/poison"
	"github.com/keelson-io/keelson/internal/status"
	"github.com/keelson-io/keelson/kind"
)

// Config is what a Handler works with. Objects is required.
type Config struct {
	Objects *objects.Verbs

	Authn     authn.Authenticator // nil: everybody is anonymous
	Audiences []string            // what a credential has to be good for, if it knows audiences
	Tokens    Tokens              // of service accounts
	Authz     authz.Authorizer    // nil: authz.Standard()
	Checks    []health.Check      // of the server's health, besides ping
	Snapshot  Snapshot            // nil: /snapshot is not there

	// CatchUp waits, for a bounded time, until the rules for requests and the served kinds are as
	// new as every write that other servers have acknowledged. It is called before a request is
	// refused, or answered with not found. nil: there are no other servers.
	CatchUp func(ctx context.Context)

	// BeforeMetrics drops stale series before /metrics is answered. If nil, SweepMetrics is called.
	BeforeMetrics func()

	Audit   *audit.Auditor       // nil: nothing is recorded
	Memory  *memory.Governor     // nil: the memory has no limit
	Metrics *prometheus.Registry // nil: one of its own
	Logger  *slog.Logger         // nil: slog.Default()
	Version program.Version      // the answer of /version; empty fields have the values of this program
	Flags   map[string]string    // of the command line, with their values, for /flagz

	DisableProfiling bool // /debug/pprof is not there
	FreshReads       bool // reads at resource version 0 are as those without one: as new as the last write, and lists keep to their limit

	// Timeout is the longest duration of requests other than watches; 0: 60 s. Limits for reading
	// and writing of HTTP are up to the server below.
	Timeout       time.Duration
	WatchTimeout  time.Duration // least duration of a watch that does not name one; 0: 30 min
	BookmarkEvery time.Duration // between a watch's bookmarks; 0: 60 s

	// How many requests are served at a time, watches not counted; 0: 400 reads
	// and 200 writes; negative: no limit.
	MaxReads, MaxWrites int

	// Flow decides which requests are served when, in place of MaxReads and MaxWrites. nil: they do.
	Flow *flow.Controller
}

// Handler serves the API.
type Handler struct {
	Config
	Kinds     *kind.Registry
	Cache     *cache.Cache
	logger    *slog.Logger
	metrics   *metrics.Set
	discovery http.Handler
	openapi   *openapi.Handler
	health    *health.Endpoints
	version   []byte
	started   time.Time

	impersonator *impersonation.Impersonator
	refusals     *refusal.Log

	served *served.Kinds

	limits *admit.Limits

	stopping context.Context // ends when watches are to end
	stop     context.CancelFunc
}

// New returns the handler of a server. It is at work until Stop.
func New(c Config) *Handler {
	h := &Handler{Config: c, Kinds: c.Objects.Kinds, Cache: c.Objects.Cache, logger: c.Logger}
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
	h.limits = admit.New(admit.Config{Memory: h.Memory, Shares: h.Memory.Shares(), Flow: h.Flow, Reads: h.MaxReads, Writes: h.MaxWrites,
		Timeout: h.Timeout, Logger: h.logger})
	h.metrics = metrics.New(h.Config.Metrics)
	h.refusals = refusal.New(h.logger)
	h.discovery = discovery.New(h.Kinds.Load)
	h.openapi = openapi.New(h.Kinds.Load)
	h.health = health.New(c.Checks, h.logger)
	h.version, h.started = c.Version.JSON(), time.Now()
	h.impersonator = impersonation.New(impersonation.Config{Authz: h.Authz, Forbidden: (*authz.Attributes).Forbidden, Metrics: h.Config.Metrics})
	h.served = served.New(h.Kinds.Load, h.Kinds.Changed)
	go h.served.Run(h.stopping, h.logger)
	return h
}

// Stop makes the server not ready and ends all watches in good order. Other
// requests go on.
func (h *Handler) Stop() {
	h.health.Stop()
	h.stop()
}

// step is one thing that happens to every request. With an error, it is the last one.
type step struct {
	name string
	do   func(q *request) error
}

// steps is what happens to every request, in order.
var steps = []step{
	{"audit id", auditID},
	{"request info", requestInfo},
	{"large headers", countHeaders},
	{"authentication", authenticate},
	{"connection", admitConnection},
	{"audit", beginRecord},
	{"impersonation", impersonate},
	{"large headers of a user", countUsersHeaders},
	{"unread answers", countUnread},
	{"deadline", deadline},
	{"requests in flight", limit},
	{"authorization", authorize},
	{"long-running", admitLongRunning},
	{"dispatch", dispatch},
}

// request is one request on its way through the steps. Each part is set by the steps that its type names, and read by later ones.
type request struct {
	info     // what the URL asks for
	identity // the user, and what the user may do
	endpoint // what serves it
	record   // what is recorded of it
	answered // what has been answered

	h *Handler
	w http.ResponseWriter // of the answer; wrapped by those who count or cut it
	r *http.Request

	ctx    context.Context    // ends with the client and at the deadline
	cancel context.CancelFunc // nil while there is no deadline
	accept encoding.Answer    // how the answer is encoded: negotiated by each verb
	began  time.Time          // when the request came
	holds  admit.Holding      // what it holds of the server until the end
	cut    *stream.Cutter     // of a long-running answer; nil if it has none
}

// identity is who sent a request, and what that user may do: the steps authentication, impersonation and authorization.
type identity struct {
	user          *authn.User      // nil until it is known
	authenticated authentication   // what came of it besides the user
	stranger      bool             // the sender is not known
	attrs         authz.Attributes // what was asked of the authorizers
	decided       authz.Result     // their decision
}

// endpoint is the kind that a request is about: the step dispatch. All are nil if nothing serves the request.
type endpoint struct {
	kind *kind.Kind
	v    *kind.Version
	res  *cache.Resource // the objects of the kind
}

// record is the audit record of a request: the step audit.
type record struct {
	audit     *audit.Record // nil: nothing is recorded
	recording *admit.Room   // for the record; nil if it gets no body
}

// answered is the part of the answer that is known before it is sent.
type answered struct {
	warnings []string // in the order of the headers
	code     int      // 0 before it began
}

var requests = sync.Pool{New: func() any { return new(request) }}

// release gives back what the request holds.
func (q *request) release() {
	q.holds.Release()
	if q.cut != nil {
		q.cut.End()
	}
}

// ServeHTTP implements http.Handler.
func (h *Handler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	start := time.Now()
	q := requests.Get().(*request)
	*q = request{h: h, w: w, r: r, ctx: r.Context(), began: start}
	h.limits.Begin(&q.holds, r)
	defer q.finish(start)
	for i := range steps {
		if err := steps[i].do(q); err != nil {
			q.fail(err)
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
	q.release()
	answer := q.holds.Taker()
	if p != nil && answer != nil {
		defer answer.Drop()
	}
	if p != nil {
		if p == http.ErrAbortHandler {
			q.complete()
			panic(http.ErrAbortHandler)
		}
		q.audit.Panicked(p)
		q.audit = nil
		q.h.logger.Error("request panicked", "method", q.r.Method, "path", q.r.URL.Path, "panic", p, "stack", string(debug.Stack()))
		if q.code != 0 {
			panic(http.ErrAbortHandler) // the client must not mistake half an answer for a whole one
		}
		q.fail(status.Internal(fmt.Errorf("this request caused the server to panic")))
	}
	q.complete()
	q.observe(start)
	if p == nil && answer == nil {
		answer = q.lateAnswer()
	}
	*q = request{}
	if !poison.On {
		requests.Put(q)
	}
	if p == nil && answer != nil {
		answer.End()
	}
}

// complete ends the request's audit record.
func (q *request) complete() {
	if !q.stranger {
		q.audit.Took("apf-queue-wait", q.holds.Waited())
		q.audit.Complete()
		q.recording.Leave()
	}
}

// noCache is the Cache-Control of answers that do not set another one.
var noCache = []string{"no-cache, private"}

// auditID names the request, by the client's name for it if there is one.
func auditID(q *request) error {
	h := q.w.Header()
	if id := q.r.Header["Audit-Id"]; len(id) > 0 && id[0] != "" {
		h["Audit-Id"] = id[:1]
	} else {
		h["Audit-Id"] = []string{newAuditID()}
	}
	h["Cache-Control"] = noCache
	return nil
}

// requestInfo reads off the URL what is asked for.
func requestInfo(q *request) error {
	q.info = parseInfo(q.r)
	return nil
}

// longRunning reports whether a request may go on for as long as its client
// likes: watches, snapshots, and what others serve for pods.
func (in *info) longRunning() bool {
	switch in.subresource {
	case "attach", "exec", "proxy", "log", "portforward":
		return true
	}
	return in.verb == "watch" || in.verb == "proxy" || in.snapshot || !in.resource && strings.HasPrefix(in.path, zpages.Profiles)
}

// writeTimeout is the longest duration of a write, webhooks included.
const writeTimeout = 34 * time.Second

// deadline limits the duration of the request, unless it is long-running.
func deadline(q *request) error {
	if q.long {
		return nil
	}
	limit := q.h.Timeout
	wait := limit / admit.QueueWait
	if q.row != nil && q.row.writes {
		limit = min(limit, writeTimeout)
	}
	if text := q.query.Get("timeout"); text != "" {
		d, err := time.ParseDuration(text)
		if err != nil {
			return status.BadRequest("invalid timeout specified in the request URL - %s", err)
		}
		if d > 0 && d < limit {
			limit = d
		}
		if d > 0 {
			wait = min(wait, d/admit.QueueWait)
		}
	}
	q.holds.SetQueueWait(wait)
	q.ctx, q.cancel = context.WithTimeout(q.ctx, limit)
	return nil
}
