package api

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	apimeta "k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	kschema "k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/keelson-io/keelson/cache"
	"github.com/keelson-io/keelson/doc"
	"github.com/keelson-io/keelson/meta"
	"github.com/keelson-io/keelson/status"
)

// This file evicts pods: deletes them unless a budget for disruptions is
// against it. Nobody here counts who is healthy; what a budget's status says
// comes from whoever does, or from a test.

var evictionKind = kschema.GroupKind{Group: policyv1.GroupName, Kind: "Eviction"}

const (
	// evictionTries is how often a pod is looked at again that changed meanwhile.
	evictionTries = 20
	// maxDisrupted is how many pods a budget may wait for.
	maxDisrupted = 2000
)

// eviction is one eviction of a pod.
type eviction struct {
	pod     *request // for the pod
	options *meta.DeleteOptions
}

// evict deletes a pod, or says which budget is against it.
func evict(q *request, d *doc.Doc, o *meta.WriteOptions) error {
	q.recordObject(d)
	a := q.foreign(d, o)
	if err := q.h.admission.Mutate(q.ctx, a); err != nil {
		return err
	}
	r := new(policyv1.Eviction)
	if err := json.Unmarshal(d.AppendJSON(nil, d.Root().Node), r); err != nil {
		return status.BadRequest("%v", err)
	}
	if q.name != r.Name {
		return status.BadRequest("name in URL does not match name in Eviction object")
	}
	options, err := evictionOptions(q.name, r.DeleteOptions, o.DryRun)
	if err != nil {
		return err
	}
	if err := q.h.admission.Validate(q.ctx, a); err != nil {
		return err
	}
	pod, err := q.pod(q.name)
	if err != nil {
		return err
	}
	e := &eviction{pod: pod, options: options}
	if err := e.run(); err != nil {
		return err
	}
	return q.success()
}

// evictionOptions are the options of the deletion.
func evictionOptions(name string, o *metav1.DeleteOptions, dryRun bool) (*meta.DeleteOptions, error) {
	all := []string{metav1.DryRunAll}
	if o == nil {
		return &meta.DeleteOptions{DryRun: dryRun}, nil
	}
	if unread := o.IgnoreStoreReadErrorWithClusterBreakingPotential; unread != nil && *unread {
		return nil, status.Invalid(evictionKind, name, field.ErrorList{
			field.Invalid(field.NewPath("deleteOptions", "ignoreStoreReadErrorWithClusterBreakingPotential"), true,
				"can not be set for pod eviction, try after removing the option")})
	}
	switch {
	case dryRun && len(o.DryRun) == 0:
		o.DryRun = all
	case dryRun && !slices.Equal(o.DryRun, all):
		return nil, status.Plain500(fmt.Sprintf("Non-matching dry-run options in request and content: %v and %v", all, o.DryRun))
	}
	text, err := json.Marshal(o)
	if err != nil {
		return nil, status.Internal(err)
	}
	return meta.ParseDeleteOptions(text, typeJSON, nil)
}

// run evicts. A pod that disturbs nobody is looked at again if it changed meanwhile, unless the client has said which version of it is
// meant.
func (e *eviction) run() error {
	for try := 1; ; try++ {
		free, err := e.try()
		if err == nil || !free || !conflicts(err) || e.options.ResourceVersion != nil || try == evictionTries || e.pod.ctx.Err() != nil {
			return err
		}
	}
}

func conflicts(err error) bool { return status.From(err).Reason == metav1.StatusReasonConflict }

// try evicts the pod as it is now. free: no budget was asked.
func (e *eviction) try() (free bool, err error) {
	var pod corev1.Pod
	rev, err := e.pod.latest(&pod)
	if err != nil {
		return true, err
	}
	ended := pod.Status.Phase == corev1.PodSucceeded || pod.Status.Phase == corev1.PodFailed || pod.DeletionTimestamp != nil
	if ended || pod.Status.Phase == corev1.PodPending {
		return true, e.delete(rev, !ended)
	}
	budget, err := e.budget(&pod)
	switch {
	case err != nil:
		return false, err
	case budget == nil:
		return false, e.delete(rev, false)
	case ready(&pod) || !spares(budget):
		if err := e.spend(budget.Name); err != nil {
			return false, err
		}
		return false, e.delete(rev, false)
	}
	err = e.delete(rev, true)
	if err != nil && e.options.ResourceVersion == nil && conflicts(err) {
		return false, inProgress(budget.Name) // the pod may be healthy by now
	}
	return false, err
}

// delete deletes the pod and says in its status why; with current only as it was at rev.
func (e *eviction) delete(rev int64, current bool) error {
	options := *e.options
	if current && options.ResourceVersion == nil {
		options.ResourceVersion = new(strconv.FormatInt(rev, 10))
	}
	if !options.DryRun {
		became, err := e.pod.rewrite(false, func(d *doc.Doc, obj *cache.Object) error {
			if err := e.pod.preconditions(&options, meta.Object{Doc: d}, obj); err != nil {
				return err
			}
			return setCondition(d, corev1.PodCondition{Type: corev1.DisruptionTarget, Status: corev1.ConditionTrue,
				Reason: "EvictionByEvictionAPI", Message: "Eviction API: evicting"})
		})
		if err != nil {
			return err
		}
		if options.ResourceVersion != nil {
			options.ResourceVersion = new(strconv.FormatInt(became, 10))
		}
	}
	_, err := e.pod.remove(&options)
	return err
}

// budget is the budget that counts a pod, nil if none does.
func (e *eviction) budget(pod *corev1.Pod) (*policyv1.PodDisruptionBudget, error) {
	q, err := e.budgets("")
	if err != nil || q == nil {
		return nil, err
	}
	if err := q.res.Fresh(q.ctx); err != nil {
		return nil, storeError(err)
	}
	var found []policyv1.PodDisruptionBudget
	prefix := q.kind.Key(q.namespace, "")
	q.res.Snapshot().Ascend(prefix, func(obj *cache.Object) bool {
		if !strings.HasPrefix(obj.Key, prefix) {
			return false
		}
		var b policyv1.PodDisruptionBudget
		if err = q.typed(obj, &b); err != nil {
			return false
		}
		if s, bad := metav1.LabelSelectorAsSelector(b.Spec.Selector); bad == nil && s.Matches(labels.Set(pod.Labels)) {
			found = append(found, b)
		}
		return true
	})
	switch {
	case err != nil:
		return nil, err
	case len(found) > 1:
		return nil, status.Plain500("This pod has more than one PodDisruptionBudget, which the eviction subresource does not support.")
	case len(found) == 1:
		return &found[0], nil
	}
	return nil, nil
}

// budgets is a request for a budget in the pod's namespace; nil if nobody serves budgets.
func (e *eviction) budgets(name string) (*request, error) {
	k := e.pod.h.Kinds.Load().Lookup(policyv1.GroupName, "poddisruptionbudgets")
	if k == nil {
		return nil, nil
	}
	q := e.pod.h.As(ServerManager).request(e.pod.ctx, k, e.pod.namespace, name, "")
	if err := q.res.Ready(q.ctx); err != nil {
		return nil, storeError(err)
	}
	return q, nil
}

// spend takes one disruption off a budget, if it has one left.
func (e *eviction) spend(name string) error {
	q, err := e.budgets(name)
	if err != nil {
		return err
	}
	if e.options.DryRun {
		var b policyv1.PodDisruptionBudget
		if _, err := q.latest(&b); err != nil {
			return err
		}
		return allows(&b)
	}
	return e.pod.h.As(ServerManager).ModifyPart(q.ctx, q.kind, q.namespace, name, "status", func(m meta.Object) error {
		var b policyv1.PodDisruptionBudget
		if err := json.Unmarshal(m.Doc.AppendJSON(nil, m.Doc.Root().Node), &b); err != nil {
			return status.Internal(err)
		}
		if err := allows(&b); err != nil {
			return err
		}
		if b.Status.DisruptionsAllowed--; b.Status.DisruptionsAllowed == 0 {
			apimeta.SetStatusCondition(&b.Status.Conditions, metav1.Condition{
				Type: policyv1.DisruptionAllowedCondition, Reason: policyv1.InsufficientPodsReason, Status: metav1.ConditionFalse,
				ObservedGeneration: b.Status.ObservedGeneration})
		}
		if b.Status.DisruptedPods == nil {
			b.Status.DisruptedPods = map[string]metav1.Time{}
		}
		b.Status.DisruptedPods[e.pod.name] = metav1.Time{Time: time.Now()}
		return setTyped(m.Doc, b.Status, "status")
	})
}

// ready reports whether a pod is, which budgets take for healthy.
func ready(pod *corev1.Pod) bool {
	return slices.ContainsFunc(pod.Status.Conditions, func(c corev1.PodCondition) bool {
		return c.Type == corev1.PodReady && c.Status == corev1.ConditionTrue
	})
}

// spares reports whether a budget does not mind the loss of a pod that is not healthy.
func spares(b *policyv1.PodDisruptionBudget) bool {
	p, s := b.Spec.UnhealthyPodEvictionPolicy, &b.Status
	return p != nil && *p == policyv1.AlwaysAllow || s.CurrentHealthy >= s.DesiredHealthy && s.DesiredHealthy > 0
}

const violated = "Cannot evict pod as it would violate the pod's disruption budget."

// because adds to a refusal what the budget has to do with it.
func because(e *status.Error, format string, args ...any) *status.Error {
	if e.Details == nil {
		e.Details = &metav1.StatusDetails{}
	}
	e.Details.Causes = append(e.Details.Causes, metav1.StatusCause{Type: policyv1.DisruptionBudgetCause, Message: fmt.Sprintf(format, args...)})
	return e
}

// inProgress asks to try again when the budget is up to date.
func inProgress(budget string) error {
	return because(status.TooManyRequests(violated, 10), "The disruption budget %s is still being processed by the server.", budget)
}

// allows says why a budget does not allow a disruption.
func allows(b *policyv1.PodDisruptionBudget) error {
	s := &b.Status
	forbidden := func(why, cause string) error {
		gr := kschema.GroupResource{Group: policyv1.GroupName, Resource: "poddisruptionbudget"}
		return because(status.Forbidden(gr, b.Name, errors.New(why)),
			"The disruption budget %s does not allow evicting pods currently: %s", b.Name, cause)
	}
	switch {
	case s.ObservedGeneration < b.Generation:
		return inProgress(b.Name)
	case s.DisruptionsAllowed < 0:
		return forbidden("pdb disruptions allowed is negative", "pdb disruptions allowed is negative")
	case len(s.DisruptedPods) > maxDisrupted:
		return forbidden("DisruptedPods map too big - too many evictions not confirmed by PDB controller",
			"too many pending evictions not confirmed by PDB controller")
	case s.DisruptionsAllowed > 0:
		return nil
	}
	e, c := status.TooManyRequests(violated, 0), apimeta.FindStatusCondition(s.Conditions, policyv1.DisruptionAllowedCondition)
	said := c != nil && c.Status == metav1.ConditionFalse && c.Message != ""
	switch {
	case said && c.Reason == policyv1.SyncFailedReason:
		return because(e, "The disruption budget %s does not allow evicting pods currently because it failed sync: %s", b.Name, c.Message)
	case s.CurrentHealthy <= s.DesiredHealthy:
		return because(e, "The disruption budget %s needs %d healthy pods and has %d currently", b.Name, s.DesiredHealthy, s.CurrentHealthy)
	case said:
		return because(e, "The disruption budget %s does not allow evicting pods currently (%s): %s", b.Name, c.Reason, c.Message)
	}
	return because(e, "The disruption budget %s does not allow evicting pods currently", b.Name)
}
