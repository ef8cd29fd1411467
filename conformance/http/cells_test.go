package http

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
)

// This file says what the generated requests have to reach: the cells of a matrix of verbs and what requests may say. Every second
// generated request is made for a cell (surface_test.go), all in turn, in an order that the seed decides. That each was reached is a
// condition of the test, as is that every verb was answered in each of the ways that it has, by these requests or by those of scripts.

// cell is one thing that a request is to be: a verb with one thing said in one way.
type cell struct {
	axis, verb, what string
	value            string // how it is said; several parameters are separated by "&"
}

func (c cell) String() string { return strings.TrimSpace(c.axis + ": " + c.verb + " " + c.what) }

// verbs are what a request may do. The two kinds of patches that change an object as it is are one.
var verbs = []string{"get", "list", "watch", "create", "update", "patch", "apply", "delete", "deletecollection"}

// parameters are those of the query, with values that fit and values that do not, separated by "|". Each goes with every verb, also with
// those that it means nothing for.
var parameters = []struct{ name, valid, invalid string }{
	{"pretty", "true|1|false", "x"},
	{"timeout", "5s|1m|34s", "x|-1s|5"},
	{"dryRun", "All", "x|all"},
	{"fieldManager", "m1|m2", strings.Repeat("m", 129) + "|%01"},
	{"fieldValidation", "Strict|Warn|Ignore", "x|strict"},
	{"force", "true|false", "x"},
	{"resourceVersion", "0|${widgets.a.rv}", "x|-1|1.5"},
	{"resourceVersionMatch", "Exact|NotOlderThan", "x|exact"},
	{"labelSelector", "a%3Db|a|!a|a in (b,c)|a!%3Db", "!!|a in b|_x%3D1"},
	{"fieldSelector", "metadata.name%3Da|spec.color%3Dred|metadata.name!%3Da", "spec.x%3D1|garbage|a%3Db%3Dc"},
	{"limit", "1|2|500|0|-1", "x|99999999999999999999|1.5"},
	{"continue", "${list.continue}|" + inconsistent, "x|e30|" + foreign},
	{"timeoutSeconds", "1|600", "x|1s"},
	{"allowWatchBookmarks", "true|false", "x"},
	{"sendInitialEvents", "true|false", "x"},
	{"watch", "false|0", "abc|true"},
	{"propagationPolicy", "Background|Foreground|Orphan", "x|background"},
	{"gracePeriodSeconds", "0|10", "x|-1"},
	{"orphanDependents", "true|false", "x"},
	{"ignoreStoreReadErrorWithClusterBreakingPotential", "true|false", "x"},
	{"includeObject", "None|Object|Metadata", "x|none"},
	{"shardSelector", "shardRange(object.metadata.uid, '0x0', '0x8000000000000000')", "x"},
	{"bogus", "1", "x"},
}

// Continue tokens: one that goes on at the newest state, one of a revision that is not there any more, one of nobody's.
const (
	inconsistent = "eyJ2IjoibWV0YS5rOHMuaW8vdjEiLCJydiI6LTEsInN0YXJ0IjoiL2FcdTAwMDAifQ"
	compacted    = "eyJ2IjoibWV0YS5rOHMuaW8vdjEiLCJydiI6MSwic3RhcnQiOiIvYVx1MDAwMCJ9"
	foreign      = "eyJ2IjoidjkiLCJydiI6MSwic3RhcnQiOiIvYVx1MDAwMCJ9"
)

// accepts are the forms that an answer is asked for in.
var accepts = []string{
	"application/json", "application/yaml", "*/*", "application/*", "garbage", "text/html", "application/cbor", "application/cbor;q=1, application/json;q=0.5",
	"application/vnd.kubernetes.protobuf", "application/vnd.kubernetes.protobuf, */*", "application/vnd.kubernetes.protobuf,application/json",
	"application/json;q=0.1, application/yaml;q=0.9", "application/json;stream=watch", "application/json;pretty=1", "application/json; charset=utf-8",
	"$TABLE", "$TABLE, application/json", "application/json;as=Table;v=v1beta1;g=meta.k8s.io", "application/json;as=Table;v=v2;g=meta.k8s.io, application/json",
	"application/yaml;as=Table;v=v1;g=meta.k8s.io", "application/vnd.kubernetes.protobuf;as=Table;v=v1;g=meta.k8s.io",
	"$PARTIAL", "$PARTIALLIST", "application/json;as=PartialObjectMetadata;v=v1beta1;g=meta.k8s.io", "application/yaml;as=PartialObjectMetadata;v=v1;g=meta.k8s.io",
	"application/yaml;as=PartialObjectMetadataList;v=v1;g=meta.k8s.io", "application/vnd.kubernetes.protobuf;as=PartialObjectMetadata;v=v1;g=meta.k8s.io",
	"application/vnd.kubernetes.protobuf;as=PartialObjectMetadataList;v=v1;g=meta.k8s.io", "application/json;as=Nonsense;v=v1;g=meta.k8s.io",
}

// contentTypes are what a body may be said to be; "-" is nothing.
var contentTypes = []string{
	"application/json", "application/yaml", "application/json; charset=utf-8", "application/vnd.kubernetes.protobuf", "application/cbor", "text/plain", "-", "garbage;;",
	"application/merge-patch+json", "application/json-patch+json", "application/apply-patch+yaml", "application/apply-patch+cbor",
	"application/strategic-merge-patch+json", "application/merge-patch+json; charset=utf-8",
}

// bodies are what a body may be, besides what is drawn.
var bodies = map[string]string{
	"none": "", "an empty object": "{}", "null": "null", "an array": "[]", "a text": `"x"`, "a number": "1", "cut off": `{"a":`, "two": `{}{}`, "YAML": "a: b\n",
	"a mark": "\xef\xbb\xbf{}", "not UTF-8": "{\"a\":\"\xff\"}", "huge": "huge", "deep": "deep",
}

// places are what a request may be about.
var places = []string{
	"namespaced", "cluster", "another version", "a deprecated version", "a version not served", "an unknown resource", "an unknown group", "without its namespace",
	"with a namespace it has not got", "status", "scale", "an unknown subresource", "a definition", "a definition's status", "converted by a webhook",
	"a converted status", unconverted, "a kind that ends", "an object that ends", "a bad name",
}

const unconverted = "what no webhook converts"

// revisions are the meanings that a resource version may have.
var revisions = map[string]string{
	"empty": "", "any": "0", "current": "${widgets.a.rv}", "old": "${widgets.a.old}", "future": "999999999", "compacted": "1", "garbage": "x", "negative": "-1", "with a zero": "01",
}

// companions are what changes the meaning of a resource version, by verb.
var companions = map[string][]string{
	"get":   {""},
	"list":  {"", "limit=1", "resourceVersionMatch=Exact", "resourceVersionMatch=NotOlderThan", "resourceVersionMatch=Exact&limit=1", "continue=${list.continue}&limit=1", "continue=" + compacted, "fieldSelector=metadata.name%3Da"},
	"watch": {"", "sendInitialEvents=true&resourceVersionMatch=NotOlderThan&allowWatchBookmarks=true", "sendInitialEvents=false&resourceVersionMatch=NotOlderThan", "resourceVersionMatch=NotOlderThan", "allowWatchBookmarks=true", "limit=1&continue=x"},
}

// headerValues are what requests say besides; several headers are separated by "&".
var headerValues = []string{
	"Accept-Encoding=gzip", "Accept-Encoding=deflate", "Audit-Id=given", "User-Agent=curl/8", "User-Agent=Mozilla/5.0 x", "User-Agent=Wget/1", "User-Agent=", "If-None-Match=\"x\"", "If-Match=\"x\"",
	"If-Match=*", "Range=bytes=0-5", "X-Http-Method-Override=DELETE", "Origin=https://example.com", "Content-Encoding=gzip", "Upgrade=websocket&Connection=Upgrade", "Accept-Language=fr",
	"Impersonate-User=x&Impersonate-Group=system:masters", "Impersonate-Group=system:masters", "Impersonate-Uid=1", "Impersonate-User=", "Authorization=Bearer x",
	"Impersonate-User=x&Impersonate-Group=system:masters&Impersonate-Uid=5&Impersonate-Extra-A=b", "Impersonate-User=system:serviceaccount:a:b&Impersonate-Group=system:masters",
}

// paths are those that are no resources.
var paths = []string{
	"/apis/demo.io", "/apis/demo.io/", "/apis/demo.io/v9", "/apis/other.example.com", "/apis/other.example.com/v1beta1", "/apis/nothing.io", "/apis/nothing.io/v1", "/version", "/version/",
	"/healthz", "/livez", "/healthz/ping", "/livez/etcd", "/readyz/ping", "/readyz/nothing", "/nothing", "/nothing/deeper/and/deeper", "/apis/demo.io/v1/namespaces/default",
}

// plan is every cell, in an order of the seed's.
func plan(seed uint64) []cell {
	var out []cell
	add := func(c cell) { out = append(out, c) }
	for _, verb := range verbs {
		for _, p := range parameters {
			add(cell{"parameter", verb, p.name + " valid", p.name + "=" + p.valid})
			add(cell{"parameter", verb, p.name + " invalid", p.name + "=" + p.invalid})
			add(cell{"parameter", verb, p.name + " empty", p.name + "="})
			add(cell{"parameter", verb, p.name + " repeated", p.name + "=" + p.valid + "&" + p.name + "=" + p.valid + "|" + p.invalid})
		}
		for _, accept := range accepts {
			add(cell{"accept", verb, accept, accept})
		}
		for _, place := range places {
			if place == unconverted && slices.Contains([]string{"list", "watch", "deletecollection"}, verb) {
				continue // upstream's cache of it is never ready
			}
			add(cell{"place", verb, place, place})
		}
		for _, h := range headerValues {
			add(cell{"header", verb, h, h})
		}
		for _, name := range slices.Sorted(maps.Keys(revisions)) {
			for _, with := range companions[verb] {
				add(cell{"version", verb, strings.TrimSpace(name + " " + with), "resourceVersion=" + revisions[name] + "&" + with})
			}
		}
		if verb == "get" || verb == "list" || verb == "watch" {
			continue
		}
		for _, media := range contentTypes {
			add(cell{"content", verb, media, media})
		}
		for _, name := range slices.Sorted(maps.Keys(bodies)) {
			add(cell{"body", verb, name, name})
		}
	}
	for _, path := range paths {
		for _, how := range []string{"GET", "HEAD", "POST", "GET application/yaml", "GET text/html", "GET application/vnd.kubernetes.protobuf", "GET $TABLE", "GET gzip", "GET curl", "GET timeout=x", "GET timeout=5s", "GET pretty=1"} {
			add(cell{"path", how, path, path})
		}
	}
	random := rand.New(rand.NewPCG(seed, 99))
	random.Shuffle(len(out), func(i, j int) { out[i], out[j] = out[j], out[i] })
	return out
}

// answered are the codes that each verb must have been answered with.
var answered = map[string][]int{
	"get":              {200, 400, 404, 406, 500, 504},
	"list":             {200, 400, 404, 406, 410, 422, 504},
	"watch":            {200, 400, 404, 406, 422, 500},
	"create":           {201, 400, 403, 404, 405, 406, 409, 413, 415, 422},
	"update":           {200, 400, 404, 405, 406, 409, 413, 415, 422, 500},
	"patch":            {200, 400, 404, 405, 406, 409, 413, 415, 422, 500},
	"apply":            {200, 201, 400, 403, 404, 406, 409, 413, 422, 500},
	"delete":           {200, 202, 400, 404, 405, 406, 409, 413, 415, 422},
	"deletecollection": {200, 400, 404, 406, 409, 413, 415, 422},
}

// reached counts what requests did, those for cells and all.
type reached struct {
	cells map[cell]int
	codes map[string]map[int]int // by verb
}

// report prints how much of the matrix was reached, and returns what was not.
func (r *reached) report(all []cell) (missing []string) {
	count := map[string][2]int{}
	for _, c := range all {
		n := count[c.axis]
		n[1]++
		if r.cells[c] > 0 {
			n[0]++
		} else {
			missing = append(missing, c.String())
		}
		count[c.axis] = n
	}
	for _, axis := range slices.Sorted(maps.Keys(count)) {
		fmt.Printf("http: %s: %d of %d cells\n", axis, count[axis][0], count[axis][1])
	}
	for _, verb := range verbs {
		var got []string
		for _, code := range slices.Sorted(maps.Keys(r.codes[verb])) {
			got = append(got, fmt.Sprintf("%d×%d", code, r.codes[verb][code]))
		}
		fmt.Printf("http: %s was answered %s\n", verb, strings.Join(got, ", "))
		for _, code := range answered[verb] {
			if r.codes[verb][code] == 0 {
				missing = append(missing, fmt.Sprintf("%s answered with %d", verb, code))
			}
		}
	}
	return missing
}
