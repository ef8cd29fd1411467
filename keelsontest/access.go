package keelsontest

// This file sends requests to the server.

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"net/http"
	"regexp"
)

// access is a client with the administrator's credentials.
type access struct {
	server string
	client *http.Client
}

// member finds the members of a kubeconfig as keelson serve writes it: a line each.
var member = regexp.MustCompile(`(?m)^\s+(server|certificate-authority-data|client-certificate-data|client-key-data): (\S+)$`)

// newAccess returns the client of a kubeconfig that keelson serve has written.
func newAccess(kubeconfig []byte) (*access, error) {
	members := map[string]string{}
	for _, m := range member.FindAllSubmatch(kubeconfig, -1) {
		members[string(m[1])] = string(m[2])
	}
	pem := func(name string) []byte {
		text, _ := base64.StdEncoding.DecodeString(members[name])
		return text
	}
	roots := x509.NewCertPool()
	if members["server"] == "" || !roots.AppendCertsFromPEM(pem("certificate-authority-data")) {
		return nil, errors.New("the kubeconfig has no server or no certificate authority")
	}
	cert, err := tls.X509KeyPair(pem("client-certificate-data"), pem("client-key-data"))
	if err != nil {
		return nil, err
	}
	transport := &http.Transport{TLSClientConfig: &tls.Config{RootCAs: roots, Certificates: []tls.Certificate{cert}, MinVersion: tls.VersionTLS12}}
	return &access{members["server"], &http.Client{Transport: transport}}, nil
}

// maxAnswer bounds what is read of an answer.
const maxAnswer = 16 << 20

// do sends a request and returns the status code and the body of the answer.
func (a *access) do(ctx context.Context, method, path, contentType string, body []byte) (int, []byte, error) {
	r, err := http.NewRequestWithContext(ctx, method, a.server+path, bytes.NewReader(body))
	if err != nil {
		return 0, nil, err
	}
	r.Header.Set("Accept", "application/json")
	if contentType != "" {
		r.Header.Set("Content-Type", contentType)
	}
	answer, err := a.client.Do(r)
	if err != nil {
		return 0, nil, err
	}
	defer answer.Body.Close()
	text, err := io.ReadAll(io.LimitReader(answer.Body, maxAnswer))
	if err != nil {
		return 0, nil, fmt.Errorf("%s %s: %w", method, path, err)
	}
	return answer.StatusCode, text, nil
}
