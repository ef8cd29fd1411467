package witness

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"strings"

	"github.com/google/cel-go/common/ast"
	apiextv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"

	"github.com/keelson-io/keelson/cel"
	"github.com/keelson-io/keelson/jsondoc"
	"github.com/keelson-io/keelson/schema"
	"github.com/keelson-io/keelson/schema/structural"
)

// This file defines Search and its results.

// Options are the parameters of New besides the schema.
type Options struct {
	// Env is the environment that compiles rules. It must be set.
	Env *cel.Env
	// Operations may be shared by searches. It must be set.
	Operations *Operations
	// Resource: the root is a resource. Objects get APIVersion, Kind, and the name "example". If
	// Namespaced is set, they get the namespace "default".
	Resource         bool
	APIVersion, Kind string
	Namespaced       bool
	// Steps bounds the number of objects that a search makes. 0 means DefaultSteps.
	Steps int
}

// DefaultSteps is the bound of a search, in objects.
const DefaultSteps = 12_000

// Search looks for objects of one schema. It belongs to one goroutine at a time.
type Search struct {
	o        Options
	schema   *structural.Schema
	all      *schema.Program // with rules
	plain    *schema.Program // without rules
	rootType *cel.Type
	rules    []Rule
	trees    map[string]*ast.AST // parsed rules by text; nil if one cannot be parsed
	leaves   map[*structural.Schema]*schema.Program
	nested   map[*structural.Nested]*structural.Schema
	known    map[string][]string       // results of texts
	patterns map[string]*regexp.Regexp // nil if malformed
	start    *state
	started  bool

	ctx context.Context // of the current call
}

// Rule is a rule of the schema.
type Rule struct {
	// Path is the path of the node in the schema, such as .spec.rules[*].name: [*] stands for the
	// items of an array, {*} for the values of a map. It is "" for the root.
	Path  string
	Index int // of the rule at its node
	apiextv1.ValidationRule

	steps []any // the path: names, 0 for an item, anyKey for a value of a map
}

// anyKey is the step to a value of a map.
type anyKey struct{}

// String returns the path, index and text of the rule.
func (r Rule) String() string {
	return fmt.Sprintf("%s.x-kubernetes-validations[%d]: %s", r.Path, r.Index, strings.TrimSpace(r.Rule))
}

// Want is the result of a rule that a search looks for.
type Want uint8

const (
	Accept Want = iota // the rule is true, and the object is valid
	Refuse             // the rule is false
	Fail               // the rule fails with an error
)

// String returns the name of the result.
func (w Want) String() string { return [...]string{"accept", "refuse", "fail"}[w] }

// Result is the result of a search.
type Result struct {
	// Object is a small object for which the rule has the result, as JSON, nil if none was found.
	// Old is the object that it replaces; nil on create.
	Object, Old []byte
	// Place is the path of the value for which the rule has the result, such as .spec.rules[0].name.
	Place string
	// Also has the other rules that do not hold for a refused object. The search prefers objects
	// without them.
	Also []Rule
	// Steps is the number of objects that the search made.
	Steps int
	// Constant: there is no such object, and Reason has the proof. Otherwise, if Object is nil,
	// Reason says which bound ended the search.
	Constant bool
	Reason   string
}

// New returns a search over the objects of a schema.
func New(s *structural.Schema, o Options) (*Search, error) {
	if o.Env == nil || o.Operations == nil {
		return nil, errors.New("witness: Options.Env and Options.Operations must be set")
	}
	if o.Steps == 0 {
		o.Steps = DefaultSteps
	}
	out := &Search{o: o, schema: s, trees: map[string]*ast.AST{}, leaves: map[*structural.Schema]*schema.Program{}, nested: map[*structural.Nested]*structural.Schema{}, known: map[string][]string{}, patterns: map[string]*regexp.Regexp{},
		ctx: context.Background()}
	var err error
	if out.all, err = schema.Compile(s, schema.Options{Resource: o.Resource, Env: o.Env}); err != nil {
		return nil, err
	}
	if out.plain, err = schema.Compile(bare(s, map[*structural.Schema]*structural.Schema{}), schema.Options{Resource: o.Resource}); err != nil {
		return nil, err
	}
	if out.rootType, err = out.all.RootType(); err != nil {
		return nil, err
	}
	out.collect(s, "", nil)
	return out, nil
}

// Expression returns a search over the objects of s, and the rule in it that is expr at the root of
// s. s is not changed.
func Expression(s *structural.Schema, expr string, o Options) (*Search, Rule, error) {
	root := *s
	root.Rules = append(root.Rules[:len(root.Rules):len(root.Rules)], apiextv1.ValidationRule{Rule: expr})
	out, err := New(&root, o)
	if err != nil {
		return nil, Rule{}, err
	}
	return out, out.rules[len(root.Rules)-1], nil
}

// collect adds the rules at and below a node, parents first.
func (s *Search) collect(n *structural.Schema, path string, steps []any) {
	if n == nil {
		return
	}
	for i, r := range n.Rules {
		s.rules = append(s.rules, Rule{Path: path, Index: i, ValidationRule: r, steps: steps})
	}
	below := func(step any) []any { return append(steps[:len(steps):len(steps)], step) }
	for _, name := range n.Names {
		s.collect(n.Properties[name], path+"."+name, below(name))
	}
	s.collect(n.Items, path+"[*]", below(0))
	s.collect(n.Additional, path+"{*}", below(anyKey{}))
}

// Rules returns the rules of the schema, those of a node before those of the nodes below it.
func (s *Search) Rules() []Rule { return s.rules }

// tree returns the parsed expression, nil if it cannot be parsed.
func (s *Search) tree(text string) ast.Expr {
	out, ok := s.trees[text]
	if !ok {
		var err error
		if out, err = s.o.Operations.parse(text); err != nil {
			out = nil
		}
		s.trees[text] = out
	}
	if out == nil {
		return nil
	}
	return out.Expr()
}

// usesOld reports whether a rule reads oldSelf.
func (s *Search) usesOld(text string) bool {
	e := s.tree(text)
	found := false
	if e != nil {
		ast.PreOrderVisit(e, ast.NewExprVisitor(func(e ast.Expr) { found = found || isIdent(e, "oldSelf") }))
	}
	return found
}

// IsTransition reports whether a rule reads oldSelf.
func (s *Search) IsTransition(rule Rule) bool { return s.usesOld(rule.ValidationRule.Rule) }

// optionalOld reports whether oldSelf is an optional value in a rule.
func optionalOld(r *apiextv1.ValidationRule) bool {
	return r.OptionalOldSelf != nil && *r.OptionalOldSelf
}

// Find looks for a small object for which a rule has a result. The rest of the object is valid if
// possible: see Result.Also. The context ends the search early.
func (s *Search) Find(ctx context.Context, rule Rule, want Want) Result {
	s.ctx = ctx
	if s.tree(rule.ValidationRule.Rule) == nil {
		return Result{Reason: "the search cannot parse the rule"}
	}
	var partial *state
	steps := 0
	starts := []bool{s.usesOld(rule.ValidationRule.Rule)}
	if starts[0] && optionalOld(&rule.ValidationRule) {
		starts = []bool{false, true}
	}
	t := target{rule: rule, want: want}
	for i, width := range widths {
		if i == 1 && partial == nil { // the search was not easy: perhaps there is a proof that it is in vain
			if reason, ok := s.prove(ctx, rule, want); ok {
				return Result{Steps: steps, Constant: true, Reason: reason}
			}
		}
		for _, update := range starts {
			r := s.run(ctx, width)
			st := r.begin(rule, update)
			if st == nil {
				continue
			}
			found, half := r.achieve(st, &t)
			steps += r.steps
			if found != nil {
				return s.result(ctx, found, &t, steps)
			}
			if partial == nil {
				partial = half
			}
		}
		if ctx.Err() != nil || steps >= s.o.Steps || partial != nil && width >= 4 {
			break
		}
	}
	if partial != nil {
		t.partial = true
		return s.result(ctx, partial, &t, steps)
	}
	if err := s.compiles(rule); err != nil {
		return Result{Steps: steps, Reason: "the rule does not compile: " + err.Error()}
	}
	out := Result{Steps: steps, Reason: fmt.Sprintf("none among the %d objects that the search made", steps)}
	if ctx.Err() != nil {
		out.Reason = fmt.Sprintf("none before the time was up, after %d objects", steps)
	}
	return out
}

// compiles returns the reason why a rule does not compile.
func (s *Search) compiles(rule Rule) error {
	single := bare(s.node(rule), map[*structural.Schema]*structural.Schema{})
	single.Rules = append(single.Rules, rule.ValidationRule)
	p, err := schema.Compile(single, schema.Options{Env: s.o.Env, Resource: s.o.Resource && len(rule.steps) == 0})
	if err != nil {
		return err
	}
	_, err = p.RootRules()
	return err
}

// widths are the numbers of alternatives at each choice, of one attempt after the other.
var widths = []int{2, 4, 8, 16}

// run returns a run with a share of the steps.
func (s *Search) run(ctx context.Context, width int) *run {
	return &run{s: s, ctx: ctx, width: width, max: s.o.Steps * width / 32, maxEvals: 8000 * width}
}

// result shrinks a state and returns it as a Result.
func (s *Search) result(ctx context.Context, st *state, t *target, steps int) Result {
	r := &run{s: s, ctx: ctx, width: 4, max: 4000, maxEvals: 1 << 30}
	st = r.shrink(st, t)
	out := Result{Steps: steps + r.steps}
	j := r.judge(st, t)
	out.Place, out.Also = pathText(j.place), j.also
	out.Object = s.text(st.new)
	if st.old != nil {
		out.Old = s.text(st.old)
	}
	return out
}

// text returns a tree as JSON, without the members that defaults add again.
func (s *Search) text(t tree) []byte {
	full, d, want := s.normalize(t)
	if d == nil {
		panic("BUG: a state does not decode")
	}
	s.strip(full, nil, func(path []any) bool {
		less := without(full, path)
		if _, _, got := s.normalize(less); string(got) == string(want) {
			full = less
			return true
		}
		return false
	})
	return appendTree(full)
}

// strip calls drop for the members below t that have a default, until it returns false for each.
func (s *Search) strip(t tree, path []any, drop func([]any) bool) {
	below := func(step any) []any { return append(path[:len(path):len(path)], step) }
	switch t := t.(type) {
	case map[string]any:
		for _, name := range sortedNames(t) {
			n := s.schemaAt(below(name))
			if n != nil && n.Default != nil && drop(below(name)) {
				continue
			}
			s.strip(t[name], below(name), drop)
		}
	case []any:
		for i := range t {
			s.strip(t[i], below(i), drop)
		}
	}
}

// appendTree returns a tree as JSON. apiVersion, kind and metadata come first.
func appendTree(t tree) []byte {
	text := marshal(t)
	m, ok := t.(map[string]any)
	if !ok {
		return text
	}
	b := []byte{'{'}
	add := func(name string) {
		if v, ok := m[name]; ok {
			if len(b) > 1 {
				b = append(b, ',')
			}
			b = append(jsondoc.AppendQuoted(b, name), ':')
			b = append(b, marshal(v)...)
		}
	}
	first := []string{"apiVersion", "kind", "metadata"}
	for _, name := range first {
		add(name)
	}
	for _, name := range sortedNames(m) {
		if name != first[0] && name != first[1] && name != first[2] {
			add(name)
		}
	}
	return append(b, '}')
}

// Minimal returns the smallest valid object that the search finds, as JSON, and nil if it finds
// none.
func (s *Search) Minimal(ctx context.Context) []byte {
	s.ctx = ctx
	t := target{any: true}
	for _, width := range widths {
		r := s.run(ctx, width)
		st := r.origin()
		if st == nil {
			return nil
		}
		if found, _ := r.achieve(st, &t); found != nil {
			r := &run{s: s, ctx: ctx, width: 4, max: 4000, maxEvals: 1 << 30}
			return s.text(r.shrink(found, &t).new)
		}
	}
	return nil
}

// origin returns the state of the smallest object, which may not be valid.
func (r *run) origin() *state {
	s := r.s
	if !s.started {
		s.started = true
		t := s.minimal(s.schema, 0)
		if m, ok := t.(map[string]any); ok && s.o.Resource {
			meta := map[string]any{"name": "example"}
			if s.o.Namespaced {
				meta["namespace"] = "default"
			}
			m["apiVersion"], m["kind"], m["metadata"] = s.o.APIVersion, s.o.Kind, meta
		}
		s.start = newState(s, t, nil)
	}
	return s.start
}

// begin returns the first state of a search: a small object with a value for the rule. If update is
// set, it replaces an equal one. It returns nil if there is no such object.
func (r *run) begin(rule Rule, update bool) *state {
	st := r.origin()
	if st == nil {
		return nil
	}
	st = r.ensure(st, rule, false)
	if st != nil && update {
		st, _ = r.make(st.new, st.new)
	}
	return st
}

// ensure returns a state in which there is a value for the rule in one of the objects.
func (r *run) ensure(st *state, rule Rule, old bool) *state {
	at := ref{old: old}
	for _, step := range rule.steps {
		switch step := step.(type) {
		case string:
			at = at.child(step)
		case int:
			at = at.child(step)
		case anyKey:
			now, _ := st.get(at)
			m, _ := now.(map[string]any)
			name := "a"
			if names := sortedNames(m); len(names) > 0 {
				name = names[0]
			}
			at = at.child(name)
		}
		if v := st.value(at); exists(v) {
			continue
		}
		next, ok := r.put(st, at, r.s.minimal(r.s.schemaAt(at.path), 0))
		if !ok {
			return nil
		}
		st = next
	}
	return st
}
