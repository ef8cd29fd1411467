package api

import (
	"context"
	"net/url"
	"strings"
	"testing"

	"github.com/keelson-io/keelson/authz"
)

// This file tests that a path leads only to objects of the scope and kind that were authorized.

// TestPathsOfOtherScopes gives a user all rights on widgets, and those on gadgets in one namespace.
// Gadgets are cluster-scoped, so no path may show, change or delete one. CVE-2019-11247 is such a
// path with a namespace; CVE-2022-3162 is a path that leads to another kind.
func TestPathsOfOtherScopes(t *testing.T) {
	s := newTestServer(t, func(c *setup) {
		c.Authz = authz.Func(func(_ context.Context, a *authz.Attributes) authz.Result {
			if a.User.Name != "eve" || a.Resource == "widgets" || a.Resource == "gadgets" && a.Namespace == "default" {
				return authz.Result{Decision: authz.Allow}
			}
			return authz.Result{Decision: authz.Deny}
		})
	})
	const sealed = "opensesame"
	s.must(201, "POST", gadgets, `{"apiVersion":"demo.io/v1","kind":"Gadget","metadata":{"name":"g"},"spec":{"word":"`+sealed+`"}}`)
	s.must(201, "POST", widgets, widget("w", `"color":"blue"`), "Test-User", "eve")
	const group = "/apis/demo.io/v1/"
	paths := []string{"namespaces/default/gadgets", "namespaces/default/gadgets/g", "namespaces/default/gadgets/g/status", "gadgets", "gadgets/g",
		"namespaces/" + url.PathEscape("../gadgets") + "/widgets", "namespaces/" + url.PathEscape("../../gadgets") + "/widgets", "namespaces/%2e%2e/widgets",
		"widgets/../gadgets", "widgets/" + url.PathEscape("../gadgets"), "namespaces/default/widgets/" + url.PathEscape("../../../gadgets/g"),
		"namespaces/default/widgets/w/" + url.PathEscape("../../gadgets/g"), "namespaces//gadgets/g", "namespaces/default//gadgets/g"}
	for _, path := range paths {
		for _, verb := range [][2]string{{"GET", ""}, {"GET", "?watch=1&timeoutSeconds=1&resourceVersion=0"}, {"PUT", ""}, {"PATCH", ""}, {"DELETE", ""}} {
			body := `{"apiVersion":"demo.io/v1","kind":"Gadget","metadata":{"name":"g"},"spec":{"word":"taken"}}`
			if verb[0] == "DELETE" {
				body = ""
			}
			a := s.call(verb[0], group+path+verb[1], body, "Test-User", "eve", "Content-Type", map[bool]string{true: merge, false: "application/json"}[verb[0] == "PATCH"])
			if strings.Contains(a.body, sealed) || a.code < 300 && strings.Contains(path, "/gadgets") {
				t.Errorf("%s %s%s: got %d %s", verb[0], path, verb[1], a.code, a.body)
			}
		}
	}
	s.must(403, "GET", gadgets, "", "Test-User", "eve")
	s.must(404, "GET", group+"namespaces/default/gadgets/g", "", "Test-User", "eve")
	s.must(404, "GET", group+"namespaces/default/gadgets", "", "Test-User", "eve")
	s.must(404, "GET", group+"widgets/w", "") // a namespaced object has no path without its namespace
	if a := s.must(200, "GET", gadgets+"/g", ""); a.text("spec", "word") != sealed {
		t.Errorf("the gadget was changed: %s", a.body)
	}
}
