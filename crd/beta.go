package crd

import (
	"bytes"
	"encoding/json"
	"fmt"

	apiextv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/keelson-io/keelson/jsondoc"
)

// This file turns definitions of apiextensions.k8s.io/v1beta1 into v1 and back.
// They are stored in it, as kube-apiserver stores them; beta_serve.go serves it.

const betaVersion = apiextv1.GroupName + "/v1beta1"

// betaDefinition is what v1beta1 spells differently.
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

type betaColumn struct {
	apiextv1.CustomResourceColumnDefinition
	JSONPath string `json:"JSONPath"`
}

// fromBeta turns a definition into v1 if it is v1beta1.
func (c *Compiler) fromBeta(raw []byte) ([]byte, error) {
	if !bytes.Contains(raw, []byte(`"`+betaVersion+`"`)) {
		return raw, nil
	}
	p, ok := takeOut(raw)
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
	return p.graft(text)
}

// convertBeta is fromBeta for a definition whose schemas it looks into, or that
// has none.
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

// readBeta reads a definition of v1beta1: what both versions spell alike, and
// the rest.
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

// Read reads a definition of either version as clients write it, JSON, and
// fills in its defaults.
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

// convert completes crd, which has what both versions spell alike.
func (b *betaDefinition) convert(crd *apiextv1.CustomResourceDefinition) {
	crd.APIVersion = apiextv1.SchemeGroupVersion.String()
	spec := &crd.Spec
	if spec.Scope == "" {
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

func columns(in []betaColumn) []apiextv1.CustomResourceColumnDefinition {
	var out []apiextv1.CustomResourceColumnDefinition
	for _, c := range in {
		c.CustomResourceColumnDefinition.JSONPath = c.JSONPath
		out = append(out, c.CustomResourceColumnDefinition)
	}
	return out
}

// storedDefinition is a definition in v1beta1.
type storedDefinition struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	Spec   storedSpec                              `json:"spec"`
	Status apiextv1.CustomResourceDefinitionStatus `json:"status"`
}

// storedSpec has at its top what all versions have in common.
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

type storedColumn struct {
	Name        string `json:"name"`
	Type        string `json:"type"`
	Format      string `json:"format,omitempty"`
	Description string `json:"description,omitempty"`
	Priority    int32  `json:"priority,omitempty"`
	JSONPath    string `json:"JSONPath"`
}

type storedConversion struct {
	Strategy                 apiextv1.ConversionStrategyType `json:"strategy"`
	WebhookClientConfig      *apiextv1.WebhookClientConfig   `json:"webhookClientConfig,omitempty"`
	ConversionReviewVersions []string                        `json:"conversionReviewVersions,omitempty"`
}

// encodeBeta prints a definition as it is stored.
func encodeBeta(d *jsondoc.Doc) ([]byte, error) {
	p := takeOutOf(d.Root())
	crd, err := p.definition()
	if err != nil {
		return nil, err
	}
	crd.ResourceVersion = ""
	text, err := json.Marshal(toBeta(crd))
	if err == nil {
		text, err = p.graft(text)
	}
	return append(text, '\n'), err
}

// toBeta is a definition in v1beta1: what all versions have in common is at the
// top.
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

func storedColumns(in []apiextv1.CustomResourceColumnDefinition) []storedColumn {
	var out []storedColumn
	for i := range in {
		c := &in[i]
		out = append(out, storedColumn{c.Name, c.Type, c.Format, c.Description, c.Priority, c.JSONPath})
	}
	return out
}
