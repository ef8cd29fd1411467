// Package atrest compares encryption at rest with upstream's: what one encrypts, the other decrypts, by the same configuration file.
package atrest

import (
	"bytes"
	"context"
	"encoding/base64"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"net"
	"os"
	"path/filepath"
	"testing"

	"google.golang.org/grpc"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/server/options/encryptionconfig"
	"k8s.io/apiserver/pkg/storage/value"
	kmsapi "k8s.io/kms/apis/v2"

	"github.com/keelson-io/keelson/internal/store"
	"github.com/keelson-io/keelson/internal/store/encrypt"
	"github.com/keelson-io/keelson/internal/store/encrypt/kms"
	"github.com/keelson-io/keelson/internal/store/mem"
)

// plugin is a KMS plugin that encrypts nothing: formats are compared here.
type plugin struct {
	kmsapi.UnimplementedKeyManagementServiceServer
}

func (plugin) Status(context.Context, *kmsapi.StatusRequest) (*kmsapi.StatusResponse, error) {
	return &kmsapi.StatusResponse{Version: "v2", Healthz: "ok", KeyId: "key-1"}, nil
}

func (plugin) Encrypt(_ context.Context, r *kmsapi.EncryptRequest) (*kmsapi.EncryptResponse, error) {
	return &kmsapi.EncryptResponse{Ciphertext: append([]byte("sealed:"), r.Plaintext...), KeyId: "key-1", Annotations: map[string][]byte{"b.example": []byte("2"), "a.example": []byte("1")}}, nil
}

func (plugin) Decrypt(_ context.Context, r *kmsapi.DecryptRequest) (*kmsapi.DecryptResponse, error) {
	return &kmsapi.DecryptResponse{Plaintext: bytes.TrimPrefix(r.Ciphertext, []byte("sealed:"))}, nil
}

func servePlugin(t *testing.T) string {
	path := filepath.Join(t.TempDir(), "kms.sock")
	l, err := net.Listen("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	s := grpc.NewServer()
	kmsapi.RegisterKeyManagementServiceServer(s, plugin{})
	go s.Serve(l)
	t.Cleanup(s.Stop)
	return path
}

var secrets = schema.GroupResource{Resource: "secrets"}

// both loads a configuration into upstream's transformer of Secrets, and into a store of ours over another one.
func both(t *testing.T, providers string) (value.Transformer, *encrypt.Store, store.Store) {
	t.Helper()
	text := "apiVersion: apiserver.config.k8s.io/v1\nkind: EncryptionConfiguration\nresources:\n- resources: [secrets]\n  providers: [" + providers + "]\n"
	file := filepath.Join(t.TempDir(), "encryption.yaml")
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	upstream, err := encryptionconfig.LoadEncryptionConfig(t.Context(), file, false, "id")
	if err != nil {
		t.Fatal(err)
	}
	c, err := encrypt.Decode([]byte(text))
	if err != nil {
		t.Fatal(err)
	}
	logger := slog.New(slog.DiscardHandler)
	rules, err := encrypt.NewRules(t.Context(), c, encrypt.PluginOptions{Logger: logger, Dial: kms.Dial})
	if err != nil {
		t.Fatal(err)
	}
	inner := mem.New(mem.Options{})
	ours := encrypt.New(inner, rules, encrypt.Options{Prefix: "/registry", Logger: logger,
		Resource: func(string) (schema.GroupResource, bool) { return secrets, true }})
	t.Cleanup(func() { ours.Close() })
	return upstream.Transformers[secrets], ours, inner
}

// TestEachReadsTheOther writes values of all lengths with each provider, and reads them with the other implementation. A key that is
// in force, and one that is not any more, are told apart in the same way.
func TestEachReadsTheOther(t *testing.T) {
	secret := func(fill byte, size int) string {
		return base64.StdEncoding.EncodeToString(bytes.Repeat([]byte{fill}, size))
	}
	keys := func(provider string, size int) string {
		return fmt.Sprintf("{%s: {keys: [{name: new, secret: %q}, {name: old, secret: %q}]}}", provider, secret(1, size), secret(2, size))
	}
	oldOnly := func(provider string, size int) string {
		return fmt.Sprintf("{%s: {keys: [{name: old, secret: %q}]}}", provider, secret(2, size))
	}
	kms := fmt.Sprintf("{kms: {apiVersion: v2, name: plugin, endpoint: 'unix://%s'}}", servePlugin(t))
	for _, test := range []struct{ name, now, before string }{
		{"aescbc 128", keys("aescbc", 16), oldOnly("aescbc", 16)},
		{"aescbc 256", keys("aescbc", 32), oldOnly("aescbc", 32)},
		{"aesgcm 128", keys("aesgcm", 16), oldOnly("aesgcm", 16)},
		{"aesgcm 192", keys("aesgcm", 24), oldOnly("aesgcm", 24)},
		{"aesgcm 256", keys("aesgcm", 32), oldOnly("aesgcm", 32)},
		{"secretbox", keys("secretbox", 32), oldOnly("secretbox", 32)},
		{"identity", "{identity: {}}", "{identity: {}}"},
		{"kms", kms, "{identity: {}}"},
	} {
		t.Run(test.name, func(t *testing.T) {
			now := test.now
			if test.before == "{identity: {}}" && test.now != test.before {
				now += ",{identity: {}}"
			}
			theirs, ours, inner := both(t, now)
			theirsBefore, _, _ := both(t, test.before)
			rng := rand.New(rand.NewPCG(1, 2))
			for n := range 70 {
				plain := make([]byte, n*n)
				for i := range plain {
					plain[i] = byte(rng.Uint32())
				}
				if len(plain) == 0 {
					plain = []byte("{}")
				}
				key := fmt.Sprintf("secrets/default/s%d", n)
				bound := value.DefaultContext("/registry/" + key)

				// Ours writes, theirs reads.
				if _, err := ours.Create(t.Context(), key, plain); err != nil {
					t.Fatal(err)
				}
				stored, err := inner.Get(t.Context(), key)
				if err != nil {
					t.Fatal(err)
				}
				got, stale, err := theirs.TransformFromStorage(t.Context(), stored.Value, bound)
				if err != nil || stale || !bytes.Equal(got, plain) {
					t.Fatalf("upstream reads ours: got %d bytes, stale %v, %v; want %d bytes", len(got), stale, err, len(plain))
				}

				// Theirs writes, ours reads.
				for _, old := range []bool{false, true} {
					writer := theirs
					if old {
						writer = theirsBefore
					}
					sealed, err := writer.TransformToStorage(t.Context(), plain, bound)
					if err != nil {
						t.Fatal(err)
					}
					_, wantStale, err := theirs.TransformFromStorage(t.Context(), sealed, bound)
					if err != nil {
						t.Fatal(err)
					}
					item, err := inner.Get(t.Context(), key)
					if err != nil {
						t.Fatal(err)
					}
					if _, err := inner.Update(t.Context(), key, sealed, item.Rev); err != nil {
						t.Fatal(err)
					}
					read, err := ours.Get(t.Context(), key)
					if err != nil || !bytes.Equal(read.Value, plain) {
						t.Fatalf("ours reads upstream's (old key %v): got %d bytes, %v; want %d", old, len(read.Value), err, len(plain))
					}
					if stale := read.Sealed != ours.WritesAs(key); stale != wantStale {
						t.Fatalf("old key %v: to be written again: %v, upstream says %v", old, stale, wantStale)
					}
				}
			}
		})
	}
}
