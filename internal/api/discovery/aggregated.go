package discovery

import (
	"bytes"
	"crypto/sha512"
	"fmt"
	"net/http"
	"sync"

	discoveryv2 "k8s.io/api/apidiscovery/v2"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/keelson-io/keelson/kind"
)

// This file makes the aggregated documents.

// aggregated is a document in its encodings.
type aggregated struct {
	json  []byte
	etag  string // with its quotes
	proto func() []byte
}

// aggregate makes the document of the core group or that of all others.
func aggregate(s *kind.Snapshot, core bool) *aggregated {
	names := []string{""}
	if !core {
		names = groupNames(s)
	}
	list := &discoveryv2.APIGroupDiscoveryList{
		TypeMeta: metav1.TypeMeta{Kind: "APIGroupDiscoveryList", APIVersion: "apidiscovery.k8s.io/v2"},
		Items:    []discoveryv2.APIGroupDiscovery{},
	}
	for _, name := range names {
		if g := aggregateGroup(s, name); len(g.Versions) > 0 {
			list.Items = append(list.Items, g)
		}
	}
	out := &aggregated{json: encodeJSON(list)}
	sum := sha512.Sum512(bytes.TrimSuffix(out.json, []byte{'\n'}))
	out.etag = fmt.Sprintf("%q", fmt.Sprintf("%X", sum))
	out.proto = sync.OnceValue(func() []byte { return encodeProtobuf(list) })
	return out
}

// aggregateGroup returns a group with its versions and resources.
func aggregateGroup(s *kind.Snapshot, name string) discoveryv2.APIGroupDiscovery {
	g := discoveryv2.APIGroupDiscovery{ObjectMeta: metav1.ObjectMeta{Name: name}}
	at := map[string]int{}
	for i, version := range versionsOf(s, name) {
		at[version] = i
		g.Versions = append(g.Versions, discoveryv2.APIVersionDiscovery{Version: version, Freshness: discoveryv2.DiscoveryFreshnessCurrent})
	}
	for k := range established(s, name) {
		for _, kv := range k.Versions {
			v := &g.Versions[at[kv.Name]]
			v.Resources = append(v.Resources, aggregateResource(kv))
		}
	}
	return g
}

// aggregateResource returns a resource with its subresources.
func aggregateResource(v *kind.Version) discoveryv2.APIResourceDiscovery {
	k := v.Kind
	own := responseKind(v, v.GVK())
	r := discoveryv2.APIResourceDiscovery{
		Resource: k.Plural, SingularResource: k.Singular, ResponseKind: &own,
		Scope: discoveryv2.ScopeCluster, Verbs: verbsOf(k), ShortNames: k.ShortNames, Categories: k.Categories,
	}
	if k.Namespaced {
		r.Scope = discoveryv2.ScopeNamespace
	}
	for _, sub := range subresources(v) {
		gvk := responseKind(v, sub.gvk)
		r.Subresources = append(r.Subresources, discoveryv2.APISubresourceDiscovery{
			Subresource: sub.name, ResponseKind: &gvk, Verbs: sub.verbs,
		})
	}
	return r
}

// responseKind returns a kind for the document of v. As in upstream, the kind of a built-in
// resource has no group and version of its own.
func responseKind(v *kind.Version, gvk schema.GroupVersionKind) metav1.GroupVersionKind {
	if own := v.GVK(); v.Kind.Behavior.HasRoutes() && gvk.GroupVersion() == own.GroupVersion() {
		return metav1.GroupVersionKind{Kind: gvk.Kind}
	}
	return metav1.GroupVersionKind(gvk)
}

// aggregatedParams are the parameters by which clients ask for an aggregated
// document and recognise one.
const aggregatedParams = ";g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"

// serve answers with the document, or with nothing where the client has it.
func (a *aggregated) serve(w http.ResponseWriter, r *http.Request, f format) {
	h := w.Header()
	h.Set("ETag", a.etag)
	h.Set("Vary", "Accept")
	h.Set("Cache-Control", "public")
	if r.Header.Get("If-None-Match") == a.etag {
		w.WriteHeader(http.StatusNotModified)
		return
	}
	var body []byte
	switch f.media {
	case typeProtobuf:
		body = a.proto()
	case typeYAML:
		body = toYAML(a.json)
	default:
		body = f.dress(a.json)
	}
	send(w, r, f.media+aggregatedParams, body)
}
