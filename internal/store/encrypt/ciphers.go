package encrypt

import (
	"bytes"
	"context"
	"crypto/aes"
	"crypto/cipher"
	"crypto/rand"
	"errors"
	"fmt"

	"golang.org/x/crypto/nacl/secretbox"
)

// This file has the ciphers whose keys are in the configuration.

// sealer is a cipher with a key. A sealed value has its random part (nonce, IV) in front.
type sealer interface {
	// seal appends the sealed form of plain to dst.
	seal(dst, bound, plain []byte) []byte
	open(bound, sealed []byte) ([]byte, error)
	// otherKey is the error for values under a key that the provider does not have.
	otherKey() otherKeyError
}

// keyed is one key of a provider.
type keyed struct {
	outer  []byte // name of the provider: "k8s:enc:aesgcm:v1:"
	prefix string // that, and the name of the key: "k8s:enc:aesgcm:v1:key1:"
	cipher sealer
}

// seals returns the prefix of the values that this key encrypts.
func (k *keyed) seals() string { return k.prefix }

// seal encrypts a value. The prefix of the key comes first.
func (k *keyed) seal(_ context.Context, bound, plain []byte) ([]byte, error) {
	dst := make([]byte, len(k.prefix), len(k.prefix)+len(plain)+64) // 64: more than any cipher adds
	copy(dst, k.prefix)
	return k.cipher.seal(dst, bound, plain), nil
}

// open decrypts a value. A value of another provider or key is told apart by its prefix.
func (k *keyed) open(_ context.Context, bound, value []byte) ([]byte, string, error) {
	switch {
	case !bytes.HasPrefix(value, k.outer):
		return nil, "", errOtherProvider
	case !bytes.HasPrefix(value, []byte(k.prefix)):
		return nil, "", k.cipher.otherKey()
	}
	plain, err := k.cipher.open(bound, value[len(k.prefix):])
	return plain, k.prefix, err
}

var errShort = errors.New("the stored data was shorter than the required size")

// random appends n random bytes.
func random(dst []byte, n int) []byte {
	dst = append(dst, make([]byte, n)...)
	rand.Read(dst[len(dst)-n:]) // it never fails
	return dst
}

// gcm is AES-GCM with random nonces of 12 bytes (NIST SP 800-38D: at most 2^32 values for one key). Values are bound to their keys.
type gcm struct{ aead cipher.AEAD }

// newGCM returns AES in Galois/Counter Mode (NIST SP 800-38D) with a random nonce for each value.
func newGCM(secret []byte) (sealer, error) {
	block, err := aes.NewCipher(secret)
	if err != nil {
		return nil, err
	}
	aead, err := cipher.NewGCM(block)
	return gcm{aead}, err
}

// otherKey returns the error for a value that another AES key encrypted.
func (gcm) otherKey() otherKeyError { return "AES" }

// seal appends a nonce and the encrypted value to dst. The authenticated data binds it to its key.
func (g gcm) seal(dst, bound, plain []byte) []byte {
	at := len(dst)
	dst = random(dst, g.aead.NonceSize())
	return g.aead.Seal(dst, dst[at:], plain, bound)
}

// open decrypts a value, and checks that it belongs to its key.
func (g gcm) open(bound, sealed []byte) ([]byte, error) {
	n := g.aead.NonceSize()
	if len(sealed) < n {
		return nil, errShort
	}
	return g.aead.Open(nil, sealed[:n], sealed[n:], bound)
}

// cbc is AES-CBC with random IVs and the padding of PKCS #7 (RFC 5652, 6.3). It does not notice all changes of a value.
type cbc struct{ block cipher.Block }

// newCBC returns AES in Cipher Block Chaining mode (NIST SP 800-38A).
func newCBC(secret []byte) (sealer, error) {
	block, err := aes.NewCipher(secret)
	return cbc{block}, err
}

// otherKey returns the error for a value that another AES key encrypted.
func (cbc) otherKey() otherKeyError { return "AES" }

// seal appends an initialization vector and the encrypted value to dst, padded as in PKCS #7.
func (c cbc) seal(dst, _, plain []byte) []byte {
	iv := len(dst)
	dst = random(dst, aes.BlockSize)
	text := len(dst)
	dst = append(dst, plain...)
	padding := aes.BlockSize - len(plain)%aes.BlockSize
	dst = append(dst, bytes.Repeat([]byte{byte(padding)}, padding)...)
	cipher.NewCBCEncrypter(c.block, dst[iv:text]).CryptBlocks(dst[text:], dst[text:])
	return dst
}

// open decrypts a value and removes its padding. This mode does not detect changes: only wrong
// padding is an error.
func (c cbc) open(_, sealed []byte) ([]byte, error) {
	if len(sealed) < aes.BlockSize {
		return nil, errShort
	}
	iv, text := sealed[:aes.BlockSize], sealed[aes.BlockSize:]
	switch {
	case len(text)%aes.BlockSize != 0:
		return nil, errors.New("the stored data is not a multiple of the block size")
	case len(text) == 0:
		return nil, errors.New("invalid PKCS7 data (empty or not padded)")
	}
	plain := make([]byte, len(text))
	cipher.NewCBCDecrypter(c.block, iv).CryptBlocks(plain, text)
	padding := int(plain[len(plain)-1])
	if padding == 0 || padding > aes.BlockSize {
		return nil, errors.New("invalid PKCS7 data (empty or not padded)")
	}
	body, tail := plain[:len(plain)-padding], plain[len(plain)-padding:]
	if !bytes.Equal(tail, bytes.Repeat([]byte{byte(padding)}, padding)) {
		return nil, errors.New("invalid padding on input")
	}
	return body, nil
}

// box is NaCl's secretbox: XSalsa20 and Poly1305, with random nonces of 24 bytes.
type box struct{ key [32]byte }

const boxNonce = 24

// newSecretbox returns XSalsa20 with Poly1305, as in NaCl.
func newSecretbox(secret []byte) (sealer, error) {
	if len(secret) != 32 {
		return nil, fmt.Errorf("expected key size 32 for secretbox provider, got %v", len(secret))
	}
	return &box{[32]byte(secret)}, nil
}

// otherKey returns the error for a value that another key of the provider encrypted.
func (*box) otherKey() otherKeyError { return "Secretbox" }

// seal appends a nonce and the encrypted value to dst.
func (b *box) seal(dst, _, plain []byte) []byte {
	at := len(dst)
	dst = random(dst, boxNonce)
	return secretbox.Seal(dst, plain, (*[boxNonce]byte)(dst[at:]), &b.key)
}

// open decrypts a value, and checks that it is unchanged.
func (b *box) open(_, sealed []byte) ([]byte, error) {
	if len(sealed) < boxNonce+secretbox.Overhead {
		return nil, errShort
	}
	plain, ok := secretbox.Open(nil, sealed[boxNonce:], (*[boxNonce]byte)(sealed[:boxNonce]), &b.key)
	if !ok {
		return nil, errors.New("the stored data was changed, or encrypted with another key")
	}
	return plain, nil
}
