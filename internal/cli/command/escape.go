// This file keeps what a command prints from acting on the terminal or the build server that reads it: names of files, kinds and
// objects may be a stranger's.

package command

import (
	"bytes"
	"crypto/rand"
	"fmt"
	"io"
	"os"
	"sync"
	"unicode/utf8"

	"golang.org/x/term"
)

// escaper writes text without characters that act on a terminal, and without lines that are commands of a build server: those that begin
// with "::", and the marks "##[" and "##vso[". Both are written as \u escapes, which JSON has, too. It is safe for concurrent use.
type escaper struct {
	to   io.Writer
	mark string // after an escape character, which is then the command's own; the texts of others cannot guess it

	mu     sync.Mutex
	midway bool // the line has something other than spaces
	buf    bytes.Buffer
}

// NewEscaper returns an escaper, which Painter, Documents and TerminalOf know.
func NewEscaper(to io.Writer) io.Writer { return &escaper{to: to, mark: rand.Text()} }

// Write implements [io.Writer].
func (e *escaper) Write(p []byte) (int, error) { return e.write(p, true) }

// write writes p. In a document for programs, lines are not commands: see Documents.
func (e *escaper) write(p []byte, lines bool) (int, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.buf.Reset()
	for i := 0; i < len(p); {
		r, size := utf8.DecodeRune(p[i:])
		begins := !e.midway
		if e.midway = r != '\n' && (e.midway || r != ' ' && r != '\t'); !e.midway {
			e.buf.Write(p[i : i+size])
			i += size
			continue
		}
		switch {
		case r == 0x1b && bytes.HasPrefix(p[i+1:], []byte(e.mark)):
			e.buf.WriteByte(0x1b)
			size += len(e.mark)
			e.midway = !begins
		case acts(r), lines && begins && r == ':' && (i+1 == len(p) || p[i+1] == ':'),
			lines && r == '#' && (bytes.HasPrefix(p[i+1:], []byte("#[")) || bytes.HasPrefix(p[i+1:], []byte("#vso["))):
			fmt.Fprintf(&e.buf, `\u%04x`, r)
		default:
			e.buf.Write(p[i : i+size])
		}
		i += size
	}
	if _, err := e.to.Write(e.buf.Bytes()); err != nil {
		return 0, err
	}
	return len(p), nil
}

// acts reports whether a character acts on a terminal, or on the order in which one shows others: those of ISO 6429 but for the line break and
// the tab, and those for directions of text.
func acts(r rune) bool {
	return r < ' ' && r != '\n' && r != '\t' || r >= 0x7f && r < 0xa0 || r >= 0x200e && r <= 0x200f || r >= 0x2028 && r <= 0x202e || r >= 0x2066 && r <= 0x2069
}

// paint returns text in a colour or font, by the code that a terminal has for it.
func (e *escaper) paint(code, text string) string {
	return "\x1b" + e.mark + "[" + code + "m" + text + "\x1b" + e.mark + "[0m"
}

// Documents returns out for a document that programs read, in which "::" at the beginning of a line is text.
func Documents(out io.Writer) io.Writer {
	if e, ok := out.(*escaper); ok {
		return documentWriter{e}
	}
	return out
}

// documentWriter is an escaper for documents.
type documentWriter struct{ e *escaper }

// Write implements [io.Writer].
func (d documentWriter) Write(p []byte) (int, error) { return d.e.write(p, false) }

// TerminalOf returns the terminal to which out writes, nil if it is none.
func TerminalOf(out io.Writer) *os.File {
	if e, ok := out.(*escaper); ok {
		out = e.to
	}
	if f, ok := out.(*os.File); ok && term.IsTerminal(int(f.Fd())) {
		return f
	}
	return nil
}

// Painter returns a function that colours text for a terminal.
func Painter(out io.Writer) func(code, text string) string {
	if e, ok := out.(*escaper); ok && TerminalOf(out) != nil && os.Getenv("NO_COLOR") == "" {
		return e.paint
	}
	return func(_, text string) string { return text }
}
