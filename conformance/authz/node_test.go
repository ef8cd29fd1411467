package authz

import (
	"context"
	"encoding/json"
	"fmt"
	"testing"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/authorization/authorizer"
	"k8s.io/kubernetes/pkg/auth/nodeidentifier"
	"k8s.io/kubernetes/plugin/pkg/auth/authorizer/node"
	"k8s.io/kubernetes/plugin/pkg/auth/authorizer/rbac/bootstrappolicy"

	"github.com/keelson-io/keelson/authz"
	"github.com/keelson-io/keelson/internal/authn"
	"github.com/keelson-io/keelson/internal/authz/feed"
	ournode "github.com/keelson-io/keelson/internal/authz/node"
)

// This file asks for nodes, while pods, volumes and attachments come and go.

// TestNode compares decisions and reasons. Between requests something changes, for both sides.
func TestNode(t *testing.T) {
	d := roll(3)
	allowed := 0
	for range times(100) {
		theirGraph, ourGraph := node.NewGraph(), ournode.NewGraph(nil)
		up := node.NewAuthorizer(theirGraph, nodeidentifier.NewDefaultNodeIdentifier(), bootstrappolicy.NodeRules())
		ours := &ournode.Authorizer{Graph: ourGraph}
		for range 300 {
			changed := d.change(t, theirGraph, ourGraph)
			for range 10 {
				a, theirs := d.request()
				if d.IntN(4) > 0 {
					a, theirs = d.need()
				}
				decision, reason, err := up.Authorize(context.Background(), theirs)
				if !same(t, fmt.Sprintf("%s; %+v", changed, a), ours.Authorize(context.Background(), a), decision, reason, err, true) {
					return
				}
				if decision == authorizer.DecisionAllow && a.Name != "" {
					allowed++
				}
			}
		}
	}
	if asked := times(100) * 3000; allowed < asked/20 || allowed > asked/2 {
		t.Errorf("%d of %d requests for something by its name were allowed", allowed, asked)
	}
}

// need makes a request of a node for what its pods may need.
func (d dice) need() (*authz.Attributes, authorizer.AttributesRecord) {
	a := &authz.Attributes{User: &authn.User{Name: d.pick("system:node:n1 system:node:n1 system:node:n2 system:node:n3"), Groups: []string{"system:nodes"}},
		Verb: "get", ResourceRequest: true, Version: "v1", Namespace: d.pick("ns1 ns2"), Name: d.pick("n1 x y z x-x y-y")}
	switch a.Resource = d.pick("pods secrets secrets configmaps persistentvolumeclaims persistentvolumes serviceaccounts serviceaccounts resourceclaims volumeattachments"); a.Resource {
	case "persistentvolumes":
		a.Namespace = d.pick("_ _ _ ns1")
	case "volumeattachments":
		a.Group, a.Namespace = "storage.k8s.io", d.pick("_ _ _ ns1")
	case "resourceclaims":
		a.Group = "resource.k8s.io"
	case "serviceaccounts":
		if d.IntN(2) == 0 {
			a.Verb, a.Subresource = "create", "token"
		}
	}
	return a, authorizer.AttributesRecord{User: &user.DefaultInfo{Name: a.User.Name, Groups: a.User.Groups}, Verb: a.Verb, ResourceRequest: true,
		APIVersion: "v1", APIGroup: a.Group, Resource: a.Resource, Subresource: a.Subresource, Namespace: a.Namespace, Name: a.Name}
}

// change makes a change in both graphs, and says which.
func (d dice) change(t *testing.T, theirs *node.Graph, ours *ournode.Graph) string {
	kind, namespace, name := d.pick("Pod Pod Pod PersistentVolume VolumeAttachment"), d.pick("ns1 ns2"), d.pick("n1 x y")
	gone := d.IntN(4) == 0
	var object any
	switch kind {
	case ournode.KindPod:
		p := d.pod(namespace, name)
		object = p
		switch {
		case gone || p.Spec.NodeName == "":
			gone = true
			theirs.DeletePod(name, namespace)
		default:
			theirs.AddPod(p)
		}
	case ournode.KindVolume:
		namespace = ""
		v := d.volume(name)
		object = v
		if gone {
			theirs.DeletePV(name)
		} else {
			theirs.AddPV(v)
		}
	default:
		namespace = ""
		v := &storagev1.VolumeAttachment{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: storagev1.VolumeAttachmentSpec{NodeName: d.pick("_ n1 n2")}}
		object = v
		if gone {
			theirs.DeleteVolumeAttachment(name)
		} else {
			theirs.AddVolumeAttachment(name, v.Spec.NodeName)
		}
	}
	change := feed.Object{Namespace: namespace, Name: name}
	if !gone {
		var err error
		if change.JSON, err = json.Marshal(object); err != nil {
			t.Fatal(err)
		}
	}
	if err := ours.Change(kind, []feed.Object{change}); err != nil {
		t.Fatal(err)
	}
	return fmt.Sprintf("%s %s/%s %s", kind, namespace, name, change.JSON)
}

// names are those of what pods refer to.
const names = "_ n1 x y z"

func (d dice) local() *corev1.LocalObjectReference {
	if d.IntN(3) == 0 {
		return nil
	}
	return &corev1.LocalObjectReference{Name: d.pick(names)}
}

func (d dice) elsewhere() *corev1.SecretReference {
	if d.IntN(3) == 0 {
		return nil
	}
	return &corev1.SecretReference{Namespace: d.pick("_ ns1 ns2"), Name: d.pick(names)}
}

func (d dice) environment() (env []corev1.EnvVar, from []corev1.EnvFromSource) {
	for range d.IntN(2) {
		v := corev1.EnvVar{Name: "v"}
		switch ref := (corev1.LocalObjectReference{Name: d.pick(names)}); d.IntN(3) {
		case 0:
			v.ValueFrom = &corev1.EnvVarSource{SecretKeyRef: &corev1.SecretKeySelector{LocalObjectReference: ref}}
		case 1:
			v.ValueFrom = &corev1.EnvVarSource{ConfigMapKeyRef: &corev1.ConfigMapKeySelector{LocalObjectReference: ref}}
		}
		env = append(env, v)
	}
	for range d.IntN(2) {
		var f corev1.EnvFromSource
		if ref := (corev1.LocalObjectReference{Name: d.pick(names)}); d.IntN(2) == 0 {
			f.SecretRef = &corev1.SecretEnvSource{LocalObjectReference: ref}
		} else {
			f.ConfigMapRef = &corev1.ConfigMapEnvSource{LocalObjectReference: ref}
		}
		from = append(from, f)
	}
	return env, from
}

func (d dice) pod(namespace, name string) *corev1.Pod {
	p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}}
	p.Spec.NodeName, p.Spec.ServiceAccountName = d.pick("_ n1 n1 n2"), d.pick(names)
	if d.IntN(10) == 0 {
		p.Annotations = map[string]string{corev1.MirrorPodAnnotationKey: ""}
	}
	for range d.IntN(2) {
		p.Spec.ImagePullSecrets = append(p.Spec.ImagePullSecrets, corev1.LocalObjectReference{Name: d.pick(names)})
	}
	for i := range 3 {
		env, from := d.environment()
		switch i {
		case 0:
			p.Spec.Containers = append(p.Spec.Containers, corev1.Container{Env: env, EnvFrom: from})
		case 1:
			p.Spec.InitContainers = append(p.Spec.InitContainers, corev1.Container{Env: env, EnvFrom: from})
		case 2:
			p.Spec.EphemeralContainers = append(p.Spec.EphemeralContainers, corev1.EphemeralContainer{EphemeralContainerCommon: corev1.EphemeralContainerCommon{Env: env, EnvFrom: from}})
		}
	}
	for range d.IntN(4) {
		p.Spec.Volumes = append(p.Spec.Volumes, corev1.Volume{Name: d.pick("x y"), VolumeSource: d.source()})
	}
	for range d.IntN(3) {
		c := corev1.PodResourceClaim{Name: d.pick("a b")}
		claim := d.pick(names)
		if d.IntN(2) == 0 {
			c.ResourceClaimName = &claim
		} else if d.IntN(3) > 0 {
			c.ResourceClaimTemplateName = &claim
		}
		p.Spec.ResourceClaims = append(p.Spec.ResourceClaims, c)
		made := d.pick(names)
		s := corev1.PodResourceClaimStatus{Name: d.pick("a b"), ResourceClaimName: &made}
		if d.IntN(3) == 0 {
			s.ResourceClaimName = nil
		}
		p.Status.ResourceClaimStatuses = append(p.Status.ResourceClaimStatuses, s)
	}
	if d.IntN(5) == 0 {
		p.Status.ExtendedResourceClaimStatus = &corev1.PodExtendedResourceClaimStatus{ResourceClaimName: d.pick(names)}
	}
	return p
}

// source is where a volume of a pod comes from; sometimes from two places, which no valid pod has.
func (d dice) source() (v corev1.VolumeSource) {
	for range 1 + d.IntN(5)/4 {
		switch name := d.pick(names); d.IntN(14) {
		case 0:
			v.AzureFile = &corev1.AzureFileVolumeSource{SecretName: name}
		case 1:
			v.CephFS = &corev1.CephFSVolumeSource{SecretRef: d.local()}
		case 2:
			v.Cinder = &corev1.CinderVolumeSource{SecretRef: d.local()}
		case 3:
			v.FlexVolume = &corev1.FlexVolumeSource{SecretRef: d.local()}
		case 4:
			v.Projected = &corev1.ProjectedVolumeSource{Sources: []corev1.VolumeProjection{{Secret: &corev1.SecretProjection{LocalObjectReference: corev1.LocalObjectReference{Name: name}}},
				{ConfigMap: &corev1.ConfigMapProjection{LocalObjectReference: corev1.LocalObjectReference{Name: d.pick(names)}}}, {}}}
		case 5:
			v.RBD = &corev1.RBDVolumeSource{SecretRef: d.local()}
		case 6:
			v.Secret = &corev1.SecretVolumeSource{SecretName: name}
		case 7:
			v.ScaleIO = &corev1.ScaleIOVolumeSource{SecretRef: d.local()}
		case 8:
			v.ISCSI = &corev1.ISCSIVolumeSource{SecretRef: d.local()}
		case 9:
			v.StorageOS = &corev1.StorageOSVolumeSource{SecretRef: d.local()}
		case 10:
			v.CSI = &corev1.CSIVolumeSource{NodePublishSecretRef: d.local()}
		case 11:
			v.ConfigMap = &corev1.ConfigMapVolumeSource{LocalObjectReference: corev1.LocalObjectReference{Name: name}}
		case 12:
			v.PersistentVolumeClaim = &corev1.PersistentVolumeClaimVolumeSource{ClaimName: name}
		case 13:
			v.Ephemeral = &corev1.EphemeralVolumeSource{}
		}
	}
	return v
}

func (d dice) volume(name string) *corev1.PersistentVolume {
	v := &corev1.PersistentVolume{ObjectMeta: metav1.ObjectMeta{Name: name}}
	if d.IntN(5) > 0 {
		v.Spec.ClaimRef = &corev1.ObjectReference{Namespace: d.pick("ns1 ns2"), Name: d.pick("n1 x y x-x y-y")}
	}
	s := &v.Spec.PersistentVolumeSource
	switch d.IntN(9) {
	case 0:
		namespace := d.pick("_ ns1 ns2")
		s.AzureFile = &corev1.AzureFilePersistentVolumeSource{SecretName: d.pick(names), SecretNamespace: &namespace}
		if d.IntN(2) == 0 {
			s.AzureFile.SecretNamespace = nil
		}
	case 1:
		s.CephFS = &corev1.CephFSPersistentVolumeSource{SecretRef: d.elsewhere()}
	case 2:
		s.Cinder = &corev1.CinderPersistentVolumeSource{SecretRef: d.elsewhere()}
	case 3:
		s.FlexVolume = &corev1.FlexPersistentVolumeSource{SecretRef: d.elsewhere()}
	case 4:
		s.RBD = &corev1.RBDPersistentVolumeSource{SecretRef: d.elsewhere()}
	case 5:
		s.ScaleIO = &corev1.ScaleIOPersistentVolumeSource{SecretRef: d.elsewhere()}
	case 6:
		s.ISCSI = &corev1.ISCSIPersistentVolumeSource{SecretRef: d.elsewhere()}
	case 7:
		s.StorageOS = &corev1.StorageOSPersistentVolumeSource{}
		if ref := d.elsewhere(); ref != nil {
			s.StorageOS.SecretRef = &corev1.ObjectReference{Namespace: ref.Namespace, Name: ref.Name}
		}
	case 8:
		s.CSI = &corev1.CSIPersistentVolumeSource{NodePublishSecretRef: d.elsewhere(), NodeStageSecretRef: d.elsewhere(), NodeExpandSecretRef: d.elsewhere(),
			ControllerExpandSecretRef: d.elsewhere(), ControllerPublishSecretRef: d.elsewhere()}
	}
	return v
}
