package offline

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"

	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/keelson-io/keelson/crd"
	"github.com/keelson-io/keelson/internal/store"
	"github.com/keelson-io/keelson/kind"
	"github.com/keelson-io/keelson/schema"
)

// This file prepares requests.

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

// Do makes a request. It returns an error if it cannot answer: the document is not an object, its
// kind is unknown, or the answer depends on permissions and no roles are loaded. Even then, the
// Answer identifies the object, if that is known.
func (s *Server) Do(ctx context.Context, r *Request) (*Answer, error) {
	s.mu.RLock()
	q, err := s.prepare(r)
	if err == nil && s.isAlone(ctx, q) {
		defer s.mu.RUnlock()
		return &q.answer, s.send(ctx, q)
	}
	s.mu.RUnlock()
	if err != nil {
		return nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.do(ctx, r)
}

// do is Do for a caller that holds the lock for writing.
func (s *Server) do(ctx context.Context, r *Request) (answer *Answer, err error) {
	q, err := s.prepare(r)
	if err != nil {
		return nil, err
	}
	s.ensureNamespace(ctx, q)
	restore, err := s.arrange(ctx, q)
	defer func() { err = errors.Join(err, restore()) }()
	if err == nil {
		err = s.send(ctx, q)
	}
	return &q.answer, err
}

// isAlone reports whether the store is already as the request is to find it.
func (s *Server) isAlone(ctx context.Context, q *call) bool {
	k := q.answer.Version.Kind
	if q.operation != Create || len(q.Given) > 0 || k.Conversion != nil || q.answer.Namespace != "" && !s.ensured[q.answer.Namespace] {
		return false
	}
	_, err := s.store.Get(ctx, k.Key(q.answer.Namespace, q.answer.Name))
	return errors.Is(err, store.ErrNotFound)
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
	revision  string  // that stands in for the resource version of the object; "": none does
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
	if v := q.answer.Version; r.Subresource != "" && !v.Status {
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
		s.ensured[name] = s.parts.own.EnsureNamespace(ctx, name) == nil
	}
}

// arrange puts the objects of a request into the store. restore removes them, whatever the result
// of the request is.
func (s *Server) arrange(ctx context.Context, q *call) (restore func() error, err error) {
	var there []*placed
	restore = func() error {
		s.store.hidden = ""
		s.parts.guard.byRoles.Store(s.roles)
		var errs []error
		for i := len(there) - 1; i >= 0; i-- {
			errs = append(errs, s.takeBack(ctx, there[i]))
		}
		return errors.Join(append(errs, s.parts.settle(ctx, besides(q.stored, there)...))...)
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
		if err := q.setRevision(); err != nil {
			return restore, err
		}
	case Delete:
		if _, err := add(*q.Object); err != nil {
			return restore, err
		}
	}
	changed := besides(q.stored, there)
	if slices.ContainsFunc(changed, func(k *kind.Kind) bool { return k.Group == rbacv1.GroupName }) {
		s.parts.guard.byRoles.Store(true)
	}
	return restore, s.parts.settle(ctx, changed...)
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
