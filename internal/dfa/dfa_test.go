package dfa

import (
	"fmt"
	"math/rand/v2"
	"regexp"
	"strings"
	"testing"
)

// patterns are such as definitions contain, and some that try the limits.
var patterns = []string{
	``, `^`, `$`, `^$`, `a`, `^a`, `a$`, `^a$`, `a|b`, `(a|b)*c`, `[^a]`, `.`, `(?s).`, `^.*$`, `\d+`, `\w\b`, `\Ba`, `(?m)^a$`, `(?i)http`, `\Aa\z`,
	`^[a-z0-9]([-a-z0-9]*[a-z0-9])?$`,
	`^(\*\.)?[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*$`,
	`^[A-Za-z0-9!#$%&'*+\-.^_\x60|~]+$`,
	`^([0-9]{1,5}(h|m|s|ms)){1,4}$`,
	`^(?:[A-Za-z0-9\-._~!$&'()*+,;=:@/]|%[0-9a-fA-F]{2})*$`,
	`^([a-zA-Z0-9]+([a-zA-Z0-9\-_.]*[a-zA-Z0-9])?/)?[a-zA-Z0-9]{1,63}$`,
	`^(0|(([0-9]+(\.[0-9]+)?)(y|w|d|h|m|s|ms)?)+)$`,
	`(^0$)|(^(([0-9]+)y)?(([0-9]+)w)?(([0-9]+)d)?$)`,
	`^([a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*/)?([A-Za-z0-9][-A-Za-z0-9_.]{0,61})?[A-Za-z0-9]$`,
	`^(Linux|LVM|Fat32|[0-9A-Fa-f]{8}(-[0-9A-Fa-f]{4}){3}-[0-9A-Fa-f]{12})$`,
	`^[^/]{0,20}x`, `é`, `[α-ω]+`, `(a*)*b`, `\x{1F600}|a`, `a{0,100}b{3}`, `x*y*z*`, `(?i:K)`, `ſ`, `^\S+@\S+$`, `a\b.\b`, `(|a)+$`, `\b`, `\B`, `^\B$`, `(^$)*a`, `(?:^|$|\b)*x`,
}

func check(t *testing.T, re *regexp.Regexp, m *Matcher, s string) {
	t.Helper()
	pattern := re.String()
	got, known := m.Match(s)
	if want := re.MatchString(s); known && got != want {
		t.Fatalf("%q matches %q: got %v, want %v", pattern, s, got, want)
	}
	if !known && strings.IndexFunc(s, func(r rune) bool { return r >= ascii }) < 0 {
		t.Fatalf("%q: ASCII string %q is not decided", pattern, s)
	}
}

func TestMatch(t *testing.T) {
	const letters = "ab01-./:%x@ \n_AKZkshm*é"
	r := rand.New(rand.NewPCG(1, 2))
	runes := []rune(letters)
	paired := 0
	for _, pattern := range patterns {
		re, m, single := regexp.MustCompile(pattern), Compile(pattern), unpaired(pattern)
		if m == nil {
			t.Errorf("%q needs too many states", pattern)
			continue
		}
		if m.pairs != nil {
			paired++
		}
		for range 2000 {
			s := make([]rune, r.IntN(12))
			for i := range s {
				s[i] = runes[r.IntN(len(runes))]
			}
			check(t, re, m, string(s))
			check(t, re, single, string(s))
		}
	}
	if paired == 0 || paired == len(patterns) {
		t.Errorf("%d of %d patterns read pairs: one way is not tried", paired, len(patterns))
	}
}

// TestCap holds that a pattern with too many states is refused quickly.
func TestCap(t *testing.T) {
	for _, pattern := range []string{`(a|b)*a(a|b){20}`, `^(.{0,200}x){2,4}$`} {
		if Compile(pattern) != nil {
			t.Errorf("%q compiles", pattern)
		}
	}
}

func FuzzMatch(f *testing.F) {
	for i, pattern := range patterns {
		f.Add(pattern, fmt.Sprintf("a%d-b.%s", i, strings.Repeat("x", i%5)))
	}
	f.Fuzz(func(t *testing.T, pattern, s string) {
		if len(pattern) > 200 {
			return
		}
		re, err := regexp.Compile(pattern)
		m := Compile(pattern)
		switch {
		case err != nil && m != nil:
			t.Fatalf("%q compiles, regexp says %v", pattern, err)
		case m != nil:
			check(t, re, m, s)
			check(t, re, unpaired(pattern), s)
		}
	})
}

func BenchmarkMatch(b *testing.B) {
	const pattern, s = `^(\*\.)?[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*$`, "rewrite.elsewhere.example.com"
	b.Run("regexp", func(b *testing.B) {
		re := regexp.MustCompile(pattern)
		for b.Loop() {
			re.MatchString(s)
		}
	})
	b.Run("dfa", func(b *testing.B) {
		m := Compile(pattern)
		for b.Loop() {
			m.Match(s)
		}
	})
	b.Run("compile", func(b *testing.B) {
		for b.Loop() {
			Compile(pattern)
		}
	})
}

// prefixes are patterns that match at the beginning only, and what else they try.
var prefixes = []string{
	`^([^/]+)`, `^[^@]+`, `^`, `^a*`, `^a*?b?`, `^(a|ab)(c|bcd)?`, `^(?:a|ab)(?:/|$)?`, `\Aa+?b*`, `^(?:x*|a)*`, `^(a+)+`, `^[a-z0-9]{2,5}-?`, `^(|a)+`, `^a|^ab`, `^(?s).`, `^.`, `^[^a]*a`, `^é?a`, `^(a?)(a?)b`,
}

func TestFind(t *testing.T) {
	const letters = "ab01-./:@ \nZé"
	r := rand.New(rand.NewPCG(1, 2))
	runes := []rune(letters)
	compiled := 0
	for _, pattern := range append(prefixes, patterns...) {
		re, f := regexp.MustCompile(pattern), CompileFind(pattern)
		if f == nil {
			continue
		}
		compiled++
		for range 2000 {
			s := make([]rune, r.IntN(8))
			for i := range s {
				s[i] = runes[r.IntN(len(runes))]
			}
			checkFind(t, re, f, string(s))
		}
	}
	if compiled < len(prefixes)-1 { // the one that asserts the end is left to package regexp
		t.Errorf("only %d patterns have a finder", compiled)
	}
}

func checkFind(t *testing.T, re *regexp.Regexp, f *Finder, s string) {
	t.Helper()
	want := -1
	if at := re.FindStringIndex(s); at != nil {
		want = at[1]
		if at[0] != 0 {
			t.Fatalf("%q matches %q at %d", re, s, at[0])
		}
	}
	if end, known := f.Find(s); known && end != want {
		t.Fatalf("%q in %q: got the end %d, want %d", re, s, end, want)
	} else if !known && strings.IndexFunc(s, func(r rune) bool { return r >= ascii }) < 0 {
		t.Fatalf("%q: ASCII string %q is not decided", re, s)
	}
}

func FuzzFind(f *testing.F) {
	for _, pattern := range prefixes {
		f.Add(pattern, "abc/def@1")
	}
	f.Fuzz(func(t *testing.T, pattern, s string) {
		re, err := regexp.Compile(pattern)
		if err != nil || len(pattern) > 50 {
			return
		}
		if m := CompileFind(pattern); m != nil {
			checkFind(t, re, m, s)
		}
	})
}
