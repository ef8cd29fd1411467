package webhook

import (
	"fmt"
	"math/rand/v2"
	"strings"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// This file makes configurations and requests at random.

type dice struct{ *rand.Rand }

func pick[T any](d dice, from ...T) T { return from[d.IntN(len(from))] }

// behaviours are what webhooks may answer, as paths of their server. Those that
// fail are rare, so that others are reached.
var (
	calm   = []string{"allow", "allow", "warn", "note", "blue", "green", "label", "unlabel", "nothing", "typeless-beta"}
	strict = []string{"allow", "warn", "note"}
	wild   = []string{"deny", "deny-418", "deny-reason", "deny-mute", "uid", "absent", "garbage", "empty", "500", "status", "missing", "patchless", "typeless", "merge", "no-patch", "no-apply", "gvk"}
)

// request is a write of a widget.
type request struct {
	operation, version, subresource string
	namespace, name, user           string
	object, old                     map[string]any
	dryRun                          bool
}

func (d dice) widget(version, namespace, name string) map[string]any {
	spec := map[string]any{"color": pick(d, "red", "blue", "green")}
	if d.IntN(3) > 0 {
		spec["size"] = int64(d.IntN(4))
	}
	meta := map[string]any{"name": name, "namespace": namespace, "uid": "u"}
	if d.IntN(2) == 0 {
		meta["labels"] = map[string]any{"pick": pick(d, "me", "you")}
	}
	return map[string]any{"apiVersion": "demo.io/" + version, "kind": "Widget", "metadata": meta, "spec": spec}
}

func (d dice) request() *request {
	q := &request{operation: pick(d, "CREATE", "UPDATE", "UPDATE", "DELETE"), version: pick(d, "v1", "v2"), namespace: pick(d, "a", "b", "a", "none"),
		name: pick(d, "x", "y"), user: pick(d, "ann", "bob"), dryRun: d.IntN(5) == 0}
	if q.operation == "UPDATE" && q.version == "v1" && d.IntN(3) == 0 {
		q.subresource = "status"
	}
	if q.operation != "DELETE" {
		q.object = d.widget(q.version, q.namespace, q.name)
	}
	if q.operation != "CREATE" {
		q.old = d.widget(q.version, q.namespace, q.name)
	}
	return q
}

func (d dice) selector() *metav1.LabelSelector {
	switch d.IntN(5) {
	case 0:
		return &metav1.LabelSelector{MatchLabels: map[string]string{"pick": pick(d, "me", "you")}}
	case 1:
		return &metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{{Key: "pick", Operator: pick(d, metav1.LabelSelectorOpExists, metav1.LabelSelectorOpDoesNotExist)}}}
	}
	return &metav1.LabelSelector{}
}

func (d dice) rule() admissionv1.RuleWithOperations {
	r := admissionv1.RuleWithOperations{
		Operations: pick(d, []admissionv1.OperationType{"*"}, []admissionv1.OperationType{"CREATE"}, []admissionv1.OperationType{"UPDATE", "DELETE"}, []admissionv1.OperationType{"CREATE", "UPDATE", "DELETE"}),
		Rule: admissionv1.Rule{APIGroups: pick(d, []string{"*"}, []string{"demo.io"}, []string{"demo.io"}, []string{"", "other.io"}),
			APIVersions: pick(d, []string{"*"}, []string{"v1"}, []string{"v2"}, []string{"v1", "v2"}, []string{"v3"}),
			Resources:   pick(d, []string{"*"}, []string{"widgets"}, []string{"*/*"}, []string{"widgets/*"}, []string{"widgets", "widgets/status"}, []string{"*/status"}, []string{"gadgets"})},
	}
	scope := pick(d, admissionv1.AllScopes, admissionv1.AllScopes, admissionv1.NamespacedScope, admissionv1.ClusterScope)
	r.Scope = &scope
	return r
}

func (d dice) conditions() []admissionv1.MatchCondition {
	var out []admissionv1.MatchCondition
	for i := range d.IntN(3) * d.IntN(2) {
		out = append(out, admissionv1.MatchCondition{Name: fmt.Sprint("c", i), Expression: pick(d,
			"true", "request.operation != 'DELETE'", "request.userInfo.username == 'ann'", "object.spec.size > 1", "oldObject == null || oldObject.spec.color == 'red'",
			"authorizer.group('demo.io').resource('widgets').check('update').allowed()", "object.apiVersion == 'demo.io/v1'", "request.resource.version == 'v1'",
			"request.kind.version == 'v2'", "request.requestKind.version == 'v2'", "!has(request.subResource) || request.subResource == ''", "request.dryRun", "1 / 0 == 1")})
	}
	return out
}

// webhook is one webhook; wilds says how many more may fail.
func (d dice) webhook(url string, ca []byte, i int, mutating bool, wilds *int) admissionv1.MutatingWebhook {
	behaviour := pick(d, calm...)
	if !mutating {
		behaviour = pick(d, strict...)
	}
	if *wilds > 0 && d.IntN(4) == 0 {
		behaviour = pick(d, wild...)
		*wilds--
	}
	at := fmt.Sprintf("%s/%s/%d", url, behaviour, i)
	policy, match := pick(d, admissionv1.Fail, admissionv1.Ignore), pick(d, admissionv1.Exact, admissionv1.Equivalent, admissionv1.Equivalent)
	effects := pick(d, admissionv1.SideEffectClassNone, admissionv1.SideEffectClassNone, admissionv1.SideEffectClassNoneOnDryRun, admissionv1.SideEffectClassSome)
	again, timeout := pick(d, admissionv1.NeverReinvocationPolicy, admissionv1.IfNeededReinvocationPolicy), int32(10)
	w := admissionv1.MutatingWebhook{Name: fmt.Sprintf("w%d.demo.io", i), ClientConfig: admissionv1.WebhookClientConfig{URL: &at, CABundle: ca},
		FailurePolicy: &policy, MatchPolicy: &match, SideEffects: &effects, ReinvocationPolicy: &again, TimeoutSeconds: &timeout,
		NamespaceSelector: d.selector(), ObjectSelector: d.selector(), MatchConditions: d.conditions(),
		AdmissionReviewVersions: pick(d, []string{"v1"}, []string{"v9", "v1"}, []string{"v1beta1", "v1"})}
	if strings.HasSuffix(behaviour, "-beta") {
		w.AdmissionReviewVersions = []string{"v1beta1"}
	}
	for range 1 + d.IntN(2) {
		w.Rules = append(w.Rules, d.rule())
	}
	return w
}

// configurations are some of either type. At most one webhook of each type
// fails, since upstream tells the error of the quickest one.
func (d dice) configurations(url string, ca []byte) (m []*admissionv1.MutatingWebhookConfiguration, v []*admissionv1.ValidatingWebhookConfiguration) {
	number, wilds := 0, 2
	for i := range 1 + d.IntN(3) {
		c := &admissionv1.MutatingWebhookConfiguration{TypeMeta: metav1.TypeMeta{APIVersion: "admissionregistration.k8s.io/v1", Kind: "MutatingWebhookConfiguration"}, ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("m%d", 9-i), UID: "u"}}
		for range 1 + d.IntN(3) {
			c.Webhooks = append(c.Webhooks, d.webhook(url, ca, number, true, &wilds))
			number++
		}
		m = append(m, c)
	}
	wilds = 1
	for i := range 1 + d.IntN(2) {
		c := &admissionv1.ValidatingWebhookConfiguration{TypeMeta: metav1.TypeMeta{APIVersion: "admissionregistration.k8s.io/v1", Kind: "ValidatingWebhookConfiguration"}, ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("v%d", 9-i), UID: "u"}}
		for range 1 + d.IntN(2) {
			w := d.webhook(url, ca, number, false, &wilds)
			quiet := admissionv1.SideEffectClassNone
			c.Webhooks = append(c.Webhooks, admissionv1.ValidatingWebhook{
				Name: w.Name, ClientConfig: w.ClientConfig, Rules: w.Rules, FailurePolicy: w.FailurePolicy, MatchPolicy: w.MatchPolicy, NamespaceSelector: w.NamespaceSelector,
				ObjectSelector: w.ObjectSelector, SideEffects: &quiet, TimeoutSeconds: w.TimeoutSeconds, AdmissionReviewVersions: w.AdmissionReviewVersions, MatchConditions: w.MatchConditions,
			})
			number++
		}
		v = append(v, c)
	}
	return m, v
}
