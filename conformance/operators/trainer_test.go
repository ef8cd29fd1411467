package operators

import (
	"os"
	"path/filepath"
	"time"
)

// This file has the row of Kubeflow Trainer.

// trainer's suites need the definitions of other projects where its Makefile copies them to.
var trainer = project{
	name:   "trainer",
	module: "github.com/kubeflow/trainer/v2@v2.3.0",
	suites: []string{"./test/integration/..."},
	limit:  20 * time.Minute,
	prepare: func(s *source) error {
		for _, c := range []struct{ module, pattern, to string }{
			{"sigs.k8s.io/jobset", "config/components/crd/bases/*", "jobset-operator"},
			{"sigs.k8s.io/scheduler-plugins", "manifests/coscheduling/*", "scheduler-plugins"},
			// The Makefile downloads this file from Volcano's repository. LeaderWorkerSet's module has it, too.
			{lws.module, "test/integration/crd/volcano-podgroup.yaml", "volcano"},
		} {
			if err := s.copyFiles(c.module, c.pattern, filepath.Join("manifests", "external-crds", c.to)); err != nil {
				return err
			}
		}
		volcano := filepath.Join(s.dir, "manifests", "external-crds", "volcano")
		return os.Rename(filepath.Join(volcano, "volcano-podgroup.yaml"), filepath.Join(volcano, "scheduling.volcano.sh_podgroups.yaml"))
	},
}
