package cli

import (
	"bytes"
	"regexp"
	"strings"
	"testing"
)

// envtestFlags are what envtest starts kube-apiserver with, and what its users add.
const envtestFlags = `--allow-privileged=true --authorization-mode=RBAC --bind-address=127.0.0.1 --cert-dir=DIR --client-ca-file=DIR/client-cert-auth-ca.crt
	--disable-admission-plugins=ServiceAccount --etcd-servers=http://127.0.0.1:1 --secure-port=1 --service-account-issuer=https://127.0.0.1:1/
	--service-account-key-file=DIR/sa-signer.crt --service-account-signing-key-file=DIR/sa-signer.key --service-cluster-ip-range=10.0.0.0/24
	--feature-gates=A=true --feature-gates=B=false --runtime-config=api/all=true --enable-admission-plugins=NamespaceLifecycle --disable-admission-plugins=PodSecurity
	--audit-policy-file=x --audit-log-path=- --audit-log-version=audit.k8s.io/v1 --admission-control-config-file=x --watch-cache --watch-cache=false
	--max-requests-inflight=1 --v=4 --token-auth-file=x --oidc-issuer-url=https://x --egress-selector-config-file=x`

// TestEnvtestPrograms holds that the programs print their flags in the form that envtest parses,
// and accept the flags that it passes.
func TestEnvtestPrograms(t *testing.T) {
	help := func(args ...string) string {
		t.Helper()
		var out, errs bytes.Buffer
		if code := Main(append(args, "--help"), strings.NewReader(""), &out, &errs); code != 0 {
			t.Errorf("%q: got %d %s", args, code, errs.String())
		}
		return out.String() + errs.String()
	}
	for _, row := range []struct {
		program, flag string
		has           bool
	}{
		{"kube-apiserver", "insecure-port", false},
		{"kube-apiserver", "cert-dir", true},
		{"etcd", "unsafe-no-fsync", true},
		{"etcd", "listen-client-urls", true},
	} {
		if has := regexp.MustCompile(`(?m)^\s*--` + row.flag + `\b`).MatchString(help("/assets/" + row.program)); has != row.has {
			t.Errorf("%s --help shows --%s: got %t", row.program, row.flag, has)
		}
	}
	help(append([]string{"/assets/kube-apiserver"}, strings.Fields(envtestFlags)...)...)
	help("/assets/etcd", "--listen-peer-urls=http://127.0.0.1:1", "--data-dir=x", "--advertise-client-urls=http://127.0.0.1:2", "--listen-client-urls=http://127.0.0.1:2", "--unsafe-no-fsync=true")
	for _, row := range []struct{ program, flag, want string }{
		{"kube-apiserver", "--nothing-of-the-kind=1", "unknown flag"},
		{"etcd", "--initial-cluster=x", "unknown flag"},
	} {
		var out, errs bytes.Buffer
		if code := Main([]string{row.program, row.flag, "--help"}, strings.NewReader(""), &out, &errs); code == 0 || !strings.Contains(errs.String(), row.want) {
			t.Errorf("%s %s: got %d %s%s", row.program, row.flag, code, out.String(), errs.String())
		}
	}
}
