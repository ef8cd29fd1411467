// Package lint says what is wrong with a CustomResourceDefinition, an admission policy or its binding before a server does, and what a
// server would not say.
//
// # Terms
//
// A [Definition] is one definition with the text that it was read from, so that what is found can be shown where it stands. A
// [Finding] is one thing that is found. A [Cost] is what an expression may cost at most; its [Advice] names the bounds that
// bring it below a limit.
//
// # Severity
//
//   - An Error is what a server refuses, in its words.
//   - A Breaking finding is what a change does to stored objects or to clients. Only a comparison makes them.
//   - A Warning is accepted by a server, and yet it can be proved to be a mistake, or should be known.
//
// # Invariants
//
//   - [Check] reports an Error if and only if a server that reads strictly refuses the definition, or its change. The one
//     exception is a construct of the first draft of validation rules, which a server drops without a word in some places: it is
//     always an Error.
//   - A Warning is proved, never guessed.
//   - Estimates are those that servers decide by; the bounds in an Advice were tried.
//
// # Calls
//
// [Load] a definition and [Check] it, alone or as a change of an older one. [LoadPolicy] policies and bindings and [CheckPolicies]
// them together, with the definitions of the kinds that they are for.
package lint

// This file defines what comes out.

// Severity says how bad a finding is.
type Severity string

// The severities.
const (
	Error    Severity = "error"
	Breaking Severity = "breaking"
	Warning  Severity = "warning"
)

// Finding is one thing that was found.
type Finding struct {
	Severity Severity `json:"severity"`
	// Check names what looked: server, rule, cost, draft, contradiction,
	// no-effect, change, type, binding.
	Check string `json:"check"`
	// Path is where in the definition, as it is written there; "" stands for all
	// of it.
	Path string `json:"path,omitempty"`
	// Where is the same, shorter: the version, and what objects have there.
	Where   string `json:"where,omitempty"`
	Message string `json:"message"`
	// Hint says what to write instead, or what softens the finding.
	Hint string `json:"hint,omitempty"`

	Line   int `json:"line,omitempty"` // in the file; 0 if it is not known
	Column int `json:"column,omitempty"`

	Expression *Expression `json:"expression,omitempty"`
}

// Expression points into an expression.
type Expression struct {
	Text   string `json:"text"`   // the line of the expression that is meant
	Line   int    `json:"line"`   // its number in the expression, from 1
	Column int    `json:"column"` // in that line, from 1
}

// Report is what Check finds.
type Report struct {
	Kind     string    `json:"kind,omitempty"` // "" if the text is none
	Name     string    `json:"name"`
	Source   string    `json:"source"`
	Line     int       `json:"line"`
	Findings []Finding `json:"findings"`
	Schemas  []Schema  `json:"schemas,omitempty"`
}

// Schema is what the expressions of one schema may cost.
type Schema struct {
	Versions []string `json:"versions"` // that have this schema
	Total    uint64   `json:"total"`
	Limit    uint64   `json:"limit"` // of the total: TotalLimit, or what policies have
	Share    float64  `json:"share"` // of the limit
	Costs    []Cost   `json:"costs"` // the most expensive first

	policy bool
}

// OfPolicy reports whether the expressions are a policy's.
func (s *Schema) OfPolicy() bool { return s.policy }

// Cost is what an expression may cost.
type Cost struct {
	Path  string  `json:"path"`
	Where string  `json:"where"` // what objects have there, such as spec.rules[*].matches
	Expr  string  `json:"expr"`
	Each  uint64  `json:"each"`  // at most, one evaluation
	Times uint64  `json:"times"` // at most, evaluations for one object
	Total uint64  `json:"total"`
	Limit uint64  `json:"limit"` // RuleLimit, or what policies have
	Share float64 `json:"share"` // of the limit

	Advice *Advice `json:"advice,omitempty"` // nil for what is cheap, or cannot be made cheaper by bounds
}

// Advice says what makes an expression expensive.
type Advice struct {
	// Driver is the bound that matters most, Without the cost that remains if
	// there were only one element.
	Driver  Bound  `json:"driver"`
	Without uint64 `json:"without"`
	// Bounds together bring the cost below the limit that is exceeded, with the
	// cost Then. There are none if no limit is exceeded, or bounds do not help.
	Bounds []Bound `json:"bounds,omitempty"`
	Then   uint64  `json:"then,omitempty"`
}

// Bound is a bound of a list, map or text.
type Bound struct {
	Path    string `json:"path"`  // of the schema node
	Where   string `json:"where"` // what objects have there
	Keyword string `json:"keyword"`
	Had     *int64 `json:"had,omitempty"`   // what it is now
	Value   int64  `json:"value,omitempty"` // what it may be at most
}

// The limits of estimated cost, of one expression and of all of a schema.
const (
	RuleLimit  = 10_000_000
	TotalLimit = 100_000_000
)

// Worst is the worst severity among findings; "" if there are none.
func Worst(findings []Finding) Severity {
	worst := Severity("")
	for _, f := range findings {
		if worst == "" || f.Severity == Error || worst == Warning {
			worst = f.Severity
		}
	}
	return worst
}
