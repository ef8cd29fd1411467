package val

import (
	"context"
	"math"

	"github.com/keelson-io/keelson/jsondoc"
)

// This file defines the frame of an evaluation, and the results of tests.

// Frame is the state of one evaluation. Variables are in slots: 0 is self, 1 is oldSelf, the others
// are those of comprehensions.
type Frame struct {
	Slots []Value
	Cost  uint64
	Limit uint64
	Fail  Value // the error or unknown of the last test that was Bad
	Stack []Value
	Text  []byte // memory for a text that is not stored

	Valid *jsondoc.Doc // the document of self, if it is known to be valid
	Kept  bool         // oldSelf is self: see Activation.Kept

	Unknown []Pattern // the parts of inputs that are unknown, in a partial evaluation

	Ctx    context.Context
	Done   <-chan struct{}
	Ticks  int  // iterations until the next check of the context
	Work   int  // steps that cost units do not cover, such as items copied by adding lists
	Looks  bool // Ctx and Done belong to this evaluation
	Before int  // Work of earlier evaluations, since Activation.ResetWork
	Open   bool // the path that was evaluated last is optional, and so are the steps after it
	Stop   bool // the context ended or the cost limit was exceeded: loops must end

	Compared comparison // the comparisons of lists and maps

	Rec *Recording // of an instrumented program, otherwise nil
}

// Slots with a fixed meaning.
const (
	SlotSelf = iota
	SlotOldSelf
	FirstLocal
)

// Tri is the result of a test. After Bad, Frame.Fail has the error or unknown.
type Tri uint8

// The results of a test.
const (
	No Tri = iota
	Yes
	Bad
)

// Compiled code, which adds its cost to the frame.
type (
	EvalFn func(fr *Frame) Value
	TestFn func(fr *Frame) Tri
)

// Truth returns b as the result of a test.
func Truth(b bool) Tri {
	if b {
		return Yes
	}
	return No
}

// Verdict returns v as the result of a test. A value other than a bool is an error.
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

// Outcome returns the value of a test.
func (fr *Frame) Outcome(t Tri) Value {
	if t == Bad {
		return fr.Fail
	}
	return BoolValue(t == Yes)
}

// CheckFrequency is the number of loop iterations between checks of the context.
const CheckFrequency = 100

// Tick counts an iteration of a loop. It returns false if the loop must end.
func (fr *Frame) Tick() bool {
	fr.Ticks--
	return fr.Ticks > 0 && fr.Cost <= fr.Limit || fr.checkEnd()
}

// checkEnd checks the limit and the context. If a loop must end, all loops must.
func (fr *Frame) checkEnd() bool {
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

// Interrupted returns the value of a loop that had to end.
func (fr *Frame) Interrupted() Value { return ErrorValue(CodeInterrupted) }

// Adding lists costs one unit for any length, because upstream copies nothing. Here lists are
// copied, and repeated doubling must not use up the memory. A list longer than maxList could not be
// iterated within any limit.
const (
	maxList = 1 << 21
	MaxWork = 1 << 24
)

// MayCopy counts the work of adding two lists. It returns false if that is too much.
func (fr *Frame) MayCopy(a, b Value) bool {
	n := b.Size()
	if a.Flag != FlagOwn {
		n += a.Size()
	}
	fr.Work += n
	return n <= maxList && fr.Work <= MaxWork
}

// Exhausted ends an evaluation that exceeds a bound.
func (fr *Frame) Exhausted() Value {
	fr.Cost, fr.Stop, fr.Ticks = max(fr.Cost, fr.Limit+1), true, 0
	return fr.Interrupted()
}

// FirstFailure returns one of two failures as && and || do: an unknown takes precedence over an
// error, the first error over later ones, and unknowns are merged.
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

// Drop removes the arguments above base.
func (fr *Frame) Drop(base int) {
	clear(fr.Stack[base:])
	fr.Stack = fr.Stack[:base]
}

// InterruptedTest returns the result of a loop that had to end.
func (fr *Frame) InterruptedTest() Tri {
	fr.Fail = fr.Interrupted()
	return Bad
}

// MayScan reports whether the loop of a diagram may have another iteration: the cost is within the
// limit, and the context has not ended.
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

// End removes the references to the input of the evaluation.
func (fr *Frame) End() {
	clear(fr.Slots)
	fr.Fail, fr.Ctx, fr.Done, fr.Valid = Value{}, nil, nil, nil
}
