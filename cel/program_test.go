package cel

import (
	"context"
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"
	"testing"

	apiextv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"

	"github.com/keelson-io/keelson/jsondoc"
)

const listSchema = `{type: object, properties: {
	l: {type: array, items: {type: object, properties: {k: {type: string}, v: {type: integer}, o: {type: object, properties: {x: {type: integer}}}}}},
	s: {type: array, items: {type: string}}, m: {type: object, additionalProperties: {type: string}},
	num: {type: integer}, t: {type: string}, f: {type: number}, b: {type: boolean}}}`

const listData = `{l: [{k: a, v: 1, o: {x: 1}}, {k: b, v: 2}, {k: c, v: 3, o: {x: 3}}], s: [one, two], m: {p: q}, num: 5, t: text, f: 1.5, b: true}`

// TestNoAllocation checks that rules that read, compare, index and iterate
// take no memory, whatever way they go.
func TestNoAllocation(t *testing.T) {
	f := newFixture(t, testEnv(t), strings.ReplaceAll(listSchema, "\t", " "), listData)
	a := Activation{Self: f.doc}
	for _, rule := range []string{
		"self.num == 5 && self.t == 'text' && self.f > 1.0 && self.b",
		"self.t in ['a', 'text'] || self.num in [1, 2]",
		"self.l[0].k == 'a' && self.m['p'] == 'q' && self.m.p == 'q'",
		"self.l.all(x, x.v > 0) && self.l.exists(x, x.k == 'c')",
		"self.l.exists_one(x, x.v == 2)",
		"self.l.all(x, self.l.exists_one(y, x.k == y.k))",
		"self.l.all(x, !has(x.o) || x.o.x > 0)",
		"self.l.exists(x, x.o.x == 3)", // absorbs an error
		"self.l.filter(x, x.v > 1).size() == 2",
		"self.m.all(k, self.m[k] == 'q') && self.m.all(k, v, v != k)",
		"self.s.all(i, s, i < 2 && s.size() == 3)",
		"self.t.startsWith('te') && self.t.matches('^[a-z]+$') && self.t.contains('ex')",
		"self.s == self.s && self.l[1] == self.l[1]",
		"self.num * 2 + 1 > 10 && -self.num < 0 && self.num % 2 == 1",
		"(self.num == 5 ? self.t : 'x') == 'text'",
		"self.l.size() < 100 && size(self.t) == 4",
	} {
		p, err := f.types.Compile(rule, f.self, CompileOptions{})
		if err != nil {
			t.Errorf("%s: %v", rule, err)
			continue
		}
		ctx := context.Background()
		if n := testing.AllocsPerRun(50, func() {
			if v, _, err := p.Eval(ctx, &a, 1_000_000); err != nil || !v.Bool() {
				t.Fatalf("%s: %v %v", rule, v, err)
			}
		}); n != 0 {
			t.Errorf("%s: %v allocations", rule, n)
		}
	}
}

// Ledger: cel-list-concat.
func TestLimits(t *testing.T) {
	f := newFixture(t, testEnv(t), strings.ReplaceAll(listSchema, "\t", " "), listData)
	compile := func(rule string) *Program {
		p, err := f.types.Compile(rule, f.self, CompileOptions{})
		if err != nil {
			t.Fatal(err)
		}
		return p
	}
	a := Activation{Self: f.doc}
	p := compile("self.num == 5")
	if _, cost, err := p.Eval(context.Background(), &a, 3); err != nil || cost != 3 {
		t.Errorf("at the limit: cost %d, %v", cost, err)
	}
	if _, _, err := p.Eval(context.Background(), &a, 2); !errors.Is(err, ErrCostLimit) {
		t.Errorf("over the limit: got %v", err)
	}
	long := compile("lists.range(1000).all(x, lists.range(1000).all(y, x + y >= 0))")
	if _, _, err := long.Eval(context.Background(), &a, 100_000); !errors.Is(err, ErrCostLimit) {
		t.Errorf("long loop: got %v", err)
	}
	if _, _, err := long.Eval(context.Background(), &a, math.MaxUint64); err != nil {
		t.Errorf("without a limit: got %v", err)
	}
	ctx, cancel := context.WithCancelCause(context.Background())
	cancel(errors.New("gone"))
	_, _, err := long.Eval(ctx, &a, math.MaxUint64)
	if !errors.Is(err, ErrInterrupted) || err.Error() != "operation interrupted: gone" {
		t.Errorf("after the context ended: got %v", err)
	}
	doubling := "true"
	for i := range 60 {
		name := "a" + strings.Repeat("a", i)
		from := "[1]"
		if i < 59 {
			from = "a" + name
		}
		doubling = "optional.of(" + from + " + " + from + ").optMap(" + name + ", " + doubling + ").value()"
	}
	if _, _, err := compile(doubling).Eval(context.Background(), &a, 1_000_000); !errors.Is(err, ErrCostLimit) {
		t.Errorf("doubling a list: got %v", err)
	}
}

func TestOldSelf(t *testing.T) {
	f := newFixture(t, testEnv(t), "{type: object, properties: {num: {type: integer}}}", "{num: 2}")
	old := f.document(t, "{num: 1}", f.self, true)
	rows := []struct {
		rule     string
		optional bool
		has      bool
		want     string
		uses     bool
	}{
		{"self.num > oldSelf.num", false, true, "true", true},
		{"self.num > oldSelf.num", false, false, "no such attribute(s): oldSelf", true},
		{"oldSelf.hasValue() && oldSelf.value().num == 1", true, true, "true", true},
		{"oldSelf.num.orValue(7) == 1", true, true, "true", true},
		{"oldSelf.orValue(self).num == 2", true, false, "true", true},
		{"!oldSelf.hasValue()", true, false, "true", true},
		{"self.num == 2", true, false, "true", false},
	}
	for _, row := range rows {
		p, err := f.types.Compile(row.rule, f.self, CompileOptions{OptionalOldSelf: row.optional})
		if err != nil {
			t.Errorf("%s: %v", row.rule, err)
			continue
		}
		v, _, err := p.Eval(context.Background(), &Activation{Self: f.doc, OldSelf: old, HasOldSelf: row.has}, 1000)
		got := v.String()
		if err != nil {
			got = err.Error()
		}
		if got != row.want || p.UsesOldSelf() != row.uses {
			t.Errorf("%s: got %s, uses oldSelf %t", row.rule, got, p.UsesOldSelf())
		}
	}
}

func TestCompileErrors(t *testing.T) {
	f := newFixture(t, testEnv(t), "{type: object, properties: {num: {type: integer}, s: {type: string}}}", "{num: 2}")
	rows := []struct {
		expr string
		want ResultKind
		err  string
	}{
		{"self.num == 1", BoolResult, ""},
		{"self.m == 1", BoolResult, "compilation failed: ERROR: <input>:1:5: undefined field 'm'\n | self.m == 1\n | ....^"},
		{"self.num", BoolResult, "cel expression must evaluate to a bool"},
		{"dyn(self.num)", BoolResult, "cel expression must evaluate to a bool"},
		{"self.num", StringResult, "messageExpression must evaluate to a string"},
		{"self.x", StringResult, "messageExpression compilation failed: ERROR: <input>:1:5: undefined field 'x'\n | self.x\n | ....^"},
		{"'a' + self.s", StringResult, ""},
		{"int('x') == 1", BoolResult, "program instantiation failed: type conversion error from 'string' to 'int'"},
		{"string(int('x'))", StringResult, "messageExpression instantiation failed: type conversion error from 'string' to 'int'"},
		{"self.s.find('(') == ''", BoolResult, "program instantiation failed: error parsing regexp: missing closing ): `(`"},
		{"self.s.matches('(')", BoolResult, "compilation failed: ERROR: <input>:1:16: invalid matches argument\n | self.s.matches('(')\n | ...............^"},
		{"", BoolResult, "compilation failed: ERROR: <input>:1:0: Syntax error: mismatched input '<EOF>' expecting {'[', '{', '(', '.', '-', '!', 'true', 'false', 'null', NUM_FLOAT, NUM_INT, NUM_UINT, STRING, BYTES, IDENTIFIER}"},
	}
	for _, row := range rows {
		_, err := f.types.Compile(row.expr, f.self, CompileOptions{Want: row.want})
		got := ""
		if err != nil {
			got = err.Error()
		}
		if got != row.err {
			t.Errorf("%q: got %q, want %q", row.expr, got, row.err)
		}
	}
}

// TestVersions: what each version of Kubernetes introduced, and took away.
func TestVersions(t *testing.T) {
	const wrong = "compilation failed: ERROR: <input>:1:"
	rows := []struct {
		version string
		stored  bool
		expr    string
		want    string // the beginning of the error
	}{
		{"1.36", false, "[1].includes(1)", wrong + "13: undeclared reference to 'includes'"},
		{"1.37", false, "[1].includes(1)", ""},
		{"1.36", true, "[1].includes(1)", ""},
		{"1.0", true, "[1].includes(1)", ""},
		{"1.33", false, "[3,1].sort() == [1,3]", wrong + "11: undeclared reference to 'sort'"},
		{"1.34", false, "[3,1].sort() == [1,3]", ""},
		{"1.32", false, "semver('1.2.3').major() == 1", wrong + "7: undeclared reference to 'semver'"},
		{"1.33", false, "semver('1.2.3').major() == 1", ""},
		{"1.31", false, "[1].exists_one(i, v, v == 1)", wrong + "15: undeclared reference to 'exists_one'"},
		{"1.32", false, "[1].exists_one(i, v, v == 1)", ""},
		{"1.30", false, "format.named('uri').hasValue()", wrong + "1: undeclared reference to 'format'"},
		{"1.31", false, "format.named('uri').hasValue()", ""},
		{"1.30", false, "dyn(1).fieldSelector('a=b').check('get').allowed()", wrong + "21: undeclared reference to 'fieldSelector'"},
		{"1.31", false, "dyn(1).fieldSelector('a=b').check('get').allowed()", ""},
		{"1.30", false, "self.namespace == 'x'", wrong + "5: undefined field 'namespace'"},
		{"1.30", true, "self.namespace == 'x'", ""},
		{"1.31", false, "self.namespace == 'x'", ""},
		{"1.30", false, "self.__namespace__ == 'x'", ""},
		{"1.31", false, "self.__namespace__ == 'x'", ""},
		{"1.29", false, "isIP('1.1.1.1')", wrong + "5: undeclared reference to 'isIP'"},
		{"1.30", false, "isIP('1.1.1.1')", ""},
		{"1.28", false, "sets.contains([1], [1])", wrong + "1: undeclared reference to 'sets'"},
		{"1.29", false, "sets.contains([1], [1])", ""},
		{"1.28", false, "'%d'.format([1]) == '1'", wrong + "12: undeclared reference to 'format'"},
		{"1.29", false, "'%d'.format([1]) == '1'", ""},
		{"1.0", false, "'abc'.charAt(1) == 'b' && ['a'].join() == 'a'", ""},
		{"1.28", false, "'abc'.charAt(1) == 'b' && ['a'].join() == 'a'", ""},
		{"1.28", false, "'a'.matches('(')", "program instantiation failed: error parsing regexp: missing closing ): `(`"},
		{"1.29", false, "'a'.matches('(')", wrong + "13: invalid matches argument"},
		{"1.28", true, "'a'.matches('(')", wrong + "13: invalid matches argument"},
		{"1.28", false, "duration('x') == duration('1s')", "program instantiation failed: type conversion error from 'string' to 'google.protobuf.Duration'"},
		{"1.29", false, "duration('x') == duration('1s')", wrong + "10: invalid duration argument"},
		{"1.28", false, "timestamp('x') == timestamp('y')", "program instantiation failed: type conversion error from 'string' to 'google.protobuf.Timestamp'"},
		{"1.29", false, "timestamp('x') == timestamp('y')", wrong + "11: invalid timestamp argument"},
		{"1.0", false, "[1, 'a'].size() == 2", wrong + "5: expected type 'int' but found 'string'"},
		{"1.0", false, "{'a': 1, 'b': 'c'}.size() == 2", wrong + "15: expected type 'int' but found 'string'"},
		{"1.37", false, "[1, 'a'].size() == 2", wrong + "5: expected type 'int' but found 'string'"},
		{"1.27", false, "optional.of(1).hasValue()", wrong + "1: undeclared reference to 'optional'"},
		{"1.28", false, "optional.of(1).hasValue()", ""},
		{"1.27", false, "1 < 1.5", wrong + "3: found no matching overload for '_<_' applied to '(int, double)'"},
		{"1.28", false, "1 < 1.5", ""},
		{"1.27", false, "quantity('1k').isInteger()", wrong + "9: undeclared reference to 'quantity'"},
		{"1.28", false, "quantity('1k').isInteger()", ""},
		{"1.26", false, "dyn(1).path('/').check('get').allowed()", wrong + "12: undeclared reference to 'path'"},
		{"1.27", false, "dyn(1).path('/').check('get').allowed()", ""},
		{"", false, "[3,1].sort() == [1,3]", ""},
	}
	for _, row := range rows {
		env, err := NewEnv(EnvOptions{Version: row.version, Stored: row.stored})
		if err != nil {
			t.Errorf("%s: %v", row.version, err)
			continue
		}
		f := newFixture(t, env, "{type: object, properties: {namespace: {type: string}}}", "{}")
		_, err = f.types.Compile(row.expr, f.self, CompileOptions{})
		if got := fmt.Sprint(err); row.want == "" && err != nil || row.want != "" && !strings.HasPrefix(got, row.want) {
			t.Errorf("%s (stored %t): %s:\n got %s\nwant %s", row.version, row.stored, row.expr, got, row.want)
		}
	}
	for _, version := range []string{"two", "1.", "1.-1", "1.38", "2.0"} {
		_, err := NewEnv(EnvOptions{Version: version})
		if want := fmt.Sprintf("version %q: want one from 1.0 to 1.37", version); err == nil || err.Error() != want {
			t.Errorf("version %s: got %v, want %s", version, err, want)
		}
		if _, err := NewLanguage(LanguageOptions{Kubernetes: version}); err == nil {
			t.Errorf("a language of version %s: got no error", version)
		}
	}
}

func TestEscape(t *testing.T) {
	for _, row := range []struct {
		name, escaped string
		ok            bool
	}{
		{"a", "a", true}, {"namespace", "__namespace__", true}, {"a-b", "a__dash__b", true},
		{"a.b/c", "a__dot__b__slash__c", true}, {"a__b", "a__underscores__b", true}, {"_a", "_a", true},
		{"", "", false}, {"1a", "", false}, {"a b", "", false}, {"ä", "", false},
	} {
		got, ok := Escape(row.name)
		if got != row.escaped || ok != row.ok {
			t.Errorf("Escape(%q) = %q, %t", row.name, got, ok)
		}
		if back, backOK := Unescape(got); ok && (back != row.name || !backOK) {
			t.Errorf("Unescape(%q) = %q, %t", got, back, backOK)
		}
	}
	for _, name := range []string{"a__nonsense__b", "__if__x", "x__if__", "__if____dot__"} {
		if back, ok := Unescape(name); ok {
			t.Errorf("Unescape(%q) = %q", name, back)
		}
	}
	for _, word := range strings.Fields("true false null in as break const continue else for function if import let loop package namespace return var void while") {
		if escaped, ok := Escape(word); escaped != "__"+word+"__" || !ok {
			t.Errorf("Escape(%q) = %q, %t", word, escaped, ok)
		}
	}
}

// FuzzEval evaluates any expression over fixed data: it must end within its
// limit and not panic.
func FuzzEval(f *testing.F) {
	env, err := NewEnv(EnvOptions{Stored: true})
	if err != nil {
		f.Fatal(err)
	}
	for _, seed := range []string{
		"self.l.all(x, x.v > 0)", "self.s.map(x, x + 'a').join(',')", "self.m.transformMap(k, v, v)",
		"dyn(self.l).sort()", "dyn(1).distinct()", "self.?t.optMap(x, x)[?0]", "'%s %d'.format([self.l, self.num])",
		"self.t.replace('', self.t)", "quantity(self.t)", "[self.l, self.l] == [self.l]", "dyn(self)[self.t]",
	} {
		f.Add(seed)
	}
	b := newShaper()
	schema := apiextv1.JSONSchemaProps{Type: "object", Properties: map[string]apiextv1.JSONSchemaProps{
		"l": {Type: "array", Items: &apiextv1.JSONSchemaPropsOrArray{Schema: &apiextv1.JSONSchemaProps{Type: "object",
			Properties: map[string]apiextv1.JSONSchemaProps{"k": {Type: "string"}, "v": {Type: "integer"}}}}},
		"s":   {Type: "array", Items: &apiextv1.JSONSchemaPropsOrArray{Schema: &apiextv1.JSONSchemaProps{Type: "string"}}},
		"m":   {Type: "object", AdditionalProperties: &apiextv1.JSONSchemaPropsOrBool{Schema: &apiextv1.JSONSchemaProps{Type: "string"}}},
		"num": {Type: "integer"}, "t": {Type: "string"},
	}}
	self := b.build(&schema, false)
	d := &jsondoc.Doc{}
	d.Reset([]*jsondoc.Shape{nil})
	if err := jsondoc.Parse(d, []byte(`{"l":[{"k":"a","v":1},{"k":7}],"s":["x",1],"m":{"p":"q","z":null},"num":3,"t":"text"}`)); err != nil {
		f.Fatal(err)
	}
	types := env.Types()
	var a Activation
	f.Fuzz(func(t *testing.T, expr string) {
		p, err := types.Compile(expr, self, CompileOptions{Want: AnyResult})
		if err != nil {
			return
		}
		a.Self = d.Root()
		const limit = 10_000
		if v, cost, err := p.Eval(context.Background(), &a, limit); err == nil {
			if cost > limit {
				t.Errorf("%s: cost %d without an error", expr, cost)
			}
			_ = v.String()
		}
	})
}

// TestFarIndex looks for an item that is 2^32 behind the first.
func TestFarIndex(t *testing.T) {
	f := newFixture(t, testEnv(t), `{type: object, properties: {l: {type: array, items: {type: string}}}}`, `{l: [a]}`)
	p, err := f.types.Compile("self.l[4294967296] == 'a'", f.self, CompileOptions{})
	if err != nil {
		t.Fatal(err)
	}
	a := Activation{Self: f.doc}
	if v, _, err := p.Eval(context.Background(), &a, 100); err == nil || err.Error() != "index out of bounds: 4294967296" {
		t.Errorf("got %v, %v", v, err)
	}
}

// TestNulls holds that a member of an object that is null is not there, however it
// is reached, and that a value of a map that is null is there.
func TestNulls(t *testing.T) {
	f := newFixture(t, testEnv(t), `{type: object, properties: {
		v: {type: string, nullable: true}, o: {type: object, properties: {v: {type: string, nullable: true}}},
		l: {type: array, items: {type: object, properties: {v: {type: string, nullable: true}}}},
		m: {type: object, additionalProperties: {type: string, nullable: true}}}}`, `{v: null, o: {v: null}, l: [{v: null}], m: {k: null}}`)
	for expr, want := range map[string]bool{
		"has(self.v)": false, "has(self.o.v)": false, "has(self.l[0].v)": false, "self.?v.hasValue()": false, "self.?o.?v.hasValue()": false,
		"self.?o.v.hasValue()": false, "self.l[0].?v.hasValue()": false, "self.l.exists(x, has(x.v))": false, "self.l[?0].v.hasValue()": false,
		"has(self.m.k)": true, "'k' in self.m": true, "self.m.size() == 1": true,
		"self.v == 'a' || true": true, "self.l[0].v == 'a' || true": true,
	} {
		for _, shaped := range []bool{true, false} {
			if got := f.outcome(t, expr, shaped); !strings.Contains(got, "value=bool "+strconv.FormatBool(want)) {
				t.Errorf("%s (shaped %t): got %s, want %t", expr, shaped, got, want)
			}
		}
	}
}
