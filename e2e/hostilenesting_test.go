package e2e

import (
	"bytes"
	"encoding/base64"
	"encoding/binary"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"
)

// This file sends deeply nested and self-overlapping input to every decoder.

const (
	protobufType  = "application/vnd.kubernetes.protobuf"
	strategicType = "application/strategic-merge-patch+json"
	mergeType     = "application/merge-patch+json"
	patchType     = "application/json-patch+json"
	applyType     = "application/apply-patch+yaml"

	definitionsPath = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
)

// backwards is a protobuf message that is written from its end, as the lengths of what is inside come first.
type backwards []byte

func (b *backwards) put(head []byte) {
	for i := len(head) - 1; i >= 0; i-- {
		*b = append(*b, head[i])
	}
}

// wrap makes the message so far the value of a field.
func (b *backwards) wrap(numbers ...int) {
	for _, number := range numbers {
		head := binary.AppendUvarint(nil, uint64(number)<<3|2)
		b.put(binary.AppendUvarint(head, uint64(len(*b))))
	}
}

// object is the message in the envelope of an object.
func (b *backwards) object(apiVersion, kind string) []byte {
	b.wrap(2)
	meta := append([]byte{1<<3 | 2, byte(len(apiVersion))}, apiVersion...)
	meta = append(append(meta, 2<<3|2, byte(len(kind))), kind...)
	b.put(append([]byte{1<<3 | 2, byte(len(meta))}, meta...))
	b.put([]byte("k8s\x00"))
	slices.Reverse(*b)
	return *b
}

// deepDefinition is a definition of 500,000 schemas in one another, in protobuf.
func deepDefinition() []byte {
	var b backwards
	for range 500_000 {
		b.wrap(28) // not
	}
	b.wrap(1, 4, 7, 2)
	return b.object("apiextensions.k8s.io/v1", "CustomResourceDefinition")
}

// overlappingLabels is a ConfigMap of which each label goes on to the end of the metadata: 1 MB that stands for 100 GB.
func overlappingLabels() []byte {
	var b backwards
	b.put(make([]byte, 500_000))
	for range 50_000 {
		value := binary.AppendUvarint([]byte{2<<3 | 2}, uint64(len(b)))
		b.put(append([]byte{11<<3 | 2, byte(len(value))}, value...))
	}
	b.wrap(1)
	return b.object("v1", "ConfigMap")
}

// doublingProperties is a definition of which each property goes on to the end of the schema, so that it is decoded 2^60 times.
func doublingProperties() []byte {
	var b backwards
	for range 60 {
		value := binary.AppendUvarint([]byte{2<<3 | 2}, uint64(len(b)))
		b.put(append([]byte{0xea, 1, byte(len(value))}, value...))
	}
	b.wrap(1, 4, 7, 2)
	return b.object("apiextensions.k8s.io/v1", "CustomResourceDefinition")
}

// emptyContainers is a Pod of a million containers of two bytes each.
func emptyContainers() []byte {
	b := backwards(bytes.Repeat([]byte{0, 2<<3 | 2}, 1_000_000))
	b.wrap(2)
	return b.object("v1", "Pod")
}

// deepSchema is a definition whose schema has levels in one another.
func deepSchema(n int, open, leaf, end string) []byte {
	return []byte(`{"apiVersion":"apiextensions.k8s.io/v1","kind":"CustomResourceDefinition","metadata":{"name":"deeps.demo.example.org"},"spec":{` +
		`"group":"demo.example.org","scope":"Cluster","names":{"plural":"deeps","kind":"Deep","singular":"deep","listKind":"DeepList"},` +
		`"versions":[{"name":"v1","served":true,"storage":true,"schema":{"openAPIV3Schema":{"type":"object","unknown":1,"properties":{"a":` +
		strings.Repeat(open, n) + leaf + strings.Repeat(end, n) + `}}}}]}}`)
}

// Ledger: deep-definitions.
func TestDeepDefinitions(t *testing.T) {
	s := startServer(t)
	long := `{"type":"string","description":"` + strings.Repeat("x", 1_000_000) + `"}`
	before := s.peakMemory(t)
	for _, c := range []struct {
		name, method, path, media string
		body                      []byte
		want                      string
	}{
		{"protobuf", "POST", definitionsPath, protobufType, deepDefinition(), "got more than 2000 messages in one another"},
		{"protobuf, dry run", "POST", definitionsPath + "?dryRun=All", protobufType, deepDefinition(), "got more than 2000 messages in one another"},
		{"protobuf, update", "PUT", definitionsPath + "/deeps.demo.example.org", protobufType, deepDefinition(), "got more than 2000 messages in one another"},
		{"protobuf, status", "PUT", definitionsPath + "/deeps.demo.example.org/status", protobufType, deepDefinition(), "got more than 2000 messages in one another"},
		{"properties that double", "POST", definitionsPath, protobufType, doublingProperties(), "unexpected EOF"},
		{"labels that overlap", "POST", "/api/v1/namespaces/default/configmaps", protobufType, overlappingLabels(), "unexpected EOF"},
		{"empty containers", "POST", "/api/v1/namespaces/default/pods", protobufType, emptyContainers(), "bytes of memory"},
		{"dependencies", "POST", definitionsPath, "", deepSchema(4900, `{"dependencies":{"a":`, "{}", "}}"), "more than 1000 levels"},
		{"items", "POST", definitionsPath, "", deepSchema(9800, `{"type":"array","items":`, "{}", "}"), "more than 1000 levels"},
		{"items around a long text", "POST", definitionsPath, "", deepSchema(900, `{"type":"array","items":`, long, "}"), "counted once for each such level"},
		{"items, applied", "PATCH", definitionsPath + "/deeps.demo.example.org?fieldManager=x", applyType, bytes.Replace(deepSchema(9800, `{"type":"array","items":`, "{}", "}"), []byte(`"unknown":1,`), nil, 1), "more than 1000 levels"},
	} {
		began := time.Now()
		code, b, err := s.try(c.method, c.path, c.body, header(c.media)...)
		if err != nil || code != http.StatusBadRequest || !strings.Contains(string(b), c.want) {
			t.Errorf("%s: got %d, %v, %s, want 400 with %q in it", c.name, code, err, tail(string(b), 300), c.want)
		}
		if took := time.Since(began); took > 20*time.Second { // half a second; it was minutes
			t.Errorf("%s: answered within %v", c.name, took)
		}
	}
	if grown := s.peakMemory(t) - before; grown > 512<<20 {
		t.Errorf("peak memory grew by %d MiB", grown>>20)
	}
	s.do(t, http.StatusCreated, "POST", definitionsPath, deepSchema(300, `{"type":"object","properties":{"a":`, `{"type":"string"}`, "}}"))
	for _, form := range []string{"application/json", protobufType} {
		s.do(t, http.StatusOK, "GET", definitionsPath+"/deeps.demo.example.org", nil, "Accept", form)
	}
}

func header(media string) []string {
	if media == "" {
		return nil
	}
	return []string{"Content-Type", media}
}

// TestHostileDirectives sends directives of strategic merge patches with values of wrong types.
// Ledger: hostile-directives.
func TestHostileDirectives(t *testing.T) {
	s := startServer(t)
	const secrets = "/api/v1/namespaces/default/secrets"
	s.do(t, http.StatusCreated, "POST", secrets, []byte(`{"apiVersion":"v1","kind":"Secret","metadata":{"name":"s","finalizers":["a.example.org/b"]},"data":{"k":"dg=="}}`))
	values := []string{`1`, `"x"`, `null`, `{}`, `{"a":1}`, `[1]`, `[null]`, `["k"]`, `[[]]`, `[{}]`, `[{"a":{}}]`, `[1,null,{}]`}
	for _, key := range []string{"$patch", "$retainKeys", "$setElementOrder/", "$setElementOrder/k", "$setElementOrder/finalizers",
		"$setElementOrder/ownerReferences", "$deleteFromPrimitiveList/k", "$deleteFromPrimitiveList/finalizers"} {
		for _, value := range values {
			for _, patch := range []string{`{%q:%s}`, `{"metadata":{%q:%s}}`, `{"metadata":{"finalizers":["c.example.org/d"],%q:%s}}`, `{"data":{%q:%s}}`,
				`{"metadata":{"ownerReferences":[{"uid":"1",%q:%s}]}}`} {
				patch = fmt.Sprintf(patch, key, value)
				code, b, err := s.try("PATCH", secrets+"/s?dryRun=All", []byte(patch), "Content-Type", strategicType)
				if err != nil || code >= 500 || strings.Contains(string(b), "panic") {
					t.Errorf("%s: got %d, %v, %s", patch, code, err, tail(string(b), 300))
				}
			}
		}
	}
	for _, patch := range []string{`{"$retainKeys":[{}]}`, `{"data":{"$retainKeys":[{}]}}`, `{"metadata":{"$setElementOrder/finalizers":[{}]}}`} {
		b := s.do(t, http.StatusBadRequest, "PATCH", secrets+"/s", []byte(patch), "Content-Type", strategicType)
		if want := "strategic merge patch format is not supported"; !strings.Contains(string(b), want) {
			t.Errorf("%s: got %s, want %q in it", patch, b, want)
		}
	}
	const accounts = "/api/v1/namespaces/default/serviceaccounts"
	s.do(t, http.StatusCreated, "POST", accounts, []byte(`{"apiVersion":"v1","kind":"ServiceAccount","metadata":{"name":"a"},"secrets":[{"name":"s"}]}`))
	b := s.do(t, http.StatusBadRequest, "PATCH", accounts+"/a", []byte(`{"$setElementOrder/secrets":[1,null,{}]}`), "Content-Type", strategicType)
	if want := "is not a map"; !strings.Contains(string(b), want) {
		t.Errorf("an order of items of wrong types: got %s, want %q in it", b, want)
	}
	if strings.Contains(s.log.String(), "request panicked") {
		t.Error("a request panicked")
	}
}

// deep is n values in one another.
func deep(n int, open, end string) string {
	return strings.Repeat(open, n) + "1" + strings.Repeat(end, n)
}

// TestHostileNesting sends deep bodies, parameters and tokens to every place that reads them. The
// process must survive, and must not report a client's mistake as its own.
func TestHostileNesting(t *testing.T) {
	t.Parallel()
	s := startServer(t)
	s.do(t, 201, "POST", definitionsPath, toJSON(t, gadgetCRD))
	const gadgets = "/apis/demo.example.org/v1/namespaces/default/gadgets"
	s.do(t, 201, "POST", gadgets, toJSON(t, gadget("one", "red")))
	s.do(t, 201, "POST", "/api/v1/namespaces/default/configmaps", []byte(`{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"one"}}`))
	refused := func(name, method, path, body string, headers ...string) {
		t.Helper()
		code, b, err := s.try(method, path, []byte(body), headers...)
		for _, upstreams := range []string{"failed to create typed patch object", "failed to decode managed fields"} {
			if code == 500 && strings.Contains(string(b), upstreams) {
				return // which has this code for these mistakes
			}
		}
		if err != nil || code >= 500 {
			t.Errorf("%s: %s %.200s %.60v: got %d, %v, %.300s", name, method, path, headers, code, err, b)
		}
	}
	shells := map[string]string{ // what is deep stands at %s
		"alone": `%s`, "annotations": `{"metadata":{"name":"one","annotations":%s}}`,
		"managed":  `{"metadata":{"name":"one","managedFields":[{"manager":"x","operation":"Update","apiVersion":"v1","fieldsType":"FieldsV1","fieldsV1":%s}]}}`,
		"spec":     `{"metadata":{"name":"one"},"spec":%s}`,
		"selector": `{"metadata":{"name":"one"},"spec":{"selector":{"matchLabels":%s}}}`,
		"options":  `{"preconditions":%s}`, "operation": `[{"op":"add","path":"/spec","value":%s}]`,
	}
	type place struct{ method, path, apiVersion, kind string }
	var places []place
	for _, r := range []place{
		{"", "/api/v1/namespaces/default/configmaps", "v1", "ConfigMap"}, {"", "/api/v1/namespaces/default/secrets", "v1", "Secret"},
		{"", "/apis/apps/v1/namespaces/default/deployments", "apps/v1", "Deployment"}, {"", gadgets, "demo.example.org/v1", "Gadget"},
		{"", "/apis/apps/v1/namespaces/default/controllerrevisions", "apps/v1", "ControllerRevision"},
		{"", definitionsPath, "apiextensions.k8s.io/v1", "CustomResourceDefinition"},
		{"", "/apis/certificates.k8s.io/v1/certificatesigningrequests", "certificates.k8s.io/v1", "CertificateSigningRequest"},
		{"", "/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicies", "admissionregistration.k8s.io/v1", "ValidatingAdmissionPolicy"},
		{"", "/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations", "admissionregistration.k8s.io/v1", "ValidatingWebhookConfiguration"},
	} {
		places = append(places, place{"POST", r.path + "?dryRun=All&fieldValidation=Strict", r.apiVersion, r.kind}, place{"PATCH", r.path + "/one?dryRun=All&fieldManager=x&force=true", r.apiVersion, r.kind})
		if r.kind == "Gadget" || r.kind == "ConfigMap" { // the others have these verbs in common with them
			places = append(places, place{"PUT", r.path + "/one?dryRun=All", r.apiVersion, r.kind}, place{"DELETE", r.path + "/none?dryRun=All", r.apiVersion, r.kind})
		}
	}
	places = append(places,
		place{"POST", "/apis/authorization.k8s.io/v1/subjectaccessreviews", "authorization.k8s.io/v1", "SubjectAccessReview"},
		place{"POST", "/apis/authorization.k8s.io/v1/selfsubjectrulesreviews", "authorization.k8s.io/v1", "SelfSubjectRulesReview"},
		place{"POST", "/apis/authentication.k8s.io/v1/tokenreviews", "authentication.k8s.io/v1", "TokenReview"},
		place{"POST", "/api/v1/namespaces/default/serviceaccounts/default/token", "authentication.k8s.io/v1", "TokenRequest"},
		place{"POST", "/api/v1/namespaces/default/pods/none/eviction", "policy/v1", "Eviction"},
		place{"POST", "/api/v1/namespaces/default/pods/none/binding", "v1", "Binding"},
		place{"PUT", "/apis/apps/v1/namespaces/default/deployments/none/scale", "autoscaling/v1", "Scale"})
	texts := []string{deep(9_900, `{"a":`, "}"), deep(9_900, "[", "]"), deep(300_000, "[", "]")}
	managed := deep(9_900, `{"f:a":`, "}")
	for _, p := range places {
		medias := []string{"application/json", protobufType, "application/cbor"}
		if p.method == "PATCH" {
			medias = []string{mergeType, strategicType, patchType, applyType, "application/apply-patch+cbor"}
		}
		for name, shell := range shells {
			all := texts
			if name == "managed" {
				all = []string{managed}
			}
			head := fmt.Sprintf(`{"apiVersion":%q,"kind":%q,`, p.apiVersion, p.kind)
			for i, text := range all {
				body := fmt.Sprintf(shell, text)
				if body[0] == '{' && name != "alone" {
					body = head + body[1:]
				}
				for j, media := range medias {
					if media == applyType && i == 2 || j > 0 && name != "alone" && p.method != "PATCH" {
						continue // a long way to the same reader
					}
					refused(name, p.method, p.path, body, "Content-Type", media)
				}
			}
		}
	}
	for name, of := range map[string]string{"fieldSelector": strings.Repeat("metadata.name=a,", 5000), "labelSelector": strings.Repeat("a in (", 20_000),
		"continue": base64.RawURLEncoding.EncodeToString([]byte(deep(50_000, "[", "]"))), "resourceVersion": strings.Repeat("9", 100_000),
		"fieldValidation": strings.Repeat("(", 10_000), "propagationPolicy": deep(10_000, "[", "]")} {
		for _, path := range []string{gadgets, "/api/v1/pods", definitionsPath} {
			refused(name, "GET", path+"?"+name+"="+url.QueryEscape(of), "")
			refused(name, "DELETE", path+"/none?dryRun=All&"+name+"="+url.QueryEscape(of), "")
		}
	}
	part := func(text string) string { return base64.RawURLEncoding.EncodeToString([]byte(text)) }
	for _, token := range []string{part(deep(200_000, "[", "]")) + ".e30.x", part(`{"alg":"RS256"}`) + "." + part(`{"iss":"https://kubernetes.default.svc","a":`+deep(200_000, `[`, "]")+"}") + ".x",
		part(`{"alg":"RS256","a":`+deep(9_000, `{"a":`, "}")+"}") + "." + part(`{"iss":`+deep(9_000, `{"a":`, "}")+"}") + ".eA"} {
		refused("token", "GET", "/api/v1/pods", "", "Authorization", "Bearer "+token)
		refused("token review", "POST", "/apis/authentication.k8s.io/v1/tokenreviews",
			`{"apiVersion":"authentication.k8s.io/v1","kind":"TokenReview","spec":{"token":"`+token+`"}}`)
	}
	for _, path := range []string{"/openapi/v2", "/openapi/v3", "/apis", "/api/v1/pods"} {
		refused("accept", "GET", path, "", "Accept", strings.Repeat("application/json;as="+strings.Repeat("(", 100)+",", 1000))
	}
	for _, expression := range []string{strings.Repeat("(", 50_000) + "1" + strings.Repeat(")", 50_000), strings.Repeat("[", 40_000) + "1" + strings.Repeat("]", 40_000), strings.Repeat("!", 90_000) + "true", strings.Repeat("-", 90_000) + "1 < 0",
		"a" + strings.Repeat(".a", 40_000), strings.Repeat("true?true:", 9_000) + "true", "1" + strings.Repeat("+1", 40_000) + ">0", "[1]" + strings.Repeat(".map(x,x)", 9_000) + "==[1]",
		"'x'.matches('" + strings.Repeat("(", 20_000) + strings.Repeat(")", 20_000) + "')", strings.Repeat("[1].exists(x,", 5_000) + "true" + strings.Repeat(")", 5_000)} {
		refused("policy", "POST", "/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicies", fmt.Sprintf(`{"apiVersion":"admissionregistration.k8s.io/v1","kind":"ValidatingAdmissionPolicy",`+
			`"metadata":{"name":"p"},"spec":{"matchConstraints":{"resourceRules":[{"apiGroups":["x"],"apiVersions":["v1"],"operations":["CREATE"],"resources":["y"]}]},"validations":[{"expression":%q}]}}`, expression))
		refused("rule", "POST", definitionsPath+"?dryRun=All", string(deepSchema(1, `{"type":"object","x-kubernetes-validations":[{"rule":`, fmt.Sprintf("%q", expression), "}]}")))
		refused("pattern", "POST", definitionsPath+"?dryRun=All", string(deepSchema(1, `{"type":"string","pattern":`, fmt.Sprintf("%q", expression), "}")))
	}
	if !s.running() || strings.Contains(s.log.String(), "request panicked") {
		t.Errorf("the process is there: %v; what it logged:\n%s", s.running(), tail(s.log.String(), 3000))
	}
	s.do(t, 200, "GET", "/livez", nil)
}
