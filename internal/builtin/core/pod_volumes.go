package core

import (
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/keelson-io/keelson/internal/builtin/describe"
	"github.com/keelson-io/keelson/internal/texts"
)

// This file checks volumes of pods. The volumes of former in-tree cloud providers are not checked
// further.

// checkVolumes checks the volumes, and remembers the valid ones for the checks of mounts.
func (c *podCheck) checkVolumes(claims []corev1.Volume) field.ErrorList {
	all := claims
	taken := map[string]bool{}
	for _, v := range claims {
		taken[v.Name] = true
	}
	for _, v := range c.Volumes {
		if !taken[v.Name] {
			all = append(all, v)
		}
	}
	var errs field.ErrorList
	for i := range texts.Each(&errs, all) {
		v, path := &all[i], c.path.Child("volumes").Index(i)
		c.empty[v.Name] = v.EmptyDir != nil
		found := checkVolume(v, path)
		found = append(found, describe.CheckLabel(path.Child("name"), v.Name)...)
		if c.volumes[v.Name] {
			found = append(found, field.Duplicate(path.Child("name"), v.Name))
		}
		if len(found) == 0 {
			c.volumes[v.Name], c.claimed[v.Name] = true, v.PersistentVolumeClaim != nil || v.Ephemeral != nil
		}
		errs = append(errs, found...)
	}
	return errs
}

// checkVolume checks that a volume has one source, and checks the source.
func checkVolume(v *corev1.Volume, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	sources := 0
	source := func(name string, set bool, check func(*field.Path) field.ErrorList) {
		switch {
		case !set:
		case sources > 0:
			errs = append(errs, field.Forbidden(path.Child(name), "may not specify more than 1 volume type"))
		default:
			sources++
			if check != nil {
				errs = append(errs, check(path.Child(name))...)
			}
		}
	}
	if v.EmptyDir != nil {
		sources++
		if limit := v.EmptyDir.SizeLimit; limit != nil && limit.Sign() < 0 {
			errs = append(errs, field.Forbidden(path.Child("emptyDir", "sizeLimit"), "SizeLimit field must be a valid resource quantity"))
		}
	}
	source("hostPath", v.HostPath != nil, func(at *field.Path) field.ErrorList {
		if v.HostPath.Path == "" {
			return field.ErrorList{field.Required(at.Child("path"), "")}
		}
		return describe.CheckNoBacksteps(at.Child("path"), v.HostPath.Path)
	})
	source("gitRepo", v.GitRepo != nil, nil)
	source("gcePersistentDisk", v.GCEPersistentDisk != nil, func(*field.Path) field.ErrorList {
		return checkDisk(v.GCEPersistentDisk.PDName, v.GCEPersistentDisk.Partition, path.Child("persistentDisk"), "pdName")
	})
	source("awsElasticBlockStore", v.AWSElasticBlockStore != nil, func(at *field.Path) field.ErrorList {
		return checkDisk(v.AWSElasticBlockStore.VolumeID, v.AWSElasticBlockStore.Partition, at, "volumeID")
	})
	source("secret", v.Secret != nil, func(at *field.Path) field.ErrorList {
		found := describe.NeedText(at.Child("secretName"), v.Secret.SecretName)
		return append(found, checkFiles(at, v.Secret.DefaultMode, v.Secret.Items)...)
	})
	source("nfs", v.NFS != nil, func(at *field.Path) field.ErrorList { return checkNFS(v.NFS, at) })
	source("iscsi", v.ISCSI != nil, nil)
	source("glusterfs", v.Glusterfs != nil, nil)
	source("flocker", v.Flocker != nil, nil)
	source("persistentVolumeClaim", v.PersistentVolumeClaim != nil, func(at *field.Path) field.ErrorList {
		return describe.NeedText(at.Child("claimName"), v.PersistentVolumeClaim.ClaimName)
	})
	source("rbd", v.RBD != nil, nil)
	source("cinder", v.Cinder != nil, nil)
	source("cephFS", v.CephFS != nil, nil)
	source("quobyte", v.Quobyte != nil, nil)
	if name := "downwardAPI"; v.DownwardAPI != nil {
		if sources > 0 {
			name = "downwarAPI" // upstream's spelling
		}
		source(name, true, func(at *field.Path) field.ErrorList { return checkDownwardVolume(v.DownwardAPI, at) })
	}
	source("fc", v.FC != nil, nil)
	source("flexVolume", v.FlexVolume != nil, nil)
	source("configMap", v.ConfigMap != nil, func(at *field.Path) field.ErrorList {
		found := describe.NeedText(at.Child("name"), v.ConfigMap.Name)
		return append(found, checkFiles(at, v.ConfigMap.DefaultMode, v.ConfigMap.Items)...)
	})
	source("azureFile", v.AzureFile != nil, nil)
	source("vsphereVolume", v.VsphereVolume != nil, nil)
	source("photonPersistentDisk", v.PhotonPersistentDisk != nil, nil)
	source("portworxVolume", v.PortworxVolume != nil, nil)
	source("azureDisk", v.AzureDisk != nil, nil)
	source("storageos", v.StorageOS != nil, nil)
	source("projected", v.Projected != nil, func(at *field.Path) field.ErrorList { return checkProjected(v.Projected, at) })
	source("scaleIO", v.ScaleIO != nil, nil)
	source("csi", v.CSI != nil, func(at *field.Path) field.ErrorList { return CheckDriverName(v.CSI.Driver, at.Child("driver")) })
	source("ephemeral", v.Ephemeral != nil, func(at *field.Path) field.ErrorList { return checkEphemeralVolume(v.Ephemeral, at) })
	source("image", v.Image != nil, nil)
	if sources == 0 {
		errs = append(errs, field.Required(path, "must specify a volume type"))
	}
	return errs
}

// checkDisk checks the name of a disk of a cloud provider, in the field nameField, and its partition.
func checkDisk(name string, partition int32, at *field.Path, nameField string) field.ErrorList {
	errs := describe.NeedText(at.Child(nameField), name)
	if partition < 0 || partition > 255 {
		errs = append(errs, field.Invalid(at.Child("partition"), partition, "must be between 1 and 255, inclusive"))
	}
	return errs
}

// checkDownwardVolume checks a volume with fields of its pod.
func checkDownwardVolume(v *corev1.DownwardAPIVolumeSource, at *field.Path) field.ErrorList {
	errs := checkMode(at.Child("defaultMode"), v.DefaultMode)
	for i := range texts.Each(&errs, v.Items) {
		errs = append(errs, checkDownward(&v.Items[i], at)...)
	}
	return errs
}

// checkEphemeralVolume checks a volume that gets a claim of its own for each pod.
func checkEphemeralVolume(v *corev1.EphemeralVolumeSource, at *field.Path) field.ErrorList {
	t := v.VolumeClaimTemplate
	if t == nil {
		return field.ErrorList{field.Required(at.Child("volumeClaimTemplate"), "")}
	}
	return CheckClaimSpec(&t.Spec, at.Child("volumeClaimTemplate", "spec"))
}

// maxMode is the largest mode of a file: all permissions for everybody.
const maxMode = 0o777

// checkMode checks the permission bits of a file.
func checkMode(path *field.Path, mode *int32) field.ErrorList {
	if mode == nil || *mode >= 0 && *mode <= maxMode {
		return nil
	}
	return field.ErrorList{field.Invalid(path, *mode, "must be a number between 0 and 0777 (octal), both inclusive")}
}

// checkFiles checks the paths at which the keys of an object appear.
func checkFiles(path *field.Path, mode *int32, items []corev1.KeyToPath) field.ErrorList {
	errs := checkMode(path.Child("defaultMode"), mode)
	for i, item := range texts.Each(&errs, items) {
		at := path.Child("items").Index(i)
		errs = append(errs, describe.NeedText(at.Child("key"), item.Key)...)
		errs = append(errs, checkFile(at.Child("path"), item.Path)...)
		errs = append(errs, checkMode(at.Child("mode"), item.Mode)...)
	}
	return errs
}

// checkFile checks the path of a file in a volume. Names that begin with two dots are reserved for
// the implementation of the volume.
func checkFile(path *field.Path, file string) field.ErrorList {
	errs := describe.NeedText(path, file)
	errs = append(errs, describe.CheckDescending(path, file)...)
	if strings.HasPrefix(file, "..") && !strings.HasPrefix(file, "../") {
		errs = append(errs, field.Invalid(path, file, "must not start with '..'"))
	}
	return errs
}

// checkNFS checks an NFS volume.
func checkNFS(v *corev1.NFSVolumeSource, path *field.Path) field.ErrorList {
	errs := describe.NeedText(path.Child("server"), v.Server)
	errs = append(errs, describe.NeedText(path.Child("path"), v.Path)...)
	if !strings.HasPrefix(v.Path, "/") {
		errs = append(errs, field.Invalid(path.Child("path"), v.Path, "must be an absolute path"))
	}
	return errs
}

// CheckDriverName checks the name of a storage driver.
func CheckDriverName(name string, path *field.Path) field.ErrorList {
	if name == "" {
		return field.ErrorList{field.Required(path, "")}
	}
	if len(name) > 63 {
		return field.ErrorList{field.TooLong(path, "" /*unused*/, 63)}
	}
	return describe.Invalid(path, name, describe.Subdomain(strings.ToLower(name), false))
}

// checkDownward checks a file with a field of the pod or a resource of a container.
func checkDownward(f *corev1.DownwardAPIVolumeFile, path *field.Path) field.ErrorList {
	errs := checkFile(path.Child("path"), f.Path)
	switch {
	case f.FieldRef != nil:
		errs = append(errs, checkFieldSelector(f.FieldRef, path.Child("fieldRef"), volumeFields)...)
		if f.ResourceFieldRef != nil {
			errs = append(errs, field.Invalid(path, "resource", "fieldRef and resourceFieldRef can not be specified simultaneously"))
		}
	case f.ResourceFieldRef != nil:
		errs = append(errs, checkResourceRef(f.ResourceFieldRef, path.Child("resourceFieldRef"), true)...)
	default:
		errs = append(errs, field.Required(path, "one of fieldRef and resourceFieldRef is required"))
	}
	return append(errs, checkMode(path.Child("mode"), f.Mode)...)
}

// Bounds of the lifetime of tokens in volumes, in seconds.
const (
	minTokenSeconds = 600
	maxTokenSeconds = 1 << 32
)

// checkProjected checks the sources of a projected volume. Each source has one kind.
func checkProjected(v *corev1.ProjectedVolumeSource, path *field.Path) field.ErrorList {
	errs := checkMode(path.Child("defaultMode"), v.DefaultMode)
	files := projected{}
	for i := range texts.Each(&errs, v.Sources) {
		s, at := &v.Sources[i], path.Child("sources").Index(i)
		sources := 0
		if s.Secret != nil {
			sources++
			errs = append(errs, describe.NeedText(at.Child("secret", "name"), s.Secret.Name)...)
			errs = append(errs, checkFiles(at.Child("secret"), nil, s.Secret.Items)...)
		}
		if s.ConfigMap != nil {
			sources++
			errs = append(errs, describe.NeedText(at.Child("configMap", "name"), s.ConfigMap.Name)...)
			errs = append(errs, checkFiles(at.Child("configMap"), nil, s.ConfigMap.Items)...)
		}
		if s.DownwardAPI != nil {
			sources++
			for j := range texts.Each(&errs, s.DownwardAPI.Items) {
				errs = append(errs, checkDownward(&s.DownwardAPI.Items[j], at.Child("downwardAPI"))...)
			}
		}
		if t := s.ServiceAccountToken; t != nil {
			sources++
			errs = append(errs, checkToken(t, at.Child("serviceAccountToken"), path)...)
		}
		if b := s.ClusterTrustBundle; b != nil {
			sources++
			errs = append(errs, checkTrustBundle(b, at.Child("clusterTrustBundle"))...)
		}
		if p := s.PodCertificate; p != nil {
			sources++
			errs = append(errs, checkPodCertificate(p, at.Child("podCertificate"))...)
		}
		errs = append(errs, files.check(s, path)...)
		if sources > 1 {
			errs = append(errs, field.Forbidden(at, "may not specify more than 1 volume type per source"))
		}
	}
	return errs
}

// CheckExpiration checks the lifetime of a token.
func CheckExpiration(n *int64, path *field.Path) field.ErrorList {
	switch {
	case n == nil:
	case *n < minTokenSeconds:
		return field.ErrorList{field.Invalid(path, *n, "may not specify a duration less than 10 minutes")}
	case *n > maxTokenSeconds:
		return field.ErrorList{field.Invalid(path, *n, "may not specify a duration larger than 2^32 seconds")}
	}
	return nil
}

// checkToken checks the projection of a service account token.
func checkToken(t *corev1.ServiceAccountTokenProjection, path, volume *field.Path) field.ErrorList {
	errs := CheckExpiration(t.ExpirationSeconds, path.Child("expirationSeconds"))
	// An empty path is reported for the volume.
	if t.Path == "" {
		return append(errs, field.Required(volume.Child("path"), ""))
	}
	return append(errs, checkFile(path.Child("path"), t.Path)...)
}

// projected has the paths of the files that a volume has from several sources.
type projected map[string]bool

// check refuses a path that another source has. Paths of tokens may occur twice, as in upstream.
func (files projected) check(s *corev1.VolumeProjection, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	add := func(shown string, all ...string) {
		for _, file := range all {
			switch {
			case file == "":
				continue
			case files[file] && shown != "":
				errs = append(errs, field.Invalid(path, shown, "conflicting duplicate paths"))
			case files[file]:
				errs = append(errs, field.Invalid(path, file, "conflicting duplicate paths"))
			}
			files[file] = true
		}
	}
	if s.Secret != nil {
		add(s.Secret.Name, keyPaths(s.Secret.Items)...)
	}
	if s.ConfigMap != nil {
		add(s.ConfigMap.Name, keyPaths(s.ConfigMap.Items)...)
	}
	if s.DownwardAPI != nil {
		add("", downwardPaths(s.DownwardAPI.Items)...)
	}
	if s.ClusterTrustBundle != nil {
		add("", s.ClusterTrustBundle.Path)
	}
	if p := s.PodCertificate; p != nil {
		add("", p.CredentialBundlePath, p.KeyPath, p.CertificateChainPath)
	}
	return errs
}
