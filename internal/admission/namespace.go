package admission

import (
	"context"
	"errors"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/keelson-io/keelson/internal/meta"
	"github.com/keelson-io/keelson/internal/status"
)

// This file checks that the namespace of an object exists and accepts it.

// NamespaceState decides which objects a namespace accepts.
type NamespaceState uint8

// The states of a namespace.
const (
	NamespaceMissing NamespaceState = iota
	NamespaceActive
	NamespaceTerminating // being deleted: no new objects
)

// Namespaces gives NamespaceLifecycle access to namespaces.
type Namespaces interface {
	// State returns the state of a namespace after all acknowledged writes.
	State(ctx context.Context, name string) (NamespaceState, error)
	// Exists reports whether a namespace exists. The answer false is current; the answer true may
	// be outdated.
	Exists(ctx context.Context, name string) (bool, error)
	// Namespace returns a namespace as it is served. If it does not exist, it returns an error.
	Namespace(ctx context.Context, name string) (*meta.View, error)
}

var namespaces = schema.GroupResource{Resource: "namespaces"}

// localReviews are allowed in any namespace: a refusal would tell whether it exists.
var localReviews = schema.GroupResource{Group: "authorization.k8s.io", Resource: "localsubjectaccessreviews"}

// NamespaceLifecycle refuses creates in a namespace that does not exist or is being deleted, and
// deletes of the namespaces that always exist. Updates are allowed: an object whose namespace was
// lost must be able to lose its finalizers.
func NamespaceLifecycle(n Namespaces) Mutator { return lifecycle{n} }

// lifecycle is the plugin NamespaceLifecycle.
type lifecycle struct{ namespaces Namespaces }

// Mutate changes nothing. It is a mutator because upstream refuses before other steps change the
// object; if a request has several mistakes, this decides which error the client sees.
func (l lifecycle) Mutate(ctx context.Context, r *Request) error {
	k := r.Version.Kind
	if k.GroupResource() == namespaces {
		if r.Operation == Delete && immortal(r.Name) {
			return status.Forbidden(namespaces, r.Name, errors.New("this namespace may not be deleted"))
		}
		return nil
	}
	if r.Namespace == "" || r.Operation != Create || k.GroupResource() == localReviews {
		return nil
	}
	switch state, err := l.namespaces.State(ctx, r.Namespace); {
	case err != nil:
		return err
	case state == NamespaceMissing:
		return status.NotFound(namespaces, r.Namespace)
	case state == NamespaceTerminating:
		return terminating(r)
	}
	return nil
}

// immortal reports whether a namespace cannot be deleted.
func immortal(name string) bool {
	switch name {
	case metav1.NamespaceDefault, metav1.NamespaceSystem, metav1.NamespacePublic:
		return true
	}
	return false
}

// terminating returns the error for a create in a namespace that is being deleted, with upstream's
// cause.
func terminating(r *Request) error {
	err := r.Forbidden(
		fmt.Errorf("unable to create new content in namespace %s because it is being terminated", r.Namespace))
	err.Details.Causes = append(err.Details.Causes, metav1.StatusCause{
		Type:    corev1.NamespaceTerminatingCause,
		Message: fmt.Sprintf("namespace %s is being terminated", r.Namespace),
		Field:   "metadata.namespace",
	})
	return err
}
