package val

import (
	"context"
	"errors"
	"fmt"
	"unsafe"

	"github.com/keelson-io/keelson/jsondoc"
)

// This file defines errors as values: a code and its operand, so that an error
// that && or || absorbs costs nothing. The text is made only when it is asked for.

// errCode says which error a KindError is.
type errCode = uint8

// The codes, with what the operand of an error is.
const (
	codeBoxed        errCode = iota // ptr: *errBox
	CodeNoKey                       // text: the key
	codeIndex                       // bits: the index
	CodeNoOverload                  // "no such overload"
	CodeNoOverloadFn                // text: the function
	CodeDivZero
	CodeModZero
	CodeIntOverflow
	CodeUintOverflow
	CodeTimeOverflow
	codeNaN
	codeNullData // data is null, its type is not nullable
	codeIntOrString
	codeWantMap
	codeWantArray
	codeWantString // node: the datum
	codeWantFloat
	codeWantInt
	codeWantBool
	CodeInterrupted
	CodeDereference
	CodeNoOldSelf
)

// errTexts are the texts of the errors that have no operand.
var errTexts = [...]string{
	CodeNoOverload:   "no such overload",
	CodeDivZero:      "division by zero",
	CodeModZero:      "modulus by zero",
	CodeIntOverflow:  "integer overflow",
	CodeUintOverflow: "unsigned integer overflow",
	CodeTimeOverflow: "timestamp overflow",
	codeNaN:          "NaN values cannot be ordered",
	codeNullData:     "invalid data, got null for schema with nullable=false",
	codeIntOrString:  "invalid data, expected XIntOrString value to be either a string or integer",
	codeWantMap:      "invalid data, expected a map for the provided schema with type=object",
	codeWantArray:    "invalid data, expected an array for the provided schema with type=array",
	CodeInterrupted:  "operation interrupted",
	CodeDereference:  "optional.none() dereference",
}

// errBox is an error whose text is not made from a code.
type errBox struct{ err error }

// ErrorValue is an error that has no operand.
func ErrorValue(code errCode) Value { return Value{K: KindError, Flag: code} }

// ErrorWith is an error about a text: a key or the name of a function.
func ErrorWith(code errCode, s string) Value {
	return Value{K: KindError, Flag: code, Bits: uint64(len(s)), Ptr: unsafe.Pointer(unsafe.StringData(s))}
}

// errorData is an error about a datum of the wrong kind.
func errorData(code errCode, n jsondoc.Node) Value {
	return Value{K: KindError, Flag: code, Node: n}
}

// ErrorOf is an error with any text.
func ErrorOf(err error) Value {
	return Value{K: KindError, Flag: codeBoxed, Ptr: unsafe.Pointer(&errBox{err})}
}

// Errorf is an error with a formatted text.
func Errorf(format string, args ...any) Value { return ErrorOf(fmt.Errorf(format, args...)) }

// Err is the error that a KindError stands for.
func (v Value) Err() error {
	switch v.Flag {
	case codeBoxed:
		return (*errBox)(v.Ptr).err
	case CodeNoKey:
		return fmt.Errorf("no such key: %s", v.Text())
	case codeIndex:
		return fmt.Errorf("index out of bounds: %d", int64(v.Bits))
	case CodeNoOverload:
		return &OverloadError{errTexts[CodeNoOverload]}
	case CodeNoOverloadFn:
		return &OverloadError{errTexts[CodeNoOverload] + ": " + v.Text()}
	case CodeNoOldSelf:
		return &MissingAttributeError{"oldSelf"}
	case codeWantString:
		return fmt.Errorf("invalid data, expected string, got %s", goTypes[v.Node.Kind()])
	case codeWantFloat:
		return fmt.Errorf("invalid data, expected float, got %s", goTypes[v.Node.Kind()])
	case codeWantInt:
		return fmt.Errorf("invalid data, expected int, got %s", goTypes[v.Node.Kind()])
	case codeWantBool:
		return fmt.Errorf("invalid data, expected bool, got %s", goTypes[v.Node.Kind()])
	case CodeInterrupted:
		return ErrInterrupted
	}
	return errors.New(errTexts[v.Flag])
}

// goTypes name the Go type that a datum has when it is decoded without a
// schema, as upstream's messages do.
var goTypes = [...]string{
	jsondoc.Absent: "<nil>", jsondoc.Null: "<nil>", jsondoc.Bool: "bool", jsondoc.Int: "int64", jsondoc.Float: "float64",
	jsondoc.String: "string", jsondoc.Array: "[]interface {}", jsondoc.Object: "map[string]interface {}",
}

// ErrCostLimit is what Eval's error is (errors.Is) when an evaluation costs
// more than its limit.
var ErrCostLimit = errors.New("operation cancelled: actual cost limit exceeded")

// ErrInterrupted is what Eval's error is (errors.Is) when the context ends
// during an evaluation.
var ErrInterrupted = errors.New("operation interrupted")

// OverloadError is an error of an expression that called a function or an operator with arguments that it does not take.
type OverloadError struct{ Text string }

func (e *OverloadError) Error() string { return e.Text }

// MissingAttributeError is an error of an expression that used a variable that has no value.
type MissingAttributeError struct{ Name string }

func (e *MissingAttributeError) Error() string { return "no such attribute(s): " + e.Name }

// Interruption is the outcome of an evaluation whose loops had to end: the reason
// why the context ended, or the limit, if what exceeded it is not in the cost.
func Interruption(ctx context.Context, cost, limit uint64) (Value, uint64, error) {
	if ctx.Err() == nil {
		return Value{}, max(cost, limit+1), ErrCostLimit
	}
	return Value{}, cost, fmt.Errorf("%w: %w", ErrInterrupted, context.Cause(ctx))
}
