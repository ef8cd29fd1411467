package noderestriction

import (
	"context"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"

	"github.com/keelson-io/keelson/internal/admission"
	"github.com/keelson-io/keelson/internal/meta"
)

// This file checks writes of what belongs to one node: its Node, Lease, CSINode and ResourceSlices.

// self checks a write of a Node: a node writes only its own, and neither its taints, its owners,
// nor labels that could attract pods.
func (q *request) self(context.Context) error {
	if q.Name != q.node {
		return q.refuse("node %q is not allowed to modify node %q", q.node, q.Name)
	}
	var old, next corev1.Node
	switch q.Operation {
	case admission.Create:
		if err := decode(q.New, &next); err != nil {
			return err
		}
		//lint:ignore SA1019 the API server still refuses it
		if next.Spec.ConfigSource != nil {
			return q.refuse("node %q is not allowed to create pods with a non-nil configSource", q.node)
		}
		if labels := forbiddenLabels(next.Labels, nil); len(labels) > 0 {
			return q.refuse("node %q is not allowed to set the following labels: %s", q.node, strings.Join(labels, ", "))
		}
	case admission.Update:
		if err := q.both(&old, &next); err != nil {
			return err
		}
		return q.updateSelf(&old, &next)
	}
	return nil
}

// updateSelf checks the fields that a node must not change in its own Node.
func (q *request) updateSelf(old, next *corev1.Node) error {
	//lint:ignore SA1019 the API server still refuses it
	was, is := old.Spec.ConfigSource, next.Spec.ConfigSource
	switch {
	case is != nil && !equality.Semantic.DeepEqual(is, was):
		return q.refuse("node %q is not allowed to update configSource to a new non-nil configSource", q.node)
	case !equality.Semantic.DeepEqual(next.Spec.Taints, old.Spec.Taints):
		return q.refuse("node %q is not allowed to modify taints", q.node)
	case !equality.Semantic.DeepEqual(next.OwnerReferences, old.OwnerReferences):
		return q.refuse("node %q is not allowed to modify ownerReferences", q.node)
	}
	if labels := forbiddenLabels(next.Labels, old.Labels); len(labels) > 0 {
		return q.refuse("is not allowed to modify labels: %s", strings.Join(labels, ", "))
	}
	return nil
}

// ownLabels are the labels of Kubernetes that a kubelet sets on its own Node.
var ownLabels = []string{
	corev1.LabelHostname, corev1.LabelTopologyZone, corev1.LabelTopologyRegion, corev1.LabelFailureDomainBetaZone,
	corev1.LabelFailureDomainBetaRegion, corev1.LabelInstanceType, corev1.LabelInstanceTypeStable, corev1.LabelOSStable,
	corev1.LabelArchStable, "beta.kubernetes.io/os", "beta.kubernetes.io/arch",
}

// forbiddenLabels lists, sorted, the labels in which is and was differ and which a node must not
// change.
func forbiddenLabels(is, was map[string]string) []string {
	var out []string
	for key, value := range is {
		if before, ok := was[key]; (!ok || before != value) && !mayLabel(key) {
			out = append(out, key)
		}
	}
	for key := range was {
		if _, ok := is[key]; !ok && !mayLabel(key) {
			out = append(out, key)
		}
	}
	slices.Sort(out)
	return out
}

// mayLabel reports whether a node may change a label of its own Node.
func mayLabel(key string) bool {
	domain, _, found := strings.Cut(key, "/")
	if !found {
		return true
	}
	within := func(parent string) bool { return domain == parent || strings.HasSuffix(domain, "."+parent) }
	switch {
	case within(corev1.LabelNamespaceNodeRestriction):
		return false
	case !within("kubernetes.io") && !within("k8s.io"):
		return true
	}
	return slices.Contains(ownLabels, key) || within(corev1.LabelNamespaceSuffixKubelet) || within(corev1.LabelNamespaceSuffixNode)
}

// ownName reports whether the written object has the node's name. The name of a new object is in
// the object, that of an existing one in the URL.
func (q *request) ownName() bool {
	if q.Operation == admission.Create {
		return (meta.Object{Doc: q.New}).Name() == q.node
	}
	return q.Name == q.node
}

// lease lets a node write its own Lease.
func (q *request) lease(context.Context) error {
	switch {
	case q.Namespace != corev1.NamespaceNodeLease:
		return q.refuse("can only access leases in the %q system namespace", corev1.NamespaceNodeLease)
	case !q.ownName():
		return q.refuse("can only access node lease with the same name as the requesting node")
	}
	return nil
}

// csiNode lets a node write its own CSINode.
func (q *request) csiNode(context.Context) error {
	switch {
	case !q.ownName():
		return q.refuse("can only access CSINode with the same name as the requesting node")
	case q.Subresource == "status":
		return q.refuse("CSIVolumeHealth feature gate is disabled")
	}
	return nil
}

// slice lets a node create and delete ResourceSlices of its own. The Node authorizer decides about
// updates.
func (q *request) slice(context.Context) error {
	switch q.Operation {
	case admission.Create:
		if q.New.Root().At("spec", "nodeName").Text() != q.node {
			return q.refuse("can only create ResourceSlice with the same NodeName as the requesting node")
		}
	case admission.Delete:
		if q.Old.Root().At("spec", "nodeName").Text() != q.node {
			return q.refuse("can only delete ResourceSlice with the same NodeName as the requesting node")
		}
	}
	return nil
}
