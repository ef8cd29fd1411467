package pods

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	utilerrors "k8s.io/apimachinery/pkg/util/errors"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/keelson-io/keelson/internal/admission"
	"github.com/keelson-io/keelson/internal/status"
)

// This file checks images and affinities.

// AlwaysPullImages is the plugin of that name: nodes pull images anew, so that nobody uses a private
// image only because it is there.
func AlwaysPullImages() (mutate, validate admission.Func) {
	mutate = onWrite(func(_ context.Context, r *admission.Request, pod *corev1.Pod) error {
		if ignore, err := noNewImages(r, pod); err != nil || ignore {
			return err
		}
		s := &pod.Spec
		eachContainer(s, func(c *containerImage) { *c.policy = corev1.PullAlways })
		for i := range s.Volumes {
			if image := s.Volumes[i].Image; image != nil {
				image.PullPolicy = corev1.PullAlways
			}
		}
		for _, part := range []struct {
			member string
			count  int
			value  any
		}{
			{"initContainers", len(s.InitContainers), s.InitContainers}, {"containers", len(s.Containers), s.Containers},
			{"ephemeralContainers", len(s.EphemeralContainers), s.EphemeralContainers}, {"volumes", len(s.Volumes), s.Volumes},
		} {
			if part.count > 0 {
				if err := r.Edit(part.value, "spec", part.member); err != nil {
					return err
				}
			}
		}
		return nil
	})
	validate = onWrite(func(_ context.Context, r *admission.Request, pod *corev1.Pod) error {
		if ignore, err := noNewImages(r, pod); err != nil || ignore {
			return err
		}
		var errs []error
		check := func(path *field.Path, policy corev1.PullPolicy) {
			if policy != corev1.PullAlways {
				errs = append(errs, r.Forbidden(field.NotSupported(path, policy, []string{string(corev1.PullAlways)})))
			}
		}
		eachContainer(&pod.Spec, func(c *containerImage) { check(c.path.Child("imagePullPolicy"), *c.policy) })
		for i := range pod.Spec.Volumes {
			if image := pod.Spec.Volumes[i].Image; image != nil {
				check(field.NewPath("spec").Child("volumes").Index(i).Child("image").Child("pullPolicy"), image.PullPolicy)
			}
		}
		if err := utilerrors.NewAggregate(errs); err != nil {
			return status.Plain500(err.Error())
		}
		return nil
	})
	return mutate, validate
}

// containerImage is the image of any container of a pod.
type containerImage struct {
	path   *field.Path
	image  string
	policy *corev1.PullPolicy
}

// eachContainer calls fn for all containers: those for initialization first, ephemeral ones last.
func eachContainer(s *corev1.PodSpec, fn func(*containerImage)) {
	spec := field.NewPath("spec")
	for i := range s.InitContainers {
		c := &s.InitContainers[i]
		fn(&containerImage{spec.Child("initContainers").Index(i), c.Image, &c.ImagePullPolicy})
	}
	for i := range s.Containers {
		c := &s.Containers[i]
		fn(&containerImage{spec.Child("containers").Index(i), c.Image, &c.ImagePullPolicy})
	}
	for i := range s.EphemeralContainers {
		c := &s.EphemeralContainers[i]
		fn(&containerImage{spec.Child("ephemeralContainers").Index(i), c.Image, &c.ImagePullPolicy})
	}
}

// noNewImages reports whether a request is an update with no other images than before.
func noNewImages(r *admission.Request, pod *corev1.Pod) (bool, error) {
	if r.Operation != admission.Update {
		return false, nil
	}
	old, err := admission.OldObject[corev1.Pod](r)
	if err != nil {
		return false, err
	}
	have, same := map[string]bool{}, true
	eachContainer(&old.Spec, func(c *containerImage) { have[c.image] = true })
	eachContainer(&pod.Spec, func(c *containerImage) { same = same && have[c.image] })
	return same, nil
}

// HostAntiAffinity returns the plugin LimitPodHardAntiAffinityTopology: required anti-affinities are about
// single nodes only, so that a pod cannot keep others from a whole zone.
func HostAntiAffinity() admission.Func {
	return onWrite(func(_ context.Context, _ *admission.Request, pod *corev1.Pod) error {
		a := pod.Spec.Affinity
		if a == nil || a.PodAntiAffinity == nil {
			return nil
		}
		for _, term := range a.PodAntiAffinity.RequiredDuringSchedulingIgnoredDuringExecution {
			if term.TopologyKey != corev1.LabelHostname {
				return status.Forbidden(Resource, pod.Name, fmt.Errorf("affinity.PodAntiAffinity.RequiredDuringScheduling has TopologyKey %v but only key %v is allowed",
					term.TopologyKey, corev1.LabelHostname))
			}
		}
		return nil
	})
}
