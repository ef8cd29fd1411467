package plugins

import (
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// TestPluginConfigs holds that a configuration that would have no effect is an error.
// Ledger: admission-configuration.
func TestPluginConfigs(t *testing.T) {
	const head = "apiVersion: apiserver.config.k8s.io/v1\nkind: AdmissionConfiguration\nplugins:\n"
	for _, row := range []struct{ text, enable, want string }{
		{head + "- {name: Nonesuch}", "", "plugins[0] Nonesuch: this plugin is unknown"},
		{head + "- {name: ImagePolicyWebhook}", "", "this server has no plugin ImagePolicyWebhook"},
		{"imagePolicy: {}", "", "this server has no plugin ImagePolicyWebhook"},
		{"podNodeSelectorPluginConfig: {clusterDefaultNodeSelector: a=b}", "PodNodeSelector", ""},
		{head + "- {name: Priority, configuration: {a: b}}", "", "plugins[0] Priority: this server takes no configuration for the plugin"},
		{head + "- {name: PodSecurity, path: missing.yaml}", "", "no such file"},
		{head + "- {name: PodSecurity}\n- {name: PodSecurity}", "", `plugin "PodSecurity" is configured twice`},
		{head + "- {name: PodSecurity, configuration: {apiVersion: pod-security.admission.config.k8s.io/v1, kind: PodSecurityConfiguration, defaults: {warn: x}}}", "",
			`defaults.warn: Invalid value: "x": must be one of privileged, baseline, restricted`},
		{head + "- {name: PodSecurity, configuration: {apiVersion: pod-security.admission.config.k8s.io/v1, kind: PodSecurityConfiguration, default: {}}}", "", `unknown field "default"`},
		{head + "- {name: ResourceQuota, configuration: {apiVersion: apiserver.config.k8s.io/v1, kind: ResourceQuotaConfiguration, limitedResources: [{apiGroup: a}]}}", "",
			"limitedResources[0].resource: Required value"},
		{head + "- {name: MutatingAdmissionWebhook, configuration: {apiVersion: apiserver.config.k8s.io/v1, kind: WebhookAdmissionConfiguration, kubeConfigFile: x}}", "",
			`kubeConfigFile: Invalid value: "x": must be an absolute file path`},
		{head, "EventRateLimit", "limits: Invalid value: null: must not be empty"},
		{"", "", "Object 'Kind' is missing"},
	} {
		file := filepath.Join(t.TempDir(), "f.yaml")
		if err := os.WriteFile(file, []byte(row.text), 0o600); err != nil {
			t.Fatal(err)
		}
		on, err := Choose(slices.DeleteFunc([]string{row.enable}, func(s string) bool { return s == "" }), nil, false)
		if err != nil {
			t.Fatal(err)
		}
		_, err = Load(file, on, slog.New(slog.DiscardHandler))
		if got := fmt.Sprint(err); (row.want == "") != (err == nil) || !strings.Contains(got, row.want) {
			t.Errorf("%s: got %v, want %q", row.text, err, row.want)
		}
	}
}
