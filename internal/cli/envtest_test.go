package cli

import (
	"bytes"
	"crypto/tls"
	"crypto/x509"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/keelson-io/keelson/server"
)

// envtestFlags are what envtest starts kube-apiserver with, and what its users add.
const envtestFlags = `--allow-privileged=true --authorization-mode=RBAC --bind-address=127.0.0.1 --cert-dir=DIR --client-ca-file=DIR/client-cert-auth-ca.crt
	--disable-admission-plugins=ServiceAccount --etcd-servers=http://127.0.0.1:1 --secure-port=1 --service-account-issuer=https://127.0.0.1:1/
	--service-account-key-file=DIR/sa-signer.crt --service-account-signing-key-file=DIR/sa-signer.key --service-cluster-ip-range=10.0.0.0/24
	--feature-gates=WatchList=true --feature-gates=AllAlpha=false,kube:JobManagedBy=true --runtime-config=api/all=true --enable-admission-plugins=NamespaceLifecycle --disable-admission-plugins=PodSecurity
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

// TestUnsupportedValuesAreRefused holds that kube-apiserver does not start with a setting that it would ignore.
func TestUnsupportedValuesAreRefused(t *testing.T) {
	for name, reason := range unsupported {
		dir := t.TempDir()
		var out, errs bytes.Buffer
		code := Main([]string{"/assets/kube-apiserver", "--data-dir", dir, "--cert-dir", dir, "--etcd-servers=http://127.0.0.1:1", "--" + name + "=x"}, strings.NewReader(""), &out, &errs)
		if want := "--" + name + `: got "x", which is not supported: ` + reason; code != 2 || !strings.Contains(errs.String(), want) {
			t.Errorf("got %d %s, want %q", code, errs.String(), want)
		}
	}
	f := newKubeAPIServerCommand().Flags()
	for _, version := range []string{"", "1.37", "kube=1.37"} {
		if err := f.Set("emulated-version", version); err != nil {
			t.Fatal(err)
		}
		if err := checkUnsupported(f); err != nil {
			t.Errorf("--emulated-version=%s: %v", version, err)
		}
	}
}

// TestCertDir holds that kube-apiserver's certificate and key are created in --cert-dir, and that clients can verify it with that file.
func TestCertDir(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "certs")
	cert, key := filepath.Join(dir, "apiserver.crt"), filepath.Join(dir, "apiserver.key")
	if err := writeSelfSigned(&server.Config{BindAddress: "0.0.0.0", AdvertiseAddress: "192.0.2.1", ServiceClusterIPRange: "10.9.0.0/24"}, cert, key); err != nil {
		t.Fatal(err)
	}
	pair, err := tls.LoadX509KeyPair(cert, key)
	if err != nil {
		t.Fatal(err)
	}
	roots := x509.NewCertPool()
	text, err := os.ReadFile(cert)
	if err != nil || !roots.AppendCertsFromPEM(text) {
		t.Fatalf("%s: got %v and %q, want certificates", cert, err, text)
	}
	for _, name := range []string{"localhost", "127.0.0.1", "192.0.2.1", "10.9.0.1", "kubernetes", "kubernetes.default.svc"} {
		if _, err := pair.Leaf.Verify(x509.VerifyOptions{DNSName: name, Roots: roots}); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
	if info, err := os.Stat(key); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("key: got %v and %v, want a file that others cannot read", info, err)
	}
	var out, errs bytes.Buffer
	blocked := filepath.Join(cert, "below-a-file")
	if code := Main([]string{"kube-apiserver", "--cert-dir", blocked}, strings.NewReader(""), &out, &errs); code == 0 || !strings.Contains(errs.String(), "--cert-dir: ") {
		t.Errorf("a folder that cannot be made: got %d %s", code, errs.String())
	}
}
