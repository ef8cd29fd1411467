// Package podsecurity is the admission plugin PodSecurity: it holds pods to the Pod Security
// Standards that the labels of their namespace name.
//
// # Model
//
// A namespace has a level (privileged, baseline or restricted) for each of three modes: enforce
// refuses pods, audit annotates the audit event, warn warns the client. Labels that are absent leave
// the defaults of the [Configuration]. Objects with a template of pods, such as Deployments, are
// audited and warned of, never refused. Users, namespaces and runtime classes may be exempt. The
// checks themselves are those of the module k8s.io/pod-security-admission, which Kubernetes uses, too.
//
// # Invariants
//
//   - Verdicts, warnings and annotations are those of Kubernetes' plugin.
//   - If the namespace of a pod cannot be read, the pod is refused.
//   - When the level of a namespace rises, at most maxPods of its pods are checked, for at most
//     maxCheck.
//
// [New] makes the [Step].
//
// Source: https://kubernetes.io/docs/concepts/security/pod-security-admission/.
package podsecurity

import (
	"context"
	"fmt"
	"slices"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/pod-security-admission/api"
	"k8s.io/pod-security-admission/policy"

	"github.com/keelson-io/keelson/internal/admission"
	"github.com/keelson-io/keelson/internal/admission/lookup"
	"github.com/keelson-io/keelson/internal/status"
)

var (
	pods       = schema.GroupResource{Resource: "pods"}
	namespaces = schema.GroupResource{Resource: "namespaces"}
)

// Resources returns the resources that the step is for.
func Resources() []schema.GroupResource {
	list := []schema.GroupResource{pods, namespaces}
	for gr := range templates {
		list = append(list, gr)
	}
	return list
}

// templates return the template of pods in a request; nil if it has none.
var templates = map[schema.GroupResource]func(*admission.Request) (*corev1.PodTemplateSpec, error){
	{Resource: "podtemplates"}: templateOf(func(o *corev1.PodTemplate) *corev1.PodTemplateSpec { return &o.Template }),
	{Resource: "replicationcontrollers"}: templateOf(func(o *corev1.ReplicationController) *corev1.PodTemplateSpec {
		return o.Spec.Template
	}),
	{Group: "apps", Resource: "replicasets"}:  templateOf(func(o *appsv1.ReplicaSet) *corev1.PodTemplateSpec { return &o.Spec.Template }),
	{Group: "apps", Resource: "deployments"}:  templateOf(func(o *appsv1.Deployment) *corev1.PodTemplateSpec { return &o.Spec.Template }),
	{Group: "apps", Resource: "statefulsets"}: templateOf(func(o *appsv1.StatefulSet) *corev1.PodTemplateSpec { return &o.Spec.Template }),
	{Group: "apps", Resource: "daemonsets"}:   templateOf(func(o *appsv1.DaemonSet) *corev1.PodTemplateSpec { return &o.Spec.Template }),
	{Group: "batch", Resource: "jobs"}:        templateOf(func(o *batchv1.Job) *corev1.PodTemplateSpec { return &o.Spec.Template }),
	{Group: "batch", Resource: "cronjobs"}: templateOf(func(o *batchv1.CronJob) *corev1.PodTemplateSpec {
		return &o.Spec.JobTemplate.Spec.Template
	}),
}

// templateOf returns a function that gets the pod template of a request's object.
func templateOf[T any](template func(*T) *corev1.PodTemplateSpec) func(*admission.Request) (*corev1.PodTemplateSpec, error) {
	return func(r *admission.Request) (*corev1.PodTemplateSpec, error) {
		o, err := admission.NewObject[T](r)
		if err != nil {
			return nil, err
		}
		return template(o), nil
	}
}

// Step is the plugin.
type Step struct {
	source     lookup.Source
	namespaces *lookup.Lister[corev1.Namespace]
	checks     policy.Evaluator
	defaults   api.Policy
	exempt     Exemptions
	metrics    *Metrics
}

// New returns the Step for a configuration in which Check finds no mistakes. If m is nil, it counts
// nothing.
func New(s lookup.Source, c *Configuration, m *Metrics) *Step {
	checks, err := policy.NewEvaluator(policy.DefaultChecks(), nil)
	if err != nil {
		panic("BUG: the checks of pods: " + err.Error())
	}
	defaults, err := c.policy()
	if err != nil {
		panic("BUG: the configuration was not checked: " + err.Error())
	}
	return &Step{source: s, namespaces: lookup.New[corev1.Namespace](s, namespaces), checks: checks, defaults: defaults, exempt: c.Exemptions, metrics: m}
}

// Validate implements admission.Validator.
func (s *Step) Validate(ctx context.Context, r *admission.Request) error {
	if r.Operation == admission.Delete {
		return nil
	}
	switch gr := r.Version.Kind.GroupResource(); gr {
	case namespaces:
		if r.Subresource != "" {
			return nil
		}
		return s.namespace(ctx, r)
	case pods:
		return s.pod(ctx, r)
	default:
		return s.template(ctx, r, templates[gr])
	}
}

// annotate adds an audit annotation of the plugin.
func annotate(r *admission.Request, key, value string) {
	r.Annotate(api.AuditAnnotationPrefix+key, value)
}

// isExempt reports whether nothing is checked for the namespace or the user of a request.
func (s *Step) isExempt(r *admission.Request) bool {
	switch {
	case r.Namespace != "" && slices.Contains(s.exempt.Namespaces, r.Namespace):
		annotate(r, api.ExemptionReasonAnnotationKey, "namespace")
	case r.User.Name != "" && slices.Contains(s.exempt.Usernames, r.User.Name):
		annotate(r, api.ExemptionReasonAnnotationKey, "user")
	default:
		return false
	}
	s.metrics.exempted(r)
	return true
}

// levels returns the levels of a namespace. errs are the mistakes in its labels.
func (s *Step) levels(ctx context.Context, name string) (levels api.Policy, errs field.ErrorList, err error) {
	namespace, err := s.namespaces.Get(ctx, "", name)
	if err == nil && namespace == nil {
		err = status.NotFound(namespaces, name)
	}
	if err != nil {
		return levels, nil, err
	}
	levels, errs = api.PolicyToEvaluate(namespace.Labels, s.defaults)
	return levels, errs, nil
}

// pod checks a pod.
func (s *Step) pod(ctx context.Context, r *admission.Request) error {
	switch r.Subresource {
	case "exec", "attach", "binding", "eviction", "log", "portforward", "proxy", "status":
		return nil
	}
	if r.Foreign != nil || s.isExempt(r) {
		return nil
	}
	levels, errs, err := s.levels(ctx, r.Namespace)
	if err != nil {
		s.metrics.failed(r, true)
		failure := status.Internal(fmt.Errorf("failed to lookup namespace %q", r.Namespace))
		annotate(r, "error", fmt.Sprintf("%s: %v", failure.Message, err))
		return failure
	}
	if len(errs) == 0 && levels.FullyPrivileged() {
		privileged := api.LevelVersion{Level: api.LevelPrivileged, Version: api.LatestVersion()}
		annotate(r, api.EnforcedPolicyAnnotationKey, privileged.String())
		s.metrics.evaluated(r, true, levels.Enforce, "enforce")
		return nil
	}
	pod, err := admission.NewObject[corev1.Pod](r)
	if err != nil {
		s.metrics.failed(r, true)
		return err
	}
	if r.Operation == admission.Update {
		old, err := admission.OldObject[corev1.Pod](r)
		if err != nil {
			s.metrics.failed(r, true)
			return err
		}
		if !matters(pod, old) {
			return nil
		}
	}
	return s.evaluate(r, levels, errs, &pod.ObjectMeta, &pod.Spec, true)
}

// template checks an object with a template of pods. It refuses nothing.
func (s *Step) template(ctx context.Context, r *admission.Request, template func(*admission.Request) (*corev1.PodTemplateSpec, error)) error {
	if r.Subresource != "" || s.isExempt(r) {
		return nil
	}
	levels, errs, err := s.levels(ctx, r.Namespace)
	if err != nil {
		s.metrics.failed(r, true)
		annotate(r, "error", fmt.Sprintf("failed to lookup namespace %q: %v", r.Namespace, err))
		return nil
	}
	if len(errs) == 0 && levels.Warn.Level == api.LevelPrivileged && levels.Audit.Level == api.LevelPrivileged {
		return nil
	}
	t, err := template(r)
	if err != nil {
		s.metrics.failed(r, true)
		return err
	}
	if t == nil {
		return nil
	}
	return s.evaluate(r, levels, errs, &t.ObjectMeta, &t.Spec, false)
}

// evaluate checks a pod in all modes, and in the mode enforce if enforce is true.
func (s *Step) evaluate(r *admission.Request, levels api.Policy, errs field.ErrorList, m *metav1.ObjectMeta, spec *corev1.PodSpec, enforce bool) error {
	if class := spec.RuntimeClassName; class != nil && *class != "" && slices.Contains(s.exempt.RuntimeClasses, *class) {
		annotate(r, api.ExemptionReasonAnnotationKey, "runtimeClass")
		s.metrics.exempted(r)
		return nil
	}
	if len(errs) > 0 {
		s.metrics.failed(r, false)
		annotate(r, "error", fmt.Sprintf("Failed to parse policy: %v", errs.ToAggregate()))
	}
	results := map[api.LevelVersion]policy.AggregateCheckResult{}
	check := func(level api.LevelVersion) policy.AggregateCheckResult {
		result, ok := results[level]
		if !ok {
			result = policy.AggregateCheckResults(s.checks.EvaluatePod(level, m, spec))
			results[level] = result
		}
		return result
	}
	var refusal error
	if enforce {
		annotate(r, api.EnforcedPolicyAnnotationKey, levels.Enforce.String())
		result := check(levels.Enforce)
		s.metrics.evaluated(r, result.Allowed, levels.Enforce, "enforce")
		if !result.Allowed {
			refusal = status.Forbidden(r.Version.Kind.GroupResource(), r.Name,
				fmt.Errorf("violates PodSecurity %q: %s", levels.Enforce.String(), result.ForbiddenDetail()))
		}
	}
	if result := check(levels.Audit); !result.Allowed {
		s.metrics.evaluated(r, false, levels.Audit, "audit")
		annotate(r, api.AuditViolationsAnnotationKey, fmt.Sprintf("would violate PodSecurity %q: %s", levels.Audit.String(), result.ForbiddenDetail()))
	}
	if refusal != nil {
		return refusal
	}
	if result := check(levels.Warn); !result.Allowed {
		s.metrics.evaluated(r, false, levels.Warn, "warn")
		r.Warn(fmt.Sprintf("would violate PodSecurity %q: %s", levels.Warn.String(), result.ForbiddenDetail()))
	}
	return nil
}

// matters reports whether an update changes anything that levels are about: of what can change, the
// images and the ephemeral containers.
func matters(pod, old *corev1.Pod) bool {
	for _, lists := range [][2][]corev1.Container{{pod.Spec.Containers, old.Spec.Containers}, {pod.Spec.InitContainers, old.Spec.InitContainers}} {
		sameImages := slices.EqualFunc(lists[0], lists[1], func(a, b corev1.Container) bool { return a.Image == b.Image })
		if !sameImages {
			return true
		}
	}
	for i := range pod.Spec.EphemeralContainers {
		c := &pod.Spec.EphemeralContainers[i]
		same := slices.ContainsFunc(old.Spec.EphemeralContainers, func(o corev1.EphemeralContainer) bool { return o.Name == c.Name && o.Image == c.Image })
		if !same {
			return true
		}
	}
	return false
}
