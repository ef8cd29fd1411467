package source

import (
	"bytes"
	"testing"
)

// FuzzWordLast compares isWordLast with the same written plainly.
func FuzzWordLast(f *testing.F) {
	for _, s := range []string{"", " ", "on", "\ton  ", "{yes", "- no", "-y", "type", "false", "False", "xFalse", "a on", "on\xff", "ON ", "nno"} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		word := bytes.TrimRight(text, " ")
		word = word[bytes.LastIndexAny(word, " \n\t{,?-")+1:]
		if got, want := isWordLast(text), words[string(word)] != ""; got != want {
			t.Errorf("isWordLast(%q): got %t, want %t", text, got, want)
		}
	})
}
