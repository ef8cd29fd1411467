package core

import (
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/keelson-io/keelson/internal/builtin/describe"
	"github.com/keelson-io/keelson/jsondoc"
)

// This file checks volumes, claims and storage classes.

// CheckModes checks the access modes of a volume or claim.
func CheckModes(modes []corev1.PersistentVolumeAccessMode, path *field.Path) field.ErrorList {
	all := []corev1.PersistentVolumeAccessMode{corev1.ReadOnlyMany, corev1.ReadWriteMany, corev1.ReadWriteOnce, corev1.ReadWriteOncePod}
	var errs field.ErrorList
	for _, mode := range modes {
		errs = append(errs, describe.Among(path, mode, all...)...)
	}
	other := func(mode corev1.PersistentVolumeAccessMode) bool {
		return mode != corev1.ReadWriteOncePod && slices.Contains(all, mode)
	}
	if slices.Contains(modes, corev1.ReadWriteOncePod) && slices.ContainsFunc(modes, other) {
		errs = append(errs, field.Forbidden(path, "may not use ReadWriteOncePod with other access modes"))
	}
	return errs
}

// checkClaim checks a claim; old is nil on create.
func checkClaim(new, old *jsondoc.Doc) field.ErrorList {
	errs := CheckClaimSpec(describe.ReadAs[corev1.PersistentVolumeClaimSpec](new.Root().Get("spec")), field.NewPath("spec"))
	if old != nil {
		errs = append(errs, checkClaimUpdate(new, old)...)
	}
	return errs
}

// CheckClaimSpec checks the spec of a claim, or of a template of claims.
func CheckClaimSpec(spec *corev1.PersistentVolumeClaimSpec, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	if len(spec.AccessModes) == 0 {
		errs = append(errs, field.Required(path.Child("accessModes"), "at least 1 access mode is required"))
	}
	errs = append(errs, describe.CheckTerms(spec.Selector, path.Child("selector"))...)
	errs = append(errs, CheckModes(spec.AccessModes, path.Child("accessModes"))...)
	at := path.Child("resources").Key("storage")
	if q, ok := spec.Resources.Requests[corev1.ResourceStorage]; !ok {
		errs = append(errs, field.Required(at, ""))
	} else {
		errs = append(errs, describe.Positive(at, q)...)
	}
	if class := spec.StorageClassName; class != nil {
		errs = append(errs, describe.CheckName(path.Child("storageClassName"), *class, describe.Subdomain)...)
	}
	if class := spec.VolumeAttributesClassName; class != nil {
		errs = append(errs, describe.CheckName(path.Child("volumeAttributesClassName"), *class, describe.Subdomain)...)
	}
	if s := spec.DataSource; s != nil {
		errs = append(errs, checkSource(path.Child("dataSource"), s.APIGroup, s.Kind, s.Name)...)
	}
	if s := spec.DataSourceRef; s != nil {
		errs = append(errs, checkSource(path.Child("dataSourceRef"), s.APIGroup, s.Kind, s.Name)...)
	}
	return errs
}

// checkSource checks the data source of a claim.
func checkSource(path *field.Path, group *string, kind, name string) field.ErrorList {
	errs := describe.NeedText(path.Child("name"), name)
	errs = append(errs, describe.NeedText(path.Child("kind"), kind)...)
	if (group == nil || *group == "") && kind != "PersistentVolumeClaim" {
		errs = append(errs, field.Invalid(path, kind, "must be 'PersistentVolumeClaim' when referencing the default apiGroup"))
	}
	return errs
}

// checkClaimUpdate refuses changes of a claim. A bound claim may get a larger request and another
// attributes class.
func checkClaimUpdate(new, old *jsondoc.Doc) field.ErrorList {
	a, b := new.Root().Get("spec"), old.Root().Get("spec")
	bound := new.Root().At("status", "phase").Text() == string(corev1.ClaimBound)
	may := func(name string) bool {
		return bound && (name == "resources" || name == "volumeAttributesClassName") || name == "volumeName" && b.Get("volumeName").Text() == "" ||
			name == "storageClassName" && !b.Get(name).Exists()
	}
	same := sameSpec(new, old, may) && jsondoc.Equal(a.At("resources", "limits"), b.At("resources", "limits"))
	var errs field.ErrorList
	if !same {
		errs = append(errs, field.Forbidden(field.NewPath("spec"), claimMay))
	}
	now, was := describe.ReadAs[corev1.PersistentVolumeClaim](new.Root()), describe.ReadAs[corev1.PersistentVolumeClaim](old.Root())
	asked, before, have := now.Spec.Resources.Requests[corev1.ResourceStorage], was.Spec.Resources.Requests[corev1.ResourceStorage], was.Status.Capacity[corev1.ResourceStorage]
	if asked.Cmp(before) < 0 && asked.Cmp(have) <= 0 {
		errs = append(errs, field.Forbidden(field.NewPath("spec", "resources", "requests", "storage"), "field can not be less than status.capacity"))
	}
	if mode := a.Get("volumeMode"); !jsondoc.Equal(mode, b.Get("volumeMode")) {
		errs = append(errs, field.Invalid(field.NewPath("volumeMode"), strings.Clone(mode.Text()), "field is immutable").WithOrigin("immutable"))
	}
	return errs
}

// volumeSources are the members of a volume for its source.
var volumeSources = []string{
	"hostPath", "gcePersistentDisk", "awsElasticBlockStore", "glusterfs", "flocker", "nfs", "rbd", "quobyte", "cephfs", "iscsi", "cinder", "fc",
	"flexVolume", "azureFile", "vsphereVolume", "photonPersistentDisk", "portworxVolume", "azureDisk", "scaleIO", "local", "storageos", "csi",
}

// checkPersistentVolume checks a volume; old is nil on create.
func checkPersistentVolume(new, old *jsondoc.Doc) field.ErrorList {
	raw, path := new.Root().Get("spec"), field.NewPath("spec")
	spec := describe.ReadAs[corev1.PersistentVolumeSpec](raw)
	var errs field.ErrorList
	if len(spec.AccessModes) == 0 {
		errs = append(errs, field.Required(path.Child("accessModes"), ""))
	}
	errs = append(errs, CheckModes(spec.AccessModes, path.Child("accessModes"))...)
	errs = append(errs, checkCapacity(spec, path.Child("capacity"))...)
	sources := 0
	for _, name := range volumeSources {
		if raw.Get(name).Kind() != jsondoc.Object {
			continue
		}
		if sources++; sources > 1 {
			errs = append(errs, field.Forbidden(path.Child(name), "may not specify more than 1 volume type"))
		}
	}
	if sources == 0 {
		errs = append(errs, field.Required(path, "must specify a volume type"))
	}
	if h := spec.HostPath; h != nil {
		errs = append(errs, describe.NeedText(path.Child("hostPath", "path"), h.Path)...)
		errs = append(errs, describe.CheckNoBacksteps(path.Child("hostPath", "path"), h.Path)...)
	}
	if g := spec.GCEPersistentDisk; g != nil && sources == 1 {
		errs = append(errs, checkDisk(g.PDName, g.Partition, path.Child("persistentDisk"), "pdName")...)
	}
	if a := spec.AWSElasticBlockStore; a != nil && sources == 1 {
		errs = append(errs, checkDisk(a.VolumeID, a.Partition, path.Child("awsElasticBlockStore"), "volumeID")...)
	}
	if spec.NFS != nil && sources == 1 {
		errs = append(errs, checkNFS(spec.NFS, path.Child("nfs"))...)
	}
	if spec.CSI != nil && sources == 1 {
		errs = append(errs, CheckDriverName(spec.CSI.Driver, path.Child("csi", "driver"))...)
		errs = append(errs, describe.NeedText(path.Child("csi", "volumeHandle"), spec.CSI.VolumeHandle)...)
	}
	errs = append(errs, describe.CheckName(path.Child("storageClassName"), spec.StorageClassName, describe.Subdomain)...)
	if old == nil {
		return errs
	}
	return append(errs, checkVolumeUpdate(raw, old.Root().Get("spec"), path)...)
}

// checkVolumeUpdate refuses changes of a volume's source and other immutable fields.
func checkVolumeUpdate(now, was jsondoc.Value, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	for _, name := range volumeSources {
		if !jsondoc.Equal(now.Get(name), was.Get(name)) {
			errs = append(errs, field.Forbidden(path.Child("persistentvolumesource"), "spec.persistentvolumesource is immutable after creation"))
			break
		}
	}
	if mode := now.Get("volumeMode"); !jsondoc.Equal(mode, was.Get("volumeMode")) {
		errs = append(errs, field.Invalid(field.NewPath("volumeMode"), strings.Clone(mode.Text()), "field is immutable").WithOrigin("immutable"))
	}
	errs = append(errs, checkVolumeNodes(describe.ReadAs[corev1.PersistentVolumeSpec](now).NodeAffinity, describe.ReadAs[corev1.PersistentVolumeSpec](was).NodeAffinity)...)
	if !jsondoc.Equal(now.Get("volumeAttributesClassName"), was.Get("volumeAttributesClassName")) && !now.Get("volumeAttributesClassName").Exists() {
		errs = append(errs, field.Forbidden(path.Child("volumeAttributesClassName"), "update from non-nil value to nil is forbidden"))
	}
	return errs
}

// newLabels has the present names of labels of nodes by their former names.
var newLabels = map[string]string{
	corev1.LabelFailureDomainBetaZone: corev1.LabelTopologyZone, corev1.LabelFailureDomainBetaRegion: corev1.LabelTopologyRegion,
	corev1.LabelInstanceType: corev1.LabelInstanceTypeStable, "beta.kubernetes.io/os": corev1.LabelOSStable, "beta.kubernetes.io/arch": corev1.LabelArchStable,
}

// checkVolumeNodes refuses to change the nodes of a volume that has some. The present name of a
// label may replace its former name.
func checkVolumeNodes(now, was *corev1.VolumeNodeAffinity) field.ErrorList {
	if was == nil {
		return nil
	}
	if now != nil && now.Required != nil && was.Required != nil {
		for i, t := range was.Required.NodeSelectorTerms {
			for j := range t.MatchExpressions {
				next := now.Required.NodeSelectorTerms
				if i < len(next) && j < len(next[i].MatchExpressions) && newLabels[t.MatchExpressions[j].Key] == next[i].MatchExpressions[j].Key {
					t.MatchExpressions[j].Key = next[i].MatchExpressions[j].Key
				}
			}
		}
	}
	if describe.SameJSON(now, was) {
		return nil
	}
	return field.ErrorList{field.Invalid(field.NewPath("nodeAffinity"), describe.InGoNames(now), "field is immutable, except for updating from beta label to GA")}
}

// checkCapacity checks the capacity of a volume.
func checkCapacity(spec *corev1.PersistentVolumeSpec, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	if len(spec.Capacity) == 0 {
		errs = append(errs, field.Required(path, ""))
	}
	if _, ok := spec.Capacity[corev1.ResourceStorage]; !ok || len(spec.Capacity) > 1 {
		errs = append(errs, field.NotSupported(path, spec.Capacity, []string{"storage"}))
	}
	if q, ok := spec.Capacity[corev1.ResourceStorage]; ok {
		errs = append(errs, describe.Positive(path.Key("storage"), q)...)
	}
	return errs
}
