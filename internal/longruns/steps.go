package main

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"time"
)

// Lengths of one step. The result of an interrupted step is lost.
const (
	fuzzSlice   = time.Minute
	attackSlice = 10 * time.Minute
	killSlice   = 200
)

// state is what the steps of one run share.
type state struct {
	seed   uint64
	end    time.Time
	fuzzed map[target]time.Duration // core time of each fuzz target in this run
}

// target is a fuzz target.
type target struct{ dir, name string }

// buildHash builds the binary as users do, without the commit in it, and returns the first
// 16 digits of its SHA-256. Two commits with the same product code have the same hash.
func buildHash(ctx context.Context) (string, error) {
	dir, err := os.MkdirTemp("", "longruns-")
	if err != nil {
		return "", err
	}
	defer os.RemoveAll(dir)
	file := filepath.Join(dir, "keelson")
	build := exec.CommandContext(ctx, "go", "build", "-trimpath", "-buildvcs=false", "-o", file, "./cmd/keelson")
	build.Stderr = os.Stderr
	if err := build.Run(); err != nil {
		return "", err
	}
	b, err := os.ReadFile(file)
	if err != nil {
		return "", err
	}
	return fmt.Sprintf("%x", sha256.Sum256(b))[:16], nil
}

// execute runs a command in dir, prints its output and returns it.
func execute(ctx context.Context, dir string, env []string, args ...string) (string, error) {
	var out bytes.Buffer
	cmd := exec.CommandContext(ctx, args[0], args[1:]...)
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), env...)
	cmd.Stdout = io.MultiWriter(os.Stdout, &out)
	cmd.Stderr = cmd.Stdout
	err := cmd.Run()
	return out.String(), err
}

// fuzzStep fuzzes the target with the least core time in this run, in the poison mode (released
// documents and buffers are overwritten) and with one worker.
func fuzzStep(ctx context.Context, s *state) (row, error) {
	if len(s.fuzzed) == 0 {
		targets, err := fuzzTargets(".")
		if err != nil {
			return row{}, err
		}
		for _, t := range targets {
			s.fuzzed[t] = 0
		}
	}
	var next target
	for t, length := range s.fuzzed {
		if next.name == "" || length < s.fuzzed[next] || length == s.fuzzed[next] && t.dir+t.name < next.dir+next.name {
			next = t
		}
	}
	s.fuzzed[next] += fuzzSlice
	out, err := execute(ctx, ".", nil, "go", "test", "-tags", "poison", "-run", "^$", "-parallel", "1",
		"-fuzz", "^"+next.name+"$", "-fuzztime", fuzzSlice.String(), "-fuzzminimizetime", "1s", "./"+next.dir)
	done := row{count: lastNumber(out, executions), length: fuzzSlice}
	if strings.Contains(out, "Failing input written to") {
		done.findings = 1
		return done, fmt.Errorf("%s %s has a finding", next.dir, next.name)
	}
	if err != nil && done.count == 0 {
		return row{}, fmt.Errorf("%s %s: %w", next.dir, next.name, err)
	}
	return done, nil // with executions and without an input, err is the fuzzer's own timeout at the end
}

var (
	executions = regexp.MustCompile(`execs: (\d+)`)
	requests   = regexp.MustCompile(`; (\d+) ordinary requests`)
	killed     = regexp.MustCompile(`(\d+) kills, `)
	fuzzTarget = regexp.MustCompile(`(?m)^func (Fuzz\w+)\(`)
)

// lastNumber returns the number of the last match of pattern in text, and 0 if there is none.
func lastNumber(text string, pattern *regexp.Regexp) int64 {
	all := pattern.FindAllStringSubmatch(text, -1)
	if len(all) == 0 {
		return 0
	}
	n, _ := strconv.ParseInt(all[len(all)-1][1], 10, 64)
	return n
}

// fuzzTargets returns the fuzz targets of the module in root.
func fuzzTargets(root string) ([]target, error) {
	var targets []target
	err := filepath.WalkDir(root, func(path string, d os.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() && path != root {
			if _, err := os.Stat(filepath.Join(path, "go.mod")); err == nil || d.Name() == "testdata" {
				return filepath.SkipDir
			}
		}
		if !strings.HasSuffix(path, "_test.go") {
			return nil
		}
		source, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		for _, m := range fuzzTarget.FindAllStringSubmatch(string(source), -1) {
			targets = append(targets, target{filepath.ToSlash(filepath.Dir(path)), m[1]})
		}
		return nil
	})
	if err == nil && len(targets) == 0 {
		err = errors.New("no fuzz target: run this in the root of the repository")
	}
	return targets, err
}

// attackStep attacks for ten minutes. Its findings are kept in attack/findings.
func attackStep(ctx context.Context, s *state) (row, error) {
	began := time.Now()
	slice := min(attackSlice, time.Until(s.end))
	out, err := execute(ctx, "attack", nil, "go", "run", ".", "-time", slice.String(), "-seed", strconv.FormatUint(s.seed, 10))
	s.seed += 1000
	done := row{count: lastNumber(out, requests), length: time.Since(began)}
	if err != nil {
		done.findings = int64(strings.Count(out, "\nFOUND "))
		return done, fmt.Errorf("the attack found something: %w", err)
	}
	return done, nil
}

// killStep kills the server 200 times while it is written to.
func killStep(ctx context.Context, _ *state) (row, error) {
	began := time.Now()
	out, err := execute(ctx, ".", []string{"KEELSON_KILLS=" + strconv.Itoa(killSlice)}, "go", "test", "-count=1", "-v", "-timeout=30m",
		"-run", "^TestKilledServerKeepsEveryAcknowledgedWrite$", "./e2e/")
	done := row{count: lastNumber(out, killed), length: time.Since(began)}
	if err != nil {
		done.findings = 1
		return done, fmt.Errorf("an acknowledged write was lost, or the server did not start: %w", err)
	}
	return done, nil
}
