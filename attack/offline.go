package main

import (
	"bytes"
	"context"
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"time"
)

// This file has the move that gives offline commands the repository of a stranger, as a pull request may bring it.

// What an offline command may take: bytes of memory, with those that its limit does not know of, and time, until and after a signal.
const (
	offlineLimit   = 400 << 20
	offlineMemory  = 700 << 20
	offlineWritten = 200 << 20 // of temporary files
	offlineTime    = 60 * time.Second
	offlineGrace   = 5 * time.Second
)

// executing are git settings that name a command, RUN.
var executing = []string{
	"[core]\n fsmonitor = RUN", "[core]\n sshCommand = RUN", "[core]\n pager = RUN", "[core]\n gitProxy = RUN", "[core]\n alternateRefsCommand = RUN",
	"[filter \"x\"]\n smudge = RUN\n clean = RUN\n process = RUN\n required = true", "[diff]\n external = RUN", "[diff \"x\"]\n textconv = RUN",
	"[alias]\n cat-file = !RUN\n ls-tree = !RUN\n rev-parse = !RUN", "[credential]\n helper = !RUN", "[uploadpack]\n packObjectsHook = RUN",
	"[remote \"origin\"]\n url = ext::RUN\n promisor = true\n[protocol \"ext\"]\n allow = always\n[extensions]\n partialClone = origin",
	"[remote \"origin\"]\n url = x@127.0.0.1:a\n promisor = true\n[core]\n sshCommand = RUN\n[extensions]\n partialClone = origin",
	"[remote \"origin\"]\n url = .\n uploadpack = RUN\n promisor = true\n[extensions]\n partialClone = origin",
}

// words are names and texts that a terminal, or a system that reads logs, takes for more than text.
var words = []string{"\x1b[31mred", "\x1b]0;title\x07", "a\u009b31m", "x\n::error::injected", "\r::set-output name=a::b", "::warning file=a::b", "a\u202eb", "\u2028::error::x"}

// stranger makes repositories.
type stranger struct {
	root, ran string // the repository, and a file that is written when a command of the repository ran
	run       string // such a command
	rng       *rand.Rand
}

// offline runs offline commands on generated repositories.
func offline(ctx context.Context, a *arena, m Move, rng *rand.Rand) {
	fetched, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return
	}
	defer fetched.Close()
	go func() {
		for {
			c, err := fetched.Accept()
			if err != nil {
				return
			}
			c.Close()
			a.found("offline", "a repository made an offline command open a connection")
		}
	}()
	for n := 0; ctx.Err() == nil && n < 1+m.Size; n++ {
		dir, err := os.MkdirTemp(a.dir, "repository-")
		if err != nil {
			return
		}
		s := &stranger{root: filepath.Join(dir, "repo"), ran: filepath.Join(dir, "ran"), run: filepath.Join(dir, "run"), rng: rng}
		if err := s.write("../run", "#!/bin/sh\ntouch "+s.ran+"\n"); err == nil {
			args := s.make(fetched.Addr().String())
			s.judge(ctx, a, args)
		}
		os.RemoveAll(dir)
	}
}

func (s *stranger) write(name, text string) error {
	file := filepath.Join(s.root, name)
	if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
		return err
	}
	return os.WriteFile(file, []byte(text), 0o755)
}

// make fills the repository, and returns a command for it.
func (s *stranger) make(address string) (args []string) {
	rng := s.rng
	s.write("crds/w.yaml", "apiVersion: apiextensions.k8s.io/v1\nkind: CustomResourceDefinition\nmetadata: {name: widgets.example.com}\nspec: {group: example.com, scope: Namespaced, names: {plural: widgets, kind: Widget}, versions: [{name: v1, served: true, storage: true, schema: {openAPIV3Schema: {type: object}}}]}\n")
	word := words[rng.IntN(len(words))]
	s.write("deploy/w.yaml", fmt.Sprintf("apiVersion: example.com/v1\nkind: Widget\nmetadata: {name: %q, namespace: %q}\n---\napiVersion: %q\nkind: %q\n", word, word, word, word))
	if !strings.Contains(word, "\n") {
		s.write("deploy/"+strings.ReplaceAll(word, "/", "_")+".yaml", "kind: [")
	}
	setting := pick(rng, "crds: ['git:main:crds/']", "crds: ['git:main:crds/']", "crds: ['http://"+address+"/crd.yaml']", "crds: ['/etc']", "crds: ['../../run']", "crds: ['../crds']",
		"exclude: ['"+strings.Repeat(pick(rng, "{a,aa,a}", "*a", "**/d/"), 12+rng.IntN(20))+"zz']", "crds: ['"+strings.Repeat(pick(rng, "{d,d}/", "**/"), 12+rng.IntN(14))+"*.yaml']")
	s.write("deploy/.keelson.yaml", "apiVersion: cli.keelson.io/v1\nkind: Configuration\n"+setting+"\n")
	s.write("deploy/"+strings.Repeat("d/", 40)+strings.Repeat("a", 40)+".yaml", "a: b\n")
	s.repository()
	switch rng.IntN(8) {
	case 0:
		return s.database()
	case 1:
		return s.longKeys()
	case 2:
		return s.leadingOut()
	case 3:
		return s.archive()
	}
	switch rng.IntN(40) {
	case 0: // many documents that aliases make long
		var b strings.Builder
		for i := range 300 {
			fmt.Fprintf(&b, "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a%d}\nx: &a %q\ndata: {", i, strings.Repeat("A", 10_000))
			for j := range 2000 {
				fmt.Fprintf(&b, "k%d: *a,", j)
			}
			b.WriteString("}\n---\n")
		}
		s.write("deploy/many.yaml", b.String())
		return pick(rng, []string{"validate", "many.yaml"}, []string{"lint", "many.yaml"}, []string{"normalize", "-f", "../crds/w.yaml", "many.yaml"}, []string{"eval", "self.size()", "--data", "many.yaml"})
	case 1: // a suite
		var b strings.Builder
		fmt.Fprintf(&b, "crd: ../crds/w.yaml\nx: &a %q\ncases:\n- name: %q\n  object:\n    apiVersion: v1\n    kind: ConfigMap\n    metadata: {name: a}\n    data: {", strings.Repeat("A", 1<<20), word)
		for j := range 20_000 {
			fmt.Fprintf(&b, "k%d: *a,", j)
		}
		s.write("deploy/suite.yaml", b.String()+"}\n")
		return []string{"test", "suite.yaml"}
	case 2, 3, 4, 5, 6, 7:
		return []string{"lint", "--old", pick(rng, "git:main:crds/", "git:HEAD:./", "git:HEAD~1:../crds"), "."}
	}
	return append([]string{pick(rng, "validate", "lint")}, pick(rng, []string{"."}, []string{"-o", "github", "."}, []string{".", "--crd", "git:main:crds/"})...)
}

// repository makes the root, or a folder of it, one of git's, with settings that run commands and objects that are not there.
func (s *stranger) repository() {
	rng := s.rng
	folder := pick(rng, ".git", "deploy/.git", "deploy", "..")
	text := "[core]\n repositoryformatversion = 1\n bare = " + pick(rng, "true", "false") + "\n"
	for range 1 + rng.IntN(4) {
		text += executing[rng.IntN(len(executing))] + "\n"
	}
	text = strings.ReplaceAll(text, "RUN", s.run)
	s.write(folder+"/config", text)
	s.write(folder+"/HEAD", "ref: refs/heads/main\n")
	s.write(folder+"/refs/heads/main", strings.Repeat("1234567890", 4)+"\n")
	s.write(folder+"/objects/info/packs", "")
	for _, hook := range []string{"post-checkout", "fsmonitor-watchman", "reference-transaction"} {
		s.write(folder+"/hooks/"+hook, "#!/bin/sh\ntouch "+s.ran+"\n")
	}
	if chance(rng, 4) {
		s.write("deploy/sub/.git", "gitdir: ../../"+folder+"\n")
	}
}

// control matches what no text of others may bring into an output: control characters but for tab and line feed, and characters that
// turn the direction or end a line.
var control = regexp.MustCompile("[\x00-\x08\x0b-\x1f\x7f\u0080-\u009f\u202a-\u202e\u2028\u2029]")

// injected are commands of a CI system that the words ask for.
var injected = regexp.MustCompile(`(?m)^\s*::(error::injected|set-output|warning file=a::b|error::x)`)

// judge runs a command, and notes what must not have happened.
func (s *stranger) judge(ctx context.Context, a *arena, args []string) {
	if a.offlineFlag(ctx, args[0], "--memory-limit") {
		args = append(args, "--memory-limit", fmt.Sprint(offlineLimit>>20, "Mi"))
	}
	cmd := exec.Command(a.o.binary, args...)
	cmd.Dir = filepath.Join(s.root, "deploy")
	temporary := filepath.Join(s.root, "../tmp")
	os.Mkdir(temporary, 0o700)
	cmd.Env = append(os.Environ(), "TMPDIR="+temporary)
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL, Setpgid: true}
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	if err := cmd.Start(); err != nil {
		return
	}
	what := "keelson " + strings.Join(args, " ")
	ended := make(chan struct{})
	go func() { cmd.Wait(); close(ended) }()
	clocked, stop := context.WithCancel(context.Background()) // longer than the round
	defer stop()
	clock := newPaced(clocked, cmd.Process.Pid, a.o.machine)
	peak, written := int64(0), int64(0)
	for signalled := time.Duration(0); ; {
		select {
		case <-ended:
		case <-time.After(5 * time.Millisecond):
			peak, written = max(peak, peakOf(cmd.Process.Pid)), max(written, sizeOf(temporary))
			switch now := clock.time(); {
			case signalled == 0 && (now > offlineTime || ctx.Err() != nil):
				if ctx.Err() == nil {
					a.found("offline time", what+" does not end")
				}
				cmd.Process.Signal(syscall.SIGTERM)
				signalled = max(now, 1)
			case signalled > 0 && now-signalled > offlineGrace || residentOf(cmd.Process.Pid) > 4*offlineMemory:
				if signalled > 0 {
					a.found("offline signal", what+" does not end after a signal")
				} else {
					a.found("offline memory", what+" takes all memory")
				}
				syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL)
				<-ended
				return
			}
			continue
		}
		break
	}
	if _, err := os.Stat(s.ran); err == nil {
		a.found("offline", what+" ran a command of the repository")
	}
	if peak > offlineMemory {
		a.found("offline memory", fmt.Sprintf("%s took %d MiB, want at most %d", what, peak>>20, offlineMemory>>20))
	}
	if written > offlineWritten {
		a.found("offline disk", fmt.Sprintf("%s wrote %d MiB of temporary files, want at most %d", what, written>>20, offlineWritten>>20))
	}
	if strings.Contains(out.String(), hidden) {
		a.found("offline leak", fmt.Sprintf("%s printed a text of a file outside of the repository: %.300q", what, out.String()))
	}
	if line := crash.FindString(out.String()); line != "" {
		a.found("offline panic", what+": "+line)
	}
	if found := control.FindString(out.String()); found != "" || injected.MatchString(out.String()) {
		a.found("offline output", fmt.Sprintf("%s printed %q of the repository as it is: %.300q", what, found, out.String()))
	}
}

// offlineFlag tells whether an offline command of the binary has a flag.
func (a *arena) offlineFlag(ctx context.Context, command, flag string) bool {
	help, err := exec.CommandContext(ctx, a.o.binary, command, "--help").CombinedOutput()
	return err == nil && bytes.Contains(help, []byte(flag))
}
