package cel

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"maps"
	"math/rand/v2"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/cel-go/common/decls"
	"github.com/google/cel-go/common/types"

	"github.com/keelson-io/keelson/jsondoc"
)

// This file measures the processor time of all functions and macros beside their cost.

var processorTime = flag.Bool("processor-time", false, "measure the processor time of all functions and macros")

// mostPerUnit is the processor time that one unit of cost may take. Most calls take 10 to 400 ns.
const mostPerUnit = 2 * time.Microsecond

// TestProcessorTime calls each function and each macro with large and odd arguments in a loop, and compares the processor time with the
// cost: who finds a call that takes long and costs little evades the cost limit. "make attack" runs it.
func TestProcessorTime(t *testing.T) {
	if !*processorTime {
		t.Skip("without -processor-time")
	}
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	c := newTimedCalls(t)
	for _, name := range slices.Sorted(maps.Keys(c.functions)) {
		for _, overload := range c.functions[name].OverloadDecls() {
			c.tryOverload(name, overload)
		}
	}
	for _, macro := range []string{"S.all(x, x == A)", "S.exists(x, A == x)", "S.exists_one(x, x == A)", "S.map(x, A)", "S.map(x, x == A, x)", "S.filter(x, x != A)",
		"S.all(k, v, v == A)", "S.exists(k, v, v == A)", "S.existsOne(k, v, v == A)", "S.transformList(k, v, A)", "S.transformMap(k, v, A)", "S.sortBy(x, A)",
		"cel.bind(x, S, x == A)", "S[?0].optMap(x, [x, A])", "S[?0].optFlatMap(x, optional.of(A))", "has(self.m.k1) && A == S"} {
		for range callsPerOverload {
			c.try(strings.NewReplacer("S", c.pick(c.lists), "A", c.pick(c.any)).Replace(macro))
		}
	}
	t.Logf("%d calls; without arguments: %v", c.tried, c.skipped)
	if c.tried < 1000 {
		t.Errorf("got %d calls, want all functions", c.tried)
	}
}

// callsPerOverload is the number of combinations of arguments of an overload.
const callsPerOverload = 8

// timedCalls makes calls and measures them.
type timedCalls struct {
	*rand.Rand
	t         *testing.T
	language  *Language
	vars      Vars
	functions map[string]*decls.FunctionDecl

	texts, lists, any []string // expressions
	tried             int
	skipped           []string // functions without arguments of their types
}

// pick returns one of the expressions.
func (c *timedCalls) pick(list []string) string { return list[c.IntN(len(list))] }

// newTimedCalls returns a document with arguments.
func newTimedCalls(t *testing.T) *timedCalls {
	const n = 400_000
	rep := strings.Repeat
	texts := map[string]string{
		"ascii": rep("a", n), "accents": rep("é", n/2), "emoji": rep("\U0001F600", n/4), "digits": rep("9", n), "commas": rep("a,", n/2), "spaces": rep(" ", n), "cases": rep("Aa", n/2),
		"verbs": rep("%s", n/2), "precise": "%." + rep("0", 500) + "5f" + rep("%.200f", n/10), "bases": rep("%x%X%b%o%e", n/10), "escapes": rep("\\u0041", n/6),
		"ip4": "255.255.255.255", "ip6": "fe80:1111:2222:3333:4444:5555:6666:7777", "cidr": "10.0.0.0/8", "version": "1.2.3-" + rep("a.", 1000) + "b",
		"url": "https://a.b/" + rep("%41", n/3), "query": "https://a.b/?" + rep("a=b&", n/4), "pattern": "(a*)*b", "options": rep("(a?)", 200) + rep("a", 200),
		"base64": rep("QUJD", n/4), "hours": "0s" + rep("0h", n/2), "time": "2024-01-01T00:00:00Z", "quantity": "1." + rep("9", 900) + "e3", "empty": "", "a": "a",
	}
	data := map[string]any{}
	properties := map[string]any{}
	c := &timedCalls{Rand: rand.New(rand.NewPCG(1, 2)), t: t}
	for name, text := range texts {
		data[name], properties[name] = text, map[string]any{"type": "string"}
		c.texts = append(c.texts, "self."+name)
	}
	slices.Sort(c.texts)
	var words, numbers, long, objects, pairs []any
	entries := map[string]any{}
	for i := range 20_000 {
		words, numbers = append(words, fmt.Sprint("k", 20_000-i)), append(numbers, 20_000-i)
		entries[fmt.Sprint("k", i)] = fmt.Sprint("v", i)
		if i%4 == 0 {
			objects, pairs = append(objects, map[string]any{"a": fmt.Sprint(i)}), append(pairs, []any{i, "x"})
		}
	}
	for range 30 {
		long = append(long, rep("é", 10_000))
	}
	var nested any = "x"
	for range 60 {
		nested = []any{nested}
	}
	for name, v := range map[string]any{"words": words, "numbers": numbers, "long": long, "objects": objects, "pairs": pairs, "m": entries, "nested": nested} {
		data[name], properties[name] = v, map[string]any{"x-kubernetes-preserve-unknown-fields": true}
	}
	c.lists = []string{"self.words", "self.numbers", "self.long", "self.objects", "self.pairs", "self.nested", "[self.ascii, self.ascii, self.accents]", "lists.range(1000)", "[bytes(self.ascii)]",
		"[duration('1h'), duration('2h')]"}
	c.any = []string{"dyn(self.ascii)", "self.accents", "self.cases", "self.numbers", "self.words", "self.long", "self.m", "self.nested", "self.objects", "dyn(i)", "dyn(1.5)", "null", "optional.of(self.accents)"}
	text, err := json.Marshal(map[string]any{"type": "object", "properties": properties})
	if err != nil {
		t.Fatal(err)
	}
	schema, err := TypeOfSchema(text, false)
	if err != nil {
		t.Fatal(err)
	}
	if text, err = json.Marshal(data); err != nil {
		t.Fatal(err)
	}
	doc := new(jsondoc.Doc)
	if err := jsondoc.Parse(doc, text); err != nil {
		t.Fatal(err)
	}
	c.vars = Vars{"self": FromDoc(doc.Root(), schema)}
	if c.language, err = NewLanguage(LanguageOptions{Kubernetes: NewestKubernetes, Variables: []Variable{{Name: "self", Schema: schema}}}); err != nil {
		t.Fatal(err)
	}
	c.functions = c.language.words.Env.Base.Functions()
	return c
}

// arguments returns expressions of a type.
func (c *timedCalls) arguments(typ *types.Type) []string {
	named := map[string][]string{
		"kubernetes.Quantity":    {"quantity('1')", "quantity(self.quantity)", "quantity('1e900')", "quantity('1Ei')", "quantity('1e-9')"},
		"kubernetes.URL":         {"url('https://a.b/c')", "url(self.url)", "url(self.query)"},
		"net.IP":                 {"ip(self.ip4)", "ip(self.ip6)"},
		"net.CIDR":               {"cidr(self.cidr)", "cidr('fe80::/10')"},
		"kubernetes.Semver":      {"semver('1.2.3')", "semver(self.version)"},
		"kubernetes.NamedFormat": {"format.dns1123Subdomain()", "format.uri()", "format.byte()", "format.datetime()", "format.qualifiedName()", "format.labelValue()"},
		"optional_type":          {"optional.of(self.accents)", "optional.of(self.m)", "optional.none()"},
	}
	switch typ.Kind() {
	case types.StringKind:
		return c.texts
	case types.IntKind:
		return []string{"0", "1", "i", "2", "400000", "-1", "9223372036854775807", "(-9223372036854775807 - 1)", "16"}
	case types.UintKind:
		return []string{"1u", "18446744073709551615u", "uint(i)"}
	case types.DoubleKind:
		return []string{"1.5", "1e300", "5e-324", "double(i)", "0.1"}
	case types.BoolKind:
		return []string{"true", "(i == 3)"}
	case types.BytesKind:
		return []string{"bytes(self.ascii)", "bytes(self.accents)", "b'abc'", "base64.decode(self.base64)"}
	case types.TimestampKind:
		return []string{"timestamp(self.time)", "timestamp('9999-12-31T23:59:59.999999999Z')", "timestamp(i)"}
	case types.DurationKind:
		return []string{"duration('1h')", "duration('2562047h')", "duration(self.hours)"}
	case types.ListKind:
		return c.lists
	case types.MapKind:
		return []string{"self.m", "{'a': self.ascii}", "{1: 2}", "{'a': self.numbers, 'b': self.words}"}
	case types.TypeKind:
		return []string{"type(self.m)", "type(self.ascii)"}
	case types.TypeParamKind, types.DynKind, types.AnyKind:
		return c.any
	}
	return named[typ.TypeName()]
}

// infix are the operators between two arguments.
var infix = map[string]string{"_==_": "==", "_!=_": "!=", "_<_": "<", "_<=_": "<=", "_>_": ">", "_>=_": ">=", "_+_": "+", "_-_": "-", "_*_": "*", "_/_": "/", "_%_": "%", "@in": "in",
	"_&&_": "&&", "_||_": "||"}

// tryOverload makes calls of an overload of a function.
func (c *timedCalls) tryOverload(name string, overload *decls.OverloadDecl) {
	for range callsPerOverload {
		var args []string
		for _, typ := range overload.ArgTypes() {
			list := c.arguments(typ)
			if len(list) == 0 {
				c.skipped = append(c.skipped, name+"("+typ.String()+")")
				return
			}
			args = append(args, c.pick(list))
		}
		switch op := infix[name]; {
		case op != "":
			c.try(args[0] + " " + op + " " + args[1])
		case name == "_?_:_":
			c.try(args[0] + " ? " + args[1] + " : " + args[2])
		case name == "_[_]":
			c.try(args[0] + "[" + args[1] + "]")
		case name == "-_", name == "!_":
			c.try(name[:1] + args[0])
		case strings.ContainsAny(name, "_@?"):
			return // of macros and optional selections, which are below
		case overload.IsMemberFunction():
			c.try(args[0] + "." + name + "(" + strings.Join(args[1:], ", ") + ")")
		default:
			c.try(name + "(" + strings.Join(args, ", ") + ")")
		}
	}
}

// try measures a call, if it has a type.
func (c *timedCalls) try(call string) {
	x, err := c.language.CompileExpression("lists.range(100000).all(i, dyn(" + call + ") == i || true)")
	if err != nil {
		return
	}
	c.tried++
	ctx, cancel := context.WithTimeout(c.t.Context(), time.Second)
	defer cancel()
	var account Account
	before := threadTime(c.t)
	_, cost, err := x.EvalOn(ctx, c.vars, 2_000_000, &account)
	took := threadTime(c.t) - before
	ended := err == nil || errors.Is(err, ErrCostLimit) || errors.Is(err, ErrInterrupted)
	if took > time.Duration(max(cost, 100_000))*mostPerUnit || !ended {
		c.t.Errorf("%s: got %v for %d units, at most %v for each are allowed; error %v", call, took.Round(time.Millisecond), cost, mostPerUnit, err)
	}
}
