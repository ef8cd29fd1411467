// Package eval has the command "eval" of keelson: the value of an expression, its cost, or what remains of it.
package eval

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"
	apiextv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"

	"github.com/keelson-io/keelson/cel"
	"github.com/keelson-io/keelson/cel/sql"
	"github.com/keelson-io/keelson/crd"
	"github.com/keelson-io/keelson/internal/cli/command"
	"github.com/keelson-io/keelson/internal/manifest"
	"github.com/keelson-io/keelson/jsondoc"
	"github.com/keelson-io/keelson/schema"
	"github.com/keelson-io/keelson/schema/structural"
)

// options are the flags of eval.
type options struct {
	schema, data, oldData string
	version               string // of the CustomResourceDefinition
	kubernetes            string
	sql                   string   // a dialect
	sqlColumns            []string // COLUMN, VARIABLE=COLUMN or VARIABLE=COLUMN:TYPE
	indexes               string   // the table whose indexes are printed
	unknown               []string
	given                 []string // NAME=FILE, NAME=VALUE, or, with sql, NAME
	output                string
	limit                 uint64
	explain               bool
}

// Command returns the command "eval".
func Command() *cobra.Command {
	o := options{}
	cmd := &cobra.Command{
		Use:   "eval [EXPR]",
		Short: "Evaluate an expression over data: its value, its cost, or its residual",
		Long: `Eval evaluates an expression of the Common Expression Language.

The data, a file of YAML or JSON, is the variable self; --old-data is oldSelf. "-" is standard input. --var gives any other variable a
value: the text of a file if there is one of that name, otherwise a value in YAML, such as --var limit=5 or --var 'request={path: /finance}'. A variable that is only unknown needs no value.

With --schema, the expression is checked and evaluated like a new validation rule of a CustomResourceDefinition, with Kubernetes'
libraries, costs, limits and semantics. The data is pruned and defaulted first, as on a server, if the schema is structural. The file
has a CustomResourceDefinition or the schema alone. A server lets new rules use only what the version before its own has, too; what
--kubernetes names is available instead. Without --schema, expressions are untyped, and all libraries of the language are available.

--unknown makes parts of the data unknown, such as self.spec.replicas, self.items[0] or self.labels[*]. If the result does not
depend on them, it is printed. Otherwise eval prints the unknown parts on which it depends, and the residual expression.

--explain prints why the result is what it is: the value of each part with its position in the expression, the element that decided
a macro such as all(), and the place in the data that a part reads.

--sql prints the WHERE clause, with parameters, that selects the rows for which the expression is true, instead of evaluating it. The
documents self are in the column doc; --var NAME is a variable whose documents are in the column NAME, --var NAME=VALUE one with the
same value in all rows. --sql-column names other columns, and types of columns that have no documents, such as
request.path=t.path:text. What has no exact translation remains as the residual expression. With --schema, conditions are shorter.
With --indexes, the CREATE INDEX statements that serve the condition are printed; --indexes=TABLE names the table, by default objects.

Without an expression, eval reads one from each line. On a terminal it offers editing, history and completion (see ":help").
In scripts, lines that begin with // are comments.`,
		Example: `  keelson eval 'self.spec.replicas <= 3' --schema crd.yaml --data object.yaml
  keelson eval 'self.a > 1 && self.b' --data data.json --unknown self.b
  keelson eval 'object.spec.replicas <= 5' --var object=object.yaml
  keelson eval 'request.path.startsWith("/finance")' --var 'request={path: /finance/q1}'
  keelson eval 'unknown_var && true' --unknown unknown_var
  keelson eval 'self.spec.replicas > 3' --schema crd.yaml --sql postgres
  keelson eval 'self.spec.replicas > 3' --schema crd.yaml --sql postgres --indexes
  keelson eval 'request.path.startsWith("/finance")' --var request --sql sqlite
  keelson eval '[1, 2, 3].map(x, x * x)' -o json
  keelson eval --explain 'self.a > 1 || self.b' --data data.json
  keelson eval --schema crd.yaml --data object.yaml`,
		Annotations: command.Page("the expression has a value, or a residual is printed", "the expression is not valid, or evaluates to an error",
			"keelson help lint, keelson help validate"),
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) > 1 {
				return command.UsageError(fmt.Errorf("eval: got %d arguments, want one expression", len(args)))
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			if o.schema != "" && !cmd.Flags().Changed("cost-limit") {
				o.limit = schema.CallLimit
			}
			if len(args) == 0 {
				return interact(cmd.Context(), o, cmd.InOrStdin(), cmd.OutOrStdout())
			}
			return evaluate(cmd.Context(), o, args[0], cmd.InOrStdin(), cmd.OutOrStdout())
		},
	}
	f := cmd.Flags()
	f.StringVar(&o.schema, "schema", "", "file with a CustomResourceDefinition or an OpenAPI schema")
	f.StringVar(&o.version, "schema-version", "", "version of the CustomResourceDefinition; by default its storage version")
	f.StringVar(&o.data, "data", "", "file with the variable self")
	f.StringVar(&o.oldData, "old-data", "", "file with the variable oldSelf")
	f.StringArrayVar(&o.given, "var", nil, "variable besides self, as NAME=FILE or NAME=VALUE in YAML; may be repeated")
	f.StringVar(&o.kubernetes, "kubernetes", "", "Kubernetes version whose libraries are available, such as "+cel.NewestKubernetes+"; with --schema, "+cel.PreviousKubernetes+" by default")
	f.BoolVar(&o.explain, "explain", false, "also print the value of each part of the expression, and where in the data it comes from")
	f.StringVar(&o.sql, "sql", "", "print the condition that selects rows in a database: "+strings.Join(sql.Dialects(), " or "))
	f.StringArrayVar(&o.sqlColumns, "sql-column", nil, "column with the documents self, by default doc; or, as VARIABLE=COLUMN[:TYPE], that of a variable or of a member such as request.path; types are "+strings.Join(sql.ColumnTypes(), ", ")+"; may be repeated")
	f.StringVar(&o.indexes, "indexes", "", "print the statements that create the indexes of a table which serve the condition of --sql, instead of the condition")
	f.Lookup("indexes").NoOptDefVal = "objects"
	f.StringArrayVar(&o.unknown, "unknown", nil, "unknown path; may be repeated")
	f.StringVarP(&o.output, "output", "o", "text", "text or json")
	f.Uint64Var(&o.limit, "cost-limit", 10_000_000, fmt.Sprintf("most that the evaluation may cost, 0 for no limit; with --schema, the default is %d, as on a server", schema.CallLimit))
	return cmd
}

// evaluation is the result of one expression.
type evaluation struct {
	Value         json.RawMessage `json:"value,omitempty"`
	Type          string          `json:"type"`
	Cost          uint64          `json:"cost"`
	EstimatedCost *uint64         `json:"estimatedCost,omitempty"` // nil: without bound, or without types to estimate by
	Residual      string          `json:"residual,omitempty"`
	Unknown       []string        `json:"unknown,omitempty"`
	Error         string          `json:"error,omitempty"`
	Explanation   *cel.Part       `json:"explanation,omitempty"`

	untyped bool // there is no schema: estimates of untyped members are too low
}

// check returns an error for flags that do not fit each other.
func (o *options) check() error {
	switch {
	case !slices.Contains([]string{"text", "json"}, o.output):
		return command.UsageError(fmt.Errorf("--output: got %q, want text or json", o.output))
	case o.sql == "" && (o.indexes != "" || len(o.sqlColumns) > 0):
		return command.UsageError(errors.New("--indexes, --sql-column: want --sql, which says for which database"))
	}
	return o.checkGiven()
}

// evaluate prints the value of an expression. If the expression fails, it returns the failure.
func evaluate(ctx context.Context, o options, expr string, stdin io.Reader, out io.Writer) error {
	if err := command.OnceStdin([]string{o.schema, o.data, o.oldData}, o.givenFiles()); err != nil {
		return err
	}
	if err := o.check(); err != nil {
		return err
	}
	if o.sql != "" {
		return o.printSQL(expr, stdin, out)
	}
	language, data, err := o.language(stdin)
	if err != nil {
		return err
	}
	vars, err := o.vars(data, stdin)
	if err != nil {
		return err
	}
	var unknown []cel.Pattern
	for _, text := range o.unknown {
		p, err := language.Pattern(text)
		if err != nil {
			return command.UsageError(err)
		}
		unknown = append(unknown, p)
	}
	x, err := language.CompileExpression(expr)
	if err != nil {
		err = o.adviseVariable(o.adviseVersion(expr, data, err))
		if o.output == "json" {
			_ = printEvaluation(out, o.output, evaluation{Error: err.Error()})
		}
		return err
	}
	result := evaluation{Type: x.Type(), untyped: data == nil}
	result.EstimatedCost = estimateOf(x, data)
	var failure error
	result, failure = o.run(ctx, x, vars, unknown, result)
	if err := o.addExplanation(ctx, x, vars, &result); err != nil {
		return err
	}
	if failure != nil {
		result.Error = failure.Error()
		if o.output == "text" {
			return errors.New(explained(ctx, x, vars, failure) + result.explanation() + "\ncost: " + strconv.FormatUint(result.Cost, 10))
		}
	}
	if err := printEvaluation(out, o.output, result); err != nil {
		return err
	}
	return failure
}

// addExplanation adds the explanation to a result if --explain asks for it.
func (o options) addExplanation(ctx context.Context, x *cel.Expression, vars cel.Vars, result *evaluation) error {
	switch {
	case !o.explain:
		return nil
	case len(o.unknown) > 0:
		return command.UsageError(errors.New("--explain: with --unknown, eval prints the parts on which the result depends; use one of the two"))
	}
	e, err := x.Explainer()
	if err != nil {
		return err
	}
	root := e.Eval(ctx, vars, o.limit).Root(cel.ShowOptions{})
	result.Explanation = &root
	return nil
}

// explanation returns the explanation as text, "" if there is none.
func (e *evaluation) explanation() string {
	if e.Explanation == nil {
		return ""
	}
	return "\n  " + strings.Join(e.Explanation.Lines(), "\n  ")
}

// adviseVersion adds to the failure of an expression that it is valid in the newest version of Kubernetes, if it is.
func (o options) adviseVersion(expr string, data *dataSchema, failure error) error {
	if data == nil || o.kubernetes != "" {
		return failure
	}
	newest, err := cel.NewLanguage(cel.LanguageOptions{Kubernetes: cel.NewestKubernetes, Variables: data.variables()})
	if err != nil {
		return failure
	}
	if _, err := newest.CheckExpression(expr); err != nil {
		return failure
	}
	return fmt.Errorf("%w\nit is valid with --kubernetes %s, but not in a new rule: a server lets new rules use only what %[3]s has, too, so that it can be replaced by a server of %[3]s",
		failure, cel.NewestKubernetes, cel.PreviousKubernetes)
}

// estimateOf returns the cost that a server estimates for a rule with the expression. It returns nil if there is no
// bound, and without a schema: upstream's estimate of untyped members is below what they cost.
func estimateOf(x *cel.Expression, data *dataSchema) *uint64 {
	if data == nil {
		return nil
	}
	rule, err := data.rules.Compile(x.Source(), data.kind, cel.CompileOptions{Want: cel.AnyResult})
	if err != nil {
		return nil
	}
	if most := rule.MaxCost(); most < math.MaxInt64/4 {
		return &most
	}
	return nil
}

func estimateText(estimate *uint64, untyped bool) string {
	switch {
	case untyped:
		return "estimated only with --schema"
	case estimate == nil:
		return "estimated: without bound"
	}
	return "estimated: " + strconv.FormatUint(*estimate, 10)
}

// explainLimit bounds the cost of an explanation: finding the position of a failure should not take
// much longer than the evaluation.
const explainLimit = 10_000_000

// explained returns a failure with its position in the expression, and advice if data is missing.
func explained(ctx context.Context, x *cel.Expression, vars cel.Vars, failure error) string {
	text := failure.Error()
	if e, err := x.Explainer(); err == nil {
		if again := e.Eval(ctx, vars, explainLimit).ErrorText(); again != "" {
			text = again
		}
	}
	missing, ok := errors.AsType[*cel.MissingAttributeError](failure)
	if !ok {
		return text
	}
	if flag := map[string]string{"self": "--data", "oldSelf": "--old-data"}[missing.Name]; flag != "" {
		text += "\n" + missing.Name + " has no value: " + flag + " names a file with one"
	}
	return text
}

// run evaluates x and fills in the result.
func (o options) run(ctx context.Context, x *cel.Expression, vars cel.Vars, unknown []cel.Pattern, result evaluation) (evaluation, error) {
	if len(unknown) == 0 {
		v, cost, err := x.Eval(ctx, vars, o.limit)
		result.Cost = cost
		if err == nil {
			result.Type = typeText(x.Type(), v)
			result.Value, err = v.JSON()
		}
		return result, err
	}
	partial, cost, err := x.Partial(ctx, vars, unknown, o.limit)
	result.Cost = cost
	switch {
	case err != nil:
	case partial.Known:
		result.Type = typeText(x.Type(), partial.Value)
		result.Value, err = partial.Value.JSON()
	default:
		result.Residual, result.Unknown = partial.Residual, partial.Unknown
	}
	return result, err
}

// typeText returns the type found by the checker, or else that of the value.
func typeText(checked string, v cel.Value) string {
	if checked == "dyn" {
		return v.TypeName()
	}
	return checked
}

// dataSchema is the schema of self and oldSelf.
type dataSchema struct {
	kind    *cel.Type
	program *schema.Program // prunes and defaults; nil if the schema is not structural
	rules   *cel.TypeSet    // compiles rules of the schema
}

// variables returns self and oldSelf. d may be nil.
func (d *dataSchema) variables() []cel.Variable {
	if d == nil {
		return []cel.Variable{{Name: "self"}, {Name: "oldSelf"}}
	}
	return []cel.Variable{{Name: "self", Schema: d.kind}, {Name: "oldSelf", Schema: d.kind}}
}

// language returns the environment that the flags describe, and the schema of self, nil if there is
// none.
func (o options) language(stdin io.Reader) (*cel.Language, *dataSchema, error) {
	lo := cel.LanguageOptions{Libraries: cel.AllLibraries()}
	var data *dataSchema
	if o.schema != "" || o.kubernetes != "" {
		lo = cel.LanguageOptions{Kubernetes: o.kubernetes}
		if lo.Kubernetes == "" {
			lo.Kubernetes = cel.PreviousKubernetes
		}
	}
	if o.schema != "" {
		text, err := command.ReadOne(o.schema, stdin)
		if err != nil {
			return nil, nil, err
		}
		if data, err = readSchema(text, o.version); err != nil {
			return nil, nil, fmt.Errorf("%s: %w", o.schema, err)
		}
		env, err := cel.NewEnv(cel.EnvOptions{Version: lo.Kubernetes})
		if err != nil {
			return nil, nil, command.UsageError(fmt.Errorf("--kubernetes: %w", err))
		}
		data.rules = env.Types()
	}
	lo.Variables = slices.Concat(data.variables(), o.otherVariables())
	l, err := cel.NewLanguage(lo)
	if err != nil && o.kubernetes != "" {
		err = command.UsageError(fmt.Errorf("--kubernetes: %w", err))
	}
	return l, data, err
}

// readSchema reads a schema, or that of a version of a definition.
func readSchema(text []byte, version string) (*dataSchema, error) {
	var head struct{ Kind string }
	if err := json.Unmarshal(text, &head); err != nil || head.Kind != "CustomResourceDefinition" {
		if version != "" {
			return nil, command.UsageError(errors.New("--schema-version: the schema is no CustomResourceDefinition"))
		}
		if head.Kind != "" {
			return nil, fmt.Errorf("got an object of kind %s, want a CustomResourceDefinition or a schema", head.Kind)
		}
		return newDataSchema(text, false)
	}
	definition, err := crd.Read(text)
	if err != nil {
		return nil, err
	}
	for i := range definition.Spec.Versions {
		v := &definition.Spec.Versions[i]
		if (v.Name == version || version == "" && v.Storage) && v.Schema != nil {
			raw, err := json.Marshal(v.Schema.OpenAPIV3Schema)
			if err != nil {
				return nil, err
			}
			return newDataSchema(raw, true)
		}
	}
	return nil, fmt.Errorf("no version %q in the definition", version)
}

// newDataSchema reads a schema. resource says that apiVersion, kind and metadata need not be declared.
func newDataSchema(text []byte, resource bool) (*dataSchema, error) {
	kind, err := cel.TypeOfSchema(text, resource)
	if err != nil {
		return nil, manifest.Explain(err)
	}
	data := &dataSchema{kind: kind}
	var props apiextv1.JSONSchemaProps
	if json.Unmarshal(text, &props) != nil {
		return data, nil
	}
	s, wrong := structural.Parse(&props, nil)
	if len(wrong) > 0 || len(structural.Validate(s, nil)) > 0 {
		return data, nil
	}
	env, err := cel.NewEnv(cel.EnvOptions{})
	if err != nil {
		return nil, err
	}
	// Env is needed because the schema may have rules, which nothing evaluates here.
	if data.program, err = schema.Compile(s, schema.Options{Resource: resource, Env: env}); err != nil {
		return nil, err
	}
	return data, nil
}

// vars returns the variables for which there is data: with a schema, pruned and defaulted as rules
// see it on a server.
func (o options) vars(data *dataSchema, stdin io.Reader) (cel.Vars, error) {
	vars := cel.Vars{}
	for name, file := range map[string]string{"self": o.data, "oldSelf": o.oldData} {
		if file == "" {
			continue
		}
		text, err := command.ReadOne(file, stdin)
		if err != nil {
			return nil, err
		}
		d := &jsondoc.Doc{}
		var kind *cel.Type
		if data != nil {
			kind = data.kind
		}
		if data != nil && data.program != nil {
			_, err = data.program.Decode(d, text)
		} else {
			d.Reset([]*jsondoc.Shape{nil})
			err = jsondoc.Parse(d, text)
		}
		if err != nil {
			return nil, fmt.Errorf("%s: %w", file, err)
		}
		vars[name] = cel.FromDoc(d.Root(), kind)
	}
	return vars, o.giveValues(vars, stdin)
}

// printEvaluation writes the result in a format.
func printEvaluation(out io.Writer, format string, e evaluation) error {
	if format == "json" {
		return command.PrintJSON(out, e)
	}
	paint := command.Painter(out)
	var b strings.Builder
	if e.Residual != "" {
		fmt.Fprintf(&b, "%s %s\n%s %s\n", paint("1", "residual:"), e.Residual, paint("1", "unknown:"), strings.Join(e.Unknown, ", "))
	} else {
		fmt.Fprintf(&b, "%s %s\n", paint("1", "value:"), e.Value)
	}
	of := ""
	if e.Residual != "" {
		of = "with finding what remains; "
	}
	fmt.Fprintf(&b, "%s %s\n%s %d (%s%s)\n", paint("1", "type:"), e.Type, paint("1", "cost:"), e.Cost, of, estimateText(e.EstimatedCost, e.untyped))
	if text := e.explanation(); text != "" {
		fmt.Fprintf(&b, "%s%s\n", paint("1", "because:"), text)
	}
	_, err := io.WriteString(out, b.String())
	return err
}
