package cel

import (
	"context"
	"fmt"
	"math/rand"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/keelson-io/keelson/cel/internal/val"
	"github.com/keelson-io/keelson/jsondoc"
)

// partialLanguage has inputs of all sorts.
func partialLanguage(t testing.TB) *Language {
	t.Helper()
	l, err := NewLanguage(LanguageOptions{Libraries: AllLibraries(), Variables: []Variable{
		{Name: "n", Type: "int"}, {Name: "s", Type: "string"}, {Name: "b", Type: "bool"}, {Name: "c", Type: "bool"},
		{Name: "l", Type: "list(int)"}, {Name: "m", Type: "map(string, int)"}, {Name: "a"}, {Name: "at", Type: "timestamp"},
	}})
	if err != nil {
		t.Fatal(err)
	}
	return l
}

func patterns(t testing.TB, l *Language, texts ...string) []Pattern {
	t.Helper()
	var out []Pattern
	for _, text := range texts {
		p, err := l.Pattern(text)
		if err != nil {
			t.Fatal(err)
		}
		out = append(out, p)
	}
	return out
}

func TestPartial(t *testing.T) {
	l := partialLanguage(t)
	vars := Vars{}
	for name, v := range map[string]any{
		"n": 5, "s": "text", "b": true, "c": false, "l": []int{1, 2, 3}, "m": map[string]int{"x": 1, "y": 2},
		"a": map[string]any{"b": map[string]any{"c": 1, "d": "e"}, "list": []any{1, "two"}},
	} {
		var err error
		if vars[name], err = FromGo(v); err != nil {
			t.Fatal(err)
		}
	}
	for _, tt := range []struct{ expr, unknown, want string }{
		{"n > 3 && b", "b", "b; b"},
		{"c && b", "b", "false"},
		{"b && c", "b", "false"},
		{"n < 3 || s == 'text'", "s", `s == "text"; s`},
		{"n + 1 == size(l) + a.b.c", "a.b.c", `6 == 3 + a.b.c; a.b.c`},
		{"n + 1 == size(l) + a.b.c", "a.b", `6 == 3 + a.b.c; a.b`},
		{"a.b.d + s", "s", `dyn("e") + s; s`},
		{"a.b.d == 'e'", "a.b.c", "true"},
		{"a.b == {'c': 1}", "a.b.c", `a.b == {"c": 1}; a.b`},
		{"has(a.b.x) || b", "b", "b; b"},
		{"has(a.b.c) ? n : size(s)", "s", "5"},
		{"(n > 3 ? m.x : dyn(s)) + 1", "m", "dyn(m.x) + 1; m"},                 // of any type, as it was
		{"(n > 3 ? [a.x] : l).size()", "a", "((n > 3) ? [a.x] : l).size(); a"}, // a list of int, as it was
		{"b ? n : size(l)", "b", "b ? 5 : 3; b"},
		{"l.all(x, x < n)", "n", "[1, 2, 3].all(x, x < n); n"},
		{"l.exists(x, x > n || c)", "l", "l.exists(x, x > 5); l"},
		{"l.exists(x, x == 2 || x == n)", "n", "true"},
		{"l[n - 4] == m.x", "l[0]", "false"},
		{"l[n - 4] == m.x", "l[1]", "l[1] == 1; l[1]"},
		{"l[n]", "n", "l[n]; n"},
		{"a.list[0] == 1 && a.list[1] == 'two'", "a.list[*]", `a.list[0] == 1 && a.list[1] == "two"; a.list[0], a.list[1]`},
		{"a[?'q'].orValue(s)", "s", `a[?"q"].orValue(s); s`},
		{"cel.bind(y, n * 2, y + size(s))", "s", "cel.bind(y, 10, y + size(s)); s"},
		{"math.greatest(n, size(s), 2 + 2)", "s", "math.greatest(5, size(s), 4); s"},
		{"l[a.list]", "l", "l[a.list]; l"},
		{"1 / 0 > n && b", "b", "1 / 0 > 5 && b; b"},
		{"at + duration('90s') < timestamp('2020-01-01T00:00:00Z')", "at", `at + duration("1m30s") < timestamp("2020-01-01T00:00:00Z"); at`},
		{"m.x in l.filter(x, x > n)", "m", "m.x in l.filter(x, x > n); m"}, // m.x in [] would be false without a look at m.x
		{"'v=' + string(n) + s", "s", `"v=5" + s; s`},
	} {
		x, err := l.CompileExpression(tt.expr)
		if err != nil {
			t.Errorf("%s: %v", tt.expr, err)
			continue
		}
		out, _, err := x.Partial(context.Background(), vars, patterns(t, l, tt.unknown), 0)
		got := ""
		switch {
		case err != nil:
			got = "error: " + err.Error()
		case out.Known:
			got = out.Value.String()
		default:
			got = out.Residual + "; " + strings.Join(out.Unknown, ", ")
		}
		if got != tt.want {
			t.Errorf("%s with %s unknown:\n got %s\nwant %s", tt.expr, tt.unknown, got, tt.want)
		}
	}
}

// TestPartialNullBranches holds that ?: of data that is typed as bool may be null in parts, too.
func TestPartialNullBranches(t *testing.T) {
	l, err := NewLanguage(LanguageOptions{Libraries: AllLibraries(), Variables: []Variable{{Name: "l", Type: "list(bool)"}, {Name: "u", Type: "bool"}}})
	if err != nil {
		t.Fatal(err)
	}
	null, err := FromGo([]any{nil})
	if err != nil {
		t.Fatal(err)
	}
	for _, expr := range []string{"dyn((false ? l[0] : l[0])) == null", "(l.size() == 1 ? l[0] : true) != false", "[(true ? l[0] : u)] == [dyn(null)]"} {
		x, err := l.CompileExpression(expr)
		if err != nil {
			t.Fatal(err)
		}
		out, _, err := x.Partial(t.Context(), Vars{"l": null}, patterns(t, l, "u"), 1000)
		if err != nil || !out.Known || out.Value != val.BoolValue(true) {
			t.Errorf("%s: got %+v, %v, want true", expr, out, err)
		}
	}
}

// TestPartialEmptyLists holds that a list that turns out to be empty keeps its type where overloads are chosen by it.
func TestPartialEmptyLists(t *testing.T) {
	l, err := NewLanguage(LanguageOptions{Kubernetes: NewestKubernetes, Variables: []Variable{{Name: "ly"}, {Name: "y"}}})
	if err != nil {
		t.Fatal(err)
	}
	bytes, err := FromGo([]any{[]byte("a"), []byte("")})
	if err != nil {
		t.Fatal(err)
	}
	x, err := l.CompileExpression("(ly + [y].filter(v, false)).min()")
	if err != nil {
		t.Fatal(err)
	}
	vars := Vars{"ly": bytes, "y": val.BoolValue(true)}
	want, _, err := x.Eval(t.Context(), vars, 1000)
	if err != nil {
		t.Fatal(err)
	}
	out, _, err := x.Partial(t.Context(), vars, patterns(t, l, "ly[1]"), 1000)
	if err != nil || out.Known {
		t.Fatalf("got %+v, %v, want a residual", out, err)
	}
	y, err := l.CompileExpression(out.Residual)
	if err != nil {
		t.Fatal(err)
	}
	if got, _, err := y.Eval(t.Context(), vars, 1000); err != nil || got.String() != want.String() {
		t.Errorf("%s: got %v, %v, want %v", out.Residual, got, err, want)
	}
}

func TestPatternText(t *testing.T) {
	l, err := NewLanguage(LanguageOptions{Variables: []Variable{{Name: "a"}, {Name: "a.b"}}})
	if err != nil {
		t.Fatal(err)
	}
	for text, want := range map[string]string{
		"a": "a[]", "a.b": "a.b[]", "a.b.c": `a.b["c"]`, `a["b"].*[3][*]`: `a["b" * 3 *]`, "a[true]": "a[true]",
		"b": `unknown path "b": it begins with no variable of the language`, "ab": `unknown path "ab": it begins with no variable of the language`,
		"a.": `unknown path "a.": a name is missing before ""`, "a[": `unknown path "a[": got "[", want .name or [index]`,
		"a[x]": `unknown path "a[x]": index "x": want a number, a boolean, a quoted string or *`,
	} {
		p, err := l.Pattern(text)
		got := fmt.Sprint(err)
		if err == nil {
			var keys []string
			for _, k := range p.Keys {
				if k.Any {
					keys = append(keys, "*")
				} else {
					keys = append(keys, k.Key.String())
				}
			}
			got = fmt.Sprint(p.Name, keys)
		}
		if got != want {
			t.Errorf("%s: got %s, want %s", text, got, want)
		}
	}
}

// maker makes random expressions by type.
type maker struct {
	*rand.Rand
	vars []string // integer variables of comprehensions in scope
}

func (g *maker) pick(forms ...string) string { return forms[g.Intn(len(forms))] }

func (g *maker) bool(depth int) string {
	if depth == 0 {
		return g.pick("b", "c", "true", "false", "a.flag", "has(a.b)", "has(a.b.c)", "has(m.x)", "a.gone")
	}
	d := depth - 1
	switch g.Intn(13) {
	case 0:
		return "(" + g.bool(d) + " && " + g.bool(d) + ")"
	case 1:
		return "(" + g.bool(d) + " || " + g.bool(d) + ")"
	case 2:
		return "!(" + g.bool(d) + ")"
	case 3:
		return "(" + g.bool(d) + " ? " + g.bool(d) + " : " + g.bool(d) + ")"
	case 4:
		return g.int(d) + g.pick(" == ", " != ", " < ", " <= ", " > ", " >= ") + g.int(d)
	case 5:
		return g.string(d) + g.pick(" == ", " != ", " < ") + g.string(d)
	case 6:
		return g.string(d) + "." + g.pick("startsWith", "endsWith", "contains") + "(" + g.string(d) + ")"
	case 7:
		return g.int(d) + " in " + g.list(d)
	case 8:
		return g.dyn(d) + g.pick(" == ", " != ") + g.dyn(d)
	case 9, 10:
		list := g.list(d)
		name := fmt.Sprintf("v%d", len(g.vars))
		g.vars = append(g.vars, name)
		body := g.bool(d)
		g.vars = g.vars[:len(g.vars)-1]
		return list + "." + g.pick("all", "exists", "exists_one") + "(" + name + ", " + body + ")"
	case 11:
		return g.list(d) + " == " + g.list(d)
	}
	return "a.?b.?c.hasValue()"
}

func (g *maker) int(depth int) string {
	if depth == 0 {
		if len(g.vars) > 0 && g.Intn(2) == 0 {
			return g.vars[g.Intn(len(g.vars))]
		}
		return g.pick("n", "1", "0", "-3", "m.x", "m['y']", "l[0]", "l[1]", "m.gone", "int(a.b.c)")
	}
	d := depth - 1
	switch g.Intn(8) {
	case 0, 1:
		return "(" + g.int(d) + g.pick(" + ", " - ", " * ", " / ", " % ") + g.int(d) + ")"
	case 2:
		return "size(" + g.list(d) + ")"
	case 3:
		return g.string(d) + ".size()"
	case 4:
		return "l[" + g.int(d) + "]"
	case 5:
		return "(" + g.bool(d) + " ? " + g.int(d) + " : " + g.int(d) + ")"
	case 6:
		return "cel.bind(z" + fmt.Sprint(depth) + ", " + g.int(d) + ", z" + fmt.Sprint(depth) + " + " + g.int(d) + ")"
	}
	return "a.?b.?n.orValue(" + g.int(d) + ")"
}

func (g *maker) string(depth int) string {
	if depth == 0 {
		return g.pick("s", "'x'", "''", "'te'", "string(a.b.d)", "string(a.list[1])")
	}
	d := depth - 1
	switch g.Intn(4) {
	case 0:
		return "(" + g.string(d) + " + " + g.string(d) + ")"
	case 1:
		return "string(" + g.int(d) + ")"
	case 2:
		return g.string(d) + ".upperAscii()"
	}
	return "(" + g.bool(d) + " ? " + g.string(d) + " : " + g.string(d) + ")"
}

func (g *maker) list(depth int) string {
	if depth == 0 {
		return g.pick("l", "[1, 2, 3]", "[n]", "l")
	}
	d := depth - 1
	switch g.Intn(5) {
	case 0:
		return "[" + g.int(d) + ", " + g.int(d) + "]"
	case 1:
		return "(" + g.list(d) + " + " + g.list(d) + ")"
	case 2, 3:
		list := g.list(d)
		name := fmt.Sprintf("v%d", len(g.vars))
		g.vars = append(g.vars, name)
		defer func() { g.vars = g.vars[:len(g.vars)-1] }()
		if g.Intn(2) == 0 {
			return list + ".map(" + name + ", " + g.int(d) + ")"
		}
		return list + ".filter(" + name + ", " + g.bool(d) + ")"
	}
	return "(" + g.bool(d) + " ? " + g.list(d) + " : " + g.list(d) + ")"
}

func (g *maker) dyn(depth int) string {
	if depth == 0 {
		return g.pick("a", "a.b", "a.b.c", "a['b'].d", "a.list", "a.list[0]", "a.list[n]", "dyn(n)", "dyn(s)", "dyn('e')", "dyn(1)", "a.gone", "a[s]")
	}
	d := depth - 1
	return g.pick(g.dyn(d), "a.list["+g.int(d)+"]", "dyn({'c': "+g.int(d)+"})", "dyn("+g.list(d)+")", "("+g.bool(d)+" ? "+g.dyn(d)+" : "+g.dyn(d)+")")
}

// without is data without what the pattern names, where that is a plain path.
func without(data map[string]any, unknown string) map[string]any {
	out := map[string]any{}
	first, rest, nested := strings.Cut(unknown, ".")
	for k, v := range data {
		if k != first {
			out[k] = v
			continue
		}
		if child, ok := v.(map[string]any); ok && nested {
			out[k] = without(child, rest)
		} else if nested || strings.Contains(unknown, "[") {
			out[k] = v
		}
	}
	if strings.Contains(unknown, "[") {
		return data
	}
	return out
}

// TestPartialOfKubernetes: what remains compiles where the items of a literal
// must have one type.
func TestPartialOfKubernetes(t *testing.T) {
	l, err := NewLanguage(LanguageOptions{Kubernetes: NewestKubernetes, Variables: []Variable{
		{Name: "l", Type: "list(dyn)"}, {Name: "e", Type: "list(string)"}, {Name: "s", Type: "string"},
	}})
	if err != nil {
		t.Fatal(err)
	}
	vars := goVars(t, map[string]any{"l": []any{1, "a"}, "e": []string{}})
	for expr, want := range map[string]string{
		`[l, [dyn(s)]].size() == 2`: `[[dyn(1), dyn("a")], [dyn(s)]].size() == 2`,
		`[e, [s]].size() == 2`:      `[e, [s]].size() == 2`,
		`{s: e, 'k': [s]}.size()`:   `{s: e, "k": [s]}.size()`,
		`[[s], ?optional.of(e)][0]`: `[[s], ?optional.of(e)][0]`,
		`[s, 'a'].size() == 2`:      `[s, "a"].size() == 2`,
	} {
		x, err := l.CompileExpression(expr)
		if err != nil {
			t.Fatal(err)
		}
		out, _, err := x.Partial(context.Background(), vars, patterns(t, l, "s"), 0)
		if err != nil || out.Residual != want {
			t.Errorf("%s: got %s, %v, want %s", expr, out.Residual, err, want)
			continue
		}
		if _, err := l.CompileExpression(out.Residual); err != nil {
			t.Errorf("%s: the residual does not compile: %v", expr, err)
		}
	}
	// Checks of cel-go that panic are errors here.
	for _, expr := range []string{`[?dyn(optional.of(1))]`, `{?'a': dyn(optional.of(1)), 'b': 2}`} {
		if _, err := l.CompileExpression(expr); err == nil || !strings.Contains(err.Error(), "internal error") {
			t.Errorf("%s: got %v", expr, err)
		}
	}
}

// TestPartialLaw: evaluating the residual expression with everything known
// gives what evaluating everything at once gives, and so does an answer that
// was found early.
func TestPartialLaw(t *testing.T) {
	l := partialLanguage(t)
	paths := []string{"n", "s", "b", "c", "l", "l[0]", "l[*]", "m", "m.x", "m.gone", "a", "a.b", "a.b.c", "a.*", "a.list[1]", "a.list", "a.gone", "a.flag", "a.*.c"}
	rounds := 2_500
	if testing.Short() {
		rounds = 800
	}
	known, residual, failed := 0, 0, 0
	for seed := range rounds {
		g := &maker{Rand: rand.New(rand.NewSource(int64(seed)))}
		expr := []func(int) string{g.bool, g.int, g.string, g.list, g.dyn}[g.Intn(5)](1 + g.Intn(4))
		var unknown []string
		for range 1 + g.Intn(3) {
			unknown = append(unknown, paths[g.Intn(len(paths))])
		}
		data := map[string]any{
			"n": g.Intn(7) - 2, "s": g.pick("", "x", "text", "b"), "b": g.Intn(2) == 0, "c": g.Intn(2) == 0,
			"l": []int{g.Intn(3), g.Intn(3), 4}[:g.Intn(4)], "m": map[string]any{"x": g.Intn(3), "y": 2},
			"a": map[string]any{"b": map[string]any{"c": g.Intn(3), "d": g.pick("e", "f")}, "list": []any{g.Intn(3), g.pick("x", "two")}, "flag": g.Intn(2) == 0},
		}
		x, err := l.CompileExpression(expr)
		if err != nil {
			t.Fatalf("seed %d: %s: %v", seed, expr, err)
		}
		want, _, wantErr := x.Eval(context.Background(), goVars(t, data), 0)
		rest := data
		for _, path := range unknown {
			rest = without(rest, path)
		}
		out, _, err := x.Partial(context.Background(), goVars(t, rest), patterns(t, l, unknown...), 0)
		got, gotErr := out.Value, err
		if err == nil && !out.Known {
			residual++
			y, err := l.CompileExpression(out.Residual)
			if err != nil {
				t.Fatalf("seed %d: %s with %v unknown: residual %s: %v", seed, expr, unknown, out.Residual, err)
			}
			got, _, gotErr = y.Eval(context.Background(), goVars(t, data), 0)
			again, _, err := y.Partial(context.Background(), goVars(t, rest), patterns(t, l, unknown...), 0)
			if err == nil && !again.Known && len(again.Residual) > 2*len(out.Residual)+20 {
				t.Errorf("seed %d: the residual of a residual grows: %s, %s", seed, out.Residual, again.Residual)
			}
		} else {
			known++
		}
		if gotErr != nil {
			failed++
		}
		if fmt.Sprint(gotErr) != fmt.Sprint(wantErr) || gotErr == nil && (!reflect.DeepEqual(got.Go(), want.Go()) || got.Kind() != want.Kind()) {
			t.Fatalf("seed %d: %s\nwith %v unknown in %v\nresidual %q\n got %v, %v\nwant %v, %v", seed, expr, unknown, data, out.Residual, got, gotErr, want, wantErr)
		}
	}
	t.Logf("%d known, %d residual, %d errors", known, residual, failed)
	if known == 0 || residual == 0 || failed == 0 {
		t.Error("one of the three never happened")
	}
}

func goVars(t testing.TB, data map[string]any) Vars {
	t.Helper()
	vars := Vars{}
	for name, v := range data {
		value, err := FromGo(v)
		if err != nil {
			t.Fatal(err)
		}
		vars[name] = value
	}
	return vars
}

func TestSubset(t *testing.T) {
	l, err := NewLanguage(LanguageOptions{
		Variables: []Variable{{Name: "s", Type: "string"}, {Name: "l", Type: "list(int)"}, {Name: "d"}},
		Subset:    &Subset{Functions: []string{"==", "&&", "size_string", "startsWith"}, Macros: []string{"all"}},
	})
	if err != nil {
		t.Fatal(err)
	}
	for expr, want := range map[string]string{
		"s == 'x' && s.startsWith('x')":    "",
		"l.all(x, x == 1)":                 "",
		"size(s) == 1":                     "",
		"l.all(x, x == 1 || x == 2)":       `function "_||_" is not part of this language`,
		"s == 'a' || s == 'b'":             `function "_||_" is not part of this language`,
		"size(l) == 1":                     "found no matching overload for 'size'",
		"size(d) == 1":                     "for some types only",
		"s.endsWith('x')":                  "undeclared reference to 'endsWith'",
		"l.exists(x, x == 1)":              "undeclared reference to 'exists'",
		"optional.of(s).hasValue()":        `function "hasValue" is not part of this language`,
		"l.all(x, s.matches('x'))":         "undeclared reference to 'matches'",
		"s + s == s":                       `function "_+_" is not part of this language`,
		"l.all(x, l.all(y, s + 'x' == s))": `function "_+_" is not part of this language`,
	} {
		_, err := l.CompileExpression(expr)
		if (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("%s: got %v, want %q", expr, err, want)
		}
	}
	if got := l.Functions(); !slices.Equal(got, []string{"&&", "==", "size", "startsWith"}) {
		t.Errorf("functions: %v", got)
	}
	if got := l.Macros(); !slices.Equal(got, []string{"all"}) {
		t.Errorf("macros: %v", got)
	}
	for _, s := range []Subset{{Functions: []string{"nope"}}, {Macros: []string{"nope"}}} {
		if _, err := NewLanguage(LanguageOptions{Subset: &s}); err == nil || !strings.Contains(err.Error(), `"nope": not in the libraries`) {
			t.Errorf("%v: got %v", s, err)
		}
	}
}

// TestKubernetesPartial: in the language of a version of Kubernetes, residual
// expressions compile although constants are looked at early.
func TestKubernetesPartial(t *testing.T) {
	self := &Type{Kind: Object, Fields: []Field{
		{Name: "b", Type: &Type{Kind: Bool}, Slot: -1}, {Name: "l", Type: &Type{Kind: List, Elem: &Type{Kind: Int}}, Slot: -1},
		{Name: "p", Type: &Type{Kind: String}, Slot: -1},
	}}
	l, err := NewLanguage(LanguageOptions{Kubernetes: NewestKubernetes, Variables: []Variable{{Name: "self", Schema: self}}})
	if err != nil {
		t.Fatal(err)
	}
	data, err := parsed(`{"p": "(", "l": [1, 2]}`)
	if err != nil {
		t.Fatal(err)
	}
	vars := Vars{"self": FromDoc(data, self)}
	for expr, want := range map[string]string{
		"self.b || int(self.p) == 1":                    "self.b || int(self.p) == 1",
		"self.b || 'x'.matches(self.p)":                 `self.b || "x".matches(self.p)`,
		"self.b || duration(self.p) > duration('1s')":   `self.b || duration(self.p) > duration("1s")`,
		"self.l.exists(x, x > 2 || self.b)":             "[1, 2].exists(x, x > 2 || self.b)",
		"self.b && self.l.sum() == 3":                   "self.b",
		"self.b && self.l == [2, 1]":                    "false",
		"self.b ? {'a': 1, 'a': 2}.size() == 1 : false": `self.b ? true : false`,
	} {
		x, err := l.CompileExpression(expr)
		if err != nil {
			t.Errorf("%s: %v", expr, err)
			continue
		}
		out, _, err := x.Partial(context.Background(), vars, patterns(t, l, "self.b"), 0)
		got := out.Residual
		if out.Known {
			got = out.Value.String()
		}
		if err != nil || got != want {
			t.Errorf("%s: got %s, %v, want %s", expr, got, err, want)
		}
		if out.Known {
			continue
		}
		if _, err := l.CompileExpression(out.Residual); err != nil {
			t.Errorf("%s: residual %s: %v", expr, out.Residual, err)
		}
	}
	if _, err := l.CompileExpression("self.b && int('x') == 1"); err == nil {
		t.Error("a conversion that upstream refuses early: no error")
	}
}

func parsed(text string) (jsondoc.Value, error) {
	d := &jsondoc.Doc{}
	d.Reset([]*jsondoc.Shape{nil})
	err := jsondoc.Parse(d, []byte(text))
	return d.Root(), err
}
