package http

import "regexp"

// This file lists the differences that are intended.

// entry is one intended difference. Its counterpart for readers is docs/compat.md.
type entry struct {
	name     string // what differs, and why
	requests string // a regular expression on script:line, method and path
	theirs   string // what upstream's answer holds, as a regular expression
	ours     string // what Keelson's holds
	long     bool   // only the long tests see it
	chance   bool   // whether it is seen depends on how far upstream's cache is
}

var ledger = []entry{
	// Upstream's server alone is not all of Kubernetes: here Keelson answers as the whole does.
	{name: "the index lists every group that is served", requests: `(GET|POST) /(|nothing.*|(livez|readyz)/nothing.*)$`, theirs: `"/apis/apiextensions`, ours: `"/apis/demo.io"`},
	{name: "/api and /apis are served", requests: `GET /apis?/?$`, theirs: `^404`, ours: `^200`},
	{name: "apiextensions.k8s.io/v1beta1 is served", requests: `GET /apis(/apiextensions.k8s.io(/v1beta1(/.*)?)?)?$`, theirs: `apiextensions.k8s.io/v1"|^404`, ours: `apiextensions.k8s.io/v1beta1`},
	{name: "/version names Keelson", requests: `GET /version[/?]?`, theirs: `gitVersion`, ours: `v1.37.2\+keelson`},
	{name: "apiextensions.k8s.io has a storageVersionHash", requests: `GET /apis/apiextensions.k8s.io/v1$`, theirs: `^200`, ours: `storageVersionHash`},

	// Answers are JSON or YAML.
	{name: "a body that says protobuf and is none does not end the connection", requests: `(PUT|POST) .*`, theirs: `^error: .*EOF|provided data does not appear to be a protobuf message`, ours: `^415`},

	// Odd paths.
	{name: "what follows a subresource in a path is not ignored", requests: `/status/deeper`, theirs: `^200`, ours: `^404`},
	{name: "double slashes are one", requests: `/apis//`, theirs: `^404`, ours: `^200`},
	{name: "paths of nothing are 404 in plain text", requests: `GET /apis/apiextensions.k8s.io/v1(beta1/|/namespaces)`, theirs: `^404`, ours: `^404(.|\n)*404 page not found`},
	{name: "discovery and OpenAPI are read with GET", requests: `(POST|PUT|DELETE|PATCH) /(apis(/[^/]+){0,2}/?|openapi/v3)$`, theirs: `^(200|404)`, ours: `^405`},
	{name: "OpenAPI lists every group version that is served, and no other", requests: `GET /openapi/v3`, theirs: `^200`, ours: `^(200|301|404)`},
	{name: "checks of health are the server's own", requests: `GET /(healthz|livez)\?verbose`, theirs: `poststarthook/crd-informer-synced`, ours: `^200`},

	// Custom resources.
	{name: "a patch to another apiVersion is refused without warnings", requests: `PATCH .*/widgets/p$`, theirs: `Warning(.|\n)*must be demo.io/v1`, ours: `must be demo.io/v1`},
	{name: "a Scale of a wrong form is refused in words about the Scale", requests: `/scale`, theirs: `no kind is registered for the type v1.Scale|"x\\*"`, ours: `^4(00|22)`},
	{name: "an object of another kind is refused for that alone", requests: `generated|45-odd`, theirs: `must be (Widget|Gadget)`, ours: `must be (Widget|Gadget)`},
	{name: "a Scale that an error about a patch quotes has its members in alphabetical order", requests: `PATCH .*/scale`, theirs: `patch: Invalid value`, ours: `^422(.|\n)*patch: Invalid value`},
	{name: "numbers in an object that an error about a patch quotes are printed anew", requests: `generated.*PATCH`, theirs: `patch: Invalid value(.|\n)*:-?\d+(\.\d+)?e\d+`, ours: `^422(.|\n)*patch: Invalid value`, chance: true},
	{name: "an update does not say a selfLink back", requests: `45-odd.*PUT`, theirs: `selfLink: "/x"`, ours: `^200`},
	{name: "managed fields of a version that the definition no longer has are dropped", requests: `42-apply.*PATCH`, theirs: `^500(.|\n)*invalid group/version: post.io/v2`, ours: `^(200|409)`},
	{name: "an apply may set an untyped field to null", requests: `45-odd.*PATCH .*odder`, theirs: `^200`, ours: `any: null`},
	{name: "an empty list of owners or finalizers in an apply is none: what is written next without a change is not written", requests: `45-odd.*PUT .*/(owned|bound)/status$`, theirs: `^200`, ours: `^200`, chance: true},
	{name: "empty labels or annotations in an apply, or a null among them, are none: what is written next without a change is not written", requests: `generated.*(PUT|PATCH) .*`, theirs: `^200(.|\n)*(labels: \{\s*a: ""|f:(labels|annotations): \{\})`, ours: `^200(.|\n)*(labels: \{\s*a: ""|f:(labels|annotations): \{\})`, chance: true},
	{name: "an apply of what is pruned does not make a new generation", requests: `45-odd.*PATCH .*/pruned`, theirs: `generation: 2`, ours: `generation: 1`},
	{name: "an apply that takes the last finalizer away with a null is answered without the null", requests: `PATCH .*fieldManager=`, theirs: `^200(.|\n)*deletionTimestamp(.|\n)*finalizers: null`, ours: `^200`},
	{name: "a collection is not deleted if the answer cannot be said in a form that is accepted", requests: `45-odd.*GET .*/odd-form/widgets/kept$`, theirs: `deletionTimestamp`, ours: `^200`},
	{name: "watches that begin with the state are not compressed", requests: `60-watch.*sendInitialEvents=true.*allowWatchBookmarks=true`, theirs: `Content-Encoding: gzip`, ours: `initial-events-end`},
	{name: "a watch of a list's metadata shows its objects' metadata", requests: `GET .*watch=1`, theirs: `^200(.|\n)*\n\n$`, ours: `PartialObjectMetadata`},

	{name: "what a webhook cannot convert is refused in the webhook's words", requests: `/v3/.*gizmos`, theirs: `object not decodable revision=\d+: conversion webhook`, ours: `^500(.|\n)*"conversion webhook`, long: true},
	{name: "a webhook that fails when what an apply leaves out is pruned is said to fail there", requests: `43-convert.*PATCH .*fieldManager=`, theirs: `^500(.|\n)*"conversion webhook`, ours: `^500(.|\n)*: conversion webhook`, chance: true},
	{name: "deleting an object again, in another version, does not write it in that version's form", requests: `45-odd.*(GET|DELETE) .*/again$`, theirs: `^200`, ours: `^200`},

	{name: "a page says that more follow only if more match", requests: `(matrix|generated).*(GET|DELETE) .*(Selector.*limit=\d|limit=\d.*Selector)`, theirs: `continue: "?CONTINUE`, ours: `^200`, long: true},

	// Definitions.
	{name: "items of a list of definitions have kind and apiVersion", requests: `GET .*customresourcedefinitions`, theirs: `CustomResourceDefinitionList`, ours: `CustomResourceDefinitionList`},
	{name: "refusals of routes of definitions have details", requests: `customresourcedefinitions/`, theirs: `details: \{\}`, ours: `^4`},
	{name: "a definition of another kind is refused in the words for custom resources", requests: `POST .*customresourcedefinitions$`, theirs: `no kind \\?"Foo\\?" is registered`, ours: `must be CustomResourceDefinition`},
	{name: "deleting a definition again changes nothing", requests: `DELETE .*ends.end.io$`, theirs: `deletionGracePeriodSeconds`, ours: `^200`},
}

// covers reports whether a difference is the intended one.
func (e *entry) covers(q *request, theirs, ours string) bool {
	return regexp.MustCompile(e.requests).MatchString(q.String()+" "+q.method+" "+q.path) &&
		regexp.MustCompile(e.theirs).MatchString(theirs) && regexp.MustCompile(e.ours).MatchString(ours)
}
