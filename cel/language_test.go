package cel

import (
	"context"
	"fmt"
	"math"
	"math/rand"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/cel-go/cel"
	"github.com/google/cel-go/common/types/ref"

	"github.com/keelson-io/keelson/cel/internal/check"
	"github.com/keelson-io/keelson/cel/internal/val"
)

// reference runs an expression through cel-go.
func reference(t testing.TB, l *Language, expr string, vars Vars) string {
	t.Helper()
	checked, issues := l.words.Env.Base.Parse(expr)
	if issues.Err() != nil {
		t.Fatal(issues)
	}
	var decls []cel.EnvOption
	in := map[string]any{}
	for name, v := range vars {
		decls = append(decls, cel.Variable(name, cel.DynType))
		in[name] = plain(v)
	}
	env, err := l.words.Env.Base.Extend(decls...)
	if err != nil {
		t.Fatal(err)
	}
	if checked, issues = env.Check(checked); issues.Err() != nil {
		t.Fatal(issues)
	}
	program, err := env.Program(checked)
	if err != nil {
		return "error: " + err.Error()
	}
	v, _, err := program.Eval(in)
	if err != nil {
		return "error: " + err.Error()
	}
	return describe(val.FromRef(v))
}

// plain is a value as cel-go takes it.
func plain(v Value) any {
	switch v.K {
	case KindList:
		out := []any{}
		for _, item := range v.Items() {
			out = append(out, plain(item))
		}
		return out
	case KindMap:
		out := map[ref.Val]any{}
		val.EachEntry(v, func(k, item Value) bool {
			out[k.Ref()] = plain(item)
			return true
		})
		return out
	}
	return v.Go()
}

// TestLanguageAgainstReference compares random expressions with cel-go.
func TestLanguageAgainstReference(t *testing.T) {
	o := LanguageOptions{Libraries: AllLibraries(), LenientPresence: true}
	for _, name := range []string{"n", "s", "b", "c", "l", "m", "a"} {
		o.Variables = append(o.Variables, Variable{Name: name})
	}
	l, err := NewLanguage(o)
	if err != nil {
		t.Fatal(err)
	}
	bare, err := NewLanguage(LanguageOptions{Libraries: AllLibraries()})
	if err != nil {
		t.Fatal(err)
	}
	failures := 0
	for seed := range 250 {
		g := &maker{Rand: rand.New(rand.NewSource(int64(seed)))}
		expr := []func(int) string{g.bool, g.int, g.string, g.list, g.dyn}[g.Intn(5)](1 + g.Intn(4))
		vars := goVars(t, map[string]any{
			"n": g.Intn(7) - 2, "s": g.pick("", "x", "text", "b"), "b": g.Intn(2) == 0, "c": g.Intn(2) == 0,
			"l": []int{g.Intn(3), g.Intn(3), 4}[:g.Intn(4)], "m": map[string]any{"x": g.Intn(3), "y": 2},
			"a": map[string]any{"b": map[string]any{"c": g.Intn(3), "d": "e"}, "list": []any{g.Intn(3), "two"}, "flag": true},
		})
		x, err := l.CompileExpression(expr)
		if err != nil {
			t.Fatalf("%s: %v", expr, err)
		}
		got := outcomeOf(x, vars)
		if strings.HasPrefix(got, "error") {
			failures++
		}
		if want := reference(t, bare, expr, vars); got != want {
			t.Fatalf("seed %d: %s\n got %s\nwant %s", seed, expr, got, want)
		}
	}
	t.Logf("%d errors", failures)
}

func outcomeOf(x *Expression, vars Vars) string {
	v, _, err := x.Eval(context.Background(), vars, 0)
	if err != nil {
		return "error: " + err.Error()
	}
	return describe(v)
}

// TestLibraryFunctions runs every library that Kubernetes' rules have not, and
// some of each other one.
func TestLibraryFunctions(t *testing.T) {
	l, err := NewLanguage(LanguageOptions{Libraries: AllLibraries()})
	if err != nil {
		t.Fatal(err)
	}
	for _, expr := range []string{
		"math.greatest(1, 2.5, 3u)", "math.least([3, 1, 2])", "math.abs(-3)", "math.sign(-2.5)", "math.ceil(1.2)", "math.floor(-1.2)",
		"math.round(2.5)", "math.trunc(-2.5)", "math.isNaN(0.0 / 0.0)", "math.isInf(1.0 / 0.0)", "math.isFinite(1.0)", "math.sqrt(2)",
		"math.bitAnd(6, 3)", "math.bitOr(6u, 3u)", "math.bitXor(6, 3)", "math.bitNot(6)", "math.bitShiftLeft(1, 4)", "math.bitShiftRight(16, 2)",
		"math.bitShiftLeft(1, -1)", "math.abs(-9223372036854775808)", "math.greatest(dyn('x'), 1)",
		"base64.encode(b'hello')", "base64.decode('aGVsbG8=')", "base64.decode('aGVsbG8')", "base64.decode('!')",
		"cel.bind(x, [1, 2], x + x)", "cel.bind(x, 1 / 0, true)", "'abc'.reverse()", "'žlu'.reverse()", "strings.quote('a\"b')",
		"'%d %s %.2f %e %x %o %b'.format([1, 'x', 2.5, 1234.5, 255, 8, 5])", "'%s'.format([[1, 2.5, {'a': b'x'}]])", "'%d'.format([dyn('x')])",
		"'a,b'.split(',')", "['a', 'b'].join('-')", "'abc'.charAt(1)", "'abc'.charAt(4)", "'abcabc'.indexOf('c')", "'abcabc'.lastIndexOf('c')",
		"'abc'.substring(1, 2)", "'abc'.substring(2, 1)", "'aXbX'.replace('X', '-', 1)", "' a '.trim()", "'Ab'.lowerAscii()", "'Ab'.upperAscii()",
		"[3, 1, 2].sort()", "[3, 1, 2].sortBy(x, -x)", "[[1], [2, [3]]].flatten(2)", "[1, 1, 2].distinct()", "[1, 2, 3].slice(0, 2)",
		"[1, 2, 3].reverse()", "lists.range(3)", "[1].slice(1, 0)", "[1, 2].first().value()", "[1, 2].last().value()", "[].first()",
		"sets.contains([1, 2], [2])", "sets.intersects([1], [2])", "sets.equivalent([1, 2], [2, 1, 1])",
		"optional.of(1).or(optional.of(2)).value()", "optional.none().orValue(3)", "{'a': 1}.?a.optMap(x, x + 1)", "optional.ofNonZeroValue('')",
		"optional.none().value()", "[optional.of(1), optional.none()].unwrapOpt()", "[?optional.none(), 1]", "{?'a': optional.of(1)}",
		"[1, 2].all(i, v, v > i)", "{'a': 1}.transformMap(k, v, v + 1)", "[1, 2].transformList(i, v, i * v)", "{'a': 1}.transformMapEntry(k, v, {v: k})",
		"{'a': 1, 'b': 1}.transformMapEntry(k, v, {v: k})", "type(1) == int", "type([]) == type([1])", "duration('1h').getMinutes()",
		"timestamp('2020-02-03T04:05:06.789Z').getMilliseconds()", "timestamp('2020-02-03T04:05:06Z').getHours('+05:30')", "1u - 2u", "int('x')",
		"url('https://h:80/p?q=1').getHost()", "quantity('1Ki').isLessThan(quantity('1M'))", "semver('1.2.3').major()", "'a1b2'.findAll('[0-9]')",
		"ip('10.0.0.1').family()", "cidr('10.0.0.0/8').containsIP('10.1.1.1')", "[1, 2].sum()", "[2, 1].min()", "format.dns1123Label().validate('A')",
	} {
		x, err := l.CompileExpression(expr)
		if err != nil {
			t.Errorf("%s: %v", expr, err)
			continue
		}
		if got, want := outcomeOf(x, nil), reference(t, l, expr, nil); got != want {
			t.Errorf("%s:\n got %s\nwant %s", expr, got, want)
		}
	}
	for expr, want := range map[string]string{
		`json.encode({"b": [1, 2.5, null], "a": b"x"})`: `string "{\"a\":\"eA==\",\"b\":[1,2.5,null]}"`,
		"duration('61s123ms').getMilliseconds()":        "int 123",
		"'abc'.indexOf('a', 4)":                         "error: index out of range: 4",
		"{'a': 1, 'a': 2}":                              "error: duplicate map key: a",
		"{1.5: 1}":                                      "error: unsupported key type: double",
		"has(dyn(1).x)":                                 "error: no such key: x",
		"google.protobuf.Int64Value{value: 3} + 1":      "int 4",
		"google.protobuf.Struct{fields: {'a': google.protobuf.Value{number_value: 1.0}}}.a": "double 1.0",
	} {
		x, err := l.CompileExpression(expr)
		if err != nil {
			t.Errorf("%s: %v", expr, err)
		} else if got := outcomeOf(x, nil); got != want {
			t.Errorf("%s: got %s, want %s", expr, got, want)
		}
	}
}

// TestKubernetesVersions: each version has the libraries that it introduced,
// and none that came later or are not Kubernetes'.
func TestKubernetesVersions(t *testing.T) {
	for expr, since := range map[string]int{
		"[1].isSorted()": 20, "quantity('1').isInteger()": 28, "sets.contains([1], [1])": 29, "isIP('x')": 30, "format.uuid().validate('x').hasValue()": 31,
		"[1].all(i, v, v > i)": 32, "semver('1.2.3').major() == 1": 33, "[1].sort() == [1]": 34, "[1].includes(1)": 37,
		"math.abs(1) == 1": 99, "cel.bind(x, 1, x == 1)": 99, "base64.encode(b'x') == ''": 99, "'x'.reverse() == 'x'": 99, "json.encode(1) == '1'": 99,
	} {
		for _, minor := range []int{25, 28, 29, 30, 31, 32, 33, 34, 36, 37} {
			l, err := NewLanguage(LanguageOptions{Kubernetes: fmt.Sprintf("1.%d", minor)})
			if err != nil {
				t.Fatal(err)
			}
			if _, err := l.CompileExpression(expr); (err == nil) != (minor >= since) {
				t.Errorf("1.%d: %s: %v", minor, expr, err)
			}
		}
	}
}

func TestHostFunctions(t *testing.T) {
	l, err := NewLanguage(LanguageOptions{
		Container: "acme",
		Variables: []Variable{{Name: "acme.limit", Type: "int"}, {Name: "u", Type: "uint"}},
		Functions: []Function{
			{Name: "twice", Params: []string{"int"}, Result: "int", Call: func(args []Value) (Value, error) { return FromGo(2 * args[0].Int()) }},
			{Name: "initial", Member: true, Params: []string{"string"}, Result: "string", Call: func(args []Value) (Value, error) {
				if args[0].Str() == "" {
					return Value{}, fmt.Errorf("nothing there")
				}
				return FromGo(args[0].Str()[:1])
			}},
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	vars := goVars(t, map[string]any{"acme.limit": 5, "u": uint(7)})
	for expr, want := range map[string]string{
		"twice(limit) + 1": "int 11", "'abc'.initial()": `string "a"`, "''.initial() == 'x' || true": "bool true",
		"''.initial()": "error: nothing there", "u + 1u": "uint 8u", "acme.limit": "int 5", "twice('x')": "compile",
	} {
		x, err := l.CompileExpression(expr)
		got := "compile"
		if err == nil {
			got = outcomeOf(x, vars)
		}
		if got != want {
			t.Errorf("%s: got %s, want %s", expr, got, want)
		}
	}
	x, err := l.CompileUnchecked("limit == 'x' || twice(limit) == 10 || missing(1)")
	if err != nil || outcomeOf(x, vars) != "bool true" || x.Type() != "dyn" {
		t.Errorf("unchecked: %v %v", x, err)
	}
	if _, _, err := x.Eval(context.Background(), nil, 0); err == nil || err.Error() != "no such attribute(s): acme.limit" {
		t.Errorf("no input: %v", err)
	}
	for _, o := range []LanguageOptions{
		{Libraries: []Library{"nope"}}, {Variables: []Variable{{Name: "x", Type: "list(int"}}}, {Variables: []Variable{{Name: "x", Type: "map(int)"}}},
		{Variables: []Variable{{Name: "x", Type: "int", Schema: &Type{}}}}, {Kubernetes: "x"}, {Kubernetes: "1.30", Libraries: AllLibraries()},
		{Functions: []Function{{Name: "f", Member: true, Result: "int"}}}, {Functions: []Function{{Name: "f", Result: ""}}},
	} {
		if _, err := NewLanguage(o); err == nil {
			t.Errorf("%+v: no error", o)
		}
	}
}

func TestExpressionLimits(t *testing.T) {
	l, err := NewLanguage(LanguageOptions{Libraries: AllLibraries()})
	if err != nil {
		t.Fatal(err)
	}
	x, err := l.CompileExpression("lists.range(1000).all(i, lists.range(1000).all(j, lists.range(1000).all(k, i + j + k >= 0)))")
	if err != nil {
		t.Fatal(err)
	}
	if _, cost, err := x.Eval(context.Background(), nil, 100_000); err != ErrCostLimit || cost > 200_000 {
		t.Errorf("got %v at a cost of %d", err, cost)
	}
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Millisecond)
	defer cancel()
	if _, _, err := x.Eval(ctx, nil, 0); err == nil || !strings.HasPrefix(err.Error(), "operation interrupted") {
		t.Errorf("got %v", err)
	}
	if x.MaxCost() == 0 {
		t.Error("no estimate")
	}
}

func TestGoData(t *testing.T) {
	type named int32
	number := 3
	for _, tt := range []struct {
		in   any
		want string
	}{
		{nil, "null_type null"}, {true, "bool true"}, {named(3), "int 3"}, {uint8(3), "uint 3u"}, {float32(1.5), "double 1.5"}, {"x", `string "x"`},
		{[]byte("x"), `bytes b"\170"`}, {time.Second, "google.protobuf.Duration duration(\"1s\")"}, {&number, "int 3"}, {(*int)(nil), "null_type null"},
		{[2]int{1, 2}, "list [1, 2]"}, {map[string]int{"b": 1, "a": 2}, "map"},
		{struct{}{}, "got a Go value of type struct {}, want plain data"}, {[]any{make(chan int)}, "[0]: got a Go value of type chan int, want plain data"},
		{map[[1]int]int{{1}: 1}, "got a key of type list, want a boolean, number or string"}, {time.Unix(math.MaxInt32*1000, 0), ""},
	} {
		v, err := FromGo(tt.in)
		got := fmt.Sprint(err)
		if err == nil {
			got = describe(v)
		}
		if tt.want == "" && err == nil || tt.want != "" && got != tt.want {
			t.Errorf("%v: got %s, want %s", tt.in, got, tt.want)
		}
	}
	text := `{"a":[1,2.5,"x",null,true],"b":{"c":{}}}`
	v, err := FromJSON([]byte(text))
	if err != nil {
		t.Fatal(err)
	}
	if out, err := v.JSON(); err != nil || string(out) != text {
		t.Errorf("got %s, %v", out, err)
	}
	if _, err := FromJSON([]byte("{")); err == nil {
		t.Error("no error")
	}
}

func TestConcurrentExpressions(t *testing.T) {
	l := partialLanguage(t)
	x, err := l.CompileExpression("l.all(i, i < n) && s.startsWith('t')")
	if err != nil {
		t.Fatal(err)
	}
	unknown := patterns(t, l, "s")
	var wg sync.WaitGroup
	for i := range 8 {
		vars := goVars(t, map[string]any{"l": []int{1, 2, i}, "n": 5, "s": "text"})
		wg.Go(func() {
			for range 200 {
				if v, _, err := x.Eval(context.Background(), vars, 0); err != nil || v.Bool() != (i < 5) {
					t.Errorf("got %v, %v", v, err)
				}
				out, _, err := x.Partial(context.Background(), vars, unknown, 0)
				if err != nil || out.Known != (i >= 5) || !out.Known && out.Residual != `s.startsWith("t")` {
					t.Errorf("got %+v, %v", out, err)
				}
			}
		})
	}
	wg.Wait()
}

func TestErrorText(t *testing.T) {
	l := partialLanguage(t)
	vars := goVars(t, map[string]any{"l": []int{1}, "n": 5, "a": map[string]any{}})
	for expr, want := range map[string]string{
		"n > 1 && l[n] == 2":            "ERROR: <input>:1:11: index out of bounds: 5\n | n > 1 && l[n] == 2\n | ..........^",
		"n == 1 ||\n  n / (n - 5) == 1": "ERROR: <input>:2:5: division by zero\n |   n / (n - 5) == 1\n | ....^",
		"l.map(x, a.b)":                 "ERROR: <input>:1:11: no such key: b\n | l.map(x, a.b)\n | ..........^",
	} {
		x, err := l.CompileExpression(expr)
		if err != nil {
			t.Fatal(err)
		}
		_, _, err = x.Eval(context.Background(), vars, 0)
		if err == nil {
			t.Fatalf("%s: no error", expr)
		}
		e, fail := x.Explainer()
		if fail != nil {
			t.Fatal(fail)
		}
		if got := e.Eval(context.Background(), vars, 0).ErrorText(); got != want {
			t.Errorf("%s:\n got %q\nwant %q", expr, got, want)
		}
	}
}

func FuzzTypeText(f *testing.F) {
	for _, s := range []string{"int", "map(string, list(dyn))", "a(b, c)", "list(", "()", "type(T)", "optional_type(int)x"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		parsed, err := check.ParseType(s)
		if err != nil {
			return
		}
		if parsed.String() == "" {
			t.Error("a type without a name")
		}
	})
}

func FuzzPattern(f *testing.F) {
	l := partialLanguage(f)
	for _, s := range []string{"a", "a.b[0]", `m["x"].*`, "a[*][true]", "a[\"", "l[-1]"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		p, err := l.Pattern(s)
		if err == nil && (p.String() != s || p.Name == "") {
			t.Errorf("%q: %+v", s, p)
		}
	})
}
