package cel_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"

	"github.com/google/cel-go/common/operators"
	"github.com/google/cel-go/common/types"
	"k8s.io/apiserver/pkg/cel/library"
)

// This file writes random expressions of a type.

// writer writes expressions over the variables of a vocabulary.
type writer struct {
	*rand.Rand
	g     *grammar
	words *vocabulary
	scope []variable
	fresh int
	left  int // phrases until only leaves are written
}

// variable is one that a macro binds.
type variable struct {
	name   string
	leaves map[string][]string
	has    []string
}

func (w *writer) pick(options ...string) string { return options[w.IntN(len(options))] }
func (w *writer) one(in int) bool               { return w.IntN(in) == 0 }

var scalarTypes = []*types.Type{
	types.BoolType, types.IntType, types.StringType, types.DoubleType, types.StringType, types.IntType,
	types.UintType, types.BytesType, types.DurationType, types.TimestampType,
}

var keyTypes = []*types.Type{types.StringType, types.StringType, types.IntType, types.BoolType, types.UintType}

func (w *writer) scalar() *types.Type { return scalarTypes[w.IntN(len(scalarTypes))] }

// anyType is a type that expressions often have.
func (w *writer) anyType() *types.Type {
	switch w.IntN(14) {
	case 0, 1:
		return types.NewListType(w.scalar())
	case 2:
		return types.NewMapType(keyTypes[w.IntN(len(keyTypes))], w.scalar())
	case 3:
		return types.NewOptionalType(w.scalar())
	case 4:
		return types.NewListType(types.NewListType(w.scalar()))
	case 5, 6:
		return w.known()
	case 7:
		return types.NullType
	}
	return w.scalar()
}

// known is the type of a variable or of what is in one.
func (w *writer) known() *types.Type {
	if n := len(w.words.types); n > 0 {
		return w.words.types[w.IntN(n)]
	}
	return w.scalar()
}

// expression writes one of a type, about depth calls deep.
func (w *writer) expression(t *types.Type, depth int) *phrase {
	w.fresh, w.left, w.scope = 0, 60, nil
	return w.expr(t, depth)
}

func (w *writer) expr(t *types.Type, depth int) *phrase {
	w.left--
	p := w.form(t, depth)
	p.t = t
	return p
}

func (w *writer) form(t *types.Type, depth int) *phrase {
	switch t.Kind() {
	case types.DynKind, types.AnyKind:
		if !w.one(3) {
			return w.expr(w.anyType(), depth)
		}
		return form("dyn(", w.expr(w.anyType(), depth-1), ")")
	case types.TypeKind:
		if w.one(2) {
			return form(w.pick("int", "string", "list", "map", "net.IP", "optional_type", "google.protobuf.Timestamp", "null_type"))
		}
		return form("type(", w.expr(w.anyType(), depth-1), ")")
	}
	if general := w.has("bind/3"); t.Kind() == types.MapKind && (general || !w.one(20)) {
		switch t.Parameters()[0].Kind() {
		case types.StringKind, types.IntKind, types.BoolKind, types.UintKind:
		case types.DoubleKind, types.DynKind:
			if general {
				return form("{}")
			}
		default: // no map can have such keys
			return form(w.pick("{}", "{'k': 1}", "dyn({'b': 'c'})"))
		}
	}
	if depth <= 0 || w.left <= 0 || w.one(5) {
		return w.leaf(t)
	}
	switch w.IntN(28) {
	case 0:
		return form("dyn(", w.expr(w.anyType(), depth-1), ")")
	case 1:
		return form("dyn(", w.expr(t, depth-1), ")")
	case 2, 3:
		return form("(", w.expr(types.BoolType, depth-1), " ? ", w.expr(t, depth-1), " : ", w.expr(t, depth-1), ")")
	case 4:
		return form("[", w.expr(t, depth-1), ", ", w.expr(t, depth-1), "][", w.expr(types.IntType, 1), "]")
	case 5:
		return form("{'k': ", w.expr(t, depth-1), "}", w.pick(".k", "['k']", "['zz']", "['k']"))
	case 6:
		of := operand(w.expr(types.NewOptionalType(t), depth-1))
		if w.one(3) {
			return form(of, ".value()")
		}
		return form(of, ".orValue(", w.expr(t, depth-1), ")")
	case 7, 8, 9, 10:
		if p := w.macro(t, depth-1); p != nil {
			return p
		}
	case 11:
		if t.Kind() == types.StringKind {
			return w.format(depth - 1)
		}
	case 12, 13:
		if p := w.memberOf(t, depth-1); p != nil {
			return p
		}
	}
	return w.called(t, depth-1)
}

// form is a phrase of parts.
func form(parts ...any) *phrase { return &phrase{parts: parts} }

// called is a call that returns t.
func (w *writer) called(t *types.Type, depth int) *phrase {
	choices := w.g.returning(t)
	if len(choices) == 0 {
		return w.leaf(t)
	}
	return w.callOf(w.g.overloads[choices[w.IntN(len(choices))]], t, depth)
}

// callOf is a call of an overload for a result of type t, any type if nil.
func (w *writer) callOf(o overload, t *types.Type, depth int) *phrase {
	params := map[string]*types.Type{}
	if t != nil {
		unify(o.result, t, params)
	}
	if o.id == "select_optional_field" {
		value := fill(o.result, params, w.anyType).Parameters()[0]
		target := w.expr(types.NewMapType(types.StringType, value), depth)
		return call(o, []*phrase{target, form(w.pick("k", "a", "b"))})
	}
	if o.id == "string_format" {
		return w.format(depth)
	}
	var args []*phrase
	for i, arg := range o.args {
		args = append(args, w.argument(o, i, fill(arg, params, w.anyType), depth))
	}
	return w.spell(o, call(o, args))
}

func (w *writer) argument(o overload, i int, t *types.Type, depth int) *phrase {
	pool := pools[o.function]
	if named := pools[fmt.Sprintf("%s/%d", o.function, i)]; named != "" {
		pool = named
	}
	switch {
	case w.one(90):
		return w.expr(w.anyType(), depth)
	case t.Kind() == types.StringKind && pool != "" && !w.one(3):
		list := wordPools[pool]
		return &phrase{parts: []any{w.quote(list[w.IntN(len(list))])}, t: t}
	case o.function == "lists.range" && !w.one(30):
		return &phrase{parts: []any{w.pick("0", "1", "3", "7", "-1")}, t: t}
	case o.function == operators.Index && t.Kind() == types.IntKind && w.one(2):
		return &phrase{parts: []any{w.pick("0", "1", "-1")}, t: t}
	}
	return w.expr(t, depth)
}

// format is a text made with format().
func (w *writer) format(depth int) *phrase {
	var text strings.Builder
	p := form("", ".format([")
	for i := range w.IntN(4) {
		text.WriteString(w.pick("", "a", "é", "%%", "-"))
		clause := w.pick("s", "s", "d", "f", "e", "b", "x", "X", "o")
		t := w.anyType()
		switch clause {
		case "d", "o":
			t = []*types.Type{types.IntType, types.UintType, types.IntType, types.DoubleType}[w.IntN(4)]
		case "f", "e":
			t = []*types.Type{types.DoubleType, types.IntType, types.StringType}[min(w.IntN(5), 2)]
		case "b":
			t = []*types.Type{types.IntType, types.BoolType, types.UintType}[w.IntN(3)]
		case "x", "X":
			t = []*types.Type{types.IntType, types.StringType, types.BytesType, types.UintType}[w.IntN(4)]
		}
		text.WriteString("%" + w.pick("", "", ".2", ".0", ".7") + clause)
		if i > 0 {
			p.parts = append(p.parts, ", ")
		}
		p.parts = append(p.parts, w.expr(t, depth))
	}
	p.parts[0] = strconv.Quote(text.String())
	if w.one(8) {
		p.parts[0] = strconv.Quote(w.pick(wordPools["format"]...))
	}
	p.parts = append(p.parts, "])")
	return p
}

// with writes what fn does with a new variable of type t in scope.
func (w *writer) with(t *types.Type, fn func(x string)) string {
	x := w.variable()
	v := variable{name: x, leaves: map[string][]string{}}
	w.words.expand(x, t, 2, func(text string, t *types.Type) { v.leaves[t.String()] = append(v.leaves[t.String()], text) }, func(text string) { v.has = append(v.has, text) })
	w.scope = append(w.scope, v)
	fn(x)
	w.scope = w.scope[:len(w.scope)-1]
	return x
}

// macro is a macro that makes a t, nil if there is none.
func (w *writer) macro(t *types.Type, depth int) *phrase {
	switch {
	case t.Kind() == types.BoolKind:
		if w.one(4) {
			return w.presence(depth)
		}
		return w.quantifier(depth)
	case t.Kind() == types.ListKind:
		return w.listMacro(t, depth)
	case t.Kind() == types.MapKind:
		return w.mapMacro(t, depth)
	case isOptional(t):
		from := w.anyType()
		p := form(operand(w.expr(types.NewOptionalType(from), depth)))
		x := w.with(from, func(x string) {
			if w.one(2) {
				p.parts = append(p.parts, ".optMap("+x+", ", w.expr(t.Parameters()[0], depth), ")")
			} else {
				p.parts = append(p.parts, ".optFlatMap("+x+", ", w.expr(t, depth), ")")
			}
		})
		p.binds = []string{x}
		return p
	}
	if w.has("bind/3") {
		return w.bind(t, depth)
	}
	return nil
}

func (w *writer) has(macro string) bool { return slices.Contains(w.g.macros, macro) }

// bind is one of the macros that Kubernetes has not.
func (w *writer) bind(t *types.Type, depth int) *phrase {
	if w.one(2) && (t.Kind() == types.IntKind || t.Kind() == types.DoubleKind || t.Kind() == types.UintKind) {
		return w.extreme(w.pick("greatest", "least"), t, depth)
	}
	of := w.anyType()
	value := w.expr(of, depth)
	p := form()
	x := w.with(of, func(x string) { p.parts = append(p.parts, "cel.bind("+x+", ", value, ", ", w.expr(t, depth), ")") })
	p.binds = []string{x}
	return p
}

// extreme is the greatest or least of some numbers.
func (w *writer) extreme(name string, t *types.Type, depth int) *phrase {
	args := []*phrase{w.expr(t, depth)}
	if w.one(4) {
		args = []*phrase{w.expr(types.NewListType(t), depth)}
	}
	for !w.one(3) && len(args) < 4 {
		args = append(args, w.expr(numberTypes[w.IntN(3)], depth))
	}
	return extreme(name, args...)
}

var numberTypes = []*types.Type{types.IntType, types.DoubleType, types.UintType}

func extreme(name string, args ...*phrase) *phrase {
	p := form("math." + name + "(")
	addList(p, args)
	p.parts = append(p.parts, ")")
	return p
}

// every calls fn with expressions that use each macro, many times.
func (w *writer) every(fn func(p *phrase)) {
	for range 40 {
		for _, t := range scalarTypes {
			fn(w.sorted(types.NewListType(w.scalar()), t, 1))
			fn(w.listMacro(types.NewListType(t), 1))
			fn(w.mapMacro(types.NewMapType(types.StringType, t), 1))
			fn(w.macro(types.NewOptionalType(t), 1))
			fn(w.quantifier(1))
			fn(w.presence(1))
			if w.has("bind/3") {
				fn(w.bind(t, 1))
				a, b := numberTypes[w.IntN(3)], numberTypes[w.IntN(3)]
				for _, name := range []string{"greatest", "least"} {
					fn(extreme(name, w.leaf(a)))
					fn(extreme(name, w.leaf(a), w.leaf(b)))
					fn(extreme(name, w.leaf(types.NewListType(a))))
				}
			}
			w.left = 60
		}
	}
}

// presence is has() of some member.
func (w *writer) presence(depth int) *phrase {
	if len(w.scope) > 0 && w.one(2) {
		if v := w.scope[w.IntN(len(w.scope))]; len(v.has) > 0 {
			return &phrase{parts: []any{"has(" + w.pick(v.has...) + ")"}, free: []string{v.name}}
		}
	}
	if w.one(4) || len(w.words.has) == 0 {
		return form("has(", operand(w.expr(types.NewMapType(types.StringType, w.scalar()), depth)), ".k)")
	}
	return form("has(" + w.pick(w.words.has...) + ")")
}

// ranged is a list or map and the types of what iterating over it gives.
func (w *writer) ranged(depth int) (of *phrase, key, item *types.Type, list bool) {
	if w.one(4) {
		key, item = keyTypes[w.IntN(len(keyTypes))], w.anyType()
		return w.expr(types.NewMapType(key, item), depth), key, item, false
	}
	item = w.anyType()
	if w.one(3) {
		if t := w.known(); t.Kind() == types.ListKind {
			item = t.Parameters()[0]
		}
	}
	return w.expr(types.NewListType(item), depth), types.IntType, item, true
}

// over writes a macro over something, with one or two variables.
func (w *writer) over(one, two []string, depth int, body func(p *phrase, name string)) *phrase {
	of, key, item, list := w.ranged(depth)
	p := form(operand(of))
	if len(one) == 0 || len(two) > 0 && w.one(3) {
		name := w.pick(two...)
		var x, y string
		x = w.with(key, func(x string) {
			y = w.with(item, func(y string) {
				p.parts = append(p.parts, "."+name+"("+x+", "+y+", ")
				body(p, name)
				p.parts = append(p.parts, ")")
			})
		})
		p.binds = []string{x, y}
		return p
	}
	if !list {
		item = key
	}
	if w.one(12) {
		p.parts, item = []any{"dyn(", of, ")"}, types.DynType
	}
	name := w.pick(one...)
	x := w.with(item, func(x string) {
		p.parts = append(p.parts, "."+name+"("+x+", ")
		body(p, name)
		p.parts = append(p.parts, ")")
	})
	p.binds = []string{x}
	return p
}

func (w *writer) quantifier(depth int) *phrase {
	one := []string{"all", "exists", "exists_one", "all", "exists"}
	if w.has("existsOne/2") {
		one = append(one, "existsOne")
	}
	return w.over(one, []string{"all", "exists", "existsOne"}, depth, func(p *phrase, _ string) {
		p.parts = append(p.parts, w.expr(types.BoolType, depth))
	})
}

func (w *writer) listMacro(t *types.Type, depth int) *phrase {
	item := t.Parameters()[0]
	switch w.IntN(4) {
	case 0:
		p := form(operand(w.expr(t, depth)))
		x := w.with(item, func(x string) { p.parts = append(p.parts, ".filter("+x+", ", w.expr(types.BoolType, depth), ")") })
		p.binds = []string{x}
		return p
	case 1:
		return w.sorted(t, w.scalar(), depth)
	}
	return w.over([]string{"map"}, []string{"transformList"}, depth, func(p *phrase, _ string) {
		if w.one(3) {
			p.parts = append(p.parts, w.expr(types.BoolType, depth), ", ")
		}
		p.parts = append(p.parts, w.expr(item, depth))
	})
}

// sorted is a list sorted by keys of a type.
func (w *writer) sorted(list, key *types.Type, depth int) *phrase {
	p := form(operand(w.expr(list, depth)))
	x := w.with(list.Parameters()[0], func(x string) { p.parts = append(p.parts, ".sortBy("+x+", ", w.expr(key, depth), ")") })
	p.binds = []string{x}
	return p
}

func (w *writer) mapMacro(t *types.Type, depth int) *phrase {
	name := w.pick("transformMap", "transformMapEntry")
	return w.over(nil, []string{name}, depth, func(p *phrase, _ string) {
		if w.one(3) {
			p.parts = append(p.parts, w.expr(types.BoolType, depth), ", ")
		}
		if name == "transformMap" {
			p.parts = append(p.parts, w.expr(t.Parameters()[1], depth))
			return
		}
		p.parts = append(p.parts, "{", w.expr(t.Parameters()[0], depth), ": ", w.expr(t.Parameters()[1], depth), "}")
	})
}

// leaf is a variable, a member of one, or a literal.
func (w *writer) leaf(t *types.Type) *phrase {
	key := t.String()
	if len(w.scope) > 0 && w.one(2) {
		v := w.scope[len(w.scope)-1-min(w.IntN(len(w.scope)), w.IntN(len(w.scope)))]
		if list := v.leaves[key]; len(list) > 0 {
			return &phrase{parts: []any{w.pick(list...)}, free: []string{v.name}}
		}
	}
	if list := w.words.leaves[key]; len(list) > 0 && !w.one(4) {
		return form(w.pick(list...))
	}
	return w.literal(t)
}

var opaqueTypes = map[string][]string{
	"kubernetes.URL":         {"url(@)", "url"},
	"kubernetes.Quantity":    {"quantity(@)", "quantity"},
	"kubernetes.Semver":      {"semver(@)", "semver"},
	"net.IP":                 {"ip(@)", "ip"},
	"net.CIDR":               {"cidr(@)", "cidr"},
	"kubernetes.NamedFormat": {"format.named(@).value()", "name"},
}

func (w *writer) literal(t *types.Type) *phrase {
	switch t.Kind() {
	case types.BoolKind:
		return form(w.pick("true", "false"))
	case types.IntKind:
		return form(w.pick("0", "1", "2", "3", "5", "10", "-1", "100", "0x1F", "- 1", "1234567", "9223372036854775807", "-9223372036854775808"))
	case types.UintKind:
		return form(w.pick("0u", "1u", "2u", "7u", "0x1Fu", "9223372036854775808u", "18446744073709551615u"))
	case types.DoubleKind:
		return form(w.pick("0.0", "1.0", "1.5", "-2.25", "3.0", ".5", "1e30", "-1e-3", "9007199254740993.0", "9.3e18", "double('NaN')", "1.0/0.0"))
	case types.StringKind:
		return form(w.quote(allWords[w.IntN(len(allWords))]))
	case types.BytesKind:
		return form("b" + w.pick(`''`, `'a'`, `'hello'`, `'\xff\x00'`, `'é'`, `"abc"`))
	case types.DurationKind:
		return form("duration(" + strconv.Quote(w.pick(wordPools["duration"][:6]...)) + ")")
	case types.TimestampKind:
		return form("timestamp(" + strconv.Quote(w.pick(wordPools["timestamp"][:6]...)) + ")")
	case types.NullTypeKind:
		return form("null")
	case types.ListKind:
		p := form("[")
		var items []*phrase
		for range w.IntN(4) {
			items = append(items, w.leaf(t.Parameters()[0]))
		}
		addList(p, items)
		if w.one(12) {
			if len(items) > 0 {
				p.parts = append(p.parts, ", ")
			}
			p.parts = append(p.parts, "?", w.leaf(types.NewOptionalType(t.Parameters()[0])))
		}
		p.parts = append(p.parts, "]")
		return p
	case types.MapKind:
		return w.mapLiteral(t)
	}
	if isOptional(t) {
		if w.one(4) {
			return form("optional.none()")
		}
		return form("optional.", w.pick("of(", "ofNonZeroValue("), w.leaf(t.Parameters()[0]), ")")
	}
	if makes, ok := opaqueTypes[t.TypeName()]; ok {
		before, after, _ := strings.Cut(makes[0], "@")
		return form(before + strconv.Quote(w.pick(wordPools[makes[1]]...)) + after)
	}
	if len(w.words.leaves[library.AuthorizerType.String()]) > 0 {
		switch t.TypeName() {
		case "kubernetes.authorization.Decision":
			return form(w.pick("authorizer.path('/x')", "authorizer.requestResource", "authorizer.group('').resource('pods')"), ".check(", w.pick("'get'", "'fail'", "s"), ")")
		case "kubernetes.authorization.GroupCheck":
			return form("authorizer.group(s)")
		case "kubernetes.authorization.PathCheck":
			return form("authorizer.path('/a')")
		}
	}
	return form("dyn(", w.literal(w.scalar()), ")")
}

// mapLiteral has one entry at most, as a rule: with more, upstream's order is
// random.
func (w *writer) mapLiteral(t *types.Type) *phrase {
	p := form("{")
	n := min(w.IntN(4), 1)
	switch t.Parameters()[0].Kind() {
	case types.StringKind, types.IntKind, types.BoolKind, types.UintKind:
	default:
		if w.has("bind/3") { // a general language refuses such keys
			n = 0
		}
	}
	if w.one(10) && !w.has("bind/3") {
		n = 2
	}
	for i := range n {
		if i > 0 {
			p.parts = append(p.parts, ", ")
		}
		if w.one(10) {
			p.parts = append(p.parts, "?", w.leaf(t.Parameters()[0]), ": ", w.leaf(types.NewOptionalType(t.Parameters()[1])))
			continue
		}
		p.parts = append(p.parts, w.leaf(t.Parameters()[0]), ": ", w.leaf(t.Parameters()[1]))
	}
	p.parts = append(p.parts, "}")
	return p
}
