// Package externalsigner has service account tokens signed by another program, so that the key never
// is in this process (KEP-740). It talks to the program over a socket, with Kubernetes' gRPC service
// ExternalJWTSigner.
//
// # Model
//
// A [Signer] asks the program for each signature, and for the public keys with which tokens are
// verified. It keeps the keys, and asks for them again as often as the program wants, and when a
// token names a key that it does not know.
//
// # Invariants
//
//   - The program cannot choose the claims: the token has those that were asked for.
//   - A token is not signed with a key that is kept out of the discovery documents, because others
//     could not verify it.
//   - Tokens with invented key IDs make the Signer ask once in a second at most, and one request at a
//     time.
//   - The keys of before stay in force if the program does not answer.
//
// [Open] is the function to call. A Signer is a [serviceaccount.Signer].
package externalsigner

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"regexp"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	externaljwt "k8s.io/externaljwt/apis/v1"

	"github.com/keelson-io/keelson/internal/authn/serviceaccount"
	"github.com/keelson-io/keelson/internal/keysize"
)

const (
	startTime   = 60 * time.Second // for the first keys
	askTime     = 10 * time.Second // for each later request
	retryTime   = 10 * time.Second // after a failure
	unknownTime = time.Second      // between two requests because of unknown keys
	leastLife   = 600              // seconds, that the program must support
	maxID       = 1024             // bytes of a key's ID
	maxKeys     = 1000
	maxAnswer   = 4 << 20 // bytes
)

// algorithms lists those with which the program may sign.
var algorithms = []string{"RS256", "ES256", "ES384", "ES512"}

// Signer is a program that signs. It is a [serviceaccount.Signer].
type Signer struct {
	conn   *grpc.ClientConn
	client externaljwt.ExternalJWTSignerClient
	logger *slog.Logger
	life   time.Duration // the longest one of tokens

	keys   atomic.Pointer[keys]
	asking sync.Mutex
	asked  time.Time // when an unknown key was last asked for; guarded by asking
}

// keys are the public keys at one moment.
type keys struct {
	all  []serviceaccount.PublicKey
	next time.Time // when to ask again
}

// abstract matches the names of sockets without a file.
var abstract = regexp.MustCompile(`^@([a-zA-Z0-9_-]|\.)+$`)

// Dial is Open as a [serviceaccount.Dial].
func Dial(ctx context.Context, socket string, logger *slog.Logger) (serviceaccount.Program, error) {
	s, err := Open(ctx, socket, logger)
	if err != nil {
		return nil, err
	}
	return s, nil
}

// Open connects to the program at a socket, a path or, in Linux' abstract namespace, @name. It waits
// for its public keys.
func Open(ctx context.Context, socket string, logger *slog.Logger) (*Signer, error) {
	if strings.HasPrefix(socket, "@") && !abstract.MatchString(socket) {
		return nil, fmt.Errorf("got %q, want a path, or @ and letters, digits, dots, dashes and underscores", socket)
	}
	conn, err := grpc.NewClient("unix:"+socket, grpc.WithAuthority("localhost"), grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithDefaultCallOptions(grpc.WaitForReady(true), grpc.MaxCallRecvMsgSize(maxAnswer)))
	if err != nil {
		return nil, err
	}
	s := &Signer{conn: conn, client: externaljwt.NewExternalJWTSignerClient(conn), logger: logger}
	if err := s.begin(ctx); err != nil {
		conn.Close()
		return nil, fmt.Errorf("the signer at %s: %w", socket, err)
	}
	return s, nil
}

// begin asks for the first keys, and for what the program supports.
func (s *Signer) begin(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, startTime)
	defer cancel()
	if err := s.refresh(ctx); err != nil {
		return err
	}
	m, err := s.client.Metadata(ctx, &externaljwt.MetadataRequest{})
	if err != nil {
		return err
	}
	if m.MaxTokenExpirationSeconds < leastLife {
		return fmt.Errorf("max_token_expiration_seconds: got %d, want at least %d", m.MaxTokenExpirationSeconds, leastLife)
	}
	s.life = time.Duration(min(m.MaxTokenExpirationSeconds, 1<<32)) * time.Second
	return nil
}

// Life returns the longest life of a token that the program supports.
func (s *Signer) Life() time.Duration { return s.life }

// Close ends the connection.
func (s *Signer) Close() error { return s.conn.Close() }

// Run keeps the keys current until ctx ends.
func (s *Signer) Run(ctx context.Context) {
	wait := time.Until(s.keys.Load().next)
	for {
		t := time.NewTimer(wait)
		select {
		case <-ctx.Done():
			t.Stop()
			return
		case <-t.C:
		}
		if err := s.ask(ctx); err != nil && ctx.Err() == nil {
			s.logger.Warn("the signer of service account tokens did not send its public keys, those of before stay in force", "error", err)
			wait = retryTime
			continue
		}
		wait = time.Until(s.keys.Load().next)
	}
}

// ask is refresh with a bound of time.
func (s *Signer) ask(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, askTime)
	defer cancel()
	return s.refresh(ctx)
}

// refresh asks for the public keys.
func (s *Signer) refresh(ctx context.Context) error {
	answer, err := s.client.FetchKeys(ctx, &externaljwt.FetchKeysRequest{})
	switch {
	case err != nil:
		return fmt.Errorf("public keys: %w", err)
	case answer.RefreshHintSeconds <= 0:
		return fmt.Errorf("refresh_hint_seconds: got %d, want more than 0", answer.RefreshHintSeconds)
	case len(answer.Keys) == 0 || len(answer.Keys) > maxKeys:
		return fmt.Errorf("keys: got %d, want 1 to %d", len(answer.Keys), maxKeys)
	}
	if err := answer.DataTimestamp.CheckValid(); err != nil {
		return fmt.Errorf("data_timestamp: %w", err)
	}
	now := &keys{next: time.Now().Add(time.Duration(min(answer.RefreshHintSeconds, 1<<31)) * time.Second)}
	for i, k := range answer.Keys {
		if k == nil || k.KeyId == "" || len(k.KeyId) > maxID {
			return fmt.Errorf("keys[%d].key_id: got %d bytes, want 1 to %d", i, len(k.GetKeyId()), maxID)
		}
		public, err := keysize.ParsePublic(k.Key)
		if err != nil {
			return fmt.Errorf("keys[%d].key: %w", i, err)
		}
		key, err := serviceaccount.NewPublicKey(k.KeyId, public, k.ExcludeFromOidcDiscovery)
		if err != nil {
			return fmt.Errorf("keys[%d].key: %w", i, err)
		}
		now.all = append(now.all, *key)
	}
	s.keys.Store(now)
	return nil
}

// Public implements serviceaccount.Signer.
func (s *Signer) Public(ctx context.Context, id string) []serviceaccount.PublicKey {
	found := s.keys.Load().find(id)
	if len(found) > 0 {
		return found
	}
	// The key may be new. Tokens of strangers, too, name unknown keys.
	s.asking.Lock()
	defer s.asking.Unlock()
	if found = s.keys.Load().find(id); len(found) > 0 || time.Since(s.asked) < unknownTime {
		return found
	}
	s.asked = time.Now()
	if err := s.ask(ctx); err != nil {
		s.logger.Warn("the signer of service account tokens did not send its public keys", "error", err)
		return nil
	}
	return s.keys.Load().find(id)
}

// find returns the keys with an ID, or all for "".
func (k *keys) find(id string) (found []serviceaccount.PublicKey) {
	if id == "" {
		return k.all
	}
	for _, key := range k.all {
		if key.KeyID == id {
			found = append(found, key)
		}
	}
	return found
}

// Age implements serviceaccount.Signer.
func (s *Signer) Age() time.Duration { return max(0, time.Until(s.keys.Load().next)) }

// Sign implements serviceaccount.Signer.
func (s *Signer) Sign(ctx context.Context, claims []byte) (string, error) {
	payload := base64.RawURLEncoding.EncodeToString(claims)
	answer, err := s.client.Sign(ctx, &externaljwt.SignJWTRequest{Claims: payload})
	if err != nil {
		return "", fmt.Errorf("while signing jwt: %w", err)
	}
	if err := s.checkHeader(ctx, answer.Header); err != nil {
		return "", fmt.Errorf("while validating header: %w", err)
	}
	if answer.Signature == "" {
		return "", errors.New("empty signature returned")
	}
	if _, err := base64.RawURLEncoding.DecodeString(answer.Signature); err != nil {
		return "", errors.New("the signature returned is not base64")
	}
	return answer.Header + "." + payload + "." + answer.Signature, nil
}

// checkHeader checks the first part of a token. Clients see its errors, which are upstream's.
func (s *Signer) checkHeader(ctx context.Context, header string) error {
	text, err := base64.RawURLEncoding.DecodeString(header)
	if err != nil {
		return err
	}
	var h struct {
		Algorithm string `json:"alg"`
		KeyID     string `json:"kid"`
		Type      string `json:"typ"`
	}
	d := json.NewDecoder(bytes.NewReader(text))
	d.DisallowUnknownFields()
	if err := d.Decode(&h); err != nil {
		return err
	}
	switch {
	case h.Type != "JWT":
		return errors.New("bad type")
	case h.KeyID == "":
		return errors.New("key id missing")
	case len(h.KeyID) > maxID:
		return errors.New("key id longer than 1 kb")
	case !slices.Contains(algorithms, h.Algorithm):
		return fmt.Errorf("bad signing algorithm %q", h.Algorithm)
	}
	for _, key := range s.Public(ctx, h.KeyID) {
		if key.Hidden {
			return fmt.Errorf("key used for signing JWT (kid: %s) is excluded from OIDC discovery docs", h.KeyID)
		}
	}
	return nil
}
