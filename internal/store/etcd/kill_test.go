package etcd

// This file kills a process that writes, and looks what is left.

import (
	"bufio"
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"testing"
	"time"
)

const childDir = "KEELSON_ETCD_TEST_CHILD"

func TestMain(m *testing.M) {
	if dir := os.Getenv(childDir); dir != "" {
		if err := child(dir); err != nil {
			fmt.Println("error", err)
			os.Exit(1)
		}
		return
	}
	if dir := os.Getenv(childMemory); dir != "" {
		if err := childReport(dir); err != nil {
			fmt.Println("error", err)
		}
		return
	}
	os.Exit(m.Run())
}

// child writes and says what was acknowledged, until it is killed.
func child(dir string) error {
	ctx := context.Background()
	s, err := Open(ctx, Config{DataDir: dir})
	if err != nil {
		return err
	}
	fmt.Println("ready", 0)
	for i := 0; ; i++ {
		key := fmt.Sprintf("g/p/%d-%d", os.Getpid(), i)
		rev, err := s.Create(ctx, key, []byte(key))
		if err != nil {
			return err
		}
		fmt.Println(key, rev)
	}
}

// runChild kills a child some time after it is ready, or after it was started, and returns what it said.
func runChild(t *testing.T, dir string, after time.Duration, fromReady bool) map[string]int64 {
	t.Helper()
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), childDir+"="+dir)
	out, err := cmd.StdoutPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	if !fromReady {
		time.AfterFunc(after, func() { cmd.Process.Kill() })
	}
	acked := map[string]int64{}
	lines := bufio.NewScanner(out)
	for lines.Scan() {
		key, rev, _ := strings.Cut(lines.Text(), " ")
		switch key {
		case "error":
			t.Errorf("child: %s", lines.Text())
		case "ready":
			if fromReady {
				time.AfterFunc(after, func() { cmd.Process.Kill() })
			}
		default:
			n, err := strconv.ParseInt(rev, 10, 64)
			if err == nil {
				acked[key] = n
			}
		}
	}
	cmd.Wait()
	return acked
}

func TestKill(t *testing.T) {
	dir := t.TempDir()
	all := map[string]int64{}
	for round := range 12 {
		ready := round%2 == 1
		after := time.Duration(rand.IntN(80)) * time.Millisecond
		if ready {
			after = time.Duration(20+rand.IntN(150)) * time.Millisecond
		}
		for key, rev := range runChild(t, dir, after, ready) {
			all[key] = rev
		}
		if !ready && round > 0 {
			continue
		}
		s, err := Open(context.Background(), Config{DataDir: dir})
		if err != nil {
			t.Fatalf("round %d: %v", round, err)
		}
		for key, rev := range all {
			if it, err := s.Get(context.Background(), key); err != nil || it.Rev != rev || string(it.Value) != key {
				t.Fatalf("round %d: acknowledged write of %s at %d: got %+v, %v", round, key, rev, it, err)
			}
		}
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
	}
	t.Logf("%d acknowledged writes", len(all))
	if len(all) == 0 {
		t.Error("nothing was written")
	}
}
