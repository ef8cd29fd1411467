// Package admission is the seam between a write that is well-formed and one
// that is let in.
//
// A [Chain] of [Step]s sees every write: first all of them may change the new
// object (Mutate), later, when the object is valid, all of them may refuse it
// (Validate). The first error ends the request.
//
// [NamespaceLifecycle] is the step every server has.
package admission

import (
	"context"

	"github.com/keelson-io/keelson/authn"
	"github.com/keelson-io/keelson/doc"
	"github.com/keelson-io/keelson/kind"
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

// Mutate lets every step change the new object.
func (c Chain) Mutate(ctx context.Context, r *Request) error {
	for _, s := range c {
		if err := s.Mutate(ctx, r); err != nil {
			return err
		}
	}
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
