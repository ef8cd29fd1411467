package policy

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"strings"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// This file makes policies, bindings and requests at random.

var versions = []string{"v1", "v1beta1"}

// request is a write.
type request struct {
	operation, version, subresource string
	namespace, name, user           string
	object, old                     map[string]any
}

func (r *request) String() string {
	b, _ := json.Marshal(map[string]any{"object": r.object, "old": r.old})
	return fmt.Sprintf("%s %s/%s %s/%s by %s: %s", r.operation, r.version, r.subresource, r.namespace, r.name, r.user, b)
}

type random struct{ *rand.Rand }

func pick[T any](r random, from ...T) T { return from[r.IntN(len(from))] }

func (r random) some(from ...string) []string {
	var out []string
	for _, s := range from {
		if r.IntN(2) == 0 {
			out = append(out, s)
		}
	}
	if out == nil {
		out = []string{pick(r, from...)}
	}
	return out
}

// conditions are expressions of type bool, or meant to be.
var conditions = []string{
	`object.spec.replicas > %d`, `object.spec.color == 'red'`, `has(object.spec.color)`, `object.metadata.name.startsWith('a')`,
	`object.spec.items.all(i, i.size < %d)`, `object.spec.items.exists(i, i.name == 'x')`, `size(object.spec.items) <= %d`,
	`oldObject == null || object.spec.replicas >= oldObject.spec.replicas`, `request.operation == 'CREATE'`, `request.userInfo.username == 'ann'`,
	`request.resource.version == 'v1'`, `request.kind.kind == 'Widget' && request.requestKind.version == 'v1beta1'`, `request.name == 'a'`,
	`request.namespace == 'default'`, `request.subResource == ''`, `has(request.subResource)`, `request.dryRun`, `has(request.options) && request.options.kind == 'CreateOptions'`,
	`namespaceObject.metadata.labels['env'] == 'prod'`, `namespaceObject.metadata.name == request.namespace`, `has(namespaceObject.metadata.uid)`,
	`authorizer.group('demo.io').resource('widgets').check('create').allowed()`, `authorizer.requestResource.check('get').allowed()`,
	`authorizer.path('/healthz').check('get').reason() == ''`, `object.metadata.?labels['app'].orValue('none') == 'none'`, `'g' in request.userInfo.groups`,
	`object.spec.replicas / %d == 1`, `object.spec.image.matches('^[a-z]+:v[0-9]+$')`, `quantity(object.spec.memory).isLessThan(quantity('2Gi'))`,
	`object.spec.when < '2024'`, `object == oldObject`, `object.spec`, `object.spec.`, `true`, `false`, `dyn(object.spec.flag)`, `variables.a == 1`,
	`variables.b`, `variables.none`, `params.data.limit == '3'`, `int(params.data.limit) > object.spec.replicas`, `params == null`, `has(params.metadata.labels)`,
	`object.apiVersion == 'demo.io/v1'`, `object.spec.items.map(i, i.name).join(',').size() < %d`, `object.spec.items[%d].size > 1`,
}

// texts are expressions of type string, or meant to be.
var texts = []string{
	`'replicas: ' + string(object.spec.replicas)`, `object.spec.color`, `string(object.spec.color)`, `'two\nlines'`, `'   '`, `params.data.limit`, `request.name`,
	`'by ' + request.userInfo.username`, `authorizer.path('/').check('get').reason()`, `string(variables.a)`, `'x'.lowerAscii() + namespaceObject.metadata.name`, `1`,
}

func (r random) condition() string { return r.fill(pick(r, conditions...)) }

func (r random) fill(text string) string {
	if strings.Contains(text, "%d") {
		return fmt.Sprintf(text, r.IntN(5))
	}
	return text
}

func (r random) selector(labels ...string) *metav1.LabelSelector {
	switch r.IntN(4) {
	case 0:
		return &metav1.LabelSelector{MatchLabels: map[string]string{pick(r, labels...): pick(r, "prod", "test", "web")}}
	case 1:
		return &metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{
			{Key: pick(r, labels...), Operator: pick(r, metav1.LabelSelectorOpExists, metav1.LabelSelectorOpDoesNotExist)}}}
	}
	return &metav1.LabelSelector{}
}

func (r random) rules() []admissionv1.NamedRuleWithOperations {
	var out []admissionv1.NamedRuleWithOperations
	for range 1 + r.IntN(2) {
		var rule admissionv1.NamedRuleWithOperations
		for _, o := range r.some("CREATE", "UPDATE", "DELETE", "*") {
			rule.Operations = append(rule.Operations, admissionv1.OperationType(o))
		}
		rule.APIGroups, rule.APIVersions = r.some("demo.io", "*", "other.io"), r.some("v1", "v1beta1", "*", "v2")
		rule.Resources = r.some("widgets", "*", "widgets/status", "*/*", "*/status", "gadgets")
		if r.IntN(4) == 0 {
			rule.ResourceNames = r.some("a", "b")
		}
		if r.IntN(4) == 0 {
			s := pick(r, admissionv1.NamespacedScope, admissionv1.ClusterScope, admissionv1.AllScopes)
			rule.Scope = &s
		}
		out = append(out, rule)
	}
	return out
}

func (r random) resources() *admissionv1.MatchResources {
	policy := pick(r, admissionv1.Exact, admissionv1.Equivalent)
	m := &admissionv1.MatchResources{ResourceRules: r.rules(), MatchPolicy: &policy,
		NamespaceSelector: r.selector("env", "team"), ObjectSelector: r.selector("app", "env")}
	if r.IntN(5) == 0 {
		m.ExcludeResourceRules = r.rules()
	}
	return m
}

func (r random) policy(name string) *admissionv1.ValidatingAdmissionPolicy {
	p := &admissionv1.ValidatingAdmissionPolicy{}
	p.APIVersion, p.Kind, p.Name = "admissionregistration.k8s.io/v1", "ValidatingAdmissionPolicy", name
	fail := pick(r, admissionv1.Fail, admissionv1.Fail, admissionv1.Ignore)
	p.Spec.FailurePolicy, p.Spec.MatchConstraints = &fail, r.resources()
	if r.IntN(3) == 0 {
		p.Spec.ParamKind = &admissionv1.ParamKind{APIVersion: "v1", Kind: "ConfigMap"}
	}
	for i, name := range []string{"a", "b"} {
		if r.IntN(2) == 0 {
			p.Spec.Variables = append(p.Spec.Variables, admissionv1.Variable{Name: name, Expression: []string{`object.spec.replicas`, r.condition()}[i]})
		}
	}
	for i := range r.IntN(3) {
		p.Spec.MatchConditions = append(p.Spec.MatchConditions, admissionv1.MatchCondition{Name: fmt.Sprint(i), Expression: r.condition()})
	}
	for range 1 + r.IntN(3) {
		v := admissionv1.Validation{Expression: r.condition(), Message: pick(r, "", "", "because", "  spaces ")}
		if r.IntN(2) == 0 {
			v.MessageExpression = pick(r, texts...)
		}
		if r.IntN(3) == 0 {
			reason := pick(r, metav1.StatusReasonForbidden, metav1.StatusReasonUnauthorized, metav1.StatusReasonRequestEntityTooLarge, metav1.StatusReasonInvalid)
			v.Reason = &reason
		}
		p.Spec.Validations = append(p.Spec.Validations, v)
	}
	if r.IntN(4) == 0 {
		p.Spec.AuditAnnotations = []admissionv1.AuditAnnotation{{Key: "k", ValueExpression: pick(r, texts...)}}
	}
	return p
}

func (r random) binding(name, policy string) *admissionv1.ValidatingAdmissionPolicyBinding {
	b := &admissionv1.ValidatingAdmissionPolicyBinding{}
	b.APIVersion, b.Kind, b.Name = "admissionregistration.k8s.io/v1", "ValidatingAdmissionPolicyBinding", name
	b.Spec.PolicyName = policy
	b.Spec.ValidationActions = pick(r, []admissionv1.ValidationAction{"Warn"}, []admissionv1.ValidationAction{"Deny", "Warn"}, []admissionv1.ValidationAction{"Warn", "Audit"})
	if r.IntN(2) == 0 {
		b.Spec.MatchResources = r.resources()
	}
	if r.IntN(4) > 0 {
		action := pick(r, admissionv1.AllowAction, admissionv1.DenyAction)
		b.Spec.ParamRef = &admissionv1.ParamRef{ParameterNotFoundAction: &action, Namespace: pick(r, "", "", "default")}
		if r.IntN(3) == 0 {
			b.Spec.ParamRef.Selector = &metav1.LabelSelector{MatchLabels: map[string]string{"use": "one"}}
		} else {
			b.Spec.ParamRef.Name = pick(r, "one", "two", "none")
		}
	}
	return b
}

func (r random) object(version, namespace, name string) map[string]any {
	spec := map[string]any{}
	maybe := func(field string, v any) {
		if r.IntN(4) > 0 {
			spec[field] = v
		}
	}
	maybe("replicas", int64(r.IntN(6)))
	maybe("color", pick[any](r, "red", "blue", "", int64(3)))
	maybe("flag", pick[any](r, true, false, "true"))
	maybe("image", pick(r, "nginx:v1", "nginx", "UPPER:v1"))
	maybe("memory", pick(r, "1Gi", "3Gi", "lots"))
	maybe("when", "2024-01-01T00:00:00Z")
	var items []any
	for range r.IntN(4) {
		items = append(items, map[string]any{"name": pick(r, "x", "y"), "size": int64(r.IntN(5))})
	}
	if items != nil {
		maybe("items", items)
	}
	m := map[string]any{"name": name, "namespace": namespace}
	if r.IntN(2) == 0 {
		m["labels"] = map[string]any{pick(r, "app", "env"): pick(r, "prod", "test", "web")}
	}
	return map[string]any{"apiVersion": "demo.io/" + version, "kind": "Widget", "metadata": m, "spec": spec}
}

func (r random) request() *request {
	q := &request{operation: pick(r, "CREATE", "CREATE", "UPDATE", "UPDATE", "DELETE"), version: pick(r, versions...),
		namespace: pick(r, "default", "other"), name: pick(r, "a", "b"), user: pick(r, "ann", "bob")}
	if q.operation == "UPDATE" && r.IntN(3) == 0 {
		q.subresource = "status"
	}
	if q.operation != "DELETE" {
		q.object = r.object(q.version, q.namespace, q.name)
	}
	if q.operation != "CREATE" {
		q.old = r.object(q.version, q.namespace, q.name)
	}
	return q
}
