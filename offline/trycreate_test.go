package offline

import (
	"reflect"
	"regexp"
	"strings"
	"testing"

	"github.com/keelson-io/keelson/internal/fastpath"
	"github.com/keelson-io/keelson/internal/manifest"
)

// triedKinds are kinds of which each create may take the fast path, or must not.
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

// openTried opens a server with the objects in a text.
func openTried(t testing.TB, text string) *Server {
	t.Helper()
	s, err := Open(t.Context())
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

// FuzzTryCreate compares the answers to creates by the fast path with those of the API.
func FuzzTryCreate(f *testing.F) {
	for i, text := range triedObjects {
		f.Add([]byte(text), uint8(i))
		f.Add([]byte(text), uint8(3*i+1))
		f.Add([]byte(text), uint8(i|8))
	}
	servers := map[bool]*Server{}
	for _, policies := range []bool{false, true} {
		text := triedKinds
		if policies {
			text += "---" + triedPolicies
		}
		servers[policies] = openTried(f, text)
	}
	f.Fuzz(func(t *testing.T, text []byte, how uint8) {
		docs := manifest.Split("test.json", text)
		if len(docs) != 1 {
			return
		}
		s := servers[how&1 != 0]
		r := Request{Operation: Create, Object: &docs[0], FieldValidation: []string{"Strict", "Warn", "Ignore", ""}[how>>1&3], VerdictOnly: how>>3&1 != 0}
		s.alwaysSend = true
		want, wantErr := s.Do(t.Context(), &r)
		s.alwaysSend = false
		got, gotErr := s.Do(t.Context(), &r)
		if (gotErr == nil) != (wantErr == nil) || gotErr != nil && gotErr.Error() != wantErr.Error() {
			t.Fatalf("%s: got error %v, the API has %v", text, gotErr, wantErr)
		}
		if want == nil || strings.Contains(string(text), "enerate") || strings.Contains(string(text), `\u`) { // a generated name is random
			return
		}
		// Both refusals are the API's, which may name invalid labels in any order.
		if want.Refusal != nil && got.Refusal != nil && want.Refusal.Code == got.Refusal.Code {
			return
		}
		if r.VerdictOnly && (want.Object != nil || got.Object != nil) {
			t.Fatalf("%s: got the objects %s and %s, want none", text, got.Object, want.Object)
		}
		maskRandom(want)
		maskRandom(got)
		if !reflect.DeepEqual(got, want) {
			t.Fatalf("%s:\n    got %+v %s\nthe API %+v %s", text, got, got.Object, want, want.Object)
		}
	})
}

// random matches what differs between two creates of one object: its UID and times.
var random = regexp.MustCompile(`"uid":"[0-9a-f-]{36}"|"(creationTimestamp|time)":"[^"]*"`)

func maskRandom(a *Answer) { a.Object = random.ReplaceAll(a.Object, []byte("$1")) }

// TestTryCreateIsTaken holds that the usual create takes the fast path.
func TestTryCreateIsTaken(t *testing.T) {
	fastpath.TryCreate.Need(t)
	s := openTried(t, triedKinds)
	for i, text := range triedObjects[:2] {
		q, err := s.prepare(&Request{Operation: Create, Object: document(t, text), FieldValidation: "Strict"})
		if err != nil {
			t.Fatal(err)
		}
		s.ensureNamespace(t.Context(), q)
		if !s.tryCreate(t.Context(), q) {
			t.Errorf("object %d: the fast path gives up", i)
		}
	}
}
