package plugins

import (
	"fmt"
	"strings"
	"testing"
)

// TestAdmissionPlugins holds that each plugin of kube-apiserver is available or refused with an
// error, and that all errors are reported together.
// Ledger: admission-plugins.
func TestAdmissionPlugins(t *testing.T) {
	for _, row := range []struct{ enable, disable, want string }{
		{"AlwaysAdmit,NamespaceExists,OwnerReferencesPermissionEnforcement", "", ""},
		{"NamespaceLifecycle,MutatingAdmissionPolicy,MutatingAdmissionWebhook,ValidatingAdmissionPolicy,ValidatingAdmissionWebhook", "", ""},
		{"", "ServiceAccount,PodGroupProtection,ResourceQuota,AlwaysDeny,NamespaceLifecycle", ""},
		{"NodeRestriction", "", ""},
		{"ImagePolicyWebhook", "", `enable-admission-plugins plugin "ImagePolicyWebhook": this server has no such step; it has NamespaceLifecycle, `},
		{"", "ImagePolicyWebhook", ""},
		{"SecurityContextDeny", "", `plugin "SecurityContextDeny" is unknown`},
		{"alwaysdeny", "", `enable-admission-plugins plugin "alwaysdeny" is unknown`},
		{"A,B", "C", `[enable-admission-plugins plugin "A" is unknown, enable-admission-plugins plugin "B" is unknown, disable-admission-plugins plugin "C" is unknown]`},
		{"NamespaceLifecycle,AlwaysAdmit", "NamespaceLifecycle,AlwaysAdmit",
			`[AlwaysAdmit NamespaceLifecycle] in enable-admission-plugins and disable-admission-plugins overlapped`},
	} {
		split := func(s string) []string { return strings.FieldsFunc(s, func(r rune) bool { return r == ',' }) }
		_, err := Choose(split(row.enable), split(row.disable), false)
		if got := fmt.Sprint(err); (row.want == "") != (err == nil) || !strings.Contains(got, row.want) {
			t.Errorf("enable %q, disable %q: got %v, want %q", row.enable, row.disable, err, row.want)
		}
	}
}
