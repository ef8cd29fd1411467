// This file measures validating admission policies.

package main

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"

	prom "github.com/prometheus/client_golang/prometheus"
	admissionv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	apiextv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	upadmission "k8s.io/apiserver/pkg/admission"
	admissioncel "k8s.io/apiserver/pkg/admission/plugin/cel"
	"k8s.io/apiserver/pkg/admission/plugin/policy/generic"
	"k8s.io/apiserver/pkg/admission/plugin/policy/matching"
	"k8s.io/apiserver/pkg/admission/plugin/policy/validating"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/authorization/authorizerfactory"
	"k8s.io/apiserver/pkg/cel/environment"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes/fake"
	"sigs.k8s.io/yaml"

	"github.com/keelson-io/keelson/authz"
	"github.com/keelson-io/keelson/crd"
	"github.com/keelson-io/keelson/internal/admission"
	"github.com/keelson-io/keelson/internal/admission/policy"
	"github.com/keelson-io/keelson/internal/authn"
	"github.com/keelson-io/keelson/internal/builtin"
	"github.com/keelson-io/keelson/internal/cache"
	"github.com/keelson-io/keelson/internal/meta"
	"github.com/keelson-io/keelson/internal/store/mem"
	"github.com/keelson-io/keelson/jsondoc"
	"github.com/keelson-io/keelson/kind"
)

const (
	admittedCRD = `
metadata: {name: widgets.demo.io}
spec:
  group: demo.io
  scope: Namespaced
  names: {plural: widgets, singular: widget, kind: Widget, listKind: WidgetList}
  versions:
  - {name: v1, served: true, storage: true, schema: {openAPIV3Schema: {type: object, x-kubernetes-preserve-unknown-fields: true}}}
status: {conditions: [{type: Established, status: "True"}], acceptedNames: {plural: widgets, singular: widget, kind: Widget, listKind: WidgetList}}
`
	admittedWidget = `{"apiVersion":"demo.io/v1","kind":"Widget","metadata":{"name":"a","namespace":"default","labels":{"app":"x"}},"spec":{"replicas":7,"color":"red"}}`
)

// policyRows are requests among policies that are for other resources, and among those that are for it.
func policyRows(ctx context.Context) ([]*admissionRow, error) {
	var rows []*admissionRow
	for _, r := range []struct {
		name     string
		n        int
		resource string
		wanted   float64
	}{
		{"1 policy, for other resources", 1, "gadgets", wantedUnmatched},
		{"1,000 policies, for other resources", 1000, "gadgets", wantedUnmatched},
		{"1 policy, which is evaluated", 1, "widgets", wantedMatching},
		{"100 policies, all of which are evaluated", 100, "widgets", wantedMatching},
	} {
		var policies []*admissionv1.ValidatingAdmissionPolicy
		var bindings []*admissionv1.ValidatingAdmissionPolicyBinding
		for i := range r.n {
			policies, bindings = append(policies, benchPolicy(i, r.resource)), append(bindings, benchBinding(i))
		}
		ours, err := ourPolicies(ctx, policies, bindings)
		if err != nil {
			return nil, err
		}
		upstream, err := theirPolicies(ctx, policies, bindings)
		if err != nil {
			return nil, err
		}
		if a, b := ours(), upstream(); a != nil || b != nil {
			return nil, fmt.Errorf("%s: keelson %v, upstream %v", r.name, a, b)
		}
		rows = append(rows, &admissionRow{decision{r.name, func() { ours() }, func() { upstream() }, r.wanted}, r.resource == "gadgets"})
	}
	return rows, nil
}

func benchPolicy(i int, resource string) *admissionv1.ValidatingAdmissionPolicy {
	p := &admissionv1.ValidatingAdmissionPolicy{TypeMeta: metav1.TypeMeta{APIVersion: "admissionregistration.k8s.io/v1", Kind: "ValidatingAdmissionPolicy"}}
	p.Name = fmt.Sprintf("p%04d", i)
	fail, match := admissionv1.Fail, admissionv1.Equivalent
	var rule admissionv1.NamedRuleWithOperations
	rule.Operations, rule.APIGroups, rule.APIVersions, rule.Resources = []admissionv1.OperationType{"CREATE"}, []string{"demo.io"}, []string{"*"}, []string{resource}
	p.Spec = admissionv1.ValidatingAdmissionPolicySpec{FailurePolicy: &fail,
		MatchConstraints: &admissionv1.MatchResources{ResourceRules: []admissionv1.NamedRuleWithOperations{rule}, MatchPolicy: &match,
			NamespaceSelector: &metav1.LabelSelector{}, ObjectSelector: &metav1.LabelSelector{}},
		Validations: []admissionv1.Validation{{Expression: fmt.Sprintf("object.spec.replicas > %d && has(object.metadata.labels)", i%5)}}}
	return p
}

func benchBinding(i int) *admissionv1.ValidatingAdmissionPolicyBinding {
	b := &admissionv1.ValidatingAdmissionPolicyBinding{TypeMeta: metav1.TypeMeta{APIVersion: "admissionregistration.k8s.io/v1", Kind: "ValidatingAdmissionPolicyBinding"}}
	b.Name = fmt.Sprintf("b%04d", i)
	b.Spec = admissionv1.ValidatingAdmissionPolicyBindingSpec{PolicyName: fmt.Sprintf("p%04d", i), ValidationActions: []admissionv1.ValidationAction{"Deny"}}
	return b
}

// oneNamespace is a host with one namespace.
type oneNamespace struct{ admission.Host }

func (oneNamespace) Namespace(context.Context, string) (*meta.View, error) {
	return &meta.View{JSON: []byte(`{"metadata":{"name":"default"}}`)}, nil
}

// served are the kinds, widgets among them, and a cache over what is stored.
func served(ctx context.Context, stored map[string]any) (kinds *kind.Registry, widgets *kind.Kind, c *cache.Cache, err error) {
	kinds = kind.NewRegistry(builtin.All(nil)...)
	definition := &apiextv1.CustomResourceDefinition{}
	if err := yaml.Unmarshal([]byte(admittedCRD), definition); err != nil {
		return nil, nil, nil, err
	}
	crd.Default(definition)
	if widgets, err = crd.Compile(definition); err != nil {
		return nil, nil, nil, err
	}
	if err := kinds.Put(widgets); err != nil {
		return nil, nil, nil, err
	}
	s := mem.New(mem.Options{})
	for key, v := range stored {
		text, err := json.Marshal(v)
		if err != nil {
			return nil, nil, nil, err
		}
		if _, err := s.Create(ctx, key, text); err != nil {
			return nil, nil, nil, err
		}
	}
	return kinds, widgets, cache.New(s, cache.Options{}), nil
}

// ourWidget is the request to create a widget.
func ourWidget(widgets *kind.Kind) (*admission.Request, error) {
	v, d := widgets.Version("v1"), new(jsondoc.Doc)
	if _, err := v.Decode(d, []byte(admittedWidget)); err != nil {
		return nil, err
	}
	return &admission.Request{Operation: admission.Create, Version: v, Namespace: "default", Name: "a", New: d, User: &authn.User{Name: "ann"}, Write: &meta.WriteOptions{}}, nil
}

// theirWidget is the same request.
func theirWidget() (upadmission.Attributes, error) {
	var object map[string]any
	if err := json.Unmarshal([]byte(admittedWidget), &object); err != nil {
		return nil, err
	}
	gv := schema.GroupVersion{Group: "demo.io", Version: "v1"}
	return upadmission.NewAttributesRecord(&unstructured.Unstructured{Object: object}, nil, gv.WithKind("Widget"), "default", "a", gv.WithResource("widgets"), "",
		upadmission.Create, &metav1.CreateOptions{}, false, &user.DefaultInfo{Name: "ann"}), nil
}

// ourPolicies lets one request through our step, with policies as they are stored.
func ourPolicies(ctx context.Context, policies []*admissionv1.ValidatingAdmissionPolicy, bindings []*admissionv1.ValidatingAdmissionPolicyBinding) (func() error, error) {
	stored := map[string]any{}
	for i := range policies {
		stored["validatingadmissionpolicies/"+policies[i].Name] = policies[i]
		stored["validatingadmissionpolicybindings/"+bindings[i].Name] = bindings[i]
	}
	kinds, widgets, c, err := served(ctx, stored)
	if err != nil {
		return nil, err
	}
	registry := prom.NewRegistry()
	step := policy.Validating(policy.Config{
		Kinds: kinds.Load, Cache: c, Host: oneNamespace{}, Authorizer: authz.Standard(), Logger: slog.New(slog.DiscardHandler),
		Metrics: admission.NewMetrics(registry), Checks: policy.NewMetrics(registry),
	})
	r, err := ourWidget(widgets)
	return func() error { return step.Validate(ctx, r) }, err
}

// theirPolicies lets the same request through upstream's dispatcher.
func theirPolicies(ctx context.Context, policies []*admissionv1.ValidatingAdmissionPolicy, bindings []*admissionv1.ValidatingAdmissionPolicyBinding) (func() error, error) {
	client := fake.NewClientset(&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "default"}})
	factory := informers.NewSharedInformerFactory(client, 0)
	namespaces := factory.Core().V1().Namespaces().Lister()
	factory.Start(ctx.Done())
	factory.WaitForCacheSync(ctx.Done())
	dispatcher := validating.NewDispatcher(authorizerfactory.NewAlwaysAllowAuthorizer(), generic.NewPolicyMatcher(matching.NewMatcher(namespaces, client)))
	environments := environment.MustBaseEnvSet(environment.DefaultCompatibilityVersion())
	var hooks []validating.PolicyHook
	for i, p := range policies {
		c, err := admissioncel.NewCompositedCompiler(environments)
		if err != nil {
			return nil, err
		}
		options := admissioncel.OptionalVariableDeclarations{HasAuthorizer: true}
		compile := func(list ...admissioncel.ExpressionAccessor) admissioncel.ConditionEvaluator {
			return c.CompileCondition(list, options, environment.StoredExpressions)
		}
		hooks = append(hooks, validating.PolicyHook{Policy: p, Bindings: bindings[i : i+1], Evaluator: validating.NewValidator(
			compile(&validating.ValidationCondition{Expression: p.Spec.Validations[0].Expression}), nil, compile(), compile(nil), p.Spec.FailurePolicy, nil)})
	}
	a, err := theirWidget()
	return func() error { return dispatcher.Dispatch(ctx, a, widgetInterfaces{}, hooks) }, err
}

// widgetInterfaces are those of a custom resource of one version.
type widgetInterfaces struct{ upadmission.ObjectInterfaces }

// widgetVersions is made once, as upstream's server does.
var widgetVersions = func() runtime.EquivalentResourceMapper {
	r := runtime.NewEquivalentResourceRegistry()
	gv := schema.GroupVersion{Group: "demo.io", Version: "v1"}
	r.RegisterKindFor(gv.WithResource("widgets"), "", gv.WithKind("Widget"))
	return r
}()

func (widgetInterfaces) GetEquivalentResourceMapper() runtime.EquivalentResourceMapper {
	return widgetVersions
}
