package config

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"
)

// This file loads configurations, most of them wrong.

func tempFile(t *testing.T, name, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// head returns the beginning of a configuration of a version.
func head(version string) string {
	return "apiVersion: apiserver.config.k8s.io/" + version + "\nkind: AuthorizationConfiguration\nauthorizers:\n"
}

// hook returns a webhook's entry with lines changed: "field: value" replaces the
// field, "-field" takes it out.
func hook(file string, changes ...string) string {
	lines := []string{"timeout: 3s", "subjectAccessReviewVersion: v1", "matchConditionSubjectAccessReviewVersion: v1", "failurePolicy: Deny",
		"connectionInfo: {type: KubeConfigFile, kubeConfigFile: " + file + "}"}
	for _, c := range changes {
		name, _, _ := strings.Cut(strings.TrimPrefix(c, "-"), ":")
		for i, l := range lines {
			if strings.HasPrefix(l, name+":") {
				lines = append(lines[:i], lines[i+1:]...)
				break
			}
		}
		if !strings.HasPrefix(c, "-") {
			lines = append(lines, c)
		}
	}
	return "- type: Webhook\n  name: w\n  webhook:\n    " + strings.Join(lines, "\n    ") + "\n"
}

func TestVersionsAndDefaults(t *testing.T) {
	file := tempFile(t, "k", "")
	for _, v := range []string{"v1", "v1beta1", "v1alpha1"} {
		c, err := Load([]byte(head(v) + hook(file) + "- {type: RBAC, name: rbac}\n---\nnot: read"))
		if err != nil {
			t.Fatal(err)
		}
		w := c.Authorizers[0].Webhook
		if w.CacheAuthorized() != 5*time.Minute || w.CacheUnauthorized() != 30*time.Second || w.Timeout.Duration != 3*time.Second || c.Authorizers[1].Type != RBAC || w.Conditions() != nil {
			t.Errorf("%s: got %+v", v, c)
		}
	}
	c, err := Load([]byte(head("v1") + hook(file, "authorizedTTL: 1s", "cacheAuthorizedRequests: false", "unauthorizedTTL: 0s", "matchConditions: [{expression: 'true'}]")))
	if err != nil {
		t.Fatal(err)
	}
	if w := c.Authorizers[0].Webhook; w.CacheAuthorized() != 0 || w.CacheUnauthorized() != 30*time.Second || w.Conditions() == nil {
		t.Errorf("got %+v", w)
	}
	if files := c.KubeConfigFiles(); !reflect.DeepEqual(files, []string{file}) {
		t.Errorf("kubeconfigs: got %q", files)
	}
	if _, err := Load([]byte(`{"apiVersion":"apiserver.config.k8s.io/v1","kind":"AuthorizationConfiguration","authorizers":[{"type":"RBAC","name":"rbac"}]}`)); err != nil {
		t.Errorf("JSON: got %v", err)
	}
}

func TestLoadErrors(t *testing.T) {
	const failed = "failed to load AuthorizationConfiguration from file: "
	for text, want := range map[string]string{
		"":          "authorizers: Required value: at least one authorization mode must be defined",
		head("v1"):  "authorizers: Required value: at least one authorization mode must be defined",
		"# nothing": failed + "Object 'Kind' is missing in '# nothing'",
		"a: b":      failed + "Object 'Kind' is missing in 'a: b'",
		head("v2"):  failed + `no kind "AuthorizationConfiguration" is registered for version "apiserver.config.k8s.io/v2" in scheme`,
		"apiVersion: apiserver.config.k8s.io/v1\nkind: AuthenticationConfiguration\n": failed + "expected AuthorizationConfiguration, got *apiserver.AuthenticationConfiguration",
		"apiVersion: apiserver.k8s.io/v1alpha1\nkind: AuthorizationConfiguration\n":   failed + `no kind "AuthorizationConfiguration" is registered for version "apiserver.k8s.io/v1alpha1"`,
		head("v1") + "- {type: RBAC, name: rbac, foo: 1}":                             failed + `strict decoding error: unknown field "authorizers[0].foo"`,
		head("v1") + "- {type: RBAC, Name: rbac}":                                     failed + `strict decoding error: unknown field "authorizers[0].Name"`,
		head("v1") + "- type: RBAC\n  name: rbac\n  name: rbac":                       failed + "strict decoding error: yaml: unmarshal errors:\n  line 6: key \"name\" already set in map",
		head("v1") + hook("/", "timeout: 3"):                                          failed,
		head("v1") + "- {type: RBAC, name: y}":                                        failed,
		"\x00":                                                                        failed,
		"{":                                                                           failed,
	} {
		_, err := Load([]byte(text))
		if err == nil || !strings.HasPrefix(err.Error(), want) {
			t.Errorf("%q:\n got %v\nwant %s", text, err, want)
		}
	}
}

// Ledger: in-cluster-config.
func TestValidation(t *testing.T) {
	file, dir := tempFile(t, "k", ""), t.TempDir()
	missing := filepath.Join(dir, "no")
	info := func(s string) string { return "connectionInfo: {" + s + "}" }
	const subdomain = `a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must start and end with an alphanumeric character (e.g. 'example.com', regex used for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')`
	for _, row := range []struct{ entries, want string }{
		{"- {name: x}", "authorizers[0].type: Required value"},
		{"- {type: Foo, name: x}", `authorizers[0].type: Unsupported value: "Foo": supported values: "ABAC", "AlwaysAllow", "AlwaysDeny", "Node", "RBAC", "Webhook"`},
		{"- {type: RBAC, name: rbac}\n- {type: RBAC, name: rbac}", `authorizers[1].type: Duplicate value: "RBAC"`},
		{"- {type: RBAC}", "authorizers[0].name: Required value"},
		{"- {type: RBAC, name: rbac}\n" + strings.Replace(hook(file), "name: w", "name: rbac", 1), `authorizers[1].name: Duplicate value: "rbac"`},
		{strings.Replace(hook(file), "name: w", "name: Web_Hook", 1), `authorizers[0].name: Invalid value: "Web_Hook": authorizer name is invalid: ` + subdomain},
		{"- {type: Webhook, name: w}", "authorizers[0].webhook: Required value: required when type=Webhook"},
		{"- {type: RBAC, name: rbac, webhook: {}}", `authorizers[0].webhook: Invalid value: "non-null": may only be specified when type=Webhook`},
		{hook(file, "-timeout"), "authorizers[0].timeout: Required value"},
		{hook(file, "timeout: 31s"), `authorizers[0].timeout: Invalid value: "31s": must be > 0s and <= 30s`},
		{hook(file, "timeout: -1s"), `authorizers[0].timeout: Invalid value: "-1s": must be > 0s and <= 30s`},
		{hook(file, "authorizedTTL: -1s", "unauthorizedTTL: -2s"), `[authorizers[0].authorizedTTL: Invalid value: "-1s": must be > 0s, authorizers[0].unauthorizedTTL: Invalid value: "-2s": must be > 0s]`},
		{hook(file, "-subjectAccessReviewVersion"), "authorizers[0].subjectAccessReviewVersion: Required value"},
		{hook(file, "subjectAccessReviewVersion: v2"), `authorizers[0].subjectAccessReviewVersion: Unsupported value: "v2": supported values: "v1", "v1beta1"`},
		{hook(file, "-matchConditionSubjectAccessReviewVersion", "matchConditions: [{expression: 'true'}]"), "authorizers[0].matchConditionSubjectAccessReviewVersion: Required value: required if match conditions are specified"},
		{hook(file, "matchConditionSubjectAccessReviewVersion: v1beta1"), `authorizers[0].matchConditionSubjectAccessReviewVersion: Unsupported value: "v1beta1": supported values: "v1"`},
		{hook(file, "-failurePolicy"), "authorizers[0].failurePolicy: Required value"},
		{hook(file, "failurePolicy: Ignore"), `authorizers[0].failurePolicy: Unsupported value: "Ignore": supported values: "NoOpinion", "Deny"`},
		{hook(file, "-connectionInfo"), "authorizers[0].connectionInfo.type: Required value"},
		{hook(file, info("type: KubeConfig, kubeConfigFile: rel")), `authorizers[0].connectionInfo.type: Unsupported value: {"Type":"KubeConfig","KubeConfigFile":"rel"}: supported values: "InClusterConfig", "KubeConfigFile"`},
		{hook(file, info("type: KubeConfigFile")), "authorizers[0].connectionInfo.kubeConfigFile: Required value"},
		{hook(file, info("type: KubeConfigFile, kubeConfigFile: rel")), `authorizers[0].connectionInfo.kubeConfigFile: Invalid value: "rel": must be an absolute path`},
		{hook(file, info("type: KubeConfigFile, kubeConfigFile: "+missing)), fmt.Sprintf(`authorizers[0].connectionInfo.kubeConfigFile: Invalid value: %q: error loading file: stat %s: no such file or directory`, missing, missing)},
		{hook(file, info("type: KubeConfigFile, kubeConfigFile: "+dir)), fmt.Sprintf(`authorizers[0].connectionInfo.kubeConfigFile: Invalid value: %q: must be a regular file`, dir)},
		{hook(file, info("type: InClusterConfig, kubeConfigFile: /x")), `authorizers[0].connectionInfo.kubeConfigFile: Invalid value: "/x": can only be set when type=KubeConfigFile`},
		{hook(file, info("type: InClusterConfig")), `authorizers[0].connectionInfo.type: Invalid value: "InClusterConfig": this server is in no cluster; write type: KubeConfigFile, and the kubeConfigFile`},
		{hook(file, "matchConditions: ["+strings.TrimSuffix(strings.Repeat("{expression: 'true'},", 65), ",")+"]"), "authorizers[0].matchConditions: Too many: 65: must have at most 64 items"},
		{hook(file, "matchConditions: [{expression: ' '}, {expression: 'true'}, {expression: 'true'}, {expression: request.user}]"),
			`[authorizers[0].matchConditions[0].expression: Required value, authorizers[0].matchConditions[2].expression: Duplicate value: "true", authorizers[0].matchConditions[3].expression: Invalid value: "request.user": must evaluate to bool but got string]`},
		{"- {type: RBAC, name: xx}", "expected name rbac for authorizer RBAC instead of xx"},
	} {
		_, err := Load([]byte(head("v1") + row.entries))
		var e *Error
		if !errors.As(err, &e) || e.Err.Error() != row.want {
			t.Errorf("%s\n got %v\nwant %s", row.entries, err, row.want)
		}
	}
	if _, err := Load([]byte(head("v1")+"- {type: AlwaysAllow, name: alwaysallow}"), RBAC, Node); err == nil || err.Error() != "missing required types: [Node RBAC]" {
		t.Errorf("missing types: got %v", err)
	}
}

// The samples of KEP-3221 do not load, and the errors say what to write. What
// they say, written so, loads.
// Ledger: config-hints.
func TestSamplesOfTheProposal(t *testing.T) {
	const sample = `apiVersion: apiserver.config.k8s.io/v1alpha1
kind: AuthorizationConfiguration
authorizers:
  - type: Webhook
    webhook:
      name: system-crd-protector
      unauthorizedTTL: 30s
      timeout: 3s
      subjectAccessReviewVersion: v1
      failurePolicy: Deny
      connectionInfo:
        type: KubeConfig
        kubeConfigFile: FILE
      matchConditions:
      - expression: has(request.resourceAttributes)
      - expression: request.resourceAttributes.namespace == 'kube-system'
      - expression: !('system:serviceaccounts:kube-system' in request.user.groups)
      - expression: request.user.groups.size() > 0
  - type: Node
  - type: RBAC
  - type: Webhook
    webhook:
      timeout: 3s
      subjectAccessReviewVersion: v1
      failurePolicy: NoOpinion
      connectionInfo:
        type: KubeConfig
        kubeConfigFile: FILE
`
	text := strings.ReplaceAll(sample, "FILE", tempFile(t, "k", ""))
	_, err := Load([]byte(text))
	var e *Error
	if !errors.As(err, &e) {
		t.Fatalf("got %v", err)
	}
	want := []string{
		"line 4: authorizers[0]: the name is the authorizer's, not the webhook's: write name: system-crd-protector beside type",
		"line 12: authorizers[0].webhook.connectionInfo.type: write type: KubeConfigFile",
		"line 15: authorizers[0].webhook: write matchConditionSubjectAccessReviewVersion: v1",
		"line 17: authorizers[0].webhook.matchConditions[2].expression: YAML takes what follows an exclamation mark for a tag; write it in quotes: \"!('system:serviceaccounts:kube-system' in request.groups)\"",
		"line 18: authorizers[0].webhook.matchConditions[3].expression: request.user is a name; write request.groups: \"request.groups.size() > 0\"",
		"line 19: authorizers[1]: write name: node",
		"line 20: authorizers[2]: write name: rbac",
		"line 21: authorizers[3]: every authorizer has a name, which metrics and logs show: write for example name: webhook-3",
		"line 27: authorizers[3].webhook.connectionInfo.type: write type: KubeConfigFile",
	}
	if !reflect.DeepEqual(e.Hints, want) {
		t.Errorf("got\n%s\nwant\n%s", strings.Join(e.Hints, "\n"), strings.Join(want, "\n"))
	}
	fixed := strings.NewReplacer(
		"  - type: Webhook\n    webhook:\n      name: system-crd-protector\n", "  - type: Webhook\n    name: system-crd-protector\n    webhook:\n      matchConditionSubjectAccessReviewVersion: v1\n",
		"type: KubeConfig\n", "type: KubeConfigFile\n",
		"- type: Node", "- type: Node\n    name: node", "- type: RBAC", "- type: RBAC\n    name: rbac",
		"  - type: Webhook\n    webhook:\n      timeout", "  - type: Webhook\n    name: webhook-3\n    webhook:\n      timeout",
		"!('system:serviceaccounts:kube-system' in request.user.groups)", "\"!('system:serviceaccounts:kube-system' in request.groups)\"",
		"request.user.groups.size() > 0", "request.groups.size() > 0",
	).Replace(text)
	if _, err := Load([]byte(fixed)); err != nil {
		t.Errorf("written as told: got %v", err)
	}
}

func TestFlags(t *testing.T) {
	file := tempFile(t, "c", head("v1")+"- {type: AlwaysAllow, name: alwaysallow}")
	for _, row := range []struct {
		flags Flags
		want  string // error, or the names of authorizers
	}{
		{Flags{}, "rbac"},
		{Flags{Modes: []string{Node, RBAC, AlwaysDeny}}, "node,rbac,alwaysdeny"},
		{Flags{File: file}, "alwaysallow"},
		{Flags{File: file, PolicyFile: "p"}, "alwaysallow"},
		{Flags{Modes: []string{Webhook}, WebhookConfigFile: "k"}, "default"},
		{Flags{File: file, LegacySet: true}, "--authorization-config can not be specified when --authorization-mode or --authorization-webhook-* flags are defined"},
		{Flags{File: "/no/such"}, "open /no/such: no such file or directory"},
		{Flags{Modes: []string{"X"}}, `authorization-mode "X" is not a valid mode`},
		{Flags{Modes: []string{ABAC}}, "authorization-mode ABAC's authorization policy file not passed"},
		{Flags{Modes: []string{Webhook}}, "authorization-mode Webhook's authorization config file not passed"},
		{Flags{PolicyFile: "p", WebhookConfigFile: "k"}, "[cannot specify --authorization-policy-file without mode ABAC, cannot specify --authorization-webhook-config-file without mode Webhook]"},
		{Flags{Modes: []string{RBAC, RBAC}}, `authorization-mode ["RBAC" "RBAC"] has mode specified more than once`},
	} {
		c, _, err := row.flags.Load()
		got := ""
		if err != nil {
			got = err.Error()
		} else {
			var names []string
			for _, a := range c.Authorizers {
				names = append(names, a.Name)
			}
			got = strings.Join(names, ",")
		}
		if got != row.want {
			t.Errorf("%+v: got %s, want %s", row.flags, got, row.want)
		}
	}
	c, _, err := (&Flags{Modes: []string{Webhook}, WebhookConfigFile: "k", WebhookUnauthorized: time.Second}).Load()
	if err != nil {
		t.Fatal(err)
	}
	if w := c.Authorizers[0].Webhook; w.CacheAuthorized() != 0 || w.CacheUnauthorized() != time.Second || w.SubjectAccessReviewVersion != "v1beta1" || w.FailurePolicy != FailNoOpinion || w.Timeout.Duration != 30*time.Second {
		t.Errorf("webhook of the flags: got %+v", w)
	}
}

func FuzzLoad(f *testing.F) {
	f.Add([]byte(head("v1") + hook("/etc/hosts", "matchConditions: [{expression: \"!('a' in request.user.groups)\"}]")))
	f.Add([]byte(head("v1") + "- type: Node\n- &a {type: !x Webhook, webhook: *a}"))
	f.Fuzz(func(t *testing.T, text []byte) {
		c, err := Load(text)
		if err == nil && len(c.Authorizers) == 0 {
			t.Error("a configuration without authorizers is valid")
		}
		if err != nil && err.Error() == "" {
			t.Error("an error without a text")
		}
	})
}

// TestLoadElsewhere accepts what only the machine of another server has.
func TestLoadElsewhere(t *testing.T) {
	const head = "apiVersion: apiserver.config.k8s.io/v1\nkind: AuthorizationConfiguration\nauthorizers:\n- type: Webhook\n  name: hook\n" +
		"  webhook: {timeout: 1s, subjectAccessReviewVersion: v1, matchConditionSubjectAccessReviewVersion: v1, authorizedTTL: 1s, unauthorizedTTL: 1s, failurePolicy: Deny, connectionInfo: "
	for info, want := range map[string]string{
		"{type: KubeConfigFile, kubeConfigFile: /etc/kubernetes/is-not-here}}": "",
		"{type: InClusterConfig}}":                          "",
		"{type: KubeConfigFile, kubeConfigFile: relative}}": "must be an absolute path",
	} {
		_, err := LoadElsewhere([]byte(head + info))
		if (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("%s: got %v, want %q", info, err, want)
		}
		if _, err := Load([]byte(head + info)); err == nil {
			t.Errorf("%s: Load accepts it", info)
		}
	}
}
