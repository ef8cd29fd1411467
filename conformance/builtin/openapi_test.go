package builtin

import (
	"encoding/json"
	"maps"
	"regexp"
	"slices"
	"strings"
	"time"
)

// This file compares the documents of OpenAPI, in both versions, with a custom resource in them.

// Paths and schemas that only one side has, or that are of something that Keelson has in another form.
var (
	unlikePaths = regexp.MustCompile(`/(pods|services|nodes)/\{name\}/(attach|exec|log|portforward|proxy)\b` +
		`|^/apis/apiregistration\.k8s\.io/v1/(watch/)?apiservices|^/apis/apiextensions\.k8s\.io/v1beta1/`)
	unlikeSchemas = regexp.MustCompile(`^io\.k8s\.(kube-aggregator\..*` +
		`|apiextensions-apiserver\.pkg\.apis\.apiextensions\.v1beta1\..*)$`)
)

// widgets is a definition with much of what documents show.
const widgets = `{"apiVersion":"apiextensions.k8s.io/v1","kind":"CustomResourceDefinition","metadata":{"name":"widgets.demo.io"},"spec":{"group":"demo.io","scope":"Namespaced",
	"names":{"plural":"widgets","kind":"Widget"},"versions":[
	{"name":"v1","served":true,"storage":true,"subresources":{"status":{},"scale":{"specReplicasPath":".spec.replicas","statusReplicasPath":".status.replicas"}},
		"selectableFields":[{"jsonPath":".spec.color"}],"schema":{"openAPIV3Schema":{"type":"object","description":"A widget.","properties":{
		"spec":{"type":"object","required":["color"],"properties":{"color":{"type":"string","default":"red"},"replicas":{"type":"integer","nullable":true},
			"any":{"x-kubernetes-preserve-unknown-fields":true},"template":{"type":"object","x-kubernetes-embedded-resource":true,"x-kubernetes-preserve-unknown-fields":true}}},
		"status":{"type":"object","properties":{"replicas":{"type":"integer"}}}}}}},
	{"name":"v1beta1","served":true,"storage":false,"schema":{"openAPIV3Schema":{"type":"object","x-kubernetes-preserve-unknown-fields":true}}}]}}`

// documents asks for all of them.
func (r *run) documents() {
	r.t.Helper()
	const definitions = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
	for _, p := range r.peers {
		if a := p.ask(&request{method: "POST", path: definitions, body: widgets}); a.code != 201 {
			r.t.Fatalf("%s: %d %s", p.name, a.code, a.body)
		}
	}
	defer func() {
		for _, p := range r.peers {
			p.ask(&request{method: "DELETE", path: definitions + "/widgets.demo.io"})
		}
	}()
	second := r.both("/openapi/v2", func(d m) bool { return d["paths"].(m)["/apis/demo.io/v1/widgets"] != nil })
	for side := range second { // what is shared is what the rest refers to
		second[side]["parameters"] = usedParameters(second[side])
	}
	r.document("/openapi/v2", second, "definitions")
	index := r.both("/openapi/v3", func(d m) bool {
		return d["paths"].(m)["apis/demo.io/v1"] != nil && d["paths"].(m)["apis/demo.io/v1beta1"] != nil
	})
	for _, key := range slices.Sorted(maps.Keys(index[1]["paths"].(m))) {
		if key == "apis/apiextensions.k8s.io/v1beta1" {
			continue
		}
		docs := r.both("/openapi/v3/"+key, func(d m) bool { return d["components"] != nil })
		for side := range docs {
			components := docs[side]["components"].(m)
			docs[side]["schemas"] = components["schemas"]
			delete(components, "schemas")
		}
		if key == "apis/apiregistration.k8s.io/v1" { // what else is there refers to API services, which are in a form of their own
			docs[0]["schemas"], docs[1]["schemas"] = m{}, m{}
		}
		r.document("/openapi/v3/"+key, docs, "schemas")
	}
}

// both are the documents of both sides, once they are complete.
func (r *run) both(path string, complete func(m) bool) (docs [2]m) {
	r.t.Helper()
	r.requests++
	for side, p := range r.peers {
		for end := time.Now().Add(patience); ; time.Sleep(50 * time.Millisecond) {
			a := p.ask(&request{method: "GET", path: path})
			docs[side] = nil
			if err := json.Unmarshal(a.body, &docs[side]); err == nil && complete(docs[side]) {
				break
			}
			if time.Now().After(end) {
				r.t.Fatalf("%s: GET %s: %d %.300s", p.name, path, a.code, a.body)
			}
		}
	}
	return docs
}

// document compares two documents, whose schemas are in the member of that name.
func (r *run) document(path string, docs [2]m, schemas string) {
	r.t.Helper()
	for side := range docs {
		maps.DeleteFunc(docs[side]["paths"].(m), func(name string, _ any) bool { return unlikePaths.MatchString(name) })
		all, _ := docs[side][schemas].(m)
		maps.DeleteFunc(all, func(name string, _ any) bool { return unlikeSchemas.MatchString(name) })
	}
	var all []difference
	r.same.compare(&all, path, any(docs[0]), any(docs[1]))
	all = slices.DeleteFunc(all, worded)
	if len(all) == 0 {
		return
	}
	r.differ++
	r.unintended++
	for i, d := range all {
		if i == 20 {
			r.t.Errorf("%s: and %d more", path, len(all)-i)
			return
		}
		r.t.Errorf("%s", d)
	}
}

// ownWords finds the descriptions that Keelson words itself, since no module that it is built of has them; see builtin.
var ownWords = regexp.MustCompile(`\.(v1\.(ValidatingAdmissionPolicyBindingSpec\.properties\.validationActions|CertificateSigningRequestStatus\.properties\.certificate` +
	`|PodSecurityContext\.properties\.fsGroup|PodSpec\.properties\.setHostnameAsFQDN|TopologySpreadConstraint\.properties\.(maxSkew|minDomains|whenUnsatisfiable))` +
	`|util\.intstr\.IntOrString)\.description$`)

// meanings finds what a description says about each possible value of an enumeration, which modules do not have.
var meanings = regexp.MustCompile("(?m)^( - `\"[^`]*\"`).*$")

// worded reports whether a difference is one that docs/compat.md lists: a description in own words, or possible values without their
// meanings.
func worded(d difference) bool {
	var theirs, ours string
	if !strings.HasSuffix(d.place, ".description") || json.Unmarshal([]byte(d.theirs), &theirs) != nil || json.Unmarshal([]byte(d.ours), &ours) != nil {
		return false
	}
	if ownWords.MatchString(d.place) {
		return true
	}
	const values = "\n\nPossible enum values:\n"
	text, list, ok := strings.Cut(theirs, values)
	return ok && ours == strings.TrimSpace(text)+values+meanings.ReplaceAllString(list, "$1")
}

// usedParameters are those shared parameters of a document that paths that both sides have refer to.
func usedParameters(d m) m {
	shared, out := d["parameters"].(m), m{}
	for path, item := range d["paths"].(m) {
		if unlikePaths.MatchString(path) {
			continue
		}
		text := print(item)
		for name, p := range shared {
			if strings.Contains(text, `"#/parameters/`+name+`"`) {
				out[name] = p
			}
		}
	}
	return out
}
