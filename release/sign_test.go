package main

import (
	"bytes"
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"encoding/base64"
	"encoding/pem"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/sigstore/sigstore/pkg/cryptoutils"
	"github.com/sigstore/sigstore/pkg/signature"
)

// This file tests signatures with the library that cosign verifies them with.

// keyPair writes a key as cosign generate-key-pair does, encrypted with a password, and returns its file, and its public key as in cosign.pub.
func keyPair(t *testing.T, curve elliptic.Curve, password string) (file string, public []byte) {
	t.Helper()
	private, public, err := cryptoutils.GeneratePEMEncodedECDSAKeyPair(curve, cryptoutils.StaticPasswordFunc([]byte(password)))
	if err != nil {
		t.Fatal(err)
	}
	file = filepath.Join(t.TempDir(), "cosign.key")
	if err := os.WriteFile(file, private, 0o600); err != nil {
		t.Fatal(err)
	}
	return file, public
}

// TestSignature holds that the checksums are signed with the key that is given, and that the signature is the same each time.
func TestSignature(t *testing.T) {
	key, public := keyPair(t, elliptic.P256(), "secret")
	t.Setenv(passwordVariable, "secret")
	r := sample(t, key)
	sums, err := os.ReadFile(filepath.Join(r.out, "checksums.txt"))
	if err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(filepath.Join(r.out, "checksums.txt.sig"))
	if err != nil {
		t.Fatal(err)
	}
	raw, err := base64.StdEncoding.DecodeString(string(text))
	if err != nil {
		t.Fatal(err)
	}
	decoded, err := cryptoutils.UnmarshalPEMToPublicKey(public)
	if err != nil {
		t.Fatal(err)
	}
	verifier, err := signature.LoadVerifier(decoded, crypto.SHA256)
	if err != nil {
		t.Fatal(err)
	}
	if err := verifier.VerifySignature(bytes.NewReader(raw), bytes.NewReader(sums)); err != nil {
		t.Errorf("the signature: %v", err)
	}
	if verifier.VerifySignature(bytes.NewReader(raw), bytes.NewReader(append(sums, ' '))) == nil {
		t.Error("the signature is valid for another text")
	}
	if again, err := sign(key, sums); err != nil || !bytes.Equal(again, text) {
		t.Errorf("got %s (%v), want the same signature again: %s", again, err, text)
	}
}

// TestKeys holds which keys are taken: encrypted ones by both names that cosign gave them, and no others than those of P-256.
func TestKeys(t *testing.T) {
	good, _ := keyPair(t, elliptic.P256(), "secret")
	text, err := os.ReadFile(good)
	if err != nil {
		t.Fatal(err)
	}
	if block, _ := pem.Decode(text); block == nil || block.Type != "ENCRYPTED SIGSTORE PRIVATE KEY" {
		t.Fatalf("got %s, want an encrypted key", text)
	}
	older := filepath.Join(t.TempDir(), "older.key")
	if err := os.WriteFile(older, bytes.ReplaceAll(text, []byte("SIGSTORE"), []byte("COSIGN")), 0o600); err != nil {
		t.Fatal(err)
	}
	other, _ := keyPair(t, elliptic.P384(), "secret")
	plain := filepath.Join(t.TempDir(), "plain.key")
	private, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	decrypted, err := cryptoutils.MarshalPrivateKeyToPEM(private)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(plain, decrypted, 0o600); err != nil {
		t.Fatal(err)
	}
	for _, row := range []struct{ file, password, refusal string }{
		{good, "secret", ""},
		{older, "secret", ""},
		{plain, "", ""},
		{good, "wrong", "decryption failed"},
		{good, "", "decryption failed"},
		{other, "secret", "want one of cosign generate-key-pair: ECDSA on P-256"},
		{filepath.Join(t.TempDir(), "missing"), "", "no such file"},
	} {
		t.Setenv(passwordVariable, row.password)
		_, err := sign(row.file, []byte("a"))
		if (err != nil) != (row.refusal != "") || err != nil && !strings.Contains(err.Error(), row.refusal) {
			t.Errorf("%s with password %q: got %v, want %q", filepath.Base(row.file), row.password, err, row.refusal)
		}
	}
}
