package offline_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	utilnet "k8s.io/apimachinery/pkg/util/net"
	"k8s.io/client-go/rest"

	"github.com/keelson-io/keelson/internal/manifest"
	"github.com/keelson-io/keelson/internal/testkit"
	"github.com/keelson-io/keelson/offline"
	"github.com/keelson-io/keelson/servertest"
)

// This file compares answers with those of a server over HTTP.

// triedKinds are kinds with defaults, rules, and deprecated versions.
const triedKinds = `
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: boats.example.com}
spec:
  group: example.com
  scope: Namespaced
  names: {plural: boats, singular: boat, kind: Boat, listKind: BoatList}
  versions:
  - name: v1
    served: true
    storage: true
    subresources: {status: {}}
    schema:
      openAPIV3Schema:
        type: object
        required: [spec]
        properties:
          spec:
            type: object
            properties:
              masts: {type: integer, minimum: 1, maximum: 9, default: 1}
              name: {type: string, maxLength: 10, pattern: "^[a-z]*$"}
              sails: {type: array, maxItems: 50, x-kubernetes-list-type: set, items: {type: string}}
              cargo: {type: object, x-kubernetes-preserve-unknown-fields: true}
              length: {x-kubernetes-int-or-string: true}
            x-kubernetes-validations:
            - {rule: "!has(self.sails) || size(self.sails) <= self.masts * 3", message: too many sails}
          status: {type: object, x-kubernetes-preserve-unknown-fields: true}
  - {name: v1old, served: true, storage: false, deprecated: true, schema: {openAPIV3Schema: {type: object, x-kubernetes-preserve-unknown-fields: true}}}
  - {name: v0, served: true, storage: false, schema: {openAPIV3Schema: {type: object, x-kubernetes-preserve-unknown-fields: true}}}
---
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: harbors.example.com}
spec:
  group: example.com
  scope: Cluster
  names: {plural: harbors, singular: harbor, kind: Harbor, listKind: HarborList}
  versions:
  - {name: v1, served: true, storage: true, schema: {openAPIV3Schema: {type: object, x-kubernetes-preserve-unknown-fields: true}}}
`

// triedPolicies deny, warn, annotate, and ask what users may do.
const triedPolicies = `
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicy
metadata: {name: boats.example.com}
spec:
  matchConstraints: {resourceRules: [{apiGroups: [example.com], apiVersions: ["*"], operations: [CREATE], resources: [boats]}]}
  matchConditions: [{name: labelled, expression: "has(object.metadata.labels) && 'policy' in object.metadata.labels"}]
  validations:
  - {expression: "object.metadata.labels.policy != 'deny'", message: denied}
  - {expression: "object.metadata.labels.policy != 'ask' || authorizer.group('').resource('pods').check('get').allowed()"}
  - {expression: "object.metadata.managedFields.all(m, m.manager == 'keelson') && request.userInfo.username != ''"}
  auditAnnotations: [{key: note, valueExpression: "object.metadata.labels.policy == 'note' ? 'noted' : ''"}]
---
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicyBinding
metadata: {name: boats.example.com}
spec: {policyName: boats.example.com, validationActions: [Warn, Audit]}
---
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicyBinding
metadata: {name: denied.example.com}
spec: {policyName: boats.example.com, validationActions: [Deny], matchResources: {namespaceSelector: {matchLabels: {kubernetes.io/metadata.name: strict}}}}
`

// triedObjects are seeds: objects in JSON that are accepted, warned of, and refused.
var triedObjects = []string{
	`{"apiVersion":"example.com/v1","kind":"Boat","metadata":{"name":"a"},"spec":{"masts":2,"sails":["x","y"],"length":"5m","cargo":{"a":[1,2.5,null]}}}`,
	`{"apiVersion":"example.com/v1","kind":"Boat","metadata":{"name":"a","namespace":"b","labels":{"x":"y"},"annotations":{"x":"y"}},"spec":{"name":"abc"},"status":{"a":1}}`,
	`{"apiVersion":"example.com/v1","kind":"Boat","metadata":{"name":"a","namespace":"b/c"},"spec":{}}`,
	`{"apiVersion":"example.com/v1","kind":"Boat","metadata":{"name":"a","namespace":".."},"spec":{}}`,
	`{"apiVersion":"example.com/v1","kind":"Boat","metadata":{"name":"A"},"spec":{"masts":0}}`,
	`{"apiVersion":"example.com/v1","kind":"Boat","metadata":{"name":"a"},"spec":{"sails":["a","b","c","d"]}}`,
	`{"apiVersion":"example.com/v1","kind":"Boat","metadata":{"name":"a"},"spec":{"unknown":1,"masts":2,"masts":3}}`,
	`{"apiVersion":"example.com/v1","kind":"Boat","metadata":{"name":"a","unknown":1},"spec":{"masts":"2"}}`,
	`{"apiVersion":"example.com/v1","kind":"Boat","metadata":{"generateName":"a-"},"spec":{}}`,
	`{"apiVersion":"example.com/v1","kind":"Boat","metadata":{"name":"a","resourceVersion":"1","uid":"b","generation":5,"selfLink":"x","deletionTimestamp":"2020-01-01T00:00:00Z"},"spec":{}}`,
	`{"apiVersion":"example.com/v1","kind":"Boat","metadata":{"name":"a","finalizers":["a"],"ownerReferences":[{"apiVersion":"v1","kind":"Pod","name":"a","uid":"b"},{"apiVersion":"v1","kind":"Pod","name":"a","uid":"b"}]},"spec":{}}`,
	`{"apiVersion":"example.com/v1","kind":"Boat","metadata":{"name":"a","managedFields":[{"manager":"m","operation":"Apply","apiVersion":"example.com/v1","fieldsType":"FieldsV1","fieldsV1":{"f:spec":{}}}]},"spec":{}}`,
	`{"apiVersion":"example.com/v1","kind":"Boat","metadata":{"name":"a","managedFields":[{"manager":"m","operation":"x"}]},"spec":{}}`,
	`{"apiVersion":"example.com/v1","kind":"Boat","metadata":{"name":"a","labels":{"policy":"deny"}},"spec":{}}`,
	`{"apiVersion":"example.com/v1","kind":"Boat","metadata":{"name":"a","namespace":"strict","labels":{"policy":"deny"}},"spec":{}}`,
	`{"apiVersion":"example.com/v1","kind":"Boat","metadata":{"name":"a","labels":{"policy":"ask"}},"spec":{}}`,
	`{"apiVersion":"example.com/v1","kind":"Boat","metadata":{"name":"a","labels":{"policy":"note"}},"spec":{}}`,
	`{"apiVersion":"example.com/v1","kind":"Boat","metadata":{"name":"a","labels":{"policy":"none","x":"-"}},"spec":{}}`,
	`{"apiVersion":"example.com/v1old","kind":"Boat","metadata":{"name":"a"}}`,
	`{"apiVersion":"example.com/v0","kind":"Boat","metadata":{"name":"a"},"spec":{"a":1}}`,
	`{"apiVersion":"example.com/v0","kind":"Boat","metadata":{"name":"a","creationTimestamp":null},"spec":{"name":"0123456789"}}`,
	`{"apiVersion":"example.com/v1","kind":"Harbor","metadata":{"name":"a"},"free":{"b":[{}]}}`,
	`{"apiVersion":"example.com/v1","kind":"Harbor","metadata":{"name":"a","namespace":"b"}}`,
	`{"apiVersion":"example.com/v1","kind":"Harbor","metadata":{"name":"a\/b"}}`,
	`{"apiVersion":"example.com/v1","kind":"Harbor"}`,
	`{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"a"},"data":{"a":"b"}}`,
}

// open opens a server with the objects in a text.
func open(t testing.TB, text string) *offline.Server {
	t.Helper()
	s, err := offline.Open(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	refused, _, err := s.Add(t.Context(), manifest.Split("kinds", []byte(text)))
	for _, r := range refused {
		t.Errorf("refused: %s", r.Answer.Refusal.Message)
	}
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// served is a server to ask over HTTP.
type served struct {
	base   string
	client *http.Client
}

// serve starts a server with the objects in a text, which are namespaces, definitions and policies, and namespaces for others.
func serve(t testing.TB, text string, namespaces ...string) *served {
	t.Helper()
	s := servertest.Start(t, servertest.Controllers())
	client, err := rest.HTTPClientFor(s.Config)
	if err != nil {
		t.Fatal(err)
	}
	out := &served{s.Config.Host, client}
	for _, name := range namespaces {
		text += fmt.Sprintf("---\napiVersion: v1\nkind: Namespace\nmetadata: {name: %s}\n", name)
	}
	paths := map[string]string{
		"Namespace": "/api/v1/namespaces", "CustomResourceDefinition": "/apis/apiextensions.k8s.io/v1/customresourcedefinitions",
		"ValidatingAdmissionPolicy":        "/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicies",
		"ValidatingAdmissionPolicyBinding": "/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicybindings",
	}
	for _, d := range manifest.Split("kinds", []byte(text)) {
		if a := out.post(t, paths[offline.KindOf(d).Kind], d.JSON); a.Refusal != nil {
			t.Fatalf("%s: %s", d, a.Refusal.Message)
		}
	}
	return out
}

// post makes a request, and returns the answer as package offline has it.
func (s *served) post(t testing.TB, path string, body []byte) *offline.Answer {
	t.Helper()
	r, err := http.NewRequest(http.MethodPost, s.base+path, bytes.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	r.Header = http.Header{"Content-Type": {"application/json"}, "User-Agent": {"keelson"}}
	resp, err := s.client.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	answer, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	a := new(offline.Answer)
	warnings, _ := utilnet.ParseWarningHeaders(resp.Header["Warning"])
	for _, w := range warnings {
		a.Warnings = append(a.Warnings, w.Text)
	}
	if resp.StatusCode < 400 {
		a.Object = answer
		return a
	}
	a.Refusal = new(metav1.Status)
	if err := json.Unmarshal(answer, a.Refusal); err != nil {
		t.Fatalf("%s: %v", answer, err)
	}
	return a
}

// pathOf returns the path to create an object of an answer.
func pathOf(a *offline.Answer, validation string) string {
	path := "/apis/" + a.Version.APIVersion()
	if a.Version.Kind.Group == "" {
		path = "/api/" + a.Version.Name
	}
	if a.Namespace != "" {
		path += "/namespaces/" + a.Namespace
	}
	query := url.Values{"dryRun": {"All"}}
	if validation != "" {
		query.Set("fieldValidation", validation)
	}
	return path + "/" + a.Version.Kind.Plural + "?" + query.Encode()
}

// random matches what differs between two creates of one object: its UID and times.
var random = regexp.MustCompile(`"uid":"[0-9a-f-]{36}"|"(creationTimestamp|time)":"[^"]*"`)

// same reports whether two answers say the same. Invalid labels are named in any order.
func same(a, b *offline.Answer) bool {
	if a.Refusal != nil && b.Refusal != nil {
		return a.Refusal.Code == b.Refusal.Code && a.Refusal.Reason == b.Refusal.Reason && len(a.Refusal.Message) == len(b.Refusal.Message)
	}
	return reflect.DeepEqual(a.Refusal, b.Refusal) && slices.Equal(a.Warnings, b.Warnings) &&
		bytes.Equal(random.ReplaceAll(a.Object, []byte("$1")), random.ReplaceAll(b.Object, []byte("$1")))
}

// FuzzAgainstServer compares the answers to creates with those of a server.
func FuzzAgainstServer(f *testing.F) {
	for i, text := range triedObjects {
		f.Add([]byte(text), uint8(i))
		f.Add([]byte(text), uint8(3*i+1))
		f.Add([]byte(text), uint8(i|8))
	}
	type pair struct {
		offline *offline.Server
		server  *served
	}
	pairs := map[bool]pair{}
	for _, policies := range []bool{false, true} {
		text := triedKinds
		if policies {
			text += "---" + triedPolicies
		}
		pairs[policies] = pair{open(f, text), serve(f, text, "b", "strict")}
	}
	testkit.Eventually(f, "the policies decide", func() bool {
		return pairs[true].server.post(f, "/apis/example.com/v1/namespaces/strict/boats?dryRun=All", []byte(triedObjects[14])).Refusal != nil
	})
	f.Fuzz(func(t *testing.T, text []byte, how uint8) {
		docs := manifest.Split("test.json", text)
		if len(docs) != 1 || strings.Contains(string(text), "enerate") || strings.Contains(string(text), `\u`) { // a generated name is random
			return
		}
		p, validation := pairs[how&1 != 0], []string{"Strict", "Warn", "Ignore", ""}[how>>1&3]
		got, err := p.offline.Do(t.Context(), &offline.Request{Operation: offline.Create, Object: &docs[0], FieldValidation: validation})
		if err != nil || got.Namespace != "" && !slices.Contains([]string{"default", "b", "strict"}, got.Namespace) {
			return // what users may do is known to the server, and only its namespaces exist
		}
		if want := p.server.post(t, pathOf(got, validation), docs[0].JSON); !same(got, want) {
			t.Fatalf("%s:\n    got %+v %s\n%+v\nthe API %+v %s\n%+v", text, got, got.Object, got.Refusal, want, want.Object, want.Refusal)
		}
	})
}

// TestAtOnce holds that requests at the same time get the answers that they get one after the other.
func TestAtOnce(t *testing.T) {
	s := open(t, triedKinds+"---"+triedPolicies)
	boat := func(spec string) *offline.Document {
		return &manifest.Split("boat", []byte(`{"apiVersion":"example.com/v1","kind":"Boat","metadata":{"name":"a","namespace":"b","labels":{"policy":"note"}},"spec":`+spec+`}`))[0]
	}
	requests := []struct {
		r    offline.Request
		want string
	}{
		{offline.Request{Object: boat(`{"masts":2}`)}, `<nil> [] noted`},
		{offline.Request{Object: boat(`{"masts":0}`)}, `Boat.example.com "a" is invalid: spec.masts: Invalid value: 0: spec.masts in body should be greater than or equal to 1 [] `},
		{offline.Request{Object: boat(`{"mast":1}`)}, `<nil> [unknown field "spec.mast"] noted`},
		{offline.Request{Object: boat(`{"masts":2}`), Old: boat(`{"masts":0}`)}, `<nil> [] `},
		{offline.Request{Object: boat(`{"masts":0}`), Old: boat(`{"masts":0,"name":"x"}`)}, `<nil> [] `},
		{offline.Request{Operation: offline.Delete, Object: boat(`{"masts":0}`)}, `<nil> [] `},
	}
	var all sync.WaitGroup
	for range 4 {
		for i := range requests {
			all.Go(func() {
				for range 20 {
					a, err := s.Do(t.Context(), &requests[i].r)
					if err != nil {
						t.Error(err)
						return
					}
					refusal := "<nil>"
					if a.Refusal != nil {
						refusal = a.Refusal.Message
					}
					if got := fmt.Sprint(refusal, " ", a.Warnings, " ", a.Annotations["boats.example.com/note"]); got != requests[i].want {
						t.Errorf("request %d: got %s, want %s", i, got, requests[i].want)
						return
					}
				}
			})
		}
	}
	all.Wait()
}

// TestReviews holds that reviews are checked, which a server answers and does not store.
func TestReviews(t *testing.T) {
	s := open(t, triedKinds)
	for text, want := range map[string]string{
		`{apiVersion: authorization.k8s.io/v1, kind: SubjectAccessReview, spec: {user: jane, nonResourceAttributes: {path: /x, verb: get}}}`:                                                 "",
		`{apiVersion: authorization.k8s.io/v1, kind: SubjectAccessReview, spec: {user: jane}}`:                                                                                               "exactly one of nonResourceAttributes or resourceAttributes must be specified",
		`{apiVersion: authorization.k8s.io/v1, kind: LocalSubjectAccessReview, metadata: {namespace: b}, spec: {user: jane, resourceAttributes: {namespace: c, verb: get, resource: pods}}}`: "must match metadata.namespace",
		`{apiVersion: authorization.k8s.io/v1, kind: SelfSubjectRulesReview, spec: {}}`:                                                                                                      "no namespace on request",
		`{apiVersion: authentication.k8s.io/v1, kind: TokenReview, spec: {}}`:                                                                                                                "token is required",
		`{apiVersion: authentication.k8s.io/v1, kind: SelfSubjectReview}`:                                                                                                                    "",
		`{apiVersion: v1, kind: Binding, metadata: {name: p}, target: {name: node-1}}`:                                                                                                       "cannot be checked offline",
	} {
		a, err := s.Do(t.Context(), &offline.Request{Object: &manifest.Split("review", []byte(text))[0]})
		switch {
		case err != nil:
			t.Errorf("%s: %v", text, err)
		case (a.Refusal == nil) != (want == ""), a.Refusal != nil && !strings.Contains(a.Refusal.Message, want):
			t.Errorf("%s: got %+v, want %q", text, a.Refusal, want)
		}
	}
}
