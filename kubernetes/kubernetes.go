// Package kubernetes names the minor releases of Kubernetes whose rules Keelson can apply to
// definitions, policies and expressions.
//
// # Terms
//
// A [Release] is a minor release, such as 1.31. The server is always the newest one. Commands and
// functions that take a Release answer as an API server of that release with default feature gates.
//
// A release compiles a new expression in the language of the release before it (Compatible), so that
// the cluster can be rolled back. This is the environment NewExpressions of upstream's package
// k8s.io/apiserver/pkg/cel/environment at DefaultCompatibilityVersion: 1.28 as a constant in v0.29
// and 1.29 in v0.30; from v0.31 on MinCompatibilityVersion of the effective version, which is one
// minor version below the binary's. Options that a library introduces at version v exist in release
// v+1 and later. The selectors of authorizers depend on a feature gate that 1.32 switched on, which
// gives the same result.
//
// # Invariants
//
// A Release is a value and a parameter; nothing in the process depends on a current one. The zero
// Release is the newest. The facts about each release are compared with upstream's libraries of that
// release in conformance/versions.
package kubernetes

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// oldest and newest are the minors of the releases that are known.
const (
	oldest = 29
	newest = 37
)

// Release is a minor release of Kubernetes. The zero value is the newest. Releases that are equal
// are ==.
type Release struct{ before uint8 } // how many minors before the newest one

// Newest returns the release that the server implements.
func Newest() Release { return Release{} }

// Oldest returns the oldest release that is known.
func Oldest() Release { return of(oldest) }

// of returns the release with that minor.
func of(minor int) Release { return Release{uint8(newest - minor)} }

// All returns all known releases, the oldest first.
func All() []Release {
	var all []Release
	for minor := oldest; minor <= newest; minor++ {
		all = append(all, of(minor))
	}
	return all
}

// Minor returns the second number of the release: 31 of 1.31.
func (r Release) Minor() int { return newest - int(r.before) }

// String returns the release as "1.31".
func (r Release) String() string { return "1." + strconv.Itoa(r.Minor()) }

// IsNewest reports whether r is the release that the server implements.
func (r Release) IsNewest() bool { return r.before == 0 }

// Compatible returns the version in whose language r compiles new expressions, such as "1.30" for
// 1.31.
func (r Release) Compatible() string { return "1." + strconv.Itoa(r.Minor()-1) }

// ParseRelease returns the release of a text such as "1.31". A patch version counts as its release.
func ParseRelease(text string) (Release, error) {
	text = strings.TrimSpace(text)
	rest, ok := strings.CutPrefix(strings.TrimPrefix(text, "v"), "1.")
	number, patch, hasPatch := strings.Cut(rest, ".")
	minor, err := strconv.Atoi(number)
	if hasPatch && err == nil {
		_, err = strconv.ParseUint(patch, 10, 16)
	}
	if !ok || err != nil || minor < oldest || minor > newest {
		return Release{}, fmt.Errorf("release of Kubernetes: got %q, want one from 1.%d to 1.%d", text, oldest, newest)
	}
	return of(minor), nil
}

// ParseReleases returns the releases of a list such as "1.29,1.31-1.33", the oldest first and each
// one once. "all" stands for all known releases.
func ParseReleases(list string) ([]Release, error) {
	var out []Release
	for part := range strings.SplitSeq(list, ",") {
		if strings.TrimSpace(part) == "all" {
			out = append(out, All()...)
			continue
		}
		low, high, isRange := strings.Cut(part, "-")
		from, err := ParseRelease(low)
		if err != nil {
			return nil, err
		}
		to := from
		if isRange {
			if to, err = ParseRelease(high); err != nil {
				return nil, err
			}
		}
		if to.Minor() < from.Minor() {
			return nil, fmt.Errorf("releases of Kubernetes: got %q, want the older one first", strings.TrimSpace(part))
		}
		for minor := from.Minor(); minor <= to.Minor(); minor++ {
			out = append(out, of(minor))
		}
	}
	slices.SortFunc(out, func(a, b Release) int { return a.Minor() - b.Minor() })
	return slices.Compact(out), nil
}
