package authz

// This file records how a decision comes about.

// Trace is filled in by the authorizers that are asked. The zero value records
// only what an audit log says: which webhooks were skipped.
type Trace struct {
	// Full records every step.
	Full bool

	Skipped []string // names of webhooks whose match conditions left the request out
	Steps   []Step   // one for each authorizer that was asked, in order, if Full
}

// Step is one authorizer that was asked.
type Step struct {
	Name, Type string
	Result

	Skipped    bool        // a webhook whose match conditions left the request out
	Conditions []Condition // that were evaluated
	Review     []byte      // the SubjectAccessReview that a webhook is asked with, as JSON
	Cached     bool        // the answer was known
}

// Condition is a match condition and what it came to.
type Condition struct {
	Expression string
	Match      bool
	Err        error
}

// Skip records that match conditions left the request out.
func (t *Trace) Skip(name string) {
	if t == nil {
		return
	}
	t.Skipped = append(t.Skipped, name)
	if s := t.Step(); s != nil {
		s.Skipped = true
	}
}

// Step is the step that is being taken, nil if steps are not recorded.
func (t *Trace) Step() *Step {
	if t == nil || !t.Full || len(t.Steps) == 0 {
		return nil
	}
	return &t.Steps[len(t.Steps)-1]
}

func (t *Trace) begin(name, kind string) {
	if t.Full {
		t.Steps = append(t.Steps, Step{Name: name, Type: kind})
	}
}

func (t *Trace) end(r Result) {
	if s := t.Step(); s != nil {
		s.Result = r
	}
}
