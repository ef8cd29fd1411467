package fast

import (
	"math/rand/v2"
	"net/url"
	"strconv"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/keelson-io/keelson/cel/internal/lib"
)

// This file compares what is known of texts with the functions that it stands for.

// checkUsual compares what is known of a text without the library function with
// what the function says.
func checkUsual(t *testing.T, s string) {
	t.Helper()
	is, ok := isIP(s)
	if _, err := lib.ParseAddress(s); !ok || is != (err == nil) {
		t.Errorf("isIP(%q) = %t, %t, parseAddress: %v", s, is, ok, err)
	}
	if d, _, ok := UsualDuration(s, 0); ok {
		if want, err := time.ParseDuration(s); err != nil || d != int64(want) {
			t.Errorf("usualDuration(%q) = %d, time.ParseDuration: %d, %v", s, d, want, err)
		}
	}
	if i, _, ok := UsualInt(s, 0); ok {
		if want, err := strconv.ParseInt(s, 10, 64); err != nil || i != want {
			t.Errorf("usualInt(%q) = %d, strconv.ParseInt: %d, %v", s, i, want, err)
		}
	}
	if scheme, ok := usualURL(s); ok {
		_, err := url.ParseRequestURI(s)
		if (scheme != "") != (err == nil) {
			t.Errorf("usualURL(%q) = %q, url.ParseRequestURI: %v", s, scheme, err)
		}
		if u, err := lib.ParseURL(s); scheme != "" && (err != nil || u.Scheme != scheme) {
			t.Errorf("usualURL(%q) = %q, parseURL: %v, %v", s, scheme, u, err)
		}
	}
	for _, f := range lib.Formats() {
		if check := Fits[f.Name]; check != nil && check(s) && len(f.Validate(s)) > 0 {
			t.Errorf("%q fits %s, but %v", s, f.Name, f.Validate(s))
		}
	}
	if !hasByte(s, 'A', 'Z') && ASCIILower(s) != s || !hasByte(s, 'a', 'z') && ASCIIUpper(s) != s {
		t.Errorf("%q in lower case is %q, in upper case %q", s, ASCIILower(s), ASCIIUpper(s))
	}
	for _, want := range []string{s, ASCIILower(s), ASCIIUpper(s), "host"} {
		if got := equalCase(s, want, 'A', 'Z'); got != (ASCIILower(s) == want) {
			t.Errorf("%q in lower case is %q: %t", s, want, got)
		}
		if got := equalCase(s, want, 'a', 'z'); got != (ASCIIUpper(s) == want) {
			t.Errorf("%q in upper case is %q: %t", s, want, got)
		}
	}
	for _, separator := range []string{"/", "://", "a", "é"} {
		parts := strings.Split(s, separator)
		for n := range len(parts) + 2 {
			part, ok := partOf(s, separator, n)
			if ok != (n < len(parts)) || ok && part != parts[n] {
				t.Errorf("part %d of %q at %q: got %q, %t, want %q", n, s, separator, part, ok, parts)
			}
		}
	}
}

// usualTexts are texts that the checks are about, and some that only look so.
var usualTexts = []string{
	"", "*", "/", "/a:b", "10.0.0.1", "010.0.0.1", "256.1.1.1", "1.2.3", "1.2.3.4.5", "1.2.3.", ".1.2.3.4", "1..2.3", "::1", "1.2.3.4%eth0", "fe80::1%a", "::ffff:1.2.3.4", "1::", "12345::", "0:0:0:0:0:0:0:1", "00::", "1:2:3:4:5:6:7.8.9.10", "256:1::", "999", "1%", "abc%:", "shop.example.com", "a:b",
	"1s", "0s", "0", "1h30m", "1.5s", "-1s", "+1s", "999999h", "999999h999999h999999h", "1000000s", "99999999999999999999999s", "5m3", "7m8ms9s", "1ms", "1us", "1µs", "1m1m", "1", "s", "1S", "1 s", "00001s",
	"http://a", "https://a.b:8080/c?d", "HTTP://a", "http:a", "http:/a", "http:///a", "http://", "http://a:b/", "http://a:/", "http://[::1]/", "http://u@h/", "http://a/%41", "http://a/%zz", "oci://r/i:t", "a+b://c/d", "ghcr.io/a/b:1", "a.b:80/c",
	"http://a/é", "http://a b/", "http://a/ b", "http://a/b#c", "http://a/b?c#%zz", "http://a/path/of/length%", "http://a/path/of/\x7flength", "http://a/path/of\x1f/length", "http://a/path/of/é?x#y", "\x7f", "a\x00/", "file:///etc",
	"a-b", "-a", "a-", "a.b-.c", "a.-b", "a..b", "a.", "A.b", "a_b", "example.com/Name_1", "example.com/", "/a", "a/b/c", "1a", strings.Repeat("a", 63), strings.Repeat("a", 64), strings.Repeat("a.", 126) + "a", strings.Repeat("a.", 127) + "a", "Host", "HOST", "é", "É",
}

func TestUsual(t *testing.T) {
	for _, s := range usualTexts {
		checkUsual(t, s)
	}
	const alphabet = "aZ019.:/-_hms%@é *[]+?#"
	r, runes := rand.New(rand.NewPCG(1, 2)), []rune(alphabet)
	for range 100_000 {
		s := make([]rune, r.IntN(9))
		for i := range s {
			s[i] = runes[r.IntN(len(runes))]
		}
		text := string(s)
		if r.IntN(4) == 0 {
			text = "http://" + text
		}
		checkUsual(t, text)
	}
}

func FuzzUsual(f *testing.F) {
	for _, s := range usualTexts {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		if utf8.ValidString(s) { // as all strings of documents and of the language are
			checkUsual(t, s)
		}
	})
}

// TestContainsShort compares the search for one and two bytes with the library's, over texts of every length around a word, with the
// part at every place, once, twice or nearly.
func TestContainsShort(t *testing.T) {
	for size := range shortText + 3 {
		for at := range size + 1 {
			for _, put := range []string{"", "/", "//", "/-/", "-/", "/\x80", "é"} {
				s := (strings.Repeat("a", at) + put + strings.Repeat("a", size))[:size]
				for _, part := range []string{"/", "a"} {
					if got := containsByte(s, part); got != strings.Contains(s, part) {
						t.Fatalf("%q in %q: %t", part, s, got)
					}
				}
				for _, part := range []string{"//", "a/", "/a", "-/", "aa", "é"} {
					if got := containsPair(s, part); got != strings.Contains(s, part) {
						t.Fatalf("%q in %q: %t", part, s, got)
					}
				}
			}
		}
	}
}
