package podsecurity

import (
	"strconv"
	"strings"

	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/pod-security-admission/api"

	"github.com/keelson-io/keelson/internal/admission"
)

// This file has the metrics of the plugin, named as upstream names them.

// newest is the newest version of the Pod Security Standards. Metrics call later ones "future".
var newest = api.MajorMinorVersion(1, 37)

// Metrics counts what the plugin decides. A nil Metrics counts nothing.
type Metrics struct {
	evaluations, exemptions, errors *prometheus.CounterVec
}

// NewMetrics registers the metrics. The series of usual requests begin at zero.
func NewMetrics(r prometheus.Registerer) *Metrics {
	m := &Metrics{
		evaluations: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "pod_security_evaluations_total",
			Help: "[ALPHA] Number of policy evaluations that occurred, not counting ignored or exempt requests.",
		}, []string{"decision", "policy_level", "policy_version", "mode", "request_operation", "resource", "subresource"}),
		exemptions: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "pod_security_exemptions_total",
			Help: "[ALPHA] Number of exempt requests, not counting ignored or out of scope requests.",
		}, []string{"request_operation", "resource", "subresource"}),
		errors: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "pod_security_errors_total",
			Help: "[ALPHA] Number of errors preventing normal evaluation. Non-fatal errors may result in the latest restricted profile being used for evaluation.",
		}, []string{"fatal", "request_operation", "resource", "subresource"}),
	}
	for _, operation := range []string{"create", "update"} {
		m.evaluations.WithLabelValues("allow", "privileged", "latest", "enforce", operation, "pod", "")
		m.exemptions.WithLabelValues(operation, "pod", "")
		m.exemptions.WithLabelValues(operation, "controller", "")
	}
	r.MustRegister(m.evaluations, m.exemptions, m.errors)
	return m
}

// labels returns the labels of a request: operation, resource and subresource.
func labels(r *admission.Request) []string {
	resource := "controller"
	switch r.Version.Kind.GroupResource() {
	case pods:
		resource = "pod"
	case namespaces:
		resource = "namespace"
	}
	return []string{strings.ToLower(string(r.Operation)), resource, r.Subresource}
}

// evaluated counts one evaluation of a level in a mode.
func (m *Metrics) evaluated(r *admission.Request, allowed bool, level api.LevelVersion, mode string) {
	if m == nil {
		return
	}
	decision, version := "deny", level.Version.String()
	if allowed {
		decision = "allow"
	}
	switch {
	case level.Level == api.LevelPrivileged || level.Version.Latest():
		version = "latest"
	case newest.Older(level.Version):
		version = "future"
	}
	m.evaluations.WithLabelValues(append([]string{decision, string(level.Level), version, mode}, labels(r)...)...).Inc()
}

// exempted counts a request that is exempt.
func (m *Metrics) exempted(r *admission.Request) {
	if m != nil {
		m.exemptions.WithLabelValues(labels(r)...).Inc()
	}
}

// failed counts an error. A fatal one ended the evaluation.
func (m *Metrics) failed(r *admission.Request, fatal bool) {
	if m != nil {
		m.errors.WithLabelValues(append([]string{strconv.FormatBool(fatal)}, labels(r)...)...).Inc()
	}
}
