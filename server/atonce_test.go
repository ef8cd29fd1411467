package server

import (
	"fmt"
	"strings"
	"testing"

	"github.com/keelson-io/keelson/internal/store/mem"
)

// This file tests that what was written has its effect when its writer is answered.

const definitionsPath = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"

// TestDefinitionsHoldAtOnce creates, uses, changes and uses definitions again, without any retry.
func TestDefinitionsHoldAtOnce(t *testing.T) {
	r := start(t, Config{Store: mem.New(mem.Options{})})
	for i := range 30 {
		group := fmt.Sprintf("g%d.example.com", i)
		objects := "/apis/" + group + "/v1/namespaces/default/things"
		made := r.must("POST", definitionsPath, `{"apiVersion":"apiextensions.k8s.io/v1","kind":"CustomResourceDefinition","metadata":{"name":"things.`+group+`"},
			"spec":{"group":"`+group+`","scope":"Namespaced","names":{"plural":"things","singular":"thing","kind":"Thing","listKind":"ThingList"},"versions":[{"name":"v1","served":true,"storage":true,
			"schema":{"openAPIV3Schema":{"type":"object","properties":{"size":{"type":"integer"}}}}}]}}`)
		if strings.Contains(made, "Established") {
			t.Fatalf("the answer is not what was written: %s", made)
		}
		r.must("GET", objects, "")
		if got := r.must("GET", "/apis/"+group+"/v1", ""); !strings.Contains(got, `"things"`) {
			t.Errorf("discovery: got %s", got)
		}
		if got := r.must("GET", "/openapi/v3/apis/"+group+"/v1", ""); !strings.Contains(got, "Thing") {
			t.Errorf("OpenAPI: got %s", got)
		}
		if got := r.must("GET", definitionsPath+"/things."+group, ""); !strings.Contains(got, `"type":"Established","status":"True"`) {
			t.Errorf("the definition: got %s", got)
		}
		thing := func(name string) string {
			return `{"apiVersion":"` + group + `/v1","kind":"Thing","metadata":{"name":"` + name + `"},"size":9}`
		}
		r.must("POST", objects, thing("a"))
		r.must("PATCH", definitionsPath+"/things."+group, `[{"op":"add","path":"/spec/versions/0/schema/openAPIV3Schema/properties/size/maximum","value":3}]`, "Content-Type", "application/json-patch+json")
		if code, body := r.call(r.client, "POST", objects, thing("b")); code != 422 {
			t.Errorf("after the change: got %d %s", code, body)
		}
		r.must("DELETE", definitionsPath+"/things."+group, "")
		if code, body := r.call(r.client, "POST", objects, strings.Replace(thing("c"), ",\"size\":9", "", 1)); code < 400 { // it may be going, or gone
			t.Errorf("after the deletion: got %d %s", code, body)
		}
	}
}
