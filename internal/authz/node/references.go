package node

import (
	"bytes"

	corev1 "k8s.io/api/core/v1"
)

// This file finds the objects to which pods and persistent volumes refer and which kubelets read.

// references collects the objects to which one object refers.
type references struct {
	namespace string
	found     map[object]bool
}

// add adds an object of the pod's namespace, unless the name is empty.
func (r *references) add(resource, name string) {
	if name != "" {
		r.found[object{resource, r.namespace, name}] = true
	}
}

// secret adds the secret of a reference within the namespace, if there is one.
func (r *references) secret(ref *corev1.LocalObjectReference) {
	if ref != nil {
		r.add("secrets", ref.Name)
	}
}

// podOf returns the relations of a pod; nil if the pod is not bound to a node.
func podOf(in *corev1.Pod) *pod {
	if in.Spec.NodeName == "" {
		return nil
	}
	p := &pod{node: in.Spec.NodeName}
	// Nodes create mirror pods themselves. Their references must not count, or a node could reach
	// any Secret.
	if _, mirror := in.Annotations[corev1.MirrorPodAnnotationKey]; mirror {
		return p
	}
	r := &references{in.Namespace, map[object]bool{}}
	r.add("serviceaccounts", in.Spec.ServiceAccountName)
	for i := range in.Spec.ImagePullSecrets {
		r.secret(&in.Spec.ImagePullSecrets[i])
	}
	for i := range in.Spec.InitContainers {
		r.container(in.Spec.InitContainers[i].Env, in.Spec.InitContainers[i].EnvFrom)
	}
	for i := range in.Spec.Containers {
		r.container(in.Spec.Containers[i].Env, in.Spec.Containers[i].EnvFrom)
	}
	for i := range in.Spec.EphemeralContainers {
		r.container(in.Spec.EphemeralContainers[i].Env, in.Spec.EphemeralContainers[i].EnvFrom)
	}
	for i := range in.Spec.Volumes {
		v := &in.Spec.Volumes[i]
		r.volume(&v.VolumeSource)
		switch {
		case v.PersistentVolumeClaim != nil:
			r.add("persistentvolumeclaims", v.PersistentVolumeClaim.ClaimName)
		case v.Ephemeral != nil:
			r.add("persistentvolumeclaims", in.Name+"-"+v.Name)
		}
	}
	for i := range in.Spec.ResourceClaims {
		r.add("resourceclaims", claimName(in, &in.Spec.ResourceClaims[i]))
	}
	if s := in.Status.ExtendedResourceClaimStatus; s != nil {
		r.add("resourceclaims", s.ResourceClaimName)
	}
	p.refs = sorted(r.found)
	return p
}

// claimName returns the name of a claim that a pod needs; "" if it does not exist yet, or is not
// needed.
func claimName(in *corev1.Pod, c *corev1.PodResourceClaim) string {
	if c.ResourceClaimName != nil {
		return *c.ResourceClaimName
	}
	if c.ResourceClaimTemplateName == nil {
		return ""
	}
	for _, s := range in.Status.ResourceClaimStatuses {
		if s.Name == c.Name {
			if s.ResourceClaimName != nil {
				return *s.ResourceClaimName
			}
			return ""
		}
	}
	return ""
}

// container adds the config maps and secrets of a container's environment.
func (r *references) container(env []corev1.EnvVar, from []corev1.EnvFromSource) {
	for i := range from {
		if s := from[i].SecretRef; s != nil {
			r.add("secrets", s.Name)
		}
		if c := from[i].ConfigMapRef; c != nil {
			r.add("configmaps", c.Name)
		}
	}
	for i := range env {
		v := env[i].ValueFrom
		if v == nil {
			continue
		}
		if v.SecretKeyRef != nil {
			r.add("secrets", v.SecretKeyRef.Name)
		}
		if v.ConfigMapKeyRef != nil {
			r.add("configmaps", v.ConfigMapKeyRef.Name)
		}
	}
}

// volume adds the secrets and config maps of a pod's volume. If the volume has several sources, the
// first in this order counts.
func (r *references) volume(v *corev1.VolumeSource) {
	if v.Projected == nil && v.ConfigMap != nil {
		r.add("configmaps", v.ConfigMap.Name)
	}
	switch {
	case v.AzureFile != nil:
		r.add("secrets", v.AzureFile.SecretName)
	case v.CephFS != nil:
		r.secret(v.CephFS.SecretRef)
	case v.Cinder != nil:
		r.secret(v.Cinder.SecretRef)
	case v.FlexVolume != nil:
		r.secret(v.FlexVolume.SecretRef)
	case v.Projected != nil:
		for i := range v.Projected.Sources {
			if s := v.Projected.Sources[i].Secret; s != nil {
				r.add("secrets", s.Name)
			}
		}
	case v.RBD != nil:
		r.secret(v.RBD.SecretRef)
	case v.Secret != nil:
		r.add("secrets", v.Secret.SecretName)
	case v.ScaleIO != nil:
		r.secret(v.ScaleIO.SecretRef)
	case v.ISCSI != nil:
		r.secret(v.ISCSI.SecretRef)
	case v.StorageOS != nil:
		r.secret(v.StorageOS.SecretRef)
	case v.CSI != nil:
		r.secret(v.CSI.NodePublishSecretRef)
	}
	if v.Projected != nil {
		for i := range v.Projected.Sources {
			if c := v.Projected.Sources[i].ConfigMap; c != nil {
				r.add("configmaps", c.Name)
			}
		}
	}
}

// volumeOf returns the relations of a persistent volume; nil if it is not bound to a claim.
func volumeOf(in *corev1.PersistentVolume) *volume {
	claim := in.Spec.ClaimRef
	if claim == nil {
		return nil
	}
	v := &volume{claim: object{"persistentvolumeclaims", claim.Namespace, claim.Name}}
	found := map[object]bool{}
	add := func(namespace, name string) {
		if name != "" {
			found[object{"secrets", namespace, name}] = true
		}
	}
	// If an older volume does not name the namespace of its secret, it is that of the claim.
	secret := func(ref *corev1.SecretReference) {
		switch {
		case ref == nil:
		case ref.Namespace == "":
			add(claim.Namespace, ref.Name)
		default:
			add(ref.Namespace, ref.Name)
		}
	}
	switch s := &in.Spec.PersistentVolumeSource; {
	case s.AzureFile != nil:
		namespace := claim.Namespace
		if s.AzureFile.SecretNamespace != nil && *s.AzureFile.SecretNamespace != "" {
			namespace = *s.AzureFile.SecretNamespace
		}
		add(namespace, s.AzureFile.SecretName)
	case s.CephFS != nil:
		secret(s.CephFS.SecretRef)
	case s.Cinder != nil:
		if ref := s.Cinder.SecretRef; ref != nil {
			add(ref.Namespace, ref.Name)
		}
	case s.FlexVolume != nil:
		secret(s.FlexVolume.SecretRef)
	case s.RBD != nil:
		secret(s.RBD.SecretRef)
	case s.ScaleIO != nil:
		secret(s.ScaleIO.SecretRef)
	case s.ISCSI != nil:
		secret(s.ISCSI.SecretRef)
	case s.StorageOS != nil:
		if ref := s.StorageOS.SecretRef; ref != nil {
			add(ref.Namespace, ref.Name)
		}
	case s.CSI != nil: // its controller secrets are not read by nodes
		for _, ref := range []*corev1.SecretReference{s.CSI.NodePublishSecretRef, s.CSI.NodeStageSecretRef, s.CSI.NodeExpandSecretRef} {
			if ref != nil {
				add(ref.Namespace, ref.Name)
			}
		}
	}
	v.secrets = sorted(found)
	return v
}

// referenceBytes is the memory of a reference in the graph: its texts, its key, and the node that needs it. Measured with a million of
// references to different objects.
const referenceBytes = 250

// referring are the words of a stored pod or volume that each reference has one of.
var referring = [][]byte{[]byte(`Ref":`), []byte(`"secretName":`), []byte(`"configMap":`), []byte(`"claimName":`), []byte(`"ephemeral":`), []byte(`"resourceClaimName":`)}

// Memory returns how many bytes are kept for a pod or persistent volume, by its stored JSON: only for one that is bound to a node or a
// claim the graph has references.
func Memory(raw []byte) int64 {
	n := int64(len(raw))
	if !bytes.Contains(raw, []byte(`"nodeName":`)) && !bytes.Contains(raw, []byte(`"claimRef":`)) {
		return n
	}
	for _, word := range referring {
		n += referenceBytes * int64(bytes.Count(raw, word))
	}
	pull := []byte(`"imagePullSecrets":[`)
	if at := bytes.Index(raw, pull); at >= 0 {
		list, _, _ := bytes.Cut(raw[at:], []byte("]"))
		n += referenceBytes * int64(bytes.Count(list, []byte(`"name":`)))
	}
	return n
}
