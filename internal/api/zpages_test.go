package api

import (
	"context"
	"io"
	"strings"
	"testing"
)

// This file tests the pages about the server itself.

// TestPages holds the forms of /statusz and /flagz, upstream's negotiation of them, and that only those who may read them.
func TestPages(t *testing.T) {
	s := newTestServer(t, func(c *setup) { c.Flags = map[string]string{"v": "0", "etcd-prefix": "/registry"} })
	for _, path := range []string{"/statusz", "/flagz"} {
		kind := map[string]string{"/statusz": "Statusz", "/flagz": "Flagz"}[path]
		s.must(403, "GET", path, "", "Test-User", "u")
		for _, accept := range []string{"text/plain", "*/*", "text/*;q=0.5"} {
			a := s.must(200, "GET", path, "", "Accept", accept)
			if !strings.HasPrefix(a.body, "\napiserver "+path[1:]+"\nWarning: This endpoint is not meant to be machine parseable") {
				t.Errorf("%s as %s: got %q", path, accept, a.body)
			}
		}
		for version, warned := range map[string]string{"v1beta1": "", "v1alpha1": `299 - "This version of the ` + path[1:] + ` endpoint is deprecated. Please use a newer version."`} {
			a := s.must(200, "GET", path, "", "Accept", "application/json;as="+kind+";g=config.k8s.io;v="+version)
			if a.text("kind") != kind || a.text("apiVersion") != "config.k8s.io/"+version || a.text("metadata", "name") != "apiserver" || a.header.Get("Warning") != warned {
				t.Errorf("%s of %s: got %s with the warning %q", path, version, a.body, a.header.Get("Warning"))
			}
		}
		for _, accept := range []string{"application/json", "application/yaml", "application/json;as=Other;g=config.k8s.io;v=v1beta1", "text/plain;as=" + kind + ";g=config.k8s.io;v=v1beta1", "image/png"} {
			a := s.must(406, "GET", path, "", "Accept", accept)
			if !strings.Contains(a.body, "only the following media types are accepted: application/json, application/yaml,") {
				t.Errorf("%s as %s: got %s", path, accept, a.body)
			}
		}
	}
	if a := s.must(200, "GET", "/flagz", "", "Accept", "application/yaml;as=Flagz;g=config.k8s.io;v=v1beta1"); !strings.Contains(a.body, "etcd-prefix: /registry") {
		t.Errorf("flags: got %s", a.body)
	}
	if a := s.must(200, "GET", "/statusz", "", "Accept", "application/json;as=Statusz;g=config.k8s.io;v=v1beta1"); !strings.Contains(a.body, `"binaryVersion":"1.37"`) || !strings.Contains(a.body, `"/metrics"`) {
		t.Errorf("status: got %s", a.body)
	}
	s.must(404, "GET", "/statusz/x", "")
}

// TestStatusPaths holds that /statusz names upstream's paths and no others: not those of the API, nor the snapshot.
func TestStatusPaths(t *testing.T) {
	s := newTestServer(t, func(c *setup) { c.Snapshot = func(context.Context, io.Writer) error { return nil } })
	if index := s.must(200, "GET", "/", ""); !strings.Contains(index.body, `"/snapshot"`) {
		t.Fatalf("index: got %s, want one with /snapshot", index.body)
	}
	a := s.must(200, "GET", "/statusz", "", "Accept", "application/json;as=Statusz;g=config.k8s.io;v=v1beta1")
	if want := `"paths":["/flagz","/healthz","/livez","/metrics","/readyz","/statusz","/version"]`; !strings.Contains(a.body, want) {
		t.Errorf("status: got %s, want %s", a.body, want)
	}
}

// TestProfiles holds that administrators can profile the server, and others cannot.
func TestProfiles(t *testing.T) {
	s := newTestServer(t)
	for path, want := range map[string]string{
		"/debug/pprof/":                  "goroutine",
		"/debug/pprof/goroutine?debug=1": "goroutine profile: total",
		"/debug/pprof/symbol":            "num_symbols",
		"/debug/pprof/profile?seconds=1": "",
		"/debug/pprof":                   "goroutine", // with a redirect
	} {
		if a := s.must(200, "GET", path, ""); !strings.Contains(a.body, want) {
			t.Errorf("%s: got %.100s, want %s", path, a.body, want)
		}
		s.must(403, "GET", path, "", "Test-User", "u")
	}
	s.must(404, "GET", "/debug/pprofs", "")
	s.must(404, "GET", "/debug/pprof/nothing", "")
}

// TestHealthIndicators holds that /metrics/slis has the results of the checks that were asked for.
func TestHealthIndicators(t *testing.T) {
	s := newTestServer(t)
	s.must(200, "GET", "/readyz", "")
	s.must(200, "GET", "/livez/ping", "")
	a := s.must(200, "GET", "/metrics/slis", "")
	for _, want := range []string{
		"# TYPE kubernetes_healthcheck gauge", `kubernetes_healthcheck{name="shutdown",type="readyz"} 1`,
		"# TYPE kubernetes_healthchecks_total counter", `kubernetes_healthchecks_total{name="ping",status="success",type="livez"} 1`,
	} {
		if !strings.Contains(a.body, want) {
			t.Errorf("got %s, want %s", a.body, want)
		}
	}
	s.must(403, "GET", "/metrics/slis", "", "Test-User", "u")
}
