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

// This file finds out which checks an update of a definition need not pass,
// because what was there before does not pass them either.

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

// compareVersions notes what did not change, version by version.
func (o *strictness) compareVersions(crd *apiextv1.CustomResourceDefinition, h *hoisted, old *apiextv1.CustomResourceDefinition) {
	oldHoisted := hoist(&old.Spec)
	if len(oldHoisted.selectable) > maxSelectable && equality.Semantic.DeepEqual(h.selectable, oldHoisted.selectable) {
		o.manySelectable[""] = true
	}
	sameName := map[string]bool{}
	for i := range crd.Spec.Versions {
		v := &crd.Spec.Versions[i]
		for j := range old.Spec.Versions {
			was := &old.Spec.Versions[j]
			if was.Name != v.Name {
				continue
			}
			if sameName[v.Name] {
				break // of versions of one name the first one counts
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

func allHaveSchemas(spec *apiextv1.CustomResourceDefinitionSpec) bool {
	for i := range spec.Versions {
		if openAPI(spec.Versions[i].Schema) == nil {
			return false
		}
	}
	return true
}

func (c *Compiler) allStructural(spec *apiextv1.CustomResourceDefinitionSpec) bool {
	for s := range schemas(spec) {
		parsed, errs := c.parsedSchema(s, nil)
		if len(errs) > 0 || len(c.structuralErrors(s, parsed, nil)) > 0 {
			return false
		}
	}
	return true
}

// hasUnprunedDefaults reports whether a default of a structural schema has
// fields that the schema does not declare.
func (c *Compiler) hasUnprunedDefaults(s *apiextv1.JSONSchemaProps) bool {
	if !has(s, func(s *apiextv1.JSONSchemaProps) bool { return isSet(s.Default) }) {
		return false
	}
	parsed, errs := c.parsedSchema(s, nil)
	if len(errs) > 0 || len(c.structuralErrors(s, parsed, nil)) > 0 {
		return false
	}
	if root := bytes.TrimSpace(parsed.Default); len(root) > 0 && root[0] != '{' {
		return false // no resource: upstream cannot tell
	}
	return unpruned(parsed)
}

// unpruned reports whether a default at or below s has fields that its schema
// does not declare.
func unpruned(s *structural.Schema) bool {
	if s == nil {
		return false
	}
	if s.Default != nil {
		if bare := withoutDefaults(s); hasUnknown(bare, s.Default) || hasBadMetadata(bare, s.Default) {
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

// hasBadMetadata reports whether the metadata of a resource in a value is not what metadata is. To prune is to take that away, too.
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

func hasInvalidCABundle(c *apiextv1.CustomResourceConversion) bool {
	if c == nil || c.Webhook == nil || c.Webhook.ClientConfig == nil || len(c.Webhook.ClientConfig.CABundle) == 0 {
		return false
	}
	return parseCABundle(c.Webhook.ClientConfig.CABundle) != nil
}
