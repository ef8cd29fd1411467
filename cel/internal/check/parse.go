package check

import (
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/google/cel-go/cel"
	"github.com/google/cel-go/common/ast"
	"github.com/google/cel-go/common/operators"
	"github.com/google/cel-go/common/types"

	"github.com/keelson-io/keelson/cel/internal/val"
)

// This file parses the common part of the language in one pass. What it does
// not know, or finds wrong, it leaves to cel-go's parser, which is many times
// slower and knows the words of errors. Both make the same tree, but for the
// numbers of its nodes.

// Bounds beyond which cel-go parses, which has bounds of its own.
const (
	maxQuickText  = 10_000
	maxQuickDepth = 60
)

// macroKey is how a macro is called; args is -1 for any number of arguments.
type macroKey struct {
	name     string
	args     int
	receiver bool
}

// grammar is what a parser knows of an environment.
type grammar struct {
	macros   map[macroKey]cel.Macro
	factory  ast.ExprFactory
	optional bool // a.?b and a[?b]
}

func newGrammar(base *cel.Env) *grammar {
	s := &grammar{
		macros:   map[macroKey]cel.Macro{},
		factory:  ast.NewExprFactory(),
		optional: base.HasFunction("optional.of"),
	}
	for _, m := range base.Macros() {
		k := macroKey{m.Function(), m.ArgCount(), m.IsReceiverStyle()}
		if strings.Contains(m.MacroKey(), ":*:") {
			k.args = -1
		}
		s.macros[k] = m
	}
	return s
}

// quickParser parses one expression.
type quickParser struct {
	*grammar
	src   string
	pos   int
	depth int
	id    int64
	bad   bool // cel-go must parse
	check bool // cel-go's validators must look at the tree
}

// Parse is the tree of an expression, nil if cel-go must parse it, and whether
// cel-go's validators might find fault with it. A pattern that matches() has
// as its argument is none of their business: what is wrong with it is found
// when it is compiled.
func (s *grammar) Parse(src string) (tree *ast.AST, validate bool) {
	if len(src) > maxQuickText || !utf8.ValidString(src) {
		return nil, false
	}
	p := &quickParser{grammar: s, src: src}
	p.space()
	e := p.expr()
	if p.bad || p.pos < len(src) {
		return nil, false
	}
	return ast.NewAST(e, ast.NewSourceInfo(nil)), p.check
}

func (p *quickParser) next() int64 {
	p.id++
	return p.id
}

// give up: the result no longer matters, but must be an expression.
func (p *quickParser) give() ast.Expr {
	p.bad, p.pos = true, len(p.src)
	return p.factory.NewUnspecifiedExpr(0)
}

// enter counts the depth of the tree; leave ends it.
func (p *quickParser) enter() bool {
	if p.depth++; p.depth > maxQuickDepth {
		p.bad, p.pos = true, len(p.src)
	}
	return !p.bad
}

// space skips white space and comments.
func (p *quickParser) space() {
	for p.pos < len(p.src) {
		switch c := p.src[p.pos]; {
		case c == ' ' || c == '\t' || c == '\n' || c == '\r' || c == '\f':
			p.pos++
		case c == '/' && strings.HasPrefix(p.src[p.pos:], "//"):
			end := strings.IndexByte(p.src[p.pos:], '\n')
			if end < 0 {
				p.pos = len(p.src)
				return
			}
			p.pos += end
		default:
			return
		}
	}
}

// peek is the next byte, 0 at the end.
func (p *quickParser) peek() byte {
	if p.pos < len(p.src) {
		return p.src[p.pos]
	}
	return 0
}

// take consumes a sign if it comes next.
func (p *quickParser) take(sign string) bool {
	if !strings.HasPrefix(p.src[p.pos:], sign) {
		return false
	}
	p.pos += len(sign)
	p.space()
	return true
}

// name consumes an identifier, "" if there is none.
func (p *quickParser) name() string {
	start := p.pos
	if !letter(p.peek()) {
		return ""
	}
	for p.pos < len(p.src) && (letter(p.src[p.pos]) || digit(p.src[p.pos])) {
		p.pos++
	}
	return p.src[start:p.pos]
}

func letter(c byte) bool { return c|0x20 >= 'a' && c|0x20 <= 'z' || c == '_' }
func digit(c byte) bool  { return c >= '0' && c <= '9' }

func (p *quickParser) expr() ast.Expr {
	if !p.enter() {
		return p.give()
	}
	defer func() { p.depth-- }()
	cond := p.logic(operators.LogicalOr)
	if !p.take("?") {
		return cond
	}
	then := p.logic(operators.LogicalOr)
	if !p.take(":") {
		return p.give()
	}
	return p.call(operators.Conditional, cond, then, p.expr())
}

// logic parses operands joined by || or, with op &&, by &&.
func (p *quickParser) logic(op string) ast.Expr {
	operand, sign := p.relation, "&&"
	if op == operators.LogicalOr {
		operand, sign = func() ast.Expr { return p.logic(operators.LogicalAnd) }, "||"
	}
	first := operand()
	if !strings.HasPrefix(p.src[p.pos:], sign) {
		return first
	}
	terms := []ast.Expr{first}
	for p.take(sign) {
		terms = append(terms, operand())
	}
	return p.balanced(op, terms)
}

// balanced joins terms to a tree that is as flat as possible, heavier on the
// left.
func (p *quickParser) balanced(op string, terms []ast.Expr) ast.Expr {
	if len(terms) == 1 {
		return terms[0]
	}
	half := (len(terms) + 1) / 2
	return p.call(op, p.balanced(op, terms[:half]), p.balanced(op, terms[half:]))
}

var relations = [...]struct{ sign, op string }{
	{"==", operators.Equals}, {"!=", operators.NotEquals}, {"<=", operators.LessEquals}, {"<", operators.Less},
	{">=", operators.GreaterEquals}, {">", operators.Greater},
}

func (p *quickParser) relation() ast.Expr {
	depth := p.depth
	defer func() { p.depth = depth }()
	left := p.sum()
	for {
		op := p.relationSign()
		if op == "" {
			return left
		}
		if !p.enter() {
			return p.give()
		}
		left = p.call(op, left, p.sum())
	}
}

func (p *quickParser) relationSign() string {
	switch c := p.peek(); {
	case c == 'i':
		at := p.pos
		if p.name() == "in" {
			p.space()
			return operators.In
		}
		p.pos = at
	case c == '=' || c == '!' || c == '<' || c == '>':
		for _, r := range relations {
			if p.take(r.sign) {
				return r.op
			}
		}
	}
	return ""
}

func (p *quickParser) sum() ast.Expr {
	depth := p.depth
	defer func() { p.depth = depth }()
	left := p.product()
	for {
		op := operators.Add
		switch {
		case p.take("+"):
		case p.take("-"):
			op = operators.Subtract
		default:
			return left
		}
		if !p.enter() {
			return p.give()
		}
		left = p.call(op, left, p.product())
	}
}

func (p *quickParser) product() ast.Expr {
	depth := p.depth
	defer func() { p.depth = depth }()
	left := p.unary()
	for {
		op := operators.Multiply
		switch {
		case p.take("*"):
		case p.take("/"):
			op = operators.Divide
		case p.take("%"):
			op = operators.Modulo
		default:
			return left
		}
		if !p.enter() {
			return p.give()
		}
		left = p.call(op, left, p.unary())
	}
}

func (p *quickParser) unary() ast.Expr {
	negations := 0
	for p.take("!") {
		negations++
	}
	operand := p.member()
	if negations%2 == 1 {
		return p.call(operators.LogicalNot, operand)
	}
	return operand
}

// member parses a primary expression and the selections, calls and indexes
// that follow it.
func (p *quickParser) member() ast.Expr {
	depth := p.depth
	defer func() { p.depth = depth }()
	e := p.primary()
	for !p.bad {
		switch {
		case p.take("."):
			e = p.selection(e)
		case p.take("["):
			op := operators.Index
			if p.take("?") {
				op = operators.OptIndex
				if !p.optional {
					return p.give()
				}
			}
			index := p.expr()
			if !p.take("]") {
				return p.give()
			}
			e = p.call(op, e, index)
		default:
			return e
		}
		if !p.enter() {
			return p.give()
		}
	}
	return e
}

// selection parses what follows a dot.
func (p *quickParser) selection(e ast.Expr) ast.Expr {
	optional := p.optional && p.take("?")
	name := p.name()
	p.space()
	if name == "" || isToken(name) {
		return p.give()
	}
	switch {
	case optional:
		return p.call(operators.OptSelect, e, p.factory.NewLiteral(p.next(), types.String(name)))
	case p.take("("):
		p.check = p.check || name == "duration" || name == "timestamp" || name == "format"
		return p.macro(name, e, p.list(")", false))
	}
	return p.factory.NewSelect(p.next(), e, name)
}

// isToken reports whether a word is no identifier.
func isToken(word string) bool {
	switch word {
	case "in", "true", "false", "null":
		return true
	}
	return false
}

func (p *quickParser) primary() ast.Expr {
	switch c := p.peek(); {
	case c == '(':
		p.take("(")
		e := p.expr()
		if !p.take(")") {
			return p.give()
		}
		return e
	case c == '[':
		p.take("[")
		items := p.list("]", true)
		p.check = p.check || !alike(items)
		return p.factory.NewList(p.next(), items, []int32{})
	case c == '{':
		p.take("{")
		return p.mapLiteral()
	case c == '"' || c == '\'':
		return p.text(false)
	case digit(c) || c == '-':
		return p.number()
	case letter(c):
		return p.word()
	}
	return p.give()
}

// word parses what begins with an identifier.
func (p *quickParser) word() ast.Expr {
	name := p.name()
	if c := p.peek(); c == '"' || c == '\'' {
		if name == "r" || name == "R" {
			return p.text(true)
		}
		return p.give()
	}
	p.space()
	switch name {
	case "true":
		return p.factory.NewLiteral(p.next(), types.True)
	case "false":
		return p.factory.NewLiteral(p.next(), types.False)
	case "null":
		return p.factory.NewLiteral(p.next(), types.NullValue)
	}
	if val.Reserved[name] {
		return p.give()
	}
	if p.take("(") {
		p.check = p.check || name == "duration" || name == "timestamp" || name == "matches"
		return p.macro(name, nil, p.list(")", false))
	}
	return p.factory.NewIdent(p.next(), name)
}

// list parses expressions up to the sign that ends them.
func (p *quickParser) list(end string, mayTrail bool) []ast.Expr {
	out := []ast.Expr{}
	if p.take(end) {
		return out
	}
	for !p.bad {
		if p.peek() == '?' {
			p.give()
			break
		}
		out = append(out, p.expr())
		if p.take(end) {
			break
		}
		if !p.take(",") {
			p.give()
		}
		if mayTrail && p.take(end) {
			break
		}
	}
	return out
}

// alike reports whether the items of a list are all literals of one type.
func alike(items []ast.Expr) bool {
	for _, e := range items {
		if e.Kind() != ast.LiteralKind || e.AsLiteral().Type() != items[0].AsLiteral().Type() {
			return false
		}
	}
	return true
}

func (p *quickParser) mapLiteral() ast.Expr {
	id := p.next()
	entries := []ast.EntryExpr{}
	p.check = true
	for !p.take("}") {
		if p.bad || p.peek() == '?' {
			return p.give()
		}
		key := p.expr()
		if !p.take(":") {
			return p.give()
		}
		entries = append(entries, p.factory.NewMapEntry(p.next(), key, p.expr(), false))
		if !p.take(",") && p.peek() != '}' {
			return p.give()
		}
	}
	return p.factory.NewMap(id, entries)
}

// number parses a plain integer or decimal number and its sign.
func (p *quickParser) number() ast.Expr {
	sign := ""
	if p.take("-") {
		sign = "-"
	}
	start := p.pos
	p.digits()
	whole := true
	if p.peek() == '.' && p.pos+1 < len(p.src) && digit(p.src[p.pos+1]) {
		whole = false
		p.pos++
		p.digits()
	}
	text := p.src[start:p.pos]
	if text == "" || letter(p.peek()) {
		return p.give()
	}
	p.space()
	if !whole {
		f, err := strconv.ParseFloat(sign+text, 64)
		if err != nil {
			return p.give()
		}
		return p.factory.NewLiteral(p.next(), types.Double(f))
	}
	i, err := strconv.ParseInt(sign+text, 10, 64)
	if err != nil {
		return p.give()
	}
	return p.factory.NewLiteral(p.next(), types.Int(i))
}

func (p *quickParser) digits() {
	for digit(p.peek()) {
		p.pos++
	}
}

// text parses a string; of escapes only the commonest.
func (p *quickParser) text(raw bool) ast.Expr {
	quote := p.src[p.pos : p.pos+1]
	long := strings.HasPrefix(p.src[p.pos:], quote+quote+quote)
	if long {
		quote = p.src[p.pos : p.pos+3]
	}
	p.pos += len(quote)
	rest := p.src[p.pos:]
	end := strings.Index(rest, quote)
	if end < 0 {
		return p.give()
	}
	value := rest[:end]
	if strings.IndexByte(value, '\\') >= 0 && !raw {
		var ok bool
		if value, end, ok = unescapeText(rest, quote); !ok {
			return p.give()
		}
	}
	if !long && strings.IndexByte(rest[:end], '\n') >= 0 || strings.IndexByte(rest[:end], '\r') >= 0 {
		return p.give()
	}
	p.pos += end + len(quote)
	p.space()
	return p.factory.NewLiteral(p.next(), types.String(value))
}

// unescapeText reads text up to quote. It returns the value and where the text
// ends.
func unescapeText(text, quote string) (value string, end int, ok bool) {
	var b strings.Builder
	for i := 0; i < len(text); i++ {
		if strings.HasPrefix(text[i:], quote) {
			return b.String(), i, true
		}
		c := text[i]
		if c == '\\' {
			i++
			if i == len(text) {
				break
			}
			switch c = text[i]; c {
			case '\\', '\'', '"':
			case 'n':
				c = '\n'
			case 't':
				c = '\t'
			default:
				return "", 0, false
			}
		}
		b.WriteByte(c)
	}
	return "", 0, false
}

// call is the call of an operator, which may be a macro.
func (p *quickParser) call(op string, args ...ast.Expr) ast.Expr {
	return p.factory.NewCall(p.next(), op, args...)
}

// macro is a call, expanded if it is that of a macro.
func (p *quickParser) macro(name string, target ast.Expr, args []ast.Expr) ast.Expr {
	if p.bad {
		return p.give()
	}
	m, ok := p.macros[macroKey{name, len(args), target != nil}]
	if !ok {
		m, ok = p.macros[macroKey{name, -1, target != nil}]
	}
	if ok {
		e, err := m.Expander()(p, target, args)
		if err != nil {
			return p.give()
		}
		if e != nil {
			return e
		}
	}
	if target != nil {
		return p.factory.NewMemberCall(p.next(), name, target, args...)
	}
	return p.factory.NewCall(p.next(), name, args...)
}
