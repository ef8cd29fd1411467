// Package storage describes the kinds of the API group storage.k8s.io: classes, drivers and attachments of volumes.
package storage

import (
	"strings"
	"time"

	storagev1 "k8s.io/api/storage/v1"

	"github.com/keelson-io/keelson/internal/builtin/describe"
	"github.com/keelson-io/keelson/jsondoc"
	"github.com/keelson-io/keelson/kind"
)

// This file describes storage classes, drivers and attachments of volumes.

// Kinds returns the descriptions of the kinds of the group.
func Kinds() []describe.Description {
	class, driver := storagev1.StorageClass{}.SwaggerDoc(), storagev1.CSIDriverSpec{}.SwaggerDoc()
	attachment := storagev1.VolumeAttachmentSpec{}.SwaggerDoc()
	return []describe.Description{{
		Group: "storage.k8s.io", Kind: "StorageClass", Plural: "storageclasses", ShortNames: []string{"sc"}, ClusterScoped: true,
		Versions: describe.V1[storagev1.StorageClass](nil), Traits: kind.Traits{DeleteReturnsObject: true},
		Columns: []kind.Column{
			describe.At("Provisioner", "string", ".provisioner", class["provisioner"]),
			describe.At("ReclaimPolicy", "string", ".reclaimPolicy", class["reclaimPolicy"]),
			describe.At("VolumeBindingMode", "string", ".volumeBindingMode", class["volumeBindingMode"]),
			kind.Column{Name: "AllowVolumeExpansion", Type: "string", Truth: true, Description: class["allowVolumeExpansion"],
				Cell: func(obj jsondoc.Value, _ time.Time) string { return describe.TruthAt("allowVolumeExpansion")(obj) }},
			describe.AgeColumn(),
		},
		Check: checkStorageClass,
	}, {
		Group: "storage.k8s.io", Kind: "VolumeAttachment", Plural: "volumeattachments", ClusterScoped: true,
		Versions: describe.V1[storagev1.VolumeAttachment](nil), Traits: kind.Traits{RequireResourceVersion: true, DeleteReturnsObject: true, StatusKeeps: kind.WritableMetadata}, Status: true, Check: checkAttachment,
		Columns: []kind.Column{
			describe.Named(describe.At("Attacher", "string", ".spec.attacher", attachment["attacher"])),
			describe.At("PV", "string", ".spec.source.persistentVolumeName", storagev1.VolumeAttachmentSource{}.SwaggerDoc()["persistentVolumeName"]),
			describe.At("Node", "string", ".spec.nodeName", attachment["nodeName"]),
			describe.Truth("Attached", storagev1.VolumeAttachmentStatus{}.SwaggerDoc()["attached"], "status", "attached"),
			describe.AgeColumn(),
		},
	}, {
		Group: "storage.k8s.io", Kind: "CSIDriver", Plural: "csidrivers", ClusterScoped: true,
		Versions: describe.V1[storagev1.CSIDriver](nil), Traits: kind.Traits{RequireResourceVersion: true, DeleteReturnsObject: true}, Check: checkDriver, Update: countDriver,
		Columns: []kind.Column{
			describe.Truth("AttachRequired", driver["attachRequired"], "spec", "attachRequired"),
			describe.Truth("PodInfoOnMount", driver["podInfoOnMount"], "spec", "podInfoOnMount"),
			describe.Truth("StorageCapacity", driver["storageCapacity"], "spec", "storageCapacity"),
			describe.Cell("TokenRequests", driver["tokenRequests"], func(obj jsondoc.Value) string {
				var out []string
				for _, r := range obj.At("spec", "tokenRequests").Items() {
					out = append(out, r.Get("audience").Text())
				}
				return describe.Either(strings.Join(out, ","), "<unset>")
			}),
			describe.Truth("RequiresRepublish", driver["requiresRepublish"], "spec", "requiresRepublish"),
			describe.Cell("Modes", driver["volumeLifecycleModes"], func(obj jsondoc.Value) string {
				return describe.Either(strings.Join(describe.Texts(obj.At("spec", "volumeLifecycleModes")), ","), "<none>")
			}),
			describe.AgeColumn(),
		},
	}, {
		Group: "storage.k8s.io", Kind: "CSINode", Plural: "csinodes", ClusterScoped: true,
		Versions: describe.V1[storagev1.CSINode](fillCSINode), Traits: kind.Traits{RequireResourceVersion: true, DeleteReturnsObject: true, StatusKeeps: kind.WritableMetadata}, Status: true, Check: checkNodeDrivers,
		Columns: []kind.Column{describe.Sizes("Drivers", "Drivers indicates the number of CSI drivers registered on the node", "spec", "drivers"), describe.AgeColumn()},
	}, {
		Group: "storage.k8s.io", Kind: "CSIStorageCapacity", Plural: "csistoragecapacities",
		Traits: kind.Traits{RequireResourceVersion: true}, Versions: describe.V1[storagev1.CSIStorageCapacity](nil), Columns: []kind.Column{describe.CreatedColumn()},
		Check: checkStorageCapacity,
	}, {
		Group: "storage.k8s.io", Kind: "VolumeAttributesClass", Plural: "volumeattributesclasses", ShortNames: []string{"vac"}, ClusterScoped: true,
		Versions: describe.V1[storagev1.VolumeAttributesClass](nil), Traits: kind.Traits{DeleteReturnsObject: true},
		Check: describe.Both(describe.Both(forbidChange("driverName"), forbidChange("parameters")),
			describe.Both(describe.Required("", "driverName"), describe.Required("must contain at least one key/value pair", "parameters"))),
		Columns: []kind.Column{
			describe.At("DriverName", "string", ".driverName", storagev1.VolumeAttributesClass{}.SwaggerDoc()["driverName"]), describe.AgeColumn(),
		},
	}}
}

// fillCSINode replaces an empty list of drivers by none, as a round trip through protobuf does.
func fillCSINode(n *storagev1.CSINode) {
	if len(n.Spec.Drivers) == 0 {
		n.Spec.Drivers = nil
	}
}
