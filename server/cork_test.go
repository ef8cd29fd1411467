package server

import (
	"bufio"
	"bytes"
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/keelson-io/keelson/internal/store/mem"
)

// This file tests what leaves of a watch, and how.

// writes is a connection that remembers each write.
type writes struct {
	net.Conn
	got []string
	err error
}

func (w *writes) Write(b []byte) (int, error) {
	if w.err != nil {
		return 0, w.err
	}
	w.got = append(w.got, string(b))
	return len(b), nil
}

func TestCork(t *testing.T) {
	below := &writes{}
	c := &corkConn{Conn: below}
	write := func(text string) {
		t.Helper()
		if n, err := c.Write([]byte(text)); n != len(text) || err != nil {
			t.Fatalf("write: got %d, %v", n, err)
		}
	}
	uncork := func() {
		t.Helper()
		if err := c.Uncork(); err != nil {
			t.Fatal(err)
		}
	}
	write("a")
	c.Cork()
	uncork() // nothing to do
	c.Cork()
	for _, part := range []string{"b", "c", "d"} {
		write(part)
	}
	if got := strings.Join(below.got, "|"); got != "a" {
		t.Errorf("corked: got %q", got)
	}
	uncork()
	write("e")
	if got := strings.Join(below.got, "|"); got != "a|bcd|e" {
		t.Errorf("got %q, want a|bcd|e", got)
	}

	// It does not hold back more than there is room for.
	below.got = nil
	c.Cork()
	large := strings.Repeat("x", maxHeld-1)
	write(large)
	if len(below.got) != 0 {
		t.Errorf("got %d writes before there was too much", len(below.got))
	}
	write("yz")
	if len(below.got) != 1 || below.got[0] != large {
		t.Errorf("got %d writes when there was too much", len(below.got))
	}
	write("rest")
	uncork()
	if len(below.got) != 2 || below.got[1] != "yzrest" {
		t.Errorf("got %d writes at the end", len(below.got))
	}

	// What is too long to be held back leaves after what was held.
	below.got = nil
	c.Cork()
	write("first")
	write(large + large)
	if len(below.got) != 2 || below.got[0] != "first" || below.got[1] != large+large {
		t.Errorf("got %d writes of what is too long", len(below.got))
	}
	uncork()

	// Whoever uncorks learns that it did not leave.
	below.err = errors.New("gone")
	c.Cork()
	write("lost")
	if err := c.Uncork(); err != below.err {
		t.Errorf("uncork: got %v, want %v", err, below.err)
	}
	if err := c.Uncork(); err != nil {
		t.Errorf("nothing is left, got %v", err)
	}
}

// TestWatchersOfAllSorts runs watchers with different encodings over both protocols, beside some
// that never read. Each gets all of its events, once and in order.
func TestWatchersOfAllSorts(t *testing.T) {
	s := start(t, Config{Store: mem.New(mem.Options{})})
	for _, name := range []string{"one", "two"} {
		s.send(t, http.MethodPost, "/api/v1/namespaces", fmt.Sprintf(`{"apiVersion":"v1","kind":"Namespace","metadata":{"name":%q}}`, name))
	}
	const objects, changes = 4, 25 // per object and namespace
	one, two := "/api/v1/namespaces/one/configmaps", "/api/v1/namespaces/two/configmaps"
	from := s.version(t, one)
	config, err := clientcmd.RESTConfigFromKubeConfig(s.Kubeconfig())
	if err != nil {
		t.Fatal(err)
	}
	plain, err := rest.TLSConfigFor(config)
	if err != nil {
		t.Fatal(err)
	}
	plain.NextProtos = []string{"http/1.1"}
	const all = objects * (changes + 1)
	var sorts sync.WaitGroup
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	for _, proto := range []struct {
		name   string
		client *http.Client
	}{{"HTTP/2.0", s.client}, {"HTTP/1.1", &http.Client{Transport: &http.Transport{TLSClientConfig: plain}}}} {
		for _, w := range []struct {
			path, accept, query string
			want                int
		}{
			{one, "application/json", "", all},
			{two, "application/json", "", all},
			{"/api/v1/configmaps", "application/json", "", 2 * all},
			{one, "application/json;as=Table;v=v1;g=meta.k8s.io", "", all},
			{one, "application/json;as=PartialObjectMetadata;v=v1;g=meta.k8s.io", "", all},
			{one, "application/json", "&labelSelector=n%3D1", changes + 1},
			{one, "application/json", "&fieldSelector=metadata.name%3Dm-2", changes + 1},
		} {
			req, err := http.NewRequestWithContext(ctx, http.MethodGet, "https://"+s.Addr()+w.path+"?watch=true&resourceVersion="+from+w.query, nil)
			if err != nil {
				t.Fatal(err)
			}
			req.Header.Set("Accept", w.accept)
			resp, err := proto.client.Do(req)
			if err != nil {
				t.Fatal(err)
			}
			defer resp.Body.Close()
			if resp.Proto != proto.name {
				t.Fatalf("got %s, want %s", resp.Proto, proto.name)
			}
			sorts.Go(func() {
				if err := readEvents(resp.Body, w.path, w.want); err != nil {
					t.Errorf("%s %s %s%s: %v", proto.name, w.accept, w.path, w.query, err)
				}
			})
		}
	}
	for range 3 { // they never read
		c, err := tls.Dial("tcp", s.Addr(), plain)
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		fmt.Fprintf(c, "GET %s?watch=true&resourceVersion=%s HTTP/1.1\r\nHost: %s\r\n\r\n", one, from, s.Addr())
	}
	var writers sync.WaitGroup
	filler := strings.Repeat("x", 64<<10)
	for n := range objects {
		for _, path := range []string{one, two} {
			writers.Go(func() {
				s.send(t, http.MethodPost, path, fmt.Sprintf(`{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"m-%d","labels":{"n":"%d"}}}`, n, n))
				for i := range changes {
					s.send(t, http.MethodPatch, fmt.Sprintf("%s/m-%d", path, n), fmt.Sprintf(`{"data":{"i":"%d","x":%q}}`, i, filler))
				}
			})
		}
	}
	writers.Wait()
	sorts.Wait()
}

// readEvents reads so many events, which must have ever newer resource versions, and be of a
// namespace if the path has one.
func readEvents(r io.Reader, path string, want int) error {
	lines := bufio.NewReaderSize(r, 1<<20)
	last := 0
	for n := range want {
		line, err := lines.ReadBytes('\n')
		if err != nil {
			return fmt.Errorf("after %d of %d events: %w", n, want, err)
		}
		var e struct {
			Type   string
			Object struct {
				Metadata struct{ Namespace, ResourceVersion string }
				Rows     []struct {
					Object struct {
						Metadata struct{ Namespace, ResourceVersion string }
					}
				}
			}
		}
		if err := json.Unmarshal(line, &e); err != nil {
			return fmt.Errorf("%w: %.200s", err, line)
		}
		m := e.Object.Metadata
		if len(e.Object.Rows) > 0 {
			m = e.Object.Rows[0].Object.Metadata
		}
		rev, err := strconv.Atoi(m.ResourceVersion)
		if err != nil || rev <= last {
			return fmt.Errorf("event %d: got resource version %q after %d: %.200s", n, m.ResourceVersion, last, line)
		}
		last = rev
		if strings.Contains(path, "/namespaces/") && !strings.Contains(path, "/"+m.Namespace+"/") {
			return fmt.Errorf("event %d is of namespace %q", n, m.Namespace)
		}
	}
	return nil
}

// send sends a request and wants it to succeed.
func (r *running) send(t *testing.T, method, path, body string) []byte {
	t.Helper()
	req, err := http.NewRequest(method, "https://"+r.Addr()+path, bytes.NewReader([]byte(body)))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Content-Type", "application/json")
	if method == http.MethodPatch {
		req.Header.Set("Content-Type", "application/merge-patch+json")
	}
	resp, err := r.client.Do(req)
	if err != nil {
		t.Error(err)
		return nil
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	if err != nil || resp.StatusCode/100 != 2 {
		t.Errorf("%s %s: got %s: %.300s (%v)", method, path, resp.Status, b, err)
	}
	return b
}

// version returns the resource version of a list.
func (r *running) version(t *testing.T, path string) string {
	t.Helper()
	var list struct {
		Metadata struct{ ResourceVersion string }
	}
	if err := json.Unmarshal(r.send(t, http.MethodGet, path, ""), &list); err != nil {
		t.Fatal(err)
	}
	return list.Metadata.ResourceVersion
}
