package envtest

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	upstream "sigs.k8s.io/controller-runtime/pkg/envtest"
)

// This file starts the API server with the flags that users of envtest add, and looks at what runs in it without and with controllers.

// startWith starts an environment whose API server has more flags.
func startWith(t *testing.T, flags map[string][]string) *rest.Config {
	t.Helper()
	env := &upstream.Environment{BinaryAssetsDirectory: assets, ControlPlaneStartTimeout: time.Minute, ControlPlaneStopTimeout: time.Minute}
	for name, values := range flags {
		env.ControlPlane.GetAPIServer().Configure().Append(name, values...)
	}
	config, err := env.Start()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := env.Stop(); err != nil {
			t.Error(err)
		}
	})
	return config
}

// TestFlags holds that the API server starts with each flag that users add, that those about what there is have their effect, and that
// controllers run if a flag says so and not else.
func TestFlags(t *testing.T) {
	ctx := context.Background()
	dir := t.TempDir()
	write := func(name, text string) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	log := filepath.Join(dir, "audit.log")
	configs := map[string]*rest.Config{"without": startWith(t, nil), "with": startWith(t, map[string][]string{
		"feature-gates":                 {"WatchList=true", "AllAlpha=false"},
		"runtime-config":                {"api/all=true"},
		"enable-admission-plugins":      {"NamespaceLifecycle"},
		"disable-admission-plugins":     {"PodSecurity", "LimitRanger"},
		"admission-control-config-file": {write("admission.yaml", "apiVersion: apiserver.config.k8s.io/v1\nkind: AdmissionConfiguration\nplugins: []\n")},
		"audit-policy-file":             {write("policy.yaml", "apiVersion: audit.k8s.io/v1\nkind: Policy\nrules: [{level: Metadata}]\n")},
		"audit-log-path":                {log},
		"token-auth-file":               {write("tokens.csv", `secret,joe,1,"system:masters"`+"\n")},
		"oidc-issuer-url":               {"https://127.0.0.1:1/"},
		"oidc-client-id":                {"test"},
		"watch-cache":                   {"false"},
		"max-requests-inflight":         {"100"},
		"event-ttl":                     {"2h"},
		"v":                             {"4"},
		"controllers":                   {"*"},
	})}
	clients := map[string]*kubernetes.Clientset{}
	for name, config := range configs {
		c, err := kubernetes.NewForConfig(config)
		if err != nil {
			t.Fatal(err)
		}
		clients[name] = c
		if _, err := c.CoreV1().Namespaces().Create(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "team"}}, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
		if err := c.CoreV1().Namespaces().Delete(ctx, "team", metav1.DeleteOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	with, without := clients["with"].CoreV1(), clients["without"].CoreV1()
	until(t, "the namespace is gone", func() bool {
		_, err := with.Namespaces().Get(ctx, "team", metav1.GetOptions{})
		return apierrors.IsNotFound(err)
	})
	until(t, "the namespace has a service account", func() bool {
		_, err := with.ServiceAccounts("default").Get(ctx, "default", metav1.GetOptions{})
		return err == nil
	})
	if ns, err := without.Namespaces().Get(ctx, "team", metav1.GetOptions{}); err != nil || ns.Status.Phase != corev1.NamespaceTerminating {
		t.Errorf("without controllers: got %+v, %v, want a namespace that stays", ns, err)
	}
	if _, err := without.ServiceAccounts("default").Get(ctx, "default", metav1.GetOptions{}); !apierrors.IsNotFound(err) {
		t.Errorf("without controllers: got error %v, want no service account", err)
	}
	joe := rest.AnonymousClientConfig(configs["with"])
	joe.BearerToken = "secret"
	c, err := kubernetes.NewForConfig(joe)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := c.CoreV1().Secrets("").List(ctx, metav1.ListOptions{}); err != nil {
		t.Errorf("with the token: %v", err)
	}
	until(t, "the audit log tells of joe", func() bool {
		text, err := os.ReadFile(log)
		return err == nil && strings.Contains(string(text), `"username":"joe"`)
	})
}
