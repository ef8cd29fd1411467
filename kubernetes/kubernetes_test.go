package kubernetes_test

import (
	"fmt"
	"testing"

	"github.com/keelson-io/keelson/kubernetes"
)

// TestParseReleases holds which texts are lists of releases.
func TestParseReleases(t *testing.T) {
	for _, row := range []struct{ list, want string }{
		{"1.31", "[1.31]"},
		{"1.29,1.31-1.33", "[1.29 1.31 1.32 1.33]"},
		{" 1.33 , 1.30 - 1.31, 1.31", "[1.30 1.31 1.33]"},
		{"v1.31.4", "[1.31]"},
		{"all", "[1.29 1.30 1.31 1.32 1.33 1.34 1.35 1.36 1.37]"},
		{"1.28", `release of Kubernetes: got "1.28", want one from 1.29 to 1.37`},
		{"1.38", `release of Kubernetes: got "1.38", want one from 1.29 to 1.37`},
		{"", `release of Kubernetes: got "", want one from 1.29 to 1.37`},
		{"1.31,", `release of Kubernetes: got "", want one from 1.29 to 1.37`},
		{"2.31", `release of Kubernetes: got "2.31", want one from 1.29 to 1.37`},
		{"1.31.x", `release of Kubernetes: got "1.31.x", want one from 1.29 to 1.37`},
		{"1.33-1.31", `releases of Kubernetes: got "1.33-1.31", want the older one first`},
		{"1.29-", `release of Kubernetes: got "", want one from 1.29 to 1.37`},
	} {
		releases, err := kubernetes.ParseReleases(row.list)
		got := fmt.Sprint(releases)
		if err != nil {
			got = err.Error()
		}
		if got != row.want {
			t.Errorf("%q: got %s, want %s", row.list, got, row.want)
		}
	}
}

// TestZeroRelease holds that the zero value is the release that the server implements.
func TestZeroRelease(t *testing.T) {
	all := kubernetes.All()
	if zero := (kubernetes.Release{}); zero != kubernetes.Newest() || zero != all[len(all)-1] || !zero.IsNewest() || zero.String() != "1.37" {
		t.Errorf("zero release: got %s, want the newest", zero)
	}
	if all[0] != kubernetes.Oldest() || all[0].Compatible() != "1.28" {
		t.Errorf("oldest release: got %s", all[0])
	}
}
