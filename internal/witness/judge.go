package witness

import (
	"encoding/json"
	"slices"

	"github.com/google/cel-go/common/ast"

	"github.com/keelson-io/keelson/jsondoc"
	"github.com/keelson-io/keelson/schema"
)

// This file decides whether a state is a witness, and repairs what keeps it from being one.

// target is what a search looks for.
type target struct {
	rule    Rule
	want    Want
	any     bool // any valid object will do; rule and want are not used
	partial bool // other rules need not hold
}

// is reports whether a verdict is one of the target's rule.
func (t *target) is(v *schema.Verdict) bool {
	return !t.any && v.Index == t.rule.Index && v.Schema == t.rule.Path
}

// met reports whether a verdict is the wanted one.
func (t *target) met(v *schema.Verdict) bool {
	switch t.want {
	case Accept:
		return v.Holds
	case Refuse:
		return !v.Holds && v.Err == nil
	}
	return v.Err != nil
}

// judgment is the judgment on a state.
type judgment struct {
	witness bool
	place   []any // where the target's rule has the wanted result, if it has
	hit     bool  // it has

	invalid bool             // a value of the new object is not valid
	oldBad  bool             // a value of the old object is not valid
	broken  []schema.Verdict // other rules that do not hold for the new object
	oldRule []schema.Verdict // rules that do not hold for the old object
	also    []Rule           // the rules in broken
	// missed are the verdicts of the target's rule that are not the wanted ones.
	missed []schema.Verdict
}

// judge decides whether st is a witness.
func (r *run) judge(st *state, t *target) *judgment {
	j := &judgment{}
	j.invalid = !r.s.valid(st.new)
	j.oldBad = st.old != nil && !r.s.valid(st.old)
	_ = r.s.all.Verdicts(r.ctx, st.newDoc, st.oldDoc, func(v schema.Verdict) bool {
		switch {
		case t.is(&v) && t.met(&v):
			if !j.hit {
				j.hit, j.place = true, v.Path
			}
		case t.is(&v):
			j.missed = append(j.missed, v)
		case !v.Holds:
			j.broken = append(j.broken, v)
			if !slices.ContainsFunc(j.also, func(o Rule) bool { return o.Path == v.Schema && o.Index == v.Index }) {
				j.also = append(j.also, Rule{Path: v.Schema, Index: v.Index, ValidationRule: *v.Rule})
			}
		}
		return true
	})
	if st.oldDoc != nil {
		_ = r.s.all.Verdicts(r.ctx, st.oldDoc, nil, func(v schema.Verdict) bool {
			if !v.Holds {
				j.oldRule = append(j.oldRule, v)
			}
			return true
		})
	}
	if t.want == Accept && len(j.missed) > 0 && !t.any { // it holds at one place and not at another
		j.hit = false
	}
	j.hit = j.hit || t.any
	j.witness = j.hit && !j.invalid && !j.oldBad && len(j.oldRule) == 0 && (len(j.broken) == 0 || t.partial)
	return j
}

// valid reports whether a tree is valid except by rules.
func (s *Search) valid(t tree) bool {
	d := new(jsondoc.Doc)
	if _, err := s.plain.Decode(d, marshal(t)); err != nil {
		return false
	}
	return len(s.plain.Validate(s.ctx, d, nil, schema.Whole).Errors) == 0
}

// marshal returns a tree as JSON.
func marshal(t tree) []byte {
	text, err := json.Marshal(t)
	if err != nil {
		panic("BUG: a tree that is not JSON: " + err.Error())
	}
	return text
}

// maxRepairs is the greatest number of repairs one after the other.
const maxRepairs = 14

// achieve repairs st until it is a witness. If it finds none, it returns the first state that is one
// except for other rules.
func (r *run) achieve(st *state, t *target) (found, partial *state) {
	a := attempt{run: r, t: t, visited: map[string]bool{}}
	a.repair(st, maxRepairs)
	return a.found, a.partial
}

// attempt is one call of achieve.
type attempt struct {
	*run
	t              *target
	visited        map[string]bool
	found, partial *state
	receive        sink // gets each witness, if it is not nil; found is not set then
}

// repair looks for a witness from st on, depth repairs away. It returns false if it found one.
func (a *attempt) repair(st *state, depth int) bool {
	if a.stopped() {
		return false
	}
	if a.visited[st.key] {
		return true
	}
	a.visited[st.key] = true
	j := a.judge(st, a.t)
	switch {
	case j.witness && a.receive != nil:
		return a.receive(st)
	case j.witness:
		a.found = st
		return false
	}
	if j.hit && !j.invalid && !j.oldBad && len(j.oldRule) == 0 && a.partial == nil && a.t.want != Accept {
		a.partial = st
	}
	if depth == 0 {
		return true
	}
	next := func(st *state) bool { return a.repair(st, depth-1) }
	limited := func(run func(sink) bool) bool { return capped(2*a.width, run, next) }
	switch {
	case !j.hit:
		return limited(func(yield sink) bool { return a.aim(st, j, yield) })
	case j.invalid:
		return limited(func(yield sink) bool { return a.mend(st, ref{}, yield) })
	case j.oldBad:
		return limited(func(yield sink) bool { return a.mend(st, ref{old: true}, yield) })
	case len(j.oldRule) > 0:
		return limited(func(yield sink) bool { return a.satisfy(st, &j.oldRule[0], true, yield) })
	}
	for i := range j.broken[:min(len(j.broken), 2)] {
		if !limited(func(yield sink) bool { return a.satisfy(st, &j.broken[i], false, yield) }) {
			return false
		}
	}
	return true
}

// aim enumerates states in which the target's rule has the wanted result.
func (a *attempt) aim(st *state, j *judgment, yield sink) bool {
	for i := range j.missed[:min(len(j.missed), a.width)] {
		if !a.solveAt(st, &j.missed[i], false, a.t.want, yield) {
			return false
		}
	}
	if len(j.missed) > 0 {
		return true
	}
	next := a.ensure(st, a.t.rule, false)
	if next != nil && a.s.usesOld(a.t.rule.ValidationRule.Rule) && next.old != nil {
		next = a.ensure(next, a.t.rule, true)
	}
	return next == nil || next == st || yield(next)
}

// satisfy enumerates states in which a rule holds. old says that it is one of the old object.
func (a *attempt) satisfy(st *state, v *schema.Verdict, old bool, yield sink) bool {
	return a.solveAt(st, v, old, Accept, yield)
}

// solveAt enumerates states in which a rule has a result at a place.
func (a *attempt) solveAt(st *state, v *schema.Verdict, old bool, want Want, yield sink) bool {
	e := a.s.tree(v.Rule.Rule)
	if e == nil {
		return true
	}
	en := scope(v, old)
	a.pool = constants{}
	a.pool.collect(e)
	before := a.pool
	restore := func(st *state) bool {
		ok := yield(st)
		a.pool = before // another rule was solved in between
		return ok
	}
	if want == Fail {
		return a.failAt(st, e, en, restore)
	}
	return a.solve(st, e, want == Accept, en, restore)
}

// scope returns the variables of a rule at the place of a verdict.
func scope(v *schema.Verdict, old bool) *env {
	self := (*env)(nil).bind("self", binding{kind: bindRef, ref: ref{old: old, path: v.Path}})
	was := binding{kind: bindRef, ref: ref{old: true, path: v.OldPath}}
	if optionalOld(v.Rule) {
		was.kind = bindOpt
	}
	if v.OldPath == nil {
		was.ref.path = v.Path
	}
	if old {
		was.ref.path = []any{"\x00"} // there is no older object
	}
	return self.bind("oldSelf", was)
}

// failAt enumerates states in which e may fail: members that it reads are absent, lists are shorter,
// texts do not parse.
func (r *run) failAt(st *state, e ast.Expr, en *env, yield sink) bool {
	confirm := func(next *state) bool {
		_, err := r.eval(next, e, en)
		return err == nil || yield(next)
	}
	if _, err := r.eval(st, e, en); err != nil && !yield(st) {
		return false
	}
	if !r.generic(st, e, en, confirm) {
		return false
	}
	// Another part of the expression may be reached once a condition before it holds.
	var parts []ast.Expr
	ast.PreOrderVisit(e, ast.NewExprVisitor(func(e ast.Expr) {
		if e.Kind() == ast.CallKind && len(parts) < 16 {
			parts = append(parts, e)
		}
	}))
	for _, p := range parts {
		for _, want := range []bool{true, false} {
			more := func(next *state) bool {
				return capped(r.width, func(yield sink) bool { return r.generic(next, e, en, yield) }, confirm)
			}
			if v, err := r.eval(st, p, en); err == nil && v.Go() == any(!want) {
				if !capped(2, func(next sink) bool { return r.solve(st, p, want, en, next) }, more) {
					return false
				}
			}
		}
	}
	return true
}
