package admission

import (
	"fmt"
	"math/rand/v2"
	"strings"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// This file makes configurations at random, right ones and wrong ones.

func admissionInternal() schema.GroupVersion {
	return schema.GroupVersion{Group: group, Version: "__internal"}
}

// dice makes the same random choices every time.
type dice struct{ *rand.Rand }

// good says whether a field is to be right.
func (d dice) good() bool { return d.IntN(12) > 0 }

// one is one of the good values, or seldom a bad one.
func one[T any](d dice, good, bad []T) T {
	if d.good() {
		return good[d.IntN(len(good))]
	}
	return bad[d.IntN(len(bad))]
}

func list[T any](d dice, good, bad []T) []T {
	if !d.good() && d.good() {
		return nil
	}
	var out []T
	for range 1 + d.IntN(2)*d.IntN(2) {
		out = append(out, one(d, good, bad))
	}
	return out
}

func maybe[T any](d dice, v T) *T {
	if d.good() {
		return &v
	}
	return nil
}

type words = []string

var long = strings.Repeat("x", 300)

func (d dice) name() string {
	return one(d, words{"p", "a.b.c", "team-policy"}, words{"UPPER", "a_b", long, "x.static.k8s.io", "-"})
}

// Expressions by what they should be; bad ones are of a wrong type, do not
// compile, or are empty.
var (
	bad      = words{"", "  ", "object.", "nothing", "1 +", "variables.none == 1", "params.x == 1", "object.spec.x.all(y, z)", "'a' + 1", "[1", "authorizer.path('a').x()", "'\u00e9' == 1", "\n1 == 2 ||"}
	bools    = words{"true", "object.spec.x == 1", " request.name == 'a' ", "[1].includes(1)", "authorizer.path('/').check('get').allowed()", "variables.a == 1", "params.x == 1", "has(object.x)"}
	strs     = words{"'a'", "'a' + object.metadata.name", "request.name", "string(variables.a)", "string([1].includes(1))", "params.x + ''"}
	patches  = words{"[JSONPatch{op: 'add', path: '/x', value: 1}]", " [JSONPatch{op: 'remove', path: '/' + jsonpatch.escapeKey('a/b')}]", "[JSONPatch{op: variables.a}]", "[JSONPatch{op: string([1].includes(1))}]"}
	applied  = words{"Object{spec: Object.spec{x: 1}}", " Object{}", "true ? Object{} : Object{metadata: Object.metadata{labels: {'a': string(variables.a)}}}", "Object{a: [1].includes(1)}"}
	badPatch = append(words{"JSONPatch{op: 'x'}", "[1]", "Object{a: 1}", "[JSONPatch{bogus: 1}]", "1", "[]"}, bad...)
)

func (d dice) conditions() []admissionv1.MatchCondition {
	var out []admissionv1.MatchCondition
	n := d.IntN(3) * d.IntN(2)
	if d.IntN(100) == 0 {
		n = 65
	}
	for i := range n {
		out = append(out, admissionv1.MatchCondition{
			Name:       one(d, words{fmt.Sprint("c", i), "example.com/a", fmt.Sprint("d", i)}, words{"", "a b", "/", long}),
			Expression: one(d, bools[:5], append(append(words{}, bools[5:]...), bad...)),
		})
	}
	return out
}

func (d dice) rule() admissionv1.RuleWithOperations {
	return admissionv1.RuleWithOperations{
		Operations: list(d, []admissionv1.OperationType{"CREATE", "UPDATE", "*"}, []admissionv1.OperationType{"DELETE", "CONNECT", "", "create", "GET"}),
		Rule: admissionv1.Rule{
			APIGroups: list(d, words{"", "demo.io", "*"}, words{"*", "a b"}), APIVersions: list(d, words{"v1", "v2", "*"}, words{"", "*"}),
			Resources: list(d, words{"widgets", "*", "widgets/status"}, words{"", "*/*", "*/status", "widgets/*", "/", "a/b/c"}),
			Scope:     maybe(d, one(d, []admissionv1.ScopeType{"*", "Cluster", "Namespaced"}, []admissionv1.ScopeType{"", "Other"})),
		},
	}
}

func (d dice) rules() []admissionv1.NamedRuleWithOperations {
	var out []admissionv1.NamedRuleWithOperations
	if !d.good() {
		return nil
	}
	for range 1 + d.IntN(2) {
		r := admissionv1.NamedRuleWithOperations{RuleWithOperations: d.rule()}
		if d.IntN(4) == 0 {
			r.ResourceNames = list(d, words{"a", "b"}, words{"", "..", "a/b", "a%"})
		}
		out = append(out, r)
	}
	return out
}

func (d dice) selector() *metav1.LabelSelector {
	switch d.IntN(6) {
	case 0:
		return nil // filled in
	case 1:
		return &metav1.LabelSelector{MatchLabels: map[string]string{one(d, words{"a", "demo.io/a"}, words{"", "a b", long}): one(d, words{"b", ""}, words{"a b", long})}}
	case 2:
		return &metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{{
			Key:      one(d, words{"a"}, words{"", "a b"}),
			Operator: one(d, []metav1.LabelSelectorOperator{"In", "NotIn", "Exists", "DoesNotExist"}, []metav1.LabelSelectorOperator{"", "Near"}),
			Values:   list(d, words{"x"}, words{"a b"}),
		}}}
	}
	return &metav1.LabelSelector{}
}

func (d dice) resources() *admissionv1.MatchResources {
	m := &admissionv1.MatchResources{NamespaceSelector: d.selector(), ObjectSelector: d.selector(), ResourceRules: d.rules(),
		MatchPolicy: maybe(d, one(d, []admissionv1.MatchPolicyType{"Exact", "Equivalent"}, []admissionv1.MatchPolicyType{"", "Fuzzy"}))}
	if d.IntN(3) == 0 {
		m.ExcludeResourceRules = d.rules()
	}
	return m
}

func (d dice) failurePolicy() *admissionv1.FailurePolicyType {
	return maybe(d, one(d, []admissionv1.FailurePolicyType{"Fail", "Ignore"}, []admissionv1.FailurePolicyType{"", "Retry"}))
}

func (d dice) paramKind() *admissionv1.ParamKind {
	if d.IntN(2) == 0 {
		return nil
	}
	return &admissionv1.ParamKind{APIVersion: one(d, words{"v1", "demo.io/v1"}, words{"", "/", "a/b/c", "A B/v1", "demo.io/", "demo.io/V1", "1"}),
		Kind: one(d, words{"ConfigMap", "Widget"}, words{"", "a b", long})}
}

func (d dice) variables() []admissionv1.Variable {
	var out []admissionv1.Variable
	for i := range d.IntN(3) {
		out = append(out, admissionv1.Variable{
			Name:       one(d, words{words{"a", "b"}[i]}, words{"", " ", "a b", "in", "namespace", "1a", "\u00e9"}),
			Expression: one(d, words{"1", "object.spec.x", "request.name", "[1].includes(1)", "{'a': [1]}"}, append(words{"variables.a", "variables.b"}, bad...)),
		})
	}
	return out
}

func (d dice) validatingPolicy() *admissionv1.ValidatingAdmissionPolicy {
	p := &admissionv1.ValidatingAdmissionPolicy{}
	p.Name = d.name()
	p.Spec = admissionv1.ValidatingAdmissionPolicySpec{ParamKind: d.paramKind(), FailurePolicy: d.failurePolicy(), MatchConditions: d.conditions(), Variables: d.variables()}
	if d.good() {
		p.Spec.MatchConstraints = d.resources()
	}
	for range d.IntN(3) {
		v := admissionv1.Validation{Expression: one(d, bools, bad), Message: one(d, words{"", "because", " x "}, words{" ", "a\nb", "a\rb", "\n"})}
		if d.IntN(2) == 0 {
			v.MessageExpression = one(d, strs, append(words{"1", "true"}, bad...))
		}
		if d.IntN(3) == 0 {
			reason := one(d, []metav1.StatusReason{"Forbidden", "Invalid", "RequestEntityTooLarge"}, []metav1.StatusReason{"", "Unauthorized", "Sad"})
			v.Reason = &reason
		}
		p.Spec.Validations = append(p.Spec.Validations, v)
	}
	n := d.IntN(3)
	if d.IntN(100) == 0 {
		n = 21
	}
	for i := range n {
		p.Spec.AuditAnnotations = append(p.Spec.AuditAnnotations, admissionv1.AuditAnnotation{
			Key:             one(d, words{fmt.Sprint("k", i), fmt.Sprint("l", i)}, words{"", "a b", "a/b", "k0", long}),
			ValueExpression: one(d, append(words{"null", " 'a'"}, strs...), append(words{"1", "dyn('a')", "'" + strings.Repeat("x", 5200) + "'"}, bad...)),
		})
	}
	return p
}

func (d dice) mutatingPolicy() *admissionv1.MutatingAdmissionPolicy {
	p := &admissionv1.MutatingAdmissionPolicy{}
	p.Name = d.name()
	p.Spec = admissionv1.MutatingAdmissionPolicySpec{ParamKind: d.paramKind(), FailurePolicy: d.failurePolicy(), MatchConditions: d.conditions(), Variables: d.variables(),
		ReinvocationPolicy: one(d, []admissionv1.ReinvocationPolicyType{"Never", "IfNeeded"}, []admissionv1.ReinvocationPolicyType{"", "Always"})}
	if d.good() {
		p.Spec.MatchConstraints = d.resources()
	}
	for range d.IntN(4) {
		m := admissionv1.Mutation{PatchType: one(d, []admissionv1.PatchType{"JSONPatch", "ApplyConfiguration"}, []admissionv1.PatchType{"", "MergePatch"})}
		if (m.PatchType == "JSONPatch") == d.good() {
			m.JSONPatch = &admissionv1.JSONPatch{Expression: one(d, patches, badPatch)}
		}
		if (m.PatchType == "ApplyConfiguration") == d.good() {
			m.ApplyConfiguration = &admissionv1.ApplyConfiguration{Expression: one(d, applied, badPatch)}
		}
		p.Spec.Mutations = append(p.Spec.Mutations, m)
	}
	return p
}

func (d dice) paramRef() *admissionv1.ParamRef {
	if d.IntN(2) == 0 {
		return nil
	}
	ref := &admissionv1.ParamRef{Namespace: one(d, words{"", "default"}, words{"a b"}),
		ParameterNotFoundAction: maybe(d, one(d, []admissionv1.ParameterNotFoundActionType{"Allow", "Deny"}, []admissionv1.ParameterNotFoundActionType{"", "Guess"}))}
	if d.IntN(2) == 0 == d.good() {
		ref.Name = one(d, words{"a", "b.c"}, words{"..", "a/b"})
	}
	if ref.Name == "" == d.good() {
		ref.Selector = d.selector()
	}
	return ref
}

func (d dice) validatingBinding() *admissionv1.ValidatingAdmissionPolicyBinding {
	b := &admissionv1.ValidatingAdmissionPolicyBinding{}
	b.Name = d.name()
	b.Spec.PolicyName, b.Spec.ParamRef = one(d, words{"p", "a.b"}, words{"", "A", "a b"}), d.paramRef()
	if d.IntN(2) == 0 {
		b.Spec.MatchResources = d.resources()
	}
	b.Spec.ValidationActions = list(d, []admissionv1.ValidationAction{"Deny", "Warn", "Audit"}, []admissionv1.ValidationAction{"", "Shout"})
	return b
}

func (d dice) mutatingBinding() *admissionv1.MutatingAdmissionPolicyBinding {
	b := &admissionv1.MutatingAdmissionPolicyBinding{}
	b.Name = d.name()
	b.Spec.PolicyName, b.Spec.ParamRef = one(d, words{"p", "a.b"}, words{"", "A", "a b"}), d.paramRef()
	if d.IntN(2) == 0 {
		b.Spec.MatchResources = d.resources()
	}
	return b
}
