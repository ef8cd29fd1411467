package noderestriction

import (
	"context"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"strings"

	certificatesv1 "k8s.io/api/certificates/v1"
	corev1 "k8s.io/api/core/v1"

	"github.com/keelson-io/keelson/authz"
	"github.com/keelson-io/keelson/internal/admission"
	"github.com/keelson-io/keelson/internal/keysize"
	"github.com/keelson-io/keelson/internal/status"
)

// This file checks the certificates that nodes request.

// signing lets a node request client and serving certificates of kubelets only for itself.
func (q *request) signing(context.Context) error {
	if q.Operation != admission.Create {
		return nil
	}
	var csr certificatesv1.CertificateSigningRequest
	if err := decode(q.New, &csr); err != nil {
		return err
	}
	switch csr.Spec.SignerName {
	case certificatesv1.KubeletServingSignerName, certificatesv1.KubeAPIServerClientKubeletSignerName:
	default:
		return nil
	}
	request, err := parseRequest(csr.Spec.Request)
	if err != nil {
		return q.refuse("unable to parse csr: %w", err)
	}
	if request.Subject.CommonName != "system:node:"+q.node {
		return q.refuse("can only create a node CSR with CN=system:node:%s", q.node)
	}
	return nil
}

// parseRequest parses the PEM form of a certificate request.
func parseRequest(text []byte) (*x509.CertificateRequest, error) {
	block, _ := pem.Decode(text)
	if block == nil || block.Type != "CERTIFICATE REQUEST" {
		return nil, errors.New("PEM block type must be CERTIFICATE REQUEST")
	}
	return keysize.ParseRequest(block.Bytes)
}

// podCertificate lets a node request certificates for pods that run on it.
func (q *request) podCertificate(ctx context.Context) error {
	switch {
	case q.Operation != admission.Create:
		return q.refuse("unexpected operation %v", q.Operation)
	case q.Subresource != "":
		return q.refuse("unexpected subresource %v", q.Subresource)
	}
	var request certificatesv1.PodCertificateRequest
	if err := decode(q.New, &request); err != nil {
		return err
	}
	spec := &request.Spec
	if string(spec.NodeName) != q.node {
		return q.refuse("PodCertificateRequest.Spec.NodeName=%q, which is not the requesting node %q", spec.NodeName, q.node)
	}
	var node corev1.Node
	if err := q.read(ctx, nodes, "", q.node, &node); err != nil {
		return q.retrieving(err, "node", string(spec.NodeName))
	}
	podName, account := q.Namespace+"/"+spec.PodName, q.Namespace+"/"+spec.ServiceAccountName
	if node.UID != spec.NodeUID {
		return plain("PodCertificateRequest for pod %q names node UID %q, inconsistent with the running node (%q)", podName, spec.NodeUID, node.UID)
	}
	var pod corev1.Pod
	if err := q.read(ctx, pods, q.Namespace, spec.PodName, &pod); err != nil {
		return q.retrieving(err, "pod", podName)
	}
	_, mirror := pod.Annotations[corev1.MirrorPodAnnotationKey]
	switch {
	case spec.PodUID != pod.UID:
		return plain("PodCertificateRequest for pod %q contains pod UID (%q) which differs from running pod %q", podName, spec.PodUID, string(pod.UID))
	case pod.Spec.NodeName != q.node:
		return q.refuse("pod %q is not running on node %q named in the PodCertificateRequest", podName, spec.NodeName)
	case mirror:
		return q.refuse("pod %q is a mirror pod", podName)
	case spec.ServiceAccountName != pod.Spec.ServiceAccountName:
		return q.refuse("PodCertificateRequest for pod %q contains serviceAccountName (%q) that differs from running pod (%q)",
			podName, spec.ServiceAccountName, pod.Spec.ServiceAccountName)
	}
	var found corev1.ServiceAccount
	if err := q.read(ctx, serviceAccounts, q.Namespace, spec.ServiceAccountName, &found); err != nil {
		return q.retrieving(err, "service account", account)
	}
	if spec.ServiceAccountUID != found.UID {
		return plain("PodCertificateRequest for pod %q names service account UID %q, which differs from the running service account (%q)",
			podName, spec.ServiceAccountUID, found.UID)
	}
	if err := q.signer(ctx, &pod, spec); err != nil {
		return q.Forbidden(err)
	}
	return nil
}

// plain returns an error without a reason: the client may try again, because the objects may have
// changed.
func plain(format string, args ...any) error { return status.Plain500(fmt.Sprintf(format, args...)) }

// retrieving returns the error for a named object that cannot be read.
func (q *request) retrieving(err error, what, name string) error {
	err = fmt.Errorf("while retrieving %s %q named in the PodCertificateRequest: %w", what, name, err)
	if missing(errors.Unwrap(err)) {
		return plain("%v", err)
	}
	return q.Forbidden(err)
}

// signer returns an error unless a volume of the pod names the signer or an authorizer allows it to
// the node.
func (q *request) signer(ctx context.Context, pod *corev1.Pod, spec *certificatesv1.PodCertificateRequestSpec) error {
	for i := range pod.Spec.Volumes {
		p := pod.Spec.Volumes[i].Projected
		if p == nil {
			continue
		}
		for j := range p.Sources {
			if c := p.Sources[j].PodCertificate; c != nil && c.SignerName == spec.SignerName {
				return nil
			}
		}
	}
	// Roles cannot name resources with a slash.
	resource := strings.ReplaceAll(spec.SignerName, "/", ":")
	d := q.authorize(ctx, "request-serviceaccounts-podcertificate-signer", resource, spec.ServiceAccountName)
	switch {
	case d.Decision == authz.Allow:
		return nil
	case d.Err != nil:
		return fmt.Errorf("error authorizing %s to request podcertificaterequests for signer %q: %w", q.User.Name, spec.SignerName, d.Err)
	}
	return fmt.Errorf("pod %q does not mount a podCertificate projected volume for signer %q", q.Namespace+"/"+spec.PodName, spec.SignerName)
}
