package cli

import (
	_ "embed"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"
)

// This file reads kube-apiserver's feature gates. Keelson has no gates of its own: a setting is accepted if
// the server behaves as it says, or if the feature is of a part of Kubernetes that Keelson is not about.

// featureGateTable has a line for each gate of kube-apiserver: its name, whether it is on by default, and
// whether Keelson has the feature: have, later, or foreign if it is about nodes, schedulers and the like.
//
//go:embed featuregates.txt
var featureGateTable string

// featureGate is a gate of kube-apiserver.
type featureGate struct {
	isOn    bool // by default
	verdict string
}

// featureGates returns the gates of kube-apiserver, by name.
var featureGates = sync.OnceValue(func() map[string]featureGate {
	all := map[string]featureGate{}
	for line := range strings.Lines(featureGateTable) {
		if f := strings.Fields(line); len(f) == 3 {
			all[f[0]] = featureGate{f[1] == "on", f[2]}
		}
	}
	return all
})

// gateGroups are the gates that stand for many others.
var gateGroups = []string{"AllAlpha", "AllBeta"}

// checkFeatureGates checks a list of settings, NAME=BOOL or kube:NAME=BOOL separated by commas. It returns
// an error for the first one that the server does not comply with, and the names of those without an effect.
func checkFeatureGates(list string) (foreign []string, err error) {
	for _, setting := range strings.Split(list, ",") {
		setting = strings.TrimSpace(setting)
		if setting == "" {
			continue
		}
		name, value, ok := strings.Cut(setting, "=")
		name = strings.TrimPrefix(strings.TrimSpace(name), "kube:")
		if !ok {
			return nil, fmt.Errorf("missing bool value for feature gate %s", name)
		}
		on, err := strconv.ParseBool(strings.TrimSpace(value))
		if err != nil {
			return nil, fmt.Errorf("invalid value of %s=%s, want true or false", name, value)
		}
		gate, known := featureGates()[name]
		switch {
		case slices.Contains(gateGroups, name) && on == (name == "AllBeta"):
		case slices.Contains(gateGroups, name):
			return nil, fmt.Errorf("%s: got %t, want %t: name the features one by one", name, on, !on)
		case !known:
			return nil, fmt.Errorf("unrecognized feature gate: %s", name)
		case gate.verdict == "foreign":
			if on != gate.isOn {
				foreign = append(foreign, name)
			}
		case gate.verdict == "later" && on:
			return nil, fmt.Errorf("%s: got true, want false: Keelson does not have this feature", name)
		case gate.verdict == "have" && gate.isOn && !on:
			return nil, fmt.Errorf("%s: got false, want true: Keelson always has this feature", name)
		}
	}
	return foreign, nil
}
