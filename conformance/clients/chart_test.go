package clients

import (
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"
)

// This file renders Keelson's own chart with every value changed, and installs it on a server, where no pod runs.

const chart = "../../deploy/chart"

// chartValues has another value for each value of the chart, as JSON, and what the installed objects have then.
var chartValues = map[string]struct{ value, want string }{
	"image.repository":                {`"registry.example.com/k"`, `"image":"registry.example.com/k:v9"`},
	"image.tag":                       {`"v9"`, `"image":"registry.example.com/k:v9"`},
	"image.pullPolicy":                {`"Always"`, `"imagePullPolicy":"Always"`},
	"imagePullSecrets":                {`[{"name":"pull"}]`, `"imagePullSecrets":[{"name":"pull"}]`},
	"args":                            {`["--v=4","--audit-policy-file=/etc/a \"b\""]`, `"--v=4","--audit-policy-file=/etc/a \"b\""`},
	"names":                           {`["api.example.com"]`, `"--tls-san=api.example.com"`},
	"service.type":                    {`"NodePort"`, `"type":"NodePort"`},
	"service.port":                    {`443`, `"port":443`},
	"storage.size":                    {`"3Gi"`, `"storage":"3Gi"`},
	"storage.storageClass":            {`"fast"`, `"storageClassName":"fast"`},
	"resources.requests.cpu":          {`"250m"`, `"cpu":"250m"`},
	"resources.requests.memory":       {`"300Mi"`, `"memory":"300Mi"`},
	"resources.limits.memory":         {`"3Gi"`, `"limits":{"memory":"3Gi"}`},
	"serviceMonitor.enabled":          {`true`, `"kind":"ServiceMonitor"`},
	"serviceMonitor.tokenSecret.name": {`"token"`, `"credentials":{"key":"other","name":"token"}`},
	"serviceMonitor.tokenSecret.key":  {`"other"`, `"credentials":{"key":"other","name":"token"}`},
	"serviceMonitor.caSecret.name":    {`"authority"`, `"tlsConfig":{"ca":{"secret":{"key":"root.crt","name":"authority"}},"serverName":"api.example.com"}`},
	"serviceMonitor.caSecret.key":     {`"root.crt"`, `"tlsConfig":{"ca":{"secret":{"key":"root.crt","name":"authority"}},"serverName":"api.example.com"}`},
	"serviceMonitor.serverName":       {`"api.example.com"`, `"tlsConfig":{"ca":{"secret":{"key":"root.crt","name":"authority"}},"serverName":"api.example.com"}`},
	"nodeSelector":                    {`{"disk":"ssd"}`, `"nodeSelector":{"disk":"ssd"}`},
	"tolerations":                     {`[{"key":"dedicated","operator":"Exists"}]`, `"tolerations":[{"key":"dedicated","operator":"Exists"}]`},
	"affinity": {`{"nodeAffinity":{"requiredDuringSchedulingIgnoredDuringExecution":{"nodeSelectorTerms":[{"matchExpressions":[{"key":"zone","operator":"Exists"}]}]}}}`,
		`"matchExpressions":[{"key":"zone","operator":"Exists"}]`},
}

// serviceMonitors is the CRD of the Prometheus operator, with any schema.
const serviceMonitors = `
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: servicemonitors.monitoring.coreos.com}
spec:
  group: monitoring.coreos.com
  scope: Namespaced
  names: {plural: servicemonitors, kind: ServiceMonitor}
  versions:
  - name: v1
    served: true
    storage: true
    schema: {openAPIV3Schema: {type: object, x-kubernetes-preserve-unknown-fields: true}}
`

// leaves returns the paths of the values in a map, with dots. An empty map is a value.
func leaves(prefix string, values map[string]any) []string {
	var all []string
	for name, v := range values {
		if inner, ok := v.(map[string]any); ok && len(inner) > 0 {
			all = append(all, leaves(prefix+name+".", inner)...)
		} else {
			all = append(all, prefix+name)
		}
	}
	slices.Sort(all)
	return all
}

// TestChart holds that every value of the chart has an effect, and that a server takes what the chart makes with all of them.
func TestChart(t *testing.T) {
	text, err := os.ReadFile(filepath.Join(chart, "values.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	var values map[string]any
	if err := yaml.Unmarshal(text, &values); err != nil {
		t.Fatal(err)
	}
	paths := leaves("", values)
	for _, path := range paths {
		if chartValues[path].value == "" {
			t.Errorf("%s: got a value of the chart without another value in this test", path)
		}
	}
	if len(paths) != len(chartValues) {
		t.Errorf("the chart has %d values, want those %d of this test", len(paths), len(chartValues))
	}
	for _, version := range []string{"helm3", "helm4"} {
		t.Run(version, func(t *testing.T) {
			h := helm{start(t), programs[version], t.TempDir()}
			h.run("lint", "--strict", chart)
			for _, path := range paths {
				h.testEffect(path)
			}
			h.testMonitor()
			h.testChart(paths)
		})
	}
}

// testEffect checks that a value changes what the chart makes.
func (h helm) testEffect(path string) {
	h.t.Helper()
	args := []string{"template", "demo", chart}
	if strings.HasPrefix(path, "serviceMonitor.") && path != "serviceMonitor.enabled" {
		args = append(args, "--set", "serviceMonitor.enabled=true")
	}
	if h.run(args...) == h.run(append(args, "--set-json", path+"="+chartValues[path].value)...) {
		h.t.Errorf("%s: got the same objects with another value", path)
	}
}

// testMonitor checks that Prometheus verifies the server before it sends its token: the name of the Service, by the CA that the values name.
func (h helm) testMonitor() {
	h.t.Helper()
	for _, row := range []struct{ values, want string }{
		{`{"enabled":true,"tokenSecret":{"name":"t"}}`, `{"ca":{"secret":{"key":"ca.crt","name":"t"}},"serverName":"demo-keelson.shop.svc"}`},
		{`{"enabled":true,"tokenSecret":{"name":"t"},"caSecret":{"name":"c"}}`, `{"ca":{"secret":{"key":"ca.crt","name":"c"}},"serverName":"demo-keelson.shop.svc"}`},
		{`{"enabled":true,"tokenSecret":{"name":"t"},"caSecret":{"key":""}}`, `{"serverName":"demo-keelson.shop.svc"}`},
	} {
		var monitor struct {
			Spec struct {
				Endpoints []struct{ TLSConfig map[string]any }
			}
		}
		rendered := h.run("template", "demo", chart, "--set-json", "serviceMonitor="+row.values)
		_, text, ok := strings.Cut(rendered, "kind: ServiceMonitor\n")
		if err := yaml.Unmarshal([]byte(text), &monitor); err != nil || !ok || len(monitor.Spec.Endpoints) != 1 {
			h.t.Fatalf("%s: got %+v (%v)", row.values, monitor, err)
		}
		if got, err := json.Marshal(monitor.Spec.Endpoints[0].TLSConfig); err != nil || string(got) != row.want {
			h.t.Errorf("%s: got the TLS configuration %s (%v), want %s", row.values, got, err, row.want)
		}
	}
}

// testChart installs the chart with its own values, and with all of them changed.
func (h helm) testChart(paths []string) {
	h.t.Helper()
	var crd unstructured.Unstructured
	if err := yaml.Unmarshal([]byte(serviceMonitors), &crd.Object); err != nil {
		h.t.Fatal(err)
	}
	if _, err := h.client.Resource(kinds["crd"]).Create(context.Background(), &crd, metav1.CreateOptions{}); err != nil {
		h.t.Fatal(err)
	}
	h.run("install", "keelson", chart, "--create-namespace")
	h.holds("statefulset shop/keelson", "keelson", "spec", "serviceName")
	h.lacks("servicemonitor shop/keelson")
	args := []string{"upgrade", "--install", "all", chart}
	for _, path := range paths {
		args = append(args, "--set-json", path+"="+chartValues[path].value)
	}
	h.run(args...)
	var objects strings.Builder
	for _, kind := range []string{"statefulset", "service", "servicemonitor"} {
		o := h.get(kind + " shop/all-keelson")
		if o == nil {
			h.t.Fatalf("got no %s, want one", kind)
		}
		encoder := json.NewEncoder(&objects)
		encoder.SetEscapeHTML(false)
		if err := encoder.Encode(o.Object); err != nil {
			h.t.Fatal(err)
		}
	}
	for _, path := range paths {
		if want := chartValues[path].want; !strings.Contains(objects.String(), want) {
			h.t.Errorf("%s: got no %s in\n%s", path, want, objects.String())
		}
	}
}
