package audit

import (
	"encoding/json"
	"maps"
	"net/http"
	"slices"
	"strconv"

	authenticationv1 "k8s.io/api/authentication/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/keelson-io/keelson/jsondoc"
)

// This file prints events as JSON. Every recorded request prints two of them, so they are printed without reflection, byte for byte
// as encoding/json prints them. Statuses of failures, and what is embedded in an event, are left to encoding/json.

// usual is the length of most events, in bytes.
const usual = 1024

// encode returns the JSON of an event.
func encode(e *Event) ([]byte, error) {
	p := printer{b: make([]byte, 0, usual)}
	p.event(e)
	return p.b, p.err
}

// printer appends members of objects. The first error stays.
type printer struct {
	b   []byte
	err error
}

// name begins a member.
func (p *printer) name(s string) {
	if p.b[len(p.b)-1] != '{' {
		p.b = append(p.b, ',')
	}
	p.b = append(append(append(p.b, '"'), s...), '"', ':')
}

// text prints a member.
func (p *printer) text(name, value string) {
	p.name(name)
	p.b = jsondoc.AppendQuoted(p.b, value)
}

// some prints a member that is left out if it is empty.
func (p *printer) some(name, value string) {
	if value != "" {
		p.text(name, value)
	}
}

// list prints a member that is left out if it is empty.
func (p *printer) list(name string, values []string) {
	if len(values) == 0 {
		return
	}
	p.name(name)
	for i, value := range values {
		p.b = append(p.b, "[,"[min(i, 1)])
		p.b = jsondoc.AppendQuoted(p.b, value)
	}
	p.b = append(p.b, ']')
}

// any prints a member with encoding/json.
func (p *printer) any(name string, value any) {
	p.name(name)
	text, err := json.Marshal(value)
	if p.err == nil {
		p.err = err
	}
	p.b = append(p.b, text...)
}

func (p *printer) event(e *Event) {
	p.b = append(p.b, '{')
	p.some("kind", e.Kind)
	p.some("apiVersion", e.APIVersion)
	p.text("level", string(e.Level))
	p.text("auditID", string(e.AuditID))
	p.text("stage", string(e.Stage))
	p.text("requestURI", e.RequestURI)
	p.text("verb", e.Verb)
	p.user("user", &e.User)
	if e.ImpersonatedUser != nil {
		p.user("impersonatedUser", e.ImpersonatedUser)
	}
	if e.AuthenticationMetadata != nil {
		p.any("authenticationMetadata", e.AuthenticationMetadata)
	}
	p.list("sourceIPs", e.SourceIPs)
	p.some("userAgent", e.UserAgent)
	if e.ObjectRef != nil {
		p.reference(e.ObjectRef)
	}
	if e.ResponseStatus != nil {
		p.status(e.ResponseStatus)
	}
	if len(e.RequestObject) > 0 {
		p.any("requestObject", e.RequestObject)
	}
	if len(e.ResponseObject) > 0 {
		p.any("responseObject", e.ResponseObject)
	}
	p.time("requestReceivedTimestamp", e.RequestReceivedTimestamp)
	p.time("stageTimestamp", e.StageTimestamp)
	p.annotations(e.Annotations)
	p.b = append(p.b, '}')
}

func (p *printer) user(name string, u *authenticationv1.UserInfo) {
	p.name(name)
	p.b = append(p.b, '{')
	p.some("username", u.Username)
	p.some("uid", u.UID)
	p.list("groups", u.Groups)
	if len(u.Extra) > 0 {
		p.any("extra", u.Extra)
	}
	p.b = append(p.b, '}')
}

func (p *printer) reference(o *ObjectReference) {
	p.name("objectRef")
	p.b = append(p.b, '{')
	p.some("resource", o.Resource)
	p.some("namespace", o.Namespace)
	p.some("name", o.Name)
	p.some("uid", string(o.UID))
	p.some("apiGroup", o.APIGroup)
	p.some("apiVersion", o.APIVersion)
	p.some("resourceVersion", o.ResourceVersion)
	p.some("subresource", o.Subresource)
	p.b = append(p.b, '}')
}

// status prints the result of a request. That of a request that succeeded has a code only.
func (p *printer) status(s *metav1.Status) {
	if s.Code < http.StatusOK || s.Code >= http.StatusBadRequest || *s != (metav1.Status{Code: s.Code}) {
		p.any("responseStatus", s)
		return
	}
	p.name("responseStatus")
	p.b = append(p.b, `{"metadata":{},"code":`...)
	p.b = append(strconv.AppendInt(p.b, int64(s.Code), 10), '}')
}

// time prints a time in UTC with microseconds, and a zero time as null.
func (p *printer) time(name string, t metav1.MicroTime) {
	p.name(name)
	if t.IsZero() {
		p.b = append(p.b, "null"...)
		return
	}
	p.b = append(t.UTC().AppendFormat(append(p.b, '"'), metav1.RFC3339Micro), '"')
}

func (p *printer) annotations(a map[string]string) {
	if len(a) == 0 {
		return
	}
	p.name("annotations")
	p.b = append(p.b, '{')
	for _, key := range slices.Sorted(maps.Keys(a)) {
		if p.b[len(p.b)-1] != '{' {
			p.b = append(p.b, ',')
		}
		p.b = append(jsondoc.AppendQuoted(p.b, key), ':')
		p.b = jsondoc.AppendQuoted(p.b, a[key])
	}
	p.b = append(p.b, '}')
}
