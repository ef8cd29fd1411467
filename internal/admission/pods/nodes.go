package pods

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/version"
	"k8s.io/component-helpers/nodedeclaredfeatures"
	helpers "k8s.io/component-helpers/resource"

	"github.com/keelson-io/keelson/internal/admission"
	"github.com/keelson-io/keelson/internal/status"
)

// This file relates pods to their nodes.

// topologyLabels are the labels of a node that its pods get, too.
var topologyLabels = []string{corev1.LabelTopologyZone, corev1.LabelTopologyRegion}

// TopologyLabels returns the plugin PodTopologyLabels, for new pods that have a node and for bindings.
func TopologyLabels(o *Objects) admission.Func {
	return func(ctx context.Context, r *admission.Request) error {
		if r.Operation != admission.Create || r.Subresource != "" && r.Subresource != "binding" {
			return nil
		}
		root := r.New.Root()
		name := root.At("spec", "nodeName").Text()
		if r.Subresource == "binding" {
			if root.At("target", "kind").Text() != "Node" {
				return nil
			}
			name = root.At("target", "name").Text()
		}
		if name == "" {
			return nil
		}
		node, err := o.Nodes.Get(ctx, "", strings.Clone(name))
		if err != nil || node == nil {
			return err // nil if the node does not exist: the pod is then accepted
		}
		for _, label := range topologyLabels {
			if value, ok := node.Labels[label]; ok {
				if err := r.Edit(value, "metadata", "labels", label); err != nil {
					return err
				}
				r.Forget()
			}
		}
		return nil
	}
}

// Resize returns the plugin PodResizeValidator: the new requests of a pod fit its node.
func Resize(o *Objects) admission.Func {
	return func(ctx context.Context, r *admission.Request) error {
		if r.Operation != admission.Update || r.Subresource != "resize" {
			return nil
		}
		pod, _, err := changed(r)
		if err != nil || pod == nil {
			return err
		}
		node, err := o.node(ctx, r, pod.Spec.NodeName)
		if err != nil {
			return err
		}
		if os, ok := node.Labels[corev1.LabelOSStable]; ok && os != "linux" {
			return refuseResize(r, "UnsupportedPlatform", fmt.Errorf("pod resize is only supported on linux nodes, node %q is %q", node.Name, os))
		}
		requests, have := helpers.PodRequests(pod, helpers.PodResourcesOptions{}), node.Status.Allocatable
		cpu, memory := requests[corev1.ResourceCPU], requests[corev1.ResourceMemory]
		var lacks []string
		if cpu.Cmp(*have.Cpu()) > 0 {
			lacks = append(lacks, fmt.Sprintf("cpu, requested: %d, allocatable: %d", cpu.MilliValue(), have.Cpu().MilliValue()))
		}
		if memory.Cmp(*have.Memory()) > 0 {
			lacks = append(lacks, fmt.Sprintf("memory, requested: %d, allocatable: %d", memory.Value(), have.Memory().Value()))
		}
		if len(lacks) > 0 {
			return refuseResize(r, "NodeCapacity", fmt.Errorf("node didn't have enough allocatable resources: %s", strings.Join(lacks, "; ")))
		}
		return nil
	}
}

// refuseResize refuses a request with a cause that clients can recognize.
func refuseResize(r *admission.Request, cause metav1.CauseType, err error) error {
	refusal := r.Forbidden(err)
	refusal.Details.Causes = append(refusal.Details.Causes, metav1.StatusCause{Type: cause})
	return refusal
}

// changed returns both states of a pod whose specification an update changes and that has a node, or
// nil.
func changed(r *admission.Request) (pod, old *corev1.Pod, err error) {
	if pod, err = admission.NewObject[corev1.Pod](r); err != nil {
		return nil, nil, err
	}
	if old, err = admission.OldObject[corev1.Pod](r); err != nil || pod.Spec.NodeName == "" || old.Generation == pod.Generation {
		return nil, nil, err
	}
	return pod, old, nil
}

// node returns the node of a pod, or refuses the request.
func (o *Objects) node(ctx context.Context, r *admission.Request, name string) (*corev1.Node, error) {
	node, err := o.Nodes.Get(ctx, "", name)
	switch {
	case err != nil:
		return nil, r.Forbidden(fmt.Errorf("failed to get node %q: %w", name, err))
	case node == nil:
		return nil, r.Forbidden(fmt.Errorf("node %q not found", name))
	}
	return node, nil
}

// DeclaredFeatures returns the plugin NodeDeclaredFeatureValidator: an update of a running pod needs only
// features that its node declares. release is the version of Kubernetes.
func DeclaredFeatures(o *Objects, release *version.Version) admission.Func {
	return func(ctx context.Context, r *admission.Request) error {
		if r.Operation != admission.Update || r.Subresource != "" && r.Subresource != "resize" {
			return nil
		}
		if r.New.Root().At("metadata", "generation").Int() == r.Old.Root().At("metadata", "generation").Int() {
			return nil
		}
		pod, old, err := changed(r)
		if err != nil || pod == nil {
			return err
		}
		rules := nodedeclaredfeatures.DefaultFramework
		needs, err := rules.InferForPodUpdate(&nodedeclaredfeatures.PodInfo{Spec: &old.Spec, Status: &old.Status},
			&nodedeclaredfeatures.PodInfo{Spec: &pod.Spec, Status: &pod.Status}, release)
		if err != nil {
			return r.Forbidden(fmt.Errorf("failed to infer pod capability requirements: %w", err))
		}
		if needs.IsEmpty() {
			return nil
		}
		node, err := o.node(ctx, r, pod.Spec.NodeName)
		if err != nil {
			return err
		}
		match, err := rules.MatchNode(needs, node)
		if err != nil {
			return r.Forbidden(fmt.Errorf("failed to match pod requirements against node %q: %w", node.Name, err))
		}
		if !match.IsMatch {
			return r.Forbidden(fmt.Errorf("pod update requires features %s which are not available on node %q",
				strings.Join(match.UnsatisfiedRequirements, ", "), node.Name))
		}
		return nil
	}
}

// NotReady returns the plugin TaintNodesByCondition, for new nodes: no pod is placed on a node
// until a controller has found it ready.
func NotReady() admission.Func {
	return func(_ context.Context, r *admission.Request) error {
		if r.Operation != admission.Create || r.Subresource != "" {
			return nil
		}
		node, err := admission.NewObject[corev1.Node](r)
		if err != nil {
			return err
		}
		taint := corev1.Taint{Key: corev1.TaintNodeNotReady, Effect: corev1.TaintEffectNoSchedule}
		for i := range node.Spec.Taints {
			if node.Spec.Taints[i].MatchTaint(&taint) {
				return nil
			}
		}
		node.Spec.Taints = append(node.Spec.Taints, taint)
		return r.Edit(node.Spec.Taints, "spec", "taints")
	}
}

// Nodes is the resource of NotReady.
var Nodes = schema.GroupResource{Resource: "nodes"}

// selectorAnnotation is the annotation of namespaces with the node selector of their pods.
const selectorAnnotation = "scheduler.alpha.kubernetes.io/node-selector"

// clusterSelector is the key of the configuration of NodeSelector for namespaces without the
// annotation. The other keys are namespaces, and their values the labels that pods may select.
const clusterSelector = "clusterDefaultNodeSelector"

// NodeSelector is the plugin PodNodeSelector: pods run on the nodes of their namespace.
func NodeSelector(o *Objects, config map[string]string) (mutate, validate admission.Func) {
	errConflict := errors.New("pod node label selector conflicts with its namespace node label selector")
	checked := func(ctx context.Context, r *admission.Request, pod *corev1.Pod) error {
		selector, err := o.namespaceSelector(ctx, r.Namespace, config)
		if err != nil {
			return err
		}
		refuse := func(err error) error { return status.Forbidden(Resource, pod.Name, err) }
		if labels.Conflicts(selector, pod.Spec.NodeSelector) {
			return refuse(errConflict)
		}
		allowed, err := labels.ConvertSelectorToLabelsMap(config[r.Namespace])
		if err != nil {
			return status.Plain500(err.Error())
		}
		if len(allowed) == 0 {
			return nil
		}
		for key, value := range pod.Spec.NodeSelector {
			if may, ok := allowed[key]; !ok || may != value {
				return refuse(errors.New("pod node label selector labels conflict with its namespace whitelist"))
			}
		}
		return nil
	}
	mutate = onCreate(func(ctx context.Context, r *admission.Request, pod *corev1.Pod) error {
		selector, err := o.namespaceSelector(ctx, r.Namespace, config)
		if err != nil {
			return err
		}
		if labels.Conflicts(selector, pod.Spec.NodeSelector) {
			return status.Forbidden(Resource, pod.Name, errConflict)
		}
		merged := maps.Clone(map[string]string(selector))
		maps.Copy(merged, pod.Spec.NodeSelector)
		if err := setNodeSelector(r, pod, merged); err != nil {
			return err
		}
		return checked(ctx, r, pod)
	})
	return mutate, onCreate(checked)
}

// namespaceSelector returns the node selector of a namespace.
func (o *Objects) namespaceSelector(ctx context.Context, name string, config map[string]string) (labels.Set, error) {
	namespace, err := o.namespace(ctx, name)
	if err != nil {
		return nil, err
	}
	text, ok := namespace.Annotations[selectorAnnotation]
	if !ok {
		text = config[clusterSelector]
	}
	selector, err := labels.ConvertSelectorToLabelsMap(text)
	if err != nil {
		return nil, status.Plain500(err.Error())
	}
	return selector, nil
}
