package crd

import (
	"context"
	"strings"

	apiextv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/api/operation"
	apivalidation "k8s.io/apimachinery/pkg/api/validation"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// This file validates definitions from the outside in: metadata, spec, status.

// strictness says which checks apply. On update, checks that the live definition fails are skipped.
type strictness struct {
	// The checks that are on if true:
	compiler *Compiler

	reviewVersion   bool // at least one review version is known
	immutable       bool // scope and kind must not change
	schema          bool // every version must have a schema
	types           bool // types must be those of OpenAPI
	structural      bool // schemas must be structural
	prunedDefaults  bool // defaults must not have unknown fields
	atomicSets      bool // items of sets must be atomic
	listMapKeys     bool // keys of list maps must be required or have a default; items must not be nullable
	invalidCABundle bool // the CA bundle may be invalid

	noDefaults string // the reason why default values are forbidden, "" if they are allowed

	manySelectable map[string]bool // the versions that may have too many selectable fields
	unchanged      map[string]bool // the versions whose schema did not change

	stored func(text string, message bool) bool // whether the live definition has that rule or messageExpression; nil if there is none
}

// Validate checks a new definition.
func Validate(crd *apiextv1.CustomResourceDefinition) field.ErrorList {
	return (*Compiler)(nil).validate(crd)
}

// validate is Validate with c's cache of schemas.
func (c *Compiler) validate(crd *apiextv1.CustomResourceDefinition) field.ErrorList {
	errs := validateNew(crd, hoist(&crd.Spec), &strictness{
		compiler:      c,
		reviewVersion: true, schema: true, types: true, structural: true, prunedDefaults: true,
		atomicSets: true, listMapKeys: true, invalidCABundle: true,
	})
	return append(errs, validateRest(crd, nil)...)
}

// validateNew makes those checks of a new definition that v1 and v1beta1 share. h is the spec of
// crd.
func validateNew(crd *apiextv1.CustomResourceDefinition, h *hoisted, o *strictness) field.ErrorList {
	name := func(name string, prefix bool) []string {
		errs := apivalidation.NameIsDNSSubdomain(name, prefix)
		if name != crd.Spec.Names.Plural+"."+crd.Spec.Group {
			errs = append(errs, `must be spec.names.plural+"."+spec.group`)
		}
		return errs
	}
	errs := validateMeta(operation.Create, crd, nil, name)
	errs = append(errs, validateSpec(h, *o)...)
	errs = append(errs, validateStatus(crd)...)
	return errs
}

// ValidateUpdate checks an update. Errors that old has already are accepted.
func ValidateUpdate(new, old *apiextv1.CustomResourceDefinition) field.ErrorList {
	return (*Compiler)(nil).validateUpdate(new, old)
}

// validateUpdate is ValidateUpdate with c's cache of schemas.
func (c *Compiler) validateUpdate(new, old *apiextv1.CustomResourceDefinition) field.ErrorList {
	h := hoist(&new.Spec)
	errs := validateChanged(new, h, old, c.ratchet(new, h, old))
	return append(errs, validateRest(new, old)...)
}

// validateChanged makes those checks of an update that v1 and v1beta1 share. h is the spec of new.
func validateChanged(new *apiextv1.CustomResourceDefinition, h *hoisted, old *apiextv1.CustomResourceDefinition, o *strictness) field.ErrorList {
	errs := validateMeta(operation.Update, new, old, nil)
	errs = append(errs, validateSpec(h, *o)...)
	spec := field.NewPath("spec")
	if o.immutable {
		errs = append(errs, apivalidation.ValidateImmutableField(new.Spec.Scope, old.Spec.Scope, spec.Child("scope"))...)
		errs = append(errs, apivalidation.ValidateImmutableField(new.Spec.Names.Kind, old.Spec.Names.Kind, spec.Child("names", "kind"))...)
	}
	errs = append(errs, apivalidation.ValidateImmutableField(new.Spec.Group, old.Spec.Group, spec.Child("group"))...)
	errs = append(errs, apivalidation.ValidateImmutableField(new.Spec.Names.Plural, old.Spec.Names.Plural, spec.Child("names", "plural"))...)
	return append(errs, validateStatus(new)...)
}

// ValidateStatusUpdate checks an update of the status subresource.
func ValidateStatusUpdate(new, old *apiextv1.CustomResourceDefinition) field.ErrorList {
	errs := validateMeta(operation.Update, new, old, nil)
	return append(errs, validateNames(&new.Status.AcceptedNames, field.NewPath("status", "acceptedNames"))...)
}

// validateMeta checks the metadata of a definition. old is nil on create. The declarative
// validation omits duplicate errors.
func validateMeta(op operation.Type, crd, old *apiextv1.CustomResourceDefinition, name apivalidation.ValidateNameFunc) field.ErrorList {
	var was *metav1.ObjectMeta
	if old != nil {
		was = &old.ObjectMeta
	}
	const beta = true
	return apivalidation.ValidateObjectMetaDeclaratively(context.Background(), op, &crd.ObjectMeta, was, false, name, field.NewPath("metadata"), beta)
}

// validateStatus checks the status.
func validateStatus(crd *apiextv1.CustomResourceDefinition) field.ErrorList {
	errs := validateNames(&crd.Status.AcceptedNames, field.NewPath("status", "acceptedNames"))
	return append(errs, validateStoredVersions(crd)...)
}

// validateRest makes the checks that only v1 has.
func validateRest(crd, old *apiextv1.CustomResourceDefinition) field.ErrorList {
	errs := validateApproval(crd, old)
	if crd.Spec.PreserveUnknownFields && (old == nil || !old.Spec.PreserveUnknownFields) {
		errs = append(errs, field.Invalid(field.NewPath("spec", "preserveUnknownFields"), true,
			"cannot set to true, set x-kubernetes-preserve-unknown-fields to true in spec.versions[*].schema instead"))
	}
	return errs
}

// validateStoredVersions checks that status.storedVersions has the storage version, and only
// versions of the spec.
func validateStoredVersions(crd *apiextv1.CustomResourceDefinition) field.ErrorList {
	path := field.NewPath("status", "storedVersions")
	stored := crd.Status.StoredVersions
	if len(stored) == 0 {
		return field.ErrorList{field.Invalid(path, stored, "must have at least one stored version")}
	}
	var errs field.ErrorList
	// left has the stored versions that are not in the spec, with the index of their last
	// occurrence.
	left := map[string]int{}
	for i, name := range stored {
		left[name] = i
	}
	for i := range crd.Spec.Versions {
		v := &crd.Spec.Versions[i]
		if _, ok := left[v.Name]; v.Storage && !ok {
			errs = append(errs, field.Invalid(path, stored, "must have the storage version "+v.Name))
		}
		delete(left, v.Name)
	}
	for i, name := range stored {
		if at, ok := left[name]; ok && at == i {
			errs = append(errs, field.Invalid(path.Index(i), name, "missing from spec.versions; "+name+
				" was previously a storage version, and must remain in spec.versions until a storage migration ensures no data remains persisted in "+
				name+" and removes "+name+" from status.storedVersions"))
		}
	}
	return errs
}

// validateSpec checks the spec. The order of the errors is upstream's.
func validateSpec(h *hoisted, o strictness) field.ErrorList {
	path := field.NewPath("spec")
	errs := validateGroup(h.Group, path.Child("group"))
	errs = append(errs, oneOf(string(h.Scope), path.Child("scope"), "Cluster", "Namespaced")...)
	errs = append(errs, validateSchemaPresence(h, &o, path)...)
	for i := range h.versions {
		v := &h.versions[i]
		at := path.Child("versions").Index(i)
		errs = append(errs, label(v.Name, at.Child("name"))...)
		errs = append(errs, validateVersion(h, v, o, at)...)
	}
	errs = append(errs, validateExclusive(h, path)...)
	errs = append(errs, validateVersionSet(h, path)...)

	names := path.Child("names")
	for _, n := range [...]struct{ field, value string }{
		{"plural", h.Names.Plural}, {"singular", h.Names.Singular}, {"kind", h.Names.Kind}, {"listKind", h.Names.ListKind},
	} {
		if n.value == "" {
			errs = append(errs, field.Required(names.Child(n.field), ""))
		}
	}
	errs = append(errs, validateNames(&h.Names, names)...)
	errs = append(errs, validateSchema(h.schema, h.anyStatus(), o, o.unchanged[h.version], path.Child("validation"))...)
	errs = append(errs, validateSubresources(h.subresources, path.Child("subresources"))...)
	for i := range h.columns {
		errs = append(errs, validateColumn(&h.columns[i], path.Child("additionalPrinterColumns").Index(i))...)
	}
	if len(h.selectable) > 0 {
		if h.schema == nil {
			errs = append(errs, field.Invalid(path.Child("selectableFields"), "", "may only be set when validations.schema is included"))
		} else {
			errs = append(errs, validateSelectable(h.selectable, h.schema, o.manySelectable[""], path)...)
		}
	}
	if h.Conversion != nil && h.Conversion.Strategy != apiextv1.NoneConverter && h.PreserveUnknownFields {
		errs = append(errs, field.Invalid(path.Child("conversion", "strategy"), h.Conversion.Strategy,
			"must be None if spec.preserveUnknownFields is true"))
	}
	return append(errs, validateConversion(h.Conversion, o, path.Child("conversion"))...)
}

// validateGroup checks that the group is a domain name with at least one dot.
func validateGroup(group string, path *field.Path) field.ErrorList {
	if group == "" {
		return field.ErrorList{field.Required(path, "")}
	}
	if errs := validation.IsDNS1123Subdomain(group); len(errs) > 0 {
		return field.ErrorList{field.Invalid(path, group, strings.Join(errs, ","))}
	}
	if !strings.Contains(group, ".") {
		return field.ErrorList{field.Invalid(path, group, "should be a domain with at least one dot")}
	}
	return nil
}

// validateSchemaPresence checks that versions have schemas. It enables o.structural if a schema
// uses a feature that only structural schemas have.
func validateSchemaPresence(h *hoisted, o *strictness, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	if !h.PreserveUnknownFields {
		o.structural = true
	}
	if openAPI(h.schema) == nil && (o.schema || !h.PreserveUnknownFields) {
		for i := range h.versions {
			v := &h.versions[i]
			if openAPI(v.Schema) != nil || !o.schema && !v.Served {
				continue
			}
			detail := ""
			if !o.schema {
				detail = "because otherwise all fields are pruned"
			}
			errs = append(errs, field.Required(path.Child("versions").Index(i).Child("schema", "openAPIV3Schema"), detail))
		}
	}
	if o.noDefaults == "" && anySchema(h.CustomResourceDefinitionSpec, func(s *apiextv1.JSONSchemaProps) bool { return isSet(s.Default) }) {
		o.structural = true
		if h.PreserveUnknownFields {
			errs = append(errs, field.Invalid(path.Child("preserveUnknownFields"), true, "must be false in order to use defaults in the schema"))
		}
	}
	if anySchema(h.CustomResourceDefinitionSpec, hasExtension) {
		o.structural = true
	}
	return errs
}

// hasExtension reports whether a schema uses an extension that needs structural schemas.
func hasExtension(s *apiextv1.JSONSchemaProps) bool {
	return s.XEmbeddedResource || s.XPreserveUnknownFields != nil || s.XIntOrString ||
		len(s.XListMapKeys) > 0 || s.XListType != nil || len(s.XValidations) > 0
}

// validateVersionSet checks the list of versions as a whole.
func validateVersionSet(h *hoisted, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	seen := map[string]bool{}
	unique, storage := true, 0
	for i := range h.versions {
		v := &h.versions[i]
		unique = unique && !seen[v.Name]
		seen[v.Name] = true
		if v.Storage {
			storage++
		}
	}
	if !unique {
		errs = append(errs, field.Invalid(path.Child("versions"), internal(h.versions), "must contain unique version names"))
	}
	if storage != 1 {
		errs = append(errs, field.Invalid(path.Child("versions"), internal(h.versions), "must have exactly one version marked as storage version"))
	}
	if h.version != "" {
		errs = append(errs, label(h.version, path.Child("version"))...)
		if len(h.versions) > 0 && h.versions[0].Name != h.version {
			errs = append(errs, field.Invalid(path.Child("version"), h.version, "must match the first version in spec.versions"))
		}
	}
	return errs
}

// label checks that value is a DNS-1035 label.
func label(value string, path *field.Path) field.ErrorList {
	if errs := validation.IsDNS1035Label(value); len(errs) > 0 {
		return field.ErrorList{field.Invalid(path, value, strings.Join(errs, ","))}
	}
	return nil
}

// kindLabel checks that value is a DNS-1035 label, apart from upper case.
func kindLabel(value string, path *field.Path) field.ErrorList {
	if errs := validation.IsDNS1035Label(strings.ToLower(value)); len(errs) > 0 {
		return field.ErrorList{field.Invalid(path, value, "may have mixed case, but should otherwise match: "+strings.Join(errs, ","))}
	}
	return nil
}

// oneOf checks that value is not empty and among the accepted ones.
func oneOf(value string, path *field.Path, accepted ...string) field.ErrorList {
	if value == "" {
		return field.ErrorList{field.Required(path, "")}
	}
	for _, a := range accepted {
		if a == value {
			return nil
		}
	}
	return field.ErrorList{field.NotSupported(path, value, accepted)}
}

// validateNames checks the form of the names that are set.
func validateNames(n *apiextv1.CustomResourceDefinitionNames, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	if n.Plural != "" {
		errs = append(errs, label(n.Plural, path.Child("plural"))...)
	}
	if n.Singular != "" {
		errs = append(errs, label(n.Singular, path.Child("singular"))...)
	}
	if n.Kind != "" {
		errs = append(errs, kindLabel(n.Kind, path.Child("kind"))...)
	}
	if n.ListKind != "" {
		errs = append(errs, kindLabel(n.ListKind, path.Child("listKind"))...)
	}
	for i, s := range n.ShortNames {
		errs = append(errs, label(s, path.Child("shortNames").Index(i))...)
	}
	if n.Kind != "" && n.Kind == n.ListKind {
		errs = append(errs, field.Invalid(path.Child("listKind"), n.ListKind, "kind and listKind may not be the same"))
	}
	for i, c := range n.Categories {
		errs = append(errs, label(c, path.Child("categories").Index(i))...)
	}
	return errs
}
