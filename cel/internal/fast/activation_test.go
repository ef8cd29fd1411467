package fast

import (
	"testing"

	"github.com/keelson-io/keelson/cel/internal/val"
	"github.com/keelson-io/keelson/jsondoc"
)

// TestSettle overdraws the account of an activation with rules of one place, each of which does some work that its cost does
// not pay for.
func TestSettle(t *testing.T) {
	const each, most = 1000, Accounted * val.MaxWork
	rule := &Program{Self: &val.Type{Kind: val.Bool}, Slots: val.FirstLocal, Diagram: Ends[val.Bad], Test: func(fr *val.Frame) val.Tri {
		fr.Cost += 4
		fr.Work += each
		return val.Yes
	}}
	tests := NewTests([]*Program{rule, rule, rule})
	var d jsondoc.Doc
	d.SetRoot(jsondoc.BoolNode(true))
	a := Activation{Self: d.Root()}
	hold := func(before int) (uint64, bool) {
		a.ResetWork()
		a.fr.Before = before
		return tests.Hold(t.Context(), &a, 1_000_000, 10_000_000)
	}
	if cost, holds := hold(0); !holds || cost != 12 || a.Overdrawn() {
		t.Errorf("an empty account: %d units, %t, overdrawn: %t", cost, holds, a.Overdrawn())
	}
	if _, holds := hold(most - 3*each); !holds || a.Overdrawn() {
		t.Errorf("just enough: %t, overdrawn: %t", holds, a.Overdrawn())
	}
	if cost, holds := hold(most - 3*each + 1); holds || cost != 12 || !a.Overdrawn() {
		t.Errorf("a step too many: %d units, %t, overdrawn: %t", cost, holds, a.Overdrawn())
	}
	if cost, holds := hold(most - each + 1); holds || cost != 4 || !a.Overdrawn() {
		t.Errorf("too many for one: %d units, %t, overdrawn: %t", cost, holds, a.Overdrawn())
	}
	if _, _, err := rule.Eval(t.Context(), &a, 1_000_000); err != nil || !a.Overdrawn() {
		t.Errorf("what is overdrawn stays so: %v, %t", err, a.Overdrawn())
	}
	if a.ResetWork(); a.Overdrawn() {
		t.Error("a settled account is overdrawn")
	}
}
