package pods

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	schedulingv1 "k8s.io/api/scheduling/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/keelson-io/keelson/internal/admission"
)

// This file resolves priority classes.

// PriorityClasses is the resource that PriorityDefault checks.
var PriorityClasses = schema.GroupResource{Group: "scheduling.k8s.io", Resource: "priorityclasses"}

// Priority returns the mutating part of the plugin Priority: it sets the priority and the preemption
// policy of a new pod from its class, or from the default class.
func Priority(o *Objects) admission.Func {
	return func(ctx context.Context, r *admission.Request) error {
		if r.Operation == admission.Delete || r.Subresource != "" {
			return nil
		}
		pod, err := admission.NewObject[corev1.Pod](r)
		if err != nil {
			return err
		}
		if r.Operation == admission.Update {
			return keepPriority(r, pod)
		}
		return o.setPriority(ctx, r, pod)
	}
}

// keepPriority gives an update that has no priority that of the stored pod.
func keepPriority(r *admission.Request, pod *corev1.Pod) error {
	if pod.Spec.Priority != nil && pod.Spec.PreemptionPolicy != nil {
		return nil
	}
	old, err := admission.OldObject[corev1.Pod](r)
	if err != nil {
		return err
	}
	if pod.Spec.Priority == nil && old.Spec.Priority != nil {
		pod.Spec.Priority = old.Spec.Priority
		if err := r.Edit(pod.Spec.Priority, "spec", "priority"); err != nil {
			return err
		}
	}
	if pod.Spec.PreemptionPolicy == nil && old.Spec.PreemptionPolicy != nil {
		pod.Spec.PreemptionPolicy = old.Spec.PreemptionPolicy
		return r.Edit(pod.Spec.PreemptionPolicy, "spec", "preemptionPolicy")
	}
	return nil
}

// setPriority resolves the class of a new pod.
func (o *Objects) setPriority(ctx context.Context, r *admission.Request, pod *corev1.Pod) error {
	s := &pod.Spec
	class, err := o.priorityClass(ctx, r, s.PriorityClassName)
	if err != nil {
		return err
	}
	if s.Priority != nil && *s.Priority != class.Value {
		return r.Forbidden(fmt.Errorf("the integer value of priority (%d) must not be provided in pod spec; "+
			"priority admission controller computed %d from the given PriorityClass name", *s.Priority, class.Value))
	}
	if s.PriorityClassName != class.Name {
		s.PriorityClassName = class.Name
		if err := r.Edit(class.Name, "spec", "priorityClassName"); err != nil {
			return err
		}
	}
	if s.Priority == nil {
		s.Priority = &class.Value
		if err := r.Edit(class.Value, "spec", "priority"); err != nil {
			return err
		}
	}
	if class.PreemptionPolicy == nil {
		return nil
	}
	if s.PreemptionPolicy != nil {
		if *s.PreemptionPolicy != *class.PreemptionPolicy {
			return r.Forbidden(fmt.Errorf("the string value of PreemptionPolicy (%s) must not be provided in pod spec; "+
				"priority admission controller computed %s from the given PriorityClass name", *s.PreemptionPolicy, *class.PreemptionPolicy))
		}
		return nil
	}
	s.PreemptionPolicy = class.PreemptionPolicy
	return r.Edit(s.PreemptionPolicy, "spec", "preemptionPolicy")
}

// priorityClass returns the class of a name. Without a name it returns the default class, or, if
// there is none, one without a name.
func (o *Objects) priorityClass(ctx context.Context, r *admission.Request, name string) (*schedulingv1.PriorityClass, error) {
	if name != "" {
		class, err := o.PriorityClasses.Get(ctx, "", name)
		if err != nil {
			return nil, fmt.Errorf("failed to resolve PriorityClass with name %s: %w", name, err)
		}
		if class == nil {
			return nil, r.Forbidden(fmt.Errorf("no PriorityClass with name %v was found", name))
		}
		return class, nil
	}
	class, err := o.defaultPriorityClass(ctx)
	if err != nil {
		return nil, fmt.Errorf("error occurred while retrieving default priority class: %w", err)
	}
	if class == nil {
		lower := corev1.PreemptLowerPriority
		class = &schedulingv1.PriorityClass{PreemptionPolicy: &lower}
	}
	return class, nil
}

// defaultPriorityClass returns the default class with the lowest value, nil if there is none.
func (o *Objects) defaultPriorityClass(ctx context.Context) (*schedulingv1.PriorityClass, error) {
	all, err := o.PriorityClasses.List(ctx, "")
	var found *schedulingv1.PriorityClass
	for _, class := range all {
		if class.GlobalDefault && (found == nil || found.Value > class.Value) {
			found = class
		}
	}
	return found, err
}

// PriorityDefault returns the validating part of the plugin Priority, for PriorityClasses: only one of
// them is the default.
func PriorityDefault(o *Objects) admission.Func {
	return func(ctx context.Context, r *admission.Request) error {
		if r.Operation == admission.Delete || r.Subresource != "" || !r.New.Root().Get("globalDefault").Bool() {
			return nil
		}
		if err := o.PriorityClasses.Current(ctx); err != nil {
			return err
		}
		class, err := o.defaultPriorityClass(ctx)
		if err != nil {
			return fmt.Errorf("failed to get default priority class: %v", err)
		}
		if class != nil && (r.Operation == admission.Create || class.Name != r.Name) {
			return r.Forbidden(fmt.Errorf("PriorityClass %v is already marked as default. Only one default can exist", class.Name))
		}
		return nil
	}
}
