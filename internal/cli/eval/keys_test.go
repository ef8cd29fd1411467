package eval

import (
	"context"
	"errors"
	"io"
	"strings"
	"testing"
)

// TestPasted converts expressions of manifests to one line.
func TestPasted(t *testing.T) {
	for _, tt := range []struct{ text, want string }{
		{"self.a > 1\n  && self.b\n", "self.a > 1   && self.b"},
		{"self.a > 1 // first\r\n|| self.b // second", "self.a > 1   || self.b"},
		{"self.s == 'http://a' // b", "self.s == 'http://a'"},
		{`self.s == "it's" && self.t == 'say \'//\''`, `self.s == "it's" && self.t == 'say \'//\''`},
		{"\t'''a\nb\tc''' + r'\\' // d", `'''a\nb\tc''' + r'\'`},
		{"'never ends\n// here", `'never ends\n// here`},
		{"\x1b[31m1\x03", "[31m1"},
		{"", ""},
	} {
		if got := oneLine(tt.text); got != tt.want {
			t.Errorf("%q: got %q, want %q", tt.text, got, tt.want)
		}
	}
}

// TestKeyboard reads keys in pieces of all sizes.
func TestKeyboard(t *testing.T) {
	typed := "ab\x03c" + pasteBegins + "x //y\nz\x03" + pasteEnds + "\x1b[Ad" + pasteBegins + strings.Repeat("l", maxPaste+1) + pasteEnds + "e"
	const want = "ab" + dropLine + "cx  z\x1b[Ade"
	for size := 1; size <= len(pasteBegins)+2; size++ {
		user := &typist{}
		for rest := typed; rest != ""; {
			n := min(size, len(rest))
			user.keys, rest = append(user.keys, rest[:n]), rest[n:]
		}
		k := newKeyboard(context.Background(), user)
		said := ""
		k.say = func(text string) { said += text }
		got, err := io.ReadAll(k)
		if err != nil || string(got) != want || !strings.Contains(said, "more than 4000 characters") {
			t.Errorf("%d at a time: got %q, %v, want %q; said %q", size, got, err, want, said)
		}
	}
}

// TestScriptEnds holds that a session that reads from a pipe ends with its context, even while it
// waits for a line.
func TestScriptEnds(t *testing.T) {
	s := testSession(t, false)
	in, _ := io.Pipe()
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if err := s.script(ctx, in, io.Discard); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v", err)
	}
}
