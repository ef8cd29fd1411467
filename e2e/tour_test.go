package e2e

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
)

// serveLine is the command of the README that starts the server; it has a terminal of its own.
const serveLine = "go run ./cmd/keelson serve"

// tourBlock is one block of commands of the README with what it says they print.
type tourBlock struct {
	start, end int // lines of the README, without the fences
	commands   []string
	outputs    []string
}

// TestTour does what the README's tour tells a new user to do, and wants to see what the README shows. With UPDATE_README=1 it
// writes what it saw into the README instead.
func TestTour(t *testing.T) {
	readme, err := os.ReadFile("../README.md")
	if err != nil {
		t.Fatal(err)
	}
	lines := strings.Split(string(readme), "\n")
	blocks := tourBlocks(lines)
	if len(blocks) < 5 {
		t.Fatalf("README.md has %d console blocks, want the whole tour", len(blocks))
	}
	tour := newTour(t)
	for _, b := range blocks {
		for i, command := range b.commands {
			var got string
			if command == serveLine {
				got = tour.serve(t)
			} else {
				got = tour.shell.run(t, command)
			}
			if os.Getenv("UPDATE_README") != "" {
				b.outputs[i] = got
			} else if plain(got) != plain(b.outputs[i]) {
				t.Errorf("README.md:%d: $ %s\ngot:\n%s\nwant:\n%s", b.start+1, command, got, b.outputs[i])
			}
		}
	}
	if os.Getenv("UPDATE_README") != "" {
		if err := os.WriteFile("../README.md", []byte(withOutputs(lines, blocks)), 0o644); err != nil {
			t.Fatal(err)
		}
	}
}

func tourBlocks(lines []string) []*tourBlock {
	var blocks []*tourBlock
	var b *tourBlock
	for i, line := range lines {
		switch {
		case line == "```console":
			b = &tourBlock{start: i + 1}
			blocks = append(blocks, b)
		case line == "```" && b != nil:
			b.end = i
			b = nil
		case b != nil && strings.HasPrefix(line, "$ "):
			b.commands = append(b.commands, line[2:])
			b.outputs = append(b.outputs, "")
		case b != nil:
			b.outputs[len(b.outputs)-1] += line + "\n"
		}
	}
	return blocks
}

func withOutputs(lines []string, blocks []*tourBlock) string {
	var out []string
	at := 0
	for _, b := range blocks {
		out = append(out, lines[at:b.start]...)
		for i, c := range b.commands {
			out = append(out, "$ "+c)
			if text := strings.TrimRight(b.outputs[i], "\n"); text != "" {
				out = append(out, strings.Split(text, "\n")...)
			}
		}
		at = b.end
	}
	return strings.Join(append(out, lines[at:]...), "\n")
}

// plain takes out what differs from one run to the next.
func plain(s string) string {
	for _, r := range []struct{ find, put string }{
		{`time=\S+`, "time=T"},
		{`\b\d+(\.\d+)?(ms|µs|s|m)\b(\d+s)?`, "AGE"},
		{`\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ`, "TIME"},
		{`127\.0\.0\.1:\d+`, "127.0.0.1:PORT"},
		{`(kubeconfig=)\S*/`, "$1"},
		{` +`, " "}, // columns are as wide as the widest age
		{` \n`, "\n"},
	} {
		s = regexp.MustCompile(r.find).ReplaceAllString(s, r.put)
	}
	return strings.TrimSpace(s)
}

// tour is the user's machine: a folder that looks like a clone, with a server in one terminal and a shell in the other.
type tour struct {
	dir    string
	port   int
	shell  *shell
	server *exec.Cmd
	log    syncBuffer
}

func newTour(t *testing.T) *tour {
	root, err := filepath.Abs("..")
	if err != nil {
		t.Fatal(err)
	}
	tr := &tour{dir: t.TempDir(), port: freePort(t)}
	for _, name := range []string{"docs", "cmd", "go.mod"} {
		if err := os.Symlink(filepath.Join(root, name), filepath.Join(tr.dir, name)); err != nil {
			t.Fatal(err)
		}
	}
	// The binaries were built from the same sources already.
	bin := filepath.Join(tr.dir, "bin")
	if err := os.Mkdir(bin, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(kubectlBin, filepath.Join(bin, "kubectl")); err != nil {
		t.Fatal(err)
	}
	tr.shell = newShell(t, tr.dir)
	t.Cleanup(func() { tr.stop(t) })
	return tr
}

// serve runs the server in its terminal, after ending the one that was there, and returns what it prints until it is ready.
func (tr *tour) serve(t *testing.T) string {
	t.Helper()
	tr.stop(t)
	from := len(tr.log.String())
	tr.server = exec.Command(keelsonBin, "serve", "--secure-port", fmt.Sprint(tr.port))
	tr.server.Dir = tr.dir
	tr.server.Stdout, tr.server.Stderr = &tr.log, &tr.log
	tr.server.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if err := tr.server.Start(); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the server of the tour to be ready", func() bool {
		return strings.Contains(tr.log.String()[from:], "msg=ready")
	})
	return strings.NewReplacer(tr.dir+"/", "", fmt.Sprint(tr.port), "6443").Replace(tr.log.String()[from:])
}

func (tr *tour) stop(t *testing.T) {
	if tr.server == nil {
		return
	}
	tr.server.Process.Signal(os.Interrupt)
	if err := tr.server.Wait(); err != nil {
		t.Errorf("the server, after Ctrl-C: %v", err)
	}
	tr.server = nil
}

// shell is one bash that is given command after command.
type shell struct {
	in  *os.File
	out *syncBuffer
	n   int
}

func newShell(t *testing.T, dir string) *shell {
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	cmd := exec.CommandContext(ctx, "bash")
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "HOME="+dir, "GOFLAGS=-buildvcs=false", "GOMODCACHE="+goEnv(t, "GOMODCACHE"), "GOCACHE="+goEnv(t, "GOCACHE"))
	sh := &shell{in: w, out: &syncBuffer{}}
	cmd.Stdin, cmd.Stdout, cmd.Stderr = r, sh.out, sh.out
	if err := cmd.Start(); err != nil {
		cancel()
		t.Fatal(err)
	}
	t.Cleanup(func() {
		w.Close()
		cancel()
		cmd.Wait()
		r.Close()
	})
	// What would be built is there: go build of kubectl and go run of keelson use the binaries under test.
	sh.run(t, fmt.Sprintf(`go() { case "$1 $2" in "build -C") ;; "run ./cmd/keelson") shift 2; %s "$@" || echo "exit status $?" >&2 ;; *) command go "$@" ;; esac; }`, keelsonBin))
	return sh
}

// run gives the shell a command and returns what it printed.
func (sh *shell) run(t *testing.T, command string) string {
	t.Helper()
	sh.n++
	mark := fmt.Sprintf("--- end of command %d ---\n", sh.n)
	from := len(sh.out.String())
	if _, err := fmt.Fprintf(sh.in, "%s\nprintf -- '%s'\n", command, strings.ReplaceAll(mark, "\n", `\n`)); err != nil {
		t.Fatal(err)
	}
	eventually(t, "$ "+command, func() bool { return strings.HasSuffix(sh.out.String(), mark) })
	return strings.TrimSuffix(sh.out.String()[from:], mark)
}

func goEnv(t *testing.T, name string) string {
	t.Helper()
	out, err := exec.Command("go", "env", name).Output()
	if err != nil {
		t.Fatal(err)
	}
	return string(bytes.TrimSpace(out))
}
