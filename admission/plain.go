package admission

import (
	"context"
	"strings"

	"github.com/keelson-io/keelson/meta"
	"github.com/keelson-io/keelson/status"
)

// This file has a step that looks at next to nothing of a request, and what the
// refusals of steps have in common.

// NamespaceExists refuses to write into, and to delete from, a namespace that
// does not exist. It is a part of what NamespaceLifecycle does, for servers
// that run without that.
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

// forbidden is the refusal of a step. An object without a name goes by what its
// name is to be generated from.
func (r *Request) forbidden(err error) *status.Error {
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
