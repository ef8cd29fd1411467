package e2e

import (
	"bytes"
	"fmt"
	"strings"
	"sync"
	"testing"
)

// TestMemoryLimit fills a server that may take 200 MiB, with large bodies from many clients meanwhile. It refuses politely, never takes
// more, and goes on when objects are deleted.
// Ledger: memory-limit.
func TestMemoryLimit(t *testing.T) {
	t.Parallel()
	s := startServer(t, "--memory-limit=200Mi")
	const list = "/api/v1/namespaces/default/configmaps"
	configMap := func(name string, size int) []byte {
		return fmt.Appendf(nil, `{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":%q},"data":{"a":%q}}`, name, strings.Repeat("x", size))
	}
	// Bodies that become many values, and are never stored.
	large := []byte(`{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"large"},"l":[` + strings.Repeat("1,", 1_400_000) + `1]}`)
	stop := make(chan struct{})
	var clients sync.WaitGroup
	for range 3 {
		clients.Go(func() {
			for {
				select {
				case <-stop:
					return
				default:
				}
				if code, answer, err := s.try("POST", list+"?dryRun=All&fieldValidation=Ignore", large); err == nil && code != 201 && code != 429 {
					t.Errorf("a large body: got %d, want 201 or 429: %.300s", code, answer)
					return
				}
			}
		})
	}
	stored := 0
	var refusal []byte
	for try := 0; refusal == nil && try < 300; try++ {
		code, answer, err := s.try("POST", list, configMap(fmt.Sprint("m", stored), 200_000))
		switch {
		case err != nil:
			t.Fatal(err)
		case code == 500:
			refusal = answer
		case code == 201:
			stored++
		case code != 429:
			t.Fatalf("object %d: got %d: %.300s", stored, code, answer)
		}
	}
	if !bytes.Contains(refusal, []byte("etcdserver: mvcc: database space exceeded: what is stored takes ")) || stored < 100 {
		t.Errorf("after %d objects: got %.300s, want a refusal", stored, refusal)
	}
	// Reads, deletes and updates that store no more go on; so do creates after the deletes.
	s.do(t, 200, "GET", list+"/m1", nil)
	s.do(t, 200, "PUT", list+"/m1", configMap("m1", 1000))
	for i := range 10 {
		s.do(t, 200, "DELETE", fmt.Sprint(list, "/m", i), nil)
	}
	eventually(t, "a create after deletes", func() bool {
		code, _, err := s.try("POST", list, configMap("again", 1000))
		return err == nil && (code == 201 || code == 409)
	})
	close(stop)
	clients.Wait()
	if most := s.peakMemory(t); most > 200<<20 {
		t.Errorf("the server took %d MiB, want at most 200", most>>20)
	}
	metrics := string(s.do(t, 200, "GET", "/metrics", nil))
	for _, want := range []string{"keelson_memory_limit_bytes 2.097152e+08", `keelson_memory_used_bytes{part="stored"}`, `keelson_memory_refusals_total{reason="stored"}`} {
		if !strings.Contains(metrics, want) {
			t.Errorf("the metrics lack %s", want)
		}
	}
}
