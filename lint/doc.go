// Package lint says what is wrong with a CustomResourceDefinition, an admission policy or its
// binding before a server does, and what a server would not say.
//
// # Terms
//
// A [Definition] is one definition with the text that it was read from, so that what is found can
// be shown where it stands. A [Finding] is one thing that is found. A [Cost] is what an expression
// may cost at most; its [Advice] names the bounds that bring it below a limit.
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
// [Load] a definition and [Check] it, alone or as a change of an older one. [LoadPolicy] policies
// and bindings and [CheckPolicies] them together, with the definitions of the kinds that they are
// for.
package lint

// This file defines the results.

// Severity says how bad a finding is.
type Severity string

// The severities.
const (
	Error    Severity = "error"
	Breaking Severity = "breaking"
	Warning  Severity = "warning"
)

// Finding is one result of a check.
type Finding struct {
	File   string `json:"file"`
	Line   int    `json:"line,omitempty"` // in the file; 0 if it is not known
	Column int    `json:"column,omitempty"`

	Severity Severity `json:"severity"`
	// Check names the check: server, rule, cost, draft, contradiction, no-effect, unchecked, change,
	// type, binding, conflict, version.
	Check string `json:"check,omitempty"`
	// ID names the mistake: the check, a slash, and the keyword or the kind of mistake. It never
	// changes its meaning. docs/lint.md lists all.
	ID string `json:"id"`
	// Path is the path in the definition as written; "" means the whole definition.
	Path string `json:"path,omitempty"`
	// Where is a shorter form for readers: the version, and the path in objects.
	Where   string `json:"where,omitempty"`
	Message string `json:"message"`
	// Hint says what to write instead, or when the finding does not matter.
	Hint string `json:"hint,omitempty"`

	Expression *Expression `json:"expression,omitempty"`

	// Kubernetes are the releases that refuse the object for this reason, of those that were asked
	// for. It is empty for findings that are not about older releases.
	Kubernetes []string `json:"kubernetes,omitempty"`
}

// Expression is a position in an expression.
type Expression struct {
	Text   string `json:"text"`   // the line of the expression that is meant
	Line   int    `json:"line"`   // its number in the expression, from 1
	Column int    `json:"column"` // in that line, from 1
}

// Report is the result of Check.
type Report struct {
	File     string    `json:"file"`
	Line     int       `json:"line"`           // of the object's first line
	Kind     string    `json:"kind,omitempty"` // "" if the text is none
	Name     string    `json:"name"`
	Findings []Finding `json:"findings"`
	Schemas  []Schema  `json:"schemas,omitempty"`
	// Lowest is the oldest release that accepts the object. It is nil if the newest one does not.
	Lowest *Lowest `json:"lowest,omitempty"`
}

// Schema holds the estimated costs of one schema's expressions.
type Schema struct {
	Versions []string `json:"versions"` // that have this schema
	Total    uint64   `json:"total"`
	Limit    uint64   `json:"limit"` // of the total: TotalLimit, or what policies have
	Share    float64  `json:"share"` // of the limit
	Costs    []Cost   `json:"costs"` // the most expensive first

	policy bool
}

// OfPolicy reports whether the expressions belong to a policy.
func (s *Schema) OfPolicy() bool { return s.policy }

// Cost is the estimated cost of an expression.
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

// Advice explains the cost of an expensive expression.
type Advice struct {
	// Driver is the bound with the largest effect. Without is the cost if that list, map or text
	// had one element.
	Driver  Bound  `json:"driver"`
	Without uint64 `json:"without"`
	// Bounds, set together, bring the cost below the exceeded limit, to Then. Bounds is empty if no
	// limit is exceeded, or if bounds do not help.
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
	AllOf   *int64 `json:"allOf,omitempty"` // what it is inside allOf, where estimates do not read it
}

// The limits of estimated costs: for one expression, and for all expressions of a schema.
const (
	RuleLimit  = 10_000_000
	TotalLimit = 100_000_000
)

// Worst returns the worst severity among findings; "" if there are none.
func Worst(findings []Finding) Severity {
	worst := Severity("")
	for _, f := range findings {
		if worst == "" || f.Severity == Error || worst == Warning {
			worst = f.Severity
		}
	}
	return worst
}
