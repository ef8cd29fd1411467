package e2e

import (
	"bufio"
	"context"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
)

// refuses runs the binary and returns the reason that it prints. The binary must end by itself with
// exit code 1 and one line.
func refuses(t *testing.T, want string, args ...string) string {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, keelsonBin, args...)
	out, _ := cmd.CombinedOutput()
	if code := cmd.ProcessState.ExitCode(); code != 1 {
		t.Errorf("keelson %s: exit code %d, want 1\n%s", strings.Join(args, " "), code, out)
	}
	text := strings.TrimSpace(string(out))
	if strings.Contains(text, "\n") || !strings.Contains(text, want) {
		t.Errorf("keelson %s: got\n%s\nwant one line with %q in it", strings.Join(args, " "), tail(text, 4000), want)
	}
	return text
}

// TestFastPathsVariable holds that the command refuses a malformed KEELSON_FASTPATHS.
func TestFastPathsVariable(t *testing.T) {
	for value, want := range map[string]int{"off": 0, "off:direct": 0, "nonsense": 2} {
		cmd := exec.Command(keelsonBin, "version")
		cmd.Env = append(os.Environ(), "KEELSON_FASTPATHS="+value)
		out, _ := cmd.CombinedOutput()
		if code := cmd.ProcessState.ExitCode(); code != want || want != 0 && !strings.HasPrefix(string(out), "error: KEELSON_FASTPATHS: got ") {
			t.Errorf("%s: got %d %s, want %d", value, code, out, want)
		}
	}
}

func TestServerSaysInOneLineWhyItDoesNotStart(t *testing.T) {
	s := startServer(t)
	t.Run("data directory in use", func(t *testing.T) {
		refuses(t, s.dir, "serve", "--data-dir", s.dir, "--secure-port", strconv.Itoa(freePort(t)))
	})
	t.Run("port in use", func(t *testing.T) {
		refuses(t, strconv.Itoa(s.port), "serve", "--data-dir", t.TempDir(), "--secure-port", strconv.Itoa(s.port))
	})
	missing := filepath.Join(t.TempDir(), "missing")
	for _, flag := range []string{"--token-auth-file", "--client-ca-file", "--tls-cert-file"} {
		t.Run("unreadable "+flag, func(t *testing.T) {
			refuses(t, missing, "serve", "--data-dir", t.TempDir(), "--secure-port", strconv.Itoa(freePort(t)), flag, missing)
		})
	}
	t.Run("data directory that cannot be made", func(t *testing.T) {
		file := filepath.Join(t.TempDir(), "file")
		if err := os.WriteFile(file, nil, 0o600); err != nil {
			t.Fatal(err)
		}
		refuses(t, file, "serve", "--data-dir", file+"/data", "--secure-port", strconv.Itoa(freePort(t)))
	})
}

func TestServerEndsOnSIGTERM(t *testing.T) {
	s := startServer(t)
	s.do(t, 201, "POST", "/apis/apiextensions.k8s.io/v1/customresourcedefinitions", toJSON(t, gadgetCRD))
	const list = "/apis/demo.example.org/v1/namespaces/default/gadgets"
	eventually(t, "gadgets served", func() bool {
		code, _, err := s.try("GET", list, nil)
		return err == nil && code == 200
	})
	s.do(t, 201, "POST", list, toJSON(t, gadget("one", "red")))
	req, err := http.NewRequest("GET", s.url(list+"?watch=true&resourceVersion=0"), nil)
	if err != nil {
		t.Fatal(err)
	}
	resp, err := s.http.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	lines := bufio.NewScanner(resp.Body)
	if !lines.Scan() || !strings.Contains(lines.Text(), `"ADDED"`) {
		t.Fatalf("first line of the watch: %q, %v", lines.Text(), lines.Err())
	}
	began := time.Now()
	if code := s.stop(syscall.SIGTERM); code != 0 {
		t.Errorf("exit code %d, want 0\n%s", code, tail(s.log.String(), 2000))
	}
	if took := time.Since(began); took > 5*time.Second {
		t.Errorf("stopping took %v with one watch open", took)
	}
	if lines.Scan() {
		t.Errorf("the watch goes on with %q", lines.Text())
	}
	if err := lines.Err(); err != nil {
		t.Errorf("the watch was cut off instead of ended: %v", err)
	}
	s.start()
	s.do(t, 200, "GET", list+"/one", nil)
}

func TestDataDirectoryIsPrivate(t *testing.T) {
	s := startServer(t)
	err := filepath.WalkDir(s.dir, func(path string, e os.DirEntry, err error) error {
		if err != nil {
			return err
		}
		info, err := e.Info()
		if err != nil {
			return err
		}
		// Certificates are for everyone. Of its snapshots etcd does not say who may read them; the directories that they are in do.
		if info.Mode().Perm()&0o077 != 0 && !strings.HasSuffix(path, ".crt") && filepath.Ext(path) != ".snap" {
			t.Errorf("%s: mode %v, want nothing for others", path, info.Mode())
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if info, err := os.Stat(s.dir); err != nil || info.Mode().Perm() != 0o700 {
		t.Errorf("data directory: %v, %v, want mode 0700", info, err)
	}
}

// TestOnlyThePortAskedForIsOpen looks into the kernel's table of listening sockets.
// Ledger: etcd-ports.
func TestOnlyThePortAskedForIsOpen(t *testing.T) {
	s := startServer(t)
	inodes := map[string]bool{}
	fds, err := filepath.Glob("/proc/" + strconv.Itoa(s.cmd.Process.Pid) + "/fd/*")
	if err != nil || len(fds) == 0 {
		t.Skipf("no /proc here: %v", err)
	}
	for _, fd := range fds {
		if to, err := os.Readlink(fd); err == nil && strings.HasPrefix(to, "socket:[") {
			inodes[strings.Trim(to, "socket:[]")] = true
		}
	}
	listening := 0
	for _, table := range []string{"tcp", "tcp6"} {
		b, err := os.ReadFile("/proc/" + strconv.Itoa(s.cmd.Process.Pid) + "/net/" + table)
		if err != nil {
			t.Fatal(err)
		}
		for line := range strings.Lines(string(b)) {
			f := strings.Fields(line)
			if len(f) > 9 && f[3] == "0A" && inodes[f[9]] {
				listening++
			}
		}
	}
	if listening != 1 {
		t.Errorf("%d listening sockets, want 1", listening)
	}
}

func TestStrangersGetHealthAndVersionOnly(t *testing.T) {
	s := startServer(t)
	anonymous := http.Client{Timeout: 10 * time.Second, Transport: withoutCertificate(t, s)}
	for path, want := range map[string]int{
		"/healthz": 200, "/livez": 200, "/readyz": 200, "/version": 200,
		"/metrics": 403, "/apis": 403, "/api/v1/namespaces": 403, "/apis/apiextensions.k8s.io/v1/customresourcedefinitions": 403, "/openapi/v3": 403,
	} {
		resp, err := anonymous.Get(s.url(path))
		if err != nil {
			t.Fatal(err)
		}
		resp.Body.Close()
		if resp.StatusCode != want {
			t.Errorf("%s: got %d, want %d", path, resp.StatusCode, want)
		}
	}
	code, _, err := s.try("GET", "/metrics", nil)
	if err != nil || code != 200 {
		t.Errorf("/metrics as the administrator: %d, %v", code, err)
	}
}

func TestTokenFile(t *testing.T) {
	file := filepath.Join(t.TempDir(), "tokens.csv")
	if err := os.WriteFile(file, []byte("s3cret,ann,1,\"system:masters\"\nother,bob,2\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	s := startServer(t, "--token-auth-file", file)
	client := http.Client{Timeout: 10 * time.Second, Transport: withoutCertificate(t, s)}
	for token, want := range map[string]int{"s3cret": 200, "other": 403, "wrong": 401} {
		req, err := http.NewRequest("GET", s.url("/api/v1/namespaces/default/secrets"), nil)
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set("Authorization", "Bearer "+token)
		resp, err := client.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		resp.Body.Close()
		if resp.StatusCode != want {
			t.Errorf("token %q: got %d, want %d", token, resp.StatusCode, want)
		}
	}
}

func TestPlainHTTPIsRefused(t *testing.T) {
	s := startServer(t)
	conn, err := net.Dial("tcp", net.JoinHostPort("127.0.0.1", strconv.Itoa(s.port)))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	conn.SetDeadline(time.Now().Add(5 * time.Second))
	if _, err := conn.Write([]byte("GET /healthz HTTP/1.0\r\n\r\n")); err != nil {
		t.Fatal(err)
	}
	line, _ := bufio.NewReader(conn).ReadString('\n')
	if !strings.Contains(line, " 400 ") {
		t.Errorf("got %q, want 400", line)
	}
}
