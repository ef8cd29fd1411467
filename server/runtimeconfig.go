package server

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/keelson-io/keelson/crd"
	"github.com/keelson-io/keelson/internal/builtin"
	"github.com/keelson-io/keelson/kind"
)

// This file reads kube-apiserver's setting of API versions. Only apiextensions.k8s.io/v1beta1 can be switched
// off: another setting that asks for other versions is a mistake, which must not show as a 404 later.

// The settings for all versions of a level of stability.
const (
	apiAll   = "api/all"
	apiGA    = "api/ga"
	apiBeta  = "api/beta"
	apiAlpha = "api/alpha"
)

// BetaDefinitions is the version of definitions that kube-apiserver does not serve any more.
const BetaDefinitions = "apiextensions.k8s.io/v1beta1"

// retired are the versions that kube-apiserver knows and does not serve any more. It accepts settings for them.
var retired = strings.Fields(`apps/v1beta1 apps/v1beta2 authorization.k8s.io/v1beta1 batch/v1beta1 discovery.k8s.io/v1beta1 events.k8s.io/v1beta1
	extensions/v1beta1 node.k8s.io/v1alpha1 node.k8s.io/v1beta1 policy/v1beta1 rbac.authorization.k8s.io/v1alpha1 rbac.authorization.k8s.io/v1beta1`)

// versionSettings is what the settings of API versions ask for.
type versionSettings struct {
	partly []string // settings for versions of which not all are served, or none by kube-apiserver either
	noBeta bool     // definitions are not served in BetaDefinitions
}

// readRuntimeConfig returns an error if the settings, as key=value, ask for an API that is not served, or for
// one less. Of two settings for definitions in v1beta1, the more specific one counts, then the last.
func readRuntimeConfig(settings []string) (versions versionSettings, err error) {
	if len(settings) == 0 {
		return versions, nil
	}
	noBetas := false // no version of this level
	named := false   // BetaDefinitions is
	kinds := kind.NewRegistry(builtin.All(&crd.Compiler{})...).Load()
	for _, s := range settings {
		key, value, _ := strings.Cut(s, "=")
		on := value == ""
		if !on {
			if on, err = strconv.ParseBool(value); err != nil {
				return versions, fmt.Errorf("%s: got %q, want true or false", key, value)
			}
		}
		switch key {
		case apiAll, apiGA:
			if !on {
				return versions, fmt.Errorf("%s: got false, want true: served versions cannot be switched off", key)
			}
			if key == apiAll {
				versions.partly = append(versions.partly, key)
			}
		case apiBeta, apiAlpha:
			if on {
				versions.partly = append(versions.partly, key)
			}
			if key == apiBeta {
				noBetas = !on
			}
		case BetaDefinitions, BetaDefinitions + "/customresourcedefinitions":
			versions.noBeta, named = !on, true
		case "v1": // the core group's
			key = "api/v1"
			fallthrough
		default:
			if on && slices.ContainsFunc(retired, func(gv string) bool { return key == gv || strings.HasPrefix(key, gv+"/") }) {
				versions.partly = append(versions.partly, key)
				continue
			}
			if err := checkVersionSetting(kinds, key, on); err != nil {
				return versions, err
			}
		}
	}
	if !named {
		versions.noBeta = noBetas
	}
	return versions, nil
}

// checkVersionSetting checks a setting for group/version or group/version/resource.
func checkVersionSetting(kinds *kind.Snapshot, key string, on bool) error {
	tokens := strings.Split(key, "/")
	if len(tokens) < 2 || len(tokens) > 3 {
		return fmt.Errorf("got %q, want %s, %s, %s, %s, v1, group/version or group/version/resource", key, apiAll, apiGA, apiBeta, apiAlpha)
	}
	gv := schema.GroupVersion{Group: tokens[0], Version: tokens[1]}
	if gv.Group == "api" {
		gv.Group = "" // api/v1
	}
	served, others := false, []string(nil)
	for k := range kinds.InGroup(gv.Group) {
		for _, v := range k.Versions {
			served = served || v.Name == gv.Version && (len(tokens) == 2 || k.Plural == tokens[2])
			if each := (schema.GroupVersion{Group: k.Group, Version: v.Name}).String(); !slices.Contains(others, each) {
				others = append(others, each)
			}
		}
	}
	switch {
	case served == on:
		return nil
	case served:
		return fmt.Errorf("%s: got false, want true: served versions cannot be switched off", key)
	case others == nil:
		return fmt.Errorf("%s is not served: no group %q is", key, gv.Group)
	}
	return fmt.Errorf("%s is not served: of this group, %s is", key, strings.Join(others, ", "))
}
