package sql

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/keelson-io/keelson/cel"
	celsql "github.com/keelson-io/keelson/cel/sql"
	"github.com/keelson-io/keelson/jsondoc"
)

// This file generates expressions and documents.

var (
	pairs = flag.Int("pairs", 200_000, "pairs of an expression and a document, for each database")
	seed  = flag.Uint64("seed", 1, "seed of the generator")
)

// documentsAtATime is the number of documents of each query.
const documentsAtATime = 2_000

// schemaText is the type of the documents.
const schemaText = `{"type": "object", "properties": {
	"s": {"type": "string"}, "n": {"type": "integer"}, "b": {"type": "boolean"}, "d": {"type": "number"},
	"o": {"type": "object", "properties": {"s": {"type": "string"}, "n": {"type": "integer"}, "o": {"type": "object", "properties": {"s": {"type": "string"}}}}},
	"m": {"type": "object", "additionalProperties": {"type": "string"}},
	"l": {"type": "array", "items": {"type": "string"}},
	"k": {"type": "array", "items": {"type": "integer"}},
	"x": {"type": "array", "items": {"type": "object", "properties": {"s": {"type": "string"}, "n": {"type": "integer"}, "l": {"type": "array", "items": {"type": "string"}}}}},
	"y": {"x-kubernetes-int-or-string": true}, "p": {"type": "object", "x-kubernetes-preserve-unknown-fields": true},
	"dash-ed": {"type": "string"}, "namespace": {"type": "string"}}}`

// texts are the strings of documents and expressions. Some mean something in SQL, in patterns, or
// in paths.
var texts = []string{"", "a", "b", "ab", "abc", "A", "B", "aB", "a b ", "ä", "\u00df", "\u65e5\u672c", "\U0001f600", "'", "\"", "\\", "$1", "?1", "%", "_", "a.b", "--", "; DROP TABLE t", "a\nb", "\t", "{}", "[]", "null", "true", "0", "1", "-1"}

// numbers are the integers of documents and expressions.
var numbers = []string{"0", "1", "-1", "2", "3", "7", "10", "100", "9223372036854775807", "-9223372036854775808", "4611686018427387904", "-4611686018427387905"}

// generator makes expressions and documents.
type generator struct{ *rand.Rand }

// pick returns one of the items.
func pick[T any](g generator, list ...T) T { return list[g.IntN(len(list))] }

// document returns a document. Members are missing, null, or of another type now and then.
func (g generator) document() string {
	return g.object(map[string]func() string{
		"s": g.textJSON, "n": g.numberJSON, "b": g.boolJSON, "d": func() string { return pick(g, "0.5", "1", "1e2") },
		"o": func() string {
			return g.object(map[string]func() string{"s": g.textJSON, "n": g.numberJSON, "o": func() string {
				return g.object(map[string]func() string{"s": g.textJSON})
			}})
		},
		"m": func() string {
			return g.object(map[string]func() string{"a": g.textJSON, "b": g.textJSON, "c.d": g.textJSON, "é": g.textJSON, "a&b": g.textJSON, "-a": g.textJSON, "x/y": g.textJSON})
		},
		"l": func() string { return g.array(g.textJSON) }, "k": func() string { return g.array(g.numberJSON) },
		"x": func() string {
			return g.array(func() string {
				return g.object(map[string]func() string{"s": g.textJSON, "n": g.numberJSON, "l": func() string { return g.array(g.textJSON) }})
			})
		},
		"dash-ed": g.textJSON, "namespace": g.textJSON,
		"y": func() string { return pick(g, "1", "3", `"a"`, `"50%"`) },
		"p": func() string { return g.object(map[string]func() string{"s": g.anyJSON, "n": g.anyJSON}) },
	})
}

// anyJSON returns a value of any type.
func (g generator) anyJSON() string {
	return pick(g, g.textJSON, g.numberJSON, g.boolJSON, g.doubleJSON, func() string { return "null" },
		func() string { return g.array(g.textJSON) }, func() string { return g.object(map[string]func() string{"a": g.textJSON, "b": g.numberJSON}) })()
}

// doubleJSON returns a number in JSON that CEL reads as a double.
func (g generator) doubleJSON() string {
	return pick(g, "0.5", "1.0", "-0.5", "0.1", "1e300", "5e-324", "1e-400", "0.30000000000000004", "1.5", "9223372036854775808", "9007199254740993.5", "-1e19", "2.00000000000000000001")
}

// flat returns the values of the columns of scalars, and the same as a document.
func (g generator) flat() (columns [4]any, document string) {
	var members []string
	for i, name := range []string{"s", "n", "d", "b"} {
		if g.IntN(5) == 0 {
			continue
		}
		value := []func() string{g.textJSON, g.numberJSON, func() string { return pick(g, "0.5", "1.0", "-0.5", "0.1", "1e300") }, g.boolJSON}[i]()
		members = append(members, fmt.Sprintf("%q:%s", name, value))
		switch name {
		case "s":
			if err := json.Unmarshal([]byte(value), &columns[i]); err != nil {
				panic(err)
			}
		case "n":
			columns[i], _ = strconv.ParseInt(value, 10, 64)
		case "d":
			columns[i], _ = strconv.ParseFloat(value, 64)
		case "b":
			columns[i] = value == "true"
		}
	}
	return columns, "{" + strings.Join(members, ",") + "}"
}

// columns are those of the variables of the expressions.
var columns = []celsql.Column{{Of: "self", Name: "doc"}, {Of: "object", Name: "t.doc"}, {Of: "row.s", Name: "s", Type: celsql.Text},
	{Of: "row.n", Name: "n", Type: celsql.BigInt}, {Of: "row.d", Name: "d", Type: celsql.Double}, {Of: "row.b", Name: "b", Type: celsql.Boolean}}

// object returns an object with some of the members.
func (g generator) object(members map[string]func() string) string {
	var list []string
	for _, name := range slices.Sorted(maps.Keys(members)) {
		if value := members[name]; g.IntN(5) > 0 {
			list = append(list, g.escaped(name)+":"+g.maybeOther(value))
		}
	}
	return "{" + strings.Join(list, ",") + "}"
}

// array returns a list of up to three items.
func (g generator) array(item func() string) string {
	var list []string
	for range g.IntN(4) {
		list = append(list, g.maybeOther(item))
	}
	return "[" + strings.Join(list, ",") + "]"
}

// maybeOther returns the value, or rarely one of any type.
func (g generator) maybeOther(value func() string) string {
	if g.IntN(25) == 0 {
		return pick(g, "null", "1", "1.5", "1e2", "18446744073709551616", `"a"`, "true", "[]", "{}", `["a"]`, `{"s":"a","n":1}`)
	}
	return value()
}

func (g generator) textJSON() string {
	if text := pick(g, texts...); g.IntN(4) == 0 {
		return g.escaped(text)
	} else {
		return string(jsondoc.AppendQuoted(nil, text))
	}
}

// escaped returns a string in JSON, rarely with an escape for a character that needs none.
func (g generator) escaped(text string) string {
	runes := []rune(text)
	at := -1
	if len(runes) > 0 && g.IntN(5) == 0 {
		at = g.IntN(len(runes))
	}
	out := []byte{'"'}
	for i, r := range runes {
		if i == at && r < 0x10000 {
			out = fmt.Appendf(out, "\\u%04x", r)
			continue
		}
		quoted := jsondoc.AppendQuoted(nil, string(r))
		out = append(out, quoted[1:len(quoted)-1]...)
	}
	return string(append(out, '"'))
}

func (g generator) numberJSON() string { return pick(g, numbers...) }
func (g generator) boolJSON() string   { return pick(g, "true", "false") }

// condition returns a boolean expression. items are the variables of macros in scope.
func (g generator) condition(depth int, items []string) string {
	if depth > 0 {
		switch g.IntN(9) {
		case 0, 1:
			return "(" + g.condition(depth-1, items) + pick(g, " && ", " || ") + g.condition(depth-1, items) + ")"
		case 2:
			return "!" + "(" + g.condition(depth-1, items) + ")"
		case 3:
			return "(" + g.condition(depth-1, items) + " ? " + g.condition(depth-1, items) + " : " + g.condition(depth-1, items) + ")"
		case 4, 5:
			return g.quantifier(depth, items)
		}
	}
	switch g.IntN(18) {
	case 17: // has no translation
		return g.text(depth, items) + pick(g, ".lowerAscii() == 'ab'", ".replace('a', 'b') == 'b'", ".find('[a-b]+') != ''")
	case 11, 12, 13:
		return g.dynamic(items) + pick(g, " == ", " != ", " < ", " <= ", " > ", " >= ") + pick(g, "1", "2", "-1", "9223372036854775807", "0.5", "1.0", "2.0", "0.1", "5e-324", "1e300", "'a'", "'b'", "true", "self.n", "self.s", "row.d")
	case 14:
		return pick(g, "self.d", "row.d", "row.n", "0.5", "1.0", "object.d") + pick(g, " < ", " <= ", " > ", " >= ") + pick(g, "self.d", "self.n", "row.n", "row.d", "0.5", "1", "0.1")
	case 15:
		return pick(g, g.dynamic(items)+" == null", "null != "+g.dynamic(items), "has(object.s)", "has(object.o.s)", "has(object.zz)", "has(self.y)", "has(self.d)",
			"has(row.s)", "has(row.d) && row.d == 0.5", "row.b", "row.b == self.b", "object.b", "!object.b", "self.?y.hasValue()", "object.?s.hasValue()", "object.?o.?s.hasValue()", "has(self.p)")
	case 16:
		return pick(g, "'a'", "1", "1.0", "true", g.text(0, nil), "self.n") + " in " + g.dynamic(items)
	case 0:
		return g.text(depth, items) + pick(g, " == ", " != ", " < ", " <= ", " > ", " >= ") + g.text(depth, items)
	case 1, 2:
		return g.number(depth, items) + pick(g, " == ", " != ", " < ", " <= ", " > ", " >= ") + g.number(depth, items)
	case 3:
		return pick(g, "self.b", "self.b == true", "true", "false", "self.?b.orValue(true)", "has(self.b) == self.b")
	case 4:
		return pick(g, "has(self.s)", "has(self.o)", "has(self.o.s)", "has(self.o.o.s)", "has(self.m.a)", "has(self.dash__dash__ed)", "self.?o.o.s.hasValue()", "self.?s.hasValue()", "self.o.?s.hasValue()")
	case 5:
		return g.text(depth, items) + " in " + pick(g, "self.l", "self.m", "['a', 'b', '\\'']", "self.?l.orValue([])", "[]")
	case 6:
		return g.number(depth, items) + " in " + pick(g, "self.k", "[1, 2, 3]", "self.?k.orValue([])")
	case 7:
		return g.text(depth, items) + ".matches(" + pick(g, "'^a'", "'b$'", "'^[a-c]+$'", "'.'", "'^.{1,3}$'", "'a|ä'", "'[^a]'", `'\\d'`, `'\\s'`, `'^(a(b|c)?)*$'`, `'^$'`, "'😀'", `'\\\\'`, `'\\$'`, "'(?i)a'", "''") + ")"
	}
	return g.text(depth, items) + pick(g, ".startsWith(", ".endsWith(", ".contains(") + g.text(depth, items) + ")"
}

// conjunction returns up to three conditions with && between them.
func (g generator) conjunction() string {
	list := []string{g.condition(1+g.IntN(3), nil)}
	for len(list) < 3 && g.IntN(2) == 0 {
		list = append(list, g.condition(g.IntN(3), nil))
	}
	return strings.Join(list, " && ")
}

// quantifier returns a macro over a list or a map.
func (g generator) quantifier(depth int, items []string) string {
	name := fmt.Sprintf("v%d", len(items))
	macro := pick(g, "all", "exists", "exists_one")
	switch g.IntN(10) {
	case 8:
		return fmt.Sprintf("%s.%s(%s, %s)", g.dynamic(items), macro, name, g.condition(depth-1, append(items, "dyn "+name)))
	case 9:
		return fmt.Sprintf("object.x.%s(%s, %s)", macro, name, g.condition(depth-1, append(items, "dyn "+name)))
	case 6:
		return fmt.Sprintf("[%s ? true : false, %s ? true : false, self.b].%s(%s, %s)", g.condition(0, items), g.condition(0, items), macro, name, pick(g, name, "!"+name, name+" == self.b"))
	case 7:
		return fmt.Sprintf("self.m.%s(%s, self.m[%s] %s %s)", macro, name, name, pick(g, "==", "<"), g.text(0, items))
	case 0:
		return fmt.Sprintf("%s.%s(%s, %s)", pick(g, "self.l", "self.?l.orValue([])"), macro, name, g.condition(depth-1, append(items, "text "+name)))
	case 1:
		return fmt.Sprintf("self.k.%s(%s, %s)", macro, name, g.condition(depth-1, append(items, "number "+name)))
	case 2:
		return fmt.Sprintf("self.m.%s(%s, %s)", macro, name, g.condition(depth-1, append(items, "key "+name)))
	}
	if i := slices.IndexFunc(items, func(s string) bool { return strings.HasPrefix(s, "object ") }); i >= 0 && g.IntN(2) == 0 {
		return fmt.Sprintf("%s.l.%s(%s, %s)", items[i][len("object "):], macro, name, g.condition(depth-1, append(items, "text "+name)))
	}
	return fmt.Sprintf("%s.%s(%s, %s)", pick(g, "self.x", "self.?x.orValue([])"), macro, name, g.condition(depth-1, append(items, "object "+name)))
}

// variable returns a use of a variable of a macro as a type, "" if there is none.
func (g generator) variable(items []string, text bool) string {
	if len(items) == 0 || g.IntN(3) == 0 {
		return ""
	}
	kind, name, _ := strings.Cut(pick(g, items...), " ")
	switch {
	case kind == "dyn":
		return pick(g, name, name+".s", name+".n")
	case kind == "object" && text:
		return name + ".s"
	case kind == "object":
		return name + ".n"
	case kind == "number" && !text, kind == "text" && text, kind == "key" && text:
		return name
	}
	return ""
}

// dynamic returns a value without a type.
func (g generator) dynamic(items []string) string {
	for _, item := range items {
		if kind, name, _ := strings.Cut(item, " "); kind == "dyn" && g.IntN(2) == 0 {
			return pick(g, name, name+".s", name+".n", name+".l")
		}
	}
	return pick(g, "object.s", "object.n", "object.d", "object.b", "object.o", "object.o.s", "object.o.o", "object.m", "object.m.a", "object.m['c.d']", "object.l", "object.l[0]", "object.k",
		"object.k[1]", "object.x[0].n", "object.y", "object.p.s", "object.p.n", "self.y", "object['namespace']", "object", "object.zz")
}

// text returns an expression of type string.
func (g generator) text(depth int, items []string) string {
	if v := g.variable(items, true); v != "" {
		return v
	}
	if depth > 0 {
		switch g.IntN(8) {
		case 0:
			return "(" + g.text(depth-1, items) + " + " + g.text(depth-1, items) + ")"
		case 1:
			return "string(" + g.number(depth-1, items) + ")"
		case 2:
			return "(" + g.condition(depth-1, items) + " ? " + g.text(depth-1, items) + " : " + g.text(depth-1, items) + ")"
		}
	}
	if g.IntN(2) == 0 {
		return string(jsondoc.AppendQuoted(nil, pick(g, texts...)))
	}
	return pick(g, "self.s", "self.o.s", "self.o.o.s", "self.m.a", "self.m['c.d']", "self.m['é']", "self.m['a&b']", "self.m['-a']", "self.m['x/y']", "self.dash__dash__ed", "self.__namespace__", "self.?s.orValue('a')", "self.?o.s.orValue('b')", "self.l[0]", "self.x[1].s", "self.x[0].l[1]", "object.s", "object.p.s", "row.s")
}

// number returns an expression of type int.
func (g generator) number(depth int, items []string) string {
	if v := g.variable(items, false); v != "" {
		return v
	}
	if depth > 0 {
		switch g.IntN(8) {
		case 0, 1:
			return "(" + g.number(depth-1, items) + pick(g, " + ", " - ", " * ", " / ", " % ") + g.number(depth-1, items) + ")"
		case 2:
			return "(-" + g.number(depth-1, items) + ")"
		case 3:
			return "size(" + pick(g, g.text(depth-1, items), g.dynamic(items), "self.l", "self.x", "self.m", "self.?l.orValue([])", "self.?m.orValue({})") + ")"
		case 5:
			name := fmt.Sprintf("v%d", len(items))
			return fmt.Sprintf("%s.filter(%s, %s).size()", pick(g, "self.x", "self.?x.orValue([])"), name, g.condition(depth-1, append(items, "object "+name)))
		case 4:
			return "(" + g.condition(depth-1, items) + " ? " + g.number(depth-1, items) + " : " + g.number(depth-1, items) + ")"
		}
	}
	if g.IntN(2) == 0 {
		return "(" + pick(g, numbers...) + ")"
	}
	return pick(g, "object.n", "object.p.n", "row.n", "self.k[0]", "self.x[0].n", "self.n", "self.o.n", "self.?n.orValue(1)", "self.?o.n.orValue(2)")
}

// TestRandom compares the rows that databases select with the documents for which the evaluator
// returns true. It prints the share of expressions that are refused, by construct.
func TestRandom(t *testing.T) {
	schema, err := cel.TypeOfSchema([]byte(schemaText), false)
	if err != nil {
		t.Fatal(err)
	}
	language, err := cel.NewLanguage(cel.LanguageOptions{Kubernetes: "1.37", Variables: []cel.Variable{{Name: "self", Schema: schema}, {Name: "object"}, {Name: "row"}}})
	if err != nil {
		t.Fatal(err)
	}
	for name, open := range map[string]func(*testing.T) *database{"sqlite": openSQLite, "sqlite-oldest": openOldestSQLite, "sqlite-jsonb": openSQLiteBinary, "postgres": openPostgres} {
		t.Run(name, func(t *testing.T) {
			g := generator{rand.New(rand.NewPCG(*seed, 0))}
			docs := make([]string, documentsAtATime)
			values := make([]cel.Vars, documentsAtATime)
			flat, rows := make([][4]any, documentsAtATime), make([]string, documentsAtATime)
			for i := range docs {
				docs[i] = g.document()
				flat[i], rows[i] = g.flat()
			}
			d := open(t)
			d.fill(t, docs, flat)
			docs = d.documents(t)
			for i := range docs {
				doc := parse(t, docs[i])
				values[i] = cel.Vars{"self": cel.FromDoc(doc, schema), "object": cel.FromDoc(doc, nil), "row": cel.FromDoc(parse(t, rows[i]), nil)}
				docs[i] += " " + rows[i]
			}
			run := comparison{t: t, database: d, language: language, docs: docs, values: values, refused: map[string]int{}}
			for run.compared*documentsAtATime < *pairs {
				run.compare(g.conjunction())
			}
			t.Logf("%d pairs compared, %d documents selected, %d expressions with a residual; %d of %d expressions refused: %v", run.compared*documentsAtATime, run.selected, run.residuals,
				run.total-run.compared, run.total, run.refused)
			if run.selected == 0 || run.residuals == 0 {
				t.Error("no document was selected, or there was no residual")
			}
		})
	}
}

// parse returns the root of a document.
func parse(t *testing.T, text string) jsondoc.Value {
	doc := new(jsondoc.Doc)
	if err := jsondoc.Parse(doc, []byte(text)); err != nil {
		t.Fatal(err)
	}
	return doc.Root()
}

// isTrue reports whether the evaluator returns true.
func isTrue(x *cel.Expression, vars cel.Vars) bool {
	result, _, err := x.Eval(context.Background(), vars, 0)
	return err == nil && result.Kind() == cel.KindBool && result.Bool()
}

// comparison compares expressions with one database.
type comparison struct {
	t        *testing.T
	database *database
	language *cel.Language
	docs     []string
	values   []cel.Vars

	total, compared, selected int
	residuals                 int            // of the compared expressions
	refused                   map[string]int // construct -> expressions
}

// compare compares one expression.
func (c *comparison) compare(expr string) {
	c.total++
	x, err := c.language.CompileExpression(expr)
	if err != nil {
		c.t.Fatalf("%s: %v", expr, err)
	}
	q, err := celsql.Translate(x, celsql.Options{Dialect: c.database.dialect, Columns: columns})
	var refused *celsql.RefusedError
	if errors.As(err, &refused) {
		c.refused[refused.Construct]++
		return
	}
	if err != nil {
		c.t.Fatalf("%s: %v", expr, err)
	}
	c.compared++
	got, err := c.database.selected(context.Background(), q)
	if err != nil {
		c.t.Fatalf("%s\n%s\n%v: %v", expr, q.Where, q.Args, err)
	}
	if q.Residual != "" {
		c.residuals++
		residual, err := c.language.CompileExpression(q.Residual)
		if err != nil {
			c.t.Fatalf("%s: the residual %s: %v", expr, q.Residual, err)
		}
		got = slices.DeleteFunc(got, func(i int) bool { return !isTrue(residual, c.values[i]) })
	}
	c.selected += len(got)
	var want []int
	for i, v := range c.values {
		if isTrue(x, v) {
			want = append(want, i)
		}
	}
	if slices.Equal(got, want) {
		return
	}
	for i := range c.docs {
		if slices.Contains(got, i) != slices.Contains(want, i) {
			c.t.Fatalf("%s\n%s\n%q\nresidual %s\nselects %t, want %t: %s", expr, q.Where, q.Args, q.Residual, slices.Contains(got, i), slices.Contains(want, i), c.docs[i])
		}
	}
}
