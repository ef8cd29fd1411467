package main

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync/atomic"
	"syscall"
	"time"
)

// This file cuts the power of a server's disk, and makes the disk fail.

// faults are what a disk does before its power fails. Each is drawn anew, and returns how operations fail.
var faults = []struct {
	name string
	make func(rng *rand.Rand) func(op string) error
}{
	{"no fault", func(*rand.Rand) func(string) error { return nil }},
	{"one sync that fails", func(rng *rand.Rand) func(string) error {
		return failing("sync", int64(rng.IntN(30)), 1, syscall.EIO)
	}},
	{"syncs that fail", func(rng *rand.Rand) func(string) error {
		return failing("sync", int64(rng.IntN(30)), 1<<40, syscall.EIO)
	}},
	{"one torn write", func(rng *rand.Rand) func(string) error {
		return failing("write", int64(rng.IntN(60)), 1, syscall.EIO)
	}},
	{"torn writes", func(rng *rand.Rand) func(string) error {
		return failing("write", int64(rng.IntN(60)), 1<<40, syscall.EIO)
	}},
	{"a disk without room", func(rng *rand.Rand) func(string) error {
		return failing("write", int64(rng.IntN(60)), 20, syscall.ENOSPC)
	}},
	{"slow syncs", func(rng *rand.Rand) func(string) error {
		long := time.Duration(20+rng.IntN(200)) * time.Millisecond
		return func(op string) error {
			if op == "sync" {
				time.Sleep(long)
			}
			return nil
		}
	}},
}

// failing fails operations of one sort: some of them, after others went well.
func failing(sort string, after, most int64, err error) func(string) error {
	var n atomic.Int64
	return func(op string) error {
		if op != sort {
			return nil
		}
		if at := n.Add(1); at > after && at <= after+most {
			return err
		}
		return nil
	}
}

// powerFailures makes the disk fail in several ways under ordinary work, cuts its power each time, starts the server again, and looks
// whether all that was acknowledged is there. A server whose disk fails may end, with a message.
func (a *arena) powerFailures(ctx context.Context, rng *rand.Rand) (findings []Finding) {
	for range 3 {
		f := faults[rng.IntN(len(faults))]
		what := f.name + ", then a power failure"
		a.disk.fail(f.make(rng))
		limited, cancel := context.WithTimeout(ctx, time.Duration(500+rng.IntN(2000))*time.Millisecond)
		for limited.Err() == nil && a.server.running() {
			a.ordinary.work(limited) // what fails here is not held against the server
			pause(limited, 50*time.Millisecond)
		}
		cancel()
		if line := a.server.crashed(); line != "" {
			findings = append(findings, Finding{"power-trace", what + ": " + line})
		}
		if err := a.cutPower(rng); err != nil {
			return append(findings, Finding{"restart", err.Error()})
		}
		if err := a.startAgain(ctx); err != nil {
			return append(findings, Finding{"power-refused", fmt.Sprintf("after %s: %v: %s", what, err, a.log())})
		}
		for _, lost := range a.missing(ctx, a) {
			findings = append(findings, Finding{"power-lost", what + ": " + lost.Text})
		}
		if len(findings) > 0 || ctx.Err() != nil {
			return findings
		}
	}
	return append(findings, a.changed(ctx)...)
}

// cutPower ends the server as a power failure does, and loses what the disk has not promised to keep.
func (a *arena) cutPower(rng *rand.Rand) error {
	a.server.kill()
	a.admin.CloseIdleConnections()
	return a.disk.cut(rng)
}

// startAgain starts the server on its data directory.
func (a *arena) startAgain(ctx context.Context) (err error) {
	next, err := start(ctx, a.o, a.server.dir)
	if next != nil {
		a.server = next
	}
	if err != nil {
		return err
	}
	a.admin = client(a, "admin", ordinaryAddress, false)
	a.files = next.files()
	return nil
}
