package policy

import (
	"context"
	"fmt"
	"slices"
	"strings"

	admissionapi "k8s.io/api/admission/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apiserver/pkg/admission"
	admissioncel "k8s.io/apiserver/pkg/admission/plugin/cel"

	"github.com/keelson-io/keelson/internal/admission/policy"
)

// This file is what evaluations cost, on both sides.

// bill is what policies cost in one request, by policy.
type bill map[string]*policy.Costs

func (b bill) of(name string) *policy.Costs {
	if b[name] == nil {
		b[name] = &policy.Costs{}
	}
	return b[name]
}

func (b bill) add(name string, c policy.Costs) {
	sum := b.of(name)
	sum.Conditions, sum.Expressions, sum.Annotations = sum.Conditions+c.Conditions, sum.Expressions+c.Expressions, sum.Annotations+c.Annotations
}

// String lists what cost something, but for those that went beyond a limit: how
// far is not compared.
func (b bill) without(beyond map[string]bool) string {
	var lines []string
	for name, c := range b {
		if *c != (policy.Costs{}) && !beyond[name] {
			lines = append(lines, fmt.Sprintf("%s %+v", name, *c))
		}
	}
	slices.Sort(lines)
	return strings.Join(lines, "\n")
}

// meter notes what upstream's expressions cost.
type meter struct {
	bill
	beyond map[string]bool // who went beyond a limit
}

func newMeter() *meter { return &meter{bill{}, map[string]bool{}} }

// took notes an evaluation with a budget, of which something remained.
func (m *meter) took(name string, sum *uint64, budget, remaining int64, err error, results ...admissioncel.EvaluationResult) {
	for _, r := range results {
		if r.Error != nil && strings.Contains(r.Error.Error(), "actual cost limit exceeded") {
			m.beyond[name] = true
		}
	}
	if err != nil || remaining < 0 {
		m.beyond[name] = true
		return
	}
	*sum += uint64(budget - remaining)
}

// metered are upstream's conditions with a meter.
type metered struct {
	admissioncel.ConditionEvaluator
	*meter
	policy string
	sum    func(*policy.Costs) *uint64
}

func (m metered) ForInput(ctx context.Context, a *admission.VersionedAttributes, r *admissionapi.AdmissionRequest, in admissioncel.OptionalVariableBindings,
	n *corev1.Namespace, budget int64) ([]admissioncel.EvaluationResult, int64, error) {
	results, remaining, err := m.ConditionEvaluator.ForInput(ctx, a, r, in, n, budget)
	m.took(m.policy, m.sum(m.of(m.policy)), budget, remaining, err, results...)
	return results, remaining, err
}

// meteredMutation is the same for a mutation.
type meteredMutation struct {
	admissioncel.MutatingEvaluator
	*meter
	policy string
}

func (m meteredMutation) ForInput(ctx context.Context, a *admission.VersionedAttributes, r *admissionapi.AdmissionRequest, in admissioncel.OptionalVariableBindings,
	n *corev1.Namespace, budget int64) (admissioncel.EvaluationResult, int64, error) {
	result, remaining, err := m.MutatingEvaluator.ForInput(ctx, a, r, in, n, budget)
	m.took(m.policy, &m.of(m.policy).Expressions, budget, remaining, err, result)
	return result, remaining, err
}

// The places of sums.
func onConditions(c *policy.Costs) *uint64  { return &c.Conditions }
func onExpressions(c *policy.Costs) *uint64 { return &c.Expressions }
func onAnnotations(c *policy.Costs) *uint64 { return &c.Annotations }
