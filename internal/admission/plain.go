package admission

import (
	"context"
	"errors"
	"strings"

	"github.com/keelson-io/keelson/internal/meta"
	"github.com/keelson-io/keelson/internal/status"
)

// This file has the error of a refusing step, and the small plugins NamespaceExists, AlwaysDeny and
// NamespaceAutoProvision.

// NamespaceExists refuses writes and deletes in a namespace that does not exist. Servers that run
// without NamespaceLifecycle use it.
func NamespaceExists(n Namespaces) Validator { return exists{n} }

// exists is the plugin NamespaceExists.
type exists struct{ namespaces Namespaces }

// Validate implements Validator.
func (e exists) Validate(ctx context.Context, r *Request) error {
	if r.Namespace == "" || r.Version.Kind.GroupResource() == namespaces {
		return nil
	}
	state, err := e.namespaces.State(ctx, r.Namespace)
	if err == nil && state == NamespaceMissing {
		err = status.NotFound(namespaces, r.Namespace)
	}
	return err
}

// Forbidden returns the error of a step that refuses the request. If the object has no name, the
// error has its generateName.
func (r *Request) Forbidden(err error) *status.Error {
	name := r.Name
	if name == "" && r.New != nil {
		o := meta.Object{Doc: r.New}
		if name = strings.Clone(o.Name()); name == "" {
			name = strings.Clone(o.GenerateName())
		}
	}
	if name == "" {
		name = "Unknown"
	}
	return status.Forbidden(r.Version.Kind.GroupResource(), name, err)
}

// Func is a step without state of its own: a Mutator and a Validator.
type Func func(ctx context.Context, r *Request) error

// Mutate implements Mutator.
func (f Func) Mutate(ctx context.Context, r *Request) error { return f(ctx, r) }

// Validate implements Validator.
func (f Func) Validate(ctx context.Context, r *Request) error { return f(ctx, r) }

// server is the user of the server's own writes.
const server = "system:apiserver"

// AlwaysDeny refuses every request. The server's own writes pass: without them it would not start.
type AlwaysDeny struct{}

// HandlesConnect implements Connecting.
func (AlwaysDeny) HandlesConnect() {}

// Mutate implements Mutator.
func (d AlwaysDeny) Mutate(ctx context.Context, r *Request) error { return d.Validate(ctx, r) }

// Validate implements Validator.
func (AlwaysDeny) Validate(_ context.Context, r *Request) error {
	if r.User.Name == server {
		return nil
	}
	return r.Forbidden(errors.New("admission control is denying all modifications"))
}

// NamespaceAutoProvision creates the namespace of a new object, by the function ensure, if it does
// not exist.
func NamespaceAutoProvision(n Namespaces, ensure func(ctx context.Context, name string) error) Func {
	return func(ctx context.Context, r *Request) error {
		if r.Operation != Create || r.DryRun || r.Namespace == "" || r.Version.Kind.IsNamespaces() {
			return nil
		}
		exists, err := n.Exists(ctx, r.Namespace)
		if err == nil && !exists {
			err = ensure(ctx, r.Namespace)
		}
		if err != nil {
			return r.Forbidden(err)
		}
		return nil
	}
}
