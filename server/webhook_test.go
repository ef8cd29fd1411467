package server

import (
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/keelson-io/keelson/internal/store/mem"
	"github.com/keelson-io/keelson/internal/testcerts"
)

// This file lets webhooks of its own take part in admission, for the tests of
// what stands beside them. What webhooks themselves may do is tried by package
// e2e.

// review is what a webhook was sent.
type review struct {
	APIVersion string `json:"apiVersion"`
	Kind       string `json:"kind"`
	Request    struct {
		UID             string           `json:"uid"`
		Kind            groupVersionKind `json:"kind"`
		Resource        map[string]string
		RequestKind     groupVersionKind
		SubResource     string
		Name, Namespace string
		Operation       string
		UserInfo        struct{ Username string }
		Object          map[string]any
		OldObject       map[string]any
		DryRun          bool
		Options         map[string]any
	} `json:"request"`
}

type groupVersionKind struct{ Group, Version, Kind string }

// behave is what a webhook answers to a review; "" hangs up.
type behave func(r *review) (code int, body string)

// answerOf returns an AdmissionReview with a response. %s is replaced by the uid.
func answerOf(response string) behave {
	return func(r *review) (int, string) {
		return 200, `{"apiVersion":"` + r.APIVersion + `","kind":"AdmissionReview","response":` +
			strings.ReplaceAll(response, "%s", r.Request.UID) + `}`
	}
}

// patching answers with a JSON patch.
func patching(patch string) behave {
	b, _ := json.Marshal([]byte(patch))
	return answerOf(`{"uid":"%s","allowed":true,"patchType":"JSONPatch","patch":` + string(b) + `}`)
}

// hooks is a server of webhooks: each path behaves in its way.
type hooks struct{ *httptest.Server }

func serveHooks(t *testing.T, by map[string]behave) *hooks {
	h := new(hooks)
	h.Server = httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			return // the server gave the call up
		}
		var v review
		if err := json.Unmarshal(body, &v); err != nil {
			t.Errorf("%s: not a review: %s", r.URL.Path, body)
		}
		do := by[strings.TrimPrefix(r.URL.Path, "/")]
		if do == nil {
			http.NotFound(w, r)
			return
		}
		code, text := do(&v)
		if code == 0 {
			panic(http.ErrAbortHandler)
		}
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(code)
		io.WriteString(w, text)
	}))
	h.Config.ErrorLog = nil
	t.Cleanup(h.Close)
	return h
}

func (h *hooks) ca() string {
	return string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: h.Certificate().Raw}))
}

// hookFor describes one webhook of a configuration. more are further members.
func (h *hooks) hookFor(name, more string) string {
	ca, _ := json.Marshal([]byte(h.ca()))
	hook := fmt.Sprintf(`"name":"%s.demo.io","admissionReviewVersions":["v1"],"sideEffects":"None",
		"clientConfig":{"url":"%s/%s","caBundle":%s},
		"rules":[{"operations":["*"],"apiGroups":["demo.io"],"apiVersions":["*"],"resources":["widgets"]}]`, name, h.URL, name, ca)
	if more != "" {
		hook += "," + more // of equal members the last one counts
	}
	return "{" + hook + "}"
}

// configure installs a configuration and waits until it is in force.
func (r *running) configure(kind, name string, hooks ...string) {
	r.t.Helper()
	plural := strings.ToLower(kind) + "s"
	r.must("POST", "/apis/admissionregistration.k8s.io/v1/"+plural, `{"apiVersion":"admissionregistration.k8s.io/v1","kind":"`+kind+
		`","metadata":{"name":"`+name+`"},"webhooks":[`+strings.Join(hooks, ",")+`]}`)
	r.settle()
}

// settle waits until the server's cache has everything that was written.
func (r *running) settle() {
	r.t.Helper()
	for _, plural := range []string{"mutatingwebhookconfigurations", "validatingwebhookconfigurations",
		"validatingadmissionpolicies", "validatingadmissionpolicybindings", "mutatingadmissionpolicies", "mutatingadmissionpolicybindings"} {
		r.must("GET", "/apis/admissionregistration.k8s.io/v1/"+plural, "") // as new as every write
	}
}

const (
	mutatingConfig   = "MutatingWebhookConfiguration"
	validatingConfig = "ValidatingWebhookConfiguration"
	widgetA          = `{"apiVersion":"demo.io/v1","kind":"Widget","metadata":{"name":"a"},"spec":{"color":"red"}}`
)

// TestWeakCertificatesAreCounted holds that the server counts the certificates of admission webhooks
// in its metrics.
func TestWeakCertificatesAreCounted(t *testing.T) {
	authority := testcerts.Sign(t, &x509.Certificate{Subject: pkix.Name{CommonName: "authority"}, IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign}, nil)
	hook := httptest.NewUnstartedServer(http.NotFoundHandler())
	hook.TLS = &tls.Config{Certificates: []tls.Certificate{testcerts.Sign(t, &x509.Certificate{Subject: pkix.Name{CommonName: "localhost"}}, &authority)}}
	hook.Config.ErrorLog = log.New(io.Discard, "", 0)
	hook.StartTLS()
	defer hook.Close()
	reg := prometheus.NewRegistry()
	r := start(t, Config{Store: mem.New(mem.Options{}), Metrics: reg})
	r.must("POST", "/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations", fmt.Sprintf(`{"metadata":{"name":"weak"},"webhooks":[{"name":"weak.example.org","sideEffects":"None",`+
		`"admissionReviewVersions":["v1"],"clientConfig":{"url":%q,"caBundle":%q},"rules":[{"apiGroups":[""],"apiVersions":["v1"],"resources":["limitranges"],"operations":["CREATE"]}]}]}`,
		strings.Replace(hook.URL, "127.0.0.1", "localhost", 1), base64.StdEncoding.EncodeToString(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: authority.Certificate[0]}))))
	refused := 0
	r.until("the webhook is called", func() bool {
		code, text := r.call(r.client, "POST", "/api/v1/namespaces/default/limitranges?dryRun=All", `{"metadata":{"name":"c"}}`)
		if code == 500 && strings.Contains(text, "use SANs instead") {
			refused++
		}
		return refused == 2
	})
	families, err := reg.Gather()
	if err != nil {
		t.Fatal(err)
	}
	counted := 0.0
	for _, f := range families {
		if f.GetName() == "apiserver_webhooks_x509_missing_san_total" {
			counted = f.GetMetric()[0].GetCounter().GetValue()
		}
	}
	if counted != 2 {
		t.Errorf("got %v, want 2", counted)
	}
}
