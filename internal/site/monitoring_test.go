package main

import (
	"encoding/json"
	"os"
	"regexp"
	"strings"
	"testing"

	"sigs.k8s.io/yaml"
)

// This file tests the dashboard and the alerts of deploy/.

// TestMonitoring holds that the dashboard and the alerts use only metrics and labels that a server has.
func TestMonitoring(t *testing.T) {
	families, _, err := gather()
	if err != nil {
		t.Fatal(err)
	}
	labels := map[string]map[string]bool{"up": {}}
	for _, f := range families {
		names := map[string]bool{}
		for _, m := range f.GetMetric() {
			for _, l := range m.GetLabel() {
				names[l.GetName()] = true
			}
		}
		labels[f.GetName()] = names
		if strings.HasSuffix(f.GetType().String(), "HISTOGRAM") {
			for _, end := range []string{"_bucket", "_sum", "_count"} {
				labels[f.GetName()+end] = names
			}
		}
	}
	for from, expressions := range map[string][]string{"grafana.json": dashboard(t), "alerts.yaml": alerts(t)} {
		if len(expressions) < 5 {
			t.Errorf("deploy/%s: got %d expressions, want more", from, len(expressions))
		}
		for _, e := range expressions {
			for _, why := range unknownNames(e, labels) {
				t.Errorf("deploy/%s: %s: %s", from, e, why)
			}
		}
	}
	for _, wrong := range []string{"rate(apiserver_requests_total[5m])", `sum by (verbs) (apiserver_request_total)`, `apiserver_request_total{status="200"}`} {
		if len(unknownNames(wrong, labels)) == 0 {
			t.Errorf("%s: got no complaint", wrong)
		}
	}
}

// dashboard returns the expressions of deploy/grafana.json.
func dashboard(t *testing.T) []string {
	text, err := os.ReadFile("../../deploy/grafana.json")
	if err != nil {
		t.Fatal(err)
	}
	var d struct {
		Panels []struct{ Targets []struct{ Expr string } }
	}
	if err := json.Unmarshal(text, &d); err != nil {
		t.Fatal(err)
	}
	var out []string
	for _, p := range d.Panels {
		for _, target := range p.Targets {
			out = append(out, target.Expr)
		}
	}
	return out
}

// alerts returns the expressions of deploy/alerts.yaml.
func alerts(t *testing.T) []string {
	text, err := os.ReadFile("../../deploy/alerts.yaml")
	if err != nil {
		t.Fatal(err)
	}
	var a struct {
		Groups []struct {
			Name  string
			Rules []struct {
				Alert, Expr, For    string
				Labels, Annotations map[string]string
			}
		}
	}
	if err := yaml.UnmarshalStrict(text, &a); err != nil {
		t.Fatal(err)
	}
	var out []string
	for _, g := range a.Groups {
		for _, r := range g.Rules {
			out = append(out, r.Expr)
		}
	}
	return out
}

var (
	selectors = regexp.MustCompile(`([a-z_]+)\{([^}]*)\}`)
	grouping  = regexp.MustCompile(`\b(by|without)\s*\(([^)]*)\)`)
	matchers  = regexp.MustCompile(`([a-z_]+)\s*(=~|!~|!=|=)`)
	ranges    = regexp.MustCompile(`\[[^\]]*\]`)
	names     = regexp.MustCompile(`[a-z][a-z_]*_[a-z_]+\b|\bup\b`)
	functions = map[string]bool{"histogram_quantile": true}
)

// unknownNames returns the metrics and labels of an expression that no server has. Every scrape has job and instance, every bucket le.
func unknownNames(expression string, labels map[string]map[string]bool) []string {
	var out []string
	usual := map[string]bool{"job": true, "instance": true, "le": true}
	here := map[string]bool{}
	bare := ranges.ReplaceAllString(grouping.ReplaceAllString(selectors.ReplaceAllString(expression, "$1"), ""), "")
	for _, name := range names.FindAllString(bare, -1) {
		if functions[name] {
			continue
		}
		if labels[name] == nil {
			out = append(out, "there is no metric "+name)
		}
		for l := range labels[name] {
			here[l] = true
		}
	}
	var used []string
	for _, m := range selectors.FindAllStringSubmatch(expression, -1) {
		for _, l := range matchers.FindAllStringSubmatch(m[2], -1) {
			used = append(used, l[1])
		}
	}
	for _, m := range grouping.FindAllStringSubmatch(expression, -1) {
		for l := range strings.SplitSeq(m[2], ",") {
			used = append(used, strings.TrimSpace(l))
		}
	}
	for _, l := range used {
		if !usual[l] && !here[l] {
			out = append(out, "its metrics have no label "+l)
		}
	}
	return out
}
