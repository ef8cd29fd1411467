// This file is upstream's side: the child processes for etcd and for the apiextensions server.

package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"time"

	"go.etcd.io/etcd/client/pkg/v3/transport"
	"go.etcd.io/etcd/server/v3/embed"
	"k8s.io/apiextensions-apiserver/pkg/cmd/server"

	"github.com/keelson-io/keelson/internal/testpeers"
	"github.com/keelson-io/keelson/internal/testports"
)

// runEtcd serves one member until it is told to stop, over TLS if it is given certificates.
func runEtcd(ctx context.Context, args []string) error {
	fs := flag.NewFlagSet("etcd", flag.ExitOnError)
	dir := fs.String("data-dir", "", "")
	port := fs.Int("port", 0, "client port")
	peer := fs.Int("peer-port", 0, "")
	var secure transport.TLSInfo
	fs.StringVar(&secure.TrustedCAFile, "ca", "", "who signs clients' certificates")
	fs.StringVar(&secure.CertFile, "cert", "", "")
	fs.StringVar(&secure.KeyFile, "key", "", "")
	if err := fs.Parse(args); err != nil {
		return err
	}
	e, err := testpeers.StartEtcd(*dir, *port, *peer, func(c *embed.Config) {
		if secure.CertFile == "" {
			return
		}
		secure.ClientCertAuth = true
		c.ClientTLSInfo = secure
		for i := range c.ListenClientUrls {
			c.ListenClientUrls[i].Scheme = "https"
		}
		c.AdvertiseClientUrls = c.ListenClientUrls
	})
	if err != nil {
		return err
	}
	defer e.Close()
	select {
	case <-ctx.Done():
		return nil
	case err := <-e.Err():
		return err
	}
}

// runUpstream serves upstream's apiextensions server as its own command would, until it is told to stop. What needs the
// core Kubernetes API server beside it is turned off, which takes work off it: admission plugins, priority and fairness,
// delegated authentication and authorization. Client certificates of system:masters are let through as in production.
func runUpstream(ctx context.Context, args []string) error {
	cmd := server.NewServerCommand(ctx, io.Discard, os.Stderr)
	cmd.SilenceUsage = true
	cmd.SetArgs(args)
	err := cmd.ExecuteContext(ctx)
	if errors.Is(err, context.Canceled) {
		return nil
	}
	return err
}

// startUpstream starts etcd and then the server, each in a folder below dir.
func startUpstream(ctx context.Context, dir string) (*target, error) {
	began := time.Now()
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	ports, err := testports.Free(3)
	if err != nil {
		return nil, err
	}
	pki, err := testpeers.NewPKI(dir)
	if err != nil {
		return nil, err
	}
	t := &target{
		name: "upstream", addr: fmt.Sprintf("127.0.0.1:%d", ports[2]), tls: pki.Admin,
		wait: "/readyz?exclude=informer-sync", // the informer of Services never syncs without a core API server
	}
	if err := t.spawn(ctx, dir, "etcd", self, "etcd", "-data-dir", dir+"/etcd",
		"-port", fmt.Sprint(ports[0]), "-peer-port", fmt.Sprint(ports[1])); err != nil {
		return nil, err
	}
	client := testpeers.EtcdURL(ports[0])
	etcd := client.String()
	if err := waitHTTP(ctx, t, etcd+"/health"); err != nil {
		t.stop()
		return nil, fmt.Errorf("etcd: %w", err)
	}
	fake, err := testpeers.Nowhere(dir)
	if err != nil {
		return nil, err
	}
	t.aside = time.Since(began)
	err = t.spawn(ctx, dir, "server", self, "upstream",
		"--etcd-servers", etcd, "--etcd-prefix", "/registry",
		"--bind-address", "127.0.0.1", "--secure-port", fmt.Sprint(ports[2]),
		"--tls-cert-file", pki.Cert, "--tls-private-key-file", pki.Key, "--client-ca-file", pki.CA,
		"--authentication-skip-lookup", "--authentication-kubeconfig", fake, "--authorization-kubeconfig", fake, "--kubeconfig", fake,
		"--enable-priority-and-fairness=false",
		"--disable-admission-plugins", "NamespaceLifecycle,MutatingAdmissionWebhook,ValidatingAdmissionWebhook,ValidatingAdmissionPolicy,MutatingAdmissionPolicy")
	if err != nil {
		t.stop()
		return nil, err
	}
	if err := t.waitReady(ctx); err != nil {
		t.stop()
		return nil, err
	}
	t.ready = time.Since(began)
	return t, nil
}
