package cli

import (
	"bytes"
	"context"
	"net"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"testing"

	"github.com/keelson-io/keelson/internal/fastpath"
)

// This file tests the commands that start and name the server.

func TestCommandLines(t *testing.T) {
	dir := t.TempDir()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	_, taken, _ := net.SplitHostPort(l.Addr().String())
	for _, row := range []struct {
		args string
		code int
		want string // in the output or the errors
	}{
		{"", 0, "keelson serve"},
		{"help serve", 0, "\n    Authentication:\n          --client-ca-file file"},
		{"help serve", 0, "\n    Other flags:\n      -h, --help "},
		{"serve --nonsense", 2, "keelson: unknown flag: --nonsense\nkeelson: see keelson serve --help\n"},
		{"serve --data-dir " + dir + "/e --encryption-provider-config=" + dir + "/none", 1, "error reading encryption provider configuration file: open " + dir + "/none: no such file or directory"},
		{"serve --data-dir " + dir + "/e --encryption-provider-config-automatic-reload", 1, "must be set with --encryption-provider-config"},
		{"serve --feature-gates=A=true", 2, "keelson: --feature-gates: there are no gates"},
		{"serve --watch-cache-sizes=x", 2, "keelson: --watch-cache-sizes: is a flag of kube-apiserver for a feature that keelson does not have: leave it out\nkeelson: see keelson serve --help\n"},
		{"validate --feature-gates=A=true", 2, "keelson: unknown flag: --feature-gates\n"},
		{"serve extra", 2, `keelson: serve: got "extra", want flags only`},
		{"frobnicate", 2, "keelson: unknown command \"frobnicate\" for \"keelson\"\nkeelson: see keelson --help\n"},
		{"serv", 2, `unknown command "serv" for "keelson"; did you mean serve?`},
		{"help serv", 2, "unknown command \"serv\" for \"keelson\"; did you mean serve?\nkeelson: see keelson --help\n"},
		{"help snapshot sav", 2, `unknown command "sav" for "keelson snapshot"; did you mean save?`},
		{"authz chek", 2, `unknown command "chek" for "keelson authz"; did you mean check?`},
		{"snapshot save", 2, "keelson: snapshot save: no FILE named\nkeelson: see keelson snapshot save --help\n"},
		{"snapshot status", 2, "keelson: snapshot status: no FILE named\nkeelson: see keelson snapshot status --help\n"},
		{"snapshot status -o yaml x", 2, "snapshot status: -o: got \"yaml\", want text or json"},
		{"snapshot status " + dir + "/none", 1, "none: no such file or directory"},
		{"snapshot restore a b", 2, "snapshot restore: got 2 arguments, want one FILE"},
		{"snapshot save x --kubeconfig " + dir + "/none", 1, "finding the server: stat " + dir + "/none: no such file or directory"},
		{"envtest-assets", 2, "envtest-assets: no DIR named"},
		{"authz check", 2, "authz: no request named"},
		{"kubeconfig --data-dir " + dir, 1, dir + ": no server has written its kubeconfig there"},
		{"serve --secure-port abc", 2, `--secure-port: got "abc", want a whole number`},
		{"serve --secure-port 70000", 2, "--secure-port: got 70000, want a port, or 0 for any free one"},
		{"serve --anonymous-auth=maybe", 2, `--anonymous-auth: got "maybe", want true or false`},
		{"serve --audit-webhook-initial-backoff soon", 2, `--audit-webhook-initial-backoff: got "soon", want a time, such as 30s or 5m`},
		{"serve --max-requests-inflight -1", 2, "--max-requests-inflight: got -1, want a number of requests, or 0 for no limit"},
		{"serve --event-ttl 10ms", 2, "--event-ttl: got 10ms, want 1s or more, or 0 for no end"},
		{"serve --event-ttl -1h", 2, "--event-ttl: got -1h0m0s, want 1s or more, or 0 for no end"},
		{"serve --request-timeout 0s", 2, "--request-timeout: got 0s, want a time above 0"},
		{"serve --min-request-timeout 0", 2, "--min-request-timeout: got 0, want a number of seconds from 1 to 2147483647"}, // Ledger: endless-watches.
		{"serve --secure-port " + taken + " --data-dir " + dir, 1, "address already in use: is another server running? The next free port: --secure-port "},
		{"serve --logging-format xml --data-dir " + dir, 2, `keelson: --logging-format: got "xml", want text or json`},
		{"serve --secure-port 0 --token-auth-file /nonexistent/t --data-dir " + dir, 1, "keelson: open /nonexistent/t: no such file or directory"},
		{"version", 0, "Kubernetes API 1.37"},
		{"version -o json", 0, `"gitVersion": "v1.37.2+keelson.`},
		{"version -o xml", 2, `keelson: --output: got "xml", want text or json`},
	} {
		var out, errs bytes.Buffer
		code := run(context.Background(), strings.Fields(row.args), strings.NewReader(""), &out, &errs)
		if text := out.String() + errs.String(); code != row.code || !strings.Contains(text, row.want) {
			t.Errorf("keelson %s: got %d, want %d with %q:\n%s", row.args, code, row.code, row.want, text)
		}
	}
}

// stopper is the log of a server, which is stopped when it says that it is ready.
type stopper struct {
	log  *bytes.Buffer
	stop func()
}

func (s *stopper) Write(p []byte) (int, error) {
	if bytes.Contains(p, []byte("msg=ready")) {
		s.stop()
	}
	return s.log.Write(p)
}

func TestServeUntilStopped(t *testing.T) {
	ctx, cancel := context.WithCancel(context.Background())
	var out, errs bytes.Buffer
	args := []string{"serve", "--secure-port", "0", "--data-dir", t.TempDir()}
	if code := run(ctx, args, strings.NewReader(""), &out, &stopper{&errs, cancel}); code != 0 {
		t.Errorf("got %d:\n%s%s", code, out.String(), errs.String())
	}
	if !strings.HasPrefix(out.String(), "export KUBECONFIG=") || !strings.Contains(errs.String(), "msg=ready") {
		t.Errorf("output:\n%s\nlog:\n%s", out.String(), errs.String())
	}
	if path, _, _ := strings.Cut(strings.TrimPrefix(out.String(), "export KUBECONFIG="), "\n"); !filepath.IsAbs(path) {
		t.Errorf("KUBECONFIG: got %q, want an absolute path", path)
	}
	for line := range strings.Lines(out.String()) {
		if line[0] != '#' && !strings.HasPrefix(line, "export KUBECONFIG=") {
			t.Errorf("got the line %q, want a setting or a comment, which a shell can read", line)
		}
	}
	want := processors + 1 // however many servers there were in this process
	if os.Getenv("GOMAXPROCS") != "" || !fastpath.Processor.On() {
		want = processors
	}
	if got := runtime.GOMAXPROCS(0); got != want {
		t.Errorf("goroutines that run at a time: got %d, want %d", got, want)
	}
}

// processors is how many goroutines ran at a time before there was a server.
var processors = runtime.GOMAXPROCS(0)

// TestNextSteps holds what "serve" prints: an absolute path that a shell reads as one word, and commands that name the data directory.
func TestNextSteps(t *testing.T) {
	wd, err := os.Getwd()
	if err != nil {
		t.Fatal(err)
	}
	for _, row := range []struct {
		kubeconfig, dataDir string
		hints               bool
		want                string // at the start of the output
		user                string // in it, if not empty
	}{
		{"keelson-data/admin.kubeconfig", "keelson-data", true, "export KUBECONFIG=" + shellWord(wd+"/keelson-data/admin.kubeconfig") + "\n#", "#   keelson kubeconfig --user jane "},
		{"/srv/k/admin.kubeconfig", "/srv/k", true, "export KUBECONFIG=/srv/k/admin.kubeconfig\n#", "keelson kubeconfig --data-dir /srv/k --user jane "},
		{"/my data/o'k", "/my data", true, `export KUBECONFIG='/my data/o'\''k'` + "\n", "--data-dir '/my data' --user"},
		{"/srv/k/admin.kubeconfig", "/srv/k", false, "export KUBECONFIG=/srv/k/admin.kubeconfig\n", ""},
	} {
		got, err := nextSteps(row.kubeconfig, row.dataDir, row.hints)
		if err != nil || !strings.HasPrefix(got, row.want) || !strings.Contains(got, row.user) || !row.hints && got != row.want {
			t.Errorf("%s: got %q (%v), want %q and %q", row.kubeconfig, got, err, row.want, row.user)
		}
	}
}

// TestOtherPort holds that the advice skips ports that are taken, and that its port can be used.
func TestOtherPort(t *testing.T) {
	first, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer first.Close()
	port := first.Addr().(*net.TCPAddr).Port
	second, err := net.Listen("tcp", net.JoinHostPort("127.0.0.1", strconv.Itoa(port+1)))
	if err == nil { // otherwise another program has it, which is as good
		defer second.Close()
	}
	advice := otherPort("127.0.0.1", port)
	next, err := strconv.Atoi(strings.TrimPrefix(advice, "The next free port: --secure-port "))
	if err != nil || next <= port+1 {
		t.Fatalf("got %q, want a port after %d", advice, port+1)
	}
	if got := otherPort("127.0.0.1", 65535); got != "--secure-port 0 chooses a free port" {
		t.Errorf("after the last port: got %q", got)
	}
}
