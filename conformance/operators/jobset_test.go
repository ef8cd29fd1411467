package operators

import "time"

// This file has the row of JobSet.

var jobset = project{
	name:   "jobset",
	module: "sigs.k8s.io/jobset@v0.12.0",
	suites: []string{"./test/integration/..."},
	limit:  20 * time.Minute,
}
