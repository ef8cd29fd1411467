package admission

import (
	"context"
	"strings"

	"github.com/keelson-io/keelson/meta"
	"github.com/keelson-io/keelson/status"
)

// This file has the smallest step, and the error of a refusing step.

// NamespaceExists refuses writes and deletes in a namespace that does not exist. Servers that run
// without NamespaceLifecycle use it.
func NamespaceExists(n Namespaces) Validator { return exists{n} }

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
