package e2e

import (
	"context"
	"encoding/json"
	"fmt"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"
)

// This file is what a server says that is told wrongly whom to ask, and the older ways to tell it.

// fails runs a server that must not start, and returns what it says.
func fails(t *testing.T, args ...string) string {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, keelsonBin, append([]string{"serve", "--data-dir", filepath.Join(t.TempDir(), "data"), "--secure-port", strconv.Itoa(freePort(t))}, args...)...)
	out, _ := cmd.CombinedOutput()
	if code := cmd.ProcessState.ExitCode(); code != 1 {
		t.Errorf("%q: exit code %d, want 1\n%s", args, code, out)
	}
	return strings.TrimSpace(strings.TrimPrefix(string(out), "keelson: "))
}

func TestAuthzConfigurationErrors(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	kube, bad, empty := filepath.Join(dir, "kubeconfig"), filepath.Join(dir, "bad"), filepath.Join(dir, "empty")
	overwrite(t, kube, `{"apiVersion":"v1","kind":"Config","current-context":"x","contexts":[{"name":"x","context":{"cluster":"c"}}],"clusters":[{"name":"c","cluster":{"server":"https://127.0.0.1:1"}}]}`)
	overwrite(t, bad, "{")
	overwrite(t, empty, "")
	missing := filepath.Join(dir, "missing")
	file := filepath.Join(dir, "authz.yaml")
	const failed, required = "failed to load AuthorizationConfiguration from file: ", "authorizers: Required value: at least one authorization mode must be defined"
	hook := func(changes ...string) string {
		text := entry("w", kube, "Deny", "timeout: 3s")
		for i := 0; i < len(changes); i += 2 {
			if !strings.Contains(text, changes[i]) {
				t.Fatalf("%s has no %s", text, changes[i])
			}
			text = strings.Replace(text, changes[i], changes[i+1], 1)
		}
		return text
	}
	info := "{type: KubeConfigFile, kubeConfigFile: " + kube + "}"
	expression := func(text string) string {
		quoted, err := json.Marshal(text)
		if err != nil {
			t.Fatal(err)
		}
		return hook("timeout: 3s", "timeout: 3s, matchConditionSubjectAccessReviewVersion: v1, matchConditions: [{expression: "+string(quoted)+"}]")
	}
	for _, row := range []struct{ text, want string }{
		{"", required},
		{"authorizers: []", failed + "Object 'Kind' is missing in 'authorizers: []'"},
		{"# nothing\n", failed + "Object 'Kind' is missing in '# nothing\n'"},
		{authzConfig("v1"), required},
		{authzConfig("v2", plainEntry("RBAC")), failed + `no kind "AuthorizationConfiguration" is registered for version "apiserver.config.k8s.io/v2" in scheme`},
		{"apiVersion: apiserver.k8s.io/v1alpha1\nkind: AuthorizationConfiguration\n", failed + `no kind "AuthorizationConfiguration" is registered for version "apiserver.k8s.io/v1alpha1" in scheme`},
		{"apiVersion: apiserver.config.k8s.io/v1\nkind: AuthenticationConfiguration\n", failed + "expected AuthorizationConfiguration, got *apiserver.AuthenticationConfiguration"},
		{authzConfig("v1", "- {type: RBAC, name: rbac, foo: 1}"), failed + `strict decoding error: unknown field "authorizers[0].foo"`},
		{authzConfig("v1", "- {type: RBAC, Name: rbac}"), failed + `strict decoding error: unknown field "authorizers[0].Name"`},
		{authzConfig("v1", "- type: RBAC\n  name: rbac\n  name: rbac\n"), failed + "strict decoding error: yaml: unmarshal errors:\n  line 6: key \"name\" already set in map"},
		{authzConfig("v1", "- {type: RBAC, name: y}"), failed + "json: cannot unmarshal bool into Go struct field"},
		{authzConfig("v1", hook("timeout: 3s", "timeout: 3")), failed + "json: cannot unmarshal number into Go struct field"},
		{authzConfig("v1", "- {name: x}"), "authorizers[0].type: Required value"},
		{authzConfig("v1", "- {type: Foo, name: x}"), `authorizers[0].type: Unsupported value: "Foo": supported values: "ABAC", "AlwaysAllow", "AlwaysDeny", "Node", "RBAC", "Webhook"`},
		{authzConfig("v1", plainEntry("RBAC"), plainEntry("RBAC")), `authorizers[1].type: Duplicate value: "RBAC"`},
		{authzConfig("v1", "- {type: RBAC}"), "authorizers[0].name: Required value"},
		{authzConfig("v1", "- {type: RBAC, name: RBAC}"), `authorizers[0].name: Invalid value: "RBAC": authorizer name is invalid: a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must start and end with an alphanumeric character`},
		{authzConfig("v1", plainEntry("RBAC"), hook("name: w", "name: rbac")), `authorizers[1].name: Duplicate value: "rbac"`},
		{authzConfig("v1", "- {type: Webhook, name: w}"), "authorizers[0].webhook: Required value: required when type=Webhook"},
		{authzConfig("v1", "- {type: RBAC, name: rbac, webhook: {}}"), `authorizers[0].webhook: Invalid value: "non-null": may only be specified when type=Webhook`},
		{authzConfig("v1", "- {type: RBAC, name: xx}"), "expected name rbac for authorizer RBAC instead of xx"},
		{authzConfig("v1", hook("timeout: 3s, ", "")), "authorizers[0].timeout: Required value"},
		{authzConfig("v1", hook("timeout: 3s", "timeout: 31s, authorizedTTL: -1s, unauthorizedTTL: -2s")), `[authorizers[0].timeout: Invalid value: "31s": must be > 0s and <= 30s, authorizers[0].authorizedTTL: Invalid value: "-1s": must be > 0s, authorizers[0].unauthorizedTTL: Invalid value: "-2s": must be > 0s]`},
		{authzConfig("v1", hook(", subjectAccessReviewVersion: v1", "", "failurePolicy: Deny, ", "")), "[authorizers[0].subjectAccessReviewVersion: Required value, authorizers[0].failurePolicy: Required value]"},
		{authzConfig("v1", hook("subjectAccessReviewVersion: v1", "subjectAccessReviewVersion: v2, matchConditionSubjectAccessReviewVersion: v1beta1", "failurePolicy: Deny", "failurePolicy: Ignore")),
			`[authorizers[0].subjectAccessReviewVersion: Unsupported value: "v2": supported values: "v1", "v1beta1", authorizers[0].matchConditionSubjectAccessReviewVersion: Unsupported value: "v1beta1": supported values: "v1", authorizers[0].failurePolicy: Unsupported value: "Ignore": supported values: "NoOpinion", "Deny"]`},
		{authzConfig("v1", hook("timeout: 3s", "timeout: 3s, matchConditions: [{expression: 'true'}]")), "authorizers[0].matchConditionSubjectAccessReviewVersion: Required value: required if match conditions are specified"},
		{authzConfig("v1", hook(info, "{}")), "authorizers[0].connectionInfo.type: Required value"},
		{authzConfig("v1", hook(info, "{type: KubeConfig, kubeConfigFile: rel}")), `authorizers[0].connectionInfo.type: Unsupported value: {"Type":"KubeConfig","KubeConfigFile":"rel"}: supported values: "InClusterConfig", "KubeConfigFile"`},
		{authzConfig("v1", hook(info, "{type: KubeConfigFile}")), "authorizers[0].connectionInfo.kubeConfigFile: Required value"},
		{authzConfig("v1", hook(info, "{type: KubeConfigFile, kubeConfigFile: rel}")), `authorizers[0].connectionInfo.kubeConfigFile: Invalid value: "rel": must be an absolute path`},
		{authzConfig("v1", hook(info, "{type: KubeConfigFile, kubeConfigFile: "+missing+"}")), fmt.Sprintf(`authorizers[0].connectionInfo.kubeConfigFile: Invalid value: %q: error loading file: stat %s: no such file or directory`, missing, missing)},
		{authzConfig("v1", hook(info, "{type: KubeConfigFile, kubeConfigFile: "+dir+"}")), fmt.Sprintf(`authorizers[0].connectionInfo.kubeConfigFile: Invalid value: %q: must be a regular file`, dir)},
		{authzConfig("v1", hook(info, "{type: InClusterConfig, kubeConfigFile: /x}")), `authorizers[0].connectionInfo.kubeConfigFile: Invalid value: "/x": can only be set when type=KubeConfigFile`},
		{authzConfig("v1", hook(info, "{type: InClusterConfig}")), `authorizers[0].connectionInfo.type: Invalid value: "InClusterConfig": this server is in no cluster; write type: KubeConfigFile, and the kubeConfigFile`},
		{authzConfig("v1", hook("timeout: 3s", "timeout: 3s, matchConditionSubjectAccessReviewVersion: v1, matchConditions: ["+strings.Repeat("{expression: 'true'},", 65)+"]")), "authorizers[0].matchConditions: Too many: 65: must have at most 64 items"},
		{authzConfig("v1", hook("timeout: 3s", "timeout: 3s, matchConditionSubjectAccessReviewVersion: v1, matchConditions: [{expression: ' '}, {expression: 'true'}, {expression: 'true'}]")), `[authorizers[0].matchConditions[0].expression: Required value, authorizers[0].matchConditions[2].expression: Duplicate value: "true"]`},
		{authzConfig("v1", expression("request.foo == 1")), "authorizers[0].matchConditions[0].expression: Invalid value: \"request.foo == 1\": compilation failed: ERROR: <input>:1:8: undefined field 'foo'\n | request.foo == 1\n | .......^"},
		{authzConfig("v1", expression("request.user")), `authorizers[0].matchConditions[0].expression: Invalid value: "request.user": must evaluate to bool but got string`},
		{authzConfig("v1", expression("dyn(true)")), `authorizers[0].matchConditions[0].expression: Invalid value: "dyn(true)": must evaluate to bool but got dyn`},
		{authzConfig("v1", expression("optional.of(true)")), `authorizers[0].matchConditions[0].expression: Invalid value: "optional.of(true)": must evaluate to bool but got optional_type(bool)`},
		{authzConfig("v1", expression("math.greatest(1, 2) == 2")), "…undeclared reference to 'math'"},
		{authzConfig("v1", expression("base64.encode(b'x') == ''")), "…undeclared reference to 'base64'"},
		{authzConfig("v1", expression("cel.bind(x, 1, x) == 1")), "…undeclared reference to 'cel'"},
		{authzConfig("v1", expression("request.user.reverse() == ''")), "…found no matching overload for 'reverse'"},
		{authzConfig("v1", expression("authorizer.path('/').check('get').allowed()")), "…undeclared reference to 'authorizer'"},
		{authzConfig("v1", expression("request.user.matches('(')")), "…invalid matches argument"},
		// What the validation cannot see is an error of the chain.
		{authzConfig("v1", hook(kube, bad)), `invalid authorization config: error loading config file "` + bad + `": `},
		{authzConfig("v1", hook(kube, empty)), "invalid authorization config: invalid configuration: no configuration has been provided, try setting KUBERNETES_MASTER environment variable"},
		{authzConfig("v1", plainEntry("ABAC")), "invalid authorization config: open : no such file or directory"},
	} {
		overwrite(t, file, row.text)
		got := fails(t, "--authorization-config", file)
		reason, inside := strings.CutPrefix(row.want, "…") // what comes before it is the expression, and where in it
		if inside && !strings.HasPrefix(got, "authorizers[0].matchConditions[0].expression: Invalid value: ") || !inside && !strings.HasPrefix(got, row.want) || !strings.Contains(got, reason) {
			t.Errorf("%s\n got %s\nwant %s", row.text, got, row.want)
		}
	}
}

// TestAuthzSamples loads the samples of KEP-3221: none of them is right, and what is said of them makes them so.
func TestAuthzSamples(t *testing.T) {
	t.Parallel()
	const sample = `apiVersion: apiserver.config.k8s.io/v1beta1
kind: AuthorizationConfiguration
authorizers:
  - type: Webhook
    name: system-crd-protector
    webhook:
      unauthorizedTTL: 30s
      timeout: 3s
      subjectAccessReviewVersion: v1
      matchConditionSubjectAccessReviewVersion: v1
      failurePolicy: Deny
      connectionInfo:
        type: KubeConfig
        kubeConfigFile: FILE
      matchConditions:
      # only send resource requests to the webhook
      - expression: has(request.resourceAttributes)
      # only intercept requests to kube-system
      - expression: request.resourceAttributes.namespace == 'kube-system'
      # don't intercept requests from kube-system service accounts
      - expression: !('system:serviceaccounts:kube-system' in request.user.groups)
  - type: Node
  - type: RBAC
  - type: Webhook
    name: in-cluster-authorizer
    webhook:
      authorizedTTL: 5m
      unauthorizedTTL: 30s
      timeout: 3s
      subjectAccessReviewVersion: v1
      failurePolicy: NoOpinion
      connectionInfo:
        type: KubeConfig
        kubeConfigFile: FILE
`
	h := newReviewer(t)
	h.on("/hook", rules(`{"allowed":true}`))
	dir := t.TempDir()
	file := filepath.Join(dir, "authz.yaml")
	text := strings.ReplaceAll(sample, "FILE", h.kubeconfig("/hook", ""))
	overwrite(t, file, text)
	said := fails(t, "--authorization-config", file)
	for _, want := range []string{
		`authorizers[0].connectionInfo.type: Unsupported value: {"Type":"KubeConfig","KubeConfigFile":"`,
		"authorizers[1].name: Required value",
		"line 13: authorizers[0].webhook.connectionInfo.type: write type: KubeConfigFile",
		`line 21: authorizers[0].webhook.matchConditions[2].expression: YAML takes what follows an exclamation mark for a tag; write it in quotes: "!('system:serviceaccounts:kube-system' in request.groups)"`,
		"line 22: authorizers[1]: write name: node",
		"line 23: authorizers[2]: write name: rbac",
		"line 33: authorizers[3].webhook.connectionInfo.type: write type: KubeConfigFile",
	} {
		if !strings.Contains(said, want) {
			t.Errorf("said\n%s\nwithout %s", said, want)
		}
	}
	fixed := strings.NewReplacer("type: KubeConfig\n", "type: KubeConfigFile\n", "- type: Node", "- {type: Node, name: node}", "- type: RBAC", "- {type: RBAC, name: rbac}",
		"!('system:serviceaccounts:kube-system' in request.user.groups)", `"!('system:serviceaccounts:kube-system' in request.groups)"`).Replace(text)
	g := startGuarded(t, fixed, []string{"ann", "robot/system:serviceaccounts:kube-system"})
	for user, want := range map[string]int{"ann": 2, "robot": 1} {
		before := len(h.questions("/hook"))
		if got := g.as(user, "GET", "/api/v1/namespaces/kube-system/secrets", ""); got.code != 200 || len(h.questions("/hook"))-before != 1 {
			t.Errorf("%s: got %d after %d questions (%d expected of the first webhook)", user, got.code, len(h.questions("/hook"))-before, want-1)
		}
	}
	if a := g.annotations(g.as("robot", "GET", "/api/v1/namespaces/kube-system/secrets", "")); a["authorization.k8s.io/webhook-skipped"] != "system-crd-protector" {
		t.Errorf("recorded as %q", a)
	}
}

// TestAuthzFlags starts servers with the older flags.
func TestAuthzFlags(t *testing.T) {
	t.Parallel()
	h := newReviewer(t)
	dir := t.TempDir()
	file, policies := filepath.Join(dir, "authz.yaml"), filepath.Join(dir, "policies")
	overwrite(t, file, authzConfig("v1", plainEntry("AlwaysAllow")))
	overwrite(t, policies, `{"apiVersion":"abac.authorization.kubernetes.io/v1beta1","kind":"Policy","spec":{"user":"ann","namespace":"*","resource":"*","apiGroup":"*"}}`+"\n")
	kube := h.kubeconfig("/hook", "")
	const conflict = "--authorization-config can not be specified when --authorization-mode or --authorization-webhook-* flags are defined"
	for _, row := range []struct{ args, want string }{
		{"--authorization-config " + file + " --authorization-mode RBAC", conflict},
		{"--authorization-config " + file + " --authorization-webhook-config-file " + kube, conflict},
		{"--authorization-config " + file + " --authorization-webhook-version v1", conflict},
		{"--authorization-config " + file + " --authorization-webhook-cache-authorized-ttl 1s", conflict},
		{"--authorization-config " + file + " --authorization-webhook-cache-unauthorized-ttl 1s", conflict},
		{"--authorization-config " + dir + "/none", "open " + dir + "/none: no such file or directory"},
		{"--authorization-mode X", `authorization-mode "X" is not a valid mode`},
		{"--authorization-mode ABAC", "authorization-mode ABAC's authorization policy file not passed"},
		{"--authorization-mode Webhook", "authorization-mode Webhook's authorization config file not passed"},
		{"--authorization-policy-file p", "cannot specify --authorization-policy-file without mode ABAC"},
		{"--authorization-webhook-config-file k", "cannot specify --authorization-webhook-config-file without mode Webhook"},
		{"--authorization-mode RBAC,RBAC", `authorization-mode ["RBAC" "RBAC"] has mode specified more than once`},
		{"--authorization-mode Webhook --authorization-webhook-version v2 --authorization-webhook-config-file " + kube, `invalid authorization config: unsupported webhook authorizer version "v2", supported versions are "v1", "v1beta1"`},
		{"--authorization-mode ABAC --authorization-policy-file " + file, "invalid authorization config: error reading policy file " + file + ", line 1: apiVersion: apiserver.config.k8s.io/v1: "},
	} {
		if got := fails(t, strings.Fields(row.args)...); !strings.HasPrefix(got, row.want) {
			t.Errorf("%s:\n got %s\nwant %s", row.args, got, row.want)
		}
	}
	// The policy file is beside a configuration, too.
	overwrite(t, file, authzConfig("v1", plainEntry("ABAC")))
	g := startGuarded(t, "", []string{"ann", "bob"}, "--authorization-config", file, "--authorization-policy-file", policies)
	if ann, bob := g.as("ann", "GET", configMaps, ""), g.as("bob", "GET", configMaps, ""); ann.code != 200 || bob.code != 403 || !strings.Contains(bob.body, ": abac: No policy matched.") {
		t.Errorf("ABAC: got %d, %d %s", ann.code, bob.code, bob.body)
	}
	if code, body, err := g.try("GET", "/readyz/poststarthook/rbac/bootstrap-roles", nil); err != nil || code != 404 {
		t.Errorf("bootstrap roles without RBAC: got %d %s, %v", code, body, err)
	}
	g.stop(9)
	// Where everybody may do everything, everybody says who he is.
	g = startGuarded(t, "", []string{"ann"}, "--authorization-mode", "AlwaysAllow")
	if ann, nobody := g.as("ann", "GET", "/metrics", ""), g.as("", "GET", "/healthz", ""); ann.code != 200 || nobody.code != 401 || !strings.Contains(g.log.String(), "AnonymousAuth is not allowed with the AlwaysAllow authorizer.") {
		t.Errorf("AlwaysAllow: got %d, %d %s", ann.code, nobody.code, nobody.body)
	}
	g.stop(9)
	// The webhook of the flags is one with the name default, asked in the older version, whose failure is no opinion.
	h.on("/hook", inTurn(rules(`{"allowed":true}`), rules(`{"reason":"no"}`), says(404, "")))
	g = startGuarded(t, "", []string{"ann"}, "--authorization-mode", "AlwaysDeny,Webhook", "--authorization-webhook-config-file", kube, "--authorization-webhook-cache-unauthorized-ttl", "0s")
	for i, want := range []int{200, 200, 403, 500} {
		path := configMaps
		if i > 1 {
			path = "/api/v1/secrets"
		}
		if got := g.as("ann", "GET", path, ""); got.code != want {
			t.Errorf("request %d: got %d %s, want %d", i, got.code, got.body, want)
		}
	}
	q := h.questions("/hook")
	if len(q) != 3 || q[0].url != "POST /hook?timeout=30s" || !strings.Contains(q[0].body, `"apiVersion":"authorization.k8s.io/v1beta1"`) {
		t.Errorf("got %d questions, the first %+v", len(q), q[0])
	}
	samples := g.samples()
	for _, name := range []string{decision("allowed", "default", "Webhook"), `apiserver_authorization_webhook_evaluations_fail_open_total{name="default",result="error"}`} {
		if samples[name] == 0 {
			t.Errorf("metrics have no %s", name)
		}
	}
	for name := range samples {
		if strings.HasPrefix(name, reloadMetric) {
			t.Errorf("metrics have %s without a configuration that could be read again", name)
		}
	}
}
