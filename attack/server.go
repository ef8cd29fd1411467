package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"
)

// This file runs the binary under attack as a process.

// tokens are the users of the server: the token is the name of the actor.
const tokens = `admin,admin,admin-uid,system:masters
ordinary,ordinary,ordinary-uid
nobody,nobody,nobody-uid
editor,editor,editor-uid
author,author,author-uid
policies,policies,policies-uid
fairness,fairness,fairness-uid,attackers
quotas,quotas,quotas-uid
monitor,monitor,monitor-uid
warden,warden,warden-uid
node,system:node:n1,node-uid,system:nodes
`

// process is a running server. Its log is kept whole; the log of a server that is flooded is a few MiB.
type process struct {
	cmd     *exec.Cmd
	dir     string // the data directory
	address string // host:port
	log     *lockedBuffer
	clock   *paced        // by which its answers are timed
	ended   chan struct{} // closed when the process has ended
}

type lockedBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *lockedBuffer) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.b.Len() > 64<<20 {
		return len(p), nil
	}
	return l.b.Write(p)
}

func (l *lockedBuffer) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}

var readyLine = regexp.MustCompile(`url=https://([0-9.:]+)`)

var errNotReady = errors.New("the server is not ready in time")

// plugins configures the admission plugins that are off by default.
const plugins = `apiVersion: apiserver.config.k8s.io/v1
kind: AdmissionConfiguration
plugins:
- name: EventRateLimit
  configuration:
    apiVersion: eventratelimit.admission.k8s.io/v1alpha1
    kind: Configuration
    limits: [{type: Namespace, qps: 20, burst: 50, cacheSize: 4}, {type: User, qps: 30, burst: 60}, {type: SourceAndObject, qps: 1, burst: 5, cacheSize: 3}]
- name: PodNodeSelector
  configuration: {podNodeSelectorPluginConfig: {clusterDefaultNodeSelector: "a=b", arena: "a=b,c=d"}}
- name: ResourceQuota
  configuration: {apiVersion: apiserver.config.k8s.io/v1, kind: ResourceQuotaConfiguration, limitedResources: [{resource: pods, matchContains: [nvidia.com/gpu]}]}
`

// memoryLimit is the limit of the server's memory in MiB.
const memoryLimit = 448

// flagged are the flags of serve that not every commit has, with their values. FILE is a file with the text of plugins.
var flagged = [][]string{
	{"--memory-limit", strconv.Itoa(memoryLimit) + "Mi"},
	{"--admission-control-config-file", "FILE", "--enable-admission-plugins",
		"EventRateLimit,PodNodeSelector,PodTolerationRestriction,AlwaysPullImages,OwnerReferencesPermissionEnforcement,DenyServiceExternalIPs,LimitPodHardAntiAffinityTopology"},
}

// knownFlags returns those of flagged that a binary has.
func knownFlags(ctx context.Context, binary string) (args []string, err error) {
	help, err := exec.CommandContext(ctx, binary, "serve", "--help").CombinedOutput()
	if err != nil {
		return nil, fmt.Errorf("%s serve --help: %w", binary, err)
	}
	for _, f := range flagged {
		if bytes.Contains(help, []byte(f[0]+" ")) {
			args = append(args, f...)
		}
	}
	return args, nil
}

// start starts the binary on a data directory, and waits until it is ready.
func start(ctx context.Context, o *options, dir string) (*process, error) {
	file, config := filepath.Join(filepath.Dir(dir), "tokens.csv"), filepath.Join(filepath.Dir(dir), "plugins.yaml")
	if err := errors.Join(os.WriteFile(file, []byte(tokens), 0o600), os.WriteFile(config, []byte(plugins), 0o600)); err != nil {
		return nil, err
	}
	p := &process{dir: dir, log: &lockedBuffer{}, ended: make(chan struct{})}
	args := []string{"serve", "--data-dir", dir, "--secure-port", "0", "--token-auth-file", file, "--authorization-mode", "Node,RBAC"}
	for _, arg := range o.flags {
		args = append(args, strings.Replace(arg, "FILE", config, 1))
	}
	p.cmd = exec.Command(o.binary, args...)
	p.cmd.Stdout, p.cmd.Stderr = p.log, p.log
	p.cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if err := p.cmd.Start(); err != nil {
		return nil, err
	}
	clocked, stop := context.WithCancel(context.Background())
	p.clock = newPaced(clocked, p.cmd.Process.Pid, o.machine)
	go func() {
		p.cmd.Wait()
		stop()
		close(p.ended)
	}()
	for wait := max(30*time.Second, 2*o.patience); ; time.Sleep(20 * time.Millisecond) {
		if m := readyLine.FindStringSubmatch(p.log.String()); m != nil {
			p.address = m[1]
			return p, nil
		}
		if !p.running() {
			return p, fmt.Errorf("the server ended: %v", p.cmd.ProcessState)
		}
		if p.clock.time() > wait || ctx.Err() != nil {
			return p, errNotReady
		}
	}
}

func (p *process) running() bool {
	select {
	case <-p.ended:
		return false
	default:
		return true
	}
}

// kill ends the process at once, as a power failure does.
func (p *process) kill() {
	p.cmd.Process.Kill()
	<-p.ended
}

// resident is the resident memory of the process in bytes, 0 if it has ended.
func (p *process) resident() int64 { return residentOf(p.cmd.Process.Pid) }

// peakOf is the most memory that a process ever had resident, in bytes, 0 if it has ended. What the kernel tells at the end of a process
// begins with the memory of the one that it was forked from.
func peakOf(pid int) int64 {
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		return 0
	}
	_, rest, _ := strings.Cut(string(status), "VmHWM:")
	var kib int64
	fmt.Sscan(rest, &kib)
	return kib << 10
}

func residentOf(pid int) int64 {
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/statm", pid))
	if err != nil {
		return 0
	}
	fields := strings.Fields(string(b))
	if len(fields) < 2 {
		return 0
	}
	pages, _ := strconv.ParseInt(fields[1], 10, 64)
	return pages * int64(os.Getpagesize())
}

// processor is the processor time that the process has used.
func (p *process) processor() time.Duration {
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", p.cmd.Process.Pid))
	if err != nil {
		return 0
	}
	_, rest, _ := strings.Cut(string(b), ") ")
	fields := strings.Fields(rest)
	if len(fields) < 13 {
		return 0
	}
	user, _ := strconv.ParseInt(fields[11], 10, 64)
	system, _ := strconv.ParseInt(fields[12], 10, 64)
	return time.Duration(user+system) * 10 * time.Millisecond // ticks of USER_HZ, 100 on Linux
}

// files is the number of files and sockets that the process holds open.
func (p *process) files() int {
	entries, err := os.ReadDir(fmt.Sprintf("/proc/%d/fd", p.cmd.Process.Pid))
	if err != nil {
		return 0
	}
	return len(entries)
}

// stored is the size of the database in bytes.
func (p *process) stored() int64 {
	var n int64
	filepath.WalkDir(p.dir, func(path string, d fs.DirEntry, err error) error {
		if err == nil && d.Name() == "db" {
			if info, err := d.Info(); err == nil {
				n += info.Size()
			}
		}
		return nil
	})
	return n
}

// crash matches what Go and the server print when something went wrong that must not.
var crash = regexp.MustCompile(`(?m)^(panic: .*|fatal error: .*|runtime: .*stack exceeds.*|goroutine \d+ \[.*)|.*(level=ERROR.*\bpanic|runtime error:|http2?: panic serving|BUG: ).*`)

// crashed is the first line of the log that tells of a panic, "" if there is none.
func (p *process) crashed() string {
	line := crash.FindString(p.log.String())
	return line[:min(len(line), 400)]
}

// copyTree copies a directory of files. Files that vanish while it is copied are left out.
func copyTree(to, from string) error {
	return filepath.WalkDir(from, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		rel, err := filepath.Rel(from, path)
		if err != nil {
			return err
		}
		target := filepath.Join(to, rel)
		if d.IsDir() {
			return os.MkdirAll(target, 0o700)
		}
		if !d.Type().IsRegular() {
			return nil
		}
		in, err := os.Open(path)
		if err != nil {
			return err
		}
		defer in.Close()
		out, err := os.OpenFile(target, os.O_CREATE|os.O_WRONLY|os.O_EXCL, 0o600)
		if err != nil {
			return err
		}
		_, err = io.Copy(out, in)
		return errors.Join(err, out.Close())
	})
}
