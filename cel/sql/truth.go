package sql

import (
	"fmt"
	"strings"

	"github.com/google/cel-go/common/ast"
	"github.com/google/cel-go/common/operators"
	"github.com/google/cel-go/common/types"

	"github.com/keelson-io/keelson/cel"
)

// This file translates boolean expressions.

// translator translates one expression.
type translator struct {
	x      *cel.Expression
	tree   *ast.AST
	db     database
	params *params
	scope  *scope            // the variables, innermost first
	values map[string]any    // variables that are constants
	flat   map[string]Column // columns with other types than JSON, by what they have the value of
	tables int               // aliases of lists that were used
	depth  int
}

// scope is a variable and those around it.
type scope struct {
	name  string
	bound operand
	outer *scope
}

// truth is a boolean expression as two conditions: yes is true if and only if the expression is
// true, no is true if and only if it is false. Neither is true if it is an error. A condition that
// is not true may be false or NULL.
type truth struct{ yes, no string }

// always and never are the conditions of constants. Both dialects know the words.
const (
	always = "TRUE"
	never  = "FALSE"
)

// swap returns the negation.
func (t truth) swap() truth { return truth{yes: t.no, no: t.yes} }

// maxDepth is the greatest nesting of an expression. The checker allows more.
const maxDepth = 64

// refuse returns the error for a part of the expression.
func (t *translator) refuse(e ast.Expr, construct, reason string) error {
	line, column := t.x.Position(e)
	return &RefusedError{Line: line, Column: column, Construct: construct, Reason: reason}
}

// enter counts a level of nesting, which leave ends.
func (t *translator) enter(e ast.Expr) error {
	if t.depth++; t.depth > maxDepth {
		return t.refuse(e, "expression", fmt.Sprintf("it is nested more than %d levels deep", maxDepth))
	}
	return nil
}

func (t *translator) leave() { t.depth-- }

// bounded returns the refusal of an expression whose SQL is too long. It is asked at each level,
// because each level may multiply the length.
func (t *translator) bounded(e ast.Expr, size int) error {
	if size > maxSize {
		return t.refuse(e, "expression", fmt.Sprintf("the condition would be longer than %d bytes", maxSize))
	}
	return nil
}

// truth translates a boolean expression.
func (t *translator) truth(e ast.Expr) (truth, error) {
	defer t.leave()
	if err := t.enter(e); err != nil {
		return truth{}, err
	}
	c, err := t.condition(e)
	if err != nil {
		return truth{}, err
	}
	return c, t.bounded(e, len(c.yes)+len(c.no))
}

// condition translates a boolean expression of any size.
func (t *translator) condition(e ast.Expr) (truth, error) {
	switch e.Kind() {
	case ast.LiteralKind:
		if b, ok := e.AsLiteral().(types.Bool); ok {
			if b {
				return truth{always, never}, nil
			}
			return truth{never, always}, nil
		}
	case ast.SelectKind:
		if isPresenceTest(e) {
			return t.presence(e)
		}
	case ast.ComprehensionKind:
		return t.quantifier(e)
	case ast.CallKind:
		switch fn := e.AsCall().FunctionName(); fn {
		case operators.LogicalAnd, operators.LogicalOr:
			return t.logic(e.AsCall().Args(), fn == operators.LogicalAnd)
		case operators.LogicalNot:
			inner, err := t.truth(e.AsCall().Args()[0])
			return inner.swap(), err
		case operators.Conditional:
			return t.choice(e.AsCall().Args())
		case operators.Index:
		default:
			return t.predicate(e, fn)
		}
	}
	v, err := t.value(e)
	if err != nil {
		return truth{}, err
	}
	return t.ofBool(e, v)
}

// ofBool returns a boolean value as conditions.
func (t *translator) ofBool(e ast.Expr, v value) (truth, error) {
	v = t.as(boolKind, v)
	if v.kind != boolKind {
		return truth{}, t.refuse(e, "expression", "its type is not known to be bool")
	}
	return truth{yes: and(v.guard, v.text), no: and(v.guard, "("+v.text+") IS FALSE")}, nil
}

// logic translates && and ||. An error on one side is absorbed if the other side decides.
func (t *translator) logic(args []ast.Expr, isAnd bool) (truth, error) {
	a, err := t.truth(args[0])
	if err != nil {
		return truth{}, err
	}
	b, err := t.truth(args[1])
	if err != nil {
		return truth{}, err
	}
	if isAnd {
		return truth{yes: and(a.yes, b.yes), no: or(a.no, b.no)}, nil
	}
	return truth{yes: or(a.yes, b.yes), no: and(a.no, b.no)}, nil
}

// choice translates a ? b : c.
func (t *translator) choice(args []ast.Expr) (truth, error) {
	var parts [3]truth
	for i, arg := range args {
		var err error
		if parts[i], err = t.truth(arg); err != nil {
			return truth{}, err
		}
	}
	cond, then, otherwise := parts[0], parts[1], parts[2]
	return truth{
		yes: or(and(cond.yes, then.yes), and(cond.no, otherwise.yes)),
		no:  or(and(cond.yes, then.no), and(cond.no, otherwise.no)),
	}, nil
}

// presence translates has(x.f).
func (t *translator) presence(e ast.Expr) (truth, error) {
	s := e.AsSelect()
	if o, ok := t.columnOf(e); ok {
		return truth{yes: and(o.present, o.value.guard), no: o.absent}, nil
	}
	parent, err := t.operand(s.Operand())
	if err != nil {
		return truth{}, err
	}
	child, err := t.member(e, parent, s.FieldName())
	if err != nil {
		return truth{}, err
	}
	typed, err := t.isTyped(e, child)
	may := t.mayHaveMembers(parent)
	return truth{yes: and(parent.guard, may, child.present, typed), no: and(parent.guard, may, child.absent)}, err
}

// isObject returns the condition that an operand is an object.
func (t *translator) isObject(o operand) string { return t.db.hasType(o.place, objectNode) }

// quantifier translates the macros all, exists and exists_one.
func (t *translator) quantifier(e ast.Expr) (truth, error) {
	c := e.AsComprehension()
	name, test := macroOf(c)
	if name == "" || c.HasIterVar2() {
		return truth{}, t.refuse(e, "macro", "only all, exists and exists_one with one variable are translated")
	}
	source, err := t.source(c.IterRange())
	if err != nil {
		return truth{}, err
	}
	counts, known, err := t.each(source, c.IterVar(), test)
	if err != nil {
		return truth{}, err
	}
	switch name {
	case "all":
		return truth{yes: and(source.guard, counts.noneNotTrue), no: and(source.guard, counts.someFalse)}, nil
	case "exists":
		contains := ""
		if item, ok := t.existsEqual(c); ok && source.contains != nil {
			contains = source.contains(item)
		}
		return truth{yes: and(contains, source.guard, counts.someTrue), no: and(source.guard, counts.noneNotFalse)}, nil
	}
	// exists_one does not absorb errors.
	one := t.db.number(1)
	return truth{yes: and(source.guard, known, counts.number+" = "+one), no: and(source.guard, known, counts.number+" <> "+one)}, nil
}

// macroOf returns the name of the macro that a comprehension was expanded from, and its predicate;
// "" if it is another one.
func macroOf(c ast.ComprehensionExpr) (name string, test ast.Expr) {
	step := c.LoopStep()
	if step.Kind() != ast.CallKind {
		return "", nil
	}
	args := step.AsCall().Args()
	isAccu := func(e ast.Expr) bool { return e.Kind() == ast.IdentKind && e.AsIdent() == c.AccuVar() }
	isBool := c.AccuInit().Kind() == ast.LiteralKind && c.AccuInit().AsLiteral().Type() == types.BoolType
	switch step.AsCall().FunctionName() {
	case operators.LogicalAnd:
		if isBool && isAccu(args[0]) {
			return "all", args[1]
		}
	case operators.LogicalOr:
		if isBool && isAccu(args[0]) {
			return "exists", args[1]
		}
	case operators.Conditional:
		if c.AccuInit().Kind() == ast.LiteralKind && c.AccuInit().AsLiteral().Type() == types.IntType && isAccu(args[2]) {
			return "exists_one", args[0]
		}
	}
	return "", nil
}

// and joins conditions that must all be true. Conditions that are always true are left out.
func and(conditions ...string) string { return join(conditions, " AND ", always, never) }

// or joins conditions of which one must be true.
func or(conditions ...string) string { return join(conditions, " OR ", never, always) }

// join joins conditions by an operator with its neutral and its dominating element.
func join(conditions []string, operator, neutral, dominating string) string {
	var list []string
	for _, c := range conditions {
		switch c {
		case "", neutral:
		case dominating:
			return dominating
		default:
			list = append(list, c)
		}
	}
	switch len(list) {
	case 0:
		return neutral
	case 1:
		return list[0]
	}
	return "(" + strings.Join(list, operator) + ")"
}
