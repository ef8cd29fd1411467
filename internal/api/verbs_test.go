package api

import (
	"encoding/json"
	"slices"
	"testing"
)

// TestDiscoveryHasTheVerbs holds that discovery names the verbs of the table for custom resources.
func TestDiscoveryHasTheVerbs(t *testing.T) {
	s := newTestServer(t)
	var list struct {
		Resources []struct {
			Name  string
			Verbs []string
		}
	}
	if err := json.Unmarshal([]byte(s.must(200, "GET", "/apis/demo.io/v1", "").body), &list); err != nil {
		t.Fatal(err)
	}
	var want []string
	for _, v := range verbTable {
		want = append(want, v.name)
	}
	slices.Sort(want)
	for _, r := range list.Resources {
		if slices.Sort(r.Verbs); r.Name == "widgets" && !slices.Equal(r.Verbs, want) {
			t.Errorf("discovery has %v, want %v", r.Verbs, want)
		}
	}
}
