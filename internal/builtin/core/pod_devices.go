package core

import (
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/keelson-io/keelson/internal/builtin/describe"
	"github.com/keelson-io/keelson/internal/texts"
)

// This file checks the devices of pods: block devices of volumes, and resource claims.

// checkDevices checks the volumes that a container gets as devices.
func (c *podCheck) checkDevices(x *corev1.Container, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	names, paths := map[string]bool{}, map[string]bool{}
	mounted := sets.KeySet(describe.ByKey(x.VolumeMounts, func(m *corev1.VolumeMount) string { return m.Name }))
	occupied := sets.KeySet(describe.ByKey(x.VolumeMounts, func(m *corev1.VolumeMount) string { return m.MountPath }))
	for i, d := range texts.Each(&errs, x.VolumeDevices) {
		name, at := path.Index(i).Child("name"), path.Index(i).Child("devicePath")
		errs = append(errs, describe.NeedText(name, d.Name)...)
		if names[d.Name] {
			errs = append(errs, field.Invalid(name, d.Name, "must be unique"))
		}
		if !c.volumes[d.Name] {
			errs = append(errs, field.NotFound(name, d.Name))
		} else if !c.claimed[d.Name] {
			errs = append(errs, field.Invalid(name, d.Name, "can only use volume source type of PersistentVolumeClaim or Ephemeral for block mode"))
		}
		errs = append(errs, describe.NeedText(at, d.DevicePath)...)
		if paths[d.DevicePath] {
			errs = append(errs, field.Invalid(at, d.DevicePath, "must be unique"))
		}
		if len(describe.CheckNoBacksteps(at, d.DevicePath)) > 0 {
			errs = append(errs, field.Invalid(at, d.DevicePath, "can not contain backsteps ('..')"))
		} else {
			paths[d.DevicePath] = true
		}
		if mounted.Has(d.Name) {
			errs = append(errs, field.Invalid(name, d.Name, "must not already exist in volumeMounts"))
		}
		if occupied.Has(d.DevicePath) {
			errs = append(errs, field.Invalid(at, d.DevicePath, "must not already exist as a path in volumeMounts"))
		}
		names[d.Name] = d.Name != ""
	}
	return errs
}

// checkClaimNames checks the claims of the pod that a container uses.
func (c *podCheck) checkClaimNames(x *corev1.Container, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	have, requests, unknown := map[string]bool{}, map[string]int{}, "" // requests counts the keys with a request, by the claim's name
	for i, claim := range texts.Each(&errs, x.Resources.Claims) {
		at, key := path.Index(i), claim.Name
		if claim.Name == "" {
			errs = append(errs, field.Required(at, ""))
			continue
		}
		if claim.Request != "" {
			errs = append(errs, describe.CheckLabel(at.Child("request"), claim.Request)...)
			key += "/" + claim.Request
		}
		switch {
		case have[claim.Name]:
			errs = append(errs, field.Duplicate(at, claim.Name))
		case have[key]:
			errs = append(errs, field.Duplicate(at, key))
		case claim.Request == "":
			for range requests[claim.Name] {
				errs = append(errs, field.Duplicate(at, claim.Name))
			}
		}
		if claim.Request != "" && !have[key] {
			requests[claim.Name]++
		}
		have[key] = true
		known := c.claims()
		switch {
		case known.Has(claim.Name):
			continue
		case len(known) == 0:
			unknown = "must be one of the names in pod.spec.resourceClaims which is empty"
		case unknown == "": // one text for all errors
			unknown = "must be one of the names in pod.spec.resourceClaims: " + strings.Join(sets.List(known), ", ")
		}
		err := field.NotFound(at, claim.Name)
		err.Detail = unknown
		errs = append(errs, err)
	}
	return errs
}

// checkOwnUsers refuses namespaces of the host to a pod with a user namespace of its own.
func (c *podCheck) checkOwnUsers() field.ErrorList {
	var errs field.ErrorList
	if c.HostUsers == nil || *c.HostUsers {
		return nil
	}
	for _, of := range []struct {
		name string
		set  bool
	}{{"hostNetwork", c.HostNetwork}, {"HostPID", c.HostPID}, {"HostIPC", c.HostIPC}} {
		if of.set {
			errs = append(errs, field.Forbidden(c.path.Child(of.name), "when `hostUsers` is false"))
		}
	}
	for path, x := range texts.Until(&errs, c.each()) {
		if len(x.VolumeDevices) > 0 {
			errs = append(errs, field.Forbidden(path.Child("volumeDevices"), "when `hostUsers` is false"))
		}
	}
	return errs
}

// checkResourceClaims checks the claims of a pod.
func (c *podCheck) checkResourceClaims() field.ErrorList {
	var errs field.ErrorList
	names := map[string]bool{}
	for i, claim := range texts.Each(&errs, c.ResourceClaims) {
		at := c.path.Child("resourceClaims").Index(i)
		shown := describe.InGoNames(claim)
		switch {
		case claim.Name == "":
			errs = append(errs, field.Required(at.Child("name"), ""))
		case names[claim.Name]:
			errs = append(errs, field.Duplicate(at.Child("name"), claim.Name))
		default:
			errs = append(errs, describe.Invalid(at.Child("name"), claim.Name, validation.IsDNS1123Label(claim.Name))...)
			names[claim.Name] = true
		}
		switch {
		case claim.ResourceClaimName != nil && claim.ResourceClaimTemplateName != nil:
			errs = append(errs, field.Invalid(at, shown, "at most one of `resourceClaimName` or `resourceClaimTemplateName` may be specified"))
		case claim.ResourceClaimName == nil && claim.ResourceClaimTemplateName == nil:
			errs = append(errs, field.Invalid(at, shown, "must specify one of: `resourceClaimName`, `resourceClaimTemplateName`"))
		}
		for _, ref := range []struct {
			member string
			name   *string
		}{{"resourceClaimName", claim.ResourceClaimName}, {"resourceClaimTemplateName", claim.ResourceClaimTemplateName}} {
			if ref.name != nil {
				errs = append(errs, describe.Invalid(at.Child(ref.member), *ref.name, validation.IsDNS1123Subdomain(*ref.name))...)
			}
		}
	}
	return errs
}
