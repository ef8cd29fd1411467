package cli

import (
	"bytes"
	"context"
	"io"
	"strings"
	"testing"
	"testing/iotest"
)

// TestInterruptible holds that a read of standard input gets all of it, also in small pieces, and ends with its context.
func TestInterruptible(t *testing.T) {
	text := strings.Repeat("all of it, ", 20_000)
	for name, in := range map[string]io.Reader{"whole": strings.NewReader(text), "halves": iotest.HalfReader(strings.NewReader(text)),
		"data with its end": iotest.DataErrReader(strings.NewReader(text))} {
		got, err := io.ReadAll(&interruptible{ctx: t.Context(), in: in})
		if err != nil || string(got) != text {
			t.Errorf("%s: got %d bytes, %v; want %d", name, len(got), err, len(text))
		}
	}
	if _, err := io.ReadAll(&interruptible{ctx: t.Context(), in: iotest.ErrReader(io.ErrClosedPipe)}); err != io.ErrClosedPipe {
		t.Errorf("a failed read: got %v", err)
	}
	// The other end of the pipe is open and writes nothing more.
	reader, writer := io.Pipe()
	defer writer.Close()
	ctx, cancel := context.WithCancel(t.Context())
	go func() { writer.Write([]byte("{")); cancel() }()
	var out, errs bytes.Buffer
	if code := run(ctx, []string{"validate", "-"}, &interruptible{ctx: ctx, in: reader}, &out, &errs); code != 1 || !strings.Contains(errs.String(), "interrupted") {
		t.Errorf("validate: exit code %d, %s%s", code, out.String(), errs.String())
	}
}
