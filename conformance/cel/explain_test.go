package cel_test

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"regexp"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/google/cel-go/cel"
	"github.com/google/cel-go/common/types"
	"github.com/google/cel-go/common/types/ref"
	"github.com/google/cel-go/common/types/traits"

	kcel "github.com/keelson-io/keelson/cel"
)

// This file checks explanations of random expressions on random data. cel-go works bottom-up: given
// the reported values of the parts of a part, it computes the reported value of the part.

var (
	explainCases = flag.Int64("explain.cases", 5_000, "explain this many evaluations")
	explainSeed  = flag.Uint64("explain.seed", 1, "where the random expressions of explanations begin")
)

// partsCheck is a run.
type partsCheck struct {
	t                     *testing.T
	cases, parts, skipped atomic.Int64
	differences           atomic.Int64
}

// TestExplanations explains random evaluations. The result and the cost must be those of the usual
// program, and each part must follow from its parts.
func TestExplanations(t *testing.T) {
	c := &partsCheck{t: t}
	var seed atomic.Uint64
	seed.Store(*explainSeed)
	var workers sync.WaitGroup
	for range runtime.GOMAXPROCS(0) {
		workers.Go(func() {
			for c.cases.Load() < *explainCases && c.differences.Load() < 8 {
				c.world(seed.Add(1) - 1)
			}
		})
	}
	workers.Wait()
	t.Logf("%d evaluations, %d parts computed by cel-go from their parts, %d parts that cannot be", c.cases.Load(), c.parts.Load(), c.skipped.Load())
	if c.parts.Load() < c.cases.Load()/2 {
		t.Errorf("cel-go computed only %d parts of %d evaluations", c.parts.Load(), c.cases.Load())
	}
}

// explained is an expression with its data.
type explained struct {
	explainer *kcel.Explainer
	env       *cel.Env
	run       func(i int) (*kcel.Explanation, outcome) // and the outcome of the usual program
}

// world explains expressions in the world of a seed.
func (c *partsCheck) world(seed uint64) {
	r := rand.New(rand.NewPCG(seed, 17))
	var w world
	if seed%8 >= 5 {
		w = newPlainWorld(c.t, r, dataPerWorld, plainKind{general: seed%8 == 7, untyped: seed%24 >= 16})
	} else {
		w = newSchemaWorld(c.t, r, dataPerWorld)
	}
	wr := &writer{Rand: r, g: w.grammar(), words: w.vocabulary()}
	for range expressionsPerWorld {
		of := wr.anyType()
		if wr.one(2) {
			of = scalarTypes[0]
		}
		text := wr.expression(of, 1+wr.IntN(4)).String()
		e := c.compile(w, text)
		if e == nil {
			continue
		}
		for i := range w.data() {
			if c.cases.Add(1) > *explainCases || c.differences.Load() >= 8 {
				return
			}
			if wrong := c.check(e, i); wrong != "" {
				c.differences.Add(1)
				c.t.Errorf("seed %d: %s\n\t%s\n\t%s", seed, text, wrong, w.describe(i, text))
				break
			}
		}
	}
}

// compile returns nil for an expression that does not compile.
func (c *partsCheck) compile(w world, text string) *explained {
	const limit = perCallLimit
	pair, _, _ := w.compile(text, limit)
	ctx := context.Background()
	switch p := pair.(type) {
	case *schemaPair:
		e, err := p.w.our.types.Explainer(text, p.w.our.self, kcel.CompileOptions{Want: kcel.AnyResult, OptionalOldSelf: p.w.optional})
		if err != nil {
			c.t.Errorf("%s: %v", text, err)
			return nil
		}
		return &explained{e, p.w.up.env, func(i int) (*kcel.Explanation, outcome) {
			one := &p.w.cases[i]
			p.a.Self, p.a.OldSelf, p.a.HasOldSelf, p.a.Valid = one.docs[i%2], one.olds[i%2], one.old != nil, one.valid
			plain := evaluated(p.program.Eval(ctx, &p.a, limit))
			return e.EvalRule(ctx, &p.a, limit), plain
		}}
	case *plainPair:
		e, err := p.x.Explainer()
		if err != nil {
			c.t.Errorf("%s: %v", text, err)
			return nil
		}
		return &explained{e, p.w.env, func(i int) (*kcel.Explanation, outcome) {
			return e.Eval(ctx, p.w.ours[i], limit), evaluated(p.x.Eval(ctx, p.w.ours[i], limit))
		}}
	}
	return nil
}

// check explains the evaluation of datum i. It returns what is wrong.
func (c *partsCheck) check(e *explained, i int) string {
	x, want := e.run(i)
	if got := evaluated(x.Value, x.Cost, x.Err); got != want {
		return fmt.Sprintf("the explained result is %v, not %v", got, want)
	}
	if errors.Is(x.Err, kcel.ErrCostLimit) {
		return ""
	}
	root := x.Root(kcel.ShowOptions{MaxParts: 100_000})
	return c.part(e, &root)
}

// part checks a part and its parts.
func (c *partsCheck) part(e *explained, p *kcel.Part) string {
	for i := range p.Parts {
		if wrong := c.part(e, &p.Parts[i]); wrong != "" {
			return wrong
		}
	}
	if p.Outcome == kcel.PartUnevaluated || len(p.Parts) == 0 {
		return ""
	}
	source := e.explainer.Source()
	text, vars, ok := e.substitute(p)
	if !ok {
		c.skipped.Add(1)
		return ""
	}
	ast, issues := e.env.Parse(text)
	if issues.Err() != nil {
		return fmt.Sprintf("the part %q with variables for its parts is %q: %v", source[p.Start:p.End], text, issues.Err())
	}
	prog, err := program(e.env, ast)
	if err != nil {
		c.skipped.Add(1)
		return ""
	}
	got := func() (o outcome) {
		defer func() {
			if r := recover(); r != nil {
				o = outcome{err: fmt.Sprint(panicked, r)}
			}
		}()
		v, _, err := prog.Eval(vars)
		if err != nil {
			return outcome{err: err.Error()}
		}
		return outcome{value: render(v)}
	}()
	want := outcome{err: p.Error}
	if p.Outcome == kcel.PartValue {
		want = outcome{value: render(kcel.ToRef(p.Value))}
	}
	c.parts.Add(1)
	if got != want && !excusedPart(text, got, want) {
		return fmt.Sprintf("the part %q is %v; cel-go computes %v from %s", source[p.Start:p.End], want, got, text)
	}
	return ""
}

// quantifier matches the text behind the range of a macro whose result follows from the results of
// the elements.
var quantifier = regexp.MustCompile(`^\s*\.\s*(all|exists|exists_one|existsOne)\s*\(`)

// substitute returns the text of a part with a variable in place of each of its parts.
func (e *explained) substitute(p *kcel.Part) (text string, vars map[string]any, ok bool) {
	source := e.explainer.Source()
	vars = map[string]any{}
	if p.Loop != nil {
		m := quantifier.FindStringSubmatch(source[p.Parts[0].End:p.End])
		if m == nil || len(p.Loop.Results) != p.Loop.Elements {
			return "", nil, false
		}
		list := []ref.Val{}
		for _, r := range p.Loop.Results {
			if r.Kind() == kcel.KindError {
				return "", nil, false
			}
			list = append(list, kcel.ToRef(r))
		}
		vars["results"] = types.NewRefValList(types.DefaultTypeAdapter, list)
		return "results." + strings.Replace(m[1], "existsOne", "exists_one", 1) + "(r, r)", vars, true
	}
	var b strings.Builder
	if !e.replace(&b, p, vars) {
		return "", nil, false
	}
	return b.String(), vars, !declares.MatchString(source[p.Start:p.End])
}

// notEvaluated is the error that stands for a part on which nothing may depend.
const notEvaluated = "a part that was not evaluated"

// replace writes the text of a part with a variable in place of each of its parts. Values of libraries,
// which have other Go types there, are replaced by the text that computes them.
func (e *explained) replace(b *strings.Builder, p *kcel.Part, vars map[string]any) bool {
	source := e.explainer.Source()
	at := p.Start
	for i := range p.Parts {
		child := &p.Parts[i]
		if child.Start < at {
			return false
		}
		b.WriteString(source[at:child.Start] + "(")
		at = child.End
		if child.Outcome == kcel.PartValue && isOpaque(kcel.ToRef(child.Value)) {
			if child.Loop != nil || len(child.Parts) == 0 && child.Path != "" || !e.replace(b, child, vars) {
				return false
			}
			b.WriteString(")")
			continue
		}
		name := fmt.Sprintf("part%d", len(vars))
		b.WriteString(name + ")")
		switch child.Outcome {
		case kcel.PartValue:
			vars[name] = kcel.ToRef(child.Value)
		case kcel.PartUnevaluated:
			vars[name] = types.NewErr(notEvaluated)
		default:
			vars[name] = types.NewErr("%s", child.Error)
		}
	}
	b.WriteString(source[at:p.End])
	return true
}

// isOpaque reports whether a value is or has a value of a library.
func isOpaque(v ref.Val) bool {
	switch v := v.(type) {
	case *types.Optional:
		return v.HasValue() && isOpaque(v.GetValue())
	case traits.Lister:
		for it := v.Iterator(); it.HasNext() == types.True; {
			if isOpaque(it.Next()) {
				return true
			}
		}
		return false
	case traits.Mapper:
		for it := v.Iterator(); it.HasNext() == types.True; {
			if key := it.Next(); key != nil && (isOpaque(key) || isOpaque(v.Get(key))) {
				return true
			}
		}
		return false
	case nil, types.Bool, types.Int, types.Uint, types.Double, types.String, types.Bytes, types.Null, types.Timestamp, types.Duration, *types.Type, *types.Err:
		return false
	}
	return true
}

// declares matches macros that declare a variable without a loop over their range.
var declares = regexp.MustCompile(`^cel\.(bind|block)|\.(optMap|optFlatMap|sortBy|transformList|transformMap|transformMapEntry)\(`)

// excusedPart reports whether a difference of a part is intended.
func excusedPart(text string, got, want outcome) bool {
	head, _, long := strings.Cut(want.err, " … ")
	switch {
	case strings.HasPrefix(want.err, goTypeError) && strings.HasPrefix(got.err, goTypeError): // Ledger: cel-go-types
	case strings.HasPrefix(got.err, panicked): // Ledger: cel-panics
	case strings.HasSuffix(text, ".sum()") && got.value == "0": // the sum of no numbers has the type that the checker found
	case strings.HasPrefix(want.err, "no such overload: "): // the checker excluded overloads; a part is only parsed
	case got.err == notEvaluated && want.value == "false" && strings.Contains(text, "in ("): // x in [] is a constant, for which the left side is not evaluated
	case got.value == "none" && want.err != "" && strings.HasSuffix(text, "]"): // only at its start does a path look into an optional
	case long && strings.HasPrefix(got.err, head): // shortened
	default:
		return false
	}
	return true
}
