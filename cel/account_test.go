package cel

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/keelson-io/keelson/cel/internal/fast"
	"github.com/keelson-io/keelson/cel/internal/val"
)

// TestAccount overdraws accounts, with expressions of a language.
// Ledger: cel-shared-effort.
func TestAccount(t *testing.T) {
	text := strings.Repeat("a", 1<<20)
	l, err := NewLanguage(LanguageOptions{Kubernetes: NewestKubernetes, Variables: []Variable{{Name: "s", Type: "string"}}})
	if err != nil {
		t.Fatal(err)
	}
	x, err := l.CompileExpression("s.charAt(0) == 'a'")
	if err != nil {
		t.Fatal(err)
	}
	each := Account{}
	const most = fast.Accounted * val.MaxWork
	vars, gone := goVars(t, map[string]any{"s": text}), errors.New("gone")
	ended, end := context.WithCancelCause(t.Context())
	end(gone)
	if _, _, err := x.EvalOn(t.Context(), vars, 1_000_000, &each); err != nil || each.work == 0 {
		t.Fatalf("reading a megabyte was not counted as work: %v", err)
	}
	for name, c := range map[string]struct {
		ctx     context.Context
		account *Account
		cost    uint64
		want    error
	}{
		"none":              {t.Context(), nil, 3, nil},
		"empty":             {t.Context(), &Account{}, 3, nil},
		"just enough":       {t.Context(), &Account{most - each.work}, 3, nil},
		"a step too many":   {t.Context(), &Account{most - each.work + 1}, 3, ErrCostLimit},
		"overdrawn":         {t.Context(), &Account{most + 1}, 0, ErrCostLimit},
		"ended":             {ended, &Account{fast.MuchWork}, 3, nil}, // there is no loop that looks
		"ended, and enough": {ended, &Account{fast.MuchWork + 1}, 0, gone},
	} {
		if _, cost, err := x.EvalOn(c.ctx, vars, 1_000_000, c.account); !errors.Is(err, c.want) || cost != c.cost {
			t.Errorf("%s: got %d, %v, want %d, %v", name, cost, err, c.cost, c.want)
		}
	}
}
