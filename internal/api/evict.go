package api

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"

	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	kschema "k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/keelson-io/keelson/internal/api/encoding"
	"github.com/keelson-io/keelson/internal/meta"
	"github.com/keelson-io/keelson/internal/status"
	"github.com/keelson-io/keelson/jsondoc"
)

// This file evicts pods.

var evictionKind = kschema.GroupKind{Group: policyv1.GroupName, Kind: "Eviction"}

// evict deletes a pod, unless a disruption budget is against it: then the error names the budget.
func evict(q *request, d *jsondoc.Doc, o *meta.WriteOptions) ([]byte, error) {
	q.recordObject(d)
	if err := q.asCreated(d, o); err != nil {
		return nil, err
	}
	// Admission sees the eviction. The deletion that follows is not admitted again.
	a := q.subresourceRequest(d, o)
	if err := q.h.Objects.Chain().Mutate(q.ctx, a); err != nil {
		return nil, err
	}
	r := new(policyv1.Eviction)
	if err := json.Unmarshal(d.AppendJSON(nil, d.Root().Node), r); err != nil {
		return nil, status.BadRequest("%v", err)
	}
	if q.name != r.Name {
		return nil, status.BadRequest("name in URL does not match name in Eviction object")
	}
	options, err := evictionOptions(q.ctx, q.name, r.DeleteOptions, o.DryRun)
	if err != nil {
		return nil, err
	}
	if err := q.h.Objects.Chain().Validate(q.ctx, a); err != nil {
		return nil, err
	}
	if err := q.h.Objects.Evict(q.ctx, q.caller(), q.namespace, q.name, options); err != nil {
		return nil, err
	}
	return success()
}

// evictionOptions are the options of the deletion.
func evictionOptions(ctx context.Context, name string, o *metav1.DeleteOptions, dryRun bool) (*meta.DeleteOptions, error) {
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
	return meta.ParseDeleteOptions(ctx, text, encoding.JSON, nil)
}
