package cel

import (
	"context"
	"testing"

	"github.com/keelson-io/keelson/cel/internal/val"
	"github.com/keelson-io/keelson/jsondoc"
)

// This file holds Tests against the programs that they are made of.

// TestTestsAreTheirPrograms evaluates lists of rules together and one by one:
// verdict and cost are the same, wherever a limit or budget ends them.
func TestTestsAreTheirPrograms(t *testing.T) {
	self := &Type{Kind: Object, Fields: []Field{
		{Name: "a", Type: &Type{Kind: Int}, Slot: -1},
		{Name: "l", Type: &Type{Kind: List, Elem: &Type{Kind: Int}, MaxElements: 10}, Slot: -1},
		{Name: "n", Type: &Type{Kind: Bool, Nullable: true}, Slot: -1},
	}}
	env, err := NewEnv(EnvOptions{})
	if err != nil {
		t.Fatal(err)
	}
	types := env.Types()
	var programs []*Program
	for _, rule := range []struct {
		text     string
		optional bool
	}{
		{"self.a > 0", false},
		{"self.l.all(x, x < self.a)", false},
		{"has(self.n) ? self.n : true", false}, // may be null, which is no bool
		{"self.a >= oldSelf.a", false},
		{"!oldSelf.hasValue() || self.l == oldSelf.value().l", true},
		{"self.l + self.l != []", false},
	} {
		p, err := types.Compile(rule.text, self, CompileOptions{Want: BoolResult, OptionalOldSelf: rule.optional})
		if err != nil {
			t.Fatal(rule.text, err)
		}
		programs = append(programs, p)
	}
	tests := NewTests(programs)
	if tests.Len() != len(programs) {
		t.Fatalf("%d tests of %d programs", tests.Len(), len(programs))
	}
	held := 0
	for _, text := range []string{`{"a":5,"l":[1,2]}`, `{"a":0,"l":[]}`, `{"a":5,"l":[7]}`, `{"a":9,"l":[1,2],"n":null}`, `{"a":9,"l":[1,2],"n":true}`, `{"a":4,"l":[1,2]}`, `{}`} {
		for _, old := range []string{"", `{"a":5,"l":[1,2]}`, `{"a":9,"l":[1,2]}`} {
			for _, budget := range []uint64{1, 5, 13, 40, 1000} {
				for _, limit := range []uint64{2, 12, 1000} {
					if holdBoth(t, &tests, programs, text, old, limit, budget) {
						held++
					}
				}
			}
		}
	}
	if held == 0 {
		t.Error("nothing held")
	}
}

func holdBoth(t *testing.T, tests *Tests, programs []*Program, text, old string, limit, budget uint64) bool {
	t.Helper()
	var d, was jsondoc.Doc
	if err := jsondoc.Parse(&d, []byte(text)); err != nil {
		t.Fatal(err)
	}
	act := Activation{Self: d.Root()}
	if old != "" {
		if err := jsondoc.Parse(&was, []byte(old)); err != nil {
			t.Fatal(err)
		}
		act.OldSelf, act.HasOldSelf = was.Root(), true
	}
	ctx := context.Background()
	want, spent := true, uint64(0)
	for _, p := range programs {
		v, cost, err := p.Eval(ctx, &act, limit)
		spent += cost
		if want = err == nil && v.Kind() == KindBool && v.Bool() && spent < budget; !want {
			break
		}
	}
	cost, ok := tests.Hold(ctx, &act, limit, budget)
	if ok != want || cost != spent {
		t.Errorf("%s, old %s, limit %d, budget %d: together %t for %d, one by one %t for %d", text, old, limit, budget, ok, cost, want, spent)
	}
	return ok
}

// TestNullBranches holds that ?: of data that is typed as bool may be null, where it is compared, collected, or chosen from again.
func TestNullBranches(t *testing.T) {
	f := newFixture(t, testEnv(t), `{type: object, properties: {b: {type: array, items: {type: boolean, nullable: true}}, c: {type: string}}}`, "{}")
	a := Activation{Self: f.document(t, "{b: [null, null], c: x}", f.self, true)}
	for rule, want := range map[string]bool{
		"(self.c == 'y' ? self.b[0] : self.b[1]) == true":                          false,
		"[(self.c == 'x' ? self.b[0] : self.b[1]), has(self.c)][size([])] == true": false,
		"(self.c == 'x' ? (self.c == 'y' ? true : self.b[0]) : true) != false":     true,
		"(self.c == 'x' ? self.?b[?0].orValue(true) : true) != false":              true,
	} {
		p, err := f.types.Compile(rule, f.self, CompileOptions{})
		if err != nil {
			t.Fatal(err)
		}
		if v, _, err := p.Eval(t.Context(), &a, 1000); err != nil || v != val.BoolValue(want) {
			t.Errorf("%s: got %v, %v, want %v", rule, v, err, want)
		}
	}
}
