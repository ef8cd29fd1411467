package api

import (
	"context"
	"encoding/json"
	"strings"
	"testing"

	"github.com/keelson-io/keelson/authz"
)

// This file tests the paths and methods of built-in kinds, and what upstream forwards to nodes.

const podFields = `"spec":{"containers":[{"name":"c","image":"i"}]}`

// Ledger: pods-do-not-run.
func TestPodsDoNotRun(t *testing.T) {
	s := newTestServer(t)
	s.must(201, "POST", podsPath, `{"metadata":{"name":"a"},`+podFields+`}`)
	s.must(201, "POST", podsPath, `{"metadata":{"name":"b"},"spec":{"nodeName":"n","containers":[{"name":"c","image":"i"}]}}`)
	s.must(201, "POST", "/api/v1/nodes", `{"metadata":{"name":"n"}}`)
	s.must(201, "POST", "/api/v1/namespaces/default/services", `{"metadata":{"name":"s"},"spec":{"ports":[{"port":80}]}}`)
	for _, sub := range []string{"log", "exec?command=ls", "attach", "portforward", "proxy", "proxy/", "proxy/a/b/c?x=y"} {
		for name, want := range map[string]string{"a": "pod a does not have a host assigned", "b": "pod b does not run: this server keeps pods, no node runs them"} {
			if a := s.must(400, "GET", podsPath+"/"+name+"/"+sub, ""); a.text("message") != want {
				t.Errorf("%s %s: got %q, want %q", name, sub, a.text("message"), want)
			}
		}
		s.must(404, "GET", podsPath+"/none/"+sub, "")
	}
	const services = "/api/v1/namespaces/default/services/"
	for _, r := range []struct {
		line, code   int
		method, path string
		want         string
	}{
		{where(), 503, "GET", services + "s/proxy", `no endpoints available for service "s"`},
		{where(), 503, "POST", services + "s/proxy/a/b", `no endpoints available for service "s"`},
		{where(), 503, "DELETE", services + "http:s:80/proxy/", `no endpoints available for service "s"`},
		{where(), 503, "GET", services + "s:81/proxy", `no service port 81 found for service "s"`},
		{where(), 503, "GET", services + "s:web/proxy", `no endpoints available for service "s"`},
		{where(), 503, "GET", services + "none/proxy", `no endpoints available for service "none"`},
		{where(), 404, "GET", services + "none:80/proxy", `services "none" not found`},
		{where(), 400, "GET", services + "ftp:s:80/proxy", `invalid service request "ftp:s:80"`},
		{where(), 400, "GET", services + "s/proxy?dryRun=All", `dryRun is not supported`},
		{where(), 400, "PATCH", podsPath + "/https:b:81/proxy", `pod b does not run: this server keeps pods, no node runs them`},
		{where(), 400, "GET", podsPath + "/a:b:c:d/proxy", `invalid pod request "a:b:c:d"`},
		{where(), 400, "GET", "/api/v1/nodes/n/proxy/pods", `node n does not run: this server keeps nodes, it does not connect to them`},
		{where(), 404, "GET", "/api/v1/nodes/none/proxy", `nodes "none" not found`},
	} {
		if a := s.call(r.method, r.path, ""); a.code != r.code || a.text("message") != r.want {
			t.Errorf("line %d: %s %s: got %d %s, want %d %q", r.line, r.method, r.path, a.code, a.body, r.code, r.want)
		}
	}
}

// TestStreamsNeedCreate: a WebSocket connects with GET, and runs a command all the same.
func TestStreamsNeedCreate(t *testing.T) {
	s := newTestServer(t, func(c *setup) {
		c.Authz = authz.Func(func(_ context.Context, a *authz.Attributes) authz.Result {
			if a.User.Name == "admin" || a.User.Name == "reader" && a.Verb == "get" || a.User.Name == "writer" {
				return authz.Result{Decision: authz.Allow}
			}
			return authz.Result{Reason: "not a writer"}
		})
	})
	s.must(201, "POST", podsPath, `{"metadata":{"name":"a"},`+podFields+`}`)
	for _, sub := range []string{"exec", "attach", "portforward"} {
		path := podsPath + "/a/" + sub
		if a := s.must(403, "GET", path, "", "Test-User", "reader"); !strings.Contains(a.text("message"), "cannot create resource \"pods/"+sub) || !strings.HasSuffix(a.text("message"), "not a writer") {
			t.Errorf("%s: got %s", sub, a.body)
		}
		s.must(403, "POST", path, "", "Test-User", "reader")
		s.must(400, "GET", path, "", "Test-User", "writer")
	}
	s.must(400, "GET", podsPath+"/a/log", "", "Test-User", "reader")
	s.must(400, "GET", podsPath+"/a/proxy", "", "Test-User", "reader")
}

// TestRoutes asks for paths and methods that upstream's router does not know.
func TestRoutes(t *testing.T) {
	s := newTestServer(t)
	s.must(201, "POST", podsPath, `{"metadata":{"name":"a"},`+podFields+`}`)
	const (
		path   = "the server could not find the requested resource"
		method = "the server does not allow this method on the requested resource"
		plain  = "404 page not found\n"
	)
	for _, r := range []struct {
		line    int
		methods string
		path    string
		want    string
	}{
		{where(), "GET PUT POST DELETE HEAD", podsPath + "/a/nothing", path},
		{where(), "GET", podsPath + "/a/status/deeper", path},
		{where(), "GET POST PATCH", "/api/v1/namespaces/default/nothings", path},
		{where(), "GET POST", "/api/v1/nothings/a", path},
		{where(), "GET", "/apis/apps/v1/nothings", path},
		{where(), "GET DELETE", "/apis/apps/v9/deployments", path},
		{where(), "GET", "/api/v9/pods", path},
		{where(), "GET", "/api/v1/namespaces/default/nodes", path},
		{where(), "GET PATCH", "/apis/apps/v1/deployments/a", path},
		{where(), "GET", "/api/v1/proxy/namespaces/default/pods/a", path},
		{where(), "GET", "/api/v1/watch/namespaces/default/pods/a/status", path},
		{where(), "GET PUT PATCH DELETE", "/api/v1/namespaces/default/bindings/a", path},
		{where(), "GET", "/api/v1/namespaces/default/bindings/a/status", path},
		{where(), "GET POST", "/api/v1/bindings", path},
		{where(), "GET DELETE", "/apis/authorization.k8s.io/v1/subjectaccessreviews/a", path},
		{where(), "POST", "/apis/authorization.k8s.io/v1/localsubjectaccessreviews", path},
		{where(), "GET", "/api/v1/watch/namespaces/default/bindings", path},

		{where(), "HEAD PUT PATCH OPTIONS", podsPath, method},
		{where(), "HEAD POST OPTIONS", podsPath + "/a", method},
		{where(), "HEAD POST DELETE", podsPath + "/a/status", method},
		{where(), "HEAD POST DELETE", "/apis/apps/v1/namespaces/default/deployments/a/scale", method},
		{where(), "HEAD GET PUT DELETE", podsPath + "/a/binding", method},
		{where(), "HEAD PUT PATCH DELETE OPTIONS", podsPath + "/a/exec", method},
		{where(), "HEAD PUT PATCH DELETE OPTIONS", podsPath + "/a/attach", method},
		{where(), "HEAD PUT PATCH DELETE OPTIONS", podsPath + "/a/portforward", method},
		{where(), "HEAD POST PUT PATCH DELETE", podsPath + "/a/log", method},
		{where(), "TRACE", podsPath + "/a/proxy", method},
		{where(), "HEAD POST PUT DELETE", "/api/v1/pods", method},
		{where(), "HEAD POST DELETE", "/api/v1/watch/pods", method},
		{where(), "GET PUT PATCH DELETE HEAD", "/api/v1/namespaces/default/bindings", method},
		{where(), "GET HEAD DELETE", "/apis/authorization.k8s.io/v1/subjectaccessreviews", method},
		{where(), "HEAD PUT DELETE", "/api/v1/namespaces", method},
		{where(), "HEAD GET PATCH", "/api/v1/namespaces/default/finalize", method},
		{where(), "HEAD", "/apis/apiextensions.k8s.io/v1/customresourcedefinitions", method},

		{where(), "GET HEAD POST DELETE", "/nothing", plain},
		{where(), "GET", "/apis/nothing.io/v1/things", plain},
		{where(), "GET", "/apis/demo.io/v1/things", plain},
		{where(), "GET", "/apis/demo.io/v9/widgets", plain},
		{where(), "GET", "/livez/none", plain},
		{where(), "GET", "/.well-known/none", plain},
	} {
		for _, m := range strings.Fields(r.methods) {
			want := answer{code: 404, body: plain}
			if r.want != plain {
				code, reason := 404, "NotFound"
				if r.want == method {
					code, reason = 405, "MethodNotAllowed"
				}
				text, err := json.Marshal(r.want)
				if err != nil {
					t.Fatal(err)
				}
				want = answer{code: code, body: `{"kind":"Status","apiVersion":"v1","metadata":{},"status":"Failure","message":` + string(text) + `,"reason":"` + reason + `","details":{},"code":` + map[int]string{404: "404", 405: "405"}[code] + "}\n"}
			}
			if m == "HEAD" {
				want.body = ""
			}
			if a := s.call(m, r.path, ""); a.code != want.code || a.body != want.body {
				t.Errorf("line %d: %s %s: got %d %s\nwant %d %s", r.line, m, r.path, a.code, a.body, want.code, want.body)
			}
		}
	}
	for _, path := range []string{podsPath + "/a", podsPath, "/api/v1/pods", "/api/v1/watch/pods?timeoutSeconds=1", podsPath + "/a/status", widgets} {
		s.must(200, "GET", path, "")
	}
	s.must(200, "HEAD", widgets, "") // one handler serves all verbs of custom resources
}

func TestExportIsRefused(t *testing.T) {
	s := newTestServer(t)
	s.must(201, "POST", podsPath, `{"metadata":{"name":"a"},`+podFields+`}`)
	s.must(201, "POST", widgets, widget("a", ``))
	for _, path := range []string{podsPath + "/a", podsPath + "/a/status", widgets + "/a"} {
		if a := s.must(400, "GET", path+"?export=true", ""); a.text("message") != "the export parameter, deprecated since v1.14, is no longer supported" {
			t.Errorf("%s: got %s", path, a.body)
		}
		s.must(200, "GET", path+"?export=false", "")
		s.must(200, "GET", path+"?export=0&exact=true", "")
	}
	s.must(200, "GET", podsPath+"?export=true", "")
}

// TestEmptyManagedFieldsEndTracking: an empty list makes the server forget all managers, and no
// update is recorded until the next apply.
func TestEmptyManagedFieldsEndTracking(t *testing.T) {
	s := newTestServer(t)
	const configmaps = "/api/v1/namespaces/default/configmaps"
	s.must(201, "POST", configmaps, `{"metadata":{"name":"a","managedFields":[]},"data":{"k":"v"}}`)
	s.must(201, "POST", widgets, widget("a", `"color":"red"`))
	for path, content := range map[string]string{
		configmaps + "/a": `"apiVersion":"v1","kind":"ConfigMap","data":{"k":"%s"}`,
		widgets + "/a":    `"apiVersion":"demo.io/v1","kind":"Widget","spec":{"color":"%s"}`,
	} {
		object := func(value, metadata string) string {
			return `{` + strings.Replace(content, "%s", value, 1) + `,"metadata":{"name":"a"` + metadata + `}}`
		}
		for _, r := range []struct {
			line               int
			method, body, kind string
		}{
			{where(), "PUT", object("1", `,"managedFields":[],"resourceVersion":"%s"`), "application/json"},
			{where(), "PATCH", `{"metadata":{"managedFields":[]}}`, merge},
			{where(), "PATCH", `[{"op":"replace","path":"/metadata/managedFields","value":[]}]`, jpatch},
			{where(), "PATCH", `[{"op":"replace","path":"/metadata/managedFields","value":[{}]}]`, jpatch},
		} {
			before := s.must(200, "GET", path, "")
			if before.get("metadata", "managedFields") == nil {
				t.Fatalf("line %d: %s: nothing is tracked: %s", r.line, path, before.body)
			}
			if path == widgets+"/a" && !strings.Contains(r.body, "[{}]") {
				continue // upstream reads the empty list of an object without a Go type as none
			}
			body := strings.Replace(r.body, "%s", before.text("metadata", "resourceVersion"), 1)
			if a := s.must(200, r.method, path, body, "Content-Type", r.kind); a.get("metadata", "managedFields") != nil {
				t.Errorf("line %d: %s: got %s", r.line, path, a.body)
			}
			if a := s.must(200, "PATCH", path, object("2", `,"labels":{"a":"b"}`), "Content-Type", merge); a.get("metadata", "managedFields") != nil {
				t.Errorf("line %d: the next update of %s: got %s", r.line, path, a.body)
			}
			if a := s.must(200, "GET", path, ""); a.get("metadata", "managedFields") != nil {
				t.Errorf("line %d: %s is stored with %s", r.line, path, a.body)
			}
			a := s.must(200, "PATCH", path+"?fieldManager=f&force=true", object("3", ""), "Content-Type", ssa)
			for _, manager := range []string{`"manager":"f"`, `"manager":"before-first-apply"`} {
				if !strings.Contains(a.body, manager) {
					t.Errorf("line %d: an apply to %s: got %s, want %s", r.line, path, a.body, manager)
				}
			}
		}
	}
}
