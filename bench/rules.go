// This file measures rules one by one: our evaluation, a bare cel-go program, and upstream's rule validation.

package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"math"
	"runtime"
	"slices"
	"strings"
	"time"

	"github.com/google/cel-go/cel"
	"github.com/google/cel-go/common/types"
	"github.com/google/cel-go/ext"
	"k8s.io/apiextensions-apiserver/pkg/apis/apiextensions"
	apiextv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	structuralschema "k8s.io/apiextensions-apiserver/pkg/apiserver/schema"
	upstreamcel "k8s.io/apiextensions-apiserver/pkg/apiserver/schema/cel"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/cel/model"
	celconfig "k8s.io/apiserver/pkg/apis/cel"
	apiservercel "k8s.io/apiserver/pkg/cel"
	"k8s.io/apiserver/pkg/cel/library"
	kjson "sigs.k8s.io/json"
	"sigs.k8s.io/yaml"

	kcel "github.com/keelson-io/keelson/cel"
	"github.com/keelson-io/keelson/jsondoc"
	"github.com/keelson-io/keelson/schema"
	"github.com/keelson-io/keelson/schema/structural"
)

// runRules measures every row of the table of rules and prints it. Its rounds go over the whole table, so that what the machine does in
// between, such as a change of its clock, meets some rounds of all rows and not all rounds of some.
func runRules(ctx context.Context, args []string) error {
	fs := flag.NewFlagSet("bench rules", flag.ExitOnError)
	rounds := fs.Int("rounds", 201, "rounds over the table; each measures all three sides of a row")
	large := fs.Int("large", 5, "rounds that large lists take part in")
	markdown := fs.String("o", "", "write the table as Markdown between the markers of these files, separated by commas")
	match := fs.String("run", "", "measure only rows whose rule or place contains this")
	if err := fs.Parse(args); err != nil {
		return err
	}
	all := append(publishedRules(), iterationRules()...)
	data := decodedLists{}
	var trials []*ruleTrial
	for i := range all {
		r := &all[i]
		if err := r.find(); err != nil {
			return fmt.Errorf("%s: %w", r.place(), err)
		}
		if !strings.Contains(r.place()+" "+r.rule, *match) {
			continue
		}
		t, err := r.prepare(ctx, data)
		if err != nil {
			return fmt.Errorf("%s: %s: %w", r.place(), r.rule, err)
		}
		trials = append(trials, t)
	}
	every := (*rounds + *large - 1) / max(*large, 1)
	for round := range *rounds {
		for _, t := range trials {
			if !t.row.large || round%every == 0 {
				t.turn(ctx)
			}
		}
	}
	var done []*ruleResult
	for _, t := range trials {
		got := t.result(ctx)
		say("%s", got.line())
		done = append(done, got)
	}
	return reportRules(done, *markdown)
}

// decodedLists are plain Go data of large lists by their text, which several rules are measured on.
type decodedLists map[string]any

// ruleRow is a rule, the schema it stands at, and what it is evaluated on.
type ruleRow struct {
	family  family
	crd     string // name of the definition; "" if the schema is given
	version string
	path    string // of the node, as in spec.rules[].matches[]
	has     string // a part of the rule that no other rule of the node has
	self    string // YAML
	old     string // YAML; "" on create
	fails   bool   // the rule does not hold

	schema *apiextv1.JSONSchemaProps // of the node
	rule   string
	large  bool   // no limit of costs; self is JSON
	part   string // the first hundredth of self: upstream takes longer than anyone can wait for the whole
}

// parts is how many times the part is in the whole.
const parts = 100

func (r *ruleRow) place() string {
	name, _, _ := strings.Cut(r.crd, ".")
	return strings.TrimSuffix(fmt.Sprintf("%s %s %s", r.family.name, name, r.path), " ")
}

// find reads the rule and the schema of its node out of the definition. Of the rules at and below the node only this one stays.
func (r *ruleRow) find() error {
	node := r.schema
	if node == nil {
		var err error
		if node, err = r.family.node(r.crd, r.version, r.path); err != nil {
			return err
		}
	}
	for _, v := range node.XValidations {
		if strings.Contains(v.Rule, r.has) {
			if r.rule != "" {
				return fmt.Errorf("several rules contain %q", r.has)
			}
			r.rule = v.Rule
		}
	}
	if r.rule == "" {
		return fmt.Errorf("no rule contains %q", r.has)
	}
	r.schema = node.DeepCopy()
	withoutRules(r.schema)
	r.schema.XValidations = apiextv1.ValidationRules{{Rule: r.rule}}
	return nil
}

func withoutRules(s *apiextv1.JSONSchemaProps) {
	s.XValidations = nil
	for name, p := range s.Properties {
		withoutRules(&p)
		s.Properties[name] = p
	}
	if s.Items != nil && s.Items.Schema != nil {
		withoutRules(s.Items.Schema)
	}
	if s.AdditionalProperties != nil && s.AdditionalProperties.Schema != nil {
		withoutRules(s.AdditionalProperties.Schema)
	}
}

// ruleSide evaluates a row's rule once: the verdict and what it cost (0: not known).
type ruleSide func(ctx context.Context) (holds bool, cost uint64, err error)

// limits are the cost limits of a row: of one evaluation, and of an object.
func (r *ruleRow) limits() (call uint64, object int64) {
	if r.large {
		return math.MaxInt64, math.MaxInt64
	}
	return celconfig.PerCallLimit, celconfig.RuntimeCELCostBudget
}

// kept reports whether the row is of an update that leaves what the rule sees as it was. The server finds that out before it evaluates
// rules, and then oldSelf is self.
func (r *ruleRow) kept() bool { return r.path != "" && r.old == r.self }

// ours is this repository's evaluation, over a document that was decoded as the server decodes it. oldSelf is read from a document of
// its own if apart says so.
func (r *ruleRow) ours(apart bool) (ruleSide, error) {
	s, errs := structural.Parse(r.schema, nil)
	if len(errs) > 0 {
		return nil, errs.ToAggregate()
	}
	env, err := kcel.NewEnv(kcel.EnvOptions{Stored: true})
	if err != nil {
		return nil, err
	}
	p, err := schema.Compile(s, schema.Options{Env: env, Resource: r.path == ""})
	if err != nil {
		return nil, err
	}
	programs, err := p.RootRules()
	if err != nil {
		return nil, err
	}
	docs := [2]*jsondoc.Doc{}
	for i, text := range []string{r.self, r.old} {
		if text == "" {
			continue
		}
		b, err := r.json(text)
		if err != nil {
			return nil, err
		}
		docs[i] = new(jsondoc.Doc)
		if _, err := p.Decode(docs[i], b); err != nil {
			return nil, err
		}
	}
	limit, _ := r.limits()
	act := &kcel.Activation{Self: docs[0].Root()}
	if act.Valid, err = r.valid(); err != nil {
		return nil, err
	}
	if docs[1] != nil {
		act.OldSelf, act.HasOldSelf = docs[1].Root(), true
		if !apart {
			act.OldSelf, act.Kept = act.Self, true
		}
	}
	if _, _, err := programs[0].Eval(context.Background(), act, limit); err != nil {
		return nil, err
	}
	tests := kcel.NewTests(programs) // what the server evaluates
	return func(ctx context.Context) (bool, uint64, error) {
		cost, holds := tests.Hold(ctx, act, limit, math.MaxUint64)
		return holds, cost, nil
	}, nil
}

// valid reports whether self is valid but for the rule: if it is, the server says so when it evaluates rules.
func (r *ruleRow) valid() (bool, error) {
	plain := r.schema.DeepCopy()
	withoutRules(plain)
	s, errs := structural.Parse(plain, nil)
	if len(errs) > 0 {
		return false, errs.ToAggregate()
	}
	p, err := schema.Compile(s, schema.Options{Resource: r.path == ""})
	if err != nil {
		return false, err
	}
	b, err := r.json(r.self)
	if err != nil {
		return false, err
	}
	var d jsondoc.Doc
	if _, err := p.Decode(&d, b); err != nil {
		return false, err
	}
	return len(p.Validate(context.Background(), &d, nil, schema.Whole).Errors) == 0, nil
}

// upstream returns a bare program of cel-go's, which counts no costs, and upstream's validation of the node, which does what an
// API server does for this rule.
func (r *ruleRow) upstream(data decodedLists) (bare, validation ruleSide, err error) {
	internal := new(apiextensions.JSONSchemaProps)
	if err := apiextv1.Convert_v1_JSONSchemaProps_To_apiextensions_JSONSchemaProps(r.schema, internal, nil); err != nil {
		return nil, nil, err
	}
	s, err := structuralschema.NewStructural(internal)
	if err != nil {
		return nil, nil, err
	}
	self, err := r.unstructured(r.self, data)
	if err != nil {
		return nil, nil, err
	}
	part := self
	if r.part != "" {
		if part, err = r.unstructured(r.part, data); err != nil {
			return nil, nil, err
		}
	}
	old, err := r.unstructured(r.old, data)
	if err != nil {
		return nil, nil, err
	}
	limit, budget := r.limits()
	validator := upstreamcel.NewValidator(s, r.path == "", limit)
	validation = func(ctx context.Context) (bool, uint64, error) {
		errs, left := validator.Validate(ctx, nil, s, part, old, budget)
		if len(errs) > 0 && !strings.Contains(errs[0].Detail, "failed rule") {
			return false, 0, errs.ToAggregate()
		}
		return len(errs) == 0, uint64(budget - left), nil
	}
	bare, err = r.bare(s, self, old)
	return bare, validation, err
}

// json is a value of the table in JSON. Large ones are in JSON already.
func (r *ruleRow) json(text string) ([]byte, error) {
	if r.large {
		return []byte(text), nil
	}
	return yaml.YAMLToJSON([]byte(text))
}

// unstructured is a value of the table as plain Go data.
func (r *ruleRow) unstructured(text string, data decodedLists) (any, error) {
	if v := data[text]; v != nil || text == "" {
		return v, nil
	}
	b, err := r.json(text)
	if err != nil {
		return nil, err
	}
	var v any
	if err := kjson.UnmarshalCaseSensitivePreserveInts(b, &v); err != nil {
		return nil, err
	}
	if r.large {
		data[text] = v
	}
	return v, nil
}

// bare runs the rule as a program that embeds cel-go would: no cost, no limit, plain Go data, constants optimized.
func (r *ruleRow) bare(s *structuralschema.Structural, self, old any) (ruleSide, error) {
	base, err := cel.NewEnv(cel.CrossTypeNumericComparisons(true), cel.OptionalTypes(), cel.DefaultUTCTimeZone(true),
		library.URLs(), library.Regex(), library.Lists(), library.Quantity(), library.IP(), library.CIDR(), library.Format(), library.SemverLib(),
		ext.Strings(ext.StringsVersion(2)), ext.Sets(), ext.TwoVarComprehensions())
	if err != nil {
		return nil, err
	}
	decl := model.SchemaDeclType(s, r.path == "").MaybeAssignTypeName("selfType")
	options, err := apiservercel.NewDeclTypeProvider(decl).EnvOptions(base.CELTypeProvider())
	if err != nil {
		return nil, err
	}
	env, err := base.Extend(append(options, cel.Variable("self", decl.CelType()), cel.Variable("oldSelf", decl.CelType()))...)
	if err != nil {
		return nil, err
	}
	ast, issues := env.Compile(r.rule)
	if issues.Err() != nil {
		return nil, issues.Err()
	}
	program, err := env.Program(ast, cel.EvalOptions(cel.OptOptimize))
	if err != nil {
		return nil, err
	}
	vars := map[string]any{"self": self, "oldSelf": old}
	run := func(context.Context) (bool, uint64, error) {
		v, _, err := program.Eval(vars)
		return v == types.True, 0, err
	}
	if _, _, err := run(nil); err != nil {
		// Names that are escaped, and formats, are only in Kubernetes' view of the data.
		vars["self"] = upstreamcel.UnstructuredToVal(self, s)
		if old != nil {
			vars["oldSelf"] = upstreamcel.UnstructuredToVal(old, s)
		}
	}
	return run, nil
}

// ruleTrial is a row that is being measured.
type ruleTrial struct {
	row   *ruleRow
	cost  uint64
	sides []ruleSide  // ours, a bare program, upstream, and of a row that is kept ours over two documents
	times []int       // evaluations of a turn
	took  [][]float64 // nanoseconds for one evaluation, by round
}

// prepare compiles the rule for the three sides and compares what they say.
func (r *ruleRow) prepare(ctx context.Context, data decodedLists) (*ruleTrial, error) {
	t := &ruleTrial{row: r, sides: make([]ruleSide, 3)}
	var err error
	if t.sides[0], err = r.ours(!r.kept()); err != nil {
		return nil, err
	}
	if t.sides[1], t.sides[2], err = r.upstream(data); err != nil {
		return nil, err
	}
	if r.kept() {
		apart, err := r.ours(true)
		if err != nil {
			return nil, err
		}
		t.sides = append(t.sides, apart)
	}
	costs := make([]uint64, len(t.sides))
	for i, side := range t.sides {
		holds, cost, err := side(ctx)
		if err != nil || holds == r.fails {
			return nil, fmt.Errorf("side %d: holds is %t, error %v", i, holds, err)
		}
		costs[i] = cost
	}
	t.cost = costs[0]
	if apart := costs[len(costs)-1]; r.kept() && apart != t.cost {
		return nil, fmt.Errorf("costs differ: %d, %d over two documents", t.cost, apart)
	}
	if err := r.sameCost(ctx, costs[0], costs[2]); err != nil {
		return nil, err
	}
	t.took = make([][]float64, len(t.sides))
	for _, side := range t.sides {
		t.times = append(t.times, calibrate(ctx, side))
	}
	return t, nil
}

// turn measures the sides one after the other.
func (t *ruleTrial) turn(ctx context.Context) {
	for i, side := range t.sides {
		if !t.row.large {
			_, _, _ = side(ctx) // other rows were in the caches
		}
		took := timeOf(ctx, side, t.times[i])
		if i == 2 && t.row.part != "" {
			took *= parts
		}
		t.took[i] = append(t.took[i], took)
	}
}

// ruleResult is what was measured for a row.
type ruleResult struct {
	row                  *ruleRow
	cost                 uint64
	ours, bare, upstream float64 // nanoseconds for one evaluation, the least of the rounds
	xBare, xUpstream     float64 // medians of the rounds' ratios
	allocations          float64
	apart                float64 // as ours, over two documents; 0 if the row is not kept
}

// result sums the rounds up.
func (t *ruleTrial) result(ctx context.Context) *ruleResult {
	ours, bare, upstream := t.took[0], t.took[1], t.took[2]
	g := &ruleResult{
		row: t.row, cost: t.cost,
		ours: slices.Min(ours), bare: slices.Min(bare), upstream: slices.Min(upstream),
		xBare: median(quotients(bare, ours)), xUpstream: median(quotients(upstream, ours)),
		allocations: allocations(t.times[0], func() { _, _, _ = t.sides[0](ctx) }),
	}
	if t.row.kept() {
		g.apart = slices.Min(t.took[3])
	}
	return g
}

// sameCost compares the costs of both sides; those of a row with a part, for the part.
func (r *ruleRow) sameCost(ctx context.Context, ours, upstream uint64) error {
	if r.part != "" {
		row := *r
		row.self = r.part
		side, err := row.ours(!row.kept())
		if err != nil {
			return err
		}
		if _, ours, err = side(ctx); err != nil {
			return err
		}
	}
	if ours != upstream {
		return fmt.Errorf("costs differ: %d, upstream %d", ours, upstream)
	}
	return nil
}

// batch is how long one turn of a side takes at least: short beside the slices of time that a busy machine gives, so that most
// turns are not interrupted.
const batch = 100 * time.Microsecond

// calibrate is the number of evaluations that take a batch.
func calibrate(ctx context.Context, side ruleSide) int {
	for n := 1; ; n *= 2 {
		if took := timeOf(ctx, side, n) * float64(n); took >= float64(batch) {
			return n
		}
	}
}

// timeOf is the time of one of n evaluations, in nanoseconds.
func timeOf(ctx context.Context, side ruleSide, n int) float64 {
	start := time.Now()
	for range n {
		_, _, _ = side(ctx)
	}
	return float64(time.Since(start).Nanoseconds()) / float64(n)
}

// What the table is measured against.
const (
	wantUpstream = 30 // times faster than upstream's rule validation
	wantBare     = 10 // times faster than a bare program of cel-go's
	wantPerUnit  = 3  // nanoseconds for a unit of cost
)

func (g *ruleResult) perUnit() float64 { return g.ours / float64(max(g.cost, 1)) }

func (g *ruleResult) line() string {
	return fmt.Sprintf("%10.0f ns %10.0f bare %11.0f upstream  %6.1f x %7.1f x  %7d units %6.2f ns/unit %3.0f allocs  %s  %.90s",
		g.ours, g.bare, g.upstream, g.xBare, g.xUpstream, g.cost, g.perUnit(), g.allocations, g.row.place(), oneLine(g.row.rule))
}

func oneLine(rule string) string { return strings.Join(strings.Fields(rule), " ") }

// reportRules prints the table and writes it into documents.
func reportRules(done []*ruleResult, files string) error {
	table := rulesMarkdown(done)
	fmt.Println(table)
	var errs []error
	for file := range strings.SplitSeq(files, ",") {
		if file != "" {
			errs = append(errs, replaceBetween(file, "<!-- rules:begin -->", "<!-- rules:end -->", table))
		}
	}
	return errors.Join(errs...)
}

func rulesMarkdown(done []*ruleResult) string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s, %s, %d processors, %s, %s.\n\n", time.Now().UTC().Format("2006-01-02"), cpuModel(), runtime.NumCPU(), runtime.Version(), versions())
	b.WriteString("| rule | keelson ns | cel-go ns | upstream ns | x cel-go | x upstream | units | ns/unit | allocs |\n| --- |" + strings.Repeat(" ---: |", 8) + "\n")
	short := 0
	var bare, upstream []float64
	for _, g := range done {
		if g.xBare < wantBare || g.xUpstream < wantUpstream || g.perUnit() > wantPerUnit {
			short++
		}
		bare, upstream = append(bare, g.xBare), append(upstream, g.xUpstream)
		rule := oneLine(g.row.rule)
		if runes := []rune(rule); len(runes) > 70 {
			rule = string(runes[:67]) + "…"
		}
		verdict := ""
		switch {
		case g.row.fails:
			verdict = ", does not hold"
		case g.row.kept():
			verdict = fmt.Sprintf(", kept (%s ns over two documents)", figure(g.apart))
		}
		fmt.Fprintf(&b, "| `%s` <br> %s%s | %s | %s | %s | %s | %s | %d | %s | %.0f |\n", strings.ReplaceAll(rule, "|", "\\|"), g.row.place(), verdict,
			figure(g.ours), figure(g.bare), figure(g.upstream), mark(g.xBare, g.xBare < wantBare), mark(g.xUpstream, g.xUpstream < wantUpstream),
			g.cost, mark(g.perUnit(), g.perUnit() > wantPerUnit), g.allocations)
	}
	if len(done) > 0 {
		fmt.Fprintf(&b, "\n%d rows; the median row is %s x as fast as bare cel-go and %s x as fast as upstream's validation, the least %s x and %s x. Rows with a figure short of the aim (⚠): %d.\n",
			len(done), figure(median(bare)), figure(median(upstream)), figure(slices.Min(bare)), figure(slices.Min(upstream)), short)
	}
	return b.String()
}

// mark is a figure, with a sign if it is short of the aim.
func mark(v float64, short bool) string {
	if short {
		return "⚠ " + figure(v)
	}
	return figure(v)
}
