package val

import (
	"context"
	"errors"
	"fmt"
	"unsafe"

	"github.com/keelson-io/keelson/jsondoc"
)

// This file defines errors as values: a code and an operand. An error that && or || absorbs costs
// no allocation; its text is made only when needed.

// errCode identifies the error of a KindError.
type errCode = uint8

// The codes, with the meaning of their operands.
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
	codeNullData // a value is null, and its type is not nullable
	codeIntOrString
	codeWantMap
	codeWantArray
	codeWantString // node: the value; likewise for the following three
	codeWantFloat
	codeWantInt
	codeWantBool
	CodeInterrupted
	CodeDereference
	CodeNoOldSelf
)

// errTexts has the texts of the errors without an operand.
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

// errBox is an error that has no code.
type errBox struct{ err error }

// ErrorValue returns an error without an operand.
func ErrorValue(code errCode) Value { return Value{K: KindError, Flag: code} }

// ErrorWith returns an error with a text as its operand: a key or the name of a function.
func ErrorWith(code errCode, s string) Value {
	return Value{K: KindError, Flag: code, Bits: uint64(len(s)), Ptr: unsafe.Pointer(unsafe.StringData(s))}
}

// errorData returns the error of a value of a wrong type.
func errorData(code errCode, n jsondoc.Node) Value {
	return Value{K: KindError, Flag: code, Node: n}
}

// ErrorOf returns a Go error as a value.
func ErrorOf(err error) Value {
	return Value{K: KindError, Flag: codeBoxed, Ptr: unsafe.Pointer(&errBox{err})}
}

// Errorf returns an error with a formatted text.
func Errorf(format string, args ...any) Value { return ErrorOf(fmt.Errorf(format, args...)) }

// Err returns the error of a KindError.
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

// goTypes has the names of the Go types of data that was decoded without a schema, for upstream's
// messages.
var goTypes = [...]string{
	jsondoc.Absent: "<nil>", jsondoc.Null: "<nil>", jsondoc.Bool: "bool", jsondoc.Int: "int64", jsondoc.Float: "float64",
	jsondoc.String: "string", jsondoc.Array: "[]interface {}", jsondoc.Object: "map[string]interface {}",
}

// ErrCostLimit is the error (errors.Is) of an evaluation that costs more than its limit.
var ErrCostLimit = errors.New("operation cancelled: actual cost limit exceeded")

// ErrInterrupted is the error (errors.Is) of an evaluation during which the context ended.
var ErrInterrupted = errors.New("operation interrupted")

// OverloadError is the error of a call of a function or operator whose arguments match no overload.
type OverloadError struct{ Text string }

func (e *OverloadError) Error() string { return e.Text }

// MissingAttributeError is the error of a variable without a value.
type MissingAttributeError struct{ Name string }

func (e *MissingAttributeError) Error() string { return "no such attribute(s): " + e.Name }

// Interruption returns the outcome of an evaluation whose loops had to end: the reason why the
// context ended or, if it did not, the cost limit.
func Interruption(ctx context.Context, cost, limit uint64) (Value, uint64, error) {
	if ctx.Err() == nil {
		return Value{}, max(cost, limit+1), ErrCostLimit
	}
	return Value{}, cost, fmt.Errorf("%w: %w", ErrInterrupted, context.Cause(ctx))
}
