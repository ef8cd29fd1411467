package cel

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/keelson-io/keelson/internal/fastpath"
)

// This file holds that long texts, large patterns and large numbers cannot make
// evaluations long.

// TestEffort evaluates what costs little and would take very long.
// Ledger: cel-quantities, cel-effort, cel-patterns.
func TestEffort(t *testing.T) {
	l, err := NewLanguage(LanguageOptions{Kubernetes: NewestKubernetes, Variables: []Variable{{Name: "s", Type: "string"}, {Name: "half", Type: "string"}}})
	if err != nil {
		t.Fatal(err)
	}
	digits := strings.Repeat("9", 1001)
	long := strings.Repeat("a", 1<<19)
	for _, c := range []struct {
		expr, s, want string // want is an error
	}{
		{"quantity(s).isInteger()", "1e-2147483648", costText},
		{"quantity(s).isGreaterThan(quantity('1m'))", "1e2147483647", costText},
		{"quantity(s).add(1).isInteger()", "-1E1001", costText},
		{"isQuantity(s)", digits, costText},
		{"isQuantity(s)", "0." + digits + "Ki", costText},
		{"isQuantity(s)", digits + "nope", ""},
		{"quantity(s).isGreaterThan(quantity('1m'))", "1e1000", ""},
		{"quantity(s) == quantity('1e1')", "1e4294967297", ""}, // as many bits as upstream keeps
		{"quantity(s).isInteger()", "1e99999999999999999999", "unable to parse quantity's suffix"},
		{"s.matches(s)", long, costText},
		{"s.find(s)", long, costText},
		{"'aaa'.matches(s)", long, costText},
		{"'aaa'.matches(s)", "((a{1000}){1})" + strings.Repeat("a{1000}", 400), costText},
		{"s.matches('" + strings.Repeat("(.?){1000}", 8) + "x$')", long, costText},
		{"s.matches('^a*$')", long, ""},
		{"s.find('(é?){1000}(é?){1000}x')", long, costText},
		{"s.findAll('.*x|.').size() > 0", long, costText},
		{"s.findAll('\\\\b.*x|.').size() > 0", long, costText},
		{"lists.range(1000).all(i, s.findAll('').size() > 0)", long, costText},
		{"lists.range(90000).all(i, s.findAll('').size() > 0)", long[:500], costText}, // each is little
		{"lists.range(90000).all(i, s.findAll('x*').size() > 0)", long[:100], costText},
		{"lists.range(90000).all(i, s.findAll('^.*x|.').size() > 0)", long[:200], costText},
		{"lists.range(90000).all(i, s.findAll('').size() > 0)", "", ""},
		{"lists.range(30000).all(i, !s.matches('(.?){1000}x$'))", strings.Repeat("é", 60), costText},
		{"lists.range(90000).all(i, s.find('(.?){1000}(.?){1000}x') == '')", "é", costText},
		{"lists.range(1000).all(i, s.matches('^.{1,253}$') && s.find('[a-z]{2}') == '')", strings.Repeat("é", 253), ""},
		{"lists.range(1000).all(i, s.findAll('[a-z]+ ').size() == 20 && s.findAll('\\b[a-z]+ ', 2).size() == 2)", strings.Repeat("abcdef ", 20), ""},
		{"lists.range(10000).all(i, isURL(s) || true)", long, costText},
		{"lists.range(10000).all(i, s.charAt(i) == 'a')", long, costText},
		{"lists.range(10000).all(i, duration(s) == duration('1s') || true)", "0s" + strings.Repeat("0h", 1<<18), costText},
		{"lists.range(10000).all(i, size(s) > 0)", "é" + long, costText}, // code points are counted each time
		{"lists.range(100000).all(i, s == 'é' || s < 'é' || s.contains(''))", "é" + long, costText},
		{"lists.range(10000).all(i, size(bytes(s)) > 0)", long, costText},
		{"lists.range(1000).all(i, 'a'.indexOf(s) == -1 || true)", "é" + long, costText},
		{"lists.range(1000).all(i, 'ab'.lastIndexOf(s, 1) == -1 || true)", "é" + long, costText},
		{"lists.range(1000).all(i, !format.named(s).hasValue())", long, costText},
		{"lists.range(1000).all(i, timestamp('2024-01-01T00:00:00Z').getHours(s) == 0 || true)", long, costText},
		{"lists.range(50000).all(i, timestamp('2024-01-01T00:00:00Z').getHours('Europe/' + s) == 1)", "Paris", costText}, // each reads a file
		{"lists.range(1000).all(i, timestamp('2024-01-01T00:00:00Z').getHours('Europe/' + s) == 1)", "Paris", ""},
		{"lists.range(10000).all(i, 'a b c d e f g h'.replace('', s) != '')", long[:100_000], costText},
		{"lists.range(1000).all(i, 'a b c d e f g h'.replace('a', s) != '')", long[:100], ""},
		{"lists.range(10000).all(i, '%s'.format([s]) != '')", long, costText},
		{"lists.range(10000).all(i, '%s'.format([[s, s, s, s, s, s, s, s, s]]) != '')", long[:40_000], costText},
		{"s.indexOf(half + 'b') == -1 && s.lastIndexOf('b' + half) == -1", long, ""},
		{"s.indexOf(half + 'b', 3) == -1 && s.lastIndexOf('b' + half, 500000) == -1", long, ""},
	} {
		if strings.Contains(c.expr, "s < 'é'") && !fastpath.Closures.On() {
			continue // then nothing counts the code points
		}
		x, err := l.CompileExpression(c.expr)
		if err != nil {
			t.Fatal(err)
		}
		vars := goVars(t, map[string]any{"s": c.s, "half": c.s[:len(c.s)/2]})
		v, _, err := x.Eval(context.Background(), vars, 1_000_000)
		switch {
		case c.want == "" && (err != nil || v.Kind() != KindBool):
			t.Errorf("%s of %.20s…: got %v, %v", c.expr, c.s, v, err)
		case c.want != "" && (err == nil || err.Error() != c.want):
			t.Errorf("%s of %.20s…: got %.100v, want %q", c.expr, c.s, err, c.want)
		}
	}
	if _, err := l.CompileExpression("s.matches('" + strings.Repeat("a{1000}", 251) + "')"); err == nil || !strings.Contains(err.Error(), "the pattern is too large: 502") {
		t.Errorf("a large pattern: got %v", err)
	}
}

// TestContextBetweenRules: when the context has ended, no rule follows one that
// did much.
// Ledger: cel-client-gone.
func TestContextBetweenRules(t *testing.T) {
	env := testEnv(t)
	f := newFixture(t, env, "{type: object, properties: {t: {type: string}}}", "{t: "+strings.Repeat("a", 200_000)+"}")
	var programs []*Program
	for _, rule := range []string{"self.t.upperAscii().size() > 0", "self.t.lowerAscii().size() > 1"} {
		p, err := f.types.Compile(rule, f.self, CompileOptions{})
		if err != nil {
			t.Fatal(err)
		}
		programs = append(programs, p)
	}
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	a := Activation{Self: f.doc}
	tests := NewTests(programs)
	cost, holds := tests.Hold(ctx, &a, 1_000_000, 10_000_000)
	_, one, err := programs[0].Eval(ctx, &a, 1_000_000)
	if err != nil && !errors.Is(err, ErrInterrupted) {
		t.Fatal(err)
	}
	if holds || cost != one {
		t.Errorf("got %t after %d units, want an end after %d", holds, cost, one)
	}
	if _, holds := tests.Hold(context.Background(), &a, 1_000_000, 10_000_000); !holds {
		t.Error("the rules do not hold")
	}
}
