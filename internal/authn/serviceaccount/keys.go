package serviceaccount

import (
	"context"
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/sha256"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"time"

	"github.com/go-jose/go-jose/v4"
	"github.com/go-jose/go-jose/v4/jwt"
	"k8s.io/client-go/util/keyutil"

	"github.com/keelson-io/keelson/internal/keysize"
)

// This file has the keys of an issuer.

// Keys sign and verify tokens.
type Keys struct {
	all     []jose.JSONWebKey // public
	private *jose.JSONWebKey
	outside Signer // signs and has the public keys, in place of the fields above; nil: none
}

// Signer signs tokens outside of this process.
type Signer interface {
	// Sign returns the token with claims, which are JSON.
	Sign(ctx context.Context, claims []byte) (token string, err error)
	// Public returns the public keys with an ID, or all keys for "".
	Public(ctx context.Context, id string) []PublicKey
	// Age is how long others may keep the public keys.
	Age() time.Duration
}

// PublicKey is a key that verifies tokens.
type PublicKey struct {
	jose.JSONWebKey
	Hidden bool // it is not published, because no new tokens are signed with it
}

// NewPublicKey returns a key with an ID of its signer's choice.
func NewPublicKey(id string, public crypto.PublicKey, hidden bool) (*PublicKey, error) {
	key, err := webKey(public)
	if err != nil {
		return nil, err
	}
	key.KeyID = id
	return &PublicKey{*key, hidden}, nil
}

// Program is a connection to a program that signs.
type Program interface {
	Signer
	// Life returns the longest life of tokens that the program signs.
	Life() time.Duration
	// Run keeps the public keys current until ctx ends.
	Run(ctx context.Context)
	Close() error
}

// Dial connects to the program at a socket, and waits for its public keys.
type Dial func(ctx context.Context, socket string, logger *slog.Logger) (Program, error)

// OutsideKeys returns keys that are not in this process.
func OutsideKeys(s Signer) *Keys { return &Keys{outside: s} }

// NewKeys returns keys that sign with signer, which may be nil, and verify with signer and the
// public keys. The latter are keys that were used before, or by other servers.
func NewKeys(signer crypto.Signer, public ...crypto.PublicKey) (*Keys, error) {
	k := &Keys{}
	if signer != nil {
		public = append([]crypto.PublicKey{signer.Public()}, public...)
	}
	for _, p := range public {
		key, err := webKey(p)
		if err != nil {
			return nil, err
		}
		if !slices.ContainsFunc(k.all, func(have jose.JSONWebKey) bool { return have.KeyID == key.KeyID }) {
			k.all = append(k.all, *key)
		}
	}
	if signer != nil {
		private := k.all[0]
		private.Key = signer
		k.private = &private
	}
	return k, nil
}

// webKey returns a public key with its ID and algorithm.
func webKey(public crypto.PublicKey) (*jose.JSONWebKey, error) {
	alg, err := algorithmOf(public)
	if err != nil {
		return nil, err
	}
	der, err := x509.MarshalPKIXPublicKey(public)
	if err != nil {
		return nil, fmt.Errorf("failed to serialize public key to DER format: %w", err)
	}
	sum := sha256.Sum256(der)
	return &jose.JSONWebKey{Key: public, KeyID: base64.RawURLEncoding.EncodeToString(sum[:]), Algorithm: string(alg), Use: "sig"}, nil
}

// Generate returns a new signing key, and its PEM encoding.
func Generate() (crypto.Signer, []byte, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, nil, err
	}
	text, err := keyutil.MarshalPrivateKeyToPEM(key)
	return key, text, err
}

// ReadSigner reads a private key from a PEM file.
func ReadSigner(path string) (crypto.Signer, error) {
	if err := keysize.CheckFiles(path); err != nil {
		return nil, err
	}
	key, err := keyutil.PrivateKeyFromFile(path)
	if err != nil {
		return nil, fmt.Errorf("failed to parse service-account-issuer-key-file: %w", err)
	}
	signer, ok := key.(crypto.Signer)
	if !ok {
		return nil, fmt.Errorf("%s: a key of type %T does not sign", path, key)
	}
	return signer, nil
}

// ReadPublic reads the public keys of a PEM file. For a private key it returns its public key.
func ReadPublic(path string) ([]crypto.PublicKey, error) {
	if err := keysize.CheckFiles(path); err != nil {
		return nil, err
	}
	keys, err := keyutil.PublicKeysFromFile(path)
	if err != nil {
		return nil, err
	}
	out := make([]crypto.PublicKey, len(keys))
	for i, k := range keys {
		out[i] = k
	}
	return out, nil
}

// find returns the keys with an ID, or all keys if the token names none.
func (k *Keys) find(ctx context.Context, id string) []jose.JSONWebKey {
	if k.outside != nil {
		var found []jose.JSONWebKey
		for _, key := range k.outside.Public(ctx, id) {
			found = append(found, key.JSONWebKey)
		}
		return found
	}
	if id == "" {
		return k.all
	}
	for i := range k.all {
		if k.all[i].KeyID == id {
			return k.all[i : i+1]
		}
	}
	return nil
}

// public returns the public keys as a JSON Web Key Set.
func (k *Keys) public() jose.JSONWebKeySet {
	if k.outside == nil {
		return jose.JSONWebKeySet{Keys: k.all}
	}
	shown := jose.JSONWebKeySet{Keys: []jose.JSONWebKey{}}
	for _, key := range k.outside.Public(context.Background(), "") {
		if !key.Hidden {
			shown.Keys = append(shown.Keys, key.JSONWebKey)
		}
	}
	return shown
}

// algorithms returns those of the published keys, sorted.
func (k *Keys) algorithms() []string {
	var out []string
	for _, key := range k.public().Keys {
		out = append(out, key.Algorithm)
	}
	slices.Sort(out)
	return slices.Compact(out)
}

// sign returns a token. Later claims replace earlier ones of the same name.
func (k *Keys) sign(ctx context.Context, claims ...any) (string, error) {
	if k.outside == nil {
		signer, err := k.signer()
		if err != nil {
			return "", err
		}
		b := jwt.Signed(signer)
		for _, c := range claims {
			b = b.Claims(c)
		}
		return b.Serialize()
	}
	all := map[string]json.RawMessage{}
	for _, c := range claims {
		text, err := json.Marshal(c)
		if err != nil {
			return "", err
		}
		if err := json.Unmarshal(text, &all); err != nil {
			return "", err
		}
	}
	payload, err := json.Marshal(all)
	if err != nil {
		return "", err
	}
	return k.outside.Sign(ctx, payload)
}

// signer returns a signer with the private key, whose ID is in the header of tokens.
func (k *Keys) signer() (jose.Signer, error) {
	if k.private == nil {
		return nil, errors.New("there is no key to sign with")
	}
	return jose.NewSigner(jose.SigningKey{Algorithm: jose.SignatureAlgorithm(k.private.Algorithm), Key: *k.private}, nil)
}
