package podsecurity

import (
	"maps"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/keelson-io/keelson/internal/admission/lookup"
	"github.com/keelson-io/keelson/internal/authn"
	"github.com/keelson-io/keelson/internal/testapi"
	"github.com/keelson-io/keelson/internal/testkit"
)

// messages records what a request's client gets.
type messages struct {
	warnings    []string
	annotations map[string]string
}

// Warn implements admission.Client.
func (m *messages) Warn(warnings ...string) { m.warnings = append(m.warnings, warnings...) }

// Annotate implements admission.Client.
func (m *messages) Annotate(key, value string) { m.annotations[key] = value }

// AnnotateRequest implements admission.Client.
func (m *messages) AnnotateRequest(string, string) {}

const (
	plain      = `{"metadata":{"name":"p"},"spec":{"containers":[{"name":"c","image":"i"}]}}`
	privileged = `{"metadata":{"name":"p"},"spec":{"containers":[{"name":"c","image":"i","securityContext":{"privileged":true}}]}}`
)

// TestLevels holds that pods are refused, warned about and annotated by the labels of their
// namespace, and that exempt users and namespaces are not checked.
func TestLevels(t *testing.T) {
	api := testapi.New(t)
	for name, labels := range map[string]string{
		"open": ``, "baseline": `"pod-security.kubernetes.io/enforce":"baseline"`, "restricted": `"pod-security.kubernetes.io/enforce":"restricted"`,
		"warned": `"pod-security.kubernetes.io/warn":"restricted"`, "audited": `"pod-security.kubernetes.io/audit":"baseline"`,
		"exempt": `"pod-security.kubernetes.io/enforce":"restricted"`,
	} {
		api.Must("POST", "/api/v1/namespaces", `{"apiVersion":"v1","kind":"Namespace","metadata":{"name":"`+name+`","labels":{`+labels+`}}}`)
	}
	registry := prometheus.NewRegistry()
	step := New(lookup.Source{Kinds: api.Kinds.Load, Cache: api.Cache}, &Configuration{Exemptions: Exemptions{Usernames: []string{"robot"}, Namespaces: []string{"exempt"}}}, NewMetrics(registry))
	for _, row := range []struct {
		at              testkit.Position
		namespace, user string
		subresource     string
		pod             string
		refused         string // text in the error, "" if the pod is accepted
		warning         string // text in the warnings, "" for none
		annotation      string // that has to be there
	}{
		{testkit.Here(), "open", "u", "", privileged, "", "", "pod-security.kubernetes.io/enforce-policy"},
		{testkit.Here(), "baseline", "u", "", plain, "", "", "pod-security.kubernetes.io/enforce-policy"},
		{testkit.Here(), "baseline", "u", "", privileged, `violates PodSecurity "baseline:latest": privileged`, "", ""},
		{testkit.Here(), "baseline", "u", "status", privileged, "", "", ""},
		{testkit.Here(), "baseline", "robot", "", privileged, "", "", "pod-security.kubernetes.io/exempt"},
		{testkit.Here(), "exempt", "u", "", privileged, "", "", "pod-security.kubernetes.io/exempt"},
		{testkit.Here(), "restricted", "u", "", plain, `violates PodSecurity "restricted:latest"`, "", ""},
		{testkit.Here(), "warned", "u", "", plain, "", `would violate PodSecurity "restricted:latest"`, ""},
		{testkit.Here(), "audited", "u", "", plain, "", "", ""},
		{testkit.Here(), "audited", "u", "", privileged, "", "", "pod-security.kubernetes.io/audit-violations"},
		{testkit.Here(), "missing", "u", "", plain, `failed to lookup namespace "missing"`, "", "pod-security.kubernetes.io/error"},
	} {
		said := &messages{annotations: map[string]string{}}
		r := api.Request(api.Kind("", "pods"), row.namespace, row.pod, "")
		r.Client, r.User, r.Subresource = said, &authn.User{Name: row.user}, row.subresource
		got := ""
		if err := step.Validate(t.Context(), r); err != nil {
			got = err.Error()
		}
		if (got == "") != (row.refused == "") || !strings.Contains(got, row.refused) {
			t.Errorf("%s: got %q, want %q", row.at, got, row.refused)
		}
		if text := strings.Join(said.warnings, " "); (text == "") != (row.warning == "") || !strings.Contains(text, row.warning) {
			t.Errorf("%s: got the warnings %q, want %q", row.at, text, row.warning)
		}
		if row.annotation != "" && said.annotations[row.annotation] == "" {
			t.Errorf("%s: got the annotations %v, want %s", row.at, said.annotations, row.annotation)
		}
	}
	counted := map[string]float64{}
	families, err := registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range families {
		for _, m := range f.GetMetric() {
			key := strings.TrimPrefix(f.GetName(), "pod_security_")
			for _, l := range m.GetLabel() {
				key += " " + l.GetValue()
			}
			if n := m.GetCounter().GetValue(); n > 0 {
				counted[key] = n
			}
		}
	}
	want := map[string]float64{
		"evaluations_total allow enforce privileged latest create pod ": 4,
		"evaluations_total allow enforce baseline latest create pod ":   1,
		"evaluations_total deny enforce baseline latest create pod ":    1,
		"evaluations_total deny enforce restricted latest create pod ":  1,
		"evaluations_total deny warn restricted latest create pod ":     1,
		"evaluations_total deny audit baseline latest create pod ":      1,
		"exemptions_total create pod ":                                  2,
		"errors_total true create pod ":                                 1,
	}
	if !maps.Equal(counted, want) {
		t.Errorf("metrics: got %v, want %v", counted, want)
	}
}
