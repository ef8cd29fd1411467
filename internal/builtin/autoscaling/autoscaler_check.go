package autoscaling

import (
	"fmt"

	autoscalingv1 "k8s.io/api/autoscaling/v1"
	autoscalingv2 "k8s.io/api/autoscaling/v2"
	"k8s.io/apimachinery/pkg/api/validate/content"
	runtimeschema "k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/keelson-io/keelson/internal/builtin/core"
	"github.com/keelson-io/keelson/internal/builtin/describe"
	"github.com/keelson-io/keelson/internal/texts"
	"github.com/keelson-io/keelson/jsondoc"
	"github.com/keelson-io/keelson/kind"
	"github.com/keelson-io/keelson/schema"
)

// This file checks autoscalers in autoscaling/v2, which has all their fields.

// checkAutoscaler checks an autoscaler of either version: one of v1 is converted first.
func checkAutoscaler(v *kind.Version, new, old *jsondoc.Doc, scope schema.Scope) field.ErrorList {
	if scope == schema.Status {
		return nil
	}
	spec, path := &secondAutoscaler(v, new).Spec, field.NewPath("spec")
	errs := describe.AtLeast(path.Child("minReplicas"), spec.MinReplicas, 0)
	switch most := spec.MaxReplicas; {
	case most == 0:
		errs = append(errs, field.Required(path.Child("maxReplicas"), ""))
	case most < 0:
		errs = append(errs, field.Invalid(path.Child("maxReplicas"), most, "must be greater than or equal to 1"))
	}
	if least := spec.MinReplicas; least != nil && spec.MaxReplicas < *least {
		errs = append(errs, field.Invalid(path.Child("maxReplicas"), spec.MaxReplicas, "must be greater than or equal to `minReplicas`"))
	}
	errs = append(errs, checkTarget(&spec.ScaleTargetRef, path.Child("scaleTargetRef"))...)
	var oldSpec *autoscalingv2.HorizontalPodAutoscalerSpec
	if old != nil {
		oldSpec = &secondAutoscaler(v, old).Spec
	}
	errs = append(errs, checkTargetVersion(&spec.ScaleTargetRef, oldSpec, path.Child("scaleTargetRef", "apiVersion"))...)
	allowAny := hasInvalidMetricVersion(oldSpec)
	idle := spec.MinReplicas != nil && *spec.MinReplicas == 0
	for i := range texts.Each(&errs, spec.Metrics) {
		m := &spec.Metrics[i]
		idle = idle && m.Type != autoscalingv2.ObjectMetricSourceType && m.Type != autoscalingv2.ExternalMetricSourceType
		errs = append(errs, checkMetric(m, allowAny, path.Child("metrics").Index(i))...)
	}
	if idle {
		errs = append(errs, field.Forbidden(path.Child("metrics"), "must specify at least one Object or External metric to support scaling to zero replicas"))
	}
	if b := spec.Behavior; b != nil {
		errs = append(errs, checkScaling(b.ScaleUp, path.Child("behavior", "scaleUp"))...)
		errs = append(errs, checkScaling(b.ScaleDown, path.Child("behavior", "scaleDown"))...)
	}
	return errs
}

// secondAutoscaler returns an autoscaler of any version in autoscaling/v2.
func secondAutoscaler(v *kind.Version, d *jsondoc.Doc) *autoscalingv2.HorizontalPodAutoscaler {
	if v.Name != "v1" {
		return describe.ReadAs[autoscalingv2.HorizontalPodAutoscaler](d.Root())
	}
	return fromFirstAutoscaler(describe.ReadAs[autoscalingv1.HorizontalPodAutoscaler](d.Root()))
}

// checkTarget checks a reference to the object that is scaled or measured.
func checkTarget(ref *autoscalingv2.CrossVersionObjectReference, path *field.Path) field.ErrorList {
	errs := describe.NeedText(path.Child("kind"), ref.Kind)
	errs = append(errs, describe.Invalid(path.Child("kind"), ref.Kind, content.IsPathSegmentName(ref.Kind))...)
	errs = append(errs, describe.NeedText(path.Child("name"), ref.Name)...)
	errs = append(errs, describe.Invalid(path.Child("name"), ref.Name, content.IsPathSegmentName(ref.Name))...)
	return errs
}

// checkTargetVersion checks that the version of the object that is scaled names a group. A
// ReplicationController has none. An update that keeps version and kind is not checked.
func checkTargetVersion(ref *autoscalingv2.CrossVersionObjectReference, old *autoscalingv2.HorizontalPodAutoscalerSpec, path *field.Path) field.ErrorList {
	if old != nil && old.ScaleTargetRef.APIVersion == ref.APIVersion && old.ScaleTargetRef.Kind == ref.Kind {
		return nil
	}
	gv, err := runtimeschema.ParseGroupVersion(ref.APIVersion)
	switch {
	case err != nil:
		return field.ErrorList{field.Invalid(path, ref.APIVersion, err.Error())}
	case gv.Group == "" && ref.Kind != "ReplicationController":
		return field.ErrorList{field.Invalid(path, ref.APIVersion, "apiVersion must specify API group")}
	}
	return nil
}

// hasInvalidMetricVersion reports whether an old autoscaler measures an object whose apiVersion is
// malformed. Updates of such an autoscaler may keep it.
func hasInvalidMetricVersion(old *autoscalingv2.HorizontalPodAutoscalerSpec) bool {
	if old == nil {
		return false
	}
	for _, m := range old.Metrics {
		if m.Type != autoscalingv2.ObjectMetricSourceType || m.Object == nil {
			continue
		}
		if _, err := runtimeschema.ParseGroupVersion(m.Object.DescribedObject.APIVersion); err != nil {
			return true
		}
	}
	return false
}

// metricTypes are the types of metrics, each with the member that describes it.
var metricTypes = map[autoscalingv2.MetricSourceType]string{
	autoscalingv2.ContainerResourceMetricSourceType: "containerResource", autoscalingv2.ExternalMetricSourceType: "external",
	autoscalingv2.ObjectMetricSourceType: "object", autoscalingv2.PodsMetricSourceType: "pods", autoscalingv2.ResourceMetricSourceType: "resource",
}

// checkMetric checks that a metric has the source of its type, and no other one. With allowAny, the
// apiVersion of a measured object may be malformed.
func checkMetric(m *autoscalingv2.MetricSpec, allowAny bool, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	if m.Type == "" {
		errs = append(errs, field.Required(path.Child("type"), "must specify a metric source type"))
	}
	want, ok := metricTypes[m.Type]
	if !ok {
		errs = append(errs, field.NotSupported(path.Child("type"), m.Type, []autoscalingv2.MetricSourceType{autoscalingv2.ContainerResourceMetricSourceType,
			autoscalingv2.ExternalMetricSourceType, autoscalingv2.ObjectMetricSourceType, autoscalingv2.PodsMetricSourceType, autoscalingv2.ResourceMetricSourceType}))
	}
	var set []string
	source := func(name string, there bool, check func(*field.Path) field.ErrorList) {
		if !there {
			return
		}
		if set = append(set, name); len(set) == 1 {
			errs = append(errs, check(path.Child(name))...)
		}
	}
	source("object", m.Object != nil, func(at *field.Path) field.ErrorList {
		object := &m.Object.DescribedObject
		found := checkTarget(object, at.Child("describedObject"))
		if _, err := runtimeschema.ParseGroupVersion(object.APIVersion); err != nil && !allowAny {
			found = append(found, field.Invalid(at.Child("describedObject", "apiVersion"), object.APIVersion, err.Error()))
		}
		found = append(found, checkMetricName(m.Object.Metric.Name, at)...)
		return append(found, checkAnyTarget(&m.Object.Target, at.Child("target"))...)
	})
	source("external", m.External != nil, func(at *field.Path) field.ErrorList {
		found := checkMetricName(m.External.Metric.Name, at)
		return append(found, checkAnyTarget(&m.External.Target, at.Child("target"))...)
	})
	source("pods", m.Pods != nil, func(at *field.Path) field.ErrorList {
		found := append(checkMetricName(m.Pods.Metric.Name, at), checkMetricTarget(&m.Pods.Target, at.Child("target"))...)
		if m.Pods.Target.AverageValue == nil {
			found = append(found, field.Required(at.Child("target", "averageValue"), "must specify a positive target averageValue"))
		}
		return found
	})
	source("resource", m.Resource != nil, func(at *field.Path) field.ErrorList {
		return checkUse(string(m.Resource.Name), &m.Resource.Target, at)
	})
	source("containerResource", m.ContainerResource != nil, func(at *field.Path) field.ErrorList {
		found := checkUse(string(m.ContainerResource.Name), &m.ContainerResource.Target, at)
		if m.ContainerResource.Name != "" {
			found = append(found, core.CheckResourceName(at.Child("name"), m.ContainerResource.Name)...)
		}
		if m.ContainerResource.Container == "" {
			found = append(found, field.Required(at.Child("container"), "must specify a container"))
		}
		return found
	})
	missing := ok
	for _, name := range set {
		if name == want {
			missing = false
		} else if len(set) > 1 {
			errs = append(errs, field.Forbidden(path.Child(name), "must populate the given metric source only"))
		}
	}
	if missing {
		errs = append(errs, field.Required(path.Child(want), "must populate information for the given metric source"))
	}
	return errs
}

// checkMetricName checks the name of a metric, which is a segment of a URL.
func checkMetricName(name string, path *field.Path) field.ErrorList {
	at := path.Child("metric", "name")
	if name == "" {
		return field.ErrorList{field.Required(at, "must specify a metric name")}
	}
	return describe.Invalid(at, name, content.IsPathSegmentName(name))
}

// checkUse checks the target for a resource that containers use.
func checkUse(name string, t *autoscalingv2.MetricTarget, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	if name == "" {
		errs = append(errs, field.Required(path.Child("name"), "must specify a resource name"))
	}
	errs = append(errs, checkMetricTarget(t, path.Child("target"))...)
	switch {
	case t.AverageUtilization == nil && t.AverageValue == nil:
		errs = append(errs, field.Required(path.Child("target", "averageUtilization"), "must set either a target raw value or a target utilization"))
	case t.AverageUtilization != nil && t.AverageValue != nil:
		errs = append(errs, field.Forbidden(path.Child("target", "averageValue"), "may not set both a target raw value and a target utilization"))
	}
	return errs
}

// checkAnyTarget checks a target that is a value, or one for each pod.
func checkAnyTarget(t *autoscalingv2.MetricTarget, path *field.Path) field.ErrorList {
	errs := checkMetricTarget(t, path)
	if t.Value == nil && t.AverageValue == nil {
		errs = append(errs, field.Required(path.Child("averageValue"), "must set either a target value or averageValue"))
	}
	return errs
}

// checkMetricTarget checks the type and the value of a metric's target.
func checkMetricTarget(t *autoscalingv2.MetricTarget, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	if t.Type == "" {
		errs = append(errs, field.Required(path.Child("type"), "must specify a metric target type"))
	}
	if t.Type != autoscalingv2.UtilizationMetricType && t.Type != autoscalingv2.ValueMetricType && t.Type != autoscalingv2.AverageValueMetricType {
		errs = append(errs, field.Invalid(path.Child("type"), t.Type, "must be either Utilization, Value, or AverageValue"))
	}
	if q := t.Value; q != nil && q.Sign() != 1 {
		errs = append(errs, field.Invalid(path.Child("value"), q, "must be positive"))
	}
	if q := t.AverageValue; q != nil && q.Sign() != 1 {
		errs = append(errs, field.Invalid(path.Child("averageValue"), q, "must be positive"))
	}
	return append(errs, describe.AtLeast(path.Child("averageUtilization"), t.AverageUtilization, 1)...)
}

// Bounds of the windows of scaling rules, in seconds.
const (
	maxStabilization = 3600
	maxPeriod        = 1800
)

// checkScaling checks the rules and policies of scaling in one direction.
func checkScaling(r *autoscalingv2.HPAScalingRules, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	if r == nil {
		return nil
	}
	if n, at := r.StabilizationWindowSeconds, path.Child("stabilizationWindowSeconds"); n != nil && *n < 0 {
		errs = append(errs, field.Invalid(at, *n, "must be greater than or equal to zero"))
	} else if n != nil && *n > maxStabilization {
		errs = append(errs, field.Invalid(at, *n, fmt.Sprintf("must be less than or equal to %d", maxStabilization)))
	}
	if p := r.SelectPolicy; p != nil {
		errs = append(errs, describe.Among(path.Child("selectPolicy"), *p, autoscalingv2.DisabledPolicySelect, autoscalingv2.MaxChangePolicySelect, autoscalingv2.MinChangePolicySelect)...)
	}
	if len(r.Policies) == 0 {
		errs = append(errs, field.Required(path.Child("policies"), "must specify at least one Policy"))
	}
	for i, p := range texts.Each(&errs, r.Policies) {
		at := path.Child("policies").Index(i)
		errs = append(errs, describe.Among(at.Child("type"), p.Type, autoscalingv2.PercentScalingPolicy, autoscalingv2.PodsScalingPolicy)...)
		if p.Value <= 0 {
			errs = append(errs, field.Invalid(at.Child("value"), p.Value, "must be greater than zero"))
		}
		if p.PeriodSeconds <= 0 {
			errs = append(errs, field.Invalid(at.Child("periodSeconds"), p.PeriodSeconds, "must be greater than zero"))
		}
		if p.PeriodSeconds > maxPeriod {
			errs = append(errs, field.Invalid(at.Child("periodSeconds"), p.PeriodSeconds, fmt.Sprintf("must be less than or equal to %d", maxPeriod)))
		}
	}
	return errs
}
