package cel

import (
	"context"

	"github.com/keelson-io/keelson/doc"
)

// This file defines the frame that compiled code runs in, and the four values
// of logic.

// frame is the state of one evaluation. Variables are slots: 0 is self, 1 is
// oldSelf, the rest are those of comprehensions.
type frame struct {
	slots []Value
	cost  uint64
	limit uint64
	fail  Value // why the last test was bad
	stack []Value
	text  []byte // of a text that nobody keeps

	valid *doc.Doc // of self, if that is known to be valid
	kept  bool     // oldSelf is self

	unknown []Pattern // parts of inputs that are not known, in a partial evaluation

	ctx    context.Context
	done   <-chan struct{}
	ticks  int  // iterations until the next look at the context
	work   int  // that no price pays for, such as items copied by adding lists
	looks  bool // ctx and done are those of this evaluation
	before int  // work of earlier evaluations, since an Activation settled
	open   bool // the path that was evaluated last is optional: what follows it is, too
	stop   bool // the context ended, or the cost limit was exceeded: loops end

	compared comparison // of lists and maps
}

// Slots with a fixed meaning.
const (
	slotSelf = iota
	slotOldSelf
	firstLocal
)

// tri is the outcome of a test. After a bad one, frame.fail is the error or
// unknown.
type tri uint8

const (
	no tri = iota
	yes
	bad
)

// evalFn computes a value, testFn a truth value. Both charge the frame.
type (
	evalFn func(fr *frame) Value
	testFn func(fr *frame) tri
)

func truth(b bool) tri {
	if b {
		return yes
	}
	return no
}

// verdict is v as the outcome of a test: what is no bool is a failure.
func (fr *frame) verdict(v Value) tri {
	if v.kind == KindBool {
		return tri(v.bits)
	}
	if v.failed() {
		fr.fail = v
	} else {
		fr.fail = errorValue(errNoOverload)
	}
	return bad
}

// outcome is the value of a test.
func (fr *frame) outcome(t tri) Value {
	if t == bad {
		return fr.fail
	}
	return boolValue(t == yes)
}

// checkFrequency is the number of loop iterations between looks at the context.
const checkFrequency = 100

// tick ends an iteration of a loop; false means that the loop must end.
func (fr *frame) tick() bool {
	fr.ticks--
	return fr.ticks > 0 && fr.cost <= fr.limit || fr.lookUp()
}

// lookUp looks at the context and the limit. Once a loop must end, all must.
func (fr *frame) lookUp() bool {
	if fr.cost > fr.limit {
		fr.stop = true
	}
	if fr.ticks <= 0 && !fr.stop {
		fr.ticks = checkFrequency
		select {
		case <-fr.done:
			fr.stop = true
		default:
		}
	}
	if fr.stop {
		fr.ticks = 0
	}
	return !fr.stop
}

// interrupted is what a loop that had to end evaluates to.
func (fr *frame) interrupted() Value { return errorValue(errInterrupted) }

// Adding lists costs one unit whatever their length, because upstream copies
// nothing. Here it copies, and repeated doubling must not take all memory: a
// list longer than maxList could not be iterated over within any limit.
const (
	maxList = 1 << 21
	maxWork = 1 << 24
)

// mayCopy accounts for adding two lists; false means that it is too much.
func (fr *frame) mayCopy(a, b Value) bool {
	n := b.size()
	if a.flag != flagOwn {
		n += a.size()
	}
	fr.work += n
	return n <= maxList && fr.work <= maxWork
}

// exhausted ends an evaluation that exceeds its limit.
func (fr *frame) exhausted() Value {
	fr.cost, fr.stop, fr.ticks = max(fr.cost, fr.limit+1), true, 0
	return fr.interrupted()
}

// firstFailure chooses between failures as && and || do: an unknown wins over
// an error, the first error over later ones; unknowns are merged.
func firstFailure(a, b Value) Value {
	switch {
	case a.kind == KindNone:
		return b
	case a.kind == KindUnknown && b.kind == KindUnknown:
		return mergeUnknowns(a, b)
	case b.kind == KindUnknown:
		return b
	}
	return a
}
