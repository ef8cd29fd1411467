package policy

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"strings"
	"testing"

	"github.com/keelson-io/keelson/cel"
)

// This file holds that what one mutation puts into an object is bounded, in bytes and in the memory that it takes to find out.

// Ledger: mutation-size.
func TestHeavyMutations(t *testing.T) {
	l, err := cel.NewLanguage(cel.AdmissionConditions(cel.AdmissionVariables{Patches: true}))
	if err != nil {
		t.Fatal(err)
	}
	object, err := cel.FromJSON([]byte(`{"t":"` + strings.Repeat("a", 1<<20) + `"}`))
	if err != nil {
		t.Fatal(err)
	}
	many, made := "[object.t]", "Object{}"
	for i := range 3 {
		many = fmt.Sprintf("[%s].map(x%d, lists.range(1000).map(i, x%d))[0]", many, i, i)
	}
	for i := range 40 {
		made = fmt.Sprintf("[%s].map(x%d, Object{a: x%d, b: x%d})[0]", made, i, i, i)
	}
	for name, c := range map[string]struct {
		patch bool
		expr  string
		want  error
	}{
		"patch":                   {true, "[JSONPatch{op: 'add', path: '/x', value: object.t}]", nil},
		"patches that fit":        {true, "lists.range(15).map(i, JSONPatch{op: 'add', path: '/x' + string(i), value: object.t})", nil},
		"patches":                 {true, "lists.range(16).map(i, JSONPatch{op: 'add', path: '/x' + string(i), value: object.t})", errTooLarge},
		"patch of many":           {true, "[JSONPatch{op: 'add', path: '/x', value: " + many + "}]", errTooLarge},
		"patch of objects":        {true, "[JSONPatch{op: 'add', path: '/x', value: " + made + "}]", errTooLarge},
		"overlay":                 {false, "Object{spec: Object.spec{x: lists.range(16).map(i, object.t)}}", errTooLarge},
		"overlay of many":         {false, "Object{spec: Object.spec{x: " + many + "}}", errTooLarge},
		"overlay of objects":      {false, made, errTooLarge},
		"overlay of wrong places": {false, "Object{spec: Object.other{x: 1}}", errWrongPlace},
	} {
		x, err := l.CompileExpression(c.expr)
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		value, _, err := x.Eval(context.Background(), cel.Vars{cel.ObjectVariable: object}, 1_000_000)
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		if c.patch {
			_, err = patched(t.Context(), []byte(`{}`), value)
		} else {
			_, err = (&enforcement{}).overlaid(nil, []byte(`{}`), value)
		}
		runtime.ReadMemStats(&after)
		if c.want == nil && err != nil || c.want != nil && (err == nil || !errors.Is(err, c.want) && err.Error() != c.want.Error()) {
			t.Errorf("%s: got %v, want %v", name, err, c.want)
		}
		if used := after.TotalAlloc - before.TotalAlloc; used > 40*maxChange {
			t.Errorf("%s: allocated %d MiB", name, used>>20)
		}
	}
}

var errWrongPlace = errors.New(`type mismatch: unexpected type name "Object.other", expected "Object.spec", which matches field name path from root Object type`)
