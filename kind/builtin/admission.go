package builtin

import (
	admissionv1 "k8s.io/api/admissionregistration/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/keelson-io/keelson/doc"
	"github.com/keelson-io/keelson/kind"
)

// This file describes the kinds that configure admission.

const admissionGroup = "admissionregistration.k8s.io"

func admissionKinds() []description {
	extensions := []string{"api-extensions"}
	webhooks := []kind.Column{sizes("Webhooks", "Webhooks indicates the number of webhooks registered in this configuration", "webhooks"), ageColumn()}
	param := cell("ParamKind", "ParamKind specifies the kind of resources used to parameterize this policy", func(obj doc.Value) string {
		ref := obj.At("spec", "paramKind")
		if ref.Kind() != doc.Object {
			return "<unset>"
		}
		return ref.Get("apiVersion").Text() + "/" + ref.Get("kind").Text()
	})
	binding := []kind.Column{
		at("PolicyName", "string", ".spec.policyName", "PolicyName indicates the policy definition which the policy binding binded to"),
		cell("ParamRef", "ParamRef indicates the param resource which sets the configuration param", func(obj doc.Value) string {
			ref := obj.At("spec", "paramRef")
			switch {
			case ref.Kind() == doc.Object && ref.Get("name").Text() == "" && ref.Get("selector").Exists():
				return readAs[metav1.LabelSelector](ref.Get("selector")).String()
			case ref.Get("name").Text() == "":
				return "<unset>"
			case ref.Get("namespace").Text() != "":
				return ref.Get("namespace").Text() + "/" + ref.Get("name").Text()
			}
			return "*/" + ref.Get("name").Text()
		}),
		ageColumn(),
	}
	all := []description{{
		kind: "MutatingWebhookConfiguration", plural: "mutatingwebhookconfigurations", columns: webhooks,
		versions: v1[admissionv1.MutatingWebhookConfiguration](nil), check: checkWebhooks, complete: true, warnings: warnWebhooks,
	}, {
		kind: "ValidatingWebhookConfiguration", plural: "validatingwebhookconfigurations", columns: webhooks,
		versions: v1[admissionv1.ValidatingWebhookConfiguration](nil), check: checkWebhooks, complete: true, warnings: warnWebhooks,
	}, {
		kind: "ValidatingAdmissionPolicy", plural: "validatingadmissionpolicies", status: true, statusKeeps: wholeMetadata,
		versions: v1[admissionv1.ValidatingAdmissionPolicy](nil), check: checkValidatingPolicy, complete: true, warnings: warnReserved,
		columns: []kind.Column{
			sizes("Validations", "Validations indicates the number of validation rules defined in this configuration", "spec", "validations"),
			param, ageColumn(),
		},
	}, {
		kind: "ValidatingAdmissionPolicyBinding", plural: "validatingadmissionpolicybindings", columns: binding,
		versions: v1[admissionv1.ValidatingAdmissionPolicyBinding](nil), check: checkValidatingBinding, complete: true, warnings: warnReserved,
	}, {
		kind: "MutatingAdmissionPolicy", plural: "mutatingadmissionpolicies",
		versions: v1[admissionv1.MutatingAdmissionPolicy](nil), check: checkMutatingPolicy, complete: true, warnings: warnReserved,
		columns: []kind.Column{
			sizes("Mutations", "Mutation indicates the number of mutations rules defined in this configuration", "spec", "mutations"),
			param, ageColumn(),
		},
	}, {
		kind: "MutatingAdmissionPolicyBinding", plural: "mutatingadmissionpolicybindings", columns: binding,
		versions: v1[admissionv1.MutatingAdmissionPolicyBinding](nil), check: checkMutatingBinding, complete: true, warnings: warnReserved,
	}}
	for i := range all {
		d := &all[i]
		d.group, d.cluster, d.generation, d.versioned = admissionGroup, true, true, true
		d.categories = extensions
	}
	return all
}
