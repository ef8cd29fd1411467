package builtin

import (
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/keelson-io/keelson/doc"
	"github.com/keelson-io/keelson/kind"
	"github.com/keelson-io/keelson/schema"
)

// This file checks kinds that keep pods of a template running.

// workload is what is checked of any of them.
type workload struct {
	name      string // what errors call the kind
	deadlines string // what they call it of deadlines
	path      *field.Path

	replicas, minReady int32
	selector           *metav1.LabelSelector
	template           *corev1.PodTemplateSpec
	claims             []corev1.Volume // volumes of claims that each pod has
	mismatch           string          // what is said of a selector that cannot be read; "-": nothing
}

// unlessStatus is a check of what a write of the status does not change.
func unlessStatus(check func(new, old *doc.Doc) field.ErrorList) checker {
	return func(_ *kind.Version, new, old *doc.Doc, scope schema.Scope) field.ErrorList {
		if scope == schema.Status {
			return nil
		}
		return check(new, old)
	}
}

func (w *workload) check() field.ErrorList {
	errs := notNegative(w.path.Child("replicas"), w.replicas)
	errs = append(errs, notNegative(w.path.Child("minReadySeconds"), w.minReady)...)
	errs = append(errs, w.checkSelector()...)
	if _, err := metav1.LabelSelectorAsSelector(w.selector); err == nil || w.mismatch == "-" {
		errs = append(errs, w.checkPods()...)
	}
	return errs
}

// checkPods checks the template, whose pods run until they are stopped.
func (w *workload) checkPods() field.ErrorList {
	at := w.path.Child("template")
	errs := checkTemplate(w.template, at, w.claims)
	errs = append(errs, checkAlways(w.template, at)...)
	if w.template.Spec.ActiveDeadlineSeconds != nil {
		errs = append(errs, field.Forbidden(at.Child("spec", "activeDeadlineSeconds"), "activeDeadlineSeconds in "+w.deadlines+" is not Supported"))
	}
	return errs
}

func checkAlways(t *corev1.PodTemplateSpec, path *field.Path) field.ErrorList {
	return among(path.Child("spec", "restartPolicy"), t.Spec.RestartPolicy, corev1.RestartPolicyAlways)
}

// checkSelector checks that a selector selects the pods of the template.
func (w *workload) checkSelector() field.ErrorList {
	at := w.path.Child("selector")
	errs := checkTerms(w.selector, at)
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

// keptSelector refuses another selector.
func keptSelector(new, old *metav1.LabelSelector, path *field.Path) field.ErrorList {
	if sameJSON(new, old) {
		return nil
	}
	return field.ErrorList{field.Invalid(path, new, "field is immutable").WithOrigin("immutable")}
}

func checkDeployment(new, old *doc.Doc) field.ErrorList {
	spec, path := readAs[appsv1.DeploymentSpec](new.Root().Get("spec")), field.NewPath("spec")
	w := &workload{name: "deployment", deadlines: "ReplicaSet", path: path, replicas: orNothing(spec.Replicas), minReady: spec.MinReadySeconds,
		selector: spec.Selector, template: &spec.Template, mismatch: "invalid label selector"}
	errs := append(w.check(), checkDeploymentStrategy(&spec.Strategy, path.Child("strategy"))...)
	errs = append(errs, atLeast(path.Child("revisionHistoryLimit"), spec.RevisionHistoryLimit, 0)...)
	if n := spec.ProgressDeadlineSeconds; n != nil {
		errs = append(errs, notNegative(path.Child("progressDeadlineSeconds"), *n)...)
		if *n <= spec.MinReadySeconds {
			errs = append(errs, field.Invalid(path.Child("progressDeadlineSeconds"), *n, "must be greater than minReadySeconds"))
		}
	}
	if old != nil {
		errs = append(errs, keptSelector(spec.Selector, readAs[appsv1.DeploymentSpec](old.Root().Get("spec")).Selector, path.Child("selector"))...)
	}
	return errs
}

// orNothing is a value that need not be there.
func orNothing[T any](v *T) T {
	if v == nil {
		v = new(T)
	}
	return *v
}

func checkDeploymentStrategy(s *appsv1.DeploymentStrategy, path *field.Path) field.ErrorList {
	const recreate, rolling = appsv1.RecreateDeploymentStrategyType, appsv1.RollingUpdateDeploymentStrategyType
	u, at := s.RollingUpdate, path.Child("rollingUpdate")
	switch {
	case s.Type != recreate && s.Type != rolling:
		return field.ErrorList{field.NotSupported(path, goNamed{s}, []string{string(recreate), string(rolling)})}
	case s.Type == recreate && u != nil:
		return field.ErrorList{field.Forbidden(at, "may not be specified when strategy `type` is 'Recreate'")}
	case u == nil:
		return nil
	}
	errs := checkShare(at.Child("maxUnavailable"), u.MaxUnavailable)
	errs = append(errs, checkShare(at.Child("maxSurge"), u.MaxSurge)...)
	if amount(u.MaxUnavailable) == 0 && amount(u.MaxSurge) == 0 {
		errs = append(errs, field.Invalid(at.Child("maxUnavailable"), orNothing(u.MaxUnavailable), "may not be 0 when `maxSurge` is 0"))
	}
	return append(errs, checkPart(at.Child("maxUnavailable"), u.MaxUnavailable)...)
}

func checkReplicaSet(new, old *doc.Doc) field.ErrorList {
	spec, path := readAs[appsv1.ReplicaSetSpec](new.Root().Get("spec")), field.NewPath("spec")
	w := &workload{name: "deployment", deadlines: "ReplicaSet", path: path, replicas: orNothing(spec.Replicas), minReady: spec.MinReadySeconds,
		selector: spec.Selector, template: &spec.Template, mismatch: "invalid label selector"}
	errs := w.check()
	if old != nil {
		errs = append(errs, keptSelector(spec.Selector, readAs[appsv1.ReplicaSetSpec](old.Root().Get("spec")).Selector, path.Child("selector"))...)
	}
	return errs
}

func checkDaemonSet(new, old *doc.Doc) field.ErrorList {
	spec, path := readAs[appsv1.DaemonSetSpec](new.Root().Get("spec")), field.NewPath("spec")
	w := &workload{name: "daemonset", deadlines: "DaemonSet", path: path, minReady: spec.MinReadySeconds,
		selector: spec.Selector, template: &spec.Template, mismatch: "-"}
	errs := append(w.check(), atLeast(path.Child("revisionHistoryLimit"), spec.RevisionHistoryLimit, 0)...)
	errs = append(errs, checkDaemonSetStrategy(&spec.UpdateStrategy, path.Child("updateStrategy"))...)
	if old != nil {
		errs = append(errs, keptSelector(spec.Selector, readAs[appsv1.DaemonSetSpec](old.Root().Get("spec")).Selector, path.Child("selector"))...)
	}
	return errs
}

func checkDaemonSetStrategy(s *appsv1.DaemonSetUpdateStrategy, path *field.Path) field.ErrorList {
	const rolling, onDelete = appsv1.RollingUpdateDaemonSetStrategyType, appsv1.OnDeleteDaemonSetStrategyType
	u, at := s.RollingUpdate, path.Child("rollingUpdate")
	switch {
	case s.Type != rolling && s.Type != onDelete:
		return field.ErrorList{field.NotSupported(path, goNamed{s}, []string{string(rolling), string(onDelete)})}
	case s.Type == onDelete:
		return nil
	case u == nil:
		return field.ErrorList{field.Required(at, "")}
	}
	errs := checkShare(at.Child("maxUnavailable"), u.MaxUnavailable)
	errs = append(errs, checkShare(at.Child("maxSurge"), u.MaxSurge)...)
	errs = append(errs, checkPart(at.Child("maxUnavailable"), u.MaxUnavailable)...)
	errs = append(errs, checkPart(at.Child("maxSurge"), u.MaxSurge)...)
	switch less, more := amount(u.MaxUnavailable) != 0, amount(u.MaxSurge) != 0; {
	case less && more:
		errs = append(errs, field.Invalid(at.Child("maxSurge"), *u.MaxSurge, "may not be set when maxUnavailable is non-zero"))
	case !less && !more:
		errs = append(errs, field.Required(at.Child("maxUnavailable"), "cannot be 0 when maxSurge is 0"))
	}
	return errs
}

func checkStatefulSet(new, old *doc.Doc) field.ErrorList {
	spec, path := readAs[appsv1.StatefulSetSpec](new.Root().Get("spec")), field.NewPath("spec")
	template := spec.Template.DeepCopy()
	template.Spec.Hostname, template.Spec.Subdomain = "", "" // its pods have others
	w := &workload{name: "statefulset", deadlines: "StatefulSet", path: path, replicas: orNothing(spec.Replicas), minReady: spec.MinReadySeconds,
		selector: spec.Selector, template: template}
	for i := range spec.VolumeClaimTemplates {
		name := spec.VolumeClaimTemplates[i].Name
		w.claims = append(w.claims, corev1.Volume{Name: name, VolumeSource: corev1.VolumeSource{
			PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: name}}})
	}
	errs := w.check()
	if old == nil { // they cannot be changed
		for i := range spec.VolumeClaimTemplates {
			errs = append(errs, checkClaimSpec(&spec.VolumeClaimTemplates[i].Spec, path.Child("volumeClaimTemplates").Index(i).Child("spec"))...)
		}
	}
	errs = append(errs, checkStatefulSetPolicies(spec, path)...)
	errs = append(errs, checkName(path.Child("serviceName"), spec.ServiceName, dnsLabel)...)
	if spec.Ordinals != nil {
		errs = append(errs, notNegative(path.Child("ordinals.start"), spec.Ordinals.Start)...)
	}
	if old == nil {
		return errs
	}
	was := readAs[appsv1.StatefulSetSpec](old.Root().Get("spec"))
	if spec.VolumeClaimTemplates == nil {
		spec.VolumeClaimTemplates = []corev1.PersistentVolumeClaim{}
	}
	if was.VolumeClaimTemplates == nil {
		was.VolumeClaimTemplates = []corev1.PersistentVolumeClaim{}
	}
	errs = append(errs, keptSelector(spec.Selector, was.Selector, path.Child("selector"))...)
	for _, kept := range []struct {
		name     string
		now, was any
	}{
		{"volumeClaimTemplates", spec.VolumeClaimTemplates, was.VolumeClaimTemplates}, {"serviceName", spec.ServiceName, was.ServiceName},
		{"podManagementPolicy", spec.PodManagementPolicy, was.PodManagementPolicy},
	} {
		if !sameJSON(kept.now, kept.was) {
			errs = append(errs, field.Invalid(path.Child(kept.name), kept.now, "field is immutable").WithOrigin("immutable"))
		}
	}
	return errs
}

// rollingStatefulSet is how errors show it.
type rollingStatefulSet struct {
	Partition      int32
	MaxUnavailable *intstr.IntOrString
}

func checkStatefulSetPolicies(spec *appsv1.StatefulSetSpec, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	if p := spec.PodManagementPolicy; p != appsv1.OrderedReadyPodManagement && p != appsv1.ParallelPodManagement {
		errs = append(errs, field.Invalid(path.Child("podManagementPolicy"), p, "must be 'OrderedReady' or 'Parallel'"))
	}
	if p := spec.PersistentVolumeClaimRetentionPolicy; p != nil {
		const keep, remove = appsv1.RetainPersistentVolumeClaimRetentionPolicyType, appsv1.DeletePersistentVolumeClaimRetentionPolicyType
		errs = append(errs, among(path.Child("persistentVolumeClaimRetentionPolicy", "whenDeleted"), p.WhenDeleted, keep, remove)...)
		errs = append(errs, among(path.Child("persistentVolumeClaimRetentionPolicy", "whenScaled"), p.WhenScaled, keep, remove)...)
	}
	at := path.Child("updateStrategy")
	var shown *rollingStatefulSet
	u := spec.UpdateStrategy.RollingUpdate
	if u != nil {
		shown = &rollingStatefulSet{orNothing(u.Partition), u.MaxUnavailable}
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

func checkRollingStatefulSet(u *appsv1.RollingUpdateStatefulSetStrategy, path *field.Path) field.ErrorList {
	errs := atLeast(path.Child("partition"), u.Partition, 0)
	if n, at := u.MaxUnavailable, path.Child("maxUnavailable"); n != nil {
		errs = append(errs, checkShare(at, n)...)
		if amount(n) == 0 {
			errs = append(errs, field.Invalid(at, *n, "cannot be 0"))
		}
		errs = append(errs, checkPart(at, n)...)
	}
	return errs
}

func checkReplicationController(new, _ *doc.Doc) field.ErrorList {
	spec, path := readAs[corev1.ReplicationControllerSpec](new.Root().Get("spec")), field.NewPath("spec")
	errs := notNegative(path.Child("replicas"), orNothing(spec.Replicas))
	errs = append(errs, notNegative(path.Child("minReadySeconds"), spec.MinReadySeconds)...)
	if len(spec.Selector) == 0 {
		errs = append(errs, field.Required(path.Child("selector"), ""))
	}
	at := path.Child("template")
	if spec.Template == nil {
		return append(errs, field.Required(at, ""))
	}
	if len(spec.Selector) > 0 && !labels.SelectorFromSet(spec.Selector).Matches(labels.Set(spec.Template.Labels)) {
		errs = append(errs, field.Invalid(at.Child("metadata", "labels"), spec.Template.Labels, "`selector` does not match template `labels`"))
	}
	errs = append(errs, checkTemplate(spec.Template, at, nil)...)
	return append(errs, checkAlways(spec.Template, at)...)
}

// statefulSetWarnings are those of the pods, and one of how many revisions are kept.
func statefulSetWarnings(new, old *doc.Doc) []string {
	texts := templateWarnings("spec", "template")(new, old)
	for i, claim := range new.Root().At("spec", "volumeClaimTemplates").Items() {
		at := field.NewPath("spec", "volumeClaimTemplates").Index(i)
		if old == nil {
			at = at.Child("spec")
		} else {
			at = at.Child("Spec") // as it is spelled there
		}
		texts = append(texts, claimWarnings(claim.Get("spec"), at)...)
	}
	if n := new.Root().At("spec", "revisionHistoryLimit").Int(); n < 0 {
		texts = append(texts, "spec.revisionHistoryLimit: a negative value retains all historical revisions; a value >= 0 is recommended")
	}
	return texts
}
