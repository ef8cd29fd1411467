package storage

import (
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/keelson-io/keelson/internal/builtin/core"
	"github.com/keelson-io/keelson/internal/builtin/describe"
	"github.com/keelson-io/keelson/internal/texts"
	"github.com/keelson-io/keelson/jsondoc"
	"github.com/keelson-io/keelson/kind"
	"github.com/keelson-io/keelson/schema"
)

// This file checks the objects of storage drivers, and attachments of volumes.

// checkDriver checks a driver. Some fields are immutable.
func checkDriver(_ *kind.Version, new, old *jsondoc.Doc, _ schema.Scope) field.ErrorList {
	spec, path := describe.ReadAs[storagev1.CSIDriverSpec](new.Root().Get("spec")), field.NewPath("spec")
	errs := checkAudiences(spec.TokenRequests, path.Child("tokenRequests"))
	for _, mode := range texts.Each(&errs, spec.VolumeLifecycleModes) {
		errs = append(errs, describe.Among(path.Child("volumeLifecycleModes"), mode, storagev1.VolumeLifecyclePersistent, storagev1.VolumeLifecycleEphemeral)...)
	}
	if n := spec.NodeAllocatableUpdatePeriodSeconds; n != nil && *n < 10 {
		errs = append(errs, field.Invalid(path.Child("nodeAllocatableUpdatePeriodSeconds"), *n, "must be greater than or equal to 10 seconds"))
	}
	if in := spec.ServiceAccountTokenInSecrets; in != nil && len(spec.TokenRequests) == 0 {
		errs = append(errs, field.Invalid(path.Child("serviceAccountTokenInSecrets"), in, "serviceAccountTokenInSecrets is set but no tokenRequests are specified"))
	}
	if old == nil {
		return errs
	}
	was := describe.ReadAs[storagev1.CSIDriverSpec](old.Root().Get("spec"))
	if !describe.SameJSON(spec.AttachRequired, was.AttachRequired) {
		errs = append(errs, field.Invalid(path.Child("attachedRequired"), spec.AttachRequired, "field is immutable")) // upstream's spelling
	}
	if !describe.SameJSON(spec.VolumeLifecycleModes, was.VolumeLifecycleModes) {
		errs = append(errs, field.Invalid(path.Child("volumeLifecycleModes"), spec.VolumeLifecycleModes, "field is immutable").WithOrigin("immutable"))
	}
	return errs
}

// checkAudiences checks the token requests of a driver: one for each audience.
func checkAudiences(requests []storagev1.TokenRequest, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	have := map[string]bool{}
	for i, r := range texts.Each(&errs, requests) {
		at := path.Index(i)
		if have[r.Audience] {
			errs = append(errs, field.Duplicate(at.Child("audience"), r.Audience))
			continue
		}
		have[r.Audience] = true
		errs = append(errs, core.CheckExpiration(r.ExpirationSeconds, at.Child("expirationSeconds"))...)
	}
	return errs
}

// countDriver counts changes of a driver in metadata.generation. The first change counts 1: a new
// driver has no generation.
func countDriver(new, old *jsondoc.Doc) {
	if !jsondoc.Equal(new.Root().Get("spec"), old.Root().Get("spec")) {
		describe.SetAs(new, old.Root().At("metadata", "generation").Int()+1, "metadata", "generation")
	}
}

// checkNodeDrivers refuses to change the drivers of a node, except for the number of volumes that
// they can serve.
func checkNodeDrivers(_ *kind.Version, new, old *jsondoc.Doc, _ schema.Scope) field.ErrorList {
	if old == nil {
		return nil
	}
	var errs field.ErrorList
	path := field.NewPath("spec", "drivers")
	for _, was := range describe.ReadAs[storagev1.CSINodeSpec](old.Root().Get("spec")).Drivers {
		for _, now := range describe.ReadAs[storagev1.CSINodeSpec](new.Root().Get("spec")).Drivers {
			now.Allocatable, was.Allocatable = nil, nil
			if now.Name == was.Name && !describe.SameJSON(now, was) {
				errs = append(errs, field.Invalid(path, describe.InGoNames(now), "field is immutable"))
			}
		}
	}
	return errs
}

// checkStorageCapacity checks a capacity and where it is available.
func checkStorageCapacity(_ *kind.Version, new, old *jsondoc.Doc, _ schema.Scope) field.ErrorList {
	c := describe.ReadAs[storagev1.CSIStorageCapacity](new.Root())
	name, topology := field.NewPath("storageClassName"), field.NewPath("nodeTopology")
	errs := describe.Invalid(name, c.StorageClassName, describe.Subdomain(c.StorageClassName, false))
	if old == nil {
		errs = append(errs, describe.CheckTerms(c.NodeTopology, topology)...)
		if c.Capacity != nil {
			errs = append(errs, core.CheckQuantity(field.NewPath("capacity"), *c.Capacity, false)...)
		}
		return errs
	}
	if was := describe.ReadAs[storagev1.CSIStorageCapacity](old.Root()); !describe.SameJSON(c.NodeTopology, was.NodeTopology) {
		errs = append(errs, field.Invalid(topology, c.NodeTopology, "field is immutable"))
	}
	if c.StorageClassName != old.Root().Get("storageClassName").Text() {
		errs = append(errs, field.Invalid(name, c.StorageClassName, "field is immutable"))
	}
	return errs
}

// forbidChange returns a check that refuses changes of a member of a volume attributes class.
func forbidChange(member string) describe.Checker {
	return func(_ *kind.Version, new, old *jsondoc.Doc, _ schema.Scope) field.ErrorList {
		if old == nil || jsondoc.Equal(new.Root().Get(member), old.Root().Get(member)) {
			return nil
		}
		return field.ErrorList{field.Forbidden(field.NewPath(member), "updates to "+member+" are forbidden.")}
	}
}

// checkAttachment checks an attachment, whose spec is immutable.
func checkAttachment(_ *kind.Version, new, old *jsondoc.Doc, scope schema.Scope) field.ErrorList {
	if scope == schema.Status {
		return nil
	}
	spec, path := describe.ReadAs[storagev1.VolumeAttachmentSpec](new.Root().Get("spec")), field.NewPath("spec")
	errs := core.CheckDriverName(spec.Attacher, path.Child("attacher"))
	at := path.Child("source")
	switch name, volume := spec.Source.PersistentVolumeName, spec.Source.InlineVolumeSpec; {
	case name == nil && volume == nil:
		errs = append(errs, field.Required(at, "must specify exactly one of inlineVolumeSpec and persistentVolumeName"))
	case name != nil && volume != nil:
		errs = append(errs, field.Forbidden(at, "must specify exactly one of inlineVolumeSpec and persistentVolumeName"))
	case name != nil && *name == "":
		errs = append(errs, field.Required(at.Child("persistentVolumeName"), "must specify non empty persistentVolumeName"))
	case volume != nil:
		errs = append(errs, checkInlineVolume(volume, at.Child("inlineVolumeSpec"))...)
	}
	errs = append(errs, describe.Invalid(path.Child("nodeName"), spec.NodeName, validation.IsDNS1123Subdomain(spec.NodeName))...)
	if name := spec.Source.PersistentVolumeName; name != nil {
		errs = append(errs, describe.Invalid(field.NewPath("spec.source.persistentVolumeName"), *name, describe.Subdomain(*name, false))...)
	}
	if old != nil && !jsondoc.Equal(new.Root().Get("spec"), old.Root().Get("spec")) {
		errs = append(errs, field.Invalid(path, nil, "field is immutable").WithOrigin("immutable"))
	}
	return errs
}

// checkInlineVolume checks a volume without an object of its own: it must be one of a CSI driver.
func checkInlineVolume(spec *corev1.PersistentVolumeSpec, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	if len(spec.AccessModes) == 0 {
		errs = append(errs, field.Required(path.Child("accessModes"), ""))
	}
	errs = append(errs, core.CheckModes(spec.AccessModes, path.Child("accessModes"))...)
	for _, other := range []struct {
		member string
		set    bool
	}{
		{"claimRef", spec.ClaimRef != nil}, {"capacity", len(spec.Capacity) > 0}, {"nodeAffinity", spec.NodeAffinity != nil}, {"storageClassName", spec.StorageClassName != ""},
	} {
		if other.set {
			errs = append(errs, field.Forbidden(path.Child(other.member), "may not be specified in the context of inline volumes"))
		}
	}
	if p := spec.PersistentVolumeReclaimPolicy; p != "" && p != corev1.PersistentVolumeReclaimRetain {
		errs = append(errs, field.Forbidden(path.Child("persistentVolumeReclaimPolicy"), "may only be Retain in the context of inline volumes"))
	}
	if m := spec.VolumeMode; m != nil && *m != corev1.PersistentVolumeFilesystem {
		errs = append(errs, field.Forbidden(path.Child("volumeMode"), "may not specify volumeMode other than Filesystem in the context of inline volumes"))
	}
	if spec.CSI == nil {
		return append(errs, field.Required(path.Child("csi"), "has to be specified in the context of inline volumes"))
	}
	errs = append(errs, core.CheckDriverName(spec.CSI.Driver, path.Child("csi", "driver"))...)
	return append(errs, describe.NeedText(path.Child("csi", "volumeHandle"), spec.CSI.VolumeHandle)...)
}
