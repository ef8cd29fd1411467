// Package audit keeps a record of who asked for what, and what came of it.
//
// # Model
//
// A [Policy] says, rule by rule, which requests are recorded, how much of them,
// and at which stages. An [Auditor] evaluates it for every request; a request
// that is recorded has a [Record], which gathers what is to be known in an
// [Event] and hands that, at each stage, to a [Backend]: a log file, a webhook,
// or both. The types are those of audit.k8s.io/v1.
//
// # Invariants
//
//   - Without an Auditor, and for requests that no rule records, a Record is nil
//     and all that is called on it does nothing.
//   - A backend has taken an event, or refused it, when Process returns. It
//     does not keep the event.
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

	"github.com/keelson-io/keelson/authn"
	"github.com/keelson-io/keelson/authz"
)

// Backend keeps events.
type Backend interface {
	// Process keeps an event; it reports whether the request may go on, which
	// an event that could not be kept can prevent.
	Process(e *Event) bool
	// Close keeps what is still to be kept.
	Close() error
}

// Auditor records the requests of a server.
type Auditor struct {
	policy  *policy
	backend Backend
	logger  *slog.Logger
	metrics *Metrics
}

// NewAuditor returns an Auditor of a policy that has been validated.
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

// Record is what is recorded of one request. It belongs to the goroutine that
// serves the request. A nil Record records nothing.
type Record struct {
	auditor *Auditor
	rule    *rule
	event   Event
	long    bool
	started bool // the answer has begun
	took    []annotation
}

type annotation struct{ key, value string }

// Start decides whether and how a request is recorded. The user of the
// attributes may be nil: nobody could say who it is. Long requests, watches, are
// recorded when their answer begins, too.
func (a *Auditor) Start(r *http.Request, id string, received time.Time, attrs *authz.Attributes, long bool) *Record {
	if a == nil {
		return nil
	}
	rule := a.policy.find(attrs)
	a.metrics.levels[rule.level].Inc()
	if rule.level == None {
		return nil
	}
	rec := &Record{auditor: a, rule: rule, long: long}
	e := &rec.event
	e.Kind, e.APIVersion = "Event", "audit.k8s.io/v1"
	e.Level, e.AuditID = rule.level, types.UID(id)
	e.RequestReceivedTimestamp = metav1.NewMicroTime(received)
	e.Verb, e.RequestURI, e.UserAgent = attrs.Verb, r.URL.RequestURI(), userAgent(r)
	for _, ip := range utilnet.SourceIPs(r) {
		e.SourceIPs = append(e.SourceIPs, ip.String())
	}
	if attrs.User != nil {
		e.User = UserInfo(attrs.User)
	}
	if attrs.ResourceRequest {
		e.ObjectRef = &ObjectReference{Namespace: attrs.Namespace, Name: attrs.Name, Resource: attrs.Resource, Subresource: attrs.Subresource,
			APIGroup: attrs.Group, APIVersion: attrs.Version}
	}
	return rec
}

// maxUserAgent is how much of a user agent is recorded.
const maxUserAgent = 1024

func userAgent(r *http.Request) string {
	ua := r.UserAgent()
	if len(ua) > maxUserAgent {
		ua = ua[:maxUserAgent] + "...TRUNCATED"
	}
	return ua
}

// UserInfo is a user in the form of the API.
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

// Received records that the request came in; it reports whether the request may
// go on.
func (r *Record) Received() bool {
	if r == nil || r.process(RequestReceived) {
		return true
	}
	r.auditor.metrics.rejected.Inc()
	return false
}

// Annotate adds an annotation. Another value of one that is there already is
// logged and dropped.
func (r *Record) Annotate(key, value string) {
	if r == nil {
		return
	}
	if have, ok := r.event.Annotations[key]; ok {
		if have != value {
			r.auditor.logger.Warn("audit annotation is there already", "key", key, "value", have, "dropped", value, "id", r.event.AuditID)
		}
		return
	}
	if r.event.Annotations == nil {
		r.event.Annotations = map[string]string{}
	}
	r.event.Annotations[key] = value
}

// Took notes how long a part of serving took, for requests that turn out to be
// slow.
func (r *Record) Took(part string, d time.Duration) {
	if r != nil && d > 0 {
		r.took = append(r.took, annotation{"apiserver.latency.k8s.io/" + part, d.String()})
	}
}

// Impersonated records whom the request was taken to be from. The constraint is
// the verb of the mode that allowed it, "" for the legacy one.
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

// Level is how much is recorded of the request.
func (r *Record) Level() Level {
	if r == nil {
		return None
	}
	return r.rule.level
}

// Object is what is recorded of the object that a request sends.
type Object struct {
	Namespace, Name, UID, ResourceVersion string
}

// RequestObject records the object that the request sends: which one it is, and
// its JSON where the level has room for it. json is called only then.
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

func fill(to *string, from string) {
	if *to == "" {
		*to = from
	}
}

// RequestPatch records the patch that the request sends, which is JSON.
func (r *Record) RequestPatch(patch []byte) {
	if r != nil && r.rule.level.atLeast(Request) {
		r.event.RequestObject = embedded(slices.Clone(patch))
	}
}

// ResponseStatus records the Status that the request is answered with.
func (r *Record) ResponseStatus(s *metav1.Status) {
	if r == nil {
		return
	}
	r.event.ResponseStatus = &metav1.Status{Status: s.Status, Message: s.Message, Reason: s.Reason, Details: s.Details, Code: s.Code}
}

// ResponseObject records the object that the request is answered with, where the
// level has room for it.
func (r *Record) ResponseObject(json func() []byte) {
	if r != nil && r.rule.level.atLeast(RequestResponse) {
		r.event.ResponseObject = r.raw(json())
	}
}

// raw is JSON as it is recorded.
func (r *Record) raw(json []byte) []byte {
	if r.rule.omitManagedFields {
		json = withoutManagedFields(json)
	}
	return embedded(json)
}

// Code records that the answer begins, with a status code.
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

// slow is from how long on it is recorded what a request took its time for.
const slow = 500 * time.Millisecond

// Complete records that the request has been answered.
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
	r.process(ResponseComplete)
}

// Panicked records that serving the request panicked.
func (r *Record) Panicked(what any) {
	if r == nil {
		return
	}
	r.event.ResponseStatus = &metav1.Status{Code: http.StatusInternalServerError, Status: metav1.StatusFailure,
		Reason: metav1.StatusReasonInternalError, Message: panicText(what)}
	r.process(Panic)
}

// process hands the event to the backend, unless the stage is omitted.
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

// Close keeps what is still to be kept.
func (a *Auditor) Close() error {
	if a == nil {
		return nil
	}
	return a.backend.Close()
}

// Annotations are the annotations so far.
func (r *Record) Annotations() map[string]string {
	if r == nil {
		return nil
	}
	return maps.Clone(r.event.Annotations)
}
