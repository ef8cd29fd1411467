package sql

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/google/cel-go/common/ast"
	"github.com/google/cel-go/common/operators"

	"github.com/keelson-io/keelson/cel"
)

// This file says which indexes serve a condition.

// Indexes returns the statements that create the indexes which serve the condition of an expression, none if no index can. table is
// the name of the table, an SQL identifier; it is not that of a column with the name of a table before it.
func Indexes(x *cel.Expression, o Options, table string) ([]string, error) {
	if !isName(table) || len(table) > 63 {
		return nil, fmt.Errorf("table: got %q, want letters, digits and underscores, such as objects", table)
	}
	o.Columns = slices.Clone(o.Columns)
	for i, c := range o.Columns {
		if _, name, ok := strings.Cut(c.Name, "."); ok {
			o.Columns[i].Name = name
		}
	}
	t, err := newTranslator(x, o)
	if err != nil {
		return nil, err
	}
	var statements []string
	for _, index := range t.indexes(t.tree.Expr()) {
		statement := "CREATE INDEX ON " + table + " " + index.on
		if o.Dialect != Postgres {
			statement = "CREATE INDEX " + index.fullName(table) + " ON " + table + " " + index.on
		}
		if !slices.Contains(statements, statement) {
			statements = append(statements, statement)
		}
	}
	return statements, nil
}

// index is what an index is on, after the name of the table, and a name for it.
type index struct{ on, name string }

// fullName returns a name of at most 63 characters in the database. It ends with a hash, because indexes on other members, or on other
// tables, may have the same words in their names.
func (i index) fullName(table string) string {
	sum := sha256.Sum256([]byte(table + "\x00" + i.on))
	name := table + "_" + i.name
	return name[:min(len(name), 63-9)] + "_" + hex.EncodeToString(sum[:4])
}

// indexes returns the indexes that serve an expression. Of &&, one operand is enough; of ||, each needs one.
func (t *translator) indexes(e ast.Expr) []index {
	if e.Kind() == ast.ComprehensionKind {
		return t.indexOfExists(e)
	}
	if e.Kind() != ast.CallKind {
		return nil
	}
	fn, args := e.AsCall().FunctionName(), e.AsCall().Args()
	switch fn {
	case operators.LogicalAnd:
		return append(t.indexes(args[0]), t.indexes(args[1])...)
	case operators.LogicalOr:
		a, b := t.indexes(args[0]), t.indexes(args[1])
		if len(a) == 0 || len(b) == 0 || !t.db.indexesAlternatives() {
			return nil
		}
		return append(a, b...)
	case operators.Equals, operators.Less, operators.LessEquals, operators.Greater, operators.GreaterEquals:
		a, err1 := t.value(args[0])
		b, err2 := t.value(args[1])
		if err1 != nil || err2 != nil || !t.areComparable(a, b) {
			return nil
		}
		if a.isConstant {
			a, b = b, a
		}
		if b.kind == stringKind {
			a = t.as(stringKind, a)
		}
		return t.indexOf(fn == operators.Equals, a, b.isConstant)
	case "startsWith":
		a, err1 := t.value(e.AsCall().Target())
		b, err2 := t.value(args[0])
		return t.indexOf(false, t.as(stringKind, a), err1 == nil && err2 == nil && b.isConstant)
	case operators.In, operators.OldIn:
		return t.indexOfMembership(args)
	}
	return nil
}

// indexOf returns the index on a value that is compared with a constant.
func (t *translator) indexOf(isEquality bool, v value, constant bool) []index {
	if !constant || v.kind == nullKind || v.kind == boolKind || v.kind == dynKind {
		return nil
	}
	name := strings.Join(v.names, "_")
	if v.flat != "" {
		name = v.flat
	}
	on := t.db.index(v, isEquality)
	if on == "" {
		return nil
	}
	return []index{{on: on, name: strings.Map(plainRune, name)}}
}

// plainRune returns a character of the name of an index.
func plainRune(r rune) rune {
	if r < utf8.RuneSelf && isName("_"+string(r)) {
		return r
	}
	return '_'
}

// indexOfMembership returns the indexes of x in [a, b], and of a in list.
func (t *translator) indexOfMembership(args []ast.Expr) []index {
	a, err := t.value(args[0])
	if err != nil {
		return nil
	}
	if args[1].Kind() == ast.ListKind {
		return t.indexOf(true, a, args[1].AsList().Size() > 0)
	}
	list, err := t.operand(args[1])
	if err != nil || !a.isConstant {
		return nil
	}
	return t.indexOfItem(list)
}

// indexOfItem returns the index that finds documents by an item of a list.
func (t *translator) indexOfItem(list operand) []index {
	if !mayContain(list) || t.db.containsDocument("", "") == "" {
		return nil
	}
	return []index{{on: t.db.index(value{names: list.names, column: list.column}, true)}}
}

// indexOfExists returns the index of list.exists(x, x == constant).
func (t *translator) indexOfExists(e ast.Expr) []index {
	c := e.AsComprehension()
	if _, ok := t.existsEqual(c); !ok {
		return nil
	}
	list, err := t.operand(c.IterRange())
	if err != nil {
		return nil
	}
	return t.indexOfItem(list)
}

// existsEqual returns the constant of the macro list.exists(x, x == constant).
func (t *translator) existsEqual(c ast.ComprehensionExpr) (value, bool) {
	name, test := macroOf(c)
	if name != "exists" || c.HasIterVar2() || test.Kind() != ast.CallKind || test.AsCall().FunctionName() != operators.Equals {
		return value{}, false
	}
	args := test.AsCall().Args()
	isItem := func(e ast.Expr) bool { return e.Kind() == ast.IdentKind && e.AsIdent() == c.IterVar() }
	for i, arg := range args {
		if isItem(arg) && args[1-i].Kind() == ast.LiteralKind {
			v, err := t.literal(args[1-i])
			return v, err == nil && v.json != ""
		}
	}
	return value{}, false
}

// mayContain reports whether a list is one of strings or integers at a fixed place of the document, so that a document with the item
// in it is contained in those that have the item.
func mayContain(list operand) bool {
	return len(list.names) > 0 && list.schema != nil && list.schema.Kind == cel.List && list.schema.Elem != nil && !list.schema.Elem.Nullable &&
		(list.schema.Elem.Kind == cel.String || list.schema.Elem.Kind == cel.Int)
}

// containsItem returns a condition that follows from an item of a list being a constant, and that an index on the documents supports.
func (t *translator) containsItem(list operand, item value) string {
	if !mayContain(list) || item.json == "" {
		return ""
	}
	return t.db.containsDocument(list.column, document(list.names, "["+item.json+"]"))
}

// after returns a text that is greater than all texts with a prefix, by code points; "" if there is none.
func after(prefix string) string {
	runes := []rune(prefix)
	for i := len(runes) - 1; i >= 0; i-- {
		if next := runes[i] + 1; next == 0xD800 {
			return string(runes[:i]) + "\uE000"
		} else if next <= utf8.MaxRune {
			return string(runes[:i]) + string(next)
		}
	}
	return ""
}

// quoteParams puts the parameters of SQL into it as texts, for statements that can have none: PostgreSQL knows no other escape in them
// than that of the quote. ok is false if one is not a text.
func quoteParams(p *params, text string) (quoted string, ok bool) {
	var b strings.Builder
	for i, part := range strings.Split(text, "\x00") {
		if i%2 == 0 {
			b.WriteString(part)
			continue
		}
		n, err := strconv.Atoi(part)
		if err != nil {
			panic("BUG: parameter: " + err.Error())
		}
		s, ok := p.values[n].(string)
		if !ok {
			return "", false
		}
		b.WriteString("'" + strings.ReplaceAll(s, "'", "''") + "'")
	}
	return b.String(), true
}
