// Package val defines the values and types of expressions: [Type], the type of a schema node;
// [Value], the union to which expressions evaluate; and [Frame], the state of one evaluation.
//
// Files: types.go and sizes.go (types); value.go, load.go, heapmap.go, record.go (values of
// documents and on the heap); errors.go, unknown.go (errors and unknowns are values until an
// evaluation returns); bridge.go, godata.go (cel-go's representation, and plain data); equal.go,
// same.go, ops.go, qualify.go, search.go, pattern.go (operators); frame.go, cost.go, effort.go,
// guard.go (the costs and bounds of an evaluation).
//
// The packages above read the fields of a Value directly. A Value is too large for registers, so
// that each accessor would copy it.
package val
