package crd

import (
	"bytes"
	"encoding/json"
	"fmt"

	apiextv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/keelson-io/keelson/jsondoc"
)

// This file converts definitions between apiextensions.k8s.io/v1beta1 and v1. Definitions are
// stored in v1beta1, as kube-apiserver stores them. beta_serve.go serves v1beta1 to clients.

const betaVersion = apiextv1.GroupName + "/v1beta1"

// betaDefinition has the fields that v1beta1 spells differently from v1.
type betaDefinition struct {
	Spec struct {
		Version                  string                               `json:"version"`
		Validation               *apiextv1.CustomResourceValidation   `json:"validation"`
		Subresources             *apiextv1.CustomResourceSubresources `json:"subresources"`
		AdditionalPrinterColumns []betaColumn                         `json:"additionalPrinterColumns"`
		SelectableFields         []apiextv1.SelectableField           `json:"selectableFields"`
		PreserveUnknownFields    *bool                                `json:"preserveUnknownFields"`
		Versions                 []struct {
			AdditionalPrinterColumns []betaColumn `json:"additionalPrinterColumns"`
		} `json:"versions"`
		Conversion *struct {
			WebhookClientConfig      *apiextv1.WebhookClientConfig `json:"webhookClientConfig"`
			ConversionReviewVersions []string                      `json:"conversionReviewVersions"`
		} `json:"conversion"`
	} `json:"spec"`
}

// betaColumn is a column of v1beta1, where jsonPath is called JSONPath.
type betaColumn struct {
	apiextv1.CustomResourceColumnDefinition
	JSONPath string `json:"JSONPath"`
}

// fromBeta converts a definition to v1 if it is v1beta1. It does not decode schemas that are in the
// form in which this server prints them.
func (c *Compiler) fromBeta(raw []byte) ([]byte, error) {
	if !bytes.Contains(raw, []byte(`"`+betaVersion+`"`)) {
		return raw, nil
	}
	p, ok := separate(raw)
	for i := 0; ok && i < len(p.schemas); i++ {
		ok = c.isPrinted(p.schemas[i])
	}
	if !ok {
		return convertBeta(raw)
	}
	text, err := convertBeta(p.rest)
	if err != nil {
		return nil, err
	}
	return p.join(text)
}

// convertBeta is fromBeta without that fast path: it decodes the whole definition.
func convertBeta(raw []byte) ([]byte, error) {
	if !bytes.Contains(raw, []byte(`"`+betaVersion+`"`)) {
		return raw, nil
	}
	crd, beta, err := readBeta(raw)
	if err != nil {
		return nil, err
	}
	if crd.APIVersion != betaVersion {
		return raw, nil // the name occurs somewhere else in the text
	}
	beta.convert(crd)
	return json.Marshal(crd)
}

// readBeta decodes a definition. For v1beta1 the second result has the fields that differ;
// otherwise it is empty.
func readBeta(raw []byte) (*apiextv1.CustomResourceDefinition, *betaDefinition, error) {
	crd, beta := new(apiextv1.CustomResourceDefinition), new(betaDefinition)
	if err := json.Unmarshal(raw, crd); err != nil {
		return nil, nil, fmt.Errorf("CustomResourceDefinition: %w", err)
	}
	if crd.APIVersion != betaVersion {
		return crd, beta, nil
	}
	if err := json.Unmarshal(raw, beta); err != nil {
		return nil, nil, fmt.Errorf("CustomResourceDefinition: %w", err)
	}
	return crd, beta, nil
}

// Read decodes a definition that a client wrote as JSON in v1 or v1beta1, and fills in its
// defaults. The result is in v1.
func Read(text []byte) (*apiextv1.CustomResourceDefinition, error) {
	if err := checkNesting(text); err != nil {
		return nil, err
	}
	text, err := (*Compiler)(nil).fromBeta(text)
	if err != nil {
		return nil, err
	}
	crd := new(apiextv1.CustomResourceDefinition)
	if err := json.Unmarshal(text, crd); err != nil {
		return nil, err
	}
	Default(crd)
	return crd, nil
}

// convert turns crd into v1. crd has the fields that both versions spell alike; b has the others.
func (b *betaDefinition) convert(crd *apiextv1.CustomResourceDefinition) {
	crd.APIVersion = apiextv1.SchemeGroupVersion.String()
	spec := &crd.Spec
	if spec.Scope == "" {
		// Unlike in v1, the default is true.
		spec.Scope = apiextv1.NamespaceScoped
	}
	spec.PreserveUnknownFields = b.Spec.PreserveUnknownFields == nil || *b.Spec.PreserveUnknownFields
	if len(spec.Versions) == 0 && b.Spec.Version != "" {
		spec.Versions = []apiextv1.CustomResourceDefinitionVersion{{Name: b.Spec.Version, Served: true, Storage: true}}
	}
	for i := range spec.Versions {
		v := &spec.Versions[i]
		v.AdditionalPrinterColumns = nil
		if i < len(b.Spec.Versions) {
			v.AdditionalPrinterColumns = columns(b.Spec.Versions[i].AdditionalPrinterColumns)
		}
		if b.Spec.Validation != nil {
			v.Schema = b.Spec.Validation
		}
		if b.Spec.Subresources != nil {
			v.Subresources = b.Spec.Subresources
		}
		if b.Spec.AdditionalPrinterColumns != nil {
			v.AdditionalPrinterColumns = columns(b.Spec.AdditionalPrinterColumns)
		}
		if b.Spec.SelectableFields != nil {
			v.SelectableFields = b.Spec.SelectableFields
		}
	}
	// The default of v1beta1 is v1beta1, because ConversionReview had no other version then.
	if c := b.Spec.Conversion; c != nil && spec.Conversion != nil {
		versions := c.ConversionReviewVersions
		if spec.Conversion.Strategy == apiextv1.WebhookConverter && len(versions) == 0 {
			versions = []string{"v1beta1"}
		}
		if c.WebhookClientConfig != nil || versions != nil {
			spec.Conversion.Webhook = &apiextv1.WebhookConversion{ClientConfig: c.WebhookClientConfig, ConversionReviewVersions: versions}
		}
	}
	Default(crd)
}

// columns converts columns from v1beta1.
func columns(in []betaColumn) []apiextv1.CustomResourceColumnDefinition {
	var out []apiextv1.CustomResourceColumnDefinition
	for _, c := range in {
		c.CustomResourceColumnDefinition.JSONPath = c.JSONPath
		out = append(out, c.CustomResourceColumnDefinition)
	}
	return out
}

// storedDefinition is a definition in v1beta1, in the field order in which Kubernetes stores it.
type storedDefinition struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	Spec   storedSpec                              `json:"spec"`
	Status apiextv1.CustomResourceDefinitionStatus `json:"status"`
}

// storedSpec has the parts that all versions share as its own fields.
type storedSpec struct {
	Group                    string                                 `json:"group"`
	Version                  string                                 `json:"version,omitempty"`
	Names                    apiextv1.CustomResourceDefinitionNames `json:"names"`
	Scope                    apiextv1.ResourceScope                 `json:"scope"`
	Validation               *apiextv1.CustomResourceValidation     `json:"validation,omitempty"`
	Subresources             *apiextv1.CustomResourceSubresources   `json:"subresources,omitempty"`
	Versions                 []storedVersion                        `json:"versions,omitempty"`
	AdditionalPrinterColumns []storedColumn                         `json:"additionalPrinterColumns,omitempty"`
	SelectableFields         []apiextv1.SelectableField             `json:"selectableFields,omitempty"`
	Conversion               *storedConversion                      `json:"conversion,omitempty"`
	PreserveUnknownFields    bool                                   `json:"preserveUnknownFields"`
}

// storedVersion is a version of a storedSpec, without the parts that all versions share.
type storedVersion struct {
	Name                     string                               `json:"name"`
	Served                   bool                                 `json:"served"`
	Storage                  bool                                 `json:"storage"`
	Deprecated               bool                                 `json:"deprecated,omitempty"`
	DeprecationWarning       *string                              `json:"deprecationWarning,omitempty"`
	Schema                   *apiextv1.CustomResourceValidation   `json:"schema,omitempty"`
	Subresources             *apiextv1.CustomResourceSubresources `json:"subresources,omitempty"`
	AdditionalPrinterColumns []storedColumn                       `json:"additionalPrinterColumns,omitempty"`
	SelectableFields         []apiextv1.SelectableField           `json:"selectableFields,omitempty"`
}

// storedColumn is a printer column in v1beta1.
type storedColumn struct {
	Name        string `json:"name"`
	Type        string `json:"type"`
	Format      string `json:"format,omitempty"`
	Description string `json:"description,omitempty"`
	Priority    int32  `json:"priority,omitempty"`
	JSONPath    string `json:"JSONPath"`
}

// storedConversion is the conversion of a storedSpec, where the webhook's fields are not nested.
type storedConversion struct {
	Strategy                 apiextv1.ConversionStrategyType `json:"strategy"`
	WebhookClientConfig      *apiextv1.WebhookClientConfig   `json:"webhookClientConfig,omitempty"`
	ConversionReviewVersions []string                        `json:"conversionReviewVersions,omitempty"`
}

// encodeBeta prints a definition as it is stored. The texts of its schemas are copied, not decoded.
func encodeBeta(d *jsondoc.Doc) ([]byte, error) {
	p := separateDoc(d.Root())
	crd, err := p.definition()
	if err != nil {
		return nil, err
	}
	crd.ResourceVersion = ""
	text, err := json.Marshal(toBeta(crd))
	if err == nil {
		text, err = p.join(text)
	}
	return append(text, '\n'), err
}

// toBeta converts a definition to v1beta1. It moves the parts that all versions share to the spec.
func toBeta(crd *apiextv1.CustomResourceDefinition) *storedDefinition {
	h := hoist(&crd.Spec)
	out := &storedDefinition{TypeMeta: crd.TypeMeta, ObjectMeta: crd.ObjectMeta, Status: crd.Status}
	out.APIVersion = betaVersion
	out.Spec = storedSpec{
		Group: h.Group, Version: h.version, Names: h.Names, Scope: h.Scope,
		Validation: h.schema, Subresources: h.subresources, AdditionalPrinterColumns: storedColumns(h.columns),
		SelectableFields: h.selectable, PreserveUnknownFields: h.PreserveUnknownFields,
	}
	for i := range h.versions {
		v := &h.versions[i]
		out.Spec.Versions = append(out.Spec.Versions, storedVersion{
			Name: v.Name, Served: v.Served, Storage: v.Storage, Deprecated: v.Deprecated, DeprecationWarning: v.DeprecationWarning,
			Schema: v.Schema, Subresources: v.Subresources, AdditionalPrinterColumns: storedColumns(v.AdditionalPrinterColumns),
			SelectableFields: v.SelectableFields,
		})
	}
	if c := h.Conversion; c != nil {
		out.Spec.Conversion = &storedConversion{Strategy: c.Strategy}
		if c.Webhook != nil {
			out.Spec.Conversion.WebhookClientConfig = c.Webhook.ClientConfig
			out.Spec.Conversion.ConversionReviewVersions = c.Webhook.ConversionReviewVersions
		}
	}
	return out
}

// storedColumns converts columns to v1beta1.
func storedColumns(in []apiextv1.CustomResourceColumnDefinition) []storedColumn {
	var out []storedColumn
	for i := range in {
		c := &in[i]
		out = append(out, storedColumn{c.Name, c.Type, c.Format, c.Description, c.Priority, c.JSONPath})
	}
	return out
}
