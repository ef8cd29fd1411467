package api

import (
	"strings"
	"testing"
)

// This file is a table of single requests and what they are answered.

func TestRequests(t *testing.T) {
	s := newTestServer(t)
	s.must(201, "POST", widgets, widget("a", `"color":"blue","replicas":2`))
	s.must(201, "POST", gadgets, `{"apiVersion":"demo.io/v1","kind":"Gadget","metadata":{"name":"g"},"x":{"y":1}}`)
	const configmaps = "/api/v1/namespaces/default/configmaps"
	long := strings.Repeat("x", 3<<20)
	rows := []struct {
		line         int
		method, path string
		body         string
		headers      []string
		code         int
		want         string // in the body
	}{
		// Reading.
		{where(), "GET", widgets + "/a", "", nil, 200, `"color":"blue"`},
		{where(), "HEAD", widgets + "/a", "", nil, 200, ``},
		{where(), "GET", widgets + "/zzz", "", nil, 404,
			`"message":"widgets.demo.io \"zzz\" not found","reason":"NotFound","details":{"name":"zzz","group":"demo.io","kind":"widgets"},"code":404`},
		{where(), "GET", widgets + "/a/", "", nil, 200, `"color":"blue"`},
		{where(), "GET", "/apis/demo.io/v1/widgets", "", nil, 200, `"kind":"WidgetList"`},
		{where(), "GET", "/apis/demo.io/v1/widgets/a", "", nil, 404, `404 page not found`},
		{where(), "GET", "/apis/demo.io/v1/namespaces/default/gadgets/g", "", nil, 404, `404 page not found`},
		{where(), "GET", "/apis/demo.io/v2/widgets", "", nil, 404, `404 page not found`},
		{where(), "GET", "/apis/demo.io/v1/things", "", nil, 404, `404 page not found`},
		{where(), "GET", gadgets + "/g", "", nil, 200, `"x":{"y":1}`},
		{where(), "GET", widgets + "/a?resourceVersion=999999", "", nil, 504, `Too large resource version: 999999, current: `},
		{where(), "GET", widgets + "/a?resourceVersion=x", "", nil, 500, `"status":"Failure"`},
		{where(), "GET", widgets + "/a?timeout=abc", "", nil, 400, `invalid timeout specified in the request URL - `},
		{where(), "GET", widgets + "/a/nothing", "", nil, 404, `widgets.demo.io \"a\" not found`},
		{where(), "GET", "/apis/demo.io/v1beta1/namespaces/default/widgets/a", "", nil, 200, `"apiVersion":"demo.io/v1beta1"`},
		{where(), "GET", "/apis/demo.io/v1beta1/namespaces/default/widgets/a/status", "", nil, 404, `not found`},
		// Encodings.
		{where(), "GET", widgets + "/a", "", []string{"Accept", "application/yaml"}, 200, "apiVersion: demo.io/v1\n"},
		{where(), "GET", widgets + "/a?pretty=true", "", nil, 200, "{\n  \"apiVersion\": \"demo.io/v1\",\n"},
		{where(), "GET", widgets + "/a", "", []string{"User-Agent", "curl/8"}, 200, "{\n  \"apiVersion\""},
		{where(), "GET", widgets + "/a", "", []string{"Accept", "application/vnd.kubernetes.protobuf, */*"}, 200, `{"apiVersion"`},
		{where(), "GET", widgets + "/zzz", "", []string{"Accept", "text/html"}, 406,
			`only the following media types are accepted: application/json, application/yaml, application/vnd.kubernetes.protobuf`},
		{where(), "GET", widgets + "/zzz", "", []string{"Accept", "application/yaml"}, 404, "reason: NotFound"},
		{where(), "GET", widgets + "/a", "", []string{"Accept", "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1"}, 200,
			`{"kind":"PartialObjectMetadata","apiVersion":"meta.k8s.io/v1","metadata":{`},
		{where(), "GET", widgets, "", []string{"Accept", "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1"}, 406, `NotAcceptable`},
		{where(), "GET", widgets, "", []string{"Accept", "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1beta1"}, 200,
			`{"kind":"PartialObjectMetadataList","apiVersion":"meta.k8s.io/v1beta1"`},
		{where(), "GET", widgets + "/a", "", []string{"Accept", "application/json;as=Unheard;g=meta.k8s.io;v=v1, application/json"}, 200, `"spec"`},
		{where(), "GET", widgets + "?watch=1", "", []string{"Accept", "application/yaml"}, 406,
			"application/json;stream=watch,\n  application/vnd.kubernetes.protobuf;stream=watch"},
		// Listing.
		{where(), "GET", widgets + "?labelSelector=a+in+x", "", nil, 400, `unable to parse requirement`},
		{where(), "GET", widgets + "?fieldSelector=spec.size=1", "", nil, 400, `"message":"field label not supported: spec.size"`},
		{where(), "GET", widgets + "?fieldSelector=spec.color=blue", "", nil, 200, `"name":"a"`},
		{where(), "GET", widgets + "?fieldSelector=spec.color!=blue", "", nil, 200, `"items":[]`},
		{where(), "GET", widgets + "?fieldSelector=metadata.name=a", "", nil, 200, `"name":"a"`},
		{where(), "GET", widgets + "?limit=x", "", nil, 400, `strconv.ParseInt`},
		{where(), "GET", widgets + "?continue=abc", "", nil, 400, `continue key is not valid`},
		{where(), "GET", widgets + "?resourceVersionMatch=Exact", "", nil, 422, `resourceVersionMatch`},
		// Creating.
		{where(), "POST", widgets, `{"kind":"Widget"`, nil, 400, `couldn't get version/kind; json parse error: unexpected end of JSON input`},
		{where(), "POST", widgets, `{}`, nil, 400, `Object 'Kind' is missing in '`},
		{where(), "POST", widgets, `{"apiVersion":"demo.io/v9","kind":"Widget","metadata":{"name":"b"}}`, nil, 400,
			`the API version in the data (demo.io/v9) does not match the expected API version (demo.io/v1)`},
		{where(), "POST", widgets, `{"apiVersion":"demo.io/v1","kind":"Foo","metadata":{"name":"b"}}`, nil, 422,
			`kind: Invalid value: \"Foo\": must be Widget`},
		{where(), "POST", widgets, `{"apiVersion":"demo.io/v1","kind":"Widget","metadata":{"name":"b","namespace":"other"}}`, nil, 400,
			`the namespace of the provided object does not match the namespace sent on the request`},
		{where(), "POST", widgets, `{"apiVersion":"demo.io/v1","kind":"Widget","metadata":{"name":"b","resourceVersion":"1"}}`, nil, 500,
			`"message":"resourceVersion should not be set on objects to be created"`},
		{where(), "POST", widgets + "?dryRun=All", `{"apiVersion":"demo.io/v1","kind":"Widget","metadata":{"name":"b","resourceVersion":"1"}}`, nil, 201,
			`"resourceVersion":"1"`},
		{where(), "POST", widgets, `{"apiVersion":"demo.io/v1","kind":"Widget","metadata":{"name":"Bad_Name","resourceVersion":"1"}}`, nil, 422,
			`a lowercase RFC 1123 subdomain`},
		{where(), "POST", widgets, `{"apiVersion":"demo.io/v1","kind":"Widget","metadata":{}}`, nil, 422, `name or generateName is required`},
		{where(), "POST", widgets, widget("a", ``), nil, 409, `"message":"widgets.demo.io \"a\" already exists","reason":"AlreadyExists"`},
		{where(), "POST", widgets, widget("b", `"replicas":101`), nil, 422, `spec.replicas`},
		{where(), "POST", widgets, widget("Bad_Name", ``), nil, 422, `a lowercase RFC 1123 subdomain`},
		{where(), "POST", widgets + "?dryRun=All", widget("dry", ``), nil, 201, `"name":"dry"`},
		{where(), "GET", widgets + "/dry", "", nil, 404, ``},
		{where(), "POST", widgets + "?dryRun=All", widget("a", ``), nil, 409, `already exists`},
		{where(), "POST", widgets + "?dryRun=Some", widget("b", ``), nil, 422, `CreateOptions.meta.k8s.io`},
		{where(), "POST", widgets + "?fieldValidation=Strict", widget("b", `"bogus":1,"color":"x","color":"y"`), nil, 400,
			`Widget in version \"v1\" cannot be handled as a Widget: strict decoding error: duplicate field \"spec.color\", unknown field \"spec.bogus\"`},
		{where(), "POST", widgets, "{" + long, nil, 413, `limit is 3145728`},
		{where(), "POST", widgets, widget("b", ``), []string{"Content-Type", "text/plain"}, 415,
			`the body of the request was in an unknown format - accepted media types include: `},
		{where(), "POST", "/apis/demo.io/v1/namespaces/nowhere/widgets", widget("b", ``), nil, 404, `"message":"namespaces \"nowhere\" not found"`},
		{where(), "POST", widgets, `{"apiVersion":"demo.io/v1","kind":"Widget","metadata":{"name":"b","labels":{"a":1}}}`, nil, 400, `cannot be handled as a Widget`},
		// A built-in kind need not be said, a custom one must.
		{where(), "POST", configmaps + "?dryRun=All", `{"metadata":{"name":"c"}}`, nil, 201, `{"kind":"ConfigMap","apiVersion":"v1",`},
		{where(), "POST", configmaps + "?dryRun=All", `{"apiVersion":"","kind":null,"metadata":{"name":"c"}}`, nil, 201, `{"kind":"ConfigMap","apiVersion":"v1",`},
		{where(), "POST", configmaps + "?dryRun=All", "metadata: {name: c}", []string{"Content-Type", "application/yaml"}, 201, `{"kind":"ConfigMap","apiVersion":"v1",`},
		{where(), "POST", configmaps, `{"apiVersion":"v2","metadata":{"name":"c"}}`, nil, 400,
			`ConfigMap in version \"v2\" cannot be handled as a ConfigMap: no kind \"ConfigMap\" is registered for version \"v2\" in scheme`},
		{where(), "POST", configmaps, `{"apiVersion":"v1","kind":"Secret","metadata":{"name":"c"}}`, nil, 400,
			`Secret in version \"v1\" cannot be handled as a ConfigMap: converting (v1.Secret) to (v1.ConfigMap): unknown conversion`},
		{where(), "POST", "/apis/autoscaling/v2/namespaces/default/horizontalpodautoscalers", `{"apiVersion":"autoscaling/v1","kind":"HorizontalPodAutoscaler","metadata":{"name":"c"}}`, nil, 400,
			`the API version in the data (autoscaling/v1) does not match the expected API version (autoscaling/v2)`},
		{where(), "POST", configmaps, `{"metadata":{"name":"c"},"data":1}`, nil, 400, `ConfigMap in version \"v1\" cannot be handled as a ConfigMap: `},
		{where(), "POST", configmaps, `{"metadata":{"name":"c","x":1}}`, nil, 201, `"kind":"ConfigMap"`},
		{where(), "POST", configmaps, `{"metadata":`, nil, 400,
			`the object provided is unrecognized (must be of type ConfigMap): couldn't get version/kind; json parse error: unexpected end of JSON input ({\"metadata\":)`},
		{where(), "POST", configmaps, `[]`, nil, 400, `(must be of type ConfigMap): couldn't get version/kind; json parse error: json: cannot unmarshal array into Go value of type struct { APIVersion string`},
		{where(), "PUT", configmaps + "/c", `{"metadata":{"name":"c"},"data":{"a":"b"}}`, nil, 200, `"kind":"ConfigMap"`},
		{where(), "PATCH", configmaps + "/c", `{"kind":null,"data":{"a":"c"}}`, []string{"Content-Type", merge}, 200, `"kind":"ConfigMap"`},
		{where(), "POST", "/api/v1/namespaces?dryRun=All", `{"metadata":{"name":"n"}}`, nil, 201, `{"kind":"Namespace","apiVersion":"v1",`},
		{where(), "POST", "/apis/batch/v1/namespaces/default/jobs?dryRun=All",
			`{"metadata":{"generateName":"job-of-"},"spec":{"template":{"spec":{"restartPolicy":"Never","containers":[{"name":"c","image":"i"}]}}}}`, nil, 201, `"job-name":"job-of-`},
		{where(), "POST", "/apis/apps/v1/namespaces/default/deployments", `{"apiVersion":"apps/","kind":"Deployment"}`, nil, 422, `name or generateName is required`},
		{where(), "POST", "/apis/apiextensions.k8s.io/v1/customresourcedefinitions", `{"metadata":{"name":"c"}}`, nil, 422,
			`CustomResourceDefinition.apiextensions.k8s.io \"c\" is invalid`},
		{where(), "POST", "/apis/apiextensions.k8s.io/v1beta1/customresourcedefinitions", `{"metadata":{"name":"c"}}`, nil, 422,
			`CustomResourceDefinition.apiextensions.k8s.io \"c\" is invalid`},
		{where(), "POST", widgets, `{"apiVersion":"demo.io/v1","metadata":{"name":"b"}}`, nil, 400, `Object 'Kind' is missing in '`},
		{where(), "POST", widgets, `{"kind":"Widget","metadata":{"name":"b"}}`, nil, 400, `the API version in the data () does not match the expected API version (demo.io/v1)`},
		// Updating.
		{where(), "PUT", widgets + "/a", widget("a", ``), nil, 422, `metadata.resourceVersion: Invalid value: 0: must be specified for an update`},
		{where(), "PUT", widgets + "/a", widget("z", ``), nil, 400, `the name of the object (z) does not match the name on the URL (a)`},
		{where(), "PUT", widgets + "/zzz", `{"apiVersion":"demo.io/v1","kind":"Widget","metadata":{"name":"zzz","resourceVersion":"1"}}`, nil, 404, `not found`},
		{where(), "PUT", widgets + "/a", `{"apiVersion":"demo.io/v1","kind":"Widget","metadata":{"name":"a","resourceVersion":"1"}}`, nil, 409,
			`Operation cannot be fulfilled on widgets.demo.io \"a\": the object has been modified; please apply your changes to the latest version and try again`},
		{where(), "PUT", widgets, `{}`, nil, 400, `name must be provided`},
		{where(), "POST", widgets + "/a/status", `{}`, nil, 405, `MethodNotAllowed`},
		// Patching.
		{where(), "PATCH", widgets + "/a", `{}`, []string{"Content-Type", "application/strategic-merge-patch+json"}, 415,
			`application/json-patch+json, application/merge-patch+json, application/apply-patch+yaml`},
		{where(), "PATCH", widgets + "/a", `{`, []string{"Content-Type", merge}, 400, `invalid JSON patch`},
		{where(), "PATCH", widgets + "/a", `[{"op":"test","path":"/spec/color","value":"green"}]`, []string{"Content-Type", jpatch}, 422, `"reason":"Invalid"`},
		{where(), "PATCH", widgets + "/zzz", `{}`, []string{"Content-Type", merge}, 404, `not found`},
		{where(), "PATCH", widgets + "/a", `{"metadata":{"name":"c"}}`, []string{"Content-Type", merge}, 400, `does not match the name on the URL`},
		{where(), "PATCH", widgets + "/a", `{"metadata":{"resourceVersion":"1"}}`, []string{"Content-Type", merge}, 409, `the object has been modified`},
		{where(), "PATCH", widgets + "/a?fieldValidation=Strict", `{"spec":{"bogus":1}}`, []string{"Content-Type", merge}, 422,
			`strict decoding error: unknown field \"spec.bogus\"`},
		{where(), "PATCH", widgets + "/a?force=true", `{}`, []string{"Content-Type", merge}, 422, `force`},
		{where(), "PATCH", widgets + "/a", `apiVersion: demo.io/v1`, []string{"Content-Type", ssa}, 422, `fieldManager: Required value`},
		// Deleting.
		{where(), "DELETE", widgets + "/zzz", "", nil, 404, `not found`},
		{where(), "DELETE", widgets + "/a", `{"preconditions":{"uid":"zzz"}}`, nil, 409,
			`Operation cannot be fulfilled on Widget.demo.io \"a\": the UID in the precondition (zzz) does not match the UID in record (`},
		{where(), "DELETE", widgets + "/a?dryRun=All", "", nil, 200, `"status":"Success"`},
		{where(), "DELETE", "/api/v1/namespaces/default", "", nil, 403, `namespaces \"default\" is forbidden: this namespace may not be deleted`},
		// Other paths.
		{where(), "GET", "/healthz", "", nil, 200, `ok`},
		{where(), "GET", "/readyz?verbose&exclude=nope", "", nil, 200, "warn: some health checks cannot be excluded: no matches for \"nope\"\n"},
		{where(), "GET", "/livez/ping", "", nil, 200, `ok`},
		{where(), "GET", "/livez/none", "", nil, 404, "404 page not found\n"},
		{where(), "GET", "/version", "", nil, 200, `"gitVersion": "v1.37.2+keelson`},
		{where(), "GET", "/metrics", "", nil, 200, "apiserver_request_total{"},
		{where(), "GET", "/", "", nil, 200, `"/apis/demo.io/v1"`},
		{where(), "GET", "/nothing", "", nil, 404, "404 page not found\n"},
		// Who may.
		{where(), "GET", widgets + "/a", "", []string{"Test-User", "u"}, 403,
			`widgets.demo.io \"a\" is forbidden: User \"u\" cannot get resource \"widgets\" in API group \"demo.io\" in the namespace \"default\"`},
		{where(), "PUT", widgets + "/a/status", "", []string{"Test-User", "u"}, 403, `cannot update resource \"widgets/status\"`},
		{where(), "GET", "/metrics", "", []string{"Test-User", "u"}, 403, `"message":"forbidden: User \"u\" cannot get path \"/metrics\""`},
		{where(), "GET", "/healthz", "", []string{"Test-User", "u"}, 200, `ok`},
		{where(), "GET", widgets + "/a", "", []string{"Test-User", "u", "Impersonate-User", "admin"}, 403, `cannot impersonate-on:user-info:get resource \"widgets\"`},
		{where(), "GET", widgets + "/a", "", []string{"Impersonate-User", "v"}, 403, `User \"v\" cannot get`},
		{where(), "GET", widgets + "/a", "", []string{"Impersonate-User", "v", "Impersonate-Group", "system:masters"}, 200, `"color":"blue"`},
	}
	for _, r := range rows {
		headers := r.headers
		a := s.call(r.method, r.path, r.body, headers...)
		if a.code != r.code || !strings.Contains(a.body, r.want) {
			body := a.body
			if len(body) > 600 {
				body = body[:600] + "…"
			}
			t.Errorf("line %d: %s %s: got %d %s\nwant %d with %s", r.line, r.method, r.path, a.code, body, r.code, r.want)
		}
		if a.header.Get("Audit-Id") == "" {
			t.Errorf("line %d: no audit id", r.line)
		}
	}
}
