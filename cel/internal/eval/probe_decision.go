package eval

import (
	"github.com/google/cel-go/common/ast"
	"github.com/google/cel-go/common/operators"
	"github.com/google/cel-go/common/types"

	"github.com/keelson-io/keelson/cel/internal/val"
)

// This file records, for coverage, which conditions decided about a result.
//
// A decision is a part of && || ! ?: that is not an operand of such a part: a whole rule, the predicate
// of a macro, an argument of a function. Its conditions are the operands that are not such parts. The
// predicate of a macro is a decision of its own, which is made for each element: whether the macro had
// another result does not matter, because the elements differ in the data and not in the expression.
//
// A condition made the result if every operator between it and the decision had to have its value
// because of it. In a && b, both made true, and the operand that is false made false. Operators stop
// at the first operand that is enough, so that a condition that was not evaluated has no part in the
// result. In c ? a : b, c and the operand that was chosen made the result. MC/DC wants from each
// condition a pair of evaluations that differ in its value and in the result: see
// [val.Outcomes.Decides].

// decision is a part of a decision: an operator with its operands, or a condition.
type decision struct {
	part     int32
	end      int32     // the number of the first part behind it and its parts
	operator string    // "" for a condition
	constant val.Value // of a part that is computed when the expression is compiled
	operands []*decision
}

// operatorOf returns the name of the logical operator that a part is, "" for other parts. ?: is one
// only if its result is a bool.
func (p *Probe) operatorOf(n int32) string {
	part := &p.Parts[n]
	if part.Expr.Kind() != ast.CallKind || part.Macro != nil {
		return ""
	}
	want := 2
	name := part.Expr.AsCall().FunctionName()
	switch name {
	case operators.LogicalAnd, operators.LogicalOr:
	case operators.LogicalNot:
		want = 1
	case operators.Conditional:
		if want = 3; !part.Bool {
			return ""
		}
	default:
		return ""
	}
	if len(part.Parts) != want { // some are beyond the greatest number of parts
		return ""
	}
	return name
}

// IsNot reports whether a part is a negation.
func (p *Probe) IsNot(n int32) bool { return p.operatorOf(n) == operators.LogicalNot }

// findOperands sets Bool and Operand of all parts.
func (p *Probe) findOperands(tree *ast.AST) {
	for n := range p.Parts {
		p.Parts[n].Bool = tree.GetType(p.Parts[n].Expr.ID()).IsExactType(types.BoolType)
	}
	for n := range p.Parts {
		if p.operatorOf(int32(n)) != "" {
			for _, child := range p.Parts[n].Parts {
				p.Parts[child].Operand = true
			}
		}
	}
}

// decision returns part n of a decision. Its parts must be compiled.
func (p *Probe) decision(n int32) *decision {
	part := &p.Parts[n]
	d := &decision{part: n, end: part.End, operator: p.operatorOf(n), constant: part.Constant}
	if d.operator != "" {
		for _, child := range part.Parts {
			d.operands = append(d.operands, p.decision(child))
		}
	}
	return d
}

// Conditions returns the numbers of the conditions of a decision, nil if part n is not a decision of
// at least two conditions.
func (p *Probe) Conditions(n int32) []int32 {
	if p.Parts[n].Operand || p.operatorOf(n) == "" {
		return nil
	}
	var out []int32
	for i := n + 1; i < p.Parts[n].End; i++ {
		if part := &p.Parts[i]; part.Operand && p.operatorOf(i) == "" {
			if part.Constant.K == val.KindNone {
				out = append(out, i)
			}
			i = part.End - 1 // operands below belong to other decisions
		}
	}
	if len(out) < 2 {
		return nil
	}
	return out
}

// wrapDecision makes a decision record which conditions made its result.
func (p *Probe) wrapDecision(w *code, n int32) {
	if p.Parts[n].Operand || p.operatorOf(n) == "" {
		return
	}
	d := p.decision(n)
	eval := w.Eval
	w.Eval = func(fr *val.Frame) val.Value {
		v := eval(fr)
		if rec := fr.Rec; rec.Seen != nil {
			d.record(rec, v.K == val.KindBool, v.K == val.KindBool && v.Bits != 0)
		}
		return v
	}
}

// value returns the value that the part had.
func (d *decision) value(rec *val.Recording) val.Value {
	if d.constant.K != val.KindNone {
		return d.constant
	}
	return rec.Values[d.part]
}

// record records the part that d had in the result of the decision. made says that d made the result,
// which is a bool.
func (d *decision) record(rec *val.Recording, made, result bool) {
	v := d.value(rec)
	isBool := v.K == val.KindBool
	switch d.operator {
	case "":
		if made && isBool && d.constant.K == val.KindNone {
			rec.Seen[d.part] |= val.Made(v.Bits != 0, result)
		}
	case operators.LogicalNot:
		d.operands[0].record(rec, made, result)
	case operators.Conditional:
		condition := d.operands[0]
		condition.record(rec, made, result)
		if c := condition.value(rec); c.K == val.KindBool {
			chosen := d.operands[2]
			if c.Bits != 0 {
				chosen = d.operands[1]
			}
			chosen.record(rec, made, result)
		}
	default:
		for _, operand := range d.operands {
			o := operand.value(rec)
			if isBool && o.K == val.KindError {
				rec.Absorb(operand.part, rec.Values[operand.part:operand.end])
			}
			same := isBool && o.K == val.KindBool && (o.Bits != 0) == (v.Bits != 0)
			operand.record(rec, made && same, result)
		}
	}
}
