package cel

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"testing"
)

// outline prints a part and its parts, one a line.
func outline(b *strings.Builder, p *Part, depth int) {
	fmt.Fprintf(b, "%s%d:%d %s = %s", strings.Repeat("  ", depth), p.Line, p.Column, p.Text, p.Outcome)
	if p.Shown != nil {
		fmt.Fprintf(b, " %s", p.Shown)
	}
	if p.Error != "" {
		fmt.Fprintf(b, " (%s)", p.Error)
	}
	if p.Path != "" {
		fmt.Fprintf(b, " @%s", p.Path)
	}
	if l := p.Loop; l != nil {
		fmt.Fprintf(b, " [%d of %d, decided %t, %s %s]", l.Index, l.Elements, l.Decided, l.Path, l.Element)
	}
	b.WriteString("\n")
	for i := range p.Parts {
		if p.Parts[i].Text != "self" {
			outline(b, &p.Parts[i], depth+1)
		}
	}
}

func TestExplanation(t *testing.T) {
	f := newFixture(t, testEnv(t), strings.ReplaceAll(listSchema, "\t", " "), listData)
	for _, test := range []struct{ rule, want string }{
		{"self.num <= 3 && self.t == 'x'", `
1:1 self.num <= 3 && self.t == 'x' = value false
  1:1 self.num <= 3 = value false
    1:1 self.num = value 5 @self.num
  1:18 self.t == 'x' = unevaluated
    1:18 self.t = unevaluated @self.t
`},
		{"self.l.all(x,\n  x.v < 3)", `
1:1 self.l.all(x,
  x.v < 3) = value false [2 of 3, decided true, self.l[2] {"k":"c","o":{"x":3},"v":3}]
  1:1 self.l = value [{"k":"a","o":{"x":1},"v":1},{"k":"b","v":2},{"k":"c","o":{"x":3},"v":3}] @self.l
  2:3 x.v < 3 = value false
    2:3 x.v = value 3 @self.l[2].v
      2:3 x = value {"k":"c","o":{"x":3},"v":3} @self.l[2]
`},
		{"self.l.exists(x, x.o.x == 3)", `
1:1 self.l.exists(x, x.o.x == 3) = value true [2 of 3, decided true, self.l[2] {"k":"c","o":{"x":3},"v":3}]
  1:1 self.l = value [{"k":"a","o":{"x":1},"v":1},{"k":"b","v":2},{"k":"c","o":{"x":3},"v":3}] @self.l
  1:18 x.o.x == 3 = value true
    1:18 x.o.x = value 3 @self.l[2].o.x
      1:18 x.o = value {"x":3} @self.l[2].o
        1:18 x = value {"k":"c","o":{"x":3},"v":3} @self.l[2]
`},
		{"self.l[1].o.x > 0 || (self.num == 5)", `
1:1 self.l[1].o.x > 0 || (self.num == 5) = value true
  1:1 self.l[1].o.x > 0 = absorbed (no such key: o)
    1:1 self.l[1].o.x = absorbed (no such key: o) @self.l[1].o.x
      1:1 self.l[1].o = absorbed (no such key: o) @self.l[1].o
        1:1 self.l[1] = value {"k":"b","v":2} @self.l[1]
          1:1 self.l = value [{"k":"a","o":{"x":1},"v":1},{"k":"b","v":2},{"k":"c","o":{"x":3},"v":3}] @self.l
  1:23 self.num == 5 = value true
    1:23 self.num = value 5 @self.num
`},
		{"self.m.all(k, self.m[k] == 'z') || size(self.s) / 0 > 1", `
1:1 self.m.all(k, self.m[k] == 'z') || size(self.s) / 0 > 1 = error (division by zero)
  1:1 self.m.all(k, self.m[k] == 'z') = value false [0 of 1, decided true, self.m.p "p"]
    1:1 self.m = value {"p":"q"} @self.m
    1:15 self.m[k] == 'z' = value false
      1:15 self.m[k] = value "q" @self.m.p
        1:15 self.m = value {"p":"q"} @self.m
        1:22 k = value "p"
  1:36 size(self.s) / 0 > 1 = error (division by zero)
    1:36 size(self.s) / 0 = error (division by zero)
      1:36 size(self.s) = value 2
        1:41 self.s = value ["one","two"] @self.s
`},
	} {
		e, err := f.types.Explainer(test.rule, f.self, CompileOptions{})
		if err != nil {
			t.Fatal(err)
		}
		root := e.EvalRule(context.Background(), &Activation{Self: f.doc}, 1_000_000).Root(ShowOptions{})
		var b strings.Builder
		outline(&b, &root, 0)
		if got := "\n" + b.String(); got != test.want {
			t.Errorf("%s: got %s\nwant %s", test.rule, got, test.want)
		}
	}
}

func TestExplanationLines(t *testing.T) {
	f := newFixture(t, testEnv(t), strings.ReplaceAll(listSchema, "\t", " "), listData)
	e, err := f.types.Explainer("self.num > 3 && self.l.exists(x, self.l.all(y, x.v >= y.v && x.k == 'a'))", f.self, CompileOptions{})
	if err != nil {
		t.Fatal(err)
	}
	root := e.EvalRule(context.Background(), &Activation{Self: f.doc}, 1_000_000).Root(ShowOptions{Places: map[string]string{"self": "spec"}})
	const want = `
1:1    self.num > 3 && self.l.exists(x, self.l.all(y, x.v >= y.v && x.k == 'a')) = false
1:1      self.num > 3 = true
1:1        self.num = 5    (spec.num)
1:17     self.l.exists(x, self.l.all(y, x.v >= y.v && x.k == 'a')) = false    (elements: 3; below is spec.l[2] = {"k":"c","o":{"x":3},"v":3})
1:17       self.l = [{"k":"a","o":{"x":1},"v":1},{"k":"b","v":2},{"k":"c","o":{"x":3},"v":3}]    (spec.l)
1:34       self.l.all(y, x.v >= y.v && x.k == 'a') = false    (decided by spec.l[0] = {"k":"a","o":{"x":1},"v":1})
1:34         self.l = [{"k":"a","o":{"x":1},"v":1},{"k":"b","v":2},{"k":"c","o":{"x":3},"v":3}]    (spec.l)
1:48         x.v >= y.v && x.k == 'a' = false
1:48           x.v >= y.v = true
1:48             x.v = 3    (spec.l[2].v)
1:55             y.v = 1    (spec.l[0].v)
1:62           x.k == 'a' = false
1:62             x.k = "c"    (spec.l[2].k)
`
	if got := "\n" + strings.Join(root.Lines(), "\n") + "\n"; got != want {
		t.Errorf("got %s\nwant %s", got, want)
	}
}

// TestHiddenParts checks that an explanation does not show what depends on a hidden variable, and not
// which parts were evaluated because of it.
func TestHiddenParts(t *testing.T) {
	l, err := NewLanguage(LanguageOptions{Kubernetes: NewestKubernetes, Variables: []Variable{{Name: "object"}, {Name: "params"}}})
	if err != nil {
		t.Fatal(err)
	}
	vars := goVars(t, map[string]any{"object": map[string]any{"n": 5, "l": []int{1, 2}}, "params": map[string]any{"secret": "s3cret", "max": 4, "l": []string{"s3cret"}}})
	for _, expr := range []string{
		"params.secret == 'x' || object.n > 10",
		"object.n <= params.max",
		"params.l.exists(x, x == 'x' && object.n > 3)",
		"object.l.all(i, i <= params.max - 4)",
		"cel.bind(s, params.secret, s + 'a' == 'b' ? object.n > 4 : object.n < 3)",
		"[params].all(p, p.secret.startsWith('x'))",
		"params.?secret.orValue('') == '' && true",
		"{'a': params}['a'].secret == object.n",
	} {
		x, err := l.CompileExpression(expr)
		if err != nil {
			t.Logf("%s: %v", expr, err)
			continue
		}
		e, err := x.Explainer()
		if err != nil {
			t.Fatal(err)
		}
		explanation := e.Eval(context.Background(), vars, 0)
		text, err := json.Marshal(explanation.Root(ShowOptions{Hidden: []string{"params"}}).Parts)
		if err != nil {
			t.Fatal(err)
		}
		if strings.Contains(string(text), "s3cret") || strings.Contains(string(text), string(PartUnevaluated)) {
			t.Errorf("%s: shows %s", expr, text)
		}
	}
}

// TestExplanationBounds checks that explanations of huge expressions and data stay small.
func TestExplanationBounds(t *testing.T) {
	l, err := NewLanguage(LanguageOptions{Variables: []Variable{{Name: "x"}}})
	if err != nil {
		t.Fatal(err)
	}
	long := strings.Repeat("a", 1<<20)
	vars := goVars(t, map[string]any{"x": []any{long, long}})
	for _, expr := range []string{
		"[" + strings.Repeat("x[0] + x[1], ", 300) + "'']",
		strings.Repeat("x[0] == x[1] && ", 300) + "false",
		"x.all(a, x.all(b, x.all(c, a + b + c == '')))",
		"x == ['" + strings.Repeat("b", 50_000) + "']",
	} {
		x, err := l.CompileExpression(expr)
		if err != nil {
			t.Fatal(err)
		}
		e, err := x.Explainer()
		if err != nil {
			t.Fatal(err)
		}
		text, err := json.Marshal(e.Eval(context.Background(), vars, 1_000_000).Root(ShowOptions{}))
		if err != nil || len(text) > 150_000 {
			t.Errorf("%.30s: an explanation of %d bytes, %v", expr, len(text), err)
		}
	}
}

func FuzzSourceMap(f *testing.F) {
	for _, s := range []string{"a.b(c)[1]", `"a\"b" + r'\' // x`, "'''a'b''' + `x`", "-1e-3 + 0x1F", "((", "))", "é + 'é'", "'"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		m := newSourceMap(s)
		at := 0
		for _, token := range m.tokens {
			if token.start < at || token.end <= token.start || token.end > len(s) {
				t.Fatalf("%q: token %v behind %d", s, token, at)
			}
			at = token.end
		}
	})
}
