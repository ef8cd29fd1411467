package server

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/keelson-io/keelson/builtin"
	"github.com/keelson-io/keelson/crd"
	"github.com/keelson-io/keelson/kind"
)

// This file checks kube-apiserver's setting of API versions. Which versions there are cannot be changed: a
// setting that asks for others is a mistake, which must not show as a 404 later.

// The settings for all versions of a level of stability.
const (
	apiAll   = "api/all"
	apiGA    = "api/ga"
	apiBeta  = "api/beta"
	apiAlpha = "api/alpha"
)

// checkRuntimeConfig returns an error if the settings, as key=value, ask for an API that is not served, or for
// one less. It returns the settings that ask for all versions of a level of which not all are served.
func checkRuntimeConfig(settings []string) (partly []string, err error) {
	if len(settings) == 0 {
		return nil, nil
	}
	kinds := kind.NewRegistry(builtin.All(&crd.Compiler{})...).Load()
	for _, s := range settings {
		key, value, _ := strings.Cut(s, "=")
		on := value == ""
		if !on {
			if on, err = strconv.ParseBool(value); err != nil {
				return nil, fmt.Errorf("%s: got %q, want true or false", key, value)
			}
		}
		switch key {
		case apiAll, apiGA:
			if !on {
				return nil, fmt.Errorf("%s: got false, want true: served versions cannot be switched off", key)
			}
			if key == apiAll {
				partly = append(partly, key)
			}
		case apiBeta, apiAlpha:
			if on {
				partly = append(partly, key)
			}
		default:
			if err := checkVersionSetting(kinds, key, on); err != nil {
				return nil, err
			}
		}
	}
	return partly, nil
}

// checkVersionSetting checks a setting for group/version or group/version/resource.
func checkVersionSetting(kinds *kind.Snapshot, key string, on bool) error {
	tokens := strings.Split(key, "/")
	if len(tokens) < 2 || len(tokens) > 3 {
		return fmt.Errorf("got %q, want %s, %s, %s, %s, group/version or group/version/resource", key, apiAll, apiGA, apiBeta, apiAlpha)
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
