package suite

import (
	"context"
	"errors"
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/keelson-io/keelson/internal/coverage"
	"github.com/keelson-io/keelson/internal/manifest"
	"github.com/keelson-io/keelson/kind"
	"github.com/keelson-io/keelson/offline"
	"github.com/keelson-io/keelson/schema"
)

// This file runs requests for single objects.

// Kinds are the kinds of some definitions and the built-in ones, with the policies and roles that
// decide about their objects. They are safe for concurrent use. Close them after use.
type Kinds struct{ server *offline.Server }

// User is the user of a request. Groups that all users have, or that follow from the name, are
// added.
type User = offline.User

// Options describe a request. The zero value is a request of an administrator in the namespace
// default.
type Options struct {
	Namespace       string // of objects that name none; "" stands for default
	FieldValidation string // of unknown and duplicate fields: Strict, Warn or Ignore; "" stands for Warn
	Subresource     string // that an update is made to: "" or status
	User            *User  // nil means an administrator, a member of system:masters
	Explain         bool   // say why rules refuse an object
	// Given are objects, YAML or JSON, that exist during this request: parameters of policies,
	// namespaces with labels, roles.
	Given [][]byte
}

// Outcome is the answer to a request.
type Outcome struct {
	// Object is the stored object as JSON, in the version of the request, pruned and defaulted. It
	// is nil if the object was refused or deleted.
	Object []byte
	// Errors are the errors of fields, and the denials of policies, which have no field.
	Errors []metav1.StatusCause
	// Refusal is the Status that the client would get; nil if the object is accepted.
	Refusal  *metav1.Status
	Warnings []string
	// AuditAnnotations are the annotations that policies add to the audit event.
	AuditAnnotations map[string]string
	// Reasons say why rules refused the object, if Options.Explain is set.
	Reasons []schema.Reason
}

// NewKinds loads texts, YAML or JSON: definitions, policies and bindings, roles, namespaces, and
// parameter objects. It returns an error for an object that a server would refuse. Without texts,
// only the built-in kinds are known.
func NewKinds(texts ...[]byte) (*Kinds, error) {
	var docs []manifest.Document
	for _, text := range texts {
		docs = append(docs, manifest.Split("text", text)...)
	}
	return newKinds(docs)
}

func newKinds(docs []manifest.Document) (*Kinds, error) {
	ctx := context.Background()
	server, err := offline.Open(ctx)
	if err != nil {
		return nil, err
	}
	refused, added, err := server.Add(ctx, docs)
	switch {
	case err != nil:
	case len(refused) > 0:
		err = errors.New(refused[0].Answer.Refusal.Message)
	case added == 0 && len(docs) > 0:
		err = errors.New("nothing that decides about objects: no definition, policy, role or namespace")
	}
	if err != nil {
		return nil, errors.Join(err, server.Close())
	}
	return &Kinds{server}, nil
}

// Close frees everything.
func (k *Kinds) Close() error { return k.server.Close() }

// Create requests the creation of an object, YAML or JSON. It returns an error if there is no
// answer: the text is not an object, its kind is unknown, or a policy checks a permission and no
// roles are loaded.
func (k *Kinds) Create(ctx context.Context, object []byte, o Options) (*Outcome, error) {
	return k.ask(ctx, offline.Create, object, nil, o, nil)
}

// Update requests the change of initial to updated. initial need not be valid, because definitions
// change.
func (k *Kinds) Update(ctx context.Context, initial, updated []byte, o Options) (*Outcome, error) {
	return k.ask(ctx, offline.Update, updated, initial, o, nil)
}

// Delete requests the deletion of an object.
func (k *Kinds) Delete(ctx context.Context, object []byte, o Options) (*Outcome, error) {
	return k.ask(ctx, offline.Delete, object, nil, o, nil)
}

// ask makes a request. cover collects what it reaches, unless it is nil.
func (k *Kinds) ask(ctx context.Context, operation string, object, old []byte, o Options, cover *coverage.Recorder) (*Outcome, error) {
	r := &offline.Request{Operation: operation, Namespace: o.Namespace, Subresource: o.Subresource, FieldValidation: o.FieldValidation, User: o.User, Explain: o.Explain}
	var err error
	if r.Object, err = one(object); err != nil {
		return nil, err
	}
	if old != nil {
		if r.Old, err = one(old); err != nil {
			return nil, fmt.Errorf("initial: %w", err)
		}
	}
	for _, text := range o.Given {
		d, err := one(text)
		if err != nil {
			return nil, fmt.Errorf("given: %w", err)
		}
		r.Given = append(r.Given, *d)
	}
	if cover != nil {
		cover.Begin(r.Object.JSON)
		r.Validated = func(v *kind.Version, o schema.Validated) { cover.Validated(ctx, v, o) }
	}
	a, err := k.server.Do(ctx, r)
	if err != nil {
		return nil, err
	}
	out := &Outcome{Object: a.Object, Refusal: a.Refusal, Warnings: a.Warnings, AuditAnnotations: a.Annotations, Reasons: a.Reasons}
	if a.Refusal != nil && a.Refusal.Details != nil {
		out.Errors = a.Refusal.Details.Causes
	}
	return out, nil
}

// one returns the only document of a text.
func one(text []byte) (*manifest.Document, error) {
	docs := manifest.Split("object", text)
	if len(docs) != 1 {
		return nil, fmt.Errorf("got %d documents, want one object", len(docs))
	}
	return &docs[0], docs[0].Err
}
