package cel

import (
	"context"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
)

// formula is an expression of && || ! ?: over conditions. Each condition occurs once.
type formula struct {
	op       string // "" for a condition
	index    int    // of a condition
	operands []*formula
}

// randomFormula returns a formula, and counts its conditions in n.
func randomFormula(r *rand.Rand, depth int, n *int) *formula {
	f := new(formula)
	if depth == 0 || *n > 4 || r.IntN(5) == 0 {
		f.index = *n
		*n++
		return f
	}
	f.op = []string{"&&", "||", "!", "?:"}[r.IntN(4)]
	for range map[string]int{"&&": 2, "||": 2, "!": 1, "?:": 3}[f.op] {
		f.operands = append(f.operands, randomFormula(r, depth-1, n))
	}
	return f
}

// text returns the formula in CEL. Conditions compare members of v.
func (f *formula) text(v string) string {
	var o []string
	for _, operand := range f.operands {
		o = append(o, operand.text(v))
	}
	switch f.op {
	case "":
		return fmt.Sprintf("%s.c%d == 1", v, f.index)
	case "!":
		return "!(" + o[0] + ")"
	case "?:":
		return "(" + o[0] + " ? " + o[1] + " : " + o[2] + ")"
	}
	return "(" + o[0] + " " + f.op + " " + o[1] + ")"
}

// The values of conditions in the model.
const (
	isFalse = iota
	isTrue
	isError
	values
)

// eval evaluates the formula by the semantics of the language. It marks the conditions that it needs.
func (f *formula) eval(in []int, used []bool) int {
	switch f.op {
	case "":
		used[f.index] = true
		return in[f.index]
	case "!":
		return []int{isTrue, isFalse, isError}[f.operands[0].eval(in, used)]
	case "?:":
		switch f.operands[0].eval(in, used) {
		case isTrue:
			return f.operands[1].eval(in, used)
		case isFalse:
			return f.operands[2].eval(in, used)
		}
		return isError
	}
	enough := isFalse
	if f.op == "||" {
		enough = isTrue
	}
	out := 1 - enough
	for _, operand := range f.operands {
		switch v := operand.eval(in, used); v {
		case enough:
			return enough
		case isError:
			out = isError
		}
	}
	return out
}

// decided reports whether the result of in was what it was because of condition c: with the other
// value of c, and some values of the conditions that were not needed, it is another one.
func (f *formula) decided(in []int, used []bool, c, result int) bool {
	free := []int{}
	for i := range in {
		if !used[i] {
			free = append(free, i)
		}
	}
	other := append([]int(nil), in...)
	other[c] = 1 - in[c]
	combinations := 1
	for range free {
		combinations *= values
	}
	for n := range combinations {
		for _, i := range free {
			other[i] = n % values
			n /= values
		}
		if f.eval(other, make([]bool, len(in))) != result {
			return true
		}
	}
	return false
}

// TestCoverageOfDecisions compares the coverage of random decisions with a model that evaluates each
// decision again with other values: for decisions that are rules, and for predicates of macros.
func TestCoverageOfDecisions(t *testing.T) {
	env := testEnv(t)
	const schema = `{type: object, properties: {l: {type: array, items: {type: object, properties: {
 c0: {type: integer}, c1: {type: integer}, c2: {type: integer}, c3: {type: integer}, c4: {type: integer}, c5: {type: integer}, c6: {type: integer}, c7: {type: integer}}}}}}`
	r := rand.New(rand.NewPCG(1, 2))
	decided := 0
	for round := range 400 {
		n := 0
		f := randomFormula(r, 3, &n)
		if n > 8 {
			continue
		}
		form := []string{"self.l.map(x, %s).size() >= 0", "self.l.all(x, %s)", "self.l.exists(x, %s) || self.l.size() == 0", "self.l.filter(x, %s).size() >= 0",
			"self.l.all(y, self.l.exists_one(x, %s) || true)"}[round%5]
		var lists [][][]int
		for range 3 {
			var list [][]int
			for range r.IntN(4) {
				in := make([]int, n)
				for i := range in {
					in[i] = r.IntN(2)
					if r.IntN(8) == 0 {
						in[i] = isError
					}
				}
				list = append(list, in)
			}
			lists = append(lists, list)
		}
		var cover *Coverage
		want := make([]map[[2]int]bool, n) // by condition: pairs of its value and the result
		seen := make([]map[int]bool, n)
		for i := range want {
			want[i], seen[i] = map[[2]int]bool{}, map[int]bool{}
		}
		rule := fmt.Sprintf(form, f.text("x"))
		for _, list := range lists {
			var items []string
			stop := false
			for _, in := range list {
				var members []string
				for i, v := range in {
					if v != isError {
						members = append(members, fmt.Sprintf("c%d: %d", i, v))
					}
				}
				items = append(items, "{"+strings.Join(members, ", ")+"}")
				if stop {
					continue
				}
				used := make([]bool, n)
				result := f.eval(in, used)
				for i := range in {
					if used[i] {
						seen[i][in[i]] = true
						if in[i] != isError && result != isError && f.decided(in, used, i, result) {
							want[i][[2]int{in[i], result}] = true
						}
					}
				}
				switch round % 5 { // map(), filter() and exists_one() visit all elements, failed or not
				case 1:
					stop = result == isFalse
				case 2:
					stop = result == isTrue
				}
			}
			fix := newFixture(t, env, schema, "{l: ["+strings.Join(items, ", ")+"]}")
			if cover == nil {
				e, err := fix.types.Explainer(rule, fix.self, CompileOptions{})
				if err != nil {
					t.Fatalf("%s: %v", rule, err)
				}
				cover = e.NewCoverage()
			}
			_, _, _ = cover.EvalRule(context.Background(), &Activation{Self: fix.doc}, 1_000_000)
		}
		for _, p := range cover.Parts() {
			var i int
			if _, err := fmt.Sscanf(p.Text, "x.c%d == 1", &i); err != nil || p.Text != fmt.Sprintf("x.c%d == 1", i) {
				continue
			}
			w := want[i]
			decides := w[[2]int{isTrue, isTrue}] && w[[2]int{isFalse, isFalse}] || w[[2]int{isTrue, isFalse}] && w[[2]int{isFalse, isTrue}]
			if p.True != seen[i][isTrue] || p.False != seen[i][isFalse] || p.Error != seen[i][isError] {
				t.Errorf("round %d: %s: %s: got true %t, false %t, error %t, want %v\n%v", round, rule, p.Text, p.True, p.False, p.Error, seen[i], lists)
			}
			if p.Condition != (n > 1) {
				t.Errorf("%s: %s: got condition %t of %d", rule, p.Text, p.Condition, n)
			}
			if n > 1 && p.Decides != decides {
				t.Errorf("round %d: %s: %s: got decides %t, want %t\n%v", round, rule, p.Text, p.Decides, decides, lists)
			}
			if decides {
				decided++
			}
		}
	}
	if decided < 50 {
		t.Errorf("got %d conditions that decide, want more", decided)
	}
}

// TestCoverageParts checks which parts are listed, and errors that do not matter.
func TestCoverageParts(t *testing.T) {
	f := newFixture(t, testEnv(t), strings.ReplaceAll(listSchema, "\t", " "), listData)
	for _, test := range []struct{ rule, want string }{
		{"self.num > 3 && (self.l[1].o.x > 0 || self.t == 'text')", `
0 self.num > 3 && (self.l[1].o.x > 0 || self.t == 'text'): true
1 self.num > 3: true, condition
2 self.num: evaluated
1 self.l[1].o.x > 0 || self.t == 'text': true
2 self.l[1].o.x > 0: error, absorbed, condition
3 self.l[1].o.x: error, absorbed
4 self.l[1]: evaluated
5 self.l: evaluated
2 self.t == 'text': true, condition
3 self.t: evaluated
`},
		{"self.l.exists(x, x.o.x == 3 || false)", `
0 self.l.exists(x, x.o.x == 3 || false): true
1 self.l: evaluated
1 x.o.x == 3 || false: true, false, error, absorbed
2 x.o.x == 3: true, false, error, absorbed
3 x.o.x: error, absorbed
`},
		{"(self.b ? self.num : 7) == 5", `
0 (self.b ? self.num : 7) == 5: true
1 self.b ? self.num : 7: evaluated
2 self.b: true
2 self.num: evaluated
`},
	} {
		e, err := f.types.Explainer(test.rule, f.self, CompileOptions{})
		if err != nil {
			t.Fatal(err)
		}
		c := e.NewCoverage()
		if _, _, err := c.EvalRule(context.Background(), &Activation{Self: f.doc}, 1_000_000); err != nil {
			t.Fatal(err)
		}
		var b strings.Builder
		b.WriteString("\n")
		for _, p := range c.Parts() {
			var said []string
			for _, s := range []struct {
				name string
				is   bool
			}{{"evaluated", p.Evaluated && !p.True && !p.False && !p.Error}, {"true", p.True}, {"false", p.False}, {"error", p.Error}, {"absorbed", p.Absorbed}, {"condition", p.Condition}, {"decides", p.Decides}} {
				if s.is {
					said = append(said, s.name)
				}
			}
			fmt.Fprintf(&b, "%d %s: %s\n", p.Depth, p.Text, strings.Join(said, ", "))
		}
		if b.String() != test.want {
			t.Errorf("%s: got %s\nwant %s", test.rule, b.String(), test.want)
		}
	}
}
