// Package query has the command "query" of keelson: the objects of a database for which an expression is true, or that break rules.
package query

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	apiextv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"

	"github.com/keelson-io/keelson/cel"
	"github.com/keelson-io/keelson/crd"
	"github.com/keelson-io/keelson/internal/atrest"
	"github.com/keelson-io/keelson/internal/cli/command"
	"github.com/keelson-io/keelson/internal/manifest"
)

// options are the flags of query.
type options struct {
	db         string // a URL
	kind       string // as Kind, Kind.group or a table
	definition string // a file
	output     string // name, yaml or json
	count      bool
	violations bool
}

// Command returns the command "query".
func Command() *cobra.Command {
	o := options{}
	cmd := &cobra.Command{
		Use:   "query [EXPR] --db DATABASE",
		Short: "Find the objects of a database for which an expression is true, or that break rules",
		Long: `Query prints the objects in a database of "keelson export" for which an expression of the Common Expression Language is true. The
object is the variable self.

The database selects objects by what has an exact translation to SQL; see "keelson eval --sql". The rest of the expression is
evaluated for each of them, so that the result is the one that a server's evaluator gives. An object for which the expression is
an error is not selected. If that happens in the part that the database does not evaluate, the number of such objects is printed on
standard error.

DATABASE is sqlite://FILE or the URL of a PostgreSQL database. --kind names the kind as Kind, Kind.group or the table; without it, all kinds are searched. The members of
self have the types of the CustomResourceDefinition in the file of -f, or of that in the database, if the kind is named. Otherwise,
and for other kinds, they have no types.

--violations, in place of an expression, prints the objects that the CustomResourceDefinition in the file of -f does not accept: those
that break its validation rules or its schema, with the path and the message of each mistake. Objects are pruned and defaulted first,
as on a server; transition rules do not apply. All objects of the kind are read.`,
		Example: `  keelson query 'self.spec.replicas > 3' --db sqlite://objects.db --kind Widget
  keelson query 'self.metadata.name.startsWith("web")' --db sqlite://objects.db -o yaml
  keelson query '!(self.spec.replicas <= 5)' --db sqlite://objects.db -f crds/widgets.yaml --count
  keelson query --violations --db sqlite://objects.db -f crds/widgets.yaml`,
		Annotations: command.Page("the objects are printed, if there are any; with --violations, there are none", "the expression or the database cannot be used; with --violations, there are objects",
			"keelson help export, keelson help eval", "docs/sql.md: data at rest"),
		Args: func(cmd *cobra.Command, args []string) error {
			switch {
			case !o.violations:
				return oneExpression(cmd, args)
			case len(args) > 0:
				return command.UsageError(errors.New("query: got an expression and --violations, want one of them"))
			case o.definition == "":
				return command.UsageError(errors.New("--violations: the CustomResourceDefinition is missing; -f names its file"))
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			return o.run(cmd, strings.Join(args, ""))
		},
	}
	f := cmd.Flags()
	f.StringVar(&o.db, "db", "", "`URL` of the database: sqlite://FILE or postgres://USER:PASSWORD@HOST/DATABASE")
	f.StringVar(&o.kind, "kind", "", "kind of the objects, as Kind, Kind.group or the name of its table")
	f.StringVarP(&o.definition, "filename", "f", "", "`file` with the CustomResourceDefinition of the kind")
	f.StringVarP(&o.output, "output", "o", "name", "name, yaml or json")
	f.BoolVar(&o.count, "count", false, "print only the number of objects")
	f.BoolVar(&o.violations, "violations", false, "find the objects that the CustomResourceDefinition of -f does not accept")
	return cmd
}

// oneExpression requires one argument.
func oneExpression(cmd *cobra.Command, args []string) error {
	if len(args) != 1 {
		return command.UsageError(fmt.Errorf("%s: got %s, want one expression", command.NameOf(cmd), command.Plural(len(args), "argument")))
	}
	return nil
}

// run prints the selected objects.
func (o *options) run(cmd *cobra.Command, expr string) error {
	switch {
	case o.db == "":
		return command.UsageError(errors.New("query: no database is named: --db sqlite://FILE"))
	case !slices.Contains([]string{"name", "yaml", "json"}, o.output):
		return command.UsageError(fmt.Errorf("--output: got %q, want name, yaml or json", o.output))
	}
	ctx, out, notes := cmd.Context(), cmd.OutOrStdout(), cmd.ErrOrStderr()
	var definition *apiextv1.CustomResourceDefinition
	if o.definition != "" {
		text, err := command.ReadOne(o.definition, cmd.InOrStdin())
		if err != nil {
			return err
		}
		if definition, err = crd.Read(text); err != nil {
			return fmt.Errorf("%s: %w", o.definition, err)
		}
	}
	db, err := atrest.Open(ctx, o.db, atrest.ReadOnly)
	if err != nil {
		return fmt.Errorf("--db: %w", err)
	}
	defer db.Close()
	tables, err := o.tables(ctx, db, definition)
	if err != nil {
		return err
	}
	if definition == nil && o.kind != "" {
		if definition, err = storedDefinition(ctx, db, tables[0]); err != nil {
			return err
		}
	}
	for _, t := range tables {
		if !t.Complete {
			fmt.Fprintf(notes, "keelson: the export of %s is not complete\n", t.Kind)
		}
	}
	q := &query{options: o, db: db, out: out}
	if o.violations {
		return q.findViolations(ctx, tables[0], definition)
	}
	for _, t := range tables {
		if err := q.search(ctx, t, expr, definition); err != nil {
			return err
		}
	}
	if o.count {
		fmt.Fprintln(out, q.selected.Objects)
	}
	if n := q.selected.Failed; n > 0 {
		fmt.Fprintf(notes, "keelson: the expression is an error for %s, which %s not selected\n", command.Plural(n, "object"), map[bool]string{true: "is", false: "are"}[n == 1])
	}
	return nil
}

// tables returns the tables to search.
func (o *options) tables(ctx context.Context, db *atrest.Database, definition *apiextv1.CustomResourceDefinition) ([]*atrest.Table, error) {
	all, err := db.Tables(ctx)
	if err != nil {
		return nil, err
	}
	var found []*atrest.Table
	var names []string
	for _, t := range all {
		names = append(names, t.Kind.String())
		switch {
		case o.kind != "" && o.kind != t.Kind.Kind && o.kind != t.Kind.String() && o.kind != t.Name,
			definition != nil && (t.Group != definition.Spec.Group || t.Kind.Kind != definition.Spec.Names.Kind):
		default:
			found = append(found, t)
		}
	}
	want := o.kind
	if definition != nil {
		want = atrest.Kind{Group: definition.Spec.Group, Kind: definition.Spec.Names.Kind}.String()
	}
	switch {
	case want == "":
		return found, nil
	case len(found) == 0:
		return nil, fmt.Errorf("%s: no kind %s; it has %s", o.db, want, strings.Join(names, ", "))
	case len(found) > 1:
		return nil, command.UsageError(fmt.Errorf("--kind: %s is in the groups %q and %q; want one, such as %s", o.kind, found[0].Group, found[1].Group, found[0].Kind))
	}
	return found, nil
}

// storedDefinition returns the definition of a kind in the database, nil if it has none.
func storedDefinition(ctx context.Context, db *atrest.Database, t *atrest.Table) (*apiextv1.CustomResourceDefinition, error) {
	text, err := db.Definition(ctx, t.Kind)
	if err != nil || text == nil {
		return nil, err
	}
	return crd.Read(text)
}

// typeOf returns the type of the objects of a version, or of the storage version if the definition
// does not have that version; nil if the version has no schema.
func typeOf(definition *apiextv1.CustomResourceDefinition, version string) (*cel.Type, error) {
	var found *apiextv1.CustomResourceDefinitionVersion
	for i := range definition.Spec.Versions {
		v := &definition.Spec.Versions[i]
		if v.Name == version || v.Storage && found == nil {
			found = v
		}
	}
	if found == nil || found.Schema == nil {
		return nil, nil
	}
	schema := *found.Schema.OpenAPIV3Schema
	schema.Properties = maps.Clone(schema.Properties)
	if schema.Properties == nil {
		schema.Properties = map[string]apiextv1.JSONSchemaProps{}
	}
	var own map[string]apiextv1.JSONSchemaProps
	if err := json.Unmarshal([]byte(resourceMembers), &own); err != nil {
		return nil, err
	}
	maps.Copy(schema.Properties, own)
	text, err := json.Marshal(&schema)
	if err != nil {
		return nil, err
	}
	t, err := cel.TypeOfSchema(text, false)
	return t, manifest.Explain(err)
}

// resourceMembers has the schemas of apiVersion, kind and metadata. Rules of a CRD see only the names
// in metadata; a query sees all.
const resourceMembers = `{
	"apiVersion": {"type": "string"},
	"kind": {"type": "string"},
	"metadata": {"type": "object", "properties": {
		"name": {"type": "string"}, "generateName": {"type": "string"}, "namespace": {"type": "string"},
		"uid": {"type": "string"}, "resourceVersion": {"type": "string"}, "generation": {"type": "integer"},
		"creationTimestamp": {"type": "string", "format": "date-time"}, "deletionTimestamp": {"type": "string", "format": "date-time"},
		"deletionGracePeriodSeconds": {"type": "integer"},
		"labels": {"type": "object", "additionalProperties": {"type": "string"}},
		"annotations": {"type": "object", "additionalProperties": {"type": "string"}},
		"finalizers": {"type": "array", "items": {"type": "string"}},
		"ownerReferences": {"type": "array", "items": {"type": "object", "properties": {
			"apiVersion": {"type": "string"}, "kind": {"type": "string"}, "name": {"type": "string"}, "uid": {"type": "string"},
			"controller": {"type": "boolean"}, "blockOwnerDeletion": {"type": "boolean"}}}},
		"managedFields": {"type": "array", "items": {"type": "object", "properties": {
			"apiVersion": {"type": "string"}, "manager": {"type": "string"}, "operation": {"type": "string"}, "subresource": {"type": "string"},
			"fieldsType": {"type": "string"}, "time": {"type": "string", "format": "date-time"},
			"fieldsV1": {"type": "object", "x-kubernetes-preserve-unknown-fields": true}}}}}}
}`

// query is a run of the command.
type query struct {
	*options
	db       *atrest.Database
	out      io.Writer
	printed  bool // an object, already
	selected atrest.Selected
}

// search prints or counts the selected objects of a table.
func (q *query) search(ctx context.Context, t *atrest.Table, expr string, definition *apiextv1.CustomResourceDefinition) error {
	var typ *cel.Type
	var err error
	if definition != nil {
		if typ, err = typeOf(definition, t.Version); err != nil {
			return err
		}
	}
	filter, err := atrest.NewFilter(q.db.Dialect(), expr, typ)
	if err != nil {
		return err
	}
	var n atrest.Selected
	if q.count {
		n, err = q.db.Count(ctx, t, filter)
	} else {
		n, err = q.db.Select(ctx, t, filter, func(namespace, name string, doc []byte) error { return q.print(t, namespace, name, doc) })
	}
	q.selected.Objects += n.Objects
	q.selected.Failed += n.Failed
	return err
}

// print prints an object. Its name is printed as the arguments of kubectl get.
func (q *query) print(t *atrest.Table, namespace, name string, doc []byte) error {
	if q.output != "name" {
		defer func() { q.printed = true }()
		return command.PrintObject(q.out, q.output, q.printed, doc)
	}
	text := strings.ToLower(t.Kind.Kind)
	if t.Group != "" {
		text += "." + t.Group
	}
	text += "/" + name
	if namespace != "" {
		text += " -n " + namespace
	}
	_, err := fmt.Fprintln(q.out, text)
	return err
}
