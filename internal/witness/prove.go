package witness

import (
	"context"
	"fmt"
	"maps"
	"slices"

	"github.com/google/cel-go/common/ast"
	"github.com/google/cel-go/common/operators"

	"github.com/keelson-io/keelson/cel"
	"github.com/keelson-io/keelson/jsondoc"
	"github.com/keelson-io/keelson/schema"
	"github.com/keelson-io/keelson/schema/structural"
)

// This file proves that a rule cannot have a result. A proof looks at more values than the schema
// allows, never at fewer, so that a result that none of them has is impossible.

// prove returns why no value that the schema allows gives the rule the wanted result.
func (s *Search) prove(ctx context.Context, rule Rule, want Want) (reason string, ok bool) {
	e, n := s.tree(rule.ValidationRule.Rule), s.node(rule)
	if e == nil || n == nil || s.usesOld(rule.ValidationRule.Rule) {
		return "", false
	}
	if want == Accept {
		if reason := s.forbidden(rule); reason != "" {
			return reason, true
		}
	}
	if want != Accept {
		if reason := uniqueKeys(e, n); reason != "" {
			return reason, true
		}
	}
	if reason, ok := s.proveTexts(e, n, want); ok {
		return reason, true
	}
	return s.proveFinite(ctx, rule, e, n, want)
}

// forbidden returns the rule of a node above that allows no value where the rule applies.
func (s *Search) forbidden(rule Rule) string {
	n, path := s.schema, ""
	for _, step := range rule.steps {
		name, isName := step.(string)
		for i, r := range n.Rules {
			e := s.tree(r.Rule)
			if e == nil || !isName || !isCall(e, operators.LogicalNot) || !isCall(e.AsCall().Args()[0], "has") {
				continue
			}
			member := e.AsCall().Args()[0].AsCall().Args()[0]
			if member.Kind() == ast.SelectKind && isIdent(member.AsSelect().Operand(), "self") && unescape(member.AsSelect().FieldName()) == name {
				return "no value is valid here: " + Rule{Path: path, Index: i, ValidationRule: r}.String()
			}
		}
		switch step := step.(type) {
		case string:
			n, path = n.Properties[step], path+"."+step
		case int:
			n, path = n.Items, path+"[*]"
		case anyKey:
			n, path = n.Additional, path+"{*}"
		}
	}
	return ""
}

// node returns the schema node of a rule.
func (s *Search) node(rule Rule) *structural.Schema {
	n := s.schema
	for _, step := range rule.steps {
		switch step := step.(type) {
		case string:
			n = n.Properties[step]
		case int:
			n = n.Items
		case anyKey:
			n = n.Additional
		}
	}
	return n
}

// selfMacro returns a macro with one variable over self, if the expression is one with that name.
func selfMacro(e ast.Expr, name string) (m macroCall, ok bool) {
	m, ok = asMacro(e)
	return m, ok && m.name == name && isIdent(m.over, "self") && len(m.names) == 1
}

// uniqueKeys recognizes self.all(x, self.exists_one(y, x.k == y.k && ...)) for a list whose type
// already keeps the keys unique: it is always true.
func uniqueKeys(e ast.Expr, n *structural.Schema) string {
	outer, ok := selfMacro(e, "all")
	if !ok || n.Items == nil {
		return ""
	}
	inner, ok := selfMacro(outer.body, "exists_one")
	if !ok {
		return ""
	}
	// pair reports whether the two expressions are the variables of the two macros, in any order.
	pair := func(a, b ast.Expr) bool {
		x, y := outer.names[0], inner.names[0]
		return isIdent(a, x) && isIdent(b, y) || isIdent(b, x) && isIdent(a, y)
	}
	equal := map[string]bool{}
	for _, part := range conjuncts(inner.body) {
		if !isCall(part, operators.Equals) {
			return ""
		}
		a, b := part.AsCall().Args()[0], part.AsCall().Args()[1]
		if pair(a, b) {
			if n.ListType == "set" {
				return "the list is a set: each item equals itself and no other"
			}
			return ""
		}
		if a.Kind() != ast.SelectKind || b.Kind() != ast.SelectKind || a.AsSelect().FieldName() != b.AsSelect().FieldName() {
			return ""
		}
		if !pair(a.AsSelect().Operand(), b.AsSelect().Operand()) {
			return ""
		}
		name := unescape(a.AsSelect().FieldName())
		child := n.Items.Properties[name]
		if child == nil || child.Type == "number" || !slices.Contains(valuesOf(n.Items).Required, name) && child.Default == nil {
			return ""
		}
		equal[name] = true
	}
	if n.ListType != "map" {
		return ""
	}
	for _, key := range n.ListMapKeys {
		if !equal[key] {
			return ""
		}
	}
	return fmt.Sprintf("the list is a map with keys %v, which are unique: each item equals itself and no other", n.ListMapKeys)
}

// conjuncts returns the parts of a conjunction.
func conjuncts(e ast.Expr) []ast.Expr {
	if !isCall(e, operators.LogicalAnd) {
		return []ast.Expr{e}
	}
	var out []ast.Expr
	for _, a := range e.AsCall().Args() {
		out = append(out, conjuncts(a)...)
	}
	return out
}

// finite collects the places that an expression reads and, for each, values that stand for all
// values which the expression can tell apart.
type finite struct {
	s      *Search
	root   *structural.Schema
	places map[string]*finitePlace
	locals map[string]bool // variables of macros over list literals
}

// finitePlace is a place below self.
type finitePlace struct {
	path     []string
	node     *structural.Schema
	required bool     // it is present if the place above is
	numbers  []int64  // constants that it is compared with
	texts    []string // the same for texts
	sizes    []int64  // constants that its size is compared with
	whole    bool     // its value is used in other ways: it must have finitely many
}

// maxCombinations is the greatest number of values that a proof looks at.
const maxCombinations = 20_000

// proveFinite enumerates all values that the expression can tell apart.
func (s *Search) proveFinite(ctx context.Context, rule Rule, e ast.Expr, n *structural.Schema, want Want) (string, bool) {
	f := &finite{s: s, root: n, places: map[string]*finitePlace{}, locals: map[string]bool{}}
	if !f.condition(e) || len(f.places) == 0 {
		return "", false
	}
	single := bare(n, map[*structural.Schema]*structural.Schema{})
	single.Rules = append(single.Rules, rule.ValidationRule)
	single.Default = nil
	p, err := schema.Compile(single, schema.Options{Env: s.o.Env, Resource: s.o.Resource && len(rule.steps) == 0})
	if err != nil {
		return "", false
	}
	programs, err := p.RootRules()
	if err != nil || len(programs) != 1 || programs[0] == nil {
		return "", false
	}
	var domains [][]tree
	total := 1
	names := slices.Sorted(maps.Keys(f.places)) // a place comes after those above it
	for _, name := range names {
		d, ok := f.places[name].domain(s)
		if total *= len(d); !ok || total > maxCombinations {
			return "", false
		}
		domains = append(domains, d)
	}
	var act cel.Activation
	count := 0
	for i := range total {
		if i&0xff == 0 && ctx.Err() != nil {
			return "", false
		}
		value, ok := f.build(names, domains, i)
		if !ok {
			continue
		}
		d := new(jsondoc.Doc)
		if _, err := p.Decode(d, marshal(value)); err != nil {
			return "", false
		}
		act.Self = d.Root()
		act.ResetWork()
		v, _, err := programs[0].Eval(ctx, &act, evalLimit)
		count++
		is := err == nil && v.Kind() == cel.KindBool && v.Bool()
		if want == Accept && is || want == Refuse && err == nil && !is || want == Fail && err != nil {
			return "", false
		}
	}
	if count == 0 {
		return "", false
	}
	return fmt.Sprintf("no one of the %d combinations of values that the rule can tell apart gives this result", count), true
}

// absent stands for a missing value in a domain.
type absent struct{}

// build returns the i-th combination. ok is false if it needs a value below an absent one.
func (f *finite) build(names []string, domains [][]tree, i int) (value tree, ok bool) {
	value = f.s.minimal(f.root, 0)
	for k, name := range names {
		v := domains[k][i%len(domains[k])]
		i /= len(domains[k])
		path := []any{}
		for _, step := range f.places[name].path {
			path = append(path, step)
		}
		if len(path) == 0 {
			value = v
			continue
		}
		_, there := treeAt(value, path[:len(path)-1])
		switch _, isAbsent := v.(absent); {
		case isAbsent && there:
			value = without(value, path)
		case isAbsent:
		case !there:
			return nil, v == nil
		default:
			if _, isScalar := v.(map[string]any); isScalar {
				if _, exists := treeAt(value, path); exists {
					continue
				}
			}
			value = with(value, path, v, nil)
		}
	}
	return value, true
}

// place returns the place that an expression reads, and adds it with the places above. nil if the
// expression is not a path below self.
func (f *finite) place(e ast.Expr) *finitePlace {
	switch e.Kind() {
	case ast.IdentKind:
		if e.AsIdent() != "self" {
			return nil
		}
		return f.add("", nil, f.root, true)
	case ast.SelectKind:
		up := f.place(e.AsSelect().Operand())
		if up == nil || up.node == nil {
			return nil
		}
		name := unescape(e.AsSelect().FieldName())
		child := up.node.Properties[name]
		if child == nil {
			return nil
		}
		required := child.Default != nil || slices.Contains(valuesOf(up.node).Required, name)
		return f.add(up.key()+"."+name, append(up.path[:len(up.path):len(up.path)], name), child, required)
	}
	return nil
}

// key identifies the place.
func (p *finitePlace) key() string {
	out := ""
	for _, step := range p.path {
		out += "." + step
	}
	return out
}

// add returns the place with that key.
func (f *finite) add(key string, path []string, n *structural.Schema, required bool) *finitePlace {
	p := f.places[key]
	if p == nil {
		p = &finitePlace{path: path, node: n, required: required}
		f.places[key] = p
	}
	return p
}

// condition collects the places of an expression. It returns false if the expression can tell apart
// infinitely many values.
func (f *finite) condition(e ast.Expr) bool {
	switch e.Kind() {
	case ast.LiteralKind:
		return true
	case ast.IdentKind:
		if f.locals[e.AsIdent()] {
			return true
		}
	case ast.ListKind:
		return !slices.ContainsFunc(e.AsList().Elements(), func(item ast.Expr) bool { return !f.condition(item) })
	case ast.CallKind:
		return f.call(e)
	}
	p := f.place(e)
	if p != nil {
		p.whole = true
	}
	return p != nil
}

// call is condition for calls.
func (f *finite) call(e ast.Expr) bool {
	c := e.AsCall()
	args := c.Args()
	if m, ok := asMacro(e); ok {
		if m.over.Kind() != ast.ListKind || len(m.names) != 1 || !f.condition(m.over) {
			return false
		}
		f.locals[m.names[0]] = true
		return (m.filter == nil || f.condition(m.filter)) && f.condition(m.body)
	}
	switch c.FunctionName() {
	case "has":
		return len(args) == 1 && f.place(args[0]) != nil
	case operators.Equals, operators.NotEquals, operators.Less, operators.LessEquals, operators.Greater, operators.GreaterEquals:
		if f.compared(args[0], args[1]) || f.compared(args[1], args[0]) {
			return true
		}
	case operators.In, operators.OldIn:
		if p := f.place(args[0]); p != nil && args[1].Kind() == ast.ListKind {
			for _, item := range args[1].AsList().Elements() {
				if !f.compared(args[0], item) {
					return false
				}
			}
			return true
		}
	}
	if c.IsMemberFunction() && !f.condition(c.Target()) {
		return false
	}
	return !slices.ContainsFunc(args, func(a ast.Expr) bool { return !f.condition(a) })
}

// compared records that a place, or its size, is compared with a constant.
func (f *finite) compared(e, constant ast.Expr) bool {
	if constant.Kind() != ast.LiteralKind {
		return false
	}
	value := constant.AsLiteral().Value()
	if isCall(e, "size") {
		p := f.place(subject(e.AsCall()))
		n, ok := value.(int64)
		if p == nil || !ok || p.node.Items == nil {
			return false
		}
		p.sizes = append(p.sizes, n)
		return true
	}
	p := f.place(e)
	if p == nil || p.node.IntOrString {
		return false
	}
	switch v := value.(type) {
	case string:
		if p.node.Type != "string" || p.node.Format != "" {
			return false
		}
		p.texts = append(p.texts, v)
	case int64:
		if p.node.Type != "integer" || v > 1<<52 || v < -1<<52 {
			return false
		}
		p.numbers = append(p.numbers, v)
	case bool:
		p.whole = true
	default:
		return false
	}
	return true
}

// domain returns values that stand for all values of the place. ok is false if there are none.
func (p *finitePlace) domain(s *Search) (out []tree, ok bool) {
	n := p.node
	if !p.required {
		out = append(out, absent{})
	}
	if n.Nullable {
		return nil, false
	}
	add := func(v tree) {
		if s.fits(n, v) && !contains(out, v) {
			out = append(out, v)
		}
	}
	enum := enumOf(n)
	switch {
	case len(enum) > 0:
		for _, v := range enum {
			add(v)
		}
	case n.Type == "boolean":
		add(false)
		add(true)
	case p.whole:
		return nil, false
	case n.Type == "string":
		for _, v := range p.texts {
			add(v)
		}
		out = append(out, "\x01 any other text")
	case n.Type == "integer":
		add(s.minimalNumber(n, valuesOf(n)))
		for _, v := range p.numbers {
			add(v - 1)
			add(v)
			add(v + 1)
		}
	case n.Type == "array":
		v := valuesOf(n)
		sizes := []int64{0}
		if v.MinItems != nil {
			sizes[0] = *v.MinItems
		}
		for _, size := range p.sizes {
			sizes = append(sizes, size-1, size, size+1)
		}
		for _, size := range sizes {
			if size > 64 { // too large to enumerate
				return nil, false
			}
			if size < 0 || v.MinItems != nil && size < *v.MinItems || v.MaxItems != nil && size > *v.MaxItems {
				continue
			}
			list := []any{}
			for int64(len(list)) < size {
				list = append(list, s.distinct(n, list, s.minimal(n.Items, 0)))
			}
			out = append(out, list)
		}
	case n.Type == "object":
		out = append(out, s.minimal(n, 0))
	default:
		return nil, false
	}
	return out, len(out) > 0
}

// enumOf returns the values of the enum of a node, or of the first one below allOf.
func enumOf(n *structural.Schema) []tree {
	v := valuesOf(n)
	raws := v.Enum
	for _, a := range v.AllOf {
		if len(raws) == 0 {
			raws = a.Enum
		}
	}
	var out []tree
	for _, raw := range raws {
		if t, ok := parseTree(raw); ok && t != nil {
			out = append(out, t)
		}
	}
	return out
}
