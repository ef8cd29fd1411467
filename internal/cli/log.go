package cli

import (
	"fmt"
	"io"
	"log/slog"
	"strings"
)

// This file is the log of a server.

// maxLogged is the longest text in a line of the log, in bytes: clients choose some of them, such as paths of up to a megabyte.
const maxLogged = 8 << 10

// newLogger logs in a format; from verbosity 4 on with details for debugging:
// those of level -n at verbosity n. No text in it is longer than maxLogged.
func newLogger(w io.Writer, format string, verbosity int) (*slog.Logger, error) {
	o := &slog.HandlerOptions{ReplaceAttr: shorten}
	if verbosity >= 4 {
		o.Level = slog.Level(-verbosity)
	}
	switch format {
	case "text":
		return slog.New(slog.NewTextHandler(w, o)), nil
	case "json":
		return slog.New(slog.NewJSONHandler(w, o)), nil
	}
	return nil, fmt.Errorf("--logging-format: got %q, want text or json", format)
}

// shorten cuts long texts, and says how long they were.
func shorten(_ []string, a slog.Attr) slog.Attr {
	text := ""
	switch v := a.Value.Any().(type) {
	case string:
		text = v
	case error:
		text = v.Error()
	default:
		return a
	}
	if len(text) > maxLogged {
		a.Value = slog.StringValue(fmt.Sprintf("%s… (%d bytes)", strings.ToValidUTF8(text[:maxLogged], ""), len(text)))
	}
	return a
}
