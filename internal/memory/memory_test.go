package memory

import (
	"context"
	"errors"
	"log/slog"
	"math"
	"os"
	"path/filepath"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil"
)

// governorOf returns a Governor for 1 GiB that measures *m, in a process that stores *stored bytes.
func governorOf(m *measured, stored *int64) *Governor {
	g := New(1<<30, slog.New(slog.DiscardHandler))
	g.read = func() measured { return *m }
	g.Track(Stored, g.shares.Stored, func() int64 { return *stored })
	return g
}

// TestTight lets the live heap grow and shrink, and looks who waits and what is dropped.
func TestTight(t *testing.T) {
	t.Setenv("GOMEMLIMIT", "off") // the test's process is no server
	synctest.Test(t, func(t *testing.T) {
		m, stored, dropped := measured{live: 100 << 20, files: programFiles, cycles: 1}, int64(0), 0
		g := governorOf(&m, &stored)
		g.Evict("views", func() { dropped++ })
		g.look(time.Now())
		if g.Tight() || dropped > 0 || !g.Await(t.Context()) {
			t.Fatalf("with 100 MiB live: tight %v, %d evictions, want neither", g.Tight(), dropped)
		}
		m.live, m.cycles = g.goal.Load()/4*3, 2
		g.look(time.Now())
		if !g.Tight() || dropped != 1 {
			t.Fatalf("with three quarters live: tight %v, %d evictions, want 1", g.Tight(), dropped)
		}
		// Who gives up is refused, who waits goes on.
		short, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if g.Await(short) {
			t.Error("a request was let in while the memory was tight")
		}
		if n := testutil.ToFloat64(g.refusals.WithLabelValues(reasonTight)); n != 1 {
			t.Errorf("%v refusals are counted, want 1", n)
		}
		let := make(chan bool)
		go func() { let <- g.Await(t.Context()) }()
		synctest.Wait()
		m.live, m.cycles = 100<<20, 3
		g.look(time.Now())
		if !<-let || g.Tight() {
			t.Error("nobody goes on when the memory is not tight any more")
		}
	})
}

// TestTightEnds holds that a server that lets nobody in collects garbage by itself, and ever less often if that does not help.
func TestTightEnds(t *testing.T) {
	t.Setenv("GOMEMLIMIT", "off")
	synctest.Test(t, func(t *testing.T) {
		m, stored, dropped := measured{live: 900 << 20, cycles: 1}, int64(0), 0
		g := governorOf(&m, &stored)
		g.Evict("views", func() { dropped++ })
		for range 600 {
			g.look(time.Now())
			time.Sleep(every)
		}
		if dropped < 4 || dropped > 12 {
			t.Errorf("caches were dropped %d times in a minute, want at most 12", dropped)
		}
	})
}

// TestGrow fills the share of what is stored.
func TestGrow(t *testing.T) {
	var m measured
	stored := int64(0)
	g := governorOf(&m, &stored)
	share := g.Shares().Stored
	if err := g.Grow(share, false); err != nil {
		t.Errorf("what just fits: %v", err)
	}
	stored = share
	var full *ErrStored
	if err := g.Grow(1, false); !errors.As(err, &full) || full.Share != share {
		t.Errorf("one byte too many: got %v, want *ErrStored", err)
	}
	if err := g.Grow(1, true); err != nil {
		t.Errorf("a privileged write: %v", err)
	}
	if stored = share + share/16; g.Grow(1, true) == nil {
		t.Error("privileged writes have no bound")
	}
	stored = share / 2
	if err := g.Grow(1, false); err != nil {
		t.Errorf("after deletes: %v", err)
	}
	if n := testutil.ToFloat64(g.refusals.WithLabelValues(reasonStored)); n != 2 {
		t.Errorf("%v refusals are counted, want 2", n)
	}
	if problems, err := testutil.CollectAndLint(g); err != nil || len(problems) > 0 {
		t.Errorf("metrics: %v %v", problems, err)
	}
}

// TestMadeIsWorkingMemory holds that what is made of stored objects bounds writes, and does not make the process larger.
func TestMadeIsWorkingMemory(t *testing.T) {
	t.Setenv("GOMEMLIMIT", "off") // the goal of this test is not that of its process
	var m measured
	stored, made := int64(0), int64(0)
	g := governorOf(&m, &stored)
	g.Track(Made, 0, func() int64 { return made })
	goal := func() int64 { g.look(time.Now()); return g.goal.Load() }
	empty := goal()
	stored, made = 4*goalStep, 4*goalStep
	if got := goal(); got != empty {
		t.Errorf("with what is made of some bytes: got a goal of %d MiB, want the %d of an empty server", got>>20, empty>>20)
	}
	if err := g.Grow(g.Shares().Stored-stored+1, false); err == nil {
		t.Error("what is made does not bound writes")
	}
	if made = 0; goal() <= empty {
		t.Errorf("with stored bytes: got a goal of %d MiB, want more than the %d of an empty server", goal()>>20, empty>>20)
	}
}

// TestNoLimit calls the methods of a server without a limit.
func TestNoLimit(t *testing.T) {
	g := New(0, nil)
	g.Track("a", 0, nil)
	g.Evict("b", nil)
	g.Run(t.Context())
	if g != nil || g.Tight() || !g.Await(t.Context()) || g.Grow(math.MaxInt64, false) != nil {
		t.Error("a server without a limit is limited")
	}
}

// TestShares holds what the parts of limits of all sizes come to.
func TestShares(t *testing.T) {
	for limit := int64(Least); limit < 1<<45; limit += limit / 3 {
		s := SharesOf(limit)
		stored := s.Stored
		if stored <= 0 || stored > limit*3/8 || s.Work <= 0 || s.Work > limit/4 || s.Views > 256<<20 || s.Webhooks > 512<<20 {
			t.Fatalf("%d MiB: %+v", limit>>20, s)
		}
		if goal := s.heap(programFiles, stored); goal+programFiles > limit {
			t.Errorf("%d MiB: the heap may have %d MiB when all is stored that may be", limit>>20, goal>>20)
		}
		if goal := s.heap(programFiles, 0); goal < leastHeap || goal > limit/2 {
			t.Errorf("%d MiB: the heap of an empty server may have %d MiB", limit>>20, goal>>20)
		}
	}
}

// TestParseLimit reads quantities.
func TestParseLimit(t *testing.T) {
	for text, want := range map[string]int64{"0": 0, "1Gi": 1 << 30, "512Mi": 512 << 20, "1G": 1e9, "2e9": 2e9, "4294967296": 1 << 32} {
		if got, err := ParseLimit(text); err != nil || got != want {
			t.Errorf("%s: got %d, %v, want %d", text, got, err, want)
		}
	}
	for _, text := range []string{"1", "-1Gi", "100Mi", "x", "1Gb", "100m", "-1m", "0.5"} {
		if got, err := ParseLimit(text); err == nil {
			t.Errorf("%s: got %d, want an error", text, got)
		}
	}
}

// TestAvailable finds the least of the limits of a machine and of cgroups.
func TestAvailable(t *testing.T) {
	const machine = "MemTotal:        4194304 kB\nMemFree: 1 kB\n"
	for name, row := range map[string]struct {
		files map[string]string
		want  int64
	}{
		"machine":      {map[string]string{"proc/meminfo": machine, "proc/self/cgroup": "0::/\n"}, 3 << 30},
		"cgroup 2":     {map[string]string{"proc/meminfo": machine, "proc/self/cgroup": "0::/a/b\n", "sys/fs/cgroup/a/b/memory.max": "max\n", "sys/fs/cgroup/a/memory.max": "1073741824\n"}, 3 << 28},
		"container":    {map[string]string{"proc/meminfo": machine, "proc/self/cgroup": "0::/../../x\n", "sys/fs/cgroup/memory.max": "1073741824\n"}, 3 << 28},
		"cgroup 1":     {map[string]string{"proc/meminfo": machine, "proc/self/cgroup": "5:cpu:/a\n4:memory:/a\n", "sys/fs/cgroup/memory/a/memory.limit_in_bytes": "536870912\n"}, 3 << 27},
		"unlimited":    {map[string]string{"proc/meminfo": machine, "proc/self/cgroup": "4:memory:/\n", "sys/fs/cgroup/memory/memory.limit_in_bytes": "9223372036854771712\n"}, 3 << 30},
		"nothing":      {nil, 0},
		"other system": {map[string]string{"proc/meminfo": "?\n"}, 0},
	} {
		root := t.TempDir()
		for file, text := range row.files {
			path := filepath.Join(root, file)
			if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		if got := available(root); got != row.want {
			t.Errorf("%s: got %d, want %d", name, got, row.want)
		}
	}
}

// TestPendingHeadersHaveAShare checks what headers that have not arrived completely may take in servers with different limits.
func TestPendingHeadersHaveAShare(t *testing.T) {
	for _, test := range []struct{ limit, want int64 }{
		{0, 32 << 20}, {64 << 30, 32 << 20}, {448 << 20, 8<<20 + 640<<10}, {Least, leastPending},
	} {
		if got := SharesOf(test.limit).Pending; got != test.want {
			t.Errorf("limit of %d MiB: got %d KiB, want %d KiB", test.limit>>20, got>>10, test.want>>10)
		}
	}
}
