package cel

// This file defines Env, the declarations that every rule is checked with, and
// TypeSet, those of one version of a kind.

// EnvOptions configures an Env. The zero value is the environment of the
// newest version for new expressions.
type EnvOptions struct {
	Version string // compatibility version such as "1.37"; empty is the newest
	Stored  bool   // expressions that are already stored: everything that was ever valid
}

// Env is the shared base environment: libraries and macros, parsed and
// declared once. It is immutable and safe for concurrent use.
type Env struct{ opts EnvOptions }

// NewEnv returns the environment that o describes.
func NewEnv(o EnvOptions) (*Env, error) { return &Env{opts: o}, nil }

// TypeSet knows the types of one version of a kind. It is safe for concurrent
// use.
type TypeSet struct{ env *Env }

// Types returns the TypeSet of a tree of types.
func (e *Env) Types(root *Type) *TypeSet { panic("BUG: not built yet") }

// ResultKind is the type that an expression must have.
type ResultKind uint8

// The types an expression may be required to have. AnyResult requires nothing.
const (
	BoolResult ResultKind = iota
	StringResult
	AnyResult
)

// CompileOptions says what Compile needs to know beyond the types.
type CompileOptions struct {
	OptionalOldSelf bool // oldSelf is an optional value
	Want            ResultKind
}

// Compile parses, checks and compiles an expression over self. The text of the
// error is upstream's, without the prefix "messageExpression ".
func (ts *TypeSet) Compile(expr string, self *Type, o CompileOptions) (*Program, error) {
	panic("BUG: not built yet")
}
