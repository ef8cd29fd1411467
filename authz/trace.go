package authz

// This file records the steps of a decision.

// Trace is filled in by the authorizers. The zero value records only what the audit log needs:
// skipped webhooks.
type Trace struct {
	// Full records every step.
	Full bool

	Skipped []string // names of webhooks whose match conditions excluded the request
	Steps   []Step   // one for each authorizer that was asked, in order; only if Full
}

// Step is the part of one authorizer in a decision.
type Step struct {
	Name, Type string
	Result

	Skipped    bool        // the match conditions of the webhook excluded the request
	Conditions []Condition // evaluated match conditions
	Review     []byte      // the SubjectAccessReview sent to the webhook, as JSON
	Cached     bool        // the answer came from the webhook's cache
}

// Condition is a match condition and its value.
type Condition struct {
	Expression string
	Match      bool
	Err        error
}

// Skip records that the match conditions of a webhook excluded the request.
func (t *Trace) Skip(name string) {
	if t == nil {
		return
	}
	t.Skipped = append(t.Skipped, name)
	if s := t.Step(); s != nil {
		s.Skipped = true
	}
}

// Step returns the current step, nil if steps are not recorded.
func (t *Trace) Step() *Step {
	if t == nil || !t.Full || len(t.Steps) == 0 {
		return nil
	}
	return &t.Steps[len(t.Steps)-1]
}

// begin starts the step of an authorizer, if steps are recorded.
func (t *Trace) begin(name, kind string) {
	if t.Full {
		t.Steps = append(t.Steps, Step{Name: name, Type: kind})
	}
}

// end records the result of the current step.
func (t *Trace) end(r Result) {
	if s := t.Step(); s != nil {
		s.Result = r
	}
}
