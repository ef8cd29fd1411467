// This file measures etcd alone: the same bytes put by as many at a time, in this process, without a network. It is what a server over
// etcd could do at most.

package main

import (
	"bytes"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/server/v3/embed"

	"github.com/keelson-io/keelson/internal/testpeers"
	"github.com/keelson-io/keelson/internal/testports"
)

// runPuts is the command "bench puts": it prints how many puts of what comes in are done per second.
func runPuts(ctx context.Context, args []string) error {
	fs := flag.NewFlagSet("puts", flag.ExitOnError)
	dir := fs.String("data-dir", "", "")
	n := fs.Int("n", 0, "puts")
	parallel := fs.Int("c", 0, "how many at a time")
	if err := fs.Parse(args); err != nil {
		return err
	}
	value, err := io.ReadAll(os.Stdin)
	if err != nil {
		return err
	}
	ports, err := testports.Free(2)
	if err != nil {
		return err
	}
	e, err := testpeers.StartEtcd(*dir, ports[0], ports[1])
	if err != nil {
		return err
	}
	defer e.Close()
	if _, err := puts(ctx, e, "/registry/before/", value, *n/4, *parallel, 0); err != nil { // it grows its files
		return err
	}
	rate, err := puts(ctx, e, "/registry/measured/", value, *n, *parallel, time.Second)
	if err == nil {
		fmt.Println(rate)
	}
	return err
}

// bareEtcd measures puts of a value in a process of its own, with its data below dir.
func bareEtcd(ctx context.Context, dir string, value []byte, n, parallel int) (float64, error) {
	self, err := os.Executable()
	if err != nil {
		return 0, err
	}
	data, err := os.MkdirTemp(dir, "bare-etcd-")
	if err != nil {
		return 0, err
	}
	defer os.RemoveAll(data)
	cmd := exec.CommandContext(ctx, self, "puts", "-data-dir", data, "-n", strconv.Itoa(n), "-c", strconv.Itoa(parallel))
	cmd.Stdin, cmd.Stderr = bytes.NewReader(value), os.Stderr
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	out, err := cmd.Output()
	if err != nil {
		return 0, fmt.Errorf("%s: %w", cmd, err)
	}
	return strconv.ParseFloat(strings.TrimSpace(string(out)), 64)
}

// puts writes n keys below prefix with the value, so many at a time, goes on with the same keys until least is over, and returns how
// many were done per second.
func puts(ctx context.Context, e *embed.Etcd, prefix string, value []byte, n, parallel int, least time.Duration) (float64, error) {
	var next, done atomic.Int64
	var wg sync.WaitGroup
	errs := make([]error, parallel)
	began := time.Now()
	for k := range parallel {
		wg.Go(func() {
			for i := next.Add(1); (i <= int64(n) || time.Since(began) < least) && errs[k] == nil; i = next.Add(1) {
				_, errs[k] = e.Server.Put(ctx, &etcdserverpb.PutRequest{Key: fmt.Appendf(nil, "%sroute-%06d", prefix, i%int64(n)), Value: bytes.Clone(value)})
				done.Add(1)
			}
		})
	}
	wg.Wait()
	return float64(done.Load()) / time.Since(began).Seconds(), errors.Join(errs...)
}
