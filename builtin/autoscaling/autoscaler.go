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

	"github.com/keelson-io/keelson/builtin/describe"
	"github.com/keelson-io/keelson/kind"
)

// This file converts autoscalers between autoscaling/v1, which knows only how busy processors are, and autoscaling/v2. What the
// former has no fields for is in annotations there, and only there.

const (
	metricsAnnotation    = "autoscaling.alpha.kubernetes.io/metrics"
	currentAnnotation    = "autoscaling.alpha.kubernetes.io/current-metrics"
	conditionsAnnotation = "autoscaling.alpha.kubernetes.io/conditions"
	behaviorAnnotation   = "autoscaling.alpha.kubernetes.io/behavior"
)

// withoutExtras are annotations without those of the conversion.
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

// behavior is how the annotation spells it: by the names of fields in Go.
type behavior struct {
	ScaleUp, ScaleDown *scalingRules
}

// scalingRules is HPAScalingRules as the annotation has it.
type scalingRules struct {
	StabilizationWindowSeconds *int32
	SelectPolicy               *autoscalingv2.ScalingPolicySelect
	Policies                   []scalingPolicy
	Tolerance                  *resource.Quantity
}

// scalingPolicy is HPAScalingPolicy as the annotation has it.
type scalingPolicy struct {
	Type                 autoscalingv2.HPAScalingPolicyType
	Value, PeriodSeconds int32
}

// ConvertAutoscaler turns an autoscaler of one version into one of the other.
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

// busy reports whether a metric is what v1 has a field for.
func busy(m *autoscalingv2.MetricSpec) bool {
	return m.Type == autoscalingv2.ResourceMetricSourceType && m.Resource != nil && m.Resource.Name == corev1.ResourceCPU && m.Resource.Target.AverageUtilization != nil
}

// toFirstAutoscaler converts to autoscaling/v1: what v1 has no field for goes into annotations.
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
		if !busy(m) {
			others = append(others, toFirstMetric(m))
		} else if out.Spec.TargetCPUUtilizationPercentage == nil {
			out.Spec.TargetCPUUtilizationPercentage = m.Resource.Target.AverageUtilization
		}
	}
	note(extras, metricsAnnotation, others, len(others) > 0)
	var current []autoscalingv1.MetricStatus
	for i := range h.Status.CurrentMetrics {
		m := &h.Status.CurrentMetrics[i]
		current = append(current, toFirstStatus(m))
		if m.Type == autoscalingv2.ResourceMetricSourceType && m.Resource != nil && m.Resource.Name == corev1.ResourceCPU && m.Resource.Current.AverageUtilization != nil {
			out.Status.CurrentCPUUtilizationPercentage = m.Resource.Current.AverageUtilization
		}
	}
	note(extras, currentAnnotation, current, len(current) > 0)
	if b := h.Spec.Behavior; b != nil {
		note(extras, behaviorAnnotation, behavior{rulesOf(b.ScaleUp), rulesOf(b.ScaleDown)}, true)
	}
	note(extras, conditionsAnnotation, h.Status.Conditions, len(h.Status.Conditions) > 0)
	out.Annotations = withoutExtras(h.Annotations)
	if len(extras) > 0 {
		if out.Annotations == nil {
			out.Annotations = map[string]string{}
		}
		maps.Copy(out.Annotations, extras)
	}
	return out
}

// note writes a value into an annotation.
func note(annotations map[string]string, name string, value any, there bool) {
	if !there {
		return
	}
	text, err := json.Marshal(value)
	if err != nil {
		panic("BUG: " + err.Error()) // it was JSON before
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

// rules is the inverse of rulesOf.
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
	if noted(h, metricsAnnotation, &others) {
		for i := range others {
			out.Spec.Metrics = append(out.Spec.Metrics, fromFirstMetric(&others[i]))
		}
	}
	if percent := h.Spec.TargetCPUUtilizationPercentage; percent != nil {
		out.Spec.Metrics = append(out.Spec.Metrics, busyness(*percent))
	}
	if len(out.Spec.Metrics) == 0 {
		out.Spec.Metrics = append(out.Spec.Metrics, busyness(defaultUtilization))
	}
	var b behavior
	if noted(h, behaviorAnnotation, &b) && b != (behavior{}) {
		out.Spec.Behavior = &autoscalingv2.HorizontalPodAutoscalerBehavior{ScaleUp: b.ScaleUp.rules(), ScaleDown: b.ScaleDown.rules()}
	}
	if percent := h.Status.CurrentCPUUtilizationPercentage; percent != nil {
		out.Status.CurrentMetrics = []autoscalingv2.MetricStatus{{
			Type:     autoscalingv2.ResourceMetricSourceType,
			Resource: &autoscalingv2.ResourceMetricStatus{Name: corev1.ResourceCPU, Current: autoscalingv2.MetricValueStatus{AverageUtilization: percent}},
		}}
	}
	var current []autoscalingv1.MetricStatus
	if noted(h, currentAnnotation, &current) { // they say more
		out.Status.CurrentMetrics = nil
		for i := range current {
			out.Status.CurrentMetrics = append(out.Status.CurrentMetrics, fromFirstStatus(&current[i]))
		}
	}
	noted(h, conditionsAnnotation, &out.Status.Conditions)
	out.Annotations = withoutExtras(h.Annotations)
	return out
}

// noted reads a value out of an annotation, if it is there and can be read.
func noted(h *autoscalingv1.HorizontalPodAutoscaler, name string, into any) bool {
	text, ok := h.Annotations[name]
	return ok && json.Unmarshal([]byte(text), into) == nil
}

// fillFirstAutoscaler: what v2 has a default for, v1 has one for, too.
func fillFirstAutoscaler(h *autoscalingv1.HorizontalPodAutoscaler) {
	if _, ok := h.Annotations[metricsAnnotation]; !ok {
		describe.OrDefault(&h.Spec.TargetCPUUtilizationPercentage, defaultUtilization)
	}
}

// busyness is the metric that v1 has a field for.
func busyness(percent int32) autoscalingv2.MetricSpec {
	return autoscalingv2.MetricSpec{
		Type: autoscalingv2.ResourceMetricSourceType,
		Resource: &autoscalingv2.ResourceMetricSource{Name: corev1.ResourceCPU, Target: autoscalingv2.MetricTarget{
			Type: autoscalingv2.UtilizationMetricType, AverageUtilization: &percent,
		}},
	}
}
