package core

import (
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/keelson-io/keelson/internal/builtin/describe"
	"github.com/keelson-io/keelson/jsondoc"
	"github.com/keelson-io/keelson/kind"
)

// This file describes volumes and their claims.

// volumeKinds returns persistent volumes and claims.
func volumeKinds() []describe.Description {
	return []describe.Description{{
		Kind: "PersistentVolume", Plural: "persistentvolumes", ShortNames: []string{"pv"}, ClusterScoped: true,
		Versions: describe.V1(fillVolume), Status: true, Traits: kind.Traits{DeleteReturnsObject: true}, Columns: volumeColumns(),
		Create: func(d *jsondoc.Doc) { stampPhase(d) }, UpdateStatus: updatePhase, Check: describe.UnlessStatus(checkPersistentVolume), Warnings: volumeWarnings,
	}, {
		Kind: "PersistentVolumeClaim", Plural: "persistentvolumeclaims", ShortNames: []string{"pvc"},
		Versions: describe.V1[corev1.PersistentVolumeClaim](nil), Status: true, Traits: kind.Traits{DeleteReturnsObject: true}, Columns: claimColumns(), Check: describe.UnlessStatus(checkClaim), Warnings: volumeClaimWarnings,
		Create: nameSources, Update: func(new, _ *jsondoc.Doc) { nameSources(new) },
	}}
}

// stampPhase sets the time of the last change of a volume's phase.
func stampPhase(d *jsondoc.Doc) {
	d.Set(d.NewString(time.Now().UTC().Format(time.RFC3339)), "status", "lastPhaseTransitionTime")
}

// updatePhase calls stampPhase if the phase changes, unless the client sent another time.
func updatePhase(new, old *jsondoc.Doc) {
	const since = "lastPhaseTransitionTime"
	now, was := new.Root().Get("status"), old.Root().Get("status")
	if now.Get("phase").Text() == was.Get("phase").Text() {
		if !now.Get(since).Exists() {
			kind.Keep(new, old, "status", since)
		}
		return
	}
	if !now.Get(since).Exists() || jsondoc.Equal(now.Get(since), was.Get(since)) {
		stampPhase(new)
	}
}

// accessModes has the abbreviations of access modes.
var accessModes = map[string]string{
	"ReadWriteOnce": "RWO", "ReadOnlyMany": "ROX", "ReadWriteMany": "RWX", "ReadWriteOncePod": "RWOP",
}

// modesAt returns a function for a column with the access modes at a path.
func modesAt(path ...string) func(jsondoc.Value) string {
	return func(obj jsondoc.Value) string {
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

// volumeColumns returns the columns of volumes.
func volumeColumns() []kind.Column {
	spec, status := corev1.PersistentVolumeSpec{}.SwaggerDoc(), corev1.PersistentVolumeStatus{}.SwaggerDoc()
	return []kind.Column{
		describe.At("Capacity", "string", ".spec.capacity.storage", spec["capacity"]),
		describe.Cell("Access Modes", spec["accessModes"], modesAt("spec", "accessModes")),
		describe.At("Reclaim Policy", "string", ".spec.persistentVolumeReclaimPolicy", spec["persistentVolumeReclaimPolicy"]),
		describe.Cell("Status", status["phase"], phase),
		describe.Cell("Claim", spec["claimRef"], func(obj jsondoc.Value) string {
			if ref := obj.At("spec", "claimRef"); ref.Kind() == jsondoc.Object {
				return ref.Get("namespace").Text() + "/" + ref.Get("name").Text()
			}
			return ""
		}),
		describe.At("StorageClass", "string", ".spec.storageClassName", "StorageClass of the pv"),
		describe.OrNone("VolumeAttributesClass", "VolumeAttributesClass of the pv", "<unset>", "spec", "volumeAttributesClassName"),
		describe.At("Reason", "string", ".status.reason", status["reason"]),
		describe.AgeColumn(),
		describe.Wide(describe.OrNone("VolumeMode", spec["volumeMode"], "<unset>", "spec", "volumeMode")),
	}
}

// phase returns the phase of an object, or Terminating if it is being deleted.
func phase(obj jsondoc.Value) string {
	if obj.At("metadata", "deletionTimestamp").Text() != "" {
		return "Terminating"
	}
	return obj.At("status", "phase").Text()
}

// claimColumns returns the columns of claims.
func claimColumns() []kind.Column {
	spec, status := corev1.PersistentVolumeClaimSpec{}.SwaggerDoc(), corev1.PersistentVolumeClaimStatus{}.SwaggerDoc()
	bound := func(text func(jsondoc.Value) string) func(jsondoc.Value) string {
		return func(obj jsondoc.Value) string {
			if obj.At("spec", "volumeName").Text() == "" {
				return ""
			}
			return text(obj)
		}
	}
	return []kind.Column{
		describe.Cell("Status", status["phase"], phase),
		describe.At("Volume", "string", ".spec.volumeName", spec["volumeName"]),
		describe.Cell("Capacity", status["capacity"], bound(func(obj jsondoc.Value) string {
			if storage := obj.At("status", "capacity", "storage"); storage.Exists() {
				return storage.Text()
			}
			return "0"
		})),
		describe.Cell("Access Modes", status["accessModes"], bound(modesAt("status", "accessModes"))),
		describe.At("StorageClass", "string", ".spec.storageClassName", "StorageClass of the pvc"),
		describe.OrNone("VolumeAttributesClass", "VolumeAttributesClass of the pvc", "<unset>", "spec", "volumeAttributesClassName"),
		describe.AgeColumn(),
		describe.Wide(describe.OrNone("VolumeMode", spec["volumeMode"], "<unset>", "spec", "volumeMode")),
	}
}

// nameSources copies dataSource to dataSourceRef or the other way round, so that both fields have
// the source.
func nameSources(d *jsondoc.Doc) {
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
		if v := from.Get(name); v.Kind() == jsondoc.String {
			same[name] = v.Text()
		}
	}
	describe.SetAs(d, same, "spec", to)
}

// fillVolume sets the defaults of a persistent volume that is an object. A volume inside a
// VolumeAttachment does not get them.
func fillVolume(v *corev1.PersistentVolume) {
	if v.Spec.PersistentVolumeReclaimPolicy == "" {
		v.Spec.PersistentVolumeReclaimPolicy = corev1.PersistentVolumeReclaimRetain
	}
	describe.OrDefault(&v.Spec.VolumeMode, corev1.PersistentVolumeFilesystem)
}
