package crd

import (
	"bytes"
	"errors"

	apiextv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/keelson-io/keelson/jsondoc"
	"github.com/keelson-io/keelson/schema"
	"github.com/keelson-io/keelson/schema/structural"
)

// This file implements ratcheting for definitions: an update need not pass a check that the live
// definition does not pass either.

// ratchet returns the checks that apply to an update of old. For each check the reason to skip it
// is an error in old; the conditions are those of upstream's strategy.
func (c *Compiler) ratchet(crd *apiextv1.CustomResourceDefinition, h *hoisted, old *apiextv1.CustomResourceDefinition) *strictness {
	spec := &old.Spec
	established := HasCondition(old, apiextv1.Established)
	versions := reviewVersions(spec.Conversion)
	o := &strictness{
		compiler:        c,
		reviewVersion:   len(versions) == 0 || recognised(versions),
		immutable:       established,
		schema:          allHaveSchemas(spec),
		types:           !anySchema(spec, func(s *apiextv1.JSONSchemaProps) bool { return s.Type != "" && !contains(openAPITypes, s.Type) }),
		structural:      c.allStructural(spec),
		atomicSets:      !anySchema(spec, hasNonAtomicItems),
		listMapKeys:     !anySchema(spec, func(s *apiextv1.JSONSchemaProps) bool { return len(validateKeys(s, field.NewPath(""))) > 0 }),
		invalidCABundle: !established || hasInvalidCABundle(spec.Conversion),
		prunedDefaults:  true,
		unchanged:       map[string]bool{},
		manySelectable:  map[string]bool{},
		stored:          storedRules(spec),
	}
	for s := range schemas(spec) {
		o.prunedDefaults = o.prunedDefaults && !c.hasUnprunedDefaults(s)
	}
	o.compareVersions(crd, h, old)
	return o
}

// compareVersions records the versions whose schema did not change, or that had too many selectable
// fields before.
func (o *strictness) compareVersions(crd *apiextv1.CustomResourceDefinition, h *hoisted, old *apiextv1.CustomResourceDefinition) {
	oldHoisted := hoist(&old.Spec)
	if len(oldHoisted.selectable) > maxSelectable && equality.Semantic.DeepEqual(h.selectable, oldHoisted.selectable) {
		o.manySelectable[""] = true
	}
	// sameName has the names that were compared.
	sameName := map[string]bool{}
	for i := range crd.Spec.Versions {
		v := &crd.Spec.Versions[i]
		for j := range old.Spec.Versions {
			was := &old.Spec.Versions[j]
			if was.Name != v.Name {
				continue
			}
			if sameName[v.Name] {
				break // if versions share a name, which is an error, the first counts
			}
			sameName[v.Name] = true
			if sameSchema(v.Schema, was.Schema) {
				o.unchanged[v.Name] = true
			}
			if list := oldHoisted.versions[j].SelectableFields; len(list) > maxSelectable &&
				equality.Semantic.DeepEqual(h.versions[i].SelectableFields, list) {
				o.manySelectable[v.Name] = true
			}
		}
	}
}

// allHaveSchemas reports whether every version has a schema.
func allHaveSchemas(spec *apiextv1.CustomResourceDefinitionSpec) bool {
	for i := range spec.Versions {
		if openAPI(spec.Versions[i].Schema) == nil {
			return false
		}
	}
	return true
}

// allStructural reports whether the schemas of all versions are structural.
func (c *Compiler) allStructural(spec *apiextv1.CustomResourceDefinitionSpec) bool {
	for s := range schemas(spec) {
		parsed, errs := c.parsedSchema(s, nil)
		if len(errs) > 0 || len(c.structuralErrors(s, parsed, nil)) > 0 {
			return false
		}
	}
	return true
}

// hasUnprunedDefaults reports whether a default value of a structural schema has fields that the
// schema does not declare. For other schemas it returns false, as upstream.
func (c *Compiler) hasUnprunedDefaults(s *apiextv1.JSONSchemaProps) bool {
	if !has(s, func(s *apiextv1.JSONSchemaProps) bool { return isSet(s.Default) }) {
		return false
	}
	parsed, errs := c.parsedSchema(s, nil)
	if len(errs) > 0 || len(c.structuralErrors(s, parsed, nil)) > 0 {
		return false
	}
	if root := bytes.TrimSpace(parsed.Default); len(root) > 0 && root[0] != '{' {
		return false // it is not a resource, which upstream cannot check
	}
	return unpruned(parsed)
}

// unpruned reports whether a default value at or below s has unknown fields.
func unpruned(s *structural.Schema) bool {
	if s == nil {
		return false
	}
	if s.Default != nil {
		if plain := withoutDefaults(s); hasUnknown(plain, s.Default) || hasBadMetadata(plain, s.Default) {
			return true
		}
	}
	if unpruned(s.Items) || unpruned(s.Additional) {
		return true
	}
	for _, p := range s.Properties {
		if unpruned(p) {
			return true
		}
	}
	return false
}

// hasBadMetadata reports whether a resource within value has malformed metadata, which pruning
// would drop.
func hasBadMetadata(s *structural.Schema, value []byte) bool {
	errs := asMember(withoutRules(s), value, func(_ *schema.Program, _ *jsondoc.Doc, err error) field.ErrorList {
		var located *field.Error
		if errors.As(err, &located) {
			return field.ErrorList{located}
		}
		return nil
	})
	return len(errs) > 0
}

// hasInvalidCABundle reports whether the conversion webhook has a CA bundle that cannot be used.
func hasInvalidCABundle(c *apiextv1.CustomResourceConversion) bool {
	if c == nil || c.Webhook == nil || c.Webhook.ClientConfig == nil || len(c.Webhook.ClientConfig.CABundle) == 0 {
		return false
	}
	return parseCABundle(c.Webhook.ClientConfig.CABundle) != nil
}
