package operators

import "time"

// This file has the row of LeaderWorkerSet.

var lws = project{
	name:   "lws",
	module: "sigs.k8s.io/lws@v0.9.0",
	suites: []string{"./test/integration/..."},
	limit:  20 * time.Minute,
}
