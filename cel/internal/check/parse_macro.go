package check

import (
	"github.com/google/cel-go/common"
	"github.com/google/cel-go/common/ast"
	"github.com/google/cel-go/common/types/ref"
	"github.com/google/cel-go/parser"
)

// This file implements the interface by which cel-go's macros build their expansions.

var _ parser.ExprHelper = (*quickParser)(nil)

// Copy gives up: none of the common macros calls it.
func (p *quickParser) Copy(ast.Expr) ast.Expr { return p.giveUp() }

// NewLiteral and the methods after it return parts of an expansion.
func (p *quickParser) NewLiteral(v ref.Val) ast.Expr { return p.factory.NewLiteral(p.next(), v) }

func (p *quickParser) NewList(items ...ast.Expr) ast.Expr {
	return p.factory.NewList(p.next(), items, []int32{})
}

func (p *quickParser) NewMap(entries ...ast.EntryExpr) ast.Expr {
	return p.factory.NewMap(p.next(), entries)
}

func (p *quickParser) NewMapEntry(key, val ast.Expr, optional bool) ast.EntryExpr {
	return p.factory.NewMapEntry(p.next(), key, val, optional)
}

func (p *quickParser) NewStruct(name string, fields ...ast.EntryExpr) ast.Expr {
	return p.factory.NewStruct(p.next(), name, fields)
}

func (p *quickParser) NewStructField(field string, value ast.Expr, optional bool) ast.EntryExpr {
	return p.factory.NewStructField(p.next(), field, value, optional)
}

func (p *quickParser) NewComprehension(over ast.Expr, iter, accu string, init, cond, step, result ast.Expr) ast.Expr {
	return p.factory.NewComprehension(p.next(), over, iter, accu, init, cond, step, result)
}

func (p *quickParser) NewComprehensionTwoVar(over ast.Expr, iter, iter2, accu string, init, cond, step, result ast.Expr) ast.Expr {
	return p.factory.NewComprehensionTwoVar(p.next(), over, iter, iter2, accu, init, cond, step, result)
}

func (p *quickParser) NewIdent(name string) ast.Expr { return p.factory.NewIdent(p.next(), name) }
func (p *quickParser) NewAccuIdent() ast.Expr        { return p.factory.NewAccuIdent(p.next()) }
func (p *quickParser) AccuIdentName() string         { return p.factory.AccuIdentName() }

func (p *quickParser) NewCall(fn string, args ...ast.Expr) ast.Expr {
	return p.factory.NewCall(p.next(), fn, args...)
}

func (p *quickParser) NewMemberCall(fn string, target ast.Expr, args ...ast.Expr) ast.Expr {
	return p.factory.NewMemberCall(p.next(), fn, target, args...)
}

func (p *quickParser) NewPresenceTest(operand ast.Expr, field string) ast.Expr {
	return p.factory.NewPresenceTest(p.next(), operand, field)
}

func (p *quickParser) NewSelect(operand ast.Expr, field string) ast.Expr {
	return p.factory.NewSelect(p.next(), operand, field)
}

// OffsetLocation and NewError are for errors, which cel-go's parser reports.
func (p *quickParser) OffsetLocation(int64) common.Location { return common.NoLocation }

func (p *quickParser) NewError(id int64, message string) *common.Error {
	return common.NewError(id, message, common.NoLocation)
}
