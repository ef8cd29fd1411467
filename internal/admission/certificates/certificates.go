// Package certificates has the admission plugins for certificate signing requests and trust bundles.
//
// # Model
//
// A permission on the resource certificatesigningrequests does not say for which signers. The steps
// ask the authorizers for a permission on the signer, too: to approve ([Approval]), to sign
// ([Signing]) or to attest ([Attest]). A permission on DOMAIN/* is for all signers of the domain.
// [Subject] refuses client certificates for the group system:masters, which no authorizer can
// restrict.
//
// # Invariants
//
//   - Decisions and texts are those of Kubernetes' plugins.
//   - If the authorizers do not decide, the request is refused.
package certificates

import (
	"context"
	"encoding/pem"
	"errors"
	"fmt"
	"slices"
	"strings"

	certificatesv1 "k8s.io/api/certificates/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/keelson-io/keelson/authz"
	"github.com/keelson-io/keelson/internal/admission"
	"github.com/keelson-io/keelson/internal/authn"
	"github.com/keelson-io/keelson/internal/keysize"
	"github.com/keelson-io/keelson/jsondoc"
)

// The resources that the steps are for.
var (
	Requests = schema.GroupResource{Group: "certificates.k8s.io", Resource: "certificatesigningrequests"}
	Bundles  = schema.GroupResource{Group: "certificates.k8s.io", Resource: "clustertrustbundles"}
)

// Approval returns the plugin CertificateApproval, for Requests.
func Approval(z authz.Authorizer) admission.Func {
	return func(ctx context.Context, r *admission.Request) error {
		if r.Operation != admission.Update || r.Subresource != "approval" {
			return nil
		}
		signer := r.Old.Root().At("spec", "signerName").Text() // the new object may name another one
		if may(ctx, z, r.User, "approve", signer) {
			return nil
		}
		return r.Forbidden(fmt.Errorf("user not permitted to approve requests with signerName %q", signer))
	}
}

// Signing returns the plugin CertificateSigning, for Requests. It lets everybody who may write the status
// change what is not the certificate or a condition.
func Signing(z authz.Authorizer) admission.Func {
	return func(ctx context.Context, r *admission.Request) error {
		if r.Operation != admission.Update || r.Subresource != "status" {
			return nil
		}
		same := true
		for _, member := range []string{"certificate", "conditions"} {
			same = same && jsondoc.Equal(r.Old.Root().At("status", member), r.New.Root().At("status", member))
		}
		signer := r.Old.Root().At("spec", "signerName").Text()
		if same || may(ctx, z, r.User, "sign", signer) {
			return nil
		}
		return r.Forbidden(fmt.Errorf("user not permitted to sign requests with signerName %q", signer))
	}
}

// Subject returns the plugin CertificateSubjectRestriction, for Requests.
func Subject() admission.Func {
	return func(_ context.Context, r *admission.Request) error {
		if r.Operation != admission.Create || r.Subresource != "" {
			return nil
		}
		request, err := admission.NewObject[certificatesv1.CertificateSigningRequest](r)
		if err != nil || request.Spec.SignerName != certificatesv1.KubeAPIServerClientSignerName {
			return err
		}
		block, _ := pem.Decode(request.Spec.Request)
		if block == nil || block.Type != "CERTIFICATE REQUEST" {
			return r.Forbidden(fmt.Errorf("failed to parse CSR: %v", errors.New("PEM block type must be CERTIFICATE REQUEST")))
		}
		parsed, err := keysize.ParseRequest(block.Bytes)
		if err != nil {
			return r.Forbidden(fmt.Errorf("failed to parse CSR: %v", err))
		}
		if slices.Contains(parsed.Subject.Organization, authn.Masters) {
			return r.Forbidden(fmt.Errorf("use of %s signer with %s group is not allowed", certificatesv1.KubeAPIServerClientSignerName, authn.Masters))
		}
		return nil
	}
}

// Attest returns the plugin ClusterTrustBundleAttest, for Bundles. An update that changes only owners and
// finalizers needs no permission.
func Attest(z authz.Authorizer) admission.Func {
	return func(ctx context.Context, r *admission.Request) error {
		if r.Operation == admission.Delete {
			return nil
		}
		signer := r.New.Root().At("spec", "signerName").Text()
		if signer == "" || r.Operation == admission.Update && changesOnlyOwners(r) || may(ctx, z, r.User, "attest", signer) {
			return nil
		}
		return r.Forbidden(fmt.Errorf("user not permitted to attest for signerName %q", signer))
	}
}

// changesOnlyOwners reports whether an update leaves everything as it is but owner references,
// finalizers and managed fields.
func changesOnlyOwners(r *admission.Request) bool {
	is, _ := r.New.Root().Interface().(map[string]any)
	was, _ := r.Old.Root().Interface().(map[string]any)
	for _, object := range []map[string]any{is, was} {
		if m, ok := object["metadata"].(map[string]any); ok {
			for _, member := range []string{"ownerReferences", "finalizers", "managedFields", "selfLink"} {
				delete(m, member)
			}
		}
	}
	return equality.Semantic.DeepEqual(is, was)
}

// may reports whether a user has a permission on a signer, or on all signers of its domain.
func may(ctx context.Context, z authz.Authorizer, user *authn.User, verb, signer string) bool {
	domain, _, _ := strings.Cut(signer, "/")
	for _, name := range []string{signer, domain + "/*"} {
		d := z.Authorize(ctx, &authz.Attributes{User: user, Verb: verb, ResourceRequest: true, Group: "certificates.k8s.io", Version: "*",
			Resource: "signers", Name: strings.Clone(name)})
		if d.Decision == authz.Allow {
			return true
		}
	}
	return false
}
