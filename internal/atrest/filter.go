package atrest

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"

	"github.com/keelson-io/keelson/cel"
	celsql "github.com/keelson-io/keelson/cel/sql"
	"github.com/keelson-io/keelson/jsondoc"
)

// This file finds objects by expressions.

// Filter is an expression about the variable self.
type Filter struct {
	where    string // a condition with placeholders; "" is true
	args     []any
	residual *cel.Expression // nil is true
	typ      *cel.Type       // of self; nil if it has no type
}

// NewFilter compiles an expression for a database. typ is the type of self; nil if it has none.
func NewFilter(dialect celsql.Dialect, expr string, typ *cel.Type) (*Filter, error) {
	language, err := cel.NewLanguage(cel.LanguageOptions{Kubernetes: cel.NewestKubernetes, Variables: []cel.Variable{{Name: "self", Schema: typ}}})
	if err != nil {
		return nil, err
	}
	x, err := language.CompileExpression(expr)
	if err != nil {
		return nil, err
	}
	q, err := celsql.Translate(x, celsql.Options{Dialect: dialect})
	var refused *celsql.RefusedError
	if errors.As(err, &refused) {
		return &Filter{residual: x, typ: typ}, nil
	} else if err != nil {
		return nil, err
	}
	f := &Filter{where: q.Where, args: q.Args, typ: typ}
	if q.Residual != "" {
		if f.residual, err = language.CompileExpression(q.Residual); err != nil {
			return nil, fmt.Errorf("residual %s: %w", q.Residual, err)
		}
	}
	return f, nil
}

// Selected counts objects.
type Selected struct {
	Objects int // for which the expression is true
	Failed  int // which the database selected, and for which the rest of the expression is an error
}

// Select calls f with the namespace, the name and the JSON of each object for which the expression
// is true, by namespace and name.
func (d *Database) Select(ctx context.Context, t *Table, filter *Filter, f func(namespace, name string, doc []byte) error) (Selected, error) {
	var n Selected
	where := ""
	if filter.where != "" {
		where = " WHERE " + filter.where
	}
	rows, err := d.db.QueryContext(ctx, "SELECT namespace, name, "+d.dialect.text()+" FROM "+quoted(t.Name)+where+" ORDER BY namespace, name", filter.args...)
	if err != nil {
		return n, d.named(err)
	}
	defer rows.Close()
	for rows.Next() {
		var namespace, name string
		var doc []byte
		if err := rows.Scan(&namespace, &name, &doc); err != nil {
			return n, d.named(err)
		}
		switch ok, err := filter.isTrue(ctx, doc); {
		case ctx.Err() != nil:
			return n, ctx.Err()
		case err != nil:
			n.Failed++
		case ok:
			n.Objects++
			if err := f(namespace, name, doc); err != nil {
				return n, err
			}
		}
	}
	return n, d.named(rows.Err())
}

// isTrue reports whether the rest of the expression is true for an object.
func (f *Filter) isTrue(ctx context.Context, doc []byte) (bool, error) {
	if f.residual == nil {
		return true, nil
	}
	d := jsondoc.Get()
	defer d.Release()
	d.Reset([]*jsondoc.Shape{nil})
	if err := jsondoc.Parse(d, doc); err != nil {
		return false, err
	}
	v, _, err := f.residual.Eval(ctx, cel.Vars{"self": cel.FromDoc(d.Root(), f.typ)}, 0)
	if err != nil {
		return false, err
	}
	if v.Kind() != cel.KindBool {
		return false, fmt.Errorf("got a %s, want a boolean", v.TypeName())
	}
	return v.Go() == true, nil
}

// Count returns the number of objects for which an expression is true.
func (d *Database) Count(ctx context.Context, t *Table, filter *Filter) (Selected, error) {
	if filter.residual != nil {
		return d.Select(ctx, t, filter, func(string, string, []byte) error { return nil })
	}
	var n Selected
	err := d.db.QueryRowContext(ctx, "SELECT count(*) FROM "+quoted(t.Name)+" WHERE "+filter.where, filter.args...).Scan(&n.Objects)
	return n, d.named(err)
}

// Each calls f with every object of a table, by namespace and name.
func (d *Database) Each(ctx context.Context, t *Table, f func(namespace, name string, doc []byte) error) error {
	_, err := d.Select(ctx, t, &Filter{}, f)
	return err
}

// definitions is the kind of CustomResourceDefinitions.
var definitions = Kind{Group: "apiextensions.k8s.io", Kind: "CustomResourceDefinition"}

// Definition returns the JSON of the CustomResourceDefinition of a kind, nil if the database has none.
func (d *Database) Definition(ctx context.Context, k Kind) (text []byte, err error) {
	tables, err := d.Tables(ctx)
	if err != nil {
		return nil, err
	}
	i := slices.IndexFunc(tables, func(t *Table) bool { return t.Kind == definitions })
	if i < 0 {
		return nil, nil
	}
	err = d.Each(ctx, tables[i], func(_, _ string, doc []byte) error {
		var head struct {
			Spec struct {
				Group string
				Names struct{ Kind string }
			}
		}
		if json.Unmarshal(doc, &head) == nil && head.Spec.Group == k.Group && head.Spec.Names.Kind == k.Kind {
			text = doc
		}
		return nil
	})
	return text, err
}
