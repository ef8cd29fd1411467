// Package keysize bounds the lengths of the numbers in keys and certificates before Go's packages
// parse them.
//
// The time to check an RSA key or a signature grows with at least the square of its length, and
// nothing interrupts it: a key that fits into a request can occupy a processor for hours. The checks
// here read only the headers of DER, so their time is linear in the text.
package keysize

import (
	"crypto/tls"
	"crypto/x509"
	"encoding/asn1"
	"encoding/pem"
	"errors"
	"fmt"
	"math/bits"
	"os"
	"strings"
)

const (
	// MaxBits is the length of the largest number in a key or certificate, in bits. A signature by
	// an RSA key of this length takes 8 ms to check. TLS allows half of this length.
	MaxBits = 16_384
	// MaxPeerBits is the limit for authorities that verify the other end of a connection. It is
	// crypto/tls's limit for the certificates that the other end sends.
	MaxPeerBits = 8192

	// maxPrivate is the length of the largest private key, in bytes of DER: RSA of MaxBits has
	// 9,300. It bounds the number of primes.
	maxPrivate = 16 << 10
	// maxDepth is how deep numbers are looked for. Those of a key in a certificate are at depth 5.
	maxDepth = 8
)

// TooLong is the error for a number that is too long.
type TooLong struct{ Bits, Max int }

// Error returns the text.
func (e *TooLong) Error() string {
	return fmt.Sprintf("key: got a number of %d bits, want at most %d", e.Bits, e.Max)
}

// IsTooLong reports whether a key was refused because of its length, before it was parsed.
func IsTooLong(err error) bool { return errors.As(err, new(*TooLong)) || errors.Is(err, errPrivate) }

var errPrivate = fmt.Errorf("private key: got more than %d bytes, want at most %[1]d", maxPrivate)

// CheckDER returns an error if a number in DER has more than max bits. It accepts malformed DER as
// far as it cannot be read, because no parser reads more of it.
func CheckDER(der []byte, max int) error { return checkDER(der, max, 0) }

// checkDER checks the elements of der, and those in them. encoding/asn1 reads every header that a
// parser of keys accepts.
func checkDER(der []byte, max, depth int) error {
	for depth < maxDepth && len(der) > 0 {
		var e asn1.RawValue
		rest, err := asn1.Unmarshal(der, &e)
		if err != nil {
			return nil
		}
		der = rest
		switch {
		case e.IsCompound:
			err = checkDER(e.Bytes, max, depth+1)
		case e.Class != asn1.ClassUniversal:
		case e.Tag == asn1.TagInteger:
			err = checkNumber(e.Bytes, max)
		case e.Tag == asn1.TagOctetString:
			err = checkNested(e.Bytes, max, depth)
		case e.Tag == asn1.TagBitString && len(e.Bytes) > 0:
			text := asn1.BitString{Bytes: e.Bytes[1:], BitLength: 8*len(e.Bytes[1:]) - int(e.Bytes[0]&7)}
			err = checkNested(text.RightAlign(), max, depth) // as x509 does before it parses a key
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// checkNested checks the DER in a string. All keys with numbers are sequences.
func checkNested(content []byte, max, depth int) error {
	if len(content) == 0 || content[0] != asn1.TagSequence|0x20 {
		return nil
	}
	return checkDER(content, max, depth+1)
}

// checkNumber checks the length of a number, whose bytes are big-endian.
func checkNumber(number []byte, max int) error {
	for len(number) > 0 && number[0] == 0 {
		number = number[1:]
	}
	if len(number) == 0 {
		return nil
	}
	if n := 8*(len(number)-1) + bits.Len8(number[0]); n > max {
		return &TooLong{n, max}
	}
	return nil
}

// CheckPEM returns an error if a block of a PEM text has a number with more than max bits, or is a
// private key that is too large. Text without blocks is accepted.
func CheckPEM(text []byte, max int) error {
	for block, rest := pem.Decode(text); block != nil; block, rest = pem.Decode(rest) {
		if strings.HasSuffix(block.Type, "PRIVATE KEY") && len(block.Bytes) > maxPrivate {
			if err := CheckDER(block.Bytes, max); err != nil {
				return err
			}
			return errPrivate
		}
		if err := CheckDER(block.Bytes, max); err != nil {
			return err
		}
	}
	return nil
}

// CheckFiles checks PEM files as CheckPEM does, with MaxBits. It accepts empty names, and files that
// cannot be read: whatever reads them next says why.
func CheckFiles(paths ...string) error {
	for _, path := range paths {
		if path == "" {
			continue
		}
		text, err := os.ReadFile(path)
		if err != nil {
			continue
		}
		if err := CheckPEM(text, MaxBits); err != nil {
			return fmt.Errorf("%s: %w", path, err)
		}
	}
	return nil
}

// CheckCredentials checks the PEM texts of a kubeconfig and the PEM files that it names.
func CheckCredentials(files []string, texts ...[]byte) error {
	for _, text := range texts {
		if err := CheckPEM(text, MaxBits); err != nil {
			return fmt.Errorf("certificate, key or authority in it: %w", err)
		}
	}
	return CheckFiles(files...)
}

// KeyPair is tls.X509KeyPair for texts whose lengths are checked.
func KeyPair(certPEM, keyPEM []byte) (tls.Certificate, error) {
	for _, text := range [][]byte{certPEM, keyPEM} {
		if err := CheckPEM(text, MaxBits); err != nil {
			return tls.Certificate{}, err
		}
	}
	return tls.X509KeyPair(certPEM, keyPEM)
}

// ParseCertificate is x509.ParseCertificate for DER whose lengths are checked.
func ParseCertificate(der []byte) (*x509.Certificate, error) {
	return checked(der, x509.ParseCertificate)
}

// ParseCertificates is x509.ParseCertificates for DER whose lengths are checked.
func ParseCertificates(der []byte) ([]*x509.Certificate, error) {
	return checked(der, x509.ParseCertificates)
}

// ParseRequest is x509.ParseCertificateRequest for DER whose lengths are checked.
func ParseRequest(der []byte) (*x509.CertificateRequest, error) {
	return checked(der, x509.ParseCertificateRequest)
}

// ParsePublic is x509.ParsePKIXPublicKey for DER whose lengths are checked.
func ParsePublic(der []byte) (any, error) { return checked(der, x509.ParsePKIXPublicKey) }

// checked calls a parser for DER whose numbers have at most MaxBits.
func checked[T any](der []byte, parse func([]byte) (T, error)) (T, error) {
	if err := CheckDER(der, MaxBits); err != nil {
		var none T
		return none, fmt.Errorf("x509: %w", err)
	}
	return parse(der)
}

// Pool returns the authorities in a PEM text, which verify the other end of a connection.
func Pool(text []byte) (*x509.CertPool, error) {
	if err := CheckPEM(text, MaxPeerBits); err != nil {
		return nil, err
	}
	pool := x509.NewCertPool()
	if !pool.AppendCertsFromPEM(text) {
		return nil, errors.New("no certificate in it")
	}
	return pool, nil
}
