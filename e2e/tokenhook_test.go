package e2e

import (
	"encoding/json"
	"encoding/pem"
	"fmt"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"
)

// This file is a webhook that knows whose a token is, and what becomes of requests when it is slow, wrong or dead.

// tokenHook answers a TokenReview by the token's text.
type tokenHook struct {
	*httptest.Server
	version string

	mu    sync.Mutex
	calls map[string]int
}

func newTokenHook(t *testing.T, version string) *tokenHook {
	h := &tokenHook{version: version, calls: map[string]int{}}
	h.Server = httptest.NewUnstartedServer(h)
	h.Config.ErrorLog = log.New(io.Discard, "", 0)
	h.StartTLS()
	t.Cleanup(func() {
		h.CloseClientConnections()
		h.Close()
	})
	return h
}

func (h *tokenHook) kubeconfig(t *testing.T) string {
	t.Helper()
	ca, err := json.Marshal(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: h.Certificate().Raw}))
	if err != nil {
		t.Fatal(err)
	}
	return putFile(t, "hook.kubeconfig", fmt.Sprintf("{apiVersion: v1, kind: Config, current-context: c, contexts: [{name: c, context: {cluster: c, user: u}}], clusters: [{name: c, cluster: {server: '%s', certificate-authority-data: %s}}], users: [{name: u, user: {}}]}",
		h.URL+"/review", ca))
}

func (h *tokenHook) asked(token string) int {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.calls[token]
}

func (h *tokenHook) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	var review struct {
		APIVersion, Kind string
		Spec             struct {
			Token     string
			Audiences []string
		}
	}
	if err := json.NewDecoder(r.Body).Decode(&review); err != nil || review.Kind != "TokenReview" || review.APIVersion != "authentication.k8s.io/"+h.version || r.URL.Path != "/review" {
		w.WriteHeader(400)
		return
	}
	token := review.Spec.Token
	h.mu.Lock()
	h.calls[token]++
	n := h.calls[token]
	h.mu.Unlock()
	answer := func(status string) {
		fmt.Fprintf(w, `{"apiVersion":"authentication.k8s.io/%s","kind":"TokenReview","status":%s}`, h.version, status)
	}
	const ann = `{"authenticated":true,"user":{"username":"ann","uid":"7","groups":["dev"],"extra":{"k":["v"]}}}`
	switch token {
	case "good":
		answer(ann)
	case "slow":
		time.Sleep(300 * time.Millisecond)
		answer(ann)
	case "audience":
		answer(strings.Replace(ann, `"authenticated":true`, `"authenticated":true,"audiences":["`+review.Spec.Audiences[0]+`"]`, 1))
	case "for-others":
		answer(strings.Replace(ann, `"authenticated":true`, `"authenticated":true,"audiences":["others"]`, 1))
	case "no":
		answer(`{"authenticated":false,"user":{"username":"ann"}}`)
	case "error":
		answer(`{"authenticated":true,"error":"expired","user":{"username":"ann"}}`)
	case "refused":
		answer(`{"error":"expired"}`)
	case "anonymous":
		answer(`{"authenticated":true,"user":{"username":"system:anonymous"}}`)
	case "flaky":
		if n == 1 {
			w.WriteHeader(500)
			return
		}
		answer(ann)
	case "unavailable":
		w.WriteHeader(503)
		answer(ann)
	case "unauthorized":
		w.WriteHeader(401)
		answer(ann)
	case "redirect":
		http.Redirect(w, r, h.URL+"/elsewhere", http.StatusFound)
	case "other-version":
		io.WriteString(w, `{"apiVersion":"authentication.k8s.io/v2","kind":"TokenReview","status":`+ann+`}`)
	case "other-kind":
		io.WriteString(w, `{"apiVersion":"authentication.k8s.io/`+h.version+`","kind":"SubjectAccessReview","status":{"allowed":true,"authenticated":true,"user":{"username":"ann"}}}`)
	case "no-kind":
		io.WriteString(w, `{"status":`+ann+`}`)
	case "html":
		io.WriteString(w, "<html>authenticated</html>")
	case "nothing":
	case "half":
		w.Header().Set("Content-Length", "1000")
		answer(ann)
		w.(http.Flusher).Flush()
		panic(http.ErrAbortHandler)
	case "hangs-up":
		panic(http.ErrAbortHandler)
	default:
		answer(`{"authenticated":false}`)
	}
}

func TestTokenWebhook(t *testing.T) {
	for version, flags := range map[string][]string{"v1beta1": nil, "v1": {"--authentication-token-webhook-version", "v1"}} {
		t.Run(version, func(t *testing.T) {
			t.Parallel()
			h := newTokenHook(t, version)
			s := startServer(t, append([]string{"--authentication-token-webhook-config-file", h.kubeconfig(t), "--authentication-token-webhook-cache-ttl", "1m"}, flags...)...)
			v := newVisitor(t, s, nil)
			const ann = "ann 7 [dev system:authenticated] map[k:[v]]"
			for token, row := range map[string]struct {
				want  string
				calls int
			}{
				"good": {ann, 1}, "slow": {ann, 1}, "audience": {ann, 1}, "flaky": {ann, 2}, "unknown": {"401", 1}, "for-others": {"401", 1}, "no": {"401", 1}, "refused": {"401", 2},
				"error":     {"ann [system:authenticated]", 1}, // who is authenticated is, as upstream has it
				"anonymous": {"403", 1}, "unavailable": {"401", 2}, "unauthorized": {"401", 2}, "other-version": {"401", 2}, "other-kind": {"401", 2},
				"html": {"401", 2}, "nothing": {"401", 2}, "half": {"401", 2}, "redirect": {"401", 2},
			} {
				// Twice: what is known is not asked again, an error is.
				for range 2 {
					if got := v.who(t, bearer(token)...); got != row.want {
						t.Errorf("%s: got %s, want %s", token, got, row.want)
					}
				}
				if n := h.asked(token); n != row.calls && !(token == "half" || token == "redirect") {
					t.Errorf("%s: asked %d times, want %d", token, n, row.calls)
				}
			}
			// Others come in while one token is asked about, and it is asked about once.
			var all sync.WaitGroup
			for range 10 {
				all.Go(func() {
					if got := v.who(t, bearer("slow")...); got != ann {
						t.Errorf("slow: got %s", got)
					}
				})
			}
			all.Wait()
			for code, want := range map[string]bool{"200": true, "<error>": true, "418": false} {
				if n := s.metric(t, fmt.Sprintf(`apiserver_delegated_authn_request_total{code=%q}`, code)); (n != "") != want {
					t.Errorf("apiserver_delegated_authn_request_total of %s: got %q", code, n)
				}
			}
			h.Close()
			if got := v.who(t, bearer("good")...); got != ann {
				t.Errorf("what is remembered when the webhook is gone: got %s", got)
			}
			for _, token := range []string{"new", "anonymous2"} {
				if got := v.who(t, bearer(token)...); got != "401" {
					t.Errorf("a new token when the webhook is gone: got %s", got)
				}
			}
			if got := v.who(t); got != "403" {
				t.Errorf("without a token: got %s", got)
			}
		})
	}
	refuses(t, `unsupported authentication webhook version "v2"`, "serve", "--data-dir", t.TempDir(), "--secure-port", "0",
		"--authentication-token-webhook-version", "v2", "--authentication-token-webhook-config-file", newTokenHook(t, "v1").kubeconfig(t))
}
