package testcrds

import (
	"crypto/sha256"
	"fmt"
	"regexp"

	"sigs.k8s.io/yaml"
)

// This file lists well-known projects whose definitions are used in comparisons with Kubernetes.

// Release is a release of a project, with the folders and files of its definitions.
type Release struct {
	Project string
	Module  Module
	Paths   []string
}

// Catalog returns the releases: current ones, then older ones of the same projects, some with
// definitions of apiextensions.k8s.io/v1beta1.
func Catalog() []Release {
	return append(current(), older()...)
}

func current() []Release {
	return []Release{
		{"gateway-api", GatewayAPI, []string{"config/crd/standard", "config/crd/experimental"}},
		{"cert-manager", CertManager, []string{"deploy/crds"}},
		{"prometheus-operator", PrometheusOperator, []string{"example/prometheus-operator-crd"}},
		{"cluster-api", Module{"sigs.k8s.io/cluster-api", "v1.14.2"}, []string{"bootstrap/kubeadm/config/crd/bases",
			"cmd/clusterctl/config/crd/bases", "controlplane/kubeadm/config/crd/bases", "core/config/crd/bases"}},
		{"cluster-api-provider-aws", Module{"sigs.k8s.io/cluster-api-provider-aws/v2", "v2.13.0"}, []string{"config/crd/bases"}},
		{"cluster-api-provider-gcp", Module{"sigs.k8s.io/cluster-api-provider-gcp", "v1.13.1"}, []string{"config/crd/bases"}},
		{"cluster-api-operator", Module{"sigs.k8s.io/cluster-api-operator", "v0.29.0"}, []string{"config/crd/bases"}},
		{"karpenter", Module{"sigs.k8s.io/karpenter", "v1.15.0"}, []string{"dra-kwok-driver/pkg/apis/crds", "kwok/apis/crds", "pkg/apis/crds", "pkg/test/v1alpha1/crds"}},
		{"karpenter-aws", Module{"github.com/aws/karpenter-provider-aws", "v1.15.1"}, []string{"pkg/apis/crds"}},
		{"istio", Module{"istio.io/api", "v1.31.1"}, []string{"kubernetes"}},
		{"argo-cd", Module{"github.com/argoproj/argo-cd/v3", "v3.6.1"}, []string{"manifests/crds"}},
		{"argo-rollouts", Module{"github.com/argoproj/argo-rollouts", "v1.10.2"}, []string{"manifests/crds", "test/e2e/crds"}},
		{"flux-source", Module{"github.com/fluxcd/source-controller", "v1.10.1"}, []string{"config/crd/bases"}},
		{"flux-kustomize", Module{"github.com/fluxcd/kustomize-controller", "v1.10.1"}, []string{"config/crd/bases"}},
		{"kyverno", Module{"github.com/kyverno/kyverno", "v1.19.1"}, []string{"config/crds"}},
		{"gatekeeper", Module{"github.com/open-policy-agent/gatekeeper/v3", "v3.23.1"}, []string{"config/crd/bases", "charts/gatekeeper/crds"}},
		{"velero", Module{"github.com/vmware-tanzu/velero", "v1.18.3"}, []string{"config/crd"}},
		{"external-secrets", Module{"github.com/external-secrets/external-secrets", "v1.3.2"}, []string{"config/crds/bases"}},
		{"knative-serving", Module{"knative.dev/serving", "v0.51.0"}, []string{"config/core/300-resources", "third_party/contour-latest"}},
		{"keda", Module{"github.com/kedacore/keda/v2", "v2.21.0"}, []string{"config/crd/bases"}},
		{"cilium", Module{"github.com/cilium/cilium", "v1.20.2"}, []string{"pkg/k8s/apis/cilium.io/client/crds"}},
		{"envoy-gateway", Module{"github.com/envoyproxy/gateway", "v1.9.1"}, []string{"charts/gateway-helm/charts/crds/crds/generated"}},
		{"chaos-mesh", Module{"github.com/chaos-mesh/chaos-mesh", "v0.9.1-0.20260902003049-47411975a8cb"}, []string{"config/crd/bases"}},
		{"traefik", Module{"github.com/traefik/traefik/v3", "v3.7.13"}, []string{"integration/fixtures/k8s"}},
		{"external-snapshotter", Module{"github.com/kubernetes-csi/external-snapshotter/client/v8", "v8.7.0"}, []string{"config/crd"}},
	}
}

func older() []Release {
	return []Release{
		{"gateway-api", Module{"sigs.k8s.io/gateway-api", "v0.6.0"}, []string{"config/crd/experimental"}},
		{"cert-manager", Module{"github.com/cert-manager/cert-manager", "v1.8.0"}, []string{"deploy/crds", "make/config/projectcontour"}},
		{"prometheus-operator", Module{"github.com/prometheus-operator/prometheus-operator", "v0.60.0"}, []string{"example/prometheus-operator-crd-full"}},
		{"cluster-api", Module{"sigs.k8s.io/cluster-api", "v1.5.0"}, []string{"bootstrap/kubeadm/config/crd/bases",
			"cmd/clusterctl/config/crd/bases", "config/crd/bases", "controlplane/kubeadm/config/crd/bases"}},
		{"external-secrets", Module{"github.com/external-secrets/external-secrets", "v0.9.20"}, []string{"config/crds/bases"}},
		{"kyverno", Module{"github.com/kyverno/kyverno", "v1.11.0"}, []string{"config/crds"}},
		// The following ones have definitions of v1beta1.
		{"argo-rollouts", Module{"github.com/argoproj/argo-rollouts", "v0.8.3"}, []string{"manifests/crds"}},
		{"knative-serving", Module{"knative.dev/serving", "v0.15.0"}, []string{"config/core/resources", "third_party/cert-manager-0.12.0",
			"third_party/contour-latest", "third_party/istio-1.5.4"}},
		{"velero", Module{"github.com/vmware-tanzu/velero", "v1.3.2"}, []string{"pkg/generated/crds/manifests"}},
		{"cluster-api", Module{"sigs.k8s.io/cluster-api", "v0.2.10"}, []string{"config/crd/bases", "config/crds"}},
		{"external-snapshotter", Module{"github.com/kubernetes-csi/external-snapshotter/v2", "v2.1.4"}, []string{"config/crd"}},
	}
}

// Definition is a published definition of the catalog.
type Definition struct {
	Name    string // project@release/name, and a number if the name repeats
	Project string
	Beta    bool // of apiextensions.k8s.io/v1beta1
	YAML    []byte
}

// JSON returns the definition as JSON.
func (d *Definition) JSON() ([]byte, error) { return yaml.YAMLToJSON(d.YAML) }

var (
	isDefinition = regexp.MustCompile(`(?m)^"?kind"?: *"?CustomResourceDefinition"?\s*$`)
	isBeta       = regexp.MustCompile(`(?m)^"?apiVersion"?: *"?apiextensions.k8s.io/v1beta1"?\s*$`)
	itsName      = regexp.MustCompile(`(?m)^  name: *"?([\w.-]+)"?\s*$`)
)

// Definitions reads the definitions of releases. It decodes only the kind and name of each
// document, and drops duplicates.
func Definitions(releases []Release) ([]Definition, error) {
	var all []Definition
	seen := map[[sha256.Size]byte]bool{}
	names := map[string]int{}
	for _, r := range releases {
		tree, err := Open(r.Module)
		if err != nil {
			return nil, err
		}
		before := len(all)
		for _, p := range r.Paths {
			files, paths, err := Files(tree, p)
			if err != nil {
				return nil, fmt.Errorf("%s@%s: %w", r.Module.Path, r.Module.Version, err)
			}
			for _, file := range paths {
				for _, text := range splitYAML(files[file]) {
					sum := sha256.Sum256(text)
					name := itsName.FindSubmatch(text)
					if !isDefinition.Match(text) || name == nil || seen[sum] {
						continue
					}
					seen[sum] = true
					d := Definition{
						Name: r.Project + "@" + r.Module.Version + "/" + string(name[1]), Project: r.Project,
						Beta: isBeta.Match(text), YAML: text,
					}
					if names[d.Name]++; names[d.Name] > 1 {
						d.Name = fmt.Sprintf("%s#%d", d.Name, names[d.Name])
					}
					all = append(all, d)
				}
			}
		}
		if len(all) == before {
			return nil, fmt.Errorf("%s@%s: folders %s hold no CustomResourceDefinition", r.Module.Path, r.Module.Version, r.Paths)
		}
	}
	return all, nil
}
