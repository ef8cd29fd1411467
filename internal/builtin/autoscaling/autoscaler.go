package autoscaling

import (
	"encoding/json"
	"maps"

	autoscalingv1 "k8s.io/api/autoscaling/v1"
	autoscalingv2 "k8s.io/api/autoscaling/v2"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	kjson "sigs.k8s.io/json"

	"github.com/keelson-io/keelson/internal/builtin/describe"
	"github.com/keelson-io/keelson/kind"
)

// This file converts autoscalers between autoscaling/v1 and autoscaling/v2. autoscaling/v1 has a
// field for one metric, the use of CPU. It has the other fields of autoscaling/v2 in annotations,
// which autoscaling/v2 does not have.

const (
	metricsAnnotation    = "autoscaling.alpha.kubernetes.io/metrics"
	currentAnnotation    = "autoscaling.alpha.kubernetes.io/current-metrics"
	conditionsAnnotation = "autoscaling.alpha.kubernetes.io/conditions"
	behaviorAnnotation   = "autoscaling.alpha.kubernetes.io/behavior"
)

// withoutExtras returns annotations without those of the conversion.
func withoutExtras(annotations map[string]string) map[string]string {
	out := maps.Clone(annotations)
	for _, name := range []string{metricsAnnotation, currentAnnotation, conditionsAnnotation, behaviorAnnotation} {
		delete(out, name)
	}
	if len(out) == 0 {
		return nil
	}
	return out
}

// behavior is the behavior of an autoscaler in the annotation, which uses Go's field names.
type behavior struct {
	ScaleUp, ScaleDown *scalingRules
}

// scalingRules is HPAScalingRules in the annotation.
type scalingRules struct {
	StabilizationWindowSeconds *int32
	SelectPolicy               *autoscalingv2.ScalingPolicySelect
	Policies                   []scalingPolicy
	Tolerance                  *resource.Quantity
}

// scalingPolicy is HPAScalingPolicy in the annotation.
type scalingPolicy struct {
	Type                 autoscalingv2.HPAScalingPolicyType
	Value, PeriodSeconds int32
}

// ConvertAutoscaler converts an autoscaler from one version to the other.
func ConvertAutoscaler(text []byte, to *kind.Version) ([]byte, error) {
	var m metav1.TypeMeta
	if err := json.Unmarshal(text, &m); err != nil || m.APIVersion == to.APIVersion() {
		return text, err
	}
	if to.Name == "v1" {
		var h autoscalingv2.HorizontalPodAutoscaler
		if err := kjson.UnmarshalCaseSensitivePreserveInts(text, &h); err != nil {
			return nil, err
		}
		return json.Marshal(toFirstAutoscaler(&h))
	}
	var h autoscalingv1.HorizontalPodAutoscaler
	if err := kjson.UnmarshalCaseSensitivePreserveInts(text, &h); err != nil {
		return nil, err
	}
	return json.Marshal(fromFirstAutoscaler(&h))
}

// isCPU reports whether a metric is the one for which autoscaling/v1 has a field.
func isCPU(m *autoscalingv2.MetricSpec) bool {
	return m.Type == autoscalingv2.ResourceMetricSourceType && m.Resource != nil && m.Resource.Name == corev1.ResourceCPU && m.Resource.Target.AverageUtilization != nil
}

// toFirstAutoscaler converts to autoscaling/v1. Fields that v1 does not have go into annotations.
func toFirstAutoscaler(h *autoscalingv2.HorizontalPodAutoscaler) *autoscalingv1.HorizontalPodAutoscaler {
	out := &autoscalingv1.HorizontalPodAutoscaler{
		TypeMeta:   metav1.TypeMeta{APIVersion: "autoscaling/v1", Kind: h.Kind},
		ObjectMeta: h.ObjectMeta,
		Spec: autoscalingv1.HorizontalPodAutoscalerSpec{
			ScaleTargetRef: autoscalingv1.CrossVersionObjectReference(h.Spec.ScaleTargetRef),
			MinReplicas:    h.Spec.MinReplicas, MaxReplicas: h.Spec.MaxReplicas,
		},
		Status: autoscalingv1.HorizontalPodAutoscalerStatus{
			ObservedGeneration: h.Status.ObservedGeneration, LastScaleTime: h.Status.LastScaleTime,
			CurrentReplicas: h.Status.CurrentReplicas, DesiredReplicas: h.Status.DesiredReplicas,
		},
	}
	extras := map[string]string{}
	var others []autoscalingv1.MetricSpec
	for i := range h.Spec.Metrics {
		m := &h.Spec.Metrics[i]
		if !isCPU(m) {
			others = append(others, toFirstMetric(m))
		} else if out.Spec.TargetCPUUtilizationPercentage == nil {
			out.Spec.TargetCPUUtilizationPercentage = m.Resource.Target.AverageUtilization
		}
	}
	annotate(extras, metricsAnnotation, others, len(others) > 0)
	var current []autoscalingv1.MetricStatus
	for i := range h.Status.CurrentMetrics {
		m := &h.Status.CurrentMetrics[i]
		current = append(current, toFirstStatus(m))
		if m.Type == autoscalingv2.ResourceMetricSourceType && m.Resource != nil && m.Resource.Name == corev1.ResourceCPU && m.Resource.Current.AverageUtilization != nil {
			out.Status.CurrentCPUUtilizationPercentage = m.Resource.Current.AverageUtilization
		}
	}
	annotate(extras, currentAnnotation, current, len(current) > 0)
	if b := h.Spec.Behavior; b != nil {
		annotate(extras, behaviorAnnotation, behavior{rulesOf(b.ScaleUp), rulesOf(b.ScaleDown)}, true)
	}
	annotate(extras, conditionsAnnotation, h.Status.Conditions, len(h.Status.Conditions) > 0)
	out.Annotations = withoutExtras(h.Annotations)
	if len(extras) > 0 {
		if out.Annotations == nil {
			out.Annotations = map[string]string{}
		}
		maps.Copy(out.Annotations, extras)
	}
	return out
}

// annotate sets an annotation to the JSON of a value.
func annotate(annotations map[string]string, name string, value any, there bool) {
	if !there {
		return
	}
	text, err := json.Marshal(value)
	if err != nil {
		panic("BUG: " + err.Error()) // it was decoded from JSON
	}
	annotations[name] = string(text)
}

// rulesOf converts scaling rules to the form of the annotation.
func rulesOf(r *autoscalingv2.HPAScalingRules) *scalingRules {
	if r == nil {
		return nil
	}
	out := &scalingRules{StabilizationWindowSeconds: r.StabilizationWindowSeconds, SelectPolicy: r.SelectPolicy, Tolerance: r.Tolerance}
	for _, p := range r.Policies {
		out.Policies = append(out.Policies, scalingPolicy(p))
	}
	return out
}

// rules returns the inverse of rulesOf.
func (r *scalingRules) rules() *autoscalingv2.HPAScalingRules {
	if r == nil {
		return nil
	}
	out := &autoscalingv2.HPAScalingRules{StabilizationWindowSeconds: r.StabilizationWindowSeconds, SelectPolicy: r.SelectPolicy, Tolerance: r.Tolerance}
	for _, p := range r.Policies {
		out.Policies = append(out.Policies, autoscalingv2.HPAScalingPolicy(p))
	}
	return out
}

// fromFirstAutoscaler converts to autoscaling/v2 and removes the annotations of the conversion.
func fromFirstAutoscaler(h *autoscalingv1.HorizontalPodAutoscaler) *autoscalingv2.HorizontalPodAutoscaler {
	out := &autoscalingv2.HorizontalPodAutoscaler{
		TypeMeta:   metav1.TypeMeta{APIVersion: "autoscaling/v2", Kind: h.Kind},
		ObjectMeta: h.ObjectMeta,
		Spec: autoscalingv2.HorizontalPodAutoscalerSpec{
			ScaleTargetRef: autoscalingv2.CrossVersionObjectReference(h.Spec.ScaleTargetRef),
			MinReplicas:    h.Spec.MinReplicas, MaxReplicas: h.Spec.MaxReplicas,
		},
		Status: autoscalingv2.HorizontalPodAutoscalerStatus{
			ObservedGeneration: h.Status.ObservedGeneration, LastScaleTime: h.Status.LastScaleTime,
			CurrentReplicas: h.Status.CurrentReplicas, DesiredReplicas: h.Status.DesiredReplicas,
		},
	}
	var others []autoscalingv1.MetricSpec
	if readAnnotation(h, metricsAnnotation, &others) {
		for i := range others {
			out.Spec.Metrics = append(out.Spec.Metrics, fromFirstMetric(&others[i]))
		}
	}
	if percent := h.Spec.TargetCPUUtilizationPercentage; percent != nil {
		out.Spec.Metrics = append(out.Spec.Metrics, cpuMetric(*percent))
	}
	if len(out.Spec.Metrics) == 0 {
		out.Spec.Metrics = append(out.Spec.Metrics, cpuMetric(defaultUtilization))
	}
	var b behavior
	if readAnnotation(h, behaviorAnnotation, &b) && b != (behavior{}) {
		out.Spec.Behavior = &autoscalingv2.HorizontalPodAutoscalerBehavior{ScaleUp: b.ScaleUp.rules(), ScaleDown: b.ScaleDown.rules()}
	}
	if percent := h.Status.CurrentCPUUtilizationPercentage; percent != nil {
		out.Status.CurrentMetrics = []autoscalingv2.MetricStatus{{
			Type:     autoscalingv2.ResourceMetricSourceType,
			Resource: &autoscalingv2.ResourceMetricStatus{Name: corev1.ResourceCPU, Current: autoscalingv2.MetricValueStatus{AverageUtilization: percent}},
		}}
	}
	var current []autoscalingv1.MetricStatus
	if readAnnotation(h, currentAnnotation, &current) { // the annotation has more than the field
		out.Status.CurrentMetrics = nil
		for i := range current {
			out.Status.CurrentMetrics = append(out.Status.CurrentMetrics, fromFirstStatus(&current[i]))
		}
	}
	readAnnotation(h, conditionsAnnotation, &out.Status.Conditions)
	out.Annotations = withoutExtras(h.Annotations)
	return out
}

// readAnnotation decodes an annotation. It reports false if there is none, or it cannot be decoded.
func readAnnotation(h *autoscalingv1.HorizontalPodAutoscaler, name string, into any) bool {
	text, ok := h.Annotations[name]
	return ok && json.Unmarshal([]byte(text), into) == nil
}

// fillFirstAutoscaler sets the defaults of autoscaling/v1, which are those of v2.
func fillFirstAutoscaler(h *autoscalingv1.HorizontalPodAutoscaler) {
	if _, ok := h.Annotations[metricsAnnotation]; !ok {
		describe.OrDefault(&h.Spec.TargetCPUUtilizationPercentage, defaultUtilization)
	}
}

// cpuMetric returns the metric for which autoscaling/v1 has a field.
func cpuMetric(percent int32) autoscalingv2.MetricSpec {
	return autoscalingv2.MetricSpec{
		Type: autoscalingv2.ResourceMetricSourceType,
		Resource: &autoscalingv2.ResourceMetricSource{Name: corev1.ResourceCPU, Target: autoscalingv2.MetricTarget{
			Type: autoscalingv2.UtilizationMetricType, AverageUtilization: &percent,
		}},
	}
}
