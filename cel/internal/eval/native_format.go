package eval

import (
	"strings"

	"github.com/google/cel-go/common/ast"

	"github.com/keelson-io/keelson/cel/internal/fast"
	"github.com/keelson-io/keelson/cel/internal/lib"
	"github.com/keelson-io/keelson/cel/internal/val"
)

// This file compiles the validation of named formats.

// formatCheck compiles validate() of a format that the expression names, nil for other calls.
func (c *compiler) formatCheck(e ast.Expr) *code {
	call := e.AsCall()
	if !c.fuses() || c.overload(e) != "format-validate" || call.Target().Kind() != ast.CallKind {
		return nil
	}
	name, ok := strings.CutPrefix(call.Target().AsCall().FunctionName(), "format.")
	if !ok || len(call.Target().AsCall().Args()) != 0 {
		return nil
	}
	format, ok := lib.Formats()[name]
	check := fast.Fits[format.Name]
	if !ok || check == nil {
		return nil
	}
	args := c.arguments(e)
	plain := c.plainFunction(e, args)
	source, general := textOf(args[1]), plain.Eval
	if source == nil {
		return plain
	}
	plain.made = &origin{source: args[1]}
	plain.none = fast.Fitting(check, val.PatternPrice(uint64(format.MaxRegexSize)))
	none := ofText(args[1], source, plain.none, func(*val.Frame) val.Tri { return val.No })
	plain.Eval = func(fr *val.Frame) val.Value {
		if none(fr) == val.Yes {
			return val.OptionalNone
		}
		return general(fr)
	}
	return plain
}
