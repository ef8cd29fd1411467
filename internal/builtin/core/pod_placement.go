package core

import (
	corev1 "k8s.io/api/core/v1"
	metav1validation "k8s.io/apimachinery/pkg/apis/meta/v1/validation"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/keelson-io/keelson/internal/builtin/describe"
	"github.com/keelson-io/keelson/internal/texts"
)

// This file checks the fields that decide on which node a pod runs.

// checkPlacement checks all these fields.
func (c *podCheck) checkPlacement() field.ErrorList {
	errs := texts.Labels(c.NodeSelector, c.path.Child("nodeSelector"))
	errs = append(errs, checkAffinity(c.Affinity, c.path.Child("affinity"))...)
	for i := range texts.Each(&errs, c.Tolerations) {
		errs = append(errs, checkToleration(&c.Tolerations[i], c.path.Child("tolerations").Index(i))...)
	}
	for i := range texts.Each(&errs, c.TopologySpreadConstraints) {
		s, path := &c.TopologySpreadConstraints[i], c.path.Child("topologySpreadConstraints").Index(i)
		if s.MaxSkew <= 0 {
			errs = append(errs, field.Invalid(path.Child("maxSkew"), int64(s.MaxSkew), "must be greater than zero").WithOrigin("minimum"))
		}
		if s.TopologyKey == "" {
			errs = append(errs, field.Required(path.Child("topologyKey"), "can not be empty"))
		}
		errs = append(errs, checkSpread(s, path)...)
	}
	return append(errs, checkSpreads(c.TopologySpreadConstraints, c.path.Child("topologySpreadConstraints"))...)
}

// checkSpread checks a topology spread constraint.
func checkSpread(s *corev1.TopologySpreadConstraint, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	ways := []corev1.UnsatisfiableConstraintAction{corev1.DoNotSchedule, corev1.ScheduleAnyway}
	if s.WhenUnsatisfiable == "" {
		errs = append(errs, field.NotSupported(path.Child("whenUnsatisfiable"), s.WhenUnsatisfiable, ways))
	}
	errs = append(errs, describe.Among(path.Child("whenUnsatisfiable"), s.WhenUnsatisfiable, ways...)...)
	if n := s.MinDomains; n != nil {
		errs = append(errs, describe.AtLeast(path.Child("minDomains"), n, 1)...)
		if s.WhenUnsatisfiable != corev1.DoNotSchedule {
			errs = append(errs, field.Invalid(path.Child("minDomains"), n, "can only use minDomains if whenUnsatisfiable=DoNotSchedule, not "+string(s.WhenUnsatisfiable)))
		}
	}
	return append(errs, describe.CheckTerms(s.LabelSelector, path.Child("labelSelector"))...)
}

// checkToleration checks a toleration of taints.
func checkToleration(t *corev1.Toleration, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	if t.Key != "" {
		errs = append(errs, metav1validation.ValidateLabelName(t.Key, path.Child("key"))...)
	} else if t.Operator != corev1.TolerationOpExists {
		errs = append(errs, field.Invalid(path.Child("operator"), t.Operator, "operator must be Exists when `key` is empty, which means \"match all values and all keys\""))
	}
	if t.TolerationSeconds != nil && t.Effect != corev1.TaintEffectNoExecute {
		errs = append(errs, field.Invalid(path.Child("effect"), t.Effect, "effect must be 'NoExecute' when `tolerationSeconds` is set"))
	}
	switch t.Operator {
	case corev1.TolerationOpEqual, "":
		errs = append(errs, describe.Invalid(path.Child("operator"), t.Value, validation.IsValidLabelValue(t.Value))...)
	case corev1.TolerationOpExists:
		if t.Value != "" {
			errs = append(errs, field.Invalid(path.Child("operator"), t.Value, "value must be empty when `operator` is 'Exists'"))
		}
	case corev1.TolerationOpLt, corev1.TolerationOpGt:
		errs = append(errs, checkDecimal(path.Child("value"), t.Value)...)
	default:
		errs = append(errs, describe.Among(path.Child("operator"), t.Operator, corev1.TolerationOpEqual, corev1.TolerationOpExists)...)
	}
	return append(errs, checkTaintEffect(path.Child("effect"), t.Effect)...)
}

// checkTaintEffect checks the effect of a taint.
func checkTaintEffect(path *field.Path, effect corev1.TaintEffect) field.ErrorList {
	return describe.Among(path, effect, corev1.TaintEffectNoSchedule, corev1.TaintEffectPreferNoSchedule, corev1.TaintEffectNoExecute)
}

// checkAffinity checks affinities to nodes and pods.
func checkAffinity(a *corev1.Affinity, path *field.Path) field.ErrorList {
	const required, preferred = "requiredDuringSchedulingIgnoredDuringExecution", "preferredDuringSchedulingIgnoredDuringExecution"
	var errs field.ErrorList
	if a == nil {
		return nil
	}
	if n, at := a.NodeAffinity, path.Child("nodeAffinity"); n != nil {
		if s := n.RequiredDuringSchedulingIgnoredDuringExecution; s != nil {
			errs = append(errs, checkNodeSelector(s, at.Child(required))...)
		}
		for i, t := range texts.Each(&errs, n.PreferredDuringSchedulingIgnoredDuringExecution) {
			one := at.Child(preferred).Index(i)
			errs = append(errs, checkWeight(one.Child("weight"), t.Weight)...)
			errs = append(errs, checkNodeTerm(&t.Preference, one.Child("preference"))...)
		}
	}
	pods := func(at *field.Path, terms []corev1.PodAffinityTerm, weighted []corev1.WeightedPodAffinityTerm) {
		for i := range texts.Each(&errs, terms) {
			errs = append(errs, checkPodTerm(&terms[i], at.Child(required).Index(i))...)
		}
		for i := range texts.Each(&errs, weighted) {
			one := at.Child(preferred).Index(i)
			errs = append(errs, checkWeight(one.Child("weight"), weighted[i].Weight)...)
			errs = append(errs, checkPodTerm(&weighted[i].PodAffinityTerm, one.Child("podAffinityTerm"))...)
		}
	}
	if p := a.PodAffinity; p != nil {
		pods(path.Child("podAffinity"), p.RequiredDuringSchedulingIgnoredDuringExecution, p.PreferredDuringSchedulingIgnoredDuringExecution)
	}
	if p := a.PodAntiAffinity; p != nil {
		pods(path.Child("podAntiAffinity"), p.RequiredDuringSchedulingIgnoredDuringExecution, p.PreferredDuringSchedulingIgnoredDuringExecution)
	}
	return errs
}

// checkWeight checks the weight of a preference.
func checkWeight(path *field.Path, weight int32) field.ErrorList {
	if weight >= 1 && weight <= 100 {
		return nil
	}
	return field.ErrorList{field.Invalid(path, weight, "must be in the range 1-100")}
}

// checkPodTerm checks a term of an affinity to pods.
func checkPodTerm(t *corev1.PodAffinityTerm, path *field.Path) field.ErrorList {
	errs := describe.CheckTerms(t.LabelSelector, path.Child("labelSelector"))
	errs = append(errs, describe.CheckTerms(t.NamespaceSelector, path.Child("namespaceSelector"))...)
	for _, name := range texts.Each(&errs, t.Namespaces) {
		errs = append(errs, describe.Invalid(path.Child("namespace"), name, validation.IsDNS1123Label(name))...)
	}
	errs = append(errs, checkLabelKeys(path, t.MatchLabelKeys, t.MismatchLabelKeys, t.LabelSelector)...)
	if t.TopologyKey == "" {
		errs = append(errs, field.Required(path.Child("topologyKey"), "can not be empty"))
	}
	return append(errs, metav1validation.ValidateLabelName(t.TopologyKey, path.Child("topologyKey"))...)
}

// checkNodeSelector checks a selector of nodes.
func checkNodeSelector(s *corev1.NodeSelector, path *field.Path) field.ErrorList {
	at := path.Child("nodeSelectorTerms")
	if len(s.NodeSelectorTerms) == 0 {
		return field.ErrorList{field.Required(at, "must have at least one node selector term")}
	}
	var errs field.ErrorList
	for i := range texts.Each(&errs, s.NodeSelectorTerms) {
		errs = append(errs, checkNodeTerm(&s.NodeSelectorTerms[i], at.Index(i))...)
	}
	return errs
}

// checkNodeTerm checks one term of a selector of nodes.
func checkNodeTerm(t *corev1.NodeSelectorTerm, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	for i, r := range texts.Each(&errs, t.MatchExpressions) {
		at := path.Child("matchExpressions").Index(i)
		switch r.Operator {
		case corev1.NodeSelectorOpIn, corev1.NodeSelectorOpNotIn:
			if len(r.Values) == 0 {
				errs = append(errs, field.Required(at.Child("values"), "must be specified when `operator` is 'In' or 'NotIn'"))
			}
		case corev1.NodeSelectorOpExists, corev1.NodeSelectorOpDoesNotExist:
			if len(r.Values) > 0 {
				errs = append(errs, field.Forbidden(at.Child("values"), "may not be specified when `operator` is 'Exists' or 'DoesNotExist'"))
			}
		case corev1.NodeSelectorOpGt, corev1.NodeSelectorOpLt:
			if len(r.Values) != 1 {
				errs = append(errs, field.Required(at.Child("values"), "must be specified single value when `operator` is 'Lt' or 'Gt'"))
			}
		default:
			errs = append(errs, field.Invalid(at.Child("operator"), r.Operator, "not a valid selector operator"))
		}
		errs = append(errs, metav1validation.ValidateLabelName(r.Key, at.Child("key"))...)
	}
	for i := range texts.Each(&errs, t.MatchFields) {
		errs = append(errs, checkNodeField(&t.MatchFields[i], path.Child("matchFields").Index(i))...)
	}
	return errs
}
