package cel

import (
	"math/rand/v2"
	"net/url"
	"strconv"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	apiextv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"sigs.k8s.io/yaml"
)

// This file compares the usual cases with the functions that they stand for.

// checkUsual compares what is known of a text without the library function with
// what the function says.
func checkUsual(t *testing.T, s string) {
	t.Helper()
	is, ok := isIP(s)
	if _, err := parseAddress(s); !ok || is != (err == nil) {
		t.Errorf("isIP(%q) = %t, %t, parseAddress: %v", s, is, ok, err)
	}
	if d, _, ok := usualDuration(s, 0); ok {
		if want, err := time.ParseDuration(s); err != nil || d != int64(want) {
			t.Errorf("usualDuration(%q) = %d, time.ParseDuration: %d, %v", s, d, want, err)
		}
	}
	if i, _, ok := usualInt(s, 0); ok {
		if want, err := strconv.ParseInt(s, 10, 64); err != nil || i != want {
			t.Errorf("usualInt(%q) = %d, strconv.ParseInt: %d, %v", s, i, want, err)
		}
	}
	if scheme, ok := usualURL(s); ok {
		_, err := url.ParseRequestURI(s)
		if (scheme != "") != (err == nil) {
			t.Errorf("usualURL(%q) = %q, url.ParseRequestURI: %v", s, scheme, err)
		}
		if u, err := parseURL(s); scheme != "" && (err != nil || u.Scheme != scheme) {
			t.Errorf("usualURL(%q) = %q, parseURL: %v, %v", s, scheme, u, err)
		}
	}
	for _, f := range formats() {
		if check := fits[f.name]; check != nil && check(s) && len(f.validate(s)) > 0 {
			t.Errorf("%q fits %s, but %v", s, f.name, f.validate(s))
		}
	}
	if !hasByte(s, 'A', 'Z') && asciiLower(s) != s || !hasByte(s, 'a', 'z') && asciiUpper(s) != s {
		t.Errorf("%q in lower case is %q, in upper case %q", s, asciiLower(s), asciiUpper(s))
	}
	for _, want := range []string{s, asciiLower(s), asciiUpper(s), "host"} {
		if got := equalCase(s, want, 'A', 'Z'); got != (asciiLower(s) == want) {
			t.Errorf("%q in lower case is %q: %t", s, want, got)
		}
		if got := equalCase(s, want, 'a', 'z'); got != (asciiUpper(s) == want) {
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

// TestSame compares the comparison of documents in place with the general one.
func TestSame(t *testing.T) {
	const schema = `{type: object, properties: {
		a: {type: string}, b: {type: integer}, c: {type: boolean}, d: {type: number, nullable: true}, e: {type: string, format: duration}, f: {x-kubernetes-int-or-string: true},
		l: {type: array, items: {type: object, properties: {x: {type: string}, y: {type: integer}}}},
		s: {type: array, x-kubernetes-list-type: set, items: {type: string}},
		so: {type: array, x-kubernetes-list-type: set, items: {type: object, properties: {x: {type: string}}}},
		k: {type: array, x-kubernetes-list-type: map, x-kubernetes-list-map-keys: [x], items: {type: object, properties: {x: {type: string}, y: {type: integer}}}},
		k2: {type: array, x-kubernetes-list-type: map, x-kubernetes-list-map-keys: [in], items: {type: object, properties: {in: {type: string}, y: {type: integer}}}},
		m: {type: object, additionalProperties: {type: integer}}, o: {type: object, properties: {p: {type: object, properties: {q: {type: string}}}}}}}`
	var s apiextv1.JSONSchemaProps
	if err := yaml.Unmarshal([]byte(schema), &s); err != nil {
		t.Fatal(err)
	}
	b := newShaper()
	typ := b.build(&s, false)
	values := map[string][]string{
		"a": {`"x"`, `"y"`, `""`, `1`, `null`}, "b": {`1`, `2`, `"1"`}, "c": {`true`, `false`}, "d": {`1.5`, `2`, `null`}, "e": {`"1s"`, `"1000ms"`, `"x"`}, "f": {`1`, `"1"`, `"2"`, `true`},
		"l": {`[]`, `[{"x":"a","y":1}]`, `[{"x":"a"}]`, `[{"x":"a","y":1},{"x":"b"}]`, `[{"x":"b"},{"x":"a","y":1}]`, `[null]`}, "s": {`["a","b"]`, `["b","a"]`, `["a","a"]`, `[1]`, `["a",null]`, `[]`}, "so": {`[{"x":"a"}]`, `[]`},
		"k": {`[{"x":"a","y":1},{"x":"b"}]`, `[{"x":"b"},{"x":"a","y":1}]`, `[{"x":"a","y":1},{"x":"a","y":2}]`, `[{"y":1}]`, `["a"]`}, "k2": {`[{"in":"a","y":1}]`, `[{"in":"a","y":1},{"in":"b","y":1}]`},
		"m": {`{"a":1,"b":2}`, `{"a":1,"c":2}`, `{"a":1}`, `{"a":"1","b":2}`, `{}`, `{"a":null}`}, "o": {`{}`, `{"p":{}}`, `{"p":{"q":"z"}}`, `{"p":null}`, `{"z":1}`},
	}
	names := []string{"a", "b", "c", "d", "e", "f", "l", "s", "so", "k", "k2", "m", "o", "undeclared"}
	values["undeclared"] = []string{`1`, `2`}
	r := rand.New(rand.NewPCG(3, 4))
	object := func(chosen []int) string {
		var parts []string
		for i, name := range names {
			if chosen[i] >= 0 {
				parts = append(parts, `"`+name+`": `+values[name][chosen[i]])
			}
		}
		return "{" + strings.Join(parts, ",") + "}"
	}
	decided := map[tri]int{}
	for range 5_000 {
		chosen := make([]int, len(names))
		for i, name := range names {
			if chosen[i] = -1; r.IntN(4) == 0 {
				chosen[i] = min(r.IntN(len(values[name])), r.IntN(len(values[name])))
			}
		}
		x := object(chosen)
		if i := r.IntN(2 * len(names)); i < len(names) {
			chosen[i] = r.IntN(len(values[names[i]])+1) - 1
		}
		y := object(chosen)
		v, w := b.document(t, x, typ, true), b.document(t, y, typ, true)
		left, right := loadVariable(v, typ), loadVariable(w, typ)
		check := func(left, right Value) {
			same, want := sameData(left, right), newComparison(nil).plainlyEqual(left, right)
			decided[same]++
			if same != bad && (want.kind != KindBool || want.Bool() != (same == yes)) {
				t.Errorf("%s == %s: got %v, want %v", x, y, same, want)
			}
			same, size := sides{left.doc(), right.doc(), nothing}.sized(left.node, right.node, left.typ)
			if same != bad && (want.kind != KindBool || want.Bool() != (same == yes)) || size != min(left.size(), right.size()) {
				t.Errorf("%s == %s: got %v of size %d, want %v", x, y, same, size, want)
			}
		}
		check(left, right)
		for _, name := range names { // one level down, so that the general comparison of a level does not rest on its own parts alone
			m, _ := left.find(name)
			n, _ := right.find(name)
			if (m.kind == KindList || m.kind == KindMap) && m.kind == n.kind {
				check(m, n)
			}
		}
	}
	if decided[yes] < 300 || decided[no] < 300 || decided[bad] < 300 {
		t.Errorf("too few of a sort: %v", decided)
	}
}

// TestNested holds that what is computed again in the general way is not
// computed again at each level of an expression: else this would not end.
func TestNested(t *testing.T) {
	env := testEnv(t)
	f := newFixture(t, env, `{type: object, properties: {s: {type: string, maxLength: 10}, l: {type: array, maxItems: 3, items: {type: string}}}}`, `{"s": "AB/c"}`)
	texts := "self.s" + strings.Repeat(".split('/')[0].lowerAscii().upperAscii()", 20) + " == 'AB'"
	sizes := "true"
	for range 30 {
		sizes = "((" + sizes + " ? size(self.l) : 1) > 0 || true)"
	}
	for _, expr := range []string{texts, sizes} {
		if got := f.outcome(t, expr, true); !strings.Contains(got, "bool true") {
			t.Errorf("%s: %s", expr, got)
		}
	}
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
