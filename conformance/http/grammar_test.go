package http

import (
	"fmt"
	"net/url"
	"strings"
)

// This file makes requests of how things may be written: numbers, truth values, durations, selectors, media types and names, each where
// something of its kind is read. None of them changes anything.

// grammar are those requests.
func grammar() []request {
	var out []request
	say := func(method, path, name string, values ...string) {
		for _, v := range values {
			out = append(out, request{method: method, path: path + name + "=" + url.QueryEscape(v)})
		}
	}
	numbers := []string{"+1", " 1", "1 ", "1e3", "0x1", "00", "-0", "01", "1_0", "9223372036854775807", "9223372036854775808", "-9223372036854775809", "٣", "1.0", "0", "-1", "", "\x00"}
	list, one := inPairs+"?", inPairs+"/a?"
	for _, name := range []string{"limit", "timeoutSeconds", "resourceVersion"} {
		say("GET", list, name, numbers...)
	}
	say("GET", one, "resourceVersion", numbers...)
	say("GET", list+"watch=1&timeoutSeconds=1&labelSelector=none&", "resourceVersion", "+1", " 1", "0x1", "00", "-0", "", "9223372036854775808", "\x00")
	say("DELETE", one+"dryRun=All&", "gracePeriodSeconds", numbers...)
	truths := []string{"1", "t", "T", "true", "TRUE", "True", "tRue", "0", "f", "F", "false", "FALSE", "False", "yes", "on", "2", "", " true"}
	for _, name := range []string{"pretty", "sendInitialEvents", "allowWatchBookmarks"} {
		say("GET", list, name, truths...)
	}
	say("GET", list+"timeoutSeconds=1&labelSelector=none&", "watch", truths...)
	say("DELETE", one+"dryRun=All&", "orphanDependents", truths...)
	say("DELETE", one+"dryRun=All&", "ignoreStoreReadErrorWithClusterBreakingPotential", truths...)
	say("DELETE", one, "dryRun", "all", "ALL", "All,All", "All ", "None", "true")
	say("DELETE", one+"dryRun=All&", "dryRun", "All", "x", "")
	say("DELETE", one+"dryRun=All&", "propagationPolicy", "background", "Background ", "orphan", "Foreground,Orphan", "")
	say("GET", one, "timeout", "1s", "1", "-1s", "0s", "0", "1h", "1.5s", "infinite", "+5s", " 5s", "5S", "1m5s", "1d", "1s1", "", "9999999h", ".5s", "s")
	for _, q := range truths {
		out = append(out, request{method: "PATCH", path: one + "dryRun=All&fieldManager=m&force=" + url.QueryEscape(q), body: "{" + macros.Replace("$WHEAD") + `,"metadata":{"name":"a"}}`,
			header: [][2]string{{"Content-Type", "application/apply-patch+yaml"}}})
	}
	for _, selector := range labelSelectors {
		say("GET", list, "labelSelector", selector)
		say("DELETE", list+"dryRun=All&", "labelSelector", selector)
	}
	for _, selector := range fieldSelectors {
		say("GET", list, "fieldSelector", selector)
		say("GET", strings.Replace(list, "/namespaces/pairs", "", 1)+"labelSelector=pairs&", "fieldSelector", selector)
		say("DELETE", list+"dryRun=All&", "fieldSelector", selector)
	}
	return append(append(out, media()...), named()...)
}

// labelSelectors are well formed and not.
var labelSelectors = []string{
	"a", "!a", "a=b", "a==b", "a!=b", "a in (b)", "a in (b,c)", "a in ()", "a notin (b)", "a notin ()", "a in b", "a in (b", "a in b)", "a in (b,)", "a in (,b)", "a in (,)", "a  in  ( b , c )", "a,b", "a,,b", ",a", "a,", ",", " ", "a b", "!a=b", "!", "!!a",
	"a=", "=b", "==", "a=b=c", "a===b", "a!b", "a!==b", "a>1", "a<1", "a>b", "a>", "a>=1", "a<1,b>2", "a>-1", "in", "in in (in)", "notin notin (notin)", "a in in (b)", "in=b", "a=in", "a=notin", "exists", "(a)", "a=(b)", "a=b,c=d", "a=b c=d", "a=b;c",
	"A/b=c", "a/b=c", "a/b/c=d", "/b=c", "a/=c", "a./b=c", strings.Repeat("a", 63) + "=b", strings.Repeat("a", 64) + "=b", "a=" + strings.Repeat("b", 63), "a=" + strings.Repeat("b", 64), strings.Repeat("a", 254) + "/b=c",
	"-a=b", "a-=b", "_a", "a=-b", "a=b-", "a=b.", "a=b_c.d-e", "a=é", "é=b", "a=\t", "a\n=b", "a='b'", `a="b"`, "a=b%", "a in (b c)", "a in (b;c)", "a in (-)", "a!=", "a notin (b),!c,d", "a in(b)", "a in (b)c", "a\\=b", "a in (b),a in (c)",
}

// fieldSelectors are, too.
var fieldSelectors = []string{
	"metadata.name=a", "metadata.name==a", "metadata.name!=a", "metadata.name=", "metadata.name!=", "metadata.name", "metadata.name>a", "metadata.name in (a)", "metadata.name=a,metadata.name=b", "metadata.name=a,metadata.name=a", "metadata.name=a,,spec.color=green",
	",metadata.name=a", "metadata.name=a,", ",", " ", " metadata.name=a", "metadata.name =a", "metadata.name= a", "metadata.name=A", "metadata.name=a/b", "metadata.name=a%", "metadata.name=..", "metadata.name=" + strings.Repeat("n", 300),
	"metadata.namespace=pairs", "metadata.namespace=other", "metadata.namespace!=pairs", "metadata.namespace=", "metadata.namespace=a b", "metadata.namespace=pairs,metadata.name=b", "metadata.uid=x", "metadata.labels.a=b",
	"spec.color=green", "spec.color!=green", "spec.color=", "spec.color!=", "spec.replicas=1", "spec.replicas=01", "spec.replicas=1.0", "spec.replicas!=1", "spec.on=true", "spec.on=", "spec.on=false", "spec.on!=true", ".spec.color=green", "spec[color]=green", "spec=x", "color=green",
	"=a", "==", "=", "!=", "a=b=c", "a\\=b=c", "spec.color=gr\\,een", "spec.color=gr\\een", "spec.color=gr\\\\een", "spec.color=gr\\=een", "spec.color=green\\", "spec.color==green,spec.replicas=1", "spec.color=green;spec.replicas=1", "status.phase=A", "é=b", "spec.color=é", "spec.color=green,spec.x=1",
}

// media are requests whose headers say in odd ways which form is sent and which is wanted.
func media() []request {
	var out []request
	accepts := []string{
		"application/json;q=0", "*/*;q=0", "", ",", " , ,", "application/json;q=2", "application/json;q=x", "application/json;q=", "text/*", "text/*, application/json", "*", "*/json", "application/json;", ";", "application/json;;pretty=1", "Application/JSON", "APPLICATION/YAML",
		"application/json;as=Table", "application/json;as=Table;v=v1", "application/json;as=Table;g=meta.k8s.io", "application/json;g=meta.k8s.io;v=v1;as=Table", "application/json;as=table;v=v1;g=meta.k8s.io", "application/json;v=v1;g=meta.k8s.io", "application/json;as=Table;v=v1;g=meta.k8s.io;q=0.1, application/yaml;q=0.5",
		"application/json;as=Table;v=v1;g=other.io", `application/json;as="Table";v="v1";g="meta.k8s.io"`, "*/*;as=Table;v=v1;g=meta.k8s.io", "application/*;as=Table;v=v1;g=meta.k8s.io", "application/json;as=Table;v=v1;g=meta.k8s.io;as=PartialObjectMetadata", "application/json;profile=x", "application/json;stream=watch;as=Table;v=v1;g=meta.k8s.io",
		"application/json;stream=x", "application/json;indent=1", "application/json;pretty=0", "application/json;pretty=true", "application/json;pretty=x", "application/yaml;pretty=1", "application/json;q=0.2,application/yaml;q=0.2", "application/yaml,application/json", "application/json,application/yaml", "text/html,application/xhtml+xml,*/*;q=0.8",
		"application/cbor", "application/cbor-seq", "application/json-seq", "application/merge-patch+json", "application/vnd.kubernetes.protobuf;q=0.9,application/json;q=0.1", "application/json/x", "json", "application json", "application/json charset=utf-8", "application/json;a=\"", "é/é", "application/json;as=APIGroupDiscoveryList;v=v2;g=apidiscovery.k8s.io",
		"application/json;as=Table;v=v1;g=meta.k8s.io,application/json;as=Table;v=v1beta1;g=meta.k8s.io,application/json", "application/json;as=PartialObjectMetadata;v=v1;g=meta.k8s.io,application/json;as=PartialObjectMetadataList;v=v1;g=meta.k8s.io", "application/json;as=PartialObjectMetadataList;v=v1;g=meta.k8s.io,application/json",
		"$TABLE", "$PARTIAL", "$PARTIALLIST", "application/yaml", "text/html", "application/vnd.kubernetes.protobuf", "application/vnd.kubernetes.protobuf, */*",
	}
	head := "{" + macros.Replace("$WHEAD")
	targets := []request{
		{method: "GET", path: inPairs + "/a"}, {method: "GET", path: inPairs + "/missing"}, {method: "GET", path: inPairs}, {method: "GET", path: inPairs + "?limit=x"}, {method: "GET", path: inPairs + "/a/status"}, {method: "GET", path: inPairs + "/a/scale"},
		{method: "GET", path: inPairs + "/a/x"}, {method: "GET", path: inPairs + "?watch=1&timeoutSeconds=1&limit=1"}, {method: "GET", path: inPairs + "?watch=1&resourceVersion=x"}, {method: "HEAD", path: inPairs + "/a"}, {method: "POST", path: inPairs + "/a/scale", body: "{}"},
		{method: "POST", path: inPairs + "?dryRun=All", body: head + `,"metadata":{"name":"a"},"spec":{}}`}, {method: "POST", path: inPairs + "?dryRun=All", body: head + `,"metadata":{"name":"m"},"spec":{}}`}, {method: "POST", path: inPairs + "?dryRun=All", body: head + `,"metadata":{"name":"M"},"spec":1}`},
		{method: "PUT", path: inPairs + "/a?dryRun=All", body: head + `,"metadata":{"name":"a","resourceVersion":"${pairs.a.rv}"},"spec":{"color":"red"}}`}, {method: "PUT", path: inPairs + "/a?dryRun=All", body: head + `,"metadata":{"name":"a","resourceVersion":"1"},"spec":{}}`},
		{method: "PATCH", path: inPairs + "/a?dryRun=All", body: "{}", header: [][2]string{{"Content-Type", "application/merge-patch+json"}}}, {method: "PATCH", path: inPairs + "/a?dryRun=All", body: "{}", header: [][2]string{{"Content-Type", "text/plain"}}},
		{method: "DELETE", path: inPairs + "/b?dryRun=All"}, {method: "DELETE", path: inPairs + "/missing"}, {method: "DELETE", path: inPairs + "?dryRun=All"},
		{method: "GET", path: crds + "/gadgets.demo.io"}, {method: "GET", path: crds + "/missing"}, {method: "GET", path: crds + "?fieldSelector=metadata.name%3Dgadgets.demo.io"}, {method: "GET", path: crds + "/gadgets.demo.io/status"},
		{method: "GET", path: "/apis/other.example.com/v1beta1"}, {method: "GET", path: "/apis/demo.io"}, {method: "GET", path: "/apis/nothing.io"}, {method: "GET", path: "/version"}, {method: "GET", path: "/healthz"}, {method: "GET", path: "/nothing"},
	}
	for _, target := range targets {
		for _, accept := range accepts {
			q := target
			q.header = append(append([][2]string{}, target.header...), [2]string{"Accept", macros.Replace(accept)})
			if q.streams() || strings.Contains(q.path, "watch=1") {
				q.watch = "media"
			}
			out = append(out, q)
		}
	}
	types := []string{
		"application/json;charset=utf-8", "APPLICATION/JSON", "application/json;", "application/json;;", "application/json, text/plain", "application/*", "*/*", "application/json; a", "application/json; a=b", " application/json", "application/json ", "json", "application", "/", "application/yaml; charset=utf-8", "text/yaml", "application/x-yaml",
		"application/merge-patch+json;", "APPLICATION/MERGE-PATCH+JSON", "application/json-patch+json; charset=utf-8", "application/apply-patch+yaml;", "application/apply-patch", "application/strategic-merge-patch+json; a=b", "multipart/form-data", "application/x-www-form-urlencoded", "",
	}
	for _, target := range targets {
		if target.body == "" && target.method != "DELETE" {
			continue
		}
		for _, media := range types {
			q := target
			if q.body == "" {
				q.body = `{"dryRun":["All"]}`
			}
			q.header = [][2]string{{"Content-Type", media}}
			out = append(out, q)
		}
	}
	return out
}

// named are objects of all kinds of names, labels and other things that metadata says.
func named() []request {
	var out []request
	long := strings.Repeat
	for _, metadata := range []string{
		`"name":"a.b"`, `"name":"a..b"`, `"name":".a"`, `"name":"a."`, `"name":"a-"`, `"name":"-a"`, `"name":"a_b"`, `"name":"A"`, `"name":"é"`, `"name":"a/b"`, `"name":"a%b"`, `"name":"."`, `"name":".."`, `"name":" "`, `"name":"1"`, `"name":"a\u0000"`, `"name":null`, `"name":[]`, `"name":true`,
		`"name":"` + long("n", 253) + `"`, `"name":"` + long("n", 254) + `"`, `"name":"` + long("n.", 126) + `n"`, `"generateName":"gen-"`, `"generateName":"Gen-"`, `"generateName":"gen_"`, `"generateName":"gen-` + long("g", 300) + `"`, `"generateName":"gen-` + long("g", 53) + `."`, `"generateName":""`, `"generateName":1`, `"name":"a","generateName":"g"`, `"name":"z","generateName":"g"`,
		`"name":"x","namespace":"pairs"`, `"name":"x","namespace":"other"`, `"name":"x","namespace":""`, `"name":"x","namespace":null`, `"name":"x","namespace":1`, `"name":"x","labels":{"":"x"}`, `"name":"x","labels":{"a":""}`, `"name":"x","labels":{"a b":"c"}`, `"name":"x","labels":{"a/b/c":"d"}`, `"name":"x","labels":{"A/b":"d"}`,
		`"name":"x","labels":{"` + long("k", 64) + `":"v"}`, `"name":"x","labels":{"k":"` + long("v", 64) + `"}`, `"name":"x","labels":{"k":1}`, `"name":"x","labels":{"k":null}`, `"name":"x","labels":[]`, `"name":"x","labels":"x"`, `"name":"x","labels":null`, `"name":"x","labels":{"k":{"a":1}}`, `"name":"x","labels":{"-":"-","_":"_"}`,
		`"name":"x","annotations":{"":"x"}`, `"name":"x","annotations":{"a b":"c"}`, `"name":"x","annotations":{"A/b":"c"}`, `"name":"x","annotations":{"a":1}`, `"name":"x","annotations":{"a":"` + long("x", 256<<10) + `"}`, `"name":"x","annotations":{"a":"` + long("x", 256<<10-1) + `"}`, `"name":"x","annotations":{"a":"` + long("x", 128<<10) + `","b":"` + long("y", 128<<10) + `"}`,
		`"name":"x","finalizers":[""]`, `"name":"x","finalizers":["a"]`, `"name":"x","finalizers":["a b/c"]`, `"name":"x","finalizers":["a/b","a/b"]`, `"name":"x","finalizers":["orphan","foregroundDeletion"]`, `"name":"x","finalizers":["a/b/c"]`, `"name":"x","finalizers":[null]`, `"name":"x","finalizers":"x"`, `"name":"x","finalizers":["kubernetes"]`,
		`"name":"x","ownerReferences":[{}]`, `"name":"x","ownerReferences":[null]`, `"name":"x","ownerReferences":{}`, `"name":"x","ownerReferences":[{"apiVersion":"v1","kind":"Event","name":"n","uid":"u"}]`, `"name":"x","ownerReferences":[{"apiVersion":"a/b/c","kind":"K","name":"n","uid":"u"}]`, `"name":"x","ownerReferences":[{"apiVersion":"","kind":"","name":"","uid":""}]`,
		`"name":"x","ownerReferences":[{"apiVersion":"v1","kind":"K","name":"n","uid":"u","controller":true},{"apiVersion":"v1","kind":"K","name":"m","uid":"w","controller":true}]`, `"name":"x","ownerReferences":[{"apiVersion":"v1","kind":"K","name":"n","uid":"u","controller":"x"}]`, `"name":"x","ownerReferences":[{"apiVersion":"/v1","kind":"K","name":"n","uid":"u","blockOwnerDeletion":null}]`,
		`"name":"x","creationTimestamp":"x"`, `"name":"x","creationTimestamp":""`, `"name":"x","creationTimestamp":1`, `"name":"x","creationTimestamp":"2020-01-01T00:00:00+02:00"`, `"name":"x","deletionTimestamp":"2020-01-01T00:00:00Z"`, `"name":"x","deletionTimestamp":"x"`, `"name":"x","deletionGracePeriodSeconds":5`, `"name":"x","deletionGracePeriodSeconds":-5`, `"name":"x","deletionGracePeriodSeconds":"5"`,
		`"name":"x","generation":-1`, `"name":"x","generation":"1"`, `"name":"x","generation":1.5`, `"name":"x","resourceVersion":"0"`, `"name":"x","resourceVersion":""`, `"name":"x","resourceVersion":5`, `"name":"x","selfLink":"/x"`, `"name":"x","selfLink":1`, `"name":"x","uid":""`, `"name":"x","uid":1`, `"name":"x","clusterName":"x"`, `"name":"x","initializers":{}`,
		`"name":"x","managedFields":[{"manager":"m","operation":"Apply","apiVersion":"demo.io/v1","fieldsType":"FieldsV1","fieldsV1":{"f:spec":{}}}]`, `"name":"x","managedFields":[{"manager":"m","operation":"Other"}]`, `"name":"x","managedFields":[{"operation":"Update","apiVersion":"demo.io/v1","fieldsType":"FieldsV2"}]`, `"name":"x","managedFields":[{"operation":"Update","apiVersion":"demo.io/v1","fieldsType":"FieldsV1","fieldsV1":{"x":1}}]`, `"name":"x","managedFields":1`, `"name":"x","managedFields":[null]`,
		`"name":"x","managedFields":[{"manager":"` + long("m", 200) + `","operation":"Update","apiVersion":"demo.io/v1","fieldsType":"FieldsV1","fieldsV1":{}}]`, `"name":"x","managedFields":[{"operation":"Update","apiVersion":"a/b/c","fieldsType":"FieldsV1","fieldsV1":{},"time":"x"}]`,
	} {
		add := func(method, path, media, metadata string) {
			q := request{method: method, path: path + "dryRun=All&fieldManager=m", body: fmt.Sprintf(`{%s,"metadata":{%s},"spec":{"color":"red"}}`, macros.Replace("$WHEAD"), metadata)}
			if media != "" {
				q.header = [][2]string{{"Content-Type", media}}
			}
			out = append(out, q)
		}
		add("POST", inPairs+"?", "", metadata)
		add("PATCH", inPairs+"/x?", "application/apply-patch+yaml", metadata)
		here := strings.Replace(metadata, `"name":"x"`, `"name":"a"`, 1)
		add("PUT", inPairs+"/a?", "", here+`,"resourceVersion":"${pairs.a.rv}"`)
		add("PATCH", inPairs+"/a?", "application/merge-patch+json", here)
		add("PATCH", inPairs+"/a?force=true&", "application/apply-patch+yaml", here)
		add("PATCH", inPairs+"/a/status?", "application/merge-patch+json", here)
	}
	for _, name := range []string{"a.b", "A", "a_b", "a%20b", "%2e", "%2e%2e", "%2F", "a%2Fb", "%00", "%C3%A9", strings.Repeat("n", 253), strings.Repeat("n", 254), "-", "~", "a;b", "a,b", "a:b", "a@b", "a+b", "a=b", "a&b", "a'b", "(a)", "*", "$a"} {
		for _, method := range []string{"GET", "DELETE", "PUT", "PATCH"} {
			q := request{method: method, path: inPairs + "/" + name + "?dryRun=All"}
			if method == "PUT" || method == "PATCH" {
				q.body = fmt.Sprintf(`{%s,"metadata":{"name":"a","resourceVersion":"1"},"spec":{}}`, macros.Replace("$WHEAD"))
			}
			if method == "PATCH" {
				q.header = [][2]string{{"Content-Type", "application/merge-patch+json"}}
			}
			out = append(out, q)
		}
		out = append(out, request{method: "GET", path: strings.Replace(inPairs, "/pairs/", "/"+name+"/", 1)})
	}
	return out
}
