package builtin

import (
	"fmt"
	"os"
	"path/filepath"

	_ "k8s.io/component-base/logs/json/register"
	"k8s.io/kubernetes/cmd/kube-apiserver/app"

	"github.com/keelson-io/keelson/internal/testpeers"
	"github.com/keelson-io/keelson/internal/testports"
)

// This file is the child process: kube-apiserver and its etcd.

// child serves kube-apiserver until it is killed.
func child(dir string) error {
	ports, err := testports.Free(3)
	if err != nil {
		return err
	}
	e, err := testpeers.StartEtcd(filepath.Join(dir, "etcd"), ports[0], ports[1], testpeers.NoSync)
	if err != nil {
		return err
	}
	defer e.Close()
	if err := testpeers.Announce(dir, ports[2]); err != nil {
		return err
	}
	etcd, file := testpeers.EtcdURL(ports[0]), func(name string) string { return filepath.Join(dir, name) }
	cmd := app.NewAPIServerCommand()
	cmd.SilenceUsage = true
	flags := []string{
		"--etcd-servers", etcd.String(), "--bind-address", "127.0.0.1", "--secure-port", fmt.Sprint(ports[2]), "--cert-dir", file("certs"),
		"--service-account-issuer", "https://kubernetes.default.svc.cluster.local",
		"--service-account-key-file", file("sa.key"), "--service-account-signing-key-file", file("sa.key"),
		"--token-auth-file", file("tokens.csv"), "--service-cluster-ip-range", serviceRange,
		"--advertise-address", advertised, "--enable-priority-and-fairness=false", "--allow-privileged",
	}
	if _, err := os.Stat(file(authorizationFile)); err == nil { // of TestAccess
		flags = append(flags, "--authorization-mode", "Webhook", "--authorization-webhook-config-file", file(authorizationFile), "--authorization-webhook-version", "v1",
			"--authorization-webhook-cache-authorized-ttl", "0s", "--authorization-webhook-cache-unauthorized-ttl", "0s",
			"--audit-policy-file", file(auditPolicyFile), "--audit-log-path", file(auditLogFile))
	} else {
		flags = append(flags, "--authorization-mode", "RBAC")
	}
	if names, err := os.ReadFile(file(disabledPluginsFile)); err == nil { // of TestRepositories
		flags = append(flags, "--disable-admission-plugins", string(names))
	}
	cmd.SetArgs(flags)
	return cmd.Execute()
}
