package operators

import "time"

// This file has the row of Karpenter.

// karpenter's suites are beside its controllers and types. Newer versions need a newer patch release of Go than 1.26.8.
var karpenter = project{
	name:   "karpenter",
	module: "sigs.k8s.io/karpenter@v1.14.0",
	suites: []string{
		"./pkg/apis/v1", "./pkg/apis/v1alpha1",
		"./pkg/controllers/disruption", "./pkg/controllers/node/health", "./pkg/controllers/node/hydration", "./pkg/controllers/node/termination/...",
		"./pkg/controllers/nodeclaim/...", "./pkg/controllers/nodepool/...", "./pkg/controllers/provisioning/...",
		"./pkg/controllers/state/...", "./pkg/controllers/static/...", "./pkg/utils/node", "./pkg/utils/nodeclaim", "./pkg/utils/nodepool", "./pkg/utils/pdb",
	},
	limit: 30 * time.Minute,
}
