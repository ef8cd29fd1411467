package operators

import "time"

// This file has the row of kro.

var kro = project{
	name:   "kro",
	module: "github.com/kubernetes-sigs/kro@v0.9.4",
	suites: []string{"./test/integration/suites/..."},
	limit:  30 * time.Minute,
}
