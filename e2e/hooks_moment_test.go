package e2e

import (
	"fmt"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// This file is about time, conditions, dry runs, what metrics say of themselves, and webhooks that stand in everybody's way.

// webhookTimes: validating webhooks are asked at the same time, the first error is told, and nobody waits longer than the client.
func (x *hooked) webhookTimes(t *testing.T) {
	var together sync.WaitGroup
	together.Add(3)
	meet := func(b behave) behave { // answers when all three are there
		return func(r *hookReview) (int, string) { together.Done(); together.Wait(); return b(r) }
	}
	var hooks []string
	for i, b := range []behave{allows, answers(`{"uid":"%s","allowed":false,"status":{"message":"two"},"warnings":["second"]}`), answers(`{"uid":"%s","allowed":false,"status":{"message":"three"}}`)} {
		name := fmt.Sprintf("meets%d", i)
		x.hooks.on(name, meet(b))
		hooks = append(hooks, x.hooks.hook(name))
	}
	t.Run("parallel", func(t *testing.T) {
		x.configure(t, validating, "v", hooks...)
		a := x.send(t, "POST", widgetList+"?dryRun=All", widgetRed)
		if a.code != 400 || a.message != `admission webhook "meets1.demo.io" denied the request: two` || !slices.Equal(a.warnings, []string{"second"}) {
			t.Errorf("got %d %s, warnings %q", a.code, a.body, a.warnings)
		}
	})
	release := make(chan struct{})
	defer close(release)
	x.hooks.on("waits", func(r *hookReview) (int, string) { <-release; return allows(r) })
	for _, kind := range []string{mutating, validating} {
		for _, more := range []string{`"failurePolicy":"Fail"`, `"failurePolicy":"Ignore"`} {
			t.Run("the_client's/"+kind+more[len(`"failurePolicy":`):], func(t *testing.T) {
				x.configure(t, kind, "w", x.hooks.hook("waits", more))
				x.hooks.seen()
				a := x.send(t, "POST", widgetList+"?dryRun=All&timeout=300ms", widgetRed)
				if a.code != 504 || a.message != "Timeout: request did not complete within requested timeout - context deadline exceeded" {
					t.Errorf("got %d %s", a.code, a.body)
				}
				if calls := x.hooks.seen(); len(calls) != 1 || calls[0].query != "timeout=1s" {
					t.Errorf("calls: %+v", calls)
				}
			})
		}
	}
}

// webhookConditions: one false condition is enough to leave a webhook out; else an error is as the failure policy has it.
func (x *hooked) webhookConditions(t *testing.T) {
	x.hooks.on("cond", allows)
	condition := func(name, text string) string { return fmt.Sprintf(`{"name":%q,"expression":%q}`, name, text) }
	const wrong = `object.spec.nothing == 1`
	refused := `widgets.demo.io "a" is forbidden: expression 'object.spec.nothing == 1' resulted in error: no such key: nothing`
	for _, row := range []struct {
		what, conditions, policy string
		asked                    bool
		message                  string
		errors, skips            int
	}{
		{"true", condition("a", "true") + "," + condition("b", "object.spec.color == 'red'"), "Fail", true, "", 0, 0},
		{"false", condition("a", "true") + "," + condition("b", "request.operation == 'DELETE'"), "Fail", false, "", 0, 1},
		{"an error", condition("a", wrong) + "," + condition("b", "true"), "Fail", false, refused, 1, 0},
		{"an error, and it may fail", condition("a", wrong), "Ignore", false, "", 1, 1},
		{"an error and false", condition("a", wrong) + "," + condition("b", "false"), "Fail", false, "", 1, 1},
		{"false and an error", condition("a", "false") + "," + condition("b", wrong), "Fail", false, "", 0, 1},
		{"two errors", condition("a", wrong) + "," + condition("b", "request.name == string(object.spec.other)"), "Fail", false,
			strings.Replace(refused, "expression", "[expression", 1) + `, expression 'request.name == string(object.spec.other)' resulted in error: no such key: other]`, 2, 0},
		{"the request's own version", condition("a", "request.resource.version == 'v1' && request.kind.version == 'v2' && object.apiVersion == 'demo.io/v2'"), "Fail", true, "", 0, 0},
	} {
		for _, kind := range []string{mutating, validating} {
			t.Run(strings.ReplaceAll(row.what, " ", "_")+"/"+kind, func(t *testing.T) {
				target := "v1"
				if strings.Contains(row.conditions, "demo.io/v2") {
					target = "v2"
				}
				x.configure(t, kind, "c", x.hooks.hook("cond", forRules("CREATE", "demo.io", target, "widgets"), `"matchConditions":[`+row.conditions+`],"failurePolicy":"`+row.policy+`"`))
				before, _ := x.metrics(t)
				x.hooks.seen()
				a := x.send(t, "POST", widgetList+"?dryRun=All", widgetRed)
				after, _ := x.metrics(t)
				if asked := len(x.hooks.seen()) > 0; asked != row.asked || a.message != row.message || (a.code == 403) != (row.message != "") {
					t.Errorf("got %d %s, asked %v", a.code, a.body, asked)
				}
				admit, validate := "admit", "admit"
				if kind == validating {
					admit, validate = "validating", "validate"
				}
				var want []string
				if row.errors > 0 {
					want = append(want, fmt.Sprintf(`match_condition_evaluation_errors_total{kind="webhook",name="cond.demo.io",operation="CREATE",type=%q} %d`, admit, row.errors))
				}
				want = append(want, fmt.Sprintf(`match_condition_evaluation_seconds_count{kind="webhook",name="cond.demo.io",operation="CREATE",type=%q} 1`, admit))
				if row.skips > 0 {
					want = append(want, fmt.Sprintf(`match_condition_exclusions_total{kind="webhook",name="cond.demo.io",operation="CREATE",type=%q} %d`, validate, row.skips))
				}
				if row.asked {
					want = append(want, passed.metrics("cond.demo.io", admit, "CREATE")...)
				}
				slices.Sort(want)
				if got := hookCounts(before, after); !slices.Equal(got, want) {
					t.Errorf("metrics:\ngot  %s\nwant %s", strings.Join(got, "\n     "), strings.Join(want, "\n     "))
				}
			})
		}
	}
}

// webhookDryRuns: who has side effects is not asked about a dry run, which fails. Only configurations from before Kubernetes 1.16
// may say that, or say nothing: they are put into etcd.
func (x *hooked) webhookDryRuns(t *testing.T) {
	x.hooks.on("effects", allows)
	for _, kind := range []string{mutating, validating} {
		for _, row := range []struct {
			effects, message string
			outcome          outcome
		}{
			{`"None"`, "", passed},
			{`"NoneOnDryRun"`, "", passed},
			{`"Some"`, `admission webhook "effects.demo.io" does not support dry run`, internal},
			{`"Unknown"`, `admission webhook "effects.demo.io" does not support dry run`, internal},
			{`null`, `Internal error occurred: failed calling webhook "effects.demo.io": Webhook SideEffects is nil`, outcome{400, true, "calling_webhook_error", false}},
		} {
			t.Run(strings.Trim(row.effects, `"`)+"/"+kind, func(t *testing.T) {
				plural := strings.ToLower(kind) + "s"
				key := "/demo/" + plural + "/old"
				if _, err := x.etcd.Put(t.Context(), key, `{"apiVersion":"admissionregistration.k8s.io/v1","kind":"`+kind+`","metadata":{"name":"old","uid":"u","creationTimestamp":"2019-01-01T00:00:00Z"},
					"webhooks":[`+x.hooks.hook("effects", `"failurePolicy":"Fail","matchPolicy":"Exact","timeoutSeconds":5,"namespaceSelector":{},"objectSelector":{},"sideEffects":`+row.effects)+`]}`); err != nil {
					t.Fatal(err)
				}
				if b := x.do(t, 200, "GET", registrations+plural, nil); !strings.Contains(string(b), `"old"`) {
					t.Fatalf("got %s", b)
				}
				defer x.do(t, 200, "GET", registrations+plural, nil)
				defer x.do(t, 200, "DELETE", registrations+plural+"/old", nil)
				before, _ := x.metrics(t)
				x.hooks.seen()
				a := x.send(t, "POST", widgetList+"?dryRun=All", widgetRed)
				after, _ := x.metrics(t)
				calls := x.hooks.seen()
				if a.message != row.message || (len(calls) > 0) != (row.message == "") || len(calls) > 0 && !*calls[0].Request.DryRun {
					t.Errorf("got %d %s after %d calls", a.code, a.body, len(calls))
				}
				admit := "admit"
				if kind == validating {
					admit = "validating"
				}
				want := row.outcome.metrics("effects.demo.io", admit, "CREATE")
				slices.Sort(want)
				if got := hookCounts(before, after); !slices.Equal(got, want) {
					t.Errorf("metrics:\ngot  %s\nwant %s", strings.Join(got, "\n     "), strings.Join(want, "\n     "))
				}
				x.do(t, 201, "POST", widgetList, []byte(widgetRed)) // in earnest, everybody is asked
				x.hooks.seen()
				x.do(t, 200, "DELETE", widgetList+"/a", nil)
			})
		}
	}
}

// explained is what /metrics says of admission, but for policies.
const explained = `# HELP apiserver_admission_controller_admission_duration_seconds [STABLE] Admission controller latency histogram in seconds, identified by name and broken out for each operation and API resource and type (validate or admit).
# TYPE apiserver_admission_controller_admission_duration_seconds histogram
# HELP apiserver_admission_match_condition_evaluation_errors_total [ALPHA] Admission match condition evaluation errors count, identified by name of resource containing the match condition and broken out for each kind containing matchConditions (webhook or policy), operation and admission type (validate or admit).
# TYPE apiserver_admission_match_condition_evaluation_errors_total counter
# HELP apiserver_admission_match_condition_evaluation_seconds [ALPHA] Admission match condition evaluation time in seconds, identified by name and broken out for each kind containing matchConditions (webhook or policy), operation and type (validate or admit).
# TYPE apiserver_admission_match_condition_evaluation_seconds histogram
# HELP apiserver_admission_match_condition_exclusions_total [ALPHA] Admission match condition evaluation exclusions count, identified by name of resource containing the match condition and broken out for each kind containing matchConditions (webhook or policy), operation and admission type (validate or admit).
# TYPE apiserver_admission_match_condition_exclusions_total counter
# HELP apiserver_admission_step_admission_duration_seconds [STABLE] Admission sub-step latency histogram in seconds, broken out for each operation and API resource and step type (validate or admit).
# TYPE apiserver_admission_step_admission_duration_seconds histogram
# HELP apiserver_admission_step_admission_duration_seconds_summary [ALPHA] Admission sub-step latency summary in seconds, broken out for each operation and API resource and step type (validate or admit).
# TYPE apiserver_admission_step_admission_duration_seconds_summary summary
# HELP apiserver_admission_webhook_admission_duration_seconds [STABLE] Admission webhook latency histogram in seconds, identified by name and broken out for each operation and API resource and type (validate or admit).
# TYPE apiserver_admission_webhook_admission_duration_seconds histogram
# HELP apiserver_admission_webhook_fail_open_count [ALPHA] Admission webhook fail open count, identified by name and broken out for each admission type (validating or admit).
# TYPE apiserver_admission_webhook_fail_open_count counter
# HELP apiserver_admission_webhook_rejection_count [ALPHA] Admission webhook rejection count, identified by name and broken out for each admission type (validating or admit) and operation. Additional labels specify an error type (calling_webhook_error or apiserver_internal_error if an error occurred; no_error otherwise) and optionally a non-zero rejection code if the webhook rejects the request with an HTTP status code (honored by the apiserver when the code is greater or equal to 400). Codes greater than 600 are truncated to 600, to keep the metrics cardinality bounded.
# TYPE apiserver_admission_webhook_rejection_count counter
# HELP apiserver_admission_webhook_request_total [ALPHA] Admission webhook request total, identified by name and broken out for each admission type (validating or admit) and operation. Additional labels specify whether the request was rejected or not and an HTTP status code. Codes greater than 600 are truncated to 600, to keep the metrics cardinality bounded.
# TYPE apiserver_admission_webhook_request_total counter`

// webhookMetrics: metrics are called and explained as kube-apiserver's, and count plugins and steps.
func (x *hooked) webhookMetrics(t *testing.T) {
	x.hooks.on("counted", answers(`{"uid":"%s","allowed":false}`))
	x.configure(t, validating, "v", x.hooks.hook("counted"))
	// Metrics of webhooks are there as long as the webhooks are: these give every metric a series.
	x.hooks.on("other-fails", func(*hookReview) (int, string) { return 500, "" })
	ignored := func(name, condition string) string {
		return x.hooks.hook(name, `"failurePolicy":"Ignore","matchConditions":[{"name":"c","expression":"`+condition+`"}]`)
	}
	x.configure(t, mutating, "others", ignored("other-fails", "true"), ignored("other-excluded", "false"), ignored("other-broken", "object.spec.nothing == 1"))
	x.send(t, "POST", widgetList+"?dryRun=All", widgetRed)
	before, help := x.metrics(t)
	if got := strings.Join(help, "\n"); got != explained {
		t.Errorf("got\n%s\nwant\n%s", got, explained)
	}
	x.send(t, "POST", widgetList+"?dryRun=All", widgetRed)
	after, _ := x.metrics(t)
	var got []string
	for key := range after {
		if up := after[key] - before[key]; up > 0 && !strings.Contains(key, `name="other-`) && (strings.Contains(key, "_count{") || strings.Contains(key, `le="25"`) || strings.Contains(key, `le="2.5"`)) {
			got = append(got, fmt.Sprintf("%s %v", strings.TrimPrefix(key, "apiserver_admission_"), up))
		}
	}
	want := []string{
		`webhook_admission_duration_seconds_bucket{name="counted.demo.io",operation="CREATE",rejected="true",type="validating",le="2.5"} 1`,
		`webhook_admission_duration_seconds_bucket{name="counted.demo.io",operation="CREATE",rejected="true",type="validating",le="25"} 1`,
		`webhook_admission_duration_seconds_count{name="counted.demo.io",operation="CREATE",rejected="true",type="validating"} 1`,
		`webhook_rejection_count{error_type="no_error",name="counted.demo.io",operation="CREATE",rejection_code="400",type="validating"} 1`,
	}
	for _, labels := range []string{`name="NamespaceLifecycle",operation="CREATE",rejected="false",type="admit"`, `name="MutatingAdmissionPolicy",operation="CREATE",rejected="false",type="admit"`,
		`name="MutatingAdmissionWebhook",operation="CREATE",rejected="false",type="admit"`, `name="ValidatingAdmissionPolicy",operation="CREATE",rejected="false",type="validate"`,
		`name="ValidatingAdmissionWebhook",operation="CREATE",rejected="true",type="validate"`} {
		want = append(want, `controller_admission_duration_seconds_count{`+labels+`} 1`, `controller_admission_duration_seconds_bucket{`+labels+`,le="2.5"} 1`)
	}
	for _, labels := range []string{`operation="CREATE",rejected="false",type="admit"`, `operation="CREATE",rejected="true",type="validate"`} {
		want = append(want, `step_admission_duration_seconds_count{`+labels+`} 1`, `step_admission_duration_seconds_bucket{`+labels+`,le="2.5"} 1`,
			`step_admission_duration_seconds_summary_count{`+labels+`} 1`)
	}
	slices.Sort(got)
	slices.Sort(want)
	if !slices.Equal(got, want) {
		t.Errorf("got\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}

// TestWebhooksLockNobodyOut: configurations as of policy engines, for everything there is, whose services are dead and which may
// not fail, stop every change but that of themselves; also after a restart.
func TestWebhooksLockNobodyOut(t *testing.T) {
	s := startServer(t)
	dead := `"admissionReviewVersions":["v1"],"sideEffects":"None","failurePolicy":"Fail","timeoutSeconds":1,
		"clientConfig":{"service":{"namespace":"nowhere","name":"engine","path":"/mutate/fail"}},` + forRules("*", "*", "*", "*/*")
	paths := map[string]string{}
	for _, kind := range []string{mutating, validating} {
		path := registrations + strings.ToLower(kind) + "s"
		s.do(t, 201, "POST", path, []byte(`{"apiVersion":"admissionregistration.k8s.io/v1","kind":"`+kind+`","metadata":{"name":"engine"},"webhooks":[{"name":"all.engine.io",`+dead+`}]}`))
		s.do(t, 200, "GET", path, nil)
		paths[kind] = path + "/engine"
	}
	locked := func() {
		t.Helper()
		if b := s.do(t, 500, "POST", "/api/v1/namespaces", []byte(`{"apiVersion":"v1","kind":"Namespace","metadata":{"name":"n"}}`)); !strings.Contains(string(b), `failed calling webhook \"all.engine.io\"`) {
			t.Errorf("got %s", b)
		}
		s.do(t, 500, "DELETE", "/api/v1/namespaces/kube-node-lease", nil)
	}
	locked()
	if code := s.stop(syscall.SIGTERM); code != 0 {
		t.Fatalf("exit code %d", code)
	}
	s.start()
	locked()
	// Who is in the way may be asked about, changed and removed.
	s.do(t, 200, "GET", "/api/v1/namespaces", nil)
	s.do(t, 201, "POST", "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews",
		[]byte(`{"apiVersion":"authorization.k8s.io/v1","kind":"SelfSubjectAccessReview","spec":{"resourceAttributes":{"verb":"delete","resource":"pods"}}}`))
	s.do(t, 200, "PATCH", paths[mutating], []byte(`[{"op":"replace","path":"/webhooks/0/failurePolicy","value":"Ignore"}]`), "Content-Type", "application/json-patch+json")
	s.do(t, 200, "GET", registrations+"mutatingwebhookconfigurations", nil)
	locked()
	for _, path := range paths {
		s.do(t, 200, "DELETE", path, nil)
		s.do(t, 200, "GET", path[:strings.LastIndex(path, "/")], nil)
	}
	began := time.Now()
	s.do(t, 201, "POST", "/api/v1/namespaces", []byte(`{"apiVersion":"v1","kind":"Namespace","metadata":{"name":"n"}}`))
	t.Logf("free after %v", time.Since(began))
}
