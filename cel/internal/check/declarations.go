package check

import (
	"fmt"
	"maps"
	"slices"
	"sync"

	"github.com/google/cel-go/cel"
	"github.com/google/cel-go/checker"
	"github.com/google/cel-go/common"
	"github.com/google/cel-go/common/ast"
	"github.com/google/cel-go/common/decls"
	"github.com/google/cel-go/common/functions"
	"github.com/google/cel-go/common/types"

	"github.com/keelson-io/keelson/cel/internal/lib"
	"github.com/keelson-io/keelson/cel/internal/val"
	"github.com/keelson-io/keelson/kubernetes"
)

// This file defines the declarations for checking expressions.

// Declarations are the libraries and macros of a language, declared once. They are immutable and
// safe for concurrent use.
type Declarations struct {
	Base      *cel.Env     // the parser; it has no types of schemas
	Check     *checker.Env // the checker with the declarations of Base
	impls     map[string]*functions.Overload
	validator *validatorConfig
	keywords  bool // reserved words may be names of fields
	Grammar   *grammar
	Checks    *checks
	shells    sync.Pool // *cel.Ast: cel-go's form of a tree, which only its parser can make
	Plain     bool      // the quick parser knows all of cel-go's validators
	minor     int       // of the release whose costs apply; 0 is the newest

	// tracking returns Base as a parser that remembers the calls of macros.
	tracking func() (*cel.Env, error)
}

// DeclarationsOf returns the declarations for rules of a version of Kubernetes, as a release compiles
// them. "" is the version of the release. With stored, all functions that the release has are
// included.
func DeclarationsOf(version string, stored bool, release kubernetes.Release) (*Declarations, error) {
	if version == "" {
		version = release.String()
	}
	minor, err := lib.MinorVersion(version)
	if err != nil {
		return nil, err
	}
	if stored {
		minor = max(minor, release.Minor())
	}
	var options []cel.EnvOption
	for _, lib := range lib.Libraries() {
		if lib.From <= minor && (lib.Until == 0 || minor < lib.Until) {
			options = append(options, lib.Options...)
		}
	}
	base, err := cel.NewEnv(options...)
	if err != nil {
		return nil, fmt.Errorf("environment %q: %w", version, err)
	}
	e, err := Declare(base, base.Functions(), minor >= 31)
	if err == nil && !release.IsNewest() {
		e.minor = release.Minor()
	}
	return e, err
}

// Declare returns the declarations of cel-go's environment, with the given functions.
func Declare(base *cel.Env, fns map[string]*decls.FunctionDecl, keywords bool) (*Declarations, error) {
	e := &Declarations{Base: base, impls: map[string]*functions.Overload{}, validator: &validatorConfig{}, keywords: keywords, Grammar: newGrammar(base), Plain: true}
	e.tracking = sync.OnceValues(func() (*cel.Env, error) { return base.Extend(cel.EnableMacroCallTracking()) })
	var err error
	if e.Check, err = NewChecker(base, base.CELTypeProvider(), nil); err != nil {
		return nil, err
	}
	if err := e.Check.AddIdents(base.Variables()...); err != nil {
		return nil, err
	}
	for _, fn := range fns {
		if !fn.IsDeclarationDisabled() {
			if err := e.Check.AddFunctions(fn); err != nil {
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
	e.Checks = newChecks(e, fns)
	for _, v := range base.Validators() {
		e.Plain = e.Plain && knownValidators[v.Name()]
		if cv, ok := v.(cel.ASTValidatorConfigurer); ok {
			if err := cv.Configure(e.validator); err != nil {
				return nil, err
			}
		}
	}
	return e, nil
}

// NewChecker returns a checker with the declarations of from, if that is not nil.
func NewChecker(base *cel.Env, provider types.Provider, from *checker.Env) (*checker.Env, error) {
	opts := []checker.Option{checker.CrossTypeNumericComparisons(hasCrossTypeComparisons(base))}
	if from != nil {
		opts = append(opts, checker.ValidatedDeclarations(from))
	}
	return checker.NewEnv(base.Container, provider, opts...)
}

// hasCrossTypeComparisons reports whether numbers of different types can be compared. Kubernetes
// introduced this with optional types.
func hasCrossTypeComparisons(base *cel.Env) bool { return base.HasFunction("optional.of") }

// Implementation returns the implementation of an overload, or of a function without overloads.
func (e *Declarations) Implementation(overload, function string) *functions.Overload {
	if overload != "" {
		if impl, ok := e.impls[overload]; ok {
			return impl
		}
	}
	return e.impls[function]
}

// validatorConfig holds the configuration of cel-go's validators of trees.
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

// knownValidators find only errors that the quick parser reports by its flag check.
var knownValidators = map[string]bool{
	cel.ValidateDurationLiterals().Name(): true, cel.ValidateTimestampLiterals().Name(): true,
	cel.ValidateRegexLiterals().Name(): true, cel.ValidateHomogeneousAggregateLiterals().Name(): true,
	"cel.validator.string_format": true,
}

// NoSource is the source of trees of the quick parser, which have no positions.
var NoSource = common.NewTextSource("")

// Estimate returns the static cost of a checked tree.
func (e *Declarations) Estimate(checked *ast.AST, self *val.Type) (uint64, error) {
	if e.early() {
		return estimateEarly(checked, e.estimator(self)).Max, nil
	}
	shell, _ := e.shells.Get().(*cel.Ast)
	if shell == nil {
		var issues *cel.Issues
		if shell, issues = e.Base.Parse("true"); issues.Err() != nil {
			return 0, issues.Err()
		}
	}
	*shell.NativeRep() = *checked
	cost, err := e.Base.EstimateCost(shell, e.estimator(self))
	*shell.NativeRep() = *ast.NewAST(nil, nil)
	e.shells.Put(shell)
	return cost.Max, err
}

// early reports whether the costs are those of a release whose rules cel-go has not kept.
func (e *Declarations) early() bool { return e.minor > 0 && e.minor <= lastEarly }

// estimator returns the estimates of Kubernetes' functions over self.
func (e *Declarations) estimator(self *val.Type) *Estimator {
	return &Estimator{self: self, minor: e.minor}
}

// Added returns the sorted names of the functions and macros that e has and earlier does not, or
// not with all overloads, and the reserved words, if only e accepts them as names of fields.
func (e *Declarations) Added(earlier *Declarations) []string {
	added := map[string]bool{}
	for name, fn := range e.Base.Functions() {
		old := earlier.Base.Functions()[name]
		for _, o := range fn.OverloadDecls() {
			known := old != nil && slices.ContainsFunc(old.OverloadDecls(), func(was *decls.OverloadDecl) bool { return was.ID() == o.ID() })
			added[name] = added[name] || !known
		}
	}
	macros := map[string]bool{}
	for _, m := range earlier.Base.Macros() {
		macros[m.MacroKey()] = true
	}
	for _, m := range e.Base.Macros() {
		added[m.Function()] = added[m.Function()] || !macros[m.MacroKey()]
	}
	if e.keywords && !earlier.keywords {
		for word := range val.Reserved {
			added[word] = true
		}
	}
	maps.DeleteFunc(added, func(_ string, is bool) bool { return !is })
	return slices.Sorted(maps.Keys(added))
}
