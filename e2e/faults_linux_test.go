package e2e

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// This file injects faults under a server that is written to, and checks what is left: no
// acknowledged write is lost, no answer is wrong, and the server recovers or says why it cannot.
// TestFaults does a few of them in every run. TestFaultsOfEtcd, for make faults, also builds etcd with
// its failpoints.

// counter is an object whose value counts up. One goroutine writes it.
type counter struct {
	mu           sync.Mutex
	acked, tried int // acked is also what any reader saw
}

// load writes counters and remembers what was acknowledged.
type load struct {
	t        *testing.T
	s        *server
	counters []*counter
}

func newLoad(t *testing.T, s *server) *load {
	l := &load{t: t, s: s}
	for range 4 {
		l.counters = append(l.counters, &counter{})
	}
	return l
}

func counterPath(i int) string { return fmt.Sprintf("%s/counter%d", configMapList, i) }

// run writes for some time, or until a write fails in the connection. Answers other than success
// leave open whether the write happened.
func (l *load) run(d time.Duration) {
	end := time.Now().Add(d)
	var wg sync.WaitGroup
	for i, c := range l.counters {
		wg.Go(func() {
			for time.Now().Before(end) {
				c.mu.Lock()
				c.tried++
				n := c.tried
				c.mu.Unlock()
				text := fmt.Appendf(nil, `{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"counter%d"},"data":{"n":"%d","pad":%q}}`, i, n, strings.Repeat("p", n%7*300))
				code, _, err := l.s.try("PATCH", counterPath(i)+"?fieldManager=faults&force=true", text, "Content-Type", "application/apply-patch+yaml")
				if err != nil {
					return
				}
				if code == 200 || code == 201 {
					c.mu.Lock()
					c.acked = max(c.acked, n)
					c.mu.Unlock()
				}
				l.read(i)
			}
		})
	}
	wg.Wait()
}

// read checks one counter. If the server does not answer, there is nothing to check.
func (l *load) read(i int) (answered bool) {
	l.t.Helper()
	c := l.counters[i]
	c.mu.Lock()
	acked := c.acked
	c.mu.Unlock()
	code, body, err := l.s.try("GET", counterPath(i), nil)
	if err != nil || code >= 500 || code == 429 {
		return false
	}
	got := 0
	if code == 200 {
		var o struct{ Data map[string]string }
		if err := json.Unmarshal(body, &o); err != nil {
			l.t.Errorf("counter %d: %v: %s", i, err, body)
			return true
		}
		got, _ = strconv.Atoi(o.Data["n"])
		if pad := got % 7 * 300; len(o.Data["pad"]) != pad {
			l.t.Errorf("counter %d at %d: got %d bytes, want %d", i, got, len(o.Data["pad"]), pad)
		}
	} else if code != 404 {
		l.t.Errorf("counter %d: got %d: %s", i, code, body)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if got < acked || got > c.tried {
		l.t.Errorf("counter %d: got %d, want %d to %d: an acknowledged write is lost, or the answer is wrong", i, got, acked, c.tried)
	}
	c.acked = max(c.acked, got)
	return true
}

// verify checks all counters of a server that must answer.
func (l *load) verify(after string) {
	l.t.Helper()
	for i := range l.counters {
		if !l.read(i) {
			l.t.Errorf("after %s: counter %d cannot be read", after, i)
		}
	}
}

// restart kills the server, if it runs, and checks the counters at its next start.
func (l *load) restart(after string) {
	l.t.Helper()
	if l.s.running() {
		l.s.stop(syscall.SIGKILL)
	}
	l.s.env = nil
	l.s.start()
	l.verify(after)
}

// limit sets a limit of the server's process, and returns a function that lifts it.
func (l *load) limit(resource int, value uint64) (lift func()) {
	l.t.Helper()
	var old unix.Rlimit
	err := unix.Prlimit(l.s.cmd.Process.Pid, resource, nil, &old)
	if err == nil {
		err = unix.Prlimit(l.s.cmd.Process.Pid, resource, &unix.Rlimit{Cur: min(value, old.Max), Max: old.Max}, nil)
	}
	if err != nil {
		l.t.Fatal(err)
	}
	return func() { unix.Prlimit(l.s.cmd.Process.Pid, resource, &old, nil) }
}

// suspend stops the process in the middle of writes, and lets it go on.
func (l *load) suspend(r *rand.Rand) {
	done := make(chan struct{})
	go func() { l.run(600 * time.Millisecond); close(done) }()
	time.Sleep(time.Duration(r.IntN(200)) * time.Millisecond)
	l.s.cmd.Process.Signal(syscall.SIGSTOP)
	time.Sleep(time.Duration(r.IntN(300)) * time.Millisecond)
	l.s.cmd.Process.Signal(syscall.SIGCONT)
	<-done
	l.verify("SIGSTOP")
}

// exhaustFiles leaves the process few files to open.
func (l *load) exhaustFiles(r *rand.Rand) {
	fds, err := os.ReadDir(fmt.Sprintf("/proc/%d/fd", l.s.cmd.Process.Pid))
	if err != nil {
		l.t.Fatal(err)
	}
	lift := l.limit(unix.RLIMIT_NOFILE, uint64(len(fds)+r.IntN(6)))
	l.run(400 * time.Millisecond)
	lift()
	l.run(200 * time.Millisecond)
	l.verify("a limit on open files")
}

// exhaustMemory lets the process map little more memory than it has, in which Go's runtime ends it.
func (l *load) exhaustMemory(r *rand.Rand) {
	statm, err := os.ReadFile(fmt.Sprintf("/proc/%d/statm", l.s.cmd.Process.Pid))
	if err != nil {
		l.t.Fatal(err)
	}
	var pages uint64
	fmt.Sscan(string(statm), &pages)
	lift := l.limit(unix.RLIMIT_AS, pages*uint64(os.Getpagesize())+uint64(r.IntN(8<<20)))
	l.run(400 * time.Millisecond)
	if l.s.running() {
		lift()
	}
}

// TestFaults suspends the process, takes its files and memory away and kills it, under load.
func TestFaults(t *testing.T) {
	t.Parallel()
	r := rand.New(rand.NewPCG(1, 1))
	s := startServer(t)
	l := newLoad(t, s)
	for range 2 {
		l.suspend(r)
		l.exhaustFiles(r)
		l.restart("SIGKILL")
		l.exhaustMemory(r)
		l.restart("exhausted memory")
	}
}

// TestFlippedBits flips bits anywhere in the database. A start is refused with the reason, or every
// answer is right or names the damage.
func TestFlippedBits(t *testing.T) {
	t.Parallel()
	s := startServer(t)
	const n = 60
	value := func(i int) string { return fmt.Sprintf("value-%d-", i) + strings.Repeat(string(rune('a'+i%26)), 700) }
	for i := range n {
		s.do(t, 201, "POST", configMapList, fmt.Appendf(nil, `{"metadata":{"name":"c%d"},"data":{"a":%q}}`, i, value(i)))
	}
	s.stop(syscall.SIGTERM)
	pristine := filepath.Join(t.TempDir(), "pristine")
	copyDir(t, s.dir, pristine)
	r := rand.New(rand.NewPCG(2, 2))
	refused, named := 0, 0
	for round := range 12 {
		if err := os.RemoveAll(s.dir); err != nil {
			t.Fatal(err)
		}
		copyDir(t, pristine, s.dir)
		change(t, filepath.Join(s.dir, "etcd", "member", "snap", "db"), func(b []byte) []byte {
			used := len(bytes.TrimRight(b, "\x00"))
			for range 1 + round%3 {
				b[r.IntN(used)] ^= 1 << r.IntN(8)
			}
			return b
		})
		before := len(s.log.String())
		s.spawn()
		if s.waitReady() != nil {
			if log := s.log.String()[before:]; s.running() || !strings.Contains(log, "damaged") && !strings.Contains(log, "opening etcd") {
				t.Errorf("round %d: not ready, and the reason is not said:\n%s", round, tail(log, 3000))
			}
			if s.running() {
				s.stop(syscall.SIGKILL)
			}
			refused++
			continue
		}
		for i := range n {
			code, body, err := s.try("GET", fmt.Sprintf("%s/c%d", configMapList, i), nil)
			log := s.log.String()[before:]
			switch {
			case err != nil:
				t.Errorf("round %d: c%d: %v\n%s", round, i, err, tail(log, 2000))
			case code == 200 && strings.Contains(string(body), `"`+value(i)+`"`):
			case code == 500 && strings.Contains(string(body), "damaged"), code == 404 && strings.Contains(log, "a stored value is damaged"):
				named++
			default:
				t.Errorf("round %d: c%d: got %d %s, which is wrong; log:\n%s", round, i, code, tail(string(body), 300), tail(log, 1000))
			}
		}
		s.stop(syscall.SIGKILL)
	}
	t.Logf("12 rounds: %d starts refused, %d objects named as damaged", refused, named)
	if named == 0 {
		t.Error("no round damaged a value")
	}
}

// failpoints of etcd and its database, with what they can do at each.
var failpoints = map[string][]string{
	"walBeforeSync":             {"panic", "sleep(200)"},
	"walAfterSync":              {"panic", "sleep(200)"},
	"raftBeforeSave":            {"panic"},
	"raftAfterSave":             {"panic"},
	"raftBeforeSaveSnap":        {"panic"},
	"raftBeforeAdvance":         {"panic"},
	"beforeApplyOneEntryNormal": {"panic", "sleep(50)"},
	"beforeCommit":              {"panic", "sleep(300)"},
	"afterCommit":               {"panic"},
	"commitBeforePreCommitHook": {"panic"},
	"commitAfterPreCommitHook":  {"panic"},
	"beforeStartDBTxn":          {"panic"},
	"afterStartDBTxn":           {"panic"},
	"beforeBucketPut":           {"panic"},
	"beforeSyncDataPages":       {"panic", "sleep(300)"},
	"beforeSyncMetaPage":        {"panic", "sleep(300)"},
	"beforeWriteMetaError":      {`return("input/output error")`},
	"lackOfDiskSpace":           {`return("no space left on device")`},
	"resizeFileError":           {`return("input/output error")`},
	"mapError":                  {`return("cannot allocate memory")`},
	"beforeWritebackBuf":        {"panic"},
	"afterWritebackBuf":         {"panic"},
}

// TestFaultsOfEtcd injects faults for KEELSON_FAULTS, such as 5m, by KEELSON_FAULTS_SEED: at etcd's
// failpoints, by a disk that fills up, and those of TestFaults.
func TestFaultsOfEtcd(t *testing.T) {
	length, err := time.ParseDuration(os.Getenv("KEELSON_FAULTS"))
	if err != nil {
		t.Skip("set KEELSON_FAULTS, or run make faults: it takes minutes and builds etcd with failpoints")
	}
	if os.Getenv("KEELSON_FAULTS_BIN") == "" {
		t.Setenv("KEELSON_FAULTS_BIN", faultyBin(t))
	}
	if !inOwnNamespace(t, length+5*time.Minute) {
		return
	}
	seed, _ := strconv.ParseUint(os.Getenv("KEELSON_FAULTS_SEED"), 10, 64)
	r := rand.New(rand.NewPCG(seed, 3))
	disk := newDisk(t, "1200m")
	s := newServer(t)
	s.bin, s.dir = os.Getenv("KEELSON_FAULTS_BIN"), filepath.Join(disk.dir, "data")
	s.start()
	l := newLoad(t, s)
	var names []string
	for name := range failpoints {
		names = append(names, name)
	}
	slices.Sort(names)
	ended := map[string]int{}
	rounds := 0
	for began := time.Now(); time.Since(began) < length && !t.Failed(); rounds++ {
		var fault string
		switch kind := rounds % 4; kind {
		case 0:
			mib := r.Int64N(200)
			fault = fmt.Sprintf("a disk with %d MiB free", mib)
			disk.leave(mib)
			l.run(time.Duration(200+r.IntN(600)) * time.Millisecond)
			disk.leave(400)
			if s.running() {
				l.verify(fault)
			}
		case 1:
			fault = "the limits of the process"
			[]func(*rand.Rand){l.suspend, l.exhaustFiles, l.exhaustMemory}[r.IntN(3)](r)
		default:
			name := names[r.IntN(len(names))]
			does := failpoints[name][r.IntN(len(failpoints[name]))]
			fault = fmt.Sprintf("%s=%.2f%%%s", name, []float64{0.05, 0.5, 5, 50}[r.IntN(4)], does)
			s.stop(syscall.SIGTERM)
			s.env = []string{"GOFAIL_FAILPOINTS=" + fault}
			before := len(s.log.String())
			s.spawn()
			if s.waitReady() == nil {
				l.run(time.Duration(200+r.IntN(800)) * time.Millisecond)
			}
			if log := s.log.String()[before:]; !s.running() {
				ended[name]++
				if !strings.Contains(log, "panic") && !strings.Contains(log, "error") {
					t.Errorf("%s: the server ended without a reason:\n%s", fault, tail(log, 2000))
				}
			}
		}
		l.restart(fault)
		if t.Failed() {
			t.Logf("seed %d, round %d: %s", seed, rounds, fault)
		}
	}
	total := 0
	for _, c := range l.counters {
		total += c.acked
	}
	t.Logf("seed %d: %d faults, %d acknowledged writes, ends by failpoint %v", seed, rounds, total, ended)
	if total == 0 || len(ended) == 0 && rounds > 50 {
		t.Error("nothing was written, or no failpoint was reached")
	}
}

// faultyBin builds the binary with etcd's failpoints, from copies of etcd's modules in a temporary
// folder.
func faultyBin(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	run := func(in string, args ...string) string {
		cmd := exec.Command(args[0], args[1:]...)
		cmd.Dir, cmd.Env = in, append(os.Environ(), "GOBIN="+dir)
		var stderr bytes.Buffer
		cmd.Stderr = &stderr
		out, err := cmd.Output()
		if err != nil {
			t.Fatalf("%v: %v\n%s%s", args, err, out, stderr.Bytes())
		}
		return strings.TrimSpace(string(out))
	}
	const gofail = "go.etcd.io/gofail"
	const version = "v0.2.0"
	run("..", "go", "install", gofail+"@"+version)
	mod := filepath.Join(dir, "go.mod")
	for from, to := range map[string]string{"../go.mod": mod, "../go.sum": filepath.Join(dir, "go.sum")} {
		text, err := os.ReadFile(from)
		if err == nil {
			err = os.WriteFile(to, text, 0o600)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	edit := []string{"go", "mod", "edit", "-require=" + gofail + "@" + version}
	for path, packages := range map[string][]string{
		"go.etcd.io/etcd/server/v3": {"storage/wal", "storage/backend", "storage/mvcc", "etcdserver"},
		"go.etcd.io/bbolt":          {"."},
	} {
		copied := filepath.Join(dir, filepath.Base(path))
		if path == "go.etcd.io/etcd/server/v3" {
			copied = filepath.Join(dir, "etcdserver")
		}
		run("..", "cp", "-r", run("..", "go", "list", "-m", "-f", "{{.Dir}}", path), copied)
		run("..", "chmod", "-R", "u+w", copied)
		run(copied, append([]string{filepath.Join(dir, "gofail"), "enable"}, packages...)...)
		edit = append(edit, "-replace="+path+"="+copied)
	}
	run("..", append(edit, mod)...)
	bin := filepath.Join(dir, "keelson-faulty")
	run("..", "go", "build", "-mod=mod", "-modfile="+mod, "-buildvcs=false", "-o", bin, "./cmd/keelson")
	return bin
}
