package builtin

import (
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/keelson-io/keelson/doc"
	"github.com/keelson-io/keelson/kind"
	"github.com/keelson-io/keelson/schema"
)

// This file checks volumes, claims and classes of storage.

func checkModes(modes []corev1.PersistentVolumeAccessMode, path *field.Path) field.ErrorList {
	all := []corev1.PersistentVolumeAccessMode{corev1.ReadOnlyMany, corev1.ReadWriteMany, corev1.ReadWriteOnce, corev1.ReadWriteOncePod}
	var errs field.ErrorList
	for _, mode := range modes {
		errs = append(errs, among(path, mode, all...)...)
	}
	other := func(mode corev1.PersistentVolumeAccessMode) bool {
		return mode != corev1.ReadWriteOncePod && slices.Contains(all, mode)
	}
	if slices.Contains(modes, corev1.ReadWriteOncePod) && slices.ContainsFunc(modes, other) {
		errs = append(errs, field.Forbidden(path, "may not use ReadWriteOncePod with other access modes"))
	}
	return errs
}

func checkClaim(new, old *doc.Doc) field.ErrorList {
	errs := checkClaimSpec(readAs[corev1.PersistentVolumeClaimSpec](new.Root().Get("spec")), field.NewPath("spec"))
	if old != nil {
		errs = append(errs, checkClaimUpdate(new, old)...)
	}
	return errs
}

func checkClaimSpec(spec *corev1.PersistentVolumeClaimSpec, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	if len(spec.AccessModes) == 0 {
		errs = append(errs, field.Required(path.Child("accessModes"), "at least 1 access mode is required"))
	}
	errs = append(errs, checkTerms(spec.Selector, path.Child("selector"))...)
	errs = append(errs, checkModes(spec.AccessModes, path.Child("accessModes"))...)
	at := path.Child("resources").Key("storage")
	if q, ok := spec.Resources.Requests[corev1.ResourceStorage]; !ok {
		errs = append(errs, field.Required(at, ""))
	} else {
		errs = append(errs, positive(at, q)...)
	}
	if class := spec.StorageClassName; class != nil {
		errs = append(errs, checkName(path.Child("storageClassName"), *class, subdomain)...)
	}
	if class := spec.VolumeAttributesClassName; class != nil {
		errs = append(errs, checkName(path.Child("volumeAttributesClassName"), *class, subdomain)...)
	}
	if s := spec.DataSource; s != nil {
		errs = append(errs, checkSource(path.Child("dataSource"), s.APIGroup, s.Kind, s.Name)...)
	}
	if s := spec.DataSourceRef; s != nil {
		errs = append(errs, checkSource(path.Child("dataSourceRef"), s.APIGroup, s.Kind, s.Name)...)
	}
	return errs
}

// checkSource checks what a volume is filled from.
func checkSource(path *field.Path, group *string, kind, name string) field.ErrorList {
	errs := needText(path.Child("name"), name)
	errs = append(errs, needText(path.Child("kind"), kind)...)
	if (group == nil || *group == "") && kind != "PersistentVolumeClaim" {
		errs = append(errs, field.Invalid(path, kind, "must be 'PersistentVolumeClaim' when referencing the default apiGroup"))
	}
	return errs
}

// checkClaimUpdate refuses changes of a claim, unless it is bound: then it may ask for more room, and for another class of attributes.
func checkClaimUpdate(new, old *doc.Doc) field.ErrorList {
	a, b := new.Root().Get("spec"), old.Root().Get("spec")
	bound := new.Root().At("status", "phase").Text() == string(corev1.ClaimBound)
	may := func(name string) bool {
		return bound && (name == "resources" || name == "volumeAttributesClassName") || name == "volumeName" && b.Get("volumeName").Text() == "" ||
			name == "storageClassName" && !b.Get(name).Exists()
	}
	same := sameSpec(new, old, may) && doc.Equal(a.At("resources", "limits"), b.At("resources", "limits"))
	var errs field.ErrorList
	if !same {
		errs = append(errs, field.Forbidden(field.NewPath("spec"), claimMay))
	}
	now, was := readAs[corev1.PersistentVolumeClaim](new.Root()), readAs[corev1.PersistentVolumeClaim](old.Root())
	asked, before, have := now.Spec.Resources.Requests[corev1.ResourceStorage], was.Spec.Resources.Requests[corev1.ResourceStorage], was.Status.Capacity[corev1.ResourceStorage]
	if asked.Cmp(before) < 0 && asked.Cmp(have) <= 0 {
		errs = append(errs, field.Forbidden(field.NewPath("spec", "resources", "requests", "storage"), "field can not be less than status.capacity"))
	}
	if mode := a.Get("volumeMode"); !doc.Equal(mode, b.Get("volumeMode")) {
		errs = append(errs, field.Invalid(field.NewPath("volumeMode"), strings.Clone(mode.Text()), "field is immutable").WithOrigin("immutable"))
	}
	return errs
}

// volumeSources are the members of a volume that say where it is.
var volumeSources = []string{
	"hostPath", "gcePersistentDisk", "awsElasticBlockStore", "glusterfs", "flocker", "nfs", "rbd", "quobyte", "cephfs", "iscsi", "cinder", "fc",
	"flexVolume", "azureFile", "vsphereVolume", "photonPersistentDisk", "portworxVolume", "azureDisk", "scaleIO", "local", "storageos", "csi",
}

func checkPersistentVolume(new, old *doc.Doc) field.ErrorList {
	raw, path := new.Root().Get("spec"), field.NewPath("spec")
	spec := readAs[corev1.PersistentVolumeSpec](raw)
	var errs field.ErrorList
	if len(spec.AccessModes) == 0 {
		errs = append(errs, field.Required(path.Child("accessModes"), ""))
	}
	errs = append(errs, checkModes(spec.AccessModes, path.Child("accessModes"))...)
	errs = append(errs, checkCapacity(spec, path.Child("capacity"))...)
	sources := 0
	for _, name := range volumeSources {
		if raw.Get(name).Kind() != doc.Object {
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
		errs = append(errs, needText(path.Child("hostPath", "path"), h.Path)...)
		errs = append(errs, checkNoBacksteps(path.Child("hostPath", "path"), h.Path)...)
	}
	if spec.NFS != nil && sources == 1 {
		errs = append(errs, checkNFS(spec.NFS, path.Child("nfs"))...)
	}
	if spec.CSI != nil && sources == 1 {
		errs = append(errs, checkDriverName(spec.CSI.Driver, path.Child("csi", "driver"))...)
		errs = append(errs, needText(path.Child("csi", "volumeHandle"), spec.CSI.VolumeHandle)...)
	}
	errs = append(errs, checkName(path.Child("storageClassName"), spec.StorageClassName, subdomain)...)
	if old == nil {
		return errs
	}
	return append(errs, checkVolumeUpdate(raw, old.Root().Get("spec"), path)...)
}

func checkVolumeUpdate(now, was doc.Value, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	for _, name := range volumeSources {
		if !doc.Equal(now.Get(name), was.Get(name)) {
			errs = append(errs, field.Forbidden(path.Child("persistentvolumesource"), "spec.persistentvolumesource is immutable after creation"))
			break
		}
	}
	if mode := now.Get("volumeMode"); !doc.Equal(mode, was.Get("volumeMode")) {
		errs = append(errs, field.Invalid(field.NewPath("volumeMode"), strings.Clone(mode.Text()), "field is immutable").WithOrigin("immutable"))
	}
	errs = append(errs, checkVolumeNodes(readAs[corev1.PersistentVolumeSpec](now).NodeAffinity, readAs[corev1.PersistentVolumeSpec](was).NodeAffinity)...)
	if !doc.Equal(now.Get("volumeAttributesClassName"), was.Get("volumeAttributesClassName")) && !now.Get("volumeAttributesClassName").Exists() {
		errs = append(errs, field.Forbidden(path.Child("volumeAttributesClassName"), "update from non-nil value to nil is forbidden"))
	}
	return errs
}

// newLabels are names of labels of nodes that others had before.
var newLabels = map[string]string{
	corev1.LabelFailureDomainBetaZone: corev1.LabelTopologyZone, corev1.LabelFailureDomainBetaRegion: corev1.LabelTopologyRegion,
	corev1.LabelInstanceType: corev1.LabelInstanceTypeStable, "beta.kubernetes.io/os": corev1.LabelOSStable, "beta.kubernetes.io/arch": corev1.LabelArchStable,
}

// checkVolumeNodes refuses other nodes for a volume that has some. That labels get their new names is no change.
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
	if sameJSON(now, was) {
		return nil
	}
	return field.ErrorList{field.Invalid(field.NewPath("nodeAffinity"), goNamed{now}, "field is immutable, except for updating from beta label to GA")}
}

func checkCapacity(spec *corev1.PersistentVolumeSpec, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	if len(spec.Capacity) == 0 {
		errs = append(errs, field.Required(path, ""))
	}
	if _, ok := spec.Capacity[corev1.ResourceStorage]; !ok || len(spec.Capacity) > 1 {
		errs = append(errs, field.NotSupported(path, spec.Capacity, []string{"storage"}))
	}
	if q, ok := spec.Capacity[corev1.ResourceStorage]; ok {
		errs = append(errs, positive(path.Key("storage"), q)...)
	}
	return errs
}

// Bounds of a class's parameters.
const (
	maxParameters    = 512
	maxParameterSize = 256 << 10
)

func checkStorageClass(_ *kind.Version, d, old *doc.Doc, _ schema.Scope) field.ErrorList {
	c := readAs[storagev1.StorageClass](d.Root())
	at := field.NewPath("provisioner")
	errs := needText(at, c.Provisioner)
	if c.Provisioner != "" {
		errs = append(errs, invalid(at, c.Provisioner, validation.IsQualifiedName(strings.ToLower(c.Provisioner)))...)
	}
	size := 0
	for name, value := range c.Parameters {
		if size += len(name) + len(value); name == "" {
			errs = append(errs, field.Invalid(field.NewPath("parameters"), name, "field can not be empty."))
		}
	}
	if len(c.Parameters) > maxParameters {
		errs = append(errs, field.TooLong(field.NewPath("provisioner"), "" /*unused*/, maxParameters))
	}
	if size > maxParameterSize {
		errs = append(errs, field.TooLong(field.NewPath("parameters"), "" /*unused*/, maxParameterSize))
	}
	if p := c.ReclaimPolicy; p != nil {
		errs = append(errs, among(field.NewPath("reclaimPolicy"), *p, corev1.PersistentVolumeReclaimDelete, corev1.PersistentVolumeReclaimRetain)...)
	}
	errs = append(errs, checkTopologies(c.AllowedTopologies, field.NewPath("allowedTopologies"))...)
	if old == nil {
		return errs
	}
	for _, member := range []string{"parameters", "provisioner", "reclaimPolicy", "volumeBindingMode"} {
		if !doc.Equal(d.Root().Get(member), old.Root().Get(member)) {
			errs = append(errs, field.Invalid(field.NewPath(member), nil, "field is immutable"))
		}
	}
	return errs
}

func checkTopologies(terms []corev1.TopologySelectorTerm, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	for i, t := range terms {
		for j, e := range t.MatchLabelExpressions {
			at := path.Index(i).Child("matchLabelExpressions").Index(j)
			if len(e.Values) == 0 {
				errs = append(errs, field.Required(at.Child("values"), ""))
			}
			for k, value := range e.Values {
				if slices.Contains(e.Values[:k], value) {
					errs = append(errs, field.Duplicate(at.Child("values").Index(k), value))
				}
			}
			errs = append(errs, invalid(at.Child("key"), e.Key, validation.IsQualifiedName(e.Key))...)
		}
	}
	return errs
}
