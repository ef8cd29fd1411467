// Package testsigner runs a program that signs service account tokens, Kubernetes' ExternalJWTSigner,
// on a socket, for tests.
package testsigner

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/sha256"
	"crypto/x509"
	"encoding/base64"
	"fmt"
	"net"
	"path/filepath"
	"sync"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/protobuf/types/known/timestamppb"
	externaljwt "k8s.io/externaljwt/apis/v1"
)

// Signer is such a program. Its fields may be changed while Lock is held.
type Signer struct {
	externaljwt.UnimplementedExternalJWTSignerServer
	sync.Mutex

	Socket string
	// Keys are the public keys that it sends; New makes one.
	Keys []*externaljwt.Key
	// SignWith is the ID of the key that signs.
	SignWith string
	// Header, if not "", is sent in place of the header of a token.
	Header string
	// Life is the longest life of tokens in seconds, and Refresh the time for which keys are kept.
	Life, Refresh int64
	// Fetched counts the requests for keys.
	Fetched int

	private map[string]*ecdsa.PrivateKey
	server  *grpc.Server
}

// New runs a Signer with one key, k1, until the test ends.
func New(t testing.TB) *Signer {
	t.Helper()
	s := &Signer{Socket: filepath.Join(t.TempDir(), "s"), Life: 3600, Refresh: 3600, SignWith: "k1", private: map[string]*ecdsa.PrivateKey{}}
	s.Add(t, "k1", false)
	l, err := net.Listen("unix", s.Socket)
	if err != nil {
		t.Fatal(err)
	}
	s.server = grpc.NewServer()
	externaljwt.RegisterExternalJWTSignerServer(s.server, s)
	go s.server.Serve(l)
	t.Cleanup(s.server.Stop)
	return s
}

// Stop ends the program.
func (s *Signer) Stop() { s.server.Stop() }

// Add adds a key. A hidden one is not to be published.
func (s *Signer) Add(t testing.TB, id string, hidden bool) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	public, err := x509.MarshalPKIXPublicKey(key.Public())
	if err != nil {
		t.Fatal(err)
	}
	s.Lock()
	defer s.Unlock()
	s.private[id] = key
	s.Keys = append(s.Keys, &externaljwt.Key{KeyId: id, Key: public, ExcludeFromOidcDiscovery: hidden})
}

// Sign implements the service.
func (s *Signer) Sign(_ context.Context, r *externaljwt.SignJWTRequest) (*externaljwt.SignJWTResponse, error) {
	s.Lock()
	defer s.Unlock()
	header := base64.RawURLEncoding.EncodeToString(fmt.Appendf(nil, `{"alg":"ES256","kid":%q,"typ":"JWT"}`, s.SignWith))
	if s.Header != "" {
		header = base64.RawURLEncoding.EncodeToString([]byte(s.Header))
	}
	sum := sha256.Sum256([]byte(header + "." + r.Claims))
	signature, err := signed(s.private[s.SignWith], sum[:])
	return &externaljwt.SignJWTResponse{Header: header, Signature: base64.RawURLEncoding.EncodeToString(signature)}, err
}

// signed returns a signature as JWTs have it: two numbers of 32 bytes.
func signed(key *ecdsa.PrivateKey, sum []byte) ([]byte, error) {
	r, s, err := ecdsa.Sign(rand.Reader, key, sum)
	if err != nil {
		return nil, err
	}
	out := make([]byte, 64)
	r.FillBytes(out[:32])
	s.FillBytes(out[32:])
	return out, nil
}

// FetchKeys implements the service.
func (s *Signer) FetchKeys(context.Context, *externaljwt.FetchKeysRequest) (*externaljwt.FetchKeysResponse, error) {
	s.Lock()
	defer s.Unlock()
	s.Fetched++
	return &externaljwt.FetchKeysResponse{Keys: s.Keys, DataTimestamp: timestamppb.Now(), RefreshHintSeconds: s.Refresh}, nil
}

// Metadata implements the service.
func (s *Signer) Metadata(context.Context, *externaljwt.MetadataRequest) (*externaljwt.MetadataResponse, error) {
	return &externaljwt.MetadataResponse{MaxTokenExpirationSeconds: s.Life}, nil
}
