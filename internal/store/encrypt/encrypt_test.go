package encrypt

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/keelson-io/keelson/internal/store"
	"github.com/keelson-io/keelson/internal/store/mem"
	"github.com/keelson-io/keelson/internal/store/storetest"
)

// allOf is the Resource of stores whose keys all belong to one resource.
func allOf(gr schema.GroupResource) func(string) (schema.GroupResource, bool) {
	return func(string) (schema.GroupResource, bool) { return gr, true }
}

var secrets = schema.GroupResource{Resource: "secrets"}

// rulesOf reads a configuration with the given providers for all resources.
func rulesOf(t *testing.T, providers string) *Rules {
	t.Helper()
	text := "apiVersion: apiserver.config.k8s.io/v1\nkind: EncryptionConfiguration\nresources:\n- resources: ['*.*']\n  providers: [" + providers + "]\n"
	c, err := Decode([]byte(text))
	if err != nil {
		t.Fatal(err)
	}
	r, err := NewRules(t.Context(), c, PluginOptions{Logger: slog.New(slog.DiscardHandler), Dial: dialFake})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { r.Close() })
	return r
}

// keyFor is a provider with one key, whose bytes are all the same.
func keyFor(provider, name string, fill byte) string {
	secret := base64.StdEncoding.EncodeToString(bytes.Repeat([]byte{fill}, 32))
	return fmt.Sprintf("{%s: {keys: [{name: %s, secret: %q}]}}", provider, name, secret)
}

func over(t *testing.T, inner store.Store, providers string, log io.Writer) *Store {
	if log == nil {
		log = io.Discard
	}
	return New(inner, rulesOf(t, providers), Options{Prefix: "/registry", Resource: allOf(secrets), Logger: slog.New(slog.NewTextHandler(log, nil))})
}

// TestStore runs the tests of all stores over each provider.
func TestStore(t *testing.T) {
	for _, provider := range []string{"aesgcm", "aescbc", "secretbox"} {
		t.Run(provider, func(t *testing.T) {
			storetest.Run(t, func(t *testing.T) store.Store {
				return over(t, mem.New(mem.Options{}), keyFor(provider, "a", 1), nil)
			})
		})
	}
	t.Run("identity", func(t *testing.T) {
		storetest.Run(t, func(t *testing.T) store.Store { return over(t, mem.New(mem.Options{}), "{identity: {}}", nil) })
	})
}

// TestValuesAreEncrypted looks at what is stored: nothing of the value is in it, and the same value never looks the same.
func TestValuesAreEncrypted(t *testing.T) {
	for _, provider := range []string{"aesgcm", "aescbc", "secretbox"} {
		inner := mem.New(mem.Options{})
		s := over(t, inner, keyFor(provider, "a", 1), nil)
		stored := func(key string) []byte {
			if _, err := s.Create(t.Context(), key, []byte(`{"very":"secret"}`)); err != nil {
				t.Fatal(err)
			}
			item, err := inner.Get(t.Context(), key)
			if err != nil {
				t.Fatal(err)
			}
			return item.Value
		}
		one, other := stored("secrets/a/a"), stored("secrets/a/b")
		if !strings.HasPrefix(string(one), "k8s:enc:"+provider+":v1:a:") || bytes.Contains(one, []byte("secret\"")) || bytes.Equal(one, other) {
			t.Errorf("%s: stored %q and %q", provider, one, other)
		}
		if item, err := s.Get(t.Context(), "secrets/a/a"); err != nil || string(item.Value) != `{"very":"secret"}` || item.Sealed != s.WritesAs(item.Key) {
			t.Errorf("%s: got %q sealed by %q, %v", provider, item.Value, item.Sealed, err)
		}
	}
}

// TestRotation moves a store from plain values to a key, to another key, to another provider and back.
func TestRotation(t *testing.T) {
	inner := mem.New(mem.Options{})
	if _, err := inner.Create(t.Context(), "secrets/a/a", []byte("plain")); err != nil {
		t.Fatal(err)
	}
	one, two, gcm := keyFor("aescbc", "one", 1), keyFor("aescbc", "two", 2), keyFor("aesgcm", "three", 3)
	s := over(t, inner, "{identity: {}}", nil)
	sealed := ""
	for i, step := range []struct{ providers, sealed string }{
		{one + ",{identity: {}}", "k8s:enc:aescbc:v1:one:"},
		{two + "," + one, "k8s:enc:aescbc:v1:two:"},
		{gcm + "," + two, "k8s:enc:aesgcm:v1:three:"},
		{"{identity: {}}," + gcm, ""},
	} {
		s.Use(rulesOf(t, step.providers))
		item, err := s.Get(t.Context(), "secrets/a/a")
		if err != nil || string(item.Value) != "plain" || item.Sealed != sealed || s.WritesAs(item.Key) == sealed {
			t.Fatalf("step %d, before: got %q sealed by %q, %v; writes as %q", i, item.Value, item.Sealed, err, s.WritesAs(item.Key))
		}
		if _, err := s.Update(t.Context(), item.Key, item.Value, item.Rev); err != nil {
			t.Fatal(err)
		}
		item, err = s.Get(t.Context(), "secrets/a/a")
		if err != nil || string(item.Value) != "plain" || item.Sealed != step.sealed {
			t.Fatalf("step %d, after: got %q sealed by %q, %v, want sealed by %q", i, item.Value, item.Sealed, err, step.sealed)
		}
		sealed = item.Sealed
	}
	if item, _ := inner.Get(t.Context(), "secrets/a/a"); string(item.Value) != "plain" {
		t.Errorf("at the end: stored %q", item.Value)
	}
}

// TestUnreadable: what cannot be decrypted comes as it is stored, the log says why, and it can be deleted.
func TestUnreadable(t *testing.T) {
	inner := mem.New(mem.Options{})
	key := keyFor("aesgcm", "a", 1)
	before := over(t, inner, key, nil)
	rev, err := before.Create(t.Context(), "secrets/a/a", []byte("value"))
	if err != nil {
		t.Fatal(err)
	}
	good, err := inner.Get(t.Context(), "secrets/a/a")
	if err != nil {
		t.Fatal(err)
	}
	flipped := bytes.Clone(good.Value)
	flipped[len(flipped)-1] ^= 1
	for name, value := range map[string][]byte{"flipped": flipped, "short": []byte("k8s:enc:aesgcm:v1:a:x"), "moved": good.Value, "other": []byte("k8s:enc:foo:v1:a:x"),
		"plain": []byte("plain")} {
		if _, err := inner.Create(t.Context(), "secrets/a/"+name, value); err != nil {
			t.Fatal(err)
		}
	}
	for _, test := range []struct{ name, providers, want string }{
		{"a", keyFor("aesgcm", "b", 1), "no matching key was found for the provided AES transformer"},
		{"a", keyFor("aesgcm", "a", 2), "message authentication failed"},
		{"a", "{identity: {}}", "no matching prefix found"},
		{"flipped", key, "message authentication failed"},
		{"moved", key, "message authentication failed"},
		{"short", key, "shorter than the required size"},
		{"other", key, "no matching prefix found"},
		{"plain", key, "no matching prefix found"},
	} {
		var log bytes.Buffer
		s := over(t, inner, test.providers, &log)
		stored, err := inner.Get(t.Context(), "secrets/a/"+test.name)
		if err != nil {
			t.Fatal(err)
		}
		got, err := s.Get(t.Context(), "secrets/a/"+test.name)
		if err != nil || !bytes.Equal(got.Value, stored.Value) || !strings.Contains(log.String(), test.want) {
			t.Errorf("%s: got %q, %v, log %s, want %s in it", test.name, got.Value, err, log.String(), test.want)
		}
	}
	if _, err := over(t, inner, "{identity: {}}", nil).Delete(t.Context(), "secrets/a/a", rev); err != nil {
		t.Error(err)
	}
}

// TestChangedIsDecrypted: who loses a race gets the object as it is now, decrypted.
func TestChangedIsDecrypted(t *testing.T) {
	s := over(t, mem.New(mem.Options{}), keyFor("aescbc", "a", 1), nil)
	rev, err := s.Create(t.Context(), "secrets/a/a", []byte("value"))
	if err != nil {
		t.Fatal(err)
	}
	var changed *store.Changed
	if _, err := s.Update(t.Context(), "secrets/a/a", []byte("x"), rev-1); !errors.As(err, &changed) || string(changed.Current.Value) != "value" {
		t.Errorf("got %v", err)
	}
}

// TestWhichResources: rules are found by name, group, and for everything, the narrowest first.
func TestWhichResources(t *testing.T) {
	text := "apiVersion: apiserver.config.k8s.io/v1\nkind: EncryptionConfiguration\nresources:\n"
	for i, names := range []string{"secrets", "pandas.bears.example", "'*.apps'", "'*.'", "'*.*'"} {
		text += "- resources: [" + names + "]\n  providers: [" + keyFor("aesgcm", fmt.Sprint("k", i), 1) + "]\n"
	}
	c, err := Decode([]byte(text))
	if err != nil {
		t.Fatal(err)
	}
	r, err := NewRules(t.Context(), c, PluginOptions{})
	if err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]string{"secrets": "k0", "pandas.bears.example": "k1", "deployments.apps": "k2", "configmaps": "k3", "others.bears.example": "k4"} {
		gr := schema.ParseGroupResource(name)
		if p := r.of(gr); len(p) != 1 || p[0].seals() != "k8s:enc:aesgcm:v1:"+want+":" {
			t.Errorf("%s: got %v, want %s", name, p, want)
		}
	}
}

// FuzzOpen opens arbitrary values: none may panic, and what a key did not write is never opened.
func FuzzOpen(f *testing.F) {
	c, err := Decode([]byte("apiVersion: apiserver.config.k8s.io/v1\nkind: EncryptionConfiguration\nresources:\n- resources: ['*.*']\n  providers: [" +
		keyFor("aesgcm", "a", 1) + "," + keyFor("secretbox", "a", 1) + "," + keyFor("aescbc", "a", 1) + "]\n"))
	if err != nil {
		f.Fatal(err)
	}
	r, err := NewRules(context.Background(), c, PluginOptions{})
	if err != nil {
		f.Fatal(err)
	}
	providers := r.of(secrets)
	for _, p := range providers {
		sealed, _ := p.seal(context.Background(), []byte("k"), []byte("value"))
		f.Add(sealed)
	}
	random := make([]byte, 100)
	rand.Read(random)
	f.Add(append([]byte("k8s:enc:aescbc:v1:a:"), random...))
	f.Fuzz(func(t *testing.T, value []byte) {
		plain, sealed, err := open(t.Context(), providers, []byte("other"), value)
		if err == nil && strings.HasPrefix(sealed, "k8s:enc:aesgcm") {
			t.Errorf("%q was opened for another key: %q", value, plain)
		}
		parseEnvelope(value)
	})
}

func TestDescribeNamesProviderAndKey(t *testing.T) {
	for _, row := range []struct{ value, want string }{
		{`{"kind":"Secret"}`, ""},
		{"", ""},
		{"k8s:enc:aescbc:v1:key1:\x00\x01", "aescbc key1"},
		{"k8s:enc:kms:v2:plugin:\x00", "kms plugin"},
		{"k8s:enc:", "an unknown provider"},
		{"k8s:enc:aescbc:v1:" + strings.Repeat("k", 2*maxName), "an unknown provider"},
	} {
		if got := Describe([]byte(row.value)); got != row.want {
			t.Errorf("%.40q: got %q, want %q", row.value, got, row.want)
		}
	}
}
