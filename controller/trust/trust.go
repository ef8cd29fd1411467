// Package trust keeps the certificates by which the servers of a store are known: what the config map kube-root-ca.crt of every
// namespace says, and the Secrets of service accounts.
//
// They are one value of the store, at [Key], to which every server adds its own. The config maps and the Secrets follow it, and nothing
// is read from them: whoever may write config maps in a namespace is not to say there whom its programs believe to be the server.
//
// # Invariants
//
//   - No request of the API writes the value: groups of definitions have a dot in them, which its key has not before the first slash.
//   - No server takes away what another one adds: what goes, because it has expired or is no certificate, nobody adds. So the servers
//     come to an end, whatever certificates they have.
//
// [Bundle.Load] is the function to call.
package trust

import (
	"context"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"slices"
	"strings"
	"time"

	"github.com/keelson-io/keelson/store"
)

// Key is where the value is, and Prefix what the key begins with.
const (
	Prefix = "keelson/"
	Key    = Prefix + "authorities"
)

// limit bounds the certificates of a value. One that is fuller is begun anew.
const limit = 256

// Bundle is the value, as a server deals with it. Its fields are set before the first call.
type Bundle struct {
	Store  store.Store
	Own    func() []byte // the server's certificates in PEM, which may change
	Shared bool          // other servers use the store, and may have others
}

// Load makes sure that the server's certificates are in the value, and returns it: certificates in PEM, each once.
func (b *Bundle) Load(ctx context.Context) (string, error) {
	for {
		have, err := b.Store.Get(ctx, Key)
		gone := errors.Is(err, store.ErrNotFound)
		if err != nil && !gone {
			return "", err
		}
		want := b.after(string(have.Value))
		switch {
		case gone:
			_, err = b.Store.Create(ctx, Key, []byte(want))
		case want != string(have.Value):
			_, err = b.Store.Update(ctx, Key, []byte(want), have.Rev)
		}
		var changed *store.Changed
		switch {
		case err == nil:
			return want, nil
		case !errors.Is(err, store.ErrExists) && !errors.As(err, &changed):
			return "", err
		}
	}
}

// after is what the value shall be, given what it is.
func (b *Bundle) after(have string) string {
	own := string(b.Own())
	if !b.Shared {
		return own
	}
	all := certificates(have + "\n" + own)
	if len(all) == 0 || len(all) > limit {
		return own
	}
	return strings.Join(all, "")
}

// certificates are those of a text that have not expired, each once, in PEM.
func certificates(text string) []string {
	var all []string
	now := time.Now()
	for block, rest := pem.Decode([]byte(text)); block != nil; block, rest = pem.Decode(rest) {
		cert, err := x509.ParseCertificate(block.Bytes)
		if block.Type != "CERTIFICATE" || err != nil || now.After(cert.NotAfter) {
			continue
		}
		if one := string(pem.EncodeToMemory(&pem.Block{Type: block.Type, Bytes: block.Bytes})); !slices.Contains(all, one) {
			all = append(all, one)
		}
	}
	return all
}
