// Package autoscaling describes autoscalers, and converts between their versions.
package autoscaling

import (
	"encoding/json"
	"strings"

	autoscalingv1 "k8s.io/api/autoscaling/v1"
	autoscalingv2 "k8s.io/api/autoscaling/v2"
	corev1 "k8s.io/api/core/v1"
	kjson "sigs.k8s.io/json"

	"github.com/keelson-io/keelson/internal/builtin/describe"
	"github.com/keelson-io/keelson/jsondoc"
	"github.com/keelson-io/keelson/kind"
)

// This file describes autoscalers.

// Kinds returns the descriptions of autoscalers.
func Kinds() []describe.Description {
	scaler := autoscalingv2.HorizontalPodAutoscalerSpec{}.SwaggerDoc()
	return []describe.Description{{
		Group: "autoscaling", Kind: "HorizontalPodAutoscaler", Plural: "horizontalpodautoscalers", ShortNames: []string{"hpa"}, Categories: describe.AllCategory,
		Versions: []describe.Version{describe.VersionOf(fillAutoscaler, "v2"), describe.VersionOf(fillFirstAutoscaler, "v1")}, Status: true, Generation: true, Traits: kind.Traits{Convert: ConvertAutoscaler},
		Columns: []kind.Column{
			describe.Cell("Reference", scaler["scaleTargetRef"], func(obj jsondoc.Value) string {
				ref := obj.At("spec", "scaleTargetRef")
				return ref.Get("kind").Text() + "/" + ref.Get("name").Text()
			}),
			describe.Cell("Targets", scaler["metrics"], scalerTargets),
			describe.Cell("MinPods", scaler["minReplicas"], func(obj jsondoc.Value) string {
				return describe.Either(describe.TextOf(obj.At("spec", "minReplicas")), "<unset>")
			}),
			describe.Counted("MaxPods", scaler["maxReplicas"], describe.NumberAt("spec", "maxReplicas")),
			describe.Counted("Replicas", autoscalingv2.HorizontalPodAutoscalerStatus{}.SwaggerDoc()["currentReplicas"], describe.NumberAt("status", "currentReplicas")),
			describe.AgeColumn(),
		},
		Check: checkAutoscaler,
	}}
}

const defaultUtilization = 80 // per cent

// fillAutoscaler sets the default metric, which is the use of CPU, and the defaults of the rules of
// scaling.
func fillAutoscaler(h *autoscalingv2.HorizontalPodAutoscaler) {
	if len(h.Spec.Metrics) == 0 {
		h.Spec.Metrics = []autoscalingv2.MetricSpec{{
			Type: autoscalingv2.ResourceMetricSourceType,
			Resource: &autoscalingv2.ResourceMetricSource{Name: corev1.ResourceCPU, Target: autoscalingv2.MetricTarget{
				Type: autoscalingv2.UtilizationMetricType, AverageUtilization: new(int32(defaultUtilization)),
			}},
		}}
	}
	if b := h.Spec.Behavior; b != nil {
		percent := autoscalingv2.HPAScalingPolicy{Type: autoscalingv2.PercentScalingPolicy, Value: 100, PeriodSeconds: 15}
		pods := autoscalingv2.HPAScalingPolicy{Type: autoscalingv2.PodsScalingPolicy, Value: 4, PeriodSeconds: 15}
		fillScaling(&b.ScaleUp, pods, percent)
		describe.OrDefault(&b.ScaleUp.StabilizationWindowSeconds, 0)
		fillScaling(&b.ScaleDown, percent)
	}
}

// fillScaling sets the defaults of the rules of scaling in one direction.
func fillScaling(r **autoscalingv2.HPAScalingRules, policies ...autoscalingv2.HPAScalingPolicy) {
	describe.OrDefault(r, autoscalingv2.HPAScalingRules{})
	describe.OrDefault(&(*r).SelectPolicy, autoscalingv2.MaxChangePolicySelect)
	if (*r).Policies == nil {
		(*r).Policies = policies
	}
}

// scalerTargets returns the current and the wanted value of each metric, for the column of tables.
func scalerTargets(obj jsondoc.Value) string {
	if obj.Get("apiVersion").Text() == "autoscaling/v1" {
		var first autoscalingv1.HorizontalPodAutoscaler
		if err := kjson.UnmarshalCaseSensitivePreserveInts(obj.AppendJSON(nil), &first); err != nil {
			return "<unknown>"
		}
		text, err := json.Marshal(fromFirstAutoscaler(&first))
		if err != nil {
			return "<unknown>"
		}
		d := jsondoc.Get()
		defer d.Release()
		if err := jsondoc.Parse(d, text); err != nil {
			return "<unknown>"
		}
		return scalerTargets(d.Root())
	}
	var out []string
	for i, m := range obj.At("spec", "metrics").Items() {
		source := strings.ToLower(m.Get("type").Text()[:min(1, len(m.Get("type").Text()))]) + m.Get("type").Text()[min(1, len(m.Get("type").Text())):]
		target := m.At(source, "target")
		current := obj.At("status", "currentMetrics")
		var now jsondoc.Value
		if i < current.Len() {
			now = current.Item(i).At(source, "current")
		}
		name := ""
		if n := m.At(source, "name").Text(); n != "" {
			name = n + ": "
		}
		switch want := target.Get("averageUtilization"); {
		case want.Exists():
			text := "<unknown>"
			if now.Doc != nil && now.Get("averageUtilization").Exists() {
				text = describe.Number(now.Get("averageUtilization")) + "%"
			}
			out = append(out, name+text+"/"+describe.Number(want)+"%")
		case target.Get("averageValue").Exists():
			out = append(out, name+quantityNow(now, "averageValue")+"/"+target.Get("averageValue").Text()+" (avg)")
		default:
			out = append(out, name+quantityNow(now, "value")+"/"+target.Get("value").Text())
		}
	}
	if out == nil {
		return "<none>"
	}
	if len(out) > 2 {
		return strings.Join(out[:2], ", ") + " + " + string(rune('0'+min(len(out)-2, 9))) + " more..."
	}
	return strings.Join(out, ", ")
}

// quantityNow returns the current quantity of a metric as tables show it.
func quantityNow(now jsondoc.Value, member string) string {
	if now.Doc == nil || !now.Get(member).Exists() {
		return "<unknown>"
	}
	return now.Get(member).Text()
}
