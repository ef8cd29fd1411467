package api

import (
	"strings"
	"testing"
)

// This file tests which complaint comes first where a request is wrong in several ways, and which there is none about.

func TestComplaints(t *testing.T) {
	s := newTestServer(t)
	s.must(201, "POST", widgets, widget("w", ``))
	head := `{"apiVersion":"demo.io/v1","kind":"Widget","metadata":{"name":"w",`
	for _, test := range []struct {
		method, path, body string
		code               int
		says               string
	}{
		{"PUT", "/w", head + `"uid":"x","resourceVersion":"1"}}`, 409, `UID in precondition: x`},
		{"PUT", "/w?dryRun=All", head + `"uid":"x","resourceVersion":"1"}}`, 409, `UID in precondition: x`},
		{"PUT", "/w", head + `"resourceVersion":"1"}}`, 409, `the object has been modified`},
		{"PUT", "/w", `{"apiVersion":"demo.io/v1","metadata":{"name":"w","resourceVersion":1}}`, 400, `Object 'Kind' is missing in`},
		{"PUT", "/w", head + `"resourceVersion":1}}`, 400, `cannot unmarshal number`},
		{"PATCH", "/w?fieldManager=m", head + `"resourceVersion":""}}`, 422, `must be specified for an update`},
		{"PATCH", "/w?fieldManager=m", head + `"creationTimestamp":"x"}}`, 200, `"name":"w"`},
		{"PATCH", "/n?fieldManager=m", strings.Replace(head, `"w"`, `"n"`, 1) + `"uid":"x","creationTimestamp":"x"}}`, 409, `uid mismatch: the provided object specified uid x`},
		{"PATCH", "/n?fieldManager=m", strings.Replace(head, `"w"`, `"n"`, 1) + `"creationTimestamp":""}}`, 201, `"creationTimestamp":"2`},
		{"PATCH", "/o?fieldManager=m", strings.Replace(head, `"w"`, `"o"`, 1) + `"ownerReferences":[{"kind":"x"}]}}`, 422, `metadata.ownerReferences[0].uid: Required value: must not be empty`},
	} {
		media := "application/json"
		if test.method == "PATCH" {
			media = ssa
		}
		a := s.call(test.method, widgets+test.path, test.body, "Content-Type", media)
		if a.code != test.code || !strings.Contains(strings.ReplaceAll(a.body, `\"`, `"`), test.says) {
			t.Errorf("%s %s %s:\ngot %d %s", test.method, test.path, test.body, a.code, a.body)
		}
	}
}
