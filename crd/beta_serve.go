package crd

import (
	"encoding/json"

	apiextv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1beta1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/util/validation/field"
	kjson "sigs.k8s.io/json"

	"github.com/keelson-io/keelson/jsondoc"
	"github.com/keelson-io/keelson/kind"
	"github.com/keelson-io/keelson/schema"
	"github.com/keelson-io/keelson/schema/structural"
)

// This file serves definitions as apiextensions.k8s.io/v1beta1, as KEP-2332 describes it. Unknown
// fields are preserved unless a definition disables that. Schemas are optional, and may be
// non-structural while fields are preserved. Default values are refused. Upstream serves only v1.

// serveBeta adds v1beta1 to the kind CustomResourceDefinition.
func serveBeta(k *kind.Kind) {
	s := betaSchema(k.Storage.Schema.Source())
	p, err := schema.Compile(s, schema.Options{Resource: true})
	if err != nil {
		panic("BUG: schema of v1beta1 definitions: " + err.Error())
	}
	v := &kind.Version{
		Kind: k, Name: "v1beta1", Schema: p, Structural: kind.Fixed(s), Served: true, Status: true, Columns: k.Storage.Columns,
		Attachments: new(kind.Attachments),
		Deprecated:  true, Warning: betaVersion + " CustomResourceDefinition is deprecated; use " + apiextv1.SchemeGroupVersion.String() + " CustomResourceDefinition",
	}
	k.All, k.Versions = append(k.All, v), append(k.Versions, v)
}

// betaSchema returns the schema for documents of v1beta1, derived from the one for v1. It declares
// only the fields that this package reads; the Go type checks the others.
func betaSchema(v1 *structural.Schema) *structural.Schema {
	anything := func() *structural.Schema { return &structural.Schema{Type: "object", Preserve: true} }
	spec := map[string]*structural.Schema{
		"version": structural.String(), "validation": anything(), "subresources": anything(),
		"additionalPrinterColumns": structural.List(anything()), "selectableFields": structural.List(anything()),
	}
	for name, s := range v1.Properties["spec"].Properties {
		spec[name] = s
	}
	webhook := spec["conversion"].Properties["webhook"].Properties
	spec["conversion"] = structural.Object(map[string]*structural.Schema{
		"strategy": structural.String(), "webhookClientConfig": webhook["clientConfig"], "conversionReviewVersions": webhook["conversionReviewVersions"],
	})
	return structural.Object(map[string]*structural.Schema{"spec": structural.Object(spec), "status": v1.Properties["status"]})
}

// isBeta reports whether v is the version v1beta1 of CustomResourceDefinition.
func isBeta(v *kind.Version) bool { return v.Name == "v1beta1" }

// decodeBeta is decodeDefinition for a body of v1beta1.
func decodeBeta(v *kind.Version, d *jsondoc.Doc, src []byte) (schema.Found, error) {
	var crd v1beta1.CustomResourceDefinition
	strict, err := kjson.UnmarshalStrict(src, &crd)
	if err != nil {
		return 0, err
	}
	v1beta1.SetObjectDefaults_CustomResourceDefinition(&crd)
	return kind.DecodeTyped(v, d, &crd, strict)
}

// New decodes a definition that a client wrote as JSON in v1 or v1beta1, fills in its defaults, and
// validates it as a new definition. The result is in v1.
func New(text []byte) (*apiextv1.CustomResourceDefinition, field.ErrorList, error) {
	if err := checkNesting(text); err != nil {
		return nil, nil, err
	}
	crd, _, err := readBeta(text)
	if err != nil {
		return nil, nil, err
	}
	if crd.APIVersion != betaVersion {
		// Clients cannot write the status on create.
		crd.Status = apiextv1.CustomResourceDefinitionStatus{}
		Default(crd)
		return crd, Validate(crd), nil
	}
	d := jsondoc.Get()
	defer d.Release()
	if _, err := decodeBeta(definitionVersion().Kind.Version("v1beta1"), d, text); err != nil {
		return nil, nil, err
	}
	prepareDefinition(d)
	crd, errs := (*Compiler)(nil).validateBeta(d, nil)
	return crd, errs, nil
}

// convertDefinition converts the text of a definition between the versions.
func (c *Compiler) convertDefinition(text []byte, to *kind.Version) ([]byte, error) {
	if !isBeta(to) {
		return c.fromBeta(text)
	}
	crd := new(apiextv1.CustomResourceDefinition)
	if err := kjson.UnmarshalCaseSensitivePreserveInts(text, crd); err != nil {
		return nil, err
	}
	return json.Marshal(toBeta(crd))
}

// defaultsInBeta is the end of the error for default values in v1beta1.
const defaultsInBeta = "(cannot set default values in apiextensions.k8s.io/v1beta1 CRDs, must use apiextensions.k8s.io/v1)"

// validateBeta checks a definition that a client wrote in v1beta1, and returns it in v1. old is the
// live definition, nil on create.
func (c *Compiler) validateBeta(d *jsondoc.Doc, old *apiextv1.CustomResourceDefinition) (*apiextv1.CustomResourceDefinition, field.ErrorList) {
	crd, beta, err := readBeta(d.Root().AppendJSON(nil))
	if err != nil {
		return crd, field.ErrorList{field.InternalError(nil, err)}
	}
	// v1beta1 is the internal form already, so that hoist must not change where the client put the
	// parts.
	h := &hoisted{CustomResourceDefinitionSpec: &crd.Spec, version: beta.Spec.Version}
	h.schema, h.subresources, h.columns, h.selectable =
		beta.Spec.Validation, beta.Spec.Subresources, columns(beta.Spec.AdditionalPrinterColumns), beta.Spec.SelectableFields
	for i, v := range crd.Spec.Versions {
		v.AdditionalPrinterColumns = columns(beta.Spec.Versions[i].AdditionalPrinterColumns)
		h.versions = append(h.versions, v)
	}
	beta.convert(crd)
	o := &strictness{compiler: c, reviewVersion: true, invalidCABundle: true}
	if old != nil {
		was := c.ratchet(crd, h, old)
		o = &strictness{
			compiler:      c,
			reviewVersion: was.reviewVersion, immutable: was.immutable, invalidCABundle: was.invalidCABundle,
			manySelectable: was.manySelectable, unchanged: was.unchanged, stored: was.stored,
		}
	}
	// Definitions that have default values already, written in v1, may keep them.
	if old == nil || !anySchema(&old.Spec, func(s *apiextv1.JSONSchemaProps) bool { return isSet(s.Default) }) {
		o.noDefaults = defaultsInBeta
	}
	if old == nil {
		return crd, validateNew(crd, h, o)
	}
	return crd, validateChanged(crd, h, old, o)
}

// validateExclusive checks that schemas, subresources and columns are either at the top of the spec
// or in the versions, and in the versions only if these differ. For v1, hoist makes sure of it.
func validateExclusive(h *hoisted, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	parts := []struct {
		name, top, what string
		atTop           bool
		of              func(v *apiextv1.CustomResourceDefinitionVersion) any // the part of a version; nil if it has none
	}{
		{"validation", "validation", "schemas", h.schema != nil, func(v *apiextv1.CustomResourceDefinitionVersion) any {
			if v.Schema == nil {
				return nil
			}
			return v.Schema
		}},
		{"subresources", "subresources", "subresources", h.subresources != nil, func(v *apiextv1.CustomResourceDefinitionVersion) any {
			if v.Subresources == nil {
				return nil
			}
			return v.Subresources
		}},
		{"additionalPrinterColumns", "additionalPrinterColumns", "additionalPrinterColumns", len(h.columns) > 0, func(v *apiextv1.CustomResourceDefinitionVersion) any {
			if len(v.AdditionalPrinterColumns) == 0 {
				return nil
			}
			return v.AdditionalPrinterColumns
		}},
	}
	for _, p := range parts {
		for i := range h.versions {
			if p.atTop && p.of(&h.versions[i]) != nil {
				errs = append(errs, field.Forbidden(path.Child(p.name), "top-level and per-version "+p.what+" are mutually exclusive"))
				break
			}
		}
	}
	for _, p := range parts {
		// Equal parts of all versions belong at the top.
		alike := len(h.versions) > 0
		for i := range h.versions {
			have := p.of(&h.versions[i])
			alike = alike && have != nil && (i == 0 || equality.Semantic.DeepEqual(have, p.of(&h.versions[0])))
		}
		if alike {
			errs = append(errs, field.Invalid(path.Child("versions"), internal(h.versions),
				"per-version "+p.what+" may not all be set to identical values (top-level "+p.top+" should be used instead)"))
		}
	}
	return errs
}
