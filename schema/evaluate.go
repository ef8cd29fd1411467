package schema

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	apiextv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/keelson-io/keelson/cel"
	"github.com/keelson-io/keelson/jsondoc"
)

// This file evaluates rules. The fast path evaluates all of them until one fails. If one does, the
// plain path evaluates all of them again, and builds errors, messages and warnings.

// CallLimit is the greatest cost of one evaluation of a rule on one value, as in Kubernetes
// (PerCallLimit of package cel in k8s.io/apiserver).
const CallLimit = 1_000_000

// These limits are upstream's, too.
const (
	objectBudget  = 10_000_000 // cost of all evaluations for one object
	maxMessage    = 5120       // bytes of the result of a messageExpression
	ruleErrPrefix = "rule compile error: "
)

// maxUnusedMessages is the greatest number of UnusedMessages in a Result.
const maxUnusedMessages = 8

// site is a value with rules, and its old value.
type site struct {
	n      *node
	x, old jsondoc.Node
}

// evaluation is the state of the fast path.
type evaluation struct {
	d, old *jsondoc.Doc // old is nil on create
	sites  []site
	keeps  bool // only rules that use oldSelf are collected, because the values are unchanged
	kept   int  // the number of sites, from the first, whose values are unchanged
	act    cel.Activation
}

// evaluations holds unused evaluations, for their memory.
var evaluations = sync.Pool{New: func() any { return new(evaluation) }}

// rulesOK reports whether all rules hold for d within the budget, and returns the greatest possible
// cost. valid says that all values of d are valid.
func (p *program) rulesOK(ctx context.Context, d, old *jsondoc.Doc, valid bool, k Kept) (cost uint64, ok bool) {
	start := time.Now()
	cost, ok = p.runKept(ctx, d, old, valid, k)
	if ok { // otherwise the plain path observes its own time
		p.options.Metrics.observeEvaluation(start)
	}
	return cost, ok
}

// runRules evaluates the rules until one does not hold, and returns the cost.
func (p *program) runRules(ctx context.Context, d, old *jsondoc.Doc, valid bool) (cost uint64, ok bool) {
	e := evaluations.Get().(*evaluation)
	defer e.release()
	e.d, e.old, e.act.Valid = d, old, valid
	was := jsondoc.Node{}
	if old != nil {
		was = old.Root().Node
	}
	e.collect(p.root, d.Root().Node, was)
	return e.run(ctx, 0)
}

// maxPooledSites is the greatest capacity of sites that is kept for reuse.
const maxPooledSites = 1 << 12

// release returns e to the pool, without references to documents.
func (e *evaluation) release() {
	if cap(e.sites) > maxPooledSites {
		e.sites = nil
	}
	e.d, e.old, e.sites, e.kept = nil, nil, e.sites[:0], 0
	e.act.Self, e.act.OldSelf, e.act.Kept = jsondoc.Value{}, jsondoc.Value{}, false
	e.act.ResetWork()
	evaluations.Put(e)
}

// add appends the site x, unless its rules need not be evaluated.
func (e *evaluation) add(n *node, x, old jsondoc.Node) {
	if !e.keeps || n.rules.usesOld {
		e.sites = append(e.sites, site{n, x, old})
	}
}

// collect appends the sites at x and below. old is the old value of x, Absent if there is none.
func (e *evaluation) collect(n *node, x, old jsondoc.Node) {
	if !n.deepRules || e.keeps && !n.deepOld || x.Kind() == jsondoc.Null || x.Kind() == jsondoc.Absent {
		return
	}
	if n.rules != nil {
		e.add(n, x, old)
	}
	switch x.Kind() {
	case jsondoc.Array:
		if n.items == nil || !n.items.deepRules {
			return
		}
		var olds oldItems
		if n.items.deepOld && old.Kind() == jsondoc.Array {
			olds = n.oldItems(jsondoc.Value{Doc: e.old, Node: old})
		}
		for i := range x.Len() {
			item := e.d.Item(x, i)
			e.collect(n.items, item, olds.get(jsondoc.Value{Doc: e.d, Node: item}).Node)
		}
	case jsondoc.Object:
		if n.additional != nil && n.additional.deepRules {
			for name, m := range (jsondoc.Value{Doc: e.d, Node: x}).Members() {
				e.collect(n.additional, m.Node, e.oldMember(n, old, name, -1))
			}
		}
		if n.laidOut(x) {
			for _, i := range n.toRules {
				p := &n.props[i]
				if m := n.member(e.d, x, p.name, p.slot); m.Kind() > jsondoc.Null {
					e.collect(p.node, m, e.oldMember(n, old, p.name, p.slot))
				}
			}
			return
		}
		for p := range n.present(e.d, x) {
			if p.hasRules() {
				e.collect(p.node, n.member(e.d, x, p.name, p.slot), e.oldMember(n, old, p.name, p.slot))
			}
		}
	}
}

// oldMember returns a member of the old object, Absent if there is none.
func (e *evaluation) oldMember(n *node, old jsondoc.Node, name string, slot int) jsondoc.Node {
	if old.Kind() != jsondoc.Object {
		return jsondoc.Node{}
	}
	return n.member(e.old, old, name, slot)
}

// run evaluates the rules of all sites. spent is the cost so far. It returns the cost and whether
// all rules hold. If the budget is used up to the last unit, the plain path decides.
func (e *evaluation) run(ctx context.Context, spent uint64) (uint64, bool) {
	act := &e.act
	act.Self.Doc, act.OldSelf, act.HasOldSelf = e.d, jsondoc.Value{}, false
	for i := range e.sites {
		at := &e.sites[i]
		rules := at.n.rules
		if rules.broken {
			return spent, false
		}
		act.Self.Node = at.x
		tests := &rules.always
		switch act.Kept = i < e.kept; {
		case act.Kept:
			tests = rules.withOld
			e.bindOld(e.d, at.old)
			if !act.HasOldSelf { // no old value: transition rules were not evaluated before, either
				continue
			}
		case e.old != nil:
			e.bindOld(e.old, at.old)
		}
		cost, ok := tests.Hold(ctx, act, CallLimit, objectBudget-spent)
		if spent += cost; !ok {
			return spent, false
		}
		if act.Kept || !act.HasOldSelf || rules.updates.Len() == 0 {
			continue
		}
		cost, ok = rules.updates.Hold(ctx, act, CallLimit, objectBudget-spent)
		if spent += cost; !ok {
			return spent, false
		}
	}
	return spent, true
}

// bindOld sets oldSelf to x of document d for the next evaluation. A null counts as absent.
func (e *evaluation) bindOld(d *jsondoc.Doc, x jsondoc.Node) {
	e.act.OldSelf, e.act.HasOldSelf = jsondoc.Value{}, x.Kind() != jsondoc.Absent && x.Kind() != jsondoc.Null
	if e.act.HasOldSelf {
		e.act.OldSelf = jsondoc.Value{Doc: d, Node: x}
	}
}

// ruleErrors is the plain path: it evaluates all rules in upstream's order and returns the errors.
// c correlates the object with the old one, for ratcheting; it is nil on create.
func (p *program) ruleErrors(ctx context.Context, d, old *jsondoc.Doc, c *correlation) Result {
	defer p.options.Metrics.observeEvaluation(time.Now())
	s := &slowRules{ctx: ctx, budget: objectBudget}
	was := jsondoc.Value{}
	if old != nil {
		was = old.Root()
	}
	s.node(p.root, nil, d.Root(), was, ratchet{own: c})
	return s.Result
}

// slowRules is one call of ruleErrors.
type slowRules struct {
	Result
	text   int // bytes of the errors and warnings so far
	ctx    context.Context
	budget int64 // remaining cost units
	done   bool  // no more rules are evaluated
	act    cel.Activation

	reasoning *reasoning // explains refusals, otherwise nil
}

// ratchet is the pair of values whose equality excuses an error: the value and its old value, or,
// if the value is not correlated, its nearest correlated ancestor.
type ratchet struct{ own, above *correlation }

// forgives reports whether errors of the value become warnings.
func (r ratchet) forgives() bool {
	if r.own != nil {
		return r.own.unchanged()
	}
	return r.above.unchanged()
}

// key returns the ratchet of a member. apiVersion and kind of the root are never excused.
func (r ratchet) key(name string) ratchet {
	switch {
	case r.own == nil:
		return r
	case r.above == nil && (name == "apiVersion" || name == "kind"):
		return ratchet{}
	}
	return ratchet{own: r.own.key(name), above: r.own}
}

// index returns the ratchet of an item.
func (r ratchet) index(i int) ratchet {
	if r.own == nil {
		return r
	}
	return ratchet{own: r.own.index(i), above: r.own}
}

// node evaluates the rules at x and below. n is the schema of x.
func (s *slowRules) node(n *node, path *field.Path, x, old jsondoc.Value, r ratchet) {
	if !n.deepRules || !x.Exists() || x.Kind() == jsondoc.Null {
		return
	}
	if n.rules != nil {
		s.rules(n, path, x, old, r)
	}
	switch x.Kind() {
	case jsondoc.Array:
		if n.items != nil {
			olds := n.oldItems(old)
			for i := 0; i < x.Len() && !s.done; i++ {
				item := x.Item(i)
				s.node(n.items, path.Index(i), item, olds.get(item), r.index(i))
			}
		}
	case jsondoc.Object:
		if n.additional != nil {
			for name, m := range x.Members() {
				if !s.done {
					s.node(n.additional, path.Key(name), m, old.Get(name), r.key(name))
				}
			}
		}
		for p := range n.present(x.Doc, x.Node) {
			if p.hasRules() && !s.done {
				s.node(p.node, path.Child(p.name), x.Get(p.name), old.Get(p.name), r.key(p.name))
			}
		}
	}
}

// left returns the remaining budget, negative if evaluation ended early.
func (s *slowRules) left() int64 {
	if s.done {
		return -1
	}
	return s.budget
}

// invalid adds an error of type Invalid.
func (s *slowRules) invalid(path *field.Path, value any, format string, args ...any) {
	s.add(&s.Errors, field.Invalid(path, value, fmt.Sprintf(format, args...)))
}

// add appends an error. When the texts exceed maxText, it appends a last error and ends the
// evaluation.
func (s *slowRules) add(list *field.ErrorList, e *field.Error) {
	*list = append(*list, e)
	if s.text += len(e.Detail) + len(e.Field); s.text > maxText && !s.done {
		s.done = true
		*list = append(*list, tooMany(nil))
	}
}

// rules evaluates the rules of n for x.
func (s *slowRules) rules(n *node, path *field.Path, x, old jsondoc.Value, r ratchet) {
	if n.rules.err != nil {
		s.invalid(path, n.typ, "rule compiler initialization error: %v", n.rules.err)
		return
	}
	if s.budget <= 0 {
		s.outOfBudget(n, path)
		return
	}
	s.act.Self, s.act.OldSelf, s.act.HasOldSelf = x, jsondoc.Value{}, false
	if old.Exists() && old.Kind() != jsondoc.Null {
		s.act.OldSelf, s.act.HasOldSelf = old, true
	}
	for i := range n.rules.list {
		rule, source := &n.rules.list[i], &n.rules.source[i]
		switch {
		case rule.more().err != nil:
			s.invalid(path, n.typ, "%s%v", ruleErrPrefix, rule.more().err)
			continue
		case rule.program == nil:
			continue
		case rule.usesOld() && !s.act.HasOldSelf && !rule.program.OptionalOldSelf():
			continue
		}
		if s.ctx.Err() != nil {
			s.invalid(path, n.typ, "operation interrupted: %v evaluating rule: %s", context.Cause(s.ctx), nameOf(source))
			s.done = true
			return
		}
		v, cost, err := rule.program.Eval(s.ctx, &s.act, CallLimit)
		if cost > uint64(s.budget) || s.act.Overdrawn() {
			s.outOfBudget(n, path)
			return
		}
		s.budget -= int64(cost)
		switch {
		case errors.Is(err, cel.ErrCostLimit):
			s.invalid(path, n.typ, "'%v': no further validation rules will be run due to call cost exceeds limit for rule: %s", err, nameOf(source))
			s.done = true
			return
		case isOverloadError(err):
			s.reasoning.explain(s.ctx, rule.program, &s.act, path)
			s.invalid(path, n.typ, "'%v': call arguments did not match a supported operator, function or macro signature for rule: %s", err, nameOf(source))
		case err != nil:
			s.reasoning.explain(s.ctx, rule.program, &s.act, path)
			s.invalid(path, n.typ, "%v evaluating rule: %s", err, nameOf(source))
		case v.Kind() == cel.KindBool && v.Bool():
		default:
			if rule.usesOld() || !r.forgives() {
				s.reasoning.explain(s.ctx, rule.program, &s.act, path)
			}
			s.failed(n, path, x, rule, source, r)
			if s.done {
				return
			}
		}
	}
}

// isOverloadError reports whether err is the error of a call whose arguments match no overload.
// Upstream has another text for it.
func isOverloadError(err error) bool {
	_, ok := errors.AsType[*cel.OverloadError](err)
	return ok
}

// outOfBudget adds the error of an exhausted budget and ends the evaluation.
func (s *slowRules) outOfBudget(n *node, path *field.Path) {
	s.invalid(path, n.typ, "validation failed due to running out of cost budget, no further validation rules will be run")
	s.done = true
}

// failed adds the error of a rule that does not hold, or a warning if it is ratcheted.
func (s *slowRules) failed(n *node, path *field.Path, x jsondoc.Value, rule *rule, source *apiextv1.ValidationRule, r ratchet) {
	if at := rule.more().fieldPath; at != "" {
		path = path.Child(at)
	}
	report := func(e *field.Error) {
		if !rule.usesOld() && r.forgives() {
			s.Warnings = append(s.Warnings, e.Error())
			if s.text += len(e.Detail) + len(e.Field); s.text > maxText {
				s.done = true
			}
		} else {
			s.add(&s.Errors, e)
		}
	}
	detail, unused, fatal := s.message(n, rule, source)
	if fatal != "" {
		report(field.Invalid(path, n.typ, fatal))
		s.done = true
		return
	}
	if unused != "" && len(s.UnusedMessages) < maxUnusedMessages {
		s.UnusedMessages = append(s.UnusedMessages, UnusedMessage{path.String(), source.MessageExpression, unused})
	}
	if detail == "" {
		if detail = nameOf(source); source.Message == "" {
			detail = "failed rule: " + detail
		}
	}
	var value any = field.OmitValueType{}
	if n.typ != "object" && n.typ != "array" {
		value = x.Interface()
	}
	report(reasonError(path, value, detail, source.Reason))
}

// message evaluates the messageExpression of a rule. All results are "" if there is none. If its
// result is unusable, unused is the reason. A text in fatal ends the validation: the cost exceeded a
// limit.
func (s *slowRules) message(n *node, rule *rule, source *apiextv1.ValidationRule) (text, unused, fatal string) {
	program := rule.more().message
	if program == nil {
		return "", "", ""
	}
	// oldSelf is as for the node's other rules, never an optional value. If the expression
	// therefore fails, its cost counts nevertheless.
	had := s.act.HasOldSelf
	s.act.HasOldSelf, s.act.PlainOldSelf = had && n.rules.usesOld, true
	v, cost, err := program.Eval(s.ctx, &s.act, CallLimit)
	s.act.HasOldSelf, s.act.PlainOldSelf = had, false
	if cost > uint64(s.budget) || s.act.Overdrawn() {
		return "", "", "messageExpression evaluation failed due to running out of cost budget, no further validation rules will be run"
	}
	if errors.Is(err, cel.ErrCostLimit) {
		return "", "", fmt.Sprintf("no further validation rules will be run due to call cost exceeds limit for messageExpression: %q", source.MessageExpression)
	}
	s.budget -= int64(cost)
	switch {
	case err != nil:
		return "", fmt.Sprintf("messageExpression evaluation failed due to: %v", err), ""
	case v.Kind() != cel.KindString:
		return "", "messageExpression failed to convert to string", ""
	}
	text = strings.TrimSpace(v.Str())
	switch {
	case len(text) > maxMessage:
		return "", fmt.Sprintf("messageExpression beyond allowable length of %d", maxMessage), ""
	case strings.Contains(text, "\n"):
		return "", "messageExpression should not contain line breaks", ""
	case text == "":
		return "", "messageExpression should evaluate to a non-empty string", ""
	}
	return strings.Clone(text), "", ""
}

// reasonError returns an error of the type that the rule's reason names.
func reasonError(path *field.Path, value any, detail string, reason *apiextv1.FieldValueErrorReason) *field.Error {
	if reason != nil {
		switch *reason {
		case apiextv1.FieldValueForbidden:
			return field.Forbidden(path, detail)
		case apiextv1.FieldValueRequired:
			return field.Required(path, detail)
		case apiextv1.FieldValueDuplicate:
			return field.Duplicate(path, value)
		}
	}
	return field.Invalid(path, value, detail)
}
