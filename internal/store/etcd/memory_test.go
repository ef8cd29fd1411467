package etcd

// This file measures the memory of a process that has nothing but the embedded server, with -run TestMemory -v.

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"testing"
)

const childMemory = "KEELSON_ETCD_TEST_MEMORY"

// childReport writes objects and says how much memory that took.
func childReport(dir string) error {
	ctx := context.Background()
	rss("process")
	s, err := Open(ctx, Config{DataDir: dir})
	if err != nil {
		return err
	}
	rss("open")
	for i := range 2000 {
		if _, err := s.Create(ctx, fmt.Sprintf("g/p/ns/%d", i), benchValue); err != nil {
			return err
		}
	}
	rss("2000 objects")
	for i := range 2000 {
		it, err := s.Get(ctx, fmt.Sprintf("g/p/ns/%d", i))
		if err != nil {
			return err
		}
		if _, err = s.Update(ctx, it.Key, benchValue, it.Rev); err != nil {
			return err
		}
	}
	rss("2000 updates")
	return s.Close()
}

// rss prints what the kernel counts for this process.
func rss(when string) {
	status, _ := os.ReadFile("/proc/self/status")
	for line := range strings.Lines(string(status)) {
		if strings.HasPrefix(line, "VmRSS") || strings.HasPrefix(line, "RssAnon") {
			fmt.Printf("%s: %s\n", when, strings.Join(strings.Fields(line), " "))
		}
	}
}

func TestMemory(t *testing.T) {
	if !testing.Verbose() {
		t.Skip("only for its output")
	}
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), childMemory+"="+t.TempDir())
	out, err := cmd.CombinedOutput()
	t.Logf("%s%v", out, err)
}
