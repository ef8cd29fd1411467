package admission

import (
	"context"
	"errors"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/keelson-io/keelson/cache"
	"github.com/keelson-io/keelson/status"
)

// This file keeps objects and their namespaces together.

// NamespaceState is what a namespace allows.
type NamespaceState uint8

// The states of a namespace.
const (
	NamespaceMissing NamespaceState = iota
	NamespaceActive
	NamespaceTerminating // nothing new may be created in it
)

// Namespaces answers about namespaces.
type Namespaces interface {
	// State is the state of a namespace, as new as every write that was
	// acknowledged before.
	State(ctx context.Context, name string) (NamespaceState, error)
	// Exists reports whether there is a namespace. That there is none is
	// current; that there is one may be a moment old.
	Exists(ctx context.Context, name string) (bool, error)
	// Namespace is a namespace as it is served, or an error that says that
	// there is none.
	Namespace(ctx context.Context, name string) (*cache.View, error)
}

var namespaces = schema.GroupResource{Resource: "namespaces"}

// NamespaceLifecycle refuses to write into a namespace that does not exist, to
// create in one that is being deleted, and to delete those that always exist.
func NamespaceLifecycle(n Namespaces) Mutator { return lifecycle{n} }

type lifecycle struct{ namespaces Namespaces }

// Mutate refuses: upstream does so before anything has changed the object,
// which decides what the client hears when there is more than one mistake.
func (l lifecycle) Mutate(ctx context.Context, r *Request) error {
	k := r.Version.Kind
	if k.GroupResource() == namespaces {
		if r.Operation == Delete && immortal(r.Name) {
			return status.Forbidden(namespaces, r.Name, errors.New("this namespace may not be deleted"))
		}
		return nil
	}
	if r.Namespace == "" || r.Operation == Delete {
		return nil
	}
	if r.Operation != Create { // there is something in the namespace, or the write fails
		return mustExist(ctx, l.namespaces, r.Namespace)
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

// mustExist refuses what is not in a namespace.
func mustExist(ctx context.Context, n Namespaces, name string) error {
	exists, err := n.Exists(ctx, name)
	if err == nil && !exists {
		err = status.NotFound(namespaces, name)
	}
	return err
}

// immortal names the namespaces that may not be deleted.
func immortal(name string) bool {
	switch name {
	case metav1.NamespaceDefault, metav1.NamespaceSystem, metav1.NamespacePublic:
		return true
	}
	return false
}

func terminating(r *Request) error {
	err := r.forbidden(
		fmt.Errorf("unable to create new content in namespace %s because it is being terminated", r.Namespace))
	err.Details.Causes = append(err.Details.Causes, metav1.StatusCause{
		Type:    corev1.NamespaceTerminatingCause,
		Message: fmt.Sprintf("namespace %s is being terminated", r.Namespace),
		Field:   "metadata.namespace",
	})
	return err
}
