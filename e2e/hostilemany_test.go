package e2e

import (
	"strings"
	"testing"
	"time"
)

// This file holds that many rules, each of which does less than one may, end together.

// TestManyHostileRules writes an object to a definition of 10,000 rules, each of which goes through a megabyte 56 times, for a
// unit each time: alone they would take minutes, and a tenth of what may be paid for.
// Ledger: cel-shared-effort.
func TestManyHostileRules(t *testing.T) {
	t.Parallel()
	s := startServer(t)
	const list = "/apis/demo.example.org/v1/namespaces/default/trials"
	rule := `{"rule":` + quoted("[1,2,3,4,5,6,7,8].all(i, [1,2,3,4,5,6,7].all(j, self.charAt(i) != 'b'))") + `}`
	definition := string(hostileDefinition([]hostileRule{{"t", `{"type":"string","maxLength":1048576}`, "true", nil, ""}}, ""))
	definition = strings.Replace(definition, `{"rule":"true"}`, rule+strings.Repeat(","+rule, 9_999), 1)
	s.do(t, 201, "POST", "/apis/apiextensions.k8s.io/v1/customresourcedefinitions", []byte(definition))
	eventually(t, "trials served", func() bool {
		code, _, err := s.try("GET", list, nil)
		return err == nil && code == 200
	})
	s.do(t, 201, "POST", list, trial(t, "t", strings.Repeat("a", 100)))
	before, began := s.peakMemory(t), time.Now()
	refused := s.do(t, 422, "POST", list, trial(t, "t", strings.Repeat("a", 1<<20)))
	if !strings.Contains(string(refused), outOfBudget) {
		t.Errorf("got %s, want in it %q", tail(string(refused), 500), outOfBudget)
	}
	t.Logf("refused within %v; peak memory: %d MiB, %d MiB of it before", time.Since(began).Round(time.Millisecond), s.peakMemory(t)>>20, before>>20)
}
