package core

import (
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// This file warns of deprecated node labels in the placement of pods, and of addresses in unusual
// forms.

// placement warns of deprecated labels of nodes in the placement of a pod.
func (w *podWarner) placement(spec *corev1.PodSpec, path *field.Path) {
	for _, key := range slices.Sorted(maps.Keys(spec.NodeSelector)) {
		if msg := deprecatedLabels[key]; msg != "" {
			w.warn(path.Child("nodeSelector").Key(key), "%s", msg)
		}
	}
	if spec.Affinity != nil && spec.Affinity.NodeAffinity != nil {
		w.nodes(spec.Affinity.NodeAffinity, path.Child("affinity", "nodeAffinity"))
	}
	for i, s := range spec.TopologySpreadConstraints {
		at := path.Child("topologySpreadConstraints").Index(i)
		if msg := deprecatedLabels[s.TopologyKey]; msg != "" {
			w.warn(at.Child("topologyKey"), "%s is %s", s.TopologyKey, msg)
		}
		if s.LabelSelector == nil {
			w.selectsNothing(at)
		}
	}
}

const (
	requiredTerms  = "requiredDuringSchedulingIgnoredDuringExecution"
	preferredTerms = "preferredDuringSchedulingIgnoredDuringExecution"
)

// nodes warns of labels in an affinity to nodes.
func (w *podWarner) nodes(n *corev1.NodeAffinity, path *field.Path) {
	if required := n.RequiredDuringSchedulingIgnoredDuringExecution; required != nil {
		for i := range required.NodeSelectorTerms {
			w.Add(nodeTerms(&required.NodeSelectorTerms[i], false, path.Child(requiredTerms, "nodeSelectorTerms").Index(i))...)
		}
	}
	for i := range n.PreferredDuringSchedulingIgnoredDuringExecution {
		term := &n.PreferredDuringSchedulingIgnoredDuringExecution[i].Preference
		w.Add(nodeTerms(term, true, path.Child(preferredTerms).Index(i).Child("preference"))...)
	}
}

// selectsNothing warns of a term that selects no pod.
func (w *podWarner) selectsNothing(path *field.Path) {
	w.warn(path.Child("labelSelector"), "a null labelSelector results in matching no pod")
}

// networks warns of affinities that select no pod, and of addresses in forms that a later version
// will refuse.
func (w *podWarner) networks(path *field.Path) {
	near := func(name string, required []corev1.PodAffinityTerm, preferred []corev1.WeightedPodAffinityTerm) {
		at := path.Child("affinity", name)
		for i := range required {
			if required[i].LabelSelector == nil {
				w.selectsNothing(at.Child(requiredTerms).Index(i))
			}
		}
		for i := range preferred {
			if preferred[i].PodAffinityTerm.LabelSelector == nil {
				w.selectsNothing(at.Child(preferredTerms).Index(i).Child("podAffinityTerm"))
			}
		}
	}
	if w.Affinity != nil {
		if a := w.Affinity.PodAffinity; a != nil {
			near("podAffinity", a.RequiredDuringSchedulingIgnoredDuringExecution, a.PreferredDuringSchedulingIgnoredDuringExecution)
		}
		if a := w.Affinity.PodAntiAffinity; a != nil {
			near("podAntiAffinity", a.RequiredDuringSchedulingIgnoredDuringExecution, a.PreferredDuringSchedulingIgnoredDuringExecution)
		}
	}
	if w.DNSConfig != nil {
		for i, ns := range w.DNSConfig.Nameservers {
			w.Add(validation.GetWarningsForIP(path.Child("dnsConfig", "nameservers").Index(i), ns)...)
		}
	}
	for i, alias := range w.HostAliases {
		w.Add(validation.GetWarningsForIP(path.Child("hostAliases").Index(i).Child("ip"), alias.IP)...)
	}
}
