package builtin

import (
	"encoding/json"
	"fmt"
	"strings"

	autoscalingv1 "k8s.io/api/autoscaling/v1"
	autoscalingv2 "k8s.io/api/autoscaling/v2"
	corev1 "k8s.io/api/core/v1"
	nodev1 "k8s.io/api/node/v1"
	policyv1 "k8s.io/api/policy/v1"
	schedulingv1 "k8s.io/api/scheduling/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/apimachinery/pkg/util/validation/field"
	kjson "sigs.k8s.io/json"

	"github.com/keelson-io/keelson/doc"
	"github.com/keelson-io/keelson/kind"
	"github.com/keelson-io/keelson/schema"
)

// This file describes kinds that say how others are to be treated.

func policyKinds() []description {
	class := schedulingv1.PriorityClass{}.SwaggerDoc()
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
		check: both(unlessStatus(checkBudget), budgetCounts.check),
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
		check: checkAutoscaler,
	}, {
		group: "scheduling.k8s.io", kind: "PriorityClass", plural: "priorityclasses", short: []string{"pc"}, cluster: true, generation: true, uncounted: true,
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
			if now := d.Root().Get("handler"); old != nil && now.Text() != old.Root().Get("handler").Text() {
				var shown any
				if now.Text() != "" {
					shown = now.Interface()
				}
				errs = append(errs, field.Invalid(field.NewPath("handler"), shown, "field is immutable"))
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

// shownBudget is how errors show a budget: by the names of fields in Go.
type shownBudget struct {
	MinAvailable               *intstr.IntOrString
	Selector                   *metav1.LabelSelector
	MaxUnavailable             *intstr.IntOrString
	UnhealthyPodEvictionPolicy *policyv1.UnhealthyPodEvictionPolicyType
}

func checkBudget(new, _ *doc.Doc) field.ErrorList {
	spec, path := readAs[policyv1.PodDisruptionBudgetSpec](new.Root().Get("spec")), field.NewPath("spec")
	var errs field.ErrorList
	if spec.MinAvailable != nil && spec.MaxUnavailable != nil {
		errs = append(errs, field.Invalid(path, shownBudget(*spec), "minAvailable and maxUnavailable cannot be both set"))
	}
	errs = append(errs, checkShare(path.Child("minAvailable"), spec.MinAvailable)...)
	errs = append(errs, checkPart(path.Child("minAvailable"), spec.MinAvailable)...)
	errs = append(errs, checkShare(path.Child("maxUnavailable"), spec.MaxUnavailable)...)
	errs = append(errs, checkPart(path.Child("maxUnavailable"), spec.MaxUnavailable)...)
	return append(errs, checkTerms(spec.Selector, path.Child("selector"))...)
}

// Priorities of users are up to one, and their names are not the system's own.
const (
	maxUserPriority = 1_000_000_000
	systemPriority  = "system-"
)

func checkPriorityClass(_ *kind.Version, d, old *doc.Doc, _ schema.Scope) field.ErrorList {
	c := readAs[schedulingv1.PriorityClass](d.Root())
	var errs field.ErrorList
	value, known := systemPriorities[c.Name]
	switch {
	case old != nil:
	case strings.HasPrefix(c.Name, systemPriority) && !known:
		errs = append(errs, field.Forbidden(field.NewPath("metadata", "name"),
			fmt.Sprintf("priority class names with '%s' prefix are reserved for system use only. error: %s is not a known system priority class", systemPriority, c.Name)))
	case known && value != c.Value:
		errs = append(errs, field.Forbidden(field.NewPath("metadata", "name"),
			fmt.Sprintf("priority class names with '%s' prefix are reserved for system use only. error: value of %s PriorityClass must be %d", systemPriority, c.Name, value)))
	case !known && c.Value > maxUserPriority:
		errs = append(errs, field.Forbidden(field.NewPath("value"), fmt.Sprintf("maximum allowed value of a user defined priority is %d", maxUserPriority)))
	}
	if p := c.PreemptionPolicy; p != nil {
		errs = append(errs, among(field.NewPath("preemptionPolicy"), *p, corev1.PreemptLowerPriority, corev1.PreemptNever)...)
	}
	if old == nil {
		return errs
	}
	was := readAs[schedulingv1.PriorityClass](old.Root())
	if c.Value != was.Value {
		errs = append(errs, field.Forbidden(field.NewPath("value"), "may not be changed in an update."))
	}
	if !sameJSON(c.PreemptionPolicy, was.PreemptionPolicy) {
		errs = append(errs, field.Invalid(field.NewPath("preemptionPolicy"), c.PreemptionPolicy, "field is immutable").WithOrigin("immutable"))
	}
	return errs
}

// systemPriorities are the priorities of what a cluster cannot do without.
var systemPriorities = map[string]int32{"system-cluster-critical": 2 * maxUserPriority, "system-node-critical": 2*maxUserPriority + 1000}
