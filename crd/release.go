package crd

import (
	"fmt"
	"slices"

	apiextv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"

	"github.com/keelson-io/keelson/jsondoc"
	"github.com/keelson-io/keelson/kind"
	"github.com/keelson-io/keelson/kubernetes"
	"github.com/keelson-io/keelson/schema"
)

// This file knows the fields of definitions that a release lacks.

// LostField is a field of a definition that a server of a release does not keep.
type LostField struct {
	Path string // such as spec.versions[0].selectableFields
	// Unknown: the release does not know the field. A server that reads strictly, as kubectl asks it
	// to, refuses the definition. Otherwise the field is known but its feature gate is off by
	// default, and the server removes it from new definitions without a word.
	Unknown bool
	Since   kubernetes.Release // the first release that keeps the field
}

// Text describes what becomes of the field.
func (f *LostField) Text() string {
	if f.Unknown {
		return f.strictError().Error()
	}
	return "the server removes this field: its feature gate is off by default"
}

// strictError returns the field as an unknown one.
func (f *LostField) strictError() jsondoc.StrictError {
	return jsondoc.StrictError{Kind: jsondoc.UnknownField, Path: f.Path}
}

// Lost returns the fields of a definition that a release does not keep, in the order of the text.
// The facts are those of the types in k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1, of
// the gates in pkg/features and of dropDisabledFields in pkg/registry/customresourcedefinition.
func Lost(crd *apiextv1.CustomResourceDefinition, r kubernetes.Release) []LostField {
	var out []LostField
	for i := range crd.Spec.Versions {
		v := &crd.Spec.Versions[i]
		at := fmt.Sprintf("spec.versions[%d]", i)
		if len(v.SelectableFields) > 0 && r.Minor() < selectableSince.Minor() {
			// CustomResourceFieldSelectors: alpha in 1.30, beta and on in 1.31.
			out = append(out, LostField{Path: at + ".selectableFields", Unknown: r.Minor() < 30, Since: selectableSince})
		}
		if s := openAPI(v.Schema); s != nil && r.Minor() < optionalOldSelfSince.Minor() {
			// CRDValidationRatcheting, which also gates this field: alpha in 1.29, beta and on in 1.30.
			eachRule(s, at+".schema.openAPIV3Schema", func(rule *apiextv1.ValidationRule, path string) {
				if rule.OptionalOldSelf != nil {
					out = append(out, LostField{Path: path + ".optionalOldSelf", Since: optionalOldSelfSince})
				}
			})
		}
	}
	return out
}

var (
	selectableSince      = release("1.31")
	optionalOldSelfSince = release("1.30")
)

// release returns a release by its name.
func release(name string) kubernetes.Release {
	r, err := kubernetes.ParseRelease(name)
	if err != nil {
		panic("BUG: " + err.Error())
	}
	return r
}

// eachRule calls f for the rules of a schema, with their paths as written.
func eachRule(s *apiextv1.JSONSchemaProps, path string, f func(*apiextv1.ValidationRule, string)) {
	for i := range s.XValidations {
		f(&s.XValidations[i], fmt.Sprintf("%s.x-kubernetes-validations[%d]", path, i))
	}
	for _, name := range sortedKeys(s.Properties) {
		p := s.Properties[name]
		eachRule(&p, fmt.Sprintf("%s.properties[%s]", path, name), f)
	}
	if s.Items != nil && s.Items.Schema != nil {
		eachRule(s.Items.Schema, path+".items", f)
	}
	if s.AdditionalProperties != nil && s.AdditionalProperties.Schema != nil {
		eachRule(s.AdditionalProperties.Schema, path+".additionalProperties", f)
	}
}

// Keep returns a definition without the fields that a server of a release does not keep. It is crd
// itself if there are none.
func Keep(crd *apiextv1.CustomResourceDefinition, r kubernetes.Release) *apiextv1.CustomResourceDefinition {
	if len(Lost(crd, r)) == 0 {
		return crd
	}
	out := crd.DeepCopy()
	for i := range out.Spec.Versions {
		v := &out.Spec.Versions[i]
		if r.Minor() < selectableSince.Minor() {
			v.SelectableFields = nil
		}
		if r.Minor() < optionalOldSelfSince.Minor() && v.Schema != nil {
			withoutOldSelf(v.Schema.OpenAPIV3Schema)
		}
	}
	return out
}

// unknownTo reports a definition with fields that c's release does not know.
func (c *Compiler) unknownTo(src []byte) (schema.Found, error) {
	if c == nil || c.Release.IsNewest() {
		return 0, nil
	}
	crd, err := Read(src)
	if err != nil {
		return 0, err
	}
	for _, f := range Lost(crd, c.Release) {
		if f.Unknown {
			return schema.FoundUnknown, nil
		}
	}
	return 0, nil
}

// keep is Keep for c's release.
func (c *Compiler) keep(crd *apiextv1.CustomResourceDefinition) *apiextv1.CustomResourceDefinition {
	if c == nil || c.Release.IsNewest() {
		return crd
	}
	return Keep(crd, c.Release)
}

// withoutOldSelf removes optionalOldSelf from the rules of a schema that nobody shares.
func withoutOldSelf(s *apiextv1.JSONSchemaProps) {
	if s == nil {
		return
	}
	for i := range s.XValidations {
		s.XValidations[i].OptionalOldSelf = nil
	}
	for name, p := range s.Properties {
		withoutOldSelf(&p)
		s.Properties[name] = p
	}
	if s.Items != nil {
		withoutOldSelf(s.Items.Schema)
	}
	if s.AdditionalProperties != nil {
		withoutOldSelf(s.AdditionalProperties.Schema)
	}
}

// ratchets reports whether a server of the release tolerates invalid values of custom resources that
// an update does not change (KEP-4008): CRDValidationRatcheting, on by default since 1.30.
func ratchets(r kubernetes.Release) bool { return r.Minor() >= optionalOldSelfSince.Minor() }

// strict returns the fields that a server of c's release refuses in a definition that it reads
// strictly.
func (c *Compiler) strict(v *kind.Version, src []byte) []jsondoc.StrictError {
	list := strictDefinition(v, src)
	if c == nil || c.Release.IsNewest() {
		return list
	}
	crd, err := Read(src)
	if err != nil {
		return list
	}
	for _, f := range Lost(crd, c.Release) {
		if e := f.strictError(); f.Unknown && !slices.Contains(list, e) {
			list = append(list, e)
		}
	}
	return list
}
