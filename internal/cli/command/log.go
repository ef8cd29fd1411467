package command

import (
	"fmt"
	"io"
	"log/slog"
	"strings"
)

// This file creates the log of the server.

// maxLogged is the longest text in a log line, in bytes. Clients choose some texts, such as paths
// of up to a megabyte.
const maxLogged = 8 << 10

// NewLogger returns a logger for a format. Verbosity n includes messages of level -n; from 4 on,
// these are debug messages, too. Longer texts than maxLogged are shortened.
func NewLogger(w io.Writer, format string, verbosity int) (*slog.Logger, error) {
	o := &slog.HandlerOptions{ReplaceAttr: shorten}
	if verbosity > 0 {
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

// shorten shortens a long text and adds its original length.
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
