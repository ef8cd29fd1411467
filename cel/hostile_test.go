package cel

import (
	"context"
	"errors"
	"fmt"
	"os"
	"runtime"
	"strings"
	"testing"

	"github.com/google/cel-go/cel"
	"github.com/google/cel-go/common/types"
	"github.com/google/cel-go/common/types/ref"

	"github.com/keelson-io/keelson/cel/internal/val"
)

// This file holds expressions and data that somebody wrote to do harm: they end,
// in upstream's words, in memory that is bounded by what was written and by the
// limit of the cost.

// allocated is how many bytes fn allocates.
func allocated(fn func()) uint64 {
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	fn()
	runtime.ReadMemStats(&after)
	return after.TotalAlloc - before.TotalAlloc
}

// TestHostileTexts compares what is refused with cel-go, as rules and as
// expressions of a language.
func TestHostileTexts(t *testing.T) {
	again := strings.Repeat
	upstream, err := cel.NewEnv(cel.Variable("self", cel.DynType), cel.Variable("oldSelf", cel.DynType))
	if err != nil {
		t.Fatal(err)
	}
	f := newFixture(t, testEnv(t), "{type: object, properties: {a: {type: integer}}}", "{a: 1}")
	l, err := NewLanguage(LanguageOptions{Libraries: []Library{}, Variables: []Variable{{Name: "self"}, {Name: "oldSelf"}}})
	if err != nil {
		t.Fatal(err)
	}
	for name, text := range map[string]string{
		"parentheses":        again("(", 300) + "1" + again(")", 300),
		"many parentheses":   again("(", 50_000),
		"lists":              again("[", 300) + again("]", 300),
		"maps":               again("{1: ", 300) + "1" + again("}", 300),
		"negations":          "!!" + again("(!", 300) + "true" + again(")", 300),
		"conditions":         again("true ? (", 300) + "1" + again(") : 2", 300),
		"macros":             again("[1].map(x, ", 300) + "x" + again(")", 300),
		"indexes":            "[1]" + again("[[1]", 300) + again("[0]]", 300),
		"too long":           "'" + again("x", 100_001) + "'",
		"too long, operands": "1" + again(" + 1", 30_000),
		"errors":             again("1 + ", 200),
		"many errors":        again("? ", 5_000),
		"unclosed text":      "'" + again("x", 90_000),
		"number":             again("9", 5_000),
		"double":             "1e" + again("9", 300),
		"escapes":            `'` + again(`\`, 1001) + `'`,
		"bytes":              "\xff\xfe\x00",
		"names":              again("a.", 400) + "a",
	} {
		var ours, rule error
		_, issues := upstream.Compile(text)
		used := allocated(func() {
			_, ours = l.CompileExpression(text)
			_, rule = f.types.Compile(text, f.self, CompileOptions{Want: AnyResult})
		})
		if issues.Err() == nil || ours == nil || ours.Error() != issues.String() {
			t.Errorf("%s: got %.300v\nwant %.300s", name, ours, issues)
		}
		if name != "names" && (rule == nil || rule.Error() != "compilation failed: "+issues.String()) {
			t.Errorf("%s: as a rule: got %.300v\nwant %.300s", name, rule, issues)
		}
		if most := uint64(20<<20 + 40_000*len(text)); used > most {
			t.Errorf("%s: allocated %d bytes for %d bytes of text", name, used, len(text))
		}
	}
}

// TestHostile evaluates expressions that make much of little.
// Ledger: cel-panics, cel-bytes-concat, cel-nested-comparisons, cel-result-size.
func TestHostile(t *testing.T) {
	l, err := NewLanguage(LanguageOptions{Libraries: AllLibraries(), Variables: []Variable{
		{Name: "s", Type: "string"}, {Name: "l", Type: "list(string)"}, {Name: "big", Type: "string"}, {Name: "b", Type: "bytes"}, {Name: "re", Type: "string"}}})
	if err != nil {
		t.Fatal(err)
	}
	kubernetes, err := NewLanguage(LanguageOptions{Kubernetes: NewestKubernetes, Variables: []Variable{{Name: "s", Type: "string"}, {Name: "b", Type: "bytes"}, {Name: "big", Type: "string"}}})
	if err != nil {
		t.Fatal(err)
	}
	vars := goVars(t, map[string]any{
		"s": "0123456789", "l": strings.Split(strings.Repeat("a,", 2000), ","), "big": strings.Repeat("ab", 100_000), "b": append(make([]byte, 0, 64), "data"...), "re": "((a{100}){100}){100}",
	})
	chain := func(n int, of, step string) string { // step with each x replaced by the value before
		text := "x0"
		for i := n; i > 0; i-- {
			text = fmt.Sprintf("cel.bind(x%d, %s, %s)", i, strings.ReplaceAll(step, "x", fmt.Sprint("x", i-1)), strings.Replace(text, "x0", fmt.Sprint("x", n), 1))
		}
		return "cel.bind(x0, " + of + ", " + text + ")"
	}
	const limit = 1_000_000
	for name, tt := range map[string]struct {
		expr string
		want string // error
	}{
		"loops":          {"l.all(a, l.all(b, l.all(c, l.all(d, a == b || c == d || true))))", costText},
		"entries":        {"lists.range(28000).transformMapEntry(i, v, {v: v}).size()", ""}, // not a copy of the map for each
		"nested maps":    {"l.map(a, l.map(b, l.map(c, l)))", costText},
		"texts":          {chain(60, "s", "x + x") + ".size()", costText},
		"dyn texts":      {chain(60, "dyn(s)", "x + x") + " != ''", costText}, // a unit each, however long
		"dyn bytes":      {chain(60, "dyn(b)", "x + x") + " != b''", costText},
		"bytes":          {chain(60, "b", "x + x") + ".size()", costText},
		"lists":          {chain(60, "l", "x + x") + ".size()", costText},
		"replacements":   {chain(8, "s", "x.replace('', x)") + ".size()", costText},
		"replaced big":   {"big.replace('a', big).size()", costText},
		"joined":         {"l.map(a, '').join(big).size()", costText},
		"joined nested":  {chain(12, "l", "[x.join(s), x.join(s)]") + ".size()", costText},
		"formatted":      {"'" + strings.Repeat("%s", 200) + "'.format([" + strings.Repeat("big, ", 199) + "big]).size()", costText},
		"formatted tree": {"'%s'.format([" + chain(60, "l", "[x, x]") + "]).size()", costText},
		"flattened":      {chain(12, "l", "[x, x, x, x, x, x, x, x]") + ".flatten(100).size()", costText},
		"printed":        {"json.encode(" + chain(60, "l", "[x, x]") + ").size()", costText},
		"equal lists":    {chain(60, "l", "[x, x]") + " == " + chain(60, "l", "[x, x]"), costText},
		"unequal lists":  {chain(60, "l", "[x, x]") + " != " + chain(60, "l", "[x, x]"), costText},
		"equal maps":     {chain(60, "l", "{'a': x, 'b': x}") + " == " + chain(60, "l", "{'a': x, 'b': x}"), costText},
		"found":          {chain(60, "l", "[x, x]") + " in [" + chain(60, "l", "[x, x]") + "]", costText},
		"distinct":       {"[" + chain(60, "l", "[x, x]") + ", " + chain(60, "l", "[x, x]") + "].distinct().size()", costText},
		"sets":           {"sets.contains([" + chain(60, "l", "[x, x]") + "], [" + chain(60, "l", "[x, x]") + "])", costText},
		"visited":        {"[" + chain(60, "l", "[x, x]") + "].indexOf([])", costText},
		"range":          {"lists.range(1000000).size()", costText},
		"range beyond":   {"lists.range(9223372036854775807).size()", "lists.range: size 9223372036854775807 exceeds maximum allowed (1000000)"},
		"pattern":        {"s.matches(re)", "error parsing regexp: invalid repeat count: `{100}`"},
		"long pattern":   {"s.matches('(' + l.join('|') + ')*' + l.join('?'))", ""},
		"deep pattern":   {"s.matches('" + strings.Repeat("(", 1001) + strings.Repeat(")", 1001) + "')", "error parsing regexp: expression nests too deeply: `" + strings.Repeat("(", 1001) + strings.Repeat(")", 1001) + "`"},
		"states":         {"big.matches('(a|b)*a(a|b){30}$')", ""},
	} {
		x, err := l.CompileExpression(tt.expr)
		if err != nil {
			t.Errorf("%s: %.300v", name, err)
			continue
		}
		used := allocated(func() { _, _, err = x.Eval(context.Background(), vars, limit) })
		if tt.want == "" && err != nil || tt.want != "" && (err == nil || err.Error() != tt.want) {
			t.Errorf("%s: got %.300v, want %q", name, err, tt.want)
		}
		if used > 1000*limit {
			t.Errorf("%s: allocated %d bytes", name, used)
		}
	}
	// Objects that hold one another many times over, and a map in maps, each of which is printed for itself.
	patches, err := NewLanguage(AdmissionConditions(AdmissionVariables{Patches: true}))
	if err != nil {
		t.Fatal(err)
	}
	chain = func(n int, of, step string) string {
		for i := range n {
			of = fmt.Sprintf("[%s].map(x%d, %s)[0]", of, i, strings.ReplaceAll(step, "x", fmt.Sprint("x", i)))
		}
		return of
	}
	twice, err := patches.CompileExpression("Object{b: 1, a: 'é\\n', b: {'y': [dyn(true), dyn(-3)], 'x': [dyn('q')]}}")
	if err != nil {
		t.Fatal(err)
	}
	v, _, err := twice.Eval(context.Background(), nil, limit)
	if text, failure := v.JSON(); err != nil || failure != nil || string(text) != `{"a":"é\n","b":{"x":["q"],"y":[true,-3]}}` {
		t.Errorf("JSON: got %s, %v, %v", text, err, failure)
	}
	objects := chain(60, "Object{}", "Object{a: x, b: x}")
	deep, err := FromJSON([]byte(strings.Repeat(`{"a":`, 9_000) + "1" + strings.Repeat("}", 9_000)))
	if err != nil {
		t.Fatal(err)
	}
	for _, expr := range []string{
		objects + " == " + objects, objects + " in [" + objects + "]", "[" + objects + ", " + objects + "].distinct().size() == 1",
		"{'a': " + objects + "} != {'a': " + objects + "}", "sets.contains([" + objects + "], [" + objects + "])",
		"lists.range(1000).all(i, '%s'.format([object]) != '')",
	} {
		x, err := patches.CompileExpression(expr)
		if err != nil {
			t.Fatalf("%.100s: %v", expr, err)
		}
		if _, _, err := x.Eval(context.Background(), Vars{ObjectVariable: deep}, limit); err == nil || err.Error() != costText {
			t.Errorf("%.100s: got %v, want %q", expr, err, costText)
		}
	}
	// Bytes are never added in the memory of the left operand.
	x, err := kubernetes.CompileExpression("[b'x', b'y'].map(c, b + c) == [b'datax', b'datay']")
	if err != nil {
		t.Fatal(err)
	}
	if v, _, err := x.Eval(context.Background(), vars, limit); err != nil || !v.Bool() {
		t.Errorf("bytes: got %v, %v", v, err)
	}
	// A unit that has() over ?: gives back counts until the end.
	if x, err = kubernetes.CompileExpression("has((s == 'a' ? {'a': s} : {'b': s}).a)"); err != nil {
		t.Fatal(err)
	}
	_, cost, err := x.Eval(context.Background(), vars, limit)
	if _, _, short := x.Eval(context.Background(), vars, cost); err != nil || !errors.Is(short, ErrCostLimit) {
		t.Errorf("has: %v with cost %d, then %v", err, cost, short)
	}
}

const costText = "operation cancelled: actual cost limit exceeded"

// TestEveryLimit evaluates with every limit: below its cost a rule ends at the limit and nowhere else, whatever it would
// have been.
func TestEveryLimit(t *testing.T) {
	env := testEnv(t)
	f := newFixture(t, env, "{type: object, properties: {l: {type: array, items: {type: integer}}, t: {type: array, items: {type: string}}}}", "{l: [1, 2, 3, 4], t: [a, bb, é]}")
	for _, rule := range []string{
		"self.l.map(i, i + 1).exists(v, self.l.all(i, self.l.exists(j, j > v)))",
		"self.l.map(i, i * 2).all(v, quantity('1').add(v).isInteger() && !url('/a/' + string(v)).getHost().contains('x'))",
		"self.l.map(i, i * 2).exists(v, [][-1].isLoopback())",
		"self.l.filter(i, i > 0).exists(v, self.t.join(string(v)).split('').size() == 99)",
		"self.l.filter(i, self.l.exists(j, j > i)).exists(v, self.l.map(i, i + v).sum() == 0)",
		"self.l.map(i, self.l.map(j, i * j)).exists(v, v.exists(w, w == 99 || self.l.all(i, i == w)))",
		"self.t.map(s, s + s).all(s, self.t.exists(u, u + u == s) && self.l.all(i, i > 0))",
		"self.l.filter(i, self.l.exists(j, j == i)).size() + self.l.map(i, self.l.filter(j, j > i).size()).sum() > 2",
		"self.t.map(s, s + self.t.filter(u, u != s).join(',')).join('').size() > 1",
		"self.l.exists_one(i, self.l.filter(j, self.l.all(k, j <= k)).exists(j, j == i))",
		"self.l.map(i, self.l[i]).exists(v, self.l.all(j, j < v))", // the source fails in the end
	} {
		f.everyLimit(t, rule)
	}
	text, err := os.ReadFile("testdata/golden.txt")
	if err != nil {
		t.Fatal(err)
	}
	schema := ""
	for line := range strings.Lines(string(text)) {
		line = strings.TrimSuffix(line, "\n")
		switch {
		case strings.HasPrefix(line, "# "), strings.HasPrefix(line, "\t"):
		case strings.HasPrefix(line, "schema "):
			schema = line[len("schema "):]
		case strings.HasPrefix(line, "data "):
			f = newFixture(t, env, schema, line[len("data "):])
		default:
			f.everyLimit(t, line)
		}
	}
}

// everyLimit evaluates a rule with every limit that is too low.
func (f *fixture) everyLimit(t *testing.T, rule string) {
	t.Helper()
	p, err := f.types.Compile(rule, f.self, CompileOptions{Want: AnyResult})
	if err != nil {
		return
	}
	a := Activation{Self: f.doc, OldSelf: f.doc, HasOldSelf: true}
	_, cost, _ := p.Eval(context.Background(), &a, 1_000_000)
	for limit := uint64(1); limit < min(cost, 2000); limit++ {
		if _, short, err := p.Eval(context.Background(), &a, limit); !errors.Is(err, ErrCostLimit) || short <= limit {
			t.Errorf("%s: with the limit %d of %d: cost %d, %v", rule, limit, cost, short, err)
			return
		}
	}
}

// counted is a value that counts how often it is compared.
type counted struct {
	ref.Val
	n *int
}

func (c counted) Equal(ref.Val) ref.Val {
	*c.n++
	return types.False
}

// TestPricedAhead: comparisons that cost too much are not begun.
func TestPricedAhead(t *testing.T) {
	l, err := NewLanguage(LanguageOptions{Kubernetes: NewestKubernetes, Variables: []Variable{{Name: "l", Type: "list(dyn)"}}})
	if err != nil {
		t.Fatal(err)
	}
	n := 0
	items := make([]Value, 2000)
	for i := range items {
		items[i] = val.OpaqueValue(counted{types.String("a"), &n})
	}
	vars := Vars{"l": val.ListValue(items)}
	for _, expr := range []string{"l.distinct()", "sets.contains(l, l)", "sets.intersects(l, l)", "sets.equivalent(l, l)"} {
		x, err := l.CompileExpression(expr)
		if err != nil {
			t.Fatal(err)
		}
		if _, _, err := x.Eval(context.Background(), vars, 1_000_000); err == nil || err.Error() != costText || n > 0 {
			t.Errorf("%s: got %v after %d comparisons", expr, err, n)
		}
	}
	x, err := l.CompileExpression("l.distinct()")
	if err != nil {
		t.Fatal(err)
	}
	if _, _, err := x.Eval(context.Background(), vars, 100_000_000); err != nil || n == 0 {
		t.Errorf("got %v after %d comparisons", err, n)
	}
}

// TestHostileContexts: loops end when their context does, others at their end.
func TestHostileContexts(t *testing.T) {
	l, err := NewLanguage(LanguageOptions{Kubernetes: NewestKubernetes})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	for expr, want := range map[string]string{
		"lists.range(1000).all(x, lists.range(1000).all(y, x + y >= 0))":                "operation interrupted: context canceled",
		"lists.range(1000).map(x, x).size()":                                            "operation interrupted: context canceled",
		"false && lists.range(1000).all(x, true) || lists.range(1000).exists(x, x < 0)": "operation interrupted: context canceled",
		"[1, 2, 3].all(x, x > 0)":                                                       "",
		"1 + 1 == 2":                                                                    "",
	} {
		x, err := l.CompileExpression(expr)
		if err != nil {
			t.Fatal(err)
		}
		_, _, err = x.Eval(ctx, nil, 0)
		if want == "" && err != nil || want != "" && (!errors.Is(err, ErrInterrupted) || err.Error() != want) {
			t.Errorf("%s: got %v, want %q", expr, err, want)
		}
	}
}
