// Package signer signs approved CertificateSigningRequests for client certificates of the API server.
//
// The [Controller] follows the requests. An approved one of the signer
// kubernetes.io/kube-apiserver-client gets a certificate of the server's own authority in its status,
// by the rules of kube-controller-manager. One whose usages do not fit gets the condition Failed.
// Requests of other signers belong to other programs.
//
// # Invariants
//
//   - A certificate is issued only for a request that is approved, not failed, and has none yet, in the
//     state in which the certificate is written: approval needs a permission of its own.
//   - No certificate outlives the authority, nor is any a certificate authority.
//   - Several servers may do this at once; the first one's certificate stays.
//
// [Controller.Run] is the function to call.
package signer

import (
	"context"
	"crypto"
	"crypto/rand"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"log/slog"
	"math/big"
	"strings"
	"time"

	certificatesv1 "k8s.io/api/certificates/v1"
	corev1 "k8s.io/api/core/v1"

	"github.com/keelson-io/keelson/internal/cache"
	"github.com/keelson-io/keelson/internal/controller/loop"
	"github.com/keelson-io/keelson/internal/keysize"
	"github.com/keelson-io/keelson/internal/meta"
	"github.com/keelson-io/keelson/internal/store"
	"github.com/keelson-io/keelson/kind"
)

// Name is kube-controller-manager's name of this controller.
const Name = "certificatesigningrequest-signing-controller"

// Account is the service account that the controller is in a cluster.
const Account = "certificate-controller"

// kube-controller-manager's durations. A certificate is valid from some time before it is issued,
// because clocks differ; this does not shorten a short life.
const (
	longest  = 365 * 24 * time.Hour // --cluster-signing-duration
	least    = 10 * time.Minute
	backdate = 5 * time.Minute
	short    = 8 * time.Hour
)

// API is the part of the API that the controller calls.
type API interface {
	// ModifyPart changes a subresource of an object. It returns the errors of fn unchanged.
	ModifyPart(ctx context.Context, k *kind.Kind, namespace, name, part string, fn func(meta.Object) error) error
}

// Controller signs requests. Its fields are set before Run.
type Controller struct {
	Kinds  *kind.Registry
	Cache  *cache.Cache
	Store  store.Store
	API    API
	Logger *slog.Logger

	// Authority returns the certificate and the key that sign.
	Authority func() (*x509.Certificate, crypto.Signer)
	Now       func() time.Time // nil: time.Now

	loop     loop.Loop // due are approved requests
	requests *kind.Kind
}

// Run works until ctx ends.
func (c *Controller) Run(ctx context.Context) {
	if c.Now == nil {
		c.Now = time.Now
	}
	if c.requests = c.Kinds.Load().Lookup(certificatesv1.GroupName, "certificatesigningrequests"); c.requests == nil {
		return
	}
	c.loop = loop.Loop{Cache: c.Cache, Store: c.Store, Logger: c.Logger, Name: Name, List: []string{c.requests.StoragePrefix + "/"}, See: c.see, Work: c.work}
	c.loop.Run(ctx)
}

// see schedules the work for every request that exists. The work reads its state.
func (c *Controller) see(e *loop.Change) {
	if e.Deleted {
		c.loop.Drop(e.Key)
		return
	}
	c.loop.Add(e.Key)
}

// work signs a request, or writes why it is not signed.
func (c *Controller) work(ctx context.Context, key string) error {
	o, err := loop.Load(ctx, c.Store, c.requests, key)
	if o == nil || err != nil {
		return err
	}
	r, err := read(*o)
	o.Doc.Release()
	if err != nil || !due(r) {
		return err
	}
	name := strings.TrimPrefix(key, c.requests.StoragePrefix+"/")
	return loop.UnlessGone(c.API.ModifyPart(ctx, c.requests, "", name, "status", func(o meta.Object) error {
		now, err := read(o)
		if err != nil || !due(now) {
			return err
		}
		return c.decide(o, now)
	}))
}

// read decodes a request.
func read(o meta.Object) (*certificatesv1.CertificateSigningRequest, error) {
	r := new(certificatesv1.CertificateSigningRequest)
	return r, json.Unmarshal(o.Doc.Root().AppendJSON(nil), r)
}

// due reports whether a request is to be signed.
func due(r *certificatesv1.CertificateSigningRequest) bool {
	if r.Spec.SignerName != certificatesv1.KubeAPIServerClientSignerName || len(r.Status.Certificate) > 0 {
		return false
	}
	approved := false
	for _, c := range r.Status.Conditions {
		switch {
		case c.Type == certificatesv1.CertificateDenied, c.Type == certificatesv1.CertificateFailed && c.Status == corev1.ConditionTrue:
			return false
		case c.Type == certificatesv1.CertificateApproved:
			approved = true
		}
	}
	return approved
}

// decide sets the certificate of a request, or the condition Failed.
func (c *Controller) decide(o meta.Object, r *certificatesv1.CertificateSigningRequest) error {
	if why := checkUsages(r.Spec.Usages); why != nil {
		failed := certificatesv1.CertificateSigningRequestCondition{
			Type: certificatesv1.CertificateFailed, Status: corev1.ConditionTrue, Reason: "SignerValidationFailure", Message: why.Error(),
		}
		failed.LastUpdateTime.Time = c.Now()
		r.Status.Conditions = append(r.Status.Conditions, failed)
		return o.SetTyped(r.Status.Conditions, "status", "conditions")
	}
	certificate, err := c.sign(r)
	if err != nil {
		return err
	}
	o.Doc.Set(o.Doc.NewString(base64.StdEncoding.EncodeToString(certificate)), "status", "certificate")
	return nil
}

// checkUsages refuses usages that a client certificate cannot have, with kube-controller-manager's
// texts.
func checkUsages(usages []certificatesv1.KeyUsage) error {
	client := false
	for _, u := range usages {
		switch u {
		case certificatesv1.UsageDigitalSignature, certificatesv1.UsageKeyEncipherment:
		case certificatesv1.UsageClientAuth:
			client = true
		default:
			return fmt.Errorf("invalid usage for client certificate: %s", u)
		}
	}
	if !client {
		return fmt.Errorf("missing required usage for client certificate: %s", certificatesv1.UsageClientAuth)
	}
	return nil
}

// sign issues a certificate, as PEM.
func (c *Controller) sign(r *certificatesv1.CertificateSigningRequest) ([]byte, error) {
	block, _ := pem.Decode(r.Spec.Request)
	if block == nil {
		return nil, errors.New("spec.request: not PEM")
	}
	asked, err := keysize.ParseRequest(block.Bytes)
	if err != nil {
		return nil, fmt.Errorf("unable to parse certificate request: %w", err)
	}
	if err := asked.CheckSignature(); err != nil {
		return nil, fmt.Errorf("unable to verify certificate request signature: %w", err)
	}
	serial, err := rand.Int(rand.Reader, new(big.Int).Lsh(big.NewInt(1), 128))
	if err != nil {
		return nil, err
	}
	authority, key := c.Authority()
	now, life := c.Now(), lifetime(r.Spec.ExpirationSeconds)
	if !now.Before(authority.NotAfter) {
		return nil, fmt.Errorf("the signer has expired: NotAfter=%v", authority.NotAfter)
	}
	end := now.Add(life)
	if life >= short {
		end = end.Add(-backdate)
	}
	if end.After(authority.NotAfter) {
		end = authority.NotAfter
	}
	template := &x509.Certificate{
		SerialNumber: serial, Subject: asked.Subject,
		DNSNames: asked.DNSNames, IPAddresses: asked.IPAddresses, EmailAddresses: asked.EmailAddresses, URIs: asked.URIs,
		NotBefore: now.Add(-backdate), NotAfter: end, BasicConstraintsValid: true,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth},
	}
	for _, u := range r.Spec.Usages {
		switch u {
		case certificatesv1.UsageDigitalSignature:
			template.KeyUsage |= x509.KeyUsageDigitalSignature
		case certificatesv1.UsageKeyEncipherment:
			template.KeyUsage |= x509.KeyUsageKeyEncipherment
		}
	}
	der, err := x509.CreateCertificate(rand.Reader, template, authority, asked.PublicKey, key)
	if err != nil {
		return nil, fmt.Errorf("failed to sign certificate: %w", err)
	}
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}), nil
}

// lifetime returns how long a certificate is valid, in whole seconds as requested, within the bounds.
func lifetime(seconds *int32) time.Duration {
	if seconds == nil {
		return longest
	}
	return min(max(time.Duration(*seconds)*time.Second, least), longest)
}
