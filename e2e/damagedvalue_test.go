package e2e

import (
	"bytes"
	"fmt"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

// TestDamagedValue flips one bit within a stored value. Reads of the object report it, everything
// else works, and the object can be deleted.
// Ledger: checksums.
func TestDamagedValue(t *testing.T) {
	t.Parallel()
	s := startServer(t)
	for i := range 10 {
		s.do(t, 201, "POST", configMapList, fmt.Appendf(nil, `{"metadata":{"name":"c%d"},"data":{"a":"unmistakable-%d"}}`, i, i))
	}
	s.stop(syscall.SIGTERM)
	change(t, filepath.Join(s.dir, "etcd", "member", "snap", "db"), func(b []byte) []byte {
		return flipAt(t, b, "unmistakable-5", 0) // still a character: the object would be another one
	})
	s.start()
	if log := s.log.String(); !strings.Contains(log, "a stored value is damaged") || !strings.Contains(log, "key=/registry/configmaps/default/c5") {
		t.Errorf("got log\n%s\nwant the key of the damaged value", tail(log, 2000))
	}
	const why = `the stored bytes of key \"configmaps/default/c5\" are damaged, their checksum is wrong: restore a snapshot, or delete the object with the option ignoreStoreReadErrorWithClusterBreakingPotential`
	for range 2 {
		for _, path := range []string{"/c5", "/c5?resourceVersion=0"} {
			if got := s.do(t, 500, "GET", configMapList+path, nil); !strings.Contains(string(got), why) {
				t.Errorf("%s: got %s, want %q", path, got, why)
			}
		}
		if got := s.do(t, 500, "GET", configMapList, nil); !strings.Contains(string(got), why) {
			t.Errorf("list: got %s, want %q", got, why)
		}
		if got := s.do(t, 500, "GET", "/snapshot", nil); !strings.Contains(string(got), "registry/configmaps/default/c5") {
			t.Errorf("snapshot: got %s, want the key", got)
		}
		for i := range 10 {
			if i != 5 {
				s.do(t, 200, "GET", fmt.Sprintf("%s/c%d", configMapList, i), nil)
			}
		}
		s.do(t, 200, "PATCH", configMapList+"/c6", []byte(`{"data":{"b":"c"}}`), "Content-Type", "application/merge-patch+json")
		s.do(t, 200, "GET", "/readyz", nil)
		s.stop(syscall.SIGKILL)
		s.start()
	}
	s.do(t, 500, "DELETE", configMapList+"/c5", nil)
	s.do(t, 200, "DELETE", configMapList+"/c5?ignoreStoreReadErrorWithClusterBreakingPotential=true", nil)
	s.do(t, 404, "GET", configMapList+"/c5", nil)
	s.do(t, 200, "GET", configMapList, nil)
	putConfigMap(t, s, "c5", 10)
}

// flipAt flips a bit of the byte at i in every copy of text within the database b. There may be
// several: the database writes a changed page to another place and leaves the old one as it was.
func flipAt(t *testing.T, b []byte, text string, i int) []byte {
	t.Helper()
	if !bytes.Contains(b, []byte(text)) {
		t.Fatalf("%q is not in the database", text)
	}
	flipped := []byte(text)
	flipped[i] ^= 1
	return bytes.ReplaceAll(b, []byte(text), flipped)
}

// TestDamagedRole flips one bit within a stored default role. The server starts without it, and
// creates it anew once it has been deleted.
func TestDamagedRole(t *testing.T) {
	t.Parallel()
	s := startServer(t)
	s.stop(syscall.SIGTERM)
	change(t, filepath.Join(s.dir, "etcd", "member", "snap", "db"), func(b []byte) []byte {
		const role = `{"kind":"ClusterRole","apiVersion":"rbac.authorization.k8s.io/v1","metadata":{"name":"system:node-proxier"`
		return flipAt(t, b, role, len(role)-2)
	})
	s.start()
	const roles = "/apis/rbac.authorization.k8s.io/v1/clusterroles"
	for _, path := range []string{roles, roles + "/system:node-proxier"} {
		if got := s.do(t, 500, "GET", path, nil); !strings.Contains(string(got), `the stored bytes of key \"clusterroles/system:node-proxier\" are damaged`) {
			t.Errorf("%s: got %s", path, got)
		}
	}
	s.do(t, 200, "DELETE", roles+"/system:node-proxier?ignoreStoreReadErrorWithClusterBreakingPotential=true", nil)
	eventually(t, "the role is there again", func() bool {
		code, body, err := s.try("GET", roles+"/system:node-proxier", nil)
		return err == nil && code == 200 && strings.Contains(string(body), `"endpointslices"`)
	})
	s.do(t, 200, "GET", roles, nil)
}
