package discovery

import (
	"cmp"
	"crypto/sha256"
	"encoding/base64"
	"iter"
	"net/http"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/version"

	"github.com/keelson-io/keelson/kind"
)

// This file makes the legacy documents.

// The verbs of resources, in upstream's order, which differs between custom
// and built-in resources.
var (
	customVerbs      = metav1.Verbs{"delete", "deletecollection", "get", "list", "patch", "create", "update", "watch"}
	terminatingVerbs = metav1.Verbs{"delete", "deletecollection", "get", "list", "watch"}
	builtinVerbs     = metav1.Verbs{"create", "delete", "deletecollection", "get", "list", "patch", "update", "watch"}
	oneByOneVerbs    = metav1.Verbs{"create", "delete", "get", "list", "patch", "update", "watch"}
	subVerbs         = metav1.Verbs{"get", "patch", "update"}
	virtualVerbs     = metav1.Verbs{"create"}
	listedVerbs      = metav1.Verbs{"get", "list"}
)

// established ranges over the established kinds of a group.
func established(s *kind.Snapshot, group string) iter.Seq[*kind.Kind] {
	return func(yield func(*kind.Kind) bool) {
		for k := range s.InGroup(group) {
			if k.Established && len(k.Versions) > 0 && !yield(k) {
				return
			}
		}
	}
}

// verbsOf returns the verbs of a kind's resource.
func verbsOf(k *kind.Kind) metav1.Verbs {
	switch {
	case k.Terminating:
		return terminatingVerbs
	case k.Behavior.Virtual:
		return virtualVerbs
	case k.Behavior.Listed != nil:
		return listedVerbs
	case k.Behavior.OneByOne:
		return oneByOneVerbs
	case k.Behavior.HasRoutes():
		return builtinVerbs
	}
	return customVerbs
}

// subresource is a subresource of a version.
type subresource struct {
	name    string
	gvk     schema.GroupVersionKind
	ownKind bool // gvk is not that of the resource
	verbs   metav1.Verbs
}

// subresources returns the subresources of v in the order of the legacy documents.
func subresources(v *kind.Version) []subresource {
	own := v.GVK()
	var out []subresource
	for _, s := range v.Kind.Behavior.Subresources {
		sub := subresource{name: s.Name, gvk: own, verbs: s.Verbs}
		if s.HasOwnKind() {
			sub.gvk, sub.ownKind = s.Version.GVK(), true
		}
		out = append(out, sub)
	}
	if v.Status {
		out = append(out, subresource{name: "status", gvk: own, verbs: subVerbs})
	}
	if v.Scale != nil {
		scale := schema.GroupVersionKind{Group: "autoscaling", Version: "v1", Kind: "Scale"}
		out = append(out, subresource{name: "scale", gvk: scale, ownKind: true, verbs: subVerbs})
	}
	if v.Kind.Behavior.HasRoutes() {
		slices.SortFunc(out, func(a, b subresource) int { return strings.Compare(a.name, b.name) })
	}
	return out
}

// resourceList returns the document of a group's version, nil if nothing has it.
func resourceList(s *kind.Snapshot, group, name string) *metav1.APIResourceList {
	list := &metav1.APIResourceList{
		TypeMeta:     metav1.TypeMeta{Kind: "APIResourceList", APIVersion: "v1"},
		GroupVersion: join(group, name),
		APIResources: []metav1.APIResource{},
	}
	for k := range established(s, group) {
		if v := k.Version(name); v != nil {
			list.APIResources = appendResources(list.APIResources, v)
		}
	}
	if len(list.APIResources) == 0 {
		return nil
	}
	if group == "" {
		list.APIVersion = "" // upstream has it so
	}
	return list
}

// appendResources appends a resource and its subresources.
func appendResources(out []metav1.APIResource, v *kind.Version) []metav1.APIResource {
	k := v.Kind
	out = append(out, metav1.APIResource{
		Name: k.Plural, SingularName: k.Singular, Namespaced: k.Namespaced, Kind: k.Name,
		Verbs: verbsOf(k), ShortNames: k.ShortNames, Categories: k.Categories,
		StorageVersionHash: storageVersionHash(k),
	})
	for _, sub := range subresources(v) {
		r := metav1.APIResource{
			Name: k.Plural + "/" + sub.name, Namespaced: k.Namespaced, Kind: sub.gvk.Kind, Verbs: sub.verbs,
		}
		if sub.ownKind && sub.gvk.GroupVersion() != v.GVK().GroupVersion() {
			r.Group, r.Version = sub.gvk.Group, sub.gvk.Version
		}
		out = append(out, r)
	}
	return out
}

// storageVersionHash returns a hash that changes with the storage version and does not reveal it. A
// storage version that is not served has none.
func storageVersionHash(k *kind.Kind) string {
	if k.Storage == nil || !k.Storage.Served || !k.Behavior.IsStored() {
		return ""
	}
	version := k.Storage.Name
	if k.Behavior.StoredAs != "" {
		version = k.Behavior.StoredAs
	}
	sum := sha256.Sum256([]byte(k.Storage.Kind.Group + "/" + version + "/" + k.Name))
	return base64.StdEncoding.EncodeToString(sum[:8])
}

// join returns the apiVersion of a group and version.
func join(group, version string) string {
	if group == "" {
		return version
	}
	return group + "/" + version
}

// versionsOf returns the names of the versions of a group, the preferred one
// first.
func versionsOf(s *kind.Snapshot, group string) []string {
	var out []string
	seen := map[string]bool{} // a definition may have tens of thousands of versions
	for k := range established(s, group) {
		for _, v := range k.Versions {
			if !seen[v.Name] {
				seen[v.Name] = true
				out = append(out, v.Name)
			}
		}
	}
	slices.SortFunc(out, func(a, b string) int { return version.CompareKubeAwareVersionStrings(b, a) })
	return out
}

// groupOf returns the document of a group, nil if there is none.
func groupOf(s *kind.Snapshot, name string) object {
	g, ok := groupDoc(s, name)
	if !ok {
		return nil
	}
	g.TypeMeta = metav1.TypeMeta{Kind: "APIGroup", APIVersion: "v1"}
	return &g
}

// groupDoc returns the document of a group. It reports false if no version is served.
func groupDoc(s *kind.Snapshot, name string) (metav1.APIGroup, bool) {
	g := metav1.APIGroup{Name: name}
	for _, v := range versionsOf(s, name) {
		g.Versions = append(g.Versions, metav1.GroupVersionForDiscovery{GroupVersion: join(name, v), Version: v})
	}
	if len(g.Versions) == 0 {
		return g, false
	}
	g.PreferredVersion = g.Versions[0]
	return g, true
}

// builtinGroups are the groups of built-in kinds, in the order in which
// Kubernetes lists them.
var builtinGroups = []string{
	"apiregistration.k8s.io", "apps", "events.k8s.io", "authentication.k8s.io", "authorization.k8s.io", "autoscaling", "batch", "certificates.k8s.io",
	"networking.k8s.io", "policy", "rbac.authorization.k8s.io", "storage.k8s.io", "admissionregistration.k8s.io",
	"apiextensions.k8s.io", "scheduling.k8s.io", "coordination.k8s.io", "node.k8s.io", "discovery.k8s.io", "resource.k8s.io",
	"flowcontrol.apiserver.k8s.io", "storagemigration.k8s.io",
}

// groupNames returns the names of the groups but the core group's, those of built-in kinds first: a
// client uses the first of several resources with the same short name.
func groupNames(s *kind.Snapshot) []string {
	var out []string
	for _, g := range s.Groups() {
		if g != "" {
			out = append(out, g)
		}
	}
	slices.SortStableFunc(out, func(a, b string) int { return cmp.Compare(rank(a), rank(b)) })
	return out
}

// rank returns the place of a group in the list.
func rank(group string) int {
	if at := slices.Index(builtinGroups, group); at >= 0 {
		return at
	}
	return len(builtinGroups)
}

// groupList returns the document of all groups.
func groupList(s *kind.Snapshot) *metav1.APIGroupList {
	list := &metav1.APIGroupList{
		TypeMeta: metav1.TypeMeta{Kind: "APIGroupList", APIVersion: "v1"},
		Groups:   []metav1.APIGroup{},
	}
	for _, name := range groupNames(s) {
		if g, ok := groupDoc(s, name); ok {
			list.Groups = append(list.Groups, g)
		}
	}
	return list
}

// coreVersions returns the document of the core group.
func coreVersions(s *kind.Snapshot, r *http.Request) object {
	versions := versionsOf(s, "")
	if versions == nil {
		versions = []string{}
	}
	return &metav1.APIVersions{
		TypeMeta: metav1.TypeMeta{Kind: "APIVersions"},
		Versions: versions,
		ServerAddressByClientCIDRs: []metav1.ServerAddressByClientCIDR{
			{ClientCIDR: "0.0.0.0/0", ServerAddress: r.Host},
		},
	}
}
