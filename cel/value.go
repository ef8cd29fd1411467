package cel

// This file defines Value, the by-value union that expressions evaluate to.

// Kind says what a Value is.
type Kind uint8

// The kinds of Value.
const (
	KindNone Kind = iota
	KindNull
	KindBool
	KindInt
	KindUint
	KindDouble
	KindString
	KindBytes
	KindTimestamp
	KindDuration
	KindList
	KindMap
	KindType
	KindOptional
	KindOpaque
	KindUnknown
	KindError
)

// Value is a value of the language.
type Value struct{ kind Kind }

// Kind is the kind of v.
func (v Value) Kind() Kind { return v.kind }

// Bool is the value of a KindBool.
func (v Value) Bool() bool { panic("BUG: not built yet") }

// Int is the value of a KindInt.
func (v Value) Int() int64 { panic("BUG: not built yet") }

// Float is the value of a KindDouble.
func (v Value) Float() float64 { panic("BUG: not built yet") }

// Str is the value of a KindString. It may borrow the document's text.
func (v Value) Str() string { panic("BUG: not built yet") }
