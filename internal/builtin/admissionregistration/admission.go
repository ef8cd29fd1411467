// Package admissionregistration describes the kinds of the API group admissionregistration.k8s.io: policies, webhooks and their bindings.
package admissionregistration

import (
	admissionv1 "k8s.io/api/admissionregistration/v1"
	admissionv1beta1 "k8s.io/api/admissionregistration/v1beta1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/keelson-io/keelson/internal/builtin/describe"
	"github.com/keelson-io/keelson/jsondoc"
	"github.com/keelson-io/keelson/kind"
)

// This file describes the kinds that configure admission.

const admissionGroup = "admissionregistration.k8s.io"

// Kinds returns the descriptions of the kinds of the group.
func Kinds() []describe.Description {
	extensions := []string{"api-extensions"}
	webhooks := []kind.Column{describe.Sizes("Webhooks", "Webhooks indicates the number of webhooks registered in this configuration", "webhooks"), describe.AgeColumn()}
	param := describe.Cell("ParamKind", "ParamKind specifies the kind of resources used to parameterize this policy", func(obj jsondoc.Value) string {
		ref := obj.At("spec", "paramKind")
		if ref.Kind() != jsondoc.Object {
			return "<unset>"
		}
		return ref.Get("apiVersion").Text() + "/" + ref.Get("kind").Text()
	})
	binding := []kind.Column{
		describe.At("PolicyName", "string", ".spec.policyName", "PolicyName indicates the policy definition which the policy binding binded to"),
		describe.Cell("ParamRef", "ParamRef indicates the param resource which sets the configuration param", func(obj jsondoc.Value) string {
			ref := obj.At("spec", "paramRef")
			switch {
			case ref.Kind() == jsondoc.Object && ref.Get("name").Text() == "" && ref.Get("selector").Exists():
				return describe.ReadAs[metav1.LabelSelector](ref.Get("selector")).String()
			case ref.Get("name").Text() == "":
				return "<unset>"
			case ref.Get("namespace").Text() != "":
				return ref.Get("namespace").Text() + "/" + ref.Get("name").Text()
			}
			return "*/" + ref.Get("name").Text()
		}),
		describe.AgeColumn(),
	}
	all := []describe.Description{{
		Kind: "MutatingWebhookConfiguration", Plural: "mutatingwebhookconfigurations", Columns: webhooks,
		Older:    []describe.Version{describe.VersionOf(fillMutatingBeta, "v1beta1")},
		Versions: describe.V1[admissionv1.MutatingWebhookConfiguration](nil), Check: checkWebhooks, Complete: true, Warnings: warnWebhooks,
	}, {
		Kind: "ValidatingWebhookConfiguration", Plural: "validatingwebhookconfigurations", Columns: webhooks,
		Older:    []describe.Version{describe.VersionOf(fillValidatingBeta, "v1beta1")},
		Versions: describe.V1[admissionv1.ValidatingWebhookConfiguration](nil), Check: checkWebhooks, Complete: true, Warnings: warnWebhooks,
	}, {
		Kind: "ValidatingAdmissionPolicy", Plural: "validatingadmissionpolicies", Status: true, Traits: kind.Traits{StatusKeeps: kind.WritableMetadata},
		Older:    []describe.Version{describe.VersionOf[admissionv1beta1.ValidatingAdmissionPolicy](nil, "v1beta1")},
		Versions: describe.V1[admissionv1.ValidatingAdmissionPolicy](nil), Check: checkValidatingPolicy, Complete: true, Warnings: warnReserved,
		Columns: []kind.Column{
			describe.Sizes("Validations", "Validations indicates the number of validation rules defined in this configuration", "spec", "validations"),
			param, describe.AgeColumn(),
		},
	}, {
		Kind: "ValidatingAdmissionPolicyBinding", Plural: "validatingadmissionpolicybindings", Columns: binding,
		Older:    []describe.Version{describe.VersionOf[admissionv1beta1.ValidatingAdmissionPolicyBinding](nil, "v1beta1")},
		Versions: describe.V1[admissionv1.ValidatingAdmissionPolicyBinding](nil), Check: checkValidatingBinding, Complete: true, Warnings: warnReserved,
	}, {
		Kind: "MutatingAdmissionPolicy", Plural: "mutatingadmissionpolicies",
		Older:    []describe.Version{describe.VersionOf[admissionv1beta1.MutatingAdmissionPolicy](nil, "v1beta1")},
		Versions: describe.V1[admissionv1.MutatingAdmissionPolicy](nil), Check: checkMutatingPolicy, Complete: true, Warnings: warnReserved,
		Columns: []kind.Column{
			describe.Sizes("Mutations", "Mutation indicates the number of mutations rules defined in this configuration", "spec", "mutations"),
			param, describe.AgeColumn(),
		},
	}, {
		Kind: "MutatingAdmissionPolicyBinding", Plural: "mutatingadmissionpolicybindings", Columns: binding,
		Older:    []describe.Version{describe.VersionOf[admissionv1beta1.MutatingAdmissionPolicyBinding](nil, "v1beta1")},
		Versions: describe.V1[admissionv1.MutatingAdmissionPolicyBinding](nil), Check: checkMutatingBinding, Complete: true, Warnings: warnReserved,
	}}
	for i := range all {
		d := &all[i]
		d.Group, d.ClusterScoped, d.Generation, d.RequireResourceVersion = admissionGroup, true, true, true
		d.Categories, d.AnyFinalizer = extensions, true
	}
	return all
}
