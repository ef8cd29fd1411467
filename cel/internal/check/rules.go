package check

import (
	"errors"
	"fmt"
	"sync"

	"github.com/keelson-io/keelson/internal/fastpath"

	"github.com/google/cel-go/cel"
	"github.com/google/cel-go/checker"
	"github.com/google/cel-go/common"
	"github.com/google/cel-go/common/ast"
	"github.com/google/cel-go/common/types"

	"github.com/keelson-io/keelson/cel/internal/val"
)

// This file checks rules over self: common expressions without errors with its own parser and
// checker, all others with cel-go's, which have the texts of errors.

// ResultKind is the type that an expression must have.
type ResultKind uint8

// The required types of an expression. AnyResult allows all types.
const (
	BoolResult ResultKind = iota
	StringResult
	AnyResult
)

// CompileOptions are the options of Compile.
type CompileOptions struct {
	OptionalOldSelf bool       // oldSelf is an optional value
	Want            ResultKind // also selects the texts of errors: a rule's, or a messageExpression's
}

// RuleChecker checks the rules of one version of a kind. It is safe for concurrent use.
type RuleChecker struct {
	decls    *Declarations
	Provider *Provider

	mu   sync.Mutex
	last lastChecker // for the rules of one node, which are compiled one after the other
}

// lastChecker is the checker that was used last, with its parameters.
type lastChecker struct {
	self     *val.Type
	optional bool
	env      *checker.Env
}

// NewRuleChecker returns a checker with those declarations.
func NewRuleChecker(d *Declarations) *RuleChecker {
	return &RuleChecker{decls: d, Provider: NewProvider(d)}
}

// Forget frees what is computed again if needed.
func (r *RuleChecker) Forget() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.last = lastChecker{}
	r.Provider.forget()
}

// Checker returns cel-go's checker for rules over self.
func (r *RuleChecker) Checker(self *val.Type, optional bool) (*checker.Env, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.last.env != nil && r.last.self == self && r.last.optional == optional {
		return r.last.env, nil
	}
	c, err := r.decls.checkerOf(r.Provider, r.Provider.CelType(self), optional)
	if err != nil {
		return nil, err
	}
	r.last = lastChecker{self, optional, c}
	return c, nil
}

// checkerOf returns cel-go's checker with self and oldSelf, whose types the provider has.
func (e *Declarations) checkerOf(p *Provider, self *types.Type, optional bool) (*checker.Env, error) {
	c, err := NewChecker(e.Base, p, e.Check)
	if err != nil {
		return nil, err
	}
	old := self
	if optional {
		old = types.NewOptionalType(self)
	}
	return c, c.AddIdents(NewVariable("self", self), NewVariable("oldSelf", old))
}

// CheckTree checks the types of a parsed expression, and what cel-go's validators look for.
func (e *Declarations) CheckTree(parsed *cel.Ast, env *checker.Env) (*ast.AST, error) {
	tree := parsed.NativeRep()
	checked, errs := checker.Check(tree, parsed.Source(), env)
	if len(errs.GetErrors()) > 0 {
		return nil, errors.New(cel.NewIssuesWithSourceInfo(errs, tree.SourceInfo()).String())
	}
	return checked, e.Validate(checked, parsed.Source())
}

// namedError returns the error of a rule with upstream's names of types, which depend on the node
// that has the rule. found is the error with names that rules cannot write: it stays if there is none
// with upstream's, because the rule writes one.
func (e *Declarations) namedError(found error, parser *cel.Env, expr string, self *val.Type, o CompileOptions) error {
	p := NewProvider(e)
	env, err := e.checkerOf(p, p.NamedType(self, "selfType"), o.OptionalOldSelf)
	if err != nil {
		return found
	}
	parsed, issues := parser.Parse(expr)
	if issues.Err() != nil {
		return found
	}
	if _, err := e.CheckTree(parsed, env); err != nil {
		return err
	}
	return found
}

// Check parses and checks an expression with cel-go. parsed is the form of the result that cel-go
// estimates.
func (r *RuleChecker) Check(expr string, self *val.Type, o CompileOptions) (checked *ast.AST, parsed *cel.Ast, err error) {
	return r.checkIn(r.decls.Base, expr, self, o)
}

// CheckTracked is Check for a tree that has the calls of macros as they were written.
func (r *RuleChecker) CheckTracked(expr string, self *val.Type, o CompileOptions) (*ast.AST, error) {
	parser, err := r.decls.tracking()
	if err != nil {
		return nil, err
	}
	checked, _, err := r.checkIn(parser, expr, self, o)
	return checked, err
}

// checkIn is Check with a parser.
func (r *RuleChecker) checkIn(parser *cel.Env, expr string, self *val.Type, o CompileOptions) (checked *ast.AST, parsed *cel.Ast, err error) {
	prefix := ""
	if o.Want == StringResult {
		prefix = "messageExpression "
	}
	parsed, issues := parser.Parse(expr)
	if issues.Err() != nil {
		return nil, nil, fmt.Errorf("%scompilation failed: %s", prefix, issues)
	}
	env, err := r.Checker(self, o.OptionalOldSelf)
	if err != nil {
		return nil, nil, fmt.Errorf("%scompilation failed: %w", prefix, err)
	}
	if checked, err = r.decls.CheckTree(parsed, env); err != nil {
		return nil, nil, fmt.Errorf("%scompilation failed: %w", prefix, r.decls.namedError(err, parser, expr, self, o))
	}
	output := checked.GetType(checked.Expr().ID())
	switch {
	case o.Want == BoolResult && !output.IsExactType(types.BoolType):
		return nil, nil, fmt.Errorf("cel expression must evaluate to a bool")
	case o.Want == StringResult && !output.IsExactType(types.StringType):
		return nil, nil, fmt.Errorf("messageExpression must evaluate to a string")
	}
	*parsed.NativeRep() = *checked // EstimateParsed needs the tree that Parse returned
	return checked, parsed, nil
}

// EstimateParsed returns the static cost of the result of Check.
func (e *Declarations) EstimateParsed(parsed *cel.Ast, self *val.Type, o CompileOptions) (uint64, error) {
	if e.early() {
		return estimateEarly(parsed.NativeRep(), e.estimator(self)).Max, nil
	}
	cost, err := e.Base.EstimateCost(parsed, e.estimator(self))
	switch {
	case err == nil:
		return cost.Max, nil
	case o.Want == StringResult:
		return 0, fmt.Errorf("cost estimation failed for messageExpression: %w", err)
	}
	return 0, fmt.Errorf("cost estimation failed: %w", err)
}

// Quick returns a checked expression, nil if Check must be called.
func (r *RuleChecker) Quick(expr string, self *val.Type, o CompileOptions) *ast.AST {
	if !fastpath.Checker.On() {
		return nil
	}
	tree, validate := r.decls.Grammar.Parse(expr)
	if tree == nil {
		return nil
	}
	checked := r.quickly(tree, self, o.OptionalOldSelf)
	if checked == nil {
		return nil
	}
	if validate || !r.decls.Plain {
		found := cel.NewIssuesWithSourceInfo(common.NewErrors(NoSource), tree.SourceInfo())
		for _, v := range r.decls.Base.Validators() {
			v.Validate(r.decls.Base, r.decls.validator, checked, found)
		}
		if found.Err() != nil {
			return nil
		}
	}
	output := checked.GetType(checked.Expr().ID())
	if o.Want == BoolResult && output != types.BoolType || o.Want == StringResult && output != types.StringType {
		return nil
	}
	return checked
}

// quickly returns the tree with types, nil if there is an error. If the quick checker gives up,
// cel-go checks the tree.
func (r *RuleChecker) quickly(tree *ast.AST, self *val.Type, optionalOldSelf bool) *ast.AST {
	t := r.Provider.CelType(self)
	old := t
	if optionalOldSelf {
		old = types.NewOptionalType(t)
	}
	if out := r.decls.Checks.Check(tree, r.Provider, t, old); out != nil {
		return out
	}
	env, err := r.Checker(self, optionalOldSelf)
	if err != nil {
		return nil
	}
	out, errs := checker.Check(tree, NoSource, env)
	if len(errs.GetErrors()) > 0 {
		return nil
	}
	return out
}
