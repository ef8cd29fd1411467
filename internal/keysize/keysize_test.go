package keysize

import (
	"crypto/ed25519"
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/asn1"
	"encoding/base64"
	"encoding/pem"
	"errors"
	"fmt"
	"math/big"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// This file checks keys of all forms, just short enough and one bit too long.

// number returns an odd number of some bits.
func number(bits int) *big.Int {
	n := new(big.Int).Lsh(big.NewInt(1), uint(bits-1))
	return n.SetBit(n, 0, 1)
}

// rsaKey is PKCS #1, without what makes it fast.
type rsaKey struct {
	Version int
	N       *big.Int
	E       int
	D, P, Q *big.Int
	More    []prime `asn1:"optional,omitempty"`
}

type prime struct{ P, E, C *big.Int }

// encode returns the DER of a value.
func encode(t testing.TB, v any) []byte {
	t.Helper()
	der, err := asn1.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return der
}

// certificate returns a certificate for an RSA key of some bits.
func certificate(t testing.TB, bits int) []byte {
	t.Helper()
	_, signer, err := ed25519.GenerateKey(nil)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "x"}}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &rsa.PublicKey{N: number(bits), E: 65537}, signer)
	if err != nil {
		t.Fatal(err)
	}
	return der
}

var rsaID = pkix.AlgorithmIdentifier{Algorithm: asn1.ObjectIdentifier{1, 2, 840, 113549, 1, 1, 1}, Parameters: asn1.NullRawValue}

// TestNumbers holds that a number is found wherever a parser of keys would read it.
// Ledger: rsa-keys.
func TestNumbers(t *testing.T) {
	type pkix8 struct {
		Version   int
		Algorithm pkix.AlgorithmIdentifier
		Key       []byte
	}
	type public struct {
		N *big.Int
		E int
	}
	type info struct {
		Algorithm pkix.AlgorithmIdentifier
		Key       asn1.BitString
	}
	small := number(512)
	for name, build := range map[string]func(n *big.Int) []byte{
		"PKCS #1, modulus":  func(n *big.Int) []byte { return encode(t, rsaKey{N: n, E: 3, D: small, P: small, Q: small}) },
		"PKCS #1, exponent": func(n *big.Int) []byte { return encode(t, rsaKey{N: small, E: 3, D: n, P: small, Q: small}) },
		"PKCS #1, prime":    func(n *big.Int) []byte { return encode(t, rsaKey{N: small, E: 3, D: small, P: small, Q: n}) },
		"PKCS #1, third prime": func(n *big.Int) []byte {
			return encode(t, rsaKey{1, small, 3, small, small, small, []prime{{n, small, small}}})
		},
		"PKCS #8": func(n *big.Int) []byte {
			return encode(t, pkix8{0, rsaID, encode(t, rsaKey{N: small, E: 3, D: small, P: n, Q: small})})
		},
		"PKCS #8 with parameters of another kind": func(n *big.Int) []byte {
			id := pkix.AlgorithmIdentifier{Algorithm: rsaID.Algorithm, Parameters: asn1.RawValue{FullBytes: []byte{0x1f, 0x81, 0x01, 0}}}
			return encode(t, pkix8{0, id, encode(t, rsaKey{N: n, E: 3, D: small, P: small, Q: small})})
		},
		"public": func(n *big.Int) []byte {
			der := encode(t, public{n, 3})
			return encode(t, info{rsaID, asn1.BitString{Bytes: der, BitLength: 8 * len(der)}})
		},
		"public, shifted by a bit": func(n *big.Int) []byte {
			der := encode(t, public{n, 3})
			shifted := new(big.Int).Lsh(new(big.Int).SetBytes(der), 1).FillBytes(make([]byte, len(der)))
			return encode(t, info{rsaID, asn1.BitString{Bytes: shifted, BitLength: 8*len(der) - 1}})
		},
		"public, garbage after it": func(n *big.Int) []byte {
			der := append(encode(t, public{n, 3}), 0xff, 0xff)
			return encode(t, info{rsaID, asn1.BitString{Bytes: der, BitLength: 8 * len(der)}})
		},
		"certificate": func(n *big.Int) []byte { return certificate(t, n.BitLen()) },
	} {
		t.Run(name, func(t *testing.T) {
			if err := CheckDER(build(number(MaxBits)), MaxBits); err != nil {
				t.Errorf("%d bits: got %v", MaxBits, err)
			}
			var long *TooLong
			if err := CheckDER(build(number(MaxBits+1)), MaxBits); !errors.As(err, &long) || *long != (TooLong{MaxBits + 1, MaxBits}) {
				t.Errorf("%d bits: got %v, want TooLong", MaxBits+1, err)
			}
		})
	}
}

// TestParsersAreNotCalled holds that a long key reaches no parser.
func TestParsersAreNotCalled(t *testing.T) {
	calls := 0
	parse := func([]byte) (int, error) { calls++; return 1, nil }
	if n, err := checked(certificate(t, 2048), parse); n != 1 || err != nil || calls != 1 {
		t.Errorf("2048 bits: got %d, %v after %d calls", n, err, calls)
	}
	if n, err := checked(certificate(t, MaxBits+1), parse); n != 0 || !IsTooLong(err) || calls != 1 {
		t.Errorf("%d bits: got %d, %v after %d calls, want TooLong and no second call", MaxBits+1, n, err, calls)
	}
}

// TestPairs holds that a key is refused whose check would take hours, and a key of many primes.
func TestPairs(t *testing.T) {
	cert := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: certificate(t, 2048)})
	many := rsaKey{Version: 1, N: number(2048), E: 3, D: number(2048), P: number(1024), Q: number(1024)}
	for range 2000 {
		many.More = append(many.More, prime{number(64), number(64), number(64)})
	}
	for want, key := range map[string]any{
		"key: got a number of 3999999 bits, want at most 16384": rsaKey{N: number(3_999_999), E: 65537, D: number(2048), P: number(2_000_000), Q: number(2_000_000)},
		"private key: got more than 16384 bytes":                many,
	} {
		for _, kind := range []string{"RSA PRIVATE KEY", "PRIVATE KEY", "ANY PRIVATE KEY"} {
			_, err := KeyPair(cert, pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: encode(t, key)}))
			if !IsTooLong(err) || !strings.Contains(err.Error(), want) {
				t.Errorf("%s: got %v, want %q", kind, err, want)
			}
		}
	}
	if _, err := KeyPair(cert, cert); err == nil || IsTooLong(err) {
		t.Errorf("got %v, want an error of crypto/tls", err)
	}
	if _, err := Pool(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: certificate(t, MaxPeerBits+1)})); !IsTooLong(err) {
		t.Errorf("authorities: got %v, want TooLong", err)
	}
	file := filepath.Join(t.TempDir(), "ca.crt")
	if err := os.WriteFile(file, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: certificate(t, MaxBits+1)}), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := CheckCredentials([]string{"", filepath.Join(t.TempDir(), "none"), file}, cert); !IsTooLong(err) || !strings.HasPrefix(err.Error(), file) {
		t.Errorf("files: got %v, want TooLong with the file", err)
	}
	if err := CheckCredentials(nil, cert); err != nil {
		t.Error(err)
	}
}

// TestTokens holds that the keys in headers of tokens and in key sets are short, and public in tokens.
func TestTokens(t *testing.T) {
	b64 := base64.RawURLEncoding.EncodeToString
	n := func(bits int) string { return b64(number(bits).Bytes()) }
	pad := strings.Repeat("x", shortHeader)
	for _, row := range []struct{ header, token, set string }{
		{`{"alg":"RS256"}`, "", ""},
		{`{"alg":"RS256","kid":"` + pad + `"}`, "", ""},
		{`{"jwk":{"kty":"RSA","n":"` + n(MaxBits) + `","e":"AQAB"}}`, "", ""},
		{`{"jwk":{"kty":"RSA","n":"` + n(MaxBits+8) + `","e":"AQAB"}}`, "want at most 16384", "want at most 16384"},
		{`{"jwk":{"kty":"RSA","n":"AQAB","e":"` + n(MaxBits+8) + `"}}`, "want at most 16384", "want at most 16384"},
		{`{"jwk":{"kty":"RSA","\u006e":"` + n(MaxBits+8) + `"}}`, "want at most 16384", "want at most 16384"},
		{`{"jwk":{"n":"` + n(MaxBits+8) + `","n":"AQAB"}}`, "want at most 16384", "want at most 16384"},
		{`{"a":[[],{}],"jwk":{"kty":"RSA","n":"` + n(MaxBits) + `","p":"AQAB"}}`, "private key", ""},
		{`{"jwk":{"x5c":["","` + base64.StdEncoding.EncodeToString(certificate(t, MaxBits+1)) + `"]}}`, "want at most 16384", "want at most 16384"},
		{`{"jwk":{"x5c":["` + base64.StdEncoding.EncodeToString(certificate(t, MaxBits)) + `"]}}`, "", ""},
		{pad + `not JSON`, "", ""},
	} {
		for kind, got := range map[string]error{row.token: CheckToken(b64([]byte(row.header)) + ".e30.x"), row.set: CheckKeys([]byte(`{"keys":[` + row.header + `]}`))} {
			if (kind == "") != (got == nil) || got != nil && !strings.Contains(got.Error(), kind) {
				t.Errorf("%.60s: got %v, want %q", row.header, got, kind)
			}
		}
	}
	for _, token := range []string{pad + " " + pad, " {" + pad} {
		if CheckToken(token) == nil {
			t.Errorf("%.20q: accepted", token)
		}
	}
}

// FuzzCheckDER holds that no parser gets a longer number out of DER than CheckDER finds.
func FuzzCheckDER(f *testing.F) {
	f.Add(certificate(f, 600))
	f.Add(encode(f, rsaKey{N: number(600), E: 3, D: number(8), P: number(8), Q: number(8)}))
	f.Fuzz(func(t *testing.T, der []byte) {
		if CheckDER(der, 256) != nil {
			return
		}
		check := func(key any) {
			if k, ok := key.(*rsa.PublicKey); ok && k.N.BitLen() > 256 {
				t.Errorf("%x: got %d bits", der, k.N.BitLen())
			}
		}
		if cert, err := x509.ParseCertificate(der); err == nil {
			check(cert.PublicKey)
		}
		if request, err := x509.ParseCertificateRequest(der); err == nil {
			check(request.PublicKey)
		}
		if key, err := x509.ParsePKIXPublicKey(der); err == nil {
			check(key)
		}
		var key rsaKey
		if _, err := asn1.Unmarshal(der, &key); err == nil && max(key.N.BitLen(), key.P.BitLen(), key.Q.BitLen(), key.D.BitLen()) > 256 {
			t.Errorf("%x: got a number of more than 256 bits", der)
		}
	})
}

// BenchmarkCheckDER measures the check of a usual certificate.
func BenchmarkCheckDER(b *testing.B) {
	der := certificate(b, 2048)
	for b.Loop() {
		if err := CheckDER(der, MaxBits); err != nil {
			b.Fatal(fmt.Errorf("got %w", err))
		}
	}
}
