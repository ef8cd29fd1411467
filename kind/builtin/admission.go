package builtin

import (
	"strings"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/keelson-io/keelson/doc"
	"github.com/keelson-io/keelson/kind"
	"github.com/keelson-io/keelson/schema"
)

// This file describes the kinds that configure admission.

const admissionGroup = "admissionregistration.k8s.io"

func admissionKinds() []description {
	extensions := []string{"api-extensions"}
	webhooks := []kind.Column{size("Webhooks", "Webhooks indicates the number of webhooks registered in this configuration", []string{"webhooks"}), ageColumn()}
	param := cell("ParamKind", "ParamKind specifies the kind of resources used to parameterize this policy", func(obj doc.Value) string {
		ref := obj.At("spec", "paramKind")
		if ref.Kind() != doc.Object {
			return "<unset>"
		}
		return ref.Get("apiVersion").Text() + "/" + ref.Get("kind").Text()
	})
	binding := []kind.Column{
		at("PolicyName", "string", ".spec.policyName", "The policy definition which the policy binding binds to"),
		cell("ParamRef", "The param resource which sets the configration param", func(obj doc.Value) string {
			ref := obj.At("spec", "paramRef")
			switch {
			case ref.Kind() != doc.Object:
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
		versions: v1[admissionv1.MutatingWebhookConfiguration](nil), check: checkWebhooks,
	}, {
		kind: "ValidatingWebhookConfiguration", plural: "validatingwebhookconfigurations", columns: webhooks,
		versions: v1[admissionv1.ValidatingWebhookConfiguration](nil), check: checkWebhooks,
	}, {
		kind: "ValidatingAdmissionPolicy", plural: "validatingadmissionpolicies", status: true,
		versions: v1[admissionv1.ValidatingAdmissionPolicy](nil), check: checkValidatingPolicy, complete: true, warnings: warnReserved,
		columns: []kind.Column{
			size("Validations", "Validations indicates the number of validation rules defined in this configuration", []string{"spec", "validations"}),
			param, ageColumn(),
		},
	}, {
		kind: "ValidatingAdmissionPolicyBinding", plural: "validatingadmissionpolicybindings", columns: binding,
		versions: v1[admissionv1.ValidatingAdmissionPolicyBinding](nil), check: checkValidatingBinding, complete: true, warnings: warnReserved,
	}, {
		kind: "MutatingAdmissionPolicy", plural: "mutatingadmissionpolicies",
		versions: v1[admissionv1.MutatingAdmissionPolicy](nil), check: checkMutatingPolicy, complete: true, warnings: warnReserved,
		columns: []kind.Column{
			size("Mutations", "Mutation indicates the number of mutations rules defined in this configuration", []string{"spec", "mutations"}),
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

// checkWebhooks checks the webhooks of a configuration.
func checkWebhooks(_ *kind.Version, d, _ *doc.Doc, _ schema.Scope) field.ErrorList {
	var errs field.ErrorList
	names := map[string]bool{}
	for i, w := range d.Root().Get("webhooks").Items() {
		at, name := field.NewPath("webhooks").Index(i), strings.Clone(w.Get("name").Text())
		errs = append(errs, validation.IsFullyQualifiedName(at.Child("name"), name)...)
		if names[name] {
			errs = append(errs, field.Duplicate(at.Child("name"), name))
		}
		names[name] = true
		if w.Get("admissionReviewVersions").Len() == 0 {
			errs = append(errs, field.Required(at.Child("admissionReviewVersions"), "must specify one of v1, v1beta1"))
		}
		switch side := strings.Clone(w.Get("sideEffects").Text()); side {
		case "None", "NoneOnDryRun":
		case "":
			errs = append(errs, field.Required(at.Child("sideEffects"), "must specify one of None, NoneOnDryRun"))
		default:
			errs = append(errs, field.NotSupported(at.Child("sideEffects"), side, []string{"None", "NoneOnDryRun"}))
		}
		if n := w.Get("timeoutSeconds"); n.Kind() == doc.Int && (n.Int() < 1 || n.Int() > 30) {
			errs = append(errs, field.Invalid(at.Child("timeoutSeconds"), n.Int(), "the timeout value must be between 1 and 30 seconds"))
		}
		client := w.Get("clientConfig")
		if (client.Get("url").Kind() == doc.String) == (client.Get("service").Kind() == doc.Object) {
			errs = append(errs, field.Required(at.Child("clientConfig"), "exactly one of url or service is required"))
		}
	}
	return errs
}
