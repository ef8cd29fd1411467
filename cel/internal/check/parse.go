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

// This file parses the common part of the language in one pass. It leaves everything else,
// including all errors, to cel-go's parser, which is many times slower and has the texts of errors.
// Both make the same tree, except for the numbers of its nodes.

// Beyond these bounds cel-go parses, which has bounds of its own.
const (
	maxQuickText  = 10_000 // bytes
	maxQuickDepth = 60
)

// macroKey identifies a macro by the form of its calls. args is -1 for any number of arguments.
type macroKey struct {
	name     string
	args     int
	receiver bool
}

// grammar is what the parser needs to know about an environment.
type grammar struct {
	macros   map[macroKey]cel.Macro
	factory  ast.ExprFactory
	optional bool // a.?b and a[?b] are permitted
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
	bad   bool // the expression must be parsed by cel-go
	check bool // the tree must be checked by cel-go's validators
}

// Parse returns the tree of an expression, nil if cel-go must parse it, and whether cel-go's
// validators might find an error. The pattern of matches() needs no validator here, because
// compiling it finds the same errors.
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

// next returns a new node number.
func (p *quickParser) next() int64 {
	p.id++
	return p.id
}

// giveUp ends the parse, so that cel-go parses. It returns a placeholder.
func (p *quickParser) giveUp() ast.Expr {
	p.bad, p.pos = true, len(p.src)
	return p.factory.NewUnspecifiedExpr(0)
}

// enter increases the depth of the tree. It returns false if parsing must end.
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

// peek returns the next byte, 0 at the end.
func (p *quickParser) peek() byte {
	if p.pos < len(p.src) {
		return p.src[p.pos]
	}
	return 0
}

// accept consumes a sign and the space after it, if the sign comes next.
func (p *quickParser) accept(sign string) bool {
	if !strings.HasPrefix(p.src[p.pos:], sign) {
		return false
	}
	p.pos += len(sign)
	p.space()
	return true
}

// name consumes an identifier. It returns "" if there is none.
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

// letter and digit classify bytes of identifiers.
func letter(c byte) bool { return c|0x20 >= 'a' && c|0x20 <= 'z' || c == '_' }
func digit(c byte) bool  { return c >= '0' && c <= '9' }

// expr parses an expression, down to ?:.
func (p *quickParser) expr() ast.Expr {
	if !p.enter() {
		return p.giveUp()
	}
	defer func() { p.depth-- }()
	cond := p.logic(operators.LogicalOr)
	if !p.accept("?") {
		return cond
	}
	then := p.logic(operators.LogicalOr)
	if !p.accept(":") {
		return p.giveUp()
	}
	return p.call(operators.Conditional, cond, then, p.expr())
}

// logic parses operands that are joined by || or, if op is &&, by &&.
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
	for p.accept(sign) {
		terms = append(terms, operand())
	}
	return p.balanced(op, terms)
}

// balanced joins terms to a tree of the least depth, like cel-go's parser.
func (p *quickParser) balanced(op string, terms []ast.Expr) ast.Expr {
	if len(terms) == 1 {
		return terms[0]
	}
	half := (len(terms) + 1) / 2
	return p.call(op, p.balanced(op, terms[:half]), p.balanced(op, terms[half:]))
}

// relations has the comparison operators; a prefix comes after the longer one.
var relations = [...]struct{ sign, op string }{
	{"==", operators.Equals}, {"!=", operators.NotEquals}, {"<=", operators.LessEquals}, {"<", operators.Less},
	{">=", operators.GreaterEquals}, {">", operators.Greater},
}

// relation parses comparisons, which associate to the left.
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
			return p.giveUp()
		}
		left = p.call(op, left, p.sum())
	}
}

// relationSign consumes a comparison operator. It returns "" if there is none.
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
			if p.accept(r.sign) {
				return r.op
			}
		}
	}
	return ""
}

// sum parses additions and subtractions.
func (p *quickParser) sum() ast.Expr {
	depth := p.depth
	defer func() { p.depth = depth }()
	left := p.product()
	for {
		op := operators.Add
		switch {
		case p.accept("+"):
		case p.accept("-"):
			op = operators.Subtract
		default:
			return left
		}
		if !p.enter() {
			return p.giveUp()
		}
		left = p.call(op, left, p.product())
	}
}

// product parses multiplications, divisions and remainders.
func (p *quickParser) product() ast.Expr {
	depth := p.depth
	defer func() { p.depth = depth }()
	left := p.unary()
	for {
		op := operators.Multiply
		switch {
		case p.accept("*"):
		case p.accept("/"):
			op = operators.Divide
		case p.accept("%"):
			op = operators.Modulo
		default:
			return left
		}
		if !p.enter() {
			return p.giveUp()
		}
		left = p.call(op, left, p.unary())
	}
}

// unary parses negations. Two of them cancel out, as in cel-go.
func (p *quickParser) unary() ast.Expr {
	negations := 0
	for p.accept("!") {
		negations++
	}
	operand := p.member()
	if negations%2 == 1 {
		return p.call(operators.LogicalNot, operand)
	}
	return operand
}

// member parses a primary expression with the selections, calls and indexes after it.
func (p *quickParser) member() ast.Expr {
	depth := p.depth
	defer func() { p.depth = depth }()
	e := p.primary()
	for !p.bad {
		switch {
		case p.accept("."):
			e = p.selection(e)
		case p.accept("["):
			op := operators.Index
			if p.accept("?") {
				op = operators.OptIndex
				if !p.optional {
					return p.giveUp()
				}
			}
			index := p.expr()
			if !p.accept("]") {
				return p.giveUp()
			}
			e = p.call(op, e, index)
		default:
			return e
		}
		if !p.enter() {
			return p.giveUp()
		}
	}
	return e
}

// selection parses the text after a dot.
func (p *quickParser) selection(e ast.Expr) ast.Expr {
	optional := p.optional && p.accept("?")
	name := p.name()
	p.space()
	if name == "" || isToken(name) {
		return p.giveUp()
	}
	switch {
	case optional:
		return p.call(operators.OptSelect, e, p.factory.NewLiteral(p.next(), types.String(name)))
	case p.accept("("):
		p.check = p.check || name == "duration" || name == "timestamp" || name == "format"
		return p.macro(name, e, p.list(")", false))
	}
	return p.factory.NewSelect(p.next(), e, name)
}

// isToken reports whether a word is a keyword and not an identifier.
func isToken(word string) bool {
	switch word {
	case "in", "true", "false", "null":
		return true
	}
	return false
}

// primary parses a literal, a name, a call, or an expression in parentheses.
func (p *quickParser) primary() ast.Expr {
	switch c := p.peek(); {
	case c == '(':
		p.accept("(")
		e := p.expr()
		if !p.accept(")") {
			return p.giveUp()
		}
		return e
	case c == '[':
		p.accept("[")
		items := p.list("]", true)
		p.check = p.check || !alike(items)
		return p.factory.NewList(p.next(), items, []int32{})
	case c == '{':
		p.accept("{")
		return p.mapLiteral()
	case c == '"' || c == '\'':
		return p.text(false)
	case digit(c) || c == '-':
		return p.number()
	case letter(c):
		return p.word()
	}
	return p.giveUp()
}

// word parses an expression that starts with an identifier.
func (p *quickParser) word() ast.Expr {
	name := p.name()
	if c := p.peek(); c == '"' || c == '\'' {
		if name == "r" || name == "R" {
			return p.text(true)
		}
		return p.giveUp()
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
		return p.giveUp()
	}
	if p.accept("(") {
		p.check = p.check || name == "duration" || name == "timestamp" || name == "matches"
		return p.macro(name, nil, p.list(")", false))
	}
	return p.factory.NewIdent(p.next(), name)
}

// list parses expressions up to the closing sign. mayTrail permits a comma before it.
func (p *quickParser) list(end string, mayTrail bool) []ast.Expr {
	out := []ast.Expr{}
	if p.accept(end) {
		return out
	}
	for !p.bad {
		if p.peek() == '?' {
			p.giveUp()
			break
		}
		out = append(out, p.expr())
		if p.accept(end) {
			break
		}
		if !p.accept(",") {
			p.giveUp()
		}
		if mayTrail && p.accept(end) {
			break
		}
	}
	return out
}

// alike reports whether all items are literals of one type.
func alike(items []ast.Expr) bool {
	for _, e := range items {
		if e.Kind() != ast.LiteralKind || e.AsLiteral().Type() != items[0].AsLiteral().Type() {
			return false
		}
	}
	return true
}

// mapLiteral parses a map after its opening brace.
func (p *quickParser) mapLiteral() ast.Expr {
	id := p.next()
	entries := []ast.EntryExpr{}
	p.check = true
	for !p.accept("}") {
		if p.bad || p.peek() == '?' {
			return p.giveUp()
		}
		key := p.expr()
		if !p.accept(":") {
			return p.giveUp()
		}
		entries = append(entries, p.factory.NewMapEntry(p.next(), key, p.expr(), false))
		if !p.accept(",") && p.peek() != '}' {
			return p.giveUp()
		}
	}
	return p.factory.NewMap(id, entries)
}

// number parses an integer or decimal number with its sign.
func (p *quickParser) number() ast.Expr {
	sign := ""
	if p.accept("-") {
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
		return p.giveUp()
	}
	p.space()
	if !whole {
		f, err := strconv.ParseFloat(sign+text, 64)
		if err != nil {
			return p.giveUp()
		}
		return p.factory.NewLiteral(p.next(), types.Double(f))
	}
	i, err := strconv.ParseInt(sign+text, 10, 64)
	if err != nil {
		return p.giveUp()
	}
	return p.factory.NewLiteral(p.next(), types.Int(i))
}

// digits skips digits.
func (p *quickParser) digits() {
	for digit(p.peek()) {
		p.pos++
	}
}

// text parses a string. It knows only the most frequent escape sequences.
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
		return p.giveUp()
	}
	value := rest[:end]
	if strings.IndexByte(value, '\\') >= 0 && !raw {
		var ok bool
		if value, end, ok = unescapeText(rest, quote); !ok {
			return p.giveUp()
		}
	}
	if !long && strings.IndexByte(rest[:end], '\n') >= 0 || strings.IndexByte(rest[:end], '\r') >= 0 {
		return p.giveUp()
	}
	p.pos += end + len(quote)
	p.space()
	return p.factory.NewLiteral(p.next(), types.String(value))
}

// unescapeText reads text up to quote. It returns the value and the offset of the quote.
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

// call returns the call of an operator.
func (p *quickParser) call(op string, args ...ast.Expr) ast.Expr {
	return p.factory.NewCall(p.next(), op, args...)
}

// macro returns a call, expanded if it is the call of a macro.
func (p *quickParser) macro(name string, target ast.Expr, args []ast.Expr) ast.Expr {
	if p.bad {
		return p.giveUp()
	}
	m, ok := p.macros[macroKey{name, len(args), target != nil}]
	if !ok {
		m, ok = p.macros[macroKey{name, -1, target != nil}]
	}
	if ok {
		e, err := m.Expander()(p, target, args)
		if err != nil {
			return p.giveUp()
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
