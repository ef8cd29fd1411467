package externalsigner

import (
	"context"
	"log/slog"
	"strings"
	"testing"
	"time"

	externaljwt "k8s.io/externaljwt/apis/v1"

	"github.com/keelson-io/keelson/internal/testsigner"
)

// TestWrongSigners holds that the server does not start with a signer whose answers are wrong.
func TestWrongSigners(t *testing.T) {
	for name, row := range map[string]struct {
		change func(*testsigner.Signer)
		want   string
	}{
		"good":           {func(*testsigner.Signer) {}, ""},
		"no keys":        {func(s *testsigner.Signer) { s.Keys = nil }, "keys: got 0, want 1 to 1000"},
		"many keys":      {func(s *testsigner.Signer) { s.Keys = make([]*externaljwt.Key, maxKeys+1) }, "keys: got 1001, want 1 to 1000"},
		"nameless key":   {func(s *testsigner.Signer) { s.Keys[0].KeyId = "" }, "keys[0].key_id: got 0 bytes, want 1 to 1024"},
		"long name":      {func(s *testsigner.Signer) { s.Keys[0].KeyId = strings.Repeat("k", 1025) }, "keys[0].key_id: got 1025 bytes, want 1 to 1024"},
		"malformed key":  {func(s *testsigner.Signer) { s.Keys[0].Key = []byte("key") }, "keys[0].key: asn1"},
		"no refresh":     {func(s *testsigner.Signer) { s.Refresh = 0 }, "refresh_hint_seconds: got 0, want more than 0"},
		"short life":     {func(s *testsigner.Signer) { s.Life = 599 }, "max_token_expiration_seconds: got 599, want at least 600"},
		"a long answer":  {func(s *testsigner.Signer) { s.Keys[0].Key = make([]byte, maxAnswer+1) }, "larger than max"},
		"a long refresh": {func(s *testsigner.Signer) { s.Refresh = 1 << 62 }, ""},
	} {
		program := testsigner.New(t)
		row.change(program)
		s, err := Open(t.Context(), program.Socket, slog.New(slog.DiscardHandler))
		if err == nil {
			s.Close()
		}
		if (row.want == "") != (err == nil) || err != nil && !strings.Contains(err.Error(), row.want) {
			t.Errorf("%s: got %v, want %q", name, err, row.want)
		}
	}
	short, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	if _, err := Open(short, "/nonexistent/socket", slog.New(slog.DiscardHandler)); err == nil || !strings.Contains(err.Error(), "the signer at /nonexistent/socket") {
		t.Errorf("got %v", err)
	}
	if _, err := Open(short, "@a b", slog.New(slog.DiscardHandler)); err == nil || !strings.Contains(err.Error(), `got "@a b", want a path`) {
		t.Errorf("got %v", err)
	}
}

// TestHeaders holds which headers of tokens are accepted.
func TestHeaders(t *testing.T) {
	program := testsigner.New(t)
	program.Add(t, "old", true)
	s, err := Open(t.Context(), program.Socket, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	for header, want := range map[string]string{
		"":                                       "",
		`{"alg":"HS256","kid":"k1","typ":"JWT"}`: `bad signing algorithm "HS256"`,
		`{"alg":"none","kid":"k1","typ":"JWT"}`:  `bad signing algorithm "none"`,
		`{"alg":"ES256","kid":"k1","typ":"x"}`:   `bad type`,
		`{"alg":"ES256","typ":"JWT"}`:            `key id missing`,
		`{"alg":"ES256","kid":"` + strings.Repeat("k", 1025) + `","typ":"JWT"}`:   `key id longer than 1 kb`,
		`{"alg":"ES256","kid":"k1","typ":"JWT","jku":"https://evil.example/jwk"}`: `unknown field "jku"`,
		`{"alg":"ES256","kid":"old","typ":"JWT"}`:                                 `(kid: old) is excluded from OIDC discovery docs`,
		`not JSON`: "invalid character",
	} {
		program.Header = header
		token, err := s.Sign(t.Context(), []byte(`{"sub":"x"}`))
		if (want == "") != (err == nil) || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("%s: got %q, %v, want %q", header, token, err, want)
		}
	}
}

// TestUnknownKeys holds that a new key is found at once, and that invented ones do not cause a request each.
func TestUnknownKeys(t *testing.T) {
	program := testsigner.New(t)
	s, err := Open(t.Context(), program.Socket, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	program.Add(t, "k2", false)
	if got := s.Public(t.Context(), "k2"); len(got) != 1 || got[0].KeyID != "k2" {
		t.Errorf("got %v, want k2", got)
	}
	before := program.Fetched
	for range 100 {
		if got := s.Public(t.Context(), "invented"); len(got) != 0 {
			t.Errorf("got %v", got)
		}
	}
	if program.Fetched > before+1 {
		t.Errorf("got %d requests for invented keys, want at most one in a second", program.Fetched-before)
	}
}
