package crd

import (
	"fmt"
	"slices"
	"time"

	apiextv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	utilerrors "k8s.io/apimachinery/pkg/util/errors"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/keelson-io/keelson/kind"
)

// This file computes the status conditions of definitions.

// Names are the names that the definitions of a group have been granted, including those of the
// definition that is being examined.
type Names struct {
	Resources map[string]bool // plurals, singulars and short names
	Kinds     map[string]bool // kinds and list kinds
}

// Add adds the granted names of a definition.
func (n *Names) Add(names *apiextv1.CustomResourceDefinitionNames) {
	if n.Resources == nil {
		n.Resources, n.Kinds = map[string]bool{}, map[string]bool{}
	}
	for _, s := range append([]string{names.Plural, names.Singular}, names.ShortNames...) {
		n.Resources[s] = true
	}
	n.Kinds[names.Kind], n.Kinds[names.ListKind] = true, true
}

// NameConditions grants crd the names that it requests and that are free, and sets the conditions
// NamesAccepted and Established accordingly. It reports whether the status changed.
func NameConditions(crd *apiextv1.CustomResourceDefinition, used Names, now time.Time) bool {
	changed := false
	if !equality.Semantic.DeepEqual(crd.Spec.Names, crd.Status.AcceptedNames) || Condition(crd, apiextv1.NamesAccepted) == nil {
		granted, reason, message := grant(&crd.Spec.Names, crd.Status.AcceptedNames, used)
		changed = !equality.Semantic.DeepEqual(crd.Status.AcceptedNames, granted)
		crd.Status.AcceptedNames = granted
		c := apiextv1.CustomResourceDefinitionCondition{
			Type: apiextv1.NamesAccepted, Status: apiextv1.ConditionFalse, Reason: reason, Message: message,
		}
		if reason == "" {
			c.Status, c.Reason, c.Message = apiextv1.ConditionTrue, "NoConflicts", "no conflicts found"
		}
		changed = SetCondition(crd, c, now) || changed
	}
	return establish(crd, now) || changed
}

// establish sets the condition Established, which stays true once it is true. It reports whether
// the condition changed.
func establish(crd *apiextv1.CustomResourceDefinition, now time.Time) bool {
	have := Condition(crd, apiextv1.Established)
	c := apiextv1.CustomResourceDefinitionCondition{Type: apiextv1.Established, Status: apiextv1.ConditionFalse}
	switch {
	case have != nil && have.Status == apiextv1.ConditionTrue:
		return false
	case !HasCondition(crd, apiextv1.NamesAccepted):
		if have != nil {
			return false
		}
		c = notAccepted()
	case hasInvalidCABundle(crd.Spec.Conversion):
		c.Reason, c.Message = "InvalidCABundle", "The conversion webhook CABundle is invalid"
	default:
		c.Status, c.Reason, c.Message = apiextv1.ConditionTrue, "InitialNamesAccepted", "the initial names have been accepted"
	}
	return SetCondition(crd, c, now)
}

// grant returns the granted names, and the reason and message of the last conflict, "" if there is
// none. Names that the definition was granted before are never refused.
func grant(asked *apiextv1.CustomResourceDefinitionNames, had apiextv1.CustomResourceDefinitionNames, used Names) (granted apiextv1.CustomResourceDefinitionNames, reason, message string) {
	granted = had
	grantOne := func(asked, had string, used map[string]bool, field *string, why string) {
		if asked == had || !used[asked] {
			*field = asked
		} else {
			reason, message = why, inUse(asked).Error()
		}
	}
	grantOne(asked.Plural, had.Plural, used.Resources, &granted.Plural, "PluralConflict")
	grantOne(asked.Singular, had.Singular, used.Resources, &granted.Singular, "SingularConflict")
	if !slices.Equal(asked.ShortNames, had.ShortNames) {
		mine := make(map[string]bool, len(had.ShortNames))
		for _, s := range had.ShortNames {
			mine[s] = true
		}
		var errs []error
		for _, s := range asked.ShortNames {
			if used.Resources[s] && !mine[s] {
				errs = append(errs, inUse(s))
			}
		}
		if err := utilerrors.NewAggregate(errs[:min(len(errs), maxConflicts)]); err != nil {
			reason, message = "ShortNamesConflict", err.Error()
			if more := len(errs) - maxConflicts; more > 0 {
				message += fmt.Sprintf(" and %d more", more)
			}
		} else {
			granted.ShortNames = asked.ShortNames
		}
	}
	grantOne(asked.Kind, had.Kind, used.Kinds, &granted.Kind, "KindConflict")
	grantOne(asked.ListKind, had.ListKind, used.Kinds, &granted.ListKind, "ListKindConflict")
	granted.Categories = asked.Categories
	return granted, reason, message
}

// maxConflicts bounds the number of short names in a condition's message. All of them might make
// the definition too large to be stored.
const maxConflicts = 1000

// inUse returns upstream's error for a name that another definition has.
func inUse(name string) error { return fmt.Errorf("%q is already in use", name) }

// OtherConditions sets or removes the conditions NonStructuralSchema and
// KubernetesAPIApprovalPolicyConformant. It reports whether the status changed.
func (c *Compiler) OtherConditions(stored *Stored, now time.Time) bool {
	crd, changed := stored.Definition, false
	if stored.Outline {
		// ParseStored makes an outline only of a definition whose schemas are structural and which
		// has no such condition.
	} else if condition, ok := c.structuralCondition(crd); ok {
		changed = SetCondition(crd, condition, now)
	} else {
		changed = RemoveCondition(crd, apiextv1.NonStructuralSchema)
	}
	if condition, ok := approvalCondition(crd); ok {
		changed = SetCondition(crd, condition, now) || changed
	}
	return changed
}

// structuralCondition returns the condition NonStructuralSchema, and whether the definition has it.
func (c *Compiler) structuralCondition(crd *apiextv1.CustomResourceDefinition) (apiextv1.CustomResourceDefinitionCondition, bool) {
	out := apiextv1.CustomResourceDefinitionCondition{Type: apiextv1.NonStructuralSchema}
	var errs field.ErrorList
	if crd.Spec.PreserveUnknownFields {
		errs = append(errs, field.Invalid(field.NewPath("spec", "preserveUnknownFields"), true, "must be false"))
	}
	for i := range crd.Spec.Versions {
		v := &crd.Spec.Versions[i]
		path := field.NewPath("spec", "versions").Index(i).Child("schema", "openAPIV3Schema")
		s, found := c.parsedSchema(openAPI(v.Schema), path)
		if len(found) > 0 {
			out.Status, out.Reason = apiextv1.ConditionUnknown, "StructuralError"
			out.Message = fmt.Sprintf("failed to check validation schema for version %s: %s", v.Name, found[0].Detail)
			return out, true
		}
		if s != nil {
			errs = append(errs, c.structuralErrors(openAPI(v.Schema), s, path)...)
		}
	}
	if len(errs) == 0 {
		return out, false
	}
	out.Status, out.Reason, out.Message = apiextv1.ConditionTrue, "Violations", errs.ToAggregate().Error()
	return out, true
}

// approvalCondition returns the condition KubernetesAPIApprovalPolicyConformant, and whether the
// definition has it.
func approvalCondition(crd *apiextv1.CustomResourceDefinition) (apiextv1.CustomResourceDefinitionCondition, bool) {
	if !IsProtected(crd.Spec.Group) {
		return apiextv1.CustomResourceDefinitionCondition{}, false
	}
	state, text := ApprovalOf(crd.Annotations)
	c := apiextv1.CustomResourceDefinitionCondition{
		Type: apiextv1.KubernetesAPIApprovalPolicyConformant, Status: apiextv1.ConditionFalse, Message: text,
	}
	switch state {
	case Approved:
		c.Status, c.Reason = apiextv1.ConditionTrue, "ApprovedAnnotation"
	case ApprovalBypassed:
		c.Reason = "UnapprovedAnnotation"
	case ApprovalMissing:
		c.Reason = "MissingAnnotation"
	default:
		c.Reason = "InvalidAnnotation"
	}
	return c, true
}

// SetRefused sets the conditions NamesAccepted and Established of a definition that the registry
// refuses. It reports whether the status changed.
//
// The accepted names become those of the spec, as with kube-apiserver. Its controllers, and those
// of earlier releases on the same store, then leave the conditions alone and do not serve the
// definition.
func SetRefused(crd *apiextv1.CustomResourceDefinition, r *kind.Refusal, now time.Time) bool {
	changed := !equality.Semantic.DeepEqual(crd.Spec.Names, crd.Status.AcceptedNames)
	crd.Status.AcceptedNames = crd.Spec.Names
	changed = SetCondition(crd, apiextv1.CustomResourceDefinitionCondition{
		Type: apiextv1.NamesAccepted, Status: apiextv1.ConditionFalse, Reason: r.Reason, Message: r.Message,
	}, now) || changed
	return SetCondition(crd, notAccepted(), now) || changed
}

// notAccepted returns the condition Established of a definition whose names are not accepted.
func notAccepted() apiextv1.CustomResourceDefinitionCondition {
	return apiextv1.CustomResourceDefinitionCondition{
		Type: apiextv1.Established, Status: apiextv1.ConditionFalse, Reason: "NotAccepted", Message: "not all names are accepted",
	}
}
