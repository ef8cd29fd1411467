package refusal

import (
	"bytes"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/keelson-io/keelson/internal/authn"
	"github.com/keelson-io/keelson/internal/often"
)

// refuse logs one refused request.
func refuse(t *testing.T, l *Log, path, header string, err error) {
	req, bad := http.NewRequestWithContext(t.Context(), "GET", "/", nil)
	if bad != nil {
		t.Fatal(bad)
	}
	req.URL.Path = path
	req.RemoteAddr = "192.0.2.1:9"
	req.Header.Set("Authorization", header)
	l.Refused(req, err)
}

// TestRefusals holds that a reason is logged once a minute with the number of repetitions, and that an outage is an error.
func TestRefusals(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log bytes.Buffer
		r := New(slog.New(often.New(slog.NewTextHandler(&log, nil))))
		logged := func() string { defer log.Reset(); return log.String() }
		bad := authn.Refused("issuer https://a", errors.New("oidc: email not verified"))
		refuse(t, r, "/api", "Bearer x", bad)
		if got := logged(); !strings.Contains(got, `level=WARN msg="Unable to authenticate the request" path=/api client=192.0.2.1:9 error="issuer https://a: oidc: email not verified"`) || strings.Count(got, "\n") != 1 {
			t.Errorf("first: got %s", got)
		}
		for range 5 {
			refuse(t, r, "/api", "Bearer x", bad)
		}
		refuse(t, r, "/api", "Bearer x", authn.Refused("issuer https://b", errors.New("oidc: email not verified")))
		if got := logged(); !strings.Contains(got, "issuer https://b: ") || strings.Count(got, "\n") != 1 {
			t.Errorf("repeated, and of another issuer: got %s", got)
		}
		time.Sleep(time.Minute)
		refuse(t, r, "/api", "Bearer x", bad)
		if got := logged(); !strings.Contains(got, "repeated=5 within=1m0s") {
			t.Errorf("after a minute: got %s", got)
		}
		refuse(t, r, "/api", "", nil)
		if got := logged(); !strings.Contains(got, `error="no credentials provided"`) {
			t.Errorf("without a credential: got %s", got)
		}
		refuse(t, r, "/api", "Bearer x", authn.Outage("token webhook", "Failed to make webhook authenticator request", errors.New("connection refused")))
		if got := logged(); !strings.Contains(got, `level=ERROR msg="Failed to make webhook authenticator request" error="token webhook: connection refused"`) || !strings.Contains(got, "level=WARN") {
			t.Errorf("outage: got %s", got)
		}
	})
}

// TestRefusalsAreBounded holds that strangers cannot fill the log, and that an authenticator's reasons are logged however many others
// there are.
func TestRefusalsAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log bytes.Buffer
		all := slog.New(often.New(slog.NewTextHandler(&log, nil)))
		r := New(all)
		letters := func(n int) string {
			return strings.Map(func(c rune) rune { return 'a' + c - '0' }, fmt.Sprint(n))
		}
		for n := range 5000 {
			refuse(t, r, "/"+strings.Repeat("p", 100_000), "Bearer x", authn.Refused("issuer https://a", errors.New("unexpected algorithm "+letters(n)+strings.Repeat("é\x00", 10_000))))
		}
		if lines := strings.Count(log.String(), "\n"); lines != reasonKinds+1 || log.Len() > lines*8*(reasonBytes+pathBytes) {
			t.Errorf("got %d lines of %d bytes", lines, log.Len())
		}
		if !strings.Contains(log.String(), "others=true") {
			t.Error("no line says that there are more reasons")
		}
		log.Reset()
		refuse(t, r, "/", "Bearer x", authn.Refused("token webhook", errors.New("expired")))
		all.Warn("another warning")
		if got := log.String(); !strings.Contains(got, "token webhook: expired") || !strings.Contains(got, "another warning") {
			t.Errorf("after a flood: got %s", got)
		}
		log.Reset()
		for n := range 1000 {
			refuse(t, r, "/", "Bearer x", authn.Refused(letters(n), errors.New("no")))
		}
		if lines := strings.Count(log.String(), "\n"); lines > reasonBys+1 {
			t.Errorf("many authenticators: got %d lines", lines)
		}
	})
}

// TestNoTokenInTheLog holds that no part of a token gets into the log, whoever returns it in an error.
func TestNoTokenInTheLog(t *testing.T) {
	const token = "eyJhbGciOiJSUzI1NiJ9.eyJpc3MiOiJodHRwczovL2EifQ.c2lnbmF0dXJl"
	for _, row := range []struct{ header, path, text, want string }{
		{"Bearer " + token, "/", "unknown token " + token + ", sorry", "unknown token [token], sorry"},
		{"Bearer " + token, "/", "payload eyJpc3MiOiJodHRwczovL2EifQ is bad", "payload [token] is bad"},
		{"bearer  " + token, "/x/" + token, "prefix eyJhbGci…", "prefix [token]…"},
		{"Bearer s3cr3t", "/", "no user has s3cr3t", "no user has [token]"},
		{"Basic YTpi", "/", "not accepted: YTpi", "not accepted: [token]"},
		{token, "/", "not accepted: " + token, "not accepted: [token]"},
		{"Bearer " + strings.Repeat(token, 900), "/", strings.Repeat(token, 900), "[token]…[token]"},
		{"Bearer other", "/", "begins " + strings.Repeat("x", 5000) + " ends", "begins " + strings.Repeat("x", 505) + "…" + strings.Repeat("x", 507) + " ends"},
		{"Bearer other", "/", "a\nb\x1b[31m\u202e\xff", "a\ufffdb\ufffd[31m\ufffd\ufffd"},
	} {
		var log bytes.Buffer
		refuse(t, New(slog.New(slog.NewJSONHandler(&log, nil))), row.path, row.header, errors.New(row.text))
		if got := log.String(); !strings.Contains(got, `"error":"`+row.want+`"`) || strings.Contains(got, token) {
			t.Errorf("%.60s: got %.300s, want %s", row.text, got, row.want)
		}
	}
}
