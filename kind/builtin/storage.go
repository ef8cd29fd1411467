package builtin

import (
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"

	"github.com/keelson-io/keelson/doc"
	"github.com/keelson-io/keelson/kind"
)

// This file describes volumes and where they come from.

func storageKinds() []description {
	class, driver := storagev1.StorageClass{}.SwaggerDoc(), storagev1.CSIDriverSpec{}.SwaggerDoc()
	attachment := storagev1.VolumeAttachmentSpec{}.SwaggerDoc()
	return []description{{
		kind: "PersistentVolume", plural: "persistentvolumes", short: []string{"pv"}, cluster: true,
		versions: v1(fillVolume), status: true, returned: true, columns: volumeColumns(),
		create: func(d *doc.Doc) { notePhase(d) }, updateStatus: updatePhase, check: unlessStatus(checkPersistentVolume), warnings: volumeWarnings,
	}, {
		kind: "PersistentVolumeClaim", plural: "persistentvolumeclaims", short: []string{"pvc"},
		versions: v1[corev1.PersistentVolumeClaim](nil), status: true, returned: true, columns: claimColumns(), check: unlessStatus(checkClaim), warnings: volumeClaimWarnings,
		create: nameSources, update: func(new, _ *doc.Doc) { nameSources(new) },
	}, {
		group: "storage.k8s.io", kind: "StorageClass", plural: "storageclasses", short: []string{"sc"}, cluster: true,
		versions: v1[storagev1.StorageClass](nil), returned: true,
		columns: []kind.Column{
			at("Provisioner", "string", ".provisioner", class["provisioner"]),
			at("ReclaimPolicy", "string", ".reclaimPolicy", class["reclaimPolicy"]),
			at("VolumeBindingMode", "string", ".volumeBindingMode", class["volumeBindingMode"]),
			kind.Column{Name: "AllowVolumeExpansion", Type: "string", Truth: true, Description: class["allowVolumeExpansion"],
				Cell: func(obj doc.Value, _ time.Time) string { return truthAt("allowVolumeExpansion")(obj) }},
			ageColumn(),
		},
		check: checkStorageClass,
	}, {
		group: "storage.k8s.io", kind: "VolumeAttachment", plural: "volumeattachments", cluster: true, versioned: true,
		versions: v1[storagev1.VolumeAttachment](nil), returned: true, status: true, statusKeeps: wholeMetadata, check: checkAttachment,
		columns: []kind.Column{
			named(at("Attacher", "string", ".spec.attacher", attachment["attacher"])),
			at("PV", "string", ".spec.source.persistentVolumeName", storagev1.VolumeAttachmentSource{}.SwaggerDoc()["persistentVolumeName"]),
			at("Node", "string", ".spec.nodeName", attachment["nodeName"]),
			truth("Attached", storagev1.VolumeAttachmentStatus{}.SwaggerDoc()["attached"], "status", "attached"),
			ageColumn(),
		},
	}, {
		group: "storage.k8s.io", kind: "CSIDriver", plural: "csidrivers", cluster: true, versioned: true,
		versions: v1[storagev1.CSIDriver](nil), returned: true, check: checkDriver, update: countDriver,
		columns: []kind.Column{
			truth("AttachRequired", driver["attachRequired"], "spec", "attachRequired"),
			truth("PodInfoOnMount", driver["podInfoOnMount"], "spec", "podInfoOnMount"),
			truth("StorageCapacity", driver["storageCapacity"], "spec", "storageCapacity"),
			cell("TokenRequests", driver["tokenRequests"], func(obj doc.Value) string {
				var out []string
				for _, r := range obj.At("spec", "tokenRequests").Items() {
					out = append(out, r.Get("audience").Text())
				}
				return either(strings.Join(out, ","), "<unset>")
			}),
			truth("RequiresRepublish", driver["requiresRepublish"], "spec", "requiresRepublish"),
			cell("Modes", driver["volumeLifecycleModes"], func(obj doc.Value) string {
				return either(strings.Join(texts(obj.At("spec", "volumeLifecycleModes")), ","), "<none>")
			}),
			ageColumn(),
		},
	}, {
		group: "storage.k8s.io", kind: "CSINode", plural: "csinodes", cluster: true, versioned: true,
		versions: v1[storagev1.CSINode](fillCSINode), returned: true, status: true, statusKeeps: wholeMetadata, check: checkNodeDrivers,
		columns: []kind.Column{sizes("Drivers", "Drivers indicates the number of CSI drivers registered on the node", "spec", "drivers"), ageColumn()},
	}, {
		group: "storage.k8s.io", kind: "CSIStorageCapacity", plural: "csistoragecapacities", versioned: true,
		versions: v1[storagev1.CSIStorageCapacity](nil), columns: []kind.Column{createdColumn()},
		check: checkStorageCapacity,
	}, {
		group: "storage.k8s.io", kind: "VolumeAttributesClass", plural: "volumeattributesclasses", short: []string{"vac"}, cluster: true,
		versions: v1[storagev1.VolumeAttributesClass](nil), returned: true,
		check: both(both(forbidChange("driverName"), forbidChange("parameters")),
			both(required("", "driverName"), required("must contain at least one key/value pair", "parameters"))),
		columns: []kind.Column{
			at("DriverName", "string", ".driverName", storagev1.VolumeAttributesClass{}.SwaggerDoc()["driverName"]), ageColumn(),
		},
	}}
}

// notePhase notes since when a volume has been in its phase.
func notePhase(d *doc.Doc) {
	d.Set(d.NewString(time.Now().UTC().Format(time.RFC3339)), "status", "lastPhaseTransitionTime")
}

// updatePhase does so when the phase changes, unless the client says since when.
func updatePhase(new, old *doc.Doc) {
	const since = "lastPhaseTransitionTime"
	now, was := new.Root().Get("status"), old.Root().Get("status")
	if now.Get("phase").Text() == was.Get("phase").Text() {
		if !now.Get(since).Exists() {
			kind.Keep(new, old, "status", since)
		}
		return
	}
	if !now.Get(since).Exists() || doc.Equal(now.Get(since), was.Get(since)) {
		notePhase(new)
	}
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
		cell("Capacity", status["capacity"], bound(func(obj doc.Value) string {
			if storage := obj.At("status", "capacity", "storage"); storage.Exists() {
				return storage.Text()
			}
			return "0"
		})),
		cell("Access Modes", status["accessModes"], bound(modesAt("status", "accessModes"))),
		at("StorageClass", "string", ".spec.storageClassName", "StorageClass of the pvc"),
		orNone("VolumeAttributesClass", "VolumeAttributesClass of the pvc", "<unset>", "spec", "volumeAttributesClassName"),
		ageColumn(),
		wide(orNone("VolumeMode", spec["volumeMode"], "<unset>", "spec", "volumeMode")),
	}
}

// nameSources says where a claim's data comes from in both of the fields for it.
func nameSources(d *doc.Doc) {
	spec := d.Root().Get("spec")
	if spec.Get("dataSource").Exists() == spec.Get("dataSourceRef").Exists() {
		return
	}
	from, to := spec.Get("dataSource"), "dataSourceRef"
	if !from.Exists() {
		from, to = spec.Get("dataSourceRef"), "dataSource"
	}
	if from.Get("namespace").Text() != "" {
		return
	}
	same := map[string]string{}
	for _, name := range []string{"apiGroup", "kind", "name"} {
		if v := from.Get(name); v.Kind() == doc.String {
			same[name] = v.Text()
		}
	}
	setAs(d, same, "spec", to)
}
