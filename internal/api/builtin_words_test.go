package api

import (
	"strings"
	"testing"
)

// This file tests what built-in kinds have of their own: fields that are always there, words, columns, and what becomes of dependents.

const (
	deployments = "/apis/apps/v1/namespaces/default/deployments"
	tables      = "application/json;as=Table;v=v1;g=meta.k8s.io"
	deployment  = `{"metadata":{"name":"d","labels":{"a":"b"}},"spec":{"selector":{"matchLabels":{"a":"b"}},"template":{"metadata":{"labels":{"a":"b"}},` +
		`"spec":{"containers":[{"name":"c","image":"i"}]}}}}`
)

// TestManagedFieldsOfNewBuiltinObjects: who creates an object does not own what every object of its Go type has.
func TestManagedFieldsOfNewBuiltinObjects(t *testing.T) {
	s := newTestServer(t)
	for _, c := range []struct{ path, body, want string }{
		{deployments, deployment, `{"f:metadata":{"f:labels":{".":{},"f:a":{}}},"f:spec":{"f:progressDeadlineSeconds":{},"f:replicas":{},"f:revisionHistoryLimit":{},"f:selector":{},` +
			`"f:strategy":{"f:rollingUpdate":{".":{},"f:maxSurge":{},"f:maxUnavailable":{}},"f:type":{}},"f:template":{"f:metadata":{"f:labels":{".":{},"f:a":{}}},` +
			`"f:spec":{"f:containers":{"k:{\"name\":\"c\"}":{".":{},"f:image":{},"f:imagePullPolicy":{},"f:name":{},"f:resources":{},"f:terminationMessagePath":{},` +
			`"f:terminationMessagePolicy":{}}},"f:dnsPolicy":{},"f:restartPolicy":{},"f:schedulerName":{},"f:securityContext":{},"f:terminationGracePeriodSeconds":{}}}}}`},
		{"/api/v1/namespaces/default/events", `{"metadata":{"name":"e"},"involvedObject":{"namespace":"default","kind":"Pod","name":"p"},"reason":"R"}`, `{"f:involvedObject":{},"f:reason":{}}`},
		{"/apis/apps/v1/namespaces/default/controllerrevisions", `{"metadata":{"name":"r"},"data":{"x":1},"revision":1}`, `{"f:data":{},"f:revision":{}}`},
		{"/apis/autoscaling/v1/namespaces/default/horizontalpodautoscalers", `{"metadata":{"name":"h"},"spec":{"maxReplicas":3,"scaleTargetRef":{"apiVersion":"a.io/v1","kind":"D","name":"d"}}}`,
			`{"f:spec":{"f:maxReplicas":{},"f:minReplicas":{},"f:scaleTargetRef":{},"f:targetCPUUtilizationPercentage":{}}}`},
	} {
		body := s.must(201, "POST", c.path, c.body).body
		if _, fields, _ := strings.Cut(body, `"fieldsV1":`); !strings.HasPrefix(fields, c.want+"}") {
			t.Errorf("%s: got\n%.700s\nwant\n%s", c.path, fields, c.want)
		}
	}
}

// TestStatusAndLabels: whether a write of the status may change labels, and whose they are then, depends on the kind.
func TestStatusAndLabels(t *testing.T) {
	s := newTestServer(t)
	s.must(201, "POST", deployments, deployment)
	if a := s.must(200, "PATCH", deployments+"/d/status", `{"metadata":{"labels":{"x":"y"}},"status":{"replicas":1}}`, "Content-Type", merge); a.text("metadata", "labels", "x") != "" ||
		a.get("status", "replicas") != 1.0 {
		t.Errorf("deployment: %s", a.body)
	}
	const pods = "/api/v1/namespaces/default/pods"
	s.must(201, "POST", pods, `{"metadata":{"name":"p"},"spec":{"containers":[{"name":"c","image":"i"}]}}`)
	if a := s.must(200, "PATCH", pods+"/p/status", `{"metadata":{"labels":{"x":"y"}}}`, "Content-Type", merge); a.text("metadata", "labels", "x") != "y" ||
		!strings.Contains(a.body, `"fieldsV1":{"f:metadata":{"f:labels":{".":{},"f:x":{}}}},"subresource":"status"`) {
		t.Errorf("pod: %s", a.body)
	}
	const claims = "/apis/resource.k8s.io/v1/namespaces/default/resourceclaims"
	s.must(201, "POST", claims, `{"metadata":{"name":"c"},"spec":{"devices":{"requests":[{"name":"r","exactly":{"deviceClassName":"c"}}]}}}`)
	if a := s.must(200, "PATCH", claims+"/c/status", `{"metadata":{"labels":{"x":"y"}}}`, "Content-Type", merge); strings.Contains(a.body, `"labels"`) {
		t.Errorf("claim: %s", a.body)
	}
}

// TestColumnsOfNumbers: a number is one in a table, and an event's name is its last column.
func TestColumnsOfNumbers(t *testing.T) {
	s := newTestServer(t)
	s.must(201, "POST", deployments, deployment)
	if a := s.must(200, "GET", deployments+"/d", "", "Accept", tables); !strings.Contains(a.body, `"cells":["d","0/1",0,0,"`) {
		t.Errorf("deployment: %s", a.body)
	}
	s.must(201, "POST", "/apis/apps/v1/namespaces/default/replicasets", deployment)
	if a := s.must(200, "GET", "/apis/apps/v1/namespaces/default/replicasets", "", "Accept", tables); !strings.Contains(a.body, `"cells":["d",1,0,0,"`) ||
		!strings.Contains(a.body, `"name":"Desired","type":"integer"`) {
		t.Errorf("replica set: %s", a.body)
	}
	s.must(201, "POST", "/api/v1/namespaces/default/events", `{"metadata":{"name":"e"},"involvedObject":{"namespace":"default","kind":"Pod","name":"p"},"reason":"R","type":"Normal"}`)
	if a := s.must(200, "GET", "/api/v1/namespaces/default/events", "", "Accept", tables); !strings.Contains(a.body, `"cells":["\u003cunknown\u003e","Normal","R","pod/p","","","","\u003cunknown\u003e",1,"e"]`) &&
		!strings.Contains(a.body, `"cells":["<unknown>","Normal","R","pod/p","","","","<unknown>",1,"e"]`) {
		t.Errorf("event: %s", a.body)
	}
}

// TestWordsOfBuiltinKinds: deprecations and selectors are spoken of as Kubernetes does.
func TestWordsOfBuiltinKinds(t *testing.T) {
	s := newTestServer(t)
	if a := s.must(200, "GET", "/api/v1/namespaces/default/endpoints", ""); !strings.Contains(a.header.Get("Warning"), "v1 Endpoints is deprecated in v1.33+") {
		t.Errorf("endpoints: %v", a.header)
	}
	for path, want := range map[string]string{
		"/api/v1/namespaces/default/configmaps":             `"spec.x" is not a known field selector: only "metadata.name", "metadata.namespace"`,
		"/api/v1/namespaces/default/pods":                   "field label not supported: spec.x",
		"/apis/batch/v1/namespaces/default/jobs":            `field label "spec.x" not supported for Job`,
		"/apis/resource.k8s.io/v1/resourceslices":           "field label not supported for resource.k8s.io/v1, Kind=ResourceSlice: spec.x",
		"/apis/demo.io/v1/namespaces/default/widgets":       "field label not supported: spec.x",
		"/apis/batch/v1/namespaces/default/cronjobs?watch=": `"spec.x" is not a known field selector: only "metadata.name", "metadata.namespace"`,
	} {
		join := "?"
		if strings.Contains(path, "?") {
			join = "&"
		}
		if a := s.must(400, "GET", path+join+"fieldSelector=spec.x%3D1", ""); a.text("message") != want {
			t.Errorf("%s: got %q, want %q", path, a.text("message"), want)
		}
	}
}

// TestDependentsOfOldKinds: who deletes a job and says nothing of its pods keeps them.
func TestDependentsOfOldKinds(t *testing.T) {
	s := newTestServer(t)
	const jobs = "/apis/batch/v1/namespaces/default/jobs"
	job := func(name string) string {
		return `{"metadata":{"name":"` + name + `"},"spec":{"template":{"spec":{"restartPolicy":"Never","containers":[{"name":"c","image":"i"}]}}}}`
	}
	s.must(201, "POST", jobs, job("a"))
	if a := s.must(200, "DELETE", jobs+"/a", ""); !strings.Contains(a.body, `"finalizers":["orphan"]`) {
		t.Errorf("nothing said: %s", a.body)
	}
	s.must(201, "POST", jobs, job("b"))
	if a := s.must(200, "DELETE", jobs+"/b?propagationPolicy=Background", ""); a.text("kind") != "Status" {
		t.Errorf("in the background: %s", a.body)
	}
	s.must(201, "POST", jobs, job("c"))
	if a := s.must(200, "DELETE", jobs+"/c?propagationPolicy=Foreground", ""); !strings.Contains(a.body, `"finalizers":["foregroundDeletion"]`) {
		t.Errorf("in the foreground: %s", a.body)
	}
}

// TestFinalizersOfBuiltinKinds: finalizers of built-in kinds say whose they are, in updates as in new objects, but for some kinds.
func TestFinalizersOfBuiltinKinds(t *testing.T) {
	s := newTestServer(t)
	const pods, leases, definition = "/api/v1/namespaces/default/pods", "/apis/coordination.k8s.io/v1/namespaces/default/leases", "/apis/apiextensions.k8s.io/v1/customresourcedefinitions/foos.x.io"
	s.must(201, "POST", pods, `{"metadata":{"name":"a"},"spec":{"containers":[{"name":"c","image":"i"}]}}`)
	s.must(201, "POST", leases, `{"metadata":{"name":"a"}}`)
	s.must(201, "POST", strings.TrimSuffix(definition, "/foos.x.io"), `{"metadata":{"name":"foos.x.io"},"spec":{"group":"x.io","scope":"Cluster","names":{"plural":"foos","kind":"Foo"},
		"versions":[{"name":"v1","served":true,"storage":true,"schema":{"openAPIV3Schema":{"type":"object"}}}]}}`)
	const unqualified, malformed = "name is neither a standard finalizer name nor is it fully qualified", "name part must consist of"
	for _, row := range []struct {
		path, name string
		wants      []string // nil: it is taken
	}{
		{pods + "/a", "x", []string{unqualified}}, {pods + "/a/status", "x", []string{unqualified}}, {pods + "/a", "a b", []string{malformed, unqualified}}, {pods + "/a", "x/y", nil},
		{"/api/v1/namespaces/default", "x", []string{unqualified}}, {"/api/v1/namespaces/default/status", "a b", []string{malformed, unqualified}}, {"/api/v1/namespaces/default", "orphan", nil},
		{leases + "/a", "x", nil}, {leases + "/a", "a b", []string{malformed}},
		{definition, "x", nil}, {definition, "a b", []string{malformed}}, {definition + "/status", "a b", []string{malformed}},
	} {
		code := 200
		if row.wants != nil {
			code = 422
		}
		a := s.must(code, "PATCH", row.path+"?dryRun=All", `{"metadata":{"finalizers":["`+row.name+`"]}}`, "Content-Type", merge)
		for _, want := range row.wants {
			if !strings.Contains(a.body, want) {
				t.Errorf("%s of %s: got %s, want %s", row.name, row.path, a.body, want)
			}
		}
	}
	a := s.must(422, "POST", "/api/v1/namespaces", `{"metadata":{"name":"n","finalizers":["x"]}}`)
	if !strings.Contains(a.body, unqualified) {
		t.Errorf("a new namespace: %s", a.body)
	}
}
