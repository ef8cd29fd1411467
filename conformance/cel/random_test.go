package cel_test

import (
	"fmt"
	"math/rand/v2"
	"os"
	"strconv"
	"strings"
	"testing"
)

// This file compares random expressions.

// writer writes random expressions of a type over the first schema of the table.
type writer struct {
	*rand.Rand
	vars  map[string][]string // type to variables in scope
	fresh int
}

func (w *writer) pick(options ...string) string { return options[w.IntN(len(options))] }

// expr is a random expression of type t, about depth operators deep.
func (w *writer) expr(t string, depth int) string {
	if vars := w.vars[t]; len(vars) > 0 && w.IntN(3) == 0 {
		return vars[w.IntN(len(vars))]
	}
	if depth <= 0 {
		return w.leaf(t)
	}
	d := depth - 1
	switch w.IntN(14) {
	case 0:
		return fmt.Sprintf("(%s ? %s : %s)", w.expr("bool", d), w.expr(t, d), w.expr(t, d))
	case 1:
		return w.leaf(t)
	case 2:
		return fmt.Sprintf("[%s, %s][%s]", w.expr(t, d), w.expr(t, d), w.expr("int", 0))
	case 3:
		return fmt.Sprintf("optional.of(%s).orValue(%s)", w.expr(t, d), w.expr(t, d))
	case 4:
		return fmt.Sprintf("{'k': %s, 'b': %s}[%s]", w.expr(t, d), w.expr(t, d), w.pick("'k'", "'b'", w.expr("string", d)))
	}
	switch t {
	case "bool":
		return w.bool(d)
	case "int":
		return w.int(d)
	case "string":
		return w.string(d)
	case "ints", "strings":
		return w.list(t, d)
	}
	return w.leaf(t)
}

func (w *writer) leaf(t string) string {
	switch t {
	case "bool":
		return w.pick("true", "false", "self.t", "has(self.missing)", "has(self.o.x)", "has(self.a)", "dyn(self.t)")
	case "int":
		return w.pick("0", "1", "2", "-1", "self.a", "self.o.x", "self.bad", "self.l[0]", "self.m.k", "self.m['zz']", "self.lo[0].v", "self.lo[1].v", "self.missingo.z", "9223372036854775807", "self.?a.orValue(1)", "oldSelf.a", "dyn(self.a)")
	case "string":
		return w.pick("''", "'a'", "'hello'", "'wörld'", "self.b", "self.c", "self.missing", "self.nul", "self.uni", "self.long", "self.bads", "self.o.p.q", "self.ln[0]", "self.ln[1]", "self.?missing.orValue('z')", "self.m2.k", "self.lo[0].k", "dyn(self.b)")
	case "ints":
		return w.pick("self.l", "self.badl", "[1,2,3]", "[]", "[self.a]", "oldSelf.l")
	case "strings":
		return w.pick("self.l2", "self.le", "self.set", "self.ln", "['a','b']", "[self.b]", "self.lo[0].w", "self.lo[1].w")
	}
	panic(t)
}

func (w *writer) bool(d int) string {
	switch w.IntN(13) {
	case 0, 1:
		return fmt.Sprintf("(%s && %s)", w.expr("bool", d), w.expr("bool", d))
	case 2, 3:
		return fmt.Sprintf("(%s || %s)", w.expr("bool", d), w.expr("bool", d))
	case 4:
		return "!(" + w.expr("bool", d) + ")"
	case 5:
		t := w.pick("int", "string", "bool", "ints", "strings")
		return fmt.Sprintf("(%s %s %s)", w.expr(t, d), w.pick("==", "!="), w.expr(t, d))
	case 6:
		t := w.pick("int", "string")
		return fmt.Sprintf("(%s %s %s)", w.expr(t, d), w.pick("<", "<=", ">", ">="), w.expr(t, d))
	case 7:
		return fmt.Sprintf("(%s in %s)", w.expr("int", d), w.expr("ints", d))
	case 8:
		return fmt.Sprintf("(%s in %s)", w.expr("string", d), w.expr("strings", d))
	case 9:
		return fmt.Sprintf("%s.%s(%s)", w.expr("string", d), w.pick("startsWith", "endsWith", "contains"), w.expr("string", d))
	case 10:
		return fmt.Sprintf("%s.matches(%s)", w.expr("string", d), w.pick("'^h'", "'[a-c]+'", "'o$'", "self.b"))
	}
	t := w.pick("int", "string")
	over := w.expr(t+"s", d)
	return w.with(t, func(x string) string {
		return fmt.Sprintf("%s.%s(%s, %s)", over, w.pick("all", "exists", "exists_one"), x, w.expr("bool", d))
	})
}

func (w *writer) int(d int) string {
	switch w.IntN(6) {
	case 0, 1:
		return fmt.Sprintf("(%s %s %s)", w.expr("int", d), w.pick("+", "-", "*", "/", "%"), w.expr("int", d))
	case 2:
		return "size(" + w.expr(w.pick("string", "ints", "strings"), d) + ")"
	case 3:
		return fmt.Sprintf("%s.%s()", w.expr("ints", d), w.pick("sum", "min", "max"))
	case 4:
		return fmt.Sprintf("%s.indexOf(%s)", w.expr("strings", d), w.expr("string", d))
	}
	return "-(" + w.expr("int", d) + ")"
}

func (w *writer) string(d int) string {
	switch w.IntN(6) {
	case 0:
		return fmt.Sprintf("(%s + %s)", w.expr("string", d), w.expr("string", d))
	case 1:
		return "string(" + w.expr("int", d) + ")"
	case 2:
		return fmt.Sprintf("%s.substring(%s)", w.expr("string", d), w.expr("int", 0))
	case 3:
		return fmt.Sprintf("%s.join(%s)", w.expr("strings", d), w.expr("string", d))
	case 4:
		return fmt.Sprintf("%s.%s()", w.expr("string", d), w.pick("lowerAscii", "upperAscii", "trim"))
	}
	return fmt.Sprintf("%s.replace(%s, %s)", w.expr("string", d), w.expr("string", 0), w.expr("string", 0))
}

func (w *writer) list(t string, d int) string {
	elem := strings.TrimSuffix(t, "s")
	switch w.IntN(7) {
	case 0:
		return fmt.Sprintf("(%s + %s)", w.expr(t, d), w.expr(t, d))
	case 1:
		over := w.expr(t, d)
		return w.with(elem, func(x string) string {
			return fmt.Sprintf("%s.filter(%s, %s)", over, x, w.expr("bool", d))
		})
	case 2, 3:
		from := w.pick("int", "string")
		over := w.expr(from+"s", d)
		return w.with(from, func(x string) string {
			if w.IntN(2) == 0 {
				return fmt.Sprintf("%s.map(%s, %s)", over, x, w.expr(elem, d))
			}
			return fmt.Sprintf("%s.map(%s, %s, %s)", over, x, w.expr("bool", d), w.expr(elem, d))
		})
	case 4:
		over := w.expr(t, d)
		return w.with("int", func(i string) string {
			return w.with(elem, func(x string) string {
				return fmt.Sprintf("%s.transformList(%s, %s, %s)", over, i, x, w.expr(elem, d))
			})
		})
	case 5:
		return fmt.Sprintf("%s.%s()", w.expr(t, d), w.pick("sort", "distinct", "reverse"))
	}
	return "[" + w.expr(elem, d) + ", " + w.expr(elem, d) + "]"
}

// with calls fn with a variable of type t in scope.
func (w *writer) with(t string, fn func(x string) string) string {
	w.fresh++
	x := "v" + strconv.Itoa(w.fresh)
	w.vars[t] = append(w.vars[t], x)
	defer func() { w.vars[t] = w.vars[t][:len(w.vars[t])-1] }()
	return fn(x)
}

func TestRandom(t *testing.T) {
	text, err := os.ReadFile("testdata/expressions.txt")
	if err != nil {
		t.Fatal(err)
	}
	lines := strings.Split(string(text), "\n")
	s := structural(t, strings.TrimPrefix(lines[1], "schema "))
	data := parseData(t, strings.TrimPrefix(lines[2], "data "))
	up, our := newUpstream(t, s, false), newSubject(t, s, false)
	n, seed := 3000, uint64(1)
	if text := os.Getenv("KEELSON_RANDOM"); text != "" {
		if _, err := fmt.Sscanf(text, "%d:%d", &n, &seed); err != nil {
			t.Fatal(err)
		}
	}
	w := &writer{Rand: rand.New(rand.NewPCG(seed, 7)), vars: map[string][]string{}}
	differ, compiled := 0, 0
	for range n {
		w.fresh = 0
		expr := w.expr(w.pick("bool", "bool", "int", "string", "ints", "strings"), 3)
		want, got := normal(up.run(expr, data, data)), normal(our.run(t, expr, data, data))
		if want.compile == "" {
			compiled++
		}
		if want != got && !known(expr, want, got) {
			t.Errorf("%s\n\tupstream %v\n\tkeelson  %v", expr, want, got)
			if differ++; differ > 10 {
				break
			}
		}
	}
	t.Logf("%d of %d compile", compiled, n)
}
