// Package requests is the language of expressions over requests for admission:
// the match conditions of webhooks, and all expressions of policies.
//
// # Model
//
// A [Language] has a set of variables. [Language.Compile] compiles a text to an [Expression], which
// carries upstream's error if the text is not valid. The validation of webhooks and policies and
// their evaluation (package internal/admission/conditions) compile with the same language, so that an accepted
// expression also runs.
//
// # Invariants
//
//   - There is one language for each set of variables. It is built on first use, which takes
//     milliseconds.
//   - The texts of errors are upstream's.
package requests

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"

	"github.com/keelson-io/keelson/cel"
)

// Language is the language of expressions over requests.
type Language struct{ l *cel.Language }

// languages are made when they are first asked for, each once.
var languages = func() map[cel.AdmissionVariables]func() *Language {
	all := map[cel.AdmissionVariables]func() *Language{}
	for i := range 1 << 5 {
		is := func(bit int) bool { return i>>bit&1 != 0 }
		has := cel.AdmissionVariables{Params: is(0), Authorizer: is(1), Composed: is(2), Patches: is(3), New: is(4)}
		all[has] = sync.OnceValue(func() *Language {
			l, err := cel.NewLanguage(cel.AdmissionConditions(has))
			if err != nil {
				panic("BUG: language of admission: " + err.Error())
			}
			return &Language{l}
		})
	}
	return all
}()

// For returns the language with the given variables.
func For(has cel.AdmissionVariables) *Language { return languages[has]() }

// Composition is the named expressions of a policy, which others read as members
// of variable variables. It belongs to one goroutine, as do the languages with
// it until all of it is there.
type Composition struct{ c *cel.Composition }

// NewComposition is one without expressions.
func NewComposition() *Composition { return &Composition{cel.NewComposition()} }

// Add names an expression.
func (c *Composition) Add(name string, x *Expression) { c.c.Add(name, x.X) }

// With is the language in which expressions can read the members of c, those
// that there are when an expression is compiled.
func (l *Language) With(c *Composition) *Language {
	composed, err := l.l.Compose(c.c)
	if err != nil {
		panic("BUG: language of admission: " + err.Error()) // the same declarations were taken before
	}
	return &Language{composed}
}

// Expression is a compiled expression, or why it did not compile.
type Expression struct {
	Source string
	// Err is set if the text does not compile, or not to a wanted type.
	Err error
	// Internal says that Err is none of the text, which is well-typed.
	Internal bool
	// X is nil if there is an error.
	X *cel.Expression
}

// Compile compiles a text that must be of one of the types, such as "bool"; with none, of any. If it
// is of another one, Err of the result says which it must be.
func (l *Language) Compile(text string, types ...string) *Expression {
	e := &Expression{Source: text}
	x, err := l.l.CompileExpression(text)
	var instantiation *cel.InstantiationError
	switch {
	case errors.As(err, &instantiation):
		e.Err, e.Internal = fmt.Errorf("program instantiation failed: %w", err), true
	case err != nil:
		e.Err = fmt.Errorf("compilation failed: %w", err)
	case len(types) == 1 && x.Type() != types[0]:
		e.Err = fmt.Errorf("must evaluate to %s but got %s", types[0], x.Type())
	case len(types) > 1 && !slices.Contains(types, x.Type()):
		e.Err = fmt.Errorf("must evaluate to one of [%s] but got %s", strings.Join(types, " "), x.Type())
	default:
		e.X = x
	}
	return e
}
