package cel

import (
	"context"
	"errors"
	"strings"
	"testing"
)

// TestAccount overdraws accounts, with rules of one place and with expressions of a language.
func TestAccount(t *testing.T) {
	text := strings.Repeat("a", 1<<20)
	env := testEnv(t)
	f := newFixture(t, env, "{type: object, properties: {t: {type: string}}}", "{t: "+text+"}")
	rule, err := f.types.Compile("self.t.charAt(0) == 'a'", f.self, CompileOptions{})
	if err != nil {
		t.Fatal(err)
	}
	a := Activation{Self: f.doc}
	tests := NewTests([]*Program{rule, rule, rule})
	hold := func(before int) (uint64, bool) {
		a.Settle()
		a.fr.before = before
		return tests.Hold(t.Context(), &a, 1_000_000, 10_000_000)
	}
	if cost, holds := hold(0); !holds || cost != 12 || a.Overdrawn() {
		t.Errorf("an empty account: %d units, %t, overdrawn: %t", cost, holds, a.Overdrawn())
	}
	each := (a.fr.before + a.fr.work) / 3
	if each == 0 {
		t.Fatal("reading a megabyte is no work")
	}
	if _, holds := hold(accounted*maxWork - 3*each); !holds || a.Overdrawn() {
		t.Errorf("just enough: %t, overdrawn: %t", holds, a.Overdrawn())
	}
	if cost, holds := hold(accounted*maxWork - 3*each + 1); holds || cost != 12 || !a.Overdrawn() {
		t.Errorf("a step too many: %d units, %t, overdrawn: %t", cost, holds, a.Overdrawn())
	}
	if cost, holds := hold(accounted*maxWork - each + 1); holds || cost != 4 || !a.Overdrawn() {
		t.Errorf("too many for one: %d units, %t, overdrawn: %t", cost, holds, a.Overdrawn())
	}
	if _, _, err := rule.Eval(t.Context(), &a, 1_000_000); err != nil || !a.Overdrawn() {
		t.Errorf("what is overdrawn stays so: %v, %t", err, a.Overdrawn())
	}
	if a.Settle(); a.Overdrawn() {
		t.Error("a settled account is overdrawn")
	}

	l, err := NewLanguage(LanguageOptions{Kubernetes: NewestKubernetes, Variables: []Variable{{Name: "s", Type: "string"}}})
	if err != nil {
		t.Fatal(err)
	}
	x, err := l.CompileExpression("s.charAt(0) == 'a'")
	if err != nil {
		t.Fatal(err)
	}
	vars, gone := goVars(t, map[string]any{"s": text}), errors.New("gone")
	ended, end := context.WithCancelCause(t.Context())
	end(gone)
	for name, c := range map[string]struct {
		ctx     context.Context
		account *Account
		cost    uint64
		want    error
	}{
		"none":              {t.Context(), nil, 3, nil},
		"empty":             {t.Context(), &Account{}, 3, nil},
		"just enough":       {t.Context(), &Account{accounted*maxWork - each}, 3, nil},
		"a step too many":   {t.Context(), &Account{accounted*maxWork - each + 1}, 3, ErrCostLimit},
		"overdrawn":         {t.Context(), &Account{accounted*maxWork + 1}, 0, ErrCostLimit},
		"ended":             {ended, &Account{muchWork}, 3, nil}, // there is no loop that looks
		"ended, and enough": {ended, &Account{muchWork + 1}, 0, gone},
	} {
		if _, cost, err := x.EvalOn(c.ctx, vars, 1_000_000, c.account); !errors.Is(err, c.want) || cost != c.cost {
			t.Errorf("%s: got %d, %v, want %d, %v", name, cost, err, c.cost, c.want)
		}
	}
}
