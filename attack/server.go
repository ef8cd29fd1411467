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
node,system:node:n1,node-uid,system:nodes
`

// process is a running server. Its log is kept whole; the log of a server that is flooded is a few MiB.
type process struct {
	cmd     *exec.Cmd
	dir     string // the data directory
	address string // host:port
	log     *lockedBuffer
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

// start starts the binary on a data directory, and waits until it is ready.
func start(ctx context.Context, binary, dir string, wait time.Duration) (*process, error) {
	file := filepath.Join(filepath.Dir(dir), "tokens.csv")
	if err := os.WriteFile(file, []byte(tokens), 0o600); err != nil {
		return nil, err
	}
	p := &process{dir: dir, log: &lockedBuffer{}, ended: make(chan struct{})}
	p.cmd = exec.Command(binary, "serve", "--memory-limit", "448Mi", "--data-dir", dir, "--secure-port", "0", "--token-auth-file", file, "--authorization-mode", "Node,RBAC")
	p.cmd.Stdout, p.cmd.Stderr = p.log, p.log
	p.cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if err := p.cmd.Start(); err != nil {
		return nil, err
	}
	go func() {
		p.cmd.Wait()
		close(p.ended)
	}()
	for end := time.Now().Add(wait); ; time.Sleep(20 * time.Millisecond) {
		if m := readyLine.FindStringSubmatch(p.log.String()); m != nil {
			p.address = m[1]
			return p, nil
		}
		if !p.running() {
			return p, fmt.Errorf("the server ended: %v", p.cmd.ProcessState)
		}
		if time.Now().After(end) || ctx.Err() != nil {
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
func (p *process) resident() int64 {
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/statm", p.cmd.Process.Pid))
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
