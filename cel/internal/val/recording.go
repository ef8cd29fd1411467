package val

// This file defines what an instrumented program records while it runs.

// Recording has what the parts of an expression evaluated to. Parts are numbered by the compiler of
// the instrumented program. A Recording can be used again after Reset.
type Recording struct {
	Values []Value // by part, of the last evaluation; KindNone if the part was not evaluated
	Loops  []LoopRecord
	Seen   []Outcomes // by part, of all evaluations since the Recording was made; nil unless KeepSeen was called
}

// LoopRecord is what a loop did the last time it ran.
type LoopRecord struct {
	Count   int     // elements that were visited
	Index   int     // the element whose values are recorded, -1 if there was none
	Var     Value   // the first variable at this element
	Var2    Value   // the second variable
	Results []Value // the results of the first elements: see MaxResults

	saved      bool // the values of an earlier element are saved
	savedIndex int
	savedVars  [2]Value
	values     []Value
	loops      []LoopRecord
}

// MaxResults is the number of elements of a loop whose results are recorded.
const MaxResults = 32

// Outcomes is the set of outcomes that a part had in several evaluations.
type Outcomes uint16

// The outcomes. A value that is not a bool counts as SeenOther.
//
// The last four are of the conditions of a decision, which is an expression of && || ! ?: that is not
// an operand of one. They say that the result of the decision was the second value because the
// condition had the first value: no other condition of the decision, with the values that they had,
// led to this result without it. A condition that was not evaluated does not count.
const (
	SeenTrue Outcomes = 1 << iota
	SeenFalse
	SeenOther
	SeenError
	SeenAbsorbed // an error on which the result of an operator or macro above did not depend
	SeenTrueMadeTrue
	SeenTrueMadeFalse
	SeenFalseMadeTrue
	SeenFalseMadeFalse
)

// Made returns the outcome that condition made the decision have the result.
func Made(condition, result bool) Outcomes {
	out := SeenTrueMadeTrue
	if !condition {
		out = SeenFalseMadeTrue
	}
	if !result {
		out <<= 1
	}
	return out
}

// Decides reports whether a condition decided about the result: there is a pair of evaluations that
// differ in its value and in the result (masking MC/DC).
func (o Outcomes) Decides() bool {
	const same, inverse = SeenTrueMadeTrue | SeenFalseMadeFalse, SeenTrueMadeFalse | SeenFalseMadeTrue
	return o&same == same || o&inverse == inverse
}

// NewRecording returns a Recording for an expression with that many parts and loops.
func NewRecording(parts, loops int) *Recording {
	return &Recording{Values: make([]Value, parts), Loops: make([]LoopRecord, loops)}
}

// KeepSeen makes the Recording collect the outcomes of parts.
func (r *Recording) KeepSeen() { r.Seen = make([]Outcomes, len(r.Values)) }

// Reset removes the values of the last evaluation.
func (r *Recording) Reset() {
	clear(r.Values)
	for i := range r.Loops {
		l := &r.Loops[i]
		clear(l.Results[:cap(l.Results)])
		*l = LoopRecord{Index: -1, Results: l.Results[:0]}
	}
}

// reset prepares the record for another run of the loop. It runs for each element of a loop around it,
// so that it leaves values which nobody reads before they are set.
func (l *LoopRecord) reset() { l.Count, l.Index, l.saved, l.Results = 0, -1, false, l.Results[:0] }

// Note records the value of a part.
func (r *Recording) Note(part int32, v Value) {
	r.Values[part] = v
	if r.Seen == nil {
		return
	}
	switch {
	case v.K == KindBool:
		r.Seen[part] |= SeenTrue << (1 - v.Bits&1)
	case v.Failed():
		r.Seen[part] |= SeenError
	default:
		r.Seen[part] |= SeenOther
	}
}

// LoopParts identifies a loop and the parts of its body.
type LoopParts struct {
	Loop        int32
	First, End  int32 // the parts of the body
	Inner, Last int32 // the loops in the body
}

// Begin starts a run of the loop.
func (r *Recording) Begin(l *LoopParts) {
	r.Loops[l.Loop].reset()
}

// Next starts the next element.
func (r *Recording) Next(l *LoopParts, v, v2 Value) {
	rec := &r.Loops[l.Loop]
	rec.Index, rec.Var, rec.Var2 = rec.Count, v, v2
	rec.Count++
	clear(r.Values[l.First:l.End])
	for i := l.Inner; i < l.Last; i++ {
		r.Loops[i].reset()
	}
}

// Result records the result of the current element. If it is a failure, its values are saved, because
// the loop continues.
func (r *Recording) Result(l *LoopParts, v Value) {
	rec := &r.Loops[l.Loop]
	if len(rec.Results) < MaxResults {
		rec.Results = append(rec.Results, v)
	}
	if v.Failed() && !rec.saved {
		rec.saved, rec.savedIndex, rec.savedVars = true, rec.Index, [2]Value{rec.Var, rec.Var2}
		rec.values = append(rec.values[:0], r.Values[l.First:l.End]...)
		rec.loops = rec.loops[:0]
		for i := l.Inner; i < l.Last; i++ {
			inner := r.Loops[i]
			inner.Results, inner.values, inner.loops = append([]Value(nil), inner.Results...), nil, nil
			rec.loops = append(rec.loops, inner)
		}
	}
}

// Absorb records for each error among parts that the result above did not depend on it. values has
// the values of the parts from first on.
func (r *Recording) Absorb(first int32, values []Value) {
	if r.Seen == nil {
		return
	}
	for i := range values {
		if values[i].K == KindError {
			r.Seen[int(first)+i] |= SeenAbsorbed
		}
	}
}

// Finish ends a run of the loop. If its result is a failure, the recorded values become those of the
// first element that failed.
func (r *Recording) Finish(l *LoopParts, v Value) {
	rec := &r.Loops[l.Loop]
	if !rec.saved {
		return
	}
	if !v.Failed() {
		r.Absorb(l.First, rec.values)
		return
	}
	rec.Index, rec.Var, rec.Var2 = rec.savedIndex, rec.savedVars[0], rec.savedVars[1]
	copy(r.Values[l.First:l.End], rec.values)
	copy(r.Loops[l.Inner:l.Last], rec.loops)
}
