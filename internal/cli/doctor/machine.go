package doctor

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"net"
	"os"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/keelson-io/keelson/internal/cli/command"
	"github.com/keelson-io/keelson/internal/store/etcd"
)

// This file checks the machine and its network: ports, limits, the disk, and the servers of etcd.

// portChecks returns the checks of the ports that the server listens on.
func (d *doctor) portChecks(running bool) []check {
	secure := net.JoinHostPort(d.bindAddress, strconv.Itoa(d.securePort))
	checks := []check{{"secure-port", func(ctx context.Context) finding {
		if d.securePort == 0 {
			return finding{Status: ok, Found: "the server chooses a free port"}
		}
		return checkPort(ctx, secure, "--secure-port", "%d", running)
	}}}
	if d.healthAddress != "" {
		checks = append(checks, check{"health-bind-address", func(ctx context.Context) finding {
			if d.healthAddress == secure {
				return finding{Status: problem, Found: secure + " is the address of --secure-port, too", Advice: "Choose another port for one of them."}
			}
			host, _, err := net.SplitHostPort(d.healthAddress)
			if err != nil {
				panic("BUG: the address was checked: " + err.Error())
			}
			return checkPort(ctx, d.healthAddress, "--health-bind-address", net.JoinHostPort(host, "%d"), running)
		}})
	}
	return checks
}

// checkPort listens on an address for a moment. flag sets the address, value is the format of its
// value for a port.
func checkPort(ctx context.Context, address, flag, value string, running bool) finding {
	l, err := new(net.ListenConfig).Listen(ctx, "tcp", address)
	switch {
	case err == nil:
		l.Close()
		if running {
			return finding{Status: ok, Found: address + " is free; the running server uses another address"}
		}
		return finding{Status: ok, Found: address + " is free"}
	case errors.Is(err, syscall.EADDRINUSE) && running:
		return finding{Status: ok, Found: address + " is taken, which is expected: a server is running in the data directory"}
	case errors.Is(err, syscall.EADDRINUSE):
		return finding{Status: problem, Found: address + " is taken by another program", Advice: takenAdvice(address, flag, value)}
	case errors.Is(err, fs.ErrPermission):
		return finding{Status: problem, Found: err.Error(),
			Advice: "Ports below 1024 need a privilege: choose a higher one with " + flag + ", or set AmbientCapabilities=CAP_NET_BIND_SERVICE in the unit of systemd."}
	case errors.Is(err, syscall.EADDRNOTAVAIL):
		return finding{Status: problem, Found: err.Error(), Advice: "The address is not one of this machine: choose one that ip address lists, or 0.0.0.0 for all of them."}
	}
	return finding{Status: problem, Found: err.Error(), Advice: "Choose another address or port with --bind-address and " + flag + "."}
}

// takenAdvice returns what to do about an address that is taken.
func takenAdvice(address, flag, value string) string {
	host, port, err := net.SplitHostPort(address)
	if err != nil {
		panic("BUG: somebody listens on the address: " + err.Error())
	}
	advice := "Stop that program (ss -ltnp shows it), or choose another port"
	number, err := strconv.Atoi(port)
	if err != nil {
		return advice + " with " + flag + "." // a name, such as http-alt
	}
	if next, found := command.FreePort(host, number); found {
		return fmt.Sprintf("%s: the next free one is %s "+value, advice, flag, next)
	}
	return advice + " with " + flag + "."
}

// wantFiles is the number of open files below which a warning is due: each connection needs one.
const wantFiles = 4096

// checkOpenFiles checks the limit on open files. Go raises the soft limit of each process to the
// hard one, also for the server.
func (d *doctor) checkOpenFiles(context.Context) finding {
	n := d.openFiles()
	switch {
	case n == 0:
		return finding{Status: ok, Found: "no limit is set, or this system does not report one"}
	case n < wantFiles:
		return finding{Status: warning, Found: fmt.Sprintf("the limit is %d, want at least %d: each connection needs one", n, wantFiles),
			Advice: "Raise it: ulimit -n 65536 as root in the shell that starts the server, or LimitNOFILE=65536 in the unit of systemd."}
	}
	return finding{Status: ok, Found: fmt.Sprintf("the limit is %d", n)}
}

// Free space in bytes below which a warning is due, or there is a problem. A first start needs 160
// MiB, and writes need 96 MiB.
const (
	enoughSpace = 1 << 30
	leastSpace  = 256 << 20
)

// checkSpace checks the free space of the data directory's file system.
func (d *doctor) checkSpace(context.Context) finding {
	dir := existing(d.dataDir)
	free, err := d.freeBytes(dir)
	switch {
	case err != nil:
		return finding{Status: warning, Found: fmt.Sprintf("the free space of %s is unknown: %v", dir, err), Advice: "Run the command as the user who runs the server."}
	case free == math.MaxInt64:
		return finding{Status: ok, Found: "not checked on this system"}
	}
	f := finding{Status: ok, Found: fmt.Sprintf("%d MiB are free on the file system of %s", free>>20, dir)}
	if free < enoughSpace {
		f.Status = warning
		f.Advice = "Make room, or use a larger disk. The server refuses writes below 96 MiB, and a first start needs 160 MiB."
	}
	if free < leastSpace {
		f.Status = problem
	}
	return f
}

// slowSync is the time of a sync of a file above which a warning is due.
const slowSync = 10 * time.Millisecond

// checkSync measures how long the disk takes to sync a small file.
func (d *doctor) checkSync(ctx context.Context) finding {
	dir := existing(d.dataDir)
	median, err := d.timeSync(ctx, dir)
	if errors.Is(err, fs.ErrPermission) || errors.Is(err, syscall.EROFS) {
		return finding{Status: warning, Found: fmt.Sprintf("not measured: %v", err), Advice: "Run the command as the user who runs the server."}
	}
	if err != nil {
		return finding{Status: problem, Found: fmt.Sprintf("the disk of %s cannot sync a small file: %v", dir, err), Advice: "Look for errors of the disk in the log of the system, such as dmesg."}
	}
	found := fmt.Sprintf("a sync of a small file in %s takes %s", dir, strconv.FormatFloat(float64(median)/1e6, 'f', 1, 64)+" ms")
	if median > slowSync {
		return finding{Status: warning, Found: found + ", want at most 10 ms: every acknowledged write waits for one",
			Advice: "Use a local SSD for the data directory, and look for other programs that write to the same disk (iostat -x 1)."}
	}
	return finding{Status: ok, Found: found}
}

// How timeSync measures.
const (
	syncs    = 15
	syncTime = 1500 * time.Millisecond // after which no other sync begins
)

// timeSync returns the median time of some writes of 4 KiB, each with a sync, to a new file in dir.
// It removes the file, also if ctx ends during a sync.
func timeSync(ctx context.Context, dir string) (time.Duration, error) {
	f, err := os.CreateTemp(dir, ".keelson-doctor-*")
	if err != nil {
		return 0, err
	}
	defer os.Remove(f.Name()) // after the file is closed, which other systems need
	defer f.Close()
	type measured struct {
		times []time.Duration
		err   error
	}
	done := make(chan measured, 1)
	go func() {
		times, err := writeAndSync(ctx, f)
		done <- measured{times, err}
	}()
	select {
	case m := <-done:
		if m.err != nil {
			return 0, m.err
		}
		slices.Sort(m.times)
		return m.times[len(m.times)/2], nil
	case <-ctx.Done():
		return 0, ctx.Err()
	}
}

// writeAndSync writes the same block again and again, and returns how long each write took until it
// was on the disk. The first write, for which the file system finds a place, does not count.
func writeAndSync(ctx context.Context, f *os.File) ([]time.Duration, error) {
	block := make([]byte, 4096)
	var times []time.Duration
	began := time.Now()
	for i := range syncs + 1 {
		from := time.Now()
		if _, err := f.WriteAt(block, 0); err != nil {
			return nil, err
		}
		if err := f.Sync(); err != nil {
			return nil, err
		}
		if took := time.Since(from); i > 0 || took > syncTime {
			times = append(times, took)
		}
		if len(times) > 0 && time.Since(began) > syncTime || ctx.Err() != nil {
			break
		}
	}
	if len(times) == 0 {
		return nil, ctx.Err()
	}
	return times, nil
}

// checkMember asks a server of etcd about itself.
func (d *doctor) checkMember(ctx context.Context, url string) finding {
	member, err := etcd.Probe(ctx, etcd.Config{CAFile: d.etcdCAFile, CertFile: d.etcdCertFile, KeyFile: d.etcdKeyFile}, url)
	if err != nil {
		return finding{Status: problem, Found: err.Error(), Advice: "Check that etcd runs there, that this machine reaches it, and that the certificates in --etcd-cafile, --etcd-certfile and --etcd-keyfile are those of the cluster."}
	}
	found := fmt.Sprintf("%s answers, etcd %s", url, member.Version)
	if !member.HasLeader {
		return finding{Status: problem, Found: found + "; its cluster has no leader and accepts no writes", Advice: "Start the other members: more than half of them must run."}
	}
	if len(member.Problems) > 0 {
		return finding{Status: problem, Found: found + "; it reports " + strings.Join(member.Problems, ", "), Advice: "See etcdctl alarm list, and the documentation of etcd."}
	}
	return finding{Status: ok, Found: found}
}
