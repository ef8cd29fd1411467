package cel_test

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"regexp"
	"sync"
	"testing"
	"time"

	"github.com/google/cel-go/cel"
	"github.com/google/cel-go/checker"
	"github.com/google/cel-go/common/types"
	"github.com/google/cel-go/ext"
	"github.com/google/cel-go/interpreter"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/cel/library"

	kcel "github.com/keelson-io/keelson/cel"
)

// This file makes worlds of plain Go data, with Kubernetes' libraries and with
// those that are not Kubernetes'.

// plainWorld has variables of every type that a host can declare.
type plainWorld struct {
	g        *grammar
	words    *vocabulary
	env      *cel.Env
	language *kcel.Language
	theirs   []map[string]any
	ours     []kcel.Vars
	plainKind
}

// plainTypes are the types of the variables.
var plainTypes = map[string]*types.Type{
	"b": types.BoolType, "i": types.IntType, "u": types.UintType, "d": types.DoubleType, "s": types.StringType, "z": types.StringType,
	"y": types.BytesType, "t": types.TimestampType, "w": types.DurationType,
	"lb": types.NewListType(types.BoolType), "li": types.NewListType(types.IntType), "lu": types.NewListType(types.UintType),
	"ld": types.NewListType(types.DoubleType), "ls": types.NewListType(types.StringType), "ly": types.NewListType(types.BytesType),
	"lt": types.NewListType(types.TimestampType), "lw": types.NewListType(types.DurationType), "ll": types.NewListType(types.NewListType(types.IntType)),
	"ms": types.NewMapType(types.StringType, types.IntType), "mi": types.NewMapType(types.IntType, types.StringType),
	"mb": types.NewMapType(types.BoolType, types.DoubleType), "mu": types.NewMapType(types.UintType, types.BytesType),
	"ml": types.NewMapType(types.StringType, types.NewListType(types.StringType)), "x": types.DynType, "lx": types.NewListType(types.DynType),
	"mx": types.NewMapType(types.StringType, types.DynType), "os": types.NewOptionalType(types.StringType), "oi": types.NewOptionalType(types.IntType),
}

// authorizers are variables that data has not.
var authorizers = map[string]*types.Type{"authorizer": library.AuthorizerType, "authorizer.requestResource": library.ResourceCheckType}

// plainWorlds are made once: making a language takes a while.
var plainWorlds = map[plainKind]func() (*plainWorld, error){
	{}:                             sync.OnceValues(func() (*plainWorld, error) { return declarePlain(plainKind{}) }),
	{untyped: true}:                sync.OnceValues(func() (*plainWorld, error) { return declarePlain(plainKind{untyped: true}) }),
	{general: true}:                sync.OnceValues(func() (*plainWorld, error) { return declarePlain(plainKind{general: true}) }),
	{general: true, untyped: true}: sync.OnceValues(func() (*plainWorld, error) { return declarePlain(plainKind{general: true, untyped: true}) }),
}

// plainKind says which libraries there are, Kubernetes' or those that are not,
// and whether the variables are declared to be of any type.
type plainKind struct{ general, untyped bool }

func declarePlain(kind plainKind) (*plainWorld, error) {
	general := kind.general
	w := &plainWorld{words: newVocabulary(), plainKind: kind}
	var options []cel.EnvOption
	o := kcel.LanguageOptions{Kubernetes: kcel.NewestKubernetes}
	if general {
		o = kcel.LanguageOptions{LenientPresence: true, Libraries: []kcel.Library{kcel.OptionalLibrary, kcel.BindingsLibrary, kcel.ComprehensionLibrary,
			kcel.StringsLibrary, kcel.MathLibrary, kcel.EncodersLibrary, kcel.SetsLibrary, kcel.ListsLibrary}}
		options = []cel.EnvOption{cel.EagerlyValidateDeclarations(true), cel.DefaultUTCTimeZone(true), cel.CrossTypeNumericComparisons(true), cel.EnableIdentifierEscapeSyntax(),
			cel.OptionalTypes(), cel.CostEstimatorOptions(checker.PresenceTestHasCost(false)), ext.Bindings(), ext.TwoVarComprehensions(), ext.Strings(), ext.Math(), ext.Encoders(), ext.Sets(), ext.Lists()}
	}
	declare := func(variables map[string]*types.Type) {
		for _, name := range sortedKeys(variables) {
			t := variables[name]
			w.words.variable(name, t)
			if kind.untyped && (t.Kind() != types.OpaqueKind || isOptional(t)) {
				t = types.DynType
			}
			options = append(options, cel.Variable(name, t))
			o.Variables = append(o.Variables, kcel.Variable{Name: name, Type: t.String()})
		}
	}
	declare(plainTypes)
	if !general {
		declare(authorizers)
	}
	var err error
	if w.language, err = kcel.NewLanguage(o); err != nil {
		return nil, err
	}
	if general {
		w.env, err = cel.NewEnv(options...)
	} else {
		w.env = extended(nil, nil, options...)
	}
	if err != nil {
		return nil, err
	}
	w.g = newGrammar(w.env)
	if general {
		w.g.overloads = withoutIntended(w.g.overloads)
	}
	return w, nil
}

// definedOtherwise are the overloads that follow the definition of the language
// where cel-go does not.
var definedOtherwise = map[string]bool{
	"json_encode_dyn": true, "duration_to_milliseconds": true, "string_index_of_string_int": true, "string_last_index_of_string_int": true,
}

// withoutIntended are the overloads that a general language does not change on
// purpose: docs/compat.md says which it does.
func withoutIntended(all []overload) []overload {
	var out []overload
	for _, o := range all {
		if !definedOtherwise[o.id] {
			out = append(out, o)
		}
	}
	return out
}

func newPlainWorld(t testing.TB, r *rand.Rand, data int, kind plainKind) *plainWorld {
	shared, err := plainWorlds[kind]()
	if err != nil {
		t.Fatal(err)
	}
	w := *shared
	w.g = w.g.private()
	ann := &user.DefaultInfo{Name: "ann"}
	for range data {
		theirs, ours := map[string]any{}, kcel.Vars{}
		for _, name := range sortedKeys(plainTypes) {
			v := goValue(r, plainTypes[name], 2)
			value, err := kcel.FromGo(v)
			if err != nil {
				t.Fatal(err)
			}
			theirs[name], ours[name] = v, value
		}
		theirs["authorizer"] = library.NewAuthorizerVal(ann, theirPolicy{})
		theirs["authorizer.requestResource"] = library.NewResourceAuthorizerVal(ann, theirPolicy{}, podExec{})
		ours["authorizer"] = kcel.AuthorizerValue(ourPolicy{})
		ours["authorizer.requestResource"] = kcel.ResourceAuthorizerValue(ourPolicy{}, kcel.AccessCheck{Resource: "pods", Subresource: "exec", Namespace: "default", Name: "web"})
		w.theirs, w.ours = append(w.theirs, theirs), append(w.ours, ours)
	}
	return &w
}

// goValue is random Go data of a type, as programs have it.
func goValue(r *rand.Rand, t *types.Type, depth int) any {
	if isOptional(t) {
		if r.IntN(2) == 0 {
			return types.OptionalNone
		}
		return types.OptionalOf(types.DefaultTypeAdapter.NativeToValue(goValue(r, t.Parameters()[0], depth)))
	}
	n := min(r.IntN(5), 3)
	switch t.Kind() {
	case types.BoolKind:
		return r.IntN(2) == 0
	case types.IntKind:
		return [...]int64{0, 1, 2, 3, -1, 7, 100, 12345, math.MaxInt64, math.MinInt64, 1 << 53}[min(r.IntN(16), 10)]
	case types.UintKind:
		return [...]uint64{0, 1, 2, 3, 100, math.MaxUint64, 1 << 63}[r.IntN(7)]
	case types.DoubleKind:
		return [...]float64{0, 1, 1.5, -2.25, 3, 1e18, 1e300, math.NaN(), math.Inf(1), -0.001, 1 << 53}[r.IntN(11)]
	case types.StringKind:
		return allWords[r.IntN(len(allWords))]
	case types.BytesKind:
		return []byte([]string{"", "a", "hello", "\xff\x00", "é"}[r.IntN(5)])
	case types.TimestampKind:
		return []time.Time{time.Unix(0, 0).UTC(), time.Date(2024, 2, 29, 23, 59, 59, 123456789, time.UTC), time.Date(9999, 12, 31, 0, 0, 0, 0, time.UTC),
			time.Date(1, 1, 1, 0, 0, 0, 0, time.UTC), time.Date(2024, 5, 6, 7, 8, 9, 0, time.FixedZone("", 3600))}[r.IntN(5)]
	case types.DurationKind:
		return []time.Duration{0, time.Second, -time.Minute, 90 * time.Minute, math.MaxInt64, 1}[r.IntN(6)]
	case types.ListKind:
		return goList(r, t.Parameters()[0], n, depth)
	case types.MapKind:
		return goMap(r, t.Parameters()[0], t.Parameters()[1], depth)
	}
	if depth == 0 {
		return goValue(r, scalarTypes[r.IntN(len(scalarTypes))], 0)
	}
	switch r.IntN(6) {
	case 0:
		return nil
	case 1:
		return goList(r, types.DynType, n, depth-1)
	case 2:
		return goMap(r, types.StringType, types.DynType, depth-1)
	}
	return goValue(r, scalarTypes[r.IntN(len(scalarTypes))], 0)
}

// goList has a Go type of its own for some items.
func goList(r *rand.Rand, item *types.Type, n, depth int) any {
	var anys []any
	var ints []int64
	var texts []string
	for range n {
		v := goValue(r, item, depth)
		anys = append(anys, v)
		switch v := v.(type) {
		case int64:
			ints = append(ints, v)
		case string:
			texts = append(texts, v)
		}
	}
	switch {
	case item.Kind() == types.IntKind && r.IntN(2) == 0:
		return append([]int64{}, ints...)
	case item.Kind() == types.StringKind && r.IntN(2) == 0:
		return append([]string{}, texts...)
	}
	return append([]any{}, anys...)
}

// goMap has one entry at most, as a rule: with more, upstream's order is random.
func goMap(r *rand.Rand, key, item *types.Type, depth int) any {
	n := min(r.IntN(4), 1)
	if r.IntN(12) == 0 {
		n = 2
	}
	texts, others := map[string]any{}, map[any]any{}
	for range n {
		k := goValue(r, key, 0)
		if key.Kind() == types.StringKind && r.IntN(2) == 0 {
			k = "k"
		}
		v := goValue(r, item, depth)
		others[k] = v
		if s, ok := k.(string); ok {
			texts[s] = v
		}
	}
	if key.Kind() == types.StringKind {
		return texts
	}
	if key.Kind() == types.IntKind && item.Kind() == types.StringKind {
		out := map[int64]string{}
		for k, v := range others {
			out[k.(int64)] = v.(string)
		}
		return out
	}
	return others
}

func (w *plainWorld) grammar() *grammar       { return w.g }
func (w *plainWorld) vocabulary() *vocabulary { return w.words }
func (w *plainWorld) data() int               { return len(w.theirs) }
func (w *plainWorld) describe(i int, expr string) string {
	out := fmt.Sprintf("general %t, untyped %t", w.general, w.untyped)
	for _, name := range sortedKeys(plainTypes) {
		if !regexp.MustCompile(`\b` + name + `\b`).MatchString(expr) {
			continue
		}
		out += fmt.Sprintf("\n\t%s = %#v", name, w.theirs[i][name])
	}
	return out
}

type plainPair struct {
	w      *plainWorld
	ast    *cel.Ast
	theirs cel.Program
	x      *kcel.Expression
	limit  uint64
}

// noSizes knows no sizes.
type noSizes struct{}

func (noSizes) EstimateSize(checker.AstNode) *checker.SizeEstimate { return nil }
func (noSizes) EstimateCallCost(string, string, *checker.AstNode, []checker.AstNode) *checker.CallEstimate {
	return nil
}

func (w *plainWorld) compile(expr string, limit uint64) (sides, outcome, outcome) {
	x, got := ourOutcome(w.language, expr)
	ast, err := checked(w.env, expr)
	if err != nil {
		return nil, outcome{compile: err.Error()}, got
	}
	est := &library.CostEstimator{SizeEstimator: noSizes{}}
	options := []cel.ProgramOption{cel.CostLimit(limit), cel.CostTracking(est), cel.InterruptCheckFrequency(100)}
	if w.general {
		options = append(options, cel.EvalOptions(cel.OptOptimize, cel.OptTrackCost), cel.CostTrackerOptions(interpreter.PresenceTestHasCost(false)))
	}
	prog, err := program(w.env, ast, options...)
	switch {
	case err != nil && w.general: // constants that cannot be converted are errors when they are read
		return nil, outcome{}, outcome{}
	case err != nil:
		return nil, outcome{compile: "program instantiation failed: " + err.Error()}, got
	}
	cost, err := w.env.EstimateCost(ast, est)
	if err != nil {
		return nil, outcome{compile: err.Error()}, got
	}
	want := outcome{estimate: cost.Max}
	if x == nil {
		return nil, want, got
	}
	got.estimate = x.MaxCost()
	return &plainPair{w, ast, prog, x, limit}, want, got
}

func (p *plainPair) overloads() map[string]bool { return overloadsOf(p.ast) }
func (p *plainPair) upstream(i int) outcome     { return evalUpstream(p.theirs, p.w.theirs[i]) }
func (p *plainPair) ours(i int) []outcome {
	return []outcome{evaluated(p.x.Eval(context.Background(), p.w.ours[i], p.limit))}
}

func (p *plainPair) breach(r *rand.Rand, i int) (breach, excuse string) {
	return lawBreach(r, p.w.words, p.w.language, p.x, p.w.ours[i])
}
