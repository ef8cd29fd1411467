package yamljson

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	upstream "sigs.k8s.io/yaml"
)

// check holds a conversion against upstream's.
func check(t *testing.T, text []byte) {
	t.Helper()
	want, wantErr := upstream.YAMLToJSON(text)
	_, wantTwice := upstream.YAMLToJSONStrict(text)
	got, twice, err := JSON(context.Background(), text, true)
	if limit := (*LimitError)(nil); errors.As(err, &limit) {
		return
	}
	if fmt.Sprint(err) != fmt.Sprint(wantErr) {
		t.Fatalf("%.300q: got error %v, want %v", text, err, wantErr)
	}
	if string(got) != string(want) {
		t.Fatalf("%.300q:\ngot  %.300s\nwant %.300s", text, got, want)
	}
	if err == nil && fmt.Sprint(twice) != fmt.Sprint(wantTwice) {
		t.Fatalf("%.300q: got duplicates %v, want %v", text, twice, wantTwice)
	}
	again, none, err := JSON(context.Background(), text, false)
	if string(again) != string(want) || none != nil || fmt.Sprint(err) != fmt.Sprint(wantErr) {
		t.Fatalf("%.300q, not strict: got %.300s, %v, %v", text, again, none, err)
	}
}

var texts = []string{
	"", "#", "---\n", "null", "~", "{}", "[]", "a", "1", "1.5", "true", "yes", "[1, {a: 1, a: 2}]", "a: {}", "a: []", "a:", "a: ~",
	"a: 1\na: 2\n", "a: {b: 1, b: 2}\na: 3", "1: a\n\"1\": a\n", "1.0: a", "yes: 1\ntrue: 2\non: 3", ".inf: 1", "a: .nan", "a: -.inf",
	"~: 1", "? [a]\n: 1", "? {a: 1}\n: 1", "a: {~: {b: 1}}", "x: &x {a: 1, b: 2}\ny: {<<: *x, b: 3}", "y: {<<: 1}", "<<: {a: 1}",
	"x: &x {a: 1}\ny: {<<: [*x, {b: 1}], <<: *x}", "\"<<\": {a: 1}",
	"! \"\\x3c<\": {a}", "a: !\n  \"\\u003c<\": {a}", "!<!> \"\\x3c<\": {a}", "{!\t&a \"\\x3c<\": {a}}",
	"!!merge \"\\x3c<\": {a: 1}", "!<tag:yaml.org,2002:m%65rge> \"\\x3c\\x3c\": {a: 1}",
	"a: &a [*a]", "a: *b", "a: !!binary aGk=", "a: !!binary \"%\"", "a: !!str 1", "a: !!int \"1\"", "a: !!float 1", "a: ! 1", "!!binary aGk=: 1",
	"a: 2001-01-01", "2001-01-01: a", "a: 0b11", "a: 0o7", "a: 010", "a: 1_000", "a: 1:30", "a: 18446744073709551615", "18446744073709551615: 1", "a: 1e400",
	"a: 99999999999999999999", "a: \"\\xff<>&\\u2028\\x7f\"", "a: |\n  x\n  y\n", "a: >\n x\n y\n", "a: b: c", "\ta: 1", "a: 1\n\tb: 2",
	"a: 1\n--- \nb: 2", "a: 1\n...\nb: [", "{\"a\": 1, \"b\": [1.0, 1e3]}", "\xff\xfea\x00:\x00 \x001\x00", "\x00", "a: \xff", "%YAML 1.1\n---\na: 1",
	"a: '\x01'", "[? a, ? b]", "- a\n-\n- - b\n", "{a, b: c}", "!!map {a: 1}", "!x {a: 1}", "!x [a]", "!!null {a: 1}", "!!null x", "&a {b: &b 1, c: *b}",
}

// blockTexts are for block.go: texts that it converts, and their neighbours that it must leave to the
// library.
var blockTexts = []string{
	"a: b\n", "a:\n  b: c\n  d:\n  - e\n  - f: g\n    h: i\n  j: 1\nk: true\n", "a:\n- b\n- c\nd: e", "a:\n- b: 1\n  c:\n  - d\n- e: 2\n",
	"# c\n\na: 1\n  # c\nb: 2\n", "a: 'b'\nc: \"d\"\ne: {}\nf: []\n", "a: 25%\nb: 500m\nc: 256Mi\nd: 1.14.2\ne: 5432/tcp", "b: 1\na: 2\n", "a:\nb: c\n",
	"a: null\nb: ~\nc: Null", "a: http://x:80/?y=z&w={v}", "- a: b\n", "a: b\n  c\n", "a: b # c\n", "a: b #c", "a: b#c", "a: \"b\\n\"", "a: 'b''c'", "a: 'b' \n",
	"a: b: c\n", "a: b:\n", "a: b:c\n", "on: 1", "a: on", "y: y", "a: 010", "a: 0", "a: -1", "a: 1e3", "a: 12345678901234567890", "a: 2001-01-01", "a: 12:30",
	"a:\n    b: 1\n  c: 2\n", "a:\n  b: 1\n    c: 2\n", "a:\n  - b\n - c\n", "a:\n  - b\n  c: d\n", "a:\n-\n  b: c\n", "a:\n- - b\n", "a:\n-  b: c\n   d: e\n",
	"a:\n- b:\n  - c\n  - d\n", "a:\n- b:\n- c\n", "  a: 1\n", "a: |\n  b\n", "a: &b c\nd: *b", "a: !!str 1", "a: [b, c]", "a: {b: c}", "? a\n: b", "a: b\n---\nc: d", "a: b\n...\n",
	"%YAML 1.1\n---\na: b", "a : b", "a:b", "a:", "a: <b>&", "a: b\tc", "a: \x01", "a: é", "a: b\r\n", "\ufeffa: b", "a: `b`", "a: @b", "a: %b", "a: ,b", "a: b,", "a: _1", "a: /b", "a: .b",
	"a: 1_000", "a: 0x1F", "a: 1 b", "a: 9_9m", "a: 1.", "a: 1..2", "a: 1.2.3e4", "a.b/c-d_e: f", "-a: b", "a: b\n# c\n  # d\n", "a:\n# c\n  b: c\n", "a: b\n\n\n  c: d",
	"a: [b, \"c d\", 'e,f',8080, true,null, g/h] # c\nb: 1", "a: [b]#c", "a: [b] c", "a: [b,]", "a: [,b]", "a: [ ]", "a: [b", "a: [b: c]", "a: [\"b\": c]", "a: [\"b\\\"\"]",
	"a: ['b''c']", "a: [b c]", "a: [1.5]", "a: [on]", "a: [2001-01-01]", "a: [[b]]", "a: [b, [c]]", "a: [-]", "a: [--b]", "a: [*b]", "a: [\"b\" c]", "a:\n- [b, c]\n- d # e\n", "a: [b]: c",
	"a: [b]\n  c\n", "a: [b,\n  c]\n", "a: [\"b # c\"]", "a: [b #c]\n", "a: [b, #c\n d]\n",
	"a: # b\n  c: d # e\n  f: \"g\"   # \"h\"\n  i: 'j # k'\n  l: 1 # m\n  n: {} # o\n", "a: \"b\"#c", "a: \"b\\\" # c\"", "a: 'b'' # c'", "a: b: # c", "a: b # c: d", "a: b  #\n", "a: #\n- b\n",
	"a:\n- # b\n  c: d\n", "a: b #\n  c\n", "a: \"b\" #\n  c\n", "a: b# c", "a: 'b' 'c' # d", "a: | # b\n  c\n", "a: # b\nc: d\n", "a:  # b\n  # c\n  d\n",
	"a: \"b\" c", "a: \"b\"\"c\"", "a: 'b'c'", "a: \"b\n  c\"\n", "a: b\na: c\n", "<<: b", "a: =", "a: yes please", "a: nO", "a: -", "a: - b", "a:  b  \n", "a:\n - b\n - c\nd: e\n",
}

func TestBlockEqualsUpstream(t *testing.T) {
	for _, text := range blockTexts {
		t.Run("", func(t *testing.T) { check(t, []byte(text)) })
	}
	for _, text := range blockTexts[:9] {
		if _, ok := block([]byte(text)); !ok {
			t.Errorf("%q: left to the library", text)
		}
	}
}

// FuzzBlock makes texts of lines that block.go may convert.
func FuzzBlock(f *testing.F) {
	for _, text := range blockTexts {
		f.Add([]byte(text), uint8(0))
	}
	f.Fuzz(func(t *testing.T, text []byte, turn uint8) {
		if len(text) > 2000 {
			return
		}
		// One indentation less or more somewhere is what the conversion could misread.
		lines := strings.Split(string(text), "\n")
		if i := int(turn) % len(lines); turn > 0 {
			lines[i] = " " + lines[i]
		}
		check(t, []byte(strings.Join(lines, "\n")))
	})
}

func BenchmarkJSON(b *testing.B) {
	text := []byte("kind: Widget\n")
	for i := range 40 {
		text = fmt.Appendf(text, "key%d:\n  name: value\n  ports:\n  - name: http\n    port: 8080\n", i)
	}
	b.SetBytes(int64(len(text)))
	b.ReportAllocs()
	for b.Loop() {
		if _, _, err := JSON(context.Background(), text, true); err != nil {
			b.Fatal(err)
		}
	}
}

func TestEqualsUpstream(t *testing.T) {
	for _, text := range texts {
		t.Run("", func(t *testing.T) { check(t, []byte(text)) })
	}
}

func FuzzEqualsUpstream(f *testing.F) {
	for _, text := range texts {
		f.Add([]byte(text))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		if len(text) < 2000 {
			check(t, text)
		}
	})
}

// Ledger: yaml-bounds, yaml-lists.
func TestBounds(t *testing.T) {
	for _, c := range []struct{ name, text, want string }{
		{"long text, many aliases", "a: &a " + strings.Repeat("x", 1<<20) + "\nb: [" + strings.Repeat("*a,", 200_000) + "]", "longer than 25165824 bytes"},
		{"long text in merges", "a: &a {x: " + strings.Repeat("x", 1<<20) + "}\nb: [" + strings.Repeat("{<<: *a},", 50_000) + "]", "longer than 25165824 bytes"},
		{"merge keys in many values", "a: {<<: {x: 1}}\nb: [" + strings.Repeat("1,", MaxTwice) + "]", "merge keys or odd keys has at most 500000 values"},
		{"many small values", "a: [" + strings.Repeat("? a,", MaxIndicators/2) + "]", "at most 800000 indicators (one of , ? : [ { -), got 800002"},
		{"many keys", "a: {" + strings.Repeat("a,", MaxIndicators) + "}", "at most 800000 indicators"},
		{"many items", "a:\n" + strings.Repeat("- - ", MaxIndicators/2) + "\n", "at most 800000 indicators"},
		{"many items in UTF-16", "\xff\xfea\x00:\x00 \x00" + strings.Repeat("-\x00\n\x00", MaxIndicators), "at most 800000 indicators"},
		{"duplicate keys in many values", "a: 1\na: 2\nb: [" + strings.Repeat("1,", MaxTwice) + "]", "duplicate keys has at most 500000 values"},
	} {
		t.Run(c.name, func(t *testing.T) {
			_, _, err := JSON(context.Background(), []byte(c.text), true)
			if limit := (*LimitError)(nil); !errors.As(err, &limit) || !strings.Contains(err.Error(), c.want) {
				t.Errorf("got %v, want %q", err, c.want)
			}
		})
	}
	got, _, err := JSON(context.Background(), []byte("a: 1\na: 2\nb: ["+strings.Repeat("1,", MaxTwice)+"]"), false)
	if err != nil || !strings.HasPrefix(string(got), `{"a":2,`) {
		t.Errorf("nobody asks for duplicates: got %.20s, %v", got, err)
	}
	if got, _, err := JSON(context.Background(), []byte("["+strings.Repeat("? a,", maxList)+"]"), true); err != nil || string(got) != "[]" {
		t.Errorf("a long list: got %.20s, %v", got, err)
	}
}

// TestDepth: a text that is too deep is malformed, and not too large, however long it is.
func TestDepth(t *testing.T) {
	for _, n := range []int{MaxDepth + 1, MaxIndicators + 1} {
		for _, open := range []string{"[", "{"} {
			_, _, err := JSON(t.Context(), []byte("a: "+strings.Repeat(open, n)), true)
			if limit := (*LimitError)(nil); err == nil || errors.As(err, &limit) || !strings.Contains(err.Error(), "exceeded max depth of 10000") {
				t.Errorf("%d of %s: got %v", n, open, err)
			}
		}
	}
}

// lasting is a context that ends when it has been asked so often.
type lasting struct {
	context.Context
	asked, ends int
}

func (c *lasting) Err() error {
	if c.asked++; c.asked > c.ends {
		return context.Canceled
	}
	return nil
}

func TestEndsWithContext(t *testing.T) {
	text := []byte("a: [" + strings.Repeat("1,", 5_000) + "]")
	all := &lasting{context.Background(), 0, 1 << 30}
	if _, _, err := JSON(all, text, true); err != nil || all.asked < 20 {
		t.Fatalf("asked %d times, %v", all.asked, err)
	}
	for ends := range all.asked {
		c := &lasting{context.Background(), 0, ends}
		if _, _, err := JSON(c, text, true); !errors.Is(err, context.Canceled) || c.asked > ends+4 {
			t.Fatalf("ended after %d: got %v after %d", ends, err, c.asked)
		}
	}
}

// TestIndicators compares the estimate with the number of decoded values: at most two for each
// indicator, and one more.
func TestIndicators(t *testing.T) {
	for _, text := range append(slices.Clone(texts), "- - - a", "? ? ? a", "- ? - : a", "[?,?]", "{?,:}", "- -\t- -\u2028-\n-", "-", "a: -1", "[a,[],{},b]", "{a,b,c}", "- {a}\n- [b, c]") {
		var v any
		if err := decode(context.Background(), []byte(text), &v, false); err != nil || strings.Contains(text, "*") {
			continue
		}
		if got, values := indicators([]byte(text)), count(v); values > 2*got+1 {
			t.Errorf("%q: got %d indicators for %d values", text, got, values)
		}
	}
	if got := indicators([]byte("a-b: -1\nc: --x-y\nurl: http://x\n")); got != 4 {
		t.Errorf("got %d indicators, want 4: dashes in texts are none", got)
	}
}

func BenchmarkWorst(b *testing.B) {
	text := []byte("x: [" + strings.Repeat("? a,", MaxIndicators/2-2) + "]")
	b.ReportAllocs()
	for b.Loop() {
		if _, _, err := JSON(context.Background(), text, true); err != nil {
			b.Fatal(err)
		}
	}
}
