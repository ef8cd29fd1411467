package sql

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/google/cel-go/common/ast"
)

// This file says which columns have the variables of an expression.

// ColumnType is the type of the values of a column.
type ColumnType string

// The types of columns.
const (
	JSON    ColumnType = "json"    // jsonb in PostgreSQL, JSON text in other databases
	Text    ColumnType = "text"    // text
	BigInt  ColumnType = "bigint"  // bigint, in SQLite integer
	Double  ColumnType = "double"  // double precision, in SQLite real
	Boolean ColumnType = "boolean" // boolean in PostgreSQL, the integers 0 and 1 in other databases
)

// ColumnTypes returns the names of all types of columns.
func ColumnTypes() []string {
	return []string{string(JSON), string(Text), string(BigInt), string(Double), string(Boolean)}
}

// Column is a column with the values of a variable, or of a member of one.
type Column struct {
	// Of is a variable, such as self, or the path of a member, such as request.path.
	Of string
	// Name is an SQL identifier of letters, digits and underscores, optionally after the name of a
	// table and a dot; "" means Of.
	Name string
	// Type is the type of the column; "" means JSON. NULL in a column of another type is a variable
	// that has no value, or a member that is absent.
	Type ColumnType
}

// withDefaults validates a column.
func (c Column) withDefaults(d Dialect) (Column, error) {
	if c.Name == "" {
		c.Name = c.Of
	}
	if c.Type == "" {
		c.Type = JSON
	}
	switch {
	case !isPath(c.Of):
		return c, fmt.Errorf("column %s: got the variable %q, want one such as self, or a member such as request.path", c.Name, c.Of)
	case !isIdentifier(c.Name):
		return c, fmt.Errorf("column: got %q, want letters, digits and underscores, such as doc or t.doc", c.Name)
	case strings.HasPrefix(strings.ToLower(c.Name), ownNames):
		return c, fmt.Errorf("column %s: names that begin with %s are those of the conditions", c.Name, ownNames)
	case d == SQLite && slices.Contains(eachColumns, strings.ToLower(c.Name)):
		return c, fmt.Errorf("column %s: SQLite's function json_each has a column of that name; write it after its table, such as t.%[1]s", c.Name)
	case !slices.Contains(ColumnTypes(), string(c.Type)):
		return c, fmt.Errorf("column %s: got the type %q, want one of %s", c.Name, c.Type, strings.Join(ColumnTypes(), ", "))
	case c.Type == JSON && strings.Contains(c.Of, "."):
		return c, fmt.Errorf("column %s: the type json is for variables, not for the member %s", c.Name, c.Of)
	}
	return c, nil
}

// ownNames begins the names of tables and columns inside of conditions.
const ownNames = "cel_"

// eachColumns are the columns of json_each in SQLite, which would hide a column of the same name.
var eachColumns = []string{"key", "value", "type", "atom", "id", "parent", "fullkey", "path", "json", "root"}

// isPath reports whether s has names of CEL with dots between them.
func isPath(s string) bool {
	return !slices.ContainsFunc(strings.Split(s, "."), func(part string) bool { return !isName(part) })
}

// kinds are the types of values in columns.
var kinds = map[ColumnType]kind{Text: stringKind, BigInt: intKind, Double: doubleKind, Boolean: boolKind}

// bind adds the variables of the columns to the scope.
func (t *translator) bind(d Dialect, columns []Column) error {
	if len(columns) == 0 {
		columns = []Column{{Of: "self", Name: "doc"}}
	}
	t.flat = map[string]Column{}
	seen := map[string]bool{}
	for _, c := range columns {
		c, err := c.withDefaults(d)
		switch {
		case err != nil:
			return err
		case seen[c.Of]:
			return fmt.Errorf("column %s: %s has another column, too", c.Name, c.Of)
		}
		seen[c.Of] = true
		if c.Type != JSON {
			t.flat[c.Of] = c
			continue
		}
		schema := t.x.SchemaOf(c.Of)
		if schema == nil {
			schema = dynamic
		}
		place := t.db.column(c.Name)
		t.scope = &scope{name: c.Of, bound: operand{place: place, schema: schema, names: []string{}, column: c.Name}, outer: t.scope}
	}
	return nil
}

// columnOf returns the value of a column with another type than JSON, if an expression is its variable or member.
func (t *translator) columnOf(e ast.Expr) (operand, bool) {
	path := pathOf(e)
	c, ok := t.flat[path]
	if !ok || t.isBound(path) {
		return operand{}, false
	}
	k := kinds[c.Type]
	text, guard, raw := t.db.flat(c.Name, k)
	v := value{kind: k, text: text, guard: guard, raw: raw, flat: c.Name}
	if k == doubleKind {
		v.nan = t.db.isNaN(c.Name)
	}
	return operand{value: &v, present: c.Name + " IS NOT NULL", absent: c.Name + " IS NULL"}, true
}

// isBound reports whether a macro's variable hides the variable of a path.
func (t *translator) isBound(path string) bool {
	name, _, _ := strings.Cut(path, ".")
	for s := t.scope; s != nil; s = s.outer {
		if s.name == name {
			return s.bound.column == ""
		}
	}
	return false
}

// pathOf returns a variable, or a member of one, as a path; "" if an expression is something else.
func pathOf(e ast.Expr) string {
	switch e.Kind() {
	case ast.IdentKind:
		return e.AsIdent()
	case ast.SelectKind:
		if parent := pathOf(e.AsSelect().Operand()); parent != "" {
			return parent + "." + e.AsSelect().FieldName()
		}
	}
	return ""
}

// checkTypes compares the types of the columns with those that the expression was checked with.
func (t *translator) checkTypes(e ast.Expr) error {
	var errs []error
	ast.PreOrderVisit(e, ast.NewExprVisitor(func(e ast.Expr) {
		c, ok := t.flat[pathOf(e)]
		if !ok || isPresenceTest(e) {
			return
		}
		want := map[ColumnType]string{Text: "string", BigInt: "int", Double: "double", Boolean: "bool"}[c.Type]
		if got := t.tree.GetType(e.ID()).String(); got != "dyn" && got != want && len(errs) == 0 {
			errs = append(errs, fmt.Errorf("column %s: got the type %s, but %s has the type %s", c.Name, c.Type, c.Of, got))
		}
	}))
	return errors.Join(errs...)
}

// isIdentifier reports whether s is a name, or two with a dot between them.
func isIdentifier(s string) bool {
	parts := strings.Split(s, ".")
	return len(parts) <= 2 && !slices.ContainsFunc(parts, func(part string) bool { return len(part) > 63 || !isName(part) })
}

// isName reports whether s has only letters, digits and underscores, and does not begin with a digit.
func isName(s string) bool {
	return s != "" && (s[0] < '0' || s[0] > '9') && !strings.ContainsFunc(s, func(r rune) bool {
		return r != '_' && (r < '0' || r > '9') && (r < 'a' || r > 'z') && (r < 'A' || r > 'Z')
	})
}

// isPlain reports whether the name of a member needs no escape in SQL and in the paths of JSON, so that it may stand in the SQL.
// Expressions of indexes have the same text, therefore names are no parameters if they can be avoided.
func isPlain(s string) bool {
	return s != "" && len(s) < 256 && !strings.ContainsFunc(s, func(r rune) bool {
		return r != '_' && r != '-' && (r < '0' || r > '9') && (r < 'a' || r > 'z') && (r < 'A' || r > 'Z')
	})
}
