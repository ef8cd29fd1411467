package etcd

// This file brings etcd's log, from warnings up, to slog, and keeps etcd from ending the process.

import (
	"context"
	"log/slog"

	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
)

// core is a zapcore.Core that writes to slog.
type core struct {
	log    *slog.Logger
	fields []zapcore.Field
}

// newLogger returns a logger for etcd. If etcd wants to panic or to exit, die is called with the reason, and the goroutine
// that did so stops for good: it must not go on with what it could not do.
func newLogger(log *slog.Logger, die func(reason string)) *zap.Logger {
	h := hook(die)
	return zap.New(core{log: log.With("from", "etcd")}, zap.WithFatalHook(h), zap.WithPanicHook(h))
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
	if c.Enabled(e.Level) {
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
