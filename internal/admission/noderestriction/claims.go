package noderestriction

import (
	"context"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/diff"

	"github.com/keelson-io/keelson/internal/admission"
)

// This file checks writes of PersistentVolumeClaims.

// claim lets a node report in the status of a claim how far the resize of its volume has come.
func (q *request) claim(context.Context) error {
	switch {
	case q.Subresource != "status":
		return q.refuse("may only update PVC status")
	case q.Operation != admission.Update:
		return q.refuse("unexpected operation %q", q.Operation)
	}
	var old, next corev1.PersistentVolumeClaim
	if err := q.both(&old, &next); err != nil {
		return err
	}
	for _, c := range []*corev1.PersistentVolumeClaim{&old, &next} {
		c.TypeMeta = metav1.TypeMeta{}
		c.ResourceVersion, c.ManagedFields = "", nil
		s := &c.Status
		s.Capacity, s.Conditions, s.AllocatedResources, s.AllocatedResourceStatuses = nil, nil, nil, nil
	}
	if equality.Semantic.DeepEqual(&old, &next) {
		return nil
	}
	return q.refuse("node %q is not allowed to update fields other than status.quantity and status.conditions: %v",
		q.node, diff.Diff(printed(&old), printed(&next)))
}

// printedClaim has the fields of a claim under the names that upstream's text shows: those of its
// internal Go types.
type printedClaim struct {
	metav1.ObjectMeta
	Spec struct {
		AccessModes               []corev1.PersistentVolumeAccessMode
		Selector                  *metav1.LabelSelector
		Resources                 struct{ Limits, Requests corev1.ResourceList }
		VolumeName                string
		StorageClassName          *string
		VolumeMode                *corev1.PersistentVolumeMode
		DataSource                *printedReference
		DataSourceRef             *printedOtherReference
		VolumeAttributesClassName *string
	}
	Status struct {
		Phase                            corev1.PersistentVolumeClaimPhase
		AccessModes                      []corev1.PersistentVolumeAccessMode
		Capacity                         corev1.ResourceList
		Conditions                       []corev1.PersistentVolumeClaimCondition
		AllocatedResources               corev1.ResourceList
		AllocatedResourceStatuses        map[corev1.ResourceName]corev1.ClaimResourceStatus
		CurrentVolumeAttributesClassName *string
		ModifyVolumeStatus               *printedModification
		HealthStatus                     *corev1.VolumeHealthStatus
	}
}

// printedReference is a data source as upstream prints it.
type printedReference struct {
	APIGroup   *string
	Kind, Name string
}

// printedOtherReference is a data source reference as upstream prints it.
type printedOtherReference struct {
	APIGroup   *string
	Kind, Name string
	Namespace  *string
}

// printedModification is the status of a modification as upstream prints it.
type printedModification struct {
	TargetVolumeAttributesClassName string
	Status                          corev1.PersistentVolumeClaimModifyVolumeStatus
}

// printed converts a claim to the form that upstream prints.
func printed(c *corev1.PersistentVolumeClaim) *printedClaim {
	out := &printedClaim{ObjectMeta: c.ObjectMeta}
	spec, in := &out.Spec, &c.Spec
	spec.AccessModes, spec.Selector, spec.VolumeName = in.AccessModes, in.Selector, in.VolumeName
	spec.Resources.Limits, spec.Resources.Requests = in.Resources.Limits, in.Resources.Requests
	spec.StorageClassName, spec.VolumeMode, spec.VolumeAttributesClassName = in.StorageClassName, in.VolumeMode, in.VolumeAttributesClassName
	spec.DataSource, spec.DataSourceRef = (*printedReference)(in.DataSource), (*printedOtherReference)(in.DataSourceRef)
	s := &c.Status
	out.Status.Phase, out.Status.AccessModes, out.Status.HealthStatus = s.Phase, s.AccessModes, s.HealthStatus
	out.Status.CurrentVolumeAttributesClassName = s.CurrentVolumeAttributesClassName
	out.Status.ModifyVolumeStatus = (*printedModification)(s.ModifyVolumeStatus)
	return out
}
