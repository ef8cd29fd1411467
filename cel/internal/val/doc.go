// Package val defines what expressions compute with: [Type], what a schema node is to rules;
// [Value], the union that an expression evaluates to; and [Frame], the state of one evaluation.
//
// Files: types.go and sizes.go (types); value.go, load.go, heapmap.go, record.go (values, from
// documents and from the heap); errors.go, unknown.go (errors and unknowns are values until they
// leave an evaluation); bridge.go, godata.go (cel-go's representation, and plain data); equal.go,
// same.go, ops.go, qualify.go, search.go, pattern.go (operators); frame.go, cost.go, effort.go,
// guard.go (what an evaluation is charged, and what bounds it).
//
// Fields of a Value are read directly by the packages above: a Value is too large for the
// compiler to keep in registers, so that each accessor would copy it.
package val
