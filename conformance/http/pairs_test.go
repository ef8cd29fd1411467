package http

import (
	"fmt"
	"strings"
	"sync"
	"testing"
)

// This file makes requests of what several parameters mean together, where one changes what another means: all combinations, of which the
// short test takes a sample.

// pairs sends the combinations, in a namespace of their own.
func (r *run) pairs() {
	requests := []request{}
	for _, name := range []string{"a", "b", "c"} {
		requests = append(requests, request{method: "POST", path: inPairs, save: "pairs." + name,
			body: fmt.Sprintf(`{%s,"metadata":{"name":%q,"labels":{"a":"b"}},"spec":{"color":"green","replicas":1}}`, macros.Replace("$WHEAD"), name)})
	}
	requests = append(requests,
		request{method: "PATCH", path: inPairs + "/a", save: "pairs.a", body: `{"spec":{"replicas":2}}`, header: [][2]string{{"Content-Type", "application/merge-patch+json"}}},
		request{method: "GET", path: inPairs + "?limit=1", save: "page"},
		request{method: "GET", path: "/apis/other.example.com/v1beta1", until: `"things"`, random: true})
	for i := range requests {
		requests[i].script, requests[i].line = "pairs", i
		r.step(&requests[i])
	}
	r.together("windows", sampled(windows()))
	r.together("streams", sampled(streams()))
	r.same.anyOrder = true // what upstream says of what is below a map is in the order of a Go map
	r.together("strictness", sampled(strictness()))
	r.together("grammar", sampled(grammar()))
	r.same.anyOrder = false
	for i, q := range deletions() {
		q.script, q.line = "deletions", i
		r.step(&q)
	}
}

const inPairs = "/apis/demo.io/v1/namespaces/pairs/widgets"

// sampled leaves out most of many requests, if the test is short.
func sampled(all []request) []request {
	if !testing.Short() {
		return all
	}
	var out []request
	for i := 0; i < len(all); i += 1 + len(all)/40 {
		out = append(out, all[i])
	}
	return out
}

// combine returns every way to take one of each: queries whose parts are said only if they are not empty.
func combine(choices ...[]string) []string {
	out := []string{""}
	for _, some := range choices {
		var longer []string
		for _, query := range out {
			for _, c := range some {
				longer = append(longer, strings.Trim(query+"&"+c, "&"))
			}
		}
		out = longer
	}
	return out
}

// windows are lists that begin somewhere, are of some state and end somewhere.
func windows() []request {
	queries := combine(
		[]string{"", "resourceVersion=", "resourceVersion=0", "resourceVersion=${pairs.a.rv}", "resourceVersion=${pairs.a.old}", "resourceVersion=1", "resourceVersion=x", "resourceVersion=-1"},
		[]string{"", "resourceVersionMatch=Exact", "resourceVersionMatch=NotOlderThan", "resourceVersionMatch=x"},
		[]string{"", "limit=1", "limit=0"},
		[]string{"", "continue=${page.continue}", "continue=" + inconsistent, "continue=x"},
	)
	queries = append(queries, combine(
		[]string{"resourceVersion=999999999"},
		[]string{"", "resourceVersionMatch=Exact", "resourceVersionMatch=NotOlderThan"},
		[]string{"", "limit=1"},
	)...)
	var out []request
	for _, query := range queries {
		out = append(out, request{method: "GET", path: inPairs + "?" + query})
	}
	for _, query := range combine([]string{"", "resourceVersion=0", "resourceVersion=${pairs.a.rv}"}, []string{"", "resourceVersionMatch=Exact", "resourceVersionMatch=NotOlderThan"},
		[]string{"sendInitialEvents=true", "sendInitialEvents=false", "sendInitialEvents=", "sendInitialEvents=x"}, []string{"", "limit=1"}) {
		out = append(out, request{method: "GET", path: inPairs + "?" + query})
	}
	return out
}

// streams are watches that begin somewhere, with the state or without, and end by themselves.
func streams() []request {
	var out []request
	for _, path := range []string{inPairs, strings.Replace(inPairs, "/v1/", "/v1beta1/", 1)} {
		for _, query := range combine(
			[]string{"", "resourceVersion=0", "resourceVersion=${pairs.a.rv}", "resourceVersion=${pairs.a.old}", "resourceVersion=999999999", "resourceVersion=x"},
			[]string{"", "resourceVersionMatch=NotOlderThan", "resourceVersionMatch=Exact", "resourceVersionMatch=x"},
			[]string{"", "sendInitialEvents=true", "sendInitialEvents=false", "sendInitialEvents="},
			[]string{"", "allowWatchBookmarks=true"},
		) {
			q := request{method: "GET", path: path + "?watch=1&timeoutSeconds=1&" + query, watch: "pairs"}
			if strings.Contains(query, "999999999") {
				q.path = strings.Replace(q.path, "timeoutSeconds=1", "timeoutSeconds=5", 1) // what it waits for takes three
			}
			out = append(out, q)
		}
	}
	for _, accept := range []string{"$TABLE", "$PARTIAL", "application/vnd.kubernetes.protobuf;as=PartialObjectMetadata;v=v1;g=meta.k8s.io"} {
		for _, query := range combine(
			[]string{"", "resourceVersion=0", "resourceVersion=${pairs.a.old}"},
			[]string{"", "resourceVersionMatch=NotOlderThan&sendInitialEvents=true"},
			[]string{"", "allowWatchBookmarks=true"},
			[]string{"", "includeObject=None", "includeObject=Object"},
			[]string{"", "labelSelector=a", "fieldSelector=spec.replicas%3D1"},
		) {
			out = append(out, request{method: "GET", path: inPairs + "?watch=1&timeoutSeconds=1&" + query, watch: "pairs", header: [][2]string{{"Accept", macros.Replace(accept)}}})
		}
	}
	return out
}

// strictness are dry runs of writes that say what there is no field for, or something twice, by everything that may be written to.
func strictness() []request {
	flaws := []string{
		``, `,"bogus":1`, `,"bogus":1,"bogus":1`, `,"kind":"Widget"`, `,"spec":{"bogus":1,"x":{"y":1}}`, `,"spec":{"color":"red","color":"blue"}`, `,"spec":{"replicas":1,"Replicas":2}`,
		`,"spec":{"ports":[{"name":"p","bogus":1,"port":1,"port":2}],"template":{"kind":"Pod","apiVersion":"v1","bogus":1,"metadata":{"bogus":1,"name":"x"}}}`,
		`,"spec":{"any":{"a":1,"a":2,"bogus":1},"labels":{"a":"1","a":"2"}}`, `,"status":{"bogus":1,"phase":"A","phase":"B"}`, `,"status":{"conditions":[{"type":"A","bogus":1}]}`,
		`,"metadata":{"name":"a","labels":{"a":"b","a":"c"}}`, `,"metadata":{"name":"a","bogus":1,"ownerReferences":[{"apiVersion":"v1","kind":"Node","name":"n","uid":"u","bogus":1}]}`,
		`,"spec":{"color":"pink","bogus":1},"bogus":{}`, `,"spec":{"replicas":2147483648,"bogus":1}`,
	}
	patches := []string{
		`[{"op":"add","path":"/bogus","value":1}]`, `[{"op":"add","path":"/spec/bogus","value":1}]`, `[{"op":"add","path":"/spec/any","value":{"a":1,"a":2}}]`, `[{"op":"test","path":"/spec/bogus","value":null}]`,
		`[{"op":"add","path":"/metadata/bogus","value":1}]`, `[{"op":"add","path":"/status","value":{"bogus":1}}]`, `[{"op":"add","path":"/spec/replicas","value":3,"bogus":1}]`, `[{"op":"add","op":"remove","path":"/spec/replicas"}]`,
		`[{"op":"replace","path":"/spec/replicas","value":7}]`, `[{"op":"remove","path":"/spec"}]`, `[{"op":"add","path":"/spec/replicas","value":"x"},{"op":"add","path":"/spec/bogus","value":1}]`, `[]`,
	}
	var out []request
	add := func(method, path, media, body string) {
		q := request{method: method, path: path, body: body}
		if media != "" {
			q.header = [][2]string{{"Content-Type", media}}
		}
		out = append(out, q)
	}
	for _, validation := range []string{"", "&fieldValidation=Ignore", "&fieldValidation=Warn", "&fieldValidation=Strict"} {
		for _, sub := range []string{"", "/status", "/scale"} {
			path := inPairs + "/a" + sub + "?dryRun=All" + validation
			head := macros.Replace("$WHEAD")
			if sub == "/scale" {
				head = `"apiVersion":"autoscaling/v1","kind":"Scale"`
			}
			for _, flaw := range flaws {
				named := `,"metadata":{"name":"a","namespace":"pairs","resourceVersion":"${pairs.a.rv}"}`
				body := "{" + head + named + flaw + "}"
				add("PUT", path, "", body)
				if sub == "" {
					add("POST", inPairs+"?dryRun=All"+validation, "", strings.Replace("{"+head+`,"metadata":{"name":"new"}`+flaw+"}", `"name":"a"`, `"name":"new"`, 1))
				}
				add("PATCH", path, "application/merge-patch+json", "{"+strings.TrimPrefix(flaw, ",")+"}")
				add("PATCH", path, "application/strategic-merge-patch+json", "{"+strings.TrimPrefix(flaw, ",")+"}")
				add("PATCH", path+"&fieldManager=m&force=true", "application/apply-patch+yaml", "{"+head+flaw+"}")
				if !strings.Contains(flaw, `"metadata"`) {
					add("PATCH", path+"&fieldManager=m&force=true", "application/apply-patch+yaml", "{"+head+`,"metadata":{"name":"a"}`+flaw+"}")
				}
				if sub == "" {
					absent := strings.Replace(path, "/a?", "/new?", 1) + "&fieldManager=m"
					add("PATCH", absent, "application/apply-patch+yaml", "{"+head+strings.ReplaceAll(flaw, `"name":"a"`, `"name":"new"`)+"}")
					add("PATCH", absent, "application/apply-patch+yaml", "{"+head+`,"metadata":{"generateName":"x"}`+flaw+"}")
				}
			}
			for _, patch := range patches {
				add("PATCH", path, "application/json-patch+json", patch)
			}
		}
	}
	return out
}

// deletions are deletions of one and of several, whose options are in the query, in the body or in both.
func deletions() []request {
	const here = "/apis/demo.io/v1/namespaces/deletions/widgets"
	queries := []string{"", "propagationPolicy=Orphan", "dryRun=All", "propagationPolicy=x", "gracePeriodSeconds=0", "orphanDependents=true", "orphanDependents=false&propagationPolicy=Foreground"}
	bodies := []string{
		"", "{}", `{"propagationPolicy":"Foreground"}`, `{"propagationPolicy":"Background","orphanDependents":false}`, `{"orphanDependents":true}`, `{"orphanDependents":false}`, `{"dryRun":["All"]}`, `{"dryRun":["x"]}`, `{"dryRun":["All","All"]}`,
		`{"gracePeriodSeconds":30}`, `{"gracePeriodSeconds":-1}`, `{"preconditions":{"uid":"x"}}`, `{"preconditions":{"resourceVersion":"1"}}`, `{"preconditions":{}}`, `{"kind":"DeleteOptions"}`,
		`{"kind":"DeleteOptions","apiVersion":"demo.io/v1","bogus":1}`, `{"kind":"DeleteOptions","apiVersion":"v1","ignoreStoreReadErrorWithClusterBreakingPotential":true}`, `{"kind":"Status","apiVersion":"v1"}`, "null", "[]",
	}
	var out []request
	for i, body := range bodies {
		for j, query := range queries {
			if testing.Short() && (i+j)%12 != 0 {
				continue
			}
			for _, name := range []string{"one", "two", "held"} {
				metadata := fmt.Sprintf(`"name":%q`, name)
				if name == "held" {
					metadata += `,"finalizers":["demo.io/f"]`
				}
				out = append(out, request{method: "POST", path: here, body: fmt.Sprintf(`{%s,"metadata":{%s},"spec":{}}`, macros.Replace("$WHEAD"), metadata), save: "deletions." + name})
			}
			out = append(out,
				request{method: "DELETE", path: here + "/one?" + query, body: body},
				request{method: "DELETE", path: here + "?labelSelector=!no&" + query, body: body},
				request{method: "GET", path: here})
			for _, name := range []string{"one", "two", "held"} {
				out = append(out, request{method: "PATCH", path: here + "/" + name, body: `{"metadata":{"finalizers":null}}`, header: [][2]string{{"Content-Type", "application/merge-patch+json"}}},
					request{method: "DELETE", path: here + "/" + name})
			}
		}
	}
	return out
}

// together sends requests that change nothing, many at a time, and then compares the answers.
func (r *run) together(script string, requests []request) {
	r.settle(&request{path: inPairs})
	got := make([][2]*answer, len(requests))
	var wg sync.WaitGroup
	slots := make(chan struct{}, 16)
	for i := range requests {
		q := &requests[i]
		q.script, q.line = script, i
		slots <- struct{}{}
		wg.Go(func() {
			defer func() { <-slots }()
			var both sync.WaitGroup
			for side, p := range r.peers {
				both.Go(func() { got[i][side] = p.once(r.build(q, side)) })
			}
			both.Wait()
		})
	}
	wg.Wait()
	for i := range requests {
		r.requests++
		got[i][0].beats, got[i][1].beats = requests[i].watch != "", requests[i].watch != ""
		r.compare(&requests[i], got[i][0], got[i][1])
	}
}
