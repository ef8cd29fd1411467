package builtin

import (
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"strings"

	certificatesv1 "k8s.io/api/certificates/v1"
	certificatesv1beta1 "k8s.io/api/certificates/v1beta1"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/keelson-io/keelson/doc"
	"github.com/keelson-io/keelson/kind"
	"github.com/keelson-io/keelson/schema"
)

// This file describes requests for certificates, and bundles of those that are trusted. They are kept; nothing signs here.

func certificateKinds() []description {
	const group = "certificates.k8s.io"
	bundle, request := certificatesv1.ClusterTrustBundleSpec{}.SwaggerDoc(), certificatesv1.PodCertificateRequestSpec{}.SwaggerDoc()
	return []description{{
		group: group, kind: "ClusterTrustBundle", plural: "clustertrustbundles", storedAs: "v1beta1", cluster: true, versioned: true,
		versions: v1[certificatesv1.ClusterTrustBundle](nil), name: anyName,
		fields:  []kind.Selectable{kind.NewSelectable(".spec.signerName")},
		columns: []kind.Column{orNone("SignerName", bundle["signerName"], "<none>", "spec", "signerName")},
		check:   both(immutable("spec", "signerName"), checkBundle),
	}, {
		group: group, kind: "PodCertificateRequest", plural: "podcertificaterequests", storedAs: "v1beta1", versioned: true, status: true, statusKeeps: wholeMetadata,
		versions: v1[certificatesv1.PodCertificateRequest](nil),
		fields:   []kind.Selectable{kind.NewSelectable(".spec.signerName"), kind.NewSelectable(".spec.podName"), kind.NewSelectable(".spec.nodeName")},
		columns: []kind.Column{
			cell("PodName", request["podName"], textAt("spec", "podName")),
			cell("ServiceAccountName", request["serviceAccountName"], textAt("spec", "serviceAccountName")),
			cell("NodeName", request["nodeName"], textAt("spec", "nodeName")),
			cell("SignerName", request["signerName"], textAt("spec", "signerName")),
			cell("State", "Is the request Pending, Issued, Denied, or Failed?", podRequestState),
			cell("UnverifiedUserAnnotations", request["unverifiedUserAnnotations"], func(obj doc.Value) string {
				return mapText(obj.At("spec", "unverifiedUserAnnotations"), "<none>")
			}),
		},
		check: both(immutableAs(asFirstRequest, "spec"), checkPodRequest),
	}, {
		group: "certificates.k8s.io", kind: "CertificateSigningRequest", plural: "certificatesigningrequests", short: []string{"csr"}, cluster: true,
		versions: v1[certificatesv1.CertificateSigningRequest](nil), status: true, name: segment,
		subresources: []kind.Subresource{{Name: "approval", Verbs: partVerbs, Scope: partApproval}},
		fields:       []kind.Selectable{kind.NewSelectable(".spec.signerName")},
		columns:      requestColumns(), createAs: noteRequester,
		update: func(new, old *doc.Doc) { kind.Keep(new, old, "spec") }, updateStatus: keepApproval, updatePart: approve,
		check:  checkRequest,
		resets: map[string][]string{"": {"spec", "status"}, "status": {"spec", "status.conditions"}, "approval": {"spec", "status.certificate"}},
	}}
}

// noteRequester notes in a request for a certificate who it is from.
func noteRequester(d *doc.Doc, by *kind.Requester) {
	for name, value := range map[string]any{"username": by.Name, "uid": by.UID, "groups": by.Groups, "extra": by.Extra} {
		text, err := json.Marshal(value)
		if err != nil {
			panic("BUG: " + err.Error()) // texts
		}
		if s := string(text); s == `""` || s == "null" || s == "[]" || s == "{}" {
			text = nil
		}
		setJSON(d, text, "spec", name)
	}
}

// anyName leaves names to the check of the whole object.
func anyName(string, bool) []string { return nil }

// checkBundle checks the name of a bundle: those of a signer begin with the signer's, a colon in place of each slash.
func checkBundle(_ *kind.Version, d, _ *doc.Doc, _ schema.Scope) field.ErrorList {
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
		details = subdomain(own, false)
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

// podRequestState says how a request of a pod ended, if it did.
func podRequestState(obj doc.Value) string {
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

func requestColumns() []kind.Column {
	spec := certificatesv1beta1.CertificateSigningRequestSpec{}.SwaggerDoc() // whose words upstream uses
	return []kind.Column{
		ageColumn(),
		at("SignerName", "string", ".spec.signerName", spec["signerName"]),
		at("Requestor", "string", ".spec.username", spec["request"]),
		orNone("RequestedDuration", spec["expirationSeconds"], "<none>", "spec", "expirationSeconds"),
		cell("Condition", certificatesv1beta1.CertificateSigningRequestStatus{}.SwaggerDoc()["conditions"], func(obj doc.Value) string {
			word := ""
			for _, typ := range []string{"Denied", "Approved", "Failed"} {
				if hasCondition(obj, typ) {
					word = typ
					break
				}
			}
			word = either(word, "Pending")
			if hasCondition(obj, "Failed") && word != "Failed" {
				word += ",Failed"
			}
			if obj.At("status", "certificate").Text() != "" {
				word += ",Issued"
			}
			return word
		}),
	}
}

func checkRequest(_ *kind.Version, d, old *doc.Doc, scope schema.Scope) field.ErrorList {
	var errs field.ErrorList
	spec, path := d.Root().Get("spec"), field.NewPath("spec")
	// A CSR in PEM, whose bytes the API keeps in base64.
	text, err := base64.StdEncoding.DecodeString(spec.Get("request").Text())
	block, _ := pem.Decode(text)
	switch {
	case err != nil || block == nil || block.Type != "CERTIFICATE REQUEST":
		errs = append(errs, field.Invalid(path.Child("request"), spec.Get("request").Interface(), "PEM block type must be CERTIFICATE REQUEST"))
	default:
		request, err := x509.ParseCertificateRequest(block.Bytes)
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
		was = readAs[certificatesv1.CertificateSigningRequest](old.Root())
	}
	now := readAs[certificatesv1.CertificateSigningRequest](d.Root())
	errs = append(errs, checkRequestTerms(&now.Spec, &was.Spec, path)...)
	if scope != schema.Whole {
		errs = append(errs, checkRequestStatus(&now.Status, &was.Status, scope)...)
	}
	return errs
}
