package check

import (
	"fmt"

	"github.com/google/cel-go/cel"
	"github.com/google/cel-go/common"
	"github.com/google/cel-go/common/ast"
)

// This file runs cel-go's checks of literals.

// Validate is what the environment's checks find in a checked tree, nil if
// nothing. Some of them panic on what the checker accepts, such as an optional
// item of a list whose type is not known; that is an error here.
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
