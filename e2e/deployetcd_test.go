package e2e

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	"sigs.k8s.io/yaml"

	"github.com/keelson-io/keelson/internal/testcerts"
	"github.com/keelson-io/keelson/internal/testpeers"
)

// This file runs what deploy/kubernetes-etcd.yaml runs: its replicas, with its flags, before an etcd cluster.

const etcdManifest = "../deploy/kubernetes-etcd.yaml"

// TestDeployReplicas holds that the replicas of the manifest serve the same objects, with the Secrets that it names.
func TestDeployReplicas(t *testing.T) {
	t.Parallel()
	etcd := startMembers(t, 3)
	secrets := t.TempDir()
	pki := writeSecrets(t, secrets, etcd)
	args := replicaArgs(t, secrets, etcd)
	replicas := []*server{newServer(t, args...), newServer(t, args...)}
	for _, s := range replicas {
		s.http = &http.Client{Transport: &http.Transport{TLSClientConfig: pki.Admin}}
		s.start()
	}
	a, b := replicas[0], replicas[1]
	a.do(t, 201, "POST", "/apis/apiextensions.k8s.io/v1/customresourcedefinitions", toJSON(t, gadgetCRD))
	eventually(t, "gadgets served", func() bool {
		code, _, err := b.try("GET", gadgetList, nil)
		return err == nil && code == 200
	})
	var token struct{ Status struct{ Token string } }
	a.do(t, 201, "POST", "/api/v1/namespaces/default/serviceaccounts", []byte(`{"metadata":{"name":"robot"}}`))
	body := a.do(t, 201, "POST", "/api/v1/namespaces/default/serviceaccounts/robot/token", []byte(`{"spec":{"expirationSeconds":600}}`))
	if err := json.Unmarshal(body, &token); err != nil || token.Status.Token == "" {
		t.Fatalf("got %s (%v), want a token", body, err)
	}
	review := fmt.Appendf(nil, `{"apiVersion": "authentication.k8s.io/v1", "kind": "TokenReview", "spec": {"token": %q}}`, token.Status.Token)
	if body := b.do(t, 201, "POST", "/apis/authentication.k8s.io/v1/tokenreviews", review); !bytes.Contains(body, []byte(`"authenticated":true`)) {
		t.Errorf("a token of one replica at another: got %s, want authenticated", body)
	}
}

// replicaArgs returns the flags of the container in the manifest, with the files of secrets and the etcd cluster of the test. newServer
// sets the data directory.
func replicaArgs(t *testing.T, secrets string, etcd *members) []string {
	t.Helper()
	text, err := os.ReadFile(etcdManifest)
	if err != nil {
		t.Fatal(err)
	}
	var d appsv1.Deployment
	for part := range bytes.SplitSeq(text, []byte("\n---\n")) {
		if bytes.Contains(part, []byte("kind: Deployment")) {
			if err := yaml.UnmarshalStrict(part, &d); err != nil {
				t.Fatal(err)
			}
		}
	}
	if len(d.Spec.Template.Spec.Containers) != 1 {
		t.Fatalf("%s: got no Deployment with one container", etcdManifest)
	}
	args := d.Spec.Template.Spec.Containers[0].Args
	if len(args) == 0 || args[0] != "serve" {
		t.Fatalf("%s: got arguments %q, want serve first", etcdManifest, args)
	}
	args = slices.DeleteFunc(slices.Clone(args[1:]), func(arg string) bool { return strings.HasPrefix(arg, "--data-dir=") })
	for i, arg := range args {
		arg = strings.ReplaceAll(arg, "/etc/keelson/", secrets+"/")
		arg = strings.ReplaceAll(arg, "0.0.0.0", "127.0.0.1")
		if strings.HasPrefix(arg, "--etcd-servers=") {
			arg = "--etcd-servers=" + etcd.args()[1]
		}
		args[i] = arg
	}
	return args
}

// writeSecrets writes the files of the Secrets that the manifest's header names.
func writeSecrets(t *testing.T, dir string, etcd *members) *testpeers.PKI {
	t.Helper()
	var failed error
	for _, name := range []string{"etcd", "serving", "clients", "service-accounts"} {
		failed = errors.Join(failed, os.Mkdir(filepath.Join(dir, name), 0o700))
	}
	pki, err := testpeers.NewPKI(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	for from, to := range map[string]string{
		pki.Cert: "serving/tls.crt", pki.Key: "serving/tls.key", pki.CA: "clients/ca.crt",
	} {
		failed = errors.Join(failed, copyTo(from, filepath.Join(dir, to)))
	}
	for from, to := range map[string]string{"ca.crt": etcd.tls.CertFile, "tls.crt": etcd.tls.CertFile, "tls.key": etcd.tls.KeyFile} {
		failed = errors.Join(failed, copyTo(to, filepath.Join(dir, "etcd", from)))
	}
	failed = errors.Join(failed, os.WriteFile(filepath.Join(dir, "service-accounts/sa.key"), testcerts.SigningKey(t), 0o600))
	if failed != nil {
		t.Fatal(failed)
	}
	return pki
}

// copyTo copies a file.
func copyTo(from, to string) error {
	text, err := os.ReadFile(from)
	if err != nil {
		return err
	}
	return os.WriteFile(to, text, 0o600)
}
