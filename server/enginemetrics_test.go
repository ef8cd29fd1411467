package server

import (
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"net/http"
	"net/http/httptest"
	"regexp"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/keelson-io/keelson/internal/store/mem"
)

// This file holds the metrics of validation and conversion.

// counts returns the numbers of the series named, 0 for those that are not there.
func (r *running) counts(names ...string) []float64 {
	r.t.Helper()
	text := r.must("GET", "/metrics", "")
	out := make([]float64, len(names))
	for i, name := range names {
		if m := regexp.MustCompile(`(?m)^` + regexp.QuoteMeta(name) + ` (\S+)$`).FindStringSubmatch(text); m != nil {
			n, err := strconv.ParseFloat(m[1], 64)
			if err != nil {
				r.t.Fatal(err)
			}
			out[i] = n
		}
	}
	return out
}

// TestEngineMetrics holds that rules, ratcheting and conversion calls are measured under upstream's
// names.
// Ledger: cel-metrics, conversion-metrics, openapi-metrics.
func TestEngineMetrics(t *testing.T) {
	var broken atomic.Bool
	hook := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, q *http.Request) {
		var review map[string]any
		if err := json.NewDecoder(q.Body).Decode(&review); err != nil {
			t.Error(err)
		}
		request := review["request"].(map[string]any)
		objects := request["objects"].([]any)
		for _, o := range objects {
			o.(map[string]any)["apiVersion"] = request["desiredAPIVersion"]
		}
		review["response"] = map[string]any{"uid": request["uid"], "result": map[string]any{"status": "Success"}, "convertedObjects": objects}
		if broken.Load() {
			review["response"] = nil
		}
		if err := json.NewEncoder(w).Encode(review); err != nil {
			t.Error(err)
		}
	}))
	defer hook.Close()
	ca := base64.StdEncoding.EncodeToString(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: hook.Certificate().Raw}))
	r := start(t, Config{Store: mem.New(mem.Options{})})
	const (
		compiled = "apiserver_cel_compilation_duration_seconds_count"
		ran      = "apiserver_cel_evaluation_duration_seconds_count"
		ratchet  = "apiextensions_apiserver_validation_ratcheting_seconds_count"
		asked    = `apiserver_conversion_webhook_request_total{failure_type="",result="success"}`
		took     = `apiserver_conversion_webhook_duration_seconds_count{failure_type="",result="success"}`
		failed   = `apiserver_conversion_webhook_request_total{failure_type="conversion_webhook_malformed_response_failure",result="failure"}`
		between  = `apiserver_crd_conversion_webhook_duration_seconds_count{crd_name="gears.demo.io",from_version="v1",succeeded="true",to_version="v2"}`
		within   = `apiserver_crd_conversion_webhook_duration_seconds_count{crd_name="gears.demo.io",from_version="v1",succeeded="false",to_version="v2"}`
	)
	names := []string{compiled, ran, ratchet, asked, took, failed, between, within}
	was := r.counts(names...)
	step := func(what string, want ...float64) {
		t.Helper()
		now := r.counts(names...)
		for i, name := range names {
			if i < len(want) && now[i]-was[i] != want[i] {
				t.Errorf("%s: %s goes up by %v, want %v", what, name, now[i]-was[i], want[i])
			}
		}
		was = now
	}
	// What is compiled already is not compiled again: so the rule is new to the process.
	version := `"served":true,"schema":{"openAPIV3Schema":{"type":"object","properties":{"spec":{"type":"object","properties":{"teeth":{"type":"integer","maximum":9}},"x-kubernetes-validations":[{"rule":"self.teeth > 2 && '` + t.Name() + time.Now().String() + `' != ''"}]}}}}}`
	r.must("POST", "/apis/apiextensions.k8s.io/v1/customresourcedefinitions", `{"apiVersion":"apiextensions.k8s.io/v1","kind":"CustomResourceDefinition","metadata":{"name":"gears.demo.io"},
		"spec":{"group":"demo.io","scope":"Cluster","names":{"plural":"gears","kind":"Gear"},"versions":[{"name":"v1","storage":true,`+version+`,{"name":"v2","storage":false,`+version+`],
		"conversion":{"strategy":"Webhook","webhook":{"conversionReviewVersions":["v1"],"clientConfig":{"url":"`+hook.URL+`","caBundle":"`+ca+`"}}}}}`)
	const gears = "/apis/demo.io/v1/gears"
	r.serves(gears)
	before := was[0]
	step("the definition")
	if was[0] == before {
		t.Errorf("%s does not go up with a definition", compiled)
	}
	gear := func(name, teeth string) string {
		return `{"apiVersion":"demo.io/v1","kind":"Gear","metadata":{"name":"` + name + `"},"spec":{"teeth":` + teeth + `}}`
	}
	r.must("POST", gears, gear("a", "3"))
	was[0] = r.counts(compiled)[0]
	step("a create", 0, 1, 0, 0)
	if code, _ := r.call(r.client, "POST", gears, gear("b", "1")); code != 422 {
		t.Errorf("a gear of one tooth: got %d, want 422", code)
	}
	step("a rule that fails", 0, 1, 0, 0)
	r.must("PATCH", gears+"/a", `{"spec":{"teeth":4}}`, "Content-Type", "application/merge-patch+json")
	step("an update", 0, 1, 1, 0)
	if code, _ := r.call(r.client, "PATCH", gears+"/a", `{"spec":{"teeth":10}}`, "Content-Type", "application/merge-patch+json"); code != 422 {
		t.Errorf("a gear of ten teeth: got %d, want 422", code)
	}
	step("an update that is invalid", 0, 1, 1, 0)
	r.must("GET", "/apis/demo.io/v2/gears/a", "")
	step("a conversion", 0, 0, 0, 1, 1, 0, 1, 0)
	broken.Store(true)
	r.must("POST", gears, gear("c", "3"))
	step("another create", 0, 1, 0, 0)
	if code, _ := r.call(r.client, "GET", "/apis/demo.io/v2/gears/c", ""); code != 500 {
		t.Errorf("a webhook that is broken: got %d, want 500", code)
	}
	step("a conversion that fails", 0, 0, 0, 0, 0, 1, 0, 1)
	text := "\n" + r.must("GET", "/metrics", "")
	for _, line := range []string{
		"# HELP apiserver_cel_compilation_duration_seconds [BETA] CEL compilation time in seconds.",
		"# HELP apiserver_cel_evaluation_duration_seconds [BETA] CEL evaluation time in seconds.",
		"# HELP apiextensions_apiserver_validation_ratcheting_seconds [ALPHA] Time for comparison of old to new for the purposes of CRDValidationRatcheting during an UPDATE in seconds.",
		"# HELP apiserver_crd_conversion_webhook_duration_seconds [ALPHA] CRD webhook conversion duration in seconds",
		"# HELP apiserver_conversion_webhook_request_total [ALPHA] Counter for conversion webhook requests with success/failure and failure error type",
		"# HELP apiserver_conversion_webhook_duration_seconds [ALPHA] Conversion webhook request latency",
		`apiserver_cel_evaluation_duration_seconds_bucket{le="0.005"} `,
		`apiextensions_apiserver_validation_ratcheting_seconds_bucket{le="2.62144"} `,
		strings.Replace(strings.TrimSuffix(between, "}"), "_count", "_bucket", 1) + `,le="16.384"} 1`,
		`apiserver_conversion_webhook_duration_seconds_bucket{failure_type="",result="success",le="45"} 1`,
	} {
		if !strings.Contains(text, "\n"+line) {
			t.Errorf("metrics have no %s", line)
		}
	}
	if strings.Contains(text, "_regeneration_count") {
		t.Error("metrics have a count of regenerations, of which there are none")
	}
}
