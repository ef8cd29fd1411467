package http

import (
	"cmp"
	"encoding/json"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// This file lists the differences that are intended, each with the requests, the answers and the parts of them that it is for.

// entry is an intended difference, which docs/compat.md describes. It covers a pair of answers if all of its conditions hold.
type entry struct {
	name     string                         // what differs, and why
	requests string                         // a regular expression on script:line, method, path and then, each on a line of its own, the headers
	theirs   string                         // what upstream's answer holds, as a regular expression
	ours     string                         // what Keelson's holds
	lines    string                         // every line that differs, without what it is indented by and the brackets that close after it; "" for any
	also     func(theirs, ours string) bool // what holds of both besides; nil: nothing
	rewrites bool                           // upstream wrote the object again as it was: from then on its version is the counterpart of the one before
	chance   string                         // why it may not be seen in a complete run; "" if it must be
}

var ledger = []entry{
	// Upstream's server alone is not all of Kubernetes: here Keelson answers as the whole does.
	{name: "the index lists every group that is served", requests: `(GET|POST) /\n`, lines: `"/(api|apis|healthz|livez|readyz|openapi|metrics|version|\.well-known|snapshot|configz|debug|logs|statusz|flagz)?(/[a-z0-9./_-]*)?"`},
	// kube-apiserver has a handler for them, which their server lacks.
	{name: "paths of nothing are 404 in plain text, not the index", requests: `(GET|POST) /(nothing[^\n]*|(livez|readyz)/nothing[^\n]*)\n`, theirs: `^404\n`, ours: `^404\n(.|\n)*\n404 page not found\n$`},
	{name: "HEAD of a path of nothing, too", requests: `HEAD /(nothing[^\n]*|(livez|readyz)/nothing[^\n]*)\n|RAW HEAD\n`, theirs: `404`, ours: `404`, lines: `(Content-Type|X-Content-Type-Options).*|`},
	{name: "odd paths and CONNECT are paths of nothing", requests: `RAW (dots_in_a_path|a_fragment|a_method_of_its_own|CONNECT|HTTP/2_where_HTTP/1\.1_was_agreed_on)\n|FRAMES (CONNECT|odd_paths)\n`, theirs: `\(the index\)`, ours: `404 page not found`,
		lines: `(stream|HTTP/1\.1|Content-Type|content-type|X-Content-Type-Options|x-content-type-options).*|\(the index\)|404 page not found|\(end\)|`},
	{name: "/api and /apis are served", requests: `GET /apis?/?\n`, theirs: `^404\n`, ours: `^200\n(.|\n)*kind: "API(GroupList|Versions)"`},
	// Ledger: definitions-v1beta1.
	{name: "apiextensions.k8s.io/v1beta1 is in its group", requests: `GET /apis/apiextensions.k8s.io\n`, lines: `\{|(groupVersion: "apiextensions.k8s.io/|version: ")v1beta1"`},
	{name: "apiextensions.k8s.io/v1beta1 is served", requests: `GET /apis/apiextensions.k8s.io/v1beta1(/customresourcedefinitions)?\n`, theirs: `^404\n`, ours: `^200\n(.|\n)*apiextensions.k8s.io/v1beta1`},
	// Ledger: concurrent-group-reads.
	{name: "a group that is asked for twice at a time has its kind both times", requests: `GET /apis/[a-z.]+/?(\?\S*)?\n`, theirs: `^200\n`, ours: `^200\n(.|\n)*kind: "APIGroup"`, lines: `kind: "APIGroup"|apiVersion: "v1"`,
		chance: "upstream's answers share what they print"},
	// Ledger: version-name.
	{name: "/version names Keelson", requests: `GET /version[/?\n]`, theirs: `^200\n`, ours: `^200\n(.|\n)*gitVersion: "v1.37.2\+keelson`, lines: `git(Version|Commit|TreeState): ".*"`},
	// Ledger: definition-storage-hash.
	{name: "apiextensions.k8s.io has a storageVersionHash", requests: `GET /apis/apiextensions.k8s.io/v1\n`, lines: `storageVersionHash: "M5uH\+AlWATY="`},

	// Answers are JSON or YAML.
	// Ledger: protobuf-promise.
	{name: "a body that says protobuf and is none does not end the connection", requests: `(PUT|POST) .*(.|\n)*\nContent-Type: application/vnd.kubernetes.protobuf\n`,
		theirs: `^error: .*(EOF|stream error: stream ID \d+; INTERNAL_ERROR; received from peer)$|^400\n(.|\n)*message: "(the object provided is unrecognized \(must be of type \w+\): )?provided data does not appear to be a protobuf message`, ours: `^415\n`},

	// Ledger: embedded-etcd-size.
	{name: "etcd takes larger requests", requests: `10-create.*POST \S*/too-large/widgets\n`, theirs: `^500\n(.|\n)*message: "etcdserver: request is too large"`, ours: `^201\n`},
	// Ledger: timeout-status.
	{name: "an answer at its deadline is a Status as any other", requests: `GET \S*timeout=`, theirs: `^504\nContent-Type: text/plain; charset=utf-8\n`, ours: `^504\nContent-Type: application/json\n`,
		lines: `Content-Type: .*|kind: "Status"|apiVersion: "v1"|\(no newline at the end\)|`},

	// Ledger: content-length.
	{name: "a body that says that it is too large is refused at once", requests: `RAW Expect_of_what_is_too_large\n`, theirs: `^HTTP/1.1 100 Continue`, ours: `^HTTP/1.1 413 `},
	// Ledger: http2-windows.
	{name: "a connection of HTTP/2 sends less ahead", requests: `RAW settings\n`, theirs: `\b262078465 bytes more of stream 0\n`, ours: `\b4128769 bytes more of stream 0\n`, lines: `\d+ bytes more of stream 0|NO_RFC7540_PRIORITIES 1|MAX_FRAME_SIZE \d+`},
	{name: "a longer frame than was announced ends the connection", requests: `FRAMES a_frame_of_200_KiB\n`, theirs: `(^|\n)status 404\n`, ours: `(^|\n)farewell: FRAME_SIZE_ERROR`},
	// Ledger: http2-paths.
	{name: "requests of HTTP/2 are malformed that are so for net/http", requests: `FRAMES (an_absolute_URL|an_authority_and_a_host|a_bad_authority)\n`, theirs: `(^|\n)reset: PROTOCOL_ERROR`, ours: `(^|\n)status [24]00\n`},

	// Odd paths.
	// Ledger: paths.
	{name: "what follows a subresource in a path is not ignored", requests: `GET \S*/status/deeper\n`, theirs: `^200\n`, ours: `^404\n(.|\n)*\n404 page not found\n$`},
	{name: "double slashes are one", requests: `GET /apis//`, theirs: `^404\n`, ours: `^200\n`},
	// Ledger: paths.
	{name: "discovery and OpenAPI are read with GET", requests: `(POST|PUT|DELETE|PATCH) /(apis(/[^/]+){0,2}/?|openapi/v3)\n`, theirs: `^(200|404)\n`, ours: `^405\n(.|\n)*\nAllow: GET, HEAD\n`},
	// Ledger: openapi-v3.
	{name: "OpenAPI lists every group version that is served, and no other", requests: `GET /openapi/v3\n`, theirs: `^200\n`, ours: `^200\n`, lines: `((api|apis/[a-z0-9.-]+)(/v[a-z0-9]+)?|version|apis): \{|serverRelativeURL: "/openapi/v3/[^"]*\?hash=[0-9A-F]{128}"`},
	{name: "OpenAPI has nothing to say of groups that are not there", requests: `GET /openapi/v3/apis/nothing.io/v1\n`, theirs: `^200\n(.|\n)*\n\n$`, ours: `^404\n(.|\n)*\n404 page not found\n$`},
	{name: "checks of health are the server's own", requests: `GET /(healthz|livez)\?verbose`, theirs: `^200\n`, ours: `^200\n`, lines: `\[\+\](log|loopback-serving-certificate|poststarthook/[a-z/-]+) ok`},

	// Custom resources.
	// Ledger: patch-version-warnings.
	{name: "a patch to another apiVersion is refused without warnings", requests: `PATCH .*/widgets/p\n`, ours: `^422\n(.|\n)*must be demo.io/v1`, lines: `Warning: 299 - "unknown field \\?"spec\..*"`},
	// Ledger: scale-kind-error.
	{name: "a Scale of a wrong form is refused in words about the Scale", requests: `PUT \S*/scale`, theirs: `^400\n(.|\n)*message: "no kind is registered for the type v1.Scale in scheme`, ours: `message: "(strict decoding error|Scale in version \\"v1\\" cannot be handled as a Scale|wrong object passed to Scale update|the object provided is unrecognized \(must be of type Widget\): provided data does not appear to be a protobuf message)[:,] `, lines: `message: .*`},
	// Ledger: patch-scale-members.
	{name: "a Scale that an error about a patch quotes has its members in alphabetical order", requests: `PATCH \S*/scale`, theirs: `^422\n(.|\n)*patch: Invalid value`, also: sameButQuotes},
	// Ledger: scale-apply.
	{name: "the Scale of a custom resource may be applied", requests: `PATCH \S*/scale\S*\n(.|\n)*Content-Type: application/apply-patch\+yaml\n`,
		theirs: `^500\n(.|\n)*message: "failed to convert new object \(\S*; autoscaling/v1, Kind=Scale\) to proper version: request to convert CR to an invalid group/version: autoscaling/v1"`,
		ours:   `^(200\n(.|\n)*kind: "Scale"|400\n(.|\n)*message: "(error strict decoding patch: |the name of the object )|409\n(.|\n)*message: "Apply failed with |422\n(.|\n)*Invalid value: -1: )`},
	// Ledger: patch-numbers.
	{name: "numbers in an object that an error about a patch quotes are printed anew", requests: `PATCH .*/(widgets|gadgets|gizmos)/`, theirs: `^422\n(.|\n)*patch: Invalid value(.|\n)*:-?\d+(\.\d+)?e\d+`, also: sameButQuotes},
	// Ledger: self-link.
	{name: "an update does not say a selfLink back", requests: `(PUT|PATCH) `, theirs: `^200\n`, ours: `^200\n`, lines: `selfLink: "/x"`},
	// Ledger: apply-bad-timestamp.
	{name: "an apply of a deletionTimestamp that is no time is refused", requests: `grammar.*PATCH \S*fieldManager=\S*\n(.|\n)*Content-Type: application/apply-patch\+yaml\n`,
		theirs: `^(201\n(.|\n)*f:deletionTimestamp: \{\}|422\n(.|\n)*message: "Widget.demo.io \\"a\\" is invalid: metadata: Invalid value: \S*\\"deletionTimestamp\\":\\"x\\")`, ours: `^400\n(.|\n)*message: "Widget in version \\"v1\\" cannot be handled as a Widget: parsing time `},
	// Ledger: apply-untyped-null.
	{name: "an apply may set an untyped field to null", requests: `PATCH \S*fieldManager=(.|\n)*Content-Type: application/apply-patch\+yaml\n`, theirs: `^200\n`, ours: `^200\n`, lines: `any: null`},
	// Ledger: apply-empty-metadata.
	{name: "an empty list of owners or finalizers in an apply, or null for one, is none: what is written next without a change is not written", requests: `45-odd.*PUT .*/(owned|bound|disowned)/status\n`, theirs: `^200\n`, ours: `^200\n`, lines: rewritten, rewrites: true},
	{name: "empty labels or annotations in an apply, or a null among them, are none: what is written next without a change is not written", requests: `(GET|PUT|PATCH|DELETE) `,
		theirs: `^200\n(.|\n)*(labels: \{\s*a: ""|f:(labels|annotations): \{\}[^\]]*operation: "Apply")`, ours: `^200\n`, lines: rewritten, rewrites: true},
	// Ledger: apply-pruned-fields.
	{name: "an apply of what is pruned does not make a new generation", requests: `45-odd.*PATCH .*/pruned\?`, theirs: `^200\n`, ours: `^200\n`, lines: `generation: [12]|` + rewritten},
	// Ledger: apply-last-finalizer.
	{name: "an apply that takes the last finalizer away is answered without nulls that it has there or among labels", requests: `PATCH \S*fieldManager=(.|\n)*Content-Type: application/apply-patch\+yaml\n`, theirs: `^200\n(.|\n)*deletionTimestamp`, ours: `^200\n`, lines: `finalizers: null|a: (null|"")`},
	// Ledger: delete-precondition.
	{name: "a deletion that takes the last finalizer away from the state that it asks for is done", requests: `50-delete.*(DELETE|PATCH) .*/del9/`, theirs: `^(409\n(.|\n)*Precondition failed: ResourceVersion in precondition: , |200\n(.|\n)*name: "d9")`, ours: `^(200\n(.|\n)*status: "Success"|404\n)`},
	// Ledger: dry-run-delete.
	{name: "a dry run of a deletion that takes the last finalizer away is answered as the deletion is", requests: `DELETE `, theirs: `^200\n[^{]*\{\n  apiVersion: "(demo|meta.k8s).io/v\w+"\n  kind: "\w+"(\n  metadata: \{\})?\}\n|^200\n(.|\n)*kind: "Table"(.|\n)*cells: \[\n +""(\n +null)*\]\n +object: (null|\{\n +apiVersion: "meta.k8s.io/v\w+"\n +kind: "PartialObjectMetadata"\n +metadata: \{\}\})`, ours: `^200\n(.|\n)*kind: "Status"(.|\n)*status: "Success"`},
	// Ledger: delete-unacceptable.
	{name: "a collection is not deleted if the answer cannot be said in a form that is accepted", requests: `45-odd.*GET .*/odd-form/widgets/kept\n`, theirs: `^200\n`, ours: `^200\n`, lines: `deletionGracePeriodSeconds: 0|deletionTimestamp: "TIME"|generation: [12]|` + rewritten},
	// Ledger: watch-compression.
	{name: "watches that begin with the state are not compressed", requests: `GET .*watch=1(.|\n)*\nAccept-Encoding: gzip\n`, theirs: `^200\n`, ours: `^200\n`, lines: `Vary: Accept-Encoding|Content-Encoding: gzip`},
	// Ledger: watch-metadata-list.
	{name: "a watch of a list's metadata shows its objects' metadata", requests: `GET .*watch=(.|\n)*\nAccept: \S*;as=PartialObjectMetadataList;`, theirs: `^200\n(.|\n)*\n\n$`, ours: `^200\n`, also: ofMetadata},
	// Ledger: watch-columns.
	{name: "columns are named once in a watch, though another one like it was told first", requests: `GET \S*watch=(.|\n)*\nAccept: \S*;as=Table;`, theirs: `^200\n`, ours: `^200\n(.|\n)*columnDefinitions: null`,
		also: sameButColumns, chance: "upstream's second watch of the two knows nothing of its first event, which it has from the other one"},

	// Ledger: conversion-errors.
	{name: "what a webhook cannot convert is refused in the webhook's words", requests: `/v3/.*gizmos`, theirs: `^500\n(.|\n)*object not decodable revision=\d+: conversion webhook`, ours: `^500\n(.|\n)*"conversion webhook`, lines: `message: ".*conversion webhook.*"|reason: "InternalError"|details: \{|causes: \[|\{`, chance: "upstream answers from its cache or from etcd"},
	// Ledger: bad-resource-version.
	{name: "a resource version that is none is refused as ever where upstream's cache cannot be made", requests: `GET \S*/v3/.*gizmos\S*[?&]resourceVersion=x`, theirs: `^400\n(.|\n)*"invalid resource version: resourceVersion: Invalid value`, ours: `^500\n(.|\n)*"resourceVersion: Invalid value`, lines: `[45]00|message: ".*"|reason: "BadRequest"|code: [45]00`, chance: "upstream's cache of what a webhook cannot convert counts as ready, or does not"},
	// Ledger: existing-before-conversion.
	{name: "a dry run of a creation of what is there already is refused for that, whatever a webhook can convert", requests: `POST \S*/v3/\S*gizmos\?\S*dryRun=All`, theirs: `^500\n(.|\n)*message: "conversion webhook for demo.io/v1, Kind=Gizmo failed: there is no v3"`, ours: `^409\n(.|\n)*already exists"`, chance: "it takes a creation of what is there, by chance"},
	// Ledger: conversion-errors.
	{name: "a webhook that fails when what an apply leaves out is pruned is said to fail there", requests: `43-convert.*PATCH .*fieldManager=`, theirs: `^500\n(.|\n)*"conversion webhook`, ours: `^500\n(.|\n)*: conversion webhook`, lines: `message: ".*conversion webhook.*"`, chance: "upstream says so, or does not, by the order of a map"},

	// Ledger: empty-pages.
	{name: "a page says that more follow only if more match", requests: `(GET|DELETE) \S*(Selector\S*limit=\d|limit=\d\S*Selector)`, theirs: `^200\n(.|\n)*continue: "?CONTINUE`, ours: `^200\n`, lines: `continue: ("?CONTINUE"?|"")`},

	// Definitions.
	// Ledger: wrong-definition-kind.
	{name: "a definition of another kind is refused in the words for custom resources", requests: `POST .*/customresourcedefinitions\n`, theirs: `^400\n(.|\n)*no kind \\?"Foo\\?" is registered`, ours: `^422\n(.|\n)*kind: Invalid value: \\"Foo\\": must be CustomResourceDefinition`},
}

// rewritten is the line of an object that one side wrote once more.
const rewritten = `resourceVersion: («\d+»|\d+)`

// patterns of entries, as they are made for the first time.
var patterns = map[string]*regexp.Regexp{}

func pattern(expr string) *regexp.Regexp {
	if patterns[expr] == nil {
		patterns[expr] = regexp.MustCompile(expr)
	}
	return patterns[expr]
}

// covers reports whether a difference is the intended one.
func (e *entry) covers(q *request, theirs, ours string) bool {
	said := fmt.Sprintf("%s %s %s\n", q, q.method, q.path)
	for _, h := range q.header {
		said += h[0] + ": " + h[1] + "\n"
	}
	if !pattern(e.requests).MatchString(said) || !pattern(e.theirs).MatchString(theirs) || !pattern(e.ours).MatchString(ours) {
		return false
	}
	if e.also != nil && !e.also(theirs, ours) {
		return false
	}
	if e.lines == "" {
		return true
	}
	lines := pattern(`^(` + e.lines + `)$`)
	for _, c := range changes(bare(theirs), bare(ours)) {
		if c.side >= 0 && !lines.MatchString(c.line) {
			return false
		}
	}
	return true
}

// bare are the lines of a text without what they are indented by and the brackets that close after them.
func bare(text string) []string {
	lines := strings.Split(text, "\n")
	for i, l := range lines {
		if l = strings.TrimSpace(l); !strings.HasSuffix(l, "{}") && !strings.HasSuffix(l, "[]") {
			l = strings.TrimRight(l, "}]")
		}
		lines[i] = l
	}
	return lines
}

// quotes are objects that texts quote, as they are printed by [ordered.print].
var quotes = regexp.MustCompile(`\\"\{.*\}\\"`)

// requote prints quoted objects with their members sorted and their numbers as Go prints them.
func requote(text string) string {
	return quotes.ReplaceAllStringFunc(text, func(q string) string {
		var outer, inner string
		var object any
		outer, err := strconv.Unquote(`"` + q + `"`)
		if err == nil {
			inner, err = strconv.Unquote(outer)
		}
		if err == nil {
			err = json.Unmarshal([]byte(inner), &object)
		}
		if err != nil {
			return q
		}
		again, err := json.Marshal(object)
		if err != nil {
			return q
		}
		return string(again)
	})
}

// sameButQuotes reports whether nothing differs once the order of members and the spelling of numbers is taken out of objects that texts
// quote.
func sameButQuotes(theirs, ours string) bool { return requote(theirs) == requote(ours) }

// columns are those of a table, as they are printed by [ordered.print].
var columns = regexp.MustCompile(`(?s)columnDefinitions: \[.*?\}\]`)

// sameButColumns reports whether nothing differs once the columns of tables are named in the first of several only.
func sameButColumns(theirs, ours string) bool {
	once := func(text string) string {
		named := false
		return columns.ReplaceAllStringFunc(text, func(all string) string {
			if named {
				return "columnDefinitions: null"
			}
			named = true
			return all
		})
	}
	return once(theirs) == once(ours)
}

// ofObjects are the members of events, and of what they are about.
var ofObjects = regexp.MustCompile(`(?m)^(  |    )(\w+): (.*)$`)

// ofMetadata reports whether ours begins as theirs, which ends there, and goes on with events that show metadata and nothing else.
func ofMetadata(theirs, ours string) bool {
	events, ok := strings.CutPrefix(ours, strings.TrimSuffix(theirs, "\n"))
	members := ofObjects.FindAllStringSubmatch(events, -1)
	about := 4 // where members of objects are: in JSON they are a member of the event
	if strings.Contains(events, "\n\"protobuf\"\n") {
		about = 2
	}
	for _, m := range members {
		switch place := len(m[1]); {
		case place > about:
		case place < about && (m[2] == "type" || m[2] == "object"):
		case place == about && (m[2] == "apiVersion" || m[2] == "metadata" || m[2] == "kind" && strings.HasPrefix(m[3], `"PartialObjectMetadata"`)):
		default:
			return false
		}
	}
	return ok && len(members) > 0
}

// used prints how often each entry was needed, by fixed requests and by generated ones.
func (r *run) used() {
	for _, e := range ledger {
		n := r.ledger[e.name]
		fmt.Printf("http: intended %d+%d times: %s\n", n.fixed, n.generated, e.name)
	}
}

// needed is how often an entry was.
type needed struct{ fixed, generated int }

// TestLedger holds that entries are for what they say, and for nothing else.
func TestLedger(t *testing.T) {
	entryOf := func(name string) *entry {
		at := slices.IndexFunc(ledger, func(e entry) bool { return strings.HasPrefix(e.name, name) })
		if at < 0 {
			t.Fatalf("no entry begins with %q", name)
		}
		return &ledger[at]
	}
	names := map[string]bool{}
	for _, e := range ledger {
		if names[e.name] || cmp.Or(e.theirs, e.ours, e.lines) == "" {
			t.Errorf("%q is there twice, or for everything", e.name)
		}
		names[e.name] = true
	}
	quoting := func(object string) string {
		return fmt.Sprintf("422\n\n{\n  message: %q}", "patch: Invalid value: "+strconv.Quote(object)+": json: x")
	}
	tables := func(columns, name string) string {
		const first = "[\n      {\n        name: \"n\"}]"
		return fmt.Sprintf("200\n\n{\n  object: {\n    columnDefinitions: %s\n    a: 1}}\n{\n  object: {\n    columnDefinitions: %s\n    a: %q}}\n", first, columns, name)
	}
	event := func(kind, more string) string {
		return fmt.Sprintf("200\nA: b\n\n{\n  type: \"ADDED\"\n  object: {\n    kind: %q\n    apiVersion: \"meta.k8s.io/v1\"\n    metadata: {\n      name: \"a\"}%s}}\n", kind, more)
	}
	frame := func(kind, more string) string {
		return fmt.Sprintf("200\nA: b\n\n\"ADDED\"\n\"protobuf\"\n{\n  apiVersion: \"meta.k8s.io/v1\"\n  kind: %q\n  metadata: {\n    name: \"a\"\n    uid: 1}%s}\n", kind, more)
	}
	owned := func(operation, version, color string) string {
		return fmt.Sprintf("200\n\n{\n  metadata: {\n    managedFields: [\n      {\n        fieldsV1: {\n          f:metadata: {\n            f:labels: {}}}\n        operation: %q}]\n    resourceVersion: %s}\n  color: %q}\n", operation, version, color)
	}
	for _, test := range []struct {
		entry, method, path string
		theirs, ours        string
		covers              bool
	}{
		{"an update does not say", "PUT", "/x", "200\n\n{\n  selfLink: \"/x\"\n  a: 1}", "200\n\n{\n  a: 1}", true},
		{"an update does not say", "PUT", "/x", "200\n\n{\n  selfLink: \"/x\"\n  a: 1}", "200\n\n{\n  a: 2}", false},
		{"an update does not say", "PUT", "/x", "200\n\n{\n  selfLink: \"/x\"\n  a: 1}", "200\nWarning: x\n\n{\n  a: 1}", false},
		{"a Scale that an error", "PATCH", "/a/scale", quoting(`{"b":1,"a":2}`), quoting(`{"a":2,"b":1}`), true},
		{"a Scale that an error", "PATCH", "/a/scale", quoting(`{"b":1,"a":2}`), quoting(`{"a":2,"b":3}`), false},
		{"a Scale that an error", "PATCH", "/a", quoting(`{"b":1,"a":2}`), quoting(`{"a":2,"b":1}`), false},
		{"numbers in an object", "PATCH", "/widgets/a", quoting(`{"a":1e3}`), quoting(`{"a":1000.0}`), true},
		{"numbers in an object", "PATCH", "/widgets/a", quoting(`{"a":1e3}`), quoting(`{"a":1000.5}`), false},
		{"columns are named once", "GET", "/x?watch=1", tables("[\n      {\n        name: \"n\"}]", "a"), tables("null", "a"), true},
		{"columns are named once", "GET", "/x?watch=1", tables("[\n      {\n        name: \"n\"}]", "a"), tables("null", "b"), false},
		{"columns are named once", "GET", "/x?watch=1", tables("null", "a"), tables("null", "b"), false},
		{"a watch of a list's metadata", "GET", "/x?watch=1&list", "200\nA: b\n\n", event("PartialObjectMetadata", ""), true},
		{"a watch of a list's metadata", "GET", "/x?watch=1&list", "200\nA: b\n\n", event("Widget", ""), false},
		{"a watch of a list's metadata", "GET", "/x?watch=1&list", "200\nA: b\n\n", event("PartialObjectMetadata", "\n    spec: {}"), false},
		{"a watch of a list's metadata", "GET", "/x?watch=1&list", "200\nA: c\n\n", event("PartialObjectMetadata", ""), false},
		{"a watch of a list's metadata", "GET", "/x?watch=1&list", "200\nA: b\n\n", frame("PartialObjectMetadata", ""), true},
		{"a watch of a list's metadata", "GET", "/x?watch=1&list", "200\nA: b\n\n", frame("Widget", ""), false},
		{"a watch of a list's metadata", "GET", "/x?watch=1&list", "200\nA: b\n\n", frame("PartialObjectMetadata", "\n  spec: {}"), false},
		{"empty labels", "PUT", "/x", owned("Apply", "«1»", "red"), owned("Apply", "«2»", "red"), true},
		{"empty labels", "PUT", "/x", owned("Update", "«1»", "red"), owned("Update", "«2»", "red"), false},
		{"empty labels", "PUT", "/x", owned("Apply", "«1»", "red"), owned("Apply", "«2»", "blue"), false},
	} {
		q := &request{script: "x", method: test.method, path: test.path, header: [][2]string{{"Accept", macros.Replace("$TABLE")}}}
		if strings.HasSuffix(test.path, "&list") {
			q.header[0][1] = macros.Replace("$PARTIALLIST")
		}
		if got := entryOf(test.entry).covers(q, test.theirs, test.ours); got != test.covers {
			t.Errorf("%q covers %s %s\n%s\n%s: %t", test.entry, test.method, test.path, test.theirs, test.ours, got)
		}
	}
}
