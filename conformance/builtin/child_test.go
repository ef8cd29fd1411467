package builtin

import (
	"fmt"
	"net/url"
	"os"
	"path/filepath"

	"go.etcd.io/etcd/server/v3/embed"
	_ "k8s.io/component-base/logs/json/register"
	"k8s.io/kubernetes/cmd/kube-apiserver/app"
)

// This file is the child process: kube-apiserver and its etcd.

// child serves kube-apiserver until it is killed.
func child(dir string) error {
	ports, err := freePorts(3)
	if err != nil {
		return err
	}
	etcd := url.URL{Scheme: "http", Host: fmt.Sprintf("127.0.0.1:%d", ports[0])}
	peers := url.URL{Scheme: "http", Host: fmt.Sprintf("127.0.0.1:%d", ports[1])}
	cfg := embed.NewConfig()
	cfg.Dir = filepath.Join(dir, "etcd")
	cfg.ListenClientUrls, cfg.AdvertiseClientUrls = []url.URL{etcd}, []url.URL{etcd}
	cfg.ListenPeerUrls, cfg.AdvertisePeerUrls = []url.URL{peers}, []url.URL{peers}
	cfg.InitialCluster = cfg.InitialClusterFromName(cfg.Name)
	cfg.TickMs, cfg.ElectionMs = 10, 100
	cfg.UnsafeNoFsync = true
	cfg.LogLevel = "error"
	e, err := embed.StartEtcd(cfg)
	if err != nil {
		return err
	}
	defer e.Close()
	<-e.Server.ReadyNotify()
	file := func(name string) string { return filepath.Join(dir, name) }
	if err := os.WriteFile(file("address"), fmt.Appendf(nil, "127.0.0.1:%d", ports[2]), 0o600); err != nil {
		return err
	}
	cmd := app.NewAPIServerCommand()
	cmd.SilenceUsage = true
	cmd.SetArgs([]string{
		"--etcd-servers", etcd.String(), "--bind-address", "127.0.0.1", "--secure-port", fmt.Sprint(ports[2]), "--cert-dir", file("certs"),
		"--service-account-issuer", "https://kubernetes.default.svc.cluster.local",
		"--service-account-key-file", file("sa.key"), "--service-account-signing-key-file", file("sa.key"),
		"--token-auth-file", file("tokens.csv"), "--authorization-mode", "RBAC", "--service-cluster-ip-range", serviceRange,
		"--advertise-address", advertised, "--disable-admission-plugins", withoutPlugins, "--enable-priority-and-fairness=false",
	})
	return cmd.Execute()
}
