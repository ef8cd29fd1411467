package cel

import (
	"os"
	"strings"
	"testing"

	"github.com/google/cel-go/common/debug"
	apiextv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
)

// This file compares the quick parser with cel-go's.

// sameTree compares the trees of both parsers; quick says whether the quick
// parser made one.
func sameTree(t testing.TB, env *Env, src string) (quick bool) {
	tree, _ := env.decls.Grammar.Parse(src)
	if tree == nil {
		return false
	}
	got := debug.ToDebugString(tree.Expr())
	parsed, issues := env.decls.Base.Parse(src)
	if issues.Err() != nil {
		t.Errorf("%q: quick parser accepts what is wrong: %v", src, issues.Err())
		return true
	}
	if want := debug.ToDebugString(parsed.NativeRep().Expr()); got != want {
		t.Errorf("%q:\n got %s\nwant %s", src, got, want)
	}
	return true
}

// quickTexts are expressions that the quick parser knows.
var quickTexts = []string{
	"1", "-1", "- 1", "1.5", "-0.25", "true", "null", "'a'", `"a'b"`, `r"a\d"`, `R'''a'b'''`, `"""a"b
c"""`, `'a\'b\\\n\t'`, "a", "a.b.c", "a.b().c", "a[0].b[c]", "a.?b", "a[?1]", "f()", "f(a, b)", "!a", "!!a", "!!!a.b", "[1, 2,]", "[]",
	"{}", "{'a': 1, 'b': 2,}", "a && b", "a && b && c", "a && b && c && d && e", "a || b && c || d || e || f", "a ? b : c ? d : e",
	"(a ? b : c) ? d : e", "1 + 2 * 3 - 4 / 5 % 6", "(1 + 2) * 3", "a - 1", "a -1", "a < b == c", "a in b", "a in b in c", "1 in [1]",
	"has(a.b)", "a.all(x, x > 1)", "a.exists(x, x)", "a.exists_one(x, x)", "a.filter(x, x)", "a.map(x, x + 1)", "a.map(x, x > 1, x)",
	"a.all(i, x, i < x)", "a.transformList(i, v, v)", "a.transformMap(k, v, v)", "has(a.b) ? a.b : c", "a // comment\n&& b", " a\f\t\r\n", "a.if",
	"inner", "i", "internal in a", "a.b.all(x, has(x.y) && x.y.exists(z, z in [1, 2]))", "optional.of(1).orValue(2)", "a.?b.c.orValue('')",
	"size(a) == 1 && 'é'.size() == 1", "9223372036854775807", "-9223372036854775808", "a.all(x, b.all(y, x == y)) // end",
}

// strangeTexts are expressions that it may leave to cel-go, wrong ones among them.
var strangeTexts = []string{
	"", " ", "a b", "a &&", "&& a", "a..b", ".a", ".5", "1e3", "1u", "0x1f", "--1", "-a", "!-a", "!-1", "b'x'", "'a", "'''a", "'a\nb'", "'a\rb'",
	`'\x41'`, `'\q'`, `'\`, "\"\"\"\"", `""""a"""`, `"""a""""`, "''''''", "''", "a.in", "in", "if", "for(a)", "has(a)", "has(a, b)", "a.all(1, b)", "a.all(x.y, b)",
	"[,]", "{,}", "f(a,)", "a[]", "a{b: c}", "a.b{}", "a.`b`", "`a`", "[?a]", "{?a: b}", "a ? b", "a ? b ? c : d : e", "a = b", "a & b", "a | b", "a <= b >= c",
	"9223372036854775808", "1.", "1.a", "1 .a", "1a", "rr'a'", "r 'a'", "a ? b : c : d", "a'b'", "\xff", "'\xff'", "a.?b(c)", "__result__", "a.all(__result__, true)", "@result",
	strings.Repeat("(", 70) + "a" + strings.Repeat(")", 70), "a" + strings.Repeat(".b", 80), "a" + strings.Repeat("+b", 300), strings.Repeat("!", 99) + "a",
}

func TestQuickParser(t *testing.T) {
	env := testEnv(t)
	for _, src := range quickTexts {
		if !sameTree(t, env, src) {
			t.Errorf("%q: the quick parser gives up", src)
		}
	}
	for _, src := range strangeTexts {
		sameTree(t, env, src)
	}
	if text, err := os.ReadFile("../conformance/cel/testdata/expressions.txt"); err == nil {
		total, quick := 0, 0
		for _, line := range strings.Split(string(text), "\n") {
			total++
			if sameTree(t, env, line) {
				quick++
			}
		}
		t.Logf("quick: %d of %d", quick, total)
	}
	var walk func(s *apiextv1.JSONSchemaProps)
	total, quick := 0, 0
	walk = func(s *apiextv1.JSONSchemaProps) {
		for _, rule := range s.XValidations {
			total++
			if sameTree(t, env, rule.Rule) {
				quick++
			}
		}
		for _, p := range s.Properties {
			walk(&p)
		}
		if s.Items != nil {
			walk(s.Items.Schema)
		}
	}
	walk(route(t))
	if quick < total {
		t.Errorf("the quick parser knows %d of %d rules of HTTPRoute", quick, total)
	}
}

// TestValidated checks which expressions cel-go's validators look at.
func TestValidated(t *testing.T) {
	env := testEnv(t)
	if !env.decls.Plain {
		t.Error("cel-go has validators that the quick parser does not know")
	}
	for src, want := range map[string]bool{
		"a": false, "[1, 2]": false, "['a'].exists(x, x.matches('a'))": false, "[1, '2']": true, "[a, b]": true, "{'a': 1}": true,
		"duration('1')": true, "timestamp('1')": true, "matches('(', a)": true, "'%d'.format([1])": true,
	} {
		if _, got := env.decls.Grammar.Parse(src); got != want {
			t.Errorf("%s: got %t, want %t", src, got, want)
		}
	}
}

// FuzzQuickParser looks for expressions of which the parsers think differently.
func FuzzQuickParser(f *testing.F) {
	for _, src := range append(quickTexts, strangeTexts...) {
		f.Add(src)
	}
	env := testEnv(f)
	f.Fuzz(func(t *testing.T, src string) { sameTree(t, env, src) })
}
