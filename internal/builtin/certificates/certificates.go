// Package certificates describes the kinds of the API group certificates.k8s.io. They are stored;
// this server signs nothing.
package certificates

import (
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"strings"

	certificatesv1 "k8s.io/api/certificates/v1"
	certificatesv1beta1 "k8s.io/api/certificates/v1beta1"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/keelson-io/keelson/internal/builtin/describe"
	"github.com/keelson-io/keelson/internal/keysize"
	"github.com/keelson-io/keelson/jsondoc"
	"github.com/keelson-io/keelson/kind"
	"github.com/keelson-io/keelson/schema"
)

// This file describes requests for certificates, and bundles of trusted certificates.

// Kinds returns the descriptions of the kinds of the group.
func Kinds() []describe.Description {
	const group = "certificates.k8s.io"
	bundle, request := certificatesv1.ClusterTrustBundleSpec{}.SwaggerDoc(), certificatesv1.PodCertificateRequestSpec{}.SwaggerDoc()
	return []describe.Description{{
		Group: group, Kind: "ClusterTrustBundle", Plural: "clustertrustbundles", Traits: kind.Traits{RequireResourceVersion: true, StoredAs: "v1beta1"}, ClusterScoped: true,
		Older:    []describe.Version{describe.VersionOf[certificatesv1beta1.ClusterTrustBundle](nil, "v1beta1")},
		Versions: describe.V1[certificatesv1.ClusterTrustBundle](nil), ValidName: anyName,
		Fields:  []kind.Selectable{kind.NewSelectable(".spec.signerName")},
		Columns: []kind.Column{describe.OrNone("SignerName", bundle["signerName"], "<none>", "spec", "signerName")},
		Check:   describe.Both(describe.Immutable("spec", "signerName"), checkBundle),
	}, {
		Group: group, Kind: "PodCertificateRequest", Plural: "podcertificaterequests", Traits: kind.Traits{RequireResourceVersion: true, StoredAs: "v1beta1", StatusKeeps: kind.WritableMetadata}, Status: true,
		Older:    []describe.Version{describe.VersionOf[certificatesv1beta1.PodCertificateRequest](nil, "v1beta1")},
		Versions: describe.V1[certificatesv1.PodCertificateRequest](nil),
		Fields:   []kind.Selectable{kind.NewSelectable(".spec.signerName"), kind.NewSelectable(".spec.podName"), kind.NewSelectable(".spec.nodeName")},
		Columns: []kind.Column{
			describe.Cell("PodName", request["podName"], describe.TextAt("spec", "podName")),
			describe.Cell("ServiceAccountName", request["serviceAccountName"], describe.TextAt("spec", "serviceAccountName")),
			describe.Cell("NodeName", request["nodeName"], describe.TextAt("spec", "nodeName")),
			describe.Cell("SignerName", request["signerName"], describe.TextAt("spec", "signerName")),
			describe.Cell("State", "Is the request Pending, Issued, Denied, or Failed?", podRequestState),
			describe.Cell("UnverifiedUserAnnotations", request["unverifiedUserAnnotations"], func(obj jsondoc.Value) string {
				return describe.MapText(obj.At("spec", "unverifiedUserAnnotations"), "<none>")
			}),
		},
		Check: describe.Both(describe.ImmutableAs(asFirstRequest, "spec"), checkPodRequest),
	}, {
		Group: "certificates.k8s.io", Kind: "CertificateSigningRequest", Plural: "certificatesigningrequests", ShortNames: []string{"csr"}, ClusterScoped: true,
		Versions: describe.V1[certificatesv1.CertificateSigningRequest](nil), Status: true, ValidName: describe.Segment,
		Subresources: []describe.Subresource{{Name: "approval", Scope: schema.Approval}},
		Traits: kind.Traits{
			CreateAs: setRequester,
			Resets:   map[string][]string{"": {"spec", "status"}, "status": {"spec", "status.conditions"}, "approval": {"spec", "status.certificate"}},
		},
		Fields:  []kind.Selectable{kind.NewSelectable(".spec.signerName")},
		Columns: requestColumns(),
		Update:  func(new, old *jsondoc.Doc) { kind.Keep(new, old, "spec") }, UpdateStatus: keepApproval, UpdatePart: approve,
		Check: checkRequest,
	}}
}

// setRequester records the user of the request in a request for a certificate.
func setRequester(d *jsondoc.Doc, by *kind.Requester) {
	for name, value := range map[string]any{"username": by.Name, "uid": by.UID, "groups": by.Groups, "extra": by.Extra} {
		text, err := json.Marshal(value)
		if err != nil {
			panic("BUG: " + err.Error()) // only texts
		}
		if s := string(text); s == `""` || s == "null" || s == "[]" || s == "{}" {
			text = nil
		}
		describe.SetJSON(d, text, "spec", name)
	}
}

// anyName accepts every name: the check of the whole object checks it.
func anyName(string, bool) []string { return nil }

// checkBundle checks the name of a bundle. If the bundle has a signer, its name begins with that of
// the signer, with a colon in place of each slash.
func checkBundle(_ *kind.Version, d, _ *jsondoc.Doc, _ schema.Scope) field.ErrorList {
	name, signer := strings.Clone(d.Root().At("metadata", "name").Text()), strings.Clone(d.Root().At("spec", "signerName").Text())
	own, prefix := name, ""
	var details []string
	if signer != "" {
		prefix = strings.ReplaceAll(signer, "/", ":") + ":"
		own = strings.TrimPrefix(name, prefix)
	}
	switch {
	case signer == "" && strings.Contains(name, ":"):
		details = []string{"ClusterTrustBundle without signer name must not have \":\" in its name"}
	case !strings.HasPrefix(name, prefix):
		details = []string{"ClusterTrustBundle for signerName " + signer + " must be named with prefix " + prefix}
	case name != "":
		details = describe.Subdomain(own, false)
	}
	var errs field.ErrorList
	for _, detail := range details {
		errs = append(errs, field.Invalid(field.NewPath("metadata", "name"), name, detail))
	}
	if block, _ := pem.Decode([]byte(d.Root().At("spec", "trustBundle").Text())); block == nil {
		errs = append(errs, field.Invalid(field.NewPath("spec", "trustBundle"), "<value omitted>", "at least one trust anchor must be provided"))
	}
	return errs
}

// podRequestState returns the outcome of a request of a pod, for the column of tables.
func podRequestState(obj jsondoc.Value) string {
	state := "Pending"
	for _, c := range obj.At("status", "conditions").Items() {
		switch typ := c.Get("type").Text(); typ {
		case certificatesv1.PodCertificateRequestConditionTypeIssued, certificatesv1.PodCertificateRequestConditionTypeDenied,
			certificatesv1.PodCertificateRequestConditionTypeFailed:
			state = typ
		}
	}
	return state
}

// requestColumns returns the columns of requests.
func requestColumns() []kind.Column {
	spec := certificatesv1beta1.CertificateSigningRequestSpec{}.SwaggerDoc() // upstream prints its texts
	return []kind.Column{
		describe.AgeColumn(),
		describe.At("SignerName", "string", ".spec.signerName", spec["signerName"]),
		describe.At("Requestor", "string", ".spec.username", spec["request"]),
		describe.OrNone("RequestedDuration", spec["expirationSeconds"], "<none>", "spec", "expirationSeconds"),
		describe.Cell("Condition", certificatesv1beta1.CertificateSigningRequestStatus{}.SwaggerDoc()["conditions"], func(obj jsondoc.Value) string {
			word := ""
			for _, typ := range []string{"Denied", "Approved", "Failed"} {
				if describe.HasCondition(obj, typ) {
					word = typ
					break
				}
			}
			word = describe.Either(word, "Pending")
			if describe.HasCondition(obj, "Failed") && word != "Failed" {
				word += ",Failed"
			}
			if obj.At("status", "certificate").Text() != "" {
				word += ",Issued"
			}
			return word
		}),
	}
}

// checkRequest checks a request for a certificate.
func checkRequest(_ *kind.Version, d, old *jsondoc.Doc, scope schema.Scope) field.ErrorList {
	var errs field.ErrorList
	spec, path := d.Root().Get("spec"), field.NewPath("spec")
	// A CSR in PEM, whose bytes the API keeps in base64.
	text, err := base64.StdEncoding.DecodeString(spec.Get("request").Text())
	block, _ := pem.Decode(text)
	switch {
	case err != nil || block == nil || block.Type != "CERTIFICATE REQUEST":
		errs = append(errs, field.Invalid(path.Child("request"), spec.Get("request").Interface(), "PEM block type must be CERTIFICATE REQUEST"))
	default:
		request, err := keysize.ParseRequest(block.Bytes)
		if err == nil {
			err = request.CheckSignature()
		}
		if err != nil {
			errs = append(errs, field.Invalid(path.Child("request"), spec.Get("request").Interface(), err.Error()))
		}
	}
	if spec.Get("usages").Len() == 0 {
		errs = append(errs, field.Required(path.Child("usages"), ""))
	}
	was := new(certificatesv1.CertificateSigningRequest)
	if old != nil {
		was = describe.ReadAs[certificatesv1.CertificateSigningRequest](old.Root())
	}
	now := describe.ReadAs[certificatesv1.CertificateSigningRequest](d.Root())
	errs = append(errs, checkRequestTerms(&now.Spec, &was.Spec, path)...)
	if scope != schema.Whole {
		errs = append(errs, checkRequestStatus(&now.Status, &was.Status, scope)...)
	}
	return errs
}
