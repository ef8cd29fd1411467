package encrypt

import (
	"bytes"
	"context"
	"errors"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"google.golang.org/protobuf/encoding/protowire"

	"github.com/keelson-io/keelson/internal/store"
	"github.com/keelson-io/keelson/internal/store/mem"
	"github.com/keelson-io/keelson/internal/store/storetest"
)

// fakeKMS is a plugin whose encryption is an exclusive or with its key's name.
type fakeKMS struct {
	mu       sync.Mutex
	keyID    string
	sick     bool
	refuses  bool // decryption
	encrypts int
	decrypts int
}

func (k *fakeKMS) change(f func()) {
	k.mu.Lock()
	defer k.mu.Unlock()
	f()
}

func (k *fakeKMS) Status(context.Context) (*PluginStatus, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.sick {
		return &PluginStatus{Version: "v2", Healthz: "sick", KeyID: k.keyID}, nil
	}
	return &PluginStatus{Version: "v2", Healthz: "ok", KeyID: k.keyID}, nil
}

func mix(b []byte, keyID string) []byte {
	out := bytes.Clone(b)
	for i := range out {
		out[i] ^= keyID[i%len(keyID)]
	}
	return out
}

func (k *fakeKMS) Encrypt(_ context.Context, _ string, plain []byte) (*Sealed, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.encrypts++
	return &Sealed{Text: mix(plain, k.keyID), KeyID: k.keyID, Annotations: map[string][]byte{"version.example": []byte("1")}}, nil
}

func (k *fakeKMS) Decrypt(_ context.Context, _ string, s *Sealed) ([]byte, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.decrypts++
	if k.refuses || string(s.Annotations["version.example"]) != "1" {
		return nil, &PluginError{Code: "PermissionDenied", Err: errors.New("this key is gone")}
	}
	return mix(s.Text, s.KeyID), nil
}

func (k *fakeKMS) Close() error { return nil }

// absentKMS is a plugin that never answers.
type absentKMS struct{}

func (absentKMS) wait(ctx context.Context) error {
	<-ctx.Done()
	return &PluginError{Code: "DeadlineExceeded", Unreachable: true, Err: ctx.Err()}
}

func (a absentKMS) Status(ctx context.Context) (*PluginStatus, error) { return nil, a.wait(ctx) }

func (a absentKMS) Encrypt(ctx context.Context, _ string, _ []byte) (*Sealed, error) {
	return nil, a.wait(ctx)
}

func (a absentKMS) Decrypt(ctx context.Context, _ string, _ *Sealed) ([]byte, error) {
	return nil, a.wait(ctx)
}

func (absentKMS) Close() error { return nil }

// fakes has the plugins of tests, by socket.
var fakes sync.Map

// dialFake connects to a plugin of fakes. There is none at other sockets.
func dialFake(socket string) (Plugin, error) {
	if k, ok := fakes.Load(socket); ok {
		return k.(Plugin), nil
	}
	return absentKMS{}, nil
}

// serve puts a plugin at a socket, and returns its provider for a configuration.
func (k *fakeKMS) serve(t *testing.T) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "kms.sock")
	fakes.Store(path, k)
	t.Cleanup(func() { fakes.Delete(path) })
	return "{kms: {apiVersion: v2, name: fake, timeout: 2s, endpoint: 'unix://" + path + "'}}"
}

func TestStoreOverKMS(t *testing.T) {
	k := &fakeKMS{keyID: "one"}
	provider := k.serve(t)
	storetest.Run(t, func(t *testing.T) store.Store { return over(t, mem.New(mem.Options{}), provider, nil) })
}

// TestKMSIsAskedOnce: one seed serves for all values, and is decrypted once by another server.
func TestKMSIsAskedOnce(t *testing.T) {
	k := &fakeKMS{keyID: "one"}
	provider := k.serve(t)
	inner := mem.New(mem.Options{})
	one, other := over(t, inner, provider, nil), over(t, inner, provider, nil)
	for _, key := range []string{"secrets/a/a", "secrets/a/b", "secrets/a/c"} {
		if _, err := one.Create(t.Context(), key, []byte("value")); err != nil {
			t.Fatal(err)
		}
		item, err := other.Get(t.Context(), key)
		if err != nil || string(item.Value) != "value" || item.Sealed != "k8s:enc:kms:v2:fake:one" || item.Sealed != other.WritesAs(key) {
			t.Fatalf("got %q sealed by %q, %v", item.Value, item.Sealed, err)
		}
	}
	if k.encrypts != 2 || k.decrypts != 1 {
		t.Errorf("the plugin encrypted %d times, decrypted %d times; want 2 (one for each server) and 1", k.encrypts, k.decrypts)
	}
	stored, err := inner.Get(t.Context(), "secrets/a/a")
	if err != nil || !bytes.HasPrefix(stored.Value, []byte("k8s:enc:kms:v2:fake:")) {
		t.Errorf("stored %q, %v", stored.Value, err)
	}
	// A value is bound to its key.
	if _, err := inner.Create(t.Context(), "secrets/a/moved", stored.Value); err != nil {
		t.Fatal(err)
	}
	if item, err := other.Get(t.Context(), "secrets/a/moved"); err != nil || !bytes.Equal(item.Value, stored.Value) {
		t.Errorf("a value that was copied to another key: got %q, %v", item.Value, err)
	}
}

// TestKMSKeyChanges: when the plugin has another key, new values have it, and old ones are to be written again.
func TestKMSKeyChanges(t *testing.T) {
	k := &fakeKMS{keyID: "one"}
	s := over(t, mem.New(mem.Options{}), k.serve(t), nil)
	if _, err := s.Create(t.Context(), "secrets/a/a", []byte("value")); err != nil {
		t.Fatal(err)
	}
	p := s.rules.Load().plugins[0]
	k.change(func() { k.keyID = "two" })
	p.refresh(t.Context())
	item, err := s.Get(t.Context(), "secrets/a/a")
	if err != nil || string(item.Value) != "value" || item.Sealed == s.WritesAs(item.Key) || s.WritesAs(item.Key) != "k8s:enc:kms:v2:fake:two" {
		t.Errorf("got %q sealed by %q, %v; writes as %q", item.Value, item.Sealed, err, s.WritesAs(item.Key))
	}
}

// TestSickKMS: a seed writes for three minutes after its plugin was healthy last. It reads without an end.
func TestSickKMS(t *testing.T) {
	k := &fakeKMS{keyID: "one"}
	s := over(t, mem.New(mem.Options{}), k.serve(t), nil)
	rules := s.rules.Load()
	p := rules.plugins[0]
	now := time.Now()
	p.now = func() time.Time { return now }
	if _, err := s.Create(t.Context(), "secrets/a/a", []byte("value")); err != nil || rules.Health() != nil {
		t.Fatal(err, rules.Health())
	}
	k.change(func() { k.sick = true })
	p.refresh(t.Context())
	if err := rules.Health(); err == nil || !strings.Contains(err.Error(), "kms-provider-0: got unexpected healthz status: sick") {
		t.Errorf("health: got %v", err)
	}
	if _, err := s.Create(t.Context(), "secrets/a/b", []byte("value")); err != nil {
		t.Error(err)
	}
	now = now.Add(goodFor + time.Minute)
	if _, err := s.Create(t.Context(), "secrets/a/c", []byte("value")); !errors.Is(err, ErrUnavailable) || !strings.Contains(err.Error(), "expired at") {
		t.Errorf("after the seed has expired: got %v", err)
	}
	if item, err := s.Get(t.Context(), "secrets/a/a"); err != nil || string(item.Value) != "value" {
		t.Errorf("reading then: got %q, %v", item.Value, err)
	}
	k.change(func() { k.sick = false })
	p.refresh(t.Context())
	if _, err := s.Create(t.Context(), "secrets/a/c", []byte("value")); err != nil {
		t.Error(err)
	}
}

// TestAbsentKMS: without the plugin nothing can be written, and reading fails, for now; a plugin that refuses makes a value unreadable.
func TestAbsentKMS(t *testing.T) {
	k := &fakeKMS{keyID: "one"}
	inner := mem.New(mem.Options{})
	provider := k.serve(t)
	before := over(t, inner, provider, nil)
	if _, err := before.Create(t.Context(), "secrets/a/a", []byte("value")); err != nil {
		t.Fatal(err)
	}
	k.change(func() { k.refuses = true })
	if item, err := over(t, inner, provider, nil).Get(t.Context(), "secrets/a/a"); err != nil || !isEncrypted(item.Value) {
		t.Errorf("a plugin that refuses: got %q, %v", item.Value, err)
	}
	absent := "{kms: {apiVersion: v2, name: fake, timeout: 100ms, endpoint: 'unix://" + filepath.Join(t.TempDir(), "none.sock") + "'}}"
	s := over(t, inner, absent, nil)
	if _, err := s.Create(t.Context(), "secrets/a/b", []byte("value")); !errors.Is(err, store.ErrUnavailable) {
		t.Errorf("writing: got %v", err)
	}
	if _, err := s.Get(t.Context(), "secrets/a/a"); !errors.Is(err, ErrUnavailable) {
		t.Errorf("reading: got %v", err)
	}
	w, err := s.Watch(t.Context(), "secrets/", 0)
	if err != nil {
		t.Fatal(err)
	}
	defer w.Close()
	for range 2 {
		if _, err := w.Next(t.Context()); !errors.Is(err, ErrUnavailable) {
			t.Errorf("watching: got %v", err)
		}
	}
}

// TestEnvelopes: parts that are too long, missing or unknown are refused.
func TestEnvelopes(t *testing.T) {
	good := envelope{data: []byte("d"), keyID: "k", seed: []byte("s"), annotations: map[string][]byte{"a.b": []byte("c")}, derived: true}
	text := func(e envelope) []byte { return append(appendField(nil, fieldData, e.data), e.appendIdentity(nil)...) }
	if e, err := parseEnvelope(text(good)); err != nil || e.keyID != "k" || string(e.annotations["a.b"]) != "c" || !e.derived {
		t.Errorf("got %+v, %v", e, err)
	}
	for want, change := range map[string]func(*envelope){
		"encrypted data is empty":            func(e *envelope) { e.data = nil },
		"encrypted DEK source is empty":      func(e *envelope) { e.seed = nil },
		"which exceeds the max size of 1024": func(e *envelope) { e.seed = make([]byte, 1025) },
		"keyID is empty":                     func(e *envelope) { e.keyID = "" },
		"keyID is 1025 bytes":                func(e *envelope) { e.keyID = strings.Repeat("k", 1025) },
		"is not a fully qualified":           func(e *envelope) { e.annotations = map[string][]byte{"a": nil} },
		"total size of annotations is":       func(e *envelope) { e.annotations = map[string][]byte{"a.b": make([]byte, 33<<10)} },
	} {
		e := good
		change(&e)
		if _, err := parseEnvelope(text(e)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want %s", err, want)
		}
	}
	kind := protowire.AppendVarint(protowire.AppendTag(nil, fieldType, protowire.VarintType), 7)
	if _, err := parseEnvelope(append(text(good), kind...)); err == nil || err.Error() != "unknown encryptedDEKSourceType: 7" {
		t.Errorf("an unknown type: got %v", err)
	}
}
