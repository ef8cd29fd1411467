package api

import (
	"net/http"
	"net/url"
	"strings"
	"testing"
)

// This file tests what is read off a request before anything else happens.

func TestParseInfo(t *testing.T) {
	for _, row := range []struct {
		line         int
		method, path string
		want         string // verb group/version namespace resource/subresource name
	}{
		{where(), "GET", "/", "get"},
		{where(), "GET", "/api/v1", "get"},
		{where(), "GET", "/apis/g/v1", "get"},
		{where(), "GET", "/api/v1/namespaces", "list /v1 ns= namespaces name="},
		{where(), "GET", "/api/v1/namespaces/n", "get /v1 ns=n namespaces name=n"},
		{where(), "PUT", "/api/v1/namespaces/n/finalize", "update /v1 ns=n namespaces/finalize name=n"},
		{where(), "GET", "/api/v1/namespaces/n/things", "list /v1 ns=n things name="},
		{where(), "GET", "/apis/g/v1/things", "list g/v1 ns= things name="},
		{where(), "GET", "/apis/g/v1//things//", "list g/v1 ns= things name="},
		{where(), "GET", "/apis/g/v1/things?watch=true", "watch g/v1 ns= things name="},
		{where(), "GET", "/apis/g/v1/things?watch=abc", "watch g/v1 ns= things name="},
		{where(), "GET", "/apis/g/v1/things?watch=0", "list g/v1 ns= things name="},
		{where(), "GET", "/apis/g/v1/watch/things", "watch g/v1 ns= things name="},
		{where(), "GET", "/apis/g/v1/watch/namespaces/n/things/a", "watch g/v1 ns=n things name=a"},
		{where(), "GET", "/apis/g/v1/things?fieldSelector=metadata.name%3Da", "list g/v1 ns= things name=a"},
		{where(), "GET", "/apis/g/v1/things?fieldSelector=metadata.name%3Da%2Fb", "list g/v1 ns= things name="},
		{where(), "DELETE", "/apis/g/v1/things?fieldSelector=metadata.name%3Da", "deletecollection g/v1 ns= things name="},
		{where(), "HEAD", "/apis/g/v1/namespaces/n/things/a", "get g/v1 ns=n things name=a"},
		{where(), "POST", "/apis/g/v1/namespaces/n/things", "create g/v1 ns=n things name="},
		{where(), "PATCH", "/apis/g/v1/namespaces/n/things/a/scale", "patch g/v1 ns=n things/scale name=a"},
		{where(), "DELETE", "/apis/g/v1/namespaces/n/things/a", "delete g/v1 ns=n things name=a"},
		{where(), "TRACE", "/apis/g/v1/namespaces/n/things/a", " g/v1 ns=n things name=a"},
		{where(), "GET", "/apis/g/v1/namespaces/n/things/a/b/c/d/e", "get g/v1 ns=n things/b name=a +"},
	} {
		u, err := url.Parse(row.path)
		if err != nil {
			t.Fatal(err)
		}
		in := parseInfo(&http.Request{Method: row.method, URL: u})
		got := in.verb
		if in.resource {
			got += " " + in.group + "/" + in.version + " ns=" + in.namespace + " " + in.plural
			if in.subresource != "" {
				got += "/" + in.subresource
			}
			got += " name=" + in.name
			if in.rest {
				got += " +"
			}
		}
		if got != row.want {
			t.Errorf("line %d: %s %s: got %q, want %q", row.line, row.method, row.path, got, row.want)
		}
	}
}

// No part of a path may reach into another part's place in a store key.
func FuzzParseInfo(f *testing.F) {
	for _, p := range []string{"/api/v1/namespaces/n", "/apis/g/v1/watch/namespaces/n/things/a/status", "/apis/g/v1/things", "//apis///x"} {
		f.Add("GET", p, "watch=1&fieldSelector=metadata.name=x")
	}
	f.Fuzz(func(t *testing.T, method, path, query string) {
		in := parseInfo(&http.Request{Method: method, URL: &url.URL{Path: path, RawQuery: query}})
		for _, part := range []string{in.group, in.version, in.namespace, in.plural, in.name, in.subresource} {
			if strings.Contains(part, "/") {
				t.Errorf("%q: a part with a slash: %q", path, part)
			}
		}
		if in.resource && (in.version == "" || in.plural == "") {
			t.Errorf("%q: resource without version or name: %+v", path, in)
		}
	})
}
