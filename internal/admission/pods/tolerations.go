package pods

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/keelson-io/keelson/internal/admission"
	"github.com/keelson-io/keelson/internal/builtin/core"
	"github.com/keelson-io/keelson/internal/status"
)

// This file adds and restricts tolerations.

// setTolerations gives a pod other tolerations.
func setTolerations(r *admission.Request, pod *corev1.Pod, list []corev1.Toleration) error {
	if equality.Semantic.DeepEqual(pod.Spec.Tolerations, list) {
		return nil
	}
	pod.Spec.Tolerations = list
	return r.Edit(list, "spec", "tolerations")
}

// DefaultTolerationSeconds returns the plugin of that name: pods without a toleration of their own
// tolerate nodes that are not ready or not reachable for a number of seconds.
func DefaultTolerationSeconds(notReady, unreachable int64) admission.Func {
	return onWrite(func(_ context.Context, r *admission.Request, pod *corev1.Pod) error {
		list := slices.Clone(pod.Spec.Tolerations)
		for _, taint := range []struct {
			key     string
			seconds int64
		}{{corev1.TaintNodeNotReady, notReady}, {corev1.TaintNodeUnreachable, unreachable}} {
			tolerates := slices.ContainsFunc(pod.Spec.Tolerations, func(t corev1.Toleration) bool {
				return (t.Key == taint.key || t.Key == "") && (t.Effect == corev1.TaintEffectNoExecute || t.Effect == "")
			})
			if !tolerates {
				list = append(list, corev1.Toleration{Key: taint.key, Operator: corev1.TolerationOpExists,
					Effect: corev1.TaintEffectNoExecute, TolerationSeconds: &taint.seconds})
			}
		}
		return setTolerations(r, pod, list)
	})
}

// ExtendedResourceToleration returns the plugin of that name: pods tolerate the taints with the names of
// the extended resources that they request.
func ExtendedResourceToleration() admission.Func {
	return onWrite(func(_ context.Context, r *admission.Request, pod *corev1.Pod) error {
		names := map[string]bool{}
		for _, containers := range [][]corev1.Container{pod.Spec.Containers, pod.Spec.InitContainers} {
			for i := range containers {
				for name := range containers[i].Resources.Requests {
					if IsExtended(name) {
						names[string(name)] = true
					}
				}
			}
		}
		list := slices.Clone(pod.Spec.Tolerations)
		for _, name := range slices.Sorted(maps.Keys(names)) {
			t := corev1.Toleration{Key: name, Operator: corev1.TolerationOpExists, Effect: corev1.TaintEffectNoSchedule}
			i := slices.IndexFunc(list, func(have corev1.Toleration) bool { return t.MatchToleration(&have) })
			if i < 0 {
				list = append(list, t)
			} else {
				list[i] = t
			}
		}
		return setTolerations(r, pod, list)
	})
}

// IsExtended reports whether a resource is not one of Kubernetes' own.
func IsExtended(name corev1.ResourceName) bool {
	s := string(name)
	if !strings.Contains(s, "/") || strings.Contains(s, corev1.ResourceDefaultNamespacePrefix) || strings.HasPrefix(s, corev1.DefaultResourceRequestsPrefix) {
		return false
	}
	return len(validation.IsQualifiedName(corev1.DefaultResourceRequestsPrefix+s)) == 0
}

// The annotations of namespaces with tolerations, in JSON.
const (
	defaultTolerations = "scheduler.alpha.kubernetes.io/defaultTolerations"
	allowedTolerations = "scheduler.alpha.kubernetes.io/tolerationsWhitelist"
)

// TolerationLimits is the configuration of PodTolerationRestriction, for namespaces without
// annotations for it.
type TolerationLimits struct {
	Default, Whitelist []corev1.Toleration
}

// PodTolerationRestriction is the plugin of that name. mutate adds the default tolerations of the
// namespace to new pods; validate requires the tolerations of a pod to be on the namespace's list.
func PodTolerationRestriction(o *Objects, c TolerationLimits) (mutate, validate admission.Func) {
	checked := func(ctx context.Context, _ *admission.Request, pod *corev1.Pod, namespace string) error {
		if len(pod.Spec.Tolerations) == 0 {
			return nil
		}
		allowed, err := o.namespaceTolerations(ctx, namespace, allowedTolerations)
		scope := "namespace"
		if err != nil {
			return err
		}
		if allowed == nil {
			allowed, scope = c.Whitelist, "cluster"
		}
		if len(allowed) > 0 && !allTolerated(pod.Spec.Tolerations, allowed) {
			return status.Plain500(fmt.Sprintf("pod tolerations (possibly merged with namespace default tolerations) conflict with its %s whitelist", scope))
		}
		return nil
	}
	mutate = onWrite(func(ctx context.Context, r *admission.Request, pod *corev1.Pod) error {
		var extra []corev1.Toleration
		if r.Operation == admission.Create {
			list, err := o.namespaceTolerations(ctx, r.Namespace, defaultTolerations)
			if err != nil {
				return err
			}
			if list == nil {
				list = c.Default
			}
			extra = slices.Clone(list)
		}
		if core.QOSClass(pod) != corev1.PodQOSBestEffort {
			extra = append(extra, corev1.Toleration{Key: corev1.TaintNodeMemoryPressure, Operator: corev1.TolerationOpExists, Effect: corev1.TaintEffectNoSchedule})
		}
		if len(extra) > 0 {
			if err := setTolerations(r, pod, mergeTolerations(pod.Spec.Tolerations, extra)); err != nil {
				return err
			}
		}
		return checked(ctx, r, pod, r.Namespace)
	})
	validate = onWrite(func(ctx context.Context, r *admission.Request, pod *corev1.Pod) error {
		return checked(ctx, r, pod, r.Namespace)
	})
	return mutate, validate
}

// namespaceTolerations returns the tolerations in an annotation of a namespace, nil if it is absent.
func (o *Objects) namespaceTolerations(ctx context.Context, name, annotation string) ([]corev1.Toleration, error) {
	namespace, err := o.namespace(ctx, name)
	if err != nil {
		return nil, err
	}
	text, ok := namespace.Annotations[annotation]
	if !ok {
		return nil, nil
	}
	list := []corev1.Toleration{}
	if text == "" {
		return list, nil
	}
	if err := json.Unmarshal([]byte(text), &list); err != nil {
		return nil, status.Plain500(err.Error())
	}
	return list, nil
}

// namespace returns a namespace. If it does not exist, it returns an error.
func (o *Objects) namespace(ctx context.Context, name string) (*corev1.Namespace, error) {
	namespace, err := o.Namespaces.Get(ctx, "", name)
	if err == nil && namespace == nil {
		err = status.NotFound(o.Namespaces.Resource(), name)
	}
	return namespace, err
}

// allTolerated reports whether each toleration of list is part of one that is allowed.
func allTolerated(list, allowed []corev1.Toleration) bool {
	for i := range list {
		if !slices.ContainsFunc(allowed, func(a corev1.Toleration) bool { return includes(&a, &list[i]) }) {
			return false
		}
	}
	return true
}

// mergeTolerations returns the tolerations of two lists without those that others include.
func mergeTolerations(first, second []corev1.Toleration) []corev1.Toleration {
	all := slices.Concat(first, second)
	var merged []corev1.Toleration
	for i := range all {
		t := &all[i]
		before := slices.ContainsFunc(merged, func(m corev1.Toleration) bool { return includes(&m, t) })
		after := slices.ContainsFunc(all[i+1:], func(m corev1.Toleration) bool { // of equal ones, the first stays
			return !equality.Semantic.DeepEqual(&m, t) && includes(&m, t)
		})
		if !before && !after {
			merged = append(merged, *t)
		}
	}
	return merged
}

// includes reports whether a tolerates everything that b tolerates.
func includes(a, b *corev1.Toleration) bool {
	switch {
	case equality.Semantic.DeepEqual(a, b):
		return true
	case b.Key != a.Key && (a.Key != "" || a.Operator != corev1.TolerationOpExists):
		return false
	case b.Effect != a.Effect && a.Effect != "":
		return false
	case a.Effect == corev1.TaintEffectNoExecute && a.TolerationSeconds != nil && (b.TolerationSeconds == nil || *b.TolerationSeconds > *a.TolerationSeconds):
		return false
	}
	switch a.Operator {
	case corev1.TolerationOpEqual, "":
		return b.Operator == corev1.TolerationOpEqual && b.Value == a.Value
	case corev1.TolerationOpExists:
		return true
	}
	return false
}
