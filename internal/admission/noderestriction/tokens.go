package noderestriction

import (
	"context"
	"fmt"

	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	utilerrors "k8s.io/apimachinery/pkg/util/errors"

	"github.com/keelson-io/keelson/authz"
	"github.com/keelson-io/keelson/internal/admission"
)

// This file checks the tokens of service accounts that nodes request.

// serviceAccount lets a node request tokens that are bound to a pod that runs on it, for an audience
// that the pod names.
func (q *request) serviceAccount(ctx context.Context) error {
	if q.Operation != admission.Create || q.Subresource != "token" {
		return nil
	}
	var token authenticationv1.TokenRequest
	if err := decode(q.New, &token); err != nil {
		return err
	}
	ref := token.Spec.BoundObjectRef
	switch {
	case ref == nil || ref.APIVersion != "v1" || ref.Kind != "Pod" || ref.Name == "":
		return q.refuse("node requested token not bound to a pod")
	case ref.UID == "":
		return q.refuse("node requested token with a pod binding without a uid")
	}
	var pod corev1.Pod
	switch err := q.read(ctx, pods, q.Namespace, ref.Name, &pod); {
	case err != nil && missing(err):
		return err
	case err != nil:
		return q.Forbidden(err)
	case ref.UID != pod.UID:
		return q.refuse("the UID in the bound object reference (%s) does not match the UID in record. The object might have been deleted and then recreated", ref.UID)
	case pod.Spec.NodeName != q.node:
		return q.refuse("node requested token bound to a pod scheduled on a different node")
	}
	if err := q.audience(ctx, &pod, token.Spec.Audiences); err != nil {
		return q.Forbidden(err)
	}
	return nil
}

// audience returns an error unless the pod names the audience or an authorizer allows it to the node.
func (q *request) audience(ctx context.Context, pod *corev1.Pod, audiences []string) error {
	wanted := ""
	switch len(audiences) {
	case 0:
	case 1:
		wanted = audiences[0]
	default:
		return fmt.Errorf("node may only request 0 or 1 audiences")
	}
	named, err := q.namesAudience(ctx, pod, wanted)
	switch {
	case err != nil:
		return fmt.Errorf("error validating audience %q: %w", wanted, err)
	case named:
		return nil
	}
	d := q.authorize(ctx, "request-serviceaccounts-token-audience", wanted, q.Name)
	switch {
	case d.Decision == authz.Allow:
		return nil
	case d.Err != nil:
		return fmt.Errorf("error authorizing %s to request tokens for audience %q: %w", q.User.Name, wanted, d.Err)
	}
	return fmt.Errorf("%s is not authorized to request tokens for audience %q", q.User.Name, wanted)
}

// authorize asks for a verb on something that upstream puts in the place of the resource.
func (q *request) authorize(ctx context.Context, verb, resource, name string) authz.Result {
	return q.step.authz.Authorize(ctx, &authz.Attributes{
		User: q.User, Verb: verb, ResourceRequest: true, Group: q.Version.Kind.Group, Version: q.Version.Name,
		Resource: resource, Namespace: q.Namespace, Name: name,
	})
}

// namesAudience reports whether a pod has a volume that needs tokens for an audience: a projected
// token, or a CSI driver that asks for such tokens.
func (q *request) namesAudience(ctx context.Context, pod *corev1.Pod, audience string) (bool, error) {
	var errs []error
	for i := range pod.Spec.Volumes {
		v := &pod.Spec.Volumes[i]
		if v.Projected != nil {
			for j := range v.Projected.Sources {
				if t := v.Projected.Sources[j].ServiceAccountToken; t != nil && t.Audience == audience {
					return true, nil
				}
			}
		}
		driver, err := q.driverOf(ctx, pod, v)
		if err != nil {
			errs = append(errs, err)
			continue
		}
		if driver == "" {
			continue
		}
		var d storagev1.CSIDriver
		if err := q.read(ctx, drivers, "", driver, &d); err != nil {
			errs = append(errs, err)
			continue
		}
		for _, t := range d.Spec.TokenRequests {
			if t.Audience == audience {
				return true, nil
			}
		}
	}
	return false, utilerrors.NewAggregate(errs)
}

// driverOf returns the name of the CSI driver that serves a volume of a pod; "" if none does.
func (q *request) driverOf(ctx context.Context, pod *corev1.Pod, v *corev1.Volume) (string, error) {
	switch {
	case v.Ephemeral != nil && v.Ephemeral.VolumeClaimTemplate != nil:
		return q.driverOfClaim(ctx, pod.Namespace, pod.Name+"-"+v.Name)
	case v.PersistentVolumeClaim != nil:
		return q.driverOfClaim(ctx, pod.Namespace, v.PersistentVolumeClaim.ClaimName)
	case v.CSI != nil:
		return v.CSI.Driver, nil
	}
	return driverOfVolume(v)
}

// driverOfClaim returns the name of the CSI driver that serves a claim's volume.
func (q *request) driverOfClaim(ctx context.Context, namespace, name string) (string, error) {
	var claim corev1.PersistentVolumeClaim
	if err := q.read(ctx, claims, namespace, name, &claim); err != nil {
		return "", err
	}
	var volume corev1.PersistentVolume
	if err := q.read(ctx, volumes, "", claim.Spec.VolumeName, &volume); err != nil {
		return "", err
	}
	if volume.Spec.CSI != nil {
		return volume.Spec.CSI.Driver, nil
	}
	return driverOfPersistent(&volume)
}
