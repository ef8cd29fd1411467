package etcd

// This file passes etcd's log messages, from warnings up, to slog, and prevents etcd from ending
// the process.

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync/atomic"

	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"

	"github.com/keelson-io/keelson/internal/often"
)

// core is a zapcore.Core that writes to slog.
type core struct {
	log     *slog.Logger
	quiet   *atomic.Bool
	fields  []zapcore.Field
	segment func(err error) // called when etcd could not prepare a segment of its log; may be nil
}

// segmentFailed is the message for a segment of the write-ahead log that could not be prepared. etcd
// goes on in the segment before, up to 64 MiB later, and never tries again.
const segmentFailed = "failed to preallocate space when creating a new WAL"

// newLogger returns a logger for etcd, which is silent while quiet is set. If etcd wants to panic
// or to exit, die is called with the reason, and the goroutine that did so stops for good: it must
// not go on with what it could not do.
func newLogger(log *slog.Logger, quiet *atomic.Bool, die func(err error)) *zap.Logger {
	return newSegmentLogger(log, quiet, die, nil)
}

// newSegmentLogger is newLogger that also calls segment when etcd could not prepare a segment.
func newSegmentLogger(log *slog.Logger, quiet *atomic.Bool, die, segment func(err error)) *zap.Logger {
	h := hook(die)
	log = slog.New(often.New(log.Handler())).With("from", "etcd") // raft reports fifty times a second that it waits
	return zap.New(core{log: log, quiet: quiet, segment: segment}, zap.WithFatalHook(h), zap.WithPanicHook(h))
}

// hook is called with the error when etcd's logger is about to end the process.
type hook func(err error)

// OnWrite implements zapcore.CheckWriteHook. It never returns, because etcd's code after a fatal
// message assumes that the process has ended.
func (h hook) OnWrite(e *zapcore.CheckedEntry, fields []zapcore.Field) {
	h(entryError(e.Message, fields))
	select {}
}

// entryError returns the error that a message of etcd's describes.
func entryError(message string, fields []zapcore.Field) error {
	err := errors.New(message)
	for _, f := range fields {
		switch cause, is := f.Interface.(error); {
		case is:
			err = fmt.Errorf("%w: %w", err, cause)
		case f.Key == "panic":
			err = fmt.Errorf("%w: %v", err, f.Interface)
		}
	}
	return err
}

// harmless lists warnings and errors that do not matter to this server.
var harmless = map[string]bool{
	"Failed to detect schema version":  true, // of an empty database
	"failed to update storage version": true, // of an empty database
	"check file permission":            true, // etcd's own directory inside is for its user only
	"ignored file in WAL directory":    true, // the copy of a torn end that was repaired
	"retrying of unary invoker failed": true, // the caller gets the error
	"failed to apply request":          true, // the caller gets the error

	"Failed to detect storage schema version. Please wait till wal snapshot before upgrading cluster.": true, // no version is being changed
}

// The end of a warning from a member that has not read its own configuration yet, and delays its
// election by some milliseconds.
const harmlessEnd = "since there are still pending configuration changes to apply"

// Enabled implements zapcore.LevelEnabler. Errors pass even if the log does not want them when a
// failed segment has to be noticed.
func (c core) Enabled(l zapcore.Level) bool {
	return l >= zapcore.WarnLevel && (c.log.Enabled(context.Background(), level(l)) || c.segment != nil && l == zapcore.ErrorLevel)
}

// level returns the level of the product's log for a level of etcd's.
func level(l zapcore.Level) slog.Level {
	if l >= zapcore.ErrorLevel {
		return slog.LevelError
	}
	return slog.LevelWarn
}

// With implements zapcore.Core. The capacity is clipped, so that two loggers never share an array.
func (c core) With(fields []zapcore.Field) zapcore.Core {
	c.fields = append(c.fields[:len(c.fields):len(c.fields)], fields...)
	return c
}

// Check implements zapcore.Core: messages that mean no harm are dropped.
func (c core) Check(e zapcore.Entry, ce *zapcore.CheckedEntry) *zapcore.CheckedEntry {
	if c.Enabled(e.Level) && !c.quiet.Load() && !harmless[e.Message] && !strings.HasSuffix(e.Message, harmlessEnd) {
		return ce.AddCore(e, c)
	}
	return ce
}

// Write implements zapcore.Core.
func (c core) Write(e zapcore.Entry, fields []zapcore.Field) error {
	if e.Level > zapcore.ErrorLevel {
		return nil // the caller that learns of the failure reports it
	}
	if c.segment != nil && e.Message == segmentFailed {
		c.segment(entryError(e.Message, fields))
		return nil
	}
	enc := zapcore.NewMapObjectEncoder()
	for _, f := range c.fields {
		f.AddTo(enc)
	}
	for _, f := range fields {
		f.AddTo(enc)
	}
	attrs := make([]slog.Attr, 0, len(enc.Fields))
	for _, f := range append(c.fields[:len(c.fields):len(c.fields)], fields...) {
		if v, ok := enc.Fields[f.Key]; ok {
			attrs = append(attrs, slog.Any(f.Key, v))
		}
	}
	c.log.LogAttrs(context.Background(), level(e.Level), e.Message, attrs...)
	return nil
}

// Sync implements zapcore.Core. Nothing is buffered.
func (c core) Sync() error { return nil }
