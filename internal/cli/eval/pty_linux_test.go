package eval

import (
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"golang.org/x/term"

	"github.com/keelson-io/keelson/internal/cli/command"
	"github.com/keelson-io/keelson/internal/testpty"
)

// This file holds a session at a terminal of the system.

// TestSessionAtPTY runs keelson eval on a pseudo-terminal.
func TestSessionAtPTY(t *testing.T) {
	p := testpty.Open(t)
	p.Resize(80, 24)
	data := filepath.Join(t.TempDir(), "data.yaml")
	if err := os.WriteFile(data, []byte("spec: {replicas: 3, name: web}"), 0o600); err != nil {
		t.Fatal(err)
	}
	before, err := term.GetState(int(p.Screen.Fd()))
	if err != nil {
		t.Fatal(err)
	}
	cmd := Command()
	cmd.SetArgs([]string{"--data", data, "--cost-limit", "0"})
	cmd.SetIn(p.Screen)
	cmd.SetOut(command.NewEscaper(p.Screen))
	ended := make(chan error)
	go func() { ended <- cmd.ExecuteContext(t.Context()) }()
	p.Take(prompt, nil)
	for _, e := range []struct{ keys, answer string }{
		{"self.spec.repl\t + 1\r", "\r\n4\r\n"},
		{"\x1b[A\x7f2\r", "\r\n5\r\n"},            // the line before, with another last character
		{"1 + 'a'\x032 + 4\r", "\r\n6\r\n"},       // Ctrl-C drops the line
		{"1 + 'a'\r", " | 1 + 'a'\r\n | ..^\r\n"}, // errors point into the expression
		{":type self.spec\r", "\r\ndyn\r\n"},
		{":cost 1 + 1\r", "\r\n1 (estimated only with --schema)\r\n"},
		{":unknown self.spec.name\r", "unknown: self.spec.name\r\n"},
		{"self.spec.replicas > 1 && self.spec.name == 'a'\r", "self.spec.name == \"a\"\r\n  unknown: self.spec.name\r\n"},
		{":known\r", prompt},
		{pasteBegins + "self.spec.replicas > 1 // enough\n  && self.spec.name == 'web'\n" + pasteEnds + "\r", "\r\ntrue\r\n"},
		{":nonsense\r", "no command :nonsense"},
	} {
		p.Type(e.keys)
		p.Take(e.answer, nil)
	}
	// An evaluation without end: Ctrl-C is one.
	p.Type("lists.range(1000000).all(a, lists.range(1000000).all(b, a + b >= 0))\r")
	p.Take("operation interrupted", func() { p.Type("\x03") })
	p.Type("\r7 + 1\r") // behind the last Ctrl-C
	p.Take("\r\n8\r\n", nil)
	p.Take(prompt, nil)
	// In a narrower window the choices have narrower lines.
	p.Resize(30, 24)
	p.Type("s\t\t\x03" + "1 + 2\r")
	lines := 0
	for line := range strings.SplitSeq(p.Take("\r\n3\r\n", nil), "\r\n") {
		line = line[strings.LastIndex(line, "\x1b[K")+1:] // what stays of it
		if words := strings.TrimSuffix(strings.TrimPrefix(line, "[K"), "  "); strings.HasSuffix(line, "  ") {
			if lines++; len(words) > 30 {
				t.Errorf("a line of choices has %d columns: %q", len(words), line)
			}
		}
	}
	if lines < 2 {
		t.Errorf("there are %d lines of choices", lines)
	}
	p.Type("\x04")
	if err := <-ended; err != nil {
		t.Errorf("ends with %v", err)
	}
	p.Take(pastesHidden, nil)
	if after, err := term.GetState(int(p.Screen.Fd())); err != nil || !reflect.DeepEqual(before, after) {
		t.Errorf("the terminal is not as it was: %v", err)
	}
}
