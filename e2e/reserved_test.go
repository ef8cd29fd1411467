package e2e

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"syscall"
	"testing"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	apiextv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// This file holds that definitions never take the place of built-in kinds, whether clients create them or they are in the store already.

const crdPath = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"

// usurper is a definition that keeps everything it is sent; the status is that of an established one.
func usurper(group, plural, kind, scope string, versions ...string) *apiextv1.CustomResourceDefinition {
	crd := &apiextv1.CustomResourceDefinition{}
	crd.APIVersion, crd.Kind = "apiextensions.k8s.io/v1", "CustomResourceDefinition"
	crd.Name = plural + "." + group
	crd.Annotations = map[string]string{"api-approved.kubernetes.io": "https://example.org/approved"}
	names := apiextv1.CustomResourceDefinitionNames{Plural: plural, Singular: strings.ToLower(kind), Kind: kind, ListKind: kind + "List"}
	crd.Spec = apiextv1.CustomResourceDefinitionSpec{Group: group, Names: names, Scope: apiextv1.ResourceScope(scope)}
	keep := true
	for i, v := range versions {
		crd.Spec.Versions = append(crd.Spec.Versions, apiextv1.CustomResourceDefinitionVersion{
			Name: v, Served: true, Storage: i == 0,
			Schema:       &apiextv1.CustomResourceValidation{OpenAPIV3Schema: &apiextv1.JSONSchemaProps{Type: "object", XPreserveUnknownFields: &keep}},
			Subresources: &apiextv1.CustomResourceSubresources{Status: &apiextv1.CustomResourceSubresourceStatus{}},
		})
	}
	crd.Status.AcceptedNames, crd.Status.StoredVersions = names, versions[:1]
	for _, c := range []apiextv1.CustomResourceDefinitionConditionType{apiextv1.NamesAccepted, apiextv1.Established} {
		crd.Status.Conditions = append(crd.Status.Conditions, apiextv1.CustomResourceDefinitionCondition{
			Type: c, Status: apiextv1.ConditionTrue, Reason: "Before", LastTransitionTime: metav1.Now(),
		})
	}
	return crd
}

// usurpers are definitions in groups of built-in kinds that clients can create.
func usurpers() []*apiextv1.CustomResourceDefinition {
	return []*apiextv1.CustomResourceDefinition{
		usurper("rbac.authorization.k8s.io", "clusterrolebindings", "ClusterRoleBinding", "Cluster", "v1"),
		usurper("rbac.authorization.k8s.io", "foos", "ClusterRole", "Cluster", "v7", "v1"),
		usurper("authentication.k8s.io", "tokenreviews", "TokenReview", "Cluster", "v1"),
		usurper("admissionregistration.k8s.io", "validatingadmissionpolicies", "ValidatingAdmissionPolicy", "Cluster", "v1"),
		usurper("apiregistration.k8s.io", "apiservices", "APIService", "Cluster", "v1"),
		usurper("coordination.k8s.io", "leases", "Lease", "Cluster", "v1", "v2"),
		usurper("storagemigration.k8s.io", "storageversionmigrations", "StorageVersionMigration", "Cluster", "v1"),
		usurper("apiextensions.k8s.io", "customresourcedefinitions", "CustomResourceDefinition", "Cluster", "v1", "v1beta1"),
	}
}

func jsonOf(t *testing.T, v any) []byte {
	t.Helper()
	b, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// documents are the paths of the documents that list kinds.
var documents = []string{
	"/", "/apis", "/api/v1", "/apis/rbac.authorization.k8s.io", "/apis/rbac.authorization.k8s.io/v1", "/apis/coordination.k8s.io", "/apis/apiextensions.k8s.io/v1",
	"/openapi/v3", "/openapi/v2", "/apis/apiregistration.k8s.io/v1/apiservices aggregated", "/apis aggregated",
}

func (s *server) documents(t *testing.T) map[string]string {
	t.Helper()
	out := map[string]string{}
	for _, d := range documents {
		path, aggregated := strings.CutSuffix(d, " aggregated")
		accept := "application/json"
		if aggregated {
			accept = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList,application/json"
		}
		b := s.do(t, 200, "GET", path, nil, "Accept", accept)
		if strings.HasSuffix(path, "/apiservices") {
			b = []byte(strings.Join(itemNames(t, b), " "))
		}
		out[d] = string(b)
	}
	return out
}

// itemNames are the names of the objects of a list, sorted.
func itemNames(t *testing.T, list []byte) []string {
	t.Helper()
	var l metav1.PartialObjectMetadataList
	if err := json.Unmarshal(list, &l); err != nil {
		t.Fatal(err)
	}
	var out []string
	for i := range l.Items {
		out = append(out, l.Items[i].Name)
	}
	slices.Sort(out)
	return out
}

// refused waits until a definition says that it is not served, and why.
func (s *server) refused(t *testing.T, name, reason, message string) {
	t.Helper()
	var crd apiextv1.CustomResourceDefinition
	if err := json.Unmarshal(s.do(t, 200, "GET", crdPath+"/"+name, nil), &crd); err != nil {
		t.Fatal(err)
	}
	got := map[apiextv1.CustomResourceDefinitionConditionType]string{}
	for _, c := range crd.Status.Conditions {
		got[c.Type] = fmt.Sprintf("%s %s: %s", c.Status, c.Reason, c.Message)
	}
	if got[apiextv1.NamesAccepted] != "False "+reason+": "+message {
		t.Errorf("%s: NamesAccepted: got %q, want False %s: %s", name, got[apiextv1.NamesAccepted], reason, message)
	}
	if want := "False NotAccepted: not all names are accepted"; got[apiextv1.Established] != want {
		t.Errorf("%s: Established: got %q, want %q", name, got[apiextv1.Established], want)
	}
}

// theSame checks that the built-in kinds have not changed.
func (s *server) theSame(t *testing.T, when string, before map[string]string) {
	t.Helper()
	after := s.documents(t)
	for _, d := range documents {
		if before[d] != after[d] {
			t.Errorf("%s: %s changed: got %s, want %s", when, d, tail(after[d], 600), tail(before[d], 600))
		}
	}
	const rbac = "/apis/rbac.authorization.k8s.io/v1/"
	if names := itemNames(t, s.do(t, 200, "GET", rbac+"clusterrolebindings", nil)); !slices.Contains(names, "given") || !slices.Contains(names, "cluster-admin") {
		t.Errorf("%s: clusterrolebindings: got %q, want given and cluster-admin among them", when, names)
	}
	const review = `{"apiVersion":"authentication.k8s.io/v1","kind":"TokenReview","metadata":{"name":"kept"},"spec":{"token":"very-secret"}}`
	if b := s.do(t, 201, "POST", "/apis/authentication.k8s.io/v1/tokenreviews", []byte(review)); strings.Contains(string(b), `"uid"`) || !strings.Contains(string(b), `"status"`) {
		t.Errorf("%s: a token review: got %s, want an answer and nothing stored", when, b)
	}
	s.answers(t, when, 404, "GET", "/apis/authentication.k8s.io/v1/tokenreviews/kept", nil)
	for _, path := range []string{
		rbac + "foos", "/apis/rbac.authorization.k8s.io/v7", "/apis/rbac.authorization.k8s.io/v7/foos", "/apis/coordination.k8s.io/v2/leases",
		"/apis/storagemigration.k8s.io/v7", "/apis/storagemigration.k8s.io/v1/foos",
	} {
		s.answers(t, when, 404, "GET", path, nil)
	}
	// The definitions themselves stay definitions: in both versions, and checked.
	s.answers(t, when, 200, "GET", strings.Replace(crdPath, "v1/", "v1beta1/", 1), nil)
	s.answers(t, when, 422, "POST", crdPath, []byte(`{"apiVersion":"apiextensions.k8s.io/v1","kind":"CustomResourceDefinition","metadata":{"name":"nothing.demo.io"},"spec":{}}`))
}

// answers checks the code of the answer to a request.
func (s *server) answers(t *testing.T, when string, want int, method, path string, body []byte) {
	t.Helper()
	if code, b, err := s.try(method, path, body); err != nil || code != want {
		t.Errorf("%s: %s %s: got %d, %v, want %d: %s", when, method, path, code, err, want, tail(string(b), 300))
	}
}

// Ledger: reserved-groups.
func TestDefinitionsNeverReplaceBuiltinKinds(t *testing.T) {
	t.Parallel()
	s := startServer(t)
	s.do(t, 201, "POST", "/apis/rbac.authorization.k8s.io/v1/clusterrolebindings", []byte(`{"metadata":{"name":"given"},
		"roleRef":{"apiGroup":"rbac.authorization.k8s.io","kind":"ClusterRole","name":"view"},"subjects":[{"apiGroup":"rbac.authorization.k8s.io","kind":"User","name":"ann"}]}`))
	before := s.documents(t)
	for _, crd := range usurpers() {
		req, err := http.NewRequest("POST", s.url(crdPath), strings.NewReader(string(jsonOf(t, crd))))
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set("Content-Type", "application/json")
		resp, err := s.http.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		body, _ := io.ReadAll(resp.Body)
		resp.Body.Close()
		want := fmt.Sprintf("group %q is reserved for built-in kinds: no custom resources are served in it", crd.Spec.Group)
		if resp.StatusCode != 201 {
			t.Errorf("%s: got code %d, want 201: %s", crd.Name, resp.StatusCode, tail(string(body), 600))
			continue
		}
		if got := strings.ReplaceAll(resp.Header.Get("Warning"), `\`, ""); !strings.Contains(got, want) {
			t.Errorf("%s: got warning %q, want %q", crd.Name, got, want)
		}
		s.theSame(t, "with "+crd.Name, before)
		s.refused(t, crd.Name, "GroupReserved", want)
	}

	// A client that writes conditions gets nothing served.
	forged := usurpers()[1]
	for _, c := range []string{"NamesAccepted", "Established"} {
		s.do(t, 200, "PATCH", crdPath+"/"+forged.Name+"/status",
			fmt.Appendf(nil, `{"status":{"conditions":[{"type":%q,"status":"True","reason":"Forged","message":"","lastTransitionTime":"2026-01-01T00:00:00Z"}]}}`, c),
			"Content-Type", "application/merge-patch+json")
		s.theSame(t, "with the forged condition "+c, before)
		s.refused(t, forged.Name, "GroupReserved", `group "rbac.authorization.k8s.io" is reserved for built-in kinds: no custom resources are served in it`)
	}

	s.stop(syscall.SIGTERM)
	s.start()
	s.theSame(t, "after a restart", before)

	for _, crd := range usurpers() {
		s.do(t, 200, "DELETE", crdPath+"/"+crd.Name, nil)
		s.gone(t, crd.Name)
	}
	s.theSame(t, "without the definitions", before)
	// Rights can be revoked.
	s.do(t, 200, "DELETE", "/apis/rbac.authorization.k8s.io/v1/clusterrolebindings/given", nil)
}

// gone waits until a definition no longer exists.
func (s *server) gone(t *testing.T, name string) {
	t.Helper()
	eventually(t, "definition "+name+" is gone", func() bool {
		code, _, err := s.try("GET", crdPath+"/"+name, nil)
		return err == nil && code == 404
	})
}

// TestStoredDefinitionsOfReservedGroups starts a server over a store that has definitions which no client can make here, as an older
// release served them or another program wrote them.
// Ledger: impossible-definitions, reserved-group-finalizers.
func TestStoredDefinitionsOfReservedGroups(t *testing.T) {
	t.Parallel()
	etcd := startMembers(t, 1)
	s := startServer(t, etcd.args()...)
	s.do(t, 201, "POST", "/apis/rbac.authorization.k8s.io/v1/clusterrolebindings", []byte(`{"metadata":{"name":"given"},
		"roleRef":{"apiGroup":"rbac.authorization.k8s.io","kind":"ClusterRole","name":"view"},"subjects":[{"apiGroup":"rbac.authorization.k8s.io","kind":"User","name":"ann"}]}`))
	s.do(t, 201, "POST", "/api/v1/namespaces/default/secrets", []byte(`{"metadata":{"name":"mine"},"data":{"a":"Yg=="}}`))
	s.do(t, 201, "POST", "/api/v1/namespaces/default/services", []byte(`{"metadata":{"name":"web"},"spec":{"ports":[{"port":80}]}}`))
	s.do(t, 201, "POST", crdPath, toJSON(t, gadgetCRD))
	s.do(t, 201, "POST", gadgetList, toJSON(t, gadget("mine", "red")))
	before := s.documents(t)
	s.stop(syscall.SIGTERM)

	reserved := func(group string) string {
		return fmt.Sprintf("group %q is reserved for built-in kinds: no custom resources are served in it", group)
	}
	type row struct {
		crd             *apiextv1.CustomResourceDefinition
		reason, message string
	}
	var rows []row
	for _, crd := range usurpers() {
		rows = append(rows, row{crd, "GroupReserved", reserved(crd.Spec.Group)})
	}
	for _, o := range [][3]string{{"", "secrets", "Secret"}, {"", "pods", "Pod"}, {"apps", "deployments", "Deployment"}, {"batch", "foos", "Foo"}} {
		rows = append(rows, row{usurper(o[0], o[1], o[2], "Namespaced", "v1"), "GroupReserved", reserved(o[0])})
	}
	// Their objects would have the keys of those of built-in kinds, or of the server's own values.
	for _, o := range [][3]string{{"secrets", "default", "Mine"}, {"services", "specs", "Spec"}, {"services", "endpoints", "Endpoint"}, {"keelson", "authorities", "Authority"}, {"ranges", "servicenodeports", "Range"}} {
		rows = append(rows, row{usurper(o[0], o[1], o[2], "Cluster", "v1"), "InvalidNames", fmt.Sprintf("group %q and plural %q cannot be those of custom resources", o[0], o[1])})
	}
	// Its objects would be those of another definition.
	other := usurper("demo.example.org", "gadgets", "Gadget", "Namespaced", "v1")
	other.Name = "gadgets.other.example.org"
	rows = append(rows, row{other, "NameConflict", `definition of "gadgets" in group "demo.example.org": got name "gadgets.other.example.org", want "gadgets.demo.example.org"`})

	kv := etcd.running[0].Server
	put := func(key string, value []byte) {
		t.Helper()
		if _, err := kv.Put(context.Background(), &pb.PutRequest{Key: []byte("/demo/" + key), Value: value}); err != nil {
			t.Fatal(err)
		}
	}
	there := func(prefix string) bool {
		t.Helper()
		r, err := kv.Range(context.Background(), &pb.RangeRequest{Key: []byte("/demo/" + prefix), RangeEnd: []byte("/demo/" + prefix + "\xff"), CountOnly: true})
		if err != nil {
			t.Fatal(err)
		}
		return r.Count > 0
	}
	for i := range rows {
		crd := rows[i].crd
		crd.UID = types.UID(fmt.Sprintf("11111111-1111-4111-8111-%012d", i))
		crd.Generation = 1
		crd.CreationTimestamp = metav1.Now()
		put("apiextensions.k8s.io/customresourcedefinitions/"+crd.Name, jsonOf(t, crd))
	}
	// What an older release stored, with a finalizer that nobody could remove now.
	const left = "authentication.k8s.io/tokenreviews/"
	put(left+"kept", []byte(`{"apiVersion":"authentication.k8s.io/v1","kind":"TokenReview","metadata":{"name":"kept","finalizers":["a.io/b"]},"spec":{"token":"very-secret"}}`))

	s.start()
	for _, r := range rows {
		s.refused(t, r.crd.Name, r.reason, r.message)
	}
	s.theSame(t, "over the store", before)
	own := func(when string) {
		t.Helper()
		s.do(t, 200, "GET", "/api/v1/namespaces/default/secrets/mine", nil)
		s.do(t, 200, "GET", "/api/v1/namespaces/default/services/web", nil)
		s.do(t, 200, "GET", gadgetList+"/mine", nil)
		if !there("keelson/authorities") || !there("ranges/servicenodeports") {
			t.Errorf("%s: values of the server's own are gone", when)
		}
	}
	own("over the store")
	for _, r := range rows {
		s.do(t, 200, "DELETE", crdPath+"/"+r.crd.Name, nil)
		s.gone(t, r.crd.Name)
	}
	s.theSame(t, "without the definitions", before)
	own("without the definitions")
	if there(left) {
		t.Errorf("%s is there, want that it went with its definition", left)
	}
	s.stop(syscall.SIGTERM)
	s.start()
	own("after a restart")
}

// TestSchemasOfBuiltinKindsStay holds that no definition changes what OpenAPI says of a built-in kind, or of metadata. Its group can be
// such that its schema would have the name of theirs.
// Ledger: openapi-schema-names.
func TestSchemasOfBuiltinKindsStay(t *testing.T) {
	t.Parallel()
	s := startServer(t)
	schemas := func() map[string]json.RawMessage {
		var doc struct{ Definitions map[string]json.RawMessage }
		if err := json.Unmarshal(s.do(t, 200, "GET", "/openapi/v2", nil, "Accept", "application/json"), &doc); err != nil {
			t.Fatal(err)
		}
		return doc.Definitions
	}
	before := schemas()
	for _, crd := range []*apiextv1.CustomResourceDefinition{
		usurper("core.api.k8s.io", "secrets", "Secret", "Namespaced", "v1"),
		usurper("rbac.api.k8s.io", "others", "Other", "Cluster", "v1"),
		usurper("meta.apis.pkg.apimachinery.k8s.io", "metas", "ObjectMeta", "Cluster", "v1"),
		usurper("autoscaling.api.k8s.io", "scales", "Scale", "Cluster", "v1"),
		usurper("apiextensions.apis.pkg.apiextensions-apiserver.k8s.io", "definitions", "CustomResourceDefinition", "Cluster", "v1"),
		usurper("apiregistration.apis.pkg.kube-aggregator.k8s.io", "services", "APIService", "Cluster", "v1"),
	} {
		if crd.Spec.Names.Kind == "Other" {
			crd.Spec.Names.ListKind = "RoleList"
		}
		s.do(t, 201, "POST", crdPath, jsonOf(t, crd))
		s.do(t, 200, "GET", "/apis/"+crd.Spec.Group+"/v1/"+crd.Spec.Names.Plural, nil)
	}
	after := schemas()
	for name, was := range before {
		if string(after[name]) != string(was) {
			t.Errorf("%s: got %s, want %s", name, tail(string(after[name]), 300), tail(string(was), 300))
		}
	}
	if got, want := len(after)-len(before), 2*6; got != want {
		t.Errorf("got %d schemas more, want %d: those of the kinds and of their lists", got, want)
	}
	if got := string(after["io.k8s.api.core.v1.SecretList_v2"]); !strings.Contains(got, "#/definitions/io.k8s.api.core.v1.Secret_v2") {
		t.Errorf("the list of custom resources refers to others: got %s", got)
	}
}
