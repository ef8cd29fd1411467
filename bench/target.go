// This file starts, finds ready, measures and stops the servers under test.

package main

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/keelson-io/keelson/internal/testports"
)

// target is a server under test with every process that it needs.
type target struct {
	name  string
	addr  string      // host:port
	tls   *tls.Config // with the client certificate of an administrator
	wait  string      // path that answers 200 when the server is ready
	procs []*exec.Cmd
	dead  chan error
	aside time.Duration // what the server's own etcd took of ready
	ready time.Duration // from the first process to the first 200 of wait
}

// spawn starts one process of the target; its output goes to a file in dir.
func (t *target) spawn(ctx context.Context, dir, what, bin string, args ...string) error {
	log, err := os.Create(filepath.Join(dir, what+".log"))
	if err != nil {
		return err
	}
	defer log.Close()
	cmd := exec.CommandContext(ctx, bin, args...)
	cmd.Stdout, cmd.Stderr = log, log
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if err := cmd.Start(); err != nil {
		return err
	}
	if t.dead == nil {
		t.dead = make(chan error, 4)
	}
	t.procs = append(t.procs, cmd)
	go func() {
		err := cmd.Wait()
		tail, _ := os.ReadFile(log.Name())
		t.dead <- fmt.Errorf("%s %s ended: %v\n%s", t.name, what, err, tail[max(0, len(tail)-2000):])
	}()
	return nil
}

// stop asks every process to end, last started first, and insists after a while.
func (t *target) stop() {
	for i := len(t.procs) - 1; i >= 0; i-- {
		t.procs[i].Process.Signal(syscall.SIGTERM)
		select {
		case <-t.dead:
		case <-time.After(5 * time.Second):
			t.procs[i].Process.Kill()
			<-t.dead
		}
	}
	t.procs = nil
}

func (t *target) waitReady(ctx context.Context) error {
	return waitHTTP(ctx, t, "https://"+t.addr+t.wait)
}

func waitHTTP(ctx context.Context, t *target, url string) error {
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	tr := &http.Transport{TLSClientConfig: t.tls}
	defer tr.CloseIdleConnections()
	client := http.Client{Transport: tr, Timeout: 10 * time.Second}
	for {
		resp, err := client.Get(url)
		if err == nil {
			resp.Body.Close()
			if resp.StatusCode == http.StatusOK {
				return nil
			}
		}
		select {
		case err := <-t.dead:
			t.dead <- err
			return err
		case <-ctx.Done():
			return fmt.Errorf("%s: not ready: %w", url, errors.Join(ctx.Err(), err))
		case <-time.After(2 * time.Millisecond):
		}
	}
}

// memory is the resident memory of all processes of the target, in bytes.
func (t *target) memory() (int64, error) {
	var sum int64
	for _, p := range t.procs {
		b, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", p.Process.Pid))
		if err != nil {
			return 0, err
		}
		for line := range strings.Lines(string(b)) {
			if f := strings.Fields(line); len(f) == 3 && f[0] == "VmRSS:" {
				kb, err := strconv.ParseInt(f[1], 10, 64)
				if err != nil {
					return 0, err
				}
				sum += kb << 10
			}
		}
	}
	return sum, nil
}

// spent is the processors' time that was used so far.
type spent struct{ client, server time.Duration }

// ticksPerSecond is in what Linux counts the processors' time of another process.
const ticksPerSecond = 100

// spent returns what this process and all processes of the target have used.
func (t *target) spent() (spent, error) {
	var s spent
	var own syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &own); err != nil {
		return s, err
	}
	s.client = time.Duration(own.Utime.Nano() + own.Stime.Nano())
	for _, p := range t.procs {
		b, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", p.Process.Pid))
		if err != nil {
			return s, err
		}
		// The name, in parentheses, may hold anything; times are the 14th and 15th field of proc_pid_stat(5).
		f := strings.Fields(string(b[bytes.LastIndexByte(b, ')')+1:]))
		for _, text := range f[11:13] {
			n, err := strconv.ParseInt(text, 10, 64)
			if err != nil {
				return s, err
			}
			s.server += time.Duration(n) * time.Second / ticksPerSecond
		}
	}
	return s, nil
}

// startKeelson starts the binary with a fresh data directory below dir.
func startKeelson(ctx context.Context, bin, dir string) (*target, error) {
	began := time.Now()
	ports, err := testports.Free(1)
	if err != nil {
		return nil, err
	}
	data := filepath.Join(dir, "data")
	t := &target{name: "keelson", addr: fmt.Sprintf("127.0.0.1:%d", ports[0]), wait: "/readyz"}
	if err := t.spawn(ctx, dir, "server", bin, "serve", "--data-dir", data, "--secure-port", fmt.Sprint(ports[0])); err != nil {
		return nil, err
	}
	if t.tls, err = t.kubeconfigTLS(ctx, filepath.Join(data, "admin.kubeconfig")); err == nil {
		err = t.waitReady(ctx)
	}
	if err != nil {
		t.stop()
		return nil, err
	}
	t.ready = time.Since(began)
	return t, nil
}

// kubeconfigTLS waits for the kubeconfig that the server writes at its first start.
func (t *target) kubeconfigTLS(ctx context.Context, file string) (*tls.Config, error) {
	deadline := time.Now().Add(time.Minute)
	for {
		cfg, err := clientcmd.BuildConfigFromFlags("", file)
		if err == nil {
			tc, err := rest.TLSConfigFor(cfg)
			if err == nil {
				tc.NextProtos = nil
			}
			return tc, err
		}
		select {
		case err := <-t.dead:
			t.dead <- err
			return nil, err
		case <-ctx.Done():
			return nil, ctx.Err()
		case <-time.After(2 * time.Millisecond):
		}
		if time.Now().After(deadline) {
			return nil, err
		}
	}
}
