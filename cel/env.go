package cel

import (
	"fmt"
	"sync"

	"github.com/keelson-io/keelson/cel/internal/check"
	"github.com/keelson-io/keelson/cel/internal/eval"
	"github.com/keelson-io/keelson/kubernetes"
)

// This file defines Env, the declarations for all rules, and TypeSet, the types of one version of a
// kind.

// EnvOptions configures an Env. The zero value is the environment for new
// expressions of the newest version.
type EnvOptions struct {
	Version string // compatibility version such as "1.37"; empty is that of the release
	Stored  bool   // for stored expressions: functions of all versions that the release has are valid
	// Release is the release whose functions, estimates and types of schemas apply. The zero value
	// is the newest.
	Release kubernetes.Release
}

// Env has the libraries and macros, declared once. It is immutable and safe for concurrent use.
type Env struct {
	decls   *check.Declarations
	shared  *shared
	release kubernetes.Release
}

// Release returns the release of the options of e.
func (e *Env) Release() kubernetes.Release { return e.release }

// NewEnv returns the environment for o. It takes milliseconds, so that callers should share the
// result.
func NewEnv(o EnvOptions) (*Env, error) {
	decls, err := check.DeclarationsOf(o.Version, o.Stored, o.Release)
	if err != nil {
		return nil, err
	}
	return &Env{decls: decls, shared: newShared(), release: o.Release}, nil
}

// Added returns the sorted names of the functions and macros that e has and earlier does not, or
// not with all overloads, and the reserved words, if only e accepts them as names of fields. An expression that contains none of the names means the same in both.
func (e *Env) Added(earlier *Env) []string {
	return e.decls.Added(earlier.decls)
}

// TypeSet has the types of one version of a kind. It is safe for concurrent use.
type TypeSet struct {
	env    *Env
	check  *check.RuleChecker
	same   map[*Type]*Type // for each type of the tree, the equal type that is shared
	hashes hasher
	paths  eval.Paths

	mu sync.Mutex
}

// Types returns an empty TypeSet.
func (e *Env) Types() *TypeSet {
	return &TypeSet{env: e, check: check.NewRuleChecker(e.decls), same: map[*Type]*Type{}, hashes: hasher{e.shared.seed, map[*Type]uint64{}}}
}

// Release frees what only makes the next Compile faster. Programs stay valid.
func (ts *TypeSet) Release() {
	ts.check.Forget()
	ts.mu.Lock()
	defer ts.mu.Unlock()
	clear(ts.same)
	clear(ts.hashes.known)
	ts.paths.Forget()
}

// share returns the type equal to t that all sets of the Env share.
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

// Compile parses, checks and compiles an expression over self. Errors have upstream's texts.
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
	return ts.env.shared.put(key, p), nil
}

// quick is a fast path for common expressions without errors. It returns nil if compile must be
// called, which has the texts of errors.
func (ts *TypeSet) quick(expr string, self *Type, o CompileOptions) *Program {
	tree := ts.check.Quick(expr, self, o)
	if tree == nil {
		return nil
	}
	code, err := eval.CompileRule(ts.env.decls, &ts.paths, tree, self, o.OptionalOldSelf)
	if err != nil {
		return nil
	}
	cost, err := ts.env.decls.Estimate(tree, self)
	if err != nil {
		return nil
	}
	return &Program{source: expr, code: code, maxCost: cost, want: o.Want}
}

// compile is the plain path of Compile.
func (ts *TypeSet) compile(expr string, self *Type, o CompileOptions) (*Program, error) {
	checked, parsed, err := ts.check.Check(expr, self, o)
	if err != nil {
		return nil, err
	}
	code, err := eval.CompileRule(ts.env.decls, &ts.paths, checked, self, o.OptionalOldSelf)
	if err != nil {
		return nil, instantiationFailed(o, err)
	}
	cost, err := ts.env.decls.EstimateParsed(parsed, self, o)
	if err != nil {
		return nil, err
	}
	return &Program{source: expr, code: code, maxCost: cost, want: o.Want}, nil
}

// Explainer compiles a program once more, so that its result can be explained. The program must be of
// a TypeSet of e.
func (e *Env) Explainer(p *Program) (*Explainer, error) {
	return e.Types().Explainer(p.source, p.code.Self, CompileOptions{OptionalOldSelf: p.OptionalOldSelf(), Want: p.want})
}

// instantiationFailed returns the error of a checked expression that cannot be compiled. The texts
// are upstream's.
func instantiationFailed(o CompileOptions, err error) error {
	if o.Want == StringResult {
		return fmt.Errorf("messageExpression instantiation failed: %w", err)
	}
	return fmt.Errorf("program instantiation failed: %w", err)
}
