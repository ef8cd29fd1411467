package e2e

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"
	"testing"
)

// TestHostileBodies sends what no good client sends. Each answer is upstream's, and none costs memory beyond the body.
func TestHostileBodies(t *testing.T) {
	s := startServer(t)
	s.do(t, 201, "POST", "/apis/apiextensions.k8s.io/v1/customresourcedefinitions", toJSON(t, gadgetCRD))
	const list = "/apis/demo.example.org/v1/namespaces/default/gadgets"
	eventually(t, "gadgets served", func() bool {
		code, _, err := s.try("GET", list, nil)
		return err == nil && code == 200
	})
	s.do(t, 201, "POST", list, toJSON(t, gadget("one", "red")))
	const (
		jsonType  = "application/json"
		yamlType  = "application/yaml"
		merge     = "application/merge-patch+json"
		jsonPatch = "application/json-patch+json"
		apply     = "application/apply-patch+yaml"
	)
	big := append([]byte(`{"apiVersion":"demo.example.org/v1","kind":"Gadget","metadata":{"name":"big"},"spec":{"color":"`), bytes.Repeat([]byte("x"), 3<<20)...)
	big = append(big, `"}}`...)
	deep := func(open, close string, n int) string {
		return `{"apiVersion":"demo.example.org/v1","kind":"Gadget","metadata":{"name":"deep"},"spec":{"color":"red","x":` +
			strings.Repeat(open, n) + "1" + strings.Repeat(close, n) + `}}`
	}
	for _, c := range []struct {
		name, method, path, contentType, body string
		code                                  int
		want                                  string
	}{
		{"3 MiB and more", "POST", list, jsonType, string(big), 413, "limit is 3145728"},
		{"3 MiB and more, as a patch", "PATCH", list + "/one", merge, string(big), 413, "limit is 3145728"},
		{"cut off", "POST", list, jsonType, `{"apiVersion":"demo.example.org/v1","kind":"Gadget"`, 400, "unexpected end of JSON input"},
		{"wrong byte", "POST", list, jsonType, `{"apiVersion":"demo.example.org/v1","kind":"Gadget",}`, 400, "invalid character '}' looking for beginning of object key string"},
		{"wrong YAML", "POST", list, yamlType, "apiVersion: demo.example.org/v1\nkind: Gadget\nmetadata:\n  name: x\n name: y\n", 400, "yaml: line 4: did not find expected key"},
		{"tab in YAML", "POST", list, yamlType, "apiVersion: v1\n\tkind: Gadget\n", 400, "yaml: line 2"},
		{"empty", "POST", list, jsonType, ``, 400, ""},
		{"array", "POST", list, jsonType, `[]`, 400, ""},
		{"string", "POST", list, jsonType, `"x"`, 400, ""},
		{"null", "POST", list, jsonType, `null`, 400, ""},
		{"binary", "POST", list, jsonType, "\x00\x01\x02\xff", 400, "invalid character"},
		{"other kind", "POST", list, jsonType, `{"apiVersion":"demo.example.org/v1","kind":"Thing","metadata":{"name":"x"}}`, 422, "must be Gadget"},
		{"other version", "POST", list, jsonType, `{"apiVersion":"demo.example.org/v2","kind":"Gadget","metadata":{"name":"x"}}`, 400,
			"the API version in the data (demo.example.org/v2) does not match the expected API version (demo.example.org/v1)"},
		{"media type", "POST", list, "text/plain", `{}`, 415, "the body of the request was in an unknown format - accepted media types include: application/json, application/yaml"},
		{"media type of a patch", "PATCH", list + "/one", jsonType, `{}`, 415, "accepted media types include: application/json-patch+json, application/merge-patch+json, application/apply-patch+yaml"},
		{"patch that is no JSON", "PATCH", list + "/one", merge, `{"spec":`, 400, "invalid JSON patch"},
		{"JSON patch that is no list", "PATCH", list + "/one", jsonPatch, `{}`, 400, ""},
		{"JSON patch that copies and copies", "PATCH", list + "/one", jsonPatch, copyBomb(60), 422, "the server rejected our request due to an error in our request"},
		{"JSON patch of many operations", "PATCH", list + "/one", jsonPatch, "[" + strings.Repeat(`{"op":"test","path":"/a","value":1},`, 10001) + `{"op":"test","path":"/a","value":1}]`, 413, "The allowed maximum operations in a JSON patch is 10000, got 10002"},
		{"apply that is no YAML", "PATCH", list + "/one?fieldManager=x", apply, "a: b: c", 400, "yaml"},
		{"nested arrays", "POST", list, jsonType, deep("[", "]", 20000), 400, "exceeded max depth"},
		{"nested objects", "POST", list, jsonType, deep(`{"a":`, "}", 20000), 400, "exceeded max depth"},
		{"YAML with aliases of aliases", "POST", list, yamlType, aliasBomb(), 400, "yaml"},
		{"duplicate keys, strict", "POST", list + "?fieldValidation=Strict", jsonType,
			`{"apiVersion":"demo.example.org/v1","kind":"Gadget","metadata":{"name":"dup"},"spec":{"color":"red","color":"blue"}}`, 400, `strict decoding error: duplicate field \"spec.color\"`},
		{"duplicate keys in YAML, strict", "POST", list + "?fieldValidation=Strict", yamlType,
			"apiVersion: demo.example.org/v1\nkind: Gadget\nmetadata: {name: dup}\nspec:\n  color: red\n  color: blue\n", 400, `already set in map`},
		{"duplicate keys, lenient: the last one counts", "POST", list + "?fieldValidation=Ignore&dryRun=All", jsonType,
			`{"apiVersion":"demo.example.org/v1","kind":"Gadget","metadata":{"name":"dup"},"spec":{"color":"red","color":"blue"}}`, 201, `"color":"blue"`},
		{"number out of range", "POST", list, jsonType,
			`{"apiVersion":"demo.example.org/v1","kind":"Gadget","metadata":{"name":"n"},"spec":{"color":"red","replicas":1e999}}`, 400, ""},
		{"wrong method", "POST", list + "/one/status", jsonType, `{}`, 405, "create is not supported on resources of kind"},
	} {
		t.Run(c.name, func(t *testing.T) {
			b := s.do(t, c.code, c.method, c.path, []byte(c.body), "Content-Type", c.contentType)
			if !strings.Contains(string(b), c.want) {
				t.Errorf("got %s, want in it %q", tail(string(b), 1000), c.want)
			}
			if c.code >= 400 {
				wantStatus(t, b, c.code)
			}
		})
	}
	t.Run("not acceptable", func(t *testing.T) {
		b := s.do(t, 406, "GET", list, nil, "Accept", "text/html")
		if want := "only the following media types are accepted: application/json"; !strings.Contains(string(b), want) {
			t.Errorf("got %s, want in it %q", b, want)
		}
	})
	t.Run("unknown resource", func(t *testing.T) {
		s.do(t, 404, "POST", "/apis/demo.example.org/v1/namespaces/default/nothings", []byte(`{}`))
	})
	t.Run("memory", func(t *testing.T) {
		before := s.peakMemory(t)
		for range 40 {
			s.do(t, 413, "POST", list, big)
			s.do(t, 400, "POST", list, []byte(deep("[", "]", 500000)))
			s.do(t, 400, "POST", list, []byte(aliasBomb()), "Content-Type", yamlType)
		}
		if grown := s.peakMemory(t) - before; grown > 64<<20 {
			t.Errorf("peak memory grew by %d MiB", grown>>20)
		}
		t.Logf("peak memory: %d MiB, %d MiB of it by then", s.peakMemory(t)>>20, before>>20)
	})
}

// wantStatus checks that a refusal is a Status object with its code inside.
func wantStatus(t *testing.T, b []byte, code int) {
	t.Helper()
	var st struct {
		Kind, APIVersion, Status, Message string
		Code                              int
	}
	if err := json.Unmarshal(b, &st); err != nil || st.Kind != "Status" || st.APIVersion != "v1" || st.Status != "Failure" || st.Code != code || st.Message == "" {
		t.Errorf("not a Status of code %d: %v: %s", code, err, tail(string(b), 500))
	}
}

// copyBomb is a JSON patch that doubles an annotation with every step.
func copyBomb(n int) string {
	ops := []string{`{"op":"add","path":"/spec/x","value":["xxxxxxxxxxxxxxxx"]}`}
	for i := range n {
		ops = append(ops, fmt.Sprintf(`{"op":"copy","from":"/spec/x","path":"/spec/x/%d"}`, i%2))
	}
	return "[" + strings.Join(ops, ",") + "]"
}

// aliasBomb is a YAML text of a few lines that stands for thousands of millions of values.
func aliasBomb() string {
	text := "apiVersion: demo.example.org/v1\nkind: Gadget\nmetadata: {name: bomb}\na0: &a0 [x,x,x,x,x,x,x,x,x,x]\n"
	for i := 1; i < 10; i++ {
		ref := fmt.Sprintf("*a%d", i-1)
		text += fmt.Sprintf("a%d: &a%d [%s]\n", i, i, strings.TrimSuffix(strings.Repeat(ref+",", 10), ","))
	}
	return text
}
