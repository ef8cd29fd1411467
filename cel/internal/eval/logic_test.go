package eval

import (
	"testing"

	"github.com/keelson-io/keelson/cel/internal/val"
)

// TestUnknown checks the logic of four values: false and true absorb what is
// unknown, unknown hides errors.
func TestUnknown(t *testing.T) {
	x, y := val.UnknownValue("self.x"), val.UnknownValue("self.y")
	failure := val.ErrorValue(val.CodeDivZero)
	is := func(v val.Value) val.TestFn { return func(fr *val.Frame) val.Tri { return fr.Verdict(v) } }
	rows := []struct {
		a, b    val.Value
		and, or string
	}{
		{x, val.BoolValue(true), "unknown self.x", "true"},
		{x, val.BoolValue(false), "false", "unknown self.x"},
		{x, failure, "unknown self.x", "unknown self.x"},
		{failure, x, "unknown self.x", "unknown self.x"},
		{y, x, "unknown self.x, self.y", "unknown self.x, self.y"},
		{failure, val.ErrorValue(val.CodeModZero), "division by zero", "division by zero"},
	}
	for _, row := range rows {
		fr := &val.Frame{}
		tests := []val.TestFn{is(row.a), is(row.b)}
		if got := fr.Outcome(runTests(fr, tests, val.No)).String(); got != row.and {
			t.Errorf("%v && %v: got %s, want %s", row.a, row.b, got, row.and)
		}
		if got := fr.Outcome(runTests(fr, tests, val.Yes)).String(); got != row.or {
			t.Errorf("%v || %v: got %s, want %s", row.a, row.b, got, row.or)
		}
	}
}
