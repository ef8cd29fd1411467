package webhook

import (
	"context"
	"maps"
	"testing"
	"time"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/admission"
	"k8s.io/apiserver/pkg/admission/plugin/webhook/mutating"
	"k8s.io/apiserver/pkg/admission/plugin/webhook/validating"
	auditinternal "k8s.io/apiserver/pkg/apis/audit"
	"k8s.io/apiserver/pkg/audit"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/authorization/authorizer"
	"k8s.io/apiserver/pkg/warning"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes/fake"
)

// This file is upstream's side: its admission plugins, over informers of a fake
// client.

type upstream struct {
	mutating   *mutating.Plugin
	validating *validating.Plugin
}

// onlyAnn lets nobody else do anything.
type onlyAnn struct{}

func (onlyAnn) Authorize(_ context.Context, a authorizer.Attributes) (authorizer.Decision, string, error) {
	if a.GetUser().GetName() == "ann" {
		return authorizer.DecisionAllow, "", nil
	}
	return authorizer.DecisionNoOpinion, "no", nil
}

// namespaceLabels are the namespaces that there are.
var namespaceLabels = map[string]map[string]string{"a": {"pick": "me"}, "b": nil}

func newUpstream(t testing.TB, m []*admissionv1.MutatingWebhookConfiguration, v []*admissionv1.ValidatingWebhookConfiguration) *upstream {
	t.Helper()
	var objects []runtime.Object
	for name, labels := range namespaceLabels {
		objects = append(objects, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: labels}})
	}
	for _, c := range m {
		objects = append(objects, c)
	}
	for _, c := range v {
		objects = append(objects, c)
	}
	client := fake.NewClientset(objects...)
	factory := informers.NewSharedInformerFactory(client, 0)
	u := &upstream{}
	var err error
	if u.mutating, err = mutating.NewMutatingWebhook(nil); err != nil {
		t.Fatal(err)
	}
	if u.validating, err = validating.NewValidatingAdmissionWebhook(nil); err != nil {
		t.Fatal(err)
	}
	u.mutating.SetExternalKubeClientSet(client)
	u.validating.SetExternalKubeClientSet(client)
	u.mutating.SetExternalKubeInformerFactory(factory)
	u.validating.SetExternalKubeInformerFactory(factory)
	u.mutating.SetUnconditionalAuthorizer(onlyAnn{})
	u.validating.SetUnconditionalAuthorizer(onlyAnn{})
	for _, p := range []admission.InitializationValidator{u.mutating, u.validating} {
		if err := p.ValidateInitialization(); err != nil {
			t.Fatal(err)
		}
	}
	ctx, cancel := context.WithCancel(context.Background())
	t.Cleanup(cancel)
	factory.Start(ctx.Done())
	factory.WaitForCacheSync(ctx.Done())
	return u
}

// attributes are the request as upstream has it.
func (q *request) attributes(object map[string]any) admission.Attributes {
	of := func(m map[string]any) runtime.Object {
		if m == nil {
			return nil
		}
		return &unstructured.Unstructured{Object: runtime.DeepCopyJSON(m)}
	}
	gv := schema.GroupVersion{Group: "demo.io", Version: q.version}
	return admission.NewAttributesRecord(of(object), of(q.old), gv.WithKind("Widget"), q.namespace, q.name, gv.WithResource("widgets"), q.subresource,
		admission.Operation(q.operation), q.options(), q.dryRun, &user.DefaultInfo{Name: q.user, Groups: []string{"g"}})
}

func (q *request) options() runtime.Object {
	t := func(kind string) metav1.TypeMeta { return metav1.TypeMeta{Kind: kind, APIVersion: "meta.k8s.io/v1"} }
	var dryRun []string
	if q.dryRun {
		dryRun = []string{"All"}
	}
	switch q.operation {
	case "CREATE":
		return &metav1.CreateOptions{TypeMeta: t("CreateOptions"), FieldManager: "m", DryRun: dryRun}
	case "UPDATE":
		return &metav1.UpdateOptions{TypeMeta: t("UpdateOptions"), FieldManager: "m", DryRun: dryRun}
	}
	return &metav1.DeleteOptions{TypeMeta: t("DeleteOptions"), DryRun: dryRun}
}

// heard collects warnings.
type heard struct{ texts []string }

func (h *heard) AddWarning(_, text string) { h.texts = append(h.texts, text) }

// decide takes a request through both phases, the first of which may have two
// rounds.
func (u *upstream) decide(q *request) *outcome {
	h := &heard{}
	ctx, cancel := context.WithTimeout(audit.WithAuditContext(warning.WithWarningRecorder(context.Background(), h)), time.Minute)
	defer cancel()
	notes := audit.AuditContextFrom(ctx)
	_ = notes.Init(audit.RequestAuditConfig{Level: auditinternal.LevelRequest}, nil)
	a := q.attributes(q.object)
	plugin := admission.WithAudit(u.mutating).(admission.MutationInterface)
	err := plugin.Admit(ctx, a, interfaces{})
	if again := a.GetReinvocationContext(); err == nil && again.ShouldReinvoke() {
		again.SetIsReinvoke()
		err = plugin.Admit(ctx, a, interfaces{})
	}
	out := &outcome{}
	if o, ok := a.GetObject().(*unstructured.Unstructured); ok && o != nil {
		out.object = o.Object
	}
	if err == nil {
		err = admission.WithAudit(u.validating).(admission.ValidationInterface).Validate(ctx, q.attributes(out.object), interfaces{})
	}
	out.err, out.warnings, out.notes = err, h.texts, notes.GetEventAnnotations()
	return out
}

// interfaces are a custom resource's with versions that differ in name only.
type interfaces struct{ admission.ObjectInterfaces }

func (interfaces) GetObjectCreater() runtime.ObjectCreater     { return interfaces{} }
func (interfaces) GetObjectTyper() runtime.ObjectTyper         { return runtime.NewScheme() }
func (interfaces) GetObjectDefaulter() runtime.ObjectDefaulter { return interfaces{} }
func (interfaces) GetObjectConvertor() runtime.ObjectConvertor { return convertor{} }

// Default implements runtime.ObjectDefaulter: there are none.
func (interfaces) Default(runtime.Object) {}

// New implements runtime.ObjectCreater.
func (interfaces) New(schema.GroupVersionKind) (runtime.Object, error) {
	return &unstructured.Unstructured{}, nil
}

// GetEquivalentResourceMapper: v3 is not served, and only v1 has a status.
func (interfaces) GetEquivalentResourceMapper() runtime.EquivalentResourceMapper {
	r := runtime.NewEquivalentResourceRegistry()
	for _, version := range versions {
		gv := schema.GroupVersion{Group: "demo.io", Version: version}
		r.RegisterKindFor(gv.WithResource("widgets"), "", gv.WithKind("Widget"))
		if version == "v1" {
			r.RegisterKindFor(gv.WithResource("widgets"), "status", gv.WithKind("Widget"))
		}
	}
	return r
}

type convertor struct{ runtime.ObjectConvertor }

// Convert keeps the version of what is converted into.
func (convertor) Convert(in, out, _ any) error {
	to := out.(*unstructured.Unstructured)
	version := to.GetAPIVersion()
	if to.Object = maps.Clone(in.(*unstructured.Unstructured).Object); version != "" {
		to.SetAPIVersion(version)
	}
	return nil
}
