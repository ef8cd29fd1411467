package http

import (
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"testing"

	apiextv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/runtime"
)

// This file makes requests for the cells of cells_test.go: what it draws for the verb, with one thing as the cell wants it.

// prepare installs the kinds that generated requests need besides those of the scripts: one whose versions a webhook converts, and one
// that is being deleted and is held.
func (r *run) prepare() {
	hook := startConverter(r.t)
	bundle := base64.StdEncoding.EncodeToString(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: hook.Certificate().Raw}))
	version := func(name string, storage bool) string {
		return fmt.Sprintf(`{"name":%q,"served":true,"storage":%t,"subresources":{"status":{}},"schema":{"openAPIV3Schema":{"type":"object","properties":{
			"spec":{"type":"object","x-kubernetes-preserve-unknown-fields":true},"status":{"type":"object","properties":{"n":{"type":"integer"}}}}}}}`, name, storage)
	}
	define := func(plural, kind, more string, versions ...string) request {
		return request{method: "POST", path: crds, body: fmt.Sprintf(`{%s,"metadata":{"name":"%s.demo.io"},"spec":{"group":"demo.io","scope":"Namespaced",
			"names":{"plural":%q,"kind":%q},"versions":[%s]%s}}`, macros.Replace("$CRDHEAD"), plural, plural, kind, strings.Join(versions, ","), more)}
	}
	const endings = "/apis/demo.io/v1/namespaces/ending/endings"
	conversion := fmt.Sprintf(`,"conversion":{"strategy":"Webhook","webhook":{"conversionReviewVersions":["v1"],"clientConfig":{"url":%q,"caBundle":%q}}}`, hook.URL, bundle)
	requests := []request{
		define("gizmos", "Gizmo", conversion, version("v1", true), version("v2", false), version("v3", false)),
		define("endings", "Ending", "", version("v1", true)),
		{method: "GET", path: crds + "/gizmos.demo.io", until: "InitialNamesAccepted"},
		{method: "GET", path: crds + "/endings.demo.io", until: "InitialNamesAccepted"},
		{method: "GET", path: "/apis/demo.io/v1", until: `"gizmos"`, random: true},
		{method: "GET", path: "/apis/demo.io/v1", until: `"endings"`, random: true},
		{method: "SLEEP", path: "2s"},
	}
	for _, name := range []string{"a", "b", "c", "held"} {
		requests = append(requests, request{method: "POST", path: endings,
			body: fmt.Sprintf(`{"apiVersion":"demo.io/v1","kind":"Ending","metadata":{"name":%q,"finalizers":["demo.io/f"]},"spec":{"x":1}}`, name)})
	}
	requests = append(requests, request{method: "DELETE", path: crds + "/endings.demo.io", random: true},
		request{method: "GET", path: crds + "/endings.demo.io", until: "InstanceDeletionInProgress"},
		request{method: "GET", path: endings + "/held", until: "deletionTimestamp"})
	requests = append(requests, request{method: "COMPACT"})
	for i := range requests {
		requests[i].script, requests[i].line = "prepare", i
		r.step(&requests[i])
	}
}

// startConverter starts a webhook that names a field of specs differently in v2, and refuses to make a v3.
func startConverter(t *testing.T) *httptest.Server {
	s := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var review apiextv1.ConversionReview
		if err := json.NewDecoder(r.Body).Decode(&review); err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		answer := &apiextv1.ConversionResponse{UID: review.Request.UID}
		answer.Result.Status = "Success"
		for _, o := range review.Request.Objects {
			var object map[string]any
			if err := json.Unmarshal(o.Raw, &object); err != nil {
				http.Error(w, err.Error(), http.StatusBadRequest)
				return
			}
			object["apiVersion"] = review.Request.DesiredAPIVersion
			rename(object, strings.HasSuffix(review.Request.DesiredAPIVersion, "/v2"))
			text, err := json.Marshal(object)
			if err != nil {
				http.Error(w, err.Error(), http.StatusInternalServerError)
				return
			}
			answer.ConvertedObjects = append(answer.ConvertedObjects, runtime.RawExtension{Raw: text})
		}
		if strings.HasSuffix(review.Request.DesiredAPIVersion, "/v3") {
			answer.ConvertedObjects = nil
			answer.Result.Status, answer.Result.Message = "Failure", "there is no v3"
		}
		review.Request, review.Response = nil, answer
		json.NewEncoder(w).Encode(&review)
	}))
	t.Cleanup(s.Close)
	return s
}

// rename makes spec.x of an object its spec.z, or the other way round.
func rename(object map[string]any, forth bool) {
	from, to := "z", "x"
	if forth {
		from, to = "x", "z"
	}
	spec, _ := object["spec"].(map[string]any)
	if v, ok := spec[from]; ok {
		spec[to] = v
		delete(spec, from)
	}
}

// prelude makes the objects that cells rely on: some that are there, with an older version, one that is being deleted, and a page.
func (g *generator) prelude() []request {
	widgets := "/apis/demo.io/v1/namespaces/" + g.namespace + "/widgets"
	make := func(kind, name, more string) string {
		return fmt.Sprintf(`{"apiVersion":"demo.io/v1","kind":%q,"metadata":{"name":%q%s},"spec":{"x":1,"replicas":1}}`, kind, name, more)
	}
	return []request{
		{method: "POST", path: widgets, body: make("Widget", "a", ""), save: "widgets.a"},
		{method: "PATCH", path: widgets + "/a", body: `{"metadata":{"labels":{"a":"b"}}}`, header: [][2]string{{"Content-Type", "application/merge-patch+json"}}, save: "widgets.a"},
		{method: "POST", path: widgets, body: make("Widget", "b", ""), save: "widgets.b"},
		{method: "POST", path: widgets, body: make("Widget", "t", `,"finalizers":["demo.io/f"]`), save: "widgets.t"},
		{method: "DELETE", path: widgets + "/t"},
		{method: "POST", path: strings.Replace(widgets, "widgets", "gizmos", 1), body: make("Gizmo", "a", ""), save: "gizmos.a"},
		{method: "POST", path: strings.Replace(widgets, "/widgets", "y/widgets", 1), body: make("Widget", "a", "")},
		{method: "GET", path: widgets + "?limit=1", save: "list"},
	}
}

// toward draws a request for a cell.
func (g *generator) toward(c cell) request {
	if c.axis == "path" {
		q := g.pathRequest(c)
		q.cell = &c
		return q
	}
	t := target{version: "v1", kind: "Widget", plural: "widgets", namespace: g.namespace, name: g.pick("a|a|b")}
	if c.axis == "place" {
		t = g.place(c.what)
	}
	g.here = true
	q := g.of(c.verb, t)
	g.here = false
	q.cell = &c
	if c.what == "cluster" && c.verb == "deletecollection" {
		q.path = t.collection() + "?labelSelector=none%3Dnone"
	}
	if c.axis == "version" || c.what != "cluster" && !g.once(3) { // the less is said besides, the more depends on the cell
		q.path, _, _ = strings.Cut(q.path, "?")
		switch c.verb {
		case "watch":
			q.say("watch=1")
		case "apply":
			q.say("fieldManager=m1")
		}
	}
	switch {
	case t.group == "apiextensions.k8s.io":
		g.definition(&q, c.verb)
	case t.namespace == "" && t.plural == "widgets" && t.version == "v1": // what other stretches left is not of interest
		q.say("fieldSelector=metadata.namespace%3D" + g.namespace)
	}
	switch c.axis {
	case "parameter", "version":
		var said []string
		for p := range strings.SplitSeq(c.value, "&") {
			name, values, ok := strings.Cut(p, "=")
			if ok {
				said = append(said, name+"="+g.pick(values))
			}
		}
		q.say(said...)
		if strings.HasPrefix(c.what, "includeObject") {
			q.set("Accept", macros.Replace("$TABLE"))
		}
	case "accept":
		q.set("Accept", macros.Replace(c.value))
		if c.verb == "deletecollection" { // see the ledger
			q.say("dryRun=All")
		}
	case "header":
		for h := range strings.SplitSeq(c.value, "&") {
			name, value, _ := strings.Cut(h, "=")
			q.set(name, value)
		}
	case "content":
		q.set("Content-Type", c.value)
	case "body":
		q.body = g.body(c.value)
	}
	if q.streams() {
		q.watch = "short"
	}
	return q
}

// pathRequest draws a request for what is no resource.
func (g *generator) pathRequest(c cell) request {
	method, how, _ := strings.Cut(c.verb, " ")
	q := request{method: method, path: c.value}
	switch {
	case method == "POST":
		q.body = "{}"
	case how == "gzip":
		q.set("Accept-Encoding", "gzip")
	case how == "curl":
		q.set("User-Agent", "curl/8")
	case strings.Contains(how, "="):
		q.say(how)
	case how != "":
		q.set("Accept", macros.Replace(how))
	}
	return q
}

// place is what a request is about.
func (g *generator) place(what string) target {
	t := target{version: "v1", kind: "Widget", plural: "widgets", namespace: g.namespace, name: "a"}
	gizmo := func(version, sub string) target {
		return target{version: version, kind: "Gizmo", plural: "gizmos", namespace: g.namespace, name: "a", sub: sub}
	}
	switch what {
	case "cluster":
		t = target{version: "v1", kind: "Gadget", plural: "gadgets", name: g.namespace + "a"}
	case "another version":
		t.version = "v1beta1"
	case "a deprecated version":
		t.version = "v1alpha1"
	case "a version not served":
		t.version = "v2"
	case "an unknown resource":
		t.plural = "nothings"
	case "an unknown group":
		t.group = "nothing.io"
	case "without its namespace":
		t.namespace = ""
	case "with a namespace it has not got":
		t.kind, t.plural = "Gadget", "gadgets"
	case "status", "scale":
		t.sub = what
	case "an unknown subresource":
		t.sub = "x"
	case "a definition", "a definition's status":
		t = target{group: "apiextensions.k8s.io", version: "v1", kind: "CustomResourceDefinition", plural: "customresourcedefinitions", name: "gadgets.demo.io"}
		if what != "a definition" {
			t.sub = "status"
		}
	case "converted by a webhook":
		t = gizmo("v2", "")
	case "a converted status":
		t = gizmo("v2", "status")
	case unconverted:
		t = gizmo("v3", "")
	case "a kind that ends":
		t = target{version: "v1", kind: "Ending", plural: "endings", namespace: "ending", name: g.pick("a|b|c")}
	case "an object that ends":
		t.name = "t"
	case "a bad name":
		t.name = g.pick("A|a_b|a%20b|%25|-a|" + strings.Repeat("n", 260))
	}
	return t
}

// definition makes a request one about definitions, which changes none.
func (g *generator) definition(q *request, verb string) {
	q.say("dryRun=All")
	name := "gadgets"
	switch verb {
	case "create":
		name = g.pick("gadgets|gaskets|Gaskets")
		fallthrough
	case "update":
		q.body = fmt.Sprintf(`{%s,"metadata":{"name":"%s.demo.io"},"spec":{"group":"demo.io","scope":%q,"names":{"plural":%q,"kind":"Gasket"},
			"versions":[{"name":"v1","served":true,"storage":%s,"schema":{"openAPIV3Schema":{"type":%q}}}]}}`,
			macros.Replace("$CRDHEAD"), name, g.pick("Cluster|Cluster|Nowhere"), strings.ToLower(name), g.pick("true|true|false"), g.pick("object|object|string"))
	case "patch":
		q.set("Content-Type", g.pick("application/merge-patch+json|application/strategic-merge-patch+json"))
		q.body = g.pick(`{"metadata":{"labels":{"a":"b"}}}|{"spec":{"group":"other.io"}}|{"spec":{"names":{"shortNames":["g"]}}}|{"status":{"storedVersions":["v1"]}}|{}`)
	case "apply":
		q.body = fmt.Sprintf(`{%s,"metadata":{"name":"gadgets.demo.io","labels":{"a":"b"}}}`, macros.Replace("$CRDHEAD"))
	case "delete":
		if q.body != "" { // then nothing else is read
			q.body = `{"dryRun":["All"]}`
		}
	case "list", "watch": // upstream writes those that end now and then
		q.say("fieldSelector=metadata.name%3Dgadgets.demo.io")
	case "deletecollection":
		q.say("labelSelector=none%3Dnone")
	}
}

// body is one of bodies.
func (g *generator) body(name string) string {
	switch text := bodies[name]; text {
	case "huge":
		return `{` + macros.Replace("$WHEAD") + `,"metadata":{"name":"a"},"spec":{"note":"` + strings.Repeat("x", 3<<20) + `"}}`
	case "deep":
		return deep(12000, "array")
	default:
		return text
	}
}

// follow draws a watch.
func (g *generator) follow(q *request, t target) {
	q.method, q.save = "GET", "list"
	q.path = t.collection() + "?watch=1&" + g.query(5, "labelSelector=a=b|!a", "fieldSelector=spec.color=red|metadata.name=a", "resourceVersion=0|${widgets.a.rv}", "allowWatchBookmarks=true", "pretty=1")
}

// say sets parameters in place of those of the same names.
func (q *request) say(parameters ...string) {
	path, query, _ := strings.Cut(q.path, "?")
	var kept []string
	for p := range strings.SplitSeq(query, "&") {
		said := p == ""
		for _, new := range parameters {
			name, _, _ := strings.Cut(new, "=")
			said = said || strings.HasPrefix(p, name+"=")
		}
		if !said {
			kept = append(kept, p)
		}
	}
	for _, p := range parameters {
		kept = append(kept, strings.ReplaceAll(p, " ", "%20"))
	}
	q.path = path + "?" + strings.Join(kept, "&")
}

// set sets a header.
func (q *request) set(name, value string) {
	for i := range q.header {
		if q.header[i][0] == name {
			q.header[i][1] = value
			return
		}
	}
	q.header = append(q.header, [2]string{name, value})
}

// streams reports whether the answer to a request is a stream, unless it is refused.
func (q *request) streams() bool {
	_, query, _ := strings.Cut(q.path, "?")
	values, _ := url.ParseQuery(query)
	v := values.Get("watch")
	return (q.verb == "list" || q.verb == "watch") && values.Has("watch") && v != "0" && !strings.EqualFold(v, "false")
}

// note counts what was answered to a request.
func (r *run) note(q *request, code int) {
	if verb := q.does(); verb != "" {
		if r.reached.codes[verb] == nil {
			r.reached.codes[verb] = map[int]int{}
		}
		r.reached.codes[verb][code]++
	}
	if q.cell != nil && !(strings.Contains(q.cell.value, "${") && strings.Contains(r.fill(q.path, 0), "${")) {
		r.reached.cells[*q.cell]++
	}
}

// resources are the paths of objects and of collections.
var resources = regexp.MustCompile(`^/apis/[^/]+/[^/]+/(namespaces/[^/]+/)?[^/?]+(/[^?]+)?(\?|$)`)

// does is the verb of a request, "" if it is about no resource.
func (q *request) does() string {
	m := resources.FindStringSubmatch(q.path)
	if q.verb != "" || m == nil {
		return q.verb
	}
	one := m[2] != ""
	switch q.method {
	case "GET":
		switch {
		case q.watch != "":
			return "watch"
		case one:
			return "get"
		}
		return "list"
	case "POST":
		return "create"
	case "PUT":
		return "update"
	case "PATCH":
		if slices.ContainsFunc(q.header, func(h [2]string) bool { return h[0] == "Content-Type" && strings.Contains(h[1], "apply-patch") }) {
			return "apply"
		}
		return "patch"
	case "DELETE":
		if one {
			return "delete"
		}
		return "deletecollection"
	}
	return ""
}
