package noderestriction

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"
)

// This file finds out whether a pod refers to other objects.

// refersTo reports whether a pod refers to an object of the API, and to what. An unknown source of
// a volume is an error.
func refersTo(pod *corev1.Pod) (refers bool, what string, err error) {
	s := &pod.Spec
	switch {
	case s.ServiceAccountName != "" || s.DeprecatedServiceAccount != "":
		return true, "serviceaccounts", nil
	case NamesSecrets(s):
		return true, "secrets", nil
	case hasConfigMaps(s):
		return true, "configmaps", nil
	case len(s.ResourceClaims) > 0:
		return true, "resourceclaims", nil
	}
	for i := range s.Volumes {
		if refers, what, err := volumeRefersTo(&s.Volumes[i]); refers || err != nil {
			return refers, what, err
		}
	}
	return false, "", nil
}

// anyContainer reports whether fn holds for the environment of any container.
func anyContainer(s *corev1.PodSpec, fn func([]corev1.EnvVar, []corev1.EnvFromSource) bool) bool {
	for i := range s.InitContainers {
		if fn(s.InitContainers[i].Env, s.InitContainers[i].EnvFrom) {
			return true
		}
	}
	for i := range s.Containers {
		if fn(s.Containers[i].Env, s.Containers[i].EnvFrom) {
			return true
		}
	}
	for i := range s.EphemeralContainers {
		if fn(s.EphemeralContainers[i].Env, s.EphemeralContainers[i].EnvFrom) {
			return true
		}
	}
	return false
}

// NamesSecrets reports whether a pod names a secret anywhere. A reference with an empty name does not
// count.
func NamesSecrets(s *corev1.PodSpec) bool {
	for i := range s.ImagePullSecrets {
		if s.ImagePullSecrets[i].Name != "" {
			return true
		}
	}
	if anyContainer(s, func(env []corev1.EnvVar, from []corev1.EnvFromSource) bool {
		for i := range from {
			if from[i].SecretRef != nil && from[i].SecretRef.Name != "" {
				return true
			}
		}
		for i := range env {
			if v := env[i].ValueFrom; v != nil && v.SecretKeyRef != nil && v.SecretKeyRef.Name != "" {
				return true
			}
		}
		return false
	}) {
		return true
	}
	for i := range s.Volumes {
		if namesSecret(&s.Volumes[i].VolumeSource) {
			return true
		}
	}
	return false
}

// namesSecret reports whether the source of a volume names a secret.
func namesSecret(v *corev1.VolumeSource) bool {
	named := func(ref *corev1.LocalObjectReference) bool { return ref != nil && ref.Name != "" }
	switch {
	case v.AzureFile != nil:
		return v.AzureFile.SecretName != ""
	case v.CephFS != nil:
		return named(v.CephFS.SecretRef)
	case v.Cinder != nil:
		return named(v.Cinder.SecretRef)
	case v.FlexVolume != nil:
		return named(v.FlexVolume.SecretRef)
	case v.Projected != nil:
		for i := range v.Projected.Sources {
			if p := v.Projected.Sources[i].Secret; p != nil && p.Name != "" {
				return true
			}
		}
	case v.RBD != nil:
		return named(v.RBD.SecretRef)
	case v.Secret != nil:
		return v.Secret.SecretName != ""
	case v.ScaleIO != nil:
		return named(v.ScaleIO.SecretRef)
	case v.ISCSI != nil:
		return named(v.ISCSI.SecretRef)
	case v.StorageOS != nil:
		return named(v.StorageOS.SecretRef)
	case v.CSI != nil:
		return named(v.CSI.NodePublishSecretRef)
	}
	return false
}

// hasConfigMaps reports whether a pod names a config map anywhere.
func hasConfigMaps(s *corev1.PodSpec) bool {
	if anyContainer(s, func(env []corev1.EnvVar, from []corev1.EnvFromSource) bool {
		for i := range from {
			if from[i].ConfigMapRef != nil && from[i].ConfigMapRef.Name != "" {
				return true
			}
		}
		for i := range env {
			if v := env[i].ValueFrom; v != nil && v.ConfigMapKeyRef != nil && v.ConfigMapKeyRef.Name != "" {
				return true
			}
		}
		return false
	}) {
		return true
	}
	for i := range s.Volumes {
		switch v := &s.Volumes[i]; {
		case v.Projected != nil:
			for j := range v.Projected.Sources {
				if p := v.Projected.Sources[j].ConfigMap; p != nil && p.Name != "" {
					return true
				}
			}
		case v.ConfigMap != nil && v.ConfigMap.Name != "":
			return true
		}
	}
	return false
}

// volumeRefersTo reports whether the kubelet reads an object of the API for a volume.
func volumeRefersTo(v *corev1.Volume) (refers bool, what string, err error) {
	switch {
	case v.AWSElasticBlockStore != nil, v.AzureDisk != nil, v.CephFS != nil, v.Cinder != nil, v.DownwardAPI != nil, v.EmptyDir != nil,
		v.FC != nil, v.FlexVolume != nil, v.Flocker != nil, v.GCEPersistentDisk != nil, v.GitRepo != nil, v.HostPath != nil,
		v.Image != nil, v.ISCSI != nil, v.NFS != nil, v.PhotonPersistentDisk != nil, v.PortworxVolume != nil, v.Quobyte != nil,
		v.RBD != nil, v.ScaleIO != nil, v.StorageOS != nil, v.VsphereVolume != nil:
		return false, "", nil
	case v.ConfigMap != nil:
		return true, "configmaps (via configmap volumes)", nil
	case v.Secret != nil:
		return true, "secrets (via secret volumes)", nil
	case v.CSI != nil:
		return true, "csidrivers (via CSI volumes)", nil
	case v.Glusterfs != nil:
		return true, "endpoints (via glusterFS volumes)", nil
	case v.PersistentVolumeClaim != nil:
		return true, "persistentvolumeclaims", nil
	case v.Ephemeral != nil:
		return true, "persistentvolumeclaims (via ephemeral volumes)", nil
	case v.AzureFile != nil:
		return true, "secrets (via azureFile volumes)", nil
	case v.Projected != nil:
		return projectionRefersTo(v)
	}
	return true, "", fmt.Errorf("unknown volume type for volume  %q", v.Name)
}

// projectionRefersTo is volumeRefersTo for a projected volume: only downward API sources refer to
// nothing.
func projectionRefersTo(v *corev1.Volume) (refers bool, what string, err error) {
	for i := range v.Projected.Sources {
		switch p := &v.Projected.Sources[i]; {
		case p.ConfigMap != nil:
			return true, "configmaps (via projected volumes)", nil
		case p.Secret != nil:
			return true, "secrets (via projected volumes)", nil
		case p.ServiceAccountToken != nil:
			return true, "serviceaccounts (via projected volumes)", nil
		case p.ClusterTrustBundle != nil:
			return true, "clustertrustbundles", nil
		case p.PodCertificate != nil:
			return true, "podcertificates", nil
		case p.DownwardAPI != nil:
		default:
			return true, "", fmt.Errorf("unknown source for projected volume %q", v.Name)
		}
	}
	return false, "", nil
}
