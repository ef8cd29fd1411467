package e2e

import (
	"encoding/json"
	"fmt"
	"maps"
	"net"
	"slices"
	"strings"
	"testing"
	"time"
)

// This file lets one webhook answer in every way, good and bad, and looks at what the client, the metrics and the audit log say.

const (
	widgetList = "/apis/demo.io/v1/namespaces/default/widgets"
	widgetRed  = `{"apiVersion":"demo.io/v1","kind":"Widget","metadata":{"name":"a"},"spec":{"color":"red"}}`
)

// outcome is how a call is counted.
type outcome struct {
	code     int
	rejected bool
	reason   string // error_type of a rejection; "" if there is none
	open     bool   // failed, and the request went on
}

// Outcomes that several answers have.
var (
	passed   = outcome{code: 200}
	failed   = outcome{code: 503, rejected: true, reason: "calling_webhook_error"}
	internal = outcome{code: 0, rejected: true, reason: "apiserver_internal_error"}
)

func denied(code int) outcome { return outcome{code: code, rejected: true, reason: "no_error"} }

// metrics are the lines that count an outcome.
func (o outcome) metrics(name, kind, operation string) []string {
	var out []string
	if o.open {
		out = append(out, fmt.Sprintf(`webhook_fail_open_count{name=%q,type=%q} 1`, name, kind))
	}
	if o.reason != "" {
		out = append(out, fmt.Sprintf(`webhook_rejection_count{error_type=%q,name=%q,operation=%q,rejection_code="%d",type=%q} 1`, o.reason, name, operation, o.code, kind))
	}
	return append(out, fmt.Sprintf(`webhook_admission_duration_seconds_count{name=%q,operation=%q,rejected="%v",type=%q} 1`, name, operation, o.rejected, kind),
		fmt.Sprintf(`webhook_request_total{code="%d",name=%q,operation=%q,rejected="%v",type=%q} 1`, o.code, name, operation, o.rejected, kind))
}

// webhookRow is one answer.
type webhookRow struct {
	what string
	on   string // mv: by mutating and by validating webhooks
	do   behave
	more string // of the webhook's configuration
	code int
	// message of the Status, if the answer is one; NAME is the webhook and URL its server.
	message string
	outcome outcome
	mutated bool
	patch   string            // in the audit log
	audit   map[string]string // what else is there
	warns   []string
}

const callFailed = `Internal error occurred: failed calling webhook "NAME.demo.io": `

var webhookRows = []webhookRow{
	{what: "allows", on: "mv", do: answers(`{"uid":"%s","allowed":true,"warnings":["look out","and back"],"auditAnnotations":{"why":"so","no good":"x","a/b":"y"}}`),
		code: 201, outcome: passed, warns: []string{"look out", "and back"}, audit: map[string]string{"NAME.demo.io/why": "so"}},
	{what: "denies", on: "mv", do: answers(`{"uid":"%s","allowed":false,"status":{"code":418,"message":"no tea","reason":"Teapot","details":{"name":"x"}},"warnings":["hot"]}`),
		code: 418, message: `admission webhook "NAME.demo.io" denied the request: no tea`, outcome: denied(418), warns: []string{"hot"}},
	{what: "denies although it may fail", on: "mv", do: answers(`{"uid":"%s","allowed":false,"status":{"message":"no"}}`), more: `"failurePolicy":"Ignore"`,
		code: 400, message: `admission webhook "NAME.demo.io" denied the request: no`, outcome: denied(400)},
	{what: "denies with a reason", on: "mv", do: answers(`{"uid":"%s","allowed":false,"status":{"reason":"TooHot","status":"Success","code":200}}`),
		code: 400, message: `admission webhook "NAME.demo.io" denied the request: TooHot`, outcome: denied(400)},
	{what: "denies in silence", on: "mv", do: answers(`{"uid":"%s","allowed":false}`),
		code: 400, message: `admission webhook "NAME.demo.io" denied the request without explanation`, outcome: denied(400)},
	{what: "denies with a code of its own", on: "v", do: answers(`{"uid":"%s","allowed":false,"status":{"code":799,"message":"no"}}`),
		code: 799, message: `admission webhook "NAME.demo.io" denied the request: no`, outcome: denied(600)},
	{what: "answers another request", on: "mv", do: answers(`{"uid":"another","allowed":true}`),
		code: 500, message: callFailed + `received invalid webhook response: expected response.uid="UID", got "another"`, outcome: failed},
	{what: "answers another request, and may fail", on: "mv", do: answers(`{"uid":"another","allowed":true}`), more: `"failurePolicy":"Ignore"`,
		code: 201, outcome: outcome{code: 503, open: true}},
	{what: "answers another request in v1beta1", on: "mv", do: answers(`{"uid":"another","allowed":true}`), more: `"admissionReviewVersions":["v9","v1beta1","v1"]`,
		code: 201, outcome: passed},
	{what: "denies in v1beta1", on: "mv", do: answers(`{"uid":"%s","allowed":false,"status":{"message":"old"}}`), more: `"admissionReviewVersions":["v1beta1","v1"]`,
		code: 400, message: `admission webhook "NAME.demo.io" denied the request: old`, outcome: denied(400)},
	{what: "answers nothing in v1beta1", on: "mv", do: replies(200, `{"apiVersion":"admission.k8s.io/v1beta1","kind":"AdmissionReview"}`), more: `"admissionReviewVersions":["v1beta1"]`,
		code: 500, message: callFailed + `received invalid webhook response: webhook response was absent`, outcome: failed},
	{what: "answers nothing", on: "mv", do: replies(200, `{"apiVersion":"admission.k8s.io/v1","kind":"AdmissionReview"}`),
		code: 500, message: callFailed + `received invalid webhook response: webhook response was absent`, outcome: failed},
	{what: "answers in another version", on: "mv", do: func(r *hookReview) (int, string) {
		return 200, `{"apiVersion":"admission.k8s.io/v1beta1","kind":"AdmissionReview","response":{"uid":"` + r.Request.UID + `","allowed":true}}`
	}, code: 500, message: callFailed + `failed to call webhook: converting (v1beta1.AdmissionReview) to (v1.AdmissionReview): unknown conversion`, outcome: failed},
	{what: "answers without a version", on: "mv", do: func(r *hookReview) (int, string) {
		return 200, `{"response":{"uid":"` + r.Request.UID + `","allowed":true}}`
	}, code: 500, message: callFailed + `received invalid webhook response: expected webhook response of admission.k8s.io/v1, Kind=AdmissionReview, got /, Kind=`, outcome: failed},
	{what: "is empty", on: "mv", do: replies(200, ``),
		code: 500, message: callFailed + `failed to call webhook: 0-length response with status code: 200 and content type: application/json`, outcome: failed},
	{what: "is no JSON", on: "mv", do: replies(200, `oh`),
		code: 500, message: callFailed + `failed to call webhook: couldn't get version/kind; json parse error: json: cannot unmarshal string into Go value of type struct ` +
			"{ APIVersion string \"json:\\\"apiVersion,omitempty\\\"\"; Kind string \"json:\\\"kind,omitempty\\\"\" }", outcome: failed},
	{what: "breaks", on: "mv", do: replies(500, `oh`),
		code: 500, message: callFailed + `failed to call webhook: an error on the server ("unknown") has prevented the request from succeeding`,
		outcome: outcome{500, true, "calling_webhook_error", false}},
	{what: "breaks, and may", on: "mv", do: replies(502, ``), more: `"failurePolicy":"Ignore"`, code: 201, outcome: outcome{code: 502, open: true}},
	{what: "breaks in the words of Kubernetes", on: "mv", do: replies(500, `{"apiVersion":"v1","kind":"Status","status":"Failure","message":"not today","code":409}`),
		code: 500, message: callFailed + `failed to call webhook: not today`, outcome: outcome{409, true, "calling_webhook_error", false}},
	{what: "is not there", on: "mv", code: 500, message: callFailed + `failed to call webhook: the server could not find the requested resource`,
		outcome: outcome{404, true, "calling_webhook_error", false}},
	{what: "hangs up", on: "mv", do: replies(0, ``), code: 500, message: callFailed + `failed to call webhook: Post "URL/NAME?timeout=10s": EOF`, outcome: failed},
	{what: "is slow", on: "m", do: after(1500*time.Millisecond, allows), more: `"timeoutSeconds":1`,
		code: 500, message: callFailed + `failed to call webhook: Post "URL/NAME?timeout=1s": context deadline exceeded`, outcome: failed},
	{what: "is slow, and may be", on: "v", do: after(1500*time.Millisecond, allows), more: `"timeoutSeconds":1,"failurePolicy":"Ignore"`,
		code: 201, outcome: outcome{code: 503, open: true}},

	// What only mutating webhooks may say, and what they may not.
	{what: "patches", on: "m", do: patches(`[{"path":"/spec/color","op":"replace","value":"blue"}]`), code: 201, outcome: passed, mutated: true,
		patch: `[{"op":"replace","path":"/spec/color","value":"blue"}]`},
	{what: "patches in v1beta1, of any type", on: "m", do: answers(`{"allowed":true,"patch":"W3sib3AiOiJhZGQiLCJwYXRoIjoiL3NwZWMvY29sb3IiLCJ2YWx1ZSI6ImJsdWUifV0="}`),
		more: `"admissionReviewVersions":["v1beta1"]`, code: 201, outcome: passed, mutated: true, patch: `[{"op":"add","path":"/spec/color","value":"blue"}]`},
	{what: "patches to what it is", on: "m", do: patches(`[{"op":"replace","path":"/spec/color","value":"red"}]`), code: 201, outcome: passed,
		patch: `[{"op":"replace","path":"/spec/color","value":"red"}]`},
	{what: "patches a default away", on: "m", do: patches(`[{"op":"remove","path":"/spec/shape"}]`), code: 201, outcome: passed, patch: `[{"op":"remove","path":"/spec/shape"}]`},
	{what: "patches what is pruned", on: "m", do: patches(`[{"op":"add","path":"/spec/bogus","value":1}]`), code: 201, outcome: passed,
		patch: `[{"op":"add","path":"/spec/bogus","value":1}]`},
	{what: "patches nothing", on: "m", do: patches(`[]`), code: 201, outcome: passed},
	{what: "has a type and no patch", on: "m", do: answers(`{"uid":"%s","allowed":true,"patchType":"JSONPatch"}`),
		code: 500, message: callFailed + `received invalid webhook response: webhook returned response.patchType but not response.patch`, outcome: failed},
	{what: "has a patch and no type", on: "m", do: answers(`{"uid":"%s","allowed":true,"patch":"W10="}`),
		code: 500, message: callFailed + `received invalid webhook response: webhook returned response.patch but not response.patchType`, outcome: failed},
	{what: "has a patch of an empty type", on: "m", do: answers(`{"uid":"%s","allowed":true,"patch":"W10=","patchType":""}`),
		code: 500, message: callFailed + `received invalid webhook response: webhook returned invalid response.patchType of ""`, outcome: failed},
	{what: "has a patch of another type", on: "m", do: answers(`{"uid":"%s","allowed":true,"patchType":"Merge","patch":"W3sib3AiOiJhZGQiLCJwYXRoIjoiL3NwZWMvY29sb3IiLCJ2YWx1ZSI6ImJsdWUifV0="}`),
		code: 500, message: callFailed + `unsupported patch type "Merge"`, outcome: outcome{400, true, "calling_webhook_error", false}},
	{what: "has a patch that is none", on: "m", do: patches(`{"spec":1}`),
		code: 500, message: callFailed + `received undecodable patch in webhook response: json: cannot unmarshal object into Go value of type jsonpatch.Patch`, outcome: failed},
	{what: "has a patch that does not apply", on: "m", do: patches(`[{"op":"test","path":"/spec/color","value":"blue"}]`),
		code: 500, message: `Internal error occurred: patch of admission webhook "NAME.demo.io": testing value /spec/color failed: test failed`, outcome: internal},
	{what: "has a patch that does not apply, and may fail", on: "m", do: patches(`[{"op":"remove","path":"/nothing"}]`), more: `"failurePolicy":"Ignore"`,
		code: 500, message: `Internal error occurred: patch of admission webhook "NAME.demo.io": error in remove for path: '/nothing': Unable to remove nonexistent key: nothing: missing value`, outcome: internal},
	{what: "breaks the object", on: "m", do: patches(`[{"op":"replace","path":"/metadata/labels","value":7}]`),
		code: 500, message: `Internal error occurred: object patched by admission webhook "NAME.demo.io": json: cannot unmarshal number into Go struct field ObjectMeta.labels of type map[string]string`, outcome: internal},
	{what: "makes the object invalid", on: "m", do: patches(`[{"op":"replace","path":"/spec/color","value":7}]`), mutated: true, patch: `[{"op":"replace","path":"/spec/color","value":7}]`,
		code: 422, message: `Widget.demo.io "a" is invalid: spec.color: Invalid value: "integer": spec.color in body must be of type string: "integer"`, outcome: passed},
	{what: "patches, and validates", on: "v", do: patches(`[{"op":"remove","path":"/spec"}]`),
		code: 500, message: callFailed + `received invalid webhook response: validating webhook may not return response.patch`, outcome: failed},
	{what: "has a type of patches, and validates", on: "v", do: answers(`{"uid":"%s","allowed":true,"patchType":"JSONPatch"}`),
		code: 500, message: callFailed + `received invalid webhook response: validating webhook may not return response.patchType`, outcome: failed},
	{what: "patches in v1beta1, and validates", on: "v", do: answers(`{"allowed":true,"patch":"W10="}`), more: `"admissionReviewVersions":["v1beta1"]`, code: 201, outcome: passed},
}

// webhookAnswers runs the rows.
func (x *hooked) webhookAnswers(t *testing.T) {
	for i := range webhookRows {
		row := &webhookRows[i]
		for _, kind := range row.on {
			name, configuration := fmt.Sprintf("w%d", i), mutating
			if kind == 'v' {
				configuration = validating
			}
			t.Run(strings.ReplaceAll(row.what, " ", "_")+"/"+string(kind), func(t *testing.T) {
				if row.do != nil {
					x.hooks.on(name, row.do)
				}
				more := []string{forRules("CREATE", "demo.io", "v1", "widgets")}
				if row.more != "" {
					more = append(more, row.more)
				}
				x.configure(t, configuration, "c", x.hooks.hook(name, more...))
				x.answer(t, row, name, configuration)
			})
		}
	}
}

// answer creates a widget and compares everything.
func (x *hooked) answer(t *testing.T, row *webhookRow, name, configuration string) {
	t.Helper()
	before, _ := x.metrics(t)
	x.hooks.seen()
	a := x.send(t, "POST", widgetList, widgetRed)
	after, _ := x.metrics(t)
	defer x.try("DELETE", widgetList+"/a", nil)
	fill := strings.NewReplacer("NAME", name, "URL", x.hooks.URL, "UID", func() string {
		if calls := x.hooks.seen(); len(calls) > 0 {
			return calls[0].Request.UID
		}
		return ""
	}())
	if want := fill.Replace(row.message); a.code != row.code || a.message != want {
		t.Errorf("got  %d %s\nwant %d %s", a.code, a.message, row.code, want)
	}
	if !slices.Equal(a.warnings, row.warns) {
		t.Errorf("warnings: got %q, want %q", a.warnings, row.warns)
	}
	kind := "admit"
	if configuration == validating {
		kind = "validating"
	}
	want := row.outcome.metrics(name+".demo.io", kind, "CREATE")
	slices.Sort(want)
	if got := hookCounts(before, after); !slices.Equal(got, want) {
		t.Errorf("metrics:\ngot  %s\nwant %s", strings.Join(got, "\n     "), strings.Join(want, "\n     "))
	}
	notes := map[string]string{}
	for key, value := range row.audit {
		notes[fill.Replace(key)] = value
	}
	const at = ".webhook.admission.k8s.io/round_0_index_0"
	who := fmt.Sprintf(`{"configuration":"c","webhook":"%s.demo.io",`, name)
	if kind == "admit" {
		notes["mutation"+at] = fmt.Sprintf(`%s"mutated":%v}`, who, row.mutated)
		if row.patch != "" {
			notes["patch"+at] = who + `"patch":` + row.patch + `,"patchType":"JSONPatch"}`
		}
	}
	if row.outcome.open {
		notes["failed-open."+map[string]string{"admit": "mutation", "validating": "validating"}[kind]+at] = name + ".demo.io"
	}
	if got := x.annotations(t, a); !maps.Equal(got, notes) {
		b, _ := json.MarshalIndent(got, "", " ")
		w, _ := json.MarshalIndent(notes, "", " ")
		t.Errorf("audit annotations:\ngot  %s\nwant %s", b, w)
	}
}

// webhookAddresses reaches webhooks by URLs and services, and trusts authorities.
func (x *hooked) webhookAddresses(t *testing.T) {
	x.hooks.on("at", allows)
	x.public.on("at", allows)
	closed := fmt.Sprintf("127.0.0.1:%d", freePort(t))
	service := func(name, more string) string {
		return `"clientConfig":{"service":{"namespace":"default","name":"` + name + `","path":"/at"` + more + `},` + x.hooks.bundle() + `}`
	}
	_, port, err := net.SplitHostPort(x.hooks.Listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	x.hookServices(t, port)
	unknown := `tls: failed to verify certificate: x509: certificate signed by unknown authority (possibly because of ` +
		`"x509: invalid signature: parent certificate cannot sign this kind of certificate" while trying to verify candidate authority certificate "etcd")`
	for _, row := range []struct {
		what, client, want string
	}{
		{"URL and authority", `"clientConfig":{"url":"` + x.hooks.URL + `/at",` + x.hooks.bundle() + `}`, ""},
		{"localhost", `"clientConfig":{"url":"` + strings.Replace(x.hooks.URL, "127.0.0.1", "localhost", 1) + `/at",` + x.hooks.bundle() + `}`,
			`Post "` + strings.Replace(x.hooks.URL, "127.0.0.1", "localhost", 1) + `/at?timeout=10s": tls: failed to verify certificate: x509: certificate is valid for hooks.default.svc, inside.default.svc, not localhost`},
		{"the system's authorities", `"clientConfig":{"url":"` + x.public.URL + `/at"}`, ""},
		{"the system's authorities, by white space", `"clientConfig":{"url":"` + x.public.URL + `/at","caBundle":"Cg=="}`, ""},
		{"not an authority of the system", `"clientConfig":{"url":"` + x.hooks.URL + `/at"}`, `Post "` + x.hooks.URL + `/at?timeout=10s": ` + unknown},
		{"another authority", `"clientConfig":{"url":"` + x.public.URL + `/at",` + x.hooks.bundle() + `}`, `Post "` + x.public.URL + `/at?timeout=10s": ` + unknown},
		{"no authority", `"clientConfig":{"url":"` + x.public.URL + `/at","caBundle":"` + "bm9uZQ==" + `"}`,
			`could not get REST client: unable to load root certificates: unable to parse bytes as PEM block`},
		{"closed", `"clientConfig":{"url":"https://` + closed + `/at"}`, `Post "https://` + closed + `/at?timeout=10s": dial tcp ` + closed + `: connect: connection refused`},
		{"service", service("hooks", `,"port":`+port), ""},
		{"service and endpoints", service("inside", ""), ""},
		{"another port", service("inside", `,"port":8443`), `Post "https://inside.default.svc:8443/at?timeout=10s": no service port 8443 found for service "inside"`},
		{"another service", service("nothing", ""), `Post "https://nothing.default.svc:443/at?timeout=10s": service "nothing" not found`},
		{"no endpoints", service("unready", ""), `Post "https://unready.default.svc:443/at?timeout=10s": no endpoints available for service "unready"`},
		{"no slices of a headless service", service("headless", ""), `Post "https://headless.default.svc:443/at?timeout=10s": no endpoints available for service "headless"`},
		{"service with the certificate of another", service("impostor", `,"port":`+port), `Post "https://impostor.default.svc:` + port + `/at?timeout=10s": ` +
			`tls: failed to verify certificate: x509: certificate is valid for hooks.default.svc, inside.default.svc, not impostor.default.svc`},
	} {
		t.Run(strings.ReplaceAll(row.what, " ", "_"), func(t *testing.T) {
			x.configure(t, validating, "c", x.hooks.hook("at", row.client))
			x.hooks.seen()
			a := x.send(t, "POST", widgetList+"?dryRun=All", widgetRed)
			want := row.want
			if want != "" {
				prefix := "failed to call webhook: "
				if strings.HasPrefix(want, "could not") {
					prefix = ""
				}
				want = strings.ReplaceAll(callFailed, "NAME", "at") + prefix + want
			}
			if (want == "") != (a.code == 201) || a.message != want {
				t.Errorf("got  %d %s\nwant %s", a.code, a.message, want)
			}
			if calls := x.hooks.seen(); strings.HasPrefix(row.what, "service") && want == "" && (len(calls) != 1 || calls[0].host != "hooks.default.svc:"+port && calls[0].host != "inside.default.svc:443") {
				t.Errorf("calls: %+v", calls)
			}
		})
	}
	if _, err := net.Dial("tcp", closed); err == nil {
		t.Errorf("%s is open after all", closed)
	}
}
