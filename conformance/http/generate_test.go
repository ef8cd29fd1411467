package http

import (
	"cmp"
	"flag"
	"fmt"
	"math/rand/v2"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// This file generates sequences of requests: every verb, on objects in whatever state the requests before left them, with parameters,
// headers, media types and bodies that mostly fit and sometimes do not. Both servers get the same sequence, so they must hold the same
// all along; watches that are open meanwhile must tell the same.
//
// A sequence is cut into stretches with namespaces and names of their own, of which every second one is sent over HTTP/2. A stretch ends
// at its first difference, because what follows from one is not worth reading. A stretch depends on nothing but the seed and its number.

var (
	generated   = flag.Int("requests", 0, "how many requests are generated; 0 means 320 if the test is short, else 4000")
	everything2 = flag.Bool("http2", false, "send everything over HTTP/2, and not only every second stretch, what HTTP/2 cannot say aside")
	seed        = flag.Uint64("seed", 1, "of what is generated")
	first       = flag.Int("first", 0, "number of the first stretch: with -requests=40 and ONLY=generated one of them again")
	excused     = flag.Bool("excused", false, "print the differences that are intended")
	trace       = flag.Bool("trace", false, "print what is generated, and what both answer")
)

// stretch is how many requests share their objects.
const stretch = 40

// generate sends what is generated, half of it to reach the cells of the plan.
func (r *run) generate() {
	n := *generated
	if n == 0 {
		if n = 4000; testing.Short() {
			n = 320
		}
	}
	r.same.anyOrder = true
	r.prepare()
	all := plan(*seed)
	for number := *first; (number-*first)*stretch < n; number++ {
		r.stretch(number, all)
	}
	missing := r.reached.report(all)
	if n/2 < len(all) || r.t.Failed() {
		return // too few requests, or stretches that ended early
	}
	for _, m := range missing {
		r.t.Errorf("no request reached %s", m)
	}
}

// stretch sends one stretch.
func (r *run) stretch(number int, all []cell) {
	g := &generator{Rand: rand.New(rand.NewPCG(*seed, uint64(number))), namespace: fmt.Sprintf("gen%d", number)}
	r.vars = [2]map[string]string{{}, {}}
	r.http2 = number%2 == 1
	differences := r.differences
	script := fmt.Sprintf("generated-%d", number)
	for i, q := range g.prelude() {
		q.script, q.line = script, -10-i
		r.step(&q)
	}
	g.watches(r)
	for i := 0; i < stretch && r.differences == differences; i++ {
		q := g.request()
		if i%2 == 1 {
			q = g.toward(all[(number*(stretch/2)+i/2)%len(all)])
		}
		q.script, q.line = script, i
		r.step(&q)
		if q.watch != "" {
			r.closeWatch(&request{script: script, line: i, path: q.watch})
		}
	}
	same := r.differences == differences
	for name, w := range r.open {
		if same {
			r.closeWatch(&request{script: script, path: name})
			continue
		}
		for _, side := range w.sides {
			side.cancel()
			<-side.done
		}
		delete(r.open, name)
	}
}

// generator makes the requests of one stretch.
type generator struct {
	*rand.Rand
	namespace string
	here      bool // of what has namespaces only what is in this one
}

// pick returns one of several, separated by "|".
func (g *generator) pick(choices string) string {
	all := strings.Split(choices, "|")
	return all[g.IntN(len(all))]
}

// once is true once in n times.
func (g *generator) once(n int) bool { return g.IntN(n) == 0 }

// some returns the members that it draws, each once in n times, as JSON without the braces.
func (g *generator) some(n int, members ...string) string {
	var out []string
	for _, m := range members {
		if g.once(n) {
			name, values, _ := strings.Cut(m, ": ")
			out = append(out, fmt.Sprintf("%q:%s", name, g.pick(values)))
		}
	}
	return strings.Join(out, ",")
}

// query returns parameters, each once in n times: "name=value|value".
func (g *generator) query(n int, parameters ...string) string {
	v := url.Values{}
	for _, p := range parameters {
		if g.once(n) {
			name, values, _ := strings.Cut(p, "=")
			v.Set(name, g.pick(values))
		}
	}
	return strings.ReplaceAll(strings.ReplaceAll(v.Encode(), "%24%7B", "${"), "%7D", "}")
}

// watches opens watches that stay open during the stretch.
func (g *generator) watches(r *run) {
	for i := range 2 {
		q := request{script: "generated-" + g.namespace, line: -1 - i, method: "GET", watch: fmt.Sprintf("w%d", i)}
		q.path = fmt.Sprintf("/apis/demo.io/%s/namespaces/%s/widgets?watch=1&", g.pick("v1|v1|v1beta1"), g.namespace) +
			g.query(2, "labelSelector=a=b|a|!a|a in (b,c)|a!=b", "fieldSelector=spec.color=red|metadata.name=a|spec.color!=red|spec.replicas=2", "resourceVersion=0|0")
		q.header = [][2]string{{"Accept", macros.Replace(g.pick("application/json|application/json|$TABLE|$PARTIAL"))}}
		r.step(&q)
	}
}

// target is the path of what a request is about.
type target struct {
	group                                       string // "" is demo.io
	version, kind, plural, namespace, name, sub string
}

func (t target) apiVersion() string { return cmp.Or(t.group, "demo.io") + "/" + t.version }

func (t target) collection() string {
	path := "/apis/" + t.apiVersion()
	if t.namespace != "" {
		path += "/namespaces/" + t.namespace
	}
	if path += "/" + t.plural; t.sub != "" { // of what has no name
		path += "/" + t.name + "/" + t.sub
	}
	return path
}

func (t target) path() string {
	sub := t.sub
	if t.sub = ""; sub != "" {
		sub = "/" + sub
	}
	return t.collection() + "/" + t.name + sub
}

// variable is what the object's uid and resource version are kept under.
func (t target) variable() string { return t.plural + "." + t.name }

func (g *generator) target() target {
	t := target{version: "v1", kind: "Widget", plural: "widgets", namespace: g.namespace, name: g.pick("a|a|b|c")}
	if g.once(12) {
		t.version = g.pick("v1beta1|v1beta1|v1alpha1|v2|v9")
	}
	switch {
	case g.once(15):
		t.namespace = g.namespace + "x"
	case g.once(8):
		t.kind, t.plural, t.namespace, t.name = "Gadget", "gadgets", "", g.namespace+t.name
	case g.once(60):
		t.namespace = "" // not for what has namespaces
	}
	if g.once(25) {
		t.name = g.pick("A|a_b|a.b|-|" + strings.Repeat("n", 260))
	}
	return t
}

// request draws one request.
func (g *generator) request() request {
	t := g.target()
	var q request
	switch n := g.IntN(100); {
	case n < 18:
		q = g.of("create", t)
	case n < 28:
		q = g.of("get", t)
	case n < 40:
		q = g.of("list", t)
	case n < 56:
		q = g.of("update", t)
	case n < 72:
		q = g.of("patch", t)
	case n < 88:
		q = g.of("apply", t)
	case n < 96:
		q = g.of("delete", t)
	case n < 98:
		q = g.of("deletecollection", t)
	default:
		q = request{save: t.variable(), method: g.pick("HEAD|POST|PUT|DELETE|OPTIONS|TRACE"), path: t.path()}
	}
	q.path = strings.TrimSuffix(q.path, "?")
	if g.once(3) && !(q.method == "DELETE" && q.save == "list") { // of collections: see the ledger
		q.header = append(q.header, [2]string{"Accept", macros.Replace(g.pick("application/json|application/yaml|*/*|$TABLE|$PARTIAL|text/html|" +
			"application/vnd.kubernetes.protobuf, application/json|$TABLE, application/json|application/json;as=Table;v=v1beta1;g=meta.k8s.io|application/json;q=0.5, application/yaml"))})
	}
	if g.once(20) {
		q.header = append(q.header, [2]string{"User-Agent", g.pick("curl/8|Mozilla/5.0 x|" + strings.Repeat("u", 200) + "/1")})
	}
	return q
}

// of draws a request of one verb.
func (g *generator) of(verb string, t target) request {
	if strings.HasPrefix(verb, "delete") && t.plural == "widgets" && t.version != "v1" {
		t.namespace += "y" // where nothing is being deleted: see the ledger
	}
	q := request{save: t.variable(), verb: verb}
	switch verb {
	case "create":
		g.create(&q, t)
	case "get":
		g.read(&q, t)
	case "list":
		g.list(&q, t)
	case "watch":
		g.follow(&q, t)
	case "update":
		g.update(&q, t)
	case "patch":
		g.patch(&q, t)
	case "apply":
		g.apply(&q, t)
	case "delete":
		g.delete(&q, t)
	case "deletecollection":
		g.deleteCollection(&q, t)
	}
	return q
}

// writing are the parameters that all writes have.
func (g *generator) writing(also ...string) string {
	return g.query(5, append(also, "dryRun=All|All|x", "fieldManager=m1|m2|m3|"+strings.Repeat("m", 129)+"|\x01",
		"fieldValidation=Strict|Warn|Ignore|x", "pretty=true|1|x")...)
}

func (g *generator) create(q *request, t target) {
	q.method, q.path = "POST", t.collection()+"?"+g.writing()
	q.body = g.object(t, "")
}

func (g *generator) read(q *request, t target) {
	if t.sub == "" && g.once(4) {
		t.sub = g.pick("status|scale|x")
	}
	q.method, q.path = "GET", t.path()+"?"+g.query(6, "resourceVersion=0|${"+t.variable()+".rv}|x", "pretty=true|false|x", "fieldSelector=metadata.name=a")
}

func (g *generator) list(q *request, t target) {
	path := t.collection()
	if t.namespace != "" && t.sub == "" && !g.here && g.once(6) {
		t.namespace = ""
		path = t.collection()
	}
	q.method, q.save = "GET", "list"
	q.path = path + "?" + g.query(5, "labelSelector=a=b|a|!a|a in (b,c)|a!=b,x|=|a in b", "limit=1|2|0|-1|x", "continue=${list.continue}|x",
		"fieldSelector=spec.color=red|metadata.name=a|spec.color!=red|metadata.namespace="+g.namespace+"|spec.x=1|a|metadata.name!=a",
		"resourceVersion=0|${widgets.a.rv}|${widgets.b.rv}|x", "resourceVersionMatch=Exact|NotOlderThan|x", "pretty=1", "sendInitialEvents=true|x", "timeoutSeconds=5|x")
	if t.namespace == "" && t.plural == "widgets" {
		q.path += "&labelSelector=none%3D" + g.namespace // what other stretches left is not of interest
	}
}

func (g *generator) update(q *request, t target) {
	if t.sub == "" && g.once(3) {
		t.sub = g.pick("status|status|scale")
	}
	q.method, q.path = "PUT", t.path()+"?"+g.writing()
	if q.body = g.object(t, t.variable()); t.sub == "scale" {
		q.body = g.scale(t)
	}
}

func (g *generator) scale(t target) string {
	return fmt.Sprintf(`{"apiVersion":"autoscaling/v1","kind":"Scale","metadata":{"name":%q,"namespace":%q%s},"spec":{"replicas":%s}}`,
		t.name, t.namespace, g.pick(`|,"resourceVersion":"${`+t.variable()+`.rv}"|,"resourceVersion":"1"`), g.pick("0|1|2|5|-1|3000000000"))
}

func (g *generator) patch(q *request, t target) {
	if t.sub == "" && g.once(4) {
		t.sub = g.pick("status|status|scale")
	}
	q.method, q.path = "PATCH", t.path()+"?"+g.writing("force=true")
	if g.once(2) {
		q.header = append(q.header, [2]string{"Content-Type", g.pick("application/merge-patch+json|application/merge-patch+json|application/merge-patch+json|application/strategic-merge-patch+json|application/json")})
		q.body = fmt.Sprintf(`{"metadata":{%s},"spec":%s,"status":{%s}}`, g.metadata(t, t.variable(), 8), g.spec(t, 5), g.status(t))
		return
	}
	q.header = append(q.header, [2]string{"Content-Type", "application/json-patch+json"})
	var ops []string
	for range 1 + g.IntN(3) {
		path := g.pick("/spec/color|/spec/replicas|/spec/tags|/spec/tags/-|/spec/tags/0|/spec/ports/0/port|/spec/note|/spec/any/x|/metadata/labels/a|/metadata/labels|" +
			"/metadata/annotations|/metadata/finalizers|/metadata/finalizers/0|/status/phase|/status|/spec|/metadata/name|/metadata/managedFields|/kind|/bogus|spec|/metadata/uid")
		value := g.pick(`"red"|"blue"|"pink"|1|2|["x"]|{"a":"b"}|{}|null|"demo.io/f"|["demo.io/f"]|[]|{"color":"green"}`)
		switch op := g.pick("add|add|replace|replace|remove|test|copy|move|bogus"); op {
		case "remove":
			ops = append(ops, fmt.Sprintf(`{"op":"remove","path":%q}`, path))
		case "copy", "move":
			ops = append(ops, fmt.Sprintf(`{"op":%q,"from":%q,"path":%q}`, op, g.pick("/spec/color|/spec/tags|/spec/note|/bogus|/metadata/labels"), path))
		default:
			ops = append(ops, fmt.Sprintf(`{"op":%q,"path":%q,"value":%s}`, op, path, value))
		}
	}
	q.body = "[" + strings.Join(ops, ",") + "]"
}

// emptyLists are what applies do not say: see the ledger.
var emptyLists = regexp.MustCompile(`"(ownerReferences|finalizers)":(\[\]|null)`)

// apply draws applies, without nulls of fields that have no type: see the ledger.
func (g *generator) apply(q *request, t target) {
	if t.sub == "" && g.once(5) {
		t.sub = "status"
	}
	q.method, q.path = "PATCH", t.path()+"?"+g.writing("force=true|true|false|x")
	if !strings.Contains(q.path, "fieldManager") && !g.once(20) {
		q.path += "&fieldManager=" + g.pick("m1|m2|m3")
	}
	q.header = append(q.header, [2]string{"Content-Type", "application/apply-patch+yaml"})
	apiVersion, kind := t.apiVersion(), t.kind
	if g.once(30) {
		apiVersion, kind = g.pick("demo.io/v1beta1|demo.io/v9||v1"), g.pick("Widget|Gadget|")
	}
	spec := strings.ReplaceAll(g.spec(t, 4), `"any":null`, `"any":1`)
	metadata := emptyLists.ReplaceAllStringFunc(g.metadata(t, t.variable(), 14), func(list string) string { // upstream writes what follows once more: scripts have it
		if strings.HasPrefix(list, `"finalizers`) {
			return `"finalizers":["demo.io/f"]`
		}
		return `"ownerReferences":[{"apiVersion":"v1","kind":"Node","name":"n","uid":"u"}]`
	})
	metadata = strings.NewReplacer(`"annotations":null`, `"annotations":{"n":"1"}`, `"labels":null`, `"labels":{"a":"b"}`, `"labels":{}`, `"labels":{"a":"b"}`, `"labels":{"a":null}`, `"labels":{"a":"b"}`).Replace(metadata) // as well
	q.body = fmt.Sprintf(`{"apiVersion":%q,"kind":%q,"metadata":{%s},"spec":%s,"status":{%s}}`, apiVersion, kind, metadata, spec, g.status(t))
}

var versionAsked = regexp.MustCompile(`"preconditions":\{"resourceVersion":"[^"]*"\}`)

func (g *generator) delete(q *request, t target) {
	if t.sub == "" && g.once(20) {
		t.sub = g.pick("status|scale")
	}
	q.method = "DELETE"
	q.path = t.path() + "?" + g.query(5, "propagationPolicy=Background|Foreground|Orphan|x", "gracePeriodSeconds=0|10|-1|x", "dryRun=All", "orphanDependents=true")
	if g.once(2) {
		q.body = "{" + g.some(3, `propagationPolicy: "Background"|"Foreground"|"Orphan"|"x"`, `gracePeriodSeconds: 0|5|"x"`, `orphanDependents: true|false`, `dryRun: ["All"]|["x"]`,
			`preconditions: {"uid":"${`+t.variable()+`.uid}"}|{"uid":"x"}|{"resourceVersion":"${`+t.variable()+`.rv}"}|{"resourceVersion":"1"}`,
			`kind: "DeleteOptions"|"Widget"`, `apiVersion: "v1"|"meta.k8s.io/v1"|"demo.io/v1"|"x/y/z"`, `bogus: 1`) + "}"
		if said := q.path + q.body; strings.Contains(said, "propagationPolicy") || strings.Contains(said, "orphanDependents") {
			q.body = versionAsked.ReplaceAllString(q.body, `"preconditions":{}`) // upstream never deletes some of those: a script has one
		}
	}
}

func (g *generator) deleteCollection(q *request, t target) {
	q.method, q.save = "DELETE", "list"
	if t.plural == "gadgets" && t.namespace == "" { // those of all stretches
		t = target{version: "v1", kind: "Widget", plural: "widgets", namespace: g.namespace}
	}
	q.path = t.collection() + "?" + g.query(3, "labelSelector=a=b|!a|=", "fieldSelector=spec.color=red|metadata.name=a|spec.x=1", "limit=1|x", "dryRun=All", "propagationPolicy=Foreground|x")
}

// object draws a body for a create (without a variable) or an update.
func (g *generator) object(t target, variable string) string {
	head := fmt.Sprintf(`"apiVersion":%q,"kind":%q`, t.apiVersion(), t.kind)
	if g.once(25) {
		head = g.pick(`"kind":"Widget"|"apiVersion":"demo.io/v1"|"apiVersion":"demo.io/v9","kind":"Widget"|"apiVersion":"demo.io/v1","kind":"Gadget"|"apiVersion":1,"kind":"Widget"`)
	}
	body := fmt.Sprintf(`{%s,"metadata":{%s}`, head, g.metadata(t, variable, 10))
	if !g.once(12) {
		body += `,"spec":` + g.spec(t, 4)
	}
	if g.once(3) {
		body += `,"status":{` + g.status(t) + `}`
	}
	if g.once(20) {
		body += g.pick(`,"bogus":1|,"spec":{}|,"kind":"Widget"`)
	}
	if g.once(60) {
		return body // cut off
	}
	return body + "}"
}

func (g *generator) metadata(t target, variable string, rarely int) string {
	members := []string{fmt.Sprintf(`"name":%q`, t.name)}
	if g.once(30) {
		members[0] = g.pick(`"name":"other"|"name":1|"generateName":"gen-"|"name":""`)
	}
	switch {
	case variable == "":
	case g.once(12):
		members = append(members, g.pick(`"resourceVersion":"1"|"resourceVersion":""|"resourceVersion":"x"|"resourceVersion":1`))
	case rarely == 10 || g.once(rarely): // of an update nearly always
		members = append(members, `"resourceVersion":"${`+variable+`.rv}"`)
	}
	uid := `"x"`
	if variable != "" {
		uid += `|"${` + variable + `.uid}"`
	}
	if more := g.some(rarely, `namespace: "`+t.namespace+`"|"`+t.namespace+`"|"elsewhere"`, `uid: `+uid, `generation: 7`, `creationTimestamp: null|"2020-01-01T00:00:00Z"|"x"`,
		`deletionTimestamp: "2020-01-01T00:00:00Z"`, `managedFields: []|[{}]|null|[{"manager":"x"}]`, `bogus: 1`,
		`ownerReferences: []|[{"apiVersion":"v1","kind":"Node","name":"n","uid":"u"}]|[{"apiVersion":"v1","kind":"Node","name":"n","uid":"u"},{"apiVersion":"v1","kind":"Node","name":"n","uid":"u"}]|[{"kind":"x"}]`); more != "" {
		members = append(members, more)
	}
	if more := g.some(4, `labels: {"a":"b"}|{"a":"c"}|{"a":"b","x":"y"}|null|{}|{"a":"-"}|{"a":null}`, `annotations: {"n":"1"}|{"n":"2"}|null|{"N!":"1"}`,
		`finalizers: ["demo.io/f"]|["demo.io/f"]|[]|["f"]|null|["demo.io/f","demo.io/g"]`); more != "" {
		members = append(members, more)
	}
	return strings.Join(members, ",")
}

// spec draws what is wanted. Of a request about the status, which ignores it, it fits the schema: see the ledger.
func (g *generator) spec(t target, often int) string {
	if t.sub == "status" {
		return `{"color":"green"}`
	}
	if g.once(40) {
		return g.pick("null|[]|1|{}")
	}
	if t.plural != "widgets" {
		return "{" + g.some(2, `x: 1|2|"x"|null`, `y: [1,2]|{"b":1,"a":2}|1.50`) + "}"
	}
	return "{" + g.some(often, `color: "red"|"green"|"blue"|"pink"|null`, `replicas: 0|1|2|2|101|-1|1.5|"1"`, `on: true|false|"x"`, `ratio: 1|1.5|1e3|1.0`,
		`note: "x"|"bad"|""|"\u003c<é"`, `serial: "a"|"b"|"A"`, `tags: ["x"]|["x","y"]|["y"]|["x","x"]|[]|[1]|null`,
		`ports: [{"name":"p","port":1}]|[{"name":"p","port":2},{"name":"q"}]|[{"name":"p"},{"name":"p"}]|[{"port":1}]|[]`,
		`labels: {"k":"v"}|{"k":1}|{}`, `quantity: 1|"1Gi"|true`, `when: "2020-01-01T00:00:00Z"|"x"`, `maybe: null|"x"`, `any: {"x":[1,{"y":null}]}|1|null`,
		`template: {"apiVersion":"v1","kind":"Pod","metadata":{"name":"x"},"spec":{"x":1}}|{"kind":"Pod"}|{}`, `size: 5|"x"`, `bogus: 1`) + "}"
}

// status draws what is. Of a request that ignores it, it fits the schema.
func (g *generator) status(t target) string {
	if t.plural != "widgets" { // what the schema does not know of a status: see the ledger
		return g.some(3, `n: 1|2`)
	}
	if t.sub != "status" {
		return g.some(3, `phase: "A"|"B"|"C"`, `replicas: 1|2|-1`)
	}
	return g.some(3, `phase: "A"|"B"|"C"`, `replicas: 1|2|-1`, `selector: "a=b"`, `conditions: [{"type":"Ready","status":"True"}]|[{"type":"Ready"},{"type":"Done"}]|[{}]`, `bogus: 1`)
}

// untyped is how the errors of applies begin whose objects do not fit the schema, theirs or that of what they are merged with. Of several
// below a map upstream names some.
var untyped = regexp.MustCompile(`^(failed to create typed (?:patch|live) object .*?\): |failed to convert new object: |errors:\n)`)

// sortErrors sorts lists of errors.
func (v *ordered) sortErrors(key string) {
	switch {
	case key == "causes" && v.open == '[':
		slices.SortFunc(v.values, func(a, b ordered) int { return strings.Compare(fmt.Sprint(a), fmt.Sprint(b)) })
	case key == "message" && untyped.MatchString(v.text):
		v.text = untyped.FindString(v.text)
	case key == "message" && strings.Contains(v.text, "is invalid: ["):
		parts := strings.FieldsFunc(v.text, func(r rune) bool { return strings.ContainsRune(",[]", r) })
		for i := range parts {
			parts[i] = strings.TrimSpace(parts[i])
		}
		slices.Sort(parts)
		v.text = strings.Join(parts, ",")
	}
	for i := range v.values {
		k := key
		if v.open == '{' {
			k = v.keys[i]
		}
		v.values[i].sortErrors(k)
	}
}
