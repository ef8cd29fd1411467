package builtin

import (
	"encoding/json"
	"maps"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// This file compares which resources both servers serve.

// Ledger: pods-do-not-run.

// notServed are resources that upstream serves and Keelson does not, by the path of their group version.
var notServed = map[string][]string{
	"/api/v1": {
		"nodes/proxy", "pods/attach", "pods/exec", "pods/log", "pods/portforward", "pods/proxy", "services/proxy", // which nodes answer
	},
	"/apis/apiregistration.k8s.io/v1": {"apiservices/status"}, // there are no other servers
}

// discovery asks which resources there are. Those that both have must be described alike.
func (r *run) discovery(g group) {
	r.t.Helper()
	r.requests++
	q := &request{method: "GET", path: g.base()}
	got := [2]*answer{r.peers[0].ask(q), r.peers[1].ask(q)}
	var lists [2]metav1.APIResourceList
	var names [2]map[string]bool
	for side, a := range got {
		if err := json.Unmarshal(a.body, &lists[side]); err != nil {
			r.t.Fatalf("GET %s: %v: %s", q.path, err, a.body)
		}
		names[side] = map[string]bool{}
		for _, res := range lists[side].APIResources {
			names[side][res.Name] = true
		}
	}
	var lacking []string
	for name := range maps.Keys(names[0]) {
		if !names[1][name] {
			lacking = append(lacking, name)
		}
	}
	slices.Sort(lacking)
	if want := notServed[g.base()]; !slices.Equal(lacking, want) {
		r.t.Errorf("%s: not served: got %q, want %q", g.base(), lacking, want)
	}
	for side := range got {
		lists[side].APIResources = slices.DeleteFunc(lists[side].APIResources, func(res metav1.APIResource) bool { return slices.Contains(lacking, res.Name) })
		got[side] = &answer{got[side].code, got[side].header, []byte(print(lists[side]))}
	}
	r.compare(g.base(), "discovery", q, got)
}
