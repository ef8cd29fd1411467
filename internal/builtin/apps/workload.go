package apps

import (
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/keelson-io/keelson/internal/builtin/core"
	"github.com/keelson-io/keelson/internal/builtin/describe"
	"github.com/keelson-io/keelson/internal/texts"
	"github.com/keelson-io/keelson/jsondoc"
)

// This file checks kinds that keep pods of a template running.

// workload has the fields that all kinds of this file have.
type workload struct {
	name      string // of the kind, in errors
	deadlines string // the kind's name in errors about deadlines
	path      *field.Path

	replicas, minReady int32
	selector           *metav1.LabelSelector
	template           *corev1.PodTemplateSpec
	claims             []corev1.Volume // volumes of claims that each pod has
	mismatch           string          // error for a selector that cannot be parsed; "-": none
}

// check checks what all workloads have in common.
func (w *workload) check() field.ErrorList {
	errs := describe.NotNegative(w.path.Child("replicas"), w.replicas)
	errs = append(errs, describe.NotNegative(w.path.Child("minReadySeconds"), w.minReady)...)
	errs = append(errs, w.checkSelector()...)
	if _, err := metav1.LabelSelectorAsSelector(w.selector); err == nil || w.mismatch == "-" {
		errs = append(errs, w.checkPods()...)
	}
	return errs
}

// checkPods checks the template, whose pods run until they are stopped.
func (w *workload) checkPods() field.ErrorList {
	at := w.path.Child("template")
	errs := core.CheckTemplate(w.template, at, w.claims)
	errs = append(errs, core.CheckAlways(w.template, at)...)
	if w.template.Spec.ActiveDeadlineSeconds != nil {
		errs = append(errs, field.Forbidden(at.Child("spec", "activeDeadlineSeconds"), "activeDeadlineSeconds in "+w.deadlines+" is not Supported"))
	}
	return errs
}

// checkSelector checks that a selector selects the pods of the template.
func (w *workload) checkSelector() field.ErrorList {
	at := w.path.Child("selector")
	errs := describe.CheckTerms(w.selector, at)
	switch s := w.selector; {
	case s == nil && w.name != "daemonset":
		errs = append(errs, field.Required(at, ""))
	case s != nil && len(s.MatchLabels)+len(s.MatchExpressions) == 0:
		errs = append(errs, field.Invalid(at, s, "empty selector is invalid for "+w.name))
		if w.name != "daemonset" {
			return errs
		}
	}
	selector, err := metav1.LabelSelectorAsSelector(w.selector)
	if err != nil {
		if w.mismatch != "-" {
			errs = append(errs, field.Invalid(at, w.selector, w.mismatch))
		}
		return errs
	}
	if !selector.Matches(labels.Set(w.template.Labels)) {
		errs = append(errs, field.Invalid(w.path.Child("template", "metadata", "labels"), w.template.Labels, "`selector` does not match template `labels`"))
	}
	return errs
}

// keptSelector returns an error if the selector has changed.
func keptSelector(new, old *metav1.LabelSelector, path *field.Path) field.ErrorList {
	if describe.SameJSON(new, old) {
		return nil
	}
	return field.ErrorList{field.Invalid(path, new, "field is immutable").WithOrigin("immutable")}
}

// checkDeployment checks a deployment; old is nil on create.
func checkDeployment(new, old *jsondoc.Doc) field.ErrorList {
	spec, path := describe.ReadAs[appsv1.DeploymentSpec](new.Root().Get("spec")), field.NewPath("spec")
	w := &workload{name: "deployment", deadlines: "ReplicaSet", path: path, replicas: describe.OrNothing(spec.Replicas), minReady: spec.MinReadySeconds,
		selector: spec.Selector, template: &spec.Template, mismatch: "invalid label selector"}
	errs := append(w.check(), checkDeploymentStrategy(&spec.Strategy, path.Child("strategy"))...)
	errs = append(errs, describe.AtLeast(path.Child("revisionHistoryLimit"), spec.RevisionHistoryLimit, 0)...)
	if n := spec.ProgressDeadlineSeconds; n != nil {
		errs = append(errs, describe.NotNegative(path.Child("progressDeadlineSeconds"), *n)...)
		if *n <= spec.MinReadySeconds {
			errs = append(errs, field.Invalid(path.Child("progressDeadlineSeconds"), *n, "must be greater than minReadySeconds"))
		}
	}
	if old != nil {
		errs = append(errs, keptSelector(spec.Selector, describe.ReadAs[appsv1.DeploymentSpec](old.Root().Get("spec")).Selector, path.Child("selector"))...)
	}
	return errs
}

// checkDeploymentStrategy checks how pods of a deployment are replaced.
func checkDeploymentStrategy(s *appsv1.DeploymentStrategy, path *field.Path) field.ErrorList {
	const recreate, rolling = appsv1.RecreateDeploymentStrategyType, appsv1.RollingUpdateDeploymentStrategyType
	u, at := s.RollingUpdate, path.Child("rollingUpdate")
	switch {
	case s.Type != recreate && s.Type != rolling:
		return field.ErrorList{field.NotSupported(path, describe.InGoNames(s), []string{string(recreate), string(rolling)})}
	case s.Type == recreate && u != nil:
		return field.ErrorList{field.Forbidden(at, "may not be specified when strategy `type` is 'Recreate'")}
	case u == nil:
		return nil
	}
	errs := describe.CheckShare(at.Child("maxUnavailable"), u.MaxUnavailable)
	errs = append(errs, describe.CheckShare(at.Child("maxSurge"), u.MaxSurge)...)
	if describe.Amount(u.MaxUnavailable) == 0 && describe.Amount(u.MaxSurge) == 0 {
		errs = append(errs, field.Invalid(at.Child("maxUnavailable"), describe.OrNothing(u.MaxUnavailable), "may not be 0 when `maxSurge` is 0"))
	}
	return append(errs, describe.CheckPart(at.Child("maxUnavailable"), u.MaxUnavailable)...)
}

// checkReplicaSet checks a replica set; old is nil on create.
func checkReplicaSet(new, old *jsondoc.Doc) field.ErrorList {
	spec, path := describe.ReadAs[appsv1.ReplicaSetSpec](new.Root().Get("spec")), field.NewPath("spec")
	w := &workload{name: "deployment", deadlines: "ReplicaSet", path: path, replicas: describe.OrNothing(spec.Replicas), minReady: spec.MinReadySeconds,
		selector: spec.Selector, template: &spec.Template, mismatch: "invalid label selector"}
	errs := w.check()
	if old != nil {
		errs = append(errs, keptSelector(spec.Selector, describe.ReadAs[appsv1.ReplicaSetSpec](old.Root().Get("spec")).Selector, path.Child("selector"))...)
	}
	return errs
}

// checkDaemonSet checks a daemon set; old is nil on create.
func checkDaemonSet(new, old *jsondoc.Doc) field.ErrorList {
	spec, path := describe.ReadAs[appsv1.DaemonSetSpec](new.Root().Get("spec")), field.NewPath("spec")
	w := &workload{name: "daemonset", deadlines: "DaemonSet", path: path, minReady: spec.MinReadySeconds,
		selector: spec.Selector, template: &spec.Template, mismatch: "-"}
	errs := append(w.check(), describe.AtLeast(path.Child("revisionHistoryLimit"), spec.RevisionHistoryLimit, 0)...)
	errs = append(errs, checkDaemonSetStrategy(&spec.UpdateStrategy, path.Child("updateStrategy"))...)
	if old != nil {
		errs = append(errs, keptSelector(spec.Selector, describe.ReadAs[appsv1.DaemonSetSpec](old.Root().Get("spec")).Selector, path.Child("selector"))...)
	}
	return errs
}

// checkDaemonSetStrategy checks how pods of a daemon set are replaced.
func checkDaemonSetStrategy(s *appsv1.DaemonSetUpdateStrategy, path *field.Path) field.ErrorList {
	const rolling, onDelete = appsv1.RollingUpdateDaemonSetStrategyType, appsv1.OnDeleteDaemonSetStrategyType
	u, at := s.RollingUpdate, path.Child("rollingUpdate")
	switch {
	case s.Type != rolling && s.Type != onDelete:
		return field.ErrorList{field.NotSupported(path, describe.InGoNames(s), []string{string(rolling), string(onDelete)})}
	case s.Type == onDelete:
		return nil
	case u == nil:
		return field.ErrorList{field.Required(at, "")}
	}
	errs := describe.CheckShare(at.Child("maxUnavailable"), u.MaxUnavailable)
	errs = append(errs, describe.CheckShare(at.Child("maxSurge"), u.MaxSurge)...)
	errs = append(errs, describe.CheckPart(at.Child("maxUnavailable"), u.MaxUnavailable)...)
	errs = append(errs, describe.CheckPart(at.Child("maxSurge"), u.MaxSurge)...)
	switch less, more := describe.Amount(u.MaxUnavailable) != 0, describe.Amount(u.MaxSurge) != 0; {
	case less && more:
		errs = append(errs, field.Invalid(at.Child("maxSurge"), *u.MaxSurge, "may not be set when maxUnavailable is non-zero"))
	case !less && !more:
		errs = append(errs, field.Required(at.Child("maxUnavailable"), "cannot be 0 when maxSurge is 0"))
	}
	return errs
}

// checkStatefulSet checks a stateful set; most of its spec is immutable.
func checkStatefulSet(new, old *jsondoc.Doc) field.ErrorList {
	spec, path := describe.ReadAs[appsv1.StatefulSetSpec](new.Root().Get("spec")), field.NewPath("spec")
	template := spec.Template.DeepCopy()
	template.Spec.Hostname, template.Spec.Subdomain = "", "" // the pods get others
	w := &workload{name: "statefulset", deadlines: "StatefulSet", path: path, replicas: describe.OrNothing(spec.Replicas), minReady: spec.MinReadySeconds,
		selector: spec.Selector, template: template}
	for i := range spec.VolumeClaimTemplates {
		name := spec.VolumeClaimTemplates[i].Name
		w.claims = append(w.claims, corev1.Volume{Name: name, VolumeSource: corev1.VolumeSource{
			PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: name}}})
	}
	errs := w.check()
	if old == nil { // they cannot be changed
		for i := range texts.Each(&errs, spec.VolumeClaimTemplates) {
			errs = append(errs, core.CheckClaimSpec(&spec.VolumeClaimTemplates[i].Spec, path.Child("volumeClaimTemplates").Index(i).Child("spec"))...)
		}
	}
	errs = append(errs, checkStatefulSetPolicies(spec, path)...)
	errs = append(errs, describe.CheckName(path.Child("serviceName"), spec.ServiceName, describe.DNSLabel)...)
	if spec.Ordinals != nil {
		errs = append(errs, describe.NotNegative(path.Child("ordinals.start"), spec.Ordinals.Start)...)
	}
	if old == nil {
		return errs
	}
	was := describe.ReadAs[appsv1.StatefulSetSpec](old.Root().Get("spec"))
	if len(spec.VolumeClaimTemplates) == 0 && len(was.VolumeClaimTemplates) == 0 {
		was.VolumeClaimTemplates = spec.VolumeClaimTemplates // null and [] are the same
	}
	errs = append(errs, keptSelector(spec.Selector, was.Selector, path.Child("selector"))...)
	for _, kept := range []struct {
		name     string
		now, was any
	}{
		{"volumeClaimTemplates", spec.VolumeClaimTemplates, was.VolumeClaimTemplates}, {"serviceName", spec.ServiceName, was.ServiceName},
		{"podManagementPolicy", spec.PodManagementPolicy, was.PodManagementPolicy},
	} {
		if !describe.SameJSON(kept.now, kept.was) {
			errs = append(errs, field.Invalid(path.Child(kept.name), kept.now, "field is immutable").WithOrigin("immutable"))
		}
	}
	return errs
}

// rollingStatefulSet is the type of the value in the error for a missing rollingUpdate.
type rollingStatefulSet struct {
	Partition      int32
	MaxUnavailable *intstr.IntOrString
}

// checkStatefulSetPolicies checks how pods and claims of a stateful set are managed.
func checkStatefulSetPolicies(spec *appsv1.StatefulSetSpec, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	if p := spec.PodManagementPolicy; p != appsv1.OrderedReadyPodManagement && p != appsv1.ParallelPodManagement {
		errs = append(errs, field.Invalid(path.Child("podManagementPolicy"), p, "must be 'OrderedReady' or 'Parallel'"))
	}
	if p := spec.PersistentVolumeClaimRetentionPolicy; p != nil {
		const keep, remove = appsv1.RetainPersistentVolumeClaimRetentionPolicyType, appsv1.DeletePersistentVolumeClaimRetentionPolicyType
		errs = append(errs, describe.Among(path.Child("persistentVolumeClaimRetentionPolicy", "whenDeleted"), p.WhenDeleted, keep, remove)...)
		errs = append(errs, describe.Among(path.Child("persistentVolumeClaimRetentionPolicy", "whenScaled"), p.WhenScaled, keep, remove)...)
	}
	at := path.Child("updateStrategy")
	var shown *rollingStatefulSet
	u := spec.UpdateStrategy.RollingUpdate
	if u != nil {
		shown = &rollingStatefulSet{describe.OrNothing(u.Partition), u.MaxUnavailable}
	}
	switch spec.UpdateStrategy.Type {
	case appsv1.OnDeleteStatefulSetStrategyType:
		if u != nil {
			errs = append(errs, field.Invalid(at.Child("rollingUpdate"), shown, "only allowed for updateStrategy 'RollingUpdate'"))
		}
	case appsv1.RollingUpdateStatefulSetStrategyType:
		if u != nil {
			errs = append(errs, checkRollingStatefulSet(u, at.Child("rollingUpdate"))...)
		}
	default:
		errs = append(errs, field.Invalid(at, struct {
			Type          appsv1.StatefulSetUpdateStrategyType
			RollingUpdate *rollingStatefulSet
		}{spec.UpdateStrategy.Type, shown}, "must be 'RollingUpdate' or 'OnDelete'"))
	}
	return errs
}

// checkRollingStatefulSet checks the bounds of a rolling update.
func checkRollingStatefulSet(u *appsv1.RollingUpdateStatefulSetStrategy, path *field.Path) field.ErrorList {
	errs := describe.AtLeast(path.Child("partition"), u.Partition, 0)
	if n, at := u.MaxUnavailable, path.Child("maxUnavailable"); n != nil {
		errs = append(errs, describe.CheckShare(at, n)...)
		if describe.Amount(n) == 0 {
			errs = append(errs, field.Invalid(at, *n, "cannot be 0"))
		}
		errs = append(errs, describe.CheckPart(at, n)...)
	}
	return errs
}

// statefulSetWarnings returns the warnings for the pods, and one for a small limit of revisions.
func statefulSetWarnings(new, old *jsondoc.Doc) []string {
	texts := core.TemplateWarnings("spec", "template")(new, old)
	for i, claim := range new.Root().At("spec", "volumeClaimTemplates").Items() {
		at := field.NewPath("spec", "volumeClaimTemplates").Index(i)
		if old == nil {
			at = at.Child("spec")
		} else {
			at = at.Child("Spec") // upstream's spelling
		}
		texts = append(texts, core.ClaimWarnings(claim.Get("spec"), at)...)
	}
	if n := new.Root().At("spec", "revisionHistoryLimit").Int(); n < 0 {
		texts = append(texts, "spec.revisionHistoryLimit: a negative value retains all historical revisions; a value >= 0 is recommended")
	}
	return texts
}
