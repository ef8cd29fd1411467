package noderestriction

import (
	"fmt"
	"net/url"
	"regexp"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/sets"
)

// This file names the CSI drivers that have replaced the volume plugins built into Kubernetes, and
// refuses sources that cannot be translated, with upstream's texts.

const (
	awsDriver       = "ebs.csi.aws.com"
	azureDiskDriver = "disk.csi.azure.com"
	azureFileDriver = "file.csi.azure.com"
	gceDriver       = "pd.csi.storage.gke.io"
	cinderDriver    = "cinder.csi.openstack.org"
	portworxDriver  = "pxd.portworx.com"
	vsphereDriver   = "csi.vsphere.vmware.com"
)

// driverOfVolume returns the driver for a volume of a pod; "" if its source has none.
func driverOfVolume(v *corev1.Volume) (string, error) {
	switch {
	case v.GCEPersistentDisk != nil:
		return gceDriver, nil
	case v.AWSElasticBlockStore != nil:
		return awsDriver, checkAWS(v.AWSElasticBlockStore.VolumeID)
	case v.Cinder != nil:
		return cinderDriver, nil
	case v.AzureDisk != nil:
		return azureDiskDriver, checkAzureDisk(v.AzureDisk)
	case v.AzureFile != nil:
		return azureFileDriver, nil
	case v.VsphereVolume != nil:
		return vsphereDriver, nil
	case v.PortworxVolume != nil:
		return portworxDriver, nil
	}
	return "", nil
}

// driverOfPersistent returns the driver for a PersistentVolume; "" if its source has none.
func driverOfPersistent(v *corev1.PersistentVolume) (string, error) {
	switch s := &v.Spec; {
	case s.GCEPersistentDisk != nil:
		return gceDriver, checkGCE(v.Labels)
	case s.AWSElasticBlockStore != nil:
		return awsDriver, checkAWS(s.AWSElasticBlockStore.VolumeID)
	case s.Cinder != nil:
		return cinderDriver, nil
	case s.AzureDisk != nil:
		return azureDiskDriver, checkAzureDisk(s.AzureDisk)
	case s.AzureFile != nil:
		namespace := ""
		if s.AzureFile.SecretNamespace != nil {
			namespace = *s.AzureFile.SecretNamespace
		} else if s.ClaimRef != nil {
			namespace = s.ClaimRef.Namespace
		}
		if namespace == "" {
			return "", fmt.Errorf("could not find a secret namespace in PersistentVolumeSource or ClaimRef")
		}
		return azureFileDriver, nil
	case s.VsphereVolume != nil:
		return vsphereDriver, nil
	case s.PortworxVolume != nil:
		return portworxDriver, nil
	}
	return "", nil
}

var awsVolume = regexp.MustCompile("^vol-[^/]*$")

// checkAWS checks the ID of an EBS volume: vol-ID or aws://ZONE/vol-ID.
func checkAWS(id string) error {
	err := func() error {
		if !strings.HasPrefix(id, "aws://") {
			return nil
		}
		u, err := url.Parse(id)
		switch {
		case err != nil:
			return fmt.Errorf("Invalid disk name (%s): %v", id, err)
		case !awsVolume.MatchString(strings.Trim(u.Path, "/")):
			return fmt.Errorf("Invalid format for AWS volume (%s)", id)
		}
		return nil
	}()
	if err != nil {
		return fmt.Errorf("failed to translate Kubernetes ID to EBS Volume ID %v", err)
	}
	return nil
}

// checkAzureDisk requires a managed disk.
func checkAzureDisk(s *corev1.AzureDiskVolumeSource) error {
	if s.Kind != nil && !strings.EqualFold(string(*s.Kind), "Managed") {
		return fmt.Errorf("kind(%v) is not supported in csi migration", *s.Kind)
	}
	return nil
}

// checkGCE requires the zones of a regional disk to be of one region.
func checkGCE(labels map[string]string) error {
	zones := labels[corev1.LabelFailureDomainBetaZone]
	if zones == "" {
		zones = labels[corev1.LabelTopologyZone]
	}
	list := strings.Split(zones, "__")
	if len(list) < 2 {
		return nil
	}
	regions := sets.New[string]()
	for _, zone := range list {
		parts := strings.Split(zone, "-")
		if len(parts) != 3 {
			return fmt.Errorf("failed to get region from zones: zone in unexpected format, expected: {locale}-{region}-{zone}, got: %v", zone)
		}
		regions.Insert(parts[0] + "-" + parts[1])
	}
	if len(regions) != 1 {
		return fmt.Errorf("failed to get region from zones: multiple or no regions gotten from zones, got: %v", regions)
	}
	return nil
}
