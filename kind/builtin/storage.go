package builtin

import (
	"strings"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/keelson-io/keelson/doc"
	"github.com/keelson-io/keelson/kind"
	"github.com/keelson-io/keelson/schema"
)

// This file describes volumes and where they come from.

func storageKinds() []description {
	class, driver := storagev1.StorageClass{}.SwaggerDoc(), storagev1.CSIDriverSpec{}.SwaggerDoc()
	attachment := storagev1.VolumeAttachmentSpec{}.SwaggerDoc()
	return []description{{
		kind: "PersistentVolume", plural: "persistentvolumes", short: []string{"pv"}, cluster: true,
		versions: v1[corev1.PersistentVolume](nil), status: true, columns: volumeColumns(),
	}, {
		kind: "PersistentVolumeClaim", plural: "persistentvolumeclaims", short: []string{"pvc"},
		versions: v1[corev1.PersistentVolumeClaim](nil), status: true, columns: claimColumns(), check: both(checkClaim, checkClaimUpdate),
	}, {
		group: "storage.k8s.io", kind: "StorageClass", plural: "storageclasses", short: []string{"sc"}, cluster: true,
		versions: v1[storagev1.StorageClass](nil),
		columns: []kind.Column{
			at("Provisioner", "string", ".provisioner", class["provisioner"]),
			at("ReclaimPolicy", "string", ".reclaimPolicy", class["reclaimPolicy"]),
			at("VolumeBindingMode", "string", ".volumeBindingMode", class["volumeBindingMode"]),
			cell("AllowVolumeExpansion", class["allowVolumeExpansion"], truthAt("allowVolumeExpansion")),
			ageColumn(),
		},
		check: checkStorageClass,
	}, {
		group: "storage.k8s.io", kind: "VolumeAttachment", plural: "volumeattachments", cluster: true, versioned: true,
		versions: v1[storagev1.VolumeAttachment](nil), status: true, statusKeeps: wholeMetadata,
		columns: []kind.Column{
			at("Attacher", "string", ".spec.attacher", attachment["attacher"]),
			at("PV", "string", ".spec.source.persistentVolumeName", attachment["source"]),
			at("Node", "string", ".spec.nodeName", attachment["nodeName"]),
			cell("Attached", storagev1.VolumeAttachmentStatus{}.SwaggerDoc()["attached"], truthAt("status", "attached")),
			ageColumn(),
		},
	}, {
		group: "storage.k8s.io", kind: "CSIDriver", plural: "csidrivers", cluster: true, versioned: true,
		versions: v1[storagev1.CSIDriver](nil),
		columns: []kind.Column{
			cell("AttachRequired", driver["attachRequired"], truthAt("spec", "attachRequired")),
			cell("PodInfoOnMount", driver["podInfoOnMount"], truthAt("spec", "podInfoOnMount")),
			cell("StorageCapacity", driver["storageCapacity"], truthAt("spec", "storageCapacity")),
			cell("TokenRequests", driver["tokenRequests"], func(obj doc.Value) string {
				var out []string
				for _, r := range obj.At("spec", "tokenRequests").Items() {
					out = append(out, r.Get("audience").Text())
				}
				return either(strings.Join(out, ","), "<unset>")
			}),
			cell("RequiresRepublish", driver["requiresRepublish"], truthAt("spec", "requiresRepublish")),
			cell("Modes", driver["volumeLifecycleModes"], func(obj doc.Value) string {
				return either(strings.Join(texts(obj.At("spec", "volumeLifecycleModes")), ","), "<none>")
			}),
			ageColumn(),
		},
	}, {
		group: "storage.k8s.io", kind: "CSINode", plural: "csinodes", cluster: true, versioned: true,
		versions: v1[storagev1.CSINode](nil),
		columns:  []kind.Column{size("Drivers", storagev1.CSINodeSpec{}.SwaggerDoc()["drivers"], []string{"spec", "drivers"}), ageColumn()},
	}, {
		group: "storage.k8s.io", kind: "CSIStorageCapacity", plural: "csistoragecapacities", versioned: true,
		versions: v1[storagev1.CSIStorageCapacity](nil),
		columns: []kind.Column{
			at("StorageClassName", "string", ".storageClassName", storagev1.CSIStorageCapacity{}.SwaggerDoc()["storageClassName"]),
			orNone("Capacity", storagev1.CSIStorageCapacity{}.SwaggerDoc()["capacity"], "<unset>", "capacity"),
			ageColumn(),
		},
	}, {
		group: "storage.k8s.io", kind: "VolumeAttributesClass", plural: "volumeattributesclasses", short: []string{"vac"}, cluster: true,
		versioned: true, versions: v1[storagev1.VolumeAttributesClass](nil),
		columns: []kind.Column{
			at("DriverName", "string", ".driverName", storagev1.VolumeAttributesClass{}.SwaggerDoc()["driverName"]), ageColumn(),
		},
	}}
}

// truthAt shows a truth, false if it is not said.
func truthAt(path ...string) func(doc.Value) string {
	return func(obj doc.Value) string {
		if obj.At(path...).Bool() {
			return "true"
		}
		return "false"
	}
}

// accessModes are access modes in short.
var accessModes = map[string]string{
	"ReadWriteOnce": "RWO", "ReadOnlyMany": "ROX", "ReadWriteMany": "RWX", "ReadWriteOncePod": "RWOP",
}

func modesAt(path ...string) func(doc.Value) string {
	return func(obj doc.Value) string {
		have := map[string]bool{}
		for _, m := range obj.At(path...).Items() {
			have[m.Text()] = true
		}
		var out []string
		for _, m := range []string{"ReadWriteOnce", "ReadOnlyMany", "ReadWriteMany", "ReadWriteOncePod"} {
			if have[m] {
				out = append(out, accessModes[m])
			}
		}
		return strings.Join(out, ",")
	}
}

func volumeColumns() []kind.Column {
	spec, status := corev1.PersistentVolumeSpec{}.SwaggerDoc(), corev1.PersistentVolumeStatus{}.SwaggerDoc()
	return []kind.Column{
		at("Capacity", "string", ".spec.capacity.storage", spec["capacity"]),
		cell("Access Modes", spec["accessModes"], modesAt("spec", "accessModes")),
		at("Reclaim Policy", "string", ".spec.persistentVolumeReclaimPolicy", spec["persistentVolumeReclaimPolicy"]),
		cell("Status", status["phase"], phase),
		cell("Claim", spec["claimRef"], func(obj doc.Value) string {
			if ref := obj.At("spec", "claimRef"); ref.Kind() == doc.Object {
				return ref.Get("namespace").Text() + "/" + ref.Get("name").Text()
			}
			return ""
		}),
		at("StorageClass", "string", ".spec.storageClassName", "StorageClass of the pv"),
		orNone("VolumeAttributesClass", "VolumeAttributesClass of the pv", "<unset>", "spec", "volumeAttributesClassName"),
		at("Reason", "string", ".status.reason", status["reason"]),
		ageColumn(),
		wide(orNone("VolumeMode", spec["volumeMode"], "<unset>", "spec", "volumeMode")),
	}
}

// phase is the phase of an object, or that it is being deleted.
func phase(obj doc.Value) string {
	if obj.At("metadata", "deletionTimestamp").Text() != "" {
		return "Terminating"
	}
	return obj.At("status", "phase").Text()
}

func claimColumns() []kind.Column {
	spec, status := corev1.PersistentVolumeClaimSpec{}.SwaggerDoc(), corev1.PersistentVolumeClaimStatus{}.SwaggerDoc()
	bound := func(text func(doc.Value) string) func(doc.Value) string {
		return func(obj doc.Value) string {
			if obj.At("spec", "volumeName").Text() == "" {
				return ""
			}
			return text(obj)
		}
	}
	return []kind.Column{
		cell("Status", status["phase"], phase),
		at("Volume", "string", ".spec.volumeName", spec["volumeName"]),
		cell("Capacity", status["capacity"], bound(func(obj doc.Value) string { return obj.At("status", "capacity", "storage").Text() })),
		cell("Access Modes", status["accessModes"], bound(modesAt("status", "accessModes"))),
		at("StorageClass", "string", ".spec.storageClassName", "StorageClass of the pvc"),
		orNone("VolumeAttributesClass", "VolumeAttributesClass of the pvc", "<unset>", "spec", "volumeAttributesClassName"),
		ageColumn(),
		wide(orNone("VolumeMode", spec["volumeMode"], "<unset>", "spec", "volumeMode")),
	}
}

func checkClaim(_ *kind.Version, d, _ *doc.Doc, scope schema.Scope) field.ErrorList {
	if scope == schema.Status {
		return nil
	}
	return checkClaimSpec(d.Root().Get("spec"), field.NewPath("spec"))
}

func checkClaimSpec(spec doc.Value, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	if spec.Get("accessModes").Len() == 0 {
		errs = append(errs, field.Required(path.Child("accessModes"), "at least 1 access mode is required"))
	}
	if !spec.At("resources", "requests", "storage").Exists() {
		errs = append(errs, field.Required(path.Child("resources").Key("storage"), ""))
	}
	return errs
}

func checkStorageClass(_ *kind.Version, d, old *doc.Doc, _ schema.Scope) field.ErrorList {
	var errs field.ErrorList
	if d.Root().Get("provisioner").Text() == "" {
		errs = append(errs, field.Required(field.NewPath("provisioner"), ""))
	}
	if old == nil {
		return errs
	}
	for _, member := range []string{"parameters", "provisioner"} {
		if !doc.Equal(d.Root().Get(member), old.Root().Get(member)) {
			errs = append(errs, field.Forbidden(field.NewPath(member), "updates to "+member+" are forbidden."))
		}
	}
	return errs
}
