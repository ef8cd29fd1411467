package etcd

// This file brings etcd's log, from warnings up, to slog, and keeps etcd from ending the process.

import (
	"context"
	"log/slog"
	"strings"
	"sync/atomic"

	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
)

// core is a zapcore.Core that writes to slog.
type core struct {
	log    *slog.Logger
	quiet  *atomic.Bool
	fields []zapcore.Field
}

// newLogger returns a logger for etcd, which is silent while quiet is set. If etcd wants to panic or to exit, die is called with
// the reason, and the goroutine that did so stops for good: it must not go on with what it could not do.
func newLogger(log *slog.Logger, quiet *atomic.Bool, die func(reason string)) *zap.Logger {
	h := hook(die)
	return zap.New(core{log: log.With("from", "etcd"), quiet: quiet}, zap.WithFatalHook(h), zap.WithPanicHook(h))
}

type hook func(reason string)

func (h hook) OnWrite(e *zapcore.CheckedEntry, fields []zapcore.Field) {
	reason := e.Message
	for _, f := range fields {
		if err, ok := f.Interface.(error); ok {
			reason += ": " + err.Error()
		}
	}
	h(reason)
	select {}
}

// harmless are warnings and errors that say nothing about this server.
var harmless = map[string]bool{
	"Failed to detect schema version":  true, // of an empty database
	"failed to update storage version": true, // of an empty database
	"check file permission":            true, // etcd's own directory inside is for its user only
	"ignored file in WAL directory":    true, // the copy of a torn end that was repaired
	"retrying of unary invoker failed": true, // the caller gets the error
	"failed to apply request":          true, // the caller gets the error

	"Failed to detect storage schema version. Please wait till wal snapshot before upgrading cluster.": true, // nobody upgrades
}

// A member that has not read its own configuration yet puts off its election by some milliseconds.
const harmlessEnd = "since there are still pending configuration changes to apply"

func (c core) Enabled(l zapcore.Level) bool {
	return l >= zapcore.WarnLevel && c.log.Enabled(context.Background(), level(l))
}

func level(l zapcore.Level) slog.Level {
	if l >= zapcore.ErrorLevel {
		return slog.LevelError
	}
	return slog.LevelWarn
}

func (c core) With(fields []zapcore.Field) zapcore.Core {
	c.fields = append(c.fields[:len(c.fields):len(c.fields)], fields...)
	return c
}

func (c core) Check(e zapcore.Entry, ce *zapcore.CheckedEntry) *zapcore.CheckedEntry {
	if c.Enabled(e.Level) && !c.quiet.Load() && !harmless[e.Message] && !strings.HasSuffix(e.Message, harmlessEnd) {
		return ce.AddCore(e, c)
	}
	return ce
}

func (c core) Write(e zapcore.Entry, fields []zapcore.Field) error {
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

func (c core) Sync() error { return nil }
