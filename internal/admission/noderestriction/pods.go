package noderestriction

import (
	"context"
	"slices"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	apiresource "k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/keelson-io/keelson/internal/admission"
)

// This file checks writes of pods.

// pod checks a write of a pod or of one of its subresources.
func (q *request) pod(ctx context.Context) error {
	switch q.Subresource {
	case "":
		switch q.Operation {
		case admission.Create:
			return q.createPod(ctx)
		case admission.Delete:
			if q.Old.Root().At("spec", "nodeName").Text() != q.node {
				return q.refuse("node %q can only delete pods with spec.nodeName set to itself", q.node)
			}
			return nil
		}
		return q.refuse("unexpected operation %q, node %q can only create and delete mirror pods", q.Operation, q.node)
	case "status":
		return q.podStatus()
	case "eviction":
		return q.eviction(ctx)
	}
	return q.refuse("unexpected pod subresource %q, only 'status' and 'eviction' are allowed", q.Subresource)
}

// createPod lets a node create mirror pods that are bound to it, owned by it, and refer to no other
// object.
func (q *request) createPod(ctx context.Context) error {
	var pod corev1.Pod
	if err := decode(q.New, &pod); err != nil {
		return err
	}
	if _, mirror := pod.Annotations[corev1.MirrorPodAnnotationKey]; !mirror {
		return q.refuse("pod does not have %q annotation, node %q can only create mirror pods", corev1.MirrorPodAnnotationKey, q.node)
	}
	if pod.Spec.NodeName != q.node {
		return q.refuse("node %q can only create pods with spec.nodeName set to itself", q.node)
	}
	if err := q.ownedByNode(ctx, &pod); err != nil {
		return err
	}
	refers, what, err := refersTo(&pod)
	if err != nil {
		return q.refuse("error checking mirror pod for API references: %w", err)
	}
	if refers {
		return q.refuse("node %q can not create pods that reference %s", q.node, what)
	}
	return nil
}

// ownedByNode requires the node to be the pod's only owner and its controller.
func (q *request) ownedByNode(ctx context.Context, pod *corev1.Pod) error {
	switch n := len(pod.OwnerReferences); {
	case n > 1:
		return q.refuse("node %q can only create pods with a single owner reference set to itself", q.node)
	case n == 0:
		return q.refuse("node %q can only create pods with an owner reference set to itself", q.node)
	}
	owner := &pod.OwnerReferences[0]
	switch {
	case owner.APIVersion != "v1" || owner.Kind != "Node" || owner.Name != q.node:
		return q.refuse("node %q can only create pods with an owner reference set to itself", q.node)
	case owner.Controller == nil || !*owner.Controller:
		return q.refuse("node %q can only create pods with a controller owner reference set to itself", q.node)
	case owner.BlockOwnerDeletion != nil && *owner.BlockOwnerDeletion:
		return q.refuse("node %q must not set blockOwnerDeletion on an owner reference", q.node)
	}
	var node corev1.Node
	switch err := q.read(ctx, nodes, "", q.node, &node); {
	case err != nil && missing(err):
		return err
	case err != nil:
		return q.refuse("error looking up node %s to verify uid: %v", q.node, err)
	case owner.UID != node.UID:
		return q.refuse("node %s UID mismatch: expected %s got %s", q.node, owner.UID, node.UID)
	}
	return nil
}

// podStatus lets a node update the status of pods that are bound to it, except for what would make
// claims or selectors refer to other objects.
func (q *request) podStatus() error {
	if q.Operation != admission.Update {
		return q.refuse("unexpected operation %q", q.Operation)
	}
	var old, next corev1.Pod
	if err := q.both(&old, &next); err != nil {
		return err
	}
	a, b := &old.Status, &next.Status
	switch {
	case old.Spec.NodeName != q.node:
		return q.refuse("node %q can only update pod status for pods with spec.nodeName set to itself", q.node)
	case !labels.Equals(old.Labels, next.Labels):
		return q.refuse("node %q cannot update labels through pod status", q.node)
	case !slices.EqualFunc(a.ResourceClaimStatuses, b.ResourceClaimStatuses, sameClaim):
		return q.refuse("node %q cannot update resource claim statues", q.node)
	case !sameExtended(a.ExtendedResourceClaimStatus, b.ExtendedResourceClaimStatus):
		return q.refuse("node %q cannot update extended resource claim status", q.node)
	case !slices.EqualFunc(a.NodeAllocatableResourceClaimStatuses, b.NodeAllocatableResourceClaimStatuses, sameAllocatable):
		return q.refuse("node %q cannot update node allocatable resource claim statuses", q.node)
	}
	return nil
}

// sameText reports whether two pointers point to equal texts, or are both nil.
func sameText(a, b *string) bool { return a == b || a != nil && b != nil && *a == *b }

// sameClaim reports whether two statuses of claims are equal.
func sameClaim(a, b corev1.PodResourceClaimStatus) bool {
	return a.Name == b.Name && sameText(a.ResourceClaimName, b.ResourceClaimName)
}

// sameExtended reports whether two statuses of a claim for extended resources are equal.
func sameExtended(a, b *corev1.PodExtendedResourceClaimStatus) bool {
	if a == nil || b == nil {
		return a == b
	}
	return a.ResourceClaimName == b.ResourceClaimName && slices.Equal(a.RequestMappings, b.RequestMappings)
}

// sameAllocatable reports whether two statuses of a claim for a node's allocatable resources are
// equal.
func sameAllocatable(a, b corev1.NodeAllocatableResourceClaimStatus) bool {
	return a.ResourceClaimName == b.ResourceClaimName && slices.Equal(a.Containers, b.Containers) &&
		slices.EqualFunc(a.Mapping, b.Mapping, func(x, y corev1.NodeAllocatableMappedResources) bool {
			return x.Name == y.Name && apiresource.QuantityPtrEqual(x.Quantity, y.Quantity)
		}) &&
		slices.EqualFunc(a.Overhead, b.Overhead, func(x, y corev1.NodeAllocatableOverheadResources) bool {
			return x.Name == y.Name && apiresource.QuantityPtrEqual(x.PerPod, y.PerPod) && apiresource.QuantityPtrEqual(x.PerContainer, y.PerContainer)
		})
}

// eviction lets a node evict pods that are bound to it.
func (q *request) eviction(ctx context.Context) error {
	if q.Operation != admission.Create {
		return q.refuse("unexpected operation %s", q.Operation)
	}
	name := q.Name
	if name == "" {
		var e policyv1.Eviction
		if err := decode(q.New, &e); err != nil {
			return err
		}
		if name = e.Name; name == "" {
			return q.refuse("could not determine pod from request data")
		}
	}
	var pod corev1.Pod
	switch err := q.read(ctx, pods, q.Namespace, name, &pod); {
	case err != nil && missing(err):
		return err
	case err != nil:
		return q.Forbidden(err)
	case pod.Spec.NodeName != q.node:
		return q.refuse("node %s can only evict pods with spec.nodeName set to itself", q.node)
	}
	return nil
}
