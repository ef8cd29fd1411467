// Package admission runs the admission steps between the decoding of a write and its storage.
//
// # Model
//
// A [Chain] passes every write, as a [Request], through its steps. First each [Mutator] may change
// the new object. After validation each [Validator] may refuse it. The first error ends the
// request.
//
// Requests to connect, such as those for the subresource exec of pods, pass the steps that are [Connecting].
//
// A later step may change what an earlier step has already seen. A step therefore reports with
// [Rounds.Asked] that it changed the object. The chain then runs all mutators once more, in the
// second and last round, in which each step decides which of its webhooks or policies it calls
// again.
//
// [NamespaceLifecycle] runs by default, as do most admission plugins of kube-apiserver. Webhooks and policies, in the packages
// below this one, are others; package match decides which requests they match. A chain counts and
// times its steps under the names of kube-apiserver's admission plugins ([Metrics]).
//
// # Invariants
//
//   - After Mutate, the object is pruned and defaulted. A step that replaces
//     the object decodes it again, which prunes and defaults it. A step that
//     changes it with [Request.Edit] leaves a complete object.
//   - Mutators see what the client sent, except for metadata that only the server sets. The members that the endpoint does not write
//     get their old values after them, before validation.
//   - Validate changes nothing.
package admission

import (
	"context"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/keelson-io/keelson/internal/authn"
	"github.com/keelson-io/keelson/internal/meta"
	"github.com/keelson-io/keelson/jsondoc"
	"github.com/keelson-io/keelson/kind"
)

// Operation is what a request does to an object.
type Operation string

// The operations, as webhooks and policies name them.
const (
	Create Operation = "CREATE"
	Update Operation = "UPDATE"
	Delete Operation = "DELETE"
	// Connect is a request that is forwarded to a pod, to a node or to the pods of a service. New has the options of the connection.
	Connect Operation = "CONNECT"
)

// Request is a write before it is stored, or a connection before it is made.
type Request struct {
	Operation   Operation
	Version     *kind.Version
	Subresource string
	Namespace   string
	Name        string       // "" while a name is yet to be generated
	New         *jsondoc.Doc // nil for Delete
	Old         *jsondoc.Doc // nil for Create
	User        *authn.User
	DryRun      bool
	// Named is true if the URL has the object's name, which a POST does not.
	Named bool

	Write  *meta.WriteOptions  // nil for Delete and Connect
	Delete *meta.DeleteOptions // nil for other operations

	// Foreign is set for a subresource whose kind differs from the object's, such as Scale. New and Old are of this kind.
	Foreign *Foreign
	Client  Client // nil: warnings and annotations are dropped

	round   int
	changed bool        // a step changed the object in this round
	notes   map[any]any // state of steps, by the step's key; see Rounds
	mutated bool        // a step changed the object in any round
	managed []byte      // managedFields before the first change; nil if there were none
	typed   *typedObjects
}

// Foreign is the kind of New and Old if it is not that of Version.
type Foreign struct {
	Kind schema.GroupVersionKind
	// Take decodes JSON of this kind into a document.
	Take func(d *jsondoc.Doc, text []byte) error
}

// Host is the access of steps to the server.
type Host interface {
	Namespaces
	// Read decodes the stored object into a Go value. It returns the state after all acknowledged
	// writes. It reports false if the object does not exist.
	Read(ctx context.Context, resource schema.GroupResource, namespace, name string, into any) (bool, error)
	// Overlay merges an apply configuration into live and returns the merged object as JSON.
	Overlay(v *kind.Version, live *jsondoc.Doc, config []byte) ([]byte, error)
}

// Client receives the messages of steps for the sender of a request and for the audit log.
type Client interface {
	// Warn adds warnings to the answer.
	Warn(warnings ...string)
	// Annotate adds an audit annotation.
	Annotate(key, value string)
	// AnnotateRequest adds an audit annotation if the audit event contains the request.
	AnnotateRequest(key, value string)
}

// Round returns 0 in the first round of mutators and 1 in the second.
func (r *Request) Round() int { return r.round }

// Warn adds warnings to the answer.
func (r *Request) Warn(warnings ...string) {
	if r.Client != nil {
		r.Client.Warn(warnings...)
	}
}

// Annotate adds an audit annotation.
func (r *Request) Annotate(key, value string) {
	if r.Client != nil {
		r.Client.Annotate(key, value)
	}
}

// AnnotateRequest adds an audit annotation if the audit event contains the request.
func (r *Request) AnnotateRequest(key, value string) {
	if r.Client != nil {
		r.Client.AnnotateRequest(key, value)
	}
}

// Mutator is a step that may change r.New. It may refuse r as well.
type Mutator interface {
	Mutate(ctx context.Context, r *Request) error
}

// Validator is a step that may refuse r, and changes nothing.
type Validator interface {
	Validate(ctx context.Context, r *Request) error
}

// Chain holds the admission steps in order. A nil Chain admits every request.
type Chain struct {
	metrics *Metrics // nil: steps are not measured
	mutate  []timed[Mutator]
	// last runs after all mutators. It is not measured, because it is not a plugin.
	last []Mutator
	// first runs before all other validators. It is not measured, either.
	first    []Validator
	validate []timed[Validator]
	// plans has the steps, in order, of resources with steps of their own.
	plans map[schema.GroupResource]*plan
}

// Connecting marks a step that handles requests to connect. All other steps handle only writes.
type Connecting interface{ HandlesConnect() }

// timed is a step with its metrics, nil if they are not measured.
type timed[S any] struct {
	step     S
	times    *times
	connects bool // the step handles requests to connect
}

// handles reports whether the step handles a request.
func (s *timed[S]) handles(r *Request) bool { return s.connects || r.Operation != Connect }

// newTimed returns a step of a plugin.
func newTimed[S any](c *Chain, plugin string, p phase, step S) timed[S] {
	_, connects := any(step).(Connecting)
	return timed[S]{step, c.metrics.plugin(plugin, p), connects}
}

// NewChain returns a chain without steps. If metrics is nil, it measures nothing.
func NewChain(metrics *Metrics) *Chain { return &Chain{metrics: metrics} }

// Mutates adds a mutator, measured under the name of its admission plugin.
func (c *Chain) Mutates(plugin string, s Mutator) {
	step := newTimed(c, plugin, admit, s)
	c.mutate = append(c.mutate, step)
	for _, p := range c.plans {
		p.mutate = append(p.mutate, step)
	}
}

// Validates adds a validator, measured under the name of its admission plugin.
func (c *Chain) Validates(plugin string, s Validator) {
	step := newTimed(c, plugin, validate, s)
	c.validate = append(c.validate, step)
	for _, p := range c.plans {
		p.validate = append(p.validate, step)
	}
}

// Finally adds a mutator that runs after all others.
func (c *Chain) Finally(s Mutator) { c.last = append(c.last, s) }

// First adds a validator that runs before all others.
func (c *Chain) First(s Validator) { c.first = append(c.first, s) }

// Mutate runs all mutators, and runs them again if one changed the object and asks for it.
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
	if r.Operation == Connect {
		return nil
	}
	r.keepManagedFields()
	for _, s := range c.last {
		if err := s.Mutate(ctx, r); err != nil {
			return err
		}
	}
	return nil
}

// rounds runs the one or two rounds of mutators.
func (c *Chain) rounds(ctx context.Context, r *Request, watch *watch) error {
	steps := c.mutate
	if p := c.plan(r); p != nil {
		steps = p.mutate
	}
	r.Forget()
	for r.round = 0; r.round < 2; r.round++ {
		r.changed = false
		for i := range steps {
			s := &steps[i]
			if !s.handles(r) {
				continue
			}
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

// Validate runs all validators.
func (c *Chain) Validate(ctx context.Context, r *Request) (err error) {
	if c == nil {
		return nil
	}
	for _, s := range c.first {
		if r.Operation == Connect {
			break
		}
		if err := s.Validate(ctx, r); err != nil {
			return err
		}
	}
	steps := c.validate
	if p := c.plan(r); p != nil {
		steps = p.validate
	}
	r.Forget()
	watch := c.metrics.watch(r.Operation)
	for i := range steps {
		s := &steps[i]
		if !s.handles(r) {
			continue
		}
		err = s.step.Validate(ctx, r)
		watch.one(s.times, err)
		if err != nil {
			break
		}
	}
	watch.all(validate, err)
	return err
}
