// Package admission is the seam between a write that is well-formed and one
// that is let in.
//
// # Model
//
// A [Chain] of steps sees every write, as a [Request]: first each [Mutator] may
// change the new object, later, when the object is valid, each [Validator] may
// refuse it. The first error ends the request.
//
// What a later step changes an earlier one may want to see: a step that changed
// the object says so by [Rounds.Asked], and the chain runs all mutators once
// more, in the second and last round. Steps decide by themselves whom they ask
// again.
//
// [NamespaceLifecycle] is the step every server has. Webhooks and policies, in
// the packages below this one, are others; which requests they are for is
// decided by package match. A chain counts and times its steps by the names of
// kube-apiserver's admission plugins ([Metrics]).
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
	// Named is set if the URL names the object: not when one is posted.
	Named bool

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

// Mutator is a step that may change r.New, or refuse r before anything else has
// changed it.
type Mutator interface {
	Mutate(ctx context.Context, r *Request) error
}

// Validator is a step that may refuse r; it changes nothing.
type Validator interface {
	Validate(ctx context.Context, r *Request) error
}

// Chain is the steps of admission in their order. A nil Chain admits everything.
type Chain struct {
	metrics *Metrics // nil: nobody counts
	mutate  []timed[Mutator]
	// last run when all mutators have, uncounted: they are no plugins.
	last []Mutator
	// first run before all other validators, uncounted likewise.
	first    []Validator
	validate []timed[Validator]
}

// timed is a step and the times it takes; nil if nobody counts.
type timed[S any] struct {
	step  S
	times *times
}

// NewChain makes a chain without steps. It counts them if metrics is not nil.
func NewChain(metrics *Metrics) *Chain { return &Chain{metrics: metrics} }

// Mutates adds a step by the name of the admission plugin that it is.
func (c *Chain) Mutates(plugin string, s Mutator) {
	c.mutate = append(c.mutate, timed[Mutator]{s, c.metrics.plugin(plugin, admit)})
}

// Validates adds a step by the name of the admission plugin that it is.
func (c *Chain) Validates(plugin string, s Validator) {
	c.validate = append(c.validate, timed[Validator]{s, c.metrics.plugin(plugin, validate)})
}

// Finally adds a step that sees what all mutators made of an object.
func (c *Chain) Finally(s Mutator) { c.last = append(c.last, s) }

// First adds a step that may refuse before the plugins do.
func (c *Chain) First(s Validator) { c.first = append(c.first, s) }

// Mutate lets every step change the new object, twice if one of them did.
func (c *Chain) Mutate(ctx context.Context, r *Request) error {
	if c == nil {
		return nil
	}
	watch := c.metrics.watch(r.Operation)
	err := c.rounds(ctx, r, &watch)
	watch.all(admit, err)
	if err != nil {
		return err
	}
	r.keepManagedFields()
	for _, s := range c.last {
		if err := s.Mutate(ctx, r); err != nil {
			return err
		}
	}
	return nil
}

func (c *Chain) rounds(ctx context.Context, r *Request, watch *watch) error {
	for r.round = 0; r.round < 2; r.round++ {
		r.changed = false
		for i := range c.mutate {
			s := &c.mutate[i]
			err := s.step.Mutate(ctx, r)
			watch.one(s.times, err)
			if err != nil {
				return err
			}
		}
		if !r.changed {
			break
		}
	}
	return nil
}

// Validate lets every step refuse the request.
func (c *Chain) Validate(ctx context.Context, r *Request) (err error) {
	if c == nil {
		return nil
	}
	for _, s := range c.first {
		if err := s.Validate(ctx, r); err != nil {
			return err
		}
	}
	watch := c.metrics.watch(r.Operation)
	for i := range c.validate {
		s := &c.validate[i]
		err = s.step.Validate(ctx, r)
		watch.one(s.times, err)
		if err != nil {
			break
		}
	}
	watch.all(validate, err)
	return err
}
