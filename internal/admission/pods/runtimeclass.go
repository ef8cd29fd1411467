package pods

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"
	nodev1 "k8s.io/api/node/v1"
	"k8s.io/apimachinery/pkg/api/equality"

	"github.com/keelson-io/keelson/internal/admission"
)

// This file applies runtime classes.

// errOverhead refuses a pod whose overhead differs from that of its class.
var errOverhead = errors.New("pod rejected: Pod's Overhead doesn't match RuntimeClass's defined Overhead")

// RuntimeClass is the plugin of that name. mutate gives a new pod the overhead, node selector and
// tolerations of its class; validate requires the overhead to be that of the class.
func RuntimeClass(o *Objects) (mutate, validate admission.Func) {
	mutate = onCreate(func(ctx context.Context, r *admission.Request, pod *corev1.Pod) error {
		class, err := o.runtimeClass(ctx, r, pod)
		if err != nil || class == nil {
			return err
		}
		if class.Overhead != nil {
			if len(pod.Spec.Overhead) > 0 && !equality.Semantic.DeepEqual(class.Overhead.PodFixed, pod.Spec.Overhead) {
				return r.Forbidden(errOverhead)
			}
			pod.Spec.Overhead = class.Overhead.PodFixed
			if err := r.Edit(pod.Spec.Overhead, "spec", "overhead"); err != nil {
				return err
			}
		}
		return placeOn(r, pod, class.Scheduling)
	})
	validate = onCreate(func(ctx context.Context, r *admission.Request, pod *corev1.Pod) error {
		class, err := o.runtimeClass(ctx, r, pod)
		switch {
		case err != nil:
			return err
		case class != nil && class.Overhead != nil:
			if !equality.Semantic.DeepEqual(class.Overhead.PodFixed, pod.Spec.Overhead) {
				return r.Forbidden(errOverhead)
			}
		case pod.Spec.Overhead != nil:
			return r.Forbidden(errors.New("pod rejected: Pod Overhead set without corresponding RuntimeClass defined Overhead"))
		}
		return nil
	})
	return mutate, validate
}

// runtimeClass returns the class of a pod, nil if it names none.
func (o *Objects) runtimeClass(ctx context.Context, r *admission.Request, pod *corev1.Pod) (*nodev1.RuntimeClass, error) {
	name := pod.Spec.RuntimeClassName
	if name == nil {
		return nil, nil
	}
	class, err := o.RuntimeClasses.Get(ctx, "", *name)
	if err == nil && class == nil {
		err = r.Forbidden(fmt.Errorf("pod rejected: RuntimeClass %q not found", *name))
	}
	return class, err
}

// placeOn adds the node selector and the tolerations of a class.
func placeOn(r *admission.Request, pod *corev1.Pod, s *nodev1.Scheduling) error {
	if s == nil {
		return nil
	}
	selector := maps.Clone(pod.Spec.NodeSelector)
	if selector == nil {
		selector = map[string]string{}
	}
	for _, key := range slices.Sorted(maps.Keys(s.NodeSelector)) {
		value := s.NodeSelector[key]
		if own, ok := selector[key]; ok && own != value {
			return r.Forbidden(fmt.Errorf("conflict: runtimeClass.scheduling.nodeSelector[%s] = %s; pod.spec.nodeSelector[%s] = %s", key, value, key, own))
		}
		selector[key] = value
	}
	if err := setNodeSelector(r, pod, selector); err != nil {
		return err
	}
	return setTolerations(r, pod, mergeTolerations(pod.Spec.Tolerations, s.Tolerations))
}

// setNodeSelector gives a pod another node selector.
func setNodeSelector(r *admission.Request, pod *corev1.Pod, selector map[string]string) error {
	if maps.Equal(selector, pod.Spec.NodeSelector) {
		return nil
	}
	pod.Spec.NodeSelector = selector
	return r.Edit(selector, "spec", "nodeSelector")
}
