package operators

import (
	"os"
	"path/filepath"
	"time"
)

// This file has the row of Cluster API.

// clusterAPI needs the module of its types where its repository has it. The version is the same.
var clusterAPI = project{
	name:   "cluster-api",
	module: "sigs.k8s.io/cluster-api@v1.14.2",
	suites: []string{
		"./controllers/crdmigrator", "./controllers/clustercache", "./internal/util/ssa/test", "./util/patch/test", "./util/deprecated/v1beta1/patch",
		"./core/webhooks/admission/test", "./core/reconcilers/...", "./bootstrap/kubeadm/reconcilers/kubeadmconfig",
		"./controlplane/kubeadm/pkg", "./controlplane/kubeadm/reconcilers/kubeadmcontrolplane",
	},
	limit: 30 * time.Minute,
	prepare: func(s *source) error {
		types, err := download(s.tmp, "sigs.k8s.io/cluster-api/api@v1.14.2")
		if err != nil {
			return err
		}
		return os.CopyFS(filepath.Join(s.dir, "api"), os.DirFS(types))
	},
}
