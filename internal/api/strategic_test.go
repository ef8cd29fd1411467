package api

import (
	"strings"
	"testing"
)

// This file tests the errors of strategic merge patches.

// TestStrategicMistakes holds that the error of a strategic merge patch shows the patch as upstream prints it, and has the words of
// upstream's converter, if the patched object does not fit its Go type.
func TestStrategicMistakes(t *testing.T) {
	s := newTestServer(t)
	s.must(201, "POST", "/api/v1/namespaces", `{"apiVersion":"v1","kind":"Namespace","metadata":{"name":"n","labels":{"b":"c"}}}`)
	for _, row := range []struct{ of, patch, want string }{
		{"text for a map", `{"metadata":{"labels":"invalid"}}`, `"map[metadata:map[labels:invalid]]": cannot restore map from string`},
		{"number for a text", `{"metadata":{"labels":{"a":5}}}`, `"map[metadata:map[labels:map[a:5]]]": cannot convert int64 to string`},
		{"text for a list", `{"metadata":{"finalizers":"x"}}`, `"map[metadata:map[finalizers:x]]": cannot restore slice from string`},
		{"text for an object", `{"spec":"x"}`, `"map[spec:x]": cannot restore struct from: string`},
		{"unknown member", `{"metadata":{"bogus":1}}`, `"map[metadata:map[bogus:1]]": strict decoding error: unknown field "metadata.bogus"`},
		{"without directives", `{"metadata":{"labels":{"$patch":"replace","a":5}}}`, `"map[metadata:map[labels:map[a:5]]]": cannot convert int64 to string`},
	} {
		a := s.call("PATCH", "/api/v1/namespaces/n?fieldValidation=Strict", row.patch, "Content-Type", "application/strategic-merge-patch+json")
		if want := "patch: Invalid value: " + row.want; a.code != 422 || !strings.HasSuffix(a.text("message"), want) {
			t.Errorf("%s: got %d %s, want 422 %s", row.of, a.code, a.body, want)
		}
	}
}
