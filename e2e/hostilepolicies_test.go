package e2e

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"
)

// This file holds what expressions in policies and webhook configurations that somebody wrote to do harm can cost: each evaluation
// ends at its limit, in upstream's words, in bounded memory, and the failure policy decides.

const policyTrials = "/apis/demo.example.org/v1/namespaces/default/policytrials"

// policyTrialKind has objects of any content below spec.
const policyTrialKind = `{"apiVersion":"apiextensions.k8s.io/v1","kind":"CustomResourceDefinition","metadata":{"name":"policytrials.demo.example.org"},"spec":{
	"group":"demo.example.org","scope":"Namespaced","names":{"plural":"policytrials","kind":"PolicyTrial"},"versions":[{"name":"v1","served":true,"storage":true,
	"schema":{"openAPIV3Schema":{"type":"object","properties":{"spec":{"type":"object","x-kubernetes-preserve-unknown-fields":true}}}}}]}}`

const (
	costLimited    = "operation cancelled: actual cost limit exceeded"
	tooLargeChange = "the mutation, or the object with it, is larger than 16777216 bytes"
	outOfBudget    = "validation failed due to running out of cost budget, no further validation rules will be run"
)

// hostilePolicy is a policy or webhook and an object that it is for.
type hostilePolicy struct {
	name string
	kind string // Validating or Mutating, for policies; the plural of a webhook configuration otherwise
	spec string // members of its spec, or of the webhook
	with any    // spec of the object
	code int
	want string // in the refusal, with the failure policy Fail
	// ignored is the code with the failure policy Ignore.
	ignored int
}

// expressions is a list of JSON objects, each with another number in place of #.
func expressions(n int, format string) string {
	var list []string
	for i := range n {
		list = append(list, strings.ReplaceAll(format, "#", fmt.Sprint(i)))
	}
	return "[" + strings.Join(list, ",") + "]"
}

// quoted is an expression as a JSON string.
func quoted(text string) string {
	b, err := json.Marshal(text)
	if err != nil {
		panic(err)
	}
	return string(b)
}

func hostilePolicies() []hostilePolicy {
	const (
		loops = "object.spec.l.all(x, object.spec.l.all(y, object.spec.l.all(z, x + y + z >= 0)))"
		heavy = "object.spec.t.contains(object.spec.t)" // the square of a tenth of the length
		// reading goes through the text 56 times for a unit each time.
		reading = "[1,2,3,4,5,6,7,8].all(i, [1,2,3,4,5,6,7].all(j, object.spec.t.charAt(i) != 'b'))"
	)
	ints := map[string]any{"l": make([]int, 150)}
	long := map[string]any{"t": strings.Repeat("a", 1<<20)}
	medium := map[string]any{"t": strings.Repeat("a", 9_300), "l": []int{}}
	var deep any = 1
	for range 9_900 {
		deep = map[string]any{"a": deep}
	}
	nested := map[string]any{"d": deep}
	one := func(member, format, expr string) string {
		return member + ":[" + fmt.Sprintf(format, quoted(expr)) + "]"
	}
	validation := func(expr string) string { return one(`"validations"`, `{"expression":%s}`, expr) }
	mutation := func(expr string) string {
		return one(`"mutations"`, `{"patchType":"JSONPatch","jsonPatch":{"expression":%s}}`, expr)
	}
	overlay := func(expr string) string {
		return one(`"mutations"`, `{"patchType":"ApplyConfiguration","applyConfiguration":{"expression":%s}}`, expr)
	}
	doubling := func(n int, from string) string { // variables, each of which is the one before twice
		list := []string{`{"name":"v0","expression":` + quoted(from) + `}`}
		for i := range n {
			list = append(list, fmt.Sprintf(`{"name":"v%d","expression":"variables.v%d + variables.v%d"}`, i+1, i, i))
		}
		return `"variables":[` + strings.Join(list, ",") + `],`
	}
	lists := `"variables":[{"name":"v0","expression":"[object.spec.l]"}`
	for i := range 3 { // each has the one before a thousand times
		lists += fmt.Sprintf(`,{"name":"v%d","expression":"lists.range(1000).map(i, variables.v%d)"}`, i+1, i)
	}
	lists += "],"
	object := "Object{}"
	for i := range 40 { // each has the one before twice
		object = fmt.Sprintf("[%s].map(x%d, Object{a: x%d, b: x%d})[0]", object, i, i, i)
	}
	conjunction := func(n int, expr string) string {
		return strings.Join(strings.Split(strings.Trim(expressions(n, expr), "[]"), ","), " && ")
	}
	conditions := func(n int, expr string) string {
		return `"matchConditions":` + expressions(n, `{"name":"c#","expression":`+quoted(expr+" || # < 0")+`}`)
	}
	return []hostilePolicy{
		{"loops", "Validating", validation(loops), ints, 422, costLimited, 201},
		{"exponent", "Validating", validation("quantity(object.spec.t).isInteger()"), map[string]any{"t": "1e-2147483648"}, 422, costLimited, 201},
		{"digits", "Validating", validation("isQuantity(object.spec.t)"), map[string]any{"t": strings.Repeat("9", 1<<20)}, 422, costLimited, 201},
		{"machine", "Validating", validation("!object.spec.t.matches('(.?){1000}(.?){1000}x$')"), map[string]any{"t": strings.Repeat("é", 1<<19)}, 422, costLimited, 201},
		{"matches", "Validating", validation("lists.range(20).all(i, object.spec.t.findAll('').size() > i)"), long, 422, costLimited, 201},
		{"formatted", "Validating", validation("'%s%s%s%s%s%s%s%s%s%s%s%s%s%s%s%s%s%s'.format(lists.range(18).map(i, object.spec.t)) != ''"), long, 422, costLimited, 201},
		{"search", "Validating", validation("object.spec.t.lastIndexOf('b' + object.spec.t.substring(500000)) < 0"), long, 201, "", 201},
		{"deep", "Validating", validation("object == object && object.spec.d in [object.spec.d] && [object].distinct().size() == 1"), nested, 201, "", 201},
		{"printed", "Validating", validation("lists.range(1000).all(i, '%s'.format([object]) != '')"), nested, 422, costLimited, 201},
		{"code points", "Validating", validation("lists.range(10000).all(i, object.spec.t.size() > 0)"), map[string]any{"t": strings.Repeat("é", 1<<19)}, 422, costLimited, 201},
		{"budget", "Validating", `"validations":` + expressions(14, `{"expression":`+quoted(heavy+" || # < 0")+`}`), medium, 422, outOfBudget, 201},
		{"variables", "Validating", doubling(20, "object.spec.t") + validation("variables.v20.size() > 0"), long, 422, costLimited, 201},
		{"many variables", "Validating", strings.TrimSuffix(doubling(4, "object.spec.t"), "],") + `,` + strings.Trim(expressions(9, `{"name":"w#","expression":"variables.v4 + ''"}`), "[]") + `],` +
			validation("[variables.w0, variables.w1, variables.w2, variables.w3, variables.w4, variables.w5, variables.w6, variables.w7, variables.w8].all(w, w.size() > 0)"), long, 422,
			costLimited, 201},
		{"lists of lists", "Validating", lists + validation("variables.v3.flatten(9).size() > 0"), ints, 422, costLimited, 201},
		{"many validations", "Validating", `"validations":` + expressions(200, `{"expression":`+quoted(reading+" || # < 0")+`}`), long, 422, outOfBudget, 201},
		{"many variables that read", "Validating", `"variables":` + expressions(200, `{"name":"v#","expression":`+quoted(reading+" || # < 0")+`}`) + "," + validation(conjunction(200, "variables.v#")), long, 422, outOfBudget, 201},
		{"conditions", "Validating", conditions(4, heavy) + "," + validation("true"), medium, 422, outOfBudget, 201},
		{"one condition", "Validating", conditions(1, loops) + "," + validation("true"), ints, 422, costLimited, 201},
		{"annotations", "Validating", `"auditAnnotations":` + expressions(14, `{"key":"k#","valueExpression":`+quoted(heavy+" ? 'a#' : 'b'")+`}`), medium, 422, outOfBudget, 201},
		{"message", "Validating", `"validations":[{"expression":"false","message":"m","messageExpression":` + quoted(loops+" ? 'a' : 'b'") + `}]`, ints, 422, "denied request: m", 422},
		{"messages", "Validating", `"validations":` + expressions(14, `{"expression":"false","messageExpression":`+quoted(heavy+" ? 'a#' : 'b'")+`}`), medium, 422, "failed messageExpression: " + outOfBudget, 201},

		{"patch of loops", "Mutating", mutation("[" + loops + " ? JSONPatch{op: 'remove', path: '/spec/l'} : JSONPatch{op: 'remove', path: '/spec/t'}]"), ints, 403, costLimited, 201},
		{"many patches", "Mutating", mutation("lists.range(9000).map(i, JSONPatch{op: 'add', path: '/spec/l/0', value: i})"), ints, 201, "", 201},
		{"more patches", "Mutating", mutation("lists.range(100000).map(i, JSONPatch{op: 'add', path: '/spec/l/0', value: i})"), ints, 403, costLimited, 201},
		{"copies", "Mutating", mutation("lists.range(60).map(i, JSONPatch{op: 'copy', from: '/spec', path: '/spec/x' + string(i)})"), long, 403, "Unable to complete the copy, the accumulated size increase of copy is", 201},
		{"big patch", "Mutating", mutation("lists.range(200).map(i, JSONPatch{op: 'add', path: '/spec/x' + string(i), value: object.spec.t})"), long, 403, tooLargeChange, 201},
		{"deep patch", "Mutating", mutation("[JSONPatch{op: 'add', path: '/spec/e', value: {'x': {'x': {'x': object.spec.d}}}}]"), nested, 201, "", 201},
		{"deeper patch", "Mutating", mutation("[JSONPatch{op: 'copy', from: '/spec/d', path: '/spec/d" + strings.Repeat("/a", 9_000) + "'}]"), nested, 500, "exceeded max depth", 500},
		{"overlay of loops", "Mutating", overlay("Object{spec: Object.spec{b: " + loops + "}}"), ints, 403, costLimited, 201},
		{"big overlay", "Mutating", overlay("Object{spec: Object.spec{b: lists.range(200).map(i, object.spec.t)}}"), long, 403, tooLargeChange, 201},
		{"overlay of lists of lists", "Mutating", lists + overlay("Object{spec: Object.spec{b: variables.v3}}"), ints, 403, tooLargeChange, 201},
		{"patch of lists of lists", "Mutating", lists + mutation("[JSONPatch{op: 'add', path: '/spec/b', value: variables.v3}]"), ints, 403, tooLargeChange, 201},
		{"equal objects", "Mutating", mutation("[JSONPatch{op: 'add', path: '/spec/b', value: " + object + " == " + object + "}]"), ints, 403, costLimited, 201},
		{"overlay of objects", "Mutating", overlay(object), ints, 403, tooLargeChange, 201},
		{"growing", "Mutating", `"mutations":` + expressions(8, `{"patchType":"JSONPatch","jsonPatch":{"expression":"[JSONPatch{op: 'add', path: '/spec/x#', value: [object.spec.t, object.spec.t, object.spec.t, object.spec.t]}]"}}`),
			long, 403, tooLargeChange, 500}, // three of them fit, and then it cannot be stored
		{"overlay of variables", "Mutating", doubling(20, "object.spec.t") + overlay("Object{spec: Object.spec{b: variables.v20}}"), long, 403, costLimited, 201},
		{"many mutations", "Mutating", `"mutations":` + expressions(200, `{"patchType":"JSONPatch","jsonPatch":{"expression":`+quoted("["+reading+" || # < 0 ? JSONPatch{op: 'add', path: '/spec/x', value: 1} : JSONPatch{op: 'remove', path: '/spec/t'}]")+`}}`), long, 403, outOfBudget, 201},
		{"mutating conditions", "Mutating", conditions(4, heavy) + "," + mutation("[JSONPatch{op: 'test', path: '/spec/l', value: 1}]"), medium, 403, outOfBudget, 201},

		{"webhook conditions", "validatingwebhookconfigurations", conditions(4, heavy), medium, 403, outOfBudget, 201},
		{"webhook condition", "validatingwebhookconfigurations", conditions(1, loops), ints, 403, costLimited, 201},
		{"mutating webhook conditions", "mutatingwebhookconfigurations", conditions(4, heavy), medium, 403, outOfBudget, 201},
		{"mutating webhook condition", "mutatingwebhookconfigurations", conditions(1, loops), ints, 403, costLimited, 201},
	}
}

// objects are the policy and its binding, or the webhook configuration, for objects with the label row of that name, by the paths
// that they are created at.
func (p hostilePolicy) objects(name, failurePolicy string) [][2]string {
	match := `{"objectSelector":{"matchLabels":{"row":"` + name + `"}},"resourceRules":[` + trialRule + `]}`
	if strings.HasSuffix(p.kind, "configurations") {
		kind := map[string]string{"validatingwebhookconfigurations": validating, "mutatingwebhookconfigurations": mutating}[p.kind]
		return [][2]string{{p.kind, fmt.Sprintf(`{"apiVersion":"admissionregistration.k8s.io/v1","kind":%q,"metadata":{"name":%q},"webhooks":[{"name":"h.demo.example.org","failurePolicy":%q,
			"admissionReviewVersions":["v1"],"sideEffects":"None","clientConfig":{"url":"https://127.0.0.1:1/"},"objectSelector":{"matchLabels":{"row":%q}},"rules":[%s],%s}]}`,
			kind, name, failurePolicy, name, trialRule, p.spec)}}
	}
	plural, more, action := strings.ToLower(p.kind)+"admissionpolic", "", `,"validationActions":["Deny"]`
	if p.kind == "Mutating" {
		more, action = `"reinvocationPolicy":"Never",`, ""
	}
	return [][2]string{
		{plural + "ies", fmt.Sprintf(`{"apiVersion":"admissionregistration.k8s.io/v1","kind":"%sAdmissionPolicy","metadata":{"name":%q},"spec":{"failurePolicy":%q,%s"matchConstraints":%s,%s}}`,
			p.kind, name, failurePolicy, more, match, p.spec)},
		{plural + "ybindings", fmt.Sprintf(`{"apiVersion":"admissionregistration.k8s.io/v1","kind":"%sAdmissionPolicyBinding","metadata":{"name":%q},"spec":{"policyName":%q%s}}`, p.kind, name, name, action)},
	}
}

const trialRule = `{"operations":["CREATE"],"apiGroups":["demo.example.org"],"apiVersions":["*"],"resources":["policytrials"]}`

// policyTrial is an object for the policy of that name.
func policyTrial(t *testing.T, name string, spec any) []byte {
	t.Helper()
	b, err := json.Marshal(map[string]any{"apiVersion": "demo.example.org/v1", "kind": "PolicyTrial",
		"metadata": map[string]any{"name": name, "labels": map[string]string{"row": name}}, "spec": spec})
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// last are policies and webhooks of each kind that are created after all others: once the server obeys them it obeys all.
var last = []hostilePolicy{
	{"last-1", "Validating", `"validations":[{"expression":"false"}]`, nil, 422, "denied request", 201},
	{"last-2", "Mutating", `"mutations":[{"patchType":"JSONPatch","jsonPatch":{"expression":"[JSONPatch{op: 'remove', path: '/none'}]"}}]`, nil, 403, "denied request", 201},
	{"last-3", "validatingwebhookconfigurations", `"timeoutSeconds":1`, nil, 500, "failed calling webhook", 201},
	{"last-4", "mutatingwebhookconfigurations", `"timeoutSeconds":1`, nil, 500, "failed calling webhook", 201},
}

// What one request may take, on a machine that is busy with other things, and what all of them may take in memory.
const (
	mostTime   = 20 * time.Second
	mostMemory = 768 << 20
)

// TestHostilePolicies sends objects to policies and webhooks whose expressions do harm, with each failure policy, and reads meanwhile.
// Ledger: mutation-size, policy-variables-size.
func TestHostilePolicies(t *testing.T) {
	t.Parallel()
	s := startServer(t)
	s.do(t, 201, "POST", "/apis/apiextensions.k8s.io/v1/customresourcedefinitions", []byte(policyTrialKind))
	eventually(t, "trials served", func() bool {
		code, _, err := s.try("GET", policyTrials, nil)
		return err == nil && code == 200
	})
	literal := hostilePolicy{kind: "Validating", spec: `"validations":[{"expression":"'` + strings.Repeat("a", 1<<20) + `' != ''"}]`}.objects("literal", "Fail")[0]
	refused := s.do(t, 422, "POST", registrations+literal[0], []byte(literal[1]))
	if want := "expression code point size exceeds limit: size: 1048584, limit 100000"; !strings.Contains(string(refused), want) {
		t.Errorf("a literal of a megabyte: got %s, want in it %q", tail(string(refused), 300), want)
	}
	rows := hostilePolicies()
	s.hostile(t, rows)
	before := s.peakMemory(t)
	slowest, what := time.Duration(0), ""
	for i, p := range rows {
		t.Run(p.name, func(t *testing.T) {
			for _, failurePolicy := range []string{"Fail", "Ignore"} {
				if took := s.hostileTrial(t, rowName(i, failurePolicy), p, failurePolicy); took > slowest {
					slowest, what = took, p.name
				}
			}
		})
	}
	if grown := s.peakMemory(t) - before; grown > mostMemory {
		t.Errorf("peak memory grew by %d MiB", grown>>20)
	}
	t.Logf("the slowest answer took %v (%s); peak memory: %d MiB, %d MiB of it before", slowest.Round(time.Millisecond), what, s.peakMemory(t)>>20, before>>20)
}

func rowName(i int, failurePolicy string) string {
	return fmt.Sprintf("row-%d-%s", i, strings.ToLower(failurePolicy))
}

// hostile creates the policies and webhooks of all rows, and waits until the server works with them.
func (s *server) hostile(t *testing.T, rows []hostilePolicy) {
	t.Helper()
	create := func(objects [][2]string) {
		for _, object := range objects {
			s.do(t, 201, "POST", registrations+object[0], []byte(object[1]))
		}
	}
	for i, p := range rows {
		create(p.objects(rowName(i, "Fail"), "Fail"))
		create(p.objects(rowName(i, "Ignore"), "Ignore"))
	}
	for _, p := range last {
		create(p.objects(p.name, "Fail"))
	}
	for _, p := range last {
		eventually(t, p.name, func() bool {
			code, b, err := s.try("POST", policyTrials+"?dryRun=All", policyTrial(t, p.name, p.with))
			return err == nil && code == p.code && strings.Contains(string(b), p.want)
		})
	}
}

// hostileTrial sends the object of one row, while another client reads, and says how long the answer took.
func (s *server) hostileTrial(t *testing.T, name string, p hostilePolicy, failurePolicy string) time.Duration {
	body := policyTrial(t, name, p.with)
	ctx, cancel := context.WithCancel(t.Context())
	var reader sync.WaitGroup
	read := time.Duration(0)
	reader.Go(func() {
		for ctx.Err() == nil {
			began := time.Now()
			if code, _, err := s.try("GET", "/api/v1/namespaces/default", nil); err != nil || code != http.StatusOK {
				t.Errorf("a read meanwhile: %d, %v", code, err)
			}
			read = max(read, time.Since(began))
		}
	})
	began := time.Now()
	code, b, err := s.try("POST", policyTrials, body)
	took := time.Since(began)
	cancel()
	reader.Wait()
	if err != nil {
		t.Fatal(err)
	}
	wantCode, want := p.code, p.want
	if failurePolicy == "Ignore" && p.ignored != p.code {
		wantCode, want = p.ignored, ""
	}
	if code != wantCode || !strings.Contains(string(b), want) {
		t.Errorf("%s: got %d %s, want %d and in it %q", failurePolicy, code, tail(string(b), 500), wantCode, want)
	}
	if took > mostTime || read > mostTime {
		t.Errorf("%s: it took %v, and reads meanwhile %v", failurePolicy, took, read)
	}
	t.Logf("%s: %d in %v; reads meanwhile within %v; %d MiB", failurePolicy, code, took.Round(time.Millisecond), read.Round(time.Millisecond), s.peakMemory(t)>>20)
	return took
}
