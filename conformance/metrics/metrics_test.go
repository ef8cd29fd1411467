// Package metrics compares the metrics of a server with upstream's: whatever has a name that upstream knows has upstream's help,
// with its stability, type, labels and buckets.
package metrics

import (
	"fmt"
	"math"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"
	"k8s.io/client-go/rest"

	"github.com/keelson-io/keelson/internal/authz/config"
	"github.com/keelson-io/keelson/server"
	"github.com/keelson-io/keelson/servertest"
)

// everything is a server that counts whatever a server counts. It returns its registry and a client.
func everything(t *testing.T) (*prometheus.Registry, *http.Client, string) {
	t.Helper()
	dir := t.TempDir()
	write := func(name, text string) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	hook := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		fmt.Fprint(w, `{"apiVersion":"authorization.k8s.io/v1","kind":"SubjectAccessReview","status":{"allowed":false}}`)
	}))
	t.Cleanup(hook.Close)
	kubeconfig := write("hook", `{"apiVersion":"v1","kind":"Config","clusters":[{"name":"c","cluster":{"server":"`+hook.URL+`"}}],
		"contexts":[{"name":"c","context":{"cluster":"c","user":"u"}}],"users":[{"name":"u"}],"current-context":"c"}`)
	authorization := write("authz.yaml", `{"apiVersion":"apiserver.config.k8s.io/v1","kind":"AuthorizationConfiguration","authorizers":[
		{"type":"Webhook","name":"hook","webhook":{"timeout":"3s","subjectAccessReviewVersion":"v1","matchConditionSubjectAccessReviewVersion":"v1",
		"failurePolicy":"NoOpinion","connectionInfo":{"type":"KubeConfigFile","kubeConfigFile":"`+kubeconfig+`"},
		"matchConditions":[{"expression":"request.user != 'nobody'"}]}},{"type":"Node","name":"node"},{"type":"RBAC","name":"rbac"}]}`)
	authentication := write("authn.yaml", `{"apiVersion":"apiserver.config.k8s.io/v1","kind":"AuthenticationConfiguration","jwt":[
		{"issuer":{"url":"https://127.0.0.1:1","audiences":["a"]},"claimMappings":{"username":{"claim":"sub","prefix":""}}}]}`)
	audit := write("audit.yaml", `{"apiVersion":"audit.k8s.io/v1","kind":"Policy","rules":[{"level":"Metadata"}]}`)
	metrics := prometheus.NewRegistry()
	s := servertest.Start(t, servertest.Configure(func(c *server.Config) {
		c.Metrics, c.Authorization, c.AuditPolicyFile = metrics, config.Flags{File: authorization}, audit
		c.Authentication.ConfigFile, c.Authentication.Webhook.ConfigFile, c.AuditLog.Path = authentication, kubeconfig, filepath.Join(dir, "audit.log")
	}))
	client, err := rest.HTTPClientFor(s.Config)
	if err != nil {
		t.Fatal(err)
	}
	return metrics, client, s.Config.Host
}

var described = regexp.MustCompile(`^Desc\{fqName: (".*?"), help: (".*"), unit: ".*", constLabels: \{(.*)\}, variableLabels: \{(.*)\}\}$`)

// registered are the metrics of a registry; of those that have no value yet the type and the buckets are not known.
func registered(t *testing.T, reg *prometheus.Registry) map[string]metric {
	t.Helper()
	descs := make(chan *prometheus.Desc, 1000)
	reg.Describe(descs)
	close(descs)
	all := map[string]metric{}
	for d := range descs {
		m := described.FindStringSubmatch(d.String())
		if m == nil {
			t.Fatalf("description is not understood: %s", d)
		}
		name, err := strconv.Unquote(m[1])
		if err != nil {
			t.Fatal(err)
		}
		help, err := strconv.Unquote(m[2])
		if err != nil {
			t.Fatal(err)
		}
		all[name] = metric{help: help, labels: split(m[4])}
	}
	families, err := reg.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range families {
		m := all[f.GetName()]
		m.kind = strings.ToLower(f.GetType().String())
		if f.GetType() == dto.MetricType_HISTOGRAM {
			for _, b := range f.GetMetric()[0].GetHistogram().GetBucket() {
				m.buckets = append(m.buckets, b.GetUpperBound())
			}
		}
		all[f.GetName()] = m
	}
	return all
}

func split(list string) []string {
	if list == "" {
		return nil
	}
	return strings.Split(list, ",")
}

// kubernetes is the module of the rest of kube-apiserver, which nothing here is built of.
const kubernetes = "k8s.io/kubernetes@v1.37.1"

// TestMetrics compares the metrics.
func TestMetrics(t *testing.T) {
	want := readUpstream(t, "k8s.io/apiserver", "k8s.io/apiextensions-apiserver", kubernetes+" pkg/serviceaccount", kubernetes+" plugin/pkg/auth", "k8s.io/pod-security-admission")
	if len(want) < 150 {
		t.Fatalf("only %d metrics were found in upstream's source", len(want))
	}
	reg, client, host := everything(t)
	for _, path := range []string{"/api/v1/namespaces/default", "/api/v1/namespaces", "/nothing"} {
		resp, err := client.Get(host + path)
		if err != nil {
			t.Fatal(err)
		}
		resp.Body.Close()
	}
	for name, got := range registered(t, reg) {
		if strings.HasPrefix(name, "go_") || strings.HasPrefix(name, "process_") {
			continue // the same library's
		}
		if strings.HasPrefix(name, "keelson_") {
			continue // of something that upstream does not count
		}
		w, known := want[name]
		if !known {
			t.Errorf("%s: upstream has no such metric", name)
			continue
		}
		if got.help != w.help {
			t.Errorf("%s: help\n got %s\nwant %s", name, got.help, w.help)
		}
		slices.Sort(got.labels)
		slices.Sort(w.labels)
		if !slices.Equal(got.labels, w.labels) {
			t.Errorf("%s: labels\n got %q\nwant %q", name, got.labels, w.labels)
		}
		if got.kind != "" && w.kind != "" && got.kind != w.kind {
			t.Errorf("%s: got a %s, want a %s", name, got.kind, w.kind)
		}
		if got.buckets != nil && w.kind == "histogram" && !slices.EqualFunc(got.buckets, w.buckets, func(a, b float64) bool { return math.Abs(a-b) <= 1e-9*math.Abs(b) }) {
			t.Errorf("%s: buckets\n got %v\nwant %v", name, got.buckets, w.buckets)
		}
	}
}
