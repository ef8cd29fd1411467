package check

import (
	"fmt"

	"github.com/google/cel-go/cel"
	"github.com/google/cel-go/common"
	"github.com/google/cel-go/common/ast"
)

// This file runs cel-go's validators of literals.

// Validate returns the errors of the environment's validators for a checked tree. Some validators
// panic for trees that the checker accepts, such as an optional item in a list of unknown type;
// Validate returns that as an error.
func (e *Declarations) Validate(checked *ast.AST, source common.Source) (failure error) {
	issues := cel.NewIssuesWithSourceInfo(common.NewErrors(source), checked.SourceInfo())
	defer func() {
		if r := recover(); r != nil {
			failure = fmt.Errorf("internal error: %v", r)
		}
	}()
	for _, v := range e.Base.Validators() {
		v.Validate(e.Base, e.validator, checked, issues)
	}
	if issues.Err() != nil {
		return fmt.Errorf("%s", issues)
	}
	return nil
}
