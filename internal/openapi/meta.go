package openapi

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"

	"github.com/keelson-io/keelson/internal/builtin"
	"github.com/keelson-io/keelson/kind"
)

// This file has the schemas that are not of a single kind: options, lists, watch events and
// metadata.

// shared maps these schemas to the group version in which they are a kind, "" if they are none or
// of many.
var shared = map[string]string{
	metaPrefix + "ObjectMeta": "", metaPrefix + "ListMeta": "", metaPrefix + "Patch": "", versionPrefix + "Info": "",
	metaPrefix + "DeleteOptions": "", metaPrefix + "WatchEvent": "", // of many kinds: see optionsOf
	metaPrefix + "Status": "v1", metaPrefix + "APIVersions": "v1", metaPrefix + "APIGroup": "v1", metaPrefix + "APIGroupList": "v1",
	metaPrefix + "APIResourceList": "v1", scalePrefix + "Scale": "autoscaling/v1",
}

// sharedSchemas returns these schemas, and those to which they refer, in a version of OpenAPI.
func sharedSchemas(v2 bool) (map[string]json.RawMessage, error) {
	if v2 {
		return sharedV2()
	}
	return sharedV3()
}

var (
	sharedV2 = sync.OnceValues(converter{v2: true}.shared)
	sharedV3 = sync.OnceValues(converter{}.shared)
)

func (c converter) shared() (map[string]json.RawMessage, error) {
	all, err := builtin.Published(slices.Collect(maps.Keys(shared))...)
	if err != nil {
		return nil, err
	}
	return c.convert(all, func(name string) []gvk {
		if shared[name] == "" {
			return nil
		}
		return kindsOf(name, shared[name])
	})
}

// kindsOf returns the kind with the name of a schema, in each of the group versions.
func kindsOf(schema string, groupVersions ...string) []gvk {
	out := make([]gvk, len(groupVersions))
	for i, gv := range groupVersions {
		group, version, ok := strings.Cut(gv, "/")
		if !ok {
			group, version = "", gv
		}
		out[i] = gvk{group, schema[strings.LastIndexByte(schema, '.')+1:], version}
	}
	return out
}

// optionVersions lists all group versions of Kubernetes, served or not. In each, DeleteOptions and
// WatchEvent are kinds.
var optionVersions = strings.Fields(`v1 admission.k8s.io/v1 admission.k8s.io/v1beta1 admissionregistration.k8s.io/v1 admissionregistration.k8s.io/v1alpha1
	admissionregistration.k8s.io/v1beta1 apiextensions.k8s.io/v1 apiextensions.k8s.io/v1beta1 apiregistration.k8s.io/v1 apiregistration.k8s.io/v1beta1
	apps/v1 apps/v1beta1 apps/v1beta2 authentication.k8s.io/v1 authentication.k8s.io/v1alpha1 authentication.k8s.io/v1beta1 authorization.k8s.io/v1
	authorization.k8s.io/v1beta1 autoscaling/v1 autoscaling/v2 batch/v1 batch/v1beta1 certificates.k8s.io/v1 certificates.k8s.io/v1alpha1
	certificates.k8s.io/v1beta1 coordination.k8s.io/v1 coordination.k8s.io/v1alpha2 coordination.k8s.io/v1beta1 discovery.k8s.io/v1 discovery.k8s.io/v1beta1
	events.k8s.io/v1 events.k8s.io/v1beta1 extensions/v1beta1 flowcontrol.apiserver.k8s.io/v1 flowcontrol.apiserver.k8s.io/v1beta1
	flowcontrol.apiserver.k8s.io/v1beta2 flowcontrol.apiserver.k8s.io/v1beta3 imagepolicy.k8s.io/v1alpha1 internal.apiserver.k8s.io/v1alpha1
	lifecycle.k8s.io/v1alpha1 networking.k8s.io/v1 networking.k8s.io/v1beta1 node.k8s.io/v1 node.k8s.io/v1alpha1 node.k8s.io/v1beta1 policy/v1
	policy/v1beta1 rbac.authorization.k8s.io/v1 rbac.authorization.k8s.io/v1alpha1 rbac.authorization.k8s.io/v1beta1 resource.k8s.io/v1
	resource.k8s.io/v1alpha3 resource.k8s.io/v1beta1 resource.k8s.io/v1beta2 scheduling.k8s.io/v1 scheduling.k8s.io/v1alpha3 scheduling.k8s.io/v1beta1
	storage.k8s.io/v1 storage.k8s.io/v1alpha1 storage.k8s.io/v1beta1 storagemigration.k8s.io/v1 storagemigration.k8s.io/v1beta1`)

// unknownToObjects lists the groups of them that upstream's server of custom resources does not
// know.
var unknownToObjects = []string{"admission.k8s.io", "apiextensions.k8s.io", "apiregistration.k8s.io", "imagepolicy.k8s.io"}

// optionsOf returns the group versions in which options are kinds, as the document lists them. In
// version 2, these are all; in a document of custom resources, those that upstream's server of
// custom resources knows; otherwise, the group version of the document and v1.
func optionsOf(d *document) []string {
	if d.v2 {
		return optionVersions
	}
	v := d.versions[0]
	if !v.Kind.Behavior.IsBuiltin {
		return slices.DeleteFunc(slices.Clone(optionVersions), func(gv string) bool {
			group, _, _ := strings.Cut(gv, "/")
			return slices.Contains(unknownToObjects, group)
		})
	}
	if v.Kind.Group == "" {
		return []string{"v1"}
	}
	return []string{"v1", v.Kind.Group + "/" + v.Name}
}

// addOptions adds these group versions to the schemas of options.
func (d *document) addOptions(schemas map[string]json.RawMessage) error {
	for _, name := range []string{metaPrefix + "DeleteOptions", metaPrefix + "WatchEvent"} {
		var s map[string]any
		if err := json.Unmarshal(schemas[name], &s); err != nil {
			return fmt.Errorf("schema %s: %w", name, err)
		}
		s[extGVK] = kindsOf(name, optionsOf(d)...)
		text, err := json.Marshal(s)
		if err != nil {
			return fmt.Errorf("schema %s: %w", name, err)
		}
		schemas[name] = text
	}
	return nil
}

// reachable returns the schemas to which the paths refer, directly or through other schemas.
func (p *part) reachable() map[string]json.RawMessage {
	out := make(map[string]json.RawMessage, len(p.schemas))
	var visit func(text []byte)
	visit = func(text []byte) {
		for rest := string(text); ; {
			_, after, ok := strings.Cut(rest, `"$ref":"#/`)
			if !ok {
				return
			}
			target, more, _ := strings.Cut(after, `"`)
			rest = more
			name := target[strings.LastIndexByte(target, '/')+1:]
			if s := p.schemas[name]; s != nil && out[name] == nil {
				out[name] = s
				visit(s)
			}
		}
	}
	for _, all := range []map[string]json.RawMessage{p.paths, p.parameters} {
		for _, text := range all {
			visit(text)
		}
	}
	return out
}

// builtinVersions returns one version of a built-in kind for each group version in a document.
func (d *document) builtinVersions() []*kind.Version {
	seen := map[string]bool{}
	var out []*kind.Version
	for _, v := range d.versions {
		if b := &v.Kind.Behavior; b.IsBuiltin && !seen[keyOf(v)] {
			seen[keyOf(v)] = true
			out = append(out, v)
		}
	}
	return out
}
