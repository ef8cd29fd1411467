// Package scheduling describes priority classes, of the API group scheduling.k8s.io.
package scheduling

import (
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
	schedulingv1 "k8s.io/api/scheduling/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/keelson-io/keelson/internal/builtin/describe"
	"github.com/keelson-io/keelson/jsondoc"
	"github.com/keelson-io/keelson/kind"
	"github.com/keelson-io/keelson/schema"
)

// This file describes priority classes.

// Classes of users have at most this priority, and no names with the prefix of the system's
// classes.
const (
	maxUserPriority = 1_000_000_000
	systemPriority  = "system-"
)

// checkPriorityClass checks a priority class. Its value must not change.
func checkPriorityClass(_ *kind.Version, d, old *jsondoc.Doc, _ schema.Scope) field.ErrorList {
	c := describe.ReadAs[schedulingv1.PriorityClass](d.Root())
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
		errs = append(errs, describe.Among(field.NewPath("preemptionPolicy"), *p, corev1.PreemptLowerPriority, corev1.PreemptNever)...)
	}
	if old == nil {
		return errs
	}
	was := describe.ReadAs[schedulingv1.PriorityClass](old.Root())
	if c.Value != was.Value {
		errs = append(errs, field.Forbidden(field.NewPath("value"), "may not be changed in an update."))
	}
	if !describe.SameJSON(c.PreemptionPolicy, was.PreemptionPolicy) {
		errs = append(errs, field.Invalid(field.NewPath("preemptionPolicy"), c.PreemptionPolicy, "field is immutable").WithOrigin("immutable"))
	}
	return errs
}

// systemPriorities has the classes for pods that a cluster cannot work without.
var systemPriorities = map[string]int32{"system-cluster-critical": 2 * maxUserPriority, "system-node-critical": 2*maxUserPriority + 1000}

// Kinds returns the description of priority classes.
func Kinds() []describe.Description {
	class := schedulingv1.PriorityClass{}.SwaggerDoc()
	return []describe.Description{{
		Group: "scheduling.k8s.io", Kind: "PriorityClass", Plural: "priorityclasses", ShortNames: []string{"pc"}, ClusterScoped: true, Generation: true, Traits: kind.Traits{FixedGeneration: true},
		Versions: describe.V1[schedulingv1.PriorityClass](nil),
		Columns: []kind.Column{
			describe.Integers(describe.Counted("Value", class["value"], describe.NumberAt("value")))[0],
			describe.Truth("Global-Default", class["globalDefault"], "globalDefault"),
			describe.AgeColumn(),
			describe.At("PreemptionPolicy", "string", ".preemptionPolicy", class["preemptionPolicy"]),
		},
		Check: checkPriorityClass,
	}}
}
