package main

import (
	"bytes"
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/sha256"
	"encoding/base64"
	"fmt"
	"os"

	"github.com/sigstore/sigstore/pkg/cryptoutils"
	"github.com/sigstore/sigstore/pkg/signature"
)

// This file signs as "cosign sign-blob --key" does: ECDSA on P-256 over SHA-256, in base64.

// passwordVariable is the environment variable with the password of the key, which is cosign's.
const passwordVariable = "COSIGN_PASSWORD"

// sign returns the signature of a text with the key in a file of cosign. The same key and text give
// the same signature.
func sign(file string, text []byte) ([]byte, error) {
	key, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	private, err := cryptoutils.UnmarshalPEMToPrivateKey(key, cryptoutils.StaticPasswordFunc([]byte(os.Getenv(passwordVariable))))
	if err != nil {
		return nil, fmt.Errorf("%s: %w", file, err)
	}
	p256, ok := private.(*ecdsa.PrivateKey)
	if !ok || p256.Curve != elliptic.P256() {
		return nil, fmt.Errorf("%s: got a key of type %T, want one of cosign generate-key-pair: ECDSA on P-256", file, private)
	}
	digest := sha256.Sum256(text)
	// Without random numbers, the signature is that of RFC 6979.
	raw, err := p256.Sign(nil, digest[:], crypto.SHA256)
	if err != nil {
		return nil, err
	}
	verifier, err := signature.LoadECDSAVerifier(&p256.PublicKey, crypto.SHA256)
	if err != nil {
		return nil, err
	}
	if err := verifier.VerifySignature(bytes.NewReader(raw), bytes.NewReader(text)); err != nil {
		return nil, fmt.Errorf("%s: the signature does not verify: %w", file, err)
	}
	return append(base64.StdEncoding.AppendEncode(nil, raw), '\n'), nil
}
