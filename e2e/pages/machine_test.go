package pages

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/keelson-io/keelson/internal/testkit"
	"github.com/keelson-io/keelson/internal/testports"
	"github.com/keelson-io/keelson/internal/testprogram"
)

// This file has the user's machine: a folder, a shell, and a second terminal for a server.

// compiling is how long a command of a page may take that compiles Go programs, on a busy machine with an empty cache.
const compiling = 15 * time.Minute

// machine is what a user has in front of them while they follow a page.
type machine struct {
	dir    string
	port   int
	slow   bool     // a command may take minutes, because it compiles
	in     *os.File // of the shell
	out    buffer
	count  int // of commands
	server *testprogram.Process
	log    buffer
}

func newMachine(t *testing.T, page string) *machine {
	root, err := filepath.Abs("../..")
	if err != nil {
		t.Fatal(err)
	}
	ports, err := testports.Free(1)
	if err != nil {
		t.Fatal(err)
	}
	m := &machine{dir: t.TempDir(), port: ports[0], slow: needs[page] == "go"}
	if needs[page] == "clone" {
		for _, name := range []string{"docs", "cmd", "go.mod"} {
			if err := os.Symlink(filepath.Join(root, name), filepath.Join(m.dir, name)); err != nil {
				t.Fatal(err)
			}
		}
	}
	m.startShell(t)
	t.Cleanup(func() { m.stop(t) })
	// What a page has built is there already. The module is not published with this commit: go get takes the work tree.
	m.run(t, `unset KUBECONFIG; go() { case "$1 $2" in
"build -C") ;;
"get github.com/keelson-io/keelson/keelsontest"*) command go mod edit -replace=github.com/keelson-io/keelson/keelsontest=`+root+`/keelsontest -require=github.com/keelson-io/keelson/keelsontest@v0.0.0 ;;
"get github.com/keelson-io/keelson"*) command go mod edit -replace=github.com/keelson-io/keelson=`+root+` -require=github.com/keelson-io/keelson@v0.0.0 && command go mod tidy ;;
*) command go "$@" ;; esac; }`)
	return m
}

// startShell starts a shell with an empty HOME.
func (m *machine) startShell(t *testing.T) {
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	cmd := exec.CommandContext(ctx, "bash")
	cmd.Dir = m.dir
	home := t.TempDir()
	cmd.Env = append(os.Environ(), "HOME="+home, "PATH="+binaries+":"+os.Getenv("PATH"), "GOFLAGS=-buildvcs=false", "LC_ALL=C",
		"GOMODCACHE="+goEnv(t, "GOMODCACHE"), "GOCACHE="+goEnv(t, "GOCACHE"))
	cmd.Stdin, cmd.Stdout, cmd.Stderr = r, &m.out, &m.out
	if err := cmd.Start(); err != nil {
		cancel()
		t.Fatal(err)
	}
	m.in = w
	t.Cleanup(func() {
		w.Close()
		cancel()
		cmd.Wait()
		r.Close()
	})
}

// serves matches the commands that start a server.
var serves = regexp.MustCompile(`^keelson serve( .*)?$`)

// do does what a page says, and returns what is printed and the exit code.
func (m *machine) do(t *testing.T, command string) (string, int) {
	if found := serves.FindStringSubmatch(strings.TrimSpace(command)); found != nil {
		return m.serve(t, strings.Fields(found[1])), 0
	}
	out, code := m.run(t, command)
	return strings.NewReplacer(m.dir+"/", "/home/you/", strconv.Itoa(m.port), "6443").Replace(colours.ReplaceAllString(out, "")), code
}

// colours matches what sets a colour on a terminal. Pages show texts without it.
var colours = regexp.MustCompile("\x1b\\[[0-9;]*m")

// run gives the shell a command.
func (m *machine) run(t *testing.T, command string) (string, int) {
	t.Helper()
	m.count++
	mark := fmt.Sprintf("--- end of command %d, exit code ", m.count)
	from := m.out.len()
	if _, err := fmt.Fprintf(m.in, "%s\nprintf -- '%s%%d ---\\n' $?\n", strings.TrimSuffix(command, "\n"), mark); err != nil {
		t.Fatal(err)
	}
	end := regexp.MustCompile(regexp.QuoteMeta(mark) + `(\d+) ---\n$`)
	var found []string
	ended := func() bool {
		found = end.FindStringSubmatch(m.out.from(from))
		return found != nil
	}
	for began := time.Now(); m.slow && !ended() && time.Since(began) < compiling; {
		time.Sleep(100 * time.Millisecond)
	}
	wait(t, "$ "+command, ended)
	code, err := strconv.Atoi(found[1])
	if err != nil {
		t.Fatal(err)
	}
	return strings.TrimSuffix(m.out.from(from), found[0]), code
}

// serve runs a server in the other terminal, after it has ended the one that was there, and returns what it prints until it is
// ready.
func (m *machine) serve(t *testing.T, args []string) string {
	t.Helper()
	m.stop(t)
	from := m.log.len()
	cmd := exec.Command(filepath.Join(binaries, "keelson"), append([]string{"serve", "--secure-port", strconv.Itoa(m.port)}, args...)...)
	cmd.Dir, cmd.Stdout, cmd.Stderr = m.dir, &m.log, &m.log
	m.server = testprogram.Start(t, cmd)
	wait(t, "the server to be ready", func() bool { return strings.Contains(m.log.from(from), "msg=ready") })
	return strings.NewReplacer(m.dir+"/", "/home/you/", strconv.Itoa(m.port), "6443").Replace(m.log.from(from))
}

// stop ends the server as Ctrl-C does.
func (m *machine) stop(t *testing.T) {
	if m.server == nil {
		return
	}
	if code := m.server.Stop(t, os.Interrupt); code != 0 {
		t.Errorf("the server, after Ctrl-C: got exit code %d\n%s", code, m.log.from(0))
	}
	m.server = nil
}

// wait waits until a condition holds.
func wait(t *testing.T, what string, holds func() bool) {
	t.Helper()
	testkit.Eventually(t, what, holds)
}

// buffer is a buffer that a process writes and a test reads.
type buffer struct {
	mu   sync.Mutex
	text bytes.Buffer
}

// Write implements io.Writer.
func (b *buffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.text.Write(p)
}

func (b *buffer) len() int {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.text.Len()
}

// from returns the text from an offset on.
func (b *buffer) from(offset int) string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return string(b.text.Bytes()[offset:])
}

func goEnv(t *testing.T, name string) string {
	t.Helper()
	out, err := exec.Command("go", "env", name).Output()
	if err != nil {
		t.Fatal(err)
	}
	return string(bytes.TrimSpace(out))
}
