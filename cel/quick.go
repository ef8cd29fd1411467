package cel

import (
	"github.com/google/cel-go/cel"
	"github.com/google/cel-go/checker"
	"github.com/google/cel-go/common"
	"github.com/google/cel-go/common/ast"
	"github.com/google/cel-go/common/types"
)

// This file compiles expressions that are common and right. Whatever it finds
// wrong is compiled again the long way, which knows the words of errors.

// knownValidators look only at what the quick parser reports.
var knownValidators = map[string]bool{
	cel.ValidateDurationLiterals().Name(): true, cel.ValidateTimestampLiterals().Name(): true,
	cel.ValidateRegexLiterals().Name(): true, cel.ValidateHomogeneousAggregateLiterals().Name(): true,
	"cel.validator.string_format": true,
}

// noSource is where trees of the quick parser come from: they have no places.
var noSource = common.NewTextSource("")

// quick is the program of an expression over self, nil if it must be compiled
// the long way.
func (ts *TypeSet) quick(expr string, self *Type, o CompileOptions) *Program {
	tree, validate := ts.env.grammar.parse(expr)
	if tree == nil {
		return nil
	}
	checked := ts.checked(tree, self, o.OptionalOldSelf)
	if checked == nil {
		return nil
	}
	if validate || !ts.env.plain {
		found := cel.NewIssuesWithSourceInfo(common.NewErrors(noSource), tree.SourceInfo())
		for _, v := range ts.env.base.Validators() {
			v.Validate(ts.env.base, ts.env.validator, checked, found)
		}
		if found.Err() != nil {
			return nil
		}
	}
	output := checked.GetType(checked.Expr().ID())
	if o.Want == BoolResult && output != types.BoolType || o.Want == StringResult && output != types.StringType {
		return nil
	}
	p := &Program{source: expr}
	for _, r := range checked.ReferenceMap() {
		p.usesOldSelf = p.usesOldSelf || r.Name == "oldSelf"
	}
	if p.compile(ts, checked, self, o.OptionalOldSelf) != nil {
		return nil
	}
	var err error
	if p.maxCost, err = ts.env.estimate(checked, self); err != nil {
		return nil
	}
	return p
}

// checked is a tree with the types of its nodes, nil if something is wrong.
func (ts *TypeSet) checked(tree *ast.AST, self *Type, optionalOldSelf bool) *ast.AST {
	t := ts.provider.celType(self)
	old := t
	if optionalOldSelf {
		old = types.NewOptionalType(t)
	}
	if out := ts.env.checks.check(tree, ts.provider, t, old); out != nil {
		return out
	}
	env, err := ts.checker(self, optionalOldSelf)
	if err != nil {
		return nil
	}
	out, errs := checker.Check(tree, noSource, env)
	if len(errs.GetErrors()) > 0 {
		return nil
	}
	return out
}

// estimate is the static cost of a checked tree.
func (e *Env) estimate(checked *ast.AST, self *Type) (uint64, error) {
	shell, _ := e.shells.Get().(*cel.Ast)
	if shell == nil {
		var issues *cel.Issues
		if shell, issues = e.base.Parse("true"); issues.Err() != nil {
			return 0, issues.Err()
		}
	}
	*shell.NativeRep() = *checked
	cost, err := e.base.EstimateCost(shell, &estimator{self: self})
	*shell.NativeRep() = *ast.NewAST(nil, nil)
	e.shells.Put(shell)
	return cost.Max, err
}
