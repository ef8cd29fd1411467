// Package often keeps repeated messages from filling a log.
//
// A [Counter] tells which messages to log: the first of a kind, and one more each minute, with the number of those between. A
// [Handler] does so for the warnings and errors of a [slog.Logger], some of which clients can cause with every request.
package often

import (
	"context"
	"log/slog"
	"strings"
	"sync"
	"time"
)

const (
	every     = time.Minute // between two messages of a kind that are logged
	kinds     = 256         // that are told apart, unless a Counter says otherwise
	kindBytes = 1024        // of a message and its attributes that tell kinds apart
)

// Counter counts messages by kind. Its zero value works.
type Counter struct {
	Kinds int // that are told apart; 0 means 256

	mu    sync.Mutex
	kinds map[string]*kind
	now   func() time.Time // nil: time.Now
}

// kind is what is known about messages of one kind.
type kind struct {
	logged time.Time // when one was logged
	count  int       // since then
}

// overflow is the kind of all messages that are too many kinds. No other kind is empty.
const overflow = ""

// Take reports whether to log a message of a kind, and how many were not logged since the last one. If others is set, there are too
// many kinds, and the message stands for all that have no kind of their own.
func (c *Counter) Take(name string) (log bool, repeated int, others bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	now := time.Now()
	if c.now != nil {
		now = c.now()
	}
	most := c.Kinds
	if most == 0 {
		most = kinds
	}
	k := c.kinds[name]
	if k == nil && len(c.kinds) >= most {
		for other, k := range c.kinds {
			if now.Sub(k.logged) >= every {
				delete(c.kinds, other)
			}
		}
		if len(c.kinds) >= most {
			others = true
			name, k = overflow, c.kinds[overflow]
		}
	}
	if k == nil {
		if c.kinds == nil {
			c.kinds = map[string]*kind{}
		}
		c.kinds[name] = &kind{logged: now}
		return true, 0, others
	}
	if now.Sub(k.logged) < every {
		k.count++
		return false, 0, others
	}
	repeated = k.count
	k.logged, k.count = now, 0
	return true, repeated, others
}

// WithoutNumbers returns a message with # in place of each number. Messages that differ only in
// numbers become equal.
func WithoutNumbers(message string) string {
	b := make([]byte, 0, len(message))
	for i := range len(message) {
		switch c := message[i]; {
		case c < '0' || c > '9':
			b = append(b, c)
		case len(b) == 0 || b[len(b)-1] != '#':
			b = append(b, '#')
		}
	}
	return string(b)
}

// Handler is a slog.Handler that passes on the first warning or error of a kind, and further ones once a minute. Records are of a
// kind if their messages and attributes differ in nothing but numbers. Clients can make up texts, so the number of kinds is bounded:
// beyond, one line a minute counts what is not logged.
type Handler struct {
	next    slog.Handler
	counter *Counter
	prefix  string // of the kinds: attributes and groups of the logger
}

// New returns a Handler in front of another one. A Handler is returned as it is.
func New(next slog.Handler) *Handler {
	if h, is := next.(*Handler); is {
		return h
	}
	return &Handler{next: next, counter: new(Counter)}
}

// Unlimited returns a logger that logs every message, for code that limits its messages with a [Counter] of its own.
func Unlimited(logger *slog.Logger) *slog.Logger {
	if h, is := logger.Handler().(*Handler); is {
		return slog.New(h.next)
	}
	return logger
}

// Enabled implements [slog.Handler].
func (h *Handler) Enabled(ctx context.Context, level slog.Level) bool {
	return h.next.Enabled(ctx, level)
}

// Handle implements [slog.Handler].
func (h *Handler) Handle(ctx context.Context, r slog.Record) error {
	if r.Level < slog.LevelWarn {
		return h.next.Handle(ctx, r)
	}
	var b strings.Builder
	b.WriteString(r.Level.String())
	b.WriteByte(' ')
	b.WriteString(r.Message)
	r.Attrs(func(a slog.Attr) bool {
		writeAttr(&b, a)
		return b.Len() < kindBytes
	})
	name := h.prefix + b.String()
	log, repeated, others := h.counter.Take(WithoutNumbers(name[:min(len(name), kindBytes)]))
	switch {
	case !log:
		return nil
	case others:
		r = slog.NewRecord(r.Time, r.Level, "there are more kinds of messages than are logged", r.PC)
	}
	if repeated > 0 {
		r = r.Clone()
		r.AddAttrs(slog.Int("repeated", repeated), slog.Duration("within", every))
	}
	return h.next.Handle(ctx, r)
}

// WithAttrs implements [slog.Handler].
func (h *Handler) WithAttrs(attrs []slog.Attr) slog.Handler {
	var b strings.Builder
	for _, a := range attrs {
		writeAttr(&b, a)
	}
	return &Handler{h.next.WithAttrs(attrs), h.counter, h.prefix + b.String()}
}

// WithGroup implements [slog.Handler].
func (h *Handler) WithGroup(name string) slog.Handler {
	return &Handler{h.next.WithGroup(name), h.counter, h.prefix + name + "."}
}

func writeAttr(b *strings.Builder, a slog.Attr) {
	b.WriteString(a.Key)
	b.WriteByte('=')
	b.WriteString(a.Value.String())
	b.WriteByte(' ')
}
