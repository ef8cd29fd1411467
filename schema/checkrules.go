package schema

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"

	apiextv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/keelson-io/keelson/cel"
)

// This file checks rules when a definition is written: that they compile, and that their estimated
// cost is within the limits.

// The limits are upstream's, in CEL cost units.
const (
	ruleCostLimit   = 10_000_000  // of one expression
	schemaCostLimit = 100_000_000 // of all expressions of a schema
	maxRequestSize  = 3 << 20     // bytes; bounds how many values of a size fit into an object
	topRules        = 4           // expressions that are named if the schema exceeds its limit
)

// RuleCheck has the parameters of CheckRules.
type RuleCheck struct {
	// Path is the path of the root schema.
	Path *field.Path
	// KeepCost: expressions may exceed the limit for one expression.
	KeepCost bool
	// Skip reports whether the rules of the schema node at path are not checked. Nil: all are.
	Skip func(path string) bool
	// Loose reports whether the members of the schema node at path have no correlated old values,
	// in addition to those for which the schema says so. Nil: none.
	Loose func(path string) bool
	// New is the language for expressions that are not Stored. It is that of the previous minor
	// version, so that a server of that version can read the definition after a rollback. The zero
	// value checks all expressions in the language in which they are evaluated.
	New NewRules
}

// NewRules is the language for new expressions.
type NewRules struct {
	Env *cel.Env
	// Added are the names that only the language for stored expressions has.
	Added []string
	// Stored reports whether the live definition has that rule, or that messageExpression. Nil: it
	// has none.
	Stored func(text string, message bool) bool
}

// differs reports whether an expression may have another meaning in the language for new
// expressions.
func (r *NewRules) differs(text string, message bool) bool {
	return r.Env != nil && slices.ContainsFunc(r.Added, func(name string) bool { return strings.Contains(text, name) }) &&
		(r.Stored == nil || !r.Stored(text, message))
}

// CheckRules compiles the rules of the schema and estimates their costs. It returns the errors with
// upstream's texts, and in upstream's order: for each node first those of the nodes below it.
func (p *Program) CheckRules(c RuleCheck) field.ErrorList {
	code, err := p.load()
	if err != nil {
		return field.ErrorList{field.Invalid(c.Path, "", err.Error())}
	}
	k := code.checkRules(c)
	return append(k.errs, k.totalErrors()...)
}

// ExprCost is the estimated cost of an expression, in cost units.
type ExprCost struct {
	Path  *field.Path // of the rule or messageExpression
	Expr  string
	Each  uint64 // the greatest cost of one evaluation
	Times uint64 // the greatest number of evaluations for one object
}

// Costs returns the estimated cost of each expression that compiles, in the order of CheckRules.
func (p *Program) Costs(path *field.Path) []ExprCost {
	code, err := p.load()
	if err != nil {
		return nil
	}
	return code.checkRules(RuleCheck{Path: path}).costs
}

// checkRules returns the checker after it has visited all nodes.
func (p *program) checkRules(c RuleCheck) *ruleChecker {
	k := &ruleChecker{RuleCheck: c}
	if !p.hasRules {
		return k
	}
	p.compileRules() // the compiled programs are used for evaluation, too
	k.typing = typing{p: p, types: map[*node]*cel.Type{}}
	one := uint64(1)
	k.node(p.root, place{path: c.Path, count: &one, seen: k.seen(p.root, false, view{}, nil)})
	return k
}

// ruleChecker is one call of checkRules.
type ruleChecker struct {
	RuleCheck
	typing   typing // of the nodes that rules can see
	errs     field.ErrorList
	total    uint64 // estimated cost so far
	patterns int    // size of the constant patterns so far, in instructions
	costs    []ExprCost
}

// place is the position of a node in the schema.
type place struct {
	path  *field.Path
	loose *field.Path // the outermost list above the node whose items are not correlated, nil if there is none
	count *uint64     // how many values of the node an object can have, nil if unlimited
	meta  bool        // the node is apiVersion, kind or metadata of a resource, or below
	seen  view
}

// view describes how rules see a node. Upstream derives the type from that of the parent if there
// are rules above, and otherwise from the node's own schema.
type view struct {
	known  bool // there are rules at the node or above
	typ    *cel.Type
	own    bool // the type differs from the one in a resource's metadata, by which objects are validated
	failed bool // the type cannot be computed, here or above
}

// node checks the rules at n and below.
func (k *ruleChecker) node(n *node, at place) {
	below := place{path: at.path, loose: at.loose, count: n.childCount(at.count), meta: at.meta}
	if n.additional != nil {
		child := below
		child.path, child.seen = at.path.Child("additionalProperties"), k.seen(n.additional, at.meta, at.seen, at.seen.elem())
		k.node(n.additional, child)
	}
	members := below
	if at.loose == nil && k.Loose != nil && k.Loose(at.path.String()) {
		members.loose = at.path
	}
	for _, p := range n.props {
		child := members
		child.meta = at.meta || n.resource && isMeta(p.name)
		child.path, child.seen = at.path.Child("properties").Key(p.name), k.seen(p.node, child.meta, at.seen, at.seen.member(p.name))
		k.node(p.node, child)
	}
	if n.items != nil {
		child := below
		if n.listType != "map" && at.loose == nil {
			child.loose = at.path
		}
		child.path, child.seen = at.path.Child("items"), k.seen(n.items, at.meta, at.seen, at.seen.elem())
		k.node(n.items, child)
	}
	if n.rules != nil && (k.Skip == nil || !k.Skip(at.path.String())) {
		at.path = at.path.Child("x-kubernetes-validations")
		k.rules(n, at)
	}
}

// seen returns the view of n. above is the view of its parent, and inherited the type of n within
// the parent's type, nil if it has none.
func (k *ruleChecker) seen(n *node, meta bool, above view, inherited *cel.Type) view {
	switch {
	case above.known && (above.failed || inherited != nil):
		above.typ = inherited
		return above
	case !above.known && n.rules == nil:
		return view{}
	}
	types := k.typing
	if meta { // upstream ignores the restrictions of metadata here
		types.types = map[*node]*cel.Type{} // what a resource makes of n does not count
	}
	t := types.of(n)
	return view{known: true, typ: t, own: meta, failed: t == nil}
}

// elem returns the type of the items of a list or map, noType for other types.
func (v view) elem() *cel.Type {
	switch {
	case v.typ == nil:
		return nil
	case v.typ.Elem == nil:
		return noType
	}
	return v.typ.Elem
}

// member returns the type of a member, nil if rules cannot see it.
func (v view) member(name string) *cel.Type {
	if v.typ == nil {
		return nil
	}
	for i := range v.typ.Fields {
		if f := &v.typ.Fields[i]; f.Name == name {
			return f.Type
		}
	}
	return nil
}

// noType is the type of the items of a value that has no items.
var noType = new(cel.Type)

// childCount returns how many values the children of n can have, if n can have count values. nil
// means unlimited.
func (n *node) childCount(count *uint64) *uint64 {
	if count == nil {
		return nil
	}
	max := int64(1)
	switch {
	case n.typ == "object" && n.anyOther:
		max = none
		if n.values != nil {
			max = n.values.maxProps
		}
	case n.typ == "array":
		max = none
		if n.values != nil {
			max = n.values.maxItems
		}
	}
	if max == none {
		return nil
	}
	if max < 0 {
		max = 0
	}
	product := times(*count, uint64(max))
	return &product
}

// times returns a*b, or the greatest uint64 if that overflows.
func times(a, b uint64) uint64 {
	if a != 0 && b > math.MaxUint64/a {
		return math.MaxUint64
	}
	return a * b
}

// rules checks the rules of n.
func (k *ruleChecker) rules(n *node, at place) {
	t := at.seen.typ
	if at.seen.failed {
		k.errs = append(k.errs, field.InternalError(at.path, errors.New("internal error: failed to construct type information for x-kubernetes-validations rules: unable to convert structural schema to CEL declarations")))
		return
	}
	if t == noType {
		k.errs = append(k.errs, field.InternalError(at.path, errNoType))
		return
	}
	list := n.rules.list
	if at.seen.own || list == nil {
		set := k.typing.p.options.Env.Types()
		list = k.typing.p.compiledRules(n.rules, t, set)
		set.Release()
	}
	most := maxRequestSize / (t.MinSize + 1) // unbounded lists have at most as many items as fit into a request
	if at.count != nil {
		most = *at.count
	}
	list = k.recompileNew(list, n, t)
	for i := range list {
		k.rule(at.path.Index(i), at.loose, &list[i], &n.rules.source[i], most)
	}
}

// recompileNew returns list, where new expressions that may have another meaning in the language
// for new ones are compiled in that language.
func (k *ruleChecker) recompileNew(list []rule, n *node, self *cel.Type) []rule {
	var stored, fresh *cel.TypeSet
	types := func(isNew bool) *cel.TypeSet {
		if isNew {
			return fresh
		}
		return stored
	}
	for i := range n.rules.source {
		source := &n.rules.source[i]
		newRule, newMessage := k.New.differs(source.Rule, false), k.New.differs(source.MessageExpression, true)
		if !newRule && !newMessage {
			continue
		}
		if fresh == nil {
			stored, fresh, list = k.typing.p.options.Env.Types(), k.New.Env.Types(), slices.Clone(list)
			defer stored.Release()
			defer fresh.Release()
		}
		list[i] = compileRule(*source, n.rules.schema, self, types(newRule), types(newMessage))
	}
	return list
}

// rule adds the errors of one rule, which is evaluated at most most times for an object.
func (k *ruleChecker) rule(path, loose *field.Path, r *rule, source *apiextv1.ValidationRule, most uint64) {
	if r.program != nil {
		k.patterns += r.program.PatternSize()
		k.cost("estimated rule cost", ExprCost{path.Child("rule"), source.Rule, r.program.MaxCost(), most})
	}
	more := r.more()
	if more.err != nil {
		k.errs = append(k.errs, field.Invalid(path.Child("rule"), ruleValueOf(source), more.err.Error()))
	}
	if more.messageErr != nil {
		k.errs = append(k.errs, field.Invalid(path.Child("messageExpression"), ruleValueOf(source), more.messageErr.Error()))
	} else if more.message != nil {
		k.patterns += more.message.PatternSize()
		// Upstream does not multiply the cost of a messageExpression.
		k.cost("estimated messageExpression cost", ExprCost{path.Child("messageExpression"), source.MessageExpression, more.message.MaxCost(), 1})
	}
	switch {
	case r.usesOld() && loose != nil:
		k.errs = append(k.errs, field.Invalid(path.Child("rule"), source.Rule, fmt.Sprintf("oldSelf cannot be used on the uncorrelatable portion of the schema within %v", loose)))
	case !r.usesOld() && source.OptionalOldSelf != nil:
		k.errs = append(k.errs, field.Invalid(path.Child("optionalOldSelf"), *source.OptionalOldSelf, "may not be set if oldSelf is not used in rule"))
	}
}

// cost adds the cost of an expression to the total, and an error if it exceeds the limit.
func (k *ruleChecker) cost(what string, e ExprCost) {
	cost := e.total()
	if cost > ruleCostLimit && !k.KeepCost {
		k.errs = append(k.errs, field.Forbidden(e.Path, costText(what, cost, ruleCostLimit)))
	}
	if k.total += cost; k.total < cost {
		k.total = math.MaxUint64
	}
	k.costs = append(k.costs, e)
}

// total returns the cost of all evaluations for one object.
func (e ExprCost) total() uint64 { return times(e.Each, e.Times) }

// maxRulePatterns bounds the constant patterns in all rules of a schema, in instructions of their
// automata. Upstream has no such bound; patterns take memory while the schema is in use.
const maxRulePatterns = 250_000

// totalErrors returns the errors about the schema as a whole.
func (k *ruleChecker) totalErrors() field.ErrorList {
	if k.patterns > maxRulePatterns && !k.KeepCost {
		return field.ErrorList{field.Forbidden(k.Path, fmt.Sprintf("the patterns of the rules are too large: %d instructions, at most %d are possible", k.patterns, maxRulePatterns))}
	}
	if k.total <= schemaCostLimit {
		return nil
	}
	expensive := slices.DeleteFunc(slices.Clone(k.costs), func(e ExprCost) bool { return e.total() < schemaCostLimit/100 })
	slices.SortStableFunc(expensive, func(a, b ExprCost) int { return cmp.Compare(b.total(), a.total()) })
	var errs field.ErrorList
	for _, e := range expensive[:min(len(expensive), topRules)] {
		errs = append(errs, field.Forbidden(e.Path, "contributed to estimated rule cost total exceeding cost limit for entire OpenAPIv3 schema"))
	}
	return append(errs, field.Forbidden(k.Path, costText("x-kubernetes-validations estimated rule cost total for entire OpenAPIv3 schema", k.total, schemaCostLimit)))
}

// costText says by what factor a cost exceeds its limit, with upstream's number of digits.
func costText(what string, cost, limit uint64) string {
	factor := float64(cost) / float64(limit)
	text := fmt.Sprintf("%.1fx", factor)
	switch {
	case factor > 100:
		text = "more than 100x"
	case factor < 1.5:
		text = fmt.Sprintf("%fx", factor)
	}
	return what + " exceeds budget by factor of " + text + " (try simplifying the rule, or adding maxItems, maxProperties, and maxLength where arrays, maps, and strings are declared)"
}

// ruleValue is a rule in the form in which upstream prints it in errors: with the names of its
// internal Go type.
type ruleValue struct {
	Rule              string
	Message           string
	MessageExpression string
	Reason            *apiextv1.FieldValueErrorReason
	FieldPath         string
	OptionalOldSelf   *bool
}

// ruleValueOf converts r.
func ruleValueOf(r *apiextv1.ValidationRule) ruleValue {
	return ruleValue{r.Rule, r.Message, r.MessageExpression, r.Reason, r.FieldPath, r.OptionalOldSelf}
}
