package gc_test

import (
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/rest"

	"github.com/keelson-io/keelson/internal/testkit"
	"github.com/keelson-io/keelson/servertest"
)

// rig is a server with all its controllers.
type rig struct {
	*testing.T
	base   string
	client *http.Client
}

func newRig(t *testing.T) *rig {
	t.Helper()
	s := servertest.Start(t)
	client, err := rest.HTTPClientFor(s.Config)
	if err != nil {
		t.Fatal(err)
	}
	r := &rig{t, s.Config.Host, client}
	r.define()
	return r
}

// define installs the kinds of the tests.
func (r *rig) define() {
	r.Helper()
	for _, scope := range []string{"Namespaced", "Cluster"} {
		name := map[string]string{"Namespaced": "node", "Cluster": "tree"}[scope]
		r.do(201, "POST", "/apis/apiextensions.k8s.io/v1/customresourcedefinitions", fmt.Sprintf(
			`{"apiVersion":"apiextensions.k8s.io/v1","kind":"CustomResourceDefinition","metadata":{"name":"%[1]ss.demo.io"},"spec":{"group":"demo.io","scope":%[2]q,
			"names":{"plural":"%[1]ss","kind":%[3]q},"versions":[{"name":"v1","served":true,"storage":true,"schema":{"openAPIV3Schema":{"type":"object"}}}]}}`,
			name, scope, strings.ToUpper(name[:1])+name[1:]))
		r.until(name+"s are served", func() bool { code, _ := r.try("GET", "/apis/demo.io/v1/"+name+"s", ""); return code == 200 })
	}
}

func (r *rig) try(method, path, body string) (int, []byte) {
	r.Helper()
	req, err := http.NewRequest(method, r.base+path, strings.NewReader(body))
	if err != nil {
		r.Fatal(err)
	}
	req.Header.Set("Content-Type", "application/json")
	if method == "PATCH" {
		req.Header.Set("Content-Type", "application/merge-patch+json")
	}
	resp, err := r.client.Do(req)
	if err != nil {
		r.Fatal(err)
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	if err != nil {
		r.Fatal(err)
	}
	return resp.StatusCode, b
}

func (r *rig) do(want int, method, path, body string) []byte {
	r.Helper()
	code, b := r.try(method, path, body)
	if code != want {
		r.Fatalf("%s %s: got %d, want %d: %s", method, path, code, want, b)
	}
	return b
}

func (r *rig) until(what string, ok func() bool) {
	r.Helper()
	testkit.Eventually(r, what, ok)
}

const nodes = "/apis/demo.io/v1/namespaces/default/nodes/"

// owner is a reference to a node.
func owner(name, uid string, more string) string {
	return fmt.Sprintf(`{"apiVersion":"demo.io/v1","kind":"Node","name":%q,"uid":%q%s}`, name, uid, more)
}

// node creates a node with owners, and returns its uid.
func (r *rig) node(name string, owners ...string) string {
	r.Helper()
	b := r.do(201, "POST", strings.TrimSuffix(nodes, "/"), fmt.Sprintf(`{"apiVersion":"demo.io/v1","kind":"Node","metadata":{"name":%q,"ownerReferences":[%s]}}`, name, strings.Join(owners, ",")))
	return r.metadata(b).UID
}

type metadata struct {
	UID             string
	Finalizers      []string
	OwnerReferences []struct {
		UID                string
		BlockOwnerDeletion bool
	}
	DeletionTimestamp string
}

func (r *rig) metadata(object []byte) metadata {
	r.Helper()
	var o struct{ Metadata metadata }
	if err := json.Unmarshal(object, &o); err != nil {
		r.Fatal(err)
	}
	return o.Metadata
}

// gone waits until nodes are gone.
func (r *rig) gone(names ...string) {
	r.Helper()
	for _, name := range names {
		r.until(name+" is gone", func() bool { code, _ := r.try("GET", nodes+name, ""); return code == 404 })
	}
}

// stays checks that a node is there and not going, after everything that was queued had its time.
func (r *rig) stays(names ...string) {
	r.Helper()
	last := r.node("last", owner("nobody", "never", "")) // goes after what was queued before it
	r.gone("last")
	_ = last
	for _, name := range names {
		if m := r.metadata(r.do(200, "GET", nodes+name, "")); m.DeletionTimestamp != "" {
			r.Errorf("%s is going", name)
		}
	}
}

const blocks = `,"blockOwnerDeletion":true`

func TestBackground(t *testing.T) {
	r := newRig(t)
	a := r.node("a")
	b := r.node("b", owner("a", a, ""))
	r.node("c", owner("b", b, blocks))
	other := r.node("other")
	r.node("both", owner("a", a, ""), owner("other", other, ""))
	r.node("free")
	r.stays("a", "b", "c", "both", "free")
	r.do(200, "DELETE", nodes+"a", "")
	r.gone("a", "b", "c")
	r.until("the dangling reference is taken out", func() bool {
		refs := r.metadata(r.do(200, "GET", nodes+"both", "")).OwnerReferences
		return len(refs) == 1 && refs[0].UID == other
	})
	r.stays("both", "free")
}

func TestOwnersThatAreNone(t *testing.T) {
	r := newRig(t)
	a := r.node("a")
	r.node("never", owner("missing", "1", ""))
	r.node("another", owner("a", "not "+a, ""))
	r.node("odd", `{"apiVersion":"nobody.io/v1","kind":"Odd","name":"x","uid":"2"}`)
	r.gone("never", "another")
	r.stays("a", "odd")
	// A cluster-scoped object with an owner in a namespace stays as it is, whether the owner is there or not: nothing can be found out
	// about such an owner. An event says so if it is somewhere.
	for name, refs := range map[string]string{"t": owner("a", a, ""), "v": owner("missing", "1", ""), "w": owner("missing", "1", "") + "," + owner("a", a, "")} {
		r.do(201, "POST", "/apis/demo.io/v1/trees", fmt.Sprintf(`{"apiVersion":"demo.io/v1","kind":"Tree","metadata":{"name":%q,"ownerReferences":[%s]}}`, name, refs))
	}
	r.stays("odd")
	for name, want := range map[string]int{"t": 1, "v": 1, "w": 2} {
		if refs := r.metadata(r.do(200, "GET", "/apis/demo.io/v1/trees/"+name, "")).OwnerReferences; len(refs) != want {
			t.Errorf("tree %s: got owners %v, want %d", name, refs, want)
		}
	}
	// The other way round it can.
	tree := r.metadata(r.do(201, "POST", "/apis/demo.io/v1/trees", `{"apiVersion":"demo.io/v1","kind":"Tree","metadata":{"name":"u"}}`)).UID
	r.node("leaf", fmt.Sprintf(`{"apiVersion":"demo.io/v1","kind":"Tree","name":"u","uid":%q}`, tree))
	r.stays("leaf")
	r.do(200, "DELETE", "/apis/demo.io/v1/trees/u", "")
	r.gone("leaf")
	// Nor has an owner dependents in another namespace, which an event says.
	r.do(201, "POST", "/api/v1/namespaces", `{"apiVersion":"v1","kind":"Namespace","metadata":{"name":"other"}}`)
	r.do(201, "POST", "/apis/demo.io/v1/namespaces/other/nodes", fmt.Sprintf(`{"apiVersion":"demo.io/v1","kind":"Node","metadata":{"name":"far","ownerReferences":[%s]}}`, owner("a", a, "")))
	r.until("the far one is gone", func() bool {
		code, _ := r.try("GET", "/apis/demo.io/v1/namespaces/other/nodes/far", "")
		return code == 404
	})
	var events corev1.EventList
	if err := json.Unmarshal(r.do(200, "GET", "/api/v1/events?fieldSelector=reason%3DOwnerRefInvalidNamespace", ""), &events); err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, e := range events.Items {
		if e.FirstTimestamp.IsZero() || !e.FirstTimestamp.Equal(&e.LastTimestamp) || e.Count != 1 || e.Type != "Warning" || !strings.HasPrefix(e.Name, e.InvolvedObject.Name+".") {
			t.Errorf("got %+v", e)
		}
		got = append(got, fmt.Sprint(e.Namespace, " ", e.InvolvedObject.APIVersion, " ", e.InvolvedObject.Kind, " ", e.InvolvedObject.Namespace, "/", e.InvolvedObject.Name, " ", e.Source, e.ReportingController, ": ", e.Message))
	}
	slices.Sort(got)
	want := []string{
		"default demo.io/v1 Tree /t {garbage-collector-controller }garbage-collector-controller: ownerRef [demo.io/v1/Node, namespace: , name: a, uid: " + a + `] does not exist in namespace ""`,
		"other demo.io/v1 Node other/far {garbage-collector-controller }garbage-collector-controller: ownerRef [demo.io/v1/Node, namespace: other, name: a, uid: " + a + `] does not exist in namespace "other"`,
	}
	if !slices.Equal(got, want) {
		t.Errorf("got\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}

// TestOwnersThatCannotBeRead holds that an object stays while nothing can be found out about its owner, and goes when it can, whatever
// happened to the object meanwhile.
func TestOwnersThatCannotBeRead(t *testing.T) {
	r := newRig(t)
	old := func(name, uid string) string {
		return fmt.Sprintf(`{"apiVersion":"demo.io/v0","kind":"Node","name":%q,"uid":%q}`, name, uid)
	}
	late := func(uid string) string {
		return fmt.Sprintf(`{"apiVersion":"late.io/v1","kind":"Late","name":"x","uid":%q}`, uid)
	}
	// The version of the first ones is not served.
	r.node("unserved", old("missing", "1"))
	a := r.node("a")
	r.node("ofa", old("a", a))
	// The kind of the others comes late. Two are changed before it comes.
	for _, name := range []string{"untouched", "labelled", "twice"} {
		r.node(name, late("2"))
	}
	r.do(201, "POST", "/apis/demo.io/v1/trees", fmt.Sprintf(`{"apiVersion":"demo.io/v1","kind":"Tree","metadata":{"name":"t","ownerReferences":[%s]}}`, late("2")))
	r.stays("unserved", "ofa", "untouched", "labelled", "twice")
	for i, name := range []string{"labelled", "twice", "twice"} {
		r.do(200, "PATCH", nodes+name, fmt.Sprintf(`{"metadata":{"labels":{"a":"%d"}}}`, i))
	}
	r.stays("labelled", "twice")
	r.do(201, "POST", "/apis/apiextensions.k8s.io/v1/customresourcedefinitions", `{"apiVersion":"apiextensions.k8s.io/v1","kind":"CustomResourceDefinition","metadata":{"name":"lates.late.io"},
		"spec":{"group":"late.io","scope":"Namespaced","names":{"plural":"lates","kind":"Late"},"versions":[{"name":"v1","served":true,"storage":true,"schema":{"openAPIV3Schema":{"type":"object"}}}]}}`)
	r.gone("untouched", "labelled", "twice")
	r.do(200, "GET", "/apis/demo.io/v1/trees/t", "") // which is in no namespace
	// Nor does it help that the owner is seen to go, in another version.
	r.stays("ofa")
	r.do(200, "DELETE", nodes+"a", "")
	r.gone("a")
	r.stays("ofa", "unserved")
}

// TestOwnersWhoseKindGoes holds that dependents go whose owner's kind goes while they cannot be deleted yet.
func TestOwnersWhoseKindGoes(t *testing.T) {
	r := newRig(t)
	tree := r.metadata(r.do(201, "POST", "/apis/demo.io/v1/trees", `{"apiVersion":"demo.io/v1","kind":"Tree","metadata":{"name":"u"}}`)).UID
	const policies = "/apis/admissionregistration.k8s.io/v1/validatingadmissionpolic"
	r.do(201, "POST", policies+"ies", `{"apiVersion":"admissionregistration.k8s.io/v1","kind":"ValidatingAdmissionPolicy","metadata":{"name":"p"},"spec":{
		"matchConstraints":{"resourceRules":[{"apiGroups":["demo.io"],"apiVersions":["v1"],"resources":["nodes"],"operations":["DELETE"]}]},"validations":[{"expression":"false"}]}}`)
	r.do(201, "POST", policies+"ybindings", `{"apiVersion":"admissionregistration.k8s.io/v1","kind":"ValidatingAdmissionPolicyBinding","metadata":{"name":"p"},"spec":{"policyName":"p","validationActions":["Deny"]}}`)
	r.node("probe")
	r.until("deletions are refused", func() bool { code, _ := r.try("DELETE", nodes+"probe?dryRun=All", ""); return code == 422 })
	for i := range 20 {
		r.node(fmt.Sprint("leaf", i), fmt.Sprintf(`{"apiVersion":"demo.io/v1","kind":"Tree","name":"u","uid":%q}`, tree))
	}
	r.do(200, "DELETE", "/apis/apiextensions.k8s.io/v1/customresourcedefinitions/trees.demo.io", "")
	r.until("trees are not served", func() bool { code, _ := r.try("GET", "/apis/demo.io/v1/trees", ""); return code == 404 })
	for i := range 20 {
		r.do(200, "PATCH", nodes+fmt.Sprint("leaf", i), `{"metadata":{"labels":{"a":"b"}}}`)
	}
	r.do(200, "DELETE", policies+"ybindings/p", "")
	for i := range 20 {
		r.gone(fmt.Sprint("leaf", i))
	}
}

// TestRepeatedEvents holds that what is told of an object again, because its deletion is refused, is counted in the event that there is.
func TestRepeatedEvents(t *testing.T) {
	r := newRig(t)
	a := r.node("a")
	const policies = "/apis/admissionregistration.k8s.io/v1/validatingadmissionpolic"
	r.do(201, "POST", "/api/v1/namespaces", `{"apiVersion":"v1","kind":"Namespace","metadata":{"name":"other"}}`)
	r.do(201, "POST", policies+"ies", `{"apiVersion":"admissionregistration.k8s.io/v1","kind":"ValidatingAdmissionPolicy","metadata":{"name":"stays"},"spec":{"validations":[{"expression":"false"}],
		"matchConstraints":{"resourceRules":[{"apiGroups":["demo.io"],"apiVersions":["v1"],"operations":["DELETE"],"resources":["nodes"]}]}}}`)
	r.do(201, "POST", policies+"ybindings", `{"apiVersion":"admissionregistration.k8s.io/v1","kind":"ValidatingAdmissionPolicyBinding","metadata":{"name":"stays"},"spec":{"policyName":"stays","validationActions":["Deny"]}}`)
	r.until("nodes stay", func() bool { code, _ := r.try("DELETE", nodes+"a?dryRun=All", ""); return code == 422 })
	r.do(201, "POST", "/apis/demo.io/v1/namespaces/other/nodes", fmt.Sprintf(`{"apiVersion":"demo.io/v1","kind":"Node","metadata":{"name":"far","ownerReferences":[%s]}}`, owner("a", a, "")))
	var events corev1.EventList
	list := func() []corev1.Event {
		events.Items = nil
		if err := json.Unmarshal(r.do(200, "GET", "/api/v1/namespaces/other/events", ""), &events); err != nil {
			t.Fatal(err)
		}
		return events.Items
	}
	r.until("the event is counted", func() bool { all := list(); return len(all) > 0 && all[0].Count > 2 })
	if all := list(); len(all) != 1 || all[0].LastTimestamp.Before(&all[0].FirstTimestamp) || !strings.Contains(all[0].Message, "does not exist in namespace") {
		t.Errorf("got %+v", all)
	}
	// One that has gone meanwhile is told anew.
	r.do(200, "DELETE", "/api/v1/namespaces/other/events/"+events.Items[0].Name, "")
	r.until("the event is back", func() bool { all := list(); return len(all) == 1 && all[0].Count > 3 })
	r.do(200, "DELETE", policies+"ybindings/stays", "")
	r.until("the far one is gone", func() bool {
		code, _ := r.try("GET", "/apis/demo.io/v1/namespaces/other/nodes/far", "")
		return code == 404
	})
}

func TestForeground(t *testing.T) {
	r := newRig(t)
	a := r.node("a")
	b := r.node("b", owner("a", a, blocks))
	r.node("c", owner("b", b, blocks))
	r.node("d", owner("a", a, ""))
	r.do(200, "PATCH", nodes+"c", `{"metadata":{"finalizers":["demo.io/hold"]}}`)
	r.do(200, "DELETE", nodes+"a", `{"propagationPolicy":"Foreground"}`)
	r.gone("d")
	r.until("c is going", func() bool { return r.metadata(r.do(200, "GET", nodes+"c", "")).DeletionTimestamp != "" })
	for _, name := range []string{"a", "b"} {
		if m := r.metadata(r.do(200, "GET", nodes+name, "")); len(m.Finalizers) != 1 || m.Finalizers[0] != "foregroundDeletion" {
			t.Errorf("%s: got finalizers %q", name, m.Finalizers)
		}
	}
	r.do(200, "PATCH", nodes+"c", `{"metadata":{"finalizers":null}}`)
	r.gone("c", "b", "a")
}

// TestForeignReferencesHoldNothing checks that an owner is deleted in the foreground, or orphans its dependents, beside objects that have
// its uid in a blocking reference, but cannot have this owner. A second owner of an unknown kind keeps these objects from being deleted.
// Ledger: foreign-dependents.
func TestForeignReferencesHoldNothing(t *testing.T) {
	r := newRig(t)
	r.do(201, "POST", "/api/v1/namespaces", `{"apiVersion":"v1","kind":"Namespace","metadata":{"name":"other"}}`)
	const far = "/apis/demo.io/v1/namespaces/other/nodes"
	near, trees := strings.TrimSuffix(nodes, "/"), "/apis/demo.io/v1/trees"
	for i, foreign := range []struct{ collection, kind, apiVersion, owner, name string }{
		{far, "Node", "demo.io/v1", "Node", ""},         // in another namespace
		{far, "Node", "demo.io/v9", "Node", ""},         // and by a version that is not served
		{far, "Node", "nobody.io/v1", "Node", ""},       // of an unknown group
		{far, "Node", "demo.io/v1", "Odd", ""},          // of an unknown kind
		{far, "Node", "demo.io/v1", "Tree", ""},         // of another kind
		{near, "Node", "nobody.io/v1", "Node", ""},      // in the same namespace
		{near, "Node", "demo.io/v1", "Node", "other"},   // with another name
		{trees, "Tree", "demo.io/v1", "Node", ""},       // without a namespace
		{trees, "Tree", "nobody.io/v1", "Whatever", ""}, // and of an unknown group
	} {
		for _, policy := range []string{"Foreground", "Orphan"} {
			name := fmt.Sprintf("%s-%d", strings.ToLower(policy), i)
			uid := r.node(name)
			r.node("own-"+name, owner(name, uid, blocks))
			object := foreign.collection + "/foreign-" + name
			r.do(201, "POST", foreign.collection, fmt.Sprintf(`{"apiVersion":"demo.io/v1","kind":%q,"metadata":{"name":"foreign-%s","finalizers":["demo.io/hold"],"ownerReferences":[
				{"apiVersion":%q,"kind":%q,"name":%q,"uid":%q,"blockOwnerDeletion":true},{"apiVersion":"nobody.io/v1","kind":"Odd","name":"x","uid":"2"}]}}`,
				foreign.kind, name, foreign.apiVersion, foreign.owner, cmp.Or(foreign.name, name), uid))
			r.do(200, "DELETE", nodes+name, fmt.Sprintf(`{"propagationPolicy":%q}`, policy))
			r.gone(name)
			if m := r.metadata(r.do(200, "GET", object, "")); len(m.OwnerReferences) != 2 || m.DeletionTimestamp != "" {
				t.Errorf("%+v, %s: the object has %d owners and is deleted %q; want 2 owners, and no deletion", foreign, policy, len(m.OwnerReferences), m.DeletionTimestamp)
			}
		}
	}
}

// TestForegroundBesideAnother holds that an owner that waits for its dependents does not take those with it that have another owner.
func TestForegroundBesideAnother(t *testing.T) {
	r := newRig(t)
	a, other := r.node("a"), r.node("other")
	r.node("both", owner("a", a, blocks), owner("other", other, ""))
	r.node("own", owner("a", a, blocks))
	r.do(200, "DELETE", nodes+"a", `{"propagationPolicy":"Foreground"}`)
	r.gone("own", "a")
	if refs := r.metadata(r.do(200, "GET", nodes+"both", "")).OwnerReferences; len(refs) != 1 || refs[0].UID != other {
		t.Errorf("got owners %v, want %s alone", refs, other)
	}
	r.stays("both", "other")
}

func TestForegroundOfACircle(t *testing.T) {
	r := newRig(t)
	a := r.node("a")
	b := r.node("b", owner("a", a, blocks))
	r.do(200, "PATCH", nodes+"a", fmt.Sprintf(`{"metadata":{"ownerReferences":[%s]}}`, owner("b", b, blocks)))
	r.do(200, "DELETE", nodes+"a", `{"propagationPolicy":"Foreground"}`)
	r.gone("a", "b")
}

func TestOrphan(t *testing.T) {
	r := newRig(t)
	a := r.node("a")
	b := r.node("b", owner("a", a, blocks))
	r.node("c", owner("b", b, ""))
	r.do(200, "DELETE", nodes+"a?propagationPolicy=Orphan", "")
	r.gone("a")
	if m := r.metadata(r.do(200, "GET", nodes+"b", "")); len(m.OwnerReferences) != 0 {
		t.Errorf("b: got owners %v", m.OwnerReferences)
	}
	r.stays("b", "c")
}

func TestManyDependents(t *testing.T) {
	r := newRig(t)
	a := r.node("a")
	var names []string
	for i := range 200 {
		names = append(names, fmt.Sprint("dep-", i))
		r.node(names[i], owner("a", a, blocks))
	}
	r.do(200, "DELETE", nodes+"a", `{"propagationPolicy":"Foreground"}`)
	r.gone(append(names, "a")...)
}

// TestOrphansBesideOneThatCannotBeChanged holds that a dependent that a policy protects does not keep the owner's references in the others,
// and that the owner goes as soon as the dependent can be changed.
func TestOrphansBesideOneThatCannotBeChanged(t *testing.T) {
	r := newRig(t)
	r.do(201, "POST", "/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicies", `{"apiVersion":"admissionregistration.k8s.io/v1","kind":"ValidatingAdmissionPolicy","metadata":{"name":"frozen"},"spec":{
		"matchConstraints":{"resourceRules":[{"operations":["UPDATE"],"apiGroups":["demo.io"],"apiVersions":["v1"],"resources":["nodes"]}]},
		"validations":[{"expression":"object.metadata.name != 'frozen' || has(object.metadata.labels)"}]}}`)
	r.do(201, "POST", "/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicybindings",
		`{"apiVersion":"admissionregistration.k8s.io/v1","kind":"ValidatingAdmissionPolicyBinding","metadata":{"name":"frozen"},"spec":{"policyName":"frozen","validationActions":["Deny"]}}`)
	a := r.node("a")
	r.node("frozen", owner("a", a, ""))
	r.node("later", owner("a", a, "")) // it comes after the other one
	r.until("the policy refuses", func() bool {
		code, _ := r.try("PATCH", nodes+"frozen?dryRun=All", `{"spec":{}}`)
		return code == 422
	})
	r.do(200, "DELETE", nodes+"a", `{"apiVersion":"v1","kind":"DeleteOptions","propagationPolicy":"Orphan"}`)
	r.until("the other one is free", func() bool { return len(r.metadata(r.do(200, "GET", nodes+"later", "")).OwnerReferences) == 0 })
	r.stays("frozen", "later")
	r.do(200, "PATCH", nodes+"frozen", `{"metadata":{"labels":{"a":"b"}}}`)
	r.gone("a")
	r.stays("frozen", "later")
	if refs := r.metadata(r.do(200, "GET", nodes+"frozen", "")).OwnerReferences; len(refs) != 0 {
		t.Errorf("got owners %v, want none", refs)
	}
}
