package kms

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"net"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"k8s.io/apimachinery/pkg/runtime/schema"
	kmsapi "k8s.io/kms/apis/v2"

	"github.com/keelson-io/keelson/internal/store"
	"github.com/keelson-io/keelson/internal/store/encrypt"
	"github.com/keelson-io/keelson/internal/store/mem"
	"github.com/keelson-io/keelson/internal/store/storetest"
)

// fakeKMS is a plugin behind a socket, whose encryption is an exclusive or with its key's name.
type fakeKMS struct {
	kmsapi.UnimplementedKeyManagementServiceServer
	refuses atomic.Bool // decryption
}

const keyID = "one"

func mix(b []byte) []byte {
	out := bytes.Clone(b)
	for i := range out {
		out[i] ^= keyID[i%len(keyID)]
	}
	return out
}

func (k *fakeKMS) Status(context.Context, *kmsapi.StatusRequest) (*kmsapi.StatusResponse, error) {
	return &kmsapi.StatusResponse{Version: "v2", Healthz: "ok", KeyId: keyID}, nil
}

func (k *fakeKMS) Encrypt(_ context.Context, r *kmsapi.EncryptRequest) (*kmsapi.EncryptResponse, error) {
	return &kmsapi.EncryptResponse{Ciphertext: mix(r.Plaintext), KeyId: keyID, Annotations: map[string][]byte{"version.example": []byte("1")}}, nil
}

func (k *fakeKMS) Decrypt(_ context.Context, r *kmsapi.DecryptRequest) (*kmsapi.DecryptResponse, error) {
	if k.refuses.Load() || string(r.Annotations["version.example"]) != "1" || r.KeyId != keyID || r.Uid == "" {
		return nil, status.Error(codes.PermissionDenied, "this key is gone")
	}
	return &kmsapi.DecryptResponse{Plaintext: mix(r.Ciphertext)}, nil
}

// serve starts a plugin and returns its socket.
func (k *fakeKMS) serve(t *testing.T) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "kms.sock")
	l, err := net.Listen("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	s := grpc.NewServer()
	kmsapi.RegisterKeyManagementServiceServer(s, k)
	go s.Serve(l)
	t.Cleanup(s.Stop)
	return path
}

// over returns a store that a plugin encrypts.
func over(t *testing.T, inner store.Store, socket, timeout string) *encrypt.Store {
	t.Helper()
	c, err := encrypt.Decode([]byte("apiVersion: apiserver.config.k8s.io/v1\nkind: EncryptionConfiguration\nresources:\n- resources: ['*.*']\n" +
		"  providers: [{kms: {apiVersion: v2, name: fake, timeout: " + timeout + ", endpoint: 'unix://" + socket + "'}}]\n"))
	if err != nil {
		t.Fatal(err)
	}
	silent := slog.New(slog.DiscardHandler)
	r, err := encrypt.NewRules(t.Context(), c, encrypt.PluginOptions{Logger: silent, Dial: Dial})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { r.Close() })
	secrets := func(string) (schema.GroupResource, bool) { return schema.GroupResource{Resource: "secrets"}, true }
	return encrypt.New(inner, r, encrypt.Options{Prefix: "/registry", Resource: secrets, Logger: silent})
}

func TestStore(t *testing.T) {
	socket := new(fakeKMS).serve(t)
	storetest.Run(t, func(t *testing.T) store.Store { return over(t, mem.New(mem.Options{}), socket, "2s") })
}

// TestErrors: a plugin that refuses makes a value unreadable; one that cannot be reached may come back.
func TestErrors(t *testing.T) {
	k := new(fakeKMS)
	socket := k.serve(t)
	inner := mem.New(mem.Options{})
	if _, err := over(t, inner, socket, "2s").Create(t.Context(), "secrets/a/a", []byte("value")); err != nil {
		t.Fatal(err)
	}
	k.refuses.Store(true)
	if item, err := over(t, inner, socket, "2s").Get(t.Context(), "secrets/a/a"); err != nil || string(item.Value) == "value" {
		t.Errorf("a plugin that refuses: got %q, %v", item.Value, err)
	}
	p, err := Dial(socket)
	if err != nil {
		t.Fatal(err)
	}
	defer p.Close()
	var failed *encrypt.PluginError
	if _, err := p.Decrypt(t.Context(), "uid", &encrypt.Sealed{}); !errors.As(err, &failed) || failed.Code != "PermissionDenied" || failed.Unreachable {
		t.Errorf("a plugin that refuses: got %+v", err)
	}
	absent := filepath.Join(t.TempDir(), "none.sock")
	if _, err := over(t, inner, absent, "50ms").Get(t.Context(), "secrets/a/a"); !errors.Is(err, encrypt.ErrUnavailable) {
		t.Errorf("an absent plugin: got %v", err)
	}
}

// TestWithoutClient: a program without a client of plugins says so.
func TestWithoutClient(t *testing.T) {
	c, err := encrypt.Decode([]byte("apiVersion: apiserver.config.k8s.io/v1\nkind: EncryptionConfiguration\nresources:\n- resources: ['*.*']\n" +
		"  providers: [{kms: {apiVersion: v2, name: fake, endpoint: 'unix:///none'}}]\n"))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := encrypt.NewRules(t.Context(), c, encrypt.PluginOptions{}); err == nil || !strings.Contains(err.Error(), "etcd.Use") {
		t.Errorf("got %v, want an error that names etcd.Use", err)
	}
}
