package discovery

import (
	"bytes"
	"compress/gzip"
	"crypto/sha512"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"

	discoveryv2 "k8s.io/api/apidiscovery/v2"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	clientdiscovery "k8s.io/client-go/discovery"
	"k8s.io/client-go/rest"

	"github.com/keelson-io/keelson/kind"
)

// This file tests the documents against the clients that read them.

// custom returns a kind of one group with the given versions, the first of
// them preferred, the last of them stored.
func custom(group, plural, name string, versions ...string) *kind.Kind {
	k := &kind.Kind{
		Group: group, Plural: plural, Singular: strings.ToLower(name), Name: name, ListKind: name + "List",
		ShortNames: []string{plural[:2]}, Categories: []string{"all"}, Namespaced: true, Established: true, UID: plural,
	}
	for _, v := range versions {
		k.Versions = append(k.Versions, &kind.Version{Kind: k, Name: v, Served: true, Status: true, Scale: &kind.Scale{}})
	}
	k.All = k.Versions
	k.Storage = k.Versions[len(k.Versions)-1]
	return k
}

func builtin(group, plural, name, version string, subresources ...kind.Subresource) *kind.Kind {
	k := custom(group, plural, name, version)
	k.SetBehavior(kind.Behavior{Subresources: subresources})
	k.Namespaced = false
	k.Versions[0].Scale = nil
	return k
}

func registry() *kind.Registry {
	r := kind.NewRegistry(
		builtin("", "namespaces", "Namespace", "v1", kind.Subresource{Name: "finalize", Verbs: []string{"update"}}),
		builtin("node.k8s.io", "customs", "Custom", "v1"))
	r.Put(custom("demo.io", "widgets", "Widget", "v2", "v1", "v1beta1"))
	r.Put(custom("demo.io", "gadgets", "Gadget", "v1"))
	r.Put(custom("alpha.io", "things", "Thing", "v1alpha1"))
	hidden := custom("demo.io", "pending", "Pending", "v9")
	hidden.Established = false
	r.Put(hidden)
	dying := custom("demo.io", "dying", "Dying", "v1")
	dying.Terminating = true
	r.Put(dying)
	return r
}

// server serves h and notes what is asked of it.
func server(t *testing.T, r *kind.Registry) (*httptest.Server, *[]string) {
	t.Helper()
	var asked []string
	h := New(r.Load)
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		asked = append(asked, r.URL.Path)
		h.ServeHTTP(w, r)
	}))
	t.Cleanup(s.Close)
	return s, &asked
}

func get(t *testing.T, url, accept string, header ...string) (*http.Response, []byte) {
	t.Helper()
	req, err := http.NewRequest(http.MethodGet, url, nil)
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Accept", accept)
	for i := 0; i < len(header); i += 2 {
		req.Header.Set(header[i], header[i+1])
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return resp, body
}

func TestClientTakesTwoRequests(t *testing.T) {
	s, asked := server(t, registry())
	client, err := clientdiscovery.NewDiscoveryClientForConfig(&rest.Config{Host: s.URL})
	if err != nil {
		t.Fatal(err)
	}
	groups, lists, err := client.ServerGroupsAndResources()
	if err != nil {
		t.Fatal(err)
	}
	if want := []string{"/api", "/apis"}; !slices.Equal(sorted(*asked), want) {
		t.Errorf("client asked for %q, want %q", *asked, want)
	}
	var names []string
	for _, g := range groups {
		names = append(names, g.Name+"@"+g.PreferredVersion.Version)
	}
	if got, want := strings.Join(names, " "), "@v1 node.k8s.io@v1 alpha.io@v1alpha1 demo.io@v2"; got != want {
		t.Errorf("groups %s, want %s", got, want)
	}
	var resources []string
	for _, l := range lists {
		for _, r := range l.APIResources {
			resources = append(resources, l.GroupVersion+"/"+r.Name)
		}
	}
	want := []string{
		"v1/namespaces", "v1/namespaces/finalize", "v1/namespaces/status", "demo.io/v2/widgets/scale", "demo.io/v1beta1/widgets",
	}
	for _, w := range want {
		if !slices.Contains(resources, w) {
			t.Errorf("%s is missing among %q", w, resources)
		}
	}
	if slices.Contains(resources, "demo.io/v9/pending") {
		t.Error("a kind that is not established is discovered")
	}
}

func sorted(s []string) []string {
	out := slices.Clone(s)
	slices.Sort(out)
	return out
}

func TestLegacyDocuments(t *testing.T) {
	s, _ := server(t, registry())
	tests := []struct{ path, want string }{
		{"/api", `{"kind":"APIVersions","versions":["v1"],"serverAddressByClientCIDRs":[{"clientCIDR":"0.0.0.0/0","serverAddress":"` + strings.TrimPrefix(s.URL, "http://") + `"}]}`},
		{"/apis/alpha.io", `{"kind":"APIGroup","apiVersion":"v1","name":"alpha.io","versions":[{"groupVersion":"alpha.io/v1alpha1","version":"v1alpha1"}],"preferredVersion":{"groupVersion":"alpha.io/v1alpha1","version":"v1alpha1"}}`},
		{"/apis/alpha.io/v1alpha1/", `{"kind":"APIResourceList","apiVersion":"v1","groupVersion":"alpha.io/v1alpha1","resources":[` +
			`{"name":"things","singularName":"thing","namespaced":true,"kind":"Thing","verbs":["delete","deletecollection","get","list","patch","create","update","watch"],"shortNames":["th"],"categories":["all"],"storageVersionHash":"wuCS9v56qLE="},` +
			`{"name":"things/status","singularName":"","namespaced":true,"kind":"Thing","verbs":["get","patch","update"]},` +
			`{"name":"things/scale","singularName":"","namespaced":true,"group":"autoscaling","version":"v1","kind":"Scale","verbs":["get","patch","update"]}]}`},
	}
	for _, test := range tests {
		resp, body := get(t, s.URL+test.path, "application/json")
		if got := strings.TrimSuffix(string(body), "\n"); got != test.want {
			t.Errorf("%s:\n got %s\nwant %s", test.path, got, test.want)
		}
		if ct := resp.Header.Get("Content-Type"); ct != "application/json" {
			t.Errorf("%s: content type %q", test.path, ct)
		}
	}
	for _, path := range []string{"/apis/none.io", "/apis/demo.io/v9", "/apis/demo.io/v3", "/api/v2", "/apis/demo.io/v1/x"} {
		if resp, _ := get(t, s.URL+path, "*/*"); resp.StatusCode != http.StatusNotFound {
			t.Errorf("%s: status %d, want 404", path, resp.StatusCode)
		}
	}
}

func TestTerminatingKindsTakeNoWrites(t *testing.T) {
	s, _ := server(t, registry())
	_, body := get(t, s.URL+"/apis/demo.io/v1", "application/json")
	var list metav1.APIResourceList
	if err := json.Unmarshal(body, &list); err != nil {
		t.Fatal(err)
	}
	for _, r := range list.APIResources {
		if r.Name == "dying" && !slices.Equal(r.Verbs, terminatingVerbs) {
			t.Errorf("verbs of a terminating kind: %q", r.Verbs)
		}
	}
}

const acceptClient = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList,application/json;g=apidiscovery.k8s.io;v=v2beta1;as=APIGroupDiscoveryList,application/json"

func TestAggregatedIsCachedByClients(t *testing.T) {
	r := registry()
	s, _ := server(t, r)
	resp, body := get(t, s.URL+"/apis", acceptClient)
	etag := resp.Header.Get("ETag")
	if got, want := resp.Header.Get("Content-Type"), "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"; got != want {
		t.Errorf("content type %q, want %q", got, want)
	}
	if resp.Header.Get("Cache-Control") != "public" || resp.Header.Get("Vary") != "Accept" || len(etag) != 130 {
		t.Errorf("headers %v", resp.Header)
	}
	if want := fmt.Sprintf(`"%X"`, sha512.Sum512(bytes.TrimSuffix(body, []byte("\n")))); etag != want {
		t.Errorf("ETag %s, want %s", etag, want)
	}
	var list discoveryv2.APIGroupDiscoveryList
	if err := json.Unmarshal(body, &list); err != nil {
		t.Fatal(err)
	}
	scopes := map[discoveryv2.ResourceScope]int{}
	for _, g := range list.Items {
		for _, v := range g.Versions {
			for _, r := range v.Resources {
				if (r.Scope == discoveryv2.ScopeNamespace) != (g.Name != "node.k8s.io") {
					t.Errorf("%s of %s: scope %s", r.Resource, g.Name, r.Scope)
				}
				scopes[r.Scope]++
			}
		}
	}
	if len(scopes) != 2 {
		t.Errorf("scopes %v", scopes)
	}
	if !strings.HasPrefix(string(body), `{"kind":"APIGroupDiscoveryList","apiVersion":"apidiscovery.k8s.io/v2","metadata":{},"items":[{"metadata":{"name":"node.k8s.io"`) {
		t.Errorf("body %.200s", body)
	}
	if resp, _ := get(t, s.URL+"/apis", acceptClient, "If-None-Match", etag); resp.StatusCode != http.StatusNotModified || resp.Header.Get("Vary") != "Accept" {
		t.Errorf("known document: status %d, want 304", resp.StatusCode)
	}
	if resp, body := get(t, s.URL+"/apis", strings.ReplaceAll(acceptClient, "application/json", typeProtobuf)); resp.Header.Get("ETag") != etag {
		t.Errorf("protobuf: ETag %q, want %q", resp.Header.Get("ETag"), etag)
	} else {
		var u runtime.Unknown
		if err := u.Unmarshal(body[4:]); err != nil || u.Kind != "APIGroupDiscoveryList" {
			t.Errorf("protobuf: %v, kind %q", err, u.Kind)
		}
	}
	// Of built-in kinds only the name is said where the group and the version are the resource's own.
	for _, kind := range []string{`{"group":"","version":"","kind":"Custom"}`, `{"group":"demo.io","version":"v2","kind":"Widget"}`} {
		if !strings.Contains(string(body), `"responseKind":`+kind) {
			t.Errorf("no %s in %s", kind, body)
		}
	}
	// Many definitions make a document that is compressed for who accepts that.
	if resp, _ := get(t, s.URL+"/apis", acceptClient, "Accept-Encoding", "gzip"); resp.Header.Get("Content-Encoding") != "" {
		t.Errorf("a small document is compressed: %v", resp.Header)
	}
	for i := range 400 {
		r.Put(custom("many.io", fmt.Sprintf("many%d", i), fmt.Sprintf("Many%d", i), "v1"))
	}
	for path, accept := range map[string]string{"/apis": acceptClient, "/apis/many.io/v1": "application/json"} {
		_, plain := get(t, s.URL+path, accept, "Accept-Encoding", "gzip;q=0")
		resp, packed := get(t, s.URL+path, accept, "Accept-Encoding", "deflate, gzip")
		z, err := gzip.NewReader(bytes.NewReader(packed))
		if err != nil {
			t.Fatalf("%s: %v %v", path, err, resp.Header)
		}
		if unpacked, err := io.ReadAll(z); err != nil || !bytes.Equal(unpacked, plain) || !slices.Contains(resp.Header["Vary"], "Accept-Encoding") {
			t.Errorf("%s, compressed: %v %v", path, err, resp.Header)
		}
	}
	r.Put(custom("new.io", "news", "New", "v1"))
	if resp, _ := get(t, s.URL+"/apis", acceptClient, "If-None-Match", etag); resp.StatusCode != http.StatusOK {
		t.Errorf("document after a change: status %d, want 200", resp.StatusCode)
	}
}

func TestNegotiation(t *testing.T) {
	s, _ := server(t, registry())
	tests := []struct {
		accept, want string
		code         int
	}{
		{"", typeJSON, 200},
		{"*/*", typeJSON, 200},
		{"application/yaml", typeYAML, 200},
		{"application/vnd.kubernetes.protobuf,application/json", typeProtobuf, 200},
		{"application/json;g=apidiscovery.k8s.io;v=v2beta1;as=APIGroupDiscoveryList,application/json;q=0.9", typeJSON, 200},
		{"application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList;q=0.1,application/json;q=0.9", typeJSON + aggregatedParams, 200},
		{"application/yaml;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList", typeYAML + aggregatedParams, 200},
		{"application/yaml;stream=watch,application/json;sv=v1,application/json;v=v1", typeJSON, 406},
		{"application/json;as=Table;v=v1;g=meta.k8s.io", typeJSON, 406},
		{"text/html", typeJSON, 406},
	}
	for _, test := range tests {
		resp, _ := get(t, s.URL+"/apis", test.accept)
		if aggregated := strings.Contains(test.want, ";"); (resp.Header.Get("Vary") != "") != aggregated || (resp.Header.Get("ETag") != "") != aggregated {
			t.Errorf("Accept %q: header %v", test.accept, resp.Header)
		}
		if resp.StatusCode != test.code || resp.Header.Get("Content-Type") != test.want {
			t.Errorf("Accept %q: %d %q, want %d %q", test.accept, resp.StatusCode, resp.Header.Get("Content-Type"), test.code, test.want)
		}
	}
	for _, test := range []struct {
		path, accept string
		code         int
	}{
		{"/api", "*", 406}, {"/api/v1", "*", 406}, {"/apis/node.k8s.io/v1", "*", 406}, {"/apis/node.k8s.io/v1", "application/*", 406}, {"/apis", "*", 200}, {"/apis/node.k8s.io", "*", 200}, {"/apis/demo.io/v1", "*", 200},
		{"/apis/node.k8s.io/v1", "text/html, application/yaml;q=0.1", 200}, {"/apis/node.k8s.io/v9", "", 404}, {"/api/v9", "*", 404},
	} {
		resp, body := get(t, s.URL+test.path, test.accept)
		if resp.StatusCode != test.code || test.code != 200 && !strings.Contains(string(body), `"details":{}`) {
			t.Errorf("%s, Accept %q: %d %s, want %d", test.path, test.accept, resp.StatusCode, body, test.code)
		}
	}
	for query, want := range map[string]bool{"": false, "?pretty": false, "?pretty=x": false, "?pretty=1": true} {
		if _, body := get(t, s.URL+"/apis"+query, "*/*"); strings.Contains(string(body), "\n  ") != want {
			t.Errorf("%q: %.40q", query, body)
		}
	}
	if resp, body := get(t, s.URL+"/apis", "*/*", "User-Agent", "curl/8"); resp.StatusCode != 200 || !strings.Contains(string(body), "\n  ") {
		t.Errorf("curl is not given indented JSON: %s", body)
	}
}

func BenchmarkAggregate2000(b *testing.B) {
	r := new(kind.Registry)
	for i := range 2000 {
		g := string(rune('a'+i%26)) + string(rune('a'+i/26%26)) + ".io"
		r.Put(custom(g, "widgets"+string(rune('a'+i/676)), "Widget", "v1"))
	}
	s := r.Load()
	b.ReportAllocs()
	for b.Loop() {
		aggregate(s, false)
	}
}
