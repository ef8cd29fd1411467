package objects

import (
	"context"
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

	"github.com/keelson-io/keelson/internal/cache"
	"github.com/keelson-io/keelson/internal/meta"
	"github.com/keelson-io/keelson/internal/status"
	"github.com/keelson-io/keelson/jsondoc"
	"github.com/keelson-io/keelson/kind"
)

// This file evicts pods: it deletes them unless a disruption budget is against it. It does not
// count healthy pods. The status of a budget comes from its controller.

const (
	// evictionTries is the number of attempts to evict a pod. An eviction that loses a race against
	// another writer starts again, because the pod may need a budget by now.
	evictionTries = 20
	// maxDisrupted is the number of evicted pods that a budget may wait for, as upstream.
	maxDisrupted = 2000
)

// eviction is one eviction of a pod.
type eviction struct {
	*Verbs
	ctx     context.Context
	caller  Caller
	pod     Ref
	options *meta.DeleteOptions
}

// Evict deletes a pod unless a disruption budget is against it. Admission is the caller's business.
func (v *Verbs) Evict(ctx context.Context, c Caller, namespace, name string, o *meta.DeleteOptions) error {
	// The eviction names its pod by the path, so that its body cannot mean another one.
	pod, err := v.pod(ctx, namespace, name)
	if err != nil {
		return err
	}
	e := &eviction{Verbs: v, ctx: ctx, caller: c, pod: pod, options: o}
	return e.run()
}

// run evicts. A pod that no budget protects is read again if it changed meanwhile, unless the
// client asked for one version of it.
func (e *eviction) run() error {
	for try := 1; ; try++ {
		// An eviction that has spent a disruption is not tried again: it would spend a second one.
		free, err := e.try()
		if err == nil || !free || !isConflict(err) || e.options.ResourceVersion != nil || try == evictionTries || e.ctx.Err() != nil {
			return err
		}
	}
}

// isConflict reports whether an error has the reason Conflict.
func isConflict(err error) bool { return status.From(err).Reason == metav1.StatusReasonConflict }

// try evicts the pod as it is now. free: no budget was asked.
func (e *eviction) try() (free bool, err error) {
	// The budget decides by the current state of the pod, not by an older one.
	var pod corev1.Pod
	rev, err := e.latest(e.ctx, e.pod, &pod)
	if err != nil {
		return true, err
	}
	// Budgets count running pods. A pod that has ended, or has not started, disturbs nobody. A pending
	// pod may start meanwhile, so it is only deleted in the state that was read.
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
	// A ready pod costs one disruption. So does a pod that is not ready, if the budget protects those.
	case isReady(&pod) || !spares(budget):
		if err := e.spend(budget.Name); err != nil {
			return false, err
		}
		return false, e.delete(rev, false)
	}
	// The pod is not ready and may go for free, as long as it does not become ready first.
	err = e.delete(rev, true)
	if err != nil && e.options.ResourceVersion == nil && isConflict(err) {
		return false, inProgress(budget.Name) // the pod may be healthy by now
	}
	return false, err
}

// delete deletes the pod and sets the reason in its status. With current, the pod must still be at
// rev.
func (e *eviction) delete(rev int64, current bool) error {
	options := *e.options
	if current && options.ResourceVersion == nil {
		options.ResourceVersion = new(strconv.FormatInt(rev, 10))
	}
	// From the condition, controllers such as that of jobs learn that the pod did not fail by
	// itself.
	if !options.DryRun {
		out, err := e.rewrite(e.ctx, e.caller, e.pod, false, func(d *jsondoc.Doc, obj *cache.Object) error {
			if err := e.pod.preconditions(&options, meta.Object{Doc: d}, obj); err != nil {
				return err
			}
			return setCondition(d, corev1.PodCondition{Type: corev1.DisruptionTarget, Status: corev1.ConditionTrue,
				Reason: "EvictionByEvictionAPI", Message: "Eviction API: evicting"})
		})
		out.Release()
		if err != nil {
			return err
		}
		if options.ResourceVersion != nil {
			// The write of the condition has changed the resource version.
			options.ResourceVersion = new(strconv.FormatInt(out.Revision, 10))
		}
	}
	out, err := e.Verbs.delete(e.ctx, e.caller, e.pod, &deletion{options: &options, admitted: true})
	out.Release()
	return err
}

// budget returns the budget that counts a pod, nil if none does.
func (e *eviction) budget(pod *corev1.Pod) (*policyv1.PodDisruptionBudget, error) {
	k := e.budgets()
	if k == nil {
		return nil, nil
	}
	objects := e.Cache.Resource(k.StoragePrefix)
	if err := objects.Fresh(e.ctx); err != nil {
		return nil, StoreError(err)
	}
	var err error
	var found []policyv1.PodDisruptionBudget
	// A budget counts the pods of its own namespace.
	prefix := k.Key(e.pod.Namespace, "")
	objects.Snapshot().Ascend(prefix, func(obj *cache.Object) bool {
		if !strings.HasPrefix(obj.Key, prefix) {
			return false
		}
		if err = e.ctx.Err(); err != nil {
			err = StoreError(err)
			return false
		}
		var b policyv1.PodDisruptionBudget
		if err = typed(k.Storage, obj, &b); err != nil {
			return false
		}
		// A budget with a malformed selector counts no pods.
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

// budgets returns the kind of disruption budgets, nil if it is not served.
func (e *eviction) budgets() *kind.Kind {
	return e.Kinds.Load().Lookup(policyv1.GroupName, "poddisruptionbudgets")
}

// spend reduces the allowed disruptions of a budget by one, if there are any left.
func (e *eviction) spend(name string) error {
	ref := RefTo(e.budgets(), e.pod.Namespace, name)
	if e.options.DryRun {
		var b policyv1.PodDisruptionBudget
		if _, err := e.latest(e.ctx, ref, &b); err != nil {
			return err
		}
		return allows(&b)
	}
	// The server itself writes the budget: its client need not have the permission to do so.
	// ModifyPart retries conflicts, so that two evictions cannot spend the same disruption.
	return e.Writer(Server(), ServerManager).ModifyPart(e.ctx, ref.Kind, ref.Namespace, ref.Name, "status", func(m meta.Object) error {
		var b policyv1.PodDisruptionBudget
		if err := json.Unmarshal(m.Doc.AppendJSON(nil, m.Doc.Root().Node), &b); err != nil {
			return status.Internal(err)
		}
		if err := allows(&b); err != nil {
			return err
		}
		// The controller of budgets corrects the status later. Until then, it must not allow too much.
		if b.Status.DisruptionsAllowed--; b.Status.DisruptionsAllowed == 0 {
			apimeta.SetStatusCondition(&b.Status.Conditions, metav1.Condition{
				Type: policyv1.DisruptionAllowedCondition, Reason: policyv1.InsufficientPodsReason, Status: metav1.ConditionFalse,
				ObservedGeneration: b.Status.ObservedGeneration})
		}
		if b.Status.DisruptedPods == nil {
			b.Status.DisruptedPods = map[string]metav1.Time{}
		}
		// The controller does not count this pod as healthy any more, although it is not gone yet.
		b.Status.DisruptedPods[e.pod.Name] = metav1.Time{Time: time.Now()}
		return setTyped(m.Doc, b.Status, "status")
	})
}

// isReady reports whether a pod has the condition Ready, with which budgets count it as healthy.
func isReady(pod *corev1.Pod) bool {
	return slices.ContainsFunc(pod.Status.Conditions, func(c corev1.PodCondition) bool {
		return c.Type == corev1.PodReady && c.Status == corev1.ConditionTrue
	})
}

// spares reports whether a budget does not mind the loss of a pod that is not healthy.
func spares(b *policyv1.PodDisruptionBudget) bool {
	// By default (IfHealthyBudget), an application that is disrupted already keeps all its pods.
	p, s := b.Spec.UnhealthyPodEvictionPolicy, &b.Status
	return p != nil && *p == policyv1.AlwaysAllow || s.CurrentHealthy >= s.DesiredHealthy && s.DesiredHealthy > 0
}

const violated = "Cannot evict pod as it would violate the pod's disruption budget."

// because adds a cause to a refusal: it names the budget, and clients such as kubectl drain print it.
func because(e *status.Error, format string, args ...any) *status.Error {
	if e.Details == nil {
		e.Details = &metav1.StatusDetails{}
	}
	e.Details.Causes = append(e.Details.Causes, metav1.StatusCause{Type: policyv1.DisruptionBudgetCause, Message: fmt.Sprintf(format, args...)})
	return e
}

// inProgress returns the error for a budget whose status is outdated. Clients try again after 10 s.
func inProgress(budget string) error {
	return because(status.TooManyRequests(violated, 10), "The disruption budget %s is still being processed by the server.", budget)
}

// allows returns the error for a budget that allows no disruption now, nil if it allows one. The
// texts and codes are upstream's: 429 if a later attempt may succeed.
func allows(b *policyv1.PodDisruptionBudget) error {
	s := &b.Status
	forbidden := func(why, cause string) error {
		gr := kschema.GroupResource{Group: policyv1.GroupName, Resource: "poddisruptionbudget"}
		return because(status.Forbidden(gr, b.Name, errors.New(why)),
			"The disruption budget %s does not allow evicting pods currently: %s", b.Name, cause)
	}
	switch {
	// The status is about an older spec.
	case s.ObservedGeneration < b.Generation:
		return inProgress(b.Name)
	case s.DisruptionsAllowed < 0:
		return forbidden("pdb disruptions allowed is negative", "pdb disruptions allowed is negative")
	// The map is a part of the stored budget, whose size is bounded in this way.
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
