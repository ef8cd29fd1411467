package manifest

import (
	"strings"
	"testing"
)

// TestCheckGlob refuses globs that would take long to match, and malformed ones.
func TestCheckGlob(t *testing.T) {
	for glob, want := range map[string]string{
		"**/*.yaml": "", "a/{b,c}/*.{yaml,yml,json}": "", "{a,b{c,d},e}x": "", `\{a,b`: "", "[{]a": "",
		strings.Repeat("{a,b}", 9):                          "",
		strings.Repeat("{a,b}", 10):                         "too many alternatives",
		strings.Repeat("{a,a}", 100):                        "too many alternatives",
		"{" + strings.Repeat("a,", 400) + "a}{b,c,d}":       "too many alternatives",
		strings.Repeat("{", 11) + strings.Repeat("}", 11):   "braces in one another",
		strings.Repeat("{", 400) + strings.Repeat("}", 400): "braces in one another",
		strings.Repeat("a", 1001):                           "a glob of 1001 bytes",
		"{a":                                                "syntax error in pattern",
		strings.Repeat("**/", 300) + "a":                    "",
		strings.Repeat("**/d/", 4) + "a":                    "",
		strings.Repeat("**/d/", 5) + "a":                    "** 5 times",
	} {
		err := CheckGlob(glob)
		if got := ""; err != nil {
			got = err.Error()
			if want == "" || !strings.Contains(got, want) {
				t.Errorf("%.60s: got %q, want %q", glob, got, want)
			}
		} else if want != "" {
			t.Errorf("%.60s: got no error, want %q", glob, want)
		}
	}
}
