package cel

import (
	"fmt"
	"maps"
	"slices"
	"sync"

	"github.com/google/cel-go/cel"
	"github.com/google/cel-go/checker"
	"github.com/google/cel-go/common/decls"
	"github.com/google/cel-go/common/functions"
	"github.com/google/cel-go/common/types"
)

// This file defines Env, the declarations that every rule is checked with, and
// TypeSet, those of one version of a kind.

// EnvOptions configures an Env. The zero value is the environment for new
// expressions of the newest version.
type EnvOptions struct {
	Version string // compatibility version such as "1.37"; empty is the newest
	Stored  bool   // for expressions that are already stored: whatever any version introduced is valid
}

// Env is the shared base environment: libraries and macros, declared once. It
// is immutable and safe for concurrent use.
type Env struct {
	base      *cel.Env     // parses; checks nothing of a schema
	check     *checker.Env // its declarations
	impls     map[string]*functions.Overload
	validator *validatorConfig
	keywords  bool // reserved words are names of fields
	grammar   *grammar
	checks    *checks
	shared    *shared
	shells    sync.Pool // *cel.Ast: cel-go's form of a tree, which only its parser makes
	plain     bool      // cel-go's validators are those that the quick parser knows
}

// NewEnv returns the environment that o describes. It takes milliseconds:
// share it.
func NewEnv(o EnvOptions) (*Env, error) {
	minor, err := minorVersion(o.Version)
	if err != nil {
		return nil, err
	}
	if o.Stored {
		minor = max(minor, newestMinor)
	}
	var options []cel.EnvOption
	for _, lib := range libraries() {
		if lib.from <= minor && (lib.until == 0 || minor < lib.until) {
			options = append(options, lib.options...)
		}
	}
	base, err := cel.NewEnv(options...)
	if err != nil {
		return nil, fmt.Errorf("environment %q: %w", o.Version, err)
	}
	return envOf(base, base.Functions(), minor >= 31)
}

// envOf is the Env of what cel-go's environment declares, with those functions.
func envOf(base *cel.Env, fns map[string]*decls.FunctionDecl, keywords bool) (*Env, error) {
	e := &Env{base: base, impls: map[string]*functions.Overload{}, validator: &validatorConfig{}, keywords: keywords, grammar: newGrammar(base), shared: newShared(), plain: true}
	var err error
	if e.check, err = newChecker(base, base.CELTypeProvider(), nil); err != nil {
		return nil, err
	}
	if err := e.check.AddIdents(base.Variables()...); err != nil {
		return nil, err
	}
	for _, fn := range fns {
		if !fn.IsDeclarationDisabled() {
			if err := e.check.AddFunctions(fn); err != nil {
				return nil, err
			}
		}
		bindings, err := fn.Bindings()
		if err != nil {
			return nil, err
		}
		for _, b := range bindings {
			e.impls[b.Operator] = b
		}
	}
	e.checks = newChecks(e, fns)
	for _, v := range base.Validators() {
		e.plain = e.plain && knownValidators[v.Name()]
		if cv, ok := v.(cel.ASTValidatorConfigurer); ok {
			if err := cv.Configure(e.validator); err != nil {
				return nil, err
			}
		}
	}
	return e, nil
}

// newChecker returns a checker; it starts with the declarations of from, if
// there is one.
func newChecker(base *cel.Env, provider types.Provider, from *checker.Env) (*checker.Env, error) {
	opts := []checker.Option{checker.CrossTypeNumericComparisons(hasCrossTypeComparisons(base))}
	if from != nil {
		opts = append(opts, checker.ValidatedDeclarations(from))
	}
	return checker.NewEnv(base.Container, provider, opts...)
}

// hasCrossTypeComparisons: they came together with optional types.
func hasCrossTypeComparisons(base *cel.Env) bool { return base.HasFunction("optional.of") }

// implementation is what a call runs, by its overload or else its function.
func (e *Env) implementation(overload, function string) *functions.Overload {
	if overload != "" {
		if impl, ok := e.impls[overload]; ok {
			return impl
		}
	}
	return e.impls[function]
}

// Added are the names of the functions and macros of e that earlier has not, or not with all their
// overloads, sorted. An expression in which none of them stands means the same in both, if the
// rest of the two is alike.
func (e *Env) Added(earlier *Env) []string {
	added := map[string]bool{}
	for name, fn := range e.base.Functions() {
		old := earlier.base.Functions()[name]
		for _, o := range fn.OverloadDecls() {
			known := old != nil && slices.ContainsFunc(old.OverloadDecls(), func(was *decls.OverloadDecl) bool { return was.ID() == o.ID() })
			added[name] = added[name] || !known
		}
	}
	macros := map[string]bool{}
	for _, m := range earlier.base.Macros() {
		macros[m.MacroKey()] = true
	}
	for _, m := range e.base.Macros() {
		added[m.Function()] = added[m.Function()] || !macros[m.MacroKey()]
	}
	maps.DeleteFunc(added, func(_ string, is bool) bool { return !is })
	return sortedNames(added)
}

// validatorConfig is what cel-go's validators of trees tell one another.
type validatorConfig struct{ values map[string]any }

func (c *validatorConfig) GetOrDefault(name string, value any) any {
	if v, ok := c.values[name]; ok {
		return v
	}
	return value
}

func (c *validatorConfig) Set(name string, value any) error {
	if c.values == nil {
		c.values = map[string]any{}
	}
	c.values[name] = value
	return nil
}

// TypeSet knows the types of one version of a kind. It is safe for concurrent
// use.
type TypeSet struct {
	env      *Env
	provider *provider
	same     map[*Type]*Type // the shared types equal to those of the tree
	hashes   hasher
	paths    paths

	mu   sync.Mutex
	last lastChecker // the rules of one node are compiled one after the other
}

type lastChecker struct {
	self     *Type
	optional bool
	env      *checker.Env
}

// Types returns an empty TypeSet.
func (e *Env) Types() *TypeSet {
	return &TypeSet{env: e, provider: newProvider(e), same: map[*Type]*Type{}, hashes: hasher{e.shared.seed, map[*Type]uint64{}}}
}

// Release forgets what was kept to make the next Compile cheap. Programs stay
// valid.
func (ts *TypeSet) Release() {
	ts.mu.Lock()
	defer ts.mu.Unlock()
	ts.last = lastChecker{}
	clear(ts.same)
	clear(ts.hashes.known)
	ts.provider.forget()
	ts.paths.forget()
}

// share is the type equal to t that the sets of an Env share.
func (ts *TypeSet) share(t *Type) *Type {
	ts.mu.Lock()
	defer ts.mu.Unlock()
	known, ok := ts.same[t]
	if !ok {
		known = ts.env.shared.typeOf(t, ts.hashes.of(t))
		ts.same[t] = known
	}
	return known
}

// checker is the checker for rules over self.
func (ts *TypeSet) checker(self *Type, optional bool) (*checker.Env, error) {
	ts.mu.Lock()
	defer ts.mu.Unlock()
	if ts.last.env != nil && ts.last.self == self && ts.last.optional == optional {
		return ts.last.env, nil
	}
	c, err := newChecker(ts.env.base, ts.provider, ts.env.check)
	if err != nil {
		return nil, err
	}
	t := ts.provider.celType(self)
	old := t
	if optional {
		old = types.NewOptionalType(t)
	}
	if err := c.AddIdents(newVariable("self", t), newVariable("oldSelf", old)); err != nil {
		return nil, err
	}
	ts.last = lastChecker{self, optional, c}
	return c, nil
}

// ResultKind is the type that an expression must have.
type ResultKind uint8

// The types an expression may be required to have. AnyResult requires nothing.
const (
	BoolResult ResultKind = iota
	StringResult
	AnyResult
)

// CompileOptions says what Compile needs to know beyond the types.
type CompileOptions struct {
	OptionalOldSelf bool       // oldSelf is an optional value
	Want            ResultKind // also chooses the words of errors: a rule's, or a messageExpression's
}

// Compile parses, checks and compiles an expression over self. The text of the
// error is upstream's.
func (ts *TypeSet) Compile(expr string, self *Type, o CompileOptions) (*Program, error) {
	self = ts.share(self)
	key := ts.env.shared.key(expr, self, o)
	if p := ts.env.shared.program(key, expr, self, o); p != nil {
		return p, nil
	}
	p, err := ts.quick(expr, self, o), error(nil)
	if p == nil {
		p, err = ts.compile(expr, self, o)
	}
	if err != nil {
		return nil, err
	}
	p.want = o.Want
	return ts.env.shared.put(key, p), nil
}

// compile is Compile, the long way.
func (ts *TypeSet) compile(expr string, self *Type, o CompileOptions) (*Program, error) {
	prefix := ""
	if o.Want == StringResult {
		prefix = "messageExpression "
	}
	parsed, issues := ts.env.base.Parse(expr)
	if issues.Err() != nil {
		return nil, fmt.Errorf("%scompilation failed: %s", prefix, issues)
	}
	env, err := ts.checker(self, o.OptionalOldSelf)
	if err != nil {
		return nil, fmt.Errorf("%scompilation failed: %w", prefix, err)
	}
	tree := parsed.NativeRep()
	checked, errs := checker.Check(tree, parsed.Source(), env)
	if len(errs.GetErrors()) > 0 {
		return nil, fmt.Errorf("%scompilation failed: %s", prefix, cel.NewIssuesWithSourceInfo(errs, tree.SourceInfo()))
	}
	if err := ts.env.validate(checked, parsed.Source()); err != nil {
		return nil, fmt.Errorf("%scompilation failed: %w", prefix, err)
	}
	output := checked.GetType(checked.Expr().ID())
	switch {
	case o.Want == BoolResult && !output.IsExactType(types.BoolType):
		return nil, fmt.Errorf("cel expression must evaluate to a bool")
	case o.Want == StringResult && !output.IsExactType(types.StringType):
		return nil, fmt.Errorf("messageExpression must evaluate to a string")
	}
	p := &Program{source: expr}
	for _, r := range checked.ReferenceMap() {
		p.usesOldSelf = p.usesOldSelf || r.Name == "oldSelf"
	}
	*tree = *checked // the estimate takes the tree that Parse returned
	if err := p.compile(ts, checked, self, o.OptionalOldSelf); err != nil {
		return nil, prefixed(prefix, err)
	}
	cost, err := ts.env.base.EstimateCost(parsed, &estimator{self: self})
	if err != nil {
		if prefix != "" {
			return nil, fmt.Errorf("cost estimation failed for messageExpression: %w", err)
		}
		return nil, fmt.Errorf("cost estimation failed: %w", err)
	}
	p.maxCost = cost.Max
	return p, nil
}

// prefixed says that a checked expression cannot be made a program.
func prefixed(prefix string, err error) error {
	if prefix == "" {
		prefix = "program "
	}
	return fmt.Errorf("%sinstantiation failed: %w", prefix, err)
}
