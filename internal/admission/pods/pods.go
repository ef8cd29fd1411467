// Package pods has the admission plugins that complete and check pods.
//
// # Model
//
// Each plugin of kube-apiserver is a function here that returns its step. A step decodes the pod
// with [admission.NewObject], changes the Go value, and writes the members that it changed to the
// document. All steps of a request share the decoded pod. Package server gives the steps their
// order; they run for pods only.
//
// # Invariants
//
//   - Decisions, texts and the order of checks are those of Kubernetes' plugins of the same names,
//     with feature gates at their defaults. Where upstream lists violations in random order, they
//     are sorted.
//   - Objects are read as of the last acknowledged write, or later.
package pods

import (
	"context"

	corev1 "k8s.io/api/core/v1"
	nodev1 "k8s.io/api/node/v1"
	schedulingv1 "k8s.io/api/scheduling/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/keelson-io/keelson/internal/admission"
	"github.com/keelson-io/keelson/internal/admission/lookup"
)

// Resource is the resource of the steps, unless the comment of a step has another one.
var Resource = schema.GroupResource{Resource: "pods"}

// Objects are what the steps read.
type Objects struct {
	Namespaces      *lookup.Lister[corev1.Namespace]
	Nodes           *lookup.Lister[corev1.Node]
	LimitRanges     *lookup.Lister[corev1.LimitRange]
	ServiceAccounts *lookup.Lister[corev1.ServiceAccount]
	RuntimeClasses  *lookup.Lister[nodev1.RuntimeClass]
	PriorityClasses *lookup.Lister[schedulingv1.PriorityClass]
}

// NewObjects returns listers of a source.
func NewObjects(s lookup.Source) *Objects {
	return &Objects{
		Namespaces:      lookup.New[corev1.Namespace](s, schema.GroupResource{Resource: "namespaces"}),
		Nodes:           lookup.New[corev1.Node](s, schema.GroupResource{Resource: "nodes"}),
		LimitRanges:     lookup.New[corev1.LimitRange](s, schema.GroupResource{Resource: "limitranges"}),
		ServiceAccounts: lookup.New[corev1.ServiceAccount](s, schema.GroupResource{Resource: "serviceaccounts"}),
		RuntimeClasses:  lookup.New[nodev1.RuntimeClass](s, schema.GroupResource{Group: "node.k8s.io", Resource: "runtimeclasses"}),
		PriorityClasses: lookup.New[schedulingv1.PriorityClass](s, schema.GroupResource{Group: "scheduling.k8s.io", Resource: "priorityclasses"}),
	}
}

// check is the work of a step on a pod.
type check func(ctx context.Context, r *admission.Request, pod *corev1.Pod) error

// onCreate returns a step that runs do for new pods.
func onCreate(do check) admission.Func {
	return func(ctx context.Context, r *admission.Request) error {
		if r.Operation != admission.Create || r.Subresource != "" {
			return nil
		}
		pod, err := admission.NewObject[corev1.Pod](r)
		if err != nil {
			return err
		}
		return do(ctx, r, pod)
	}
}

// onWrite returns a step that runs do for new pods and for updates of pods themselves.
func onWrite(do check) admission.Func {
	return func(ctx context.Context, r *admission.Request) error {
		if r.Operation == admission.Delete || r.Subresource != "" {
			return nil
		}
		pod, err := admission.NewObject[corev1.Pod](r)
		if err != nil {
			return err
		}
		return do(ctx, r, pod)
	}
}
