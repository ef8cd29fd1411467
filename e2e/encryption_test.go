package e2e

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
)

// encryptionConfig writes an EncryptionConfiguration for Secrets and custom resources; keys are name=byte.
func encryptionConfig(t *testing.T, file string, keys ...string) {
	t.Helper()
	var list []string
	for _, k := range keys {
		name, fill, _ := strings.Cut(k, "=")
		list = append(list, fmt.Sprintf("{name: %s, secret: %s}", name, base64.StdEncoding.EncodeToString(bytes.Repeat([]byte(fill), 32))))
	}
	provider := "{identity: {}}"
	if len(keys) > 0 {
		provider = "{aesgcm: {keys: [" + strings.Join(list, ", ") + "]}}, " + provider
	}
	overwrite(t, file, "apiVersion: apiserver.config.k8s.io/v1\nkind: EncryptionConfiguration\nresources:\n- resources: [secrets, '*.example.com']\n  providers: ["+provider+"]\n")
}

// stored reports whether a text is in a file of the server's store.
func (s *server) stored(t *testing.T, text string) (found bool) {
	t.Helper()
	err := filepath.WalkDir(filepath.Join(s.dir, "etcd"), func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		b, err := os.ReadFile(path)
		found = found || bytes.Contains(b, []byte(text))
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return found
}

// TestEncryptionAtRest encrypts Secrets, changes the key while the server runs, and takes the key away.
func TestEncryptionAtRest(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "encryption.yaml")
	encryptionConfig(t, file, "one=1")
	s := newServer(t, "--encryption-provider-config", file, "--encryption-provider-config-automatic-reload")
	s.start()
	const secrets = "/api/v1/namespaces/default/secrets"
	secret := func(name, text string) []byte {
		return fmt.Appendf(nil, `{"apiVersion":"v1","kind":"Secret","metadata":{"name":%q},"stringData":{"gold":%q}}`, name, text)
	}
	read := func(path string, into any) {
		t.Helper()
		if err := json.Unmarshal(s.do(t, 200, "GET", path, nil), into); err != nil {
			t.Fatal(err)
		}
	}
	value := base64.StdEncoding.EncodeToString([]byte("the-golden-words"))
	s.do(t, 201, "POST", secrets, secret("a", "the-golden-words"))
	s.do(t, 201, "POST", "/api/v1/namespaces/default/configmaps", []byte(`{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"m"},"data":{"a":"the-plain-words"}}`))
	if s.stored(t, value) || !s.stored(t, "k8s:enc:aesgcm:v1:one:") || !s.stored(t, "the-plain-words") {
		t.Error("the Secret is not stored encrypted, or the ConfigMap is")
	}

	for _, prefix := range []string{"k8s:enc:aesgcm:v1:", "one:"} {
		s.eventually(t, fmt.Sprintf(`apiserver_storage_transformation_operations_total{resource="secrets",status="OK",transformation_type="to_storage",transformer_prefix=%q}`, prefix), " ")
		s.eventually(t, fmt.Sprintf(`apiserver_storage_transformation_duration_seconds_count{transformation_type="from_storage",transformer_prefix=%q}`, prefix), " ")
	}

	backup := filepath.Join(t.TempDir(), "backup.db")
	keelson(t, "snapshot", "save", "--kubeconfig", s.kubeconfig(), backup)
	inventory := keelson(t, "snapshot", "status", backup)
	for _, want := range []string{`(?m)^secrets +1 +aesgcm one$`, `(?m)^configmaps +\d+ +-$`} {
		if !regexp.MustCompile(want).MatchString(inventory) {
			t.Errorf("snapshot status: got\n%s\nwant a line that matches %s", inventory, want)
		}
	}

	// Another key while the server runs: an object is written with it even if nothing else changes.
	encryptionConfig(t, file, "two=2", "one=1")
	s.eventually(t, `apiserver_encryption_config_controller_automatic_reloads_total{`, `status="success"} 1`)
	var before struct {
		Metadata struct{ ResourceVersion string }
	}
	read(secrets+"/a", &before)
	s.do(t, 200, "PUT", secrets+"/a", s.do(t, 200, "GET", secrets+"/a", nil))
	var after struct {
		Metadata struct{ ResourceVersion string }
		Data     map[string]string
	}
	read(secrets+"/a", &after)
	if after.Data["gold"] != value || after.Metadata.ResourceVersion == before.Metadata.ResourceVersion || !s.stored(t, "k8s:enc:aesgcm:v1:two:") {
		t.Errorf("written again: got %+v, before at %s", after, before.Metadata.ResourceVersion)
	}
	s.do(t, 200, "PUT", secrets+"/a", s.do(t, 200, "GET", secrets+"/a", nil))
	read(secrets+"/a", &before)
	if before.Metadata.ResourceVersion != after.Metadata.ResourceVersion {
		t.Error("an object that is encrypted with the newest key is written again")
	}

	// A file that is wrong changes nothing.
	overwrite(t, file, "nonsense")
	s.eventually(t, `apiserver_encryption_config_controller_automatic_reloads_total{`, `status="failure"} 1`)
	s.do(t, 201, "POST", secrets, secret("b", "x"))

	// Without the key: the object cannot be read, and can be deleted; others can be read.
	s.stop(syscall.SIGTERM)
	encryptionConfig(t, file, "three=3")
	s.start()
	s.do(t, 500, "GET", secrets+"/a", nil)
	s.eventually(t, `apiserver_storage_transformation_operations_total{resource="secrets",status="unknown-non-grpc",transformation_type="from_storage",transformer_prefix="unknown"}`, " ")
	s.do(t, 200, "GET", "/api/v1/namespaces/default/configmaps/m", nil)
	s.do(t, 200, "DELETE", secrets+"/a", []byte(`{"apiVersion":"v1","kind":"DeleteOptions","ignoreStoreReadErrorWithClusterBreakingPotential":true}`))
	s.do(t, 404, "GET", secrets+"/a", nil)
	s.do(t, 201, "POST", secrets, secret("a", "new"))

	// Without any encryption, and with the key back.
	s.stop(syscall.SIGTERM)
	encryptionConfig(t, file, "two=2")
	s.start()
	s.do(t, 200, "GET", secrets+"/b", nil)
	s.do(t, 500, "GET", secrets+"/a", nil)

	// The other key comes back while the server runs.
	encryptionConfig(t, file, "two=2", "three=3")
	eventually(t, "the Secret can be read again", func() bool {
		code, body, err := s.try("GET", secrets+"/a", nil)
		return err == nil && code == 200 && strings.Contains(string(body), base64.StdEncoding.EncodeToString([]byte("new")))
	})
	s.do(t, 200, "GET", secrets, nil)
}

// eventually waits until a line of the metrics has both texts in it.
func (s *server) eventually(t *testing.T, name, value string) {
	t.Helper()
	eventually(t, fmt.Sprintf("a line of the metrics begins with %s and has %s in it", name, value), func() bool {
		for line := range strings.Lines(string(s.do(t, 200, "GET", "/metrics", nil))) {
			if strings.HasPrefix(line, name) && strings.Contains(line, value) {
				return true
			}
		}
		return false
	})
}
