package apps

import (
	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/keelson-io/keelson/internal/builtin/core"
	"github.com/keelson-io/keelson/internal/builtin/describe"
)

// fillDeployment sets the defaults of the pod template and the strategy.
func fillDeployment(d *appsv1.Deployment) {
	core.FillPodSpec(&d.Spec.Template.Spec)
	s := &d.Spec.Strategy
	if s.Type == "" {
		s.Type = appsv1.RollingUpdateDeploymentStrategyType
	}
	if s.Type == appsv1.RollingUpdateDeploymentStrategyType {
		describe.OrDefault(&s.RollingUpdate, appsv1.RollingUpdateDeployment{})
		describe.OrDefault(&s.RollingUpdate.MaxUnavailable, intstr.FromString("25%"))
		describe.OrDefault(&s.RollingUpdate.MaxSurge, intstr.FromString("25%"))
	}
}

// fillReplicaSet sets the defaults of the pod template.
func fillReplicaSet(r *appsv1.ReplicaSet) { core.FillPodSpec(&r.Spec.Template.Spec) }

// fillDaemonSet sets the defaults of the pod template and the update strategy.
func fillDaemonSet(d *appsv1.DaemonSet) {
	if d.Annotations[appsv1.DeprecatedTemplateGeneration] == "" { // the server counts
		metav1.SetMetaDataAnnotation(&d.ObjectMeta, appsv1.DeprecatedTemplateGeneration, "0")
	}
	core.FillPodSpec(&d.Spec.Template.Spec)
	s := &d.Spec.UpdateStrategy
	if s.Type == "" {
		s.Type = appsv1.RollingUpdateDaemonSetStrategyType
	}
	if s.Type == appsv1.RollingUpdateDaemonSetStrategyType {
		describe.OrDefault(&s.RollingUpdate, appsv1.RollingUpdateDaemonSet{})
		describe.OrDefault(&s.RollingUpdate.MaxUnavailable, intstr.FromInt32(1))
		describe.OrDefault(&s.RollingUpdate.MaxSurge, intstr.FromInt32(0))
	}
}

// fillStatefulSet sets the defaults of the pod template, the update strategy and the claims.
func fillStatefulSet(s *appsv1.StatefulSet) {
	core.FillPodSpec(&s.Spec.Template.Spec)
	u := &s.Spec.UpdateStrategy
	if u.Type == "" {
		u.Type = appsv1.RollingUpdateStatefulSetStrategyType
		describe.OrDefault(&u.RollingUpdate, appsv1.RollingUpdateStatefulSetStrategy{})
	}
	if u.Type == appsv1.RollingUpdateStatefulSetStrategyType && u.RollingUpdate != nil {
		describe.OrDefault(&u.RollingUpdate.Partition, 0)
		describe.OrDefault(&u.RollingUpdate.MaxUnavailable, intstr.FromInt32(1))
	}
	for i := range s.Spec.VolumeClaimTemplates {
		c := &s.Spec.VolumeClaimTemplates[i]
		c.APIVersion, c.Kind = "v1", "PersistentVolumeClaim"
	}
}
