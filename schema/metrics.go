package schema

import "time"

// This file observes the durations of rules and ratcheting.

// Observer records a duration in seconds, for example in a histogram.
type Observer interface{ Observe(seconds float64) }

// Metrics has the observers of the programs of one server. All fields must be set.
type Metrics struct {
	// Compilation observes the compilation of the rules of a schema node.
	Compilation Observer
	// Evaluation observes the evaluation of the rules of an object.
	Evaluation Observer
	// Ratcheting observes the comparison of old and new values in an update.
	Ratcheting Observer
}

// observeCompilation observes the time since start. m may be nil.
func (m *Metrics) observeCompilation(start time.Time) {
	if m != nil {
		m.Compilation.Observe(time.Since(start).Seconds())
	}
}

// observeEvaluation observes the time since start. m may be nil.
func (m *Metrics) observeEvaluation(start time.Time) {
	if m != nil {
		m.Evaluation.Observe(time.Since(start).Seconds())
	}
}

// ObserveRatcheting observes Result.Compared of an update of a custom resource.
func (p *Program) ObserveRatcheting(compared time.Duration) {
	if m := p.options.Metrics; m != nil {
		m.Ratcheting.Observe(compared.Seconds())
	}
}
