package api

import (
	"strings"
	"testing"
	"time"

	"github.com/keelson-io/keelson/internal/api/encoding"
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
	a := s.must(422, "PATCH", widgets+"/w", `[{"op":"add","path":"/kind","value":null},{"op":"add","path":"/metadata/managedFields","value":"red"}]`, "Content-Type", encoding.JSONPatch)
	if !strings.Contains(a.body, "Object 'Kind' is missing in") {
		t.Errorf("got %s, want that the kind is missing", a.body)
	}
}

// TestIgnoredPartsChangeNothing writes again what is there, with a part that the request ignores: nothing is written, also a second later.
func TestIgnoredPartsChangeNothing(t *testing.T) {
	s := newTestServer(t)
	apply := `{"apiVersion":"demo.io/v1","kind":"Widget","metadata":{"name":"w"},"spec":{"color":"red"},"status":{"phase":"B"}}`
	first := s.must(201, "PATCH", widgets+"/w?fieldManager=m", apply, "Content-Type", ssa)
	put := strings.Replace(first.body, `"spec":`, `"status":{"phase":"C"},"spec":`, 1)
	time.Sleep(1100 * time.Millisecond) // managed fields count seconds
	for _, a := range []answer{
		s.must(200, "PATCH", widgets+"/w?fieldManager=m", apply, "Content-Type", ssa),
		s.must(200, "PUT", widgets+"/w?fieldManager=m2", put),
		s.must(200, "PATCH", widgets+"/w?fieldManager=m2", `{"status":{"phase":"D"}}`, "Content-Type", merge),
	} {
		if a.body != first.body {
			t.Errorf("got %s\nwant %s", a.body, first.body)
		}
	}
}
