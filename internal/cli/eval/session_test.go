package eval

import (
	"bytes"
	"context"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// typist is a terminal whose user types keys, one read at a time.
type typist struct {
	keys   []string
	screen bytes.Buffer
}

func (p *typist) Read(b []byte) (int, error) {
	if len(p.keys) == 0 {
		return 0, io.EOF
	}
	n := copy(b, p.keys[0])
	p.keys = p.keys[1:]
	return n, nil
}

// testSession has a schema, with a name that must be escaped, and data.
func testSession(t *testing.T, schema bool) *session {
	t.Helper()
	dir := t.TempDir()
	file := func(name, text string) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	o := options{limit: 1000, output: "text", data: file("data.yaml", "spec: {replicas: 3, restart-policy: Always, ports: [{name: web}]}")}
	if schema {
		o.schema = file("schema.yaml", `type: object
properties: {spec: {type: object, properties: {replicas: {type: integer}, restart-policy: {type: string},
  ports: {type: array, items: {type: object, properties: {name: {type: string}, number: {type: integer}}}}}}}`)
	}
	s, err := openSession(o, strings.NewReader(""))
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// TestSessionAtTerminal types keys and reads the screen.
func TestSessionAtTerminal(t *testing.T) {
	const up = "\x1b[A"
	user := &typist{keys: []string{
		"sel\t.sp\t.rep\t + 1\r", // completed to self.spec.replicas
		up, "\x7f2\r",            // the line before, with another last character
		"self.spec.re\t\t", // ambiguous: a list
		"\x15",             // the line is deleted
		":un\tself.spec\r", "self.spec.replicas > 1 && true\r",
		"1 + 'a'\r",
		":q\r",
		"never read\r",
	}}
	s := testSession(t, true)
	if err := s.converse(context.Background(), user, &user.screen, func() (int, int) { return defaultWidth, defaultHeight }); err != nil {
		t.Fatal(err)
	}
	text := strings.ReplaceAll(user.screen.String(), "\r\n", "\n")
	for _, want := range []string{
		"self.spec.replicas + 1\n4\n", "\n5\n", "replicas  restart__dash__policy", "\nunknown: self.spec\n",
		"self.spec.replicas > 1\n  unknown: self.spec\n", "\n | 1 + 'a'\n | ..^\n",
	} {
		if !strings.Contains(text, want) {
			t.Errorf("the screen has no %q:\n%s", want, text)
		}
	}
	if strings.Contains(text, "never") {
		t.Errorf(":q did not end the session")
	}
}

func TestCompletion(t *testing.T) {
	for _, tt := range []struct {
		schema          bool
		line, completed string
		choices         []string
	}{
		{true, "sel", "self", nil},
		{true, "se", "se", []string{"self", "semver(", "sets."}},
		{true, "self.spec.ports[0].n", "self.spec.ports[0].n", []string{"name", "number"}},
		{true, "size(self.spec.?rest", "size(self.spec.?restart__dash__policy", nil},
		{true, "oldSelf.spec.repl", "oldSelf.spec.replicas", nil},
		{false, "self.spec.ports[0].n", "self.spec.ports[0].name", nil},
		{false, "math.gre", "math.gre", nil},
		{false, "math.bitA", "math.bitAnd(", nil},
		{false, `"a".lowerA`, `"a".lowerAscii(`, nil},
		{false, "[1].exis", "[1].exists", nil},
		{false, "self.spec.ports.ma", "self.spec.ports.ma", []string{"major(", "map(", "masked(", "matches(", "max("}},
		{false, ":ty", ":type ", nil},
		{false, "nothing", "nothing", nil},
	} {
		s := testSession(t, tt.schema)
		line, pos, choices := s.complete(context.Background(), tt.line, len(tt.line))
		if len(choices) == 1 {
			choices = nil
		}
		if line != tt.completed || pos != len(line) || strings.Join(choices, " ") != strings.Join(tt.choices, " ") {
			t.Errorf("%s: got %q at %d of %v, want %q of %v", tt.line, line, pos, choices, tt.completed, tt.choices)
		}
	}
}

// TestCompletionInside completes a word before the end of the line.
func TestCompletionInside(t *testing.T) {
	s := testSession(t, true)
	line, pos, _ := s.complete(context.Background(), "self.spec.repl > 3", len("self.spec.repl"))
	if line != "self.spec.replicas > 3" || pos != len("self.spec.replicas") {
		t.Errorf("got %q at %d", line, pos)
	}
}
