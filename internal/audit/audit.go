// Package audit writes the audit log: who requested what, and with which result.
//
// # Model
//
// A [Policy] has rules that say which requests are recorded, at which level and stages. An
// [Auditor] evaluates it for every request. If the request is recorded, it gets a [Record], which
// collects the fields of an [Event] and passes the event, at each stage, to a [Backend]: a log
// file, a webhook, or both. The types are those of audit.k8s.io/v1.
//
// # Invariants
//
//   - Without an Auditor, and for requests that no rule records, the Record is
//     nil, and its methods do nothing.
//   - When Process returns, the backend has accepted or refused the event. It
//     does not refer to the event afterwards.
//   - The first value of an annotation stays.
//
// [LoadPolicy] reads a policy, [NewAuditor] makes the Auditor.
package audit

import (
	"log/slog"
	"maps"
	"net/http"
	"slices"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	authenticationv1 "k8s.io/api/authentication/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	utilnet "k8s.io/apimachinery/pkg/util/net"
	"k8s.io/apimachinery/pkg/util/uuid"

	"github.com/keelson-io/keelson/authz"
	"github.com/keelson-io/keelson/internal/authn"
)

// Backend writes events.
type Backend interface {
	// Process writes an event. It reports false if the event could not be written and the request
	// must not go on.
	Process(e *Event) bool
	// Close writes the events that wait, and releases the backend.
	Close() error
}

// Auditor records the requests of a server.
type Auditor struct {
	policy  *policy
	backend Backend
	logger  *slog.Logger
	metrics *Metrics
}

// NewAuditor returns an Auditor for a valid policy.
func NewAuditor(p *Policy, b Backend, m *Metrics, logger *slog.Logger) *Auditor {
	return &Auditor{policy: compile(p), backend: b, logger: logger, metrics: m}
}

// Metrics are the metrics of auditing, under upstream's names.
type Metrics struct {
	events   prometheus.Counter
	rejected prometheus.Counter
	errors   *prometheus.CounterVec
	levels   map[Level]prometheus.Counter
}

// NewMetrics registers the metrics.
func NewMetrics(reg prometheus.Registerer) *Metrics {
	levels := prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "apiserver_audit_level_total",
		Help: "[ALPHA] Counter of policy levels for audit events (1 per request).",
	}, []string{"level"})
	m := &Metrics{
		events: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "apiserver_audit_event_total",
			Help: "[ALPHA] Counter of audit events generated and sent to the audit backend.",
		}),
		rejected: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "apiserver_audit_requests_rejected_total",
			Help: "[ALPHA] Counter of apiserver requests rejected due to an error in audit logging backend.",
		}),
		errors: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "apiserver_audit_error_total",
			Help: "[ALPHA] Counter of audit events that failed to be audited properly. Plugin identifies the plugin affected by the error.",
		}, []string{"plugin"}),
		levels: map[Level]prometheus.Counter{},
	}
	reg.MustRegister(m.events, m.rejected, m.errors, levels)
	for _, l := range allLevels {
		m.levels[l] = levels.WithLabelValues(string(l))
	}
	return m
}

// Record collects the event of one request. It belongs to the goroutine that serves the request. A
// nil Record records nothing.
type Record struct {
	auditor *Auditor
	rule    *rule
	event   Event
	long    bool
	started bool // the response has begun
	took    []annotation
	later   func() []byte // returns the response object when it is recorded; nil: the event has it already
}

type annotation struct{ key, value string }

// Start evaluates the policy for a request. It returns nil if the request is not recorded. The user
// of the attributes is nil if authentication failed. long requests (watches) have the additional
// stage ResponseStarted.
func (a *Auditor) Start(r *http.Request, id string, received time.Time, attrs *authz.Attributes, long bool) *Record {
	rec := a.start(id, received, attrs)
	if rec == nil {
		return nil
	}
	rec.long = long
	e := &rec.event
	e.RequestURI, e.UserAgent = r.URL.RequestURI(), userAgent(r)
	for _, ip := range utilnet.SourceIPs(r) {
		e.SourceIPs = append(e.SourceIPs, ip.String())
	}
	return rec
}

// StartOwn begins the record of a request that a controller of the server makes. It has no source address; path is the one
// that a client would ask for.
func (a *Auditor) StartOwn(path, agent string, attrs *authz.Attributes) *Record {
	if a == nil {
		return nil
	}
	rec := a.start(string(uuid.NewUUID()), time.Now(), attrs)
	if rec != nil {
		rec.event.RequestURI, rec.event.UserAgent = path, agent
	}
	return rec
}

// start evaluates the policy.
func (a *Auditor) start(id string, received time.Time, attrs *authz.Attributes) *Record {
	if a == nil {
		return nil
	}
	rule := a.policy.find(attrs)
	a.metrics.levels[rule.level].Inc()
	if rule.level == None {
		return nil
	}
	rec := &Record{auditor: a, rule: rule}
	e := &rec.event
	e.Kind, e.APIVersion = "Event", "audit.k8s.io/v1"
	e.Level, e.AuditID, e.Verb = rule.level, types.UID(id), attrs.Verb
	e.RequestReceivedTimestamp = metav1.NewMicroTime(received)
	if attrs.User != nil {
		e.User = UserInfo(attrs.User)
	}
	if attrs.ResourceRequest {
		e.ObjectRef = &ObjectReference{Namespace: attrs.Namespace, Name: attrs.Name, Resource: attrs.Resource, Subresource: attrs.Subresource,
			APIGroup: attrs.Group, APIVersion: attrs.Version}
	}
	return rec
}

// maxUserAgent is the recorded length of a User-Agent header, in bytes.
const maxUserAgent = 1024

// userAgent returns the User-Agent header, shortened if it is long.
func userAgent(r *http.Request) string {
	ua := r.UserAgent()
	if len(ua) > maxUserAgent {
		ua = ua[:maxUserAgent] + "...TRUNCATED"
	}
	return ua
}

// UserInfo returns a user as the API's type.
func UserInfo(u *authn.User) authenticationv1.UserInfo {
	out := authenticationv1.UserInfo{Username: u.Name, UID: u.UID, Groups: u.Groups}
	for key, values := range u.Extra {
		if out.Extra == nil {
			out.Extra = make(map[string]authenticationv1.ExtraValue, len(u.Extra))
		}
		out.Extra[key] = authenticationv1.ExtraValue(values)
	}
	return out
}

// Received records the stage RequestReceived. It reports whether the request may go on.
func (r *Record) Received() bool {
	if r == nil || r.process(RequestReceived) {
		return true
	}
	r.auditor.metrics.rejected.Inc()
	return false
}

// Annotate adds an annotation. If the key exists with another value, the new value is logged and
// dropped.
func (r *Record) Annotate(key, value string) {
	if r == nil {
		return
	}
	if have, ok := r.event.Annotations[key]; ok {
		if have != value {
			r.auditor.logger.Warn("audit annotation exists already", "key", key, "value", have, "dropped", value, "id", r.event.AuditID)
		}
		return
	}
	if r.event.Annotations == nil {
		r.event.Annotations = map[string]string{}
	}
	r.event.Annotations[key] = value
}

// Took records the duration of a part of the request. The durations of slow requests become
// annotations.
func (r *Record) Took(part string, d time.Duration) {
	if r != nil && d > 0 {
		r.took = append(r.took, annotation{"apiserver.latency.k8s.io/" + part, d.String()})
	}
}

// Impersonated records the impersonated user. constraint is the verb that allowed the
// impersonation, "" for the verb impersonate.
func (r *Record) Impersonated(u *authn.User, constraint string) {
	if r == nil {
		return
	}
	info := UserInfo(u)
	r.event.ImpersonatedUser = &info
	if constraint != "" {
		r.event.AuthenticationMetadata = &AuthenticationMetadata{ImpersonationConstraint: constraint}
	}
}

// Level returns the level at which the request is recorded.
func (r *Record) Level() Level {
	if r == nil {
		return None
	}
	return r.rule.level
}

// Object identifies the object in a request body.
type Object struct {
	Namespace, Name, UID, ResourceVersion string
}

// RequestObject records the object of the request: its name, kind and the like, and its JSON if the
// level includes it. json is called only in that case.
func (r *Record) RequestObject(o Object, json func() []byte) {
	if r == nil {
		return
	}
	if ref := r.event.ObjectRef; ref != nil {
		fill(&ref.Namespace, o.Namespace)
		fill(&ref.Name, o.Name)
		fill(&ref.ResourceVersion, o.ResourceVersion)
		if ref.UID == "" {
			ref.UID = types.UID(o.UID)
		}
	}
	if r.rule.level.atLeast(Request) {
		r.event.RequestObject = r.raw(json())
	}
}

// fill sets *to unless it has a value.
func fill(to *string, from string) {
	if *to == "" {
		*to = from
	}
}

// RequestPatch records the patch of the request, which must be JSON.
func (r *Record) RequestPatch(patch []byte) {
	if r != nil && r.rule.level.atLeast(Request) {
		r.event.RequestObject = embedded(slices.Clone(patch))
	}
}

// ResponseStatus records a Status as the response.
func (r *Record) ResponseStatus(s *metav1.Status) {
	if r == nil {
		return
	}
	r.event.ResponseStatus = &metav1.Status{Status: s.Status, Message: s.Message, Reason: s.Reason, Details: s.Details, Code: s.Code}
}

// ResponseObject records the response object if the level includes it.
func (r *Record) ResponseObject(json func() []byte) {
	if r != nil && r.rule.level.atLeast(RequestResponse) {
		r.event.ResponseObject = r.raw(json())
	}
}

// ResponseLater is ResponseObject for large responses. json is called after the response was sent,
// so that the JSON is not kept in memory while a slow client reads. If there is nothing to record,
// ResponseLater does nothing.
func (r *Record) ResponseLater(json func() []byte) {
	if r != nil && r.rule.level.atLeast(RequestResponse) {
		r.later = json
	}
}

// raw returns JSON as it is recorded: without managed fields, if the rule says so.
func (r *Record) raw(json []byte) []byte {
	if r.rule.omitManagedFields {
		json = withoutManagedFields(json)
	}
	return embedded(json)
}

// Code records the beginning of the response with a status code.
func (r *Record) Code(code int) {
	if r == nil || r.started {
		return
	}
	r.started = true
	if r.event.ResponseStatus == nil {
		r.event.ResponseStatus = &metav1.Status{}
	}
	r.event.ResponseStatus.Code = int32(code)
	if r.long {
		r.process(ResponseStarted)
	}
}

// slow is the duration above which a request's durations are recorded as annotations.
const slow = 500 * time.Millisecond

// Complete records the stage ResponseComplete.
func (r *Record) Complete() {
	if r == nil {
		return
	}
	if r.event.ResponseStatus == nil {
		r.event.ResponseStatus = &metav1.Status{Code: http.StatusOK, Status: metav1.StatusSuccess, Message: "Connection closed early"}
		if r.long {
			r.process(ResponseStarted)
		}
	}
	if total := time.Since(r.event.RequestReceivedTimestamp.Time); total > slow && len(r.took) > 0 {
		for _, t := range r.took {
			r.Annotate(t.key, t.value)
		}
		r.Annotate("apiserver.latency.k8s.io/total", total.String())
	}
	if r.later != nil && !slices.Contains(r.rule.omit, ResponseComplete) {
		if json := r.later(); json != nil {
			r.event.ResponseObject = r.raw(json)
		}
	}
	r.process(ResponseComplete)
}

// Panicked records the stage Panic.
func (r *Record) Panicked(what any) {
	if r == nil {
		return
	}
	r.event.ResponseStatus = &metav1.Status{Code: http.StatusInternalServerError, Status: metav1.StatusFailure,
		Reason: metav1.StatusReasonInternalError, Message: panicText(what)}
	r.process(Panic)
}

// process passes the event to the backend, unless the rule omits the stage.
func (r *Record) process(s Stage) bool {
	if slices.Contains(r.rule.omit, s) {
		return true
	}
	e := &r.event
	e.Stage, e.StageTimestamp = s, e.RequestReceivedTimestamp
	if s != RequestReceived {
		e.StageTimestamp = metav1.NewMicroTime(time.Now())
	}
	r.auditor.metrics.events.Inc()
	return r.auditor.backend.Process(e)
}

// Close closes the backend.
func (a *Auditor) Close() error {
	if a == nil {
		return nil
	}
	return a.backend.Close()
}

// Annotations returns the annotations recorded so far.
func (r *Record) Annotations() map[string]string {
	if r == nil {
		return nil
	}
	return maps.Clone(r.event.Annotations)
}
