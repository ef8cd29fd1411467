package builtin

import (
	"encoding/json"
	"strings"

	autoscalingv1 "k8s.io/api/autoscaling/v1"
	autoscalingv2 "k8s.io/api/autoscaling/v2"
	nodev1 "k8s.io/api/node/v1"
	policyv1 "k8s.io/api/policy/v1"
	schedulingv1 "k8s.io/api/scheduling/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
	kjson "sigs.k8s.io/json"

	"github.com/keelson-io/keelson/doc"
	"github.com/keelson-io/keelson/kind"
	"github.com/keelson-io/keelson/schema"
)

// This file describes kinds that say how others are to be treated.

func policyKinds() []description {
	budget, class := policyv1.PodDisruptionBudgetSpec{}.SwaggerDoc(), schedulingv1.PriorityClass{}.SwaggerDoc()
	scaler := autoscalingv2.HorizontalPodAutoscalerSpec{}.SwaggerDoc()
	return []description{{
		group: "policy", kind: "PodDisruptionBudget", plural: "poddisruptionbudgets", short: []string{"pdb"},
		versions: v1[policyv1.PodDisruptionBudget](nil), status: true, generation: true, versioned: true, name: segment,
		columns: []kind.Column{
			orNone("Min Available", "The minimum number of pods that must be available.", "N/A", "spec", "minAvailable"),
			orNone("Max Unavailable", "The maximum number of pods that may be unavailable.", "N/A", "spec", "maxUnavailable"),
			integers(counted("Allowed Disruptions", "Calculated number of pods that may be disrupted at this time.", numberAt("status", "disruptionsAllowed")))[0],
			ageColumn(),
		},
		check: func(_ *kind.Version, d, _ *doc.Doc, _ schema.Scope) field.ErrorList {
			spec := d.Root().Get("spec")
			if spec.Get("minAvailable").Exists() && spec.Get("maxUnavailable").Exists() {
				return field.ErrorList{field.Invalid(field.NewPath("spec"), budget[""], "minAvailable and maxUnavailable cannot be both set")}
			}
			return nil
		},
	}, {
		group: "autoscaling", kind: "HorizontalPodAutoscaler", plural: "horizontalpodautoscalers", short: []string{"hpa"}, categories: all,
		versions: []version{versionOf(fillAutoscaler, "v2"), versionOf(fillFirstAutoscaler, "v1")}, status: true, generation: true, convert: convertAutoscaler,
		columns: []kind.Column{
			cell("Reference", scaler["scaleTargetRef"], func(obj doc.Value) string {
				ref := obj.At("spec", "scaleTargetRef")
				return ref.Get("kind").Text() + "/" + ref.Get("name").Text()
			}),
			cell("Targets", scaler["metrics"], scalerTargets),
			cell("MinPods", scaler["minReplicas"], func(obj doc.Value) string { return either(textOf(obj.At("spec", "minReplicas")), "<unset>") }),
			counted("MaxPods", scaler["maxReplicas"], numberAt("spec", "maxReplicas")),
			counted("Replicas", autoscalingv2.HorizontalPodAutoscalerStatus{}.SwaggerDoc()["currentReplicas"], numberAt("status", "currentReplicas")),
			ageColumn(),
		},
		check: func(_ *kind.Version, d, old *doc.Doc, scope schema.Scope) field.ErrorList {
			return checkAutoscaler(d, old, scope)
		},
	}, {
		group: "scheduling.k8s.io", kind: "PriorityClass", plural: "priorityclasses", short: []string{"pc"}, cluster: true, generation: true,
		versions: v1[schedulingv1.PriorityClass](nil),
		columns: []kind.Column{
			integers(counted("Value", class["value"], numberAt("value")))[0],
			truth("Global-Default", class["globalDefault"], "globalDefault"),
			ageColumn(),
			at("PreemptionPolicy", "string", ".preemptionPolicy", class["preemptionPolicy"]),
		},
		check: checkPriorityClass,
	}, {
		group: "node.k8s.io", kind: "RuntimeClass", plural: "runtimeclasses", cluster: true, versioned: true, createOnUpdate: true,
		versions: v1[nodev1.RuntimeClass](nil),
		columns:  []kind.Column{at("Handler", "string", ".handler", ""), ageColumn()},
		check: func(_ *kind.Version, d, old *doc.Doc, _ schema.Scope) field.ErrorList {
			errs := checkLabel(field.NewPath("handler"), strings.Clone(d.Root().Get("handler").Text()))
			if old != nil && d.Root().Get("handler").Text() != old.Root().Get("handler").Text() {
				errs = append(errs, field.Invalid(field.NewPath("handler"), strings.Clone(d.Root().Get("handler").Text()), "field is immutable"))
			}
			return errs
		},
	}}
}

// scalerTargets says what is measured and what is wanted, one metric for all.
func scalerTargets(obj doc.Value) string {
	if obj.Get("apiVersion").Text() == "autoscaling/v1" {
		var first autoscalingv1.HorizontalPodAutoscaler
		if err := kjson.UnmarshalCaseSensitivePreserveInts(obj.AppendJSON(nil), &first); err != nil {
			return "<unknown>"
		}
		text, err := json.Marshal(fromFirstAutoscaler(&first))
		if err != nil {
			return "<unknown>"
		}
		d := doc.Get()
		defer d.Release()
		if err := doc.Parse(d, text); err != nil {
			return "<unknown>"
		}
		return scalerTargets(d.Root())
	}
	var out []string
	for i, m := range obj.At("spec", "metrics").Items() {
		source := strings.ToLower(m.Get("type").Text()[:min(1, len(m.Get("type").Text()))]) + m.Get("type").Text()[min(1, len(m.Get("type").Text())):]
		target := m.At(source, "target")
		current := obj.At("status", "currentMetrics")
		var now doc.Value
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
				text = number(now.Get("averageUtilization")) + "%"
			}
			out = append(out, name+text+"/"+number(want)+"%")
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

func quantityNow(now doc.Value, member string) string {
	if now.Doc == nil || !now.Get(member).Exists() {
		return "<unknown>"
	}
	return now.Get(member).Text()
}

func checkAutoscaler(d, old *doc.Doc, scope schema.Scope) field.ErrorList {
	if scope == schema.Status {
		return nil
	}
	var errs field.ErrorList
	spec, path := d.Root().Get("spec"), field.NewPath("spec")
	least, most := spec.Get("minReplicas").Int(), spec.Get("maxReplicas").Int()
	if least < 1 {
		errs = append(errs, field.Invalid(path.Child("minReplicas"), least, "must be greater than or equal to 1"))
	}
	switch {
	case most == 0:
		errs = append(errs, field.Required(path.Child("maxReplicas"), ""))
	case most < 0:
		errs = append(errs, field.Invalid(path.Child("maxReplicas"), most, "must be greater than 0"))
	}
	if most < least {
		errs = append(errs, field.Invalid(path.Child("maxReplicas"), most, "must be greater than or equal to `minReplicas`"))
	}
	if version := spec.At("scaleTargetRef", "apiVersion").Text(); old == nil && !strings.Contains(version, "/") {
		errs = append(errs, field.Invalid(path.Child("scaleTargetRef", "apiVersion"), strings.Clone(version), "apiVersion must specify API group"))
	}
	for _, member := range []string{"kind", "name"} {
		if spec.At("scaleTargetRef", member).Text() == "" {
			errs = append(errs, field.Required(path.Child("scaleTargetRef", member), ""))
		}
	}
	return errs
}

func checkPriorityClass(_ *kind.Version, d, old *doc.Doc, _ schema.Scope) field.ErrorList {
	if old == nil {
		return nil
	}
	var errs field.ErrorList
	for _, member := range []string{"value", "preemptionPolicy"} {
		if now := d.Root().Get(member); !doc.Equal(now, old.Root().Get(member)) {
			errs = append(errs, field.Invalid(field.NewPath(member), now.Interface(), "may not be changed in an update."))
		}
	}
	return errs
}
