// Package policy describes disruption budgets, of the API group policy.
package policy

import (
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/keelson-io/keelson/internal/builtin/describe"
	"github.com/keelson-io/keelson/jsondoc"
	"github.com/keelson-io/keelson/kind"
)

// This file describes disruption budgets.

// Kinds returns the description of disruption budgets.
func Kinds() []describe.Description {
	return []describe.Description{{
		Group: "policy", Kind: "PodDisruptionBudget", Plural: "poddisruptionbudgets", ShortNames: []string{"pdb"},
		Traits: kind.Traits{RequireResourceVersion: true}, Versions: describe.V1[policyv1.PodDisruptionBudget](nil), Status: true, Generation: true, ValidName: describe.Segment, AnyFinalizer: true,
		Columns: []kind.Column{
			describe.OrNone("Min Available", "The minimum number of pods that must be available.", "N/A", "spec", "minAvailable"),
			describe.OrNone("Max Unavailable", "The maximum number of pods that may be unavailable.", "N/A", "spec", "maxUnavailable"),
			describe.Integers(describe.Counted("Allowed Disruptions", "Calculated number of pods that may be disrupted at this time.", describe.NumberAt("status", "disruptionsAllowed")))[0],
			describe.AgeColumn(),
		},
		Check: describe.Both(describe.UnlessStatus(checkBudget), describe.BudgetCounts.Check),
	}}
}

// shownBudget is a budget as errors print it: with Go's field names.
type shownBudget struct {
	MinAvailable               *intstr.IntOrString
	Selector                   *metav1.LabelSelector
	MaxUnavailable             *intstr.IntOrString
	UnhealthyPodEvictionPolicy *policyv1.UnhealthyPodEvictionPolicyType
}

// checkBudget checks a budget. It has either a minimum of available pods or a maximum of
// unavailable ones.
func checkBudget(new, _ *jsondoc.Doc) field.ErrorList {
	spec, path := describe.ReadAs[policyv1.PodDisruptionBudgetSpec](new.Root().Get("spec")), field.NewPath("spec")
	var errs field.ErrorList
	if spec.MinAvailable != nil && spec.MaxUnavailable != nil {
		errs = append(errs, field.Invalid(path, shownBudget(*spec), "minAvailable and maxUnavailable cannot be both set"))
	}
	errs = append(errs, describe.CheckShare(path.Child("minAvailable"), spec.MinAvailable)...)
	errs = append(errs, describe.CheckPart(path.Child("minAvailable"), spec.MinAvailable)...)
	errs = append(errs, describe.CheckShare(path.Child("maxUnavailable"), spec.MaxUnavailable)...)
	errs = append(errs, describe.CheckPart(path.Child("maxUnavailable"), spec.MaxUnavailable)...)
	return append(errs, describe.CheckTerms(spec.Selector, path.Child("selector"))...)
}
