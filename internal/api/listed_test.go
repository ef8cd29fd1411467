package api

import (
	"strings"
	"testing"
)

// TestServicesFollowDefinitions: what is served is listed, for those who read it.
// Ledger: api-services.
func TestServicesFollowDefinitions(t *testing.T) {
	s := newTestServer(t)
	const services = "/apis/apiregistration.k8s.io/v1/apiservices"
	list := s.must(200, "GET", services, "")
	for _, name := range []string{"v1.", "v1.apps", "v2.autoscaling", "v1.demo.io", "v1beta1.demo.io"} {
		if !strings.Contains(list.body, `"name":"`+name+`"`) {
			t.Errorf("%s is not listed: %s", name, list.body)
		}
		if one := s.must(200, "GET", services+"/"+name, ""); one.text("metadata", "name") != name || one.text("kind") != "APIService" ||
			one.text("metadata", "resourceVersion") == "" || one.text("metadata", "uid") == "" {
			t.Errorf("%s: %s", name, one.body)
		}
	}
	one := s.must(200, "GET", services+"/v1.apps", "")
	if got := one.get("spec", "groupPriorityMinimum"); got != 17800.0 || !strings.Contains(one.body, `"message":"Local APIServices are always available"`) {
		t.Errorf("v1.apps: %s", one.body)
	}
	if a := s.must(200, "GET", services+"?fieldSelector=metadata.name%3Dv1.demo.io", ""); strings.Count(a.body, `"uid"`) != 1 {
		t.Errorf("by name: %s", a.body)
	}
	if a := s.must(200, "GET", services+"?labelSelector=kube-aggregator.kubernetes.io%2Fautomanaged%3Dtrue", ""); strings.Contains(a.body, "v1.apps") || !strings.Contains(a.body, "v1.demo.io") {
		t.Errorf("by label: %s", a.body)
	}
	if a := s.must(200, "GET", services, "", "Accept", "application/json;as=Table;v=v1;g=meta.k8s.io"); !strings.Contains(a.body, `"cells":["v1.apps","Local","True",`) {
		t.Errorf("table: %s", a.body)
	}
	s.must(404, "GET", services+"/v1.nothing.io", "")
	s.must(400, "GET", services+"?fieldSelector=spec.group%3Da", "")
	remote := `{"apiVersion":"apiregistration.k8s.io/v1","kind":"APIService","metadata":{"name":"v1.x.io"},"spec":{"service":{"name":"x","namespace":"x"}}}`
	for _, c := range []struct{ method, path, body string }{
		{"POST", "", remote}, {"PUT", "/v1.apps", remote}, {"PATCH", "/v1.apps", "{}"}, {"DELETE", "/v1.apps", ""}, {"DELETE", "", ""}, {"GET", "?watch=1", ""},
	} {
		if a := s.must(405, c.method, services+c.path, c.body); !strings.Contains(a.body, "no API of another server is served") {
			t.Errorf("%s: %s", c.method, a.body)
		}
	}
	if a := s.must(200, "GET", "/apis/apiregistration.k8s.io/v1", ""); !strings.Contains(a.body, `"verbs":["get","list"]`) {
		t.Errorf("discovery: %s", a.body)
	}
	for _, plural := range []string{"widgets", "gadgets"} {
		s.kinds.Remove(s.kinds.Load().Lookup("demo.io", plural))
	}
	s.must(404, "GET", services+"/v1.demo.io", "")
}
