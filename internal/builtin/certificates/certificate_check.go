package certificates

import (
	"encoding/pem"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	certificatesv1 "k8s.io/api/certificates/v1"
	certificatesv1beta1 "k8s.io/api/certificates/v1beta1"
	corev1 "k8s.io/api/core/v1"
	apivalidation "k8s.io/apimachinery/pkg/api/validation"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	metav1validation "k8s.io/apimachinery/pkg/apis/meta/v1/validation"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/keelson-io/keelson/internal/builtin/describe"
	"github.com/keelson-io/keelson/internal/keysize"
	"github.com/keelson-io/keelson/internal/texts"
	"github.com/keelson-io/keelson/jsondoc"
	"github.com/keelson-io/keelson/kind"
	"github.com/keelson-io/keelson/schema"
)

// This file checks requests for certificates.

// knownUsages are the uses of a key that a request may list.
var knownUsages = []certificatesv1.KeyUsage{
	certificatesv1.UsageAny, certificatesv1.UsageCertSign, certificatesv1.UsageClientAuth, certificatesv1.UsageCodeSigning, certificatesv1.UsageContentCommitment,
	certificatesv1.UsageCRLSign, certificatesv1.UsageDataEncipherment, certificatesv1.UsageDecipherOnly, certificatesv1.UsageDigitalSignature,
	certificatesv1.UsageEmailProtection, certificatesv1.UsageEncipherOnly, certificatesv1.UsageIPsecEndSystem, certificatesv1.UsageIPsecTunnel, certificatesv1.UsageIPsecUser,
	certificatesv1.UsageKeyAgreement, certificatesv1.UsageKeyEncipherment, certificatesv1.UsageMicrosoftSGC, certificatesv1.UsageNetscapeSGC, certificatesv1.UsageOCSPSigning,
	certificatesv1.UsageSMIME, certificatesv1.UsageServerAuth, certificatesv1.UsageSigning, certificatesv1.UsageTimestamping,
}

// shortest is the smallest expirationSeconds of a request.
const shortest = 600

// checkRequestTerms checks the signer and the fields that depend on it. Mistakes of the old request
// may stay.
func checkRequestTerms(spec, was *certificatesv1.CertificateSigningRequestSpec, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	known, seen := sets.New(knownUsages...).Insert(was.Usages...), sets.Set[certificatesv1.KeyUsage]{}
	changed := !slices.Equal(spec.Usages, was.Usages)
	for i, u := range texts.Each(&errs, spec.Usages) {
		at := path.Child("usages").Index(i)
		if !known.Has(u) {
			errs = append(errs, field.NotSupported(at, u, knownUsages))
		}
		if changed && seen.Has(u) {
			errs = append(errs, field.Duplicate(at, u))
		}
		seen.Insert(u)
	}
	if name := spec.SignerName; name == "kubernetes.io/legacy-unknown" && was.SignerName != name {
		errs = append(errs, field.Invalid(path.Child("signerName"), name, "the legacy signerName is not allowed via this API version"))
	} else {
		errs = append(errs, describe.CheckSigner(name, path.Child("signerName"))...)
	}
	if n := spec.ExpirationSeconds; n != nil && *n < shortest {
		errs = append(errs, field.Invalid(path.Child("expirationSeconds"), *n, "may not specify a duration less than 600 seconds (10 minutes)"))
	}
	return errs
}

// decisions has the conditions of a request that decide it, or would if they were true.
var decisions = []certificatesv1.RequestConditionType{certificatesv1.CertificateApproved, certificatesv1.CertificateDenied, certificatesv1.CertificateFailed}

// requestConditions are the conditions of a request for a certificate.
type requestConditions []certificatesv1.CertificateSigningRequestCondition

// of returns the conditions of a type.
func (c requestConditions) of(typ certificatesv1.RequestConditionType) (at []int) {
	for i := range c {
		if c[i].Type == typ {
			at = append(at, i)
		}
	}
	return at
}

// hasDuplicate reports whether there are two conditions of one type.
func (c requestConditions) hasDuplicate() bool {
	for i := range c {
		if len(c.of(c[i].Type)) > 1 {
			return true
		}
	}
	return false
}

// isContradictory reports whether a request is both approved and denied.
func (c requestConditions) isContradictory() bool {
	return c.of(certificatesv1.CertificateApproved) != nil && c.of(certificatesv1.CertificateDenied) != nil
}

// check checks conditions. Mistakes of the old request may stay.
func (c requestConditions) check(was requestConditions, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	seen := map[certificatesv1.RequestConditionType]bool{}
	for i := range texts.Each(&errs, c) {
		at := path.Index(i)
		if was.of("") == nil {
			errs = append(errs, describe.NeedText(at.Child("type"), string(c[i].Type))...)
		}
		may := []corev1.ConditionStatus{corev1.ConditionFalse, corev1.ConditionTrue, corev1.ConditionUnknown}
		if slices.Contains(decisions, c[i].Type) {
			may = may[1:2]
		}
		if c[i].Status == "" {
			errs = append(errs, field.Required(at.Child("status"), ""))
		}
		errs = append(errs, describe.Among(at.Child("status"), c[i].Status, may...)...)
		if seen[c[i].Type] && !was.hasDuplicate() {
			errs = append(errs, field.Duplicate(at.Child("type"), c[i].Type))
		}
		seen[c[i].Type] = true
	}
	return errs
}

// checkRequestStatus checks the status of a request. Approval and denial have a subresource of
// their own.
func checkRequestStatus(now, was *certificatesv1.CertificateSigningRequestStatus, scope schema.Scope) field.ErrorList {
	path, certificate := field.NewPath("status", "conditions"), field.NewPath("status", "certificate")
	conditions, before := requestConditions(now.Conditions), requestConditions(was.Conditions)
	errs := conditions.check(before, path)
	changed := string(now.Certificate) != string(was.Certificate)
	if err := checkCertificates(now.Certificate); err != nil && changed && checkCertificates(was.Certificate) == nil {
		errs = append(errs, field.Invalid(certificate, "<certificate data>", err.Error()))
	}
	for _, typ := range decisions {
		if len(conditions.of(typ)) < len(before.of(typ)) {
			errs = append(errs, field.Forbidden(path, fmt.Sprintf("updates may not remove a condition of type %q", typ)))
		}
	}
	for _, typ := range decisions[:2] {
		if scope != schema.Approval && len(conditions.of(typ)) > len(before.of(typ)) {
			errs = append(errs, field.Forbidden(path, fmt.Sprintf("updates may not add a condition of type %q", typ)))
		}
	}
	if changed && len(was.Certificate) > 0 {
		errs = append(errs, field.Forbidden(certificate, "updates may not modify existing certificate content"))
	}
	if conditions.isContradictory() && !before.isContradictory() {
		const approved, denied = `conditions[{"type": "Approved"}]`, `conditions[{"type": "Denied"}]`
		errs = append(errs, field.Invalid(path, "{"+approved+", "+denied+"}", "must specify at most one of: `"+approved+"`, `"+denied+"`"))
	}
	return errs
}

// keepApproval copies the conditions for approval and denial from the old request: an update of the
// status must not change them.
func keepApproval(new, old *jsondoc.Doc) {
	now, was := requestStatus(new), requestStatus(old)
	for _, typ := range decisions[:2] {
		at, from := requestConditions(now.Conditions).of(typ), requestConditions(was.Conditions).of(typ)
		for i := range at {
			if len(at) == len(from) {
				now.Conditions[at[i]] = was.Conditions[from[i]]
			}
		}
	}
	stampConditions(new, now, was)
}

// approve copies nothing but the conditions from an update of a request's approval.
func approve(new, old *jsondoc.Doc, _ schema.Scope) {
	now := requestStatus(new)
	kind.Keep(new, old, "status")
	new.Remove("status", "conditions")
	stampConditions(new, now, requestStatus(old))
}

// requestStatus decodes the status of a request.
func requestStatus(d *jsondoc.Doc) *certificatesv1.CertificateSigningRequestStatus {
	return describe.ReadAs[certificatesv1.CertificateSigningRequestStatus](d.Root().Get("status"))
}

// stampConditions sets conditions, and the missing times in them: of the last update, and of the
// last change of the status.
func stampConditions(d *jsondoc.Doc, now, was *certificatesv1.CertificateSigningRequestStatus) {
	if len(now.Conditions) == 0 {
		return
	}
	time := metav1.Now()
	type pair struct {
		typ    certificatesv1.RequestConditionType
		status corev1.ConditionStatus
	}
	since := map[pair]metav1.Time{}
	for _, c := range slices.Backward(was.Conditions) { // the first one of each type and status counts
		if !c.LastTransitionTime.IsZero() {
			since[pair{c.Type, c.Status}] = c.LastTransitionTime
		}
	}
	for i := range now.Conditions {
		c := &now.Conditions[i]
		if c.LastUpdateTime.IsZero() {
			c.LastUpdateTime = time
		}
		if !c.LastTransitionTime.IsZero() {
			continue
		}
		c.LastTransitionTime = time
		if t, ok := since[pair{c.Type, c.Status}]; ok {
			c.LastTransitionTime = t
		}
	}
	describe.SetAs(d, now.Conditions, "status", "conditions")
}

// checkCertificates checks certificates in PEM. The field may be empty, else it must have one.
func checkCertificates(text []byte) error {
	if len(text) == 0 {
		return nil
	}
	for n := 0; ; n++ {
		block, rest := pem.Decode(text)
		switch {
		case block == nil && n == 0:
			return errors.New("must contain at least one CERTIFICATE PEM block")
		case block == nil:
			return nil
		case block.Type != "CERTIFICATE":
			return fmt.Errorf("only CERTIFICATE PEM blocks are allowed, found %q", block.Type)
		case len(block.Headers) != 0:
			return errors.New("no PEM block headers are permitted")
		}
		if all, err := keysize.ParseCertificates(block.Bytes); err != nil {
			return err
		} else if len(all) == 0 {
			return errors.New("found CERTIFICATE PEM block containing 0 certificates")
		}
		text = rest
	}
}

// asFirstRequest returns a request of a pod with the field names of the version that upstream
// stores, which errors print.
func asFirstRequest(now jsondoc.Value) any {
	return describe.InGoNames(describe.ReadAs[certificatesv1beta1.PodCertificateRequestSpec](now))
}

// checkPodRequest checks a request of a pod for a certificate, or its status.
func checkPodRequest(_ *kind.Version, new, old *jsondoc.Doc, scope schema.Scope) field.ErrorList {
	switch {
	case scope == schema.Status:
		return checkPodRequestStatus(describe.ReadAs[certificatesv1.PodCertificateRequestStatus](new.Root().Get("status")), describe.ReadAs[certificatesv1.PodCertificateRequestStatus](old.Root().Get("status")))
	case old != nil:
		return nil
	}
	spec, path := describe.ReadAs[certificatesv1.PodCertificateRequestSpec](new.Root().Get("spec")), field.NewPath("spec")
	errs := describe.CheckSigner(spec.SignerName, path.Child("signerName"))
	for _, key := range texts.Each(&errs, slices.Sorted(maps.Keys(spec.UnverifiedUserAnnotations))) {
		errs = append(errs, validation.IsDomainPrefixedKey(path.Child("unverifiedUserAnnotations"), strings.ToLower(key))...)
	}
	for _, of := range []struct {
		name, uid         string
		nameValue, idText string
		rule              func(string, bool) []string
	}{
		{"podName", "podUID", spec.PodName, string(spec.PodUID), apivalidation.NameIsDNSSubdomain},
		{"serviceAccountName", "serviceAccountUID", spec.ServiceAccountName, string(spec.ServiceAccountUID), apivalidation.ValidateServiceAccountName},
		{"nodeName", "nodeUID", string(spec.NodeName), string(spec.NodeUID), apivalidation.NameIsDNSSubdomain},
	} {
		errs = append(errs, describe.Invalid(path.Child(of.name), of.nameValue, of.rule(of.nameValue, false))...)
		if of.idText == "" {
			errs = append(errs, field.Invalid(path.Child(of.uid), of.idText, "must not be empty"))
		} else if len(of.idText) > 128 {
			errs = append(errs, field.TooLong(path.Child(of.uid), "" /*unused*/, 128))
		}
	}
	if len(spec.StubPKCS10Request) == 0 {
		errs = append(errs, field.Invalid(path, field.OmitValueType{}, "exactly one of (stubPKCS10Request) or (pkixPublicKey, proofOfPossession) must be set"))
	}
	return errs
}

// podRequestEnds are the conditions with which a request of a pod ends. Only one may be there.
var podRequestEnds = []string{certificatesv1.PodCertificateRequestConditionTypeIssued, certificatesv1.PodCertificateRequestConditionTypeDenied, certificatesv1.PodCertificateRequestConditionTypeFailed}

// checkPodRequestStatus checks a change of the status: a request that has ended must not change.
func checkPodRequestStatus(now, was *certificatesv1.PodCertificateRequestStatus) field.ErrorList {
	path := field.NewPath("status")
	var errs field.ErrorList
	ends := 0
	for i, c := range texts.Each(&errs, now.Conditions) {
		at := path.Child("conditions").Index(i)
		if !slices.Contains(podRequestEnds, c.Type) {
			errs = append(errs, field.NotSupported(at.Child("type"), c.Type, podRequestEnds))
			continue
		}
		if ends++; ends > 1 {
			errs = append(errs, field.Invalid(at.Child("type"), c.Type, `There may be at most one condition with type "Issued", "Denied", or "Failed"`))
		}
		if c.Status != metav1.ConditionTrue {
			errs = append(errs, field.NotSupported(at.Child("status"), c.Status, []metav1.ConditionStatus{metav1.ConditionTrue}))
		}
	}
	if errs = append(errs, metav1validation.ValidateConditions(now.Conditions, path.Child("conditions"))...); len(errs) > 0 {
		return errs
	}
	if describe.SameJSON(now, was) {
		return nil
	}
	ended := func(s *certificatesv1.PodCertificateRequestStatus) string {
		for _, c := range s.Conditions {
			if slices.Contains(podRequestEnds, c.Type) {
				return c.Type
			}
		}
		return ""
	}
	detail := ""
	switch {
	case ended(was) != "":
		detail = "immutable after PodCertificateRequest is issued, denied, or failed"
	case ended(now) == "":
		detail = `status is immutable unless transitioning to "Issued", "Denied", or "Failed"`
	case ended(now) != podRequestEnds[0] && !describe.SameJSON(now, certificatesv1.PodCertificateRequestStatus{Conditions: now.Conditions}):
		detail = "non-condition status fields must be empty when denying or failing the PodCertificateRequest"
	}
	if detail == "" {
		return nil
	}
	return field.ErrorList{field.Invalid(path, field.OmitValueType{}, detail)}
}
