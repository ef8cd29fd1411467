package audit

import (
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"

	"gopkg.in/natefinch/lumberjack.v2"
)

// This file writes events to a log file.

// Modes of a backend.
const (
	// Blocking: the request waits until its event has been written. If writing fails, the request
	// goes on, and the failure is logged and counted.
	Blocking = "blocking"
	// BlockingStrict: as Blocking, but if the event for the stage RequestReceived cannot be
	// written, the request is refused.
	BlockingStrict = "blocking-strict"
	// Batch: events are written in the background. If the buffer is full, events are dropped.
	Batch = "batch"
)

var modes = []string{Batch, Blocking, BlockingStrict}

// Formats of a log file.
const (
	FormatJSON   = "json"
	FormatLegacy = "legacy"
)

// LogConfig configures a log file. Zero numbers mean no limit, unless noted.
type LogConfig struct {
	Path       string // "-" is standard output
	MaxAge     int    // days after which rotated files are deleted
	MaxBackups int    // number of rotated files to keep
	MaxSize    int    // megabytes after which the file is rotated; 0: never
	Compress   bool   // compress rotated files with gzip
	Format     string // "": json
	Mode       string // "": blocking
	BufferSize int    // events that wait in batch mode; 0: 10000
	MaxBytes   int64  // bytes of the events that wait in batch mode; 0: 128 MiB
}

// defaultBuffer is the number of events that can wait in batch mode.
const defaultBuffer = 10000

// withDefaults returns c with defaults for empty fields. If c is invalid, it returns an error.
func (c LogConfig) withDefaults() (LogConfig, error) {
	if c.Format == "" {
		c.Format = FormatJSON
	}
	if c.Mode == "" {
		c.Mode = Blocking
	}
	if c.BufferSize == 0 {
		c.BufferSize = defaultBuffer
	}
	switch {
	case !slices.Contains(modes, c.Mode):
		return c, fmt.Errorf("invalid audit log mode %s, allowed modes are %q", c.Mode, strings.Join(modes, ","))
	case c.Mode == Batch && c.BufferSize < 0:
		return c, fmt.Errorf("invalid audit batch log buffer size %v, must be a positive number", c.BufferSize)
	case c.Format != FormatJSON && c.Format != FormatLegacy:
		return c, fmt.Errorf("invalid audit log format %s, allowed formats are %q", c.Format, "legacy,json")
	case c.MaxAge < 0:
		return c, fmt.Errorf("--audit-log-maxage %v can't be a negative number", c.MaxAge)
	case c.MaxBackups < 0:
		return c, fmt.Errorf("--audit-log-maxbackup %v can't be a negative number", c.MaxBackups)
	case c.MaxSize < 0:
		return c, fmt.Errorf("--audit-log-maxsize %v can't be a negative number", c.MaxSize)
	}
	return c, nil
}

// OpenLog opens a log file. It creates the file and its directory if they do not exist. If the file
// cannot be written, it returns an error.
func OpenLog(c LogConfig, m *Metrics, logger *slog.Logger) (Backend, error) {
	c, err := c.withDefaults()
	if err != nil {
		return nil, err
	}
	out, err := c.open()
	if err != nil {
		return nil, err
	}
	l := &log{out: out, format: c.Format, plugin: plugin{"log", m, logger}}
	if c.Mode == Batch {
		return newQueue(l.plugin, c.BufferSize, c.MaxBytes, l.encode, l.write, out.Close), nil
	}
	l.strict = c.Mode == BlockingStrict
	return l, nil
}

// open opens the file, with rotation if it is configured.
func (c LogConfig) open() (io.WriteCloser, error) {
	if c.Path == "-" {
		return standardOutput{}, nil
	}
	if err := os.MkdirAll(filepath.Dir(c.Path), 0o700); err != nil {
		return nil, fmt.Errorf("ensureLogFile: %w", err)
	}
	f, err := os.OpenFile(c.Path, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return nil, fmt.Errorf("ensureLogFile: %w", err)
	}
	if c.MaxSize == 0 {
		return f, nil
	}
	if err := f.Close(); err != nil {
		return nil, err
	}
	return &lumberjack.Logger{Filename: c.Path, MaxAge: c.MaxAge, MaxBackups: c.MaxBackups, MaxSize: c.MaxSize, Compress: c.Compress}, nil
}

// standardOutput is never closed.
type standardOutput struct{}

func (standardOutput) Write(p []byte) (int, error) { return os.Stdout.Write(p) }
func (standardOutput) Close() error                { return nil }

// plugin has what all backends share: the reporting of failures.
type plugin struct {
	name    string
	metrics *Metrics
	logger  *slog.Logger
}

// failed logs and counts events that could not be written.
func (p *plugin) failed(err error, events int) {
	p.metrics.errors.WithLabelValues(p.name).Add(float64(events))
	p.logger.Error("audit events were not written", "plugin", p.name, "events", events, "error", err)
}

// log writes events to a file.
type log struct {
	plugin
	out    io.WriteCloser
	format string
	strict bool
	mu     sync.Mutex // held while lines are written, so that lines do not mix
}

// encode returns an event as a line in the configured format.
func (l *log) encode(e *Event) ([]byte, error) {
	if l.format == FormatLegacy {
		return []byte(legacy(e) + "\n"), nil
	}
	text, err := encode(e)
	return append(text, '\n'), err
}

// write appends lines to the file.
func (l *log) write(lines [][]byte) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, line := range lines {
		if _, err := l.out.Write(line); err != nil {
			return err
		}
	}
	return nil
}

// Process implements Backend.
func (l *log) Process(e *Event) bool {
	line, err := l.encode(e)
	if err == nil {
		err = l.write([][]byte{line})
	}
	if err != nil {
		l.failed(err, 1)
		return !l.strict
	}
	return true
}

// Close implements Backend.
func (l *log) Close() error { return l.out.Close() }
