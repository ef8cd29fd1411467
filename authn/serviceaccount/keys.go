package serviceaccount

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/sha256"
	"crypto/x509"
	"encoding/base64"
	"errors"
	"fmt"
	"slices"

	"github.com/go-jose/go-jose/v4"
	"k8s.io/client-go/util/keyutil"
)

// This file has the keys of an issuer.

// Keys sign and verify tokens.
type Keys struct {
	all     []jose.JSONWebKey // public
	private *jose.JSONWebKey
}

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
func (k *Keys) find(id string) []jose.JSONWebKey {
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
func (k *Keys) public() jose.JSONWebKeySet { return jose.JSONWebKeySet{Keys: k.all} }

// algorithms returns those of the keys, sorted.
func (k *Keys) algorithms() []string {
	var out []string
	for i := range k.all {
		out = append(out, k.all[i].Algorithm)
	}
	slices.Sort(out)
	return slices.Compact(out)
}

// signer returns a signer with the private key, whose ID is in the header of tokens.
func (k *Keys) signer() (jose.Signer, error) {
	if k.private == nil {
		return nil, errors.New("there is no key to sign with")
	}
	return jose.NewSigner(jose.SigningKey{Algorithm: jose.SignatureAlgorithm(k.private.Algorithm), Key: *k.private}, nil)
}
