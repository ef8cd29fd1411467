package namespace

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/keelson-io/keelson/internal/controller/loop"
	"github.com/keelson-io/keelson/internal/meta"
)

// This file writes into a namespace's conditions, with upstream's texts, why the namespace is still
// there.

// well has the conditions of a namespace without difficulties, in the order in which they are set.
var well = []corev1.NamespaceCondition{
	{Type: corev1.NamespaceDeletionDiscoveryFailure, Reason: "ResourcesDiscovered", Message: "All resources successfully discovered"},
	{Type: corev1.NamespaceDeletionGVParsingFailure, Reason: "ParsedGroupVersions", Message: "All legacy kube types successfully parsed"},
	{Type: corev1.NamespaceDeletionContentFailure, Reason: "ContentDeleted", Message: "All content successfully deleted, may be waiting on finalization"},
	{Type: corev1.NamespaceContentRemaining, Reason: "ContentRemoved", Message: "All content successfully removed"},
	{Type: corev1.NamespaceFinalizersRemaining, Reason: "ContentHasNoFinalizers", Message: "All content-preserving finalizers finished"},
}

// conditions returns the conditions of a namespace that is not empty.
func (r *remains) conditions() []corev1.NamespaceCondition {
	all := slices.Clone(well)
	for i := range all {
		c := &all[i]
		c.Status = corev1.ConditionFalse
		say := func(reason, message string) { c.Status, c.Reason, c.Message = corev1.ConditionTrue, reason, message }
		switch {
		case c.Type == corev1.NamespaceDeletionContentFailure && len(r.errs) > 0:
			var texts []string
			for _, err := range r.errs {
				texts = append(texts, err.Error())
			}
			slices.Sort(texts)
			say("ContentDeletionFailed", fmt.Sprintf("Failed to delete all resource types, %d remaining: %s", len(texts), strings.Join(texts, ", ")))
		case c.Type == corev1.NamespaceContentRemaining && len(r.kinds) > 0:
			say("SomeResourcesRemain", "Some resources are remaining: "+lines(r.kinds, "%s has %d resource instances"))
		case c.Type == corev1.NamespaceFinalizersRemaining && len(r.finalizers) > 0:
			say("SomeFinalizersRemain", "Some content in the namespace has finalizers remaining: "+lines(r.finalizers, "%s in %d resource instances"))
		}
	}
	return all
}

// report writes the conditions into the status of a namespace, unless they are there.
func (c *Controller) report(ctx context.Context, name, uid string, left *remains) error {
	return loop.UnlessGone(c.API.ModifyPart(ctx, c.spaces, "", name, "status", func(o meta.Object) error {
		if o.UID() != uid {
			return errOther
		}
		var have []corev1.NamespaceCondition
		if v := o.Doc.Root().At("status", "conditions"); v.Len() > 0 {
			if err := json.Unmarshal(v.AppendJSON(nil), &have); err != nil {
				return fmt.Errorf("conditions of namespace %s: %w", name, err)
			}
		}
		if !join(&have, left.conditions(), metav1.NewTime(time.Now().UTC().Truncate(time.Second))) {
			return nil
		}
		return o.SetTyped(have, "status", "conditions")
	}))
}

// join sets this controller's conditions in a list, and reports whether that changed any.
func join(have *[]corev1.NamespaceCondition, want []corev1.NamespaceCondition, now metav1.Time) (changed bool) {
	for _, w := range want {
		i := slices.IndexFunc(*have, func(c corev1.NamespaceCondition) bool { return c.Type == w.Type })
		w.LastTransitionTime = now
		if i < 0 {
			*have = append(*have, w)
			changed = true
			continue
		}
		was := &(*have)[i]
		if was.Status == w.Status {
			w.LastTransitionTime = was.LastTransitionTime
		}
		if was.Status != w.Status || was.Reason != w.Reason || was.Message != w.Message {
			*was, changed = w, true
		}
	}
	return changed
}
