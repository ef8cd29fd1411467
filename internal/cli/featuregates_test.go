package cli

import (
	"bytes"
	"fmt"
	"strings"
	"testing"
)

// TestFeatureGates holds which settings are accepted: those that the server complies with, and those about parts of Kubernetes that it
// does not have.
func TestFeatureGates(t *testing.T) {
	for list, want := range map[string]string{
		"":                                    "[] <nil>",
		"WatchList=true,JobManagedBy=true":    "[] <nil>",
		"kube:WatchList=true, AllAlpha=false": "[] <nil>",
		"AllBeta=true":                        "[] <nil>",
		"CPUManagerPolicyAlphaOptions=true":   "[CPUManagerPolicyAlphaOptions] <nil>",
		"CPUManagerPolicyAlphaOptions=false":  "[] <nil>",
		"CBORServingAndStorage=false":         "[] <nil>",
		"CBORServingAndStorage=true":          "[] CBORServingAndStorage: got true, want false: Keelson does not have this feature",
		"WatchList=false":                     "[] WatchList: got false, want true: Keelson always has this feature",
		"AllAlpha=true":                       "[] AllAlpha: got true, want false: name the features one by one",
		"AllBeta=false":                       "[] AllBeta: got false, want true: name the features one by one",
		"Nonesuch=true":                       "[] unrecognized feature gate: Nonesuch",
		"WatchList":                           "[] missing bool value for feature gate WatchList",
		"WatchList=maybe":                     "[] invalid value of WatchList=maybe, want true or false",
	} {
		foreign, err := checkFeatureGates(list)
		if got := fmt.Sprint(foreign, err); got != want {
			t.Errorf("%s: got %s, want %s", list, got, want)
		}
	}
	if n := len(featureGates()); n < 200 {
		t.Errorf("got %d gates, want those of kube-apiserver", n)
	}
	dir := t.TempDir()
	var out, errs bytes.Buffer
	code := Main([]string{"/assets/kube-apiserver", "--data-dir", dir, "--cert-dir", dir, "--etcd-servers=http://127.0.0.1:1", "--feature-gates=WatchList=true", "--feature-gates=ShardedListAndWatch=true"},
		strings.NewReader(""), &out, &errs)
	if want := "--feature-gates: ShardedListAndWatch: got true, want false: Keelson does not have this feature"; code != 2 || !strings.Contains(errs.String(), want) {
		t.Errorf("got %d %s, want %q", code, errs.String(), want)
	}
}
