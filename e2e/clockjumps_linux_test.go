package e2e

import (
	"bufio"
	"crypto/tls"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

// This file lets the clock of a server jump. The binary is built with a package time of its own, by
// an overlay: to each reading of the clock it adds the seconds that a file has. Times that pass are
// measured by another clock, which does not jump, as on a machine whose clock is set.

// clockSource is added to package time.
const clockSource = `package time

import (
	"sync/atomic"
	"syscall"
	"unsafe"
)

var offset = mapOffset()

func mapOffset() *int64 {
	path, ok := syscall.Getenv("KEELSON_CLOCK")
	if !ok {
		return nil
	}
	fd, err := syscall.Open(path, syscall.O_RDONLY, 0)
	if err != nil {
		panic("KEELSON_CLOCK: " + err.Error())
	}
	b, err := syscall.Mmap(fd, 0, 8, syscall.PROT_READ, syscall.MAP_SHARED)
	if err != nil {
		panic("KEELSON_CLOCK: " + err.Error())
	}
	return (*int64)(unsafe.Pointer(&b[0]))
}

func jumped() int64 {
	if offset == nil {
		return 0
	}
	return atomic.LoadInt64(offset)
}
`

// clockBin builds the binary whose clock jumps.
func clockBin(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	out, err := exec.Command("go", "env", "GOROOT").Output()
	if err != nil {
		t.Fatal(err)
	}
	original := filepath.Join(strings.TrimSpace(string(out)), "src", "time", "time.go")
	text, err := os.ReadFile(original)
	if err != nil {
		t.Fatal(err)
	}
	const reads = "\tsec, nsec, mono := runtimeNow()\n"
	if strings.Count(string(text), reads) != 1 {
		t.Fatalf("%s reads the clock in another way than this test knows", original)
	}
	overlay := map[string]map[string]string{"Replace": {original: filepath.Join(dir, "time.go"), filepath.Join(filepath.Dir(original), "jump.go"): filepath.Join(dir, "jump.go")}}
	for name, content := range map[string]string{
		"time.go": strings.Replace(string(text), reads, reads+"\tsec += jumped()\n", 1), "jump.go": clockSource, "overlay.json": toText(t, overlay),
	} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	bin := filepath.Join(dir, "keelson-clock")
	cmd := exec.Command("go", "build", "-buildvcs=false", "-overlay", filepath.Join(dir, "overlay.json"), "-o", bin, "./cmd/keelson")
	cmd.Dir = ".."
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("building with a clock that jumps: %v\n%s", err, out)
	}
	return bin
}

func toText(t *testing.T, v any) string {
	t.Helper()
	b, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

// TestClockJumps sets the clock of a server forward and back, by up to decades, while it is written
// to and watched. No acknowledged write is lost, watches and writes go on, tokens are valid by the
// clock that is set, and the server starts again at any time.
func TestClockJumps(t *testing.T) {
	if os.Getenv("KEELSON_FAULTS") == "" {
		t.Skip("set KEELSON_FAULTS, or run make faults: it builds the binary with another package time")
	}
	bin := os.Getenv("KEELSON_CLOCK_BIN")
	if bin == "" {
		bin = clockBin(t)
	}
	clock, err := os.Create(filepath.Join(t.TempDir(), "clock"))
	if err != nil {
		t.Fatal(err)
	}
	defer clock.Close()
	set := func(d time.Duration) {
		t.Helper()
		if _, err := clock.WriteAt(binary.NativeEndian.AppendUint64(nil, uint64(int64(d/time.Second))), 0); err != nil {
			t.Fatal(err)
		}
	}
	set(0)
	s := newServer(t)
	tokens := filepath.Join(t.TempDir(), "tokens.csv")
	if err := os.WriteFile(tokens, []byte("jumper,jumper,jumper,system:masters\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	s.bin, s.env, s.args = bin, []string{"KEELSON_CLOCK=" + clock.Name()}, append(s.args, "--token-auth-file", tokens)
	start := func() {
		s.start()
		s.http = &http.Client{Transport: timeless{&http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}}}}
	}
	start()
	l := newLoad(t, s)
	l.run(200 * time.Millisecond)
	watched := s.watchNames(t)
	const day = 24 * time.Hour
	jumps := []time.Duration{time.Second, -time.Second, 2 * time.Hour, -2 * time.Hour, 36 * time.Hour, -30 * day, 400 * day, 0, -20 * 365 * day, 20 * 365 * day, 0}
	var tokenOf []string // for each jump, because a server knows the users of tokens for 10 s
	for range jumps {
		var review struct{ Status struct{ Token string } }
		if err := json.Unmarshal(s.do(t, 201, "POST", "/api/v1/namespaces/default/serviceaccounts/default/token",
			[]byte(`{"apiVersion":"authentication.k8s.io/v1","kind":"TokenRequest","spec":{"expirationSeconds":3600}}`)), &review); err != nil {
			t.Fatal(err)
		}
		tokenOf = append(tokenOf, review.Status.Token)
	}
	for i, jump := range jumps {
		set(jump)
		what := fmt.Sprintf("a jump to %v", jump)
		l.run(150 * time.Millisecond)
		l.verify(what)
		s.do(t, 200, "GET", "/readyz", nil)
		name := fmt.Sprint("after-jump-", i)
		made := s.do(t, 201, "POST", configMapList, fmt.Appendf(nil, `{"metadata":{"name":%q}}`, name))
		if want := time.Now().UTC().Add(jump); !strings.Contains(string(made), want.Format(`"creationTimestamp":"2006-01-02T15:`)) &&
			!strings.Contains(string(made), want.Add(-time.Minute).Format(`"creationTimestamp":"2006-01-02T15:`)) {
			t.Errorf("%s: the object is of another time than %v: %s", what, want, made)
		}
		select {
		case got := <-watched:
			for ; got != name && got != ""; got = <-watched {
			}
			if got == "" {
				t.Fatalf("%s: the watch has ended", what)
			}
		case <-time.After(time.Minute):
			t.Fatalf("%s: the watch does not see an object within a minute", what)
		}
		want := 200
		if jump >= time.Hour || jump <= -time.Hour {
			want = 401
		}
		if code := s.asToken(t, tokenOf[i], "/api"); code != want {
			t.Errorf("%s: a token of an hour gets %d, want %d", what, code, want)
		}
	}
	authority, err := os.ReadFile(filepath.Join(s.dir, "pki", "ca.crt"))
	if err != nil {
		t.Fatal(err)
	}
	for _, jump := range []time.Duration{400 * day, 0, -400 * day, 0} {
		set(jump)
		s.stop(syscall.SIGKILL)
		start()
		l.verify(fmt.Sprintf("a start at %v", jump))
		l.run(100 * time.Millisecond)
		if now, err := os.ReadFile(filepath.Join(s.dir, "pki", "ca.crt")); err != nil || string(now) != string(authority) {
			t.Errorf("a start at %v: the server's authority is another one, %v", jump, err)
		}
	}
}

// timeless is a transport of an administrator whose credential does not expire, as certificates do.
type timeless struct{ base *http.Transport }

func (c timeless) RoundTrip(r *http.Request) (*http.Response, error) {
	if r.Header.Get("Authorization") == "" {
		r.Header.Set("Authorization", "Bearer jumper")
	}
	return c.base.RoundTrip(r)
}

// watchNames watches config maps, and sends the name of each. It sends "" when the watch has ended.
func (s *server) watchNames(t *testing.T) <-chan string {
	t.Helper()
	resp, err := s.http.Get(s.url(configMapList + "?watch=true"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { resp.Body.Close() })
	names := make(chan string, 100_000)
	go func() {
		lines := bufio.NewReader(resp.Body)
		for {
			line, err := lines.ReadBytes('\n')
			var event struct {
				Object struct{ Metadata struct{ Name string } }
			}
			if err != nil || json.Unmarshal(line, &event) != nil {
				names <- ""
				return
			}
			names <- event.Object.Metadata.Name
		}
	}()
	return names
}

// asToken sends a GET with a token, and returns the code of the answer.
func (s *server) asToken(t *testing.T, token, path string) int {
	t.Helper()
	code, _, err := s.try("GET", path, nil, "Authorization", "Bearer "+token)
	if err != nil {
		t.Fatal(err)
	}
	return code
}
