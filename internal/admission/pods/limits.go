package pods

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/runtime/schema"
	utilerrors "k8s.io/apimachinery/pkg/util/errors"
	helpers "k8s.io/component-helpers/resource"

	"github.com/keelson-io/keelson/internal/admission"
)

// This file applies LimitRanges to pods and to persistent volume claims.

// Claims is the resource that ClaimLimits checks.
var Claims = schema.GroupResource{Resource: "persistentvolumeclaims"}

// limitAnnotation is the key of the annotation that lists the defaults which a pod got.
const limitAnnotation = "kubernetes.io/limit-ranger"

// DefaultLimits returns the mutating part of the plugin LimitRanger: containers of new pods get the
// default requests and limits of their namespace.
func DefaultLimits(o *Objects) admission.Func {
	return onCreate(func(ctx context.Context, r *admission.Request, pod *corev1.Pod) error {
		ranges, err := o.LimitRanges.List(ctx, r.Namespace)
		if err != nil {
			return err
		}
		for _, limits := range ranges {
			if err := setDefaults(r, pod, limits); err != nil {
				return err
			}
		}
		return nil
	})
}

// setDefaults gives the containers of a pod the defaults of a LimitRange.
func setDefaults(r *admission.Request, pod *corev1.Pod, limits *corev1.LimitRange) error {
	requests, most := corev1.ResourceList{}, corev1.ResourceList{}
	for i := range limits.Spec.Limits {
		if l := &limits.Spec.Limits[i]; l.Type == corev1.LimitTypeContainer {
			maps.Copy(requests, l.DefaultRequest)
			maps.Copy(most, l.Default)
		}
	}
	var said []string
	for _, list := range []struct {
		what       string
		member     string
		containers []corev1.Container
	}{{"container", "containers", pod.Spec.Containers}, {"init container", "initContainers", pod.Spec.InitContainers}} {
		before := len(said)
		for i := range list.containers {
			c := &list.containers[i]
			if names := fill(&c.Resources.Requests, requests); len(names) > 0 {
				said = append(said, fmt.Sprintf("%s request for %s %s", strings.Join(names, ", "), list.what, c.Name))
			}
			if names := fill(&c.Resources.Limits, most); len(names) > 0 {
				said = append(said, fmt.Sprintf("%s limit for %s %s", strings.Join(names, ", "), list.what, c.Name))
			}
		}
		if len(said) > before {
			if err := r.Edit(list.containers, "spec", list.member); err != nil {
				return err
			}
		}
	}
	if len(said) == 0 {
		return nil
	}
	if pod.Annotations == nil {
		pod.Annotations = map[string]string{}
	}
	pod.Annotations[limitAnnotation] = "LimitRanger plugin set: " + strings.Join(said, "; ")
	return r.Edit(pod.Annotations, "metadata", "annotations")
}

// fill adds what a list lacks. It returns the names, sorted.
func fill(list *corev1.ResourceList, defaults corev1.ResourceList) []string {
	var names []string
	for name, q := range defaults {
		if _, ok := (*list)[name]; ok {
			continue
		}
		if *list == nil {
			*list = corev1.ResourceList{}
		}
		(*list)[name] = q.DeepCopy()
		names = append(names, string(name))
	}
	slices.Sort(names)
	return names
}

// Limits returns the validating part of the plugin LimitRanger for pods.
func Limits(o *Objects) admission.Func {
	return func(ctx context.Context, r *admission.Request) error {
		resize := r.Operation == admission.Update && r.Subresource == "resize"
		if !resize && (r.Operation != admission.Create || r.Subresource != "") || isDeleting(r) {
			return nil
		}
		return o.checkLimits(ctx, r, func(l *corev1.LimitRangeItem) ([]error, error) {
			pod, err := admission.NewObject[corev1.Pod](r)
			if err != nil {
				return nil, err
			}
			return podLimits(l, pod), nil
		})
	}
}

// ClaimLimits returns the validating part of the plugin LimitRanger for persistent volume claims.
func ClaimLimits(o *Objects) admission.Func {
	return func(ctx context.Context, r *admission.Request) error {
		if r.Operation == admission.Delete || r.Subresource != "" || isDeleting(r) {
			return nil
		}
		return o.checkLimits(ctx, r, func(l *corev1.LimitRangeItem) ([]error, error) {
			claim, err := admission.NewObject[corev1.PersistentVolumeClaim](r)
			if err != nil || l.Type != corev1.LimitTypePersistentVolumeClaim {
				return nil, err
			}
			requests := claim.Spec.Resources.Requests
			errs := each(l.Min, func(name corev1.ResourceName, q resource.Quantity) error {
				return atLeast(l.Type, name, q, requests, nil)
			})
			return append(errs, each(l.Max, func(name corev1.ResourceName, q resource.Quantity) error {
				return requestAtMost(l.Type, name, q, requests)
			})...), nil
		})
	}
}

// isDeleting reports whether the stored object is being deleted. Limits do not hold for it.
func isDeleting(r *admission.Request) bool {
	return r.Old != nil && r.Old.Root().At("metadata", "deletionTimestamp").Exists()
}

// checkLimits refuses a request if check lists violations of any limit of the namespace.
func (o *Objects) checkLimits(ctx context.Context, r *admission.Request, check func(*corev1.LimitRangeItem) ([]error, error)) error {
	ranges, err := o.LimitRanges.List(ctx, r.Namespace)
	if err != nil {
		return err
	}
	for _, limits := range ranges {
		var errs []error
		for i := range limits.Spec.Limits {
			found, err := check(&limits.Spec.Limits[i])
			if err != nil {
				return err
			}
			errs = append(errs, found...)
		}
		if err := utilerrors.NewAggregate(errs); err != nil {
			return r.Forbidden(err)
		}
	}
	return nil
}

// podLimits lists the violations of a limit by a pod.
func podLimits(l *corev1.LimitRangeItem, pod *corev1.Pod) []error {
	switch l.Type {
	case corev1.LimitTypeContainer:
		var errs []error
		for _, list := range [][]corev1.Container{pod.Spec.Containers, pod.Spec.InitContainers} {
			for i := range list {
				errs = append(errs, violations(l, list[i].Resources.Requests, list[i].Resources.Limits)...)
			}
		}
		return errs
	case corev1.LimitTypePod:
		// LimitRanger counts the requests and limits of the specification, without the overhead of
		// the runtime class.
		options := helpers.PodResourcesOptions{ExcludeOverhead: true}
		whole := corev1.Pod{Spec: pod.Spec}
		if own := pod.Spec.Resources; own != nil {
			whole.Spec.Resources = &corev1.ResourceRequirements{Requests: computing(own.Requests), Limits: computing(own.Limits)}
		}
		return violations(l, helpers.PodRequests(&whole, options), helpers.PodLimits(&whole, options))
	}
	return nil
}

// computing returns the resources of a pod as a whole that limits are about.
func computing(list corev1.ResourceList) corev1.ResourceList {
	out := corev1.ResourceList{}
	for _, name := range []corev1.ResourceName{corev1.ResourceCPU, corev1.ResourceMemory} {
		if q, ok := list[name]; ok {
			out[name] = q
		}
	}
	return out
}

// violations lists what requests and limits break of a limit.
func violations(l *corev1.LimitRangeItem, requests, limits corev1.ResourceList) []error {
	errs := each(l.Min, func(name corev1.ResourceName, q resource.Quantity) error {
		return atLeast(l.Type, name, q, requests, limits)
	})
	errs = append(errs, each(l.Max, func(name corev1.ResourceName, q resource.Quantity) error {
		return limitAtMost(l.Type, name, q, requests, limits)
	})...)
	return append(errs, each(l.MaxLimitRequestRatio, func(name corev1.ResourceName, q resource.Quantity) error {
		return ratioAtMost(l.Type, name, q, requests, limits)
	})...)
}

// each returns the errors of check for the resources of a list, in the order of their names.
func each(list corev1.ResourceList, check func(corev1.ResourceName, resource.Quantity) error) []error {
	var errs []error
	for _, name := range slices.Sorted(maps.Keys(list)) {
		if err := check(name, list[name]); err != nil {
			errs = append(errs, err)
		}
	}
	return errs
}

// commonUnit returns quantities as numbers of the same unit: thousandths, unless one is too large.
func commonUnit(a, b, c resource.Quantity) (x, y, z int64) {
	x, y, z = a.Value(), b.Value(), c.Value()
	if x <= resource.MaxMilliValue && y <= resource.MaxMilliValue && z <= resource.MaxMilliValue {
		return a.MilliValue(), b.MilliValue(), c.MilliValue()
	}
	return x, y, z
}

// atLeast requires a request, and a limit if there is one, not to be less than min.
func atLeast(t corev1.LimitType, name corev1.ResourceName, min resource.Quantity, requests, limits corev1.ResourceList) error {
	request, requested := requests[name]
	limit, limited := limits[name]
	r, l, m := commonUnit(request, limit, min)
	switch {
	case !requested:
		return fmt.Errorf("minimum %s usage per %s is %s.  No request is specified", name, t, min.String())
	case r < m:
		return fmt.Errorf("minimum %s usage per %s is %s, but request is %s", name, t, min.String(), request.String())
	case limited && l < m:
		return fmt.Errorf("minimum %s usage per %s is %s, but limit is %s", name, t, min.String(), limit.String())
	}
	return nil
}

// requestAtMost requires a request that is not more than max.
func requestAtMost(t corev1.LimitType, name corev1.ResourceName, max resource.Quantity, requests corev1.ResourceList) error {
	request, requested := requests[name]
	r, _, m := commonUnit(request, resource.Quantity{}, max)
	switch {
	case !requested:
		return fmt.Errorf("maximum %s usage per %s is %s.  No request is specified", name, t, max.String())
	case r > m:
		return fmt.Errorf("maximum %s usage per %s is %s, but request is %s", name, t, max.String(), request.String())
	}
	return nil
}

// limitAtMost requires a limit, and a request if there is one, not to be more than max.
func limitAtMost(t corev1.LimitType, name corev1.ResourceName, max resource.Quantity, requests, limits corev1.ResourceList) error {
	request, requested := requests[name]
	limit, limited := limits[name]
	r, l, m := commonUnit(request, limit, max)
	switch {
	case !limited:
		return fmt.Errorf("maximum %s usage per %s is %s.  No limit is specified", name, t, max.String())
	case l > m:
		return fmt.Errorf("maximum %s usage per %s is %s, but limit is %s", name, t, max.String(), limit.String())
	case requested && r > m:
		return fmt.Errorf("maximum %s usage per %s is %s, but request is %s", name, t, max.String(), request.String())
	}
	return nil
}

// ratioAtMost requires the limit not to be more than max times the request.
func ratioAtMost(t corev1.LimitType, name corev1.ResourceName, max resource.Quantity, requests, limits corev1.ResourceList) error {
	request, requested := requests[name]
	limit, limited := limits[name]
	r, l, _ := commonUnit(request, limit, max)
	switch {
	case !requested || r == 0:
		return fmt.Errorf("%s max limit to request ratio per %s is %s, but no request is specified or request is 0", name, t, max.String())
	case !limited || l == 0:
		return fmt.Errorf("%s max limit to request ratio per %s is %s, but no limit is specified or limit is 0", name, t, max.String())
	}
	ratio, most, shown := float64(l)/float64(r), float64(max.Value()), float64(l)/float64(r)
	if max.Value() <= resource.MaxMilliValue { // compare in thousandths
		ratio, most = ratio*1000, float64(max.MilliValue())
	}
	if ratio > most {
		return fmt.Errorf("%s max limit to request ratio per %s is %s, but provided ratio is %f", name, t, max.String(), shown)
	}
	return nil
}
