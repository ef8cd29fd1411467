package schema

import "time"

// This file times rules and ratcheting.

// Observer records a duration in seconds, for example in a histogram.
type Observer interface{ Observe(seconds float64) }

// Metrics has the observers of the programs of one server. None of them is nil.
type Metrics struct {
	// Compilation gets the time to compile the rules of a schema node.
	Compilation Observer
	// Evaluation gets the time to evaluate the rules of an object.
	Evaluation Observer
	// Ratcheting gets the time to compare old values with new ones in an update.
	Ratcheting Observer
}

// observeCompilation records the time since start. m may be nil.
func (m *Metrics) observeCompilation(start time.Time) {
	if m != nil {
		m.Compilation.Observe(time.Since(start).Seconds())
	}
}

// observeEvaluation records the time since start. m may be nil.
func (m *Metrics) observeEvaluation(start time.Time) {
	if m != nil {
		m.Evaluation.Observe(time.Since(start).Seconds())
	}
}

// ObserveRatcheting records the Compared of one update of a custom resource.
func (p *Program) ObserveRatcheting(compared time.Duration) {
	if m := p.options.Metrics; m != nil {
		m.Ratcheting.Observe(compared.Seconds())
	}
}
