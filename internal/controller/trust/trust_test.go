package trust

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/pem"
	"math/big"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/keelson-io/keelson/internal/store"
	"github.com/keelson-io/keelson/internal/store/mem"
)

// certificate makes a certificate of its own, in PEM.
func certificate(t *testing.T, authority bool, until time.Time) []byte {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{SerialNumber: big.NewInt(1), IsCA: authority, BasicConstraintsValid: true, NotAfter: until}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		t.Fatal(err)
	}
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})
}

// rig is a store and what is asked of it.
type rig struct {
	t *testing.T
	store.Store
}

// load is what a server with certificates finds.
func (r rig) load(own []byte, shared bool) string {
	r.t.Helper()
	text, err := (&Bundle{Store: r, Own: func() []byte { return own }, Shared: shared}).Load(r.t.Context())
	if err != nil {
		r.t.Fatal(err)
	}
	if have, err := r.Get(r.t.Context(), Key); err != nil || string(have.Value) != text {
		r.t.Errorf("loaded\n%s\nstored, %v:\n%s", text, err, have.Value)
	}
	return text
}

// put makes the value something else.
func (r rig) put(text string) {
	r.t.Helper()
	have, err := r.Get(r.t.Context(), Key)
	if err == nil {
		_, err = r.Update(r.t.Context(), Key, []byte(text), have.Rev)
	} else {
		_, err = r.Create(r.t.Context(), Key, []byte(text))
	}
	if err != nil {
		r.t.Fatal(err)
	}
}

// TestBundle holds that servers with certificates of any sort come to an end with what they publish.
func TestBundle(t *testing.T) {
	r := rig{t, mem.New(mem.Options{})}
	defer r.Close()
	later := time.Now().Add(time.Hour)
	leaf, expired := certificate(t, false, later), certificate(t, true, time.Now().Add(-time.Hour))
	all := [][]byte{certificate(t, true, later), leaf, append(certificate(t, true, later), leaf...), expired}
	r.put("no certificate\n" + string(expired))
	said := ""
	for range 3 {
		for _, own := range all {
			said = r.load(own, true)
		}
	}
	rev, err := r.Revision(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for _, own := range all {
		if again := r.load(own, true); again != said {
			t.Errorf("got\n%s\nafter\n%s", again, said)
		}
	}
	if now, err := r.Revision(t.Context()); err != nil || now != rev {
		t.Errorf("what is right already was written again: revision %d, before %d, %v", now, rev, err)
	}
	if n := strings.Count(said, "BEGIN"); n != 3 {
		t.Errorf("got %d certificates, want 3:\n%s", n, said)
	}
	r.put(strings.Repeat(string(leaf), 2))
	if got := r.load(leaf, true); got != string(leaf) {
		t.Errorf("got\n%s\nwant the certificate once", got)
	}
	if got := r.load(expired, false); got != string(expired) {
		t.Errorf("a store of one server's: got\n%s\nwant its own and nothing else", got)
	}
	if got := r.load(expired, true); got != string(expired) {
		t.Errorf("nothing that is good: got\n%s\nwant at least its own", got)
	}
}

// TestFullBundle holds that a value with more certificates than servers can have is begun anew.
func TestFullBundle(t *testing.T) {
	r := rig{t, mem.New(mem.Options{})}
	defer r.Close()
	later := time.Now().Add(time.Hour)
	own := certificate(t, true, later)
	full := string(own)
	for range limit - 1 {
		full += string(certificate(t, false, later))
	}
	r.put(full)
	if got := r.load(own, true); got != full {
		t.Error("as many as there may be: one of them was not found among them")
	}
	more := certificate(t, true, later)
	if got := r.load(more, true); got != string(more) {
		t.Errorf("one too many: got %d certificates, want its own", strings.Count(got, "BEGIN"))
	}
}

// TestServersAtOnce holds that no server's certificates are lost that come at the same time.
func TestServersAtOnce(t *testing.T) {
	r := rig{t, mem.New(mem.Options{})}
	defer r.Close()
	later := time.Now().Add(time.Hour)
	var all sync.WaitGroup
	var own [8][]byte
	for i := range own {
		own[i] = certificate(t, true, later)
		all.Go(func() {
			text, err := (&Bundle{Store: r, Own: func() []byte { return own[i] }, Shared: true}).Load(t.Context())
			if err != nil || !strings.Contains(text, string(own[i])) {
				t.Errorf("server %d: got %v,\n%s", i, err, text)
			}
		})
	}
	all.Wait()
	text := r.load(own[0], true)
	for i := range own {
		if !strings.Contains(text, string(own[i])) {
			t.Errorf("certificate %d is lost", i)
		}
	}
}

// TestStoreFails holds that nothing is published that the store does not confirm.
func TestStoreFails(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	closed := mem.New(mem.Options{})
	closed.Close()
	if text, err := (&Bundle{Store: closed, Own: func() []byte { return []byte("own") }}).Load(ctx); err == nil || text != "" {
		t.Errorf("got %q, %v, want an error", text, err)
	}
}
