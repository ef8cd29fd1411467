// This file gives a user a kubeconfig: a key made here, and a certificate that the server signs.

package kubeconfig

import (
	"bytes"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"math"
	"net/http"
	"strings"
	"time"

	certificatesv1 "k8s.io/api/certificates/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	restclient "k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
)

// newUser is the user of a new kubeconfig.
type newUser struct {
	name    string // "" for none
	groups  []string
	expires time.Duration // 0: as long as the server allows
}

// signedWithin bounds the time until an approved request is signed. It usually takes milliseconds.
const signedWithin = 20 * time.Second

// configFor returns a kubeconfig for a user, with the server of the administrator's. The key does
// not leave this process: the server gets a CertificateSigningRequest, which the administrator
// approves, and which stays as a record.
func configFor(ctx context.Context, admin *clientcmdapi.Config, u newUser) (*clientcmdapi.Config, error) {
	rest, err := clientcmd.NewDefaultClientConfig(*admin, nil).ClientConfig()
	if err != nil {
		return nil, err
	}
	rest.UserAgent = "keelson kubeconfig"
	doer, err := restclient.HTTPClientFor(rest)
	if err != nil {
		return nil, err
	}
	client := &requests{doer, strings.TrimSuffix(rest.Host, "/") + "/apis/certificates.k8s.io/v1/certificatesigningrequests"}
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, err
	}
	keyDER, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		return nil, err
	}
	der, err := x509.CreateCertificateRequest(rand.Reader, &x509.CertificateRequest{Subject: pkix.Name{CommonName: u.name, Organization: u.groups}}, key)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, signedWithin)
	defer cancel()
	certificate, err := client.signed(ctx, u, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE REQUEST", Bytes: der}))
	if err != nil {
		return nil, err
	}
	out := clientcmdapi.NewConfig()
	current := admin.Contexts[admin.CurrentContext]
	out.Clusters[current.Cluster] = admin.Clusters[current.Cluster]
	out.AuthInfos[u.name] = &clientcmdapi.AuthInfo{
		ClientCertificateData: certificate,
		ClientKeyData:         pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: keyDER}),
	}
	out.CurrentContext = u.name + "@" + current.Cluster
	out.Contexts[out.CurrentContext] = &clientcmdapi.Context{Cluster: current.Cluster, AuthInfo: u.name}
	return out, nil
}

// requests sends CertificateSigningRequests to a server. The clientset of client-go would double the
// size of the program.
type requests struct {
	client *http.Client
	url    string
}

// do sends a request in JSON, nil for none, and decodes the answer into r.
func (q *requests) do(ctx context.Context, method, path string, body, r *certificatesv1.CertificateSigningRequest) error {
	var text []byte
	if body != nil {
		var err error
		if text, err = json.Marshal(body); err != nil {
			return err
		}
	}
	request, err := http.NewRequestWithContext(ctx, method, q.url+path, bytes.NewReader(text))
	if err != nil {
		return err
	}
	request.Header.Set("Content-Type", "application/json")
	response, err := q.client.Do(request)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	answer, err := io.ReadAll(io.LimitReader(response.Body, 4<<20))
	if err != nil {
		return err
	}
	if response.StatusCode >= 300 {
		var s metav1.Status
		if json.Unmarshal(answer, &s) != nil || s.Message == "" {
			s.Message = response.Status
		}
		return errors.New(s.Message)
	}
	return json.Unmarshal(answer, r)
}

// signed has a request signed, and returns the certificate.
func (q *requests) signed(ctx context.Context, u newUser, request []byte) ([]byte, error) {
	r := &certificatesv1.CertificateSigningRequest{
		TypeMeta:   metav1.TypeMeta{APIVersion: "certificates.k8s.io/v1", Kind: "CertificateSigningRequest"},
		ObjectMeta: metav1.ObjectMeta{GenerateName: "keelson-kubeconfig-"},
		Spec: certificatesv1.CertificateSigningRequestSpec{
			Request: request, SignerName: certificatesv1.KubeAPIServerClientSignerName,
			Usages: []certificatesv1.KeyUsage{certificatesv1.UsageClientAuth, certificatesv1.UsageDigitalSignature},
		},
	}
	if u.expires > 0 {
		seconds := int32(min(u.expires/time.Second, math.MaxInt32))
		r.Spec.ExpirationSeconds = &seconds
	}
	if err := q.do(ctx, http.MethodPost, "", r, r); err != nil {
		return nil, err
	}
	r.Status.Conditions = append(r.Status.Conditions, certificatesv1.CertificateSigningRequestCondition{
		Type: certificatesv1.CertificateApproved, Status: corev1.ConditionTrue, Reason: "KeelsonKubeconfig", Message: "approved by keelson kubeconfig --user",
	})
	name := r.Name
	if err := q.do(ctx, http.MethodPut, "/"+name+"/approval", r, r); err != nil {
		return nil, err
	}
	for {
		var now certificatesv1.CertificateSigningRequest
		err := q.do(ctx, http.MethodGet, "/"+name, nil, &now)
		switch {
		case errors.Is(ctx.Err(), context.DeadlineExceeded):
			return nil, fmt.Errorf("CertificateSigningRequest %s is approved, but was not signed within %v: do the server's --controllers leave out csrsigning?", name, signedWithin)
		case err != nil:
			return nil, err
		case len(now.Status.Certificate) > 0:
			return now.Status.Certificate, nil
		}
		for _, c := range now.Status.Conditions {
			if c.Type == certificatesv1.CertificateFailed {
				return nil, fmt.Errorf("CertificateSigningRequest %s: %s: %s", name, c.Reason, c.Message)
			}
		}
		select {
		case <-time.After(20 * time.Millisecond):
		case <-ctx.Done():
		}
	}
}
