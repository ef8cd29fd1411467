// Package refusal logs why requests were not authenticated: each reason once a minute, so that strangers cannot fill the log. It logs
// neither a token nor a part of it.
package refusal

import (
	"context"
	"log/slog"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"
	"unicode"

	"github.com/keelson-io/keelson/internal/authn"
	"github.com/keelson-io/keelson/internal/often"
)

const (
	reasonBytes = 1024 // of a reason in the log
	pathBytes   = 256  // of a path in the log
	reasonKinds = 16   // of an authenticator, that are told apart
	reasonBys   = 64   // authenticators and sets of them, that are told apart
	tokenPart   = 8    // consecutive bytes of a token are not logged
	leastToken  = 4    // bytes: shorter words are found in any text
)

// Log logs the reasons, and counts them.
type Log struct {
	logger *slog.Logger // logs all that it gets

	mu sync.Mutex
	by map[string]*often.Counter
}

// New returns the log that writes to a logger.
func New(logger *slog.Logger) *Log {
	return &Log{logger: often.Unlimited(logger), by: map[string]*often.Counter{}}
}

// counter returns the counter of an authenticator, or one for all that are too many.
func (l *Log) counter(by string) *often.Counter {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.by[by] == nil && len(l.by) >= reasonBys {
		by = ""
	}
	c := l.by[by]
	if c == nil {
		c = &often.Counter{Kinds: reasonKinds}
		l.by[by] = c
	}
	return c
}

// log logs a message about an authenticator, unless the reason was logged in the last minute. Then it logs at debug level.
func (l *Log) log(level slog.Level, message, by, kind string, attrs func() []slog.Attr) {
	due, repeated, others := l.counter(by).Take(often.WithoutNumbers(kind[:min(len(kind), reasonBytes)]))
	if !due {
		level = slog.LevelDebug
	}
	if !l.logger.Enabled(context.Background(), level) {
		return
	}
	list := attrs()
	if others {
		list = append(list, slog.Bool("others", true)) // there are more kinds of reasons than are counted separately
	}
	if repeated > 0 {
		list = append(list, slog.Int("repeated", repeated), slog.Duration("within", time.Minute))
	}
	l.logger.LogAttrs(context.Background(), level, message, list...)
}

// Outages logs the authenticators that could not work, as errors.
func (l *Log) Outages(reasons []authn.Reason, tokens ...string) {
	for _, reason := range reasons {
		if reason.Outage != "" {
			l.log(slog.LevelError, reason.Outage, "outage "+reason.By, reason.Kind, func() []slog.Attr {
				return []slog.Attr{slog.String("error", loggable(reason.Text, reasonBytes, tokens...))}
			})
		}
	}
}

// Refused logs why a request was not authenticated. err is nil if it has no credential.
func (l *Log) Refused(r *http.Request, err error) {
	if r.Context().Err() != nil {
		return // the client has gone
	}
	if err == nil {
		err = authn.ErrMissing
	}
	tokens := authn.TokensIn(r)
	reasons := authn.Reasons(err)
	l.Outages(reasons, tokens...)
	var by, kinds, texts []string
	for _, reason := range reasons {
		if !slices.Contains(by, reason.By) {
			by = append(by, reason.By)
		}
		kinds, texts = append(kinds, reason.Kind), append(texts, reason.Text)
	}
	l.log(slog.LevelWarn, "Unable to authenticate the request", strings.Join(by, ", "), strings.Join(kinds, "; "), func() []slog.Attr {
		return []slog.Attr{slog.String("path", loggable(r.URL.Path, pathBytes, tokens...)), slog.String("client", r.RemoteAddr),
			slog.String("error", loggable(strings.Join(texts, "; "), reasonBytes, tokens...))}
	})
}

// loggable returns a text without tokens and without characters that do not print, shortened to a number of bytes: the beginning says
// what failed, and the end why.
func loggable(text string, most int, tokens ...string) string {
	text = ends(text, 2*most) // the search for tokens takes time
	for _, token := range tokens {
		text = withoutToken(text, token)
	}
	return strings.Map(func(c rune) rune {
		if unicode.IsPrint(c) {
			return c
		}
		return unicode.ReplacementChar
	}, ends(text, most))
}

// ends returns the two ends of a text that is longer than a number of bytes.
func ends(text string, most int) string {
	if len(text) <= most {
		return text
	}
	return text[:most/2] + "…" + text[len(text)-most/2:]
}

// withoutToken replaces the parts of a text that are a token or a part of it.
func withoutToken(text, token string) string {
	if len(token) < leastToken {
		return text
	}
	size := min(len(token), tokenPart)
	var out strings.Builder
	hidden := 0 // text[:hidden] is a part of the token, or was written
	for i := 0; i < len(text); {
		if i+size > len(text) || !strings.Contains(token, text[i:i+size]) {
			out.WriteByte(text[i])
			i++
			continue
		}
		for hidden = i + size; hidden < len(text) && strings.Contains(token, text[hidden-size+1:hidden+1]); hidden++ {
		}
		out.WriteString("[token]")
		i = hidden
	}
	return out.String()
}
