package source

import (
	"strings"
	"testing"
)

// TestWithin finds a word in scalars of all styles. The position must be that of the word in the text.
func TestWithin(t *testing.T) {
	for _, text := range []string{
		"a: self.x + WORD > 1\n",
		"a: 'it''s WORD'\n",
		`a: "tab\t \"é\" \u00e9 \x41 😀 WORD"` + "\n",
		`{"a": "\u00e9 \n WORD"}`,
		"a: |\n  one\n    two ''\n\n  WORD\n",
		"a: >-\n  one\n  two \\n\n\n  three WORD\n",
		"a: one\n  two\n\n  é WORD\n",
		"a: \"one\n  two \\\n  thr\\\n  ee WORD\"\n",
		"b: &x é WORD\na: *x\n",
		"x: {a: [WORD]}\n",
		"a: 'one\n\n  two  WORD'\n",
	} {
		path := "a"
		if strings.HasPrefix(text, "x") {
			path = "x.a[0]"
		}
		doc := New([]byte(text), 10)
		_, value, all := doc.Walk(path)
		if !all {
			t.Fatalf("%q: no %s", text, path)
		}
		line, column := doc.Within(path, strings.Index(value.Value, "WORD"))
		lines := strings.Split(text, "\n")
		if line-10 >= len(lines) || !strings.HasPrefix(string([]rune(lines[line-10])[column-1:]), "WORD") {
			t.Errorf("%q: got %d:%d", text, line, column)
		}
	}
	if line, column := New([]byte("a:\n  b: c\n"), 1).Within("a.x", 3); line != 1 || column != 1 {
		t.Errorf("a missing string: got %d:%d, want 1:1", line, column)
	}
}

func FuzzWithin(f *testing.F) {
	f.Add("a: 'it''s'\n", 2)
	f.Add("a: >\n x\n\n  y\n", 3)
	f.Add(`a: "\u00"`, 1)
	f.Fuzz(func(t *testing.T, text string, offset int) {
		if offset >= 0 {
			if line, column := New([]byte(text), 1).Within("a", offset); line < 1 || column < 1 {
				t.Errorf("got %d:%d", line, column)
			}
		}
	})
}
