// Package trust keeps the certificates with which clients verify the servers of a store. They are
// published in the config map kube-root-ca.crt of every namespace, and in the Secrets of service
// accounts.
//
// They are one value of the store, at [Key], to which every server adds its own. The config maps
// and the Secrets are written from it and never read: a user who may write config maps in a
// namespace must not be able to decide which server its programs trust.
//
// # Invariants
//
//   - No request of the API can write the value: the names of API groups of definitions have a dot,
//     and the part of the key before the first slash has none.
//   - No server removes a certificate that another one adds. The removed certificates have expired
//     or are invalid, and no server adds such ones. So the servers agree after a while, whatever
//     certificates they have.
//
// [Bundle.Load] is the function to call.
package trust

import (
	"context"
	"encoding/pem"
	"strings"
	"time"

	"github.com/keelson-io/keelson/internal/keysize"
	"github.com/keelson-io/keelson/internal/store"
)

// Key is the key of the value, and Prefix its beginning.
const (
	Prefix = "keelson/"
	Key    = Prefix + "authorities"
)

// limit is the largest size of a value. A larger one is replaced by a new one.
const limit = 256

// Bundle reads and writes the value for one server. Its fields are set before the first call.
type Bundle struct {
	Store  store.Store
	Own    func() []byte // the server's certificates in PEM, which may change
	Shared bool          // other servers use the store, and may have others
}

// Load makes sure that the server's certificates are in the value, and returns it: certificates in PEM, each once.
func (b *Bundle) Load(ctx context.Context) (string, error) {
	now, err := store.Change(ctx, b.Store, Key, nil, func(now store.Item) ([]byte, error) {
		want := b.after(string(now.Value))
		if now.Rev > 0 && want == string(now.Value) {
			return nil, nil
		}
		return []byte(want), nil
	})
	return string(now.Value), err
}

// after returns the new value for the present one.
func (b *Bundle) after(have string) string {
	own := string(b.Own())
	if !b.Shared {
		return own
	}
	all := Certificates(have+"\n"+own, time.Now())
	if len(all) == 0 || len(all) > limit {
		return own
	}
	return strings.Join(all, "")
}

// Certificates returns the certificates in a PEM text that have not expired, each once, in PEM.
func Certificates(text string, now time.Time) []string {
	var all []string
	known := map[string]bool{}
	for block, rest := pem.Decode([]byte(text)); block != nil; block, rest = pem.Decode(rest) {
		cert, err := keysize.ParseCertificate(block.Bytes)
		if block.Type != "CERTIFICATE" || err != nil || now.After(cert.NotAfter) {
			continue
		}
		if one := string(pem.EncodeToMemory(&pem.Block{Type: block.Type, Bytes: block.Bytes})); !known[one] {
			known[one] = true
			all = append(all, one)
		}
	}
	return all
}
