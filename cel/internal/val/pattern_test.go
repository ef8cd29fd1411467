package val

import (
	"math/rand/v2"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// TestFindAllAlike compares ways to find all matches.
func TestFindAllAlike(t *testing.T) {
	r := rand.New(rand.NewPCG(7, 7))
	empty, some := 0, 0
	for _, text := range []string{"", "a", "a*", "a|b*", "(a|ab)(c|bcd)*", ".", "x*", "[^a]*", "a$", "(?m)a$", "a{2}", "é*", "(a*)(b*)", "b??", "(?s).*?b", "a*?"} {
		p, err := NewRegexp(text)
		if err != nil || p.looksBack {
			t.Fatal(text, err)
		}
		re := regexp.MustCompile(text)
		for range 300 {
			var s strings.Builder
			for range r.IntN(12) {
				s.WriteString([]string{"a", "b", "c", "é", "\n", "\xff", "x"}[r.IntN(7)])
			}
			n := r.IntN(6) - 1
			got, ok := p.findEach(&Frame{Limit: 1}, s.String(), n, 1)
			want := re.FindAllString(s.String(), n)
			if !ok || !slices.Equal(got, want) {
				t.Fatalf("%q in %q, %d: got %q, want %q", text, s.String(), n, got, want)
			}
			if len(want) == 0 {
				empty++
			} else {
				some++
			}
		}
	}
	if empty < 100 || some < 100 {
		t.Errorf("%d without a match, %d with some", empty, some)
	}
	for text, want := range map[string]bool{"a": false, "^a": true, "(?m)x|(^a)": true, `\bx`: true, `x\B`: true, "a$": false} {
		if p, err := NewRegexp(text); err != nil || p.looksBack != want {
			t.Errorf("%q: %v, %v", text, p, err)
		}
	}
}
