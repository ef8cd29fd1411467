package podsecurity

import (
	"context"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/pod-security-admission/api"
	"k8s.io/pod-security-admission/policy"

	"github.com/keelson-io/keelson/internal/admission"
	"github.com/keelson-io/keelson/internal/admission/lookup"
	"github.com/keelson-io/keelson/internal/status"
)

// This file checks the labels of namespaces, and the pods of a namespace whose level rises.

const (
	maxPods  = 3000
	maxCheck = time.Second
)

// namespace refuses labels that are not valid, and warns of pods that violate a new level.
func (s *Step) namespace(ctx context.Context, r *admission.Request) error {
	next, err := admission.NewObject[corev1.Namespace](r)
	if err != nil {
		return err
	}
	levels, errs := api.PolicyToEvaluate(next.Labels, s.defaults)
	exempt := slices.Contains(s.exempt.Namespaces, r.Name)
	if r.Operation == admission.Create {
		if len(errs) > 0 {
			return status.Invalid(r.Version.Kind.GroupKind(), r.Name, errs)
		}
		if exempt {
			s.warnExempt(r, levels, next.Labels)
		}
		return nil
	}
	old, err := admission.OldObject[corev1.Namespace](r)
	if err != nil {
		return err
	}
	had, hadErrs := api.PolicyToEvaluate(old.Labels, s.defaults)
	if len(errs) > 0 && (len(hadErrs) == 0 || !reflect.DeepEqual(errs, hadErrs)) {
		return status.Invalid(r.Version.Kind.GroupKind(), r.Name, errs)
	}
	is, was := levels.Enforce, had.Enforce
	switch {
	case is == was, is.Level == api.LevelPrivileged, is.Version == was.Version && api.CompareLevels(is.Level, was.Level) < 1:
		return nil
	case exempt:
		s.warnExempt(r, levels, next.Labels)
		return nil
	}
	r.Warn(s.violators(ctx, next.Name, is)...)
	return nil
}

// warnExempt warns that the labels of an exempt namespace have no effect.
func (s *Step) warnExempt(r *admission.Request, levels api.Policy, labels map[string]string) {
	if levels.FullyPrivileged() || levels.Equivalent(&s.defaults) {
		return
	}
	var ignored []string
	for _, mode := range []struct {
		name                 string
		level                api.LevelVersion
		levelKey, versionKey string
	}{
		{"enforce", levels.Enforce, api.EnforceLevelLabel, api.EnforceVersionLabel},
		{"audit", levels.Audit, api.AuditLevelLabel, api.AuditVersionLabel},
		{"warn", levels.Warn, api.WarnLevelLabel, api.WarnVersionLabel},
	} {
		_, hasLevel := labels[mode.levelKey]
		_, hasVersion := labels[mode.versionKey]
		if mode.level.Level != api.LevelPrivileged && (hasLevel || hasVersion) {
			ignored = append(ignored, mode.name+"="+mode.level.String())
		}
	}
	r.Warn(fmt.Sprintf("namespace %q is exempt from Pod Security, and the policy (%s) will be ignored", r.Name, strings.Join(ignored, ", ")))
}

// violators returns warnings about the pods of a namespace that violate a level.
func (s *Step) violators(ctx context.Context, namespace string, level api.LevelVersion) []string {
	all, err := lookup.New[corev1.Pod](s.source, pods).List(ctx, namespace)
	if err != nil {
		return []string{"failed to list pods while checking new PodSecurity enforce level"}
	}
	limit := maxCheck
	if end, ok := ctx.Deadline(); ok {
		limit = min(limit, time.Until(end)/2)
	}
	end := time.Now().Add(limit)
	all = s.inTurn(all)
	total, checked := len(all), 0
	type group struct {
		first string // name
		count int
	}
	violations := map[string]group{} // by reason
	for _, pod := range all[:min(total, maxPods)] {
		checked++
		if result := policy.AggregateCheckResults(s.checks.EvaluatePod(level, &pod.ObjectMeta, &pod.Spec)); !result.Allowed {
			g := violations[result.ForbiddenReason()]
			if g.count == 0 || pod.Name < g.first {
				g.first = pod.Name
			}
			g.count++
			violations[result.ForbiddenReason()] = g
		}
		if time.Now().After(end) || ctx.Err() != nil {
			break
		}
	}
	var warnings, details []string
	if checked < total {
		warnings = append(warnings, fmt.Sprintf("new PodSecurity enforce level only checked against the first %d of %d existing pods", checked, total))
	}
	if len(violations) > 0 {
		warnings = append(warnings, fmt.Sprintf("existing pods in namespace %q violate the new PodSecurity enforce level %q", namespace, level.String()))
	}
	for reason, g := range violations {
		switch g.count {
		case 1:
			details = append(details, fmt.Sprintf("%s: %s", g.first, reason))
		case 2:
			details = append(details, fmt.Sprintf("%s (and 1 other pod): %s", g.first, reason))
		default:
			details = append(details, fmt.Sprintf("%s (and %d other pods): %s", g.first, g.count-1, reason))
		}
	}
	slices.Sort(details)
	return append(warnings, details...)
}

// inTurn returns the pods that are not exempt: the first pod of each controller before the others.
func (s *Step) inTurn(all []*corev1.Pod) []*corev1.Pod {
	var first, later []*corev1.Pod
	seen := map[types.UID]bool{}
	for _, pod := range all {
		if class := pod.Spec.RuntimeClassName; class != nil && *class != "" && slices.Contains(s.exempt.RuntimeClasses, *class) {
			continue
		}
		owner := metav1.GetControllerOfNoCopy(pod)
		if owner != nil && seen[owner.UID] {
			later = append(later, pod)
			continue
		}
		if owner != nil {
			seen[owner.UID] = true
		}
		first = append(first, pod)
	}
	return append(first, later...)
}
