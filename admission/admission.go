// Package admission is the seam between a write that is well-formed and one
// that is let in.
//
// # Model
//
// A [Chain] of [Step]s sees every write, as a [Request]: first all of them may
// change the new object (Mutate), later, when the object is valid, all of them
// may refuse it (Validate). The first error ends the request.
//
// What a later step changes an earlier one may want to see: a step that changed
// the object says so by [Rounds.Asked], and the chain runs all Mutates once more,
// in the second and last round. Steps decide by themselves whom they ask again.
//
// [NamespaceLifecycle] is the step every server has. Webhooks and policies, in
// the packages below this one, are others; which requests they are for is
// decided by package match.
//
// # Invariants
//
//   - After Mutate the object is what a read would return: a step that changes
//     it decodes it again, which prunes and defaults it.
//   - Validate changes nothing.
package admission

import (
	"context"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/keelson-io/keelson/authn"
	"github.com/keelson-io/keelson/doc"
	"github.com/keelson-io/keelson/kind"
	"github.com/keelson-io/keelson/meta"
)

// Operation is what a write does to an object.
type Operation string

// The operations, as webhooks and policies name them.
const (
	Create Operation = "CREATE"
	Update Operation = "UPDATE"
	Delete Operation = "DELETE"
)

// Request is a write on its way to the store.
type Request struct {
	Operation   Operation
	Version     *kind.Version
	Subresource string
	Namespace   string
	Name        string   // "" while a name is yet to be generated
	New         *doc.Doc // nil on delete
	Old         *doc.Doc // nil on create
	User        *authn.User
	DryRun      bool

	Write  *meta.WriteOptions  // nil on delete
	Delete *meta.DeleteOptions // nil on other operations

	// Foreign is set for a subresource that has a kind of its own.
	Foreign *Foreign
	Client  Client // nil: nobody is told

	round   int
	changed bool        // in this round
	notes   map[any]any // by step
	mutated bool        // in any round
	managed []byte      // managedFields before that; nil if there were none
}

// Foreign is how the object of a subresource stands for the whole object.
type Foreign struct {
	Kind schema.GroupVersionKind
	// Text is what the subresource shows of an object, as JSON.
	Text func(d *doc.Doc) ([]byte, error)
	// Take changes an object to what the subresource's JSON says.
	Take func(d *doc.Doc, text []byte) error
}

// Host is what steps need of the server.
type Host interface {
	Namespaces
	// Overlay merges an apply configuration into an object of a version and
	// returns the merged object as JSON.
	Overlay(v *kind.Version, live *doc.Doc, config []byte) ([]byte, error)
}

// Client is told of what happens to a request.
type Client interface {
	// Warn tells whoever sent the request.
	Warn(warnings ...string)
	// Annotate adds to the audit log.
	Annotate(key, value string)
	// AnnotateRequest adds to the audit log if it has what was sent, too.
	AnnotateRequest(key, value string)
}

// Round is 1 when the steps are asked to mutate for the second time, else 0.
func (r *Request) Round() int { return r.round }

// Warn tells whoever sent the request.
func (r *Request) Warn(warnings ...string) {
	if r.Client != nil {
		r.Client.Warn(warnings...)
	}
}

// Annotate adds to the audit log.
func (r *Request) Annotate(key, value string) {
	if r.Client != nil {
		r.Client.Annotate(key, value)
	}
}

// AnnotateRequest adds to the audit log if it has what was sent, too.
func (r *Request) AnnotateRequest(key, value string) {
	if r.Client != nil {
		r.Client.AnnotateRequest(key, value)
	}
}

// Step takes part in admission.
type Step interface {
	// Mutate may change r.New.
	Mutate(ctx context.Context, r *Request) error
	// Validate may refuse r; it changes nothing.
	Validate(ctx context.Context, r *Request) error
}

// Chain runs steps in order. A nil Chain admits everything.
type Chain []Step

// Mutate lets every step change the new object, twice if one of them did.
func (c Chain) Mutate(ctx context.Context, r *Request) error {
	for r.round = 0; r.round < 2; r.round++ {
		r.changed = false
		for _, s := range c {
			if err := s.Mutate(ctx, r); err != nil {
				return err
			}
		}
		if !r.changed {
			break
		}
	}
	r.keepManagedFields()
	return nil
}

// Validate lets every step refuse the request.
func (c Chain) Validate(ctx context.Context, r *Request) error {
	for _, s := range c {
		if err := s.Validate(ctx, r); err != nil {
			return err
		}
	}
	return nil
}
