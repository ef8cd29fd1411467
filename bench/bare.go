// This file measures etcd alone: the same bytes put by as many at a time. Once they are function calls in etcd's own process, without a
// network or anything else, which is what a server over etcd could do at most; and once etcd is a server and they come over its own API,
// which is what etcd does for whoever drives it as the two servers of the table are driven.

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
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"go.etcd.io/etcd/api/v3/etcdserverpb"
	clientv3 "go.etcd.io/etcd/client/v3"

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
	call := func(_ int, key string) error {
		_, err := e.Server.Put(ctx, &etcdserverpb.PutRequest{Key: []byte(key), Value: bytes.Clone(value)})
		return err
	}
	if _, err := puts(call, "/registry/before/", *n/4, *parallel, 0); err != nil { // it grows its files
		return err
	}
	rate, err := puts(call, "/registry/measured/", *n, *parallel, time.Second)
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

// remoteEtcd measures puts of a value over the API of etcd in a process of its own, with its data below dir, by etcd's own client in this
// process: so many connections, over TLS, with one put under way on each. share is which part of the processors' time was the client's.
func remoteEtcd(ctx context.Context, dir string, value []byte, n, parallel int) (rate, share float64, err error) {
	if dir, err = os.MkdirTemp(dir, "remote-etcd-"); err != nil {
		return 0, 0, err
	}
	defer os.RemoveAll(dir)
	t, err := startEtcd(ctx, dir)
	if err != nil {
		return 0, 0, err
	}
	defer t.stop()
	clients := make([]*clientv3.Client, parallel)
	for k := range clients {
		clients[k], err = clientv3.New(clientv3.Config{Endpoints: []string{"https://" + t.addr}, TLS: t.tls, DialTimeout: time.Minute, Context: ctx})
		if err != nil {
			return 0, 0, err
		}
		defer clients[k].Close()
	}
	text := string(value)
	call := func(k int, key string) error {
		_, err := clients[k].Put(ctx, key, text)
		return err
	}
	if _, err := puts(call, "/registry/before/", n/4, parallel, 0); err != nil {
		return 0, 0, err
	}
	before, err := t.spent()
	if err != nil {
		return 0, 0, err
	}
	if rate, err = puts(call, "/registry/measured/", n, parallel, time.Second); err != nil {
		return 0, 0, err
	}
	after, err := t.spent()
	client, server := after.client-before.client, after.server-before.server
	if client+server > 0 {
		share = float64(client) / float64(client+server)
	}
	return rate, share, err
}

// startEtcd starts etcd alone as a server that is connected to as the servers of the table are.
func startEtcd(ctx context.Context, dir string) (*target, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	ports, err := testports.Free(2)
	if err != nil {
		return nil, err
	}
	pki, err := testpeers.NewPKI(dir)
	if err != nil {
		return nil, err
	}
	t := &target{name: "etcd", addr: fmt.Sprintf("127.0.0.1:%d", ports[0]), tls: pki.Admin, wait: "/health"}
	if err := t.spawn(ctx, dir, "etcd", self, "etcd", "-data-dir", filepath.Join(dir, "data"), "-port", fmt.Sprint(ports[0]),
		"-peer-port", fmt.Sprint(ports[1]), "-ca", pki.CA, "-cert", pki.Cert, "-key", pki.Key); err != nil {
		return nil, err
	}
	if err := t.waitReady(ctx); err != nil {
		t.stop()
		return nil, err
	}
	return t, nil
}

// puts writes n keys below prefix by put, which is called for so many at a time and told by which of them. It goes on with the same keys
// until least is over, and returns how many were done per second.
func puts(put func(k int, key string) error, prefix string, n, parallel int, least time.Duration) (float64, error) {
	var next, done atomic.Int64
	var wg sync.WaitGroup
	errs := make([]error, parallel)
	began := time.Now()
	for k := range parallel {
		wg.Go(func() {
			for i := next.Add(1); (i <= int64(n) || time.Since(began) < least) && errs[k] == nil; i = next.Add(1) {
				errs[k] = put(k, fmt.Sprintf("%sroute-%06d", prefix, i%int64(n)))
				done.Add(1)
			}
		})
	}
	wg.Wait()
	return float64(done.Load()) / time.Since(began).Seconds(), errors.Join(errs...)
}

// etcdAlone is what etcd did alone in one round.
type etcdAlone struct {
	bare   float64 // puts for each second, in process
	remote float64 // over its API
	share  float64 // the client's part of the processors' time of those
}

// beside says how much of what etcd does alone each side does.
func beside(sides []*side, etcd []etcdAlone) string {
	if len(etcd) == 0 {
		return ""
	}
	of := func(figure func(etcdAlone) float64) (all []float64) {
		for _, a := range etcd {
			all = append(all, figure(a))
		}
		return all
	}
	bare, remote := of(func(a etcdAlone) float64 { return a.bare }), of(func(a etcdAlone) float64 { return a.remote })
	var b strings.Builder
	fmt.Fprintf(&b, "\nEtcd alone, puts of a route as the round leaves it: %s /s in process, %s /s over its own API, where the client's share is %.0f %%.\n\n| etcd alone |",
		figure(median(bare)), figure(median(remote)), 100*median(of(func(a etcdAlone) float64 { return a.share })))
	for _, s := range sides {
		b.WriteString(" " + s.name + " |")
	}
	b.WriteString("\n| --- |" + strings.Repeat(" ---: |", len(sides)) + "\n")
	for _, against := range []struct {
		what  string
		rates []float64
	}{{"of bare etcd's rate, in process", bare}, {"of etcd's rate over its own API", remote}} {
		for _, r := range rows() {
			if r.Write {
				fmt.Fprintf(&b, "| %s, %s |%s\n", r.Name, against.what, partsOf(sides, r, against.rates))
			}
		}
	}
	return b.String()
}

// partsOf is the cells of a row that say which part of a rate each side does.
func partsOf(sides []*side, r row, rates []float64) string {
	var b strings.Builder
	for _, s := range sides {
		var all []float64
		for i, v := range s.got[r.Name] {
			all = append(all, v/rates[i])
		}
		if len(all) == 0 {
			b.WriteString(" – |")
			continue
		}
		fmt.Fprintf(&b, " **%.2f** |", median(all))
	}
	return b.String()
}
