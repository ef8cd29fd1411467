package kind

import (
	"bytes"
	"encoding/json"
	"fmt"

	apiextv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
)

// This file reads definitions that kube-apiserver stored: it writes them as
// apiextensions.k8s.io/v1beta1, which is not served.

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

// fromBeta turns a stored definition into v1 if it is v1beta1.
func fromBeta(raw []byte) ([]byte, error) {
	if !bytes.Contains(raw, []byte(`"`+betaVersion+`"`)) {
		return raw, nil
	}
	var crd apiextv1.CustomResourceDefinition
	var beta betaDefinition
	if err := json.Unmarshal(raw, &crd); err != nil {
		return nil, fmt.Errorf("stored CustomResourceDefinition: %w", err)
	}
	if crd.APIVersion != betaVersion {
		return raw, nil // the name occurs somewhere else in the text
	}
	if err := json.Unmarshal(raw, &beta); err != nil {
		return nil, fmt.Errorf("stored CustomResourceDefinition: %w", err)
	}
	beta.convert(&crd)
	return json.Marshal(&crd)
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
	DefaultCRD(crd)
}

func columns(in []betaColumn) []apiextv1.CustomResourceColumnDefinition {
	var out []apiextv1.CustomResourceColumnDefinition
	for _, c := range in {
		c.CustomResourceColumnDefinition.JSONPath = c.JSONPath
		out = append(out, c.CustomResourceColumnDefinition)
	}
	return out
}
