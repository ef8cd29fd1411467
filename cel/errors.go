package cel

import (
	"context"
	"errors"
	"fmt"
	"unsafe"

	"github.com/keelson-io/keelson/doc"
)

// This file defines errors as values: a code and its operand, so that an error
// that && or || absorbs costs nothing. The text is made only when it is asked for.

// errCode says which error a KindError is.
type errCode = uint8

const (
	errBoxed        errCode = iota // ptr: *errBox
	errNoKey                       // text: the key
	errIndex                       // bits: the index
	errNoOverload                  // "no such overload"
	errNoOverloadFn                // text: the function
	errDivZero
	errModZero
	errIntOverflow
	errUintOverflow
	errTimeOverflow
	errNaN
	errNullData // data is null, its type is not nullable
	errIntOrString
	errWantMap
	errWantArray
	errWantString // node: the datum
	errWantFloat
	errWantInt
	errWantBool
	errInterrupted
	errDereference
	errNoOldSelf
)

// errTexts are the texts of the errors that have no operand.
var errTexts = [...]string{
	errNoOverload:   "no such overload",
	errDivZero:      "division by zero",
	errModZero:      "modulus by zero",
	errIntOverflow:  "integer overflow",
	errUintOverflow: "unsigned integer overflow",
	errTimeOverflow: "timestamp overflow",
	errNaN:          "NaN values cannot be ordered",
	errNullData:     "invalid data, got null for schema with nullable=false",
	errIntOrString:  "invalid data, expected XIntOrString value to be either a string or integer",
	errWantMap:      "invalid data, expected a map for the provided schema with type=object",
	errWantArray:    "invalid data, expected an array for the provided schema with type=array",
	errInterrupted:  "operation interrupted",
	errDereference:  "optional.none() dereference",
	errNoOldSelf:    "no such attribute(s): oldSelf",
}

// errBox is an error whose text is not made from a code.
type errBox struct{ err error }

func errorValue(code errCode) Value { return Value{kind: KindError, flag: code} }

// errorWith is an error about a text: a key or the name of a function.
func errorWith(code errCode, s string) Value {
	return Value{kind: KindError, flag: code, bits: uint64(len(s)), ptr: unsafe.Pointer(unsafe.StringData(s))}
}

// errorData is an error about a datum of the wrong kind.
func errorData(code errCode, n doc.Node) Value {
	return Value{kind: KindError, flag: code, node: n}
}

func errorOf(err error) Value {
	return Value{kind: KindError, flag: errBoxed, ptr: unsafe.Pointer(&errBox{err})}
}

func errorf(format string, args ...any) Value { return errorOf(fmt.Errorf(format, args...)) }

// err is the error that a KindError stands for.
func (v Value) err() error {
	switch v.flag {
	case errBoxed:
		return (*errBox)(v.ptr).err
	case errNoKey:
		return fmt.Errorf("no such key: %s", v.text())
	case errIndex:
		return fmt.Errorf("index out of bounds: %d", int64(v.bits))
	case errNoOverloadFn:
		return fmt.Errorf("no such overload: %s", v.text())
	case errWantString:
		return fmt.Errorf("invalid data, expected string, got %s", goTypes[v.node.Kind()])
	case errWantFloat:
		return fmt.Errorf("invalid data, expected float, got %s", goTypes[v.node.Kind()])
	case errWantInt:
		return fmt.Errorf("invalid data, expected int, got %s", goTypes[v.node.Kind()])
	case errWantBool:
		return fmt.Errorf("invalid data, expected bool, got %s", goTypes[v.node.Kind()])
	case errInterrupted:
		return ErrInterrupted
	}
	return errors.New(errTexts[v.flag])
}

// goTypes name the Go type that a datum has when it is decoded without a
// schema, as upstream's messages do.
var goTypes = [...]string{
	doc.Absent: "<nil>", doc.Null: "<nil>", doc.Bool: "bool", doc.Int: "int64", doc.Float: "float64",
	doc.String: "string", doc.Array: "[]interface {}", doc.Object: "map[string]interface {}",
}

// ErrCostLimit is what Eval's error is (errors.Is) when an evaluation costs
// more than its limit.
var ErrCostLimit = errors.New("operation cancelled: actual cost limit exceeded")

// ErrInterrupted is what Eval's error is (errors.Is) when the context ends
// during an evaluation.
var ErrInterrupted = errors.New("operation interrupted")

// interruption is the outcome of an evaluation whose loops had to end: the reason
// why the context ended, or the limit, if what exceeded it is not in the cost.
func interruption(ctx context.Context, cost, limit uint64) (Value, uint64, error) {
	if ctx.Err() == nil {
		return Value{}, max(cost, limit+1), ErrCostLimit
	}
	return Value{}, cost, fmt.Errorf("%w: %w", ErrInterrupted, context.Cause(ctx))
}
