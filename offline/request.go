package offline

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"

	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	utilnet "k8s.io/apimachinery/pkg/util/net"

	"github.com/keelson-io/keelson/crd"
	"github.com/keelson-io/keelson/kind"
	"github.com/keelson-io/keelson/meta"
	"github.com/keelson-io/keelson/schema"
	"github.com/keelson-io/keelson/server"
	"github.com/keelson-io/keelson/status"
)

// This file sends requests to the server.

// The operations.
const (
	Create = "CREATE"
	Update = "UPDATE"
	Delete = "DELETE"
)

// Request is a request to the server.
type Request struct {
	// Operation is Create, Update or Delete; "" means Update if there is an old object, otherwise
	// Create.
	Operation string
	Object    *Document // the new object; for Delete, the object to delete
	Old       *Document // the stored object; for Update only
	// Given are objects that exist for this request only.
	Given []Document

	Namespace       string // of objects that name none; "" stands for default
	Subresource     string // that is updated: "" or status
	FieldValidation string // of unknown and duplicate fields: Strict, Warn or Ignore; "" stands for Warn
	User            *User  // nil means an administrator
	Explain         bool   // say why rules refuse the object
	VerdictOnly     bool   // the Answer needs no Object, which saves time
	// Validated, if not nil, receives each object that is validated, before Do returns. The objects are
	// valid until it returns.
	Validated func(v *kind.Version, o schema.Validated)
}

// User is the user of a request. Groups that all users have, or that follow from the name, are
// added.
type User struct {
	Name   string              `json:"name"`
	UID    string              `json:"uid,omitempty"`
	Groups []string            `json:"groups,omitempty"`
	Extra  map[string][]string `json:"extra,omitempty"`
}

// Answer is the server's answer.
type Answer struct {
	Version         *kind.Version
	Namespace, Name string // of the object; Namespace is "" in cluster scope
	// Object is the stored object as JSON; nil if the request was refused, was a Delete, or needs no object.
	Object   []byte
	Refusal  *metav1.Status // nil if the request was accepted
	Warnings []string
	// Reasons say why rules refused the object, if the request asked for it.
	Reasons []schema.Reason
	// Annotations are the audit annotations of policies.
	Annotations map[string]string
}

// Do sends a request. It returns an error if there is no answer: the document is not an object, its
// kind is unknown, or the answer depends on permissions and no roles are loaded. In this case, the
// Answer identifies the object, if that is known.
func (s *Server) Do(ctx context.Context, r *Request) (*Answer, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.do(ctx, r)
}

// do is Do for a caller that holds the lock.
func (s *Server) do(ctx context.Context, r *Request) (answer *Answer, err error) {
	q, err := s.prepare(r)
	if err != nil {
		return nil, err
	}
	s.ensureNamespace(ctx, q)
	restore, err := s.arrange(ctx, q)
	defer func() { err = errors.Join(err, restore()) }()
	if err == nil && !s.tryCreate(ctx, q) {
		err = s.send(ctx, q)
	}
	return &q.answer, err
}

// tryCreate makes a create without HTTP, which is more than twice as fast. ok is false if the
// request must be sent: see [server.Local.TryCreate].
func (s *Server) tryCreate(ctx context.Context, q *call) (ok bool) {
	if q.operation != Create || q.User != nil || q.Validated != nil || s.alwaysSend {
		return false
	}
	s.unused = nil
	s.local.Asked()
	var object []byte
	to := &object
	if q.VerdictOnly {
		to = nil
	}
	if !s.local.TryCreate(ctx, q.answer.Version, q.answer.Namespace, q.Object.JSON, q.fieldValidation(), to) || s.local.Asked() != "" || len(s.unused) > 0 {
		return false
	}
	q.answer.Object = object
	q.duplicates()
	return true
}

// fieldValidation returns how unknown and duplicate fields are treated.
func (q *call) fieldValidation() string { return cmp.Or(q.FieldValidation, "Warn") }

// call is a request in progress.
type call struct {
	*Request
	operation string
	head      *head
	answer    Answer
	stored    *placed // the old object in the store
}

// prepare determines the object and the operation of a request.
func (s *Server) prepare(r *Request) (*call, error) {
	q := &call{Request: r, operation: r.Operation}
	switch {
	case q.operation == "" && r.Old != nil:
		q.operation = Update
	case q.operation == "":
		q.operation = Create
	case !slices.Contains([]string{Create, Update, Delete}, q.operation):
		return nil, fmt.Errorf("operation: got %q, want CREATE, UPDATE or DELETE", q.operation)
	}
	switch {
	case q.operation == Update && r.Old == nil:
		return nil, errors.New("operation UPDATE: there is no old object")
	case q.operation != Update && r.Old != nil:
		return nil, fmt.Errorf("operation %s: there is an old object, which only UPDATE has", q.operation)
	case q.operation != Update && r.Subresource != "":
		return nil, fmt.Errorf("subresource: only updates are made to one, and this is a %s", q.operation)
	case r.Subresource != "" && r.Subresource != "status":
		return nil, fmt.Errorf("subresource: got %q, want status or none", r.Subresource)
	case !slices.Contains([]string{"", "Strict", "Warn", "Ignore"}, r.FieldValidation):
		return nil, fmt.Errorf("fieldValidation: got %q, want Strict, Warn or Ignore", r.FieldValidation)
	}
	var err error
	if q.head, err = headOf(*r.Object); err != nil {
		return nil, err
	}
	if q.answer.Version, err = s.find(q.head); err != nil {
		return nil, err
	}
	if v := q.answer.Version; r.Subresource != "" && !v.Kind.Behavior.IsBuiltin && !v.Status {
		return nil, fmt.Errorf("subresource: version %s of kind %s has no status subresource", v.Name, v.Kind.Name)
	}
	q.answer.Name = q.head.Name
	if q.answer.Version.Kind.Namespaced {
		q.answer.Namespace = q.head.namespace(r.Namespace)
	}
	return q, nil
}

// ensureNamespace creates the namespace of an object, unless its name is invalid: the server
// reports that.
func (s *Server) ensureNamespace(ctx context.Context, q *call) {
	if name := q.answer.Namespace; name != "" && !s.ensured[name] {
		s.ensured[name] = s.local.EnsureNamespace(ctx, name) == nil
	}
}

// arrange puts the objects of a request into the store. restore removes them, whatever the result
// of the request is.
func (s *Server) arrange(ctx context.Context, q *call) (restore func() error, err error) {
	var there []*placed
	restore = func() error {
		s.store.hidden = ""
		s.local.ByRoles(s.roles)
		var errs []error
		for i := len(there) - 1; i >= 0; i-- {
			errs = append(errs, s.takeBack(ctx, there[i]))
		}
		return errors.Join(append(errs, s.local.Settle(ctx, besides(q.stored, there)...))...)
	}
	add := func(d Document) (*placed, error) {
		p, err := s.put(ctx, d, q.Namespace)
		if err == nil {
			there = append(there, p)
		}
		return p, err
	}
	for _, d := range q.Given {
		p, err := add(d)
		if err != nil {
			return restore, fmt.Errorf("given object %s: %w", d, err)
		}
		if p.version.Kind.StoragePrefix == crd.Prefix {
			return restore, fmt.Errorf("given object %s: a definition cannot be there for one request only", d)
		}
	}
	switch q.operation {
	case Create:
		s.store.hidden = q.answer.Version.Kind.Key(q.answer.Namespace, q.answer.Name)
	case Update:
		if q.stored, err = add(*q.Old); err != nil {
			return restore, fmt.Errorf("the old object: %w", err)
		}
		if q.stored.version.Kind != q.answer.Version.Kind {
			return restore, fmt.Errorf("the old object is a %s, the new one a %s", q.stored.version.Kind.Name, q.answer.Version.Kind.Name)
		}
		if was, is := q.stored.version, q.answer.Version; was != is && is.Kind.Conversion != nil {
			return restore, fmt.Errorf("the old object is in version %s, the new one in %s, and a webhook converts them, which is not called: give both in one version", was.Name, is.Name)
		}
		old, _ := headOf(*q.Old)
		q.answer.Name = old.Name
	case Delete:
		if _, err := add(*q.Object); err != nil {
			return restore, err
		}
	}
	changed := besides(q.stored, there)
	if slices.ContainsFunc(changed, func(k *kind.Kind) bool { return k.Group == rbacv1.GroupName }) {
		s.local.ByRoles(true)
	}
	return restore, s.local.Settle(ctx, changed...)
}

// besides returns the kinds of the objects in the store, except for the old object, on which
// nothing else depends.
func besides(old *placed, there []*placed) []*kind.Kind {
	var out []*kind.Kind
	for _, p := range there {
		if p != old {
			out = append(out, p.version.Kind)
		}
	}
	return out
}

// send sends the request.
func (s *Server) send(ctx context.Context, q *call) error {
	r, err := s.request(ctx, q)
	if err != nil {
		return err
	}
	w := &reply{header: http.Header{}}
	s.notes, s.unused = nil, nil
	s.validated = q.Validated
	defer func() { s.validated = nil }()
	s.local.Asked()
	s.local.ServeHTTP(w, r)
	if user := s.local.Asked(); user != "" {
		return fmt.Errorf("what %s may do decides about this (a policy asks the authorizer, or a role is written), "+
			"and only roles and bindings say so: there are none among the files", user)
	}
	a := &q.answer
	warnings, _ := utilnet.ParseWarningHeaders(w.header["Warning"])
	for _, warning := range warnings {
		a.Warnings = append(a.Warnings, warning.Text)
	}
	a.Warnings = append(a.Warnings, s.unused...)
	a.Annotations = byPolicies(s.notes)
	if w.code < 400 {
		if q.operation != Delete && !q.VerdictOnly {
			a.Object = w.body.Bytes()
		}
	} else {
		a.Refusal = new(metav1.Status)
		if json.Unmarshal(w.body.Bytes(), a.Refusal) != nil || a.Refusal.Message == "" {
			*a.Refusal = status.BadRequest("%s", strings.TrimSpace(w.body.String())).Status
			a.Refusal.Code = int32(w.code)
		}
		if err := a.takeReasons(); err != nil {
			return err
		}
	}
	q.duplicates()
	return nil
}

// takeReasons moves the explanations from the refusal to Reasons: the refusal is what a client gets
// that did not ask for them.
func (a *Answer) takeReasons() error {
	if a.Refusal.Details == nil {
		return nil
	}
	var causes []metav1.StatusCause
	for _, c := range a.Refusal.Details.Causes {
		if c.Type != status.CauseExplanation {
			causes = append(causes, c)
			continue
		}
		r := schema.Reason{Field: c.Field}
		if err := json.Unmarshal([]byte(c.Message), &r.Explanation); err != nil {
			return fmt.Errorf("explanation: %w", err)
		}
		a.Reasons = append(a.Reasons, r)
	}
	a.Refusal.Details.Causes = causes
	return nil
}

// duplicates adds the duplicate keys of a YAML text, which the server cannot see in the converted
// JSON.
func (q *call) duplicates() {
	a, notes := &q.answer, q.Object.Duplicates
	if len(notes) == 0 || q.operation == Delete {
		return
	}
	switch q.FieldValidation {
	case "", "Warn":
		a.Warnings = append(slices.Clone(notes), a.Warnings...)
	case "Strict":
		const strict = "strict decoding error: "
		all := strings.Join(notes, ", ")
		if a.Refusal != nil {
			if _, more, ok := strings.Cut(a.Refusal.Message, strict); ok {
				all += ", " + more
			}
		}
		name := a.Version.Kind.Name
		a.Refusal = &status.BadRequest("%s in version %q cannot be handled as a %s: %s%s", name, a.Version.Name, name, strict, all).Status
		a.Object = nil
	}
}

// request returns the HTTP request.
func (s *Server) request(ctx context.Context, q *call) (*http.Request, error) {
	v := q.answer.Version
	path := "/apis/" + v.Kind.Group + "/" + v.Name
	if v.Kind.Group == "" {
		path = "/api/" + v.Name
	}
	if q.answer.Namespace != "" {
		path += "/namespaces/" + url.PathEscape(q.answer.Namespace)
	}
	path += "/" + v.Kind.Plural
	method, body := http.MethodPost, q.Object.JSON
	if q.operation != Create {
		path += "/" + url.PathEscape(q.answer.Name)
	}
	switch q.operation {
	case Update:
		method = http.MethodPut
		old, err := headOf(*q.Old)
		if err != nil {
			return nil, err
		}
		// The resource version of the text stands for that of the stored object.
		if q.head.ResourceVersion == "" || q.head.ResourceVersion == old.ResourceVersion {
			body = withVersion(body, q.stored.rev)
		}
	case Delete:
		method, body = http.MethodDelete, nil
	}
	if q.Subresource != "" {
		path += "/" + q.Subresource
	}
	query := url.Values{"dryRun": {metav1.DryRunAll}}
	if q.Explain && q.operation != Delete {
		query.Set(meta.ExplainParameter, meta.ExplainJSON)
	}
	if q.operation != Delete {
		query.Set("fieldValidation", q.fieldValidation())
	}
	r, err := http.NewRequestWithContext(ctx, method, path+"?"+query.Encode(), bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	r.RequestURI = r.URL.RequestURI()
	r.Header = http.Header{"Content-Type": {"application/json"}, "Accept": {"application/json"}, "User-Agent": {server.LocalAgent}}
	q.User.ask(r.Header)
	return r, nil
}

// ask sets the headers that impersonate the user.
func (u *User) ask(h http.Header) {
	if u == nil {
		return
	}
	h.Set("Impersonate-User", u.Name)
	if u.UID != "" {
		h.Set("Impersonate-Uid", u.UID)
	}
	h["Impersonate-Group"] = u.Groups
	for key, values := range u.Extra {
		h[http.CanonicalHeaderKey("Impersonate-Extra-"+url.PathEscape(key))] = values
	}
}

// byPolicies returns the annotations of policies.
func byPolicies(all map[string]string) map[string]string {
	var out map[string]string
	for key, value := range all {
		owner, _, _ := strings.Cut(key, "/")
		switch owner {
		case "authorization.k8s.io", "authentication.k8s.io", "apiserver.latency.k8s.io":
			continue
		}
		if out == nil {
			out = map[string]string{}
		}
		out[key] = value
	}
	return out
}

// reply records the answer of the server.
type reply struct {
	header http.Header
	code   int
	body   bytes.Buffer
}

// Header implements http.ResponseWriter.
func (w *reply) Header() http.Header { return w.header }

// WriteHeader implements http.ResponseWriter.
func (w *reply) WriteHeader(code int) {
	if w.code == 0 {
		w.code = code
	}
}

// Write implements http.ResponseWriter.
func (w *reply) Write(p []byte) (int, error) {
	w.WriteHeader(http.StatusOK)
	return w.body.Write(p)
}
