package operators

import (
	"os"
	"path/filepath"
	"time"
)

// This file has the row of Kueue.

// kueue's suites need the definitions of other projects in dep-crds, where its Makefile copies them to from their modules, and
// its own with the conversion webhooks that kustomize adds.
var kueue = project{
	name:    "kueue",
	module:  "sigs.k8s.io/kueue@v0.19.0",
	suites:  []string{"./test/integration/singlecluster/webhook/...", "./test/integration/singlecluster/conversion"},
	labels:  "!slow && !redundant", // the project's baseline
	limit:   40 * time.Minute,
	env:     []string{"PROJECT_DIR=$SRC/", "KUEUE_BIN=$SRC/bin"},
	prepare: prepareKueue,
}

func prepareKueue(s *source) error {
	for _, c := range []struct{ module, pattern, to, without string }{
		{"github.com/kubeflow/mpi-operator", "manifests/base/*", "mpi-operator", ""},
		{"github.com/kubeflow/training-operator", "manifests/base/crds/*", "training-operator-crds", "kubeflow.org_mpijobs.yaml"},
		{"github.com/kubeflow/trainer/v2", "manifests/base/crds/*", "kf-trainer-crds", ""},
		{"github.com/kubeflow/trainer/v2", "manifests/base/runtimes/*_distributed.yaml", "kf-trainer-runtimes", ""},
		{"github.com/kubeflow/spark-operator/v2", "config/crd/bases/*", "spark-operator-crds", ""},
		{"github.com/ray-project/kuberay/ray-operator", "config/crd/bases/*", "ray-operator-crds", ""},
		{"sigs.k8s.io/jobset", "config/components/crd/bases/*", "jobset-operator", ""},
		{"sigs.k8s.io/lws", "config/crd/bases/*", "leaderworkerset-operator", ""},
		{"sigs.k8s.io/cluster-inventory-api", "config/crd/bases/*", "clusterprofile", ""},
		{"k8s.io/autoscaler/cluster-autoscaler/apis", "config/crd/*", "cluster-autoscaler", ""},
		{"github.com/project-codeflare/appwrapper", "config/crd/bases/*", "appwrapper-crds", ""},
	} {
		if err := s.copyFiles(c.module, c.pattern, filepath.Join("dep-crds", c.to), c.without); err != nil {
			return err
		}
	}
	kustomize, err := s.install("sigs.k8s.io/kustomize/kustomize/v5@v5.7.1", "kustomize")
	if err != nil {
		return err
	}
	text, err := run(s.dir, nil, kustomize, "build", "config/components/crd")
	if err != nil {
		return err
	}
	out := filepath.Join(s.dir, "config", "components", "crd", "_output")
	if err := os.MkdirAll(out, 0o755); err != nil {
		return err
	}
	if err := os.WriteFile(filepath.Join(out, "crds-with-webhooks.yaml"), text, 0o644); err != nil {
		return err
	}
	_, err = s.goRun("build", "-o", filepath.Join("bin", "kubectl-kueue"), "./cmd/kueuectl")
	return err
}
