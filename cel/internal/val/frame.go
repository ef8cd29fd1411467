package val

import (
	"context"
	"math"

	"github.com/keelson-io/keelson/jsondoc"
)

// This file defines the frame that compiled code runs in, and the four values
// of logic.

// Frame is the state of one evaluation. Variables are slots: 0 is self, 1 is
// oldSelf, the rest are those of comprehensions.
type Frame struct {
	Slots []Value
	Cost  uint64
	Limit uint64
	Fail  Value // why the last test was bad
	Stack []Value
	Text  []byte // of a text that nobody keeps

	Valid *jsondoc.Doc // of self, if that is known to be valid
	Kept  bool         // oldSelf is self

	Unknown []Pattern // parts of inputs that are not known, in a partial evaluation

	Ctx    context.Context
	Done   <-chan struct{}
	Ticks  int  // iterations until the next look at the context
	Work   int  // that no price pays for, such as items copied by adding lists
	Looks  bool // ctx and done are those of this evaluation
	Before int  // work of earlier evaluations, since an Activation settled
	Open   bool // the path that was evaluated last is optional: what follows it is, too
	Stop   bool // the context ended, or the cost limit was exceeded: loops end

	Compared comparison // of lists and maps
}

// Slots with a fixed meaning.
const (
	SlotSelf = iota
	SlotOldSelf
	FirstLocal
)

// Tri is the outcome of a test. After a bad one, frame.fail is the error or
// unknown.
type Tri uint8

// The outcomes of a test.
const (
	No Tri = iota
	Yes
	Bad
)

// Code runs in a frame and charges it.
type (
	EvalFn func(fr *Frame) Value
	TestFn func(fr *Frame) Tri
)

// Truth is b as the outcome of a test.
func Truth(b bool) Tri {
	if b {
		return Yes
	}
	return No
}

// Verdict is v as the outcome of a test: what is no bool is a failure.
func (fr *Frame) Verdict(v Value) Tri {
	if v.K == KindBool {
		return Tri(v.Bits)
	}
	if v.Failed() {
		fr.Fail = v
	} else {
		fr.Fail = ErrorValue(CodeNoOverload)
	}
	return Bad
}

// Outcome is the value of a test.
func (fr *Frame) Outcome(t Tri) Value {
	if t == Bad {
		return fr.Fail
	}
	return BoolValue(t == Yes)
}

// CheckFrequency is the number of loop iterations between looks at the context.
const CheckFrequency = 100

// Tick ends an iteration of a loop; false means that the loop must end.
func (fr *Frame) Tick() bool {
	fr.Ticks--
	return fr.Ticks > 0 && fr.Cost <= fr.Limit || fr.lookUp()
}

// lookUp looks at the context and the limit. Once a loop must end, all must.
func (fr *Frame) lookUp() bool {
	if fr.Cost > fr.Limit {
		fr.Stop = true
	}
	if fr.Ticks <= 0 && !fr.Stop {
		fr.Ticks = CheckFrequency
		select {
		case <-fr.Done:
			fr.Stop = true
		default:
		}
	}
	if fr.Stop {
		fr.Ticks = 0
	}
	return !fr.Stop
}

// Interrupted is what a loop that had to end evaluates to.
func (fr *Frame) Interrupted() Value { return ErrorValue(CodeInterrupted) }

// Adding lists costs one unit whatever their length, because upstream copies
// nothing. Here it copies, and repeated doubling must not take all memory: a
// list longer than maxList could not be iterated over within any limit.
const (
	maxList = 1 << 21
	MaxWork = 1 << 24
)

// MayCopy accounts for adding two lists; false means that it is too much.
func (fr *Frame) MayCopy(a, b Value) bool {
	n := b.Size()
	if a.Flag != FlagOwn {
		n += a.Size()
	}
	fr.Work += n
	return n <= maxList && fr.Work <= MaxWork
}

// Exhausted ends an evaluation that exceeds its limit.
func (fr *Frame) Exhausted() Value {
	fr.Cost, fr.Stop, fr.Ticks = max(fr.Cost, fr.Limit+1), true, 0
	return fr.Interrupted()
}

// FirstFailure chooses between failures as && and || do: an unknown wins over
// an error, the first error over later ones; unknowns are merged.
func FirstFailure(a, b Value) Value {
	switch {
	case a.K == KindNone:
		return b
	case a.K == KindUnknown && b.K == KindUnknown:
		return MergeUnknowns(a, b)
	case b.K == KindUnknown:
		return b
	}
	return a
}

// Drop forgets the arguments above base.
func (fr *Frame) Drop(base int) {
	clear(fr.Stack[base:])
	fr.Stack = fr.Stack[:base]
}

// InterruptedTest is the outcome of a loop that had to end.
func (fr *Frame) InterruptedTest() Tri {
	fr.Fail = fr.Interrupted()
	return Bad
}

// MayScan reports whether the loop of a diagram may have another iteration: it may cost
// so much, and the context has not ended.
func (fr *Frame) MayScan(cost uint64) bool {
	if cost > fr.Limit {
		return false
	}
	fr.Ticks = CheckFrequency
	select {
	case <-fr.Ctx.Done():
		return false
	default:
		return true
	}
}

// Begin prepares the frame for an evaluation.
func (fr *Frame) Begin(ctx context.Context, slots int, limit uint64) {
	if cap(fr.Slots) < slots {
		fr.Slots = make([]Value, slots, slots+8)
	}
	fr.Slots = fr.Slots[:slots]
	fr.Stack = fr.Stack[:0]
	fr.Cost, fr.Limit, fr.Ticks, fr.Work, fr.Stop, fr.Valid, fr.Kept = 0, min(limit, math.MaxUint64-1), CheckFrequency, 0, false, nil, false
	fr.Ctx, fr.Done, fr.Looks, fr.Compared.Done = ctx, ctx.Done(), true, 0
}

// End forgets what the evaluation worked on.
func (fr *Frame) End() {
	clear(fr.Slots)
	fr.Fail, fr.Ctx, fr.Done, fr.Valid = Value{}, nil, nil, nil
}
