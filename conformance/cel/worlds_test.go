package cel_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"sync"
	"testing"

	"github.com/google/cel-go/cel"
	"github.com/google/cel-go/common/types"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema"
	schemacel "k8s.io/apiextensions-apiserver/pkg/apiserver/schema/cel"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/cel/model"
	"k8s.io/apimachinery/pkg/util/version"
	apiservercel "k8s.io/apiserver/pkg/cel"
	"k8s.io/apiserver/pkg/cel/environment"
	"k8s.io/apiserver/pkg/cel/library"

	kcel "github.com/keelson-io/keelson/cel"
	"github.com/keelson-io/keelson/jsondoc"
)

// This file makes worlds for random expressions: variables, data, and the two
// sides that evaluate.

// world is an environment on both sides with data for its variables.
type world interface {
	grammar() *grammar
	vocabulary() *vocabulary
	compile(expr string, limit uint64) (sides, outcome, outcome)
	data() int                          // number of data
	describe(i int, expr string) string // what of a datum an expression names
}

// sides is an expression that both sides accept.
type sides interface {
	overloads() map[string]bool // those that its calls have; false: one of several
	upstream(i int) outcome     // on datum i
	ours(i int) []outcome       // of every way to evaluate
	// breach says how evaluation in parts goes wrong, "" if it does not.
	breach(r *rand.Rand, i int) (breach, excuse string)
}

// vocabulary is what expressions can name.
type vocabulary struct {
	leaves map[string][]string               // by the text of their type
	has    []string                          // what has() can ask for
	paths  []string                          // what can be unknown
	types  []*types.Type                     // of members
	fields map[string]map[string]*types.Type // members of object types
}

func newVocabulary() *vocabulary {
	return &vocabulary{leaves: map[string][]string{}, fields: map[string]map[string]*types.Type{}}
}

// variable makes a variable and what it leads to known.
func (v *vocabulary) variable(name string, t *types.Type) {
	seen := map[string]bool{}
	for _, known := range v.types {
		seen[known.String()] = true
	}
	v.expand(name, t, 4, func(text string, t *types.Type) {
		v.leaves[t.String()] = append(v.leaves[t.String()], text)
		if isPath(text) {
			v.paths = append(v.paths, text)
		}
		if !seen[t.String()] && t.Kind() != types.DynKind {
			seen[t.String()] = true
			v.types = append(v.types, t)
		}
	}, func(text string) { v.has = append(v.has, text) })
}

// expand calls add with what a text leads to and has with what may be missing.
func (v *vocabulary) expand(text string, t *types.Type, depth int, add func(string, *types.Type), has func(string)) {
	add(text, t)
	if depth == 0 {
		return
	}
	switch t.Kind() {
	case types.StructKind:
		for _, name := range sortedKeys(v.fields[t.TypeName()]) {
			of := v.fields[t.TypeName()][name]
			has(text + "." + name)
			add(text+".?"+name, types.NewOptionalType(of))
			v.expand(text+"."+name, of, depth-1, add, has)
		}
	case types.ListKind:
		of := t.Parameters()[0]
		add(text+"[?0]", types.NewOptionalType(of))
		v.expand(text+"[0]", of, depth-1, add, has)
		add(text+"[1]", of)
	case types.MapKind:
		if of := t.Parameters()[1]; t.Parameters()[0].Kind() == types.StringKind {
			has(text + ".k")
			add(text+"[?'k']", types.NewOptionalType(of))
			v.expand(text+".k", of, depth-1, add, has)
			add(text+"['b']", of)
		}
	}
}

// objects makes the object types below a declaration known.
func (v *vocabulary) objects(d *apiservercel.DeclType) {
	switch {
	case d.IsObject():
		fields := map[string]*types.Type{}
		for name, f := range d.Fields {
			fields[name] = f.Type.CelType()
			v.objects(f.Type)
		}
		v.fields[d.TypeName()] = fields
	case d.ElemType != nil:
		v.objects(d.ElemType)
	}
}

var kubernetesGrammar = sync.OnceValue(func() *grammar {
	return newGrammar(environment.MustBaseEnvSet(version.MajorMinor(1, 37)).StoredExpressionsEnv())
})

// schemaWorld has self and oldSelf, typed by a schema.
type schemaWorld struct {
	g        *grammar
	words    *vocabulary
	schema   *schema.Structural
	text     []byte
	up       *upstream
	our      *subject
	language *kcel.Language
	cases    []schemaCase
	judge    *judge // nil: the root is a resource, whose metadata are not the schema's
	optional bool   // oldSelf is an optional
}

// schemaCase is a datum, on both sides.
type schemaCase struct {
	self, old  any // old is nil if there is none
	docs, olds [2]jsondoc.Value
	valid      bool // self is
	kept       bool // and it is what was there before
	vars       kcel.Vars
}

func newSchemaWorld(t testing.TB, r *rand.Rand, data int) *schemaWorld {
	node := (&schemaWriter{r}).object(3)
	if r.IntN(6) == 0 {
		node = (&schemaWriter{r}).typed(3)
	}
	text, err := json.Marshal(node)
	if err != nil {
		t.Fatal(err)
	}
	var props apiextensionsv1.JSONSchemaProps
	if err := json.Unmarshal(text, &props); err != nil {
		t.Fatal(err)
	}
	w := &schemaWorld{g: kubernetesGrammar().private(), words: newVocabulary(), text: text, schema: structuralOf(t, &props), optional: r.IntN(5) == 0}
	root := r.IntN(3) == 0 && node["additionalProperties"] == nil && node["type"] == "object"
	decl := model.SchemaDeclType(w.schema, root).MaybeAssignTypeName("selfType")
	old := decl.CelType()
	if w.optional {
		old = types.NewOptionalType(old)
	}
	w.up = &upstream{w.schema, root, decl, extended(t, []*apiservercel.DeclType{decl}, cel.Variable("self", decl.CelType()), cel.Variable("oldSelf", old))}
	w.our = newSubject(t, w.schema, root)
	if !root {
		w.judge = newJudge(t, &props)
	}
	w.words.objects(decl)
	w.words.variable("self", decl.CelType())
	w.words.variable("oldSelf", old)
	if !w.optional {
		var err error
		w.language, err = kcel.NewLanguage(kcel.LanguageOptions{Kubernetes: kcel.NewestKubernetes,
			Variables: []kcel.Variable{{Name: "self", Schema: w.our.self}, {Name: "oldSelf", Schema: w.our.self}}})
		if err != nil {
			t.Fatal(err)
		}
	}
	g := &generator{rand: r, words: allWords, wild: true}
	for i := range data {
		g.large = i == data-1
		w.cases = append(w.cases, w.newCase(t, g))
	}
	return w
}

func (w *schemaWorld) newCase(t testing.TB, g *generator) schemaCase {
	c := schemaCase{self: integers(g.value(w.schema, 0))}
	c.docs = w.our.documents(t, c.self)
	valid, keeps := w.judge.valid(t, c.self)
	c.valid = valid
	switch {
	case w.optional && g.rand.IntN(3) == 0:
	case g.rand.IntN(3) == 0:
		c.old, c.kept = c.self, keeps
	default:
		c.old = integers(g.value(w.schema, 0))
	}
	if c.old != nil {
		c.olds = w.our.documents(t, c.old)
	}
	c.vars = kcel.Vars{"self": kcel.FromDoc(c.docs[0], w.our.self)}
	if c.old != nil {
		c.vars["oldSelf"] = kcel.FromDoc(c.olds[0], w.our.self)
	}
	return c
}

// extended is Kubernetes' environment with more declarations.
func extended(t testing.TB, decls []*apiservercel.DeclType, options ...cel.EnvOption) *cel.Env {
	set, err := environment.MustBaseEnvSet(version.MajorMinor(1, 37)).Extend(environment.VersionedOptions{
		IntroducedVersion: version.MajorMinor(1, 0), EnvOptions: options, DeclTypes: decls,
	})
	if err != nil {
		t.Fatal(err)
	}
	return set.StoredExpressionsEnv()
}

func (w *schemaWorld) grammar() *grammar       { return w.g }
func (w *schemaWorld) vocabulary() *vocabulary { return w.words }
func (w *schemaWorld) data() int               { return len(w.cases) }
func (w *schemaWorld) describe(i int, _ string) string {
	self, _ := json.Marshal(w.cases[i].self)
	old, _ := json.Marshal(w.cases[i].old)
	return fmt.Sprintf("schema %s\n\tself %s\n\toldSelf %s (optional %t)", w.text, self, old, w.optional)
}

type schemaPair struct {
	w       *schemaWorld
	ast     *cel.Ast
	theirs  cel.Program
	program *kcel.Program
	x       *kcel.Expression // nil: oldSelf is optional, which a language has not
	limit   uint64
	a       kcel.Activation
}

func (w *schemaWorld) compile(expr string, limit uint64) (sides, outcome, outcome) {
	ast, prog, want := compileUpstream(w.up.env, expr, &sizes{w.up.decl}, limit)
	ours, err := w.our.types.Compile(expr, w.our.self, kcel.CompileOptions{Want: kcel.AnyResult, OptionalOldSelf: w.optional})
	if err != nil {
		return nil, want, outcome{compile: err.Error()}
	}
	p := &schemaPair{w: w, ast: ast, theirs: prog, program: ours, limit: limit}
	if w.language != nil {
		if p.x, err = w.language.CompileExpression(expr); err != nil {
			return nil, want, outcome{compile: "as a language: " + err.Error()}
		}
	}
	return p, want, outcome{estimate: ours.MaxCost()}
}

// compileUpstream compiles as kube-apiserver does.
func compileUpstream(env *cel.Env, expr string, s *sizes, limit uint64) (*cel.Ast, cel.Program, outcome) {
	ast, err := checked(env, expr)
	if err != nil {
		return nil, nil, outcome{compile: err.Error()}
	}
	est := &library.CostEstimator{SizeEstimator: s}
	prog, err := program(env, ast, cel.CostLimit(limit), cel.CostTracking(est), cel.InterruptCheckFrequency(100))
	if err != nil {
		return nil, nil, outcome{compile: "program instantiation failed: " + err.Error()}
	}
	cost, err := env.EstimateCost(ast, est)
	if err != nil {
		return nil, nil, outcome{compile: err.Error()}
	}
	return ast, prog, outcome{estimate: cost.Max}
}

// panicked begins what stands for the outcome of a panic.
const panicked = "internal error: "

// checked is env.Compile, which panics on some optional items.
func checked(env *cel.Env, expr string) (tree *cel.Ast, err error) {
	defer func() {
		if r := recover(); r != nil {
			tree, err = nil, fmt.Errorf("%s%v", panicked, r)
		}
	}()
	tree, issues := env.Compile(expr)
	if issues != nil {
		return nil, errors.New("compilation failed: " + issues.String())
	}
	return tree, nil
}

// program is env.Program, which panics on some constants.
func program(env *cel.Env, ast *cel.Ast, options ...cel.ProgramOption) (p cel.Program, err error) {
	defer func() {
		if r := recover(); r != nil {
			err = fmt.Errorf("%s%v", panicked, r)
		}
	}()
	return env.Program(ast, options...)
}

// overloadsOf are the overloads in a checked tree.
func overloadsOf(tree *cel.Ast) map[string]bool {
	found := map[string]bool{}
	for _, ref := range tree.NativeRep().ReferenceMap() {
		for _, id := range ref.OverloadIDs {
			found[id] = found[id] || len(ref.OverloadIDs) == 1
		}
	}
	return found
}

func (p *schemaPair) overloads() map[string]bool { return overloadsOf(p.ast) }

func (p *schemaPair) upstream(i int) outcome {
	c := &p.w.cases[i]
	vars := map[string]any{"self": schemacel.UnstructuredToVal(c.self, p.w.schema)}
	switch {
	case c.old == nil:
		vars["oldSelf"] = types.OptionalNone
	case p.w.optional:
		vars["oldSelf"] = types.OptionalOf(schemacel.UnstructuredToVal(c.old, p.w.schema))
	default:
		vars["oldSelf"] = schemacel.UnstructuredToVal(c.old, p.w.schema)
	}
	return evalUpstream(p.theirs, vars)
}

func evalUpstream(prog cel.Program, vars map[string]any) (o outcome) {
	v, details, err := prog.ContextEval(context.Background(), vars)
	if details != nil {
		o.cost = *details.ActualCost()
	}
	if err != nil {
		o.err = err.Error()
	} else {
		o.value = render(v)
	}
	return o
}

func (p *schemaPair) ours(i int) []outcome {
	c := &p.w.cases[i]
	var out []outcome
	for k := range c.docs {
		p.a.Self, p.a.OldSelf, p.a.HasOldSelf, p.a.Valid = c.docs[k], c.olds[k], c.old != nil, false
		alone := evaluated(p.program.Eval(context.Background(), &p.a, p.limit))
		out = append(out, alone, p.held(alone))
		if p.a.Valid = c.valid; c.valid {
			told := evaluated(p.program.Eval(context.Background(), &p.a, p.limit))
			out = append(out, told, p.held(told))
		}
		if c.kept {
			p.a.OldSelf, p.a.Kept = p.a.Self, true
			kept := evaluated(p.program.Eval(context.Background(), &p.a, p.limit))
			out = append(out, kept, p.held(kept))
			p.a.Kept = false
		}
	}
	if p.x != nil {
		out = append(out, evaluated(p.x.Eval(context.Background(), c.vars, p.limit)))
	}
	return out
}

// held is the outcome where the program is one of several tests, which is evaluated differently: alone if it agrees.
func (p *schemaPair) held(alone outcome) outcome {
	tests := kcel.NewTests([]*kcel.Program{p.program})
	cost, holds := tests.Hold(context.Background(), &p.a, p.limit, math.MaxUint64)
	if want := alone.value == render(types.True); holds != want || cost != alone.cost {
		return outcome{cost: cost, value: fmt.Sprintf("as a test %t", holds)}
	}
	return alone
}

func (p *schemaPair) breach(r *rand.Rand, i int) (breach, excuse string) {
	if p.x == nil {
		return "", ""
	}
	return lawBreach(r, p.w.words, p.w.language, p.x, p.w.cases[i].vars)
}

// evaluated is the outcome of an evaluation of ours.
func evaluated(v kcel.Value, cost uint64, err error) outcome {
	if err != nil {
		return outcome{cost: cost, err: err.Error()}
	}
	return outcome{cost: cost, value: render(kcel.ToRef(v))}
}
