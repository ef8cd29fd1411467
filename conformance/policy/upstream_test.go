// Package policy compares the enforcement of validating admission policies with
// upstream's own dispatcher: the same policies, bindings, parameters and
// requests on both sides.
package policy

import (
	"context"
	"maps"
	"sync"
	"testing"
	"time"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/admission"
	admissioncel "k8s.io/apiserver/pkg/admission/plugin/cel"
	"k8s.io/apiserver/pkg/admission/plugin/policy/generic"
	"k8s.io/apiserver/pkg/admission/plugin/policy/matching"
	"k8s.io/apiserver/pkg/admission/plugin/policy/mutating"
	"k8s.io/apiserver/pkg/admission/plugin/policy/validating"
	"k8s.io/apiserver/pkg/admission/plugin/webhook/matchconditions"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/authorization/authorizer"
	"k8s.io/apiserver/pkg/cel/environment"
	"k8s.io/apiserver/pkg/warning"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes/fake"

	"github.com/keelson-io/keelson/internal/admission/policy"
)

// This file is upstream's side.

// upstream is upstream's dispatcher with its surroundings.
type upstream struct {
	dispatcher generic.Dispatcher[validating.PolicyHook]
	hooks      []validating.PolicyHook
	params     informers.GenericInformer
	matcher    *matching.Matcher
	mutating   generic.Dispatcher[mutating.PolicyHook]
	mutations  []mutating.PolicyHook
	meter      *meter
}

func newUpstream(t *testing.T, objects []runtime.Object) *upstream {
	client := fake.NewClientset(objects...)
	factory := informers.NewSharedInformerFactory(client, 0)
	namespaces := factory.Core().V1().Namespaces().Lister()
	params, err := factory.ForResource(corev1.SchemeGroupVersion.WithResource("configmaps"))
	if err != nil {
		t.Fatal(err)
	}
	params.Informer()
	ctx, cancel := context.WithCancel(context.Background())
	t.Cleanup(cancel)
	factory.Start(ctx.Done())
	factory.WaitForCacheSync(ctx.Done())
	matcher := matching.NewMatcher(namespaces, client)
	return &upstream{dispatcher: validating.NewDispatcher(mayRead{}, generic.NewPolicyMatcher(matcher)), params: params, matcher: matcher, meter: newMeter()}
}

// mayRead lets everybody read and ann write.
type mayRead struct{}

func (mayRead) Authorize(_ context.Context, a authorizer.Attributes) (authorizer.Decision, string, error) {
	if a.GetVerb() == "get" || a.GetUser().GetName() == "ann" {
		return authorizer.DecisionAllow, "", nil
	}
	return authorizer.DecisionNoOpinion, "no", nil
}

var environments = sync.OnceValue(func() *environment.EnvSet {
	return environment.MustBaseEnvSet(environment.DefaultCompatibilityVersion())
})

// use puts policies in force.
func (u *upstream) use(t *testing.T, policies []*admissionv1.ValidatingAdmissionPolicy, bindings []*admissionv1.ValidatingAdmissionPolicyBinding) {
	u.hooks = nil
	for _, p := range policies {
		h := validating.PolicyHook{Policy: p, Evaluator: u.compile(t, p)}
		if p.Spec.ParamKind != nil {
			h.ParamInformer, h.ParamScope = u.params, meta.RESTScopeNamespace
		}
		for _, b := range bindings {
			if b.Spec.PolicyName == p.Name {
				h.Bindings = append(h.Bindings, b)
			}
		}
		u.hooks = append(u.hooks, h)
	}
}

// compile makes upstream's validator of a policy out of upstream's parts.
func (u *upstream) compile(t *testing.T, p *admissionv1.ValidatingAdmissionPolicy) validating.Validator {
	meter := func(c admissioncel.ConditionEvaluator, sum func(*policy.Costs) *uint64) admissioncel.ConditionEvaluator {
		return metered{c, u.meter, p.Name, sum}
	}
	c, err := admissioncel.NewCompositedCompiler(environments())
	if err != nil {
		t.Fatal(err)
	}
	asking := admissioncel.OptionalVariableDeclarations{HasParams: p.Spec.ParamKind != nil, HasAuthorizer: true}
	telling := admissioncel.OptionalVariableDeclarations{HasParams: p.Spec.ParamKind != nil}
	var variables []admissioncel.NamedExpressionAccessor
	for _, v := range p.Spec.Variables {
		variables = append(variables, &validating.Variable{Name: v.Name, Expression: v.Expression})
	}
	const stored = environment.StoredExpressions
	c.CompileAndStoreVariables(variables, asking, stored)
	var matcher matchconditions.Matcher
	if len(p.Spec.MatchConditions) > 0 {
		var list []admissioncel.ExpressionAccessor
		for _, m := range p.Spec.MatchConditions {
			list = append(list, (*matchconditions.MatchCondition)(&m))
		}
		matcher = matchconditions.NewMatcher(meter(c.CompileCondition(list, asking, stored), onConditions), p.Spec.FailurePolicy, "policy", "validate", p.Name)
	}
	validations, messages, notes := []admissioncel.ExpressionAccessor{}, make([]admissioncel.ExpressionAccessor, len(p.Spec.Validations)), []admissioncel.ExpressionAccessor{}
	for i, v := range p.Spec.Validations {
		validations = append(validations, &validating.ValidationCondition{Expression: v.Expression, Message: v.Message, Reason: v.Reason})
		if v.MessageExpression != "" {
			messages[i] = &validating.MessageExpressionCondition{MessageExpression: v.MessageExpression}
		}
	}
	for _, a := range p.Spec.AuditAnnotations {
		notes = append(notes, &validating.AuditAnnotationCondition{Key: a.Key, ValueExpression: a.ValueExpression})
	}
	return validating.NewValidator(meter(c.CompileCondition(validations, asking, stored), onExpressions), matcher,
		meter(c.CompileCondition(notes, asking, stored), onAnnotations), meter(c.CompileCondition(messages, telling, stored), onExpressions), p.Spec.FailurePolicy, nil)
}

// heard collects warnings.
type heard struct{ texts []string }

func (h *heard) AddWarning(_, text string) { h.texts = append(h.texts, text) }

// ask lets upstream decide.
func (u *upstream) ask(r *request) (warnings []string, err error) {
	h := &heard{}
	*u.meter = *newMeter()
	ctx, cancel := context.WithTimeout(warning.WithWarningRecorder(context.Background(), h), time.Minute)
	defer cancel()
	a := r.attributes()
	err = u.dispatcher.Dispatch(ctx, a, interfaces{}, u.hooks)
	return h.texts, err
}

// attributes are the request as upstream has it.
func (r *request) attributes() admission.Attributes {
	var object, old runtime.Object
	if r.object != nil {
		object = &unstructured.Unstructured{Object: runtime.DeepCopyJSON(r.object)}
	}
	if r.old != nil {
		old = &unstructured.Unstructured{Object: runtime.DeepCopyJSON(r.old)}
	}
	gv := schema.GroupVersion{Group: "demo.io", Version: r.version}
	return admission.NewAttributesRecord(object, old, gv.WithKind("Widget"), r.namespace, r.name, gv.WithResource("widgets"), r.subresource,
		admission.Operation(r.operation), r.options(), false, &user.DefaultInfo{Name: r.user, Groups: []string{"g"}})
}

func (r *request) options() runtime.Object {
	t := func(kind string) metav1.TypeMeta { return metav1.TypeMeta{Kind: kind, APIVersion: "meta.k8s.io/v1"} }
	switch r.operation {
	case "CREATE":
		return &metav1.CreateOptions{TypeMeta: t("CreateOptions"), FieldManager: "m"}
	case "UPDATE":
		return &metav1.UpdateOptions{TypeMeta: t("UpdateOptions"), FieldManager: "m"}
	}
	return &metav1.DeleteOptions{TypeMeta: t("DeleteOptions")}
}

// interfaces are a custom resource's with two versions that differ in name only.
type interfaces struct{ admission.ObjectInterfaces }

func (interfaces) GetObjectCreater() runtime.ObjectCreater     { return interfaces{} }
func (interfaces) GetObjectConvertor() runtime.ObjectConvertor { return convertor{} }
func (interfaces) New(schema.GroupVersionKind) (runtime.Object, error) {
	return &unstructured.Unstructured{}, nil
}
func (interfaces) GetEquivalentResourceMapper() runtime.EquivalentResourceMapper {
	r := runtime.NewEquivalentResourceRegistry()
	for _, version := range versions {
		gv := schema.GroupVersion{Group: "demo.io", Version: version}
		for _, sub := range []string{"", "status"} {
			r.RegisterKindFor(gv.WithResource("widgets"), sub, gv.WithKind("Widget"))
		}
	}
	return r
}

type convertor struct{ runtime.ObjectConvertor }

func (convertor) Convert(in, out, _ any) error {
	to := out.(*unstructured.Unstructured)
	version := to.GetAPIVersion()
	if to.Object = maps.Clone(in.(*unstructured.Unstructured).Object); version != "" {
		to.SetAPIVersion(version)
	}
	return nil
}
