package manifests

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	admissionv1 "k8s.io/api/admissionregistration/v1"

	"github.com/keelson-io/keelson/kind"
)

// This file checks what the objects of a folder refer to.

// referring has the fields of all kinds that refer to something else.
type referring struct {
	Webhooks []struct {
		Name         string                          `json:"name"`
		ClientConfig admissionv1.WebhookClientConfig `json:"clientConfig"`
	} `json:"webhooks"`
	Spec struct {
		ParamKind  *admissionv1.ParamKind `json:"paramKind"`
		ParamRef   *admissionv1.ParamRef  `json:"paramRef"`
		PolicyName *string                `json:"policyName"`
	} `json:"spec"`
}

// checkReferences returns an error if an object refers to something outside of its folder.
func checkReferences(kinds []*kind.Version, s *State) error {
	names := map[string]bool{} // of policies
	for _, v := range kinds {
		if !strings.HasSuffix(v.Kind.Name, "Binding") {
			for _, o := range s.objects[v] {
				names[o.Name] = true
			}
		}
	}
	for _, v := range kinds {
		for _, o := range s.objects[v] {
			if err := checkReference(o, names); err != nil {
				return fmt.Errorf("%s: %s %s: %w", o.file, v.Kind.Name, o.Name, err)
			}
		}
	}
	return nil
}

// checkReference checks one object.
func checkReference(o Object, policies map[string]bool) error {
	var r referring
	if err := json.Unmarshal(o.JSON, &r); err != nil {
		return err
	}
	for _, w := range r.Webhooks {
		if w.ClientConfig.Service != nil {
			return fmt.Errorf("webhook %q: clientConfig.service is not supported for static manifests; use clientConfig.url instead", w.Name)
		}
	}
	switch {
	case r.Spec.ParamKind != nil:
		return errors.New("spec.paramKind is not supported for static manifests")
	case r.Spec.ParamRef != nil:
		return errors.New("spec.paramRef is not supported for static manifests")
	case r.Spec.PolicyName != nil && !policies[*r.Spec.PolicyName]:
		return fmt.Errorf("spec.policyName: got %q, want a policy of the same folder", *r.Spec.PolicyName)
	}
	return nil
}
